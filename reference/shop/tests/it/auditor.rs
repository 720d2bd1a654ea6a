//! The auditor finds manipulated rows.

use postrider::testing::drain;
use postrider::{Consumer, Failure, Inbox, Received};
use postrider_shop::audit::audit;
use postrider_shop::consumers;
use postrider_shop::events::Paid;
use postrider_shop::orders::Wanted;

use crate::fixture::{Fixture, Tested, over_every_store};

over_every_store! {
    /// A.9: each manual change of the rows is found
    manipulated_rows_are_found,
    /// A.9: a dead event of a shop consumer is found; one of another consumer is not
    a_dead_event_of_the_shop_is_found,
}

async fn manipulated_rows_are_found<S: Tested>(shop: Fixture<S>) {
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    shop.pay(&order).await;
    shop.settle().await;
    shop.books_balance().await;
    for (plant, mend, what) in [
        (
            "UPDATE shop_wallet SET available = available + 1 WHERE 0 = $1",
            "UPDATE shop_wallet SET available = available - 1 WHERE 0 = $1",
            "wallet",
        ),
        (
            "UPDATE shop_points SET frozen = frozen + 5 WHERE 0 = $1",
            "UPDATE shop_points SET frozen = frozen - 5 WHERE 0 = $1",
            "points",
        ),
        (
            "UPDATE shop_coupon SET status = 'AVAILABLE' WHERE 0 = $1",
            "UPDATE shop_coupon SET status = 'USED' WHERE 0 = $1",
            "coupon",
        ),
        (
            "UPDATE shop_lock SET status = 'FROZEN' WHERE asset = 'WALLET' AND 0 = $1",
            "UPDATE shop_lock SET status = 'COMMITTED' WHERE asset = 'WALLET' AND 0 = $1",
            "order",
        ),
        (
            "UPDATE shop_order SET status = 'ACCEPTED' WHERE 0 = $1",
            "UPDATE shop_order SET status = 'PAID' WHERE 0 = $1",
            "order",
        ),
        (
            "UPDATE shop_payment SET status = 'FAILED' WHERE 0 = $1",
            "UPDATE shop_payment SET status = 'SUCCESS' WHERE 0 = $1",
            "order",
        ),
        (
            "UPDATE shop_entry SET available = available + 7 WHERE operation = 'earn' AND 0 = $1",
            "UPDATE shop_entry SET available = available - 7 WHERE operation = 'earn' AND 0 = $1",
            "order",
        ),
    ] {
        assert!(shop.execute(plant, 0).await > 0);
        let found = audit(&shop.shop).await.unwrap();
        assert!(!found.ok && found.discrepancies.iter().any(|found| found.what == what), "{plant}: {found:?}");
        shop.execute(mend, 0).await;
        shop.books_balance().await;
    }
}

/// A consumer outside the shop that rejects every payment.
struct Stranger;

impl<S: Tested> Consumer<S> for Stranger {
    const NAME: &'static str = "stranger";
    type Event = Paid;

    async fn handle(&self, _: &mut S::Conn, _: Received<Paid>) -> Result<(), Failure> {
        Err(Failure::reject("not today"))
    }
}

async fn a_dead_event_of_the_shop_is_found<S: Tested>(shop: Fixture<S>) {
    let strangers = || Inbox::new(shop.shop.store.clone()).consumer(Stranger);
    drain(&shop.shop.store, strangers()).await;
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    shop.pay(&order).await;
    let left = drain(&shop.shop.store, strangers()).await;
    assert!(!left.is_empty(), "the stranger has given it up");
    drain(&shop.shop.store, consumers::inbox(&shop.shop)).await;
    shop.books_balance().await;

    // An `order.paid` event inserted for an unpaid order: the shop's consumers reject it.
    let unpaid = shop.check_out(Wanted { coupon_id: None, ..Fixture::<S>::wanted() }).await;
    drain(&shop.shop.store, consumers::inbox(&shop.shop)).await;
    const INSERT: &str = "INSERT INTO postrider_event (event_id, topic, payload) VALUES ('by-hand', 'order.paid', $1)";
    shop.execute_text(INSERT, &format!(r#"{{"orderId": "{unpaid}"}}"#)).await;
    let hasty = shop.but(|settings| settings.retry.max_attempts = 1).await;
    drain(&shop.shop.store, consumers::inbox(&hasty.shop)).await;
    let found = audit(&shop.shop).await.unwrap();
    assert!(found.discrepancies.iter().any(|found| found.what == "event" && found.id == "by-hand"), "{found:?}");
}
