//! Which processes use a store, and what each of them runs. Every process writes a row every few seconds, so that any of them
//! can tell which lane or loop no process runs, and in which state the broker is for the others.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Uuid;

use crate::consumer::Failure;
use crate::error::Result;
use crate::retry;
use crate::store::{Beat, LIVE, LaneCounts, Store};

/// How often a process writes its row. A change is written at once.
const BEAT: Duration = Duration::from_secs(5);
/// How often it looks for a change that does not announce itself: the state of the broker.
const TICK: Duration = Duration::from_secs(1);
/// How long after its start a process looks for what no process runs. Its own loops have begun by then.
const STARTED: Duration = Duration::from_secs(5);
/// How long a pulling consumer counts as present after a claim: longer than the longest poll.
const CLAIMED: Duration = Duration::from_secs(120);
/// How long the last write may take when a process ends.
const LEAVING: Duration = Duration::from_secs(1);

/// Routes events that were written by plain `INSERT`: a part of every relay.
pub const ROUTER: &str = "router";
/// Keeps the statuses for lists: [`Rollup`](crate::Rollup).
pub const ROLLUP: &str = "rollup";
/// Works on bulk operations: [`Operations`](crate::operations::Operations).
pub const OPERATIONS: &str = "operations";
/// Removes what is finished and old: [`Retention`](crate::Retention).
pub const RETENTION: &str = "retention";
/// Sends alerts: [`Alerting`](crate::alert::Alerting).
pub const ALERTS: &str = "alerts";
/// Checks the promises: [`Promises`](crate::Promises).
pub const PROMISES: &str = "promises";
/// Runs jobs: [`Jobs`](crate::Jobs).
pub const JOBS: &str = "jobs";

/// The loops that a store needs, and what happens without them.
pub const LOOPS: [(&str, &str); 7] = [
    (ROUTER, "events inserted by plain SQL are not delivered"),
    (ROLLUP, "lists show old statuses"),
    (OPERATIONS, "bulk operations stand still"),
    (RETENTION, "nothing that is finished is removed"),
    (ALERTS, "no alert is sent"),
    (PROMISES, "the promises are not checked"),
    (JOBS, "no job runs"),
];

/// What a process runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Running {
    /// The lanes that it delivers, and those that a pulling consumer has claimed from lately.
    pub lanes: BTreeSet<String>,
    /// Its loops: names of [`LOOPS`].
    pub loops: BTreeSet<String>,
    /// The state of its connection for publishing, if it has a broker.
    pub broker: Option<BrokerReport>,
    /// What is wrong with subscriptions, as the process knows it that keeps the queues of the broker.
    pub problems: Vec<SubscriptionProblem>,
}

/// The state of a broker for one process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BrokerReport {
    /// What it is.
    pub state: BrokerState,
    /// Since when.
    #[serde(with = "time::serde::rfc3339")]
    pub since: OffsetDateTime,
    /// Why.
    pub error: Option<String>,
}

/// Whether a broker takes messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BrokerState {
    /// Nothing has been sent yet.
    Unused,
    /// It does.
    Connected,
    /// It is short of memory or disk, and takes nothing.
    Blocked,
    /// There is no connection.
    Away,
}

impl BrokerState {
    /// Whether events wait for the broker.
    pub fn is_waited_for(self) -> bool {
        matches!(self, Self::Blocked | Self::Away)
    }
}

impl fmt::Display for BrokerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = self.since.replace_nanosecond(0).unwrap_or(self.since);
        let since = since.format(&time::format_description::well_known::Rfc3339).unwrap_or_default();
        match self.state {
            BrokerState::Unused | BrokerState::Connected => write!(f, "the broker takes events since {since}"),
            BrokerState::Blocked => write!(f, "the broker is blocked since {since}: it is short of memory or disk"),
            BrokerState::Away => {
                write!(
                    f,
                    "the broker is unreachable since {since}: {}",
                    self.error.as_deref().unwrap_or("no reason known")
                )
            }
        }
    }
}

/// What is wrong with a subscription.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscriptionProblem {
    /// The topic.
    pub topic: String,
    /// The consumer.
    pub consumer: String,
    /// What is wrong.
    pub problem: String,
}

/// Tells the state of a broker, and tries to reach it if it is away.
#[async_trait]
pub(crate) trait BrokerProbe: Send + Sync {
    async fn probe(&self) -> BrokerReport;
}

/// What this process runs on one store. All clones of a store share it.
#[derive(Clone, Default)]
pub struct Presence(Arc<PresenceInner>);

#[derive(Default)]
struct PresenceInner {
    state: Mutex<PresenceState>,
    /// Held by the loop that writes the row: a process may have many relays.
    beating: tokio::sync::Mutex<()>,
    changed: Notify,
}

#[derive(Default)]
struct PresenceState {
    role: Option<&'static str>,
    id: Option<String>,
    lanes: BTreeMap<String, usize>,
    loops: BTreeMap<&'static str, usize>,
    claims: BTreeMap<String, Instant>,
    problems: Vec<SubscriptionProblem>,
    broker: Option<Arc<dyn BrokerProbe>>,
}

impl fmt::Debug for Presence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Presence").field("lanes", &state.lanes).field("loops", &state.loops).finish_non_exhaustive()
    }
}

impl Presence {
    fn lock(&self) -> MutexGuard<'_, PresenceState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the role of this process, for operators.
    pub fn set_role(&self, role: &'static str) {
        self.lock().role = Some(role);
    }

    /// A pulling consumer has claimed.
    pub fn note_claim(&self, lane: &str) {
        let mut state = self.lock();
        match state.claims.get_mut(lane) {
            Some(at) => *at = Instant::now(),
            None => {
                state.claims.insert(lane.into(), Instant::now());
                self.0.changed.notify_one();
            }
        }
    }

    /// A lane is delivered here until the guard is dropped.
    pub(crate) fn lane(&self, name: &str) -> PresenceGuard {
        *self.lock().lanes.entry(name.into()).or_default() += 1;
        self.0.changed.notify_one();
        PresenceGuard { presence: self.clone(), entry: Entry::Lane(name.into()) }
    }

    /// A loop runs here until the guard is dropped.
    pub(crate) fn run_loop(&self, name: &'static str) -> PresenceGuard {
        *self.lock().loops.entry(name).or_default() += 1;
        self.0.changed.notify_one();
        PresenceGuard { presence: self.clone(), entry: Entry::Loop(name) }
    }

    #[cfg(feature = "rabbitmq")]
    pub(crate) fn watch_broker(&self, broker: Arc<dyn BrokerProbe>) {
        self.lock().broker = Some(broker);
    }

    #[cfg(feature = "rabbitmq")]
    pub(crate) fn set_problems(&self, problems: Vec<SubscriptionProblem>) {
        let mut state = self.lock();
        if state.problems != problems {
            state.problems = problems;
            self.0.changed.notify_one();
        }
    }

    async fn running(&self) -> Running {
        let broker = self.lock().broker.clone();
        let broker = match broker {
            Some(broker) => Some(broker.probe().await),
            None => None,
        };
        let mut state = self.lock();
        state.claims.retain(|_, at| at.elapsed() < CLAIMED);
        Running {
            lanes: state.lanes.keys().chain(state.claims.keys()).cloned().collect(),
            loops: state.loops.keys().map(ToString::to_string).collect(),
            broker,
            problems: state.problems.clone(),
        }
    }

    fn identity(&self) -> (String, &'static str) {
        let mut state = self.lock();
        let role = state.role.unwrap_or("service");
        let id = state.id.get_or_insert_with(|| {
            format!("{role}-{}-{}", std::process::id(), &Uuid::new_v4().simple().to_string()[..8])
        });
        (id.clone(), role)
    }
}

enum Entry {
    Lane(String),
    Loop(&'static str),
}

/// Its lane or loop runs while it lives.
pub(crate) struct PresenceGuard {
    presence: Presence,
    entry: Entry,
}

impl Drop for PresenceGuard {
    fn drop(&mut self) {
        let mut state = self.presence.lock();
        match &self.entry {
            Entry::Lane(name) => leave(&mut state.lanes, name),
            Entry::Loop(name) => leave(&mut state.loops, name),
        }
        drop(state);
        self.presence.0.changed.notify_one();
    }
}

fn leave<K: Ord + std::borrow::Borrow<Q>, Q: Ord + ?Sized>(running: &mut BTreeMap<K, usize>, name: &Q) {
    if let Some(count) = running.get_mut(name) {
        *count -= 1;
        if *count == 0 {
            running.remove(name);
        }
    }
}

/// Writes the row of this process until `stop` is ready. Of many calls in one process one works, and the next one
/// continues when it stops. `up` is awaited before each write: it completes when the store can be reached.
#[doc(hidden)]
pub async fn keep<F: Future<Output = ()> + Send>(
    store: Arc<dyn Store>,
    up: impl Fn() -> F + Send,
    stop: impl Future<Output = ()> + Send,
) {
    let presence = store.wake().presence().clone();
    let beating = async {
        let _one = presence.0.beating.lock().await;
        beat_on(&presence, &*store, up).await;
    };
    let mut stop = std::pin::pin!(stop);
    tokio::select! {
        () = &mut stop => {}
        () = beating => {}
    }
    // Only the call that has written removes the row. Another one that continues writes it again.
    if let Ok(_one) = presence.0.beating.try_lock() {
        let leaving = async {
            let id = presence.identity().0;
            if let Err(error) = store.leave(&id).await {
                tracing::debug!(error = %Failure::from(error), "the row of this process is left to run out");
            }
        };
        let _ = tokio::time::timeout(LEAVING, leaving).await;
    }
}

async fn beat_on<F: Future<Output = ()> + Send>(presence: &Presence, store: &dyn Store, up: impl Fn() -> F + Send) {
    let (started, mut warned) = (Instant::now(), false);
    let mut written: Option<(Running, Instant)> = None;
    let mut failed = 0;
    loop {
        up().await;
        let running = presence.running().await;
        let is_due = written.as_ref().is_none_or(|(last, at)| *last != running || at.elapsed() >= BEAT);
        let mut pause = TICK;
        if is_due {
            let (instance_id, role) = presence.identity();
            let version = env!("CARGO_PKG_VERSION");
            let beat = Beat { instance_id: &instance_id, role, version, running: &running };
            match store.beat(&beat).await {
                Ok(()) => (written, failed) = (Some((running, Instant::now())), 0),
                Err(error) => {
                    failed += 1;
                    pause = retry::pause(failed);
                    tracing::debug!(error = %Failure::from(error), "the row of this process is not written");
                }
            }
        }
        if !warned && started.elapsed() >= STARTED {
            warned = warn_unserved(store).await.is_ok();
        }
        let wake = async {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                // Written at once only if the store answers.
                () = presence.0.changed.notified(), if failed == 0 => {}
            }
        };
        wake.await;
    }
}

async fn warn_unserved(store: &dyn Store) -> Result<()> {
    let unserved = unserved(store).await?;
    for lane in &unserved.lanes {
        let UnservedLane { lane, waiting } = lane;
        tracing::warn!(
            lane,
            waiting,
            "deliveries wait and no process serves their lane: start its consumer, rename it, or discard them"
        );
    }
    for (name, without) in &unserved.loops {
        tracing::warn!(name, without, "no process runs this loop");
    }
    Ok(())
}

/// What no live process runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unserved {
    /// How many processes are live.
    pub live: usize,
    /// Lanes with deliveries that wait.
    pub lanes: Vec<UnservedLane>,
    /// Loops, with what happens without them.
    pub loops: Vec<(&'static str, &'static str)>,
}

/// A lane that no live process serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnservedLane {
    /// Its name: the consumer's, or the broker's.
    pub lane: String,
    /// How many deliveries wait.
    pub waiting: u64,
}

/// Finds what no live process runs.
pub async fn unserved(store: &dyn Store) -> Result<Unserved> {
    let live = store.instances(LIVE).await?;
    let has_jobs = !store.jobs().await?.is_empty();
    let waiting = |counts: &LaneCounts| counts.new + counts.processing + counts.failed;
    let counts = store.counts().await?;
    let lanes = counts.iter().filter(|(lane, counts)| {
        waiting(counts) > 0 && !live.iter().any(|instance| instance.running.lanes.contains(*lane))
    });
    let lanes = lanes.map(|(lane, counts)| UnservedLane { lane: lane.clone(), waiting: waiting(counts) }).collect();
    let is_missing = |(name, _): &(&str, &str)| {
        (*name != JOBS || has_jobs) && !live.iter().any(|instance| instance.running.loops.contains(*name))
    };
    Ok(Unserved { live: live.len(), lanes, loops: LOOPS.into_iter().filter(is_missing).collect() })
}
