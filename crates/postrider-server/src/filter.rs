//! The filter for events: the same fields in the query of a list and in the body of a bulk operation.

use std::collections::BTreeSet;

use postrider::status::EventStatus;
use postrider::store::Filter;
use postrider::{EventId, Scope, limits};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::{IntoParams, ToSchema};

use crate::App;
use crate::input::{self, Id, Time};
use crate::problem::Problem;
use crate::view::{At, DeliveryStatusView};

/// A field that is left out matches everything.
#[derive(Default, Deserialize, ToSchema, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Filter)]
#[into_params(parameter_in = Query)]
pub(crate) struct FilterIn {
    /// Of this topic.
    #[schema(pattern = "^[A-Za-z0-9._-]{1,128}$")]
    #[param(pattern = "^[A-Za-z0-9._-]{1,128}$")]
    topic: Option<String>,
    /// That stand here; several with commas between them.
    #[schema(pattern = "^[A-Z]+(,[A-Z]+)*$", example = "SENT,RETRYING")]
    #[param(pattern = "^[A-Z]+(,[A-Z]+)*$", example = "SENT,RETRYING")]
    status: Option<String>,
    /// That wait because their topic has no subscription.
    #[serde(default, deserialize_with = "input::flag")]
    unheard: bool,
    /// Stored at least so many seconds ago, by the store's clock.
    #[schema(value_type = Option<u32>)]
    #[param(value_type = Option<u32>)]
    older_than_seconds: Option<Id>,
    /// With a delivery that stands here.
    #[schema(value_type = Option<DeliveryStatusView>)]
    #[param(value_type = Option<DeliveryStatusView>)]
    delivery_status: Option<String>,
    /// Written by this service.
    service: Option<String>,
    /// Of this trace.
    trace_id: Option<String>,
    /// Caused by this event.
    parent_event_id: Option<Id>,
    /// Of aggregates of this type.
    aggregate_type: Option<String>,
    /// Of the aggregate with this id; requires its type.
    aggregate_id: Option<Id>,
    /// With this key.
    key: Option<Id>,
    /// That came as a CloudEvent with this id, of any source.
    cloud_event_id: Option<Id>,
    /// Expected of this consumer.
    #[schema(pattern = "^[A-Za-z0-9._-]{1,128}$")]
    #[param(pattern = "^[A-Za-z0-9._-]{1,128}$")]
    consumer_id: Option<String>,
    /// Of this tenant.
    tenant_id: Option<Id>,
    /// Stored at this time or later.
    from: Option<Time>,
    /// Stored before this time.
    to: Option<Time>,
    /// In this group of failures: a `groupId` of `GET /failures`.
    failure_group: Option<String>,
    /// With these ids; several with commas between them, at most 1,000.
    event_ids: Option<String>,
}

impl FilterIn {
    /// The filter as the library takes it, inside a scope. Text that a store could not hold is refused.
    pub(crate) async fn into_filter(self, app: &App, scope: &Scope) -> Result<Filter, Problem> {
        let id = |id: Option<Id>| id.map(|id| id.0);
        let older_than = id(self.older_than_seconds).map(|text| seconds(&text)).transpose()?;
        let statuses = self.status.map(|text| statuses(&text)).transpose()?.unwrap_or_default();
        let (status, statuses) = match &*statuses {
            [one] => (Some(*one), Vec::new()),
            _ => (None, statuses),
        };
        let mut filter = Filter {
            topic: name("topic", self.topic)?,
            status,
            statuses,
            unheard: self.unheard,
            delivery_status: self.delivery_status.map(|text| text.parse()).transpose()?,
            service: text("service", self.service, limits::INITIATOR_BYTES)?,
            trace_id: text("traceId", self.trace_id, limits::LABEL_CHARS)?,
            parent_event_id: event_id("parentEventId", id(self.parent_event_id))?,
            aggregate_type: text("aggregateType", self.aggregate_type, limits::LABEL_CHARS)?,
            aggregate_id: text("aggregateId", id(self.aggregate_id), limits::LABEL_CHARS)?,
            key: text("key", id(self.key), limits::KEY_CHARS)?,
            cloud_event_id: text("cloudEventId", id(self.cloud_event_id), limits::INITIATOR_BYTES)?,
            consumer: name("consumerId", self.consumer_id)?,
            tenant_id: text("tenantId", id(self.tenant_id), limits::LABEL_CHARS)?,
            from: self.from.map(|at| at.0),
            to: self.to.map(|at| at.0),
            failure_groups: text("failureGroup", self.failure_group, limits::KEY_CHARS)?.into_iter().collect(),
            event_ids: self.event_ids.map(|ids| event_ids(ids.split(','))).transpose()?.unwrap_or_default(),
            scope: scope.clone(),
        };
        filter.check()?;
        if let Some(older_than) = older_than {
            let until = app.store.now().await? - older_than;
            filter.to = Some(filter.to.map_or(until, |to| to.min(until)));
        }
        Ok(filter)
    }
}

fn statuses(text: &str) -> Result<Vec<EventStatus>, Problem> {
    let mut statuses = text.split(',').map(str::parse).collect::<postrider::Result<Vec<EventStatus>>>()?;
    statuses.sort_unstable();
    statuses.dedup();
    Ok(statuses)
}

fn seconds(text: &str) -> Result<time::Duration, Problem> {
    let seconds = text.parse::<u32>().map(|seconds| time::Duration::seconds(seconds.into()));
    seconds.map_err(|_| Problem::invalid("olderThanSeconds", format!("must be a number of seconds, is {text:?}")))
}

fn name(field: &str, name: Option<String>) -> Result<Option<String>, Problem> {
    if name.as_deref().is_none_or(input::is_name) {
        Ok(name)
    } else {
        Err(Problem::invalid(field, "must be 1 to 128 of A-Z a-z 0-9 . _ -"))
    }
}

fn event_id(field: &str, id: Option<String>) -> Result<Option<String>, Problem> {
    match id.as_deref().map(EventId::new) {
        Some(Err(_)) => Err(Problem::invalid(field, "can be no event's id")),
        _ => Ok(id),
    }
}

/// Ids of events, each once.
pub(crate) fn event_ids<'a>(ids: impl Iterator<Item = &'a str>) -> Result<Vec<String>, Problem> {
    let ids: BTreeSet<&str> = ids.collect();
    if ids.len() > limits::CHOSEN_EVENTS {
        let most = limits::CHOSEN_EVENTS;
        return Err(Problem::invalid("eventIds", format!("may name {most} events at most: use a filter for more")));
    }
    ids.into_iter().map(|id| event_id("eventIds", Some(id.into())).map(Option::unwrap_or_default)).collect()
}

fn text(field: &str, text: Option<String>, most: usize) -> Result<Option<String>, Problem> {
    if let Some(text) = &text {
        input::short(field, text, most)?;
    }
    Ok(text)
}

/// A filter as it is shown.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StoredFilter)]
pub(crate) struct FilterView {
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<String>,
    /// One, or several with commas between them.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    unheard: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    delivery_status: Option<DeliveryStatusView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_event_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregate_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregate_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    consumer_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<At>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<At>,
}

impl From<Filter> for FilterView {
    fn from(filter: Filter) -> Self {
        let at = |at: Option<OffsetDateTime>| at.map(Into::into);
        let statuses: Vec<_> = filter.status.iter().chain(&filter.statuses).map(|status| status.as_str()).collect();
        Self {
            topic: filter.topic,
            status: Some(statuses.join(",")).filter(|text| !text.is_empty()),
            unheard: filter.unheard,
            delivery_status: filter.delivery_status.map(Into::into),
            service: filter.service,
            trace_id: filter.trace_id,
            parent_event_id: filter.parent_event_id,
            aggregate_type: filter.aggregate_type,
            aggregate_id: filter.aggregate_id,
            key: filter.key,
            consumer_id: filter.consumer,
            tenant_id: filter.tenant_id,
            from: at(filter.from),
            to: at(filter.to),
        }
    }
}
