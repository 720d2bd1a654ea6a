//! What every part of the shop works with.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use postrider::{Idempotency, Outbox};
use uuid::Uuid;

use crate::database::Database;
use crate::error::Result;
use crate::settings::Settings;

/// A shop on one store. Cheap to clone.
#[derive(Clone)]
pub struct Shop<S> {
    /// Where everything is.
    pub store: S,
    pub(crate) outbox: Outbox<S>,
    /// The keys of asset operations.
    pub(crate) keys: Idempotency<S>,
    pub(crate) settings: Arc<Settings>,
}

impl<S: Database> Shop<S> {
    /// Opens the shop: makes its tables and those of the store where they are missing.
    pub async fn open(store: S, settings: Settings) -> Result<Self> {
        settings.check()?;
        store.migrate().await?;
        let mut tx = store.begin().await?;
        S::make_tables(&mut tx).await?;
        store.commit(tx).await?;
        Ok(Self {
            outbox: Outbox::new(store.clone()).service("shop"),
            keys: Idempotency::new(store.clone()).scope("shop.assets"),
            settings: Arc::new(settings),
            store,
        })
    }
}

/// Who asks, as far as the logs and the events are to know.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// The trace that an order begins in; without one it begins its own.
    pub trace_id: Option<String>,
    /// The request, as the caller names it.
    pub request_id: Option<String>,
}

/// How often a transaction that lost is run again. Each is over in milliseconds, so whoever was in its way is gone by then.
const TRIES: u32 = 10;

/// Runs a transaction of ours, from its beginning to its commit, until the database lets it through: a deadlock is nobody's
/// fault, and nothing of it was written. Never inside a consumer, whose transaction is the relay's.
pub(crate) async fn again<T, F: Future<Output = Result<T>>>(work: impl Fn() -> F) -> Result<T> {
    for tries in 0..TRIES {
        match work().await {
            Err(error) if error.is_lost() => {
                tracing::debug!(%error, tries, "A transaction lost, and is run again");
                // At random, so that two that met do not meet again.
                let micros = Uuid::new_v4().as_u64_pair().0 % (1_000 << tries);
                tokio::time::sleep(Duration::from_micros(micros)).await;
            }
            done => return done,
        }
    }
    work().await
}
