//! Named leases: one instance at a time does the work of a name.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::{Store, Token};
use crate::consumer::Failure;
use crate::error::Result;

/// Named leases, by the database's clock.
#[async_trait]
pub trait Leases: Send + Sync {
    /// Takes a named lease, or takes it over if it ran out. Returns `None` if another owner holds it.
    async fn acquire_lease(&self, name: &str, owner: &str, lease: Duration) -> Result<Option<Token>>;

    /// Extends a named lease to `lease` from now. Returns false if the caller does not hold it any more.
    async fn extend_lease(&self, name: &str, token: Token, lease: Duration) -> Result<bool>;

    /// Gives a named lease back. Returns false if the caller did not hold it any more.
    async fn release_lease(&self, name: &str, token: Token) -> Result<bool>;
}

/// A named lease that a loop keeps while it works.
#[derive(Default)]
pub(crate) struct KeptLease {
    name: &'static str,
    length: Duration,
    /// The claim, and when it was last taken or extended.
    held: Option<(Token, Instant)>,
}

impl KeptLease {
    pub(crate) fn new(name: &'static str, length: Duration) -> Self {
        Self { name, length, held: None }
    }

    /// Takes the lease, or extends it after a third of its length. Returns false if another owner holds it.
    pub(crate) async fn keep(&mut self, store: &dyn Store, owner: &str) -> Result<bool> {
        let now = Instant::now();
        if let Some((token, since)) = self.held {
            if since.elapsed() <= self.length / 3 {
                return Ok(true);
            }
            self.held = None;
            if store.extend_lease(self.name, token, self.length).await? {
                self.held = Some((token, now));
                return Ok(true);
            }
        }
        self.held = store.acquire_lease(self.name, owner, self.length).await?.map(|token| (token, now));
        Ok(self.held.is_some())
    }

    /// Gives it back, so that the next instance does not wait until it runs out. If the store is away, that instance waits:
    /// a shutdown does not fail for it.
    pub(crate) async fn release(self, store: &dyn Store) {
        if let Some((token, _)) = self.held
            && let Err(error) = store.release_lease(self.name, token).await
        {
            let error = Failure::from(error);
            tracing::warn!(%error, lease = self.name, "a lease could not be given back: it runs out by itself");
        }
    }
}
