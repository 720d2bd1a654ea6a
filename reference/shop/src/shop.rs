//! The shared state of the shop.

use std::sync::Arc;

use postrider::{Idempotency, Outbox};

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
