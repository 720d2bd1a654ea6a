//! The audit: what a record says, and that a missing or changed one shows.

use std::time::Duration;

use postrider::prelude::*;
use reqwest::Method;
use serde_json::{Value, json};

use super::desk::{Desk, read};

async fn newest(desk: &Desk) -> Value {
    read(desk.get("operator", "/audit?limit=1").await, 200).await["records"][0].clone()
}

/// S20: a record has role, outcome, reason, and the state before and after the change.
#[tokio::test]
async fn a_record_has_the_state_before_and_after() {
    let desk = Desk::open().await;
    desk.subscribe("order.paid", "points", json!({ "via": "pull", "description": "old" })).await;
    let endless = json!({ "via": "pull", "description": "new", "reason": "it moved" });
    desk.subscribe("order.paid", "points", endless).await;
    let record = newest(&desk).await;
    assert_eq!((&record["role"], &record["outcome"], &record["reason"]), (&json!("admin"), &json!("200"), &json!("it moved")));
    assert_eq!(record["before"]["description"], "old");
    assert_eq!(record["after"]["description"], "new");

    desk.publish(json!({ "eventId": "e", "topic": "order.paid", "payload": 1 }), 202).await;
    desk.ask("operator", "/events/e/expire", json!({ "reason": "too late" }), 202).await;
    let record = newest(&desk).await;
    assert_eq!((&record["outcome"], &record["reason"]), (&json!("202"), &json!("too late")));
    assert_eq!((&record["before"]["status"], &record["after"]["status"]), (&json!("PENDING"), &json!("EXPIRED")));

    read(desk.post("operator", "/consumers/points/pause", &json!({})).send().await.unwrap(), 204).await;
    let record = newest(&desk).await;
    assert_eq!((&record["before"], &record["after"]), (&json!({ "paused": false }), &json!({ "paused": true })));
    // It is paused already: no change, and a record of the call all the same.
    read(desk.post("operator", "/consumers/points/pause", &json!({})).send().await.unwrap(), 204).await;
    let record = newest(&desk).await;
    assert_eq!((&record["outcome"], &record["before"]), (&json!("204"), &Value::Null));

    let path = "/api/v1/subscriptions/order.paid/points";
    read(desk.request("admin", Method::DELETE, path).send().await.unwrap(), 204).await;
    let record = newest(&desk).await;
    assert_eq!((&record["before"]["description"], &record["after"]["removed"]), (&json!("new"), &json!(true)));
    desk.close().await;
}

/// S20: if the record cannot be written, the change does not happen: they commit together.
#[tokio::test]
async fn a_change_without_its_record_does_not_happen() {
    let desk = Desk::open().await;
    desk.subscribe("order.paid", "points", json!({})).await;
    desk.execute("ALTER TABLE postrider_audit RENAME TO audit_elsewhere").await;
    let pause = desk.post("operator", "/consumers/points/pause", &json!({})).send().await.unwrap();
    assert!(pause.status().is_server_error(), "{}", pause.status());
    assert!(desk.store.paused().await.unwrap().is_empty());
    desk.execute("ALTER TABLE audit_elsewhere RENAME TO postrider_audit").await;
    desk.close().await;
}

/// S20: the chain shows a changed, a removed and an inserted record. Pruning leaves an anchor, from which the check goes on.
#[tokio::test]
async fn a_missing_or_changed_record_shows() {
    let desk = Desk::open().await;
    for n in 0..6 {
        desk.subscribe(&format!("topic-{n}"), "points", json!({})).await;
    }
    while desk.store.seal_audit(100).await.unwrap() > 0 {}
    let check = async || read(desk.get("operator", "/audit/check").await, 200).await;
    assert_eq!(check().await["ok"], true);
    for (tamper, undo, problem) in [
        ("UPDATE postrider_audit SET actor = 'nobody' WHERE place = 3", "UPDATE postrider_audit SET actor = 'admin' WHERE place = 3", "changed"),
        ("UPDATE postrider_audit SET place = -4 WHERE place = 4", "UPDATE postrider_audit SET place = 4 WHERE place = -4", "missing"),
        ("UPDATE postrider_audit SET place = -place WHERE place = 6", "UPDATE postrider_audit SET place = 6 WHERE place = -6", "missing"),
    ] {
        desk.execute(tamper).await;
        let found = check().await;
        assert_eq!(found["ok"], false, "{tamper}");
        assert!(found["problem"].as_str().unwrap().contains(problem), "{tamper}: {found}");
        desk.execute(undo).await;
        assert_eq!(check().await["ok"], true, "{undo}");
    }
    assert_eq!(desk.store.prune_audit(Duration::from_secs(3600), 100).await.unwrap(), 0, "nothing is so old");
    // The clock of the database has passed the newest record when the next statement runs.
    let mut pruned = 0;
    while pruned < 4 {
        pruned += desk.store.prune_audit(Duration::ZERO, 4 - u32::try_from(pruned).unwrap()).await.unwrap();
    }
    assert_eq!(check().await["checked"], 2, "the rest, from the anchor on");
    desk.execute("DELETE FROM postrider_audit WHERE place = 5").await;
    assert_eq!(check().await["problem"], "the record at place 5 of the audit is missing");
    desk.close().await;
}

/// S20: who reads a payload unmasked leaves a record; who reads none does not.
#[tokio::test]
async fn reads_of_payloads_are_recorded() {
    let desk = Desk::open().await;
    desk.subscribe("order.paid", "points", json!({})).await;
    desk.publish(json!({ "eventId": "e", "topic": "order.paid", "payload": 1 }), 202).await;
    for (role, path, recorded) in [
        ("operator", "/events/e/payload", true),
        ("operator", "/events/e", true),
        ("operator", "/events/e?payload=preview", true),
        ("operator", "/events/e?payload=none", false),
        ("viewer", "/events/e", false),
        ("operator", "/events", false),
    ] {
        let count = async || desk.store.audit(None, 500).await.unwrap().len();
        let before = count().await;
        assert_eq!(desk.get(role, path).await.status(), 200);
        assert_eq!(count().await - before, usize::from(recorded), "{role} {path}");
    }
    let record = newest(&desk).await;
    assert_eq!((&record["action"], &record["target"]), (&json!("GET /api/v1/events/{eventId}"), &json!("/events/e")));
    desk.close().await;
}

/// S20: the audit is searched by actor, action, target and time.
#[tokio::test]
async fn the_audit_is_searched() {
    let desk = Desk::open().await;
    desk.subscribe("order.paid", "points", json!({})).await;
    read(desk.post("operator", "/consumers/points/pause", &json!({})).send().await.unwrap(), 204).await;
    let count = async |query: &str| {
        read(desk.get("operator", &format!("/audit?{query}")).await, 200).await["records"].as_array().unwrap().len()
    };
    let all = count("").await;
    assert_eq!(all, 2);
    assert_eq!(count("actor=operator").await, 1);
    assert_eq!(count("action=PUT%20/api/v1/subscriptions/%7Btopic%7D/%7BconsumerId%7D").await, 1);
    assert_eq!(count("target=/consumers/points/pause").await, 1);
    assert_eq!(count("target=/consumers/points/pause&actor=admin").await, 0);
    assert_eq!(count("from=2020-01-01T00:00:00Z").await, all);
    assert_eq!(count("to=2020-01-01T00:00:00Z").await, 0);
    assert_eq!(count("actor='%20OR%201=1%20--").await, 0, "S13");
    desk.close().await;
}

/// S15: refused credentials leave a record with the address they came from, but not one for each of a thousand guesses.
#[tokio::test]
async fn refused_credentials_are_recorded() {
    let desk = Desk::open().await;
    let guess = json!({ "token": "prt_guess" });
    read(desk.client.post(format!("{}/api/v1/login", desk.url)).json(&guess).send().await.unwrap(), 401).await;
    let record = desk.store.audit(None, 1).await.unwrap().remove(0);
    assert_eq!((record.action.as_str(), record.outcome.as_str()), ("POST /api/v1/login", "401"));
    assert_eq!(record.target.as_deref(), Some("127.0.0.1"));
    for n in 0..60 {
        let guess = desk.client.get(format!("{}/api/v1/jobs", desk.url)).bearer_auth(format!("prt_{n}"));
        assert!(matches!(guess.send().await.unwrap().status().as_u16(), 401 | 429));
    }
    let records = desk.store.audit(None, 500).await.unwrap();
    let of_guesses = records.iter().filter(|record| record.action == "GET /api/v1/jobs").count();
    assert!((1..60).contains(&of_guesses), "{of_guesses}");
    assert!(records.iter().all(|record| !format!("{record:?}").contains("prt_")), "no record has a secret");
    desk.close().await;
}
