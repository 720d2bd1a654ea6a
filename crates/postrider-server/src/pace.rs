//! How fast consumers may pull: a token bucket for each consumer whose subscriptions name a rate. It holds a second's worth at
//! most, and a claim that takes less than it may gives the rest back.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The buckets of this instance.
#[derive(Default)]
pub(crate) struct Paces(Mutex<HashMap<String, Bucket>>);

struct Bucket {
    left: f64,
    filled: Instant,
}

impl Paces {
    fn buckets(&self) -> MutexGuard<'_, HashMap<String, Bucket>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes up to `wanted` deliveries at this rate. The error is how long until there is one.
    pub(crate) fn take(&self, consumer: &str, per_second: u32, wanted: u32) -> Result<u32, Duration> {
        let (rate, now) = (f64::from(per_second.max(1)), Instant::now());
        let mut buckets = self.buckets();
        let bucket = buckets.entry(consumer.to_owned()).or_insert(Bucket { left: 1.0, filled: now });
        bucket.left = (bucket.left + (now - bucket.filled).as_secs_f64() * rate).min(rate);
        bucket.filled = now;
        if bucket.left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - bucket.left) / rate).max(Duration::from_millis(1)));
        }
        // Truncated: a part of a delivery cannot go.
        let taken = wanted.min(bucket.left as u32);
        bucket.left -= f64::from(taken);
        Ok(taken)
    }

    /// Gives back what was not claimed.
    pub(crate) fn give_back(&self, consumer: &str, deliveries: u32) {
        if let Some(bucket) = self.buckets().get_mut(consumer) {
            bucket.left += f64::from(deliveries);
        }
    }

    /// Forgets a consumer without a rate.
    pub(crate) fn forget(&self, consumer: &str) {
        self.buckets().remove(consumer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn ten_a_second_are_ten_a_second() {
        let paces = Paces::default();
        let (mut taken, began) = (0, Instant::now());
        while began.elapsed() < Duration::from_secs(10) {
            match paces.take("points", 10, 500) {
                Ok(some) => {
                    taken += some;
                    paces.give_back("points", 0);
                }
                Err(wait) => tokio::time::sleep(wait).await,
            }
        }
        assert!((98..=102).contains(&taken), "{taken}");
        assert_eq!(paces.take("other", 10, 500), Ok(1), "each has its own");
        paces.give_back("other", 1);
        assert_eq!(paces.take("other", 10, 500), Ok(1));
    }
}
