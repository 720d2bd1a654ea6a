//! The stock is another service's: here a small one that counts what it is asked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use postrider_shop::orders::{By, Item, Wanted};
use serde_json::{Value, json};

use crate::fixture::{Fixture, Tested, over_both_stores};

over_both_stores! {
    /// A.10, C.7
    goods_are_deducted_and_come_back,
    /// C.7: in progress is tried again, out of stock cancels the order
    an_order_without_goods_is_canceled,
}

#[derive(Clone, Default)]
struct Warehouse(Arc<Mutex<BTreeMap<String, Vec<&'static str>>>>);

impl Warehouse {
    /// Serves one, and returns where.
    async fn open(&self) -> String {
        let routes = Router::new()
            .route("/inventory/deductions", post(deduct))
            .route("/inventory/deductions/{key}/release", post(release))
            .with_state(self.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        url
    }

    fn note(&self, key: &str, what: &'static str) -> usize {
        let mut asked = self.0.lock().unwrap();
        let asked = asked.entry(key.to_owned()).or_default();
        asked.push(what);
        asked.len()
    }

    fn asked(&self, order_id: &str) -> Vec<&'static str> {
        self.0.lock().unwrap().get(&format!("{order_id}-DEDUCT")).cloned().unwrap_or_default()
    }
}

async fn deduct(State(warehouse): State<Warehouse>, Json(body): Json<Value>) -> (StatusCode, Json<Value>) {
    let times = warehouse.note(body["idempotencyKey"].as_str().unwrap(), "deduct");
    match body["skuIds"][0].as_str().unwrap() {
        "rare" => (StatusCode::CONFLICT, Json(json!({"code": "outOfStock"}))),
        "busy" if times == 1 => (StatusCode::CONFLICT, Json(json!({"code": "inProgress"}))),
        _ => (StatusCode::OK, Json(json!({"status": "SUCCESS", "replayed": times > 1}))),
    }
}

async fn release(State(warehouse): State<Warehouse>, Path(key): Path<String>) -> Json<Value> {
    warehouse.note(&key, "release");
    Json(json!({"status": "RELEASED"}))
}

fn wanted<S: Tested>(sku: &str) -> Wanted {
    let item = Item { product_id: "tea".into(), sku_id: sku.into(), quantity: 2 };
    Wanted { items: vec![item], ..Fixture::<S>::wanted() }
}

async fn goods_are_deducted_and_come_back<S: Tested>(shop: Fixture<S>) {
    let warehouse = Warehouse::default();
    let url = warehouse.open().await;
    let shop = shop.but(|settings| settings.inventory = Some(url)).await;
    let order = shop.check_out(wanted::<S>("green")).await;
    shop.settle().await;
    assert_eq!(warehouse.asked(&order), ["deduct"]);
    shop.cancel(&order, By::User).await.unwrap();
    shop.settle().await;
    assert_eq!(warehouse.asked(&order), ["deduct", "release"]);
    let order = shop.check_out(wanted::<S>("green")).await;
    shop.settle().await;
    shop.pay(&order).await;
    let refund = postrider_shop::refunds::begin(&shop.shop, &order).await.unwrap();
    shop.refund_says(&refund.refund_id, true).await.unwrap();
    shop.settle().await;
    assert_eq!(warehouse.asked(&order), ["deduct", "release"]);
    shop.books_balance().await;
}

async fn an_order_without_goods_is_canceled<S: Tested>(shop: Fixture<S>) {
    let warehouse = Warehouse::default();
    let url = warehouse.open().await;
    let shop = shop.but(|settings| settings.inventory = Some(url)).await;
    let order = shop.check_out(wanted::<S>("busy")).await;
    shop.settle_in_time().await;
    assert_eq!(warehouse.asked(&order), ["deduct", "deduct"]);
    assert_eq!(shop.order(&order).await.status, "WAIT_PAY");
    shop.cancel(&order, By::User).await.unwrap();
    let order = shop.check_out(wanted::<S>("rare")).await;
    shop.settle().await;
    assert_eq!(shop.order(&order).await.status, "CANCELED");
    assert_eq!(shop.balances().await, [10_000, 0, 500, 0], "and the rest is free again");
    shop.books_balance().await;
}
