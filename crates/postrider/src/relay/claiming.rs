//! When a lane claims, and how much. This depends on the backlog, on its pace, on how much a crash may cost, and on
//! its rate limit.

use std::time::Duration;

use tokio::time::Instant;

use crate::limits;
use crate::retry;
use crate::transport::Lane;

/// Batches that a lane holds or has asked for, at most: some are claimed and some written while others are delivered.
const UNFINISHED_BATCHES: usize = 5;
/// Claims of one kind at the same time while there is a backlog: one runs in the database while the other is on its way.
const CONCURRENT_CLAIMS: usize = 2;
/// How long a process has to live for each step in which it may claim more, although nothing has finished: some work is slow.
const SLOW_START_STEP: Duration = Duration::from_secs(1);

/// Deliveries without a key and those with one are claimed by different statements.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Unkeyed,
    Keyed,
}

/// A value for each kind.
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

const BOTH: ByKind<bool> = ByKind { unkeyed: true, keyed: true };

/// Decides about the claims of one lane.
pub(super) struct Claiming {
    /// Tasks that deliver at the same time, at least 1.
    concurrency: usize,
    /// Parcels that one call of the transport takes.
    at_once: usize,
    batch: u32,
    /// Bytes of payloads in one claim, and in the lane.
    claim_bytes: usize,
    lane_bytes: usize,
    /// Bytes of a payload in the last claim that took something; 0: not known yet.
    bytes_each: usize,
    /// Bytes of what was claimed and is not finished.
    held_bytes: usize,
    lease: Duration,
    rate: Rate,
    /// Whether there may be more to claim.
    may_have_more: ByKind<bool>,
    /// Whether the last claim was full: then there is a backlog, and one claim at a time is too slow.
    last_was_full: ByKind<bool>,
    /// Whether the last claim took something that was tried before, possibly by a process that it crashed.
    tried_before: bool,
    /// Claims under way, and how many deliveries they may bring.
    under_way: ByKind<usize>,
    asked_for: usize,
    /// Seconds that a delivery takes, as a moving average; 0: not known yet.
    pace: f64,
    /// Since when the lane works, and how many deliveries it has finished.
    began: Instant,
    finished: usize,
    /// Consecutive calls in which the transport tried nothing, and the end of the pause that follows.
    refusals: u32,
    rest_until: Instant,
}

impl Claiming {
    pub(super) fn new(lane: &Lane, lease: Duration) -> Self {
        Self {
            concurrency: lane.options.concurrency.max(1),
            at_once: lane.at_once,
            batch: lane.options.batch.clamp(1, limits::CLAIM_DELIVERIES),
            claim_bytes: lane.options.claim_bytes,
            lane_bytes: lane.options.lane_bytes,
            bytes_each: 0,
            held_bytes: 0,
            lease,
            rate: Rate::new(lane.options.per_second),
            may_have_more: BOTH,
            last_was_full: ByKind::default(),
            tried_before: false,
            under_way: ByKind::default(),
            asked_for: 0,
            pace: 0.0,
            began: Instant::now(),
            finished: 0,
            refusals: 0,
            rest_until: Instant::now(),
        }
    }

    /// Sets the rate limit from now on.
    pub(super) fn limit_rate(&mut self, per_second: Option<u32>) {
        self.rate.limit(per_second);
    }

    /// There may be something new to claim.
    pub(super) fn wake(&mut self) {
        self.may_have_more = BOTH;
    }

    /// A write may have freed later deliveries of a key.
    pub(super) fn wake_keyed(&mut self) {
        self.may_have_more.keyed = true;
    }

    pub(super) fn wants_more(&self) -> bool {
        self.may_have_more.unkeyed || self.may_have_more.keyed
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.under_way.unkeyed + self.under_way.keyed > 0
    }

    pub(super) fn pace(&self) -> f64 {
        self.pace
    }

    /// How much longer the transport gets nothing after it has tried nothing.
    pub(super) fn rest(&self) -> Duration {
        self.rest_until.saturating_duration_since(Instant::now())
    }

    /// The next claim to begin now, and its limit. `unfinished`: deliveries that were claimed and are not written yet.
    pub(super) fn next(&mut self, unfinished: usize) -> Option<(Kind, u32)> {
        for kind in [Kind::Unkeyed, Kind::Keyed] {
            let concurrent = if *self.last_was_full.of(kind) { CONCURRENT_CLAIMS } else { 1 };
            if !*self.may_have_more.of(kind) || *self.under_way.of(kind) >= concurrent {
                continue;
            }
            let limit = self.limit(unfinished);
            if limit > 0 {
                *self.under_way.of(kind) += 1;
                self.asked_for += limit as usize;
                self.rate.spend(limit as usize);
                return Some((kind, limit));
            }
        }
        None
    }

    /// A claim has taken `taken` deliveries with so many bytes.
    pub(super) fn succeeded(&mut self, kind: Kind, limit: u32, taken: usize, bytes: usize, tried_before: bool) {
        self.end(kind, limit);
        self.held_bytes += bytes;
        self.bytes_each = bytes.checked_div(taken).unwrap_or(self.bytes_each);
        self.rate.unspend((limit as usize).saturating_sub(taken));
        *self.last_was_full.of(kind) = taken == limit as usize;
        *self.may_have_more.of(kind) &= taken > 0;
        if taken > 0 {
            self.tried_before = tried_before;
        }
    }

    /// Deliveries of so many bytes need no memory any more.
    pub(super) fn dropped(&mut self, bytes: usize) {
        self.held_bytes -= bytes;
    }

    /// The store did not answer: the claim is made again when it does.
    pub(super) fn interrupted(&mut self, kind: Kind, limit: u32) {
        self.end(kind, limit);
    }

    /// The store refused the claim: the next poll wakes the lane again.
    pub(super) fn refused_by_store(&mut self, kind: Kind, limit: u32) {
        self.end(kind, limit);
        *self.may_have_more.of(kind) = false;
    }

    fn end(&mut self, kind: Kind, limit: u32) {
        *self.under_way.of(kind) -= 1;
        self.asked_for -= limit as usize;
    }

    /// A task has delivered this many parcels in `took`. `refused`: the transport has tried nothing.
    pub(super) fn delivered(&mut self, parcels: usize, took: Duration, refused: bool) {
        let each = took.as_secs_f64() / parcels as f64;
        self.pace = if self.pace == 0.0 { each } else { self.pace * 0.8 + each * 0.2 };
        self.finished = self.finished.saturating_add(parcels);
        if refused {
            // Without a rest, what is released would be claimed again at once, as fast as the store can.
            self.refusals = self.refusals.saturating_add(1);
            self.rest_until = Instant::now() + retry::pause(self.refusals);
            self.wake();
        } else {
            self.refusals = 0;
        }
    }

    /// How long until a claim is possible that is not possible now. Returns `None` if only an event changes that.
    pub(super) fn wait(&self, unfinished: usize) -> Option<Duration> {
        let wait = self.rate.wait().max(self.rest()).max(self.until_allowed(unfinished));
        (!wait.is_zero() && self.wants_more()).then_some(wait)
    }

    /// How many deliveries the next claim may take; 0: none now.
    fn limit(&mut self, unfinished: usize) -> u32 {
        if !self.has_room() {
            return 0;
        }
        let enough = self.quarter_of_a_lease().min(self.claim_of_bytes());
        let enough = self.batch.min(u32::try_from(enough).unwrap_or(u32::MAX));
        if unfinished + self.asked_for + enough as usize > enough as usize * UNFINISHED_BATCHES {
            return 0;
        }
        self.rate.allow(enough.min(u32::try_from(self.allowed(unfinished)).unwrap_or(u32::MAX)))
    }

    /// F59: whether the bytes of one more claim fit beside those that are held, and those that claims under way may bring.
    fn has_room(&self) -> bool {
        let claims = self.under_way.unkeyed + self.under_way.keyed;
        let used = self.held_bytes + claims * self.claim_bytes;
        used == 0 || used + self.claim_bytes <= self.lane_bytes
    }

    /// The deliveries of the last size that one claim has bytes for: what a claim takes beyond them, it has to release.
    fn claim_of_bytes(&self) -> usize {
        (self.claim_bytes / self.bytes_each.max(1)).max(1)
    }

    /// The deliveries that take a quarter of a lease at the present pace. Slow work is left for other relays to claim.
    fn quarter_of_a_lease(&self) -> usize {
        let parcels = self.concurrency as f64 * self.lease.as_secs_f64() / 4.0 / self.pace.max(1e-9);
        (parcels.min(f64::from(u32::MAX)) as usize).max(self.concurrency.max(self.at_once))
    }

    /// Slow start: how many more deliveries the lane may claim. A crash charges an attempt to everything claimed, so a new
    /// process claims one, and then as many as it has finished. In its first second it claims deliveries that were tried
    /// before one at a time: one of them may have crashed the last process, and must not bury the others with it.
    fn allowed(&self, unfinished: usize) -> usize {
        let steps = self.began.elapsed().as_millis() / SLOW_START_STEP.as_millis();
        let steps = usize::try_from(steps).unwrap_or(usize::MAX);
        let claimed = unfinished + self.asked_for;
        if steps == 0 && self.tried_before {
            return usize::from(claimed == 0);
        }
        let for_time = steps.saturating_mul(self.concurrency.saturating_mul(self.at_once));
        let more = for_time.saturating_add(self.finished + 1).saturating_sub(claimed);
        // Claim only once half of what was finished, or a batch, is free: or every completion would cost a claim.
        let worth_a_claim = (self.finished / 2).min(self.batch as usize);
        if more > worth_a_claim || claimed == 0 { more } else { 0 }
    }

    /// How long until slow start allows more, if nothing finishes.
    fn until_allowed(&self, unfinished: usize) -> Duration {
        if self.allowed(unfinished) > 0 {
            return Duration::ZERO;
        }
        let into_step = (self.began.elapsed().as_nanos() % SLOW_START_STEP.as_nanos()) as u64;
        SLOW_START_STEP - Duration::from_nanos(into_step)
    }
}

/// The rate limit of a lane, a token bucket: so many a second, and never more than a second's worth at once. Not governor, which
/// answers yes or no for a given number: a claim asks how many it may take, and returns what it did not get.
struct Rate {
    per_second: Option<f64>,
    allowance: f64,
    filled: Instant,
}

impl Rate {
    fn new(per_second: Option<u32>) -> Self {
        // Begins with one: a restart must not allow a burst.
        let mut rate = Self { per_second: None, allowance: 1.0, filled: Instant::now() };
        rate.limit(per_second);
        rate
    }

    fn limit(&mut self, per_second: Option<u32>) {
        if self.per_second.is_none() {
            // Deliveries before the limit was set do not count.
            (self.allowance, self.filled) = (1.0, Instant::now());
        }
        self.per_second = per_second.map(|n| f64::from(n.max(1)));
    }

    /// How many of `wanted` may go now.
    fn allow(&mut self, wanted: u32) -> u32 {
        let Some(per_second) = self.per_second else {
            return wanted;
        };
        let now = Instant::now();
        self.allowance = (self.allowance + (now - self.filled).as_secs_f64() * per_second).min(per_second.max(1.0));
        self.filled = now;
        // Truncated: a part of a delivery cannot go.
        wanted.min(self.allowance as u32)
    }

    fn spend(&mut self, deliveries: usize) {
        self.allowance -= deliveries as f64;
    }

    /// Returns what a claim did not take.
    fn unspend(&mut self, deliveries: usize) {
        self.allowance += deliveries as f64;
    }

    /// How long until the next one may go.
    fn wait(&self) -> Duration {
        match self.per_second {
            Some(per_second) if self.allowance < 1.0 => {
                Duration::from_secs_f64((1.0 - self.allowance) / per_second).max(Duration::from_millis(1))
            }
            _ => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::LaneOptions;

    #[tokio::test(start_paused = true)]
    async fn ten_a_second_are_ten_a_second() {
        let mut rate = Rate::new(Some(10));
        let mut gone = 0;
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(10) {
            let allowed = rate.allow(500);
            rate.spend(allowed as usize);
            gone += allowed;
            tokio::time::sleep(rate.wait()).await;
        }
        assert!((98..=102).contains(&gone), "{gone}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_unused_rate_allows_a_second_worth_at_most() {
        let mut rate = Rate::new(Some(10));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(rate.allow(500), 10);
        assert_eq!(Rate::new(None).allow(500), 500);
    }

    fn claiming() -> Claiming {
        let lane = Lane { name: "mail".into(), topics: Vec::new(), at_once: 1, options: LaneOptions::default() };
        Claiming::new(&lane, Duration::from_secs(30))
    }

    /// A crash charges an attempt to all that was claimed: a new process claims little, and more with every success.
    #[tokio::test(start_paused = true)]
    async fn a_new_lane_claims_one_and_then_as_many_as_it_has_finished() {
        let mut claiming = claiming();
        assert!(matches!(claiming.next(0), Some((Kind::Unkeyed, 1))));
        assert!(claiming.next(0).is_none(), "one is under way");
        claiming.succeeded(Kind::Unkeyed, 1, 1, 0, false);
        claiming.delivered(1, Duration::from_millis(1), false);
        assert!(matches!(claiming.next(0), Some((Kind::Unkeyed, 2))));
        claiming.succeeded(Kind::Unkeyed, 2, 2, 0, false);
        claiming.delivered(2, Duration::from_millis(2), false);
        assert!(matches!(claiming.next(0), Some((Kind::Unkeyed, 4))));
        claiming.succeeded(Kind::Unkeyed, 4, 4, 0, false);
        assert!(claiming.next(4).is_none());
        tokio::time::sleep(SLOW_START_STEP).await;
        assert!(claiming.next(4).is_some(), "a second without a crash allows more, although nothing has finished");
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_lane_takes_deliveries_that_were_tried_before_one_at_a_time() {
        let mut claiming = claiming();
        assert!(claiming.next(0).is_some());
        claiming.succeeded(Kind::Unkeyed, 1, 1, 0, true);
        assert!(claiming.next(1).is_none(), "it may be the one that crashed the last process");
        assert!(claiming.wait(1).is_some_and(|wait| wait <= SLOW_START_STEP));
        claiming.delivered(1, Duration::from_millis(1), false);
        assert!(claiming.next(0).is_some());
    }

    /// F59: a lane holds a bounded number of bytes, and asks for as many deliveries as fit by the size of the last ones.
    #[tokio::test(start_paused = true)]
    async fn a_lane_claims_while_there_is_room_for_the_bytes_of_a_claim() {
        let mut claiming = claiming();
        claiming.finished = 1_000;
        let (kind, limit) = claiming.next(0).expect("nothing is held");
        assert_eq!(limit, 100, "sizes are not known yet");
        claiming.succeeded(kind, limit, 8, 8 << 20, false);
        for held in 1..4 {
            let (kind, limit) = claiming.next(held * 8).expect("there is room");
            assert_eq!(limit, 8, "as many of this size as fit");
            claiming.succeeded(kind, limit, 8, 8 << 20, false);
        }
        assert!(claiming.next(32).is_none(), "32 MiB are held");
        claiming.dropped(8 << 20);
        assert!(claiming.next(24).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn an_empty_claim_ends_claiming_until_the_lane_is_woken() {
        let mut claiming = claiming();
        for kind in [Kind::Unkeyed, Kind::Keyed] {
            let (_, limit) = claiming.next(0).expect("it begins with a claim");
            claiming.succeeded(kind, limit, 0, 0, false);
        }
        assert!(!claiming.wants_more() && claiming.next(0).is_none());
        claiming.wake_keyed();
        assert!(matches!(claiming.next(0), Some((Kind::Keyed, _))));
    }
}
