//! Events as they are shown: what is known of them, and what became of them.

mod detail;

use postrider::entry::DeliveryStatus;
use postrider::envelope::Encoding;
use postrider::status::{ConsumerState, EventStatus};
use postrider::store::{Consumption, Delivery, DeliveryId, KeyFront, Record};
use postrider::{Envelope, Initiator};
use serde::Serialize;
use serde_json::value::RawValue;
use time::OffsetDateTime;
use utoipa::ToSchema;

pub(crate) use detail::{EventDetail, Fronts, LaneAttempts, PayloadPart, consumptions, deliveries};

/// A time in an answer: RFC 3339, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(transparent)]
pub(crate) struct At(#[serde(with = "time::serde::rfc3339")] OffsetDateTime);

impl From<OffsetDateTime> for At {
    fn from(time: OffsetDateTime) -> Self {
        Self(time.to_offset(time::UtcOffset::UTC))
    }
}

impl At {
    /// The beginning of its span of so many seconds, counted from 1970.
    pub(crate) fn start_of(self, seconds: i64) -> OffsetDateTime {
        let start = self.0.unix_timestamp().div_euclid(seconds).saturating_mul(seconds);
        OffsetDateTime::from_unix_timestamp(start).unwrap_or(self.0)
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
    /// Text that is JSON as such, other text as a string. So is JSON that only lax parsers accept: the whole answer would be
    /// unreadable for the others.
    pub(crate) fn of(text: &str, is_json: bool) -> Self {
        let is_json = is_json && postrider::envelope::unreadable(text).is_none();
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

/// Where a delivery stands.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schema(as = DeliveryStatus)]
pub(crate) enum DeliveryStatusView {
    New,
    Processing,
    Failed,
    Dead,
}

impl From<DeliveryStatus> for DeliveryStatusView {
    fn from(status: DeliveryStatus) -> Self {
        match status {
            DeliveryStatus::New => Self::New,
            DeliveryStatus::Processing => Self::Processing,
            DeliveryStatus::Failed => Self::Failed,
            DeliveryStatus::Dead => Self::Dead,
        }
    }
}

/// An event in a list: where it stands, and by what it is found.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventSummary {
    event_id: String,
    topic: String,
    status: Status,
    /// How often it was redriven.
    retry_count: u32,
    expected_consumers: u32,
    consumed_consumers: u32,
    failed_consumers: u32,
    /// Those that failed and will be tried again.
    retrying_consumers: u32,
    /// Attempts of all consumers.
    attempts: u32,
    /// Whether a delivery waits behind a dead one of its key.
    held: bool,
    /// What went wrong last, of what has not gone well since.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    created_at: At,
    /// When it was first handed to a consumer, or confirmed by the broker.
    #[serde(skip_serializing_if = "Option::is_none")]
    sent_at: Option<At>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_sent_at: Option<At>,
    /// When anything last happened to it.
    updated_at: At,
    /// Since when it stands where it does.
    status_at: At,
    #[serde(flatten)]
    about: About,
}

/// By what an event is found, and who caused it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct About {
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    span_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_event_id: Option<String>,
    /// The id of the CloudEvent that it came as.
    #[serde(skip_serializing_if = "Option::is_none")]
    cloud_event_id: Option<String>,
    initiator: InitiatorView,
    occurred_at: At,
    #[serde(skip_serializing_if = "Option::is_none")]
    expire_at: Option<At>,
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
}

/// What an event carries, and how it is to be delivered.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Content {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = AnyJson, required = false)]
    payload: Option<AnyJson>,
    payload_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_encoding: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = AnyJson, required = false)]
    metadata: Option<AnyJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deliver_at: Option<At>,
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
    about: About,
    #[serde(flatten)]
    content: Content,
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
    /// The token that the event was published with, over HTTP; the other fields are what the publisher says.
    #[serde(skip_serializing_if = "Option::is_none")]
    token_id: Option<String>,
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
    status: DeliveryStatusView,
    /// Whether it waits behind a dead one of its key.
    held: bool,
    /// The dead event of its key that it waits behind; given with the detail of an event.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_by: Option<HeldBy>,
    /// The event of its key that comes before it; given with the detail of an event.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked_by: Option<BlockedBy>,
    /// Of a dead one: since when a person lets the later events of its key go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped_at: Option<At>,
    attempts: u32,
    /// Attempts in all: of the event, or as its lane is configured.
    max_attempts: u32,
    due_at: At,
    lock_owner: Option<String>,
    lock_time: Option<At>,
    lock_until: Option<At>,
    last_error: Option<String>,
}

/// A dead event that others of its key wait behind.
#[derive(Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HeldBy {
    event_id: String,
    topic: String,
}

/// An event whose turn comes first.
#[derive(Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BlockedBy {
    event_id: String,
    topic: String,
    /// Deliveries in front, at most 1,000.
    ahead: u32,
}

impl From<&Record> for EventSummary {
    fn from(record: &Record) -> Self {
        let standing = record.standing();
        Self {
            event_id: record.envelope.event_id.to_string(),
            topic: record.envelope.topic.clone(),
            status: standing.status.into(),
            retry_count: standing.redrives,
            expected_consumers: standing.expected,
            consumed_consumers: standing.consumed,
            failed_consumers: standing.failed,
            retrying_consumers: record.consumers().into_values().filter(|one| *one == ConsumerState::Retrying).count()
                as u32,
            attempts: record.consumptions.iter().filter(|one| one.attempt > 0).count() as u32,
            held: record.deliveries.iter().any(|one| one.held),
            created_at: record.created_at.into(),
            sent_at: standing.sent_at.map(Into::into),
            last_sent_at: standing.last_sent_at.map(Into::into),
            updated_at: standing.updated_at.into(),
            status_at: record.status_at(&standing).into(),
            last_error: standing.last_error,
            about: About::of(&record.envelope),
        }
    }
}

/// Events in a list.
pub(crate) fn summaries(records: &[Record]) -> Vec<EventSummary> {
    records.iter().map(Into::into).collect()
}

impl About {
    fn of(envelope: &Envelope) -> Self {
        let (aggregate_type, aggregate_id) = envelope.aggregate.clone().map(|a| (a.kind, a.id)).unzip();
        let Initiator { service, operation, user_id, client_request_id, token_id } = envelope.initiator.clone();
        Self {
            trace_id: envelope.trace_id.clone(),
            span_id: envelope.span_id.clone(),
            parent_event_id: envelope.parent_event_id.as_ref().map(ToString::to_string),
            cloud_event_id: envelope.cloud_event_id.clone(),
            initiator: InitiatorView { service, operation, user_id, client_request_id, token_id },
            occurred_at: envelope.occurred_at.into(),
            expire_at: envelope.expire_at.map(Into::into),
            key: envelope.key.clone(),
            tenant_id: envelope.tenant_id.clone(),
            store_id: envelope.store_id.clone(),
            aggregate_type,
            aggregate_id,
        }
    }
}

impl Content {
    fn of(envelope: Envelope, with_payload: bool) -> Self {
        let is_json = envelope.is_json();
        Self {
            payload: with_payload.then(|| AnyJson::of(&envelope.payload, is_json)),
            payload_type: envelope.payload_type.into_owned(),
            payload_encoding: (envelope.payload_encoding == Encoding::Base64).then(|| "base64".into()),
            metadata: envelope.metadata.filter(|_| with_payload).map(|text| AnyJson::of(&text, true)),
            deliver_at: envelope.deliver_at.map(Into::into),
            max_attempts: envelope.max_attempts,
            exchange: envelope.exchange,
            routing_key: envelope.routing_key,
        }
    }
}

impl From<Envelope> for EventView {
    fn from(envelope: Envelope) -> Self {
        let (event_id, topic) = (envelope.event_id.to_string(), envelope.topic.clone());
        Self { event_id, topic, about: About::of(&envelope), content: Content::of(envelope, true) }
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
    fn of(delivery: Delivery, max_attempts: u32) -> Self {
        Self {
            delivery_id: delivery_id(delivery.id),
            consumer_id: delivery.consumer().map(Into::into),
            lane: delivery.lane,
            shard: delivery.shard,
            status: delivery.status.into(),
            held: delivery.held,
            held_by: None,
            blocked_by: None,
            skipped_at: delivery.skipped_at.map(Into::into),
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

impl DeliveryView {
    /// With what it waits for.
    fn behind(mut self, front: Option<KeyFront>) -> Self {
        match front {
            Some(KeyFront { event_id, topic, dead: true, .. }) => self.held_by = Some(HeldBy { event_id, topic }),
            Some(KeyFront { event_id, topic, ahead, .. }) => {
                self.blocked_by = Some(BlockedBy { event_id, topic, ahead });
            }
            None => {}
        }
        self
    }
}

/// A delivery's id as text: its event's place, and its own number.
pub(crate) fn delivery_id(id: DeliveryId) -> String {
    format!("{}-{}", id.sequence, id.number)
}
