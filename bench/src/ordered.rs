//! Draining a keyed backlog in order with four claimers, compared with the same number of events without keys. The
//! order is checked in the log of the claimers, not by what the store reports.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use postrider::Store;
use postrider::store::{Claim, DeadHead, History};

use crate::drain::{BATCH, TURNS, drain, sum};
use crate::report::Round;
use crate::setup::{LANE, Scratch, fill};
use crate::turns::{Turn, in_turns};
use crate::{Outcome, Size};

const CLAIMERS: usize = 4;

pub(crate) async fn postgres_keyed(scratch: &Scratch, size: Size) -> Outcome<Vec<Round>> {
    beside_unkeyed(scratch, size, "keyed", size.pending, size.keyed.0).await
}

pub(crate) async fn postgres_hot_key(scratch: &Scratch, size: Size) -> Outcome<Vec<Round>> {
    beside_unkeyed(scratch, size, "hot", size.keyed.1, 1).await
}

async fn beside_unkeyed(scratch: &Scratch, size: Size, name: &str, events: usize, keys: usize) -> Outcome<Vec<Round>> {
    let keyed = Arc::new(scratch.postgres_store(name).await?);
    let unkeyed = Arc::new(scratch.postgres_store(&format!("{name}_unkeyed")).await?);
    let log = Log::default();
    let mut rounds = Vec::new();
    for _ in 0..size.rounds {
        fill(&*keyed, events, keys).await?;
        fill(&*unkeyed, events, 0).await?;
        let ours = async |goal| drain_in_order(keyed.clone(), &log, goal).await;
        let other = async |goal| drain(unkeyed.clone(), CLAIMERS, goal, History::Omit).await;
        rounds.push(in_turns(events, TURNS, ours, other).await?);
    }
    Ok(rounds)
}

/// The last sequence number that each key's consumer has seen.
type Log = Arc<Mutex<HashMap<String, i64>>>;

/// Drains at least `goal` events.
async fn drain_in_order(store: Arc<dyn Store>, log: &Log, goal: usize) -> Outcome<Turn> {
    let drained = Arc::new(AtomicUsize::new(0));
    let tasks = (0..CLAIMERS).map(|n| {
        let (store, log, drained) = (Arc::clone(&store), Arc::clone(log), Arc::clone(&drained));
        tokio::spawn(async move {
            let claim = Claim { owner: format!("bench-{n}"), ..Claim::new(LANE, BATCH) };
            let mut mine = 0;
            while drained.load(Ordering::Acquire) < goal {
                let lease = store.claim_keyed(&claim, DeadHead::Hold).await?;
                if lease.deliveries.is_empty() {
                    // All due deliveries belong to keys that other claimers hold.
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
                mine += settled.len();
                drained.fetch_add(settled.len(), Ordering::AcqRel);
            }
            Ok::<_, postrider::Error>(mine)
        })
    });
    Turn::time(sum(tasks)).await
}
