//! Wake-ups within the process.

use std::time::Duration;

use async_trait::async_trait;
use time::OffsetDateTime;

use super::MemoryStore;
use super::state::State;
use crate::error::Result;
use crate::store::{Routing, Wakeups};
use crate::wake::Wake;

#[async_trait]
impl Wakeups for MemoryStore {
    fn wake(&self) -> &Wake {
        &self.wake
    }

    async fn sight(&self, event_ids: &[&str]) -> Result<Vec<String>> {
        let there = |state: &State, id: &&str| state.sequences.contains_key(*id).then(|| (*id).to_owned());
        Ok(self.read(|state, _| event_ids.iter().filter_map(|id| there(state, id)).collect()))
    }

    async fn arrived(&self) -> Result<bool> {
        Ok(self.read(|state, _| state.events.values().any(|event| event.routing == Routing::New)))
    }

    async fn next_due(&self, lanes: &[&str]) -> Result<Vec<Option<Duration>>> {
        Ok(self.read(|state, now| lanes.iter().map(|lane| state.next_due(lane, now)).collect()))
    }
}

impl State {
    fn next_due(&self, lane: &str, now: OffsetDateTime) -> Option<Duration> {
        let waiting = self.deliveries.values();
        let waiting = waiting.filter(|row| row.lane == lane && row.is_in_sight());
        let ready_at = waiting.map(|row| match &row.lock {
            Some(lock) => lock.until.max(row.due_at),
            None => row.due_at,
        });
        ready_at.min().map(|at| (at.max(now) - now).unsigned_abs())
    }
}
