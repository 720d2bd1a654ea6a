//! Behaviour that must be the same on every database.

use std::time::Duration;

use postrider::store::mysql::MySqlStore;
use postrider::store::postgres::PostgresStore;
use postrider_shop::orders::{self, Wanted};
use postrider_shop::{Caller, accounts, refunds};
use sqlx::{Connection, MySqlConnection, PgConnection};

use crate::fixture::{self, Fixture, Tested, at_once, over_every_store};

over_every_store! {
    /// A.9: ids that differ in case are different accounts
    ids_compare_byte_for_byte,
    /// A.12: on many instances
    instances_that_start_together_make_the_tables_once,
    /// A.8: the auditor reads one snapshot
    an_audit_in_the_middle_of_everything_finds_nothing,
}

async fn ids_compare_byte_for_byte<S: Tested>(shop: Fixture<S>) {
    for (user, cents) in [("Ada", 1), ("ADA", 2), ("adä", 3)] {
        accounts::open(&shop.shop, user, cents, 0).await.unwrap();
        accounts::give_coupon(&shop.shop, user, user, cents).await.unwrap();
    }
    assert_eq!(accounts::find(&shop.shop, "ADA").await.unwrap().wallet.available, 2);
    assert_eq!(accounts::find_coupon(&shop.shop, "adä").await.unwrap().discount_cents, 3);
    assert_eq!(shop.balances().await[0], 10_000);
    let order = shop.check_out(Wanted { coupon_id: Some("SPRING".into()), ..Fixture::<S>::wanted() }).await;
    shop.settle().await;
    assert_eq!(shop.order(&order).await.status, "CANCELED", "there is no such coupon");
    shop.books_balance().await;
}

async fn instances_that_start_together_make_the_tables_once<S: Tested>(shop: Fixture<S>) {
    let (urls, places) = fixture::more_like(&shop.url, 1).await;
    let opened = at_once(4, |_| {
        let url = urls[0].clone();
        async move { crate::process::Process::start(&url, &[]).await }
    });
    for process in opened.await {
        assert_eq!(process.get("/shop/audit").await["ok"], true);
        process.stop().await;
    }
    for place in places {
        place.remove().await;
    }
}

async fn an_audit_in_the_middle_of_everything_finds_nothing<S: Tested>(shop: Fixture<S>) {
    let working = tokio::spawn({
        let shop = shop.clone();
        async move {
            for n in 0..5 {
                let order = shop.check_out(Fixture::<S>::wanted()).await;
                shop.settle().await;
                shop.pay(&order).await;
                shop.settle_in_time().await;
                let refund = refunds::begin(&shop.shop, &order).await.unwrap();
                shop.refund_callback(&refund.refund_id, true).await.unwrap();
                shop.settle_in_time().await;
                assert_eq!(shop.balances().await, [10_000, 0, 500, 0], "{n}");
            }
        }
    });
    while !working.is_finished() {
        let audit = postrider_shop::audit::audit(&shop.shop).await.unwrap();
        assert!(audit.ok, "{:#?}", audit.discrepancies);
    }
    working.await.unwrap();
}

/// A second transaction holds a row that the step needs, and then locks the row that the step holds. The database rolls
/// one of the two back.
macro_rules! a_step_that_a_deadlock_ended_is_taken_again {
    ($name:ident, $place:ident, $store:ty, $connection:ty, $step:literal, $order:literal) => {
        /// A.8
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let (url, place) = fixture::$place().await;
            let shop = Fixture::new(<$store>::connect(&url).await.unwrap(), url).await;
            let mut ended = 0;
            for _ in 0..5 {
                let order = orders::create(&shop.shop, &Caller::default(), Fixture::<$store>::wanted()).await.unwrap();
                let mut other = <$connection>::connect(&shop.url).await.unwrap();
                let mut tx = other.begin().await.unwrap();
                // Many rows, because MySQL rolls back the transaction that has written less.
                for step in 0..20_i64 {
                    sqlx::query($step).bind(&order.order_id).bind(step).execute(&mut *tx).await.unwrap();
                }
                let (stepping, id) = (shop.clone(), order.order_id.clone());
                let stepping = tokio::spawn(async move {
                    orders::checkout(&stepping.shop, &Caller::default(), &id).await.unwrap().status
                });
                // Once the row cannot be locked, the step holds it and continues to its insert.
                let free = concat!($order, " FOR UPDATE SKIP LOCKED");
                loop {
                    let mut look = <$connection>::connect(&shop.url).await.unwrap();
                    let found = sqlx::query(free).bind(&order.order_id).fetch_optional(&mut look).await.unwrap();
                    look.close().await.unwrap();
                    if found.is_none() {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                let wanted = sqlx::query(concat!($order, " FOR UPDATE")).bind(&order.order_id);
                ended += usize::from(wanted.fetch_optional(&mut *tx).await.is_ok());
                tx.rollback().await.ok();
                assert_eq!(
                    stepping.await.unwrap(),
                    "WAIT_PAY",
                    "the step is taken, whichever transaction was rolled back"
                );
            }
            assert!(ended > 0, "the step was never the one that was ended");
            place.remove().await;
        }
    };
}

a_step_that_a_deadlock_ended_is_taken_again!(
    a_step_that_a_deadlock_ended_is_taken_again_on_postgres,
    postgres,
    PostgresStore,
    PgConnection,
    "INSERT INTO shop_order_step VALUES ($1, $2, 'DRAFT', 'DRAFT', 'TEST', 0)",
    "SELECT 1 FROM shop_order WHERE order_id = $1"
);
a_step_that_a_deadlock_ended_is_taken_again!(
    a_step_that_a_deadlock_ended_is_taken_again_on_mysql,
    mysql,
    MySqlStore,
    MySqlConnection,
    "INSERT INTO shop_order_step VALUES (?, ?, 'DRAFT', 'DRAFT', 'TEST', 0)",
    "SELECT 1 FROM shop_order WHERE order_id = ?"
);
