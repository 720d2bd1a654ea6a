//! Which keys a claim asks for. A look at what is due finds many more keys than one claim takes, and costs as much as the claim
//! itself: it walks over all that is in hand or done. So while there is a backlog the claims of a process ask by name for the
//! keys that the last look has seen, each claim for others, and every so often one looks again, for what has become due or
//! free in front. Nothing hangs on what is remembered here but time.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::shard::Shards;
use crate::store::{Claim, Lease, Token};

/// How long claims ask for keys that one look has seen before another looks.
const SEEN_FOR: Duration = Duration::from_millis(100);
/// A look that has leased so many, all that its claim asked for, has a backlog before it.
const BACKLOG: u32 = 100;

/// KnownKeys that a look has seen and no claim has asked for, by lane and shards.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownKeys(Arc<Mutex<HashMap<(String, Shards), Seen>>>);

#[derive(Debug)]
struct Seen {
    keys: VecDeque<String>,
    at: Instant,
}

impl KnownKeys {
    /// How many a look has to lease for its other keys to be worth knowing.
    pub(super) fn backlog(claim: &Claim) -> u32 {
        claim.limit.max(BACKLOG)
    }

    /// What this claim may ask for, in order; nothing: it is to look. A quarter of what there is, so that others find some too.
    pub(super) fn take(&self, claim: &Claim) -> Vec<String> {
        let mut lanes = self.lock();
        let Some(seen) = lanes.get_mut(&place(claim)) else { return Vec::new() };
        if seen.at.elapsed() >= SEEN_FOR {
            // This one looks, and the others go on meanwhile.
            seen.at = Instant::now();
            return Vec::new();
        }
        let share = seen.keys.len().div_ceil(4).min(claim.limit as usize);
        seen.keys.drain(..share).collect()
    }

    /// Takes back what a claim had no room for: the keys behind the last one that it got anything of.
    pub(super) fn give_back(&self, claim: &Claim, mut asked: Vec<String>, lease: &Lease) {
        let got: HashSet<_> = lease.deliveries.iter().filter_map(|got| got.envelope.key.as_deref()).collect();
        let last = asked.iter().rposition(|key| got.contains(key.as_str()));
        // Of none of them: somebody else is at them.
        let Some(last) = last else { return };
        if let Some(seen) = self.lock().get_mut(&place(claim)) {
            asked.drain(last + 1..).rev().for_each(|key| seen.keys.push_front(key));
        }
    }

    /// Takes note of what a look has seen beside what it leased; nothing: there is no backlog.
    pub(super) fn seen(&self, claim: &Claim, keys: Vec<String>) {
        if keys.is_empty() {
            self.lock().remove(&place(claim));
            return;
        }
        let mut keys = VecDeque::from(keys);
        // From anywhere on: other processes see the same keys, and would ask for the same ones first.
        keys.rotate_left(Token::fresh().0 as usize % keys.len());
        self.lock().insert(place(claim), Seen { keys, at: Instant::now() });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(String, Shards), Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn place(claim: &Claim) -> (String, Shards) {
    (claim.lane.clone(), claim.shards)
}
