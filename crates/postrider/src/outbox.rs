//! The outbox: writes events in the caller's own transaction. After the commit the event is delivered; after a rollback it
//! does not exist.

mod statement;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use time::OffsetDateTime;
use tracing::Span;
use uuid::{NoContext, Timestamp, Uuid};

use crate::clock::{Clock, SystemClock};
use crate::consumer::Handling;
use crate::envelope::trace::TraceContext;
use crate::envelope::{Encoding, Envelope, Initiator, MetadataIds};
use crate::error::{Error, Result};
use crate::event::{Aggregate, Event, EventId, with_payload_version};
use crate::limits;
use crate::observe;
use crate::store::{Enlist, Enqueued, NewEvent, Unheard};
use crate::wake::Wake;

pub use statement::{Dialect, HasDialect, Statement};

/// Writes events in transactions of the store `S`.
#[derive(Clone)]
pub struct Outbox<S> {
    store: S,
    service: Option<String>,
    unheard: Unheard,
    clock: Arc<dyn Clock>,
}

impl<S: Enlist> Outbox<S> {
    /// An outbox that also keeps events of topics without a subscription.
    pub fn new(store: S) -> Self {
        Self::on(store)
    }

    /// What happens to an event of a topic without an enabled subscription.
    #[must_use]
    pub fn unheard(mut self, unheard: Unheard) -> Self {
        self.unheard = unheard;
        self
    }

    /// Writes one event in the transaction of `conn`: an [`Event`], or a [`Draft`] with more options.
    ///
    /// A known id with the same content is [`Enqueued::Duplicate`]; with other content it is
    /// [`Error::IdConflict`]. After any error the transaction must be rolled back.
    pub async fn enqueue(&self, conn: &mut S::Conn, event: impl IntoDraft) -> Result<Enqueued> {
        let mut enqueued = self.enqueue_many(conn, [event]).await?;
        enqueued.pop().ok_or_else(|| Error::Store("the store answered for no event".into()))
    }

    /// Writes many events with one statement, in order: 1,000 at most. One bad event refuses them all.
    pub async fn enqueue_many<D: IntoDraft>(
        &self,
        conn: &mut S::Conn,
        events: impl IntoIterator<Item = D>,
    ) -> Result<Vec<Enqueued>> {
        let batch = events
            .into_iter()
            .map(|event| complete(event.into_draft()?, self.service.as_deref(), self.clock.now()))
            .collect::<Result<Vec<_>>>()?;
        check_batch(&batch)?;
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let enqueued = self.store.enqueue(conn, &batch, self.unheard).await;
        observe::published(&batch, &enqueued);
        let enqueued = enqueued?;
        announce(self.store.wake(), &batch, &enqueued);
        Ok(enqueued)
    }
}

impl<S> Outbox<S> {
    fn on(store: S) -> Self {
        Self { store, service: None, unheard: Unheard::Keep, clock: Arc::new(SystemClock) }
    }

    /// The name of the service: the initiator of events that name none.
    #[must_use]
    pub fn service(mut self, name: impl Into<String>) -> Self {
        self.service = Some(name.into());
        self
    }

    /// Reads `occurredAt` from this clock. Nothing else depends on it: leases and due times are the database's.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }
}

/// Refuses a batch that is too long.
pub(crate) fn check_batch(batch: &[NewEvent]) -> Result<()> {
    if batch.len() <= limits::BATCH_EVENTS {
        return Ok(());
    }
    let message = format!("may be {} at most in one batch, are {}", limits::BATCH_EVENTS, batch.len());
    Err(Error::too_large("events", message))
}

/// Logs and counts what was enqueued, and wakes the relays of this process.
pub(crate) fn announce(wake: &Wake, batch: &[NewEvent], enqueued: &[Enqueued]) {
    let (mut created, mut unheard) = (0, 0);
    for (NewEvent { envelope, .. }, enqueued) in batch.iter().zip(enqueued) {
        let (event_id, topic, trace_id) =
            (envelope.event_id.as_str(), envelope.topic.as_str(), envelope.trace_id.as_deref());
        let request_id = envelope.request_id();
        match enqueued {
            Enqueued::Accepted(_) => {
                created += 1;
                tracing::info!(event_id, topic, trace_id, request_id, "{}", observe::ENQUEUED);
            }
            Enqueued::Duplicate(_) => {
                tracing::info!(event_id, topic, trace_id, request_id, "duplicate, written before");
            }
            Enqueued::Unheard(_) => {
                (created, unheard) = (created + 1, unheard + 1);
                if is_first_unheard(topic) {
                    tracing::warn!(
                        event_id,
                        topic,
                        trace_id,
                        "no consumer subscribes to this topic yet: its events are kept until one does"
                    );
                }
                tracing::debug!(event_id, topic, trace_id, "kept unheard: its topic has no subscription");
            }
            Enqueued::Skipped(_) => {
                unheard += 1;
                tracing::error!(event_id, topic, trace_id, "not stored: its topic has no subscription");
            }
        }
    }
    observe::created(created);
    observe::unheard(unheard);
    // One poke is enough: they commit together.
    let accepted = enqueued.iter().zip(batch).rfind(|(enqueued, _)| matches!(enqueued, Enqueued::Accepted(_)));
    if let Some((_, new)) = accepted {
        wake.poke(new.envelope.event_id.as_str(), &new.envelope.topic);
    }
}

/// Whether this process warns of a topic without a subscription: once, however many events it has.
fn is_first_unheard(topic: &str) -> bool {
    static WARNED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut warned = WARNED.lock().unwrap_or_else(PoisonError::into_inner);
    // Programs that make up topics could fill the memory.
    warned.len() < 1_000 && warned.insert(topic.to_owned())
}

/// Fills in what the draft leaves open, and checks every limit.
pub(crate) fn complete(draft: Draft, service: Option<&str>, now: OffsetDateTime) -> Result<NewEvent> {
    let fresh_id = draft.event_id.is_none();
    let event_id = match draft.event_id {
        Some(id) => EventId::new(id)?,
        None => EventId::stored(fresh_event_id(now)),
    };
    let mut envelope = Envelope::new(event_id, draft.topic, draft.payload, draft.occurred_at.unwrap_or(now));
    if let Some(payload_type) = draft.payload_type {
        envelope.payload_type = payload_type.into();
    }
    envelope.payload_encoding = draft.payload_encoding;
    envelope.key = draft.key;
    envelope.aggregate = draft.aggregate;
    envelope.tenant_id = draft.tenant_id;
    envelope.store_id = draft.store_id;
    // An event that a consumer enqueues is the child of the event that it consumes, in the same trace and by the same
    // request.
    let consumed = Handling::current();
    let consumed = consumed.as_ref().map(|handling| &handling.envelope);
    envelope.parent_event_id = match draft.parent_event_id {
        Some(id) => Some(EventId::new(id)?),
        None => consumed.map(|parent| parent.event_id.clone()),
    };
    let named = draft.metadata.as_deref().map(MetadataIds::of).unwrap_or_default();
    let chosen = draft.trace_id.or(named.trace_id);
    let inherited = if chosen.is_none() { consumed } else { None };
    let trace_id = chosen.or_else(|| inherited?.trace_id.clone());
    let caller = draft.caller_span_id.or_else(|| inherited?.span_id.clone());
    let span = publishing(&mut envelope, trace_id, draft.span_id, caller);
    envelope.initiator = draft.initiator;
    envelope.initiator.user_id = envelope.initiator.user_id.or(named.user_id);
    envelope.initiator.client_request_id = envelope
        .initiator
        .client_request_id
        .or(named.request_id)
        .or_else(|| consumed.and_then(|parent| parent.initiator.client_request_id.clone()));
    if envelope.initiator.service.is_none() {
        envelope.initiator.service = service.map(Into::into);
    }
    let metadata = match draft.version {
        Some(version) => Some(with_payload_version(draft.metadata, version)?),
        None => draft.metadata,
    };
    envelope.metadata = metadata.map(Into::into);
    envelope.fill_cloud_event_id();
    envelope.deliver_at = draft.deliver_at.map(crate::envelope::trim);
    envelope.expire_at = draft.expire_at.map(crate::envelope::trim);
    envelope.max_attempts = draft.max_attempts;
    envelope.exchange = draft.exchange;
    envelope.routing_key = draft.routing_key;
    envelope.check()?;
    Ok(NewEvent { envelope, fresh_id, delay: draft.delay, expire_after: draft.expire_after, span })
}

/// Opens the span `publish` and fills in the trace. `named` is the span that the caller says wrote the event, `caller` the
/// span that called this process. Where spans are collected, the event names its own span `publish`, so that the spans of its
/// consumers are below it.
fn publishing(
    envelope: &mut Envelope,
    trace_id: Option<String>,
    named: Option<String>,
    caller: Option<String>,
) -> Span {
    let span = observe::publishing(envelope);
    if let Some(trace_id) = trace_id.as_deref()
        && let Some(parent) = named.as_deref().or(caller.as_deref().filter(|_| !observe::is_current(trace_id)))
    {
        observe::set_parent(&span, trace_id, parent);
    }
    let place = observe::place(&span).filter(|place| trace_id.as_ref().is_none_or(|trace| *trace == place.trace_id));
    let span_place = place.unwrap_or_else(|| {
        let fresh = TraceContext::fresh();
        TraceContext { trace_id: trace_id.unwrap_or(fresh.trace_id), span_id: caller.unwrap_or(fresh.span_id) }
    });
    (envelope.trace_id, envelope.span_id) = (Some(span_place.trace_id), Some(named.unwrap_or(span_place.span_id)));
    span.record("trace_id", envelope.trace_id.as_deref());
    span
}

/// UUIDv7: new ids are next to each other in the index; random ids would be scattered.
fn fresh_event_id(now: OffsetDateTime) -> String {
    let seconds = u64::try_from(now.unix_timestamp()).unwrap_or_default();
    Uuid::new_v7(Timestamp::from_unix(NoContext, seconds, now.nanosecond())).to_string()
}

/// What [`Outbox::enqueue`] takes: a reference to an event, or a draft.
pub trait IntoDraft {
    /// The draft.
    fn into_draft(self) -> Result<Draft>;
}

impl<E: Event> IntoDraft for &E {
    fn into_draft(self) -> Result<Draft> {
        Draft::of(self)
    }
}

impl IntoDraft for Draft {
    fn into_draft(self) -> Result<Draft> {
        Ok(self)
    }
}

/// An event that is about to be written, with all its options.
///
/// ```
/// # use postrider::Draft;
/// # use std::time::Duration;
/// let reminder = Draft::json("order.reminder", &serde_json::json!({"orderId": 7}))?
///     .event_id("order:7:reminder")
///     .delay(Duration::from_secs(3600))
///     .expire_after(Duration::from_secs(86_400));
/// # Ok::<_, postrider::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Draft {
    event_id: Option<String>,
    topic: String,
    payload: String,
    payload_type: Option<String>,
    payload_encoding: Encoding,
    /// `None` means 1, which is not written.
    version: Option<u32>,
    key: Option<String>,
    aggregate: Option<Aggregate>,
    tenant_id: Option<String>,
    store_id: Option<String>,
    trace_id: Option<String>,
    span_id: Option<String>,
    /// The span that called this process, by `traceparent`.
    caller_span_id: Option<String>,
    parent_event_id: Option<String>,
    initiator: Initiator,
    metadata: Option<String>,
    occurred_at: Option<OffsetDateTime>,
    deliver_at: Option<OffsetDateTime>,
    delay: Option<Duration>,
    expire_at: Option<OffsetDateTime>,
    expire_after: Option<Duration>,
    max_attempts: Option<u32>,
    exchange: Option<String>,
    routing_key: Option<String>,
}

impl Draft {
    /// A draft of a typed event.
    pub fn of<E: Event>(event: &E) -> Result<Self> {
        let mut draft = Self::json(E::TOPIC, event)?;
        draft.version = (E::VERSION != 1).then_some(E::VERSION);
        draft.event_id = event.event_id();
        draft.key = event.key();
        draft.aggregate = event.aggregate();
        Ok(draft)
    }

    /// A draft of anything that can be written as JSON.
    pub fn json(topic: impl Into<String>, payload: &(impl serde::Serialize + ?Sized)) -> Result<Self> {
        let payload = serde_json::to_string(payload).map_err(Error::Encode)?;
        Ok(Self { topic: topic.into(), payload, ..Self::default() })
    }

    /// A draft of text of some other type than JSON.
    pub fn text(topic: impl Into<String>, payload_type: impl Into<String>, payload: impl Into<String>) -> Self {
        Self {
            topic: topic.into(),
            payload: payload.into(),
            payload_type: Some(payload_type.into()),
            ..Self::default()
        }
    }

    /// A draft of bytes; they are stored as base64.
    pub fn bytes(topic: impl Into<String>, payload_type: impl Into<String>, payload: impl AsRef<[u8]>) -> Self {
        use base64::prelude::*;
        let mut draft = Self::text(topic, payload_type, BASE64_STANDARD.encode(payload));
        draft.payload_encoding = Encoding::Base64;
        draft
    }

    /// Keeps the events of one key in order; see [`Event::key`].
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the id of the event.
    #[must_use]
    pub fn event_id(mut self, id: impl Into<String>) -> Self {
        self.event_id = Some(id.into());
        self
    }

    /// Sets what the event is about.
    #[must_use]
    pub fn aggregate(mut self, aggregate: Aggregate) -> Self {
        self.aggregate = Some(aggregate);
        self
    }

    /// Sets the tenant.
    #[must_use]
    pub fn tenant(mut self, id: impl Into<String>) -> Self {
        self.tenant_id = Some(id.into());
        self
    }

    /// Sets the store (shop, branch) that it comes from.
    #[must_use]
    pub fn store(mut self, id: impl Into<String>) -> Self {
        self.store_id = Some(id.into());
        self
    }

    /// Continues a trace. `span_id` is stored as the span that wrote the event; if it is `None`, that is the span `publish`.
    #[must_use]
    pub fn trace(mut self, trace_id: impl Into<String>, span_id: Option<String>) -> Self {
        self.trace_id = Some(trace_id.into());
        self.span_id = span_id;
        self
    }

    /// Continues the trace of a W3C `traceparent` header: the span `publish` is below the span that the header names. An
    /// invalid header begins a new trace.
    #[must_use]
    pub fn traceparent(mut self, header: &str) -> Self {
        if let Some(context) = TraceContext::parse(header) {
            self.trace_id = Some(context.trace_id);
            self.caller_span_id = Some(context.span_id);
        }
        self
    }

    pub(crate) fn id(&self) -> Option<&str> {
        self.event_id.as_deref()
    }

    pub(crate) fn parent_id(&self) -> Option<&str> {
        self.parent_event_id.as_deref()
    }

    /// The trace that it names, also in its metadata.
    pub(crate) fn named_trace(&self) -> Option<String> {
        let in_metadata = || self.metadata.as_deref().and_then(|metadata| MetadataIds::of(metadata).trace_id);
        self.trace_id.clone().or_else(in_metadata)
    }

    /// Puts it into a trace, if it names none.
    pub(crate) fn continue_trace(&mut self, trace_id: Option<String>) {
        if self.named_trace().is_none() {
            self.trace_id = trace_id;
        }
    }

    /// Sets the event that caused this one.
    #[must_use]
    pub fn parent(mut self, event_id: impl Into<String>) -> Self {
        self.parent_event_id = Some(event_id.into());
        self
    }

    /// Sets who caused it.
    #[must_use]
    pub fn initiator(mut self, initiator: Initiator) -> Self {
        self.initiator = initiator;
        self
    }

    /// Adds metadata, as a JSON object. Its `traceId`, `requestId` and `userId` count where the draft names none.
    #[must_use]
    pub fn metadata(mut self, object: &serde_json::Map<String, serde_json::Value>) -> Self {
        self.metadata = serde_json::to_string(object).ok();
        self
    }

    /// The same for an object as text, which is stored as it is.
    #[must_use]
    pub fn metadata_json(mut self, object: impl Into<String>) -> Self {
        self.metadata = Some(object.into());
        self
    }

    /// Overrides `occurredAt`; the default is now.
    #[must_use]
    pub fn occurred_at(mut self, at: OffsetDateTime) -> Self {
        self.occurred_at = Some(at);
        self
    }

    /// Delivers it no sooner than `delay` after it was written, by the database's clock.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// Delivers it no sooner than `at`.
    #[must_use]
    pub fn deliver_at(mut self, at: OffsetDateTime) -> Self {
        self.deliver_at = Some(at);
        self
    }

    /// Delivers it no later than `after` it was written, by the database's clock.
    #[must_use]
    pub fn expire_after(mut self, after: Duration) -> Self {
        self.expire_after = Some(after);
        self
    }

    /// Delivers it no later than `at`.
    #[must_use]
    pub fn expire_at(mut self, at: OffsetDateTime) -> Self {
        self.expire_at = Some(at);
        self
    }

    /// Gives up after this many attempts in all.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }

    /// Publishes to this exchange, where a broker carries it.
    #[must_use]
    pub fn exchange(mut self, exchange: impl Into<String>) -> Self {
        self.exchange = Some(exchange.into());
        self
    }

    /// Publishes with this routing key, where a broker carries it.
    #[must_use]
    pub fn routing_key(mut self, routing_key: impl Into<String>) -> Self {
        self.routing_key = Some(routing_key.into());
        self
    }

    /// Publishes to this exchange with this routing key, where a broker carries it.
    #[must_use]
    pub fn route(mut self, exchange: impl Into<String>, routing_key: impl Into<String>) -> Self {
        self.exchange = Some(exchange.into());
        self.routing_key = Some(routing_key.into());
        self
    }
}
