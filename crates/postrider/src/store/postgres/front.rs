//! Where a claim starts to read. Leased deliveries and dead tuples of settled ones precede what is due, and a claim
//! that starts with the oldest reads all of them, each time. So during a backlog a claim continues where the last one
//! ended. At intervals one starts with the oldest again, to find what was released or committed late. The interval
//! depends on the cost: low after a vacuum, high while a session holds an old snapshot. The state here affects only
//! speed.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use time::OffsetDateTime;

use crate::shard::Shards;
use crate::store::Claim;

/// Minimum and maximum time between two claims that start with the oldest.
const GOING_ON: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(1);
/// Within that range, the time is this multiple of the duration of the last such claim.
const TIMES_AS_LONG: u32 = 32;
/// A full claim of at least this many indicates a backlog.
const BACKLOG: usize = 100;

/// The last position of claims, by lane and shards.
#[derive(Debug, Clone, Default)]
pub(super) struct Fronts(Arc<Mutex<HashMap<(String, Shards), Front>>>);

#[derive(Debug)]
struct Front {
    reached: Place,
    /// The time from which a claim starts with the oldest.
    until: Instant,
}

/// A position in the order of due deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) due_at: OffsetDateTime,
    pub(super) number: i64,
}

impl Fronts {
    /// Where this claim continues; `None` means with the oldest.
    pub(super) fn of(&self, claim: &Claim) -> Option<Place> {
        let fronts = self.lock();
        let front = fronts.get(&key(claim))?;
        (Instant::now() < front.until).then_some(front.reached)
    }

    /// Records how many a claim got that started there, its last position, and its duration.
    pub(super) fn reached(
        &self,
        claim: &Claim,
        began: Option<Place>,
        got: usize,
        reached: Option<Place>,
        took: Duration,
    ) {
        let mut fronts = self.lock();
        let Some(reached) = reached.filter(|_| got >= BACKLOG.max(claim.limit as usize)) else {
            fronts.remove(&key(claim));
            return;
        };
        let until = Instant::now() + going_on(took);
        let front = fronts.entry(key(claim)).or_insert(Front { reached, until });
        front.reached = front.reached.max(reached);
        if began.is_none() {
            *front = Front { reached, until };
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(String, Shards), Front>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn going_on(took: Duration) -> Duration {
    took.saturating_mul(TIMES_AS_LONG).clamp(*GOING_ON.start(), *GOING_ON.end())
}

fn key(claim: &Claim) -> (String, Shards) {
    (claim.lane.clone(), claim.shards)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(number: i64) -> Option<Place> {
        Some(Place { due_at: OffsetDateTime::UNIX_EPOCH, number })
    }

    #[test]
    fn a_walk_from_the_oldest_takes_a_small_part_of_the_time() {
        assert_eq!(going_on(Duration::from_millis(1)), Duration::from_millis(100));
        assert_eq!(going_on(Duration::from_millis(10)), Duration::from_millis(320));
        assert_eq!(going_on(Duration::from_secs(10)), Duration::from_secs(1));
    }

    #[test]
    fn claims_go_on_where_the_furthest_has_ended_until_it_is_time() {
        let (fronts, claim) = (Fronts::default(), Claim::new("lane", 500));
        assert_eq!(fronts.of(&claim), None);
        fronts.reached(&claim, None, 500, place(7), Duration::from_secs(1));
        fronts.reached(&claim, place(7), 500, place(9), Duration::ZERO);
        fronts.reached(&claim, place(7), 500, place(8), Duration::ZERO);
        assert_eq!(fronts.of(&claim), place(9));
        let walked = fronts.lock()[&key(&claim)].until;
        assert!(walked > Instant::now() + Duration::from_millis(100), "set by the one that began with the oldest");

        fronts.lock().values_mut().for_each(|front| front.until = Instant::now());
        assert_eq!(fronts.of(&claim), None, "it is time");
    }

    #[test]
    fn nothing_is_remembered_without_a_backlog() {
        let (fronts, claim) = (Fronts::default(), Claim::new("lane", 500));
        fronts.reached(&claim, None, 500, place(7), Duration::ZERO);
        fronts.reached(&claim, place(7), 499, place(9), Duration::ZERO);
        assert_eq!(fronts.of(&claim), None, "got less than it asked for");
        let small = Claim::new("lane", 10);
        fronts.reached(&small, None, 10, place(7), Duration::ZERO);
        assert_eq!(fronts.of(&small), None);
    }
}
