//! Where a claim begins to look. In front of what is due lie the deliveries that are being worked on and the remains of
//! those that are done, and a claim that begins with the oldest walks over all of them, each time. So while there is a backlog
//! a claim goes on where the last one has ended; and every so often one begins with the oldest after all, for what came
//! back or was committed late. How often depends on what that takes: little after a vacuum, much while somebody holds an old
//! snapshot. Nothing hangs on what is remembered here but time.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use time::OffsetDateTime;

use crate::shard::Shards;
use crate::store::Claim;

/// How long claims go on where others have ended before one begins with the oldest, at least and at most.
const GOING_ON: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(1);
/// Within that, so many times as long as the last one took that began with the oldest.
const TIMES_AS_LONG: u32 = 32;
/// A claim that has got so many, all that it asked for, has a backlog before it.
const BACKLOG: usize = 100;

/// How far claims have come, by lane and shards.
#[derive(Debug, Clone, Default)]
pub(super) struct Fronts(Arc<Mutex<HashMap<(String, Shards), Front>>>);

#[derive(Debug)]
struct Front {
    reached: Place,
    /// From when on a claim begins with the oldest.
    until: Instant,
}

/// A place in the order of what is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) due_at: OffsetDateTime,
    pub(super) number: i64,
}

impl Fronts {
    /// Where this claim may go on; None: with the oldest.
    pub(super) fn of(&self, claim: &Claim) -> Option<Place> {
        let fronts = self.lock();
        let front = fronts.get(&key(claim))?;
        (Instant::now() < front.until).then_some(front.reached)
    }

    /// Takes note of how many a claim got that had begun there, how far it has come, and how long it took.
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
