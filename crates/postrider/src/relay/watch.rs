//! What wakes the lanes: pokes from this process, announcements from others, what falls due, plain inserts that the router
//! finds, and a poll that would be enough alone. One task asks for all lanes, so that an idle relay costs a query or two
//! a second however many lanes it has.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::Shared;
use crate::alert::Alarm;
use crate::consumer::Failure;
use crate::error::{Error, Result};
use crate::observe;
use crate::retention::Retention;
use crate::retry;
use crate::transport::Lane;
use crate::wake::Poke;

/// Two looks are at least this far apart, whatever asks for them.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);
/// After a look that found something the next one comes this soon; then it takes twice as long each time.
const SOON: Duration = Duration::from_millis(50);
/// How soon a lane is woken again after it found nothing to claim where something was due: others hold what is in front.
const AFTER_NOTHING: Duration = Duration::from_millis(10);
/// So many empty claims in a row, and what is due counts as somebody else's.
const GAVE_UP: u32 = 4;
/// How long a busy lane's events are not looked for: it looks by itself.
const WHILE_BUSY: Duration = Duration::from_millis(5);
/// How long after its last claim a lane that has work in hand counts as busy. What takes longer than this is slow, and what
/// arrives meanwhile must not wait for it.
const WHILE_IN_HAND: Duration = Duration::from_millis(50);
/// Events routed in one go.
const ROUTE: u32 = 1_000;
/// Sleeps shorter than this are not left to the runtime's timer.
const FINE: Duration = Duration::from_millis(3);
/// How often the choice of paused lanes is read.
const PAUSES: Duration = Duration::from_secs(1);
/// How often the figures are read, at most: counting takes as long as there is to count.
const FIGURES: Duration = Duration::from_secs(15);
/// When they are read first.
const FIRST_FIGURES: Duration = Duration::from_secs(2);
/// How often finished events are removed.
const PRUNING: Duration = Duration::from_secs(600);
/// Whoever has listened for this long was connected.
const LISTENED: Duration = Duration::from_secs(30);

/// What wakes one lane, and what it says in return.
#[derive(Clone)]
pub(super) struct Bell(Arc<Inner>);

struct Inner {
    lane: Arc<str>,
    topics: Vec<String>,
    ring: Notify,
    /// It is about to claim.
    busy: AtomicBool,
    /// It has not finished what it claimed.
    in_hand: AtomicBool,
    /// Claims in a row that came back empty although something is due, and when the last one did.
    empty: AtomicU32,
    emptied: Mutex<Instant>,
}

impl Bell {
    pub(super) fn new(lane: &Lane) -> Self {
        Self(Arc::new(Inner {
            lane: Arc::clone(&lane.name),
            topics: lane.topics.clone(),
            ring: Notify::new(),
            // It begins with a claim.
            busy: AtomicBool::new(true),
            in_hand: AtomicBool::new(false),
            empty: AtomicU32::new(0),
            emptied: Mutex::new(Instant::now()),
        }))
    }

    /// Wakes the lane. Rung twice, it wakes once.
    fn ring(&self) {
        self.0.ring.notify_one();
    }

    /// Waits for the bell.
    pub(super) async fn rung(&self) {
        self.0.ring.notified().await;
    }

    pub(super) fn set_busy(&self, busy: bool, in_hand: bool) {
        self.0.busy.store(busy, Ordering::Relaxed);
        self.0.in_hand.store(in_hand, Ordering::Relaxed);
    }

    /// It finds what is new by itself.
    fn is_busy(&self) -> bool {
        let lately = || self.emptied().elapsed() < WHILE_IN_HAND;
        self.0.busy.load(Ordering::Relaxed) || (self.0.in_hand.load(Ordering::Relaxed) && lately())
    }

    /// It has nothing to do.
    fn is_idle(&self) -> bool {
        !self.0.busy.load(Ordering::Relaxed) && !self.0.in_hand.load(Ordering::Relaxed)
    }

    fn emptied(&self) -> Instant {
        *self.0.emptied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A claim came back, with something or with nothing.
    pub(super) fn fed(&self, with_something: bool) {
        match with_something {
            true => self.0.empty.store(0, Ordering::Relaxed),
            false => {
                self.0.empty.fetch_add(1, Ordering::Relaxed);
                *self.0.emptied.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            }
        }
    }

    /// When it makes sense to wake it for what is due: not at once if it found nothing just now.
    fn worth_ringing(&self, at_the_latest: Duration) -> Instant {
        let empty = self.0.empty.load(Ordering::Relaxed);
        let emptied = self.emptied();
        match empty {
            0 => emptied,
            n => emptied + AFTER_NOTHING.saturating_mul(1 << n.min(16)).min(at_the_latest),
        }
    }

    /// Nothing is due: claims that came back empty were none in vain.
    fn found_what_there_was(&self) {
        self.0.empty.store(0, Ordering::Relaxed);
    }

    /// What is due is not to be had: it is of other shards, or others hold it.
    fn gave_up(&self) -> bool {
        self.0.empty.load(Ordering::Relaxed) >= GAVE_UP
    }

    fn hears(&self, topic: &str) -> bool {
        self.0.topics.is_empty() || self.0.topics.iter().any(|heard| heard == topic)
    }
}

/// Watches until the relay stops.
pub(super) async fn watch(shared: Arc<Shared>, bells: Vec<Bell>) {
    let wake = shared.store.wake().clone();
    let _listening = wake.listen();
    let mut watcher = Watcher { shared, bells, interval: SOON, paused_read: None };
    let (mut last_look, mut next_look) = (Instant::now(), Instant::now());
    let mut next_sight = None;
    while !watcher.shared.stop.is_cancelled() {
        if !watcher.shared.health.is_up() {
            watcher.wait_for_the_store().await;
            next_look = Instant::now();
        }
        if next_sight.is_some_and(|at| at <= Instant::now()) {
            next_sight = watcher.or_away(watcher.sight().await).flatten();
        }
        if next_look <= Instant::now() {
            let looked = watcher.look().await;
            last_look = Instant::now();
            next_look = last_look + watcher.or_away(looked).unwrap_or(watcher.shared.options.poll);
        }
        let shared = &watcher.shared;
        tokio::select! {
            () = sleep_finely_until(next_sight.map_or(next_look, |sight| next_look.min(sight))) => {}
            () = wake.poked() => next_sight = Some(Instant::now()),
            () = shared.look.notified() => next_look = next_look.min(last_look + BETWEEN_LOOKS),
            () = shared.stop.cancelled() => {}
            () = shared.health.down() => {}
        }
    }
}

/// The runtime's timer counts whole milliseconds, and one is long for who waits for a commit.
async fn sleep_finely_until(at: Instant) {
    let left = at.saturating_duration_since(Instant::now());
    match left < FINE {
        true => tokio::task::spawn_blocking(move || std::thread::sleep(left)).await.unwrap_or_default(),
        false => sleep_until(at).await,
    }
}

struct Watcher {
    shared: Arc<Shared>,
    bells: Vec<Bell>,
    /// How long until the next look if nothing falls due.
    interval: Duration,
    paused_read: Option<Instant>,
}

impl Watcher {
    /// Looks for the events that were poked for. Says when to look again.
    async fn sight(&self) -> Result<Option<Instant>> {
        let wake = self.shared.store.wake();
        let expected = wake.expected();
        if expected.is_empty() {
            return Ok(None);
        }
        // A lane that is busy finds them by itself. What none of ours hears is for others, who have to be told.
        let found_anyway = |poke: &Poke| {
            let mut concerned = self.bells.iter().filter(|bell| bell.hears(&poke.topic)).peekable();
            concerned.peek().is_some() && concerned.all(Bell::is_busy)
        };
        if expected.iter().all(found_anyway) {
            return Ok(Some(Instant::now() + WHILE_BUSY));
        }
        let ids: Vec<_> = expected.iter().map(|poke| poke.event_id.as_str()).collect();
        let sighted = self.shared.store.sight(&ids).await?;
        wake.sighted(&sighted);
        let (seen, unseen): (Vec<_>, Vec<_>) = expected.iter().partition(|poke| sighted.contains(&poke.event_id));
        for bell in self.bells.iter().filter(|bell| seen.iter().any(|poke| bell.hears(&poke.topic))) {
            bell.ring();
        }
        if !seen.is_empty() {
            self.shared.store.announce(&self.shared.owner).await?;
            // It may be one that is due later.
            self.shared.look.notify_one();
        }
        Ok(unseen.iter().map(|poke| poke.pause()).min().map(|pause| Instant::now() + pause))
    }

    /// Routes what arrived by plain `INSERT`, and wakes every lane that has something due. Says how long until the next look.
    async fn look(&mut self) -> Result<Duration> {
        let (store, poll) = (&self.shared.store, self.shared.options.poll);
        // Before anything is read: a lane that ends its work while we look may have written what we no longer see.
        let idle_before = self.bells.iter().all(Bell::is_idle);
        if self.paused_read.is_none_or(|at| at.elapsed() >= PAUSES) {
            self.paused_read = Some(Instant::now());
            let paused = store.paused().await?;
            let mut known = self.shared.paused.lock().unwrap_or_else(PoisonError::into_inner);
            for bell in
                self.bells.iter().filter(|bell| known.contains(&*bell.0.lane) && !paused.contains(&*bell.0.lane))
            {
                bell.ring();
            }
            *known = paused;
        }
        let mut found = false;
        loop {
            let routed = store.route(ROUTE).await?;
            found |= routed.routed > 0;
            if routed.unheard > 0 {
                observe::unheard(usize::try_from(routed.unheard).unwrap_or_default());
                tracing::warn!(events = routed.unheard, "nobody subscribes to events that were inserted: kept unheard");
            }
            if routed.routed + routed.unheard < u64::from(ROUTE) {
                break;
            }
        }
        let lanes: Vec<_> = self.bells.iter().map(|bell| &*bell.0.lane).collect();
        let dues = store.next_due(&lanes).await?;
        let now = Instant::now();
        let (mut next, mut idle) = (Duration::MAX, true);
        for (bell, due) in self.bells.iter().zip(dues) {
            match due {
                None => bell.found_what_there_was(),
                Some(due) if !due.is_zero() => {
                    bell.found_what_there_was();
                    next = next.min(due);
                }
                Some(_) if self.shared.is_paused(&bell.0.lane) => {}
                // Its claim may be over in a moment, and have begun before this was due.
                Some(_) if bell.is_busy() => idle = false,
                Some(_) => match bell.worth_ringing(poll).checked_duration_since(now) {
                    Some(wait) if !wait.is_zero() => (next, idle) = (next.min(wait), idle && bell.gave_up()),
                    _ => {
                        found = true;
                        bell.ring();
                    }
                },
            }
        }
        if let Some(schedule) = &self.shared.options.floor {
            let now = store.now().await?;
            let at = schedule.next_after(now).map(|at| (at - now).unsigned_abs());
            next = at.map_or(next, |at| next.min(at));
        }
        let idle = idle && idle_before && self.bells.iter().all(Bell::is_idle);
        if self.shared.until_drained && !found && idle {
            self.shared.stop.cancel();
        }
        self.interval = if found { SOON } else { (self.interval * 2).min(poll) };
        Ok(next.min(self.interval).max(BETWEEN_LOOKS))
    }

    /// Asks a store that is away, less and less often, until it answers.
    async fn wait_for_the_store(&self) {
        for asked in 1.. {
            tokio::select! {
                () = tokio::time::sleep(retry::pause(asked)) => {}
                () = self.shared.stop.cancelled() => return,
            }
            if self.shared.store.now().await.is_ok() {
                self.shared.health.recovered();
                return self.bells.iter().for_each(Bell::ring);
            }
        }
    }

    /// What was found; None if the store is away or refuses, which is noted.
    fn or_away<T>(&self, found: Result<T>) -> Option<T> {
        found.map_err(|error| note(&self.shared, error, "the relay cannot look")).ok()
    }
}

/// Hears what other processes announce, on a connection of its own that is made anew when it breaks.
pub(super) async fn listen(shared: Arc<Shared>, bells: Vec<Bell>) {
    let heard = {
        let (owner, bells) = (shared.owner.clone(), bells);
        move |from: &str| {
            if from != owner {
                bells.iter().for_each(Bell::ring);
            }
        }
    };
    let mut failed = 0;
    loop {
        let began = Instant::now();
        let error = tokio::select! {
            ended = shared.store.listen(&heard) => ended.err(),
            () = shared.stop.cancelled() => return,
        };
        // A connection that did its work for a while and then broke is no reason to be wary of the next one.
        failed = if began.elapsed() > LISTENED { 1 } else { failed + 1 };
        if let Some(error) = error {
            tracing::warn!(error = %Failure::from(error), "announcements of other relays are not heard: polling does until they are");
        }
        tokio::select! {
            () = tokio::time::sleep(retry::pause(failed)) => {}
            () = shared.stop.cancelled() => return,
        }
    }
}

/// Reads the figures for the metrics now and then, and raises the alarm about held snapshots.
pub(super) async fn keep_figures(shared: Arc<Shared>) {
    let mut raised: Vec<String> = Vec::new();
    // Not in the midst of the first claims, which may have a backlog before them. A drain may be over before that.
    let mut pause = if shared.until_drained { Duration::ZERO } else { FIRST_FIGURES };
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = shared.stop.cancelled() => return,
        }
        shared.health.up().await;
        let started = Instant::now();
        if let Err(error) = figures(&shared, &mut raised).await {
            note(&shared, error, "the relay cannot read its figures");
        }
        pause = FIGURES.max(started.elapsed() * 20);
    }
}

/// Prunes now and then, one relay at a time.
pub(super) async fn prune(shared: Arc<Shared>, retention: Retention) {
    loop {
        shared.health.up().await;
        if let Err(error) = prune_once(&shared, &retention).await {
            note(&shared, error, "the relay cannot prune");
        }
        tokio::select! {
            () = tokio::time::sleep(PRUNING) => {}
            () = shared.stop.cancelled() => return,
        }
    }
}

async fn prune_once(shared: &Shared, retention: &Retention) -> Result<()> {
    // The lease ends by itself, so that the next pass, whoever makes it, comes no sooner.
    if shared.store.acquire_lease("postrider.pruner", &shared.owner, PRUNING / 2).await?.is_none() {
        return Ok(());
    }
    let removed = retention.prune(&*shared.store).await?;
    tracing::debug!(removed, "pruned");
    Ok(())
}

async fn figures(shared: &Shared, raised: &mut Vec<String>) -> Result<()> {
    let counts = shared.store.counts().await?;
    let waiting = |counts: &crate::store::LaneCounts| counts.new + counts.processing + counts.failed;
    observe::pending(counts.values().map(waiting).sum(), shared.store.oldest_pending().await?.unwrap_or_default());
    for (lane, counts) in &counts {
        observe::lag(lane, waiting(counts));
    }
    let holders = shared.store.snapshot_holders(shared.options.snapshot_age).await?;
    for held in &holders {
        // Once for each holder, not every time it is seen.
        if !raised.contains(&held.holder) {
            shared.alarm(Alarm::SnapshotHeld { holder: held.holder.clone(), seconds: held.age.as_secs() });
        }
    }
    *raised = holders.into_iter().map(|held| held.holder).collect();
    Ok(())
}

fn note(shared: &Shared, error: Error, what: &str) {
    if !shared.health.note(&error) {
        tracing::error!(error = %Failure::from(error), "{what}");
    }
}
