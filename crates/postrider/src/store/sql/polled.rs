//! Wake-ups within the process, and by due times. MySQL and SQLite notify no other process: its events are found by polling.

use std::time::Duration;

use async_trait::async_trait;

use super::SqlStore;
use crate::error::Result;
use crate::store::Wakeups;
use crate::store::sql::{duration, json};
use crate::wake::Wake;

#[async_trait]
impl Wakeups for SqlStore {
    fn wake(&self) -> &Wake {
        &self.wake
    }

    async fn sight(&self, event_ids: &[&str]) -> Result<Vec<String>> {
        Ok(sqlx::query_scalar(sql!("deliveries/sight")).bind(json(event_ids)?).fetch_all(self.reader()).await?)
    }

    async fn arrived(&self) -> Result<bool> {
        Ok(sqlx::query_scalar(sql!("events/arrived")).fetch_one(self.reader()).await?)
    }

    async fn next_due(&self, lanes: &[&str]) -> Result<Vec<Option<Duration>>> {
        let mut waits = Vec::with_capacity(lanes.len());
        for lane in lanes {
            let query = sqlx::query_scalar(sql!("deliveries/next_due")).bind(lane).bind(lane);
            let wait: Option<i64> = query.fetch_one(self.reader()).await?;
            waits.push(wait.map(duration));
        }
        Ok(waits)
    }
}
