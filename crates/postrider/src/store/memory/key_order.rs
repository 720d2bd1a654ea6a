//! Keys behind dead deliveries.

use async_trait::async_trait;
use time::OffsetDateTime;

use super::MemoryStore;
use super::state::{DeliveryRow, State};
use crate::entry::DeliveryStatus;
use crate::error::Result;
use crate::store::audit::Change;
use crate::store::key_order::{DeadRows, FOLLOWERS, check};
use crate::store::{DeadHead, DeadKey, DeliveryId, KeyFront, KeyOrder, Wakeups};

#[async_trait]
impl KeyOrder for MemoryStore {
    async fn set_dead_head(&self, lane: &str, key: &str, rule: DeadHead) -> Result<Option<DeadKey>> {
        check(lane, key)?;
        let changed = self.write(|state, now| state.set_dead_head(lane, key, rule, now)).await;
        if let Some(changed) = &changed {
            self.wake().poke(&changed.event_id, &changed.topic);
        }
        Ok(changed)
    }

    async fn dead_keys(&self, lane: &str, limit: u32) -> Result<Vec<DeadKey>> {
        Ok(self.read(|state, _| {
            let mut dead: Vec<_> = state.deliveries.values().filter(|row| row.lane == lane && is_dead(row)).collect();
            dead.sort_by_key(|row| row.event_seq);
            let mut keys: Vec<&str> = Vec::new();
            for key in dead.into_iter().filter_map(|row| row.key.as_deref()) {
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
            keys.into_iter().take(limit as usize).filter_map(|key| state.dead_key(lane, key)).collect()
        }))
    }

    async fn key_front(&self, lane: &str, key: &str, sequence: i64, rule: DeadHead) -> Result<Option<KeyFront>> {
        Ok(self.read(|state, _| {
            let in_front: Vec<_> =
                state.of_key(lane, key).into_iter().filter(|(_, row)| row.event_seq < sequence).collect();
            let stops = |row: &DeliveryRow| !is_dead(row) || (rule == DeadHead::Hold && row.skipped_at.is_none());
            let (_, first) = in_front.iter().find(|(_, row)| stops(row))?;
            let event = &state.events.get(&first.event_seq)?.envelope;
            let ahead = in_front.iter().filter(|(_, row)| !is_dead(row)).take(FOLLOWERS as usize).count();
            Some(KeyFront {
                event_id: event.event_id.to_string(),
                topic: event.topic.clone(),
                dead: is_dead(first),
                ahead: ahead as u32,
            })
        }))
    }
}

impl State {
    fn set_dead_head(&mut self, lane: &str, key: &str, rule: DeadHead, now: OffsetDateTime) -> Option<DeadKey> {
        let before = self.dead_key(lane, key)?;
        let dead: Vec<DeliveryId> =
            self.of_key(lane, key).into_iter().filter(|(_, row)| is_dead(row)).map(|(id, _)| id).collect();
        if before.rule == rule {
            return Some(before);
        }
        for id in &dead {
            let row = self.row_mut(*id);
            row.skipped_at = (rule == DeadHead::Skip).then_some(row.skipped_at.unwrap_or(now));
        }
        if rule == DeadHead::Skip {
            self.free_followers(lane, key, dead.first()?.sequence, now);
        }
        let after = self.dead_key(lane, key)?;
        self.note(&Change::dead_head(before.rule, &after), now);
        Some(after)
    }

    fn dead_key(&self, lane: &str, key: &str) -> Option<DeadKey> {
        let of_key = self.of_key(lane, key);
        let (_, first) = of_key.iter().find(|(_, row)| is_dead(row))?;
        let mut rows = DeadRows::default();
        for (_, row) in of_key.iter().filter(|(_, row)| is_dead(row)) {
            rows.dead += 1;
            rows.skipped += u32::from(row.skipped_at.is_some());
            rows.skipped_at = rows.skipped_at.max(row.skipped_at);
        }
        let behind = of_key.iter().filter(|(_, row)| row.event_seq > first.event_seq && !is_dead(row));
        let waiting = behind.take(FOLLOWERS as usize).count() as u32;
        let event = &self.events.get(&first.event_seq)?.envelope;
        Some(rows.of_key(key.to_owned(), (event.event_id.to_string(), event.topic.clone()), waiting))
    }

    /// The deliveries of a key in the order of their events.
    fn of_key(&self, lane: &str, key: &str) -> Vec<(DeliveryId, &DeliveryRow)> {
        let of_key = |row: &DeliveryRow| row.lane == lane && row.key.as_deref() == Some(key);
        let mut rows: Vec<_> =
            self.deliveries.iter().filter(|(_, row)| of_key(row)).map(|(id, row)| (*id, row)).collect();
        rows.sort_by_key(|(id, row)| (row.event_seq, *id));
        rows
    }
}

fn is_dead(row: &DeliveryRow) -> bool {
    row.status == DeliveryStatus::Dead
}
