//! A lane's rate limit: so many a second, and never more than a second's worth at once.

use std::time::Duration;

use tokio::time::Instant;

/// A bucket that fills with time.
pub(super) struct Rate {
    per_second: Option<f64>,
    allowance: f64,
    filled: Instant,
}

impl Rate {
    pub(super) fn new(per_second: Option<u32>) -> Self {
        let per_second = per_second.map(|n| f64::from(n.max(1)));
        // Starts with one: a burst right after a restart is what a limit is there against.
        Self { per_second, allowance: 1.0, filled: Instant::now() }
    }

    /// How many of `wanted` may go now.
    pub(super) fn allow(&mut self, wanted: u32) -> u32 {
        let Some(per_second) = self.per_second else {
            return wanted;
        };
        let now = Instant::now();
        self.allowance = (self.allowance + (now - self.filled).as_secs_f64() * per_second).min(per_second.max(1.0));
        self.filled = now;
        // Truncated: a part of a delivery cannot go.
        wanted.min(self.allowance as u32)
    }

    /// So many have gone.
    pub(super) fn spend(&mut self, deliveries: usize) {
        self.allowance -= deliveries as f64;
    }

    /// So many have not gone after all.
    pub(super) fn unspend(&mut self, deliveries: usize) {
        self.allowance += deliveries as f64;
    }

    /// How long until the next one may go.
    pub(super) fn wait(&self) -> Duration {
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
    async fn what_was_not_used_is_no_more_than_a_second_worth() {
        let mut rate = Rate::new(Some(10));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(rate.allow(500), 10);
        assert_eq!(Rate::new(None).allow(500), 500);
    }
}
