//! The rate limits: a quota for each caller, which allows a few seconds' worth at once.

use std::num::NonZeroU32;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

use crate::limits;

/// Seconds' worth of requests that may come at once.
const BURST_SECONDS: u32 = 2;
/// Wrong credentials that may come at once: people mistype.
const WRONG_BURST: u32 = 20;

/// The limits of all callers.
pub(crate) struct Rates<C: Clock = DefaultClock> {
    requests: Limiter<C>,
    wrong: Limiter<C>,
}

impl Rates {
    pub(crate) fn new(requests_per_second: u32) -> Self {
        Self::with_clock(requests_per_second, DefaultClock::default())
    }
}

impl<C: Clock + Clone> Rates<C> {
    fn with_clock(requests_per_second: u32, clock: C) -> Self {
        let burst = requests_per_second.saturating_mul(BURST_SECONDS);
        Self {
            requests: Limiter::new(requests_per_second, burst, clock.clone()),
            wrong: Limiter::new(limits::WRONG_PER_SECOND, WRONG_BURST, clock),
        }
    }

    /// Counts a request of this caller. The error is how long to wait.
    pub(crate) fn request(&self, caller: &str) -> Result<(), Duration> {
        self.requests.check(caller)
    }

    /// Counts wrong credentials from this address. Right ones are not counted, so that an attacker cannot lock out others.
    pub(crate) fn wrong(&self, address: &str) -> Result<(), Duration> {
        self.wrong.check(address)
    }
}

type Keyed<C> = RateLimiter<String, HashMapStateStore<String>, C, NoOpMiddleware<<C as Clock>::Instant>>;

struct Limiter<C: Clock> {
    quota: Quota,
    clock: C,
    callers: RwLock<Keyed<C>>,
}

impl<C: Clock + Clone> Limiter<C> {
    fn new(per_second: u32, burst: u32, clock: C) -> Self {
        let at_least_one = |number: u32| NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::per_second(at_least_one(per_second)).allow_burst(at_least_one(burst));
        Self { quota, callers: RwLock::new(RateLimiter::hashmap_with_clock(quota, clock.clone())), clock }
    }

    fn check(&self, caller: &str) -> Result<(), Duration> {
        self.forget_some();
        let callers = self.callers.read().unwrap_or_else(PoisonError::into_inner);
        callers.check_key(&caller.to_owned()).map_err(|until| until.wait_time_from(self.clock.now()))
    }

    /// Keeps the number of remembered callers within its limit. A caller with a full quota need not be remembered.
    fn forget_some(&self) {
        let is_full = |callers: &Keyed<C>| callers.len() >= limits::REMEMBERED_CALLERS;
        if !is_full(&self.callers.read().unwrap_or_else(PoisonError::into_inner)) {
            return;
        }
        let mut callers = self.callers.write().unwrap_or_else(PoisonError::into_inner);
        callers.retain_recent();
        if is_full(&callers) {
            *callers = RateLimiter::hashmap_with_clock(self.quota, self.clock.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use governor::clock::FakeRelativeClock;

    use super::*;

    #[test]
    fn a_quota_is_used_up_and_refills() {
        let clock = FakeRelativeClock::default();
        let rates = Rates::with_clock(10, clock.clone());
        let taken = (0..100).take_while(|_| rates.request("ci").is_ok()).count();
        assert_eq!(taken, 20, "two seconds' worth");
        assert!(rates.request("other").is_ok(), "each caller has its own quota");
        let wait = rates.request("ci").expect_err("the quota is used up");
        clock.advance(wait);
        assert!(rates.request("ci").is_ok());
        assert!(rates.request("ci").is_err());
    }

    #[test]
    fn no_more_callers_are_remembered_than_the_limit() {
        let rates = Rates::with_clock(10, FakeRelativeClock::default());
        for n in 0..=limits::REMEMBERED_CALLERS {
            assert!(rates.request(&n.to_string()).is_ok());
        }
        let callers = rates.requests.callers.read().unwrap_or_else(PoisonError::into_inner).len();
        assert!(callers <= limits::REMEMBERED_CALLERS, "{callers}");
    }
}
