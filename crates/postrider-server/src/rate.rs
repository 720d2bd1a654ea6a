//! How often anyone may ask: a bucket for each caller that fills at a steady rate and holds a few seconds' worth.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::limits;

/// Seconds' worth that may be used at once.
const BURST_SECONDS: f64 = 2.0;
/// And of wrong credentials: a person mistypes now and then.
const WRONG_BURST: f64 = 20.0;

/// The buckets of all callers.
pub(crate) struct Rates {
    requests: Buckets,
    wrong: Buckets,
}

impl Rates {
    pub(crate) fn new(requests_per_second: u32) -> Self {
        let per_second = f64::from(requests_per_second.max(1));
        let wrong_per_second = f64::from(limits::WRONG_PER_SECOND);
        Self {
            requests: Buckets::new(per_second, per_second * BURST_SECONDS),
            wrong: Buckets::new(wrong_per_second, WRONG_BURST),
        }
    }

    /// A request of this caller. The error is how long to wait.
    pub(crate) fn request(&self, caller: &str) -> Result<(), Duration> {
        self.requests.take(caller)
    }

    /// Credentials from this address that were wrong. Right ones are never asked, so that nobody can lock others out.
    pub(crate) fn wrong(&self, address: &str) -> Result<(), Duration> {
        self.wrong.take(address)
    }
}

struct Buckets {
    per_second: f64,
    burst: f64,
    /// What is left in each, and since when.
    left: Mutex<HashMap<String, (f64, Instant)>>,
}

impl Buckets {
    fn new(per_second: f64, burst: f64) -> Self {
        Self { per_second, burst, left: Mutex::default() }
    }

    fn take(&self, whose: &str) -> Result<(), Duration> {
        let now = Instant::now();
        let mut buckets = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= limits::REMEMBERED_CALLERS && !buckets.contains_key(whose) {
            // A full bucket says no more than none.
            buckets.retain(|_, (left, at)| *left + self.filled(*at, now) < self.burst);
            if buckets.len() >= limits::REMEMBERED_CALLERS {
                buckets.clear();
            }
        }
        let (left, at) = buckets.entry(whose.to_owned()).or_insert((self.burst, now));
        *left = (*left + self.filled(*at, now)).min(self.burst);
        *at = now;
        if *left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - *left) / self.per_second));
        }
        *left -= 1.0;
        Ok(())
    }

    fn filled(&self, since: Instant, now: Instant) -> f64 {
        now.duration_since(since).as_secs_f64() * self.per_second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_bucket_empties_and_fills_by_itself() {
        let rates = Rates::new(10);
        let taken = (0..100).take_while(|_| rates.request("ci").is_ok()).count();
        assert_eq!(taken, 20, "two seconds' worth");
        assert!(rates.request("other").is_ok(), "each has a bucket of its own");
        let wait = rates.request("ci").expect_err("it is empty");
        tokio::time::advance(wait).await;
        assert!(rates.request("ci").is_ok());
        assert!(rates.request("ci").is_err());
    }
}
