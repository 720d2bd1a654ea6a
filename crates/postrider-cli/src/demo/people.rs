//! Customers, and what they do with their orders.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::caller::{Answer, Caller};
use super::services::{ISLAND, NOWHERE};
use super::story;

/// Product, SKU and stock of what the shop sells. The last is scarce.
pub(super) const GOODS: [(&str, &str, u64); 4] =
    [("lamp", "red", 5_000), ("lamp", "blue", 5_000), ("chair", "oak", 5_000), ("rarity", "one-of-few", 3)];

/// True for this share of calls.
pub(super) fn chance(share: f64) -> bool {
    fastrand::f64() < share
}

/// A random number below `count`.
pub(super) fn pick(count: usize) -> usize {
    fastrand::usize(..count.max(1))
}

/// A new unique name.
pub(super) fn fresh(what: &str) -> String {
    format!("{what}-{}", &Uuid::new_v4().simple().to_string()[..12])
}

/// A placed order.
pub(super) struct Order {
    pub(super) id: String,
    pub(super) trace_id: String,
}

/// A customer.
pub(super) struct Customer<'a> {
    pub(super) caller: &'a Caller,
    pub(super) user_id: String,
}

impl Customer<'_> {
    /// Opens an account if there is none.
    pub(super) async fn arrive(&self, wallet_cents: u64, points: u64) -> Result<(), String> {
        let path = format!("/shop/accounts/{}", self.user_id);
        if self.caller.get(&path).await.is_ok() {
            return Ok(());
        }
        let account = json!({ "userId": self.user_id, "walletCents": wallet_cents, "points": points });
        self.caller.post("/shop/accounts", account).await.map(drop)
    }

    pub(super) async fn coupon(&self) -> Result<String, String> {
        let id = fresh("coupon");
        let coupon = json!({ "couponId": id, "userId": self.user_id, "discountCents": 300 });
        self.caller.post("/shop/coupons", coupon).await?;
        Ok(id)
    }

    /// Orders, and checks out.
    pub(super) async fn order(&self, mut wanted: Value) -> Result<Order, String> {
        wanted["userId"] = self.user_id.as_str().into();
        let made = self.caller.post("/shop/orders", wanted).await?;
        let text = |field: &str| made[field].as_str().map(str::to_owned).ok_or_else(|| format!("no {field} in {made}"));
        let order = Order { id: text("orderId")?, trace_id: text("traceId")? };
        self.step(&order, "checkout", Value::Null).await?;
        Ok(order)
    }

    pub(super) async fn show(&self, order: &Order) -> Answer {
        self.caller.get(&format!("/shop/orders/{}", order.id)).await
    }

    async fn step(&self, order: &Order, step: &str, body: Value) -> Answer {
        self.caller.post(&format!("/shop/orders/{}/{step}", order.id), body).await
    }

    /// Pays. The provider calls back `times` times at once.
    pub(super) async fn pay(&self, order: &Order, success: bool, times: usize) -> Result<(), String> {
        let payment = self.step(order, "payments", Value::Null).await?;
        let callback = json!({ "paymentId": payment["paymentId"], "success": success });
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..times {
            let (caller, callback) = (self.caller.clone(), callback.clone());
            calls.spawn(async move { caller.post("/shop/payments/callback", callback).await });
        }
        let answers = calls.join_all().await;
        answers.into_iter().collect::<Result<Vec<_>, _>>().map(drop)
    }

    /// Publishes the warehouse's request to the carrier, in the trace of the order.
    pub(super) async fn send(&self, order: &Order, event_id: &str, to: &str) -> Result<(), String> {
        let mut event = json!({
            "eventId": event_id,
            "topic": story::PARCEL_TOPIC,
            "payload": { "orderId": order.id, "to": to },
            "aggregateType": "ORDER",
            "aggregateId": order.id,
            "traceId": order.trace_id,
            "parentEventId": format!("order:{}:purchased", order.id),
            "initiator": { "service": "warehouse", "userId": self.user_id },
        });
        if to == NOWHERE {
            // Two attempts, so that it is a dead letter soon.
            event["maxAttempts"] = 2.into();
        }
        self.caller.post("/api/v1/events", event).await.map(drop)
    }

    /// Places one order and takes random steps with it. A refusal ends it.
    pub(super) async fn buy(&self, stop: &CancellationToken) -> Result<(), String> {
        let coupon = if chance(0.3) { Some(self.coupon().await?) } else { None };
        let (product, sku, _) = GOODS[if chance(0.05) { GOODS.len() - 1 } else { pick(GOODS.len() - 1) }];
        let order = self
            .order(json!({
                "amountCents": 500 + pick(20_000),
                "couponId": coupon,
                "walletCents": if chance(0.4) { pick(1_500) } else { 0 },
                "points": if chance(0.3) { pick(20) } else { 0 },
                "items": [{ "productId": product, "skuId": sku, "quantity": 1 + pick(2) }],
            }))
            .await?;
        if !hesitate(stop).await || chance(0.04) {
            // The customer leaves; the order times out.
            return Ok(());
        }
        if chance(0.06) {
            return self.step(&order, "cancel", json!({ "by": "USER" })).await.map(drop);
        }
        let paid = chance(0.95);
        self.pay(&order, paid, if chance(0.25) { 3 } else { 1 }).await?;
        if !paid {
            return Ok(());
        }
        let _ = self.step(&order, "accept", Value::Null).await;
        let to = if chance(0.02) { ISLAND } else { "home" };
        self.send(&order, &format!("parcel:{}", order.id), to).await?;
        if hesitate(stop).await && chance(0.08) {
            self.step(&order, "refund", Value::Null).await?;
        }
        self.take_back(&order).await
    }

    /// Calls back every open refund, also those that the shop's consistency check has started.
    async fn take_back(&self, order: &Order) -> Result<(), String> {
        let shown = self.show(order).await?;
        for refund in shown["refunds"].as_array().into_iter().flatten() {
            if refund["status"] == "PROCESSING" {
                let callback = json!({ "refundId": refund["refundId"], "success": true });
                let path = "/shop/refunds/callback";
                let (one, other) =
                    tokio::join!(self.caller.post(path, callback.clone()), self.caller.post(path, callback));
                one.and(other)?;
            }
        }
        Ok(())
    }
}

/// Waits a moment. Returns false if the demo is stopped meanwhile.
async fn hesitate(stop: &CancellationToken) -> bool {
    let millis = u64::try_from(50 + pick(400)).unwrap_or(50);
    stop.run_until_cancelled(tokio::time::sleep(Duration::from_millis(millis))).await.is_some()
}

/// Restocks what runs low.
pub(super) async fn restock(caller: &Caller) -> Result<(), String> {
    for (product, sku, stock) in GOODS {
        let path = format!("/inventory/products/{product}/{sku}");
        let there = caller.get(&path).await.ok().and_then(|shown| shown["stock"].as_u64()).unwrap_or_default();
        if there < stock / 2 + 1 {
            caller.ask(Method::PUT, &path, json!({ "stock": stock })).await?;
        }
    }
    Ok(())
}
