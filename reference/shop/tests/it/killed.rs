//! Many concurrent orders, repeated and concurrent callbacks, failing consumers, and a process that is killed
//! repeatedly. In the end the books balance.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider_shop::{accounts, jobs};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::customer::{Chance, Customer};
use crate::fixture::{Fixture, Tested, over_every_store};
use crate::process::Process;

/// The number of orders; `make soak` has more.
fn orders() -> usize {
    if std::env::var_os("POSTRIDER_SOAK").is_some() { 2_000 } else { 1_000 }
}
/// The number of kills, and of concurrent customers.
const KILLS: usize = 10;
const CUSTOMERS: usize = 16;
const USERS: usize = 12;
/// Longer than any lease of the process.
const PAST_ANY_LEASE: Duration = Duration::from_secs(60);
/// The time limit for the last events. Only a failing test waits this long.
const BACKLOG: Duration = Duration::from_secs(600);
/// Short delays: with long ones, the test would wait for retries instead of working on the backlog.
const ARGUMENTS: &[&str] = &[
    "--fail-rate",
    "0.2",
    "--retry-base-ms",
    "50",
    "--retry-cap-ms",
    "1000",
    "--max-retry-count",
    "500",
    "--connections",
    "24",
];

over_every_store! {
    /// A.14, A.15: scene 5 of the requirements document.
    scene_5_crash_and_restart_the_books_balance_whatever_dies,
}

async fn scene_5_crash_and_restart_the_books_balance_whatever_dies<S: Tested>(shop: Fixture<S>) {
    open_accounts(&shop).await;
    let mut process = Process::start_quietly(&shop.url, ARGUMENTS).await;
    let (moved, base) = watch::channel(process.base.clone());
    let (next, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut customers = JoinSet::new();
    for _ in 0..CUSTOMERS {
        let (base, next, done) = (base.clone(), Arc::clone(&next), Arc::clone(&done));
        customers.spawn(async move {
            let customer = Customer::new(base);
            loop {
                let order = next.fetch_add(1, Ordering::SeqCst);
                if order >= orders() {
                    return;
                }
                let mut chance = Chance::of(order);
                let wanted = wanted(order, &mut chance);
                customer.buy(&mut chance, wanted).await;
                done.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    let mut dead = BTreeSet::new();
    for kill in 1..=KILLS {
        while done.load(Ordering::SeqCst) < kill * orders() / (KILLS + 1) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        process.kill().await;
        // Each process has a unique owner name, so a new name was holding leases when it was killed.
        let holders = "SELECT DISTINCT lock_owner FROM postrider_delivery WHERE lock_owner IS NOT NULL";
        let met = dead.len();
        dead.extend(shop.texts(holders).await);
        assert!(dead.len() > met, "kill {kill} hit no delivery in progress");
        shop.shop.store.age(PAST_ANY_LEASE).await.unwrap();
        process = Process::start_quietly(&shop.url, ARGUMENTS).await;
        moved.send_replace(process.base.clone());
    }
    while let Some(ended) = customers.join_next().await {
        ended.unwrap();
    }
    let delivering = async {
        while shop.number("SELECT count(*) FROM postrider_delivery").await > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let delivered = tokio::time::timeout(BACKLOG, delivering).await;
    assert!(delivered.is_ok(), "still on their way: {:?}", shop.shop.store.counts().await);
    process.stop().await;

    // The attempt limit of the process: a lower one would bury what it has already tried often.
    let shop = shop.but(|settings| settings.retry.max_attempts = 500).await;
    shop.books_balance().await;
    // Unpaid orders return their assets.
    shop.age(Duration::from_secs(31 * 60)).await;
    jobs::reap(&shop.shop).await.unwrap();
    jobs::time_out_orders(&shop.shop).await.unwrap();
    assert_eq!(jobs::check_consistency(&shop.shop).await.unwrap().missing, 0);
    shop.settle_in_time().await;
    shop.books_balance().await;
    let held = "SELECT count(*) FROM shop_lock WHERE status IN ('LOCKED', 'FROZEN')";
    assert_eq!(shop.number(held).await, 0);
    assert_eq!(shop.number("SELECT count(*) FROM shop_order WHERE status = 'WAIT_PAY'").await, 0);
    // Checks that the run covered several paths and failures.
    let on_purpose = "SELECT count(*) FROM postrider_consumption WHERE code = 'onPurpose'";
    assert!(shop.number(on_purpose).await > orders() as i64);
    // No unexpected failures: no deadlock, no violated constraint. A kill leaves attempts whose lease ran out.
    let strange = "SELECT count(*) FROM postrider_consumption WHERE error IS NOT NULL
        AND coalesce(code, '') NOT IN ('onPurpose', 'notLocked', 'couponLocked', 'insufficientBalance', 'leaseRanOut')";
    assert_eq!(shop.number(strange).await, 0);
    assert!(shop.number("SELECT count(*) FROM shop_order").await >= orders() as i64);
    assert!(shop.number("SELECT count(*) FROM shop_order WHERE status = 'PAID'").await > orders() as i64 / 10);
    assert!(shop.number("SELECT count(*) FROM shop_order WHERE status = 'CANCELED'").await > orders() as i64 / 10);
    assert!(shop.number("SELECT count(*) FROM shop_order WHERE status = 'REFUNDED'").await > orders() as i64 / 20);
}

/// Users, some with too small a balance, and the coupons of the orders that use their own.
async fn open_accounts<S: Tested>(shop: &Fixture<S>) {
    for user in 0..USERS {
        let name = format!("user-{user}");
        accounts::open(&shop.shop, &name, 30_000 * user as i64, 500).await.unwrap();
        accounts::give_coupon(&shop.shop, &format!("shared-{user}"), &name, 100).await.unwrap();
    }
    let mut giving = JoinSet::new();
    for order in 0..orders() {
        let wanted = wanted(order, &mut Chance::of(order));
        if let Some(coupon) = wanted["couponId"].as_str().filter(|coupon| coupon.starts_with("coupon-")) {
            let (shop, coupon, user) = (shop.clone(), coupon.to_owned(), format!("user-{}", order % USERS));
            giving.spawn(async move { accounts::give_coupon(&shop.shop, &coupon, &user, 100).await.unwrap() });
        }
    }
    giving.join_all().await;
}

/// A pseudo-random order that spends all kinds of assets. Some ask for assets they cannot get.
fn wanted(number: usize, chance: &mut Chance) -> Value {
    let coupon = match chance.percent() {
        0..40 => Some(format!("coupon-{number}")),
        40..50 => Some(format!("shared-{}", number % USERS)),
        50..52 => Some("none".to_owned()),
        _ => None,
    };
    let (cents, wallet, points) = (chance.percent() * 300, chance.percent() * 40, chance.percent() / 8);
    let user = format!("user-{}", number % USERS);
    json!({ "userId": user, "amountCents": cents, "couponId": coupon, "walletCents": wallet, "points": points })
}
