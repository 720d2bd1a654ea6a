//! The inbox: the transport inside this process, which makes an effect happen once. Consumers are registered here; a relay
//! delivers their events.
//!
//! For a [`Consumer`] one transaction holds the inbox row, the effect, the events it enqueues, the attempt and, as the last
//! statement, the deletion of the delivery. All of them happen, or none.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use tokio::time::Instant;
use tracing::Instrument;

use crate::consumer::{
    BatchConsumer, Consumer, Failure, Handling, InBatches, InTransaction, Outside, OutsideConsumer, Registered, Typed,
};
use crate::entry::{Outcome, StoppedKeys};
use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::limits;
use crate::observe;
use crate::store::{Completed, Completion, DeliveryId, Enlist, Handled, Receipt, Store, Token};
use crate::subscription::{EVERY_TOPIC, Subscription, Via};
use crate::transport::{Lane, LaneOptions, Parcel, Transport};

/// How long events are consumed one after the other in one call, so that shutdown and other runs do not wait.
const SOON: Duration = Duration::from_millis(10);

/// The consumers of this process. As a transport it is the in-process bus.
pub struct Inbox<S: Enlist> {
    store: S,
    lanes: BTreeMap<&'static str, Consumers<S>>,
    defaults: LaneOptions,
    /// Errors in the registration: a relay refuses to start with one.
    mistakes: Vec<String>,
}

/// The consumers of one name: one lane.
struct Consumers<S: Enlist> {
    registered: Vec<Registered<S>>,
    /// The consumer of each topic; [`EVERY_TOPIC`] for all others.
    by_topic: BTreeMap<&'static str, usize>,
    options: Option<LaneOptions>,
}

impl<S: Enlist> Consumers<S> {
    fn of(&self, topic: &str) -> Option<&Registered<S>> {
        let index = self.by_topic.get(topic).or_else(|| self.by_topic.get(EVERY_TOPIC))?;
        self.registered.get(*index)
    }
}

impl<S: Enlist> Inbox<S> {
    /// An inbox without consumers, whose transactions are those of `store`.
    pub fn new(store: S) -> Self {
        Self { store, lanes: BTreeMap::new(), defaults: LaneOptions::default(), mistakes: Vec::new() }
    }

    /// The options of all lanes whose consumers are added without options.
    #[must_use]
    pub fn default_options(mut self, options: LaneOptions) -> Self {
        self.defaults = options;
        self
    }

    /// Adds a consumer with the default options.
    #[must_use]
    pub fn consumer<C: Consumer<S>>(self, consumer: C) -> Self {
        self.add(C::NAME, C::TOPICS, Registered::InTransaction(Box::new(Typed(consumer))), None)
    }

    /// Adds a consumer, with the options of its lane. If several consumers share a name, one of them has the options.
    ///
    /// ```
    /// # use postrider::store::memory::{Conn, MemoryStore};
    /// # use postrider::{Consumer, Event, Failure, Inbox, LaneOptions, Received};
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct OrderPaid { order_id: i64 }
    /// # impl Event for OrderPaid { const TOPIC: &'static str = "order.paid"; }
    /// # struct CommitCoupon;
    /// # impl Consumer<MemoryStore> for CommitCoupon {
    /// #     const NAME: &'static str = "coupon";
    /// #     type Event = OrderPaid;
    /// #     async fn handle(&self, _: &mut Conn, _: Received<OrderPaid>) -> Result<(), Failure> { Ok(()) }
    /// # }
    /// use postrider::store::DeadHead;
    ///
    /// // A coupon that cannot be committed does not block the later events of its order.
    /// let options = LaneOptions { dead_head: DeadHead::Skip, concurrency: 8, ..LaneOptions::default() };
    /// let inbox = Inbox::new(MemoryStore::new()).consumer_with(CommitCoupon, options);
    /// ```
    #[must_use]
    pub fn consumer_with<C: Consumer<S>>(self, consumer: C, options: LaneOptions) -> Self {
        self.add(C::NAME, C::TOPICS, Registered::InTransaction(Box::new(Typed(consumer))), Some(options))
    }

    /// Adds a consumer whose effect is outside the database.
    #[must_use]
    pub fn outside<C: OutsideConsumer>(self, consumer: C) -> Self {
        self.add(C::NAME, C::TOPICS, Registered::Outside(Box::new(Typed(consumer))), None)
    }

    /// Adds a consumer whose effect is outside the database, with the options of its lane.
    #[must_use]
    pub fn outside_with<C: OutsideConsumer>(self, consumer: C, options: LaneOptions) -> Self {
        self.add(C::NAME, C::TOPICS, Registered::Outside(Box::new(Typed(consumer))), Some(options))
    }

    /// Adds a consumer that takes many events at once.
    #[must_use]
    pub fn batch<C: BatchConsumer<S>>(self, consumer: C) -> Self {
        self.add(C::NAME, C::TOPICS, Registered::InBatches(Box::new(Typed(consumer))), None)
    }

    /// Adds a consumer that takes many events at once, with the options of its lane.
    #[must_use]
    pub fn batch_with<C: BatchConsumer<S>>(self, consumer: C, options: LaneOptions) -> Self {
        self.add(C::NAME, C::TOPICS, Registered::InBatches(Box::new(Typed(consumer))), Some(options))
    }

    fn add(
        mut self,
        name: &'static str,
        topics: &'static [&'static str],
        registered: Registered<S>,
        options: Option<LaneOptions>,
    ) -> Self {
        let none = || Consumers { registered: Vec::new(), by_topic: BTreeMap::new(), options: None };
        let lane = self.lanes.entry(name).or_insert_with(none);
        for topic in topics {
            if lane.by_topic.insert(topic, lane.registered.len()).is_some() {
                self.mistakes.push(format!("{name} is registered twice for {topic}: give one of them another name"));
            }
        }
        if topics.is_empty() {
            self.mistakes.push(format!("{name} has no topic: name one at least, or `*` for every topic"));
        }
        lane.registered.push(registered);
        if options.is_some() && lane.options.is_some() {
            self.mistakes.push(format!("{name} has options twice: give them with one of its consumers"));
        }
        lane.options = options.or(lane.options.take());
        self
    }

    /// Refuses a wrong registration.
    pub(crate) fn check(&self) -> Result<()> {
        match self.mistakes.first() {
            Some(mistake) => Err(Error::Unsupported(mistake.clone())),
            None => self.lanes.keys().try_for_each(|name| limits::consumer(name)),
        }
    }

    /// Consumes events of one lane, in order. Returns an outcome for each that was tried: at least for the first, and for no
    /// more once they take long or there is no database.
    pub(crate) async fn consume(&self, lane: &Lane, tries: impl Iterator<Item = Try> + Send) -> Vec<Outcome> {
        let consumers = self.lanes.get(&*lane.name);
        let mut tries = tries.peekable();
        if lane.at_once > 1
            && let Some(consumers) = consumers
            && let Some(Registered::InBatches(consumer)) = consumers.registered.first()
        {
            // An operator may have subscribed the lane to other topics.
            let is_for_it = |one: &Try| consumers.of(&one.handling.envelope.topic).is_some();
            let batch: Vec<_> = std::iter::from_fn(|| tries.next_if(is_for_it)).collect();
            if !batch.is_empty() {
                return Box::pin(self.in_batches(lane, &**consumer, batch)).await;
            }
        }
        let began = Instant::now();
        let mut delivered = Vec::with_capacity(tries.size_hint().0);
        for one in tries {
            let topic = one.handling.envelope.topic.as_str();
            let tried = match consumers.and_then(|consumers| consumers.of(topic)) {
                None => {
                    let failure = Failure::retry(format!(
                        "consumer {} has nothing registered for topic {topic}: register it, or remove the subscription",
                        lane.name
                    ));
                    Outcome::Failed(failure.code("noConsumer"))
                }
                Some(Registered::Outside(consumer)) => Box::pin(self.without_transaction(lane, &**consumer, one)).await,
                // Boxed: a future is as large as its largest branch, and is moved as a whole.
                Some(Registered::InTransaction(consumer)) => {
                    Box::pin(self.in_transaction(lane, &**consumer, one)).await
                }
                Some(Registered::InBatches(consumer)) => {
                    let mut alone = Box::pin(self.in_batches(lane, &**consumer, vec![one])).await;
                    alone.pop().unwrap_or(Outcome::NotTried)
                }
            };
            let enough = tried == Outcome::NotTried || began.elapsed() > SOON;
            delivered.push(tried);
            if enough {
                break;
            }
        }
        delivered
    }

    /// One event in one transaction.
    async fn in_transaction(&self, lane: &Lane, consumer: &dyn InTransaction<S>, one: Try) -> Outcome {
        let handling = &one.handling;
        let tried = async {
            let mut tx = self.store.begin().await.map_err(no_transaction)?;
            let new = self.store.receive(&mut tx, &receipt(handling)).await.map_err(rolled_back)?;
            if !new {
                let event_id = handling.envelope.event_id.as_str();
                self.store.note_repeat(&mut tx, &lane.name, event_id).await.map_err(rolled_back)?;
            } else {
                let work = Arc::clone(handling).run(consumer.handle(&mut tx, handling));
                guarded(work, lane.options.timeout_of(&handling.envelope.topic)).await?;
            }
            self.end(tx, lane, &[&one]).await.map_err(rolled_back)?;
            if new {
                tracing::info!("{}", observe::CONSUMED_LINE);
            }
            Ok(if new { Outcome::Completed } else { Outcome::Duplicate })
        };
        tried.instrument(span(handling)).await.unwrap_or_else(|without_effect| without_effect)
    }

    /// Runs the last statement, and commits.
    async fn end(&self, mut tx: S::Tx, lane: &Lane, tries: &[&Try]) -> Result<()> {
        for one in tries {
            if let Some(key) = one.handling.take_key() {
                self.store.keep_key(&mut tx, &lane.name, one.handling.envelope.event_id.as_str(), &key).await?;
            }
        }
        let results: Vec<_> = tries.iter().map(|one| one.handling.take_result()).collect();
        let ended = tries.iter().zip(&results);
        match tries.first().and_then(|one| one.claim) {
            Some((_, token)) => {
                let completed: Vec<_> = ended
                    .filter_map(|(one, result)| {
                        let (event_id, (delivery, _)) = (one.handling.envelope.event_id.as_str(), one.claim?);
                        Some(Completed { event_id, delivery, result: result.as_deref() })
                    })
                    .collect();
                let history = lane.options.history;
                let completion = Completion { consumer: &lane.name, token, history, completed: &completed };
                self.store.complete(&mut tx, &completion).await?;
            }
            None => {
                let handled: Vec<_> = ended
                    .map(|(one, result)| Handled {
                        event_id: one.handling.envelope.event_id.as_str(),
                        result: result.as_deref(),
                    })
                    .collect();
                self.store.confirm_received(&mut tx, &lane.name, &handled).await?;
            }
        }
        self.store.commit(tx).await
    }

    /// One event without a transaction.
    async fn without_transaction(&self, lane: &Lane, consumer: &dyn Outside, one: Try) -> Outcome {
        let handling = &one.handling;
        let span = span(handling);
        let work = Arc::clone(handling).run(consumer.handle(handling));
        let tried = async {
            match guarded(work, lane.options.timeout_of(&handling.envelope.topic)).await {
                Ok(()) => match self.keep(lane, handling).await {
                    Ok(()) => {
                        tracing::info!("{}", observe::CONSUMED_LINE);
                        Outcome::Done
                    }
                    // It is handled again, with the same idempotency key, and what it keeps is stored then.
                    Err(error) => rolled_back(error),
                },
                Err(failure) if failure.cause().code.as_deref() == Some(TIMEOUT) => {
                    // F13: no transaction takes back what the other side may have done.
                    let text = format!("{failure}: it may have been delivered");
                    Outcome::Failed(Failure::retry(text).code(TIMEOUT))
                }
                Err(failure) => Outcome::Failed(failure),
            }
        };
        tried.instrument(span).await
    }

    /// Stores what an [`OutsideConsumer`] has kept. Its inbox row stops nothing: it is written after the effect.
    async fn keep(&self, lane: &Lane, handling: &Handling) -> Result<()> {
        let (result, key) = (handling.take_result(), handling.take_key());
        if result.is_none() && key.is_none() {
            return Ok(());
        }
        let event_id = handling.envelope.event_id.as_str();
        let mut tx = self.store.begin().await?;
        self.store.receive(&mut tx, &receipt(handling)).await?;
        if let Some(key) = key {
            self.store.keep_key(&mut tx, &lane.name, event_id, &key).await?;
        }
        let handled = [Handled { event_id, result: result.as_deref() }];
        self.store.confirm_received(&mut tx, &lane.name, &handled).await?;
        self.store.commit(tx).await
    }

    /// Many events in one transaction, and each in a separate transaction if that fails.
    async fn in_batches(&self, lane: &Lane, consumer: &dyn InBatches<S>, tries: Vec<Try>) -> Vec<Outcome> {
        if tries.len() > 1 {
            let together: Vec<_> = tries.iter().collect();
            match self.in_one_transaction(lane, consumer, &together).await {
                Ok(outcomes) => return outcomes,
                Err(Outcome::Failed(failure)) => {
                    tracing::debug!(
                        consumer = %lane.name, events = tries.len(), error = %failure,
                        "a batch failed: each event is handled by itself"
                    );
                }
                // There is no database, or the lease is lost: it would be the same for each event.
                Err(outcome) => return vec![outcome; tries.len()],
            }
        }
        let mut outcomes = Vec::with_capacity(tries.len());
        let mut stopped = StoppedKeys::default();
        for one in &tries {
            let key = one.handling.envelope.key.as_deref();
            let outcome = match stopped.instead_of_try(key) {
                Some(outcome) => outcome,
                None => match self.in_one_transaction(lane, consumer, &[one]).await {
                    Ok(mut alone) => alone.pop().unwrap_or(Outcome::NotTried),
                    Err(outcome) => outcome,
                },
            };
            outcomes.push(stopped.record(key, outcome));
        }
        outcomes
    }

    /// One outcome for each event, or one for all of them without an effect.
    async fn in_one_transaction(
        &self,
        lane: &Lane,
        consumer: &dyn InBatches<S>,
        tries: &[&Try],
    ) -> Result<Vec<Outcome>, Outcome> {
        let receipts: Vec<_> = tries.iter().map(|one| receipt(&one.handling)).collect();
        let mut tx = self.store.begin().await.map_err(no_transaction)?;
        let new = self.store.receive_many(&mut tx, &receipts).await.map_err(rolled_back)?;
        for (one, _) in tries.iter().zip(&new).filter(|(_, new)| !**new) {
            let event_id = one.handling.envelope.event_id.as_str();
            self.store.note_repeat(&mut tx, &lane.name, event_id).await.map_err(rolled_back)?;
        }
        let fresh = tries.iter().zip(&new).filter(|(_, new)| **new);
        let fresh: Vec<_> = fresh.map(|(one, _)| Arc::clone(&one.handling)).collect();
        if !fresh.is_empty() {
            let work = async {
                match &fresh[..] {
                    // A single event is the parent of what is enqueued.
                    [one] => Arc::clone(one).run(consumer.handle(&mut tx, &fresh)).await,
                    _ => consumer.handle(&mut tx, &fresh).await,
                }
            };
            let span = match &fresh[..] {
                [alone] => span(alone),
                many => {
                    let span = tracing::info_span!("consume", consumer = %lane.name, events = many.len());
                    observe::link(&span, many.iter().map(|one| &*one.envelope));
                    span
                }
            };
            let timeouts = fresh.iter().map(|one| lane.options.timeout_of(&one.envelope.topic));
            let timeout = timeouts.min().unwrap_or(lane.options.timeout);
            guarded(work, timeout).instrument(span).await?;
        }
        self.end(tx, lane, tries).await.map_err(rolled_back)?;
        for (one, _) in tries.iter().zip(&new).filter(|(_, new)| **new) {
            let envelope = &*one.handling.envelope;
            let (Envelope { event_id, topic, trace_id, .. }, request_id) = (envelope, envelope.request_id());
            tracing::info!(
                consumer = %lane.name, %event_id, %topic, trace_id, request_id, "{}", observe::CONSUMED_LINE
            );
        }
        Ok(new.into_iter().map(|new| if new { Outcome::Completed } else { Outcome::Duplicate }).collect())
    }
}

impl<S: Enlist> Inbox<S> {
    /// Subscribes its consumers now. A relay does so when it starts; call this earlier if the program writes events before
    /// that, because an event reaches the consumers that are subscribed when it is written. What an operator has changed
    /// stays as it is.
    pub async fn register(&self) -> Result<()> {
        self.register_in(&self.store).await
    }

    async fn register_in(&self, store: &dyn Store) -> Result<()> {
        self.check()?;
        for (name, consumers) in &self.lanes {
            for topic in consumers.by_topic.keys() {
                store.register(&Subscription::new(*topic, *name, Via::Local)).await?;
            }
        }
        Ok(())
    }
}

#[async_trait]
impl<S: Enlist> Transport for Inbox<S> {
    fn lanes(&self) -> Vec<Lane> {
        self.lanes
            .iter()
            .map(|(name, consumers)| Lane {
                name: (*name).into(),
                topics: if consumers.by_topic.contains_key(EVERY_TOPIC) {
                    Vec::new()
                } else {
                    consumers.by_topic.keys().map(ToString::to_string).collect()
                },
                // A batch is for one consumer.
                at_once: match &consumers.registered[..] {
                    [alone] => at_once(alone),
                    _ => 1,
                },
                options: consumers.options.as_ref().unwrap_or(&self.defaults).clone(),
            })
            .collect()
    }

    fn via(&self) -> Option<Via> {
        Some(Via::Local)
    }

    /// Registers the subscriptions of its consumers.
    async fn prepare(&self, store: &dyn Store) -> Result<()> {
        self.register_in(store).await
    }

    async fn deliver(&self, lane: &Lane, parcels: &[Parcel]) -> Vec<Outcome> {
        let claimed = |parcel: &Parcel| Try {
            handling: handling(lane, Arc::clone(&parcel.envelope), parcel.attempt),
            claim: Some((parcel.id, parcel.lease.token)),
        };
        self.consume(lane, parcels.iter().map(claimed)).await
    }
}

/// One event on its way to its consumer.
pub(crate) struct Try {
    handling: Arc<Handling>,
    /// The delivery that it completes; `None` for a message of a broker.
    claim: Option<(DeliveryId, Token)>,
}

#[cfg(feature = "rabbitmq")]
impl Try {
    /// A try of a message that a broker delivered.
    pub(crate) fn of_message(lane: &Lane, envelope: Arc<Envelope>, attempt: u32) -> Self {
        Self { handling: handling(lane, envelope, attempt), claim: None }
    }
}

fn handling(lane: &Lane, envelope: Arc<Envelope>, attempt: u32) -> Arc<Handling> {
    Arc::new(Handling::new(Arc::clone(&lane.name), envelope, attempt))
}

fn at_once<S: Enlist>(registered: &Registered<S>) -> usize {
    match registered {
        Registered::InTransaction(_) | Registered::Outside(_) => 1,
        Registered::InBatches(consumer) => consumer.size(),
    }
}

/// The code of a failure by timeout.
const TIMEOUT: &str = "timeout";

/// Runs a consumer. A panic and a timeout are failures of this event only.
async fn guarded<T>(work: impl Future<Output = Result<T, Failure>>, timeout: Duration) -> Result<T, Failure> {
    match tokio::time::timeout(timeout, AssertUnwindSafe(work).catch_unwind()).await {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => {
            let text = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
            Err(Failure::retry(format!("the consumer panicked: {}", text.unwrap_or("no message"))).code("panic"))
        }
        Err(_) => Err(Failure::retry(format!("the consumer took longer than {timeout:?}")).code(TIMEOUT)),
    }
}

/// No transaction could begin, so nothing was tried.
fn no_transaction(error: Error) -> Outcome {
    tracing::warn!(error = %Failure::from(error), "no transaction to consume in: the delivery is released");
    Outcome::NotTried
}

/// The store refused a statement, or the commit: the effect is rolled back.
fn rolled_back(error: Error) -> Outcome {
    match error {
        Error::LeaseLost => Outcome::LeaseLost,
        // F55: a consumer that ignores a database error ends here.
        Error::TransactionLost(_) => Outcome::Failed(Failure::from(error).code("transactionLost")),
        other => Outcome::Failed(Failure::from(other).code("store")),
    }
}

fn receipt(handling: &Handling) -> Receipt<'_> {
    Receipt {
        consumer: &handling.consumer,
        event_id: handling.envelope.event_id.as_str(),
        topic: &handling.envelope.topic,
        tenant_id: handling.envelope.tenant_id.as_deref(),
        idempotency_key: None,
    }
}

/// The span of one try, with its event and trace.
fn span(handling: &Handling) -> tracing::Span {
    let envelope = &handling.envelope;
    let span = tracing::info_span!(
        "consume",
        consumer = %handling.consumer,
        event_id = %envelope.event_id,
        topic = %envelope.topic,
        trace_id = envelope.trace_id.as_deref(),
        request_id = envelope.request_id(),
        attempt = i64::from(handling.attempt),
    );
    observe::set_parent_of(&span, envelope);
    span
}
