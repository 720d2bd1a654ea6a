//! A rolling deployment: processes of an older and a newer version of a program run side by side.

use crate::database::{Database, over_each_store};
use crate::worker::Worker;

over_each_store! {
    /// D.2, F19, F64: the newer version has other names for its consumer and for the field of its payload. Every effect happens
    /// once, nothing is dead, and nothing stays in the lane of the old name.
    two_versions_side_by_side_lose_and_strand_nothing,
}

async fn two_versions_side_by_side_lose_and_strand_nothing(database: &Database) {
    let start = async |arguments: &str| {
        let mut worker = Worker::start(database.url(), arguments);
        worker.wait_for_line("at ready").await;
        worker
    };
    let produce = async |arguments: &str| {
        Worker::start(database.url(), &format!("produce {arguments}")).finishes().await;
    };
    let old = start("relay").await;
    produce("50").await;
    database.until("SELECT count(*) FROM postrider_delivery", 0).await;
    // Events of a newer producer, which the older consumer cannot decode: it keeps them for later.
    produce("50 --from 50 --newer").await;
    database.until("SELECT count(*) FROM postrider_delivery WHERE attempts > 0", 50).await;

    database.rename_consumer("tally").await;
    let new = start("relay --newer").await;
    produce("25 --from 100").await;
    produce("25 --from 125 --newer").await;
    // An older instance restarts meanwhile: its registration does not bring the old name back.
    old.terminate().await;
    old.finishes().await;
    let old = start("relay").await;
    produce("10 --from 150").await;
    database.until("SELECT count(*) FROM postrider_delivery", 0).await;
    for worker in [old, new] {
        worker.terminate().await;
        worker.finishes().await;
    }
    database.every_effect_happened_once(160).await;
}
