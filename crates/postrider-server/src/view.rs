//! Events as they are shown: what is known of them, and what became of them.

use std::collections::BTreeMap;

use postrider::entry::DeliveryStatus;
use postrider::envelope::Encoding;
use postrider::status::{Attempt, ConsumerState, EventStatus, Facts, consumer_state, status_of};
use postrider::store::{Consumption, Delivery, DeliveryId, Found, Routing};
use postrider::subscription::RABBITMQ;
use postrider::{Envelope, Initiator};
use serde::Serialize;
use serde_json::value::RawValue;
use time::OffsetDateTime;
use utoipa::ToSchema;

/// A time in an answer: RFC 3339, UTC.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(transparent)]
pub(crate) struct At(#[serde(with = "time::serde::rfc3339")] OffsetDateTime);

impl From<OffsetDateTime> for At {
    fn from(time: OffsetDateTime) -> Self {
        Self(time.to_offset(time::UtcOffset::UTC))
    }
}

impl utoipa::PartialSchema for At {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        <crate::input::Time as utoipa::PartialSchema>::schema()
    }
}

impl ToSchema for At {}

/// JSON that is shown as it is stored.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct AnyJson(Box<RawValue>);

impl utoipa::PartialSchema for AnyJson {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        <crate::input::Raw as utoipa::PartialSchema>::schema()
    }
}

impl ToSchema for AnyJson {}

impl AnyJson {
    /// Text that is JSON as such, other text as a string.
    fn of(text: &str, is_json: bool) -> Self {
        let as_json = is_json.then(|| RawValue::from_string(text.into()).ok()).flatten();
        let as_text = || RawValue::from_string(serde_json::Value::from(text).to_string()).unwrap_or_default();
        Self(as_json.unwrap_or_else(as_text))
    }
}

/// Where an event stands as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Status {
    Pending,
    Sent,
    Consumed,
    Partial,
    Failed,
    Retrying,
    Expired,
}

impl From<EventStatus> for Status {
    fn from(status: EventStatus) -> Self {
        match status {
            EventStatus::Pending => Self::Pending,
            EventStatus::Sent => Self::Sent,
            EventStatus::Consumed => Self::Consumed,
            EventStatus::Partial => Self::Partial,
            EventStatus::Failed => Self::Failed,
            EventStatus::Retrying => Self::Retrying,
            EventStatus::Expired => Self::Expired,
        }
    }
}

/// An event, its payload where the caller may see it, and everything that happened to it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventDetail {
    event_id: String,
    topic: String,
    status: Status,
    expected_consumers: usize,
    consumed_consumers: usize,
    failed_consumers: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    created_at: At,
    #[serde(flatten)]
    said: Said,
    /// Whether payload and metadata are left out, because the caller's role does not see them.
    masked: bool,
    consumptions: Vec<ConsumptionView>,
    deliveries: Vec<DeliveryView>,
}

/// What an event says of itself beside its topic.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Said {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = AnyJson, required = false)]
    payload: Option<AnyJson>,
    payload_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_encoding: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    span_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_event_id: Option<String>,
    initiator: InitiatorView,
    occurred_at: At,
    #[serde(skip_serializing_if = "Option::is_none")]
    expire_at: Option<At>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deliver_at: Option<At>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    store_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregate_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregate_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = AnyJson, required = false)]
    metadata: Option<AnyJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exchange: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    routing_key: Option<String>,
}

/// The whole event, as a pulling consumer gets it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Event)]
pub(crate) struct EventView {
    event_id: String,
    topic: String,
    #[serde(flatten)]
    said: Said,
}

/// Who or what caused an event.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Initiator)]
pub(crate) struct InitiatorView {
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_request_id: Option<String>,
}

/// One attempt of one consumer; attempt 0 says that it is expected.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Consumption)]
pub(crate) struct ConsumptionView {
    consumer_id: String,
    attempt_no: u32,
    success: Option<bool>,
    will_retry: bool,
    consumed_at: Option<At>,
    error_message: Option<String>,
    error_code: Option<String>,
    created_at: At,
}

/// Something that waits, is worked on, or was given up.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Delivery)]
pub(crate) struct DeliveryView {
    delivery_id: String,
    lane: String,
    consumer_id: Option<String>,
    shard: u8,
    status: String,
    /// Whether it waits behind a dead one of its key.
    held: bool,
    attempts: u32,
    max_attempts: Option<u32>,
    due_at: At,
    lock_owner: Option<String>,
    lock_time: Option<At>,
    lock_until: Option<At>,
    last_error: Option<String>,
}

impl EventDetail {
    /// The event as the store has it, at its own time.
    pub(crate) fn of(found: Found, now: OffsetDateTime, with_payload: bool) -> Self {
        let consumers = consumers(&found);
        let count = |state| consumers.values().filter(|one| **one == state).count();
        let mut waiting_errors = found.deliveries.iter().filter_map(|delivery| delivery.last_error.clone());
        let errors = found.consumptions.iter().filter_map(|one| Some((one.created_at, one.error.clone()?)));
        let last_error =
            errors.max_by_key(|(at, _)| *at).map(|(_, error)| error).or_else(|| waiting_errors.next_back());
        let max_attempts = found.envelope.max_attempts;
        let facts = facts(&found, consumers.values().copied().collect(), now);
        Self {
            event_id: found.envelope.event_id.to_string(),
            topic: found.envelope.topic.clone(),
            status: status_of(&facts).into(),
            expected_consumers: consumers.len(),
            consumed_consumers: count(ConsumerState::Ok),
            failed_consumers: count(ConsumerState::Failed),
            last_error,
            created_at: found.created_at.into(),
            said: Said::of(found.envelope, with_payload),
            masked: !with_payload,
            consumptions: found.consumptions.into_iter().map(Into::into).collect(),
            deliveries: found.deliveries.into_iter().map(|one| DeliveryView::of(one, max_attempts)).collect(),
        }
    }
}

/// Every expected consumer and how it stands: those with a lane of their own by delivery and attempts, the others by what
/// they report.
fn consumers(found: &Found) -> BTreeMap<String, ConsumerState> {
    let mut attempts: BTreeMap<String, Vec<Attempt>> = BTreeMap::new();
    for one in &found.consumptions {
        let of_consumer = attempts.entry(one.consumer.clone()).or_default();
        of_consumer.extend(one.success.map(|success| Attempt { success, will_retry: one.will_retry }));
    }
    let waits = |delivery: &&Delivery| consumer_of(delivery).is_some();
    for delivery in found.deliveries.iter().filter(waits) {
        attempts.entry(consumer_of(delivery).unwrap_or_default().into()).or_default();
    }
    let state = |(consumer, attempts): (String, Vec<Attempt>)| {
        let delivery = found.deliveries.iter().find(|one| consumer_of(one) == Some(&consumer));
        let state = match (consumer_state(&attempts), delivery.map(|one| one.status)) {
            (ConsumerState::Ok, _) => ConsumerState::Ok,
            (_, Some(DeliveryStatus::Dead)) => ConsumerState::Failed,
            (ConsumerState::Failed, Some(_)) => ConsumerState::Retrying,
            (state, _) => state,
        };
        (consumer, state)
    };
    attempts.into_iter().map(state).collect()
}

/// Whose delivery it is; None: the broker's, for all its consumers.
fn consumer_of(delivery: &Delivery) -> Option<&str> {
    match (delivery.lane.as_str(), delivery.target.as_str()) {
        (RABBITMQ, "") => None,
        (RABBITMQ, target) => Some(target),
        (lane, _) => Some(lane),
    }
}

fn facts(found: &Found, consumers: Vec<ConsumerState>, now: OffsetDateTime) -> Facts {
    let mut of_broker = found.deliveries.iter().filter(|one| one.lane == RABBITMQ);
    let is_dead = |one: &Delivery| one.status == DeliveryStatus::Dead;
    let tried =
        found.consumptions.iter().any(|one| one.attempt > 0) || found.deliveries.iter().any(|one| one.attempts > 0);
    let expected = found.consumptions.iter().any(|one| one.attempt == 0);
    Facts {
        consumers,
        expired: found.envelope.expire_at.is_some_and(|at| at <= now),
        redriven: false,
        broker_dead: of_broker.clone().any(is_dead),
        sent: tried || (expected && found.routing == Routing::Routed && of_broker.next().is_none()),
    }
}

impl Said {
    pub(crate) fn of(envelope: Envelope, with_payload: bool) -> Self {
        let is_json = envelope.is_json();
        let (aggregate_type, aggregate_id) = envelope.aggregate.map(|a| (a.kind, a.id)).unzip();
        let Initiator { service, operation, user_id, client_request_id } = envelope.initiator;
        Self {
            payload: with_payload.then(|| AnyJson::of(&envelope.payload, is_json)),
            payload_type: envelope.payload_type,
            payload_encoding: (envelope.payload_encoding == Encoding::Base64).then(|| "base64".into()),
            trace_id: envelope.trace_id,
            span_id: envelope.span_id,
            parent_event_id: envelope.parent_event_id.map(|id| id.to_string()),
            initiator: InitiatorView { service, operation, user_id, client_request_id },
            occurred_at: envelope.occurred_at.into(),
            expire_at: envelope.expire_at.map(Into::into),
            deliver_at: envelope.deliver_at.map(Into::into),
            key: envelope.key,
            tenant_id: envelope.tenant_id,
            store_id: envelope.store_id,
            aggregate_type,
            aggregate_id,
            metadata: envelope.metadata.filter(|_| with_payload).map(|text| AnyJson::of(&text, true)),
            max_attempts: envelope.max_attempts,
            exchange: envelope.exchange,
            routing_key: envelope.routing_key,
        }
    }
}

impl From<Envelope> for EventView {
    fn from(envelope: Envelope) -> Self {
        let (event_id, topic) = (envelope.event_id.to_string(), envelope.topic.clone());
        Self { event_id, topic, said: Said::of(envelope, true) }
    }
}

impl From<Consumption> for ConsumptionView {
    fn from(one: Consumption) -> Self {
        Self {
            consumer_id: one.consumer,
            attempt_no: one.attempt,
            success: one.success,
            will_retry: one.will_retry,
            consumed_at: one.consumed_at.map(Into::into),
            error_message: one.error,
            error_code: one.code,
            created_at: one.created_at.into(),
        }
    }
}

impl DeliveryView {
    fn of(delivery: Delivery, max_attempts: Option<u32>) -> Self {
        Self {
            delivery_id: delivery_id(delivery.id),
            consumer_id: consumer_of(&delivery).map(Into::into),
            lane: delivery.lane,
            shard: delivery.shard,
            status: delivery.status.as_str().into(),
            held: delivery.held,
            attempts: delivery.attempts,
            max_attempts,
            due_at: delivery.due_at.into(),
            lock_owner: delivery.lock_owner,
            lock_time: delivery.lock_time.map(Into::into),
            lock_until: delivery.lock_until.map(Into::into),
            last_error: delivery.last_error,
        }
    }
}

/// A delivery's id as text: its event's place, and its own number.
pub(crate) fn delivery_id(id: DeliveryId) -> String {
    format!("{}-{}", id.sequence, id.number)
}
