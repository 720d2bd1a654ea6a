//! Races that would move assets twice or not at all.

use std::time::Duration;

use postrider::{Relay, RelayOptions};
use postrider_shop::orders::{By, Wanted};
use postrider_shop::{ShopError, consumers, jobs, orders, refunds};

use crate::fixture::{Fixture, Tested, at_once, over_every_store};

over_every_store! {
    /// A.10
    a_success_callback_after_the_order_was_canceled_is_refunded_by_itself,
    /// A.11
    a_late_lock_after_its_release_does_nothing,
    /// A.12
    paid_while_being_reaped,
    /// A.12: never for an order whose payment has succeeded
    a_paid_order_keeps_its_locks_whatever_their_age,
    /// A.12: on many instances
    many_reapers_release_a_lock_once,
    /// A.10
    a_lock_that_can_never_succeed_cancels_the_order_and_frees_the_rest,
    /// A.10
    a_lock_that_fails_after_the_payment_is_refunded,
    /// A.9, A.10
    a_coupon_that_another_order_holds_is_waited_for,
    /// A.8
    two_refunds_at_once,
    /// A.10
    a_cancel_from_wait_accept_gives_everything_back,
    /// A.10
    a_failed_payment_cancels_the_order,
    /// A.10
    a_failed_refund_calls_for_attention,
    /// A.8
    an_illegal_transition_is_refused_with_the_states_it_needs,
    /// A.10
    a_dead_head_holds_the_later_events_of_its_order,
}

async fn a_success_callback_after_the_order_was_canceled_is_refunded_by_itself<S: Tested>(shop: Fixture<S>) {
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    let payment = shop.begin_payment(&order).await;
    shop.cancel(&order, By::User).await.unwrap();
    shop.settle().await;
    assert_eq!(shop.payment_callback(&payment, true).await.unwrap().status, "SUCCESS", "it is accepted");
    let [refund] = &shop.refunds(&order).await[..] else { panic!("one refund") };
    assert_eq!((refund.status.as_str(), refund.reason.as_str()), ("PROCESSING", "PAID_TOO_LATE"));
    shop.settle().await;
    assert_eq!(shop.balances().await, [10_000, 0, 500, 0], "nothing was spent or earned");
    shop.books_balance().await;
    shop.refund_callback(&refund.refund_id, true).await.unwrap();
    shop.settle().await;
    assert_eq!(shop.order(&order).await.status, "CANCELED");
    assert_eq!(jobs::check_consistency(&shop.shop).await.unwrap().missing, 0, "it was never PAID");
    assert_eq!(shop.balances().await, [10_000, 0, 500, 0]);
    shop.books_balance().await;
}

async fn a_late_lock_after_its_release_does_nothing<S: Tested>(shop: Fixture<S>) {
    use postrider_shop::{Moved, coupons, points, wallet};
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    let store = &shop.shop.store;
    let mut tx = store.begin().await.unwrap();
    let held = orders::lock::<S>(&mut tx, &order).await.unwrap();
    coupons::release(&shop.shop, &mut tx, &held).await.unwrap();
    wallet::release(&shop.shop, &mut tx, &held).await.unwrap();
    points::release(&shop.shop, &mut tx, &held).await.unwrap();
    store.commit(tx).await.unwrap();

    let mut tx = store.begin().await.unwrap();
    let held = orders::lock::<S>(&mut tx, &order).await.unwrap();
    let patience = postrider_shop::Patience::TryAgain;
    let late = Moved::Nothing { why: "RELEASED".into() };
    for _ in 0..2 {
        assert_eq!(coupons::lock(&shop.shop, &mut tx, &held, patience).await.unwrap(), late);
        assert_eq!(wallet::freeze(&shop.shop, &mut tx, &held, patience).await.unwrap(), late);
        assert_eq!(points::freeze(&shop.shop, &mut tx, &held, patience).await.unwrap(), late);
    }
    store.commit(tx).await.unwrap();
    assert_eq!(shop.balances().await, [10_000, 0, 500, 0]);
    shop.cancel(&order, By::User).await.unwrap();
    shop.settle().await;
    shop.books_balance().await;
}

/// Either the payment or the reaper is first: paid and spent, or canceled, released and refunded. Each is made first once;
/// in the other rounds they race.
async fn paid_while_being_reaped<S: Tested>(shop: Fixture<S>) {
    for first in [Some("PAID"), Some("CANCELED")].into_iter().chain([None; 8]) {
        let wanted = Wanted { coupon_id: None, wallet_cents: 10, points: 1, amount_cents: 0, ..Fixture::<S>::wanted() };
        let order = shop.check_out(wanted).await;
        shop.settle().await;
        let payment = shop.begin_payment(&order).await;
        shop.age(Duration::from_secs(31 * 60)).await;
        let before = shop.balances().await;
        let step = |at| {
            let (shop, payment) = (shop.clone(), payment.clone());
            async move {
                match at {
                    0 => drop(shop.payment_callback(&payment, true).await.unwrap()),
                    _ => drop(jobs::reap(&shop.shop).await.unwrap()),
                }
            }
        };
        match first {
            Some("PAID") => [step(0).await, step(1).await],
            Some(_) => [step(1).await, step(0).await],
            None => at_once(2, step).await.try_into().unwrap(),
        };
        shop.settle().await;
        let after = shop.balances().await;
        let status = shop.order(&order).await.status;
        assert!(first.is_none_or(|first| status.as_str() == first), "{first:?} was first: {status:?}");
        match status.as_str() {
            "PAID" => {
                assert_eq!(after, [before[0], before[1] - 10, before[2], before[3] - 1]);
                assert!(shop.refunds(&order).await.is_empty());
            }
            "CANCELED" => {
                assert_eq!(after, [before[0] + 10, before[1] - 10, before[2] + 1, before[3] - 1]);
                assert_eq!(shop.refunds(&order).await.len(), 1);
            }
            other => panic!("{other}"),
        }
        shop.books_balance().await;
    }
}

async fn a_paid_order_keeps_its_locks_whatever_their_age<S: Tested>(shop: Fixture<S>) {
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    shop.pay(&order).await; // its event is not delivered yet
    shop.age(Duration::from_secs(24 * 3600)).await;
    assert_eq!(jobs::reap(&shop.shop).await.unwrap(), Default::default());
    assert_eq!(jobs::time_out_orders(&shop.shop).await.unwrap(), Default::default());
    assert_eq!(shop.balances().await, [8_000, 2_000, 400, 100]);
    shop.settle().await;
    assert_eq!(shop.balances().await, [8_000, 0, 499, 0]);
    shop.books_balance().await;
}

async fn many_reapers_release_a_lock_once<S: Tested>(shop: Fixture<S>) {
    shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    shop.age(Duration::from_secs(31 * 60)).await;
    let reaped = at_once(4, |_| {
        let shop = shop.clone();
        async move { jobs::reap(&shop.shop).await.unwrap() }
    });
    let reaped = reaped.await;
    assert_eq!(reaped.iter().map(|reaped| reaped.locks_released).sum::<u64>(), 3);
    assert_eq!(reaped.iter().map(|reaped| reaped.orders_canceled).sum::<u64>(), 1);
    assert_eq!(shop.number("SELECT count(*) FROM shop_job_log").await, 1);
    shop.settle().await;
    assert_eq!(shop.balances().await, [10_000, 0, 500, 0]);
    shop.books_balance().await;
}

async fn a_lock_that_can_never_succeed_cancels_the_order_and_frees_the_rest<S: Tested>(shop: Fixture<S>) {
    let order = shop.check_out(Wanted { wallet_cents: 10_001, ..Fixture::<S>::wanted() }).await;
    shop.settle().await;
    assert_eq!(shop.order(&order).await.status, "CANCELED");
    assert_eq!(shop.balances().await, [10_000, 0, 500, 0]);
    assert_eq!(shop.coupon().await, "AVAILABLE");
    let result = shop.number(
        "SELECT count(*) FROM postrider_consume_log WHERE consumer = 'wallet' AND result LIKE '%insufficientBalance%'",
    );
    assert_eq!(result.await, 1, "the log says why");
    for strange in [
        Wanted { coupon_id: Some("none".into()), ..Fixture::<S>::wanted() },
        Wanted { user_id: "unknown".into(), coupon_id: None, ..Fixture::<S>::wanted() },
    ] {
        let order = shop.check_out(strange).await;
        shop.settle().await;
        assert_eq!(shop.order(&order).await.status, "CANCELED");
    }
    assert_eq!(shop.balances().await, [10_000, 0, 500, 0]);
    shop.books_balance().await;
}

async fn a_lock_that_fails_after_the_payment_is_refunded<S: Tested>(shop: Fixture<S>) {
    let order = shop.check_out(Wanted { wallet_cents: 10_001, ..Fixture::<S>::wanted() }).await;
    shop.pay(&order).await;
    shop.settle_in_time().await;
    assert_eq!(shop.order(&order).await.status, "PAID");
    let [refund] = &shop.refunds(&order).await[..] else { panic!("one refund") };
    assert_eq!(refund.reason, "NOT_LOCKED");
    shop.books_balance().await;
    shop.refund_callback(&refund.refund_id, true).await.unwrap();
    shop.settle().await;
    assert_eq!(shop.balances().await, [10_000, 0, 500, 0]);
    assert_eq!(shop.coupon().await, "AVAILABLE");
    shop.books_balance().await;
}

async fn a_coupon_that_another_order_holds_is_waited_for<S: Tested>(shop: Fixture<S>) {
    let only_coupon = || Wanted { wallet_cents: 0, points: 0, ..Fixture::<S>::wanted() };
    let first = shop.check_out(only_coupon()).await;
    shop.settle().await;
    let second = shop.check_out(only_coupon()).await;
    let left = postrider::testing::drain(&shop.shop.store, consumers::inbox(&shop.shop)).await;
    assert_eq!(left["coupon"].failed, 1, "it may be had later");
    shop.cancel(&first, By::User).await.unwrap();
    shop.settle_in_time().await;
    assert_eq!(shop.order(&second).await.status, "WAIT_PAY");
    assert_eq!(shop.coupon().await, "LOCKED");
    // A third order waits until its tries are used up.
    let third = shop.check_out(only_coupon()).await;
    shop.settle_in_time().await;
    assert_eq!(shop.order(&third).await.status, "CANCELED");
    shop.books_balance().await;
}

async fn two_refunds_at_once<S: Tested>(shop: Fixture<S>) {
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    shop.pay(&order).await;
    let asked = at_once(4, |_| {
        let (shop, order) = (shop.clone(), order.clone());
        async move { refunds::begin(&shop.shop, &order).await }
    });
    let (won, lost): (Vec<_>, Vec<_>) = asked.await.into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 3));
    assert!(lost.iter().all(|lost| lost.as_ref().is_err_and(|e| e.code() == "refundExists")));
    let refund = won.into_iter().next().unwrap().unwrap().refund_id;
    let statuses = at_once(4, |_| {
        let (shop, refund) = (shop.clone(), refund.clone());
        async move { shop.refund_callback(&refund, true).await.unwrap().status }
    });
    assert_eq!(statuses.await, ["SUCCESS"; 4]);
    shop.settle_in_time().await;
    assert_eq!(shop.balances().await, [10_000, 0, 500, 0]);
    shop.books_balance().await;
}

async fn a_cancel_from_wait_accept_gives_everything_back<S: Tested>(shop: Fixture<S>) {
    let shop = shop.but(|settings| settings.merchant_accept = true).await;
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    shop.pay(&order).await;
    shop.settle().await;
    assert_eq!(shop.order(&order).await.status, "WAIT_ACCEPT");
    shop.cancel(&order, By::Merchant).await.unwrap();
    shop.settle().await;
    assert_eq!(shop.order(&order).await.status, "CANCELED");
    shop.books_balance().await;
    let [refund] = &shop.refunds(&order).await[..] else { panic!("one refund") };
    shop.refund_callback(&refund.refund_id, true).await.unwrap();
    shop.settle().await;
    assert_eq!(shop.balances().await, [10_000, 0, 500, 0]);
    assert_eq!(shop.coupon().await, "AVAILABLE");
    assert_eq!(shop.order(&order).await.status, "CANCELED");
    shop.books_balance().await;
}

async fn a_failed_payment_cancels_the_order<S: Tested>(shop: Fixture<S>) {
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    let payment = shop.begin_payment(&order).await;
    shop.payment_callback(&payment, false).await.unwrap();
    assert_eq!(shop.payment_callback(&payment, false).await.unwrap().status, "FAILED");
    assert!(matches!(shop.payment_callback(&payment, true).await, Err(ShopError::Illegal { .. })));
    shop.settle().await;
    assert_eq!(shop.order(&order).await.status, "CANCELED");
    assert_eq!(shop.balances().await, [10_000, 0, 500, 0]);
    shop.books_balance().await;
}

async fn a_failed_refund_calls_for_attention<S: Tested>(shop: Fixture<S>) {
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    shop.pay(&order).await;
    let refund = refunds::begin(&shop.shop, &order).await.unwrap();
    shop.refund_callback(&refund.refund_id, false).await.unwrap();
    shop.settle().await;
    assert!(shop.refunds(&order).await[0].needs_attention);
    assert_eq!(shop.order(&order).await.status, "PAID");
    shop.books_balance().await;
    let again = refunds::begin(&shop.shop, &order).await.unwrap();
    shop.refund_callback(&again.refund_id, true).await.unwrap();
    shop.settle().await;
    assert_eq!(shop.order(&order).await.status, "REFUNDED");
    assert_eq!(shop.balances().await, [10_000, 0, 500, 0]);
    shop.books_balance().await;
}

async fn an_illegal_transition_is_refused_with_the_states_it_needs<S: Tested>(shop: Fixture<S>) {
    let needed = |refused: Result<_, ShopError>| match refused {
        Err(ShopError::Illegal { needed, .. }) => needed,
        other => panic!("{:?}", other.map(|_: ()| ())),
    };
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    let caller = postrider_shop::Caller::default();
    assert_eq!(needed(orders::checkout(&shop.shop, &caller, &order).await.map(drop)), ["DRAFT"]);
    assert_eq!(needed(orders::accept(&shop.shop, &order).await.map(drop)), ["WAIT_ACCEPT"]);
    assert_eq!(needed(refunds::begin(&shop.shop, &order).await.map(drop)), ["PAID", "WAIT_ACCEPT", "ACCEPTED"]);
    shop.pay(&order).await;
    assert_eq!(needed(shop.cancel(&order, By::User).await.map(drop)), ["DRAFT", "WAIT_PAY", "WAIT_ACCEPT"]);
    shop.settle_in_time().await;
    assert_eq!(shop.order(&order).await.status, "PAID");
    shop.books_balance().await;
}

/// A rejected event blocks the later events of its order in its own lane only, until it is fixed and redriven. The
/// auditor names it.
async fn a_dead_head_holds_the_later_events_of_its_order<S: Tested>(shop: Fixture<S>) {
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    // The wallet's consumer does not find the order and rejects the event.
    shop.execute_text("UPDATE shop_order SET order_id = $1", "hidden").await;
    let lanes = Some(["wallet".to_owned()].into());
    let only_wallet = RelayOptions { lanes, ..RelayOptions::default() };
    let relay = Relay::new(shop.shop.store.clone(), consumers::inbox(&shop.shop)).options(only_wallet);
    relay.drain().await.unwrap();
    shop.execute_text("UPDATE shop_order SET order_id = $1", &order).await;
    let left = shop.shop.store.counts().await.unwrap();
    assert_eq!(left["wallet"].dead, 1, "{left:?}");
    shop.cancel(&order, By::User).await.unwrap();
    let left = postrider::testing::drain(&shop.shop.store, consumers::inbox(&shop.shop)).await;
    assert_eq!(left.keys().collect::<Vec<_>>(), ["wallet"], "the other lanes go on: {left:?}");
    let found = postrider_shop::audit::audit(&shop.shop).await.unwrap().discrepancies;
    assert!(found.iter().any(|found| found.what == "event" && found.id.ends_with("checkout_locked")), "{found:?}");

    let event = format!("order:{order}:checkout_locked");
    shop.shop.store.redrive(&event, "wallet", None).await.unwrap();
    shop.settle().await;
    assert_eq!(shop.balances().await, [10_000, 0, 500, 0]);
    shop.books_balance().await;
}
