//! The shared state of the shop.

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
    /// The store.
    pub store: S,
    pub(crate) outbox: Outbox<S>,
    /// The idempotency keys of asset operations.
    pub(crate) keys: Idempotency<S>,
    pub(crate) settings: Arc<Settings>,
}

impl<S: Database> Shop<S> {
    /// Opens the shop. Creates missing tables of the shop and of the store.
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

/// The caller of a request, for logs and events.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// The trace of a new order. Without it, the order starts its own.
    pub trace_id: Option<String>,
    /// The request id that the caller sent.
    pub request_id: Option<String>,
}

/// How often a rolled back transaction is repeated. Each takes milliseconds, so the conflicting one has ended by then.
const TRIES: u32 = 10;

/// Repeats a whole transaction, from begin to commit, while the database rolls it back for a deadlock or conflict.
/// Never used in a consumer, whose transaction belongs to the relay.
pub(crate) async fn again<T, F: Future<Output = Result<T>>>(work: impl Fn() -> F) -> Result<T> {
    for tries in 0..TRIES {
        match work().await {
            Err(error) if error.is_lost() => {
                tracing::debug!(%error, tries, "A transaction was rolled back and is repeated");
                // A random delay, so that the same two do not conflict again.
                let micros = Uuid::new_v4().as_u64_pair().0 % (1_000 << tries);
                tokio::time::sleep(Duration::from_micros(micros)).await;
            }
            done => return done,
        }
    }
    work().await
}
