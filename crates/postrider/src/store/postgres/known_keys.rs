//! Which keys a claim asks for. A search of what is due finds many more keys than one claim takes, and costs as much
//! as the claim itself: it reads all leased deliveries and dead tuples. So during a backlog the claims of a process
//! ask by name for the keys of the last search, each claim for others. At intervals one searches again, for keys that
//! have become due or free. The state here affects only speed.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::shard::Shards;
use crate::store::{Claim, Lease};

/// How long claims use the keys of one search.
const SEEN_FOR: Duration = Duration::from_millis(100);
/// A full search that has leased at least this many indicates a backlog.
const BACKLOG: u32 = 100;

/// Keys that a search has found and no claim has asked for, by lane and shards.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownKeys(Arc<Mutex<HashMap<(String, Shards), Seen>>>);

#[derive(Debug)]
struct Seen {
    keys: VecDeque<String>,
    at: Instant,
}

impl KnownKeys {
    /// How many a search must lease before it returns the other keys.
    pub(super) fn backlog(claim: &Claim) -> u32 {
        claim.limit.max(BACKLOG)
    }

    /// The keys that this claim asks for, in order. Empty if it must search. Takes a quarter of the known keys, so
    /// that concurrent claims find some too.
    pub(super) fn take(&self, claim: &Claim) -> Vec<String> {
        let mut lanes = self.lock();
        let Some(seen) = lanes.get_mut(&place(claim)) else { return Vec::new() };
        if seen.at.elapsed() >= SEEN_FOR {
            // This claim searches, and the others continue meanwhile.
            seen.at = Instant::now();
            return Vec::new();
        }
        let share = seen.keys.len().div_ceil(4).min(claim.limit as usize);
        seen.keys.drain(..share).collect()
    }

    /// Returns the keys that a claim had no room for: those after the last key that it got a delivery of.
    pub(super) fn give_back(&self, claim: &Claim, mut asked: Vec<String>, lease: &Lease) {
        let got: HashSet<_> = lease.deliveries.iter().filter_map(|got| got.envelope.key.as_deref()).collect();
        let last = asked.iter().rposition(|key| got.contains(key.as_str()));
        // It got none of them: another claimer holds them.
        let Some(last) = last else { return };
        if let Some(seen) = self.lock().get_mut(&place(claim)) {
            asked.drain(last + 1..).rev().for_each(|key| seen.keys.push_front(key));
        }
    }

    /// Stores the keys that a search has found beside what it leased; empty if there is no backlog.
    pub(super) fn seen(&self, claim: &Claim, keys: Vec<String>) {
        if keys.is_empty() {
            self.lock().remove(&place(claim));
            return;
        }
        let mut keys = VecDeque::from(keys);
        // Starts at a random key: other processes find the same keys, and would ask for the same ones first.
        keys.rotate_left(fastrand::usize(..keys.len()));
        self.lock().insert(place(claim), Seen { keys, at: Instant::now() });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(String, Shards), Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn place(claim: &Claim) -> (String, Shards) {
    (claim.lane.clone(), claim.shards)
}
