//! Reading queues. A message is handed to its consumer through the [`Inbox`], and acknowledged once the effect is committed:
//! whatever dies in between, the message comes again and finds its inbox row.
//!
//! A failure is written on the message, which then waits in a queue of the broker's until its time has come. Nothing of this
//! is lost either: it is acknowledged in the old queue when the new one has confirmed it.

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

/// How often a message is handed out to somebody who never answers, before it is taken for what kills them.
const IN_VAIN: i64 = 20;

/// By how much more a session has at hand than the one before it, if that went well.
const GROWTH: u16 = 8;

/// Reads the queues of an inbox's consumers until it is told to stop.
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
    /// How many messages a consumer has at hand before it has answered for the first.
    pub prefetch: u16,
    /// Whether every try is reported on the queue of receipts; somebody has to read it.
    pub receipts: bool,
    /// How long what is in flight may take to finish once the receiver is told to stop.
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

    /// Other options than the usual.
    #[must_use]
    pub fn options(mut self, options: ReceiverOptions) -> Self {
        self.options = options;
        self
    }

    /// Binds the queue of a consumer to an exchange of somebody else's too.
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

    /// Declares the queues and their bindings: what is published from now on is kept for these consumers, whether they
    /// run or not. [`Receiver::run`] does so too; this is for those who must know that it is done, before they publish.
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

    /// Works until `shutdown` is ready. Then nothing more is taken, what is in flight has [`ReceiverOptions::grace`] to
    /// finish, and the rest goes back to its queue. A broker that is away is waited for; one that has something else under
    /// our names is an error.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<()> {
        self.inbox.check()?;
        let lanes = self.inbox.lanes();
        let grace = self.options.grace;
        let shared = Arc::new(Shared {
            publisher: self.publisher,
            link: self.link,
            inbox: self.inbox,
            options: self.options,
            alerts: self.alerts,
            stop: CancellationToken::new(),
        });
        // Whatever ends this future ends its tasks too.
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
            tracing::warn!(?grace, "what is still in flight goes back to its queue");
        }
        Ok(())
    }
}

/// What all queues of one receiver share.
struct Shared<S: Enlist> {
    publisher: Publisher,
    link: Arc<Link>,
    inbox: Inbox<S>,
    options: ReceiverOptions,
    alerts: Vec<Arc<dyn Alert>>,
    stop: CancellationToken,
}

/// One queue.
struct LaneReceiver<S: Enlist> {
    shared: Arc<Shared<S>>,
    lane: Arc<Lane>,
    delays: Arc<BTreeSet<u64>>,
    bindings: BTreeSet<Binding>,
    figures: Arc<LaneFigures>,
    /// Whether the queues are known to be there.
    declared: bool,
    /// Whether the log knows that the queue is read.
    announced: bool,
    /// How many messages to have at hand. The broker counts every message that somebody had in vain, and too many such
    /// counts are taken for guilt; so a process begins with one, and takes more while messages come that were never in
    /// vain. What a session has lost is what the next may hope to do, or its messages would be counted for nothing.
    reach: u16,
    hands: Hands,
}

/// Why a session with the broker has ended.
enum Ended {
    Stopped,
    /// All went well: begin anew, with more at hand.
    Trusted,
    /// The connection was lost, after so many messages.
    Lost(Away, usize),
}

impl<S: Enlist> LaneReceiver<S> {
    fn new(shared: Arc<Shared<S>>, lane: Lane, bindings: BTreeSet<Binding>) -> Self {
        Self {
            shared,
            delays: Arc::new(topology::delays(&lane)),
            figures: Arc::new(LaneFigures::new(&lane.name)),
            lane: Arc::new(lane),
            bindings,
            declared: false,
            announced: false,
            reach: 1,
            hands: Hands::default(),
        }
    }

    async fn run(mut self) -> Result<()> {
        loop {
            let away = match self.session().await {
                Ok(Ended::Stopped) => return Ok(()),
                Ok(Ended::Trusted) => {
                    self.reach = self.reach.saturating_mul(GROWTH);
                    continue;
                }
                Ok(Ended::Lost(away, answered)) => {
                    self.reach = self.reach.min(u16::try_from(2 * answered + 1).unwrap_or(u16::MAX));
                    away
                }
                Err(Undeclared::Away(away)) => away,
                Err(Undeclared::Refused(error)) => return Err(error),
            };
            tracing::warn!(consumer = %self.lane.name, error = %away, "the queue is not read: the broker is away");
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
        let reach = self.reach.min(most);
        let opening = tokio::time::timeout(link.options.confirm_timeout, self.consume(&link, reach));
        let (channel, mut messages) = match opening.await {
            Ok(opened) => opened?,
            Err(_) => {
                link.lost("it does not answer");
                return Err(Away("it does not answer".into()).into());
            }
        };
        // What was begun in an earlier session goes on, but nobody is there to answer to.
        let session = CancellationToken::new();
        let _gone = session.clone().drop_guard();
        let (mut answered, mut unsuspected) = (0, 0);
        let ended = loop {
            self.begin(&session);
            tokio::select! {
                () = stop.cancelled() => break Ended::Stopped,
                Some(done) = self.hands.working.join_next() => {
                    match done {
                        Ok(done) => answered += self.hands.done(done),
                        // Consumers are guarded; whatever else this was, its messages are better off elsewhere.
                        Err(error) => break Ended::Lost(Away(error.to_string()), answered),
                    }
                    if reach < most && unsuspected >= reach && answered >= usize::from(reach) {
                        break Ended::Trusted;
                    }
                }
                message = messages.next() => match message {
                    Some(Ok(delivery)) => {
                        link.worked();
                        let message = Message::of(delivery);
                        unsuspected += u16::from(message.handed_out_in_vain() == 0);
                        self.hands.waiting.push_back(message);
                    }
                    Some(Err(error)) => break Ended::Lost(error.into(), answered),
                    None => break Ended::Lost(Away("the queue was closed".into()), answered),
                },
            }
        };
        if !matches!(ended, Ended::Lost(..)) {
            let grows = matches!(ended, Ended::Trusted);
            // No more messages; those that were begun are finished and answered for.
            tokio::select! {
                () = self.finish(&channel, messages, &session, grows) => {}
                () = gone(&channel) => {}
            }
        }
        // The others go back to the queue.
        self.hands.waiting.clear();
        Ok(ended)
    }

    /// Ends a session in peace: all that was begun, or `all` that is at hand, is finished first.
    async fn finish(
        &mut self,
        channel: &Channel,
        mut messages: lapin::Consumer,
        session: &CancellationToken,
        all: bool,
    ) {
        let _ = channel.basic_cancel(messages.tag(), Default::default()).await;
        if all {
            // Given back, they would be counted as had in vain, and come in another order.
            while let Some(Ok(delivery)) = messages.next().await {
                self.hands.waiting.push_back(Message::of(delivery));
            }
            while !self.hands.waiting.is_empty() {
                self.begin(session);
                self.hands.one_done().await;
            }
        }
        while self.hands.one_done().await {}
        let _ = channel.close(200, "done".into()).await;
    }

    async fn consume(&mut self, link: &Link, reach: u16) -> Result<(Channel, lapin::Consumer), Undeclared> {
        if !self.declared {
            self.declare().await?;
        }
        let channel = link.channel().await?;
        let tag = format!("{}-{}", self.lane.name, &Uuid::new_v4().simple().to_string()[..8]);
        channel.basic_qos(reach, BasicQosOptions::default()).await.map_err(Away::from)?;
        let queue = topology::queue(&self.lane.name);
        let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
        let consuming = channel.basic_consume(queue.as_str().into(), tag.as_str().into(), options, arguments);
        let messages = consuming.await.map_err(|error| {
            // Somebody may have removed it.
            self.declared = !is_objection(&error);
            Away::from(error)
        })?;
        // Said once: later sessions are no news.
        if !std::mem::replace(&mut self.announced, true) {
            tracing::info!(consumer = %self.lane.name, queue, "reading the queue");
        }
        tracing::debug!(consumer = %self.lane.name, queue, reach, "a session begins");
        Ok((channel, messages))
    }

    /// Begins as much as may be done at the same time. Messages of one key are handled one after the other.
    fn begin(&mut self, session: &CancellationToken) {
        let hands = &mut self.hands;
        while hands.working.len() < self.lane.options.concurrency.max(1) {
            let batch = hands.next_batch(self.lane.at_once);
            if batch.is_empty() {
                return;
            }
            let keys: Vec<_> = batch.iter().filter_map(|message| message.key().map(str::to_owned)).collect();
            hands.busy.extend(keys.iter().cloned());
            let done = Done { keys, messages: batch.len() };
            let work = Work {
                shared: Arc::clone(&self.shared),
                lane: Arc::clone(&self.lane),
                delays: Arc::clone(&self.delays),
                figures: Arc::clone(&self.figures),
                session: session.clone(),
            };
            hands.working.spawn(async move {
                work.handle(batch).await;
                done
            });
        }
    }
}

/// What a queue has handed out.
#[derive(Default)]
struct Hands {
    waiting: VecDeque<Message>,
    /// The keys of what is being handled, which each task gives back.
    busy: HashSet<String>,
    working: JoinSet<Done>,
}

/// What a task has done with.
#[derive(Default)]
struct Done {
    keys: Vec<String>,
    messages: usize,
}

impl Hands {
    /// Takes up to `limit` messages off the queue, in order, of no key that is busy.
    fn next_batch(&mut self, limit: usize) -> Vec<Message> {
        let mut batch = Vec::new();
        let mut blocked = HashSet::new();
        let mut n = 0;
        while n < self.waiting.len() && batch.len() < limit {
            let free = match self.waiting[n].key() {
                Some(key) => !self.busy.contains(key) && !blocked.contains(key),
                None => true,
            };
            match free {
                true => batch.extend(self.waiting.remove(n)),
                false => {
                    blocked.extend(self.waiting[n].key().map(str::to_owned));
                    n += 1;
                }
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

    /// How many messages that were.
    fn done(&mut self, done: Done) -> usize {
        for key in &done.keys {
            self.busy.remove(key);
        }
        done.messages
    }
}

/// What one task needs to handle messages.
struct Work<S: Enlist> {
    shared: Arc<Shared<S>>,
    lane: Arc<Lane>,
    delays: Arc<BTreeSet<u64>>,
    figures: Arc<LaneFigures>,
    /// Over when the channel is gone that the messages came by.
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
                    // Unanswered, they go back to the queue.
                    () = self.shared.stop.cancelled() => return,
                    () = tokio::time::sleep(retry::pause(refusals)) => {}
                }
            }
        }
    }

    /// The event to handle, or the outcome without a try: it failed for good, or is past its expiry.
    fn before(&self, message: &Message) -> Result<Arc<Envelope>, Outcome> {
        let envelope = message.envelope.as_ref().map_err(|failure| Outcome::Failed(failure.clone()))?;
        let in_vain = message.handed_out_in_vain();
        if in_vain >= IN_VAIN {
            let why = format!("given up: {in_vain} receivers got it and did not answer");
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

    /// The message has had its last try.
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

    /// Puts the message into another queue of its consumer's. False: it is not there, so it must not leave this one.
    async fn move_to(&self, queue: &str, message: &Message, failure: &Failure, attempts: u32) -> bool {
        let letter = Letter {
            exchange: "",
            routing_key: queue,
            body: &message.delivery.data,
            properties: Properties::Given(&message.after(failure, attempts)),
        };
        self.send(letter).await
    }

    /// Reports to the bus, where that is wanted. False: it may not have arrived.
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
            // A success is one, however often it is reported; every failure is another.
            callback_id: Some(failure.map_or_else(|| "success".into(), |_| Uuid::new_v4().to_string())),
            consumed_at: Some(SystemClock.now()),
        };
        let body = receipts::body(&report);
        self.send(Letter {
            exchange: "",
            routing_key: topology::RECEIPTS,
            body: &body,
            properties: Properties::Given(&receipts::properties()),
        })
        .await
    }

    /// Sends until it is confirmed; only the end of the receiver ends that.
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

    /// The broker may forget it. Where that does not arrive, the message comes again.
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

/// Waits until a channel is gone.
async fn gone(channel: &Channel) {
    while channel.status().connected() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
