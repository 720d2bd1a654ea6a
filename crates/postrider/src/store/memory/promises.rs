//! What the checks of the promises read and write.

use std::time::Duration;

use async_trait::async_trait;

use super::MemoryStore;
use super::state::{StoredRepeat, span};
use crate::error::Result;
use crate::store::promise::PROMISE_HALF_HOURS;
use crate::store::{DoubledKey, PromiseChecks, PromiseNote, Repeat, StoredPromise};

#[async_trait]
impl PromiseChecks for MemoryStore {
    async fn repeats(&self, event_ids: &[&str]) -> Result<Vec<Repeat>> {
        Ok(self.read(|state, _| {
            let rows = event_ids.iter().flat_map(|id| state.repeats.iter().filter(move |((_, event), _)| event == id));
            rows.map(|((consumer, event_id), row)| Repeat {
                consumer: consumer.clone(),
                event_id: event_id.clone(),
                repeats: row.repeats,
                repeated_at: row.repeated_at,
            })
            .collect()
        }))
    }

    async fn count_repeats(&self, within: Duration) -> Result<u64> {
        Ok(self.read(|state, now| {
            let recent = state.repeats.values().filter(|row| row.repeated_at > now - span(within));
            recent.take(10_000).map(|row: &StoredRepeat| u64::from(row.repeats)).sum()
        }))
    }

    async fn doubled_keys(&self, within: Duration, limit: u32) -> Result<Vec<DoubledKey>> {
        Ok(self.read(|state, now| {
            let mut doubled = Vec::new();
            for ((consumer, second), new) in &state.inbox {
                let Some(key) = new.idempotency_key.as_ref().filter(|_| new.received_at > now - span(within)) else {
                    continue;
                };
                let before = state.inbox.iter().filter(|((other, first), old)| {
                    other == consumer
                        && old.idempotency_key.as_ref() == Some(key)
                        && (old.received_at, first) < (new.received_at, second)
                });
                doubled.extend(before.map(|((_, first), _)| DoubledKey {
                    consumer: consumer.clone(),
                    key: key.clone(),
                    first: first.clone(),
                    second: second.clone(),
                }));
            }
            doubled.truncate(limit as usize);
            doubled
        }))
    }

    async fn were_expected(&self, consumer: &str, sequences: &[i64]) -> Result<Vec<i64>> {
        Ok(self.read(|state, _| {
            let were = |sequence: &&i64| state.expected.contains(&(consumer.to_owned(), **sequence));
            sequences.iter().filter(were).copied().collect()
        }))
    }

    async fn note_promise(&self, note: &PromiseNote) -> Result<()> {
        self.write(|state, now| {
            let stored = StoredPromise { note: note.clone(), checked_at: now };
            let row = state.promises.entry((note.promise.clone(), note.half_hour)).or_insert_with(|| stored.clone());
            let (kept, strained) = (row.note.kept && note.kept, row.note.strained || note.strained);
            *row = stored;
            (row.note.kept, row.note.strained) = (kept, strained);
            let oldest = note.half_hour - PROMISE_HALF_HOURS;
            state.promises.retain(|(promise, half_hour), _| *promise != note.promise || *half_hour > oldest);
        })
        .await;
        Ok(())
    }

    async fn promises(&self) -> Result<Vec<StoredPromise>> {
        Ok(self.read(|state, _| state.promises.values().cloned().collect()))
    }
}
