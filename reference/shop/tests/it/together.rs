//! The shop and the inventory as two processes with their own databases. Whatever is killed, the deducted stock equals
//! the goods that the shop has sold.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use postrider::shard::shard_of;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{Connection, MySqlConnection, PgConnection, SqliteConnection};
use tokio::task::JoinSet;

use crate::customer::{Chance, Customer};
use crate::fixture::{self, Fixture, Place, Tested, over_every_store};
use crate::process::{Process, TIMEOUT};
use crate::story;

over_every_store! {
    /// A.10, C.7: a canceled or refunded order returns its goods
    goods_are_deducted_and_come_back,
    /// A.10, C.7: out of stock, or refused with 422
    an_order_without_goods_is_canceled_and_frees_the_rest,
    /// C.5, C.7
    a_deduction_in_progress_is_tried_again,
    /// C.7
    deducted_stock_equals_sold_goods_whatever_dies,
}

const SHARDS: usize = 3;

/// An inventory with one product in each shard.
struct Warehouse {
    process: Process,
    address: String,
    urls: Vec<String>,
    places: Vec<Place>,
    products: Vec<String>,
}

impl Warehouse {
    async fn open<S>(shop: &Fixture<S>, stock: [i64; SHARDS]) -> Self {
        let (urls, places) = fixture::more_like(&shop.url, SHARDS).await;
        let process = Process::start_inventory("127.0.0.1:0", &urls).await;
        let in_shard = |shard| {
            let mut names = (0..).map(|n| format!("tea-{n}"));
            names.find(|name| self::shard(name) == shard).unwrap()
        };
        let products: Vec<String> = (0..SHARDS).map(in_shard).collect();
        for (product, stock) in products.iter().zip(stock) {
            let path = format!("/inventory/products/{product}/green");
            assert_eq!(process.ask(Method::PUT, &path, Some(json!({ "stock": stock }))).await.0, 200);
        }
        Self { address: process.address(), process, urls, places, products }
    }

    /// Starts the shop with this inventory, with short retry delays and many attempts.
    async fn shop<S>(&self, shop: &Fixture<S>, arguments: &[&str]) -> Process {
        let inventory = format!("http://{}", self.address);
        let patient = ["--inventory", &inventory, "--retry-base-ms", "50", "--retry-cap-ms", "1000"];
        let patient = [&patient[..], &["--max-retry-count", "500"]].concat();
        Process::start(&shop.url, &[&patient[..], arguments].concat()).await
    }

    async fn stock(&self) -> Vec<i64> {
        let mut stock = Vec::new();
        for product in &self.products {
            let shown = self.process.get(&format!("/inventory/products/{product}/green")).await;
            assert_eq!(shown["reserved"], 0, "{shown}");
            stock.push(shown["stock"].as_i64().unwrap());
        }
        stock
    }

    /// Waits until nothing is in flight and asserts a clean audit.
    async fn balances(&self) {
        let audit = self.process.until("/inventory/audit", |audit| audit["inFlight"] == 0).await;
        assert_eq!(audit["ok"], true, "{audit}");
    }

    /// Kills the process and starts another one at the same address.
    async fn die_and_come_back(self, meanwhile: impl Future<Output = ()>) -> Self {
        let Self { process, address, urls, places, products } = self;
        process.kill().await;
        meanwhile.await;
        let process = Process::start_inventory(&address, &urls).await;
        Self { process, address, urls, places, products }
    }

    async fn close(self) {
        self.process.stop().await;
        for place in self.places {
            place.remove().await;
        }
    }

    /// An order of this quantity of each of these products.
    fn order(&self, products: &[usize], quantity: i64) -> Value {
        let item = |at: &usize| json!({"productId": self.products[*at], "skuId": "green", "quantity": quantity});
        let items: Vec<_> = products.iter().map(item).collect();
        json!({"userId": "ada", "amountCents": 9_950, "couponId": "spring", "walletCents": 2_000, "items": items})
    }
}

/// Checks an order out and returns its path.
async fn check_out(process: &Process, wanted: Value) -> String {
    let order = draft(process, wanted).await;
    let path = format!("/shop/orders/{order}");
    assert_eq!(process.post(&format!("{path}/checkout"), json!({})).await.0, 200);
    path
}

async fn draft(process: &Process, wanted: Value) -> String {
    let (status, order) = process.post("/shop/orders", wanted).await;
    assert_eq!(status, 201, "{order}");
    order["orderId"].as_str().unwrap().to_owned()
}

/// The shard of a product or key.
fn shard(name: &str) -> usize {
    usize::from(shard_of(Some(name), "")) % SHARDS
}

/// Waits until every event is delivered.
async fn all_delivered<S: Tested>(shop: &Fixture<S>) {
    let delivering = async {
        while shop.number("SELECT count(*) FROM postrider_delivery").await > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    if tokio::time::timeout(TIMEOUT, delivering).await.is_err() {
        panic!("still on their way: {:?}", shop.shop.store.counts().await);
    }
}

async fn goods_are_deducted_and_come_back<S: Tested>(shop: Fixture<S>) {
    let warehouse = Warehouse::open(&shop, [10; SHARDS]).await;
    let process = warehouse.shop(&shop, &[]).await;
    let order = check_out(&process, warehouse.order(&[0, 1, 2], 2)).await;
    all_delivered(&shop).await;
    assert_eq!(warehouse.stock().await, [8; SHARDS]);
    assert_eq!(process.post(&format!("{order}/cancel"), json!({"by": "USER"})).await.0, 200);
    all_delivered(&shop).await;
    assert_eq!(warehouse.stock().await, [10; SHARDS], "canceled");
    stock_came_back(&shop, &order).await;

    let order = check_out(&process, warehouse.order(&[0, 1, 2], 3)).await;
    let (_, payment) = process.post(&format!("{order}/payments"), json!({})).await;
    let callback = json!({"paymentId": payment["paymentId"], "success": true});
    assert_eq!(process.post("/shop/payments/callback", callback).await.0, 200);
    all_delivered(&shop).await;
    assert_eq!(warehouse.stock().await, [7; SHARDS], "sold");
    let (_, refund) = process.post(&format!("{order}/refund"), json!({})).await;
    let callback = json!({"refundId": refund["refundId"], "success": true});
    assert_eq!(process.post("/shop/refunds/callback", callback).await.0, 200);
    all_delivered(&shop).await;
    assert_eq!(warehouse.stock().await, [10; SHARDS], "refunded");
    stock_came_back(&shop, &order).await;
    process.stop().await;
    shop.books_balance().await;
    warehouse.balances().await;
    warehouse.close().await;
}

/// G.11: the story of an order tells of its goods too, which are in other databases: all of them came back.
async fn stock_came_back<S: Tested>(shop: &Fixture<S>, path: &str) {
    let told = story::of_order(shop, path.rsplit('/').next().unwrap()).await;
    let stocks = told.assets.iter().filter(|asset| asset.asset.starts_with("Stock of "));
    assert_eq!(stocks.filter(|asset| asset.balanced).count(), SHARDS, "{told:#?}");
    assert!(told.assets.iter().all(|asset| asset.balanced), "{told:#?}");
}

async fn an_order_without_goods_is_canceled_and_frees_the_rest<S: Tested>(shop: Fixture<S>) {
    let warehouse = Warehouse::open(&shop, [10, 10, 1]).await;
    let process = warehouse.shop(&shop, &[]).await;
    let unknown = json!({"userId": "ada", "amountCents": 1, "couponId": "spring", "walletCents": 5, "items":
        [{"productId": "unknown", "skuId": "green", "quantity": 1}]});
    for (wanted, code) in [(warehouse.order(&[0, 1, 2], 2), "outOfStock"), (unknown, "unknownProduct")] {
        let order = check_out(&process, wanted).await;
        process.until(&order, |order| order["status"] == "CANCELED").await;
        all_delivered(&shop).await;
        assert_eq!(shop.balances().await, [10_000, 0, 500, 0]);
        assert_eq!(shop.coupon().await, "AVAILABLE");
        assert_eq!(warehouse.stock().await, [10, 10, 1], "{code}: and of the other goods nothing is gone");
    }
    let log = process.stop().await;
    for code in ["outOfStock", "unknownProduct"] {
        assert!(log.iter().any(|line| line.contains("cannot have its goods") && line.contains(code)), "{code}");
    }
    shop.books_balance().await;
    warehouse.balances().await;
    warehouse.close().await;
}

/// The inventory is killed during a deduction. Its successor answers
/// `inProgress` until the lease of the killed one expires.
async fn a_deduction_in_progress_is_tried_again<S: Tested>(shop: Fixture<S>) {
    let warehouse = Warehouse::open(&shop, [10; SHARDS]).await;
    let process = warehouse.shop(&shop, &[]).await;
    let third = Standstill::of(&warehouse.urls[2]).await;
    // An order whose key is not in the blocked shard, so that its deduction can begin.
    let mut order = draft(&process, warehouse.order(&[0, 1, 2], 2)).await;
    while shard(&format!("{order}-DEDUCT")) == 2 {
        order = draft(&process, warehouse.order(&[0, 1, 2], 2)).await;
    }
    assert_eq!(process.post(&format!("/shop/orders/{order}/checkout"), json!({})).await.0, 200);
    let holding = "/inventory/products";
    for product in &warehouse.products[..2] {
        warehouse.process.until(&format!("{holding}/{product}/green"), |shown| shown["reserved"] == 2).await;
    }
    let warehouse = warehouse.die_and_come_back(third.end()).await;
    all_delivered(&shop).await;
    assert_eq!(warehouse.stock().await, [8; SHARDS], "once");
    let asked = "SELECT count(*) FROM postrider_consumption WHERE consumer = 'inventory' AND code = 'inProgress'";
    assert!(shop.number(asked).await > 0, "it was refused as in progress");
    process.stop().await;
    shop.books_balance().await;
    warehouse.balances().await;
    warehouse.close().await;
}

async fn deducted_stock_equals_sold_goods_whatever_dies<S: Tested>(shop: Fixture<S>) {
    const ORDERS: usize = 120;
    const KILLS: usize = 5;
    const CUSTOMERS: usize = 6;
    // The stock of the last product is too small for all orders.
    const STOCK: [i64; SHARDS] = [1_000, 1_000, 60];
    let mut warehouse = Warehouse::open(&shop, STOCK).await;
    let mut process = warehouse.shop(&shop, &["--fail-rate", "0.1"]).await;
    let (moved, base) = tokio::sync::watch::channel(process.base.clone());
    let (next, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    // Customers continue until the last kill, so that there is always an order in progress to hit.
    let dying = Arc::new(AtomicBool::new(true));
    let mut customers = JoinSet::new();
    for _ in 0..CUSTOMERS {
        let (customer, next, done) = (Customer::new(base.clone()), Arc::clone(&next), Arc::clone(&done));
        let dying = Arc::clone(&dying);
        let orders: Vec<_> = [vec![0], vec![0, 1], vec![0, 1, 2], vec![2]]
            .iter()
            .map(|products| warehouse.order(products, 1 + products.len() as i64 % 2))
            .collect();
        customers.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::SeqCst);
                if number >= ORDERS && !dying.load(Ordering::SeqCst) {
                    return;
                }
                let mut chance = Chance::of(number);
                // Orders after the planned ones use a product with enough stock.
                let mut wanted = orders[if number < ORDERS { number % orders.len() } else { 0 }].clone();
                wanted["couponId"] = Value::Null;
                wanted["walletCents"] = json!(chance.percent());
                customer.buy(&mut chance, wanted).await;
                done.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    for kill in 1..=KILLS {
        while done.load(Ordering::SeqCst) < kill * ORDERS / (KILLS + 1) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        // Kills while the shop waits for a response.
        let asking = "SELECT count(*) FROM postrider_delivery WHERE lane = 'inventory' AND lock_until IS NOT NULL";
        while shop.number(asking).await == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        warehouse = warehouse.die_and_come_back(async {}).await;
        if kill == KILLS / 2 {
            process.kill().await;
            shop.shop.store.age(Duration::from_secs(60)).await.unwrap();
            process = warehouse.shop(&shop, &["--fail-rate", "0.1"]).await;
            moved.send_replace(process.base.clone());
        }
    }
    dying.store(false, Ordering::SeqCst);
    while let Some(ended) = customers.join_next().await {
        ended.unwrap();
    }
    all_delivered(&shop).await;
    settle_refunds(&shop, &process).await;
    all_delivered(&shop).await;
    process.stop().await;
    shop.books_balance().await;
    warehouse.balances().await;

    // Per product and order: what is sold is deducted, and what is not sold can never be deducted.
    let mut left: BTreeMap<String, i64> = warehouse.products.iter().cloned().zip(STOCK).collect();
    let mut ended = [0, 0];
    for (order_id, status, items) in orders(&shop).await {
        let sold = matches!(status.as_str(), "WAIT_PAY" | "PAID" | "WAIT_ACCEPT" | "ACCEPTED");
        ended[usize::from(sold)] += 1;
        for item in items.as_array().unwrap() {
            *left.get_mut(item["productId"].as_str().unwrap()).unwrap() -=
                if sold { item["quantity"].as_i64().unwrap() } else { 0 };
        }
        if status != "DRAFT" {
            warehouse.knows(&order_id, &items, sold).await;
        }
        if !sold {
            let told = story::of_order(&shop, &order_id).await;
            assert!(told.assets.iter().all(|asset| asset.balanced), "{order_id} {status}: {told:#?}");
        }
    }
    let left: Vec<_> = warehouse.products.iter().map(|product| left[product]).collect();
    assert_eq!(warehouse.stock().await, left);
    assert!(ended.iter().all(|orders| *orders > ORDERS / 10), "{ended:?}");
    warehouse.close().await;
}

/// Completes every refund, so that every order is final. A failed refund of an order without goods is begun again, as
/// an operator would: the order was paid but got nothing.
async fn settle_refunds<S: Tested>(shop: &Fixture<S>, process: &Process) {
    let failed = "SELECT DISTINCT o.order_id FROM shop_order o JOIN shop_refund r ON r.order_id = o.order_id
        WHERE o.status = 'PAID' AND r.status = 'FAILED' AND r.reason = 'NOT_LOCKED'";
    for order_id in ids(shop, failed).await {
        let (status, answer) = process.post(&format!("/shop/orders/{order_id}/refund"), json!({})).await;
        assert!((200..300).contains(&status), "{order_id}: {status} {answer}");
    }
    for refund_id in ids(shop, "SELECT refund_id FROM shop_refund WHERE status = 'PROCESSING'").await {
        let callback = json!({"refundId": refund_id, "success": true});
        assert_eq!(process.post("/shop/refunds/callback", callback).await.0, 200);
    }
}

async fn ids<S: Tested>(shop: &Fixture<S>, sql: &'static str) -> Vec<String> {
    let mut tx = shop.shop.store.begin().await.unwrap();
    S::rows(&mut tx, sql, &[]).await.unwrap().iter_mut().map(|row| row.text().unwrap()).collect()
}

/// Id, status and items of all orders.
async fn orders<S: Tested>(shop: &Fixture<S>) -> Vec<(String, String, Value)> {
    let mut tx = shop.shop.store.begin().await.unwrap();
    let rows = S::rows(&mut tx, "SELECT order_id, status, items FROM shop_order", &[]).await.unwrap();
    let order = |mut row: postrider_shop::database::Row| {
        let (order_id, status, items) = (row.text().unwrap(), row.text().unwrap(), row.text().unwrap());
        (order_id, status, serde_json::from_str(&items).unwrap())
    };
    rows.into_iter().map(order).collect()
}

impl Warehouse {
    /// A repeated deduction is replayed if the goods were sold, and refused if not.
    async fn knows(&self, order_id: &str, items: &Value, sold: bool) {
        let each = |field: &str| items.as_array().unwrap().iter().map(|item| item[field].clone()).collect::<Vec<_>>();
        let body = json!({"orderId": order_id, "productIds": each("productId"), "skuIds": each("skuId"),
            "quantities": each("quantity")});
        let (status, answer) = self.process.post("/inventory/deductions", body).await;
        if sold {
            assert_eq!((status, &answer["replayed"]), (200, &json!(true)), "{order_id}: {answer}");
        } else {
            assert_eq!((status, &answer["code"]), (409, &json!("released")), "{order_id}: {answer}");
        }
    }
}

/// Blocks all writers of a shard until it is dropped; readers continue.
enum Standstill {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
    MySql(MySqlConnection),
}

impl Standstill {
    async fn of(url: &str) -> Self {
        match url.split(':').next().unwrap() {
            "sqlite" => {
                let mut conn = SqliteConnection::connect(url).await.unwrap();
                sqlx::raw_sql("PRAGMA busy_timeout = 30000; BEGIN IMMEDIATE").execute(&mut conn).await.unwrap();
                Self::Sqlite(conn)
            }
            "mysql" => {
                let mut conn = MySqlConnection::connect(url).await.unwrap();
                let lock = "LOCK TABLES inventory_reservation READ, inventory_stock READ";
                sqlx::raw_sql(lock).execute(&mut conn).await.unwrap();
                Self::MySql(conn)
            }
            _ => {
                let mut conn = PgConnection::connect(url).await.unwrap();
                let lock = "BEGIN; LOCK TABLE inventory_reservation, inventory_stock IN EXCLUSIVE MODE";
                sqlx::raw_sql(lock).execute(&mut conn).await.unwrap();
                Self::Postgres(conn)
            }
        }
    }

    async fn end(self) {
        match self {
            Self::Sqlite(conn) => conn.close().await.unwrap(),
            Self::Postgres(conn) => conn.close().await.unwrap(),
            Self::MySql(conn) => conn.close().await.unwrap(),
        }
    }
}
