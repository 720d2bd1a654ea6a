//! Counts, ages and holders.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use time::OffsetDateTime;

use super::MemoryStore;
use super::state::{DeliveryRow, State};
use crate::entry::DeliveryStatus;
use crate::error::Result;
use crate::store::{DeadLetter, DeliveryId, Figures, Holding, LaneCounts, Minute, OperationState, figure};

#[async_trait]
impl Figures for MemoryStore {
    async fn counts(&self) -> Result<BTreeMap<String, LaneCounts>> {
        Ok(self.read(|state, _| {
            let mut lanes: BTreeMap<String, LaneCounts> = BTreeMap::new();
            for row in state.deliveries.values() {
                let counts = lanes.entry(row.lane.clone()).or_default();
                match row.status {
                    DeliveryStatus::New => counts.new += 1,
                    DeliveryStatus::Processing => counts.processing += 1,
                    DeliveryStatus::Failed => counts.failed += 1,
                    DeliveryStatus::Dead => counts.dead += 1,
                }
                counts.held += u64::from(row.held);
            }
            lanes
        }))
    }

    async fn figures(&self, from: OffsetDateTime, to: OffsetDateTime) -> Result<Vec<Minute>> {
        let minutes = figure::minute_of(from)..figure::minute_of(to).max(figure::minute_of(from));
        Ok(self.read(|state, _| state.figures.range(minutes).map(|(_, row)| figure::minute(*row)).collect()))
    }

    async fn holdings(&self) -> Result<Vec<Holding>> {
        Ok(self.read(|state, now| {
            let mut lanes: BTreeMap<(String, String), (u64, OffsetDateTime)> = BTreeMap::new();
            for row in state.deliveries.values() {
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
            let leases = state.leases.iter().filter(|(_, lease)| lease.until > now);
            held.extend(leases.map(|(name, lease)| one(&lease.owner, "lease", name, 1, lease.until)));
            for job in state.jobs() {
                if let (Some(owner), Some(until)) = (&job.owner, job.lock_until.filter(|until| *until > now)) {
                    held.push(one(owner, "job", &job.name, 1, until));
                }
            }
            for row in state.operations.iter().filter(|row| row.operation.state == OperationState::Running) {
                if let Some(lease) = row.lease.as_ref().filter(|lease| lease.until > now) {
                    held.push(one(&lease.owner, "operation", &row.operation.request.id, 1, lease.until));
                }
            }
            held.sort_by(|a, b| (&a.owner, &a.kind, &a.name).cmp(&(&b.owner, &b.kind, &b.name)));
            held
        }))
    }

    async fn oldest_due(&self, lanes: &[&str]) -> Result<Vec<Option<Duration>>> {
        Ok(self.read(|state, now| lanes.iter().map(|lane| state.oldest_due(lane, now)).collect()))
    }

    async fn dead_letters(&self, lane: &str, limit: u32) -> Result<Vec<DeadLetter>> {
        Ok(self.read(|state, now| {
            let dead =
                state.deliveries.iter().filter(|(_, row)| row.lane == lane && row.status == DeliveryStatus::Dead);
            let mut dead: Vec<_> = dead.map(|(id, row)| (row.due_at, *id)).collect();
            dead.sort_unstable_by(|a, b| b.cmp(a));
            let ids: Vec<_> = dead.into_iter().take(limit as usize).map(|(_, id)| id).collect();
            state.find_dead(&ids, now)
        }))
    }

    async fn find_dead(&self, deliveries: &[DeliveryId]) -> Result<Vec<DeadLetter>> {
        Ok(self.read(|state, now| state.find_dead(deliveries, now)))
    }

    async fn oldest_pending(&self) -> Result<Option<Duration>> {
        Ok(self.read(|state, now| {
            let in_sight = state.deliveries.values().filter(|row| row.is_in_sight());
            let oldest = in_sight.map(|row| row.due_at).filter(|due_at| *due_at <= now).min();
            oldest.map(|due_at| (now - due_at).unsigned_abs())
        }))
    }
}

impl State {
    fn find_dead(&self, ids: &[DeliveryId], now: OffsetDateTime) -> Vec<DeadLetter> {
        let sequences: BTreeSet<_> = ids.iter().map(|id| id.sequence).collect();
        let records: Vec<_> = sequences.iter().filter_map(|sequence| self.record(*sequence, now)).collect();
        let mut letters = figure::dead_letters(&records);
        letters.retain(|letter| ids.contains(&letter.id));
        letters.sort_by_key(|letter| ids.iter().position(|id| *id == letter.id));
        for letter in &mut letters {
            let head = &self.deliveries[&letter.id];
            let is_behind = |row: &&DeliveryRow| {
                row.key.is_some()
                    && (&row.lane, &row.key) == (&head.lane, &head.key)
                    && row.event_seq > head.event_seq
                    && row.status != DeliveryStatus::Dead
            };
            letter.held = self.deliveries.values().filter(is_behind).count() as u64;
        }
        letters
    }

    fn oldest_due(&self, lane: &str, now: OffsetDateTime) -> Option<Duration> {
        let of_lane = self.deliveries.values().filter(|row| row.lane == lane && row.is_in_sight());
        let oldest = of_lane.map(|row| row.due_at).filter(|due_at| *due_at <= now).min();
        oldest.map(|due_at| (now - due_at).unsigned_abs())
    }
}
