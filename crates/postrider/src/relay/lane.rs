//! One lane: claim → deliver → settle, all three at the same time and each in batches.
//!
//! The task owns everything the lane has in hand, but for what stands in line to be delivered: tasks of their own take from
//! that (`deliver.rs`). The three kinds of statements (claim, write, extend) run beside them, each at most once at a time. What arrives while one runs is
//! gathered for the next.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use super::Shared;
use super::deliver::{Broken, Line, Portion, Run, deliver};
use super::outcomes::{How, Outcomes, Tried, Written};
use super::rate::Rate;
use super::watch::Bell;
use crate::consumer::Failure;
use crate::entry::{self, Verdict};
use crate::error::Result;
use crate::limits;
use crate::observe::{self, LaneFigures};
use crate::retry;
use crate::store::{Claim, Claimed, DeliveryId, Token};
use crate::transport::{Delivered, HeldLease, Lane, Parcel, Transport};

/// How long a result may wait for the others of its claim, to be written with them. With a fifth of this, less than a claim takes, a
/// relay to the broker waited for the disk nearly twice as often.
const LINGER: Duration = Duration::from_millis(25);
/// Batches that a lane has in hand or has asked for, at most: so that some are claimed and some written while others are
/// delivered.
const BATCHES_IN_HAND: usize = 5;
/// Claims, and writes, at the same time while there is a backlog: one is answered while the other is on its way.
const SIDE_BY_SIDE: usize = 2;
/// How long a lane has to live to be trusted with more, although nothing has finished: some work is slow.
const SURVIVED: Duration = Duration::from_secs(1);

pub(super) struct LaneTask {
    shared: Arc<Shared>,
    lane: Lane,
    transport: Arc<dyn Transport>,
    bell: Bell,
    rate: Rate,
    figures: Arc<LaneFigures>,

    /// Whether there may be more to claim.
    hungry: ByKind<bool>,
    /// Whether the last claim took all that it might: then there is a backlog, and one claim at a time is too slow.
    full: ByKind<bool>,
    /// Whether the last claim took something that was tried before, maybe by a process that died of it.
    tried_before: bool,
    waiting: Arc<Line>,
    delivering: JoinSet<Portion>,
    outcomes: Outcomes,
    /// Every delivery whose lease is ours to keep, by claim.
    held: HashMap<Token, Held>,
    /// How long a delivery takes, in seconds, lately.
    pace: f64,
    /// Since when the lane has been at work, and how many deliveries it has survived.
    began: Instant,
    survived: usize,
    /// How often in a row the transport has tried nothing, and until when it is left alone.
    refusals: u32,
    rest_until: Instant,

    /// Statements under way, as tasks of their own too: the rows of a large answer take a while to read.
    steps: JoinSet<Step>,
    /// Claims under way, and how many deliveries they may bring.
    claiming: ByKind<usize>,
    asked_for: usize,
    /// The claims whose results are being written, by write, and how many results that are.
    writes: Vec<HashSet<Token>>,
    writing: usize,
    extending: bool,
}

struct Held {
    lease: Arc<HeldLease>,
    taken: Vec<DeliveryId>,
    /// Those of them that need no lease any more. A list: it grows with every delivery, and is seldom searched.
    done: Vec<DeliveryId>,
}

impl Held {
    fn len(&self) -> usize {
        self.taken.len() - self.done.len()
    }

    /// What waits or is being worked on.
    fn open(&self) -> Vec<DeliveryId> {
        let done: HashSet<_> = self.done.iter().collect();
        self.taken.iter().filter(|id| !done.contains(id)).copied().collect()
    }
}

/// A statement that has ended.
enum Step {
    Claimed { kind: Kind, limit: u32, taken: Result<Taken> },
    Written { tokens: HashSet<Token>, count: usize, written: Written },
    Extended { asked: Instant, kept: Vec<Extension> },
}

/// What one claim took.
struct Taken {
    lease: Arc<HeldLease>,
    deliveries: Vec<Claimed>,
}

/// What became of a heartbeat.
struct Extension {
    token: Token,
    deliveries: Vec<DeliveryId>,
    kept: Result<Vec<DeliveryId>>,
}

/// Deliveries without a key and those with one are claimed apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Unkeyed,
    Keyed,
}

/// Something for each kind.
#[derive(Clone, Copy, Default)]
struct ByKind<T> {
    unkeyed: T,
    keyed: T,
}

impl<T> ByKind<T> {
    fn of(&mut self, kind: Kind) -> &mut T {
        match kind {
            Kind::Unkeyed => &mut self.unkeyed,
            Kind::Keyed => &mut self.keyed,
        }
    }
}

impl LaneTask {
    pub(super) fn new(shared: Arc<Shared>, lane: Lane, transport: Arc<dyn Transport>, bell: Bell) -> Self {
        let rate = Rate::new(lane.options.per_second);
        let figures = Arc::new(LaneFigures::new(&lane.name));
        Self {
            shared,
            lane,
            transport,
            bell,
            rate,
            figures,
            hungry: ByKind { unkeyed: true, keyed: true },
            full: ByKind::default(),
            tried_before: false,
            waiting: Arc::default(),
            delivering: JoinSet::new(),
            outcomes: Outcomes::default(),
            held: HashMap::new(),
            pace: 0.0,
            began: Instant::now(),
            survived: 0,
            refusals: 0,
            rest_until: Instant::now(),
            steps: JoinSet::new(),
            claiming: ByKind::default(),
            asked_for: 0,
            writes: Vec::new(),
            writing: 0,
            extending: false,
        }
    }

    pub(super) async fn run(mut self) {
        let stop = self.shared.stop.clone();
        let mut heartbeat = tokio::time::interval(self.shared.options.lease / 3);
        heartbeat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let stopping = stop.is_cancelled();
            if stopping || !self.rest().is_zero() {
                self.give_back_what_was_not_begun();
            } else {
                self.claim();
            }
            self.deliver();
            self.write();
            if stopping && self.in_hand() == 0 && !self.is_claiming() {
                return;
            }
            let hungry = self.is_hungry() && !self.shared.is_paused(&self.lane.name);
            let (busy, in_hand) = (hungry || self.is_claiming(), self.in_hand() > 0);
            self.bell.set_busy(busy, in_hand);
            if self.shared.until_drained && !busy && !in_hand {
                // A look finds out whether that was all: now, not when the next one is due.
                self.shared.look.notify_one();
            }
            let wait = self.wait();
            tokio::select! {
                Some(step) = self.steps.join_next() => self.apply(step.unwrap_or_else(panic_on)),
                // Ends in no other way: panics are caught inside.
                Some(Ok(portion)) = self.delivering.join_next() => self.gather(portion),
                () = self.bell.rung() => self.hungry = ByKind { unkeyed: true, keyed: true },
                _ = heartbeat.tick() => self.extend(),
                () = sleep_at_most(wait) => {}
                () = stop.cancelled(), if !stopping => {}
                () = self.shared.health.up(), if !self.shared.health.is_up() => {}
            }
        }
    }

    /// Until when nothing happens by itself.
    fn wait(&self) -> Option<Duration> {
        let waiting = self.outcomes.waiting().filter(|(token, _)| !is_in(&self.writes, *token));
        let linger = waiting.map(|(_, since)| LINGER.saturating_sub(since.elapsed())).min();
        let linger = linger.filter(|_| self.writes.len() < SIDE_BY_SIDE && self.shared.health.is_up());
        let claim = [self.rate.wait(), self.rest(), self.until_trusted()].into_iter().max();
        let claim = claim.filter(|wait| !wait.is_zero() && self.is_hungry());
        [linger, claim].into_iter().flatten().min()
    }

    /// How much longer the transport is left alone.
    fn rest(&self) -> Duration {
        self.rest_until.saturating_duration_since(Instant::now())
    }

    /// How many more deliveries the lane may take on. A claim counts an attempt for all that it takes, so whatever kills
    /// this process charges everything in hand, and would in the end bury the innocent beside it. A new lane therefore
    /// begins with one and takes on as many as it has survived; and at first, one after the other what was tried before: it
    /// comes first, and from the second crash on the culprit is alone.
    fn trusted(&self) -> usize {
        let lived = self.began.elapsed().as_millis() / SURVIVED.as_millis();
        let lived = usize::try_from(lived).unwrap_or(usize::MAX);
        if lived == 0 && self.tried_before {
            return usize::from(self.in_hand() + self.asked_for == 0);
        }
        let for_living = lived.saturating_mul(self.lane.options.concurrency.max(1).saturating_mul(self.lane.at_once));
        let in_hand = self.in_hand() + self.asked_for;
        let more = for_living.saturating_add(self.survived + 1).saturating_sub(in_hand);
        // A claim for every one that ends would be two at a time, for ever so long: half as many as there were, at least,
        // or a batch.
        let worth_a_claim = (self.survived / 2).min(self.lane.options.batch as usize);
        match more > worth_a_claim || in_hand == 0 {
            true => more,
            false => 0,
        }
    }

    /// How long until it may take on more, if nothing finishes.
    fn until_trusted(&self) -> Duration {
        match self.trusted() {
            0 => SURVIVED - Duration::from_nanos((self.began.elapsed().as_nanos() % SURVIVED.as_nanos()) as u64),
            _ => Duration::ZERO,
        }
    }

    fn is_hungry(&self) -> bool {
        self.hungry.unkeyed || self.hungry.keyed
    }

    fn is_claiming(&self) -> bool {
        self.claiming.unkeyed + self.claiming.keyed > 0
    }

    fn in_hand(&self) -> usize {
        self.held.values().map(Held::len).sum::<usize>() + self.outcomes.len() + self.writing
    }

    // --- claim

    fn claim(&mut self) {
        for kind in [Kind::Unkeyed, Kind::Keyed] {
            let at_once = if *self.full.of(kind) { SIDE_BY_SIDE } else { 1 };
            while *self.hungry.of(kind) && *self.claiming.of(kind) < at_once && self.claim_kind(kind) {}
        }
    }

    /// False: not now.
    fn claim_kind(&mut self, kind: Kind) -> bool {
        let batch = self.lane.options.batch.clamp(1, limits::CLAIM_DELIVERIES);
        let enough = batch.min(u32::try_from(self.enough()).unwrap_or(u32::MAX));
        let in_hand = self.in_hand() + self.asked_for;
        if in_hand + enough as usize > enough as usize * BATCHES_IN_HAND
            || !self.shared.health.is_up()
            || self.shared.is_paused(&self.lane.name)
        {
            return false;
        }
        let limit = self.rate.allow(enough.min(u32::try_from(self.trusted()).unwrap_or(u32::MAX)));
        if limit == 0 {
            return false;
        }
        *self.claiming.of(kind) += 1;
        self.asked_for += limit as usize;
        let shared = Arc::clone(&self.shared);
        let claim = Claim {
            lane: self.lane.name.to_string(),
            shards: shared.options.shards,
            limit,
            lease: shared.options.lease,
            owner: shared.owner.clone(),
        };
        self.steps.spawn(async move {
            let asked = Instant::now();
            let lease = match kind {
                Kind::Unkeyed => shared.store.claim(&claim).await,
                Kind::Keyed => shared.store.claim_keyed(&claim, shared.options.dead_head).await,
            };
            let taken = lease.map(|lease| Taken {
                lease: Arc::new(HeldLease::new(lease.token, asked, claim.lease)),
                deliveries: lease.deliveries,
            });
            Step::Claimed { kind, limit, taken }
        });
        self.rate.spend(limit as usize);
        true
    }

    /// A quarter of a lease's worth of work, by the pace of late: slow work is left for others to claim.
    fn enough(&self) -> usize {
        let seconds = self.shared.options.lease.as_secs_f64() / 4.0;
        let parcels = self.lane.options.concurrency.max(1) as f64 * seconds / self.pace.max(1e-9);
        (parcels.min(f64::from(u32::MAX)) as usize).max(self.lane.options.concurrency.max(self.lane.at_once))
    }

    fn claimed(&mut self, kind: Kind, limit: u32, Taken { lease, deliveries }: Taken) {
        self.rate.unspend(limit as usize - deliveries.len().min(limit as usize));
        *self.full.of(kind) = deliveries.len() == limit as usize;
        *self.hungry.of(kind) &= !deliveries.is_empty();
        self.bell.fed(!deliveries.is_empty());
        if deliveries.is_empty() {
            return;
        }
        self.tried_before = deliveries.iter().any(|claimed| claimed.attempt > 1);
        let taken: Vec<_> = deliveries.iter().map(|claimed| claimed.id).collect();
        let done = Vec::with_capacity(taken.len());
        self.held.insert(lease.token, Held { lease: Arc::clone(&lease), taken, done });
        self.sort_out(&lease, deliveries);
    }

    /// Puts in line what may be tried, as runs of a key where it has one.
    fn sort_out(&mut self, lease: &Arc<HeldLease>, deliveries: Vec<Claimed>) {
        let mut runs: Vec<Run> = Vec::with_capacity(deliveries.len());
        let mut run_of: HashMap<String, usize> = HashMap::new();
        let mut broken: HashMap<String, Broken> = HashMap::new();
        for claimed in deliveries {
            let max_attempts = claimed.envelope.max_attempts.unwrap_or(self.lane.options.retry.max_attempts);
            let how = match entry::before(claimed.attempt, max_attempts, claimed.expired) {
                Verdict::Deliver => None,
                Verdict::Expire => Some(How::Expired),
                Verdict::Exhausted => Some(How::Exhausted),
            };
            let parcel = Parcel {
                id: claimed.id,
                target: claimed.target,
                attempt: claimed.attempt,
                envelope: claimed.envelope,
                lease: Arc::clone(lease),
            };
            // Nothing may come before what is in front of it is out of the way.
            let how = match parcel.envelope.key.as_ref().and_then(|key| broken.get(key)) {
                Some(broken) => Some(broken.rest()),
                None => how,
            };
            if let Some(how) = how {
                if let (Some(key), Some(reason)) = (&parcel.envelope.key, Broken::of(&how)) {
                    broken.entry(key.clone()).or_insert(reason);
                }
                let (id, attempt, envelope) = (parcel.id, parcel.attempt, parcel.envelope);
                self.note(lease.token, Tried { id, attempt, envelope, how });
                continue;
            }
            match parcel.envelope.key.clone() {
                None => runs.push(Run::from([parcel])),
                Some(key) => {
                    let run = *run_of.entry(key).or_insert(runs.len());
                    match runs.get_mut(run) {
                        Some(run) => run.push(parcel),
                        None => runs.push(Run::from([parcel])),
                    }
                }
            }
        }
        self.waiting.join(runs);
    }

    // --- deliver

    fn deliver(&mut self) {
        let free = self.lane.options.concurrency.max(1) - self.delivering.len();
        for _ in 0..free.min(self.waiting.len()) {
            let (lane, transport, shared) = (self.lane.clone(), Arc::clone(&self.transport), Arc::clone(&self.shared));
            let (line, pace) = (Arc::clone(&self.waiting), self.pace);
            self.delivering.spawn(async move { deliver(&shared, &lane, &*transport, &line, pace).await });
        }
    }

    fn gather(&mut self, portion: Portion) {
        let parcels = portion.tried.len();
        if parcels == 0 {
            // The others were quicker.
            return;
        }
        let each = portion.took.as_secs_f64() / parcels as f64;
        self.pace = if self.pace == 0.0 { each } else { self.pace * 0.8 + each * 0.2 };
        self.survived = self.survived.saturating_add(parcels);
        match portion.refused {
            // Given back at once it would be claimed again at once, and so on as fast as the store can.
            true => {
                self.refusals = self.refusals.saturating_add(1);
                self.rest_until = Instant::now() + retry::pause(self.refusals);
                self.hungry = ByKind { unkeyed: true, keyed: true };
            }
            false => self.refusals = 0,
        }
        for (token, tried) in portion.tried {
            self.note(token, tried);
        }
    }

    /// Takes note of a result: from now on the lease is not extended for it, unless it waits to be written.
    fn note(&mut self, token: Token, tried: Tried) {
        self.let_go(token, &[tried.id]);
        self.outcomes.add(&self.lane, &self.figures, token, tried);
    }

    /// Nothing of the claim's that is listed needs its lease any more.
    fn let_go(&mut self, token: Token, deliveries: &[DeliveryId]) {
        if let Some(held) = self.held.get_mut(&token) {
            held.done.extend_from_slice(deliveries);
            if held.len() == 0 {
                self.held.remove(&token);
            }
        }
    }

    fn give_back_what_was_not_begun(&mut self) {
        for parcel in self.waiting.clear() {
            self.note(parcel.lease.token, tried(parcel.id, parcel.attempt, parcel.envelope, Delivered::NotTried));
        }
    }

    // --- settle

    fn write(&mut self) {
        if self.outcomes.is_empty() || self.writes.len() >= SIDE_BY_SIDE || !self.shared.health.is_up() {
            return;
        }
        let more_is_coming = !self.delivering.is_empty() || !self.waiting.is_empty();
        let (held, writes) = (&self.held, &self.writes);
        // What one claim took is settled by one statement, so all of it at once, unless that takes too long. And one write after
        // the other: in the order of its keys.
        let outcomes = self.outcomes.take(|token, since| {
            let whole = !held.contains_key(&token);
            (whole || !more_is_coming || since.elapsed() >= LINGER) && !is_in(writes, token)
        });
        if outcomes.is_empty() {
            return;
        }
        self.writing += outcomes.len();
        let (tokens, count) = (outcomes.tokens(), outcomes.len());
        self.writes.push(tokens.clone());
        let (shared, figures, history) =
            (Arc::clone(&self.shared), Arc::clone(&self.figures), self.lane.options.history);
        self.steps.spawn(async move {
            Step::Written { tokens, count, written: outcomes.write(&shared, &figures, history).await }
        });
    }

    // --- heartbeat

    /// Lengthens the leases of what is waiting or being worked on.
    fn extend(&mut self) {
        let length = self.shared.options.lease;
        let due = self.held.values().filter(|held| held.lease.remaining() < length * 3 / 4);
        let due: Vec<_> = due.map(|held| (held.lease.token, held.open())).collect();
        if due.is_empty() || self.extending || !self.shared.health.is_up() {
            return;
        }
        self.extending = true;
        let shared = Arc::clone(&self.shared);
        self.steps.spawn(async move {
            let asked = Instant::now();
            let mut kept = Vec::with_capacity(due.len());
            for (token, deliveries) in due {
                let answer = shared.store.extend(token, &deliveries, length).await;
                kept.push(Extension { token, deliveries, kept: answer });
            }
            Step::Extended { asked, kept }
        });
    }

    fn extended(&mut self, asked: Instant, extensions: Vec<Extension>) {
        let length = self.shared.options.lease;
        for Extension { token, deliveries, kept } in extensions {
            let ours: HashSet<_> = match kept {
                Ok(ours) => ours.into_iter().collect(),
                Err(error) => {
                    self.shared.health.note(&error);
                    continue;
                }
            };
            let Some(held) = self.held.get(&token) else { continue };
            held.lease.extend(asked, length);
            // Gone: taken by somebody else, or completed a moment ago. What waits must not be begun.
            let gone: HashSet<_> = deliveries.into_iter().filter(|id| !ours.contains(id)).collect();
            if gone.is_empty() {
                continue;
            }
            if held.open().iter().all(|id| gone.contains(id)) {
                held.lease.lose();
            }
            let lost = self.waiting.remove(|parcel| parcel.lease.token == token && gone.contains(&parcel.id));
            self.let_go(token, &lost);
            observe::lease_lost(lost.len());
        }
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Claimed { kind, limit, taken } => {
                *self.claiming.of(kind) -= 1;
                self.asked_for -= limit as usize;
                match taken {
                    Ok(taken) => self.claimed(kind, limit, taken),
                    Err(error) => {
                        if !self.shared.health.note(&error) {
                            // Not an outage, so nobody else waits for it: the next poll tries again.
                            *self.hungry.of(kind) = false;
                            self.bell.fed(false);
                            let error = Failure::from(error);
                            tracing::error!(lane = %self.lane.name, %error, "a claim was refused");
                        }
                    }
                }
            }
            Step::Written { tokens, count, written } => {
                self.writing -= count;
                self.writes.retain(|writing| *writing != tokens);
                // What was settled or released may have been what others of its key waited for.
                self.hungry.keyed |= written.freed;
                self.outcomes.join(written.left);
            }
            Step::Extended { asked, kept } => {
                self.extending = false;
                self.extended(asked, kept);
            }
        }
    }
}

fn tried(id: DeliveryId, attempt: u32, envelope: Arc<crate::Envelope>, delivered: Delivered) -> Tried {
    Tried { id, attempt, envelope, how: How::Delivered(delivered) }
}

/// Whether results of this claim are among what is being written.
fn is_in(writes: &[HashSet<Token>], token: Token) -> bool {
    writes.iter().any(|tokens| tokens.contains(&token))
}

/// A panic of the store's is one of the lane's.
fn panic_on<T>(error: JoinError) -> T {
    std::panic::resume_unwind(error.into_panic())
}

async fn sleep_at_most(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}
