//! Lists of events: what may be asked, and how a page is found. One indexed filter leads; the others are asked of what it
//! brings, of no more than a bounded number of events a page.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::entry::DeliveryStatus;
use crate::error::{Error, Result};
use crate::limits;
use crate::status::{EventStatus, Record};

/// What to list. What is not said matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Filter {
    /// Of this topic.
    pub topic: Option<String>,
    /// That stand here.
    pub status: Option<EventStatus>,
    /// With a delivery that stands here.
    pub delivery_status: Option<DeliveryStatus>,
    /// Written by this service.
    pub service: Option<String>,
    /// Of this trace.
    pub trace_id: Option<String>,
    /// Caused by this event.
    pub parent_event_id: Option<String>,
    /// Of aggregates of this type.
    pub aggregate_type: Option<String>,
    /// Of the aggregate with this id; its type has to be said too.
    pub aggregate_id: Option<String>,
    /// With this key.
    pub key: Option<String>,
    /// Expected of this consumer.
    #[serde(rename = "consumerId")]
    pub consumer: Option<String>,
    /// Of this tenant.
    pub tenant_id: Option<String>,
    /// Stored at this time or later.
    #[serde(with = "time::serde::rfc3339::option")]
    pub from: Option<OffsetDateTime>,
    /// Stored before this time.
    #[serde(with = "time::serde::rfc3339::option")]
    pub to: Option<OffsetDateTime>,
}

impl Filter {
    /// Refuses what cannot be asked.
    pub fn check(&self) -> Result<()> {
        if self.aggregate_id.is_some() && self.aggregate_type.is_none() {
            return Err(Error::invalid("aggregateType", "is needed with aggregateId".into()));
        }
        Ok(())
    }

    /// Whether an event is one of those.
    pub fn matches(&self, record: &Record) -> bool {
        let event = &record.envelope;
        let is = |wanted: &Option<String>, actual: Option<&str>| wanted.is_none() || wanted.as_deref() == actual;
        is(&self.topic, Some(&event.topic))
            && is(&self.service, event.initiator.service.as_deref())
            && is(&self.trace_id, event.trace_id.as_deref())
            && is(&self.parent_event_id, event.parent_event_id.as_ref().map(|id| id.as_str()))
            && is(&self.aggregate_type, event.aggregate.as_ref().map(|aggregate| aggregate.kind.as_str()))
            && is(&self.aggregate_id, event.aggregate.as_ref().map(|aggregate| aggregate.id.as_str()))
            && is(&self.key, event.key.as_deref())
            && is(&self.tenant_id, event.tenant_id.as_deref())
            && self.from.is_none_or(|from| from <= record.created_at)
            && self.to.is_none_or(|to| record.created_at < to)
            && self.consumer.as_deref().is_none_or(|consumer| record.consumers().contains_key(consumer))
            && self.delivery_status.is_none_or(|status| {
                let of_consumer = |lane: &str, target: &str| {
                    self.consumer.as_deref().is_none_or(|consumer| lane == consumer || target == consumer)
                };
                record.deliveries.iter().any(|one| one.status == status && of_consumer(&one.lane, &one.target))
            })
            && self.status.is_none_or(|status| record.standing().status == status)
    }
}

/// Where a page ends and the next begins: what [`Page::next`] says, and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(pub(crate) i64);

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::str::FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let number = text.parse().ok().filter(|number| *number > 0);
        number.map(Self).ok_or_else(|| Error::invalid("cursor", "must be a nextCursor of this list".into()))
    }
}

/// Which page of which list.
#[derive(Debug, Clone, Default)]
pub struct List {
    /// Which events.
    pub filter: Filter,
    /// How many: 1 to [`limits::PAGE_EVENTS`].
    pub limit: u32,
    /// Where the last page ended; None: the newest.
    pub after: Option<Cursor>,
}

impl List {
    /// The first page of what matches.
    pub fn new(filter: Filter, limit: u32) -> Self {
        Self { filter, limit, after: None }
    }

    /// Refuses what cannot be asked.
    pub(crate) fn check(&self) -> Result<()> {
        if self.limit == 0 || self.limit > limits::PAGE_EVENTS {
            return Err(Error::invalid("limit", format!("must be 1 to {}, is {}", limits::PAGE_EVENTS, self.limit)));
        }
        self.filter.check()
    }
}

/// Events, the newest first.
#[derive(Debug, Clone)]
pub struct Page {
    /// Without payload and metadata. May be fewer than asked for, or none, and there may be more all the same.
    pub events: Vec<Record>,
    /// Where to go on; None: that was all.
    pub next: Option<Cursor>,
}
