//! What every part of the shop works with.

use std::sync::Arc;

use postrider::{Idempotency, Outbox};

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
