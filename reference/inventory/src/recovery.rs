//! Finishes what a process left when it died: looks for leases that are over and does what the log says.
//!
//! Each shard has a job of its own, in its own database: the loss of one shard keeps nobody from mending the others. It
//! looks for two things:
//!
//! - a key whose lease is over. An attempt that has not decided by then has failed; its shards are told.
//! - stock that has been held for longer than a lease. Usually its key is in the first list too; but an attempt that
//!   was slow, not dead, may have reserved something after its key was settled.

use std::collections::BTreeSet;
use std::sync::Arc;

use postrider::{Jobs, Schedule};

use crate::database::Database;
use crate::error::Error;
use crate::inventory::Inventory;

/// How often to look.
const SCHEDULE: &str = "0/5 * * * * ?";
/// Keys of one kind in one look: the rest comes with the next.
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
        Jobs::new(Arc::new(store.clone())).owner("inventory").job("inventory-recovery", schedule.clone(), work)
    });
    Ok(jobs.collect())
}

/// Looks once in one shard. Returns how many keys were finished; one that cannot be is left for the next look.
pub async fn recover<S: Database>(inventory: &Inventory<S>, shard: usize) -> Result<usize, Error> {
    let mut recovered = 0;
    for key in left_in(inventory, shard).await? {
        match finish(inventory, &key).await {
            Ok(true) => {
                tracing::info!(key, "Recovered");
                recovered += 1;
            }
            Ok(false) => tracing::error!(key, "stock is held under a key that is not in the log"),
            Err(error) => tracing::warn!(key, %error, "a key was not recovered: it is tried again"),
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
