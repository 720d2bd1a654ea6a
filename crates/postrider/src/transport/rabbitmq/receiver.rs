//! Reading queues. A message goes to its consumer through the [`Inbox`], and is acknowledged once the effect is committed.
//! After a crash in between, the message comes again and finds its inbox row.
//!
//! A failed message moves to a queue with a delay, with the failure in its headers. It is acknowledged in the old queue once
//! the new one has confirmed it, so a crash cannot lose it.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use lapin::Channel;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::link::{Away, Link, is_objection};
use super::message::Message;
use super::publisher::{Letter, Properties, Publisher};
use super::receipts;
use super::topology::{self, Binding, Undeclared};
use crate::alert::{Alarm, Alert};
use crate::clock::{Clock, SystemClock};
use crate::consumer::Failure;
use crate::entry::Decision;
use crate::envelope::Envelope;
use crate::error::Result;
use crate::inbox::{Inbox, Try};
use crate::observe::LaneFigures;
use crate::retry;
use crate::store::{Enlist, Report};
use crate::transport::{Lane, Outcome, Transport};

/// After this many deliveries without an answer, a message counts as the cause of the crashes.
const MAX_UNANSWERED: i64 = 20;

/// The prefetch of a session compared to the one before it, if that went well.
const GROWTH: u16 = 8;

/// Reads the queues of an inbox's consumers until it is stopped.
pub struct Receiver<S: Enlist> {
    publisher: Publisher,
    link: Arc<Link>,
    inbox: Inbox<S>,
    options: ReceiverOptions,
    bindings: BTreeMap<String, BTreeSet<Binding>>,
    alerts: Vec<Arc<dyn Alert>>,
}

/// The options of a receiver.
#[derive(Debug, Clone)]
pub struct ReceiverOptions {
    /// How many unanswered messages a consumer may have.
    pub prefetch: u16,
    /// Whether every try is reported on the queue of receipts. A [`ReceiptCollector`](super::ReceiptCollector) reads it.
    pub receipts: bool,
    /// How long work in progress may take to finish after the receiver was stopped.
    pub grace: Duration,
}

impl Default for ReceiverOptions {
    fn default() -> Self {
        Self { prefetch: 100, receipts: false, grace: Duration::from_secs(25) }
    }
}

impl<S: Enlist> Receiver<S> {
    pub(super) fn new(publisher: Publisher, link: Arc<Link>, inbox: Inbox<S>) -> Self {
        Self {
            publisher,
            link,
            inbox,
            options: ReceiverOptions::default(),
            bindings: BTreeMap::new(),
            alerts: Vec::new(),
        }
    }

    /// Sets the options.
    #[must_use]
    pub fn options(mut self, options: ReceiverOptions) -> Self {
        self.options = options;
        self
    }

    /// Also binds the queue of a consumer to an exchange of another system.
    #[must_use]
    pub fn bind(mut self, consumer: &str, binding: Binding) -> Self {
        self.bindings.entry(consumer.into()).or_default().insert(binding);
        self
    }

    /// Sends alarms here too. Every alarm is also an error in the log.
    #[must_use]
    pub fn also_alert(mut self, alert: impl Alert) -> Self {
        self.alerts.push(Arc::new(alert));
        self
    }

    /// Declares the queues and their bindings: from now on events are kept for these consumers, also while they do not
    /// run. [`Receiver::run`] does the same; call this one to be sure of it before something is published.
    pub async fn declare(&self) -> Result<()> {
        for lane in self.inbox.lanes() {
            let bindings = self.bindings.get(&*lane.name).cloned().unwrap_or_default();
            let declared = async {
                let channel = self.link.channel().await?;
                topology::declare_lane(&channel, &lane, &topology::delays(&lane), &bindings).await
            };
            declared.await.map_err(|undeclared| match undeclared {
                Undeclared::Refused(error) => error,
                Undeclared::Away(away) => crate::Error::Unavailable(away.into()),
            })?;
        }
        Ok(())
    }

    /// Works until `shutdown` is ready. Then nothing more is taken, work in progress has [`ReceiverOptions::grace`] to
    /// finish, and the rest goes back to its queue. An unreachable broker is waited for. A queue of our name with other
    /// settings is an error.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<()> {
        self.inbox.check()?;
        let lanes = self.inbox.lanes();
        let grace = self.options.grace;
        let shared = Arc::new(ReceiverShared {
            publisher: self.publisher,
            link: self.link,
            inbox: self.inbox,
            options: self.options,
            alerts: self.alerts,
            stop: CancellationToken::new(),
        });
        // The tasks end when this future ends or is dropped.
        let _stop = shared.stop.clone().drop_guard();
        let mut working = JoinSet::new();
        for lane in lanes {
            let bindings = self.bindings.get(&*lane.name).cloned().unwrap_or_default();
            working.spawn(LaneReceiver::new(Arc::clone(&shared), lane, bindings).run());
        }
        tokio::pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                Some(ended) = working.join_next() => match ended {
                    Ok(refused) => refused?,
                    Err(error) => return Err(crate::Error::Store(error.into())),
                },
            }
        }
        shared.stop.cancel();
        let finished = tokio::time::timeout(grace, async { while working.join_next().await.is_some() {} });
        if finished.await.is_err() {
            tracing::warn!(?grace, "unfinished messages go back to their queues");
        }
        Ok(())
    }
}

/// What the tasks of one receiver share.
struct ReceiverShared<S: Enlist> {
    publisher: Publisher,
    link: Arc<Link>,
    inbox: Inbox<S>,
    options: ReceiverOptions,
    alerts: Vec<Arc<dyn Alert>>,
    stop: CancellationToken,
}

/// One queue.
struct LaneReceiver<S: Enlist> {
    shared: Arc<ReceiverShared<S>>,
    lane: Arc<Lane>,
    delays: Arc<BTreeSet<u64>>,
    bindings: BTreeSet<Binding>,
    figures: Arc<LaneFigures>,
    /// Whether the queues were declared.
    declared: bool,
    /// Whether the log has the line that the queue is read.
    announced: bool,
    /// The prefetch of the next session. The broker counts every delivery without an answer, and a message with too many
    /// of them is given up. So a process begins with one message, and takes more while messages come that have no such
    /// count. After a lost connection the prefetch is limited to what the session could answer, or it would add counts.
    prefetch: u16,
    work: InProgress,
}

/// Why a session with the broker has ended.
enum Ended {
    Stopped,
    /// All went well: begin another session, with a larger prefetch.
    Trusted,
    /// The connection was lost, after this many answered messages.
    Lost(Away, usize),
}

impl<S: Enlist> LaneReceiver<S> {
    fn new(shared: Arc<ReceiverShared<S>>, lane: Lane, bindings: BTreeSet<Binding>) -> Self {
        Self {
            shared,
            delays: Arc::new(topology::delays(&lane)),
            figures: Arc::new(LaneFigures::new(&lane.name)),
            lane: Arc::new(lane),
            bindings,
            declared: false,
            announced: false,
            prefetch: 1,
            work: InProgress::default(),
        }
    }

    async fn run(mut self) -> Result<()> {
        loop {
            let away = match self.session().await {
                Ok(Ended::Stopped) => return Ok(()),
                Ok(Ended::Trusted) => {
                    self.prefetch = self.prefetch.saturating_mul(GROWTH);
                    continue;
                }
                Ok(Ended::Lost(away, answered)) => {
                    self.prefetch = self.prefetch.min(u16::try_from(2 * answered + 1).unwrap_or(u16::MAX));
                    away
                }
                Err(Undeclared::Away(away)) => away,
                Err(Undeclared::Refused(error)) => return Err(error),
            };
            tracing::warn!(consumer = %self.lane.name, error = %away, "the queue is not read: the broker is unreachable");
            tokio::select! {
                () = self.shared.stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(self.shared.link.rest()) => {}
            }
        }
    }

    async fn declare(&mut self) -> Result<(), Undeclared> {
        let link = &self.shared.link;
        topology::declare_lane(&link.channel().await?, &self.lane, &self.delays, &self.bindings).await?;
        if self.shared.options.receipts {
            topology::declare_receipts(&link.channel().await?).await?;
        }
        self.declared = true;
        Ok(())
    }

    /// Reads the queue over one channel.
    async fn session(&mut self) -> Result<Ended, Undeclared> {
        let (stop, link) = (self.shared.stop.clone(), Arc::clone(&self.shared.link));
        if stop.is_cancelled() {
            return Ok(Ended::Stopped);
        }
        let most = self.shared.options.prefetch.max(1);
        let prefetch = self.prefetch.min(most);
        let opening = tokio::time::timeout(link.options.confirm_timeout, self.consume(&link, prefetch));
        let (channel, mut messages) = match opening.await {
            Ok(opened) => opened?,
            Err(_) => {
                link.lost("it does not answer");
                return Err(Away("it does not answer".into()).into());
            }
        };
        // Work that began in an earlier session goes on, but cannot be acknowledged any more.
        let session = CancellationToken::new();
        let _gone = session.clone().drop_guard();
        let (mut answered, mut unsuspected) = (0, 0);
        let ended = loop {
            self.begin(&session);
            tokio::select! {
                () = stop.cancelled() => break Ended::Stopped,
                Some(done) = self.work.working.join_next() => {
                    match done {
                        Ok(done) => answered += self.work.done(done),
                        // Not a panic of a consumer, which is caught. The broker delivers the messages again.
                        Err(error) => break Ended::Lost(Away(error.to_string()), answered),
                    }
                    if prefetch < most && unsuspected >= prefetch && answered >= usize::from(prefetch) {
                        break Ended::Trusted;
                    }
                }
                message = messages.next() => match message {
                    Some(Ok(delivery)) => {
                        link.worked();
                        let message = Message::of(delivery);
                        unsuspected += u16::from(message.unanswered_deliveries() == 0);
                        self.work.waiting.push_back(message);
                    }
                    Some(Err(error)) => break Ended::Lost(error.into(), answered),
                    None => break Ended::Lost(Away("the queue was closed".into()), answered),
                },
            }
        };
        if !matches!(ended, Ended::Lost(..)) {
            let grows = matches!(ended, Ended::Trusted);
            // No more messages are taken; those that were begun are finished and acknowledged.
            tokio::select! {
                () = self.finish(&channel, messages, &session, grows) => {}
                () = gone(&channel) => {}
            }
        }
        // The others go back to the queue.
        self.work.waiting.clear();
        Ok(ended)
    }

    /// Ends a session: first finishes what was begun, or `all` that was delivered.
    async fn finish(
        &mut self,
        channel: &Channel,
        mut messages: lapin::Consumer,
        session: &CancellationToken,
        all: bool,
    ) {
        let _ = channel.basic_cancel(messages.tag(), Default::default()).await;
        if all {
            // Returned to the queue, they would be counted as unanswered, and would come in another order.
            while let Some(Ok(delivery)) = messages.next().await {
                self.work.waiting.push_back(Message::of(delivery));
            }
            while !self.work.waiting.is_empty() {
                self.begin(session);
                self.work.one_done().await;
            }
        }
        while self.work.one_done().await {}
        let _ = channel.close(200, "done".into()).await;
    }

    async fn consume(&mut self, link: &Link, prefetch: u16) -> Result<(Channel, lapin::Consumer), Undeclared> {
        if !self.declared {
            self.declare().await?;
        }
        let channel = link.channel().await?;
        let tag = format!("{}-{}", self.lane.name, &Uuid::new_v4().simple().to_string()[..8]);
        channel.basic_qos(prefetch, BasicQosOptions::default()).await.map_err(Away::from)?;
        let queue = topology::queue(&self.lane.name);
        let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
        let consuming = channel.basic_consume(queue.as_str().into(), tag.as_str().into(), options, arguments);
        let messages = consuming.await.map_err(|error| {
            // The queue may have been removed: declare it again.
            self.declared = !is_objection(&error);
            Away::from(error)
        })?;
        // Logged for the first session only.
        if !std::mem::replace(&mut self.announced, true) {
            tracing::info!(consumer = %self.lane.name, queue, "reading the queue");
        }
        tracing::debug!(consumer = %self.lane.name, queue, prefetch, "a session begins");
        Ok((channel, messages))
    }

    /// Begins as much as may be done at the same time. Messages of one key are handled one after the other.
    fn begin(&mut self, session: &CancellationToken) {
        let in_progress = &mut self.work;
        while in_progress.working.len() < self.lane.options.concurrency.max(1) {
            let batch = in_progress.next_batch(self.lane.at_once);
            if batch.is_empty() {
                return;
            }
            let keys: Vec<_> = batch.iter().filter_map(|message| message.key().map(str::to_owned)).collect();
            in_progress.busy.extend(keys.iter().cloned());
            let done = Done { keys, messages: batch.len() };
            let work = Work {
                shared: Arc::clone(&self.shared),
                lane: Arc::clone(&self.lane),
                delays: Arc::clone(&self.delays),
                figures: Arc::clone(&self.figures),
                session: session.clone(),
            };
            in_progress.working.spawn(async move {
                work.handle(batch).await;
                done
            });
        }
    }
}

/// The messages that a queue has delivered and that are not acknowledged.
#[derive(Default)]
struct InProgress {
    waiting: VecDeque<Message>,
    /// The keys of the messages that are being handled.
    busy: HashSet<String>,
    working: JoinSet<Done>,
}

/// The messages that a task has finished.
#[derive(Default)]
struct Done {
    keys: Vec<String>,
    messages: usize,
}

impl InProgress {
    /// Takes up to `limit` waiting messages, in order, whose keys are not busy.
    fn next_batch(&mut self, limit: usize) -> Vec<Message> {
        let mut batch = Vec::new();
        let mut blocked = HashSet::new();
        let mut n = 0;
        while n < self.waiting.len() && batch.len() < limit {
            let free = match self.waiting[n].key() {
                Some(key) => !self.busy.contains(key) && !blocked.contains(key),
                None => true,
            };
            if free {
                batch.extend(self.waiting.remove(n));
            } else {
                blocked.extend(self.waiting[n].key().map(str::to_owned));
                n += 1;
            }
        }
        batch
    }

    /// Waits for one task to end. False: there is none.
    async fn one_done(&mut self) -> bool {
        let Some(done) = self.working.join_next().await else { return false };
        self.done(done.unwrap_or_default());
        true
    }

    /// Frees the keys of a task, and returns how many messages it had.
    fn done(&mut self, done: Done) -> usize {
        for key in &done.keys {
            self.busy.remove(key);
        }
        done.messages
    }
}

/// The context of one task.
struct Work<S: Enlist> {
    shared: Arc<ReceiverShared<S>>,
    lane: Arc<Lane>,
    delays: Arc<BTreeSet<u64>>,
    figures: Arc<LaneFigures>,
    /// Cancelled when the channel is gone that delivered the messages.
    session: CancellationToken,
}

impl<S: Enlist> Work<S> {
    async fn handle(&self, batch: Vec<Message>) {
        let mut events = Vec::with_capacity(batch.len());
        for message in batch {
            match self.before(&message) {
                Ok(envelope) => events.push((message, envelope)),
                Err(Outcome::Failed(failure)) => self.dead(&message, &failure, message.attempt() - 1).await,
                Err(_) => self.answer(&message).await,
            }
        }
        let mut refusals = 0;
        while !events.is_empty() {
            let tries: Vec<_> = events
                .iter()
                .map(|(message, envelope)| Try::of_message(&self.lane, Arc::clone(envelope), message.attempt()))
                .collect();
            let outcomes = self.shared.inbox.consume(&self.lane, tries.into_iter()).await;
            // What was not tried is tried again: a batch of several topics is consumed topic by topic, the database may be
            // unreachable, or an earlier message of the same key failed and has now left for its retry queue.
            let outcomes = outcomes.into_iter().chain(std::iter::repeat(Outcome::NotTried));
            let mut left = Vec::new();
            let before = events.len();
            for ((message, envelope), outcome) in events.into_iter().zip(outcomes) {
                match outcome {
                    Outcome::NotTried | Outcome::Behind | Outcome::LeaseLost => left.push((message, envelope)),
                    outcome => self.note(&message, &envelope, outcome).await,
                }
            }
            refusals = if left.len() < before { 0 } else { refusals + 1 };
            events = left;
            if refusals > 0 {
                tokio::select! {
                    // Without an acknowledgement they go back to the queue.
                    () = self.shared.stop.cancelled() => return,
                    () = tokio::time::sleep(retry::pause(refusals)) => {}
                }
            }
        }
    }

    /// The event to handle, or the outcome without a try: it failed for good, or is past its expiry.
    fn before(&self, message: &Message) -> Result<Arc<Envelope>, Outcome> {
        let envelope = message.envelope.as_ref().map_err(|failure| Outcome::Failed(failure.clone()))?;
        let unanswered = message.unanswered_deliveries();
        if unanswered >= MAX_UNANSWERED {
            let why = format!("given up: it was handed out {unanswered} times without an answer");
            return Err(Outcome::Failed(Failure::reject(why).code("exhausted")));
        }
        if envelope.expire_at.is_some_and(|expiry| expiry <= SystemClock.now()) {
            return Err(Outcome::Expired);
        }
        Ok(Arc::clone(envelope))
    }

    /// Moves a message to where its outcome leads, reports it, and acknowledges it.
    async fn note(&self, message: &Message, envelope: &Envelope, outcome: Outcome) {
        let attempt = message.attempt();
        let decision = self.lane.decide(&outcome, attempt, envelope);
        let failure = match outcome {
            Outcome::Failed(failure) => failure,
            Outcome::Duplicate => {
                self.figures.idempotent();
                return self.succeeded(message, envelope).await;
            }
            _ => {
                self.figures.consumed(envelope);
                return self.succeeded(message, envelope).await;
            }
        };
        self.figures.failed();
        let Decision::Retry(after) = decision else { return self.dead(message, &failure, attempt).await };
        let after = topology::delay_for(&self.delays, after);
        tracing::warn!(
            consumer = %self.lane.name, event_id = %envelope.event_id, trace_id = envelope.trace_id.as_deref(),
            attempt, after_seconds = after, code = failure.cause().code, error = %failure, "failed, will be tried again"
        );
        let queue = topology::retry_queue(&self.lane.name, after);
        if self.move_to(&queue, message, &failure, attempt).await && self.report(envelope, Some((&failure, true))).await
        {
            self.answer(message).await;
        }
    }

    async fn succeeded(&self, message: &Message, envelope: &Envelope) {
        if self.report(envelope, None).await {
            self.answer(message).await;
        }
    }

    /// Moves a message to the dead queue, raises an alarm and acknowledges it.
    async fn dead(&self, message: &Message, failure: &Failure, attempts: u32) {
        if !self.move_to(&topology::dead_queue(&self.lane.name), message, failure, attempts).await {
            return;
        }
        self.figures.dead();
        let id = message.delivery.properties.message_id().as_ref().map(ToString::to_string);
        let envelope = message.envelope.as_ref().ok();
        let alarm = Alarm::Dead {
            event_id: envelope.map(|e| e.event_id.to_string()).or(id).unwrap_or_default(),
            topic: envelope.map(|e| e.topic.clone()).unwrap_or_default(),
            key: message.key().map(str::to_owned),
            lane: self.lane.name.to_string(),
            attempts,
            error: failure.to_string(),
            code: failure.cause().code.clone(),
        };
        alarm.log();
        alarm.send(&self.shared.alerts).await;
        let reported = match envelope {
            Some(envelope) => self.report(envelope, Some((failure, false))).await,
            None => true,
        };
        if reported {
            self.answer(message).await;
        }
    }

    /// Publishes the message to another queue of its consumer. False: not confirmed, so it must not be acknowledged here.
    async fn move_to(&self, queue: &str, message: &Message, failure: &Failure, attempts: u32) -> bool {
        let letter = Letter {
            exchange: topology::TO_QUEUE,
            routing_key: queue,
            body: &message.delivery.data,
            properties: Properties::Given(&message.after(failure, attempts)),
        };
        self.send(letter).await
    }

    /// Sends a receipt, where they are enabled. False: it may not have arrived.
    async fn report(&self, envelope: &Envelope, failure: Option<(&Failure, bool)>) -> bool {
        if !self.shared.options.receipts {
            return true;
        }
        let cause = failure.map(|(failure, _)| failure.cause());
        let report = Report {
            event_id: envelope.event_id.to_string(),
            consumer: self.lane.name.to_string(),
            success: failure.is_none(),
            will_retry: failure.is_some_and(|(_, will_retry)| will_retry),
            error: cause.map(|cause| cause.message.clone()),
            code: cause.and_then(|cause| cause.code.clone()),
            // All reports of a success are one; each failure is another.
            callback_id: Some(failure.map_or_else(|| "success".into(), |_| Uuid::new_v4().to_string())),
            consumed_at: Some(SystemClock.now()),
        };
        let body = receipts::body(&report);
        self.send(Letter {
            exchange: topology::TO_QUEUE,
            routing_key: topology::RECEIPTS,
            body: &body,
            properties: Properties::Given(&receipts::properties()),
        })
        .await
    }

    /// Sends until it is confirmed, or until the receiver stops.
    async fn send(&self, letter: Letter<'_>) -> bool {
        let mut failures = 0;
        loop {
            match self.shared.publisher.publish(vec![letter]).await.pop() {
                Some(Outcome::Done) => return true,
                Some(Outcome::Failed(failure)) => {
                    tracing::error!(queue = letter.routing_key, error = %failure, "a message cannot be moved");
                }
                _ => {}
            }
            failures += 1;
            tokio::select! {
                () = self.shared.stop.cancelled() => return false,
                () = tokio::time::sleep(retry::pause(failures)) => {}
            }
        }
    }

    /// Acknowledges the message. If that does not arrive, the message comes again.
    async fn answer(&self, message: &Message) {
        tokio::select! {
            () = self.session.cancelled() => {}
            answered = message.delivery.acker.ack(BasicAckOptions::default()) => {
                if let Err(error) = answered {
                    tracing::debug!(%error, "an acknowledgement did not arrive");
                }
            }
        }
    }
}

/// Waits until a channel is closed.
async fn gone(channel: &Channel) {
    while channel.status().connected() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
