//! Keys behind dead events over HTTP: let go on, stopped again, shown.

use postrider::prelude::*;
use postrider::store::access::Role;
use postrider::subscription::{Subscription, Via};
use postrider::{Scope, store::DeadHead};
use postrider_server::Options;
use postrider_server::secret::{self, Wanted};
use reqwest::Method;
use serde_json::{Value, json};

use super::desk::{Desk, read};

async fn keyed(desk: &Desk, ids: &[&str], key: &str) {
    for id in ids {
        let event = json!({ "eventId": id, "topic": "order.paid", "payload": 1, "key": key });
        desk.publish(event, 202).await;
    }
}

async fn settle(desk: &Desk, delivery: &Value, success: bool) {
    let mut result = json!({ "deliveryId": delivery["deliveryId"], "leaseToken": delivery["leaseToken"] });
    result["success"] = success.into();
    if !success {
        result["willRetry"] = false.into();
        result["errorMessage"] = "the account is closed".into();
    }
    let settled = desk.ask("consumer", "/consumers/points/settle", json!({ "results": [result] }), 200).await;
    assert_eq!(settled["results"][0]["outcome"], "settled");
}

/// A pulling consumer whose first event of the key is dead, with two behind it.
async fn dead_head(desk: &Desk) {
    desk.subscribe("order.paid", "points", json!({})).await;
    keyed(desk, &["a1", "a2", "a3"], "a").await;
    let claimed = desk.claim("points", 1).await;
    settle(desk, &claimed[0], false).await;
    assert!(desk.claim("points", 10).await.is_empty(), "the dead one holds");
}

fn change(reason: &str) -> Value {
    json!({ "key": "a", "reason": reason })
}

/// F18 G.11: an operator lets a key go on, stops it, and lets it go on again; each change is audited with before and after, and
/// what waits is shown with the consumer and with the event.
#[tokio::test]
async fn a_key_is_skipped_and_held() {
    let desk = Desk::open().await;
    dead_head(&desk).await;
    let shown = async || read(desk.get("operator", "/consumers/points").await, 200).await;
    let held = shown().await;
    assert_eq!(held["skippedKeys"], json!([]));
    let one = &held["heldKeys"][0];
    assert_eq!((&one["key"], &one["eventId"], &one["topic"]), (&json!("a"), &json!("a1"), &json!("order.paid")));
    assert_eq!((&one["dead"], &one["waiting"], &one["deadHead"]), (&json!(1), &json!(2), &json!("hold")));
    let follower = desk.show("a3").await["deliveries"][0].clone();
    assert_eq!((&follower["held"], &follower["blockedBy"]), (&json!(true), &Value::Null));
    assert_eq!(follower["heldBy"], json!({ "eventId": "a1", "topic": "order.paid" }));

    let skipped = desk.ask("operator", "/consumers/points/keys/skip", change("the account is closed"), 200).await;
    assert_eq!((&skipped["deadHead"], &skipped["waiting"]), (&json!("skip"), &json!(2)));
    let goes_on = shown().await;
    assert_eq!((&goes_on["heldKeys"], &goes_on["skippedKeys"][0]), (&json!([]), &skipped));
    let follower = desk.show("a3").await["deliveries"][0].clone();
    assert_eq!(follower["blockedBy"], json!({ "eventId": "a2", "topic": "order.paid", "ahead": 1 }));
    assert_eq!((&follower["heldBy"], &follower["held"]), (&Value::Null, &json!(false)));
    assert!(desk.show("a1").await["deliveries"][0]["skippedAt"].is_string());
    let claimed = desk.claim("points", 1).await;
    assert_eq!(claimed[0]["event"]["eventId"], "a2");

    let stopped = desk.ask("operator", "/consumers/points/keys/hold", change("not yet"), 200).await;
    assert_eq!((&stopped["deadHead"], &stopped["skippedAt"]), (&json!("hold"), &Value::Null));
    settle(&desk, &claimed[0], true).await;
    assert!(desk.claim("points", 10).await.is_empty());
    desk.ask("admin", "/consumers/points/keys/skip", change("now"), 200).await;
    let claimed = desk.claim("points", 10).await;
    assert_eq!((claimed.len(), &claimed[0]["event"]["eventId"]), (1, &json!("a3")));
    settle(&desk, &claimed[0], true).await;

    let audit = desk.store.audit(None, 10).await.unwrap();
    let skips: Vec<_> = audit.iter().filter(|record| record.action.ends_with("/keys/skip")).collect();
    let [_, first] = &skips[..] else { panic!("{audit:?}") };
    assert_eq!((first.actor.as_str(), first.outcome.as_str()), ("operator", "200"));
    assert_eq!(first.reason.as_deref(), Some("the account is closed"));
    let state = |state: &Option<String>| serde_json::from_str::<Value>(state.as_deref().unwrap()).unwrap();
    assert_eq!((&state(&first.before)["deadHead"], &state(&first.after)["deadHead"]), (&json!("hold"), &json!("skip")));
    desk.close().await;
}

/// What cannot be held says why. A key and a reason are needed, and a viewer sees no keys.
#[tokio::test]
async fn what_cannot_be_changed_says_why() {
    let desk = Desk::open().await;
    dead_head(&desk).await;
    desk.subscribe("order.paid", "mailer", json!({ "via": "external" })).await;
    // Over HTTP it would need a broker.
    desk.store.set_subscription(&Subscription::new("order.paid", "away", Via::RabbitMq)).await.unwrap();
    for verb in ["skip", "hold"] {
        let refused = async |consumer: &str, body: Value, status: u16| {
            desk.ask("operator", &format!("/consumers/{consumer}/keys/{verb}"), body, status).await["code"].clone()
        };
        assert_eq!(refused("points", json!({ "key": "b", "reason": "r" }), 409).await, "noDeadHead");
        assert_eq!(refused("mailer", change("r"), 409).await, "noLane");
        assert_eq!(refused("away", change("r"), 409).await, "noLane");
        assert_eq!(refused("rabbitmq", change("r"), 409).await, "noDeadHead");
        assert_eq!(refused("nobody", change("r"), 404).await, "notFound");
        assert_eq!(refused("points", json!({ "key": "a" }), 422).await, "invalid");
        assert_eq!(refused("points", json!({ "key": "a", "reason": "" }), 422).await, "invalid");
        assert_eq!(refused("points", json!({ "key": "", "reason": "r" }), 422).await, "invalid");
    }
    let viewed = read(desk.get("viewer", "/consumers/points").await, 200).await;
    assert_eq!((&viewed["held"], viewed.get("heldKeys"), viewed.get("skippedKeys")), (&json!(2), None, None));
    let away = read(desk.get("operator", "/consumers/away").await, 200).await;
    assert_eq!(away.get("heldKeys"), None, "nothing of it waits here");
    desk.close().await;
}

/// Where every key goes on by configuration, none is held, and none can be.
#[tokio::test]
async fn a_lane_that_goes_on_holds_no_key() {
    let desk = Desk::with(Options { dead_head: DeadHead::Skip, ..Options::default() }).await;
    desk.subscribe("order.paid", "points", json!({})).await;
    keyed(&desk, &["a1", "a2"], "a").await;
    let claimed = desk.claim("points", 1).await;
    settle(&desk, &claimed[0], false).await;
    let shown = read(desk.get("operator", "/consumers/points").await, 200).await;
    assert_eq!(shown["heldKeys"], json!([]));
    let follower = desk.show("a2").await["deliveries"][0].clone();
    assert_eq!((follower.get("heldBy"), follower.get("blockedBy")), (None, None), "it is its turn");
    let refused = desk.ask("operator", "/consumers/points/keys/hold", change("r"), 409).await;
    assert_eq!(refused["code"], "deadHeadSkips");
    assert_eq!(desk.claim("points", 10).await.len(), 1);
    desk.close().await;
}

/// S5 G.14: an event of another tenant is not named, also if one of the caller's waits for it; and a lane with events of all tenants
/// is nobody's to skip.
#[tokio::test]
async fn what_lies_outside_the_scope_is_not_named() {
    let desk = Desk::open().await;
    desk.subscribe("order.paid", "points", json!({})).await;
    for (id, tenant) in [("t8", "8"), ("t7", "7")] {
        let event = json!({ "eventId": id, "topic": "order.paid", "payload": 1, "key": "a", "tenantId": tenant });
        desk.publish(event, 202).await;
    }
    let scope = Scope { tenants: vec!["7".into()], ..Scope::default() };
    let wanted = Wanted { scope, ..Wanted::new("scoped", Role::Operator) };
    let token = secret::create(&desk.store, &wanted).await.unwrap().0;
    let ask = |method: Method, path: &str| {
        desk.client.request(method, format!("{}/api/v1{path}", desk.url)).bearer_auth(&token)
    };
    let shown = read(ask(Method::GET, "/events/t7").send().await.unwrap(), 200).await;
    assert_eq!(shown["deliveries"][0].get("blockedBy"), None, "{shown}");
    assert_eq!(desk.show("t7").await["deliveries"][0]["blockedBy"]["eventId"], "t8");
    let consumer = read(ask(Method::GET, "/consumers/points").send().await.unwrap(), 200).await;
    assert_eq!(consumer.get("heldKeys"), None);
    let skip = ask(Method::POST, "/consumers/points/keys/skip").json(&change("mine"));
    read(skip.send().await.unwrap(), 404).await;
    let skip = ask(Method::POST, "/consumers/rabbitmq/keys/skip").json(&change("mine"));
    read(skip.send().await.unwrap(), 404).await;
    desk.close().await;
}
