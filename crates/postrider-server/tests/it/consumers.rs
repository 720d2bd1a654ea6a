//! Consumers that fetch their events.

use std::time::{Duration, Instant};

use postrider::testing::Age;
use postrider_server::Options;
use serde_json::{Value, json};

use super::desk::{Desk, read};

async fn settle(desk: &Desk, delivery: &Value, more: Value) -> String {
    let mut result = json!({ "deliveryId": delivery["deliveryId"], "leaseToken": delivery["leaseToken"] });
    result.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let settled = desk.ask("consumer", "/consumers/points/settle", json!({ "results": [result] }), 200).await;
    settled["results"][0]["outcome"].as_str().unwrap().to_owned()
}

async fn points(desk: &Desk) {
    desk.subscribe("order.paid", "points", json!({})).await;
}

async fn publish(desk: &Desk, id: &str) {
    desk.publish(json!({ "eventId": id, "topic": "order.paid", "payload": { "id": id } }), 202).await;
}

/// The story of a pulling consumer: published, claimed, failed, tried again, settled.
#[tokio::test]
async fn an_event_is_claimed_fails_is_retried_and_settled() {
    let desk = Desk::open().await;
    points(&desk).await;
    publish(&desk, "e1").await;
    let claimed = desk.claim("points", 10).await;
    assert_eq!(claimed.len(), 1);
    assert_eq!((&claimed[0]["attempt"], &claimed[0]["event"]["payload"]), (&json!(1), &json!({ "id": "e1" })));
    assert!(desk.claim("points", 10).await.is_empty(), "it is leased");
    let failed = json!({ "success": false, "errorMessage": "the wallet is away", "errorCode": "wallet" });
    assert_eq!(settle(&desk, &claimed[0], failed).await, "settled");
    let shown = desk.show("e1").await;
    assert_eq!((&shown["status"], &shown["lastError"]), (&json!("RETRYING"), &json!("the wallet is away")));
    assert!(desk.claim("points", 10).await.is_empty(), "it is due later");
    desk.store.age(Duration::from_secs(10)).await.unwrap();
    let claimed = desk.claim("points", 10).await;
    assert_eq!(claimed[0]["attempt"], 2);
    assert_eq!(settle(&desk, &claimed[0], json!({ "success": true })).await, "settled");
    let shown = desk.show("e1").await;
    assert_eq!((&shown["status"], &shown["deliveries"]), (&json!("CONSUMED"), &json!([])));
    let attempts: Vec<_> = shown["consumptions"].as_array().unwrap().iter().map(|one| one["success"].clone()).collect();
    assert_eq!(attempts, [Value::Null, json!(false), json!(true)], "expected, failed, done");
    assert_eq!(settle(&desk, &claimed[0], json!({ "success": true })).await, "leaseLost", "once");
    desk.close().await;
}

/// G.1: a result that comes before that of an earlier event of its key is not a lost lease, and counts later. What one consumer has
/// claimed is not settled, extended or released by another.
#[tokio::test]
async fn a_result_out_of_order_keeps_its_lease() {
    let desk = Desk::open().await;
    points(&desk).await;
    desk.subscribe("order.paid", "other", json!({})).await;
    for id in ["a1", "a2"] {
        desk.publish(json!({ "eventId": id, "topic": "order.paid", "payload": 1, "key": "a" }), 202).await;
    }
    let claimed = desk.claim("points", 10).await;
    let [first, second] = &claimed[..] else { panic!("{claimed:?}") };
    for _ in 0..2 {
        assert_eq!(settle(&desk, second, json!({ "success": true })).await, "outOfOrder");
    }
    let held = json!({ "deliveryId": first["deliveryId"], "leaseToken": first["leaseToken"] });
    let mut result = held.clone();
    result["success"] = json!(true);
    for (call, body) in [
        ("settle", json!({ "results": [result] })),
        ("extend", json!({ "deliveries": [held] })),
        ("release", json!({ "deliveries": [held] })),
    ] {
        let answer = desk.ask("consumer", &format!("/consumers/other/{call}"), body, 200).await;
        assert_eq!(answer["results"][0]["outcome"], "leaseLost", "{call}");
    }
    assert_eq!(settle(&desk, first, json!({ "success": true })).await, "settled");
    assert_eq!(settle(&desk, second, json!({ "success": true })).await, "settled");
    assert_eq!(settle(&desk, second, json!({ "success": true })).await, "leaseLost", "once");
    assert_eq!(desk.claim("other", 10).await.len(), 2, "its own deliveries wait");
    desk.close().await;
}

/// D.6: what a consumer did, by time; for a caller with a scope only what is inside.
#[tokio::test]
async fn a_consumer_has_a_history_by_time() {
    let desk = Desk::open().await;
    points(&desk).await;
    let attempts =
        async |query: &str, status| read(desk.get("viewer", &format!("/consumers/{query}")).await, status).await;
    assert_eq!(attempts("points/attempts", 200).await["attempts"], json!([]));
    for id in ["e1", "e2"] {
        publish(&desk, id).await;
    }
    let claimed = desk.claim("points", 2).await;
    let failed = json!({ "success": false, "errorMessage": "the wallet is away", "errorCode": "wallet" });
    settle(&desk, &claimed[0], failed).await;
    desk.store.age(Duration::from_secs(600)).await.unwrap();
    settle(&desk, &claimed[1], json!({ "success": true })).await;
    let all = attempts("points/attempts", 200).await;
    assert_eq!((&all["attempts"][0]["eventId"], &all["attempts"][0]["success"]), (&json!("e2"), &json!(true)));
    let first = &all["attempts"][1];
    assert_eq!(
        (&first["eventId"], &first["topic"], &first["attemptNo"]),
        (&json!("e1"), &json!("order.paid"), &json!(1))
    );
    assert_eq!((&first["errorMessage"], &first["errorCode"]), (&json!("the wallet is away"), &json!("wallet")));
    assert_eq!(all["nextCursor"], Value::Null);
    let from = all["attempts"][0]["consumedAt"].as_str().unwrap();
    assert_eq!(attempts(&format!("points/attempts?from={from}"), 200).await["attempts"].as_array().unwrap().len(), 1);
    let page = attempts("points/attempts?limit=1", 200).await;
    let next = page["nextCursor"].as_str().unwrap();
    let page = attempts(&format!("points/attempts?limit=1&cursor={next}"), 200).await;
    assert_eq!(page["attempts"][0]["eventId"], "e1");
    attempts("points/attempts?cursor=x", 400).await;
    attempts("points/attempts?limit=501", 400).await;
    attempts("nowhere/attempts", 404).await;
    desk.close().await;
}

/// A.5: the tenth failure is the last; and one that asks for no more is the last at once.
#[tokio::test]
async fn a_delivery_is_given_up_after_its_last_attempt() {
    let desk = Desk::open().await;
    points(&desk).await;
    publish(&desk, "e1").await;
    for n in 1..=10 {
        let claimed = desk.claim("points", 1).await;
        assert_eq!(claimed[0]["attempt"], n);
        settle(&desk, &claimed[0], json!({ "success": false })).await;
        desk.store.age(Duration::from_secs(3700)).await.unwrap();
    }
    assert!(desk.claim("points", 1).await.is_empty());
    let shown = desk.show("e1").await;
    assert_eq!((&shown["status"], &shown["deliveries"][0]["status"]), (&json!("FAILED"), &json!("DEAD")));
    assert_eq!(shown["deliveries"][0]["maxAttempts"], 10);
    publish(&desk, "e2").await;
    let claimed = desk.claim("points", 1).await;
    settle(&desk, &claimed[0], json!({ "success": false, "willRetry": false })).await;
    assert_eq!(desk.show("e2").await["status"], "FAILED");
    let consumers = read(desk.get("viewer", "/consumers").await, 200).await;
    assert_eq!((&consumers["consumers"][0]["dead"], &consumers["consumers"][0]["lag"]), (&json!(2), &json!(0)));
    desk.close().await;
}

/// Two results of one delivery in one call count once if they agree; if they contradict each other, nothing is written.
#[tokio::test]
async fn contradictory_results_of_a_delivery_are_refused() {
    let desk = Desk::open().await;
    points(&desk).await;
    publish(&desk, "e1").await;
    publish(&desk, "e2").await;
    let claimed = desk.claim("points", 10).await;
    let result = |n: usize, success: bool| json!({ "deliveryId": claimed[n]["deliveryId"], "leaseToken": claimed[n]["leaseToken"], "success": success });
    let contradictory = json!({ "results": [result(1, true), result(0, false), result(0, true)] });
    let refused = desk.ask("consumer", "/consumers/points/settle", contradictory, 422).await;
    assert_eq!(refused["errors"][0]["field"], "results[2].success", "{refused}");
    assert_eq!(desk.show("e2").await["deliveries"][0]["status"], "PROCESSING", "nothing is written");
    let repeated = json!({ "results": [result(0, true), result(1, true), result(0, true)] });
    let settled = desk.ask("consumer", "/consumers/points/settle", repeated, 200).await;
    let outcomes: Vec<_> = settled["results"].as_array().unwrap().iter().map(|one| one["outcome"].clone()).collect();
    assert_eq!(outcomes, vec![json!("settled"); 3]);
    desk.close().await;
}

/// F01, B.3: a lease that ran out still counts until another claim takes the delivery.
#[tokio::test]
async fn a_late_result_counts_until_another_claim() {
    let desk = Desk::open().await;
    points(&desk).await;
    publish(&desk, "e1").await;
    publish(&desk, "e2").await;
    let first = desk.claim("points", 1).await;
    desk.store.age(Duration::from_secs(60)).await.unwrap();
    assert_eq!(settle(&desk, &first[0], json!({ "success": true })).await, "settled");
    let zombie = desk.claim("points", 1).await;
    desk.store.age(Duration::from_secs(60)).await.unwrap();
    let holder = desk.claim("points", 1).await;
    assert_eq!(settle(&desk, &zombie[0], json!({ "success": true })).await, "leaseLost");
    assert_eq!(settle(&desk, &holder[0], json!({ "success": true })).await, "settled");
    desk.close().await;
}

#[tokio::test]
async fn a_lease_is_extended_and_given_back() {
    let desk = Desk::open().await;
    points(&desk).await;
    publish(&desk, "e1").await;
    let claimed = desk.claim("points", 1).await;
    let held = json!({ "deliveryId": claimed[0]["deliveryId"], "leaseToken": claimed[0]["leaseToken"] });
    let extension = json!({ "deliveries": [held], "leaseSeconds": 3600 });
    let extended = desk.ask("consumer", "/consumers/points/extend", extension, 200).await;
    assert_eq!(extended["results"][0]["outcome"], "settled");
    desk.store.age(Duration::from_secs(600)).await.unwrap();
    assert!(desk.claim("points", 1).await.is_empty(), "it is held for an hour");
    let released = desk.ask("consumer", "/consumers/points/release", json!({ "deliveries": [held] }), 200).await;
    assert_eq!(released["results"][0]["outcome"], "settled");
    assert_eq!(desk.claim("points", 1).await[0]["attempt"], 1, "it did not count");
    let made_up = json!({ "deliveryId": "1-1", "leaseToken": "nonsense" });
    let released = desk.ask("consumer", "/consumers/points/release", json!({ "deliveries": [made_up] }), 200).await;
    assert_eq!(released["results"][0]["outcome"], "leaseLost");
    desk.close().await;
}

/// A publish wakes a waiting consumer: in this test the server queries by itself once an hour only. The wait ends without an
/// event when its time is over or the server stops.
#[tokio::test]
async fn a_waiting_consumer_is_woken() {
    let desk = Desk::with(Options { due_interval: Duration::from_secs(3_600), ..Options::default() }).await;
    points(&desk).await;
    let waiting = json!({ "max": 1, "waitSeconds": 50 });
    let claim = tokio::spawn(desk.post("consumer", "/consumers/points/claim", &waiting).send());
    let other = tokio::spawn(desk.post("consumer", "/consumers/points/claim", &waiting).send());
    let began = Instant::now();
    publish(&desk, "e1").await;
    publish(&desk, "e2").await;
    for waiter in [claim, other] {
        let claimed = read(waiter.await.unwrap().unwrap(), 200).await;
        assert_eq!(claimed["deliveries"].as_array().unwrap().len(), 1);
    }
    assert!(began.elapsed() < Duration::from_secs(10), "the publish has woken them, not the end of their wait");
    let nothing = desk.ask("consumer", "/consumers/points/claim", json!({ "max": 1, "waitSeconds": 1 }), 200).await;
    assert_eq!(nothing, json!({ "deliveries": [] }));

    let claim = tokio::spawn(desk.post("consumer", "/consumers/points/claim", &waiting).send());
    // A request that came after it has been answered, so it is there.
    read(desk.get("viewer", "/jobs").await, 200).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    desk.stop.cancel();
    let sent_home = claim.await.unwrap().unwrap();
    assert_eq!(read(sent_home, 200).await, json!({ "deliveries": [] }));
    desk.close().await;
}

/// G.1: events of one key come in order, and the next only when the one before is out of the way.
#[tokio::test]
async fn events_of_a_key_come_in_order() {
    let desk = Desk::open().await;
    points(&desk).await;
    for n in 1..=4 {
        let event = json!({ "eventId": format!("e{n}"), "topic": "order.paid", "payload": n, "key": "order-7" });
        desk.publish(event, 202).await;
    }
    let claimed = desk.claim("points", 2).await;
    let order: Vec<_> = claimed.iter().map(|one| one["event"]["payload"].as_u64().unwrap()).collect();
    assert_eq!(order, [1, 2]);
    assert!(desk.claim("points", 10).await.is_empty(), "the rest of the key waits");
    assert_eq!(settle(&desk, &claimed[0], json!({ "success": true })).await, "settled");
    assert_eq!(settle(&desk, &claimed[1], json!({ "success": false })).await, "settled");
    assert!(desk.claim("points", 10).await.is_empty(), "behind what failed");
    desk.store.age(Duration::from_secs(10)).await.unwrap();
    let claimed = desk.claim("points", 10).await;
    let order: Vec<_> = claimed.iter().map(|one| one["event"]["payload"].as_u64().unwrap()).collect();
    assert_eq!(order, [2, 3, 4]);
    desk.close().await;
}

/// D.9: an expired event is not handed out. F03: nor is one whose attempts were all lost.
#[tokio::test]
async fn expired_and_used_up_deliveries_are_not_handed_out() {
    let desk = Desk::open().await;
    points(&desk).await;
    let expired =
        json!({ "eventId": "e1", "topic": "order.paid", "payload": 1, "expireAt": "1999-01-01T00:00:00Z", "key": "k" });
    desk.publish(expired, 202).await;
    desk.publish(json!({ "eventId": "e2", "topic": "order.paid", "payload": 2, "key": "k" }), 202).await;
    let claimed = desk.claim("points", 10).await;
    assert_eq!(claimed.len(), 1, "{claimed:?}");
    assert_eq!(claimed[0]["event"]["eventId"], "e2");
    assert_eq!(desk.show("e1").await["status"], "EXPIRED");
    assert_eq!(settle(&desk, &claimed[0], json!({ "success": true })).await, "settled");
    desk.publish(json!({ "eventId": "e3", "topic": "order.paid", "payload": 3, "maxAttempts": 2 }), 202).await;
    for _ in 0..2 {
        assert_eq!(desk.claim("points", 10).await.len(), 1);
        desk.store.age(Duration::from_secs(60)).await.unwrap();
    }
    assert!(desk.claim("points", 10).await.is_empty());
    let shown = desk.show("e3").await;
    assert_eq!((&shown["status"], &shown["deliveries"][0]["attempts"]), (&json!("FAILED"), &json!(2)));
    desk.close().await;
}

#[tokio::test]
async fn only_a_known_consumer_that_pulls_may_claim() {
    let desk = Desk::open().await;
    desk.subscribe("order.paid", "member", json!({ "via": "external" })).await;
    let body = json!({ "max": 1 });
    desk.ask("consumer", "/consumers/unknown/claim", body.clone(), 404).await;
    let refused = desk.ask("consumer", "/consumers/member/claim", body, 409).await;
    assert_eq!(refused["code"], "notPull");
    desk.close().await;
}

#[tokio::test]
async fn a_paused_consumer_gets_nothing_until_it_is_resumed() {
    let desk = Desk::open().await;
    points(&desk).await;
    desk.subscribe("order.paid", "member", json!({ "via": "external" })).await;
    publish(&desk, "e1").await;
    desk.ask("operator", "/consumers/points/pause", json!({}), 204).await;
    assert!(desk.claim("points", 1).await.is_empty());
    let listed = read(desk.get("viewer", "/consumers").await, 200).await;
    let points = listed["consumers"].as_array().unwrap().iter().find(|one| one["consumerId"] == "points").unwrap();
    assert_eq!((&points["paused"], &points["lag"]), (&json!(true), &json!(1)));
    desk.ask("operator", "/consumers/points/resume", json!({}), 204).await;
    assert_eq!(desk.claim("points", 1).await.len(), 1);
    let refused = desk.ask("operator", "/consumers/member/pause", json!({}), 409).await;
    assert_eq!(refused["code"], "cannotPause");
    desk.ask("operator", "/consumers/unknown/pause", json!({}), 404).await;
    desk.close().await;
}

/// What waits for a renamed consumer is handed out under its new name, once.
#[tokio::test]
async fn a_renamed_consumer_goes_on_under_its_new_name() {
    let desk = Desk::open().await;
    points(&desk).await;
    desk.subscribe("order.paid", "member", json!({ "via": "external" })).await;
    for id in ["e1", "e2"] {
        publish(&desk, id).await;
    }
    let held = desk.claim("points", 1).await;
    let rename = async |from: &str, to: &str, expected| {
        let body = json!({ "to": to, "reason": "one name for all" });
        desk.ask("operator", &format!("/consumers/{from}/rename"), body, expected).await
    };
    assert_eq!(rename("points", "member", 409).await["code"], "nameInUse");
    assert_eq!(rename("unknown", "bonus", 404).await["code"], "notFound");
    for to in ["", "two words", "rabbitmq", "points"] {
        assert_eq!(rename("points", to, 422).await["errors"][0]["field"], "to", "{to}");
    }
    let renamed = rename("points", "bonus", 200).await;
    let expected = json!({ "consumerId": "bonus", "subscriptions": 1, "deliveries": 2, "received": 0, "attempts": 0 });
    assert_eq!(renamed, expected);
    let audit = read(desk.get("operator", "/audit?limit=1").await, 200).await;
    assert_eq!(audit["records"][0]["target"], "/consumers/points/rename");
    assert_eq!(audit["records"][0]["detail"], "to=bonus");
    assert_eq!(audit["records"][0]["reason"], "one name for all");

    let result = json!({ "deliveryId": held[0]["deliveryId"], "leaseToken": held[0]["leaseToken"], "success": true });
    let settled = desk.ask("consumer", "/consumers/bonus/settle", json!({ "results": [result] }), 200).await;
    assert_eq!(settled["results"][0]["outcome"], "settled", "the lease has moved");
    desk.ask("consumer", "/consumers/points/claim", json!({ "max": 1 }), 404).await;
    let claimed = desk.claim("bonus", 10).await;
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0]["event"]["eventId"], "e2");
    desk.close().await;
}

/// D.8, F13: a holder that never comes back uses up an attempt. Each of them is in the history with its reason, and the dead letter
/// says that it may have been delivered. `maxAttempts` is what is configured.
#[tokio::test]
async fn attempts_of_lost_holders_are_in_the_history() {
    let retry = postrider::RetryPolicy { max_attempts: 3, ..Default::default() };
    let desk = Desk::with(Options { retry, ..Options::default() }).await;
    points(&desk).await;
    publish(&desk, "e1").await;
    assert_eq!(desk.show("e1").await["deliveries"][0]["maxAttempts"], 3);
    for n in 1..=3 {
        assert_eq!(desk.claim("points", 1).await[0]["attempt"], n);
        desk.store.age(Duration::from_secs(60)).await.unwrap();
    }
    assert!(desk.claim("points", 1).await.is_empty());
    let shown = desk.show("e1").await;
    let dead = &shown["deliveries"][0];
    assert_eq!((&dead["status"], &dead["attempts"], &dead["maxAttempts"]), (&json!("DEAD"), &json!(3), &json!(3)));
    assert!(shown["lastError"].as_str().unwrap().contains("may have been delivered"), "{shown}");
    let attempts = shown["consumptions"].as_array().unwrap();
    let codes: Vec<_> = attempts.iter().map(|one| (one["attemptNo"].clone(), one["errorCode"].clone())).collect();
    let [ran_out, exhausted] = ["leaseRanOut", "exhausted"].map(Value::from);
    assert_eq!(
        codes,
        [(json!(0), Value::Null), (json!(1), ran_out.clone()), (json!(2), ran_out), (json!(3), exhausted)]
    );
    desk.close().await;
}
