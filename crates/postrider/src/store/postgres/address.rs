//! Row addresses. PostgreSQL finds a row by its address without an index, and finds nothing there once the row has
//! changed. So an address only saves a search; statements always check the row too.

use std::num::NonZeroU64;

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgTypeInfo, PgValueRef};
use sqlx::{Decode, Encode, Postgres, Type};

/// `tid` and `tid[]` in every version of PostgreSQL.
const TID: u32 = 27;
const TID_ARRAY: u32 = 1010;
/// A block number and a position in the block.
const BYTES: usize = 6;

/// The header of an array: number of dimensions, whether there are NULLs, element type, length, and the index of the
/// first element.
const HEAD: usize = 5 * size_of::<u32>();

/// The `ctid`s of rows, as a `tid[]`.
#[derive(Default)]
pub(super) struct Addresses(pub(super) Vec<NonZeroU64>);

impl Type<Postgres> for Addresses {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(TID_ARRAY))
    }
}

impl Encode<'_, Postgres> for Addresses {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        for word in [1, 0, TID, u32::try_from(self.0.len())?, 1] {
            buffer.extend_from_slice(&word.to_be_bytes());
        }
        for address in &self.0 {
            buffer.extend_from_slice(&(BYTES as u32).to_be_bytes());
            buffer.extend_from_slice(&address.get().to_be_bytes()[8 - BYTES..]);
        }
        Ok(IsNull::No)
    }
}

impl<'r> Decode<'r, Postgres> for Addresses {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        Self::read(value.as_bytes()?).ok_or_else(|| "a ctid has six bytes".into())
    }
}

impl Addresses {
    fn read(array: &[u8]) -> Option<Self> {
        const LENGTH: usize = size_of::<u32>();
        let elements = array.get(HEAD..).unwrap_or_default().chunks(LENGTH + BYTES);
        let address = |element: &[u8]| {
            let mut bytes = [0; 8];
            bytes[8 - BYTES..].copy_from_slice(element.get(LENGTH..).filter(|tid| tid.len() == BYTES)?);
            NonZeroU64::new(u64::from_be_bytes(bytes))
        };
        elements.map(address).collect::<Option<_>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for count in [0, 1, 3] {
            let addresses: Vec<_> = (1..=count).filter_map(|n| NonZeroU64::new(n << 16 | 7)).collect();
            let mut written = PgArgumentBuffer::default();
            let null = Addresses(addresses.clone()).encode_by_ref(&mut written).expect("encodes");
            assert!(matches!(null, IsNull::No));
            assert_eq!(Addresses::read(&written).expect("reads").0, addresses);
            assert!(count == 0 || Addresses::read(&written[..written.len() - 1]).is_none(), "the last one is cut off");
        }
    }
}
