//! A producer's cache of the subscribers of topics. Cached values are never trusted: the statement that uses them
//! compares the version of the subscriptions in the database, and writes nothing if it has changed.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use sqlx::PgConnection;

use crate::error::Result;

/// Maximum number of cached topics. When it is reached, the cache is emptied.
const TOPICS: usize = 1_000;
/// How long a topic without lanes is cached. Its events use a statement that reads the subscriptions itself, so this
/// affects only speed.
const LANELESS: Duration = Duration::from_secs(10);

/// The lanes of a topic, for one version of the subscriptions.
#[derive(Debug)]
pub(super) struct Audience {
    pub(super) version: i64,
    pub(super) lanes: Vec<String>,
    /// Whether some consumers are remote and expected to report.
    pub(super) remote: bool,
    asked_at: Instant,
}

/// The cached audiences of this process.
#[derive(Debug, Clone, Default)]
pub(super) struct Audiences(Arc<RwLock<HashMap<String, Arc<Audience>>>>);

impl Audiences {
    /// Returns the cached audience, or reads it on the caller's own connection: a second connection might have to
    /// wait for the first. Returns `None` if there is no version to cache it by.
    pub(super) async fn of(&self, conn: &mut PgConnection, topic: &str) -> Result<Option<Arc<Audience>>> {
        let remembered = self.0.read().unwrap_or_else(PoisonError::into_inner).get(topic).cloned();
        if let Some(audience) = remembered
            && (!audience.lanes.is_empty() || audience.asked_at.elapsed() < LANELESS)
        {
            return Ok(Some(audience));
        }
        let row = sqlx::query_as(sql!("events/audience")).bind(topic).fetch_optional(conn).await?;
        let Some((version, lanes, remote)) = row else { return Ok(None) };
        let audience = Arc::new(Audience { version, lanes, remote, asked_at: Instant::now() });
        let mut topics = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if topics.len() >= TOPICS {
            topics.clear();
        }
        topics.insert(topic.into(), Arc::clone(&audience));
        Ok(Some(audience))
    }

    pub(super) fn forget(&self, topic: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(topic);
    }
}
