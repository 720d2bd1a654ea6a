//! The state machine of orders. Each step is one guarded `UPDATE` (`WHERE status IN …`) with its event in the same
//! transaction. A step that is not allowed changes nothing.

use postrider::prelude::*;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::database::{Database, Row};
use crate::error::{Result, ShopError};
use crate::events::{Canceled, CheckoutLocked, Facts, enqueue_event, text_or_number};
use crate::refunds::{self, Reason};
use crate::shop::{Caller, Shop};

/// The limit of an amount, so that sums do not overflow 64 bits.
pub const AMOUNT: i64 = 1_000_000_000_000;
/// The limit of lines per order: they are sent in one request.
pub const ITEMS: usize = 100;

/// A stored order.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Order {
    /// Its id.
    pub order_id: String,
    /// The customer.
    pub user_id: String,
    /// The amount paid in money, in addition to coupon, wallet and points.
    pub amount_cents: i64,
    /// The coupon to use.
    pub coupon_id: Option<String>,
    /// Cents to take from the wallet.
    pub wallet_cents: i64,
    /// Points to spend.
    pub points: i64,
    /// Goods to take from the stock.
    pub items: Vec<Item>,
    /// Its status.
    pub status: String,
    /// The trace of all its events.
    pub trace_id: String,
    /// When it became PAID. A payment after the cancellation does not set it.
    pub paid_at: Option<i64>,
}

/// A line of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Item {
    /// The product.
    #[serde(deserialize_with = "text_or_number")]
    pub product_id: String,
    /// The variant.
    #[serde(deserialize_with = "text_or_number")]
    pub sku_id: String,
    /// The quantity.
    pub quantity: i64,
}

/// A new order, as a customer requests it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Wanted {
    /// The customer.
    #[serde(deserialize_with = "text_or_number")]
    pub user_id: String,
    /// The amount paid in money.
    pub amount_cents: i64,
    /// The coupon to use.
    #[serde(default, deserialize_with = "maybe_text_or_number")]
    pub coupon_id: Option<String>,
    /// Cents to take from the wallet.
    #[serde(default)]
    pub wallet_cents: i64,
    /// Points to spend.
    #[serde(default)]
    pub points: i64,
    /// Goods to take from the stock.
    #[serde(default)]
    pub items: Vec<Item>,
}

fn maybe_text_or_number<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    struct Id(#[serde(deserialize_with = "text_or_number")] String);
    Ok(Option::<Id>::deserialize(deserializer)?.map(|id| id.0))
}

impl Wanted {
    fn check(&self) -> Result<()> {
        check_id("userId", &self.user_id)?;
        self.coupon_id.as_deref().map_or(Ok(()), |id| check_id("couponId", id))?;
        check_amount("amountCents", self.amount_cents)?;
        check_amount("walletCents", self.wallet_cents)?;
        check_amount("points", self.points)?;
        if self.items.len() > ITEMS {
            return Err(ShopError::invalid("items", format!("may be {ITEMS} at most, are {}", self.items.len())));
        }
        for item in &self.items {
            check_id("items.productId", &item.product_id)?;
            check_id("items.skuId", &item.sku_id)?;
            if !(1..=1_000_000).contains(&item.quantity) {
                return Err(ShopError::invalid("items.quantity", "must be 1 to 1000000"));
            }
        }
        Ok(())
    }
}

pub(crate) fn check_amount(field: &'static str, amount: i64) -> Result<()> {
    if (0..=AMOUNT).contains(&amount) {
        Ok(())
    } else {
        Err(ShopError::invalid(field, format!("must be 0 to {AMOUNT}, is {amount}")))
    }
}

pub(crate) fn check_id(field: &'static str, id: &str) -> Result<()> {
    let chars = id.chars().count();
    if (1..=64).contains(&chars) && !id.chars().any(|c| c.is_control() || c.is_whitespace()) {
        Ok(())
    } else {
        Err(ShopError::invalid(field, "must have 1 to 64 characters, none of them blank"))
    }
}

/// Who cancels an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum By {
    /// The customer.
    User,
    /// The merchant.
    Merchant,
    /// The order was not paid in time.
    Timeout,
    /// The shop itself: an asset cannot be locked, or the payment failed.
    System,
}

impl By {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::User => "USER",
            Self::Merchant => "MERCHANT",
            Self::Timeout => "TIMEOUT",
            Self::System => "SYSTEM",
        }
    }
}

/// A step of the state machine: a guarded update, and the statuses that allow it.
pub(crate) struct Step {
    to: &'static str,
    from: &'static [&'static str],
    /// The number of leading time parameters of `sql`; the order id follows.
    times: usize,
    sql: &'static str,
}

const CHECKOUT: Step = Step {
    to: "WAIT_PAY",
    from: &["DRAFT"],
    times: 2,
    sql: "UPDATE shop_order SET status = 'WAIT_PAY', checked_out_at = $1, updated_at = $2
        WHERE order_id = $3 AND status IN ('DRAFT')",
};
pub(crate) const PAY: Step = Step {
    to: "PAID",
    from: &["WAIT_PAY"],
    times: 2,
    sql: "UPDATE shop_order SET status = 'PAID', paid_at = $1, updated_at = $2
        WHERE order_id = $3 AND status IN ('WAIT_PAY')",
};
pub(crate) const ASK_MERCHANT: Step = Step {
    to: "WAIT_ACCEPT",
    from: &["PAID"],
    times: 1,
    sql: "UPDATE shop_order SET status = 'WAIT_ACCEPT', updated_at = $1
        WHERE order_id = $2 AND status IN ('PAID')",
};
const ACCEPT: Step = Step {
    to: "ACCEPTED",
    from: &["WAIT_ACCEPT"],
    times: 1,
    sql: "UPDATE shop_order SET status = 'ACCEPTED', updated_at = $1
        WHERE order_id = $2 AND status IN ('WAIT_ACCEPT')",
};
const CANCEL: Step = Step {
    to: "CANCELED",
    from: &["DRAFT", "WAIT_PAY", "WAIT_ACCEPT"],
    times: 1,
    sql: "UPDATE shop_order SET status = 'CANCELED', updated_at = $1
        WHERE order_id = $2 AND status IN ('DRAFT', 'WAIT_PAY', 'WAIT_ACCEPT')",
};
pub(crate) const REFUND: Step = Step {
    to: "REFUNDED",
    from: &["PAID", "WAIT_ACCEPT", "ACCEPTED"],
    times: 1,
    sql: "UPDATE shop_order SET status = 'REFUNDED', updated_at = $1
        WHERE order_id = $2 AND status IN ('PAID', 'WAIT_ACCEPT', 'ACCEPTED')",
};

/// Takes a step, or returns the statuses that allow it. The caller must hold the order's row lock.
pub(crate) async fn take<S: Database>(tx: &mut S::Conn, order: &mut Order, step: &Step, by: &str) -> Result<()> {
    const STEPS: &str = "SELECT count(*) FROM shop_order_step WHERE order_id = $1";
    const LOG: &str = "INSERT INTO shop_order_step (order_id, step, from_status, to_status, caused_by, created_at)
        VALUES ($1, $2, $3, $4, $5, $6)";
    let now = S::clock(tx).await?;
    let mut values = vec![now.into(); step.times];
    values.push((&order.order_id).into());
    if S::execute(tx, step.sql, &values).await? == 0 {
        return Err(ShopError::Illegal {
            what: "order",
            id: order.order_id.clone(),
            status: order.status.clone(),
            needed: step.from,
        });
    }
    let steps = S::row(tx, STEPS, &[(&order.order_id).into()]).await?.map_or(Ok(0), |mut row| row.int())?;
    let (id, from) = (&order.order_id, &order.status);
    S::execute(tx, LOG, &[id.into(), steps.into(), from.into(), step.to.into(), by.into(), now.into()]).await?;
    tracing::info!(order_id = %id, trace_id = %order.trace_id, %from, to = step.to, by, "Order changed its status");
    order.status = step.to.to_owned();
    if step.to == PAY.to {
        order.paid_at = Some(now);
    }
    Ok(())
}

/// Creates a DRAFT.
pub async fn create<S: Database>(shop: &Shop<S>, caller: &Caller, wanted: Wanted) -> Result<Order> {
    const INSERT: &str =
        "INSERT INTO shop_order (order_id, user_id, amount_cents, coupon_id, wallet_cents, points, items,
        status, trace_id, created_at, updated_at, locked) VALUES ($1, $2, $3, $4, $5, $6, $7, 'DRAFT', $8, $9, $10, 0)";
    wanted.check()?;
    let Wanted { user_id, amount_cents, coupon_id, wallet_cents, points, items } = wanted;
    let order = Order {
        order_id: Uuid::now_v7().to_string(),
        user_id,
        amount_cents,
        coupon_id,
        wallet_cents,
        points,
        items,
        status: "DRAFT".into(),
        trace_id: caller.trace_id.clone().unwrap_or_else(|| Uuid::new_v4().simple().to_string()),
        paid_at: None,
    };
    let items = serde_json::to_string(&order.items).map_err(|e| ShopError::invalid("items", e.to_string()))?;
    let (new, items) = (&order, &items);
    shop.store
        .transaction(|mut tx| async move {
            let now = S::clock(&mut tx).await?;
            let values = [
                (&new.order_id).into(),
                (&new.user_id).into(),
                amount_cents.into(),
                new.coupon_id.as_deref().into(),
                wallet_cents.into(),
                points.into(),
                items.into(),
                (&new.trace_id).into(),
                now.into(),
                now.into(),
            ];
            S::execute(&mut tx, INSERT, &values).await?;
            Ok::<_, ShopError>((tx, ()))
        })
        .await?;
    let request_id = caller.request_id.as_deref();
    tracing::info!(order_id = %order.order_id, trace_id = %order.trace_id, request_id, "Order created");
    Ok(order)
}

/// The customer wants to pay: the assets of the order are to be locked.
pub async fn checkout<S: Database>(shop: &Shop<S>, caller: &Caller, order_id: &str) -> Result<Order> {
    shop.store
        .transaction(|mut tx| async move {
            let mut order = lock::<S>(&mut tx, order_id).await?;
            take::<S>(&mut tx, &mut order, &CHECKOUT, "USER").await?;
            enqueue_event(shop, &mut tx, &order, caller, CheckoutLocked(Facts::of(&order))).await?;
            Ok((tx, order))
        })
        .await
}

/// The merchant accepts the order.
pub async fn accept<S: Database>(shop: &Shop<S>, order_id: &str) -> Result<Order> {
    shop.store
        .transaction(|mut tx| async move {
            let mut order = lock::<S>(&mut tx, order_id).await?;
            take::<S>(&mut tx, &mut order, &ACCEPT, "MERCHANT").await?;
            Ok((tx, order))
        })
        .await
}

/// Cancels an order.
pub async fn cancel<S: Database>(shop: &Shop<S>, caller: &Caller, order_id: &str, by: By) -> Result<Order> {
    shop.store
        .transaction(|mut tx| async move {
            let mut order = lock::<S>(&mut tx, order_id).await?;
            cancel_in(shop, &mut tx, &mut order, caller, by).await?;
            Ok((tx, order))
        })
        .await
}

/// Cancels in a transaction that holds the order's row lock. A paid order
/// is refunded, because its locks are already spent.
pub(crate) async fn cancel_in<S: Database>(
    shop: &Shop<S>,
    tx: &mut S::Conn,
    order: &mut Order,
    caller: &Caller,
    by: By,
) -> Result<()> {
    take::<S>(tx, order, &CANCEL, by.as_str()).await?;
    enqueue_event(shop, tx, order, caller, Canceled(Facts::of(order))).await?;
    if order.paid_at.is_some() {
        refunds::open_if_none::<S>(tx, order, Reason::Canceled).await?;
    }
    Ok(())
}

const COLUMNS: &str =
    "SELECT order_id, user_id, amount_cents, coupon_id, wallet_cents, points, items, status, trace_id,
    paid_at FROM shop_order WHERE order_id = $1";

/// Locks the order's row until the transaction ends, and reads it. Every change of the order or its assets starts here.
pub async fn lock<S: Database>(tx: &mut S::Conn, order_id: &str) -> Result<Order> {
    const LOCK: &str = "UPDATE shop_order SET locked = locked + 1 WHERE order_id = $1";
    S::execute(tx, LOCK, &[order_id.into()]).await?;
    find::<S>(tx, order_id).await
}

/// Reads an order.
pub async fn find<S: Database>(tx: &mut S::Conn, order_id: &str) -> Result<Order> {
    match S::row(tx, COLUMNS, &[order_id.into()]).await? {
        Some(row) => Ok(order(row)?),
        None => Err(ShopError::not_found("order", order_id)),
    }
}

fn order(mut row: Row) -> sqlx::Result<Order> {
    Ok(Order {
        order_id: row.text()?,
        user_id: row.text()?,
        amount_cents: row.int()?,
        coupon_id: row.maybe_text()?,
        wallet_cents: row.int()?,
        points: row.int()?,
        items: serde_json::from_str(&row.text()?).map_err(|e| sqlx::Error::Decode(e.into()))?,
        status: row.text()?,
        trace_id: row.text()?,
        paid_at: row.maybe_int()?,
    })
}
