//! Instances and alerts.

use std::time::Duration;

use async_trait::async_trait;

use super::MemoryStore;
use super::state::span;
use crate::alert::AlertState;
use crate::error::Result;
use crate::store::instance::KEPT;
use crate::store::{Alerts, Beat, Instance, Instances, NewAlert, StoredAlert};

#[async_trait]
impl Instances for MemoryStore {
    async fn beat(&self, beat: &Beat<'_>) -> Result<()> {
        self.write(|state, now| {
            state.instances.retain(|_, row| row.seen_at >= now - span(KEPT));
            let started_at = state.instances.get(beat.instance_id).map_or(now, |row| row.started_at);
            let row = Instance {
                instance_id: beat.instance_id.into(),
                role: beat.role.into(),
                version: beat.version.into(),
                started_at,
                seen_at: now,
                running: beat.running.clone(),
            };
            state.instances.insert(beat.instance_id.into(), row);
        })
        .await;
        Ok(())
    }

    async fn leave(&self, instance_id: &str) -> Result<()> {
        self.write(|state, _| state.instances.remove(instance_id)).await;
        Ok(())
    }

    async fn instances(&self, within: Duration) -> Result<Vec<Instance>> {
        Ok(self.read(|state, now| {
            state.instances.values().filter(|row| row.seen_at > now - span(within)).cloned().collect()
        }))
    }
}

#[async_trait]
impl Alerts for MemoryStore {
    async fn alerts(&self) -> Result<Vec<StoredAlert>> {
        Ok(self.read(|state, _| state.alerts.values().cloned().collect()))
    }

    async fn begin_alert(&self, new: &NewAlert<'_>) -> Result<bool> {
        let key = (new.kind.as_str(), new.subject.map(str::to_owned));
        Ok(self
            .write(|state, now| {
                let is_open = state.alerts.contains_key(&key);
                state.alerts.entry(key).or_insert_with(|| StoredAlert {
                    alert_id: new.alert_id.into(),
                    kind: new.kind,
                    subject: new.subject.map(str::to_owned),
                    since: now,
                    details: new.details.into(),
                    sent: false,
                    over_at: None,
                });
                !is_open
            })
            .await)
    }

    async fn end_alert(&self, alert_id: &str) -> Result<bool> {
        Ok(self
            .write(|state, now| {
                let open = state.alerts.values_mut().find(|row| row.alert_id == alert_id && row.over_at.is_none());
                open.map(|row| row.over_at = Some(now)).is_some()
            })
            .await)
    }

    async fn note_alert_sent(&self, alert_id: &str, sent: AlertState) -> Result<()> {
        self.write(|state, _| match sent {
            AlertState::Firing => {
                state.alerts.values_mut().filter(|row| row.alert_id == alert_id).for_each(|row| row.sent = true);
            }
            AlertState::Over => state.alerts.retain(|_, row| row.alert_id != alert_id || row.over_at.is_none()),
        })
        .await;
        Ok(())
    }
}
