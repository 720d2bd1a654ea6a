//! Processes killed with SIGKILL. A shard whose writes are blocked stops the process at a known point; the program
//! itself has no test hooks. Shards are processed in order, and the key's home is the first.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::process::{Caller, Process, fresh, refused, replayed};
use crate::shards::{SHARDS, Shards, name_in, over_every_store};

over_every_store! {
    /// C.5, F23: the next request with the key takes over after the lease expires.
    a_key_left_in_processing_is_taken_over,
    /// C.6: killed during the reservations. Deducted in no shard.
    killed_while_it_reserves_it_leaves_nothing,
    /// C.6: killed after all reservations and before the decision. Deducted in no shard.
    killed_before_the_decision_it_leaves_nothing,
    /// C.6, F27: killed after the decision, with one shard settled. Deducted in all shards.
    killed_after_the_decision_it_is_deducted_everywhere,
    /// C.2, C.6, F53: killed during a release, with one shard settled. Deducted in no shard.
    killed_while_it_gives_back_it_is_released_everywhere,
    /// F24: a slow holder deducts nothing after its key was taken over.
    a_slow_holder_writes_nothing_after_it_was_overtaken,
    /// F24: a slow holder reserves stock after its key was settled, and is then killed.
    what_a_slow_holder_reserved_too_late_is_given_back,
    /// C.3, C.4, C.5, C.6: killed repeatedly under load; every key is deducted once, in all shards.
    killed_again_and_again_every_key_deducts_once,
    /// G.4: after SIGTERM, open requests are answered.
    terminated_it_finishes_what_was_begun,
}

const STOCK: i64 = 10;

struct Setup {
    key: String,
    products: Vec<String>,
}

impl Setup {
    async fn new(caller: &Caller) -> Self {
        let products: Vec<_> = (0..SHARDS).map(|shard| name_in(shard, "lamp")).collect();
        for product in &products {
            caller.put(product, STOCK).await;
        }
        Self { key: name_in(0, "key"), products }
    }

    /// After a restart every shard has this stock, and the audit is clean.
    async fn ends_with(&self, shards: &Shards, stock: i64) -> Process {
        shards.outlast_leases().await;
        let process = Process::start(shards).await;
        shards.until_all_is_settled().await;
        assert_eq!(process.caller().stocks(&self.products).await, [(stock, 0); SHARDS]);
        process.caller().audit().await;
        process
    }
}

async fn reserved(shards: &Shards, items: i64) {
    shards.until("SELECT count(*) FROM inventory_reservation WHERE status = 'RESERVED'", items).await;
}

async fn a_key_left_in_processing_is_taken_over(shards: &Shards) {
    let (doomed, next) = tokio::join!(Process::start(shards), Process::start(shards));
    let Setup { key, products } = Setup::new(&next.caller()).await;
    let third = shards.stop_writes_to(2).await;
    doomed.caller().begin_to_deduct(&key, &products, 7);
    reserved(shards, 2).await;
    doomed.kill().await;
    third.end().await;

    let caller = next.caller();
    assert_eq!(caller.deduct(&key, &products, 6).await, refused(422, "keyMismatch"), "F25: before \"in progress\"");
    assert_eq!(caller.deduct(&key, &products, 7).await, refused(409, "inProgress"));
    shards.outlast_leases().await;
    // Seven of ten: the reservations of the killed process must be returned first.
    assert_eq!(caller.deduct(&key, &products, 7).await, fresh());
    assert_eq!(caller.deduct(&key, &products, 7).await, replayed());
    assert_eq!(caller.stocks(&products).await, [(3, 0); SHARDS]);
    caller.audit().await;
    next.stop().await;
}

async fn killed_while_it_reserves_it_leaves_nothing(shards: &Shards) {
    let process = Process::start(shards).await;
    let setup = Setup::new(&process.caller()).await;
    let third = shards.stop_writes_to(2).await;
    process.caller().begin_to_deduct(&setup.key, &setup.products, 7);
    reserved(shards, 2).await;
    process.kill().await;
    third.end().await;

    let process = setup.ends_with(shards, STOCK).await;
    assert_eq!(shards.keys_in("FAILED").await, 1);
    assert_eq!(process.caller().deduct(&setup.key, &setup.products, 7).await, fresh(), "and may be tried again");
    process.stop().await;
}

async fn killed_before_the_decision_it_leaves_nothing(shards: &Shards) {
    let process = Process::start(shards).await;
    let setup = Setup::new(&process.caller()).await;
    let third = shards.stop_writes_to(2).await;
    process.caller().begin_to_deduct(&setup.key, &setup.products, 7);
    reserved(shards, 2).await;
    // It has passed its home shard and waits for the third, so the home can now be blocked before the decision.
    let home = shards.stop_writes_to(0).await;
    third.end().await;
    reserved(shards, 3).await;
    process.kill().await;
    home.end().await;

    let process = setup.ends_with(shards, STOCK).await;
    assert_eq!(shards.keys_in("FAILED").await, 1);
    process.stop().await;
}

async fn killed_after_the_decision_it_is_deducted_everywhere(shards: &Shards) {
    let process = Process::start(shards).await;
    let setup = Setup::new(&process.caller()).await;
    let third = shards.stop_writes_to(2).await;
    process.caller().begin_to_deduct(&setup.key, &setup.products, 7);
    reserved(shards, 2).await;
    let second = shards.stop_writes_to(1).await;
    third.end().await;
    shards.until("SELECT count(*) FROM inventory_reservation WHERE status = 'DEDUCTED'", 1).await;
    reserved(shards, 2).await;
    process.kill().await;
    second.end().await;

    let process = setup.ends_with(shards, STOCK - 7).await;
    assert_eq!(shards.keys_in("SUCCESS").await, 1);
    assert_eq!(process.caller().deduct(&setup.key, &setup.products, 7).await, replayed());
    assert_eq!(process.caller().stocks(&setup.products).await, [(STOCK - 7, 0); SHARDS]);
    process.stop().await;
}

async fn killed_while_it_gives_back_it_is_released_everywhere(shards: &Shards) {
    let process = Process::start(shards).await;
    let setup = Setup::new(&process.caller()).await;
    assert_eq!(process.caller().deduct(&setup.key, &setup.products, 7).await, fresh());
    let second = shards.stop_writes_to(1).await;
    let releasing = tokio::spawn({
        let (caller, path) = (process.caller(), format!("/inventory/deductions/{}/release", setup.key));
        async move { caller.try_post(&path).await }
    });
    shards.until("SELECT count(*) FROM inventory_reservation", 2).await;
    process.kill().await;
    assert!(!releasing.await.unwrap(), "there was no answer");
    second.end().await;

    setup.ends_with(shards, STOCK).await.stop().await;
    assert_eq!(shards.keys_in("RELEASED").await, 1);
}

async fn a_slow_holder_writes_nothing_after_it_was_overtaken(shards: &Shards) {
    let (slow, next) = tokio::join!(Process::start(shards), Process::start(shards));
    let Setup { key, products } = Setup::new(&next.caller()).await;
    let third = shards.stop_writes_to(2).await;
    let deducting = tokio::spawn({
        let (caller, key, products) = (slow.caller(), key.clone(), products.clone());
        async move { caller.deduct(&key, &products, 7).await }
    });
    reserved(shards, 2).await;
    // Its lease expires while it still runs. All shards but the third can be taken over.
    shards.outlast_lease_of_keys(0).await;
    shards.until("SELECT count(*) FROM inventory_deduction_idempotency WHERE status = 'FAILED'", 1).await;
    third.end().await;
    assert_eq!(deducting.await.unwrap(), refused(409, "inProgress"), "it reports no success");

    shards.until_all_is_settled().await;
    assert_eq!(next.caller().stocks(&products).await, [(STOCK, 0); SHARDS]);
    assert_eq!(next.caller().deduct(&key, &products, 7).await, fresh());
    assert_eq!(next.caller().stocks(&products).await, [(STOCK - 7, 0); SHARDS]);
    next.caller().audit().await;
    slow.stop().await;
    next.stop().await;
}

async fn what_a_slow_holder_reserved_too_late_is_given_back(shards: &Shards) {
    let (slow, next) = tokio::join!(Process::start(shards), Process::start(shards));
    let Setup { key, products } = Setup::new(&next.caller()).await;
    let third = shards.stop_reservations_in(2).await;
    slow.caller().begin_to_deduct(&key, &products, 7);
    reserved(shards, 2).await;
    // The process is suspended before the third shard while the other one ends its attempt and settles.
    slow.signal("-STOP").await;
    let third = third.end_unless_reads_pass().await;
    shards.outlast_lease_of_keys(0).await;
    let settled =
        "SELECT count(*) FROM inventory_deduction_idempotency WHERE status = 'FAILED' AND lease_until IS NULL";
    shards.until(settled, 1).await;
    reserved(shards, 0).await;
    if let Some(third) = third {
        third.end().await;
    }
    // It resumes, reserves, and is killed before it reads from the log that it is too late.
    let home = shards.stop_writes_to(0).await;
    slow.signal("-CONT").await;
    reserved(shards, 1).await;
    slow.kill().await;
    home.end().await;
    assert_eq!(next.caller().stock(&products[2]).await, (STOCK - 7, 7));

    shards.outlast_leases().await;
    shards.until_all_is_settled().await;
    assert_eq!(next.caller().stocks(&products).await, [(STOCK, 0); SHARDS]);
    next.caller().audit().await;
    next.stop().await;
}

async fn killed_again_and_again_every_key_deducts_once(shards: &Shards) {
    const KEYS: i64 = 60;
    const LIVES: i64 = 6;
    let mut process = Process::start(shards).await;
    let Setup { products, .. } = Setup::new(&process.caller()).await;
    for product in &products {
        process.caller().put(product, 2 * KEYS).await;
    }
    let (here, caller) = watch::channel(process.caller());
    let mut buyers = JoinSet::new();
    for n in 0..KEYS {
        let (caller, products) = (caller.clone(), products.clone());
        buyers.spawn(async move {
            // As a caller should: repeats the request with the same key until there is an answer.
            loop {
                let now = caller.borrow().clone();
                match now.try_deduct(&format!("order-{n}"), &products, 1).await {
                    Some(200) => return,
                    Some(409) | None => tokio::time::sleep(Duration::from_millis(20)).await,
                    Some(other) => panic!("order-{n}: {other}"),
                }
            }
        });
    }
    for life in 1..LIVES {
        let sold = "SELECT count(*) FROM inventory_deduction_idempotency WHERE status = 'SUCCESS'";
        shards.until_at_least(sold, KEYS * life / (LIVES + 1)).await;
        process.kill().await;
        shards.outlast_leases().await;
        process = Process::start(shards).await;
        here.send_replace(process.caller());
    }
    while let Some(bought) = buyers.join_next().await {
        bought.unwrap();
    }
    shards.outlast_leases().await;
    shards.until_all_is_settled().await;
    assert_eq!(process.caller().stocks(&products).await, [(KEYS, 0); SHARDS]);
    assert_eq!(shards.keys_in("SUCCESS").await, KEYS);
    let deducted = "SELECT count(*) FROM inventory_reservation WHERE status = 'DEDUCTED'";
    assert_eq!(shards.number(deducted).await, KEYS * SHARDS as i64);
    process.caller().audit().await;
    process.stop().await;
}

async fn terminated_it_finishes_what_was_begun(shards: &Shards) {
    let mut process = Process::start(shards).await;
    let Setup { key, products } = Setup::new(&process.caller()).await;
    let third = shards.stop_writes_to(2).await;
    let deducting = tokio::spawn({
        let (caller, key, products) = (process.caller(), key.clone(), products.clone());
        async move { caller.deduct(&key, &products, 7).await }
    });
    reserved(shards, 2).await;
    process.terminate().await;
    third.end().await;
    assert_eq!(deducting.await.unwrap(), fresh());
    process.ends().await;
    let three_left = "SELECT count(*) FROM inventory_stock WHERE stock = 3 AND reserved = 0";
    assert_eq!(shards.number(three_left).await, SHARDS as i64);
    let left = "SELECT count(*) FROM inventory_deduction_idempotency WHERE lease_until IS NOT NULL";
    assert_eq!(shards.number(left).await, 0, "nothing is left to recover");
}
