//! Subscriptions and paused lanes.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;

use super::SqlStore;
use super::audit::commit;
use super::change::columns;
use super::records::subscription;
use crate::error::Result;
use crate::store::audit::Change;
use crate::store::sql::{is_duplicate, is_new, retrying};
use crate::store::subscription::check_rename;
use crate::store::{
    History, LaneSettings, Renamed, SubscriptionChange, SubscriptionChanged, SubscriptionRemoval, SubscriptionRemoved,
    Subscriptions,
};
use crate::subscription::{StoredSubscription, Subscription};

#[async_trait]
impl Subscriptions for SqlStore {
    async fn register(&self, subscription: &Subscription) -> Result<()> {
        subscription.check()?;
        // Reads first: an upsert would write, and lock, on every start of every instance.
        let known = sqlx::query(text!("SELECT 1 FROM postrider_subscription WHERE topic = $1 AND consumer = $2"));
        let known = known.bind(&subscription.topic).bind(&subscription.consumer).fetch_optional(self.reader()).await?;
        match known {
            Some(_) => Ok(()),
            None => retrying(|| self.register_new(subscription)).await,
        }
    }

    async fn change_subscription(&self, change: &SubscriptionChange) -> Result<SubscriptionChanged> {
        change.check()?;
        retrying(|| self.change(change)).await
    }

    async fn end_subscription(&self, removal: &SubscriptionRemoval) -> Result<Option<SubscriptionRemoved>> {
        retrying(|| self.end(removal)).await
    }

    async fn subscriptions(&self, topic: Option<&str>) -> Result<Vec<StoredSubscription>> {
        let query = sqlx::query(text!(
            "SELECT ",
            columns!(),
            " FROM postrider_subscription WHERE NOT removed AND topic = coalesce($1, topic) \
             ORDER BY topic, sort_order, consumer"
        ));
        query.bind(topic).fetch_all(self.reader()).await?.iter().map(subscription).collect()
    }

    async fn removed_subscriptions(&self) -> Result<Vec<StoredSubscription>> {
        let query = sqlx::query(text!(
            "SELECT ",
            columns!(),
            " FROM postrider_subscription WHERE removed ORDER BY topic, consumer"
        ));
        query.fetch_all(self.reader()).await?.iter().map(subscription).collect()
    }

    async fn set_paused(&self, lane: &str, paused: bool) -> Result<()> {
        let pause = text!("INSERT INTO postrider_pause (lane, paused_at) VALUES ($1, ", now!(), ")");
        let resume = text!("DELETE FROM postrider_pause WHERE lane = $1");
        let sql = if paused { pause } else { resume };
        retrying(|| async {
            let mut tx = self.write().await?;
            match sqlx::query(sql).bind(lane).execute(&mut *tx).await {
                Ok(done) if done.rows_affected() == 1 => commit(tx, &Change::paused(paused)).await,
                Ok(_) => Ok(tx.rollback().await?),
                Err(error) if is_duplicate(&error) => Ok(tx.rollback().await?),
                Err(error) => Err(error.into()),
            }
        })
        .await
    }

    async fn paused(&self) -> Result<BTreeSet<String>> {
        let lanes: Vec<String> =
            sqlx::query_scalar(text!("SELECT lane FROM postrider_pause")).fetch_all(self.reader()).await?;
        Ok(lanes.into_iter().collect())
    }

    async fn record_lane(&self, lane: &str, settings: LaneSettings) -> Result<()> {
        let (attempts, history) =
            (i32::try_from(settings.max_attempts).unwrap_or(i32::MAX), settings.history == History::Keep);
        let change = text!(
            "UPDATE postrider_lane SET max_attempts = $1, history = $2, updated_at = ",
            now!(),
            " WHERE lane = $3"
        );
        let insert = text!(
            "INSERT INTO postrider_lane (lane, max_attempts, history, updated_at) VALUES ($1, $2, $3, ",
            now!(),
            ")"
        );
        retrying(|| async {
            let query = sqlx::query(change).bind(attempts).bind(history).bind(lane);
            if query.execute(self.writer()?).await?.rows_affected() == 0 {
                // Another instance may have inserted it since.
                is_new(sqlx::query(insert).bind(lane).bind(attempts).bind(history).execute(self.writer()?).await)?;
            }
            Ok(())
        })
        .await
    }

    async fn lanes(&self) -> Result<BTreeMap<String, LaneSettings>> {
        let rows: Vec<(String, i32, bool)> =
            sqlx::query_as(text!("SELECT lane, max_attempts, history FROM postrider_lane"))
                .fetch_all(self.reader())
                .await?;
        let settings = |(lane, max_attempts, history): (String, i32, bool)| {
            let history = if history { History::Keep } else { History::Omit };
            (lane, LaneSettings { max_attempts: max_attempts.unsigned_abs(), history })
        };
        Ok(rows.into_iter().map(settings).collect())
    }

    async fn rename_consumer(&self, from: &str, to: &str) -> Result<Renamed> {
        check_rename(from, to)?;
        retrying(|| self.rename(from, to)).await
    }
}
