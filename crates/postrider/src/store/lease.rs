//! Named leases: one instance at a time does the work of a name.

use std::time::Duration;

use async_trait::async_trait;

use super::Token;
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
