//! Wake-ups: `LISTEN` and `NOTIFY` between processes, and due times.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::Executor;
use sqlx::postgres::{PgListener, PgPoolOptions};

use super::PostgresStore;
use crate::error::{Error, Result};
use crate::store::Wakeups;
use crate::store::sql::duration;
use crate::wake::Wake;

/// How long a listening connection may be silent before it is pinged, and how long the answer may take.
const LISTENER_PATIENCE: Duration = Duration::from_secs(5);

#[async_trait]
impl Wakeups for PostgresStore {
    fn wake(&self) -> &Wake {
        &self.wake
    }

    async fn announce(&self, from: &str) -> Result<()> {
        sqlx::query("SELECT pg_notify('postrider', $1)").bind(from).execute(&self.work).await?;
        Ok(())
    }

    async fn listen(&self, announced: &(dyn for<'a> Fn(&'a str) + Send + Sync)) -> Result<()> {
        let mut listener = self.listener().await?;
        within_patience(listener.listen("postrider")).await?;
        loop {
            match tokio::time::timeout(LISTENER_PATIENCE, listener.try_recv()).await {
                Ok(Ok(Some(notification))) => announced(notification.payload()),
                Ok(Ok(None)) => return Err(Error::Unavailable("the listening connection was closed".into())),
                Ok(Err(error)) => return Err(error.into()),
                // Idle or half-open? A ping tells.
                Err(_) => {
                    within_patience(listener.execute("SELECT 1")).await?;
                }
            }
        }
    }

    async fn sight(&self, event_ids: &[&str]) -> Result<Vec<String>> {
        Ok(sqlx::query_scalar(sql!("deliveries/sight")).bind(event_ids).fetch_all(&self.work).await?)
    }

    async fn arrived(&self) -> Result<bool> {
        Ok(sqlx::query_scalar(sql!("events/arrived")).fetch_one(&self.work).await?)
    }

    async fn next_due(&self, lanes: &[&str]) -> Result<Vec<Option<Duration>>> {
        let waits: Vec<Option<i64>> =
            sqlx::query_scalar(sql!("deliveries/next_due")).bind(lanes).fetch_all(&self.work).await?;
        Ok(waits.into_iter().map(|wait| wait.map(duration)).collect())
    }
}

async fn within_patience<T>(answer: impl Future<Output = sqlx::Result<T>>) -> Result<T> {
    match tokio::time::timeout(LISTENER_PATIENCE, answer).await {
        Ok(answer) => Ok(answer?),
        Err(silence) => Err(Error::Unavailable(silence.into())),
    }
}

impl PostgresStore {
    /// A separate connection to listen on, outside the pools.
    async fn listener(&self) -> sqlx::Result<PgListener> {
        self.gate.try_connect().await?;
        let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(LISTENER_PATIENCE);
        let mut listener = PgListener::connect_with(&pool.connect_lazy_with(self.gate.options().clone())).await?;
        // A lost connection is reported to the relay, which calls `listen` again at its own pace.
        listener.eager_reconnect(false);
        Ok(listener)
    }
}
