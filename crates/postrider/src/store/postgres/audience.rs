//! Who hears which topic, as producers remember it. What is remembered is never trusted: the statement that uses it asks the
//! database whether its version of the subscriptions is still the one, and writes nothing if it is not.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use sqlx::PgConnection;

use crate::error::Result;

/// Topics remembered; beyond that all are forgotten, and asked for again.
const TOPICS: usize = 1_000;
/// How long a topic without lanes counts as such. Its events take a statement that looks for itself, so that this is
/// about speed only.
const LANELESS: Duration = Duration::from_secs(10);

/// The lanes of a topic, by one version of the subscriptions.
#[derive(Debug)]
pub(super) struct Audience {
    pub(super) version: i64,
    pub(super) lanes: Vec<String>,
    /// Whether some of them report from elsewhere, and are to be expected.
    pub(super) remote: bool,
    asked_at: Instant,
}

/// The audiences that this process has asked for.
#[derive(Debug, Clone, Default)]
pub(super) struct Audiences(Arc<RwLock<HashMap<String, Arc<Audience>>>>);

impl Audiences {
    /// Remembered, or asked for on the caller's own connection: a second one might have to wait for the first.
    /// None: there is nothing to remember it by.
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
