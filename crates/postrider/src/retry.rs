//! How long to wait after a failure.

use std::time::Duration;

use crate::limits;

/// When a failed delivery is tried again: `base × factor^(n-1)` after failure n, capped, with jitter.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryPolicy {
    /// The wait after the first failure.
    pub base: Duration,
    /// What each further wait is multiplied by.
    pub factor: f64,
    /// No wait is longer than this, jitter included.
    pub cap: Duration,
    /// The random share of a wait, 0 to 1: 0.1 spreads it over ±10 %, so that deliveries that failed together are not
    /// retried together.
    pub jitter: f64,
    /// Attempts in all, the first one included; after the last the delivery is DEAD.
    pub max_attempts: u32,
}

impl Default for RetryPolicy {
    /// 2, 4, 8 seconds and so on up to an hour, ±10 %, ten attempts in all.
    fn default() -> Self {
        Self {
            base: Duration::from_secs(2),
            factor: 2.0,
            cap: Duration::from_secs(3600),
            jitter: 0.1,
            max_attempts: limits::MAX_ATTEMPTS,
        }
    }
}

impl RetryPolicy {
    /// The wait after failure number `failures` (1 = the first). `chance` is a uniform number in [0, 1).
    pub fn delay(&self, failures: u32, chance: f64) -> Duration {
        let cap = self.cap.as_secs_f64();
        let exponent = i32::try_from(failures.saturating_sub(1)).unwrap_or(i32::MAX);
        // `min` comes before the jitter, since the power may be infinite.
        let wait = (self.base.as_secs_f64() * self.factor.powi(exponent)).min(cap);
        let spread = 1.0 + self.jitter.clamp(0.0, 1.0) * (2.0 * chance - 1.0);
        Duration::from_secs_f64((wait * spread).clamp(0.0, cap))
    }

    /// How long all waits take together, at most.
    pub fn longest(&self) -> Duration {
        // After this many, all waits are as long as the cap, for every factor above 1.
        const GROWING: u32 = 1_100;
        let waits = self.max_attempts.saturating_sub(1);
        let growing: Duration = (1..=waits.min(GROWING)).map(|failures| self.delay(failures, 1.0)).sum();
        growing + self.cap.saturating_mul(waits.saturating_sub(GROWING))
    }
}

/// The waits for an unreachable server: 1, 2, 4 and so on up to 30 seconds, with jitter so that clients do not come together.
const RECONNECT: RetryPolicy = RetryPolicy {
    base: Duration::from_secs(1),
    factor: 2.0,
    cap: Duration::from_secs(30),
    jitter: 0.3,
    max_attempts: u32::MAX,
};

/// How long to wait before try number `n` to reach an unreachable server.
pub(crate) fn pause(n: u32) -> Duration {
    RECONNECT.delay(n, chance())
}

/// A uniform number in [0, 1).
pub(crate) fn chance() -> f64 {
    fastrand::f64()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A.5: after failure n the next try comes 2^n seconds later.
    #[test]
    fn waits_double_from_two_seconds() {
        let policy = RetryPolicy { jitter: 0.0, ..RetryPolicy::default() };
        let seconds: Vec<_> = (1..=13).map(|n| policy.delay(n, 0.5).as_secs()).collect();
        assert_eq!(seconds, [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600]);
    }

    /// F50: deliveries that failed together are spread evenly over the jitter (chi² over ten tenths; an even spread exceeds
    /// 40 less than once in 100,000 times).
    #[test]
    fn jitter_spreads_retries_evenly() {
        let policy = RetryPolicy::default();
        let mut tenths = [0_u32; 10];
        for _ in 0..1_000 {
            let share = (policy.delay(5, chance()).as_secs_f64() / 32.0 - 0.9) / 0.2;
            tenths[((share * 10.0) as usize).min(9)] += 1;
        }
        let chi2: f64 = tenths.iter().map(|n| (f64::from(*n) - 100.0).powi(2) / 100.0).sum();
        assert!(chi2 < 40.0, "{tenths:?}");
    }

    /// F44: processes that lost the same server do not come back together, and each asks once a second at most.
    #[test]
    fn tries_to_reach_a_server_are_spread() {
        let waits: std::collections::BTreeSet<_> = (0..100).map(|_| pause(2)).collect();
        assert!(waits.len() > 90, "{waits:?}");
        let three_tries = || (1..=3).map(pause).sum::<Duration>();
        assert!((0..100).all(|_| three_tries() > Duration::from_secs(3)));
        assert!((0..100).all(|_| pause(100) > Duration::from_secs(20)));
    }

    proptest! {
        #[test]
        fn a_wait_stays_within_its_jitter_and_cap(failures in 0_u32.., chance in 0.0..1.0_f64, jitter in 0.0..=1.0_f64) {
            let policy = RetryPolicy { jitter, ..RetryPolicy::default() };
            let plain = RetryPolicy { jitter: 0.0, ..policy.clone() }.delay(failures, 0.5).as_secs_f64();
            let wait = policy.delay(failures, chance);
            prop_assert!(wait <= policy.cap);
            prop_assert!(wait.as_secs_f64() >= plain * (1.0 - jitter) - 1e-6);
            prop_assert!(wait.as_secs_f64() <= plain * (1.0 + jitter) + 1e-6);
        }

        #[test]
        fn without_jitter_a_later_failure_never_waits_less(failures in 1_u32..10_000) {
            let policy = RetryPolicy { jitter: 0.0, ..RetryPolicy::default() };
            prop_assert!(policy.delay(failures + 1, 0.5) >= policy.delay(failures, 0.5));
        }
    }
}
