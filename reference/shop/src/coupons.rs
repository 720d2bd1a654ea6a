//! Coupons: AVAILABLE, LOCKED by an order, USED by an order. In the
//! ledger, a coupon is an account with a balance of one.

use serde::Serialize;

use crate::database::Database;
use crate::error::{Result, ShopError};
use crate::ledger::{self, Entry, Moved, Patience, append, once};
use crate::orders::Order;
use crate::shop::Shop;

const ASSET: &str = "COUPON";

/// A coupon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Coupon {
    /// Its id.
    pub coupon_id: String,
    /// The owner.
    pub user_id: String,
    /// Its value.
    pub discount_cents: i64,
    /// AVAILABLE, LOCKED or USED.
    pub status: String,
    /// The order that holds it.
    pub order_id: Option<String>,
}

/// Creates a coupon for a user. An existing id is a unique violation.
pub(crate) async fn open<S: Database>(tx: &mut S::Conn, coupon_id: &str, user_id: &str, cents: i64) -> Result<()> {
    const INSERT: &str = "INSERT INTO shop_coupon (coupon_id, user_id, discount_cents, status)
        VALUES ($1, $2, $3, 'AVAILABLE')";
    S::execute(tx, INSERT, &[coupon_id.into(), user_id.into(), cents.into()]).await?;
    let key = format!("coupon:{coupon_id}:open");
    let entry = Entry { key: &key, asset: ASSET, account: coupon_id, operation: "open", ..Entry::default() };
    append::<S>(tx, &Entry { available: 1, ..entry }).await
}

/// Locks the coupon for the order.
pub async fn lock<S: Database>(shop: &Shop<S>, tx: &mut S::Conn, order: &Order, patience: Patience) -> Result<Moved> {
    let Some(coupon_id) = order.coupon_id.clone() else { return Ok(Moved::nothing("notUsed")) };
    let key = format!("order:{}:checkout", order.order_id);
    once(shop, tx, &key, order, move |tx, order, key| {
        Box::pin(async move {
            if let Some(lock) = ledger::find_lock::<S>(tx, &order.order_id, ASSET).await? {
                return Ok(Moved::nothing(&lock.status));
            }
            let refusal = match hold::<S>(tx, &coupon_id).await? {
                None => "unknownCoupon",
                Some(coupon) if coupon.user_id != order.user_id => "couponOfAnotherUser",
                Some(coupon) if coupon.status == "AVAILABLE" => {
                    ledger::put_lock::<S>(tx, &order, ASSET, (&coupon_id, 1, "LOCKED")).await?;
                    return change::<S>(tx, &order, &coupon_id, &key, ("lock", "LOCKED"), (-1, 1)).await;
                }
                // The other order may release it.
                Some(coupon) if coupon.status == "LOCKED" && patience == Patience::TryAgain => {
                    return Err(ShopError::not_yet("couponLocked", "another order has locked this coupon"));
                }
                Some(coupon) if coupon.status == "LOCKED" => "couponLocked",
                Some(_) => "couponUsed",
            };
            ledger::put_lock::<S>(tx, &order, ASSET, (&coupon_id, 0, "RELEASED")).await?;
            Ok(Moved::refused(refusal))
        })
    })
    .await
}

/// Marks it as used.
pub async fn commit<S: Database>(shop: &Shop<S>, tx: &mut S::Conn, order: &Order) -> Result<Moved> {
    end(shop, tx, order, "commit").await
}

/// Releases it. Before the lock, this prevents a later lock.
pub async fn release<S: Database>(shop: &Shop<S>, tx: &mut S::Conn, order: &Order) -> Result<Moved> {
    end(shop, tx, order, "release").await
}

/// Returns it after it was used or locked.
pub async fn give_back<S: Database>(shop: &Shop<S>, tx: &mut S::Conn, order: &Order) -> Result<Moved> {
    end(shop, tx, order, "return").await
}

/// Ends a lock.
async fn end<S: Database>(shop: &Shop<S>, tx: &mut S::Conn, order: &Order, operation: &'static str) -> Result<Moved> {
    let Some(coupon_id) = order.coupon_id.clone() else { return Ok(Moved::nothing("notUsed")) };
    let key = format!("order:{}:{operation}", order.order_id);
    once(shop, tx, &key, order, move |tx, order, key| {
        Box::pin(async move {
            let Some(lock) = ledger::find_lock::<S>(tx, &order.order_id, ASSET).await? else {
                if operation == "commit" {
                    return Err(ShopError::not_yet("notLocked", "the order has not locked its coupon yet"));
                }
                ledger::put_lock::<S>(tx, &order, ASSET, (&coupon_id, 0, "RELEASED")).await?;
                return Ok(Moved::nothing("notLocked"));
            };
            let (lock, coupon, moves) = match (operation, lock.status.as_str()) {
                ("commit", "LOCKED") => ("COMMITTED", "USED", (0, -1)),
                ("release", "LOCKED") => ("RELEASED", "AVAILABLE", (1, -1)),
                ("return", "LOCKED") => ("REVERTED", "AVAILABLE", (1, -1)),
                ("return", "COMMITTED") => ("REVERTED", "AVAILABLE", (1, 0)),
                (_, other) => return Ok(Moved::nothing(other)),
            };
            ledger::set_lock::<S>(tx, &order, ASSET, lock).await?;
            change::<S>(tx, &order, &coupon_id, &key, (operation, coupon), moves).await
        })
    })
    .await
}

/// Locks the coupon's row and reads it.
async fn hold<S: Database>(tx: &mut S::Conn, coupon_id: &str) -> Result<Option<Coupon>> {
    const HOLD: &str = "UPDATE shop_coupon SET status = status WHERE coupon_id = $1";
    S::execute(tx, HOLD, &[coupon_id.into()]).await?;
    find::<S>(tx, coupon_id).await
}

/// Reads a coupon.
pub(crate) async fn find<S: Database>(tx: &mut S::Conn, coupon_id: &str) -> Result<Option<Coupon>> {
    const FIND: &str =
        "SELECT coupon_id, user_id, discount_cents, status, order_id FROM shop_coupon WHERE coupon_id = $1";
    let Some(mut row) = S::row(tx, FIND, &[coupon_id.into()]).await? else { return Ok(None) };
    Ok(Some(Coupon {
        coupon_id: row.text()?,
        user_id: row.text()?,
        discount_cents: row.int()?,
        status: row.text()?,
        order_id: row.maybe_text()?,
    }))
}

/// Writes the coupon's status and its ledger entry.
async fn change<S: Database>(
    tx: &mut S::Conn,
    order: &Order,
    coupon_id: &str,
    key: &str,
    (operation, status): (&str, &str),
    (available, frozen): (i64, i64),
) -> Result<Moved> {
    const UPDATE: &str = "UPDATE shop_coupon SET status = $1, order_id = $2 WHERE coupon_id = $3";
    let order_id = Some(order.order_id.as_str());
    let holder = order_id.filter(|_| status != "AVAILABLE");
    S::execute(tx, UPDATE, &[status.into(), holder.into(), coupon_id.into()]).await?;
    let entry = Entry { key, asset: ASSET, account: coupon_id, order_id, operation, available, frozen, debt: 0 };
    append::<S>(tx, &entry).await?;
    Ok(Moved::Done { amount: 1 })
}
