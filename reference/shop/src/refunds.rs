//! Refunds: PROCESSING, then SUCCESS or FAILED. An order has at most one that is PROCESSING or SUCCESS; after a FAILED
//! one there may be another.

use postrider::prelude::*;
use serde::Serialize;
use uuid::Uuid;

use crate::database::{Database, Row};
use crate::error::{Result, ShopError};
use crate::events::{Facts, RefundFailed, RefundSucceeded, Refunded, enqueue_event};
use crate::orders::{self, Order, REFUND};
use crate::payments;
use crate::shop::{Caller, Shop};

/// A refund.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Refund {
    /// Its id in the provider's callback.
    pub refund_id: String,
    /// PROCESSING, SUCCESS or FAILED.
    pub status: String,
    /// The reason.
    pub reason: String,
    /// It failed and was not resolved.
    pub needs_attention: bool,
}

/// The reason of a refund.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reason {
    Asked,
    Canceled,
    PaidTooLate,
    /// An asset of the order could not be locked, and the order was already paid.
    NotLocked,
}

impl Reason {
    fn as_str(self) -> &'static str {
        match self {
            Self::Asked => "ASKED",
            Self::Canceled => "CANCELED",
            Self::PaidTooLate => "PAID_TOO_LATE",
            Self::NotLocked => "NOT_LOCKED",
        }
    }
}

/// Begins a refund on request.
pub async fn begin<S: Database>(shop: &Shop<S>, order_id: &str) -> Result<Refund> {
    shop.store
        .transaction(|mut tx| async move {
            let order = orders::lock::<S>(&mut tx, order_id).await?;
            let paid =
                payments::of_order::<S>(&mut tx, order_id).await?.is_some_and(|payment| payment.status == "SUCCESS");
            // A canceled and paid order is refunded automatically. If that refund failed, it can be requested again.
            let allowed = match order.status.as_str() {
                "PAID" | "WAIT_ACCEPT" | "ACCEPTED" => true,
                "CANCELED" => paid,
                _ => false,
            };
            if let Some(refund) = active::<S>(&mut tx, order_id).await? {
                let detail =
                    format!("order {order_id} has a refund already: {} is {}", refund.refund_id, refund.status);
                return Err(ShopError::Conflict { code: "refundExists", detail });
            }
            if !allowed {
                let Order { order_id: id, status, .. } = order;
                let needed = &["PAID", "WAIT_ACCEPT", "ACCEPTED"];
                return Err(ShopError::Illegal { what: "order", id, status, needed });
            }
            let refund = open::<S>(&mut tx, &order, Reason::Asked).await?;
            Ok((tx, refund))
        })
        .await
}

/// Opens a refund unless there is an active one.
pub(crate) async fn open_if_none<S: Database>(tx: &mut S::Conn, order: &Order, reason: Reason) -> Result<()> {
    if active::<S>(tx, &order.order_id).await?.is_none() {
        open::<S>(tx, order, reason).await?;
    }
    Ok(())
}

async fn open<S: Database>(tx: &mut S::Conn, order: &Order, reason: Reason) -> Result<Refund> {
    const INSERT: &str = "INSERT INTO shop_refund
        (refund_id, order_id, active, status, reason, attention, created_at, updated_at)
        VALUES ($1, $2, $3, 'PROCESSING', $4, 0, $5, $6)";
    let (refund_id, reason) = (Uuid::now_v7().to_string(), reason.as_str());
    let (id, now) = (&order.order_id, S::clock(tx).await?);
    let values = [(&refund_id).into(), id.into(), id.into(), reason.into(), now.into(), now.into()];
    S::execute(tx, INSERT, &values).await?;
    tracing::info!(order_id = %id, %refund_id, reason, trace_id = %order.trace_id, "Refund began");
    Ok(Refund { refund_id, status: "PROCESSING".into(), reason: reason.into(), needs_attention: false })
}

/// The provider's callback. A repeat returns the same result and moves nothing.
pub async fn callback<S: Database>(shop: &Shop<S>, caller: &Caller, refund_id: &str, success: bool) -> Result<Refund> {
    const ORDER: &str = "SELECT order_id FROM shop_refund WHERE refund_id = $1";
    let missing = || ShopError::not_found("refund", refund_id);
    let status = if success { "SUCCESS" } else { "FAILED" };
    let (refund, ended) = shop
        .store
        .transaction(|mut tx| async move {
            let order_id = S::row(&mut tx, ORDER, &[refund_id.into()]).await?.ok_or_else(missing)?.text()?;
            let mut order = orders::lock::<S>(&mut tx, &order_id).await?;
            let refunds = of_order::<S>(&mut tx, &order_id).await?;
            let mut refund = refunds.into_iter().find(|refund| refund.refund_id == refund_id).ok_or_else(missing)?;
            if refund.status == status {
                return Ok((tx, (refund, None)));
            }
            settle::<S>(&mut tx, &refund, status, success.then_some(order_id.as_str())).await?;
            refund.status = status.to_owned();
            let facts = Facts::of(&order).refund(refund_id);
            if success {
                // A canceled order stays canceled; its assets are returned all the same.
                if order.status != "CANCELED" {
                    orders::take::<S>(&mut tx, &mut order, &REFUND, "REFUND").await?;
                }
                enqueue_event(shop, &mut tx, &order, caller, Refunded(facts.clone())).await?;
                enqueue_event(shop, &mut tx, &order, caller, RefundSucceeded(facts)).await?;
            } else {
                enqueue_event(shop, &mut tx, &order, caller, RefundFailed(facts)).await?;
            }
            Ok::<_, ShopError>((tx, (refund, Some(order))))
        })
        .await?;
    if let Some(order) = ended {
        tracing::info!(order_id = %order.order_id, refund_id, status, trace_id = %order.trace_id, "Refund ended");
    }
    Ok(refund)
}

async fn settle<S: Database>(tx: &mut S::Conn, refund: &Refund, status: &str, active: Option<&str>) -> Result<()> {
    const SETTLE: &str = "UPDATE shop_refund SET status = $1, active = $2, updated_at = $3
        WHERE refund_id = $4 AND status IN ('PROCESSING')";
    let now = S::clock(tx).await?;
    match S::execute(tx, SETTLE, &[status.into(), active.into(), now.into(), (&refund.refund_id).into()]).await? {
        0 => Err(ShopError::Illegal {
            what: "refund",
            id: refund.refund_id.clone(),
            status: refund.status.clone(),
            needed: &["PROCESSING"],
        }),
        _ => Ok(()),
    }
}

/// Marks a failed refund, which the order then shows, for an operator.
pub(crate) async fn call_for_attention<S: Database>(tx: &mut S::Conn, refund_id: &str) -> Result<()> {
    const MARK: &str = "UPDATE shop_refund SET attention = 1 WHERE refund_id = $1";
    S::execute(tx, MARK, &[refund_id.into()]).await?;
    Ok(())
}

/// The refund of an order that is PROCESSING or SUCCESS.
pub(crate) async fn active<S: Database>(tx: &mut S::Conn, order_id: &str) -> Result<Option<Refund>> {
    const ACTIVE: &str = "SELECT refund_id, status, reason, attention FROM shop_refund WHERE active = $1";
    Ok(S::row(tx, ACTIVE, &[order_id.into()]).await?.map(refund).transpose()?)
}

/// All refunds of an order, oldest first.
pub async fn of_order<S: Database>(tx: &mut S::Conn, order_id: &str) -> Result<Vec<Refund>> {
    const REFUNDS: &str = "SELECT refund_id, status, reason, attention FROM shop_refund WHERE order_id = $1
        ORDER BY created_at, refund_id";
    Ok(S::rows(tx, REFUNDS, &[order_id.into()]).await?.into_iter().map(refund).collect::<sqlx::Result<_>>()?)
}

fn refund(mut row: Row) -> sqlx::Result<Refund> {
    Ok(Refund { refund_id: row.text()?, status: row.text()?, reason: row.text()?, needs_attention: row.int()? != 0 })
}
