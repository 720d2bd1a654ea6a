//! What wakes the lanes: pokes from this process, announcements from others, due times, plain inserts that the router
//! finds, and a poll, which alone would be enough. One task asks for all lanes, so that an idle relay costs a query or two
//! a second however many lanes it has.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::RelayShared;
use super::terms::{Terms, move_late};
use crate::alert::Alarm;
use crate::consumer::Failure;
use crate::error::{Error, Result};
use crate::observe;
use crate::presence;
use crate::retention::Retention;
use crate::retry;
use crate::store::LaneCounts;
use crate::subscription::{StoredSubscription, Via};
use crate::transport::Lane;
use crate::wake::Poke;

/// The shortest time between two looks.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);
/// The pause after a look that found something. It doubles with every look that finds nothing.
const SOON: Duration = Duration::from_millis(50);
/// How soon a lane is woken again after its claim found nothing although something was due: other relays hold the front.
const AFTER_EMPTY_CLAIM: Duration = Duration::from_millis(10);
/// After this many empty claims in a row, what is due counts as the work of other relays.
const GAVE_UP: u32 = 4;
/// How long the events of a busy lane are not looked for: the lane claims anyway.
const WHILE_BUSY: Duration = Duration::from_millis(5);
/// How long after its last claim a lane with unfinished work counts as busy. Longer work is slow, and new events must not
/// wait for it.
const WHILE_UNFINISHED: Duration = Duration::from_millis(50);
/// Events that one statement routes.
const ROUTE: u32 = 1_000;
/// Shorter sleeps are not left to the runtime's timer.
const FINE: Duration = Duration::from_millis(3);
/// How often the paused lanes and the subscriptions are read.
const PAUSES: Duration = Duration::from_secs(1);
/// How often deliveries are looked for in lanes whose consumers are reached another way.
const LATE: Duration = Duration::from_secs(5);
/// How often the figures are read, at most: counting takes as long as there is to count.
const FIGURES: Duration = Duration::from_secs(15);
/// When the figures are read first.
const FIRST_FIGURES: Duration = Duration::from_secs(2);
/// How often finished events are removed.
const PRUNING: Duration = Duration::from_secs(600);
/// A subscription to announcements that lasted this long was connected.
const LISTENED: Duration = Duration::from_secs(30);

/// Wakes one lane, and carries the lane's state to the watcher.
#[derive(Clone)]
pub(super) struct LaneNotifier(Arc<Inner>);

struct Inner {
    lane: Arc<str>,
    /// How the consumers of its transport get their events.
    via: Option<Via>,
    topics: Vec<String>,
    notify: Notify,
    /// The lane claims, or is about to.
    claims: AtomicBool,
    /// The lane has not finished what it claimed.
    unfinished: AtomicBool,
    /// Empty claims in a row although something was due, and when the last of them ended.
    empty_claims: AtomicU32,
    last_empty: Mutex<Instant>,
}

impl LaneNotifier {
    pub(super) fn new(lane: &Lane, via: Option<Via>) -> Self {
        Self(Arc::new(Inner {
            lane: Arc::clone(&lane.name),
            via,
            topics: lane.topics.clone(),
            notify: Notify::new(),
            // A lane begins with a claim.
            claims: AtomicBool::new(true),
            unfinished: AtomicBool::new(false),
            empty_claims: AtomicU32::new(0),
            last_empty: Mutex::new(Instant::now()),
        }))
    }

    /// Wakes the lane. Two calls may wake it once.
    fn notify(&self) {
        self.0.notify.notify_one();
    }

    /// Waits for [`notify`](Self::notify).
    pub(super) async fn notified(&self) {
        self.0.notify.notified().await;
    }

    pub(super) fn set_state(&self, claims: bool, unfinished: bool) {
        self.0.claims.store(claims, Ordering::Relaxed);
        self.0.unfinished.store(unfinished, Ordering::Relaxed);
    }

    /// Whether the lane will find new events without a wake-up.
    fn is_busy(&self) -> bool {
        let lately = || self.last_empty().elapsed() < WHILE_UNFINISHED;
        self.0.claims.load(Ordering::Relaxed) || (self.0.unfinished.load(Ordering::Relaxed) && lately())
    }

    fn is_idle(&self) -> bool {
        !self.0.claims.load(Ordering::Relaxed) && !self.0.unfinished.load(Ordering::Relaxed)
    }

    fn last_empty(&self) -> Instant {
        *self.0.last_empty.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A claim has ended, and took something or nothing.
    pub(super) fn claim_ended(&self, took_something: bool) {
        if took_something {
            self.0.empty_claims.store(0, Ordering::Relaxed);
        } else {
            self.0.empty_claims.fetch_add(1, Ordering::Relaxed);
            *self.0.last_empty.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        }
    }

    /// When to wake the lane for what is due: later after each empty claim, `longest` at most.
    fn wake_at(&self, longest: Duration) -> Instant {
        let last_empty = self.last_empty();
        match self.0.empty_claims.load(Ordering::Relaxed) {
            0 => last_empty,
            n => last_empty + AFTER_EMPTY_CLAIM.saturating_mul(1 << n.min(16)).min(longest),
        }
    }

    /// Nothing is due, so the empty claims missed nothing.
    fn nothing_due(&self) {
        self.0.empty_claims.store(0, Ordering::Relaxed);
    }

    /// Whether what is due cannot be claimed: it is of other shards, or other relays hold it.
    fn gave_up(&self) -> bool {
        self.0.empty_claims.load(Ordering::Relaxed) >= GAVE_UP
    }

    fn is_subscribed(&self, topic: &str) -> bool {
        self.0.topics.is_empty() || self.0.topics.iter().any(|subscribed| subscribed == topic)
    }
}

/// Tells other processes what this one runs.
pub(super) async fn beat(shared: Arc<RelayShared>) {
    let up = || shared.health.up();
    presence::keep(Arc::clone(&shared.store), up, shared.stop.cancelled()).await;
}

/// Watches until the relay stops.
pub(super) async fn watch(shared: Arc<RelayShared>, lanes: Vec<LaneNotifier>) {
    let wake = shared.store.wake().clone();
    let _running = wake.presence().run_loop(presence::ROUTER);
    let _listening = wake.listen();
    let mut watcher = Watcher { shared, lanes, interval: SOON, paused_read: None, late_moved: None };
    let (mut last_look, mut next_look) = (Instant::now(), Instant::now());
    let mut next_arrival = Instant::now();
    let mut next_sight = None;
    while !watcher.shared.stop.is_cancelled() {
        if !watcher.shared.health.is_up() {
            watcher.wait_for_the_store().await;
            next_look = Instant::now();
        }
        if next_sight.is_some_and(|at| at <= Instant::now()) {
            next_sight = watcher.or_away(watcher.sight().await).flatten();
        }
        if next_arrival <= Instant::now() && next_look > Instant::now() {
            let options = &watcher.shared.options;
            let arrived = watcher.or_away(watcher.shared.store.arrived().await);
            next_arrival = Instant::now() + if arrived.is_some() { options.arrivals } else { options.poll };
            if arrived == Some(true) {
                next_look = next_look.min(last_look + BETWEEN_LOOKS);
            }
        }
        if next_look <= Instant::now() {
            let looked = watcher.look().await;
            last_look = Instant::now();
            next_look = last_look + watcher.or_away(looked).unwrap_or(watcher.shared.options.poll);
            // It has routed what had arrived.
            next_arrival = last_look + watcher.shared.options.arrivals;
        }
        let shared = &watcher.shared;
        tokio::select! {
            () = sleep_finely_until(next_sight.map_or(next_look, |sight| next_look.min(sight))) => {}
            () = sleep_until(next_arrival) => {}
            () = wake.poked() => next_sight = Some(Instant::now()),
            () = shared.look.notified() => next_look = next_look.min(last_look + BETWEEN_LOOKS),
            () = shared.stop.cancelled() => {}
            () = shared.health.down() => {}
        }
    }
}

/// The runtime's timer counts whole milliseconds, which is too coarse for the first looks after a commit.
async fn sleep_finely_until(at: Instant) {
    let left = at.saturating_duration_since(Instant::now());
    if left < FINE {
        tokio::task::spawn_blocking(move || std::thread::sleep(left)).await.unwrap_or_default();
    } else {
        sleep_until(at).await;
    }
}

struct Watcher {
    shared: Arc<RelayShared>,
    lanes: Vec<LaneNotifier>,
    /// How long until the next look if nothing falls due.
    interval: Duration,
    paused_read: Option<Instant>,
    late_moved: Option<Instant>,
}

impl Watcher {
    /// Looks for the events that were poked for. Returns when to look again.
    async fn sight(&self) -> Result<Option<Instant>> {
        let wake = self.shared.store.wake();
        let expected = wake.expected();
        if expected.is_empty() {
            return Ok(None);
        }
        // A busy lane finds them by itself. An event for lanes of other relays only has to be announced to them.
        let found_anyway = |poke: &Poke| {
            let mut concerned = self.lanes.iter().filter(|lane| lane.is_subscribed(&poke.topic)).peekable();
            concerned.peek().is_some() && concerned.all(LaneNotifier::is_busy)
        };
        if expected.iter().all(found_anyway) {
            return Ok(Some(Instant::now() + WHILE_BUSY));
        }
        let ids: Vec<_> = expected.iter().map(|poke| poke.event_id.as_str()).collect();
        let sighted = self.shared.store.sight(&ids).await?;
        wake.sighted(&sighted);
        let (seen, unseen): (Vec<_>, Vec<_>) = expected.iter().partition(|poke| sighted.contains(&poke.event_id));
        for lane in self.lanes.iter().filter(|lane| seen.iter().any(|poke| lane.is_subscribed(&poke.topic))) {
            lane.notify();
        }
        if !seen.is_empty() {
            self.shared.store.announce(&self.shared.owner).await?;
            // The event may be due later.
            self.shared.look.notify_one();
        }
        Ok(unseen.iter().map(|poke| poke.pause()).min().map(|pause| Instant::now() + pause))
    }

    /// Routes what arrived by plain `INSERT`, and wakes every lane that has something due. Returns how long until the next look.
    async fn look(&mut self) -> Result<Duration> {
        let (store, poll) = (&self.shared.store, self.shared.options.poll);
        // Read first: a lane that finishes during this look may have written rows that the look no longer sees.
        let idle_before = self.lanes.iter().all(LaneNotifier::is_idle);
        if self.paused_read.is_none_or(|at| at.elapsed() >= PAUSES) {
            self.paused_read = Some(Instant::now());
            let subscriptions = self.read_orders().await?;
            if self.late_moved.is_none_or(|at| at.elapsed() >= LATE) {
                self.late_moved = Some(Instant::now());
                move_late(&**store, &subscriptions).await?;
            }
        }
        let mut found = false;
        loop {
            let routed = store.route(ROUTE).await?;
            found |= routed.routed > 0;
            if routed.unheard > 0 {
                observe::unheard(usize::try_from(routed.unheard).unwrap_or_default());
                tracing::warn!(events = routed.unheard, "inserted events have no subscription: kept unheard");
            }
            if routed.routed + routed.unheard < u64::from(ROUTE) {
                break;
            }
        }
        let names: Vec<_> = self.lanes.iter().map(|lane| &*lane.0.lane).collect();
        let dues = store.next_due(&names).await?;
        let now = Instant::now();
        let (mut next, mut idle) = (Duration::MAX, true);
        for (lane, due) in self.lanes.iter().zip(dues) {
            match due {
                None => lane.nothing_due(),
                Some(due) if !due.is_zero() => {
                    lane.nothing_due();
                    next = next.min(due);
                }
                Some(_) if self.shared.is_paused(&lane.0.lane) => {}
                // Its claim may have begun before this was due, so it is not idle yet.
                Some(_) if lane.is_busy() => idle = false,
                Some(_) => match lane.wake_at(poll).checked_duration_since(now) {
                    Some(wait) if !wait.is_zero() => (next, idle) = (next.min(wait), idle && lane.gave_up()),
                    _ => {
                        found = true;
                        lane.notify();
                    }
                },
            }
        }
        if let Some(schedule) = &self.shared.options.floor {
            let now = store.now().await?;
            let at = schedule.next_after(now).map(|at| (at - now).unsigned_abs());
            next = at.map_or(next, |at| next.min(at));
        }
        let idle = idle && idle_before && self.lanes.iter().all(LaneNotifier::is_idle);
        if self.shared.until_drained && !found && idle {
            self.shared.stop.cancel();
        }
        self.interval = if found { SOON } else { (self.interval * 2).min(poll) };
        Ok(next.min(self.interval).max(BETWEEN_LOOKS))
    }

    /// Reads what operators say: which lanes are paused, and what the subscriptions say about each.
    async fn read_orders(&self) -> Result<Vec<StoredSubscription>> {
        let store = &self.shared.store;
        let mut paused = store.paused().await?;
        let subscriptions = store.subscriptions(None).await?;
        let terms = Terms::read(&subscriptions);
        let changed = {
            let mut known = self.shared.terms.lock().unwrap_or_else(PoisonError::into_inner);
            let changed = **known != terms;
            if changed {
                *known = Arc::new(terms);
            }
            changed
        };
        let mut known = self.shared.paused.lock().unwrap_or_else(PoisonError::into_inner);
        let served = self.lanes.iter().map(|lane| (&*lane.0.lane, lane.0.via));
        self.shared.terms().rest(served, &known, &mut paused);
        let resumed = |lane: &LaneNotifier| known.contains(&*lane.0.lane) && !paused.contains(&*lane.0.lane);
        self.lanes.iter().filter(|lane| changed || resumed(lane)).for_each(LaneNotifier::notify);
        *known = paused;
        Ok(subscriptions)
    }

    /// Asks an unreachable store, less and less often, until it answers and takes writes.
    async fn wait_for_the_store(&self) {
        for asked in 1.. {
            tokio::select! {
                () = tokio::time::sleep(retry::pause(asked)) => {}
                () = self.shared.stop.cancelled() => return,
            }
            if self.shared.store.probe().await.is_ok() {
                self.shared.health.recovered();
                return self.lanes.iter().for_each(LaneNotifier::notify);
            }
        }
    }

    /// The answer. Returns `None` if the store is unreachable or refuses, which is recorded.
    fn or_away<T>(&self, found: Result<T>) -> Option<T> {
        found.map_err(|error| note(&self.shared, error, "the relay cannot look")).ok()
    }
}

/// Receives the announcements of other processes, on a connection of its own that is replaced when it breaks.
pub(super) async fn listen(shared: Arc<RelayShared>, lanes: Vec<LaneNotifier>) {
    let announced = {
        let owner = shared.owner.clone();
        move |from: &str| {
            if from != owner {
                lanes.iter().for_each(LaneNotifier::notify);
            }
        }
    };
    let mut failed = 0;
    loop {
        let began = Instant::now();
        let error = tokio::select! {
            ended = shared.store.listen(&announced) => ended.err(),
            () = shared.stop.cancelled() => return,
        };
        // A connection that worked for a while and then broke does not lengthen the pause.
        failed = if began.elapsed() > LISTENED { 1 } else { failed + 1 };
        if let Some(error) = error {
            tracing::warn!(error = %Failure::from(error), "announcements of other relays are not received: the poll finds their events");
        }
        tokio::select! {
            () = tokio::time::sleep(retry::pause(failed)) => {}
            () = shared.stop.cancelled() => return,
        }
    }
}

/// Reads the figures for the metrics regularly, and raises the alarm about held snapshots.
pub(super) async fn keep_figures(shared: Arc<RelayShared>, lanes: BTreeSet<Arc<str>>) {
    let mut known = Known { lanes, holders: Vec::new() };
    // After the first claims, which may find a backlog. A drain may end before that, so it reads at once.
    let mut pause = if shared.until_drained { Duration::ZERO } else { FIRST_FIGURES };
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = shared.stop.cancelled() => return,
        }
        shared.health.up().await;
        let started = Instant::now();
        if let Err(error) = figures(&shared, &mut known).await {
            note(&shared, error, "the relay cannot read its figures");
        }
        pause = FIGURES.max(started.elapsed() * 20);
    }
}

/// Prunes regularly, one relay at a time.
pub(super) async fn prune(shared: Arc<RelayShared>, retention: Retention) {
    let _running = shared.store.wake().presence().run_loop(presence::RETENTION);
    let mut failed = false;
    loop {
        shared.health.up().await;
        // One alarm until it works again, not one for each try. An unreachable store is reported as such.
        failed = match prune_once(&shared, &retention).await {
            Ok(()) => false,
            Err(error) if shared.health.note(&error) => failed,
            Err(error) => {
                if !failed {
                    shared.alarm(Alarm::NotPruned { error: Failure::from(error).to_string() });
                }
                true
            }
        };
        tokio::select! {
            () = tokio::time::sleep(PRUNING) => {}
            () = shared.stop.cancelled() => return,
        }
    }
}

async fn prune_once(shared: &RelayShared, retention: &Retention) -> Result<()> {
    // The lease is not released but runs out, so that no other relay prunes sooner.
    if shared.store.acquire_lease("postrider.pruner", &shared.owner, PRUNING / 2).await?.is_none() {
        return Ok(());
    }
    let removed = retention.prune(&*shared.store).await?;
    tracing::debug!(removed, "pruned");
    Ok(())
}

/// What earlier looks have found.
struct Known {
    /// The lanes of this relay and of subscriptions, and every other lane that had a delivery.
    lanes: BTreeSet<Arc<str>>,
    /// Those who hold a snapshot, for whom the alarm was raised.
    holders: Vec<String>,
}

async fn figures(shared: &RelayShared, known: &mut Known) -> Result<()> {
    let counts = shared.store.counts().await?;
    let waiting = |counts: &LaneCounts| counts.new + counts.processing + counts.failed;
    observe::pending(counts.values().map(waiting).sum(), shared.store.oldest_pending().await?.unwrap_or_default());
    known.lanes.extend(counts.keys().map(|lane| lane.as_str().into()));
    let subscribed = shared.store.subscriptions(None).await?.into_iter().filter(|one| !one.removed);
    let subscribed = subscribed.map(|one| one.subscription).filter(|one| one.via.has_own_lane());
    known.lanes.extend(subscribed.map(|one| one.consumer.as_str().into()));
    for lane in &known.lanes {
        // A lane without a delivery has no counts. Its gauges must return to zero all the same.
        let counts = counts.get(&**lane).copied().unwrap_or_default();
        observe::lane(lane, waiting(&counts), &counts);
    }
    let holders = shared.store.snapshot_holders(shared.options.snapshot_age).await?;
    for held in &holders {
        // One alarm for each holder, not one for each look.
        if !known.holders.contains(&held.holder) {
            shared.alarm(Alarm::SnapshotHeld { holder: held.holder.clone(), seconds: held.age.as_secs() });
        }
    }
    known.holders = holders.into_iter().map(|held| held.holder).collect();
    Ok(())
}

fn note(shared: &RelayShared, error: Error, what: &str) {
    if !shared.health.note(&error) {
        tracing::error!(error = %Failure::from(error), "{what}");
    }
}
