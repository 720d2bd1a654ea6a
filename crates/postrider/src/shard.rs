//! Shards: a fixed number of slices by which relays divide the work. Only this file computes the hash; the database
//! stores the result.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// Number of shards: enough for any realistic number of relays, few enough for one 64-bit set. Changing it would move
/// keys between shards, so it is part of the schema.
pub const SHARDS: u8 = 64;

/// The shard of an event: by its key, so that a key stays in one shard, or by its id if it has no key.
pub fn shard_of(key: Option<&str>, event_id: &str) -> u8 {
    let hash = hash(&[key.unwrap_or(event_id)]);
    // The low bits of the hash are weak for short inputs; the fold adds the high ones.
    ((hash ^ (hash >> 32)) % u64::from(SHARDS)) as u8
}

/// A hash of texts, the same in every version of every program that reads the tables.
pub(crate) fn hash(texts: &[&str]) -> u64 {
    // FNV-1a. The separator is a byte that UTF-8 never contains.
    let bytes = texts.iter().enumerate().flat_map(|(n, text)| (n > 0).then_some(0xff).into_iter().chain(text.bytes()));
    bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// A set of shards that a relay works on.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shards(u64);

impl Shards {
    /// Every shard: the default.
    pub const ALL: Self = Self(u64::MAX);

    /// Whether the set holds `shard`.
    pub fn contains(self, shard: u8) -> bool {
        shard < SHARDS && self.0 & (1 << shard) != 0
    }

    /// The shards of the set, ascending.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..SHARDS).filter(move |shard| self.contains(*shard))
    }
}

impl FromIterator<u8> for Shards {
    /// Shard numbers above the last are ignored.
    fn from_iter<I: IntoIterator<Item = u8>>(shards: I) -> Self {
        Self(shards.into_iter().filter(|shard| *shard < SHARDS).fold(0, |set, shard| set | 1 << shard))
    }
}

impl Default for Shards {
    fn default() -> Self {
        Self::ALL
    }
}

impl FromStr for Shards {
    type Err = Error;

    /// `0-3,7`: ranges and single shards.
    fn from_str(text: &str) -> Result<Self> {
        let bad =
            || Error::invalid("shards", format!("are written like 0-3,7 with numbers below {SHARDS}, not {text:?}"));
        let mut set = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| text.trim().parse::<u8>().ok().filter(|n| *n < SHARDS).ok_or_else(bad);
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(bad());
            }
            set.extend(first..=last);
        }
        Ok(set.into_iter().collect())
    }
}

impl fmt::Debug for Shards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B.4: the shard is computed from the key, and never changes.
    #[test]
    fn the_shard_of_a_key_never_changes() {
        assert_eq!(shard_of(Some("order-7"), "a"), shard_of(Some("order-7"), "b"));
        assert_eq!([shard_of(None, ""), shard_of(None, "a"), shard_of(Some("订单-7"), "a")], [1, 0, 63]);
    }

    #[test]
    fn keys_spread_over_every_shard() {
        let mut counts = [0_u32; SHARDS as usize];
        for n in 0..64_000 {
            counts[usize::from(shard_of(Some(&n.to_string()), ""))] += 1;
        }
        assert!(counts.iter().all(|n| (700..1300).contains(n)), "{counts:?}");
    }

    #[test]
    fn a_subset_is_written_as_ranges() {
        let set: Shards = "0-3,7".parse().expect("valid");
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 1, 2, 3, 7]);
        for bad in ["", "64", "3-1", "a", "1-"] {
            assert!(bad.parse::<Shards>().is_err(), "{bad}");
        }
    }
}
