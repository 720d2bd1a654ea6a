//! The roll-up and the pruning.

use std::collections::BTreeSet;

use async_trait::async_trait;
use time::OffsetDateTime;

use super::MemoryStore;
use super::deliveries::{Failure, attempt};
use super::state::{KeyStatus, State, span};
use crate::entry::LEASE_RAN_OUT;
use crate::error::Result;
use crate::limits;
use crate::store::decide::{Fold, FoldedStatus};
use crate::store::figure;
use crate::store::{Finished, Folded, PriorAttempts, Prunable, Prune, Pruned, Record, Routing, Token, Upkeep};

#[async_trait]
impl Upkeep for MemoryStore {
    async fn fold(&self, limit: u32) -> Result<Folded> {
        Ok(self
            .write(|state, now| {
                let limit = limit.clamp(1, limits::PASS_ROWS) as usize;
                let taken: Vec<(i64, i64)> = state.marks.iter().map(|(id, seq)| (*id, *seq)).take(limit).collect();
                taken.iter().for_each(|(id, _)| {
                    state.marks.remove(id);
                });
                let expiring = state.events.iter().filter(|(seq, event)| {
                    let open = state
                        .statuses
                        .get(seq)
                        .and_then(|row| row.standing.as_ref())
                        .is_some_and(|s| !s.status.is_final());
                    open && event.envelope.expire_at.is_some_and(|at| at <= now)
                });
                let expiring: Vec<i64> = expiring.map(|(seq, _)| *seq).take(limit).collect();
                let unseen =
                    state.events.keys().filter(|seq| state.statuses.get(seq).is_none_or(|row| row.standing.is_none()));
                let unseen: Vec<i64> = unseen.copied().take(limit).collect();
                let more = [taken.len(), expiring.len(), unseen.len()].contains(&limit);
                let dirty = taken.iter().map(|(_, seq)| *seq).chain(expiring).chain(unseen);
                let dirty: BTreeSet<i64> = dirty.collect();
                // Missing ones were pruned after they were marked.
                let records: Vec<Record> = dirty.iter().filter_map(|seq| state.record(*seq, now)).collect();
                let fold = Fold::of(&records);
                for counted in fold.figures {
                    let row = state.figures.entry(counted[0]).or_insert([counted[0], 0, 0, 0, 0, 0]);
                    (1..counted.len()).for_each(|column| row[column] += counted[column]);
                }
                for record in &records {
                    let consumers = record.consumers().into_keys();
                    state.expected.extend(consumers.map(|consumer| (consumer.to_owned(), record.sequence)));
                }
                for FoldedStatus { record, standing, .. } in fold.statuses {
                    let row = state.statuses.entry(record.sequence).or_default();
                    if record.listed != Some(standing.status) {
                        row.status_at = Some(now);
                    }
                    row.standing = Some(standing);
                }
                Folded { events: dirty.len() as u64, more }
            })
            .await)
    }

    async fn mark_missed(&self, _: Option<i64>) -> Result<Option<i64>> {
        // Its fold looks at every event without a status.
        Ok(None)
    }

    async fn prune(&self, prune: &Prune) -> Result<Pruned> {
        Ok(self
            .write(|state, now| {
                let limit = prune.limit.clamp(1, limits::PASS_ROWS) as usize;
                let before = now - span(prune.older_than);
                let (looked_at, removed, last) = match prune.what {
                    Prunable::Events => state.prune_events(before, prune.after, limit),
                    Prunable::Inbox => {
                        let old = state.inbox.iter().filter(|(_, row)| row.received_at < before);
                        let old: Vec<_> = old.map(|(id, _)| id.clone()).take(limit).collect();
                        old.iter().for_each(|id| drop(state.inbox.remove(id)));
                        (old.len(), old.len(), 0)
                    }
                    Prunable::Operations => {
                        let (all, is_old) = (state.operations.len(), |at: OffsetDateTime| at < before);
                        let mut left = limit;
                        state.operations.retain(|row| {
                            let goes = left > 0 && row.operation.finished_at.is_some_and(is_old);
                            left -= usize::from(goes);
                            !goes
                        });
                        let gone = all - state.operations.len();
                        let left: BTreeSet<i64> = state.operations.iter().map(|row| row.operation.number).collect();
                        state.items.retain(|(operation, _), _| left.contains(operation));
                        (gone, gone, 0)
                    }
                    Prunable::Figures => {
                        let old: Vec<i64> =
                            state.figures.range(..figure::minute_of(before)).map(|(at, _)| *at).take(limit).collect();
                        for minute in &old {
                            state.figures.remove(minute);
                        }
                        (old.len(), old.len(), 0)
                    }
                    Prunable::Keys => {
                        let old = state.keys.iter().filter(|(_, row)| {
                            row.updated_at < before && (row.status != KeyStatus::Processing || row.until <= now)
                        });
                        let old: Vec<_> = old.map(|(id, _)| id.clone()).take(limit).collect();
                        old.iter().for_each(|id| drop(state.keys.remove(id)));
                        (old.len(), old.len(), 0)
                    }
                };
                Pruned { removed: removed as u64, next: (looked_at == limit).then_some(last) }
            })
            .await)
    }

    async fn finished(&self, prune: &Prune) -> Result<Finished> {
        Ok(self.read(|state, now| {
            let limit = prune.limit.clamp(1, limits::PASS_ROWS) as usize;
            let before = now - span(prune.older_than);
            let old = state.events.range(prune.after + 1..).filter(|(_, event)| event.created_at < before);
            let looked_at: Vec<i64> = old.map(|(seq, _)| *seq).take(limit).collect();
            let finished = state.are_finished(&looked_at);
            let next = looked_at.last().copied().filter(|_| looked_at.len() == limit);
            Finished { events: finished.iter().filter_map(|seq| state.record(*seq, now)).collect(), next }
        }))
    }

    async fn prune_events(&self, sequences: &[i64]) -> Result<u64> {
        Ok(self.write(|state, _| state.remove_events(sequences)).await)
    }

    async fn append_lost(&self, token: Token, prior: &[PriorAttempts]) -> Result<()> {
        self.write(|state, now| {
            for PriorAttempts { id, attempts } in prior {
                let Some(row) = state.deliveries.get(id).filter(|row| row.belongs_to(token)) else { continue };
                let (seq, consumer, wanted) =
                    (row.event_seq, row.consumer().to_owned(), row.recorded_before + attempts);
                while state.last_attempt(seq, &consumer) < wanted {
                    let (error, code) = LEASE_RAN_OUT;
                    let failure = Failure::new(error, Some(code), true);
                    state.append(seq, attempt(&consumer, Err(failure), now), None);
                }
            }
        })
        .await;
        Ok(())
    }
}

impl State {
    fn prune_events(&mut self, before: OffsetDateTime, after: i64, limit: usize) -> (usize, usize, i64) {
        let old = self.events.range(after + 1..).filter(|(_, event)| event.created_at < before);
        let looked_at: Vec<i64> = old.map(|(seq, _)| *seq).take(limit).collect();
        let removed = self.remove_events(&looked_at);
        (looked_at.len(), removed as usize, looked_at.last().copied().unwrap_or(after))
    }

    /// The events that have no deliveries left.
    fn are_finished(&self, seqs: &[i64]) -> BTreeSet<i64> {
        let waiting: BTreeSet<i64> = self.deliveries.values().map(|row| row.event_seq).collect();
        let routed = |seq: &i64| self.events.get(seq).is_some_and(|event| event.routing == Routing::Routed);
        seqs.iter().copied().filter(|seq| routed(seq) && !waiting.contains(seq)).collect()
    }

    /// Removes the finished ones of these events, with all their rows.
    pub(super) fn remove_events(&mut self, seqs: &[i64]) -> u64 {
        let finished = self.are_finished(seqs);
        for seq in &finished {
            if let Some(event) = self.events.remove(seq) {
                self.sequences.remove(event.envelope.event_id.as_str());
            }
        }
        self.consumptions.retain(|(seq, _, _), _| !finished.contains(seq));
        self.statuses.retain(|seq, _| !finished.contains(seq));
        finished.len() as u64
    }
}
