//! Payments: PROCESSING, then SUCCESS or FAILED by the provider's callback.
//! The callback may be repeated, also concurrently.

use postrider::prelude::*;
use serde::Serialize;
use uuid::Uuid;

use crate::database::Database;
use crate::error::{Result, ShopError};
use crate::events::{Facts, Paid, PaymentFailed, PaymentSucceeded, Purchased, enqueue_event};
use crate::orders::{self, ASK_MERCHANT, By, Order, PAY};
use crate::refunds::{self, Reason};
use crate::shop::{Caller, Shop};

/// A payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Payment {
    /// Its id in the provider's callback.
    pub payment_id: String,
    /// PROCESSING, SUCCESS or FAILED.
    pub status: String,
}

/// Begins the payment. An order has one payment; a repeated call returns it. The flag is true if it is new.
pub async fn begin<S: Database>(shop: &Shop<S>, order_id: &str) -> Result<(Payment, bool)> {
    const INSERT: &str = "INSERT INTO shop_payment (payment_id, order_id, amount_cents, status, created_at, updated_at)
        VALUES ($1, $2, $3, 'PROCESSING', $4, $5)";
    let (payment, began) = shop
        .store
        .transaction(|mut tx| async move {
            let order = orders::lock::<S>(&mut tx, order_id).await?;
            if order.status != "WAIT_PAY" {
                let Order { order_id: id, status, .. } = order;
                return Err(ShopError::Illegal { what: "order", id, status, needed: &["WAIT_PAY"] });
            }
            if let Some(payment) = of_order::<S>(&mut tx, order_id).await? {
                return Ok((tx, (payment, None)));
            }
            let payment = Payment { payment_id: Uuid::now_v7().to_string(), status: "PROCESSING".into() };
            let now = S::clock(&mut tx).await?;
            let id = &payment.payment_id;
            let values = [id.into(), order_id.into(), order.amount_cents.into(), now.into(), now.into()];
            S::execute(&mut tx, INSERT, &values).await?;
            Ok::<_, ShopError>((tx, (payment, Some(order.trace_id))))
        })
        .await?;
    if let Some(trace_id) = &began {
        tracing::info!(order_id, payment_id = %payment.payment_id, %trace_id, "Payment began");
    }
    Ok((payment, began.is_some()))
}

/// The provider's callback. A repeat returns the same result and moves nothing.
pub async fn callback<S: Database>(
    shop: &Shop<S>,
    caller: &Caller,
    payment_id: &str,
    success: bool,
) -> Result<Payment> {
    let status = if success { "SUCCESS" } else { "FAILED" };
    let (payment, ended) = shop
        .store
        .transaction(|mut tx| async move {
            // Locks the order first: concurrent callbacks wait here and then see the result of the first.
            let order_id = order_of::<S>(&mut tx, payment_id).await?;
            let mut order = orders::lock::<S>(&mut tx, &order_id).await?;
            let mut payment = of_order::<S>(&mut tx, &order.order_id)
                .await?
                .ok_or_else(|| ShopError::not_found("payment", payment_id))?;
            if payment.status == status {
                return Ok((tx, (payment, None)));
            }
            settle::<S>(&mut tx, &payment, status).await?;
            payment.status = status.to_owned();
            let facts = Facts::of(&order).payment(payment_id);
            if success {
                enqueue_event(shop, &mut tx, &order, caller, PaymentSucceeded(facts.clone())).await?;
                succeeded(shop, &mut tx, &mut order, caller, facts).await?;
            } else {
                enqueue_event(shop, &mut tx, &order, caller, PaymentFailed(facts)).await?;
                if order.status == "WAIT_PAY" {
                    orders::cancel_in(shop, &mut tx, &mut order, caller, By::System).await?;
                }
            }
            Ok::<_, ShopError>((tx, (payment, Some(order))))
        })
        .await?;
    if let Some(order) = ended {
        tracing::info!(order_id = %order.order_id, payment_id, status, trace_id = %order.trace_id, "Payment ended");
    }
    Ok(payment)
}

/// Applies a successful payment to its order.
async fn succeeded<S: Database>(
    shop: &Shop<S>,
    tx: &mut S::Conn,
    order: &mut Order,
    caller: &Caller,
    facts: Facts,
) -> Result<()> {
    if order.status == "CANCELED" {
        // The order was canceled before the payment arrived, so the money is refunded.
        return refunds::open_if_none::<S>(tx, order, Reason::PaidTooLate).await;
    }
    orders::take::<S>(tx, order, &PAY, "PAYMENT").await?;
    enqueue_event(shop, tx, order, caller, Paid(facts)).await?;
    enqueue_event(shop, tx, order, caller, Purchased(Facts::purchase(order))).await?;
    if shop.settings.merchant_accept {
        orders::take::<S>(tx, order, &ASK_MERCHANT, "PAYMENT").await?;
    }
    Ok(())
}

async fn settle<S: Database>(tx: &mut S::Conn, payment: &Payment, status: &str) -> Result<()> {
    const SETTLE: &str = "UPDATE shop_payment SET status = $1, updated_at = $2
        WHERE payment_id = $3 AND status IN ('PROCESSING')";
    let now = S::clock(tx).await?;
    match S::execute(tx, SETTLE, &[status.into(), now.into(), (&payment.payment_id).into()]).await? {
        0 => Err(ShopError::Illegal {
            what: "payment",
            id: payment.payment_id.clone(),
            status: payment.status.clone(),
            needed: &["PROCESSING"],
        }),
        _ => Ok(()),
    }
}

async fn order_of<S: Database>(tx: &mut S::Conn, payment_id: &str) -> Result<String> {
    const ORDER: &str = "SELECT order_id FROM shop_payment WHERE payment_id = $1";
    match S::row(tx, ORDER, &[payment_id.into()]).await? {
        Some(mut row) => Ok(row.text()?),
        None => Err(ShopError::not_found("payment", payment_id)),
    }
}

/// The payment of an order.
pub async fn of_order<S: Database>(tx: &mut S::Conn, order_id: &str) -> Result<Option<Payment>> {
    const PAYMENT: &str = "SELECT payment_id, status FROM shop_payment WHERE order_id = $1";
    let row = S::row(tx, PAYMENT, &[order_id.into()]).await?;
    row.map(|mut row| Ok(Payment { payment_id: row.text()?, status: row.text()? })).transpose()
}
