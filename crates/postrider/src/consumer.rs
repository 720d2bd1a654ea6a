//! Consumers: what happens when an event arrives. There are three kinds, depending on where the effect is:
//!
//! - in the store's own database: [`Consumer`]. It gets a transaction, and its effect happens exactly once;
//! - there too, where many events are cheaper together: [`BatchConsumer`];
//! - anywhere else (HTTP, mail): [`OutsideConsumer`]. No transaction is held over a network call, so its effect may
//!   happen again after a crash; it gets an idempotency key to send along.
//!
//! Each of them receives typed events, or events of any content type ([`RawEvent`](crate::event::RawEvent)).

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;

use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::event::FromEnvelope;
use crate::limits;
use crate::observe;
use crate::store::Enlist;

/// A consumer whose effect is in the transaction that also writes the inbox row: both happen, once, or neither.
pub trait Consumer<S: Enlist>: Send + Sync + 'static {
    /// The consumer's name, which is also its lane's. Several consumers of different topics may share one name; events of
    /// one key then stay in order across those topics.
    const NAME: &'static str;
    /// The topics it is subscribed to, if they are not those of its event. `*` means every topic.
    const TOPICS: &'static [&'static str] = <Self::Event as FromEnvelope>::TOPICS;
    /// What it receives: an [`Event`](crate::Event), or a [`RawEvent`](crate::event::RawEvent).
    type Event: FromEnvelope;

    /// The effect. What is written on `tx`, and every event enqueued on it, commits together with the inbox row.
    fn handle(
        &self,
        tx: &mut S::Conn,
        event: Received<Self::Event>,
    ) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// A consumer with the effects of many events in one transaction. If one of them fails, the transaction is rolled
/// back and each event is handled in a separate transaction, so that one bad event does not stop the others.
pub trait BatchConsumer<S: Enlist>: Send + Sync + 'static {
    /// The consumer's name, which is also its lane's.
    const NAME: &'static str;
    /// How many events it takes at once, at most.
    const SIZE: usize = 100;
    /// The topics it is subscribed to, if they are not those of its event. `*` means every topic.
    const TOPICS: &'static [&'static str] = <Self::Event as FromEnvelope>::TOPICS;
    /// What it receives: an [`Event`](crate::Event), or a [`RawEvent`](crate::event::RawEvent).
    type Event: FromEnvelope;

    /// The effects, in the order of the events. After a failure the whole batch is rolled back and each event is
    /// handled separately, so the error need not name the event.
    fn handle(
        &self,
        tx: &mut S::Conn,
        events: Vec<Received<Self::Event>>,
    ) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// A consumer whose effect is outside the database. It may be called again for an event that it has handled, if its
/// process dies before the result is written: send [`Received::idempotency_key`] along.
pub trait OutsideConsumer: Send + Sync + 'static {
    /// The consumer's name, which is also its lane's.
    const NAME: &'static str;
    /// The topics it is subscribed to, if they are not those of its event. `*` means every topic.
    const TOPICS: &'static [&'static str] = <Self::Event as FromEnvelope>::TOPICS;
    /// What it receives: an [`Event`](crate::Event), or a [`RawEvent`](crate::event::RawEvent).
    type Event: FromEnvelope;

    /// The effect.
    fn handle(&self, event: Received<Self::Event>) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Why an event was not consumed, by what is done about it. Any error becomes a [`Failure::Retry`] with `?`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Failure {
    /// Try again when the lane's retry policy says so.
    Retry(Cause),
    /// Try again after this long, if the other system has named a time.
    RetryAfter(Duration, Cause),
    /// No try can succeed: the delivery is DEAD at once, for an operator to look at.
    Reject(Cause),
}

/// What went wrong, as text for operators and a code for programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// The text that is kept with the attempt.
    pub message: String,
    /// A class of errors, used by retry policies and the console's groups.
    pub code: Option<String>,
}

impl Failure {
    /// Try again later.
    pub fn retry(message: impl fmt::Display) -> Self {
        Self::Retry(Cause { message: message.to_string(), code: None })
    }

    /// Try again after `wait`: no sooner than the backoff, no later than its cap.
    pub fn retry_after(wait: Duration, message: impl fmt::Display) -> Self {
        Self::RetryAfter(wait, Cause { message: message.to_string(), code: None })
    }

    /// Never try again.
    pub fn reject(message: impl fmt::Display) -> Self {
        Self::Reject(Cause { message: message.to_string(), code: None })
    }

    /// Gives it a code.
    #[must_use]
    pub fn code(mut self, code: impl Into<String>) -> Self {
        let (Self::Retry(cause) | Self::RetryAfter(_, cause) | Self::Reject(cause)) = &mut self;
        cause.code = Some(code.into());
        self
    }

    /// What went wrong, by value.
    pub fn into_cause(self) -> Cause {
        let (Self::Retry(cause) | Self::RetryAfter(_, cause) | Self::Reject(cause)) = self;
        cause
    }

    /// What went wrong.
    pub fn cause(&self) -> &Cause {
        let (Self::Retry(cause) | Self::RetryAfter(_, cause) | Self::Reject(cause)) = self;
        cause
    }
}

/// Also from texts and boxed errors. It does not implement [`std::error::Error`]: a conversion from every error would
/// overlap.
impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::from_error(&*error.into())
    }
}

impl Failure {
    /// Like `From`, for a reference.
    pub(crate) fn from_error(error: &(dyn std::error::Error + 'static)) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            // Some errors repeat their source in their own text.
            if !message.ends_with(&text) {
                message = format!("{message}: {text}");
            }
            source = cause.source();
        }
        Self::Retry(Cause { message, code: None })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cause().message)
    }
}

/// An event as its consumer receives it. It derefs to the event itself.
#[derive(Debug)]
pub struct Received<E> {
    event: E,
    handling: Arc<Handling>,
}

impl<E> Received<E> {
    pub(crate) fn new(event: E, handling: Arc<Handling>) -> Self {
        Self { event, handling }
    }

    /// The event alone.
    pub fn into_inner(self) -> E {
        self.event
    }

    /// Its envelope: everything known about it except its payload.
    pub fn envelope(&self) -> &Envelope {
        &self.handling.envelope
    }

    /// The attempt number; the first is 1.
    pub fn attempt(&self) -> u32 {
        self.handling.attempt
    }

    /// The same for every attempt of this consumer at this event, and different for all others. Send it to the system
    /// that has the effect.
    pub fn idempotency_key(&self) -> String {
        format!("{}:{}", self.handling.consumer, self.handling.envelope.event_id)
    }

    /// The `traceparent` header for calls that this consumer makes: the event's trace, and the current span. Without spans
    /// of OpenTelemetry (the feature `opentelemetry`), it names the span that wrote the event. Returns `None` if the event's
    /// trace id is not a W3C trace id.
    pub fn traceparent(&self) -> Option<String> {
        observe::header(&self.handling.envelope)
    }

    /// Runs `work` on behalf of this event: events that it enqueues have this event's trace and parent. Only a
    /// [`BatchConsumer`] needs it, since it handles many events at once.
    pub async fn within<T>(&self, work: impl Future<Output = T>) -> T {
        Arc::clone(&self.handling).run(work).await
    }

    /// Stores a result with the inbox row, where `postrider_consume_log` shows it. The last one counts. An [`Effect`](crate::Effect),
    /// or a list of them, is also shown in the [story](crate::story) of the event's key. Of an [`OutsideConsumer`] it is stored after
    /// the effect, in a transaction of its own.
    ///
    /// ```
    /// # use postrider::{Effect, Event, Failure, Received};
    /// # fn f<E: Event>(paid: Received<E>) -> Result<(), Failure> {
    /// paid.keep(&Effect::new("spent 200").moved("points of ada", -200).key("points:7:commit"))?;
    /// # Ok(()) }
    /// ```
    pub fn keep(&self, result: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(result).map_err(Error::Encode)?;
        limits::bytes("result", &text, limits::METADATA_BYTES)?;
        *self.handling.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
        Ok(())
    }

    /// Stores the business key of the effect (`order:123:checkout`) with the inbox row, where `postrider_consume_log` shows it as
    /// `idempotency_key` instead of the event's id. The last one counts. An [`OutsideConsumer`] has an inbox row only if it keeps
    /// something.
    pub fn keep_key(&self, key: impl Into<String>) -> Result<()> {
        let key = key.into();
        limits::text("idempotencyKey", &key, limits::IDEMPOTENCY_KEY_CHARS)?;
        *self.handling.key.lock().unwrap_or_else(PoisonError::into_inner) = Some(key);
        Ok(())
    }
}

impl<E> Deref for Received<E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.event
    }
}

/// One attempt of one consumer at one event.
#[derive(Debug)]
pub(crate) struct Handling {
    pub(crate) consumer: Arc<str>,
    pub(crate) envelope: Arc<Envelope>,
    pub(crate) attempt: u32,
    result: Mutex<Option<String>>,
    /// The business key to store.
    key: Mutex<Option<String>>,
}

tokio::task_local! {
    /// The event that this task consumes: the events that it enqueues are that event's children.
    static CURRENT: Arc<Handling>;
}

impl Handling {
    pub(crate) fn new(consumer: Arc<str>, envelope: Arc<Envelope>, attempt: u32) -> Self {
        Self { consumer, envelope, attempt, result: Mutex::new(None), key: Mutex::new(None) }
    }

    /// Runs a consumer: what it enqueues inherits trace and parent.
    pub(crate) async fn run<T>(self: Arc<Self>, work: impl Future<Output = T>) -> T {
        CURRENT.scope(self, work).await
    }

    /// The event that this task consumes, if any.
    pub(crate) fn current() -> Option<Arc<Self>> {
        CURRENT.try_with(Arc::clone).ok()
    }

    /// Takes the result to store; the next attempt begins without one.
    pub(crate) fn take_result(&self) -> Option<String> {
        self.result.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Takes the business key to store.
    pub(crate) fn take_key(&self) -> Option<String> {
        self.key.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

// --- type erasure of consumers; no other file erases types

/// A consumer of any type, by its kind.
pub(crate) enum Registered<S: Enlist> {
    InTransaction(Box<dyn InTransaction<S>>),
    Outside(Box<dyn Outside>),
    InBatches(Box<dyn InBatches<S>>),
}

#[async_trait]
pub(crate) trait InTransaction<S: Enlist>: Send + Sync {
    async fn handle(&self, tx: &mut S::Conn, handling: &Arc<Handling>) -> Result<(), Failure>;
}

#[async_trait]
pub(crate) trait Outside: Send + Sync {
    async fn handle(&self, handling: &Arc<Handling>) -> Result<(), Failure>;
}

#[async_trait]
pub(crate) trait InBatches<S: Enlist>: Send + Sync {
    fn size(&self) -> usize;

    async fn handle(&self, tx: &mut S::Conn, batch: &[Arc<Handling>]) -> Result<(), Failure>;
}

/// A wrapper for each kind, since one type may be a consumer of two kinds.
pub(crate) struct Typed<C>(pub(crate) C);

#[async_trait]
impl<S: Enlist, C: Consumer<S>> InTransaction<S> for Typed<C> {
    async fn handle(&self, tx: &mut S::Conn, handling: &Arc<Handling>) -> Result<(), Failure> {
        self.0.handle(tx, decode(handling)?).await
    }
}

#[async_trait]
impl<C: OutsideConsumer> Outside for Typed<C> {
    async fn handle(&self, handling: &Arc<Handling>) -> Result<(), Failure> {
        self.0.handle(decode(handling)?).await
    }
}

#[async_trait]
impl<S: Enlist, C: BatchConsumer<S>> InBatches<S> for Typed<C> {
    fn size(&self) -> usize {
        C::SIZE.max(1)
    }

    async fn handle(&self, tx: &mut S::Conn, batch: &[Arc<Handling>]) -> Result<(), Failure> {
        let events = batch.iter().map(decode).collect::<Result<_, _>>()?;
        self.0.handle(tx, events).await
    }
}

fn decode<E: FromEnvelope>(handling: &Arc<Handling>) -> Result<Received<E>, Failure> {
    Ok(Received::new(E::from_envelope(&handling.envelope)?, Arc::clone(handling)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the wallet did not answer")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn any_error_is_a_retry_that_names_its_sources() {
        fn handle() -> Result<(), Failure> {
            Err(Outer(std::io::Error::other("connection reset")))?;
            Err("texts do too")?
        }
        let failure = handle().expect_err("it failed");
        assert_eq!(failure, Failure::retry("the wallet did not answer: connection reset"));
        assert_eq!(failure.code("wallet").cause().code.as_deref(), Some("wallet"));
    }
}
