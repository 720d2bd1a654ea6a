//! One lane: claim → deliver → settle, all three at the same time and each in batches.
//!
//! One task owns the state of its lane, in three parts: [`Claiming`] decides when and how much to claim, [`Leases`] keeps
//! the leases of what was claimed, [`Writing`] gathers results until they are written. Other tasks deliver
//! (`deliver.rs`); only the queue of what waits is shared with them. Statements run in tasks too, and what arrives while
//! one runs is gathered for the next.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use super::RelayShared;
use super::claiming::{Claiming, Kind};
use super::deliver::{Portion, Queue, Run, deliver};
use super::terms::Terms;
use super::watch::LaneNotifier;
use super::writing::{Tried, Writing, Written};
use crate::consumer::Failure;
use crate::entry::{self, Outcome, StoppedKeys};
use crate::error::Result;
use crate::observe::{self, LaneFigures};
use crate::store::{Claim, Claimed, DeliveryId, History, Lease, Store, Token};
use crate::transport::{HeldLease, Lane, LaneOptions, Parcel, Transport};

pub(super) struct LaneTask {
    shared: Arc<RelayShared>,
    lane: Arc<Lane>,
    /// The options of the lane without the limits of the subscriptions, and those limits as last read.
    options: LaneOptions,
    terms: Arc<Terms>,
    transport: Arc<dyn Transport>,
    notifier: LaneNotifier,
    figures: Arc<LaneFigures>,

    claiming: Claiming,
    leases: Leases,
    writing: Writing,

    /// What was claimed and not begun, and the tasks that deliver it.
    queue: Arc<Queue>,
    delivering: JoinSet<Portion>,
    /// Statements under way. They are tasks because the rows of a large answer take a while to read.
    statements: JoinSet<Statement>,
}

/// A statement that has ended.
enum Statement {
    Claimed { kind: Kind, limit: u32, taken: Result<Taken> },
    Written(Written),
    Extended { asked: Instant, extensions: Vec<Extension> },
}

/// What one claim took.
struct Taken {
    lease: Arc<HeldLease>,
    deliveries: Vec<Claimed>,
}

impl LaneTask {
    pub(super) fn new(
        shared: Arc<RelayShared>,
        lane: Lane,
        transport: Arc<dyn Transport>,
        notifier: LaneNotifier,
    ) -> Self {
        Self {
            claiming: Claiming::new(&lane, shared.options.lease),
            figures: Arc::new(LaneFigures::new(&lane.name)),
            shared,
            options: lane.options.clone(),
            terms: Arc::default(),
            lane: Arc::new(lane),
            transport,
            notifier,
            leases: Leases::default(),
            writing: Writing::default(),
            queue: Arc::default(),
            delivering: JoinSet::new(),
            statements: JoinSet::new(),
        }
    }

    pub(super) async fn run(mut self) {
        let stop = self.shared.stop.clone();
        let mut heartbeat = tokio::time::interval(self.shared.options.lease / 3);
        heartbeat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let stopping = stop.is_cancelled();
            self.apply_terms();
            if stopping || !self.claiming.rest().is_zero() {
                self.release_queue();
            } else {
                self.claim();
            }
            self.deliver();
            self.write();
            if stopping && self.unfinished() == 0 && !self.claiming.is_under_way() {
                return;
            }
            self.publish_state();
            let wait = self.wait();
            tokio::select! {
                Some(ended) = self.statements.join_next() => self.statement_ended(ended.unwrap_or_else(propagate_panic)),
                // Never an error: panics are caught inside the task.
                Some(Ok(portion)) = self.delivering.join_next() => self.gather(portion),
                () = self.notifier.notified() => self.claiming.wake(),
                _ = heartbeat.tick() => self.extend(),
                () = sleep_for(wait) => {}
                () = stop.cancelled(), if !stopping => {}
                () = self.shared.health.up(), if !self.shared.health.is_up() => {}
            }
        }
    }

    /// Takes over what the subscriptions of the consumer say, if that was read again.
    fn apply_terms(&mut self) {
        let terms = self.shared.terms();
        if Arc::ptr_eq(&terms, &self.terms) {
            return;
        }
        let (before, now) = (self.terms.of(&self.lane.name), terms.of(&self.lane.name));
        if before != now {
            let options = now.map_or_else(|| self.options.clone(), |now| now.applied_to(&self.options));
            self.claiming.limit_rate(options.per_second);
            self.lane = Arc::new(Lane { options, ..Lane::clone(&self.lane) });
        }
        self.terms = terms;
    }

    /// Deliveries that were claimed and whose results are not written yet.
    fn unfinished(&self) -> usize {
        self.leases.len() + self.writing.len()
    }

    /// Lets the watcher know what the lane is doing.
    fn publish_state(&self) {
        let wants_more = self.claiming.wants_more() && !self.shared.is_paused(&self.lane.name);
        let (claims, unfinished) = (wants_more || self.claiming.is_under_way(), self.unfinished() > 0);
        self.notifier.set_state(claims, unfinished);
        if self.shared.until_drained && !claims && !unfinished {
            // The watcher looks now whether that was all, instead of when its next look is due.
            self.shared.look.notify_one();
        }
    }

    /// How long until something is due by itself.
    fn wait(&self) -> Option<Duration> {
        let write = if self.shared.health.is_up() { self.writing.wait() } else { None };
        let claim = self.claiming.wait(self.unfinished());
        [write, claim].into_iter().flatten().min()
    }

    fn statement_ended(&mut self, statement: Statement) {
        match statement {
            Statement::Claimed { kind, limit, taken: Ok(taken) } => self.claimed(kind, limit, taken),
            Statement::Claimed { kind, limit, taken: Err(error) } => {
                if self.shared.health.note(&error) {
                    self.claiming.interrupted(kind, limit);
                } else {
                    self.claiming.refused_by_store(kind, limit);
                    self.notifier.claim_ended(false);
                    let error = Failure::from(error);
                    tracing::error!(lane = %self.lane.name, %error, "a claim was refused");
                }
            }
            Statement::Written(written) => {
                if self.writing.written(written) {
                    self.claiming.wake_keyed();
                }
            }
            Statement::Extended { asked, extensions } => self.extended(asked, extensions),
        }
    }

    // --- claim

    fn claim(&mut self) {
        if !self.shared.health.is_up() || self.shared.is_paused(&self.lane.name) {
            return;
        }
        while let Some((kind, limit)) = self.claiming.next(self.unfinished()) {
            let (shared, lane) = (Arc::clone(&self.shared), Arc::clone(&self.lane));
            self.statements.spawn(async move {
                let claim = Claim {
                    lane: lane.name.to_string(),
                    shards: shared.options.shards,
                    limit,
                    bytes: lane.options.claim_bytes,
                    lease: shared.options.lease,
                    owner: shared.owner.clone(),
                };
                let asked = Instant::now();
                let lease = match kind {
                    Kind::Unkeyed => shared.store.claim(&claim).await,
                    Kind::Keyed => shared.store.claim_keyed(&claim, lane.options.dead_head).await,
                };
                if let Ok(lease) = &lease {
                    append_lost(&*shared.store, &lane, lease).await;
                }
                let taken = lease.map(|lease| Taken {
                    lease: Arc::new(HeldLease::new(lease.token, asked, claim.lease)),
                    deliveries: lease.deliveries,
                });
                Statement::Claimed { kind, limit, taken }
            });
        }
    }

    fn claimed(&mut self, kind: Kind, limit: u32, Taken { lease, deliveries }: Taken) {
        let tried_before = deliveries.iter().any(|claimed| claimed.attempt > 1);
        let bytes = deliveries.iter().map(|claimed| claimed.envelope.payload.len()).sum();
        self.claiming.succeeded(kind, limit, deliveries.len(), bytes, tried_before);
        self.notifier.claim_ended(!deliveries.is_empty());
        if !deliveries.is_empty() {
            self.leases.insert(&lease, &deliveries);
            self.enqueue(&lease, deliveries);
        }
    }

    /// Queues what may be tried: in runs of one key, or alone where there is no key.
    fn enqueue(&mut self, lease: &Arc<HeldLease>, deliveries: Vec<Claimed>) {
        let mut runs: Vec<Run> = Vec::with_capacity(deliveries.len());
        let mut run_of: HashMap<String, usize> = HashMap::new();
        let mut stopped = StoppedKeys::default();
        for Claimed { id, target, attempt, expired, envelope } in deliveries {
            let max_attempts = self.lane.options.max_attempts(&envelope, &self.lane.options.retry);
            let key = envelope.key.as_deref();
            let instead = stopped
                .instead_of_try(key)
                .or_else(|| entry::before(attempt, max_attempts, expired))
                .or_else(|| envelope.unreadable().map(Outcome::Failed));
            if let Some(outcome) = instead {
                let outcome = stopped.record(key, outcome);
                self.note(lease.token, Tried { id, attempt, envelope, outcome });
                continue;
            }
            let run = match &envelope.key {
                None => runs.len(),
                Some(key) => *run_of.entry(key.clone()).or_insert(runs.len()),
            };
            let parcel = Parcel { id, target, attempt, envelope, lease: Arc::clone(lease) };
            match runs.get_mut(run) {
                Some(run) => run.push(parcel),
                None => runs.push(Run::from([parcel])),
            }
        }
        self.queue.extend(runs);
    }

    // --- deliver

    fn deliver(&mut self) {
        let free = self.lane.options.concurrency.max(1) - self.delivering.len();
        for _ in 0..free.min(self.queue.len()) {
            let (lane, transport) = (Arc::clone(&self.lane), Arc::clone(&self.transport));
            let (shared, queue, pace) = (Arc::clone(&self.shared), Arc::clone(&self.queue), self.claiming.pace());
            self.delivering.spawn(async move { deliver(&shared, &lane, &*transport, &queue, pace).await });
        }
    }

    fn gather(&mut self, portion: Portion) {
        // Other tasks may have emptied the queue first.
        if portion.tried.is_empty() {
            return;
        }
        self.claiming.delivered(portion.tried.len(), portion.took, portion.refused);
        for (token, tried) in portion.tried {
            self.note(token, tried);
        }
    }

    /// Takes note of a result: from now on the lease is not extended for it.
    fn note(&mut self, token: Token, tried: Tried) {
        self.leases.end(token, &[tried.id]);
        self.claiming.dropped(tried.envelope.payload.len());
        self.writing.add(&self.lane, &self.figures, token, tried);
    }

    /// Empties the queue: its parcels are released.
    fn release_queue(&mut self) {
        for Parcel { id, attempt, envelope, lease, .. } in self.queue.clear() {
            self.note(lease.token, Tried { id, attempt, envelope, outcome: Outcome::NotTried });
        }
    }

    // --- settle

    fn write(&mut self) {
        if !self.shared.health.is_up() {
            return;
        }
        let more_is_coming = !self.delivering.is_empty() || !self.queue.is_empty();
        let leases = &self.leases;
        // The results of one claim are settled by one statement, so a claim waits until all of it is tried, or for a while.
        let Some(results) = self.writing.take(more_is_coming, |token| !leases.contains(token)) else { return };
        let (shared, figures) = (Arc::clone(&self.shared), Arc::clone(&self.figures));
        let history = self.lane.options.history;
        self.statements.spawn(async move { Statement::Written(results.write(&shared, &figures, history).await) });
    }

    // --- extend

    /// Extends the leases of what waits or is being delivered.
    fn extend(&mut self) {
        let length = self.shared.options.lease;
        if !self.shared.health.is_up() {
            return;
        }
        let Some(due) = self.leases.begin_extension(length) else { return };
        let shared = Arc::clone(&self.shared);
        self.statements.spawn(async move {
            let asked = Instant::now();
            let mut extensions = Vec::with_capacity(due.len());
            for (token, deliveries) in due {
                let kept = shared.store.extend(token, &deliveries, length).await;
                extensions.push(Extension { token, deliveries, kept });
            }
            Statement::Extended { asked, extensions }
        });
    }

    fn extended(&mut self, asked: Instant, extensions: Vec<Extension>) {
        self.leases.end_extension();
        for Extension { token, deliveries, kept } in extensions {
            let kept = match kept {
                Ok(kept) => kept,
                Err(error) => {
                    self.shared.health.note(&error);
                    continue;
                }
            };
            let lost = self.leases.extended(token, asked, self.shared.options.lease, &deliveries, &kept);
            if !lost.is_empty() {
                // What is queued must not begin. What is being delivered finds out when it ends.
                let removed = self.queue.remove(|parcel| parcel.lease.token == token && lost.contains(&parcel.id));
                let ids: Vec<_> = removed.iter().map(|parcel| parcel.id).collect();
                self.leases.end(token, &ids);
                self.claiming.dropped(removed.iter().map(|parcel| parcel.envelope.payload.len()).sum());
                observe::lease_lost(removed.len());
            }
        }
    }
}

/// The leases of what waits or is being delivered, by claim.
#[derive(Default)]
struct Leases {
    held: HashMap<Token, Held>,
    extending: bool,
}

struct Held {
    lease: Arc<HeldLease>,
    taken: Vec<DeliveryId>,
    /// Those that need no lease any more. A list, since it grows with every delivery and is seldom searched.
    ended: Vec<DeliveryId>,
}

/// The answer to one extension.
struct Extension {
    token: Token,
    deliveries: Vec<DeliveryId>,
    kept: Result<Vec<DeliveryId>>,
}

impl Leases {
    fn insert(&mut self, lease: &Arc<HeldLease>, deliveries: &[Claimed]) {
        let taken: Vec<_> = deliveries.iter().map(|claimed| claimed.id).collect();
        let ended = Vec::with_capacity(taken.len());
        self.held.insert(lease.token, Held { lease: Arc::clone(lease), taken, ended });
    }

    /// How many deliveries need their lease.
    fn len(&self) -> usize {
        self.held.values().map(Held::len).sum()
    }

    /// Whether a delivery of this claim still needs its lease.
    fn contains(&self, token: Token) -> bool {
        self.held.contains_key(&token)
    }

    /// These deliveries need their lease no more.
    fn end(&mut self, token: Token, deliveries: &[DeliveryId]) {
        if let Some(held) = self.held.get_mut(&token) {
            held.ended.extend_from_slice(deliveries);
            if held.len() == 0 {
                self.held.remove(&token);
            }
        }
    }

    /// What to extend: everything that has less than three quarters of its lease left. Returns `None` if there is
    /// nothing, or if an extension is under way.
    fn begin_extension(&mut self, length: Duration) -> Option<Vec<(Token, Vec<DeliveryId>)>> {
        if self.extending {
            return None;
        }
        let due = self.held.values().filter(|held| held.lease.remaining() < length * 3 / 4);
        let due: Vec<_> = due.map(|held| (held.lease.token, held.open())).collect();
        self.extending = !due.is_empty();
        self.extending.then_some(due)
    }

    fn end_extension(&mut self) {
        self.extending = false;
    }

    /// Takes note of an extension of `asked_for`, of which the store still had `kept`. Returns the others: another claim
    /// has taken them, or they were completed a moment ago.
    fn extended(
        &mut self,
        token: Token,
        asked: Instant,
        length: Duration,
        asked_for: &[DeliveryId],
        kept: &[DeliveryId],
    ) -> HashSet<DeliveryId> {
        let Some(held) = self.held.get(&token) else { return HashSet::new() };
        held.lease.extend(asked, length);
        let kept: HashSet<_> = kept.iter().collect();
        let lost: HashSet<_> = asked_for.iter().filter(|id| !kept.contains(id)).copied().collect();
        if !lost.is_empty() && held.open().iter().all(|id| lost.contains(id)) {
            held.lease.lose();
        }
        lost
    }
}

impl Held {
    fn len(&self) -> usize {
        self.taken.len() - self.ended.len()
    }

    /// What still needs the lease.
    fn open(&self) -> Vec<DeliveryId> {
        let ended: HashSet<_> = self.ended.iter().collect();
        self.taken.iter().filter(|id| !ended.contains(id)).copied().collect()
    }
}

/// A panic in a store's code ends the lane.
fn propagate_panic<T>(error: JoinError) -> T {
    std::panic::resume_unwind(error.into_panic())
}

/// D.8: adds attempts to the history whose worker died. Only people read it, so an error does not stop the claim.
async fn append_lost(store: &dyn Store, lane: &Lane, lease: &Lease) {
    let prior = match lane.options.history {
        History::Keep => lease.prior_attempts(lane.options.retry.max_attempts),
        History::Omit => return,
    };
    if !prior.is_empty()
        && let Err(error) = store.append_lost(lease.token, &prior).await
    {
        let error = Failure::from(error);
        tracing::warn!(lane = %lane.name, %error, "attempts whose worker died are missing in the history");
    }
}

async fn sleep_for(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}
