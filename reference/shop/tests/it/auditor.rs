//! An auditor that finds nothing is only worth something if it finds what was planted.

use postrider_shop::audit::audit;

use crate::fixture::{Fixture, Tested, over_every_store};

over_every_store! {
    /// A.9: each change of the books by hand is found
    what_is_planted_is_found,
}

async fn what_is_planted_is_found<S: Tested>(shop: Fixture<S>) {
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
