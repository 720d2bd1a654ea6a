//! The effects of each event, when the events that would hide them are lost, and the keys of all operations.

use std::collections::BTreeSet;

use postrider_shop::orders::By;
use postrider_shop::{jobs, refunds};

use crate::fixture::{Fixture, Tested, over_every_store};

over_every_store! {
    /// A.10: `payment.success` does the work of a lost `order.paid`, under the same keys.
    payment_success_alone_spends_and_earns,
    /// A.10: `payment.failed` does the work of a lost `order.canceled`, and cancels an order that still waits.
    payment_failed_alone_cancels_and_releases,
    /// A.10: `refund.success` does the work of a lost `order.refunded`, under the same keys.
    refund_success_alone_gives_everything_back,
    /// A.10: payment, order and both events, or nothing.
    a_payment_whose_event_cannot_be_written_changes_nothing,
    /// A.10: refund, order and both events, or nothing.
    a_refund_whose_event_cannot_be_written_changes_nothing,
    /// A.9, A.11
    each_operation_has_its_key,
}

async fn payment_success_alone_spends_and_earns<S: Tested>(shop: Fixture<S>) {
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    shop.pay(&order).await;
    shop.lose("order.paid").await;
    shop.settle().await;
    assert_eq!(shop.balances().await, [8_000, 0, 499, 0]);
    assert_eq!(shop.coupon().await, "USED");
    // The event is restored, and finds everything done.
    assert_eq!(jobs::check_consistency(&shop.shop).await.unwrap().repaired, 1);
    shop.settle().await;
    assert_eq!(shop.balances().await, [8_000, 0, 499, 0]);
    shop.books_balance().await;
}

async fn payment_failed_alone_cancels_and_releases<S: Tested>(shop: Fixture<S>) {
    const INSERT: &str = "INSERT INTO postrider_event (event_id, topic, payload) VALUES ('hand', 'payment.failed', $1)";
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    let payment = shop.begin_payment(&order).await;
    shop.payment_callback(&payment, false).await.unwrap();
    shop.lose("order.canceled").await;
    shop.settle().await;
    assert_eq!(shop.order(&order).await.status, "CANCELED");
    assert_eq!(shop.balances().await, [10_000, 0, 500, 0]);
    assert_eq!(shop.coupon().await, "AVAILABLE");

    let waiting = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    assert_eq!(shop.balances().await, [8_000, 2_000, 400, 100]);
    shop.execute_text(INSERT, &format!(r#"{{"orderId": "{waiting}"}}"#)).await;
    shop.settle().await;
    assert_eq!(shop.order(&waiting).await.status, "CANCELED");
    assert_eq!(shop.balances().await, [10_000, 0, 500, 0]);
    shop.books_balance().await;
}

async fn refund_success_alone_gives_everything_back<S: Tested>(shop: Fixture<S>) {
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    shop.pay(&order).await;
    shop.settle().await;
    let refund = refunds::begin(&shop.shop, &order).await.unwrap();
    shop.refund_callback(&refund.refund_id, true).await.unwrap();
    shop.lose("order.refunded").await;
    shop.settle().await;
    assert_eq!(shop.balances().await, [10_000, 0, 500, 0]);
    assert_eq!(shop.coupon().await, "AVAILABLE");
    shop.books_balance().await;
}

/// Occupies the id of an event with other content, so that the event cannot be written.
async fn occupy<S: Tested>(shop: &Fixture<S>, event_id: &str) {
    const INSERT: &str = "INSERT INTO postrider_event (event_id, topic, payload) VALUES ($1, 'other', '{}')";
    assert_eq!(shop.execute_text(INSERT, event_id).await, 1);
}

async fn a_payment_whose_event_cannot_be_written_changes_nothing<S: Tested>(shop: Fixture<S>) {
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    let payment = shop.begin_payment(&order).await;
    for event in [format!("order:{order}:paid"), format!("payment:{payment}:success")] {
        occupy(&shop, &event).await;
        shop.payment_callback(&payment, true).await.expect_err("the id belongs to another event");
        assert_eq!(shop.order(&order).await.status, "WAIT_PAY", "{event}");
        assert_eq!(shop.texts("SELECT status FROM shop_payment").await, ["PROCESSING"], "{event}");
        let written = "SELECT count(*) FROM postrider_event WHERE topic IN ('order.paid', 'payment.success')";
        assert_eq!(shop.number(written).await, 0, "{event}");
        shop.lose("other").await;
    }
    shop.payment_callback(&payment, true).await.unwrap();
    assert_eq!(shop.order(&order).await.status, "PAID");
}

async fn a_refund_whose_event_cannot_be_written_changes_nothing<S: Tested>(shop: Fixture<S>) {
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.pay(&order).await;
    let refund = refunds::begin(&shop.shop, &order).await.unwrap().refund_id;
    for event in [format!("order:{order}:refunded"), format!("refund:{refund}:success")] {
        occupy(&shop, &event).await;
        shop.refund_callback(&refund, true).await.expect_err("the id belongs to another event");
        assert_eq!(shop.order(&order).await.status, "PAID", "{event}");
        assert_eq!(shop.refunds(&order).await[0].status, "PROCESSING", "{event}");
        let written = "SELECT count(*) FROM postrider_event WHERE topic IN ('order.refunded', 'refund.success')";
        assert_eq!(shop.number(written).await, 0, "{event}");
        shop.lose("other").await;
    }
    shop.refund_callback(&refund, true).await.unwrap();
    assert_eq!(shop.order(&order).await.status, "REFUNDED");
}

async fn each_operation_has_its_key<S: Tested>(shop: Fixture<S>) {
    let refunded = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    shop.pay(&refunded).await;
    shop.settle().await;
    let refund = refunds::begin(&shop.shop, &refunded).await.unwrap().refund_id;
    shop.refund_callback(&refund, true).await.unwrap();
    shop.settle().await;
    let canceled = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    shop.cancel(&canceled, By::User).await.unwrap();
    shop.settle().await;
    let expected: BTreeSet<_> = [
        format!("order:{refunded}:checkout"),
        format!("order:{refunded}:commit"),
        format!("order:{refunded}:return"),
        format!("order:{canceled}:checkout"),
        format!("order:{canceled}:release"),
        format!("wallet:{refunded}:freeze"),
        format!("wallet:{refunded}:commit"),
        format!("wallet:{refund}:revert"),
        format!("wallet:{canceled}:freeze"),
        format!("wallet:{canceled}:release"),
        format!("points:{refunded}:freeze"),
        format!("points:{refunded}:commit"),
        format!("points:{refunded}:earn"),
        format!("points:{refund}:revert"),
        format!("points:{canceled}:freeze"),
        format!("points:{canceled}:release"),
    ]
    .into();
    let keys = "SELECT one.key FROM postrider_idempotency one WHERE one.scope = 'shop.assets'";
    assert_eq!(BTreeSet::from_iter(shop.texts(keys).await), expected);
    // What moved an asset has the same keys in the ledger.
    let moved = "SELECT idempotency_key FROM shop_entry WHERE order_id IS NOT NULL";
    assert_eq!(BTreeSet::from_iter(shop.texts(moved).await), expected);
    shop.books_balance().await;
}
