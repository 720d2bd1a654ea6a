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
use lapin::options::{BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::handle::HandleMessages;
use super::link::{Away, Link, is_objection};
use super::message::Message;
use super::publisher::Publisher;
use super::topology::{self, Binding, Undeclared};
use crate::alert::Alert;
use crate::error::Result;
use crate::inbox::Inbox;
use crate::observe::LaneFigures;
use crate::store::Enlist;
use crate::transport::{Lane, Transport};

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
pub(super) struct ReceiverShared<S: Enlist> {
    pub(super) publisher: Publisher,
    pub(super) link: Arc<Link>,
    pub(super) inbox: Inbox<S>,
    pub(super) options: ReceiverOptions,
    pub(super) alerts: Vec<Arc<dyn Alert>>,
    pub(super) stop: CancellationToken,
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
            let work = HandleMessages {
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

    /// Waits for one task to end. Returns false if there is none.
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

/// Waits until a channel is closed.
async fn gone(channel: &Channel) {
    while channel.status().connected() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
