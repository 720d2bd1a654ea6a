//! The HTTP responses: status codes, and problems with a remedy.

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use crate::process::{Process, command, fresh};
use crate::shards::{Shards, name_in, over_every_store};

over_every_store! {
    /// C.3, C.7: each error has its code, and nothing is written.
    every_mistake_has_its_code_and_writes_nothing,
    /// C.5, C.7, F25: the key in the header, in the body, in both, or in neither.
    a_key_comes_by_header_or_body_and_belongs_to_one_request,
    /// C.3: also while the product is created.
    of_stock_put_at_the_same_moment_one_remains,
    /// C.1: products and keys that differ in case are different.
    ids_compare_byte_for_byte,
    /// C.6: databases in another order contain other products.
    shards_in_another_order_are_refused,
    /// C.3: the audit of manipulated rows.
    the_auditor_lists_what_does_not_add_up,
}

const DEDUCT: &str = "/inventory/deductions";

fn body(products: Value, skus: Value, quantities: Value) -> String {
    json!({"orderId": 7, "productIds": products, "skuIds": skus, "quantities": quantities}).to_string()
}

async fn every_mistake_has_its_code_and_writes_nothing(shards: &Shards) {
    let process = Process::start(shards).await;
    let caller = process.caller();
    let lamp = name_in(0, "lamp");
    caller.put(&lamp, 5).await;
    let stock = format!("/inventory/products/{lamp}/s");
    let too_long = format!("/inventory/products/{}/s", "a".repeat(65));
    let long_key = format!("/inventory/deductions/{}/release", "k".repeat(256));
    let (put, post, get) = (Method::PUT, Method::POST, Method::GET);
    for (method, path, body, status, code) in [
        (&post, DEDUCT, Some(body(json!([lamp]), json!(["s", "s"]), json!([1]))), 422, "invalid"),
        (&post, DEDUCT, Some(body(json!([lamp, lamp]), json!(["s", "s"]), json!([1]))), 422, "invalid"),
        (&post, DEDUCT, Some(body(json!([]), json!([]), json!([]))), 422, "invalid"),
        (&post, DEDUCT, Some(body(json!([lamp]), json!(["s"]), json!([0]))), 422, "invalid"),
        (&post, DEDUCT, Some(body(json!([lamp]), json!(["s"]), json!([-1]))), 422, "invalid"),
        (&post, DEDUCT, Some(body(json!([lamp]), json!(["s"]), json!([1.5]))), 422, "badBody"),
        (&post, DEDUCT, Some(body(json!([lamp, "desk"]), json!(["s", "s"]), json!([1, 1]))), 422, "unknownProduct"),
        (&post, DEDUCT, Some(body(json!([lamp]), json!(["other"]), json!([1]))), 422, "unknownProduct"),
        (&post, DEDUCT, Some("{".into()), 400, "badBody"),
        (&post, DEDUCT, Some(" ".repeat(600 * 1024)), 413, "badBody"),
        (&post, DEDUCT, None, 415, "badBody"),
        (&post, &long_key, None, 422, "invalid"),
        (&put, &stock, Some(r#"{"stock": -1}"#.into()), 422, "invalid"),
        (&put, &too_long, Some(r#"{"stock": 1}"#.into()), 422, "invalid"),
        (&put, "/inventory/products/%ff/s", Some(r#"{"stock": 1}"#.into()), 400, "badPath"),
        (&get, "/inventory/products/desk/s", None, 404, "notFound"),
        (&get, "/nowhere", None, 404, "notFound"),
        (&get, DEDUCT, None, 405, "methodNotAllowed"),
    ] {
        let (got, problem) = caller.ask_raw(method.clone(), path, body, &[]).await;
        assert_eq!((got, problem["code"].as_str()), (status, Some(code)), "{method} {path}: {problem}");
        assert!(problem["title"].is_string() && problem["detail"].is_string(), "{path}: {problem}");
        if matches!(code, "invalid" | "unknownProduct") {
            assert!(problem["errors"][0]["field"].is_string(), "{path}: {problem}");
        }
    }
    assert_eq!(shards.number("SELECT count(*) FROM inventory_deduction_idempotency").await, 0);
    assert_eq!(shards.number("SELECT count(*) FROM inventory_reservation").await, 0);
    assert_eq!(shards.number("SELECT count(*) FROM inventory_intake").await, 1);
    assert_eq!(caller.stock(&lamp).await, (5, 0));
    process.stop().await;
}

async fn a_key_comes_by_header_or_body_and_belongs_to_one_request(shards: &Shards) {
    let process = Process::start(shards).await;
    let caller = process.caller();
    let lamp = name_in(0, "lamp");
    caller.put(&lamp, 100).await;
    let ask = |key: Option<&'static str>, header: Option<&'static str>, quantity: i64| {
        let (caller, lamp) = (caller.clone(), lamp.clone());
        async move {
            let mut body = json!({"orderId": "7", "productIds": [lamp], "skuIds": ["s"], "quantities": [quantity]});
            if let Some(key) = key {
                body["idempotencyKey"] = json!(key);
            }
            let headers: Vec<_> = header.map(|key| ("Idempotency-Key", key)).into_iter().collect();
            let (status, body) = caller.ask_raw(Method::POST, DEDUCT, Some(body.to_string()), &headers).await;
            (status, body["replayed"].as_bool(), body["code"].as_str().map(str::to_owned))
        }
    };
    let no = |status, code: &str| (status, None, Some(code.to_owned()));
    let (fresh, again) = ((200, Some(false), None), (200, Some(true), None));
    assert_eq!(ask(Some("a"), None, 1).await, fresh);
    assert_eq!(ask(None, Some("a"), 1).await, again);
    assert_eq!(ask(Some("a"), Some("a"), 1).await, again);
    assert_eq!(ask(Some("a"), Some("b"), 1).await, no(422, "invalid"));
    assert_eq!(ask(Some("a"), None, 2).await, no(422, "keyMismatch"));
    assert_eq!(ask(Some(""), None, 1).await, no(422, "invalid"));
    assert_eq!(ask(None, None, 1).await, fresh, "under the order's own key");
    assert_eq!(ask(Some("7-DEDUCT"), None, 1).await, again);
    assert_eq!(caller.stock(&lamp).await, (98, 0));
    caller.audit().await;
    process.stop().await;
}

async fn of_stock_put_at_the_same_moment_one_remains(shards: &Shards) {
    let (one, other) = tokio::join!(Process::start(shards), Process::start(shards));
    for round in 0..5 {
        let lamp = name_in(round % 3, &format!("lamp{round}"));
        let mut puts = tokio::task::JoinSet::new();
        for n in 0..10 {
            let (caller, lamp) = (if n % 2 == 0 { one.caller() } else { other.caller() }, lamp.clone());
            puts.spawn(async move { caller.put(&lamp, 100 + n).await });
        }
        puts.join_all().await;
        let (stock, _) = one.caller().stock(&lamp).await;
        assert!((100..110).contains(&stock), "{stock} was never put");
    }
    one.caller().audit().await;
    one.stop().await;
    other.stop().await;
}

async fn ids_compare_byte_for_byte(shards: &Shards) {
    let process = Process::start(shards).await;
    let caller = process.caller();
    let products = ["lamp", "Lamp", "LAMP", "lämp"].map(str::to_owned);
    for (product, stock) in products.iter().zip(10..) {
        caller.put(product, stock).await;
    }
    for key in ["k", "K"] {
        assert_eq!(caller.deduct(key, &products, 1).await, fresh());
    }
    assert_eq!(caller.stocks(&products).await, [(8, 0), (9, 0), (10, 0), (11, 0)]);
    caller.audit().await;
    process.stop().await;
}

async fn shards_in_another_order_are_refused(shards: &Shards) {
    Process::start(shards).await.stop().await;
    let turned: Vec<_> = shards.urls().iter().rev().cloned().collect();
    for wrong in [&turned[..], &shards.urls()[..2]] {
        let mut child = command(wrong).spawn().unwrap();
        let mut log = String::new();
        child.stderr.take().unwrap().read_to_string(&mut log).await.unwrap();
        assert_eq!(child.wait().await.unwrap().code(), Some(1));
        assert!(log.contains("is shard") && log.contains("in their order"), "{log}");
    }
    Process::start(shards).await.stop().await;
}

/// A.17, C.6: an invalid value stops the start, with its key and its origin.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_setting_stops_the_start() {
    let file = std::env::temp_dir().join(format!("postrider-{}.toml", uuid::Uuid::new_v4()));
    let name = file.display().to_string();
    for (text, complaint) in [
        ("[inventory]\nshards = 0\n", format!("inventory.shards in {name} must be a number from 1 to 64, is \"0\"")),
        ("[inventory]\nshards = 4\n", format!("inventory.shards in {name}: is 4, but --store is given 1 times")),
        (
            "[inventory]\nshard = 3\n",
            format!("inventory.shard in {name} is no key of the configuration: did you mean inventory.shards?"),
        ),
        ("[inventory\n", format!("{name} is no TOML: line 1: ")),
    ] {
        std::fs::write(&file, text).unwrap();
        let mut command = command(&["sqlite://never.db".to_owned()]);
        let mut child = command.args(["--config", &name]).spawn().unwrap();
        let mut log = String::new();
        child.stderr.take().unwrap().read_to_string(&mut log).await.unwrap();
        assert_eq!(child.wait().await.unwrap().code(), Some(1));
        assert!(log.contains(&complaint), "{complaint}: {log}");
    }
    std::fs::remove_file(file).unwrap();
}

async fn the_auditor_lists_what_does_not_add_up(shards: &Shards) {
    let process = Process::start(shards).await;
    let caller = process.caller();
    let products: Vec<_> = (0..3).map(|shard| name_in(shard, "lamp")).collect();
    for product in &products {
        caller.put(product, 3).await;
        caller.put(product, 10).await;
    }
    assert_eq!(caller.deduct("k", &products, 2).await, fresh());
    caller.audit().await;
    shards.write_to(1, "UPDATE inventory_stock SET stock = stock - 1").await;
    let (_, report) = caller.ask(Method::GET, "/inventory/audit", None).await;
    let found = json!([{"productId": products[1], "skuId": "s", "putIn": 10, "stock": 7, "reserved": 0, "deducted": 2,
        "difference": -1}]);
    assert_eq!(report["discrepancies"], found);
    assert_eq!((&report["ok"], &report["checked"]["products"]), (&json!(false), &json!(3)));
    process.stop().await;
}
