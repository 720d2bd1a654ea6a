//! Completes what a dead process left: finds expired leases and applies the log.
//!
//! Each shard has its own job in its own database, so that the loss of one shard does not stop the recovery of the
//! others. It looks for two things:
//!
//! - A key with an expired lease. An undecided attempt has failed then; its shards are updated.
//! - A reservation older than a lease. Usually its key is in the first list too. But an attempt that was slow, not
//!   dead, may have reserved stock after its key was settled.

use std::collections::BTreeSet;

use postrider::{Jobs, Schedule};

use crate::database::Database;
use crate::error::Error;
use crate::inventory::Inventory;

/// How often the job runs.
const SCHEDULE: &str = "0/5 * * * * ?";
/// The limit of keys per kind and run. The next run handles the rest.
const KEYS: i64 = 500;

/// The jobs of all shards.
pub fn jobs<S: Database>(inventory: &Inventory<S>) -> postrider::Result<Vec<Jobs>> {
    let schedule = Schedule::parse(SCHEDULE, "UTC")?;
    let jobs = inventory.shards().iter().enumerate().map(|(number, store)| {
        let inventory = inventory.clone();
        let work = move |_context| {
            let inventory = inventory.clone();
            async move {
                let recovered = recover(&inventory, number).await?;
                Ok(format!("finished {recovered} keys"))
            }
        };
        Jobs::new(store.clone()).owner("inventory").job("inventory-recovery", schedule.clone(), work)
    });
    Ok(jobs.collect())
}

/// Runs the recovery of one shard once. Returns the number of completed keys. A key that fails is left to the next run.
pub async fn recover<S: Database>(inventory: &Inventory<S>, shard: usize) -> Result<usize, Error> {
    let mut recovered = 0;
    for key in left_in(inventory, shard).await? {
        match finish(inventory, &key).await {
            Ok(true) => {
                tracing::info!(key, "Recovered");
                recovered += 1;
            }
            Ok(false) => tracing::error!(key, "stock is held under a key that is not in the log"),
            Err(error) => tracing::warn!(key, %error, "a key was not recovered: the next run tries again"),
        }
    }
    Ok(recovered)
}

async fn left_in<S: Database>(inventory: &Inventory<S>, shard: usize) -> Result<BTreeSet<String>, Error> {
    let mut reader = inventory.shards()[shard].read().await?;
    let mut keys: BTreeSet<_> = S::overdue_entries(&mut reader, KEYS).await?.into_iter().collect();
    keys.extend(S::overdue_reservations(&mut reader, inventory.lease(), KEYS).await?);
    Ok(keys)
}

async fn finish<S: Database>(inventory: &Inventory<S>, key: &str) -> Result<bool, Error> {
    inventory.expire(key).await?;
    inventory.settle(key).await
}
