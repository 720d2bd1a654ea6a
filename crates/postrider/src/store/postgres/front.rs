//! Where a claim begins to look. In front of what is due lie the deliveries that are being worked on and the remains of
//! those that are done, and a claim that begins with the oldest walks over all of them, each time. So while there is a backlog
//! a claim goes on where the last one has ended; and every so often one begins with the oldest after all, for what came
//! back or was committed late. Nothing hangs on what is remembered here but time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use time::OffsetDateTime;

use crate::shard::Shards;
use crate::store::Claim;

/// How long claims go on where others have ended before one begins with the oldest.
const GOING_ON: Duration = Duration::from_millis(100);
/// A claim that has got so many, all that it asked for, has a backlog before it.
const BACKLOG: usize = 100;

/// How far claims have come, by lane and shards.
#[derive(Debug, Clone, Default)]
pub(super) struct Fronts(Arc<Mutex<HashMap<(String, Shards), Front>>>);

#[derive(Debug)]
struct Front {
    reached: Place,
    /// When a claim last began with the oldest.
    begun: Instant,
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
        (front.begun.elapsed() < GOING_ON).then_some(front.reached)
    }

    /// Takes note of how many a claim got that had begun there, and how far it has come.
    pub(super) fn reached(&self, claim: &Claim, began: Option<Place>, got: usize, reached: Option<Place>) {
        let mut fronts = self.lock();
        let Some(reached) = reached.filter(|_| got >= BACKLOG.max(claim.limit as usize)) else {
            fronts.remove(&key(claim));
            return;
        };
        let now = Instant::now();
        let front = fronts.entry(key(claim)).or_insert(Front { reached, begun: now });
        front.reached = front.reached.max(reached);
        if began.is_none() {
            *front = Front { reached, begun: now };
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(String, Shards), Front>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(claim: &Claim) -> (String, Shards) {
    (claim.lane.clone(), claim.shards)
}
