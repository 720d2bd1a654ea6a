//! An event: a fact about your business, as your program knows it.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Result;
use crate::limits;

/// A fact that is written in the transaction that makes it true.
///
/// ```
/// use postrider::{Aggregate, Event};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct OrderPaid { order_id: i64, amount_cents: i64 }
///
/// impl Event for OrderPaid {
///     const TOPIC: &'static str = "order.paid";
///     fn aggregate(&self) -> Option<Aggregate> { Some(Aggregate::new("ORDER", self.order_id)) }
///     fn key(&self) -> Option<String> { Some(self.order_id.to_string()) } // events of one key stay in order
///     fn event_id(&self) -> Option<String> { Some(format!("order:{}:paid", self.order_id)) } // one such event per order
/// }
/// ```
pub trait Event: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// What kind of fact this is: `order.paid`. Consumers subscribe to it.
    const TOPIC: &'static str;

    /// The thing the fact is about.
    fn aggregate(&self) -> Option<Aggregate> {
        None
    }

    /// Events of one key reach each consumer in the order in which they were enqueued, where the caller holds a lock on
    /// the aggregate when it enqueues. None: no order.
    fn key(&self) -> Option<String> {
        None
    }

    /// A deterministic id makes writing the same fact twice a no-op. None: a new UUID each time.
    fn event_id(&self) -> Option<String> {
        None
    }
}

/// The thing an event is about: its type and its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aggregate {
    /// `ORDER`
    pub kind: String,
    /// `7`
    pub id: String,
}

impl Aggregate {
    /// `Aggregate::new("ORDER", 7)`
    pub fn new(kind: impl Into<String>, id: impl fmt::Display) -> Self {
        Self { kind: kind.into(), id: id.to_string() }
    }
}

/// The id of an event: unique in its store, compared byte for byte, never reused.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(String);

impl EventId {
    /// Takes an id of the caller's own: 1 to 64 characters, no control characters.
    pub fn new(id: impl Into<String>) -> Result<Self> {
        let id = id.into();
        limits::text("eventId", &id, limits::EVENT_ID_CHARS)?;
        Ok(Self(id))
    }

    /// What the store holds was checked when it was written.
    pub(crate) fn stored(id: String) -> Self {
        Self(id)
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_id_stops_at_64_characters() {
        assert!(EventId::new("号".repeat(64)).is_ok());
        let refused = EventId::new("a".repeat(65)).expect_err("too long");
        assert_eq!(refused.to_string(), "eventId must have 1 to 64 characters, has 65");
        assert!(EventId::new("").is_err());
        assert!(EventId::new("a\0b").is_err());
    }
}
