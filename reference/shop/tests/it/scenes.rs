//! The exception scenes of the requirements document for orders. The fifth, a crash and a restart, is in `killed.rs`.
//! The schedules of the jobs fire in running processes: stored times are moved back, so no test waits for a slot.

use std::time::Duration;

use postrider::entry::DeliveryStatus;
use postrider::testing::drain;
use postrider_shop::jobs::{CONSISTENCY, ORDER_TIMEOUT, REAPER};
use postrider_shop::{consumers, jobs};

use crate::acceptance::lose_the_payment;
use crate::fixture::{Fixture, Tested, over_every_store};
use crate::process::{Process, TIMEOUT};

over_every_store! {
    /// A.5, A.6: scene 1. The waits double from two seconds on; after ten attempts an operator has to act.
    scene_1_a_consumer_fails,
    /// A.7, A.9: scene 2. The inbox stops a repeated delivery; the key stops a second event of the same step.
    scene_2_an_event_is_consumed_again,
    /// A.12: scene 3. The reaper's own schedule releases the locks.
    scene_3_a_lock_is_not_released_in_time,
    /// A.13: scene 4. The consistency check's own schedule restores the event.
    scene_4_a_payment_succeeds_but_its_event_is_lost,
    /// A.12: the third schedule.
    the_schedule_of_the_order_timeout_cancels_an_unpaid_order,
}

async fn scene_1_a_consumer_fails<S: Tested>(shop: Fixture<S>) {
    const INSERT: &str =
        "INSERT INTO postrider_event (event_id, topic, payload) VALUES ('by-hand', 'order.checkout_locked', $1)";
    const STATUS: &str = "SELECT status FROM postrider_outbox WHERE topic = 'order.paid'";
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    // Nothing is locked, so nothing can be spent.
    shop.lose("order.checkout_locked").await;
    shop.pay(&order).await;
    let event = format!("order:{order}:paid");
    for attempt in 1..=10 {
        drain(&shop.shop.store, consumers::inbox(&shop.shop)).await;
        let record = shop.shop.store.find(&event).await.unwrap().unwrap();
        let wallet = record.deliveries.iter().find(|delivery| delivery.lane == "wallet").unwrap();
        assert_eq!(wallet.attempts, attempt);
        assert!(wallet.last_error.as_ref().is_some_and(|error| error.contains("holds no")), "{wallet:?}");
        if attempt < 10 {
            assert_eq!(wallet.status, DeliveryStatus::Failed);
            assert_eq!(shop.texts(STATUS).await, ["FAILED"]);
            let of_wallet = record.consumptions.iter().filter(|one| one.consumer == "wallet");
            let waits = wallet.due_at - of_wallet.map(|one| one.created_at).max().unwrap();
            let doubled = Duration::from_secs(1 << attempt);
            assert!((waits - doubled).abs() < Duration::from_millis(500), "{attempt}: {waits}");
            shop.shop.store.age(doubled).await.unwrap();
        }
    }
    assert_eq!(shop.texts(STATUS).await, ["DEAD"]);
    let left = shop.shop.store.counts().await.unwrap();
    assert_eq!(left["wallet"].dead, 1, "{left:?}");
    assert_eq!(shop.number("SELECT growth FROM shop_growth").await, 99, "other consumers are done");

    // An operator repairs the cause and redrives.
    shop.execute_text(INSERT, &format!(r#"{{"orderId": "{order}"}}"#)).await;
    drain(&shop.shop.store, consumers::inbox(&shop.shop)).await;
    for lane in ["coupon", "wallet", "points"] {
        shop.shop.store.redrive(&event, lane, None).await.unwrap();
    }
    let net = shop.texts("SELECT event_id FROM postrider_event WHERE topic = 'payment.success'").await.remove(0);
    shop.shop.store.redrive(&net, "payment", None).await.unwrap();
    shop.settle().await;
    assert_eq!(shop.texts(STATUS).await, ["SENT"]);
    assert_eq!(shop.balances().await, [8_000, 0, 499, 0]);
    shop.books_balance().await;
}

async fn scene_2_an_event_is_consumed_again<S: Tested>(shop: Fixture<S>) {
    const INSERT: &str = "INSERT INTO postrider_event (event_id, topic, payload) VALUES ('again', 'order.paid', $1)";
    const CONSUMED: &str = "SELECT count(*) FROM postrider_consume_log
        WHERE topic = 'order.paid' AND status = 'SUCCESS' AND consumer IN ('coupon', 'wallet', 'points')";
    const MOVED: &str = "SELECT count(*) FROM shop_entry WHERE order_id IS NOT NULL";
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    shop.pay(&order).await;
    shop.settle().await;
    let (balances, moved) = (shop.balances().await, shop.number(MOVED).await);
    assert_eq!(shop.number(CONSUMED).await, 3);
    for lane in ["coupon", "wallet", "points"] {
        shop.shop.store.redrive(&format!("order:{order}:paid"), lane, None).await.unwrap();
    }
    shop.settle().await;
    assert_eq!(shop.number(CONSUMED).await, 3, "the inbox knows them");
    assert_eq!((shop.balances().await, shop.number(MOVED).await), (balances, moved));

    // Another event of the same step is new to the inbox, but not to the assets.
    shop.execute_text(INSERT, &format!(r#"{{"orderId": "{order}"}}"#)).await;
    shop.settle().await;
    assert_eq!(shop.number(CONSUMED).await, 6);
    assert_eq!((shop.balances().await, shop.number(MOVED).await), (balances, moved));
    shop.books_balance().await;
}

/// Plans the jobs as a process does, moves the plan back by `by`, and starts a process, in which they are due.
async fn start_when_due<S: Tested>(shop: &Fixture<S>, by: Duration) -> Process {
    jobs::jobs(&shop.shop).unwrap().plan().await.unwrap();
    shop.shop.store.age(by).await.unwrap();
    Process::start(&shop.url, &[]).await
}

/// Waits until the job has changed an order, and asserts that a slot of its schedule caused it.
async fn fired<S: Tested>(shop: &Fixture<S>, job: &'static str) {
    let firing = async {
        while shop.texts("SELECT job FROM shop_job_log").await != [job] {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    if tokio::time::timeout(TIMEOUT, firing).await.is_err() {
        panic!("{job} did nothing: {:?}", shop.shop.store.jobs().await);
    }
    let state = shop.shop.store.jobs().await.unwrap().into_iter().find(|state| state.name == job).unwrap();
    assert!(state.last_slot.is_some(), "no slot of its schedule: {state:?}");
}

/// Waits until every event is delivered.
async fn all_delivered<S: Tested>(shop: &Fixture<S>) {
    let delivering = async {
        while shop.number("SELECT count(*) FROM postrider_delivery").await > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, delivering).await.expect("deliveries finish");
}

async fn scene_3_a_lock_is_not_released_in_time<S: Tested>(shop: Fixture<S>) {
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    // Only the locks are old: the order timeout has nothing to do.
    shop.execute("UPDATE shop_lock SET created_at = created_at - $1", 31 * 60_000).await;
    let process = start_when_due(&shop, Duration::from_secs(5 * 60)).await;
    fired(&shop, REAPER).await;
    all_delivered(&shop).await;
    process.stop().await;
    assert_eq!(shop.order(&order).await.status, "CANCELED");
    assert_eq!(shop.balances().await, [10_000, 0, 500, 0]);
    assert_eq!(shop.coupon().await, "AVAILABLE");
    let locks = "SELECT count(*) FROM shop_lock WHERE status = 'RELEASED'";
    assert_eq!(shop.number(locks).await, 3);
    shop.books_balance().await;
}

async fn scene_4_a_payment_succeeds_but_its_event_is_lost<S: Tested>(shop: Fixture<S>) {
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    shop.pay(&order).await;
    lose_the_payment(&shop).await;
    shop.settle().await;
    assert_eq!(shop.balances().await, [8_000, 2_000, 400, 100]);
    let process = start_when_due(&shop, Duration::from_secs(2 * 3_600)).await;
    fired(&shop, CONSISTENCY).await;
    all_delivered(&shop).await;
    process.stop().await;
    assert_eq!(shop.order(&order).await.status, "PAID");
    assert_eq!(shop.balances().await, [8_000, 0, 499, 0]);
    shop.books_balance().await;
}

async fn the_schedule_of_the_order_timeout_cancels_an_unpaid_order<S: Tested>(shop: Fixture<S>) {
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    shop.execute("UPDATE shop_order SET checked_out_at = checked_out_at - $1", 16 * 60_000).await;
    let process = start_when_due(&shop, Duration::from_secs(60)).await;
    fired(&shop, ORDER_TIMEOUT).await;
    all_delivered(&shop).await;
    process.stop().await;
    assert_eq!(shop.order(&order).await.status, "CANCELED");
    assert_eq!(shop.balances().await, [10_000, 0, 500, 0]);
    shop.books_balance().await;
}
