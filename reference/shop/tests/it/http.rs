//! The shop as a process, over HTTP.

use postrider::Scope;
use postrider::store::access::{NewToken, Role, hash};
use postrider_shop::jobs::{CONSISTENCY, ORDER_TIMEOUT, REAPER};
use reqwest::Method;
use serde_json::json;

use crate::fixture::{Fixture, Tested, over_every_store};
use crate::process::Process;

over_every_store! {
    /// A.8, A.9, A.10: a whole order, as the contract describes.
    an_order_from_draft_to_refunded,
    /// A.8
    an_illegal_transition_is_refused_with_409_and_the_states_it_would_have_needed,
    /// A.8: also for a malformed body
    errors_are_answered_with_a_problem,
    /// A.12, A.13: manual runs need a token.
    jobs_are_run_by_operators_alone,
    /// A.16: the fifth acceptance case, "complete tracing": the history of an order by its id, its trace and its request.
    acceptance_5_one_order_can_be_followed_through_the_logs,
}

async fn an_order_from_draft_to_refunded<S: Tested>(Fixture { url, .. }: Fixture<S>) {
    let shop = Process::start(&url, &[]).await;
    let (status, account) =
        shop.post("/shop/accounts", json!({"userId": 7, "walletCents": 10_000, "points": 500})).await;
    assert_eq!((status, &account["wallet"]["availableCents"]), (201, &json!(10_000)), "ids may be numbers");
    assert_eq!(shop.post("/shop/accounts", json!({"userId": "7"})).await.1["code"], "exists");
    let coupon = json!({"couponId": "autumn", "userId": 7, "discountCents": 300});
    assert_eq!(shop.post("/shop/coupons", coupon).await.0, 201);
    let wanted = json!({"userId": 7, "amountCents": 9_950, "couponId": "autumn", "walletCents": 2_000, "points": 100});
    let (status, order) = shop.post("/shop/orders", wanted).await;
    assert_eq!((status, &order["status"]), (201, &json!("DRAFT")));
    let path = format!("/shop/orders/{}", order["orderId"].as_str().unwrap());
    let (status, order) = shop.ask(Method::POST, &format!("{path}/checkout"), None).await;
    assert_eq!((status, &order["status"]), (200, &json!("WAIT_PAY")));
    let locked = |body: &serde_json::Value| body["locks"].as_array().is_some_and(|locks| locks.len() == 3);
    let order = shop.until(&path, locked).await;
    assert!(order["locks"][0]["createdAt"].as_str().unwrap().ends_with('Z'), "{order}");
    assert_eq!(shop.get("/shop/coupons/autumn").await["status"], "LOCKED");

    let (status, payment) = shop.ask(Method::POST, &format!("{path}/payments"), None).await;
    assert_eq!((status, &payment["status"]), (201, &json!("PROCESSING")));
    let callback = json!({"paymentId": payment["paymentId"], "success": true});
    for _ in 0..2 {
        let (status, answer) = shop.post("/shop/payments/callback", callback.clone()).await;
        assert_eq!((status, &answer["status"]), (200, &json!("SUCCESS")));
    }
    shop.until("/shop/accounts/7", |account| account["points"]["available"] == 499).await;
    shop.until("/shop/coupons/autumn", |coupon| coupon["status"] == "USED").await;

    let (status, refund) = shop.ask(Method::POST, &format!("{path}/refund"), None).await;
    assert_eq!((status, &refund["status"]), (201, &json!("PROCESSING")));
    let (status, refused) = shop.ask(Method::POST, &format!("{path}/refund"), None).await;
    assert_eq!((status, &refused["code"]), (409, &json!("refundExists")));
    let callback = json!({"refundId": refund["refundId"], "success": true});
    assert_eq!(shop.post("/shop/refunds/callback", callback).await.0, 200);
    shop.until("/shop/accounts/7", |account| {
        account["wallet"]["availableCents"] == 10_000 && account["points"]["available"] == 500
    })
    .await;
    let order = shop.get(&path).await;
    assert_eq!((&order["status"], &order["refunds"][0]["status"]), (&json!("REFUNDED"), &json!("SUCCESS")));
    let audit = shop.until("/shop/audit", |audit| audit["inFlight"] == 0).await;
    assert_eq!((&audit["ok"], &audit["checked"]["orders"]), (&json!(true), &json!(1)), "{audit}");
    shop.stop().await;
}

async fn an_illegal_transition_is_refused_with_409_and_the_states_it_would_have_needed<S: Tested>(
    Fixture { url, .. }: Fixture<S>,
) {
    let shop = Process::start(&url, &["--merchant-accept"]).await;
    let (_, order) = shop.post("/shop/orders", json!({"userId": "ada", "amountCents": 100})).await;
    let path = format!("/shop/orders/{}", order["orderId"].as_str().unwrap());
    let refuses = async |step: &str, body: serde_json::Value, current: &str, needed: &[&str]| {
        let step = if step.starts_with('/') { step.to_owned() } else { format!("{path}/{step}") };
        let before = shop.get(&path).await;
        let (status, refused) = shop.post(&step, body).await;
        assert_eq!((status, &refused["code"]), (409, &json!("illegalTransition")), "{step}: {refused}");
        assert_eq!((&refused["current"], &refused["needed"]), (&json!(current), &json!(needed)), "{step}");
        assert_eq!(shop.get(&path).await, before, "{step}: nothing has changed");
    };
    let (paid, cancelable) = (["PAID", "WAIT_ACCEPT", "ACCEPTED"], ["DRAFT", "WAIT_PAY", "WAIT_ACCEPT"]);
    refuses("accept", json!({}), "DRAFT", &["WAIT_ACCEPT"]).await;
    refuses("payments", json!({}), "DRAFT", &["WAIT_PAY"]).await;
    refuses("refund", json!({}), "DRAFT", &paid).await;
    assert_eq!(shop.post(&format!("{path}/checkout"), json!({})).await.0, 200);
    refuses("checkout", json!({}), "WAIT_PAY", &["DRAFT"]).await;
    refuses("refund", json!({}), "WAIT_PAY", &paid).await;
    let (_, payment) = shop.post(&format!("{path}/payments"), json!({})).await;
    let callback = |success| json!({"paymentId": payment["paymentId"], "success": success});
    assert_eq!(shop.post("/shop/payments/callback", callback(true)).await.0, 200);
    refuses("/shop/payments/callback", callback(false), "SUCCESS", &["PROCESSING"]).await;
    refuses("payments", json!({}), "WAIT_ACCEPT", &["WAIT_PAY"]).await;
    assert_eq!(shop.post(&format!("{path}/accept"), json!({})).await.0, 200);
    refuses("accept", json!({}), "ACCEPTED", &["WAIT_ACCEPT"]).await;
    refuses("cancel", json!({"by": "MERCHANT"}), "ACCEPTED", &cancelable).await;
    let (_, refund) = shop.post(&format!("{path}/refund"), json!({})).await;
    let callback = |success| json!({"refundId": refund["refundId"], "success": success});
    assert_eq!(shop.post("/shop/refunds/callback", callback(true)).await.0, 200);
    refuses("/shop/refunds/callback", callback(false), "SUCCESS", &["PROCESSING"]).await;
    refuses("cancel", json!({"by": "USER"}), "REFUNDED", &cancelable).await;
    shop.stop().await;
}

async fn errors_are_answered_with_a_problem<S: Tested>(Fixture { url, .. }: Fixture<S>) {
    let shop = Process::start(&url, &[]).await;
    let (_, order) = shop.post("/shop/orders", json!({"userId": "ada", "amountCents": 100})).await;
    let path = format!("/shop/orders/{}", order["orderId"].as_str().unwrap());
    for (path, body, status, code) in [
        ("/shop/orders", json!({"userId": "ada", "amountCents": -1}), 422, "invalid"),
        ("/shop/orders", json!({"userId": "a b", "amountCents": 1}), 422, "invalid"),
        ("/shop/orders", json!({"userId": "ada", "amountCents": "much"}), 422, "badBody"),
        ("/shop/orders", json!({"userId": "ada", "amountCents": 1, "color": "red"}), 422, "badBody"),
        ("/shop/orders/none/checkout", json!({}), 404, "notFound"),
        ("/shop/payments/callback", json!({"paymentId": "none", "success": true}), 404, "notFound"),
        ("/shop/refunds/callback", json!({"refundId": "none", "success": true}), 404, "notFound"),
        ("/shop/nothing", json!({}), 404, "notFound"),
    ] {
        let (found, problem) = shop.post(path, body.clone()).await;
        assert_eq!((found, problem["code"].as_str()), (status, Some(code)), "{path} {body}: {problem}");
        assert!(problem["detail"].is_string() && problem["title"].is_string());
    }
    let (status, _) = shop.post(&format!("{path}/cancel"), json!({"by": "SYSTEM"})).await;
    assert_eq!(status, 422);
    let (status, canceled) = shop.post(&format!("{path}/cancel"), json!({"by": "USER"})).await;
    assert_eq!((status, &canceled["status"]), (200, &json!("CANCELED")));
    shop.stop().await;
}

async fn jobs_are_run_by_operators_alone<S: Tested>(Fixture { url, shop, .. }: Fixture<S>) {
    let (store, shop) = (shop.store, Process::start(&url, &[]).await);
    for role in Role::ALL {
        let (name, hash) = (role.as_str(), hash(role.as_str()));
        let new = NewToken { token_id: name, name, role, hash: &hash, scope: Scope::default(), lasts: None };
        store.create_token(&new).await.unwrap();
    }
    let run = async |token, job| shop.ask_as(token, Method::POST, &format!("/shop/jobs/{job}/run"), None).await;
    for (token, status, code) in [
        (None, 401, "unauthorized"),
        (Some("unknown"), 401, "unauthorized"),
        (Some("viewer"), 403, "forbidden"),
        (Some("publisher"), 403, "forbidden"),
        (Some("consumer"), 403, "forbidden"),
        (Some("admin"), 404, "notFound"),
    ] {
        let (found, problem) = run(token, "none").await;
        assert_eq!((found, problem["code"].as_str()), (status, Some(code)), "{token:?}");
    }
    for (job, did) in [
        ("reaper", json!({"locksReleased": 0, "ordersCanceled": 0})),
        ("consistency", json!({"missing": 0, "repaired": 0})),
        ("order-timeout", json!({"ordersCanceled": 0})),
    ] {
        assert_eq!(run(Some("operator"), job).await, (200, did));
    }
    let records = store.audit(None, 10).await.unwrap();
    let written: Vec<_> =
        records.iter().map(|one| (one.actor.as_str(), one.target.as_deref(), one.outcome.as_str())).collect();
    let by_hand = |job| ("operator", Some(job), "200");
    assert_eq!(written, [ORDER_TIMEOUT, CONSISTENCY, REAPER].map(by_hand));
    shop.stop().await;
}

async fn acceptance_5_one_order_can_be_followed_through_the_logs<S: Tested>(Fixture { url, .. }: Fixture<S>) {
    let mut shop = Process::start(&url, &[]).await;
    let wanted = json!({"userId": "ada", "amountCents": 9_950, "couponId": "spring", "walletCents": 50, "points": 7});
    let (_, order) = shop.post("/shop/orders", wanted).await;
    let (id, trace) = (order["orderId"].as_str().unwrap(), order["traceId"].as_str().unwrap());
    let request = "request_id=\"request-7\"";
    shop.logs(&["Order created", &format!("order_id={id}"), trace, request]).await;
    let trace = format!("trace_id=\"{trace}\"");
    shop.ask(Method::POST, &format!("/shop/orders/{id}/checkout"), None).await;
    for (step, keys) in [
        (
            "checkout_locked",
            [format!("order:{id}:checkout"), format!("wallet:{id}:freeze"), format!("points:{id}:freeze")],
        ),
        ("paid", [format!("order:{id}:commit"), format!("wallet:{id}:commit"), format!("points:{id}:commit")]),
    ] {
        let event = format!("order:{id}:{step}");
        shop.logs(&["Outbox enqueued", &event, &format!("order.{step}"), &trace, request]).await;
        for (consumer, key) in ["coupon", "wallet", "points"].into_iter().zip(&keys) {
            shop.logs(&["Outbox published", &format!("lane={consumer}"), &event, &trace, request]).await;
            let consumer = format!("consumer={consumer}");
            shop.logs(&["Handling", &consumer, &format!("order_id={id}"), &event, &trace, request]).await;
            shop.logs(&["Asset operation", &consumer, key, "result=Done", id, &event, &trace, request]).await;
            shop.logs(&["Consumed", &consumer, &event, &trace, request]).await;
        }
        if step == "checkout_locked" {
            let (_, payment) = shop.ask(Method::POST, &format!("/shop/orders/{id}/payments"), None).await;
            let callback = json!({"paymentId": payment["paymentId"], "success": true});
            assert_eq!(shop.post("/shop/payments/callback", callback).await.0, 200);
        }
    }
    // What a consumer enqueues belongs to the same request.
    for (step, consumer) in [("points_added", "member-service"), ("notified", "message-service")] {
        let (event, by) = (format!("order:{id}:{step}"), format!("consumer={consumer}"));
        shop.logs(&["Outbox enqueued", &event, &by, &trace, request]).await;
        shop.logs(&["Consumed", "consumer=activity", &event, &trace, request]).await;
    }
    shop.stop().await;
}

/// A.12, A.13, A.17: an invalid value stops the start, with its key and its origin.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_setting_stops_the_start() {
    let file = std::env::temp_dir().join(format!("postrider-{}.toml", uuid::Uuid::new_v4()));
    std::fs::write(
        &file,
        "[asset]\norder-timeout-minutes = 20\n[points]\nper-cents = \"many\"\n[retention]\nfinished-days = 1\n",
    )
    .unwrap();
    let (name, variable) = (file.display().to_string(), "POSTRIDER_POINTS__PER_CENTS");
    for (arguments, environment, complaint) in [
        (&[][..], "", format!("points.per-cents in {name} must be a number from 1 to 1000000, is \"many\"")),
        (&[], "few", format!("points.per-cents in the environment ({variable}) must be a number")),
        (&["--points-per-cents", "0"], "7", "points.per-cents in the command line must be a number".into()),
        (
            &["--scan-window-hours", "25"],
            "7",
            format!("retention.finished-days in {name}: must not be shorter than consistency.scan-window-hours"),
        ),
        (
            &["--lock-timeout-minutes", "20"],
            "7",
            format!("asset.order-timeout-minutes in {name}: must be shorter than asset.lock-timeout-minutes"),
        ),
    ] {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_shop"));
        command.args(["--listen", "127.0.0.1:0", "--config", &name]).args(arguments).env_remove("RUST_LOG");
        if !environment.is_empty() {
            command.env(variable, environment);
        }
        let ended = command.output().await.unwrap();
        assert!(!ended.status.success());
        let stderr = String::from_utf8(ended.stderr).unwrap();
        assert!(stderr.contains(&complaint), "{complaint}: {stderr}");
    }
    std::fs::remove_file(file).unwrap();
}
