//! The roll-up, and what stands on it: fold, list.

use std::collections::BTreeSet;

use time::OffsetDateTime;

use super::state::State;
use crate::limits;
use crate::store::{Cursor, Folded, List, Page};

impl State {
    pub(super) fn fold(&mut self, limit: u32, now: OffsetDateTime) -> Folded {
        let limit = limit.clamp(1, limits::PASS_ROWS) as usize;
        let taken: Vec<(i64, i64)> = self.marks.iter().map(|(id, seq)| (*id, *seq)).take(limit).collect();
        taken.iter().for_each(|(id, _)| {
            self.marks.remove(id);
        });
        let expiring = self.events.iter().filter(|(seq, event)| {
            let open =
                self.statuses.get(seq).and_then(|row| row.standing.as_ref()).is_some_and(|s| !s.status.is_final());
            open && event.envelope.expire_at.is_some_and(|at| at <= now)
        });
        let expiring: Vec<i64> = expiring.map(|(seq, _)| *seq).take(limit).collect();
        let unseen = self.events.keys().filter(|seq| self.statuses.get(seq).is_none_or(|row| row.standing.is_none()));
        let unseen: Vec<i64> = unseen.copied().take(limit).collect();
        let more = [taken.len(), expiring.len(), unseen.len()].contains(&limit);
        let dirty = taken.iter().map(|(_, seq)| *seq).chain(expiring).chain(unseen);
        let dirty: BTreeSet<i64> = dirty.collect();
        for seq in &dirty {
            // None: pruned since it was marked.
            if let Some(record) = self.record(*seq, now) {
                self.statuses.entry(*seq).or_default().standing = Some(record.standing());
            }
        }
        Folded { events: dirty.len() as u64, more }
    }

    /// Counts a redrive.
    pub(super) fn note_redrive(&mut self, seq: i64, now: OffsetDateTime) {
        let kept = &mut self.statuses.entry(seq).or_default().kept;
        kept.redrives += 1;
        kept.redriven_at = Some(now);
        self.mark(seq);
    }

    pub(super) fn list(&self, list: &List, now: OffsetDateTime) -> Page {
        let below = list.after.map_or(i64::MAX, |cursor| cursor.0);
        let newest_first = self.events.range(..below).rev();
        let records = newest_first.filter_map(|(seq, _)| self.record(*seq, now));
        let mut matching = records.filter(|record| list.filter.matches(record));
        let mut events: Vec<_> = matching.by_ref().take(list.limit as usize).collect();
        for record in &mut events {
            record.envelope.payload = String::new();
            record.envelope.metadata = None;
        }
        let next = events.last().filter(|_| events.len() == list.limit as usize);
        Page { next: next.map(|record| Cursor(record.sequence)), events }
    }
}
