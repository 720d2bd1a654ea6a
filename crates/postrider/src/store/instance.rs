//! Instances: which processes use a store, and what each of them runs.

use std::time::Duration;

use async_trait::async_trait;
use time::OffsetDateTime;

use crate::error::Result;
use crate::presence::Running;

/// How long a process counts as live after its last beat. Two beats may be late.
pub const LIVE: Duration = Duration::from_secs(20);
/// How long the row of a process that has died is kept.
pub(super) const KEPT: Duration = Duration::from_secs(3_600);

/// The processes of a store.
#[async_trait]
pub trait Instances: Send + Sync {
    /// Writes that a process is live and what it runs. Removes the rows of processes that died long ago.
    async fn beat(&self, beat: &Beat<'_>) -> Result<()>;

    /// Removes the row of a process that ends.
    async fn leave(&self, instance_id: &str) -> Result<()>;

    /// The processes that were live within `within`, by id.
    async fn instances(&self, within: Duration) -> Result<Vec<Instance>>;
}

/// What a process tells about itself.
#[derive(Debug, Clone)]
pub struct Beat<'a> {
    /// Its name with an incarnation.
    pub instance_id: &'a str,
    /// `all`, `api`, `relay` or `service`.
    pub role: &'a str,
    /// The version of its program.
    pub version: &'a str,
    /// What it runs.
    pub running: &'a Running,
}

/// A process of a store.
#[derive(Debug, Clone, PartialEq)]
pub struct Instance {
    /// Its name with an incarnation.
    pub instance_id: String,
    /// `all`, `api`, `relay` or `service`.
    pub role: String,
    /// The version of its program.
    pub version: String,
    /// When it first wrote its row.
    pub started_at: OffsetDateTime,
    /// When it last did.
    pub seen_at: OffsetDateTime,
    /// What it runs.
    pub running: Running,
}
