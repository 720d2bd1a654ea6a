//! The acceptance cases of the requirements document, with their names there. The fifth, to trace one order through the
//! logs, is in `http.rs`.

use std::time::Duration;

use postrider_shop::jobs;

use crate::fixture::{Fixture, Tested, at_once, over_every_store};

over_every_store! {
    /// A.8, A.9, A.10
    a_paid_order_moves_each_asset_once,
    /// A.9, A.10: all assets are returned, and earned points are taken back
    a_refund_gives_everything_back,
    /// A.14: acceptance 1
    restart_after_a_crash,
    /// A.15: acceptance 2
    a_payment_callback_that_comes_again,
    /// A.15
    ten_payment_callbacks_at_the_same_moment,
    /// A.12: acceptance 3
    a_lock_that_times_out_is_released,
    /// A.13: acceptance 4
    a_lost_event_is_restored,
    /// A.13: whatever its status is by then
    an_event_that_is_restored_too_late_does_no_harm,
    /// A.19
    an_event_that_a_person_inserts_does_the_same,
    /// A.12
    an_unpaid_order_is_canceled,
    /// D.12
    a_purchase_is_one_trace_with_its_children,
    /// A.9
    points_that_were_spent_become_a_debt,
}

async fn a_paid_order_moves_each_asset_once<S: Tested>(shop: Fixture<S>) {
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    assert_eq!(shop.balances().await, [8_000, 2_000, 400, 100]);
    assert_eq!(shop.coupon().await, "LOCKED");
    shop.pay(&order).await;
    shop.settle().await;
    assert_eq!(shop.balances().await, [8_000, 0, 499, 0], "99 points for 9,950 cents");
    assert_eq!(shop.coupon().await, "USED");
    assert_eq!(shop.order(&order).await.status, "PAID");
    shop.books_balance().await;
}

async fn a_refund_gives_everything_back<S: Tested>(shop: Fixture<S>) {
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.pay(&order).await;
    shop.settle_in_time().await;
    let refund = postrider_shop::refunds::begin(&shop.shop, &order).await.unwrap();
    shop.refund_callback(&refund.refund_id, true).await.unwrap();
    shop.refund_callback(&refund.refund_id, true).await.unwrap();
    shop.settle().await;
    assert_eq!(shop.balances().await, [10_000, 0, 500, 0]);
    assert_eq!(shop.coupon().await, "AVAILABLE");
    assert_eq!(shop.order(&order).await.status, "REFUNDED");
    shop.books_balance().await;
}

/// Events that were committed but not delivered before a crash are delivered after a restart. `killed.rs` tests this
/// with killed processes.
async fn restart_after_a_crash<S: Tested>(shop: Fixture<S>) {
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    let event = format!("order:{order}:checkout_locked");
    assert_eq!(shop.shop.store.find(&event).await.unwrap().unwrap().deliveries.len(), 3, "one for each asset");
    let again = shop.but(|_| {}).await;
    again.settle().await;
    assert!(again.shop.store.find(&event).await.unwrap().unwrap().deliveries.is_empty());
    let sent = "SELECT count(*) FROM postrider_outbox WHERE topic = 'order.checkout_locked' AND status = 'SENT'";
    assert_eq!(again.number(sent).await, 1);
    assert_eq!(again.balances().await, [8_000, 2_000, 400, 100]);
    again.books_balance().await;
}

async fn a_payment_callback_that_comes_again<S: Tested>(shop: Fixture<S>) {
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    let payment = shop.begin_payment(&order).await;
    let first = shop.payment_callback(&payment, true).await.unwrap();
    shop.settle().await;
    let before = shop.balances().await;
    assert_eq!(shop.payment_callback(&payment, true).await.unwrap(), first, "the same answer");
    shop.settle().await;
    assert_eq!(shop.balances().await, before);
    assert_eq!(shop.number("SELECT count(*) FROM postrider_event WHERE topic = 'order.paid'").await, 1);
    shop.books_balance().await;
}

async fn ten_payment_callbacks_at_the_same_moment<S: Tested>(shop: Fixture<S>) {
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    let payment = shop.begin_payment(&order).await;
    let statuses = at_once(10, |_| {
        let (shop, payment) = (shop.clone(), payment.clone());
        async move { shop.payment_callback(&payment, true).await.unwrap().status }
    });
    assert_eq!(statuses.await, ["SUCCESS"; 10]);
    shop.settle_in_time().await;
    assert_eq!(shop.balances().await, [8_000, 0, 499, 0]);
    assert_eq!(shop.number("SELECT count(*) FROM postrider_event WHERE topic = 'order.paid'").await, 1);
    shop.books_balance().await;
}

async fn a_lock_that_times_out_is_released<S: Tested>(shop: Fixture<S>) {
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    assert_eq!(jobs::reap(&shop.shop).await.unwrap().locks_released, 0, "they are young");
    shop.age(Duration::from_secs(31 * 60)).await;
    let reaped = jobs::reap(&shop.shop).await.unwrap();
    assert_eq!((reaped.locks_released, reaped.orders_canceled), (3, 1));
    assert_eq!(shop.balances().await, [10_000, 0, 500, 0]);
    assert_eq!(shop.coupon().await, "AVAILABLE");
    assert_eq!(shop.order(&order).await.status, "CANCELED");
    assert_eq!(shop.number("SELECT count(*) FROM shop_job_log").await, 1);
    assert_eq!(jobs::reap(&shop.shop).await.unwrap(), Default::default(), "there is nothing left to do");
    shop.settle().await;
    assert_eq!(shop.balances().await, [10_000, 0, 500, 0]);
    shop.books_balance().await;
}

async fn a_lost_event_is_restored<S: Tested>(shop: Fixture<S>) {
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    shop.pay(&order).await;
    lose_the_payment(&shop, &order).await;
    shop.settle().await;
    assert_eq!(shop.balances().await, [8_000, 2_000, 400, 100], "no consumer has received the payment");
    let audit = postrider_shop::audit::audit(&shop.shop).await.unwrap();
    assert!(!audit.ok, "and the auditor sees it");

    let repaired = jobs::check_consistency(&shop.shop).await.unwrap();
    assert_eq!((repaired.missing, repaired.repaired), (1, 1));
    shop.settle().await;
    assert_eq!(shop.balances().await, [8_000, 0, 499, 0]);
    assert_eq!(jobs::check_consistency(&shop.shop).await.unwrap(), Default::default(), "run twice, it adds nothing");
    shop.settle().await;
    assert_eq!(shop.balances().await, [8_000, 0, 499, 0]);
    shop.books_balance().await;
}

/// Deletes the `order.paid` event by hand, and that of the safety net, which would have the same effect.
pub(crate) async fn lose_the_payment<S: Tested>(shop: &Fixture<S>, order: &str) {
    shop.execute(
        "DELETE FROM postrider_delivery WHERE event_seq IN (SELECT seq FROM postrider_event
            WHERE topic IN ('order.paid', 'payment.success')) AND 0 = $1",
        0,
    )
    .await;
    shop.execute_text("DELETE FROM postrider_event WHERE topic = 'payment.success' AND event_key = $1", order).await;
    let deleted =
        shop.execute_text("DELETE FROM postrider_event WHERE topic = 'order.paid' AND event_key = $1", order).await;
    assert_eq!(deleted, 1);
}

async fn an_event_that_is_restored_too_late_does_no_harm<S: Tested>(shop: Fixture<S>) {
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    shop.pay(&order).await;
    lose_the_payment(&shop, &order).await;
    let refund = postrider_shop::refunds::begin(&shop.shop, &order).await.unwrap();
    shop.refund_callback(&refund.refund_id, true).await.unwrap();
    shop.settle().await;
    assert_eq!(shop.balances().await, [10_000, 0, 500, 0], "what was only held came back too");
    assert_eq!(jobs::check_consistency(&shop.shop).await.unwrap().repaired, 1);
    shop.settle().await;
    assert_eq!(shop.balances().await, [10_000, 0, 500, 0], "nothing is spent or earned any more");
    shop.books_balance().await;
}

async fn an_event_that_a_person_inserts_does_the_same<S: Tested>(shop: Fixture<S>) {
    const INSERT: &str = "INSERT INTO postrider_event (event_id, topic, payload) VALUES ('by-hand', 'order.paid', $1)";
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    shop.pay(&order).await;
    lose_the_payment(&shop, &order).await;
    shop.settle().await;
    shop.execute_text(INSERT, &format!(r#"{{"orderId": "{order}"}}"#)).await;
    shop.settle().await;
    assert_eq!(shop.balances().await, [8_000, 0, 499, 0]);
    jobs::check_consistency(&shop.shop).await.unwrap();
    shop.settle().await;
    assert_eq!(shop.balances().await, [8_000, 0, 499, 0], "and once more under its own id");
    shop.books_balance().await;
}

async fn an_unpaid_order_is_canceled<S: Tested>(shop: Fixture<S>) {
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    shop.age(Duration::from_secs(14 * 60)).await;
    assert_eq!(jobs::time_out_orders(&shop.shop).await.unwrap().orders_canceled, 0);
    shop.age(Duration::from_secs(2 * 60)).await;
    assert_eq!(jobs::time_out_orders(&shop.shop).await.unwrap().orders_canceled, 1);
    assert_eq!(jobs::time_out_orders(&shop.shop).await.unwrap().orders_canceled, 0);
    shop.settle().await;
    assert_eq!(shop.order(&order).await.status, "CANCELED");
    assert_eq!(shop.balances().await, [10_000, 0, 500, 0]);
    shop.books_balance().await;
}

async fn a_purchase_is_one_trace_with_its_children<S: Tested>(shop: Fixture<S>) {
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    shop.pay(&order).await;
    shop.settle().await;
    let trace = shop.order(&order).await.trace_id;
    for (child, parent) in [("points_added", "purchased"), ("notified", "purchased")] {
        let child = shop.shop.store.find(&format!("order:{order}:{child}")).await.unwrap().unwrap().envelope;
        assert_eq!(child.trace_id.as_deref(), Some(trace.as_str()));
        assert_eq!(child.parent_event_id.unwrap().as_str(), format!("order:{order}:{parent}"));
    }
    assert_eq!(shop.number("SELECT growth FROM shop_growth").await, 99);
    assert_eq!(shop.number("SELECT count(*) FROM shop_message").await, 1);
    assert_eq!(shop.number("SELECT count(*) FROM shop_activity").await, 2);
}

async fn points_that_were_spent_become_a_debt<S: Tested>(shop: Fixture<S>) {
    let buy = |cents, points| {
        let shop = shop.clone();
        async move {
            let (coupon_id, wallet_cents) = (None, 0);
            let wanted = postrider_shop::orders::Wanted {
                amount_cents: cents,
                points,
                coupon_id,
                wallet_cents,
                ..Fixture::<S>::wanted()
            };
            let order = shop.check_out(wanted).await;
            shop.settle().await;
            shop.pay(&order).await;
            shop.settle().await;
            order
        }
    };
    let first = buy(10_000, 0).await;
    assert_eq!(shop.balances().await[2], 600);
    buy(0, 550).await;
    let refund = postrider_shop::refunds::begin(&shop.shop, &first).await.unwrap();
    shop.refund_callback(&refund.refund_id, true).await.unwrap();
    shop.settle().await;
    assert_eq!(shop.balances().await[2], 0, "50 of the 100 were left");
    assert_eq!(shop.number("SELECT debt FROM shop_points").await, 50);
    buy(8_000, 0).await;
    assert_eq!(shop.number("SELECT debt FROM shop_points").await, 0);
    assert_eq!(shop.balances().await[2], 30, "earnings pay the debt first");
    shop.books_balance().await;
}
