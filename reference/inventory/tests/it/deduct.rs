//! Deducting: once per key, all or nothing, never more than the stock.

use std::collections::BTreeMap;

use crate::process::{Process, command, fresh, refused, replayed};
use crate::shards::{SHARDS, Shards, name_in, over_every_store};

over_every_store! {
    /// C.3: 500 concurrent requests for one product with a stock of 300.
    stock_sells_exactly_as_often_as_it_is_there,
    /// C.2, scenario 1 of document 002: the normal flow.
    scene_1_a_repeated_deduction_is_answered_again_without_effect,
    /// C.4, scenario 3 of document 002: two instances.
    scene_3_the_same_key_in_two_processes_at_the_same_moment_deducts_once,
    /// C.6: the third shard does not have enough stock.
    a_batch_that_fails_in_the_third_shard_leaves_the_others_as_they_were,
    /// C.2, scenario 2 of document 002: a retry.
    scene_2_of_two_retries_of_a_failure_one_deducts,
    /// C.1: one row per key, in the shard of its hash, with the request.
    the_log_of_a_key_is_in_its_home_shard,
    /// C.1: the log can be created by hand, from the SQL that the program prints.
    the_printed_sql_makes_the_table_of_the_log,
}

async fn stock_sells_exactly_as_often_as_it_is_there(shards: &Shards) {
    const BUYERS: usize = 500;
    const STOCK: i64 = 300;
    let process = Process::start(shards).await;
    let caller = process.caller();
    let product = vec![name_in(1, "lamp")];
    caller.put(&product[0], STOCK).await;

    let mut buyers = tokio::task::JoinSet::new();
    for n in 0..BUYERS {
        let (caller, product) = (caller.clone(), product.clone());
        buyers.spawn(async move { caller.deduct(&format!("order-{n}"), &product, 1).await });
    }
    let mut answers: BTreeMap<String, usize> = BTreeMap::new();
    while let Some(answer) = buyers.join_next().await {
        *answers.entry(format!("{:?}", answer.unwrap())).or_default() += 1;
    }
    let answers: Vec<_> = answers.into_values().collect();
    assert_eq!(answers, [300, 200], "sold, and out of stock");
    assert_eq!(caller.stock(&product[0]).await, (0, 0));
    assert_eq!((shards.keys_in("SUCCESS").await, shards.keys_in("FAILED").await), (300, 200));
    caller.audit().await;
    process.stop().await;
}

async fn scene_1_a_repeated_deduction_is_answered_again_without_effect(shards: &Shards) {
    let process = Process::start(shards).await;
    let caller = process.caller();
    let products = one_in_each_shard();
    for product in &products {
        caller.put(product, 10).await;
    }
    assert_eq!(caller.deduct("123-DEDUCT", &products, 2).await, fresh());
    assert_eq!(caller.deduct("123-DEDUCT", &products, 2).await, replayed());
    let turned: Vec<_> = products.iter().rev().cloned().collect();
    assert_eq!(caller.deduct("123-DEDUCT", &turned, 2).await, replayed(), "listed in another order");
    assert_eq!(caller.stocks(&products).await, [(8, 0); SHARDS]);
    process.stop().await;

    // Another process replays it too.
    let process = Process::start(shards).await;
    assert_eq!(process.caller().deduct("123-DEDUCT", &products, 2).await, replayed());
    assert_eq!(process.caller().stocks(&products).await, [(8, 0); SHARDS]);
    process.caller().audit().await;
    process.stop().await;
}

async fn scene_3_the_same_key_in_two_processes_at_the_same_moment_deducts_once(shards: &Shards) {
    const KEYS: usize = 30;
    let (one, other) = tokio::join!(Process::start(shards), Process::start(shards));
    let products = one_in_each_shard();
    for product in &products {
        one.caller().put(product, 100).await;
    }
    for n in 0..KEYS {
        let key = format!("order-{n}");
        let (first, second) = (one.caller(), other.caller());
        let answers = tokio::join!(first.deduct(&key, &products, 1), second.deduct(&key, &products, 1));
        let mut answers = [answers.0, answers.1];
        answers.sort_by_key(|answer| *answer != fresh());
        let [first, second] = answers;
        assert_eq!(first, fresh(), "{key}: one request deducts");
        assert!(second == replayed() || second == refused(409, "inProgress"), "{key}: {second:?}");
    }
    one.caller().audit().await;
    assert_eq!(other.caller().stocks(&products).await, [(100 - KEYS as i64, 0); SHARDS]);
    one.stop().await;
    other.stop().await;
}

async fn a_batch_that_fails_in_the_third_shard_leaves_the_others_as_they_were(shards: &Shards) {
    let process = Process::start(shards).await;
    let caller = process.caller();
    let products = one_in_each_shard();
    for (product, stock) in products.iter().zip([10, 10, 1]) {
        caller.put(product, stock).await;
    }
    assert_eq!(caller.deduct("k", &products, 2).await, refused(409, "outOfStock"));
    assert_eq!(caller.stocks(&products).await, [(10, 0), (10, 0), (1, 0)]);
    assert_eq!(shards.number("SELECT count(*) FROM inventory_reservation").await, 0);
    let recorded = "SELECT count(*) FROM inventory_deduction_idempotency
        WHERE status = 'FAILED' AND error_message LIKE 'not enough in stock%' AND lease_until IS NULL";
    assert_eq!(shards.number(recorded).await, 1, "the failure outlives the transaction that was rolled back");
    caller.audit().await;
    process.stop().await;
}

async fn scene_2_of_two_retries_of_a_failure_one_deducts(shards: &Shards) {
    const KEYS: usize = 20;
    let (one, other) = tokio::join!(Process::start(shards), Process::start(shards));
    let products = one_in_each_shard();
    for product in &products {
        one.caller().put(product, 0).await;
    }
    for n in 0..KEYS {
        assert_eq!(one.caller().deduct(&format!("order-{n}"), &products, 1).await, refused(409, "outOfStock"));
    }
    for product in &products {
        one.caller().put(product, 100).await;
    }
    for n in 0..KEYS {
        let key = format!("order-{n}");
        let (first, second) = (one.caller(), other.caller());
        let answers = tokio::join!(first.deduct(&key, &products, 1), second.deduct(&key, &products, 1));
        let deducted = [&answers.0, &answers.1].into_iter().filter(|answer| **answer == fresh()).count();
        assert_eq!(deducted, 1, "{key}: {answers:?}");
    }
    assert_eq!(one.caller().stocks(&products).await, [(100 - KEYS as i64, 0); SHARDS]);
    one.caller().audit().await;
    one.stop().await;
    other.stop().await;
}

async fn the_log_of_a_key_is_in_its_home_shard(shards: &Shards) {
    let process = Process::start(shards).await;
    let caller = process.caller();
    let product = vec![name_in(2, "lamp")];
    caller.put(&product[0], 10).await;
    for shard in 0..SHARDS {
        assert_eq!(caller.deduct(&name_in(shard, "key"), &product, 1).await, fresh());
    }
    for shard in 0..SHARDS {
        let mine = format!(
            "SELECT count(*) FROM inventory_deduction_idempotency WHERE idempotency_key = '{}' AND order_id = '7'
                AND product_ids = '[\"{}\"]' AND sku_ids = '[\"s\"]' AND quantities = '[1]' AND status = 'SUCCESS'",
            name_in(shard, "key"),
            product[0]
        );
        assert_eq!(shards.number_in(shard, &mine).await, 1);
    }
    assert_eq!(shards.number("SELECT count(*) FROM inventory_deduction_idempotency").await, 3);
    process.stop().await;
}

async fn the_printed_sql_makes_the_table_of_the_log(shards: &Shards) {
    const ROWS: &str = "SELECT count(*) FROM inventory_deduction_idempotency WHERE status = 'SUCCESS'";
    let printed = command(&[]).args(["--print-log-table", shards.dialect()]).output().await.unwrap();
    assert!(printed.status.success(), "{printed:?}");
    let sql = String::from_utf8(printed.stdout).unwrap();
    for shard in 0..SHARDS {
        for _ in 0..2 {
            shards.write_to(shard, &sql).await;
        }
    }
    assert_eq!(shards.number(ROWS).await, 0, "the tables are there, before any process");

    let process = Process::start(shards).await;
    let product = vec![name_in(1, "lamp")];
    process.caller().put(&product[0], 10).await;
    assert_eq!(process.caller().deduct("123-DEDUCT", &product, 2).await, fresh());
    assert_eq!(process.caller().deduct("123-DEDUCT", &product, 2).await, replayed());
    assert_eq!(shards.number(ROWS).await, 1);
    process.stop().await;
}

fn one_in_each_shard() -> Vec<String> {
    (0..SHARDS).map(|shard| name_in(shard, "lamp")).collect()
}
