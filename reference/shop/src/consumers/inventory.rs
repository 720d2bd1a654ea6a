//! Stock is kept by another service with its own databases. It is called over HTTP with an idempotency key, so a
//! repeated call has no second effect. No transaction is open during the call.

use std::time::Duration;

use postrider::{Effect, Failure, Inbox, OutsideConsumer, Received};
use reqwest::{Client, RequestBuilder, StatusCode};
use serde::Deserialize;

use super::{chance_to_fail, give_up, wants_locks};
use crate::database::Database;
use crate::effects;
use crate::error::ShopError;
use crate::events::{Canceled, CheckoutLocked, OrderEvent, Refunded};
use crate::orders::{self, Order};
use crate::shop::Shop;

const LANE: &str = "inventory";
/// The time limit of a call. A call that times out is repeated with the same key.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A client of the inventory service.
#[derive(Clone)]
struct Inventory<S> {
    shop: Shop<S>,
    client: Client,
    base: String,
}

struct Deduct<S>(Inventory<S>);
struct ReleaseCanceled<S>(Inventory<S>);
struct ReturnRefunded<S>(Inventory<S>);

pub(super) fn add<S: Database>(inbox: Inbox<S>, shop: &Shop<S>, url: &str) -> Inbox<S> {
    let base = url.trim_end_matches('/').to_owned();
    let inventory = Inventory { shop: shop.clone(), client: Client::new(), base };
    inbox
        .outside(Deduct(inventory.clone()))
        .outside(ReleaseCanceled(inventory.clone()))
        .outside(ReturnRefunded(inventory))
}

impl<S: Database> OutsideConsumer for Deduct<S> {
    const NAME: &'static str = LANE;
    type Event = CheckoutLocked;

    async fn handle(&self, event: Received<CheckoutLocked>) -> Result<(), Failure> {
        self.0.deduct(&event).await
    }
}

impl<S: Database> OutsideConsumer for ReleaseCanceled<S> {
    const NAME: &'static str = LANE;
    type Event = Canceled;

    async fn handle(&self, event: Received<Canceled>) -> Result<(), Failure> {
        // The stock of a paid order is returned with its refund.
        match self.0.order(&event).await? {
            order if order.paid_at.is_none() => self.0.release(&event, &order).await,
            _ => Ok(()),
        }
    }
}

impl<S: Database> OutsideConsumer for ReturnRefunded<S> {
    const NAME: &'static str = LANE;
    type Event = Refunded;

    async fn handle(&self, event: Received<Refunded>) -> Result<(), Failure> {
        let order = self.0.order(&event).await?;
        self.0.release(&event, &order).await
    }
}

/// The error body of the service.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Refusal {
    code: String,
}

impl<S: Database> Inventory<S> {
    async fn order<E: OrderEvent>(&self, event: &Received<E>) -> Result<Order, Failure> {
        chance_to_fail(&self.shop)?;
        let mut tx = self.shop.store.begin().await?;
        orders::find::<S>(&mut tx, &event.facts().order_id).await.map_err(ShopError::failure)
    }

    async fn deduct(&self, event: &Received<CheckoutLocked>) -> Result<(), Failure> {
        let order = self.order(event).await?;
        if order.items.is_empty() || !wants_locks(&order) {
            return Ok(());
        }
        let key = key(&order);
        let each = |of: fn(&orders::Item) -> serde_json::Value| order.items.iter().map(of).collect::<Vec<_>>();
        let body = serde_json::json!({
            "orderId": order.order_id,
            "productIds": each(|item| item.product_id.clone().into()),
            "skuIds": each(|item| item.sku_id.clone().into()),
            "quantities": each(|item| item.quantity.into()),
            "idempotencyKey": key,
        });
        let request = self.client.post(format!("{}/inventory/deductions", self.base)).json(&body);
        let Some(code) = self.ask(event, request, &key).await? else {
            event.keep(&effects::stock(&order, &key, true))?;
            return chance_to_fail(&self.shop);
        };
        tracing::warn!(order_id = %order.order_id, code, "An order cannot have its goods");
        let mut tx = self.shop.store.begin().await?;
        let mut order = orders::lock::<S>(&mut tx, &order.order_id).await.map_err(ShopError::failure)?;
        give_up(&self.shop, &mut tx, &mut order).await.map_err(ShopError::failure)?;
        Ok(self.shop.store.commit(tx).await?)
    }

    /// Also called before the deduction: a deduction that arrives later is then refused.
    async fn release<E: OrderEvent>(&self, event: &Received<E>, order: &Order) -> Result<(), Failure> {
        if order.items.is_empty() {
            return Ok(());
        }
        let key = key(order);
        let request = self.client.post(format!("{}/inventory/deductions/{key}/release", self.base));
        match self.ask(event, request, &key).await? {
            Some(code) => Err(Failure::retry(format!("the inventory refuses to take goods back: {code}")).code(code)),
            None => {
                if self.has_taken(order).await? {
                    event.keep(&effects::stock(order, &key, false))?;
                }
                chance_to_fail(&self.shop)
            }
        }
    }

    /// Whether the goods were taken, as the deduction has kept it: a refused one moved nothing that could come back.
    async fn has_taken(&self, order: &Order) -> Result<bool, Failure> {
        let checkout = format!("order:{}:checkout_locked", order.order_id);
        let kept = self.shop.store.received(&[(LANE.to_owned(), checkout)]).await?;
        Ok(kept.iter().any(|row| row.result.as_deref().is_some_and(|result| !Effect::of_result(result).is_empty())))
    }

    /// Returns `None` on success and a code for a final refusal. A refusal that may succeed later is an error.
    async fn ask<E>(&self, event: &Received<E>, request: RequestBuilder, key: &str) -> Result<Option<String>, Failure> {
        let mut request = request.timeout(TIMEOUT).header("Idempotency-Key", key);
        if let Some(traceparent) = event.traceparent() {
            request = request.header("traceparent", traceparent);
        }
        let answer = request.send().await?;
        let status = answer.status();
        if status.is_success() {
            tracing::info!(idempotency_key = key, %status, "Asset operation");
            return Ok(None);
        }
        let Refusal { code } = answer.json().await.unwrap_or_default();
        match status {
            StatusCode::CONFLICT if code == "inProgress" => {
                Err(Failure::retry("the deduction is in progress").code("inProgress"))
            }
            StatusCode::CONFLICT | StatusCode::UNPROCESSABLE_ENTITY | StatusCode::NOT_FOUND => Ok(Some(code)),
            _ => Err(Failure::retry(format!("the inventory answered {status}")).code("inventory")),
        }
    }
}

fn key(order: &Order) -> String {
    format!("{}-DEDUCT", order.order_id)
}
