//! Lists of events. One indexed filter leads; the others are checked on the events that it returns, on a bounded
//! number per page.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::entry::DeliveryStatus;
use crate::error::{Error, Result};
use crate::failures;
use crate::limits;
use crate::scope::Scope;
use crate::status::{EventStatus, Record};
use crate::store::Routing;

/// Which events to list. An empty field matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Filter {
    /// The topic.
    pub topic: Option<String>,
    /// The status of the event.
    pub status: Option<EventStatus>,
    /// Several statuses, of which the event has one; empty matches everything.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub statuses: Vec<EventStatus>,
    /// PENDING, because its topic has no subscriber.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unheard: bool,
    /// The status of one of its deliveries.
    pub delivery_status: Option<DeliveryStatus>,
    /// The service that published it.
    pub service: Option<String>,
    /// The trace.
    pub trace_id: Option<String>,
    /// The event that caused it.
    pub parent_event_id: Option<String>,
    /// The type of its aggregate.
    pub aggregate_type: Option<String>,
    /// The id of its aggregate; requires `aggregate_type`.
    pub aggregate_id: Option<String>,
    /// Its key.
    pub key: Option<String>,
    /// The id of the CloudEvent that it came as, of any source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_event_id: Option<String>,
    /// A consumer that it is expected to reach.
    #[serde(rename = "consumerId")]
    pub consumer: Option<String>,
    /// Its tenant.
    pub tenant_id: Option<String>,
    /// Stored at this time or later.
    #[serde(with = "time::serde::rfc3339::option")]
    pub from: Option<OffsetDateTime>,
    /// Stored before this time.
    #[serde(with = "time::serde::rfc3339::option")]
    pub to: Option<OffsetDateTime>,
    /// These events; empty matches everything.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub event_ids: Vec<String>,
    /// Of one of these groups of failures, by [`FailureGroup::id`](crate::failures::FailureGroup::id); empty matches everything.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failure_groups: Vec<String>,
    /// Inside this scope.
    #[serde(skip_serializing_if = "Scope::is_everything")]
    pub scope: Scope,
}

impl Filter {
    /// Every event inside a scope.
    pub fn within(scope: &Scope) -> Self {
        Self { scope: scope.clone(), ..Self::default() }
    }

    /// Validates the filter.
    pub fn check(&self) -> Result<()> {
        if self.aggregate_id.is_some() && self.aggregate_type.is_none() {
            return Err(Error::invalid("aggregateType", "is needed with aggregateId".into()));
        }
        if self.event_ids.len() > limits::CHOSEN_EVENTS {
            let most = limits::CHOSEN_EVENTS;
            return Err(Error::invalid("eventIds", format!("may name {most} events at most: use a filter for more")));
        }
        if self.failure_groups.len() > limits::FAILURE_GROUPS {
            let most = limits::FAILURE_GROUPS;
            return Err(Error::invalid(
                "failureGroups",
                format!("may name {most} groups at most: use a filter for more"),
            ));
        }
        if self.failure_groups.iter().any(|group| failures::consumer_of(group).is_none()) {
            return Err(Error::invalid("failureGroup", "must be a groupId of the failures".into()));
        }
        Ok(())
    }

    /// Whether an event matches.
    pub fn matches(&self, record: &Record) -> bool {
        let event = &record.envelope;
        let is = |wanted: &Option<String>, actual: Option<&str>| wanted.is_none() || wanted.as_deref() == actual;
        self.scope.has_event(record)
            && is(&self.topic, Some(&event.topic))
            && is(&self.service, event.initiator.service.as_deref())
            && is(&self.trace_id, event.trace_id.as_deref())
            && is(&self.parent_event_id, event.parent_event_id.as_ref().map(|id| id.as_str()))
            && is(&self.aggregate_type, event.aggregate.as_ref().map(|aggregate| aggregate.kind.as_str()))
            && is(&self.aggregate_id, event.aggregate.as_ref().map(|aggregate| aggregate.id.as_str()))
            && is(&self.key, event.key.as_deref())
            && is(&self.cloud_event_id, event.cloud_event_id.as_deref())
            && is(&self.tenant_id, event.tenant_id.as_deref())
            && self.from.is_none_or(|from| from <= record.created_at)
            && self.to.is_none_or(|to| record.created_at < to)
            && self.consumer.as_deref().is_none_or(|consumer| record.consumers().contains_key(consumer))
            && self.delivery_status.is_none_or(|status| {
                let of_consumer = |lane: &str, target: Option<&str>| {
                    self.consumer.as_deref().is_none_or(|consumer| lane == consumer || target == Some(consumer))
                };
                record
                    .deliveries
                    .iter()
                    .any(|one| one.status == status && of_consumer(&one.lane, one.target.as_deref()))
            })
            && (!self.unheard || record.routing == Routing::Unheard)
            && (self.event_ids.is_empty() || self.event_ids.iter().any(|id| id == event.event_id.as_str()))
            && (self.failure_groups.is_empty() || failures::is_in(record, &self.failure_groups))
            && self.wanted_statuses().is_none_or(|wanted| wanted.contains(&record.standing().status))
    }

    /// Whether only the whole rows of an event tell if it matches, because no index knows it.
    pub(super) fn needs_rows(&self) -> bool {
        !self.scope.is_everything() || !self.failure_groups.is_empty()
    }

    /// Whether events of this status may match.
    pub fn wants(&self, status: EventStatus) -> bool {
        self.wanted_statuses().is_none_or(|wanted| wanted.contains(&status))
    }

    /// The statuses that match; `None` if all do.
    pub(super) fn wanted_statuses(&self) -> Option<Vec<EventStatus>> {
        let of_group = !self.failure_groups.is_empty();
        if self.status.is_none() && self.statuses.is_empty() && !self.unheard && !of_group {
            return None;
        }
        let is_wanted = |status: &EventStatus| {
            self.status.is_none_or(|one| one == *status)
                && (self.statuses.is_empty() || self.statuses.contains(status))
                && (!self.unheard || *status == EventStatus::Pending)
                && (!of_group || failures::OPEN.contains(status))
        };
        Some(EventStatus::ALL.into_iter().filter(is_wanted).collect())
    }
}

/// The end of a page, from [`Page::next`].
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

/// A request for one page.
#[derive(Debug, Clone, Default)]
pub struct List {
    /// Which events to list.
    pub filter: Filter,
    /// Page size: 1 to [`limits::PAGE_EVENTS`].
    pub limit: u32,
    /// Where the last page ended; `None` starts with the newest.
    pub after: Option<Cursor>,
}

impl List {
    /// The first page of the events that match.
    pub fn new(filter: Filter, limit: u32) -> Self {
        Self { filter, limit, after: None }
    }

    /// Validates the request.
    pub(crate) fn check(&self) -> Result<()> {
        limits::page(self.limit)?;
        self.filter.check()
    }
}

/// Events, the newest first.
#[derive(Debug, Clone)]
pub struct Page {
    /// Without payload and metadata. May hold fewer events than asked for, or none, although `next` is set.
    pub events: Vec<Record>,
    /// Where the next page starts; `None` at the end of the list.
    pub next: Option<Cursor>,
}

/// How many events match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counted {
    /// The number.
    pub value: u64,
    /// Whether all were counted; otherwise the number is an estimate.
    pub exact: bool,
}
