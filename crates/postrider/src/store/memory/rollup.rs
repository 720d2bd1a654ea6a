//! The roll-up, and what stands on it: fold, list, redrive_event, expire.

use std::collections::{BTreeMap, BTreeSet};

use time::OffsetDateTime;

use super::state::State;
use crate::error::Result;
use crate::limits;
use crate::redrive::{self, RedriveRules, Refusal};
use crate::status::EventStatus;
use crate::store::figure;
use crate::store::{Cursor, Folded, Found, Holding, List, OperationState, Page, Routing};

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
        // Those that are not there were pruned since they were marked.
        let records: Vec<Found> = dirty.iter().filter_map(|seq| self.record(*seq, now)).collect();
        let standings: Vec<_> = records.iter().map(Found::standing).collect();
        for counted in figure::changes(records.iter().zip(&standings)) {
            let row = self.figures.entry(counted[0]).or_insert([counted[0], 0, 0, 0, 0, 0]);
            (1..counted.len()).for_each(|column| row[column] += counted[column]);
        }
        for (record, standing) in records.iter().zip(standings) {
            let row = self.statuses.entry(record.sequence).or_default();
            if record.listed != Some(standing.status) {
                row.status_at = Some(now);
            }
            row.standing = Some(standing);
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

    pub(super) fn redrive_event(
        &mut self,
        event_id: &str,
        consumer: Option<&str>,
        rules: &RedriveRules,
        now: OffsetDateTime,
    ) -> Result<std::result::Result<Found, Refusal>> {
        let Some(&seq) = self.sequences.get(event_id) else {
            return Ok(Err(Refusal::UnknownEvent));
        };
        if let Err(refusal) = self.redrive_by_rule(seq, consumer, rules, now)? {
            return Ok(Err(refusal));
        }
        Ok(self.record(seq, now).ok_or(Refusal::UnknownEvent))
    }

    pub(super) fn redrive_by_rule(
        &mut self,
        seq: i64,
        consumer: Option<&str>,
        rules: &RedriveRules,
        now: OffsetDateTime,
    ) -> Result<std::result::Result<(), Refusal>> {
        let Some(record) = self.record(seq, now) else {
            return Ok(Err(Refusal::UnknownEvent));
        };
        let targets = match redrive::decide(&record, consumer, &self.subscriptions(None), rules, now) {
            Ok(targets) => targets,
            Err(refusal) => return Ok(Err(refusal)),
        };
        for target in targets {
            if target.newcomer {
                self.expect(seq, &target.target, now);
            }
            self.make_due(seq, &target.lane, &target.target, now)?;
        }
        self.note_redrive(seq, now);
        Ok(Ok(()))
    }

    pub(super) fn expire(&mut self, event_id: &str, now: OffsetDateTime) -> std::result::Result<Found, Refusal> {
        let seq = *self.sequences.get(event_id).ok_or(Refusal::UnknownEvent)?;
        let record = self.record(seq, now).ok_or(Refusal::UnknownEvent)?;
        match record.standing().status {
            EventStatus::Consumed => return Err(Refusal::Consumed),
            EventStatus::Expired => return Ok(record),
            _ => {}
        }
        for delivery in &record.deliveries {
            self.deliveries.remove(&delivery.id);
            self.delivery_ids.remove(&(seq, delivery.lane.clone(), delivery.target.clone()));
            if let Some(key) = &record.envelope.key {
                self.free_followers(&delivery.lane, key, seq, now);
            }
        }
        if let Some(event) = self.events.get_mut(&seq) {
            // Nobody is to route it any more.
            event.routing = Routing::Routed;
        }
        self.statuses.entry(seq).or_default().kept.expired_at = Some(now);
        self.mark(seq);
        self.record(seq, now).ok_or(Refusal::UnknownEvent)
    }

    pub(super) fn holdings(&self, now: OffsetDateTime) -> Vec<Holding> {
        let mut lanes: BTreeMap<(String, String), (u64, OffsetDateTime)> = BTreeMap::new();
        for row in self.deliveries.values() {
            if let Some(lock) = row.lock.as_ref().filter(|lock| lock.until > now) {
                let held = lanes.entry((lock.owner.clone(), row.lane.clone())).or_insert((0, lock.until));
                *held = (held.0 + 1, held.1.max(lock.until));
            }
        }
        let one = |owner: &str, kind: &str, name: &str, count: u64, until: OffsetDateTime| Holding {
            owner: owner.into(),
            kind: kind.into(),
            name: name.into(),
            count,
            until,
        };
        let mut held: Vec<Holding> =
            lanes.iter().map(|((owner, lane), (count, until))| one(owner, "lane", lane, *count, *until)).collect();
        let leases = self.leases.iter().filter(|(_, lease)| lease.until > now);
        held.extend(leases.map(|(name, lease)| one(&lease.owner, "lease", name, 1, lease.until)));
        for job in self.jobs() {
            if let (Some(owner), Some(until)) = (&job.owner, job.lock_until.filter(|until| *until > now)) {
                held.push(one(owner, "job", &job.name, 1, until));
            }
        }
        for row in self.operations.iter().filter(|row| row.operation.state == OperationState::Running) {
            if let Some(lease) = row.lease.as_ref().filter(|lease| lease.until > now) {
                held.push(one(&lease.owner, "operation", &row.operation.request.id, 1, lease.until));
            }
        }
        held.sort_by(|a, b| (&a.owner, &a.kind, &a.name).cmp(&(&b.owner, &b.kind, &b.name)));
        held
    }
}
