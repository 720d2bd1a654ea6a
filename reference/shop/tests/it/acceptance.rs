//! The acceptance cases of the requirements document, with their numbers there. The fifth, to trace one order through the
//! logs, is in `http.rs`. And: whole orders, and what repairs them.

use std::time::Duration;

use postrider::lineage;
use postrider_shop::jobs;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::fixture::{Fixture, Tested, at_once, over_every_store};
use crate::process::Process;

over_every_store! {
    /// A.8, A.9, A.10
    a_paid_order_moves_each_asset_once,
    /// A.9, A.10: all assets are returned, and earned points are taken back
    a_refund_gives_everything_back,
    /// A.14: acceptance 1
    acceptance_1_restart_after_a_crash,
    /// A.15: acceptance 2
    acceptance_2_a_payment_callback_comes_again,
    /// A.15
    ten_payment_callbacks_at_the_same_moment,
    /// A.12: acceptance 3
    acceptance_3_a_lock_that_times_out_is_released,
    /// A.13: acceptance 4
    acceptance_4_a_lost_event_is_restored,
    /// A.13: the window is counted from the last change of the order.
    the_consistency_check_has_a_window,
    /// A.13: whatever its status is by then
    an_event_that_is_restored_too_late_does_no_harm,
    /// A.13: a wrong guess is harmless, also when neither the inbox nor the keys know the event any more.
    an_event_that_is_restored_after_its_keys_were_pruned_does_no_harm,
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

/// Lanes are paused until the process is killed, so that its events are NEW by then.
async fn acceptance_1_restart_after_a_crash<S: Tested>(shop: Fixture<S>) {
    const STATUS: &str = "SELECT status FROM postrider_outbox WHERE topic = 'order.checkout_locked'";
    let (store, lanes) = (&shop.shop.store, ["coupon", "wallet", "points"]);
    for lane in lanes {
        store.set_paused(lane, true).await.unwrap();
    }
    let process = Process::start(&shop.url, &[]).await;
    let wanted =
        json!({"userId": "ada", "amountCents": 9_950, "couponId": "spring", "walletCents": 2_000, "points": 100});
    let (_, order) = process.post("/shop/orders", wanted).await;
    let path = format!("/shop/orders/{}", order["orderId"].as_str().unwrap());
    assert_eq!(process.post(&format!("{path}/checkout"), json!({})).await.0, 200);
    process.kill().await;
    assert_eq!(shop.texts(STATUS).await, ["NEW"]);
    assert_eq!(shop.balances().await, [10_000, 0, 500, 0]);
    for lane in lanes {
        store.set_paused(lane, false).await.unwrap();
    }

    let mut process = Process::start(&shop.url, &[]).await;
    for consumer in lanes {
        let consumer = format!("consumer={consumer}");
        process.logs(&["Consumed", &consumer, order["traceId"].as_str().unwrap(), "request-7"]).await;
    }
    process.stop().await;
    assert_eq!(shop.texts(STATUS).await, ["SENT"]);
    assert_eq!(shop.balances().await, [8_000, 2_000, 400, 100]);
    assert_eq!(shop.coupon().await, "LOCKED");
    shop.books_balance().await;
}

async fn acceptance_2_a_payment_callback_comes_again<S: Tested>(shop: Fixture<S>) {
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

async fn acceptance_3_a_lock_that_times_out_is_released<S: Tested>(shop: Fixture<S>) {
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

async fn acceptance_4_a_lost_event_is_restored<S: Tested>(shop: Fixture<S>) {
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    shop.pay(&order).await;
    lose_the_payment(&shop).await;
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
pub(crate) async fn lose_the_payment<S: Tested>(shop: &Fixture<S>) {
    shop.lose("order.paid").await;
    shop.lose("payment.success").await;
}

async fn the_consistency_check_has_a_window<S: Tested>(shop: Fixture<S>) {
    const HOUR: i64 = 3_600_000;
    const MINUTE: i64 = 60_000;
    const CHANGED: &str = "UPDATE shop_order SET updated_at = updated_at - $1";
    const PAID: &str = "UPDATE shop_order SET paid_at = paid_at - $1";
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    shop.pay(&order).await;
    // Paid long ago and changed lately: the change counts.
    shop.execute(PAID, 29 * 24 * HOUR).await;
    shop.lose("order.paid").await;
    shop.execute(CHANGED, 24 * HOUR + MINUTE).await;
    assert_eq!(jobs::check_consistency(&shop.shop).await.unwrap(), Default::default(), "outside");
    shop.execute(CHANGED, -2 * MINUTE).await;
    assert_eq!(jobs::check_consistency(&shop.shop).await.unwrap().repaired, 1, "inside");
    // Paid before the retention began: its event may have been pruned.
    shop.lose("order.paid").await;
    shop.execute(PAID, 2 * 24 * HOUR).await;
    assert_eq!(jobs::check_consistency(&shop.shop).await.unwrap(), Default::default());
}

async fn an_event_that_is_restored_too_late_does_no_harm<S: Tested>(shop: Fixture<S>) {
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    shop.pay(&order).await;
    lose_the_payment(&shop).await;
    let refund = postrider_shop::refunds::begin(&shop.shop, &order).await.unwrap();
    shop.refund_callback(&refund.refund_id, true).await.unwrap();
    shop.settle().await;
    assert_eq!(shop.balances().await, [10_000, 0, 500, 0], "what was only held came back too");
    assert_eq!(jobs::check_consistency(&shop.shop).await.unwrap().repaired, 1);
    shop.settle().await;
    assert_eq!(shop.balances().await, [10_000, 0, 500, 0], "nothing is spent or earned any more");
    shop.books_balance().await;
}

async fn an_event_that_is_restored_after_its_keys_were_pruned_does_no_harm<S: Tested>(shop: Fixture<S>) {
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    shop.pay(&order).await;
    shop.settle().await;
    lose_the_payment(&shop).await;
    shop.execute("DELETE FROM postrider_idempotency WHERE 0 = $1", 0).await;
    shop.execute("DELETE FROM postrider_inbox WHERE 0 = $1", 0).await;
    assert_eq!(jobs::check_consistency(&shop.shop).await.unwrap().repaired, 1);
    shop.settle().await;
    assert_eq!(shop.balances().await, [8_000, 0, 499, 0]);
    shop.books_balance().await;
}

async fn an_event_that_a_person_inserts_does_the_same<S: Tested>(shop: Fixture<S>) {
    const INSERT: &str = "INSERT INTO postrider_event (event_id, topic, payload) VALUES ('by-hand', 'order.paid', $1)";
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    shop.pay(&order).await;
    lose_the_payment(&shop).await;
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
    let stored = shop.order(&order).await;
    let trace = lineage::trace(&shop.shop.store, &stored.trace_id, &postrider::Scope::default()).await.unwrap();
    let topic = |node: &lineage::Node| trace.events[node.event].envelope.topic.clone();
    let purchased = trace.roots.iter().find(|node| topic(node) == "order.purchased").expect("a root of the trace");
    let mut children: Vec<_> = purchased.children.iter().map(topic).collect();
    children.sort();
    assert_eq!(children, ["notification.sent", "points.added"]);
    let mut payloads = Vec::new();
    for event in ["purchased", "points_added", "notified"] {
        let event = shop.shop.store.find(&format!("order:{order}:{event}")).await.unwrap().unwrap().envelope;
        assert_eq!(event.trace_id.as_ref(), Some(&stored.trace_id));
        payloads.push(serde_json::from_str::<Value>(&event.payload).unwrap());
    }
    let paid_at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(stored.paid_at.unwrap()) * 1_000_000).unwrap();
    let occurred_at = paid_at.format(&Rfc3339).unwrap();
    let common = |payload: Value| {
        let mut fields = json!({"orderId": order, "userId": "ada", "amountCents": 9_950});
        fields.as_object_mut().unwrap().extend(payload.as_object().unwrap().clone());
        fields
    };
    let source = format!("order:{order}:purchased");
    assert_eq!(
        payloads,
        [
            common(json!({"occurredAt": occurred_at})),
            common(json!({"points": 99, "sourceEventId": source})),
            common(json!({"channel": "inApp", "templateId": "order-purchased"})),
        ]
    );
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
