//! Where a row lies. PostgreSQL finds a row by its address without any index, and finds nothing there once the row has
//! changed: an address spares a search, and is never all that is asked for.

use std::num::NonZeroU64;

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgTypeInfo, PgValueRef};
use sqlx::{Decode, Encode, Postgres, Type};

/// `tid` and `tid[]` in every PostgreSQL.
const TID: u32 = 27;
const TID_ARRAY: u32 = 1010;
/// A block's number and a place in it.
const BYTES: usize = 6;

/// A row's `ctid`.
pub(super) struct Address(pub(super) Option<NonZeroU64>);

impl Type<Postgres> for Address {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(TID))
    }
}

impl<'r> Decode<'r, Postgres> for Address {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        let mut bytes = [0; 8];
        bytes[8 - BYTES..].copy_from_slice(value.as_bytes()?.get(..BYTES).ok_or("a ctid has six bytes")?);
        Ok(Self(NonZeroU64::new(u64::from_be_bytes(bytes))))
    }
}

/// A `tid[]`.
pub(super) struct Addresses(pub(super) Vec<NonZeroU64>);

impl Type<Postgres> for Addresses {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(TID_ARRAY))
    }
}

impl Encode<'_, Postgres> for Addresses {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        // One dimension, no NULLs, what it is an array of, how many, and the number of the first.
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
