//! Draining a backlog in the order of its keys, with four claimers, beside the same number without keys. The order
//! is judged by what the claimers write down, not by what the store says.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use futures_util::future::try_join_all;
use postrider::Store;
use postrider::store::{Claim, DeadHead, History};

use crate::drain::{BATCH, drain};
use crate::report::Round;
use crate::setup::{LANE, Scratch, fill};
use crate::{Outcome, Size};

const CLAIMERS: usize = 4;

pub(crate) async fn postgres_keyed(scratch: &Scratch, size: Size) -> Outcome<Vec<Round>> {
    beside_unkeyed(scratch, size, "keyed", size.pending, size.keyed.0).await
}

pub(crate) async fn postgres_hot_key(scratch: &Scratch, size: Size) -> Outcome<Vec<Round>> {
    beside_unkeyed(scratch, size, "hot", size.keyed.1, 1).await
}

async fn beside_unkeyed(scratch: &Scratch, size: Size, name: &str, events: usize, keys: usize) -> Outcome<Vec<Round>> {
    let store = Arc::new(scratch.postgres_store(name).await?);
    let mut rounds = Vec::new();
    for _ in 0..size.rounds {
        fill(&*store, events, keys).await?;
        let ours_per_second = drain_in_order(store.clone(), events).await?;
        fill(&*store, events, 0).await?;
        rounds.push(Round {
            ours_per_second,
            other_per_second: drain(store.clone(), CLAIMERS, events, History::Omit).await?,
        });
    }
    Ok(rounds)
}

/// What each key's consumer has seen last.
type Log = Arc<Mutex<HashMap<String, i64>>>;

async fn drain_in_order(store: Arc<dyn Store>, expected: usize) -> Outcome<f64> {
    let log = Log::default();
    let left = Arc::new(std::sync::atomic::AtomicUsize::new(expected));
    let started = Instant::now();
    let tasks = (0..CLAIMERS).map(|n| {
        let (store, log, left) = (Arc::clone(&store), Arc::clone(&log), Arc::clone(&left));
        tokio::spawn(async move {
            let claim = Claim { owner: format!("bench-{n}"), ..Claim::new(LANE, BATCH) };
            while left.load(std::sync::atomic::Ordering::Acquire) > 0 {
                let lease = store.claim_keyed(&claim, DeadHead::Hold).await?;
                if lease.deliveries.is_empty() {
                    // Everything that is due belongs to keys that others are working on.
                    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                    continue;
                }
                {
                    let mut log = log.lock().expect("no claimer panics while it writes");
                    for delivery in &lease.deliveries {
                        let key = delivery.envelope.key.clone().unwrap_or_default();
                        let before = log.insert(key, delivery.id.sequence).unwrap_or_default();
                        assert!(before < delivery.id.sequence, "{before} came before {}", delivery.id.sequence);
                    }
                }
                let settled = store.settle(lease.token, &lease.ids(), History::Omit).await?;
                assert_eq!(settled.len(), lease.deliveries.len(), "a whole run is settled at once");
                left.fetch_sub(settled.len(), std::sync::atomic::Ordering::AcqRel);
            }
            Ok::<_, postrider::Error>(())
        })
    });
    for claimer in try_join_all(tasks).await? {
        claimer?;
    }
    Ok(expected as f64 / started.elapsed().as_secs_f64())
}
