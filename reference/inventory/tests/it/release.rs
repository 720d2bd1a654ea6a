//! Releasing: the stock of a canceled order is returned once.

use crate::process::{Process, fresh, refused};
use crate::shards::{SHARDS, Shards, name_in, over_every_store};

over_every_store! {
    /// C.2: a deduction under a released key is refused.
    a_deduction_after_its_release_is_refused,
    /// C.2, F53: a release before the deduction blocks it.
    a_release_that_comes_first_blocks_the_deduction,
    /// C.2: a released failure is not retried.
    a_failed_deduction_can_be_released,
    /// C.2: ten concurrent releases return the stock once.
    releases_at_the_same_moment_give_back_once,
    /// C.2, F24: a deduction released while it runs deducts nothing.
    a_release_in_the_middle_of_a_deduction_wins,
}

async fn start(shards: &Shards) -> (Process, Vec<String>) {
    let process = Process::start(shards).await;
    let products: Vec<_> = (0..SHARDS).map(|shard| name_in(shard, "lamp")).collect();
    for product in &products {
        process.caller().put(product, 10).await;
    }
    (process, products)
}

async fn a_deduction_after_its_release_is_refused(shards: &Shards) {
    let (process, products) = start(shards).await;
    let caller = process.caller();
    assert_eq!(caller.deduct("k", &products, 3).await, fresh());
    assert_eq!(caller.stocks(&products).await, [(7, 0); SHARDS]);
    assert!(!caller.release("k").await);
    assert_eq!(caller.stocks(&products).await, [(10, 0); SHARDS]);

    assert!(caller.release("k").await, "a repeat");
    assert_eq!(caller.deduct("k", &products, 3).await, refused(409, "released"));
    assert_eq!(caller.deduct("k", &products, 4).await, refused(422, "keyMismatch"));
    assert_eq!(caller.stocks(&products).await, [(10, 0); SHARDS]);
    assert_eq!(shards.keys_in("RELEASED").await, 1);
    caller.audit().await;
    process.stop().await;
}

async fn a_release_that_comes_first_blocks_the_deduction(shards: &Shards) {
    let (process, products) = start(shards).await;
    let caller = process.caller();
    assert!(!caller.release("k").await);
    assert!(caller.release("k").await);
    assert_eq!(caller.deduct("k", &products, 3).await, refused(409, "released"));
    assert_eq!(caller.stocks(&products).await, [(10, 0); SHARDS]);
    caller.audit().await;
    process.stop().await;
}

async fn a_failed_deduction_can_be_released(shards: &Shards) {
    let (process, products) = start(shards).await;
    let caller = process.caller();
    assert_eq!(caller.deduct("k", &products, 11).await, refused(409, "outOfStock"));
    assert!(!caller.release("k").await);
    assert_eq!(caller.deduct("k", &products, 11).await, refused(409, "released"));
    assert_eq!(caller.stocks(&products).await, [(10, 0); SHARDS]);
    caller.audit().await;
    process.stop().await;
}

async fn releases_at_the_same_moment_give_back_once(shards: &Shards) {
    let (process, products) = start(shards).await;
    let caller = process.caller();
    assert_eq!(caller.deduct("k", &products, 3).await, fresh());
    let mut releases = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let caller = caller.clone();
        releases.spawn(async move { caller.release("k").await });
    }
    let first = releases.join_all().await.into_iter().filter(|replayed| !replayed).count();
    assert_eq!(first, 1);
    assert_eq!(caller.stocks(&products).await, [(10, 0); SHARDS]);
    caller.audit().await;
    process.stop().await;
}

async fn a_release_in_the_middle_of_a_deduction_wins(shards: &Shards) {
    let (process, products) = start(shards).await;
    let caller = process.caller();
    let key = name_in(0, "key");
    let third = shards.stop_writes_to(2).await;
    let deducting = tokio::spawn({
        let (caller, key, products) = (process.caller(), key.clone(), products.clone());
        async move { caller.deduct(&key, &products, 3).await }
    });
    shards.until("SELECT count(*) FROM inventory_reservation", 2).await;
    let releasing = tokio::spawn({
        let (caller, key) = (process.caller(), key.clone());
        async move { caller.release(&key).await }
    });
    let released = "SELECT count(*) FROM inventory_deduction_idempotency WHERE status = 'RELEASED'";
    shards.until(released, 1).await;
    third.end().await;
    assert!(!releasing.await.unwrap());
    assert_eq!(deducting.await.unwrap(), refused(409, "released"));
    assert_eq!(caller.stocks(&products).await, [(10, 0); SHARDS]);
    caller.audit().await;
    process.stop().await;
}
