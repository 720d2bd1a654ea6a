//! What the pages of the console read: the session, topics, counts, traces with attempts, payloads, search.

use postrider::prelude::*;
use reqwest::Method;
use serde_json::{Value, json};

use super::desk::{Desk, read};

async fn get(desk: &Desk, role: &str, path: &str) -> Value {
    read(desk.get(role, path).await, 200).await
}

/// Two orders in one trace, of which the consumer has given up one; and one without a subscriber.
async fn some_events(desk: &Desk) {
    for (topic, consumer) in [("order.paid", "points"), ("order.paid", "mail"), ("order.sent", "mail")] {
        desk.subscribe(topic, consumer, json!({ "description": "for the test" })).await;
    }
    let paid = json!({
        "eventId": "order:1:paid", "topic": "order.paid", "payload": { "canary": 12345678901234567890_u64 }, "traceId": "trace-of-order-1",
        "key": "order-1", "aggregateType": "ORDER", "aggregateId": 1, "tenantId": "acme", "initiator": { "service": "shop" },
    });
    desk.publish(paid, 202).await;
    let sent = json!({ "eventId": "order:1:sent", "topic": "order.sent", "payload": 1, "traceId": "trace-of-order-1",
        "parentEventId": "order:1:paid", "initiator": { "service": "depot" } });
    desk.publish(sent, 202).await;
    let claimed = desk.claim("points", 1).await;
    let result = json!({ "deliveryId": claimed[0]["deliveryId"], "leaseToken": claimed[0]["leaseToken"], "success": false,
        "willRetry": false, "errorMessage": "no such account" });
    desk.ask("consumer", "/consumers/points/settle", json!({ "results": [result] }), 200).await;
    while desk.store.fold(500).await.unwrap().more {}
}

/// CONTRACT: who is logged in, and the rules that the pages show, for every role.
#[tokio::test]
async fn a_session_knows_its_caller_and_the_rules() {
    let links = [("ORDER".to_owned(), "https://shop.example/orders/{id}".to_owned())];
    let options = postrider_server::Options {
        environment: "staging".into(),
        links: links.into(),
        store_kind: "sqlite".into(),
        ..Default::default()
    };
    let desk = Desk::with(options).await;
    for role in ["viewer", "publisher", "consumer", "operator", "admin"] {
        let session = get(&desk, role, "/session").await;
        assert_eq!((&session["name"], &session["role"]), (&json!(role), &json!(role)));
        assert_eq!(session["environment"]["name"], "staging");
        assert_eq!((&session["store"], &session["broker"]), (&json!("sqlite"), &Value::Null));
        assert_eq!(session["links"]["ORDER"], "https://shop.example/orders/{id}");
        assert_eq!(session["version"], env!("CARGO_PKG_VERSION"));
        let limits = &session["limits"];
        assert_eq!((&limits["maxAttempts"], &limits["leaseSeconds"]), (&json!(10), &json!(30)));
        assert_eq!((&limits["redriveHorizonDays"], &limits["deadHead"]), (&json!(7), &json!("hold")));
        assert_eq!((&limits["inboxDays"], &limits["finishedDays"]), (&json!(14), &json!(30)));
    }
    desk.close().await;
}

/// CONTRACT: lists take several statuses, an age, and what waits for a subscriber; a bulk operation takes the same filter.
#[tokio::test]
async fn a_list_takes_several_statuses_and_an_age() {
    let desk = Desk::open().await;
    some_events(&desk).await;
    let ids = async |query: &str| {
        let page = get(&desk, "viewer", &format!("/events?{query}")).await;
        page["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["eventId"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids("status=PARTIAL,PENDING").await, ["order:1:sent", "order:1:paid"]);
    assert_eq!(ids("status=PARTIAL,SENT").await, ["order:1:paid"]);
    assert_eq!(ids("olderThanSeconds=0").await.len(), 2);
    assert_eq!(ids("olderThanSeconds=3600").await.len(), 0);
    assert_eq!(ids("unheard=true").await.len(), 0);
    assert_eq!(ids("unheard=false").await.len(), 2);
    for (query, field) in [
        ("status=PARTIAL,", "status"),
        ("status=partial", "status"),
        ("olderThanSeconds=-1", "olderThanSeconds"),
        ("olderThanSeconds=soon", "olderThanSeconds"),
        ("unheard=maybe", "unheard"),
    ] {
        let refused = read(desk.get("viewer", &format!("/events?{query}")).await, 400).await;
        assert_eq!(refused["errors"][0]["field"], field, "{query}: {refused}");
    }
    let operation =
        json!({ "kind": "redrive", "filter": { "status": "FAILED,PARTIAL", "olderThanSeconds": 0 }, "dryRun": true });
    assert_eq!(desk.ask("operator", "/operations", operation.clone(), 200).await["matching"], 1);
    let mut real = operation;
    real["dryRun"] = false.into();
    real["reason"] = "a test".into();
    let made = desk.ask("operator", "/operations", real, 202).await;
    let shown = get(&desk, "viewer", &format!("/operations/{}", made["operationId"].as_str().unwrap())).await;
    assert_eq!(shown["filter"]["status"], "PARTIAL,FAILED", "{shown}");
    desk.close().await;
}

/// CONTRACT: counts and topics.
#[tokio::test]
async fn counts_and_topics_say_how_many_there_are() {
    let desk = Desk::open().await;
    some_events(&desk).await;
    let one = json!({ "value": 1, "exact": true });
    let counts = get(&desk, "viewer", "/counts").await;
    assert_eq!(counts["total"], json!({ "value": 2, "exact": true }));
    assert_eq!(counts["byStatus"], json!({ "PARTIAL": one, "PENDING": one }));
    assert_eq!(counts["byTopic"], json!({ "order.paid": one, "order.sent": one }));
    assert_eq!(counts["byConsumer"], json!({ "mail": { "value": 2, "exact": true }, "points": one }));
    assert_eq!((&counts["byService"]["shop"], &counts["byTenant"]["acme"]), (&one, &one));
    assert_eq!(get(&desk, "viewer", "/counts?status=PARTIAL,FAILED&service=shop").await["total"], one);
    read(desk.get("viewer", "/counts?limit=5").await, 400).await;
    let audit = desk.store.audit(None, 500).await.unwrap();
    assert!(audit.iter().all(|record| !record.action.contains("counts")), "a count is not audited");
    let topics = get(&desk, "viewer", "/topics").await;
    let rows: Vec<_> =
        topics["topics"].as_array().unwrap().iter().map(|one| (&one["topic"], &one["subscribers"])).collect();
    assert_eq!(rows, [(&json!("order.paid"), &json!(2)), (&json!("order.sent"), &json!(1))]);
    assert!(topics["topics"][0]["lastSeenAt"].is_string(), "{topics}");
    desk.close().await;
}

/// D.10, CONTRACT: the newest traces, and a trace with every attempt.
#[tokio::test]
async fn traces_are_listed_and_shown_with_their_attempts() {
    let desk = Desk::open().await;
    some_events(&desk).await;
    let listed = get(&desk, "viewer", "/traces").await;
    let trace = &listed["traces"][0];
    assert_eq!((&trace["traceId"], &trace["root"]["eventId"]), (&json!("trace-of-order-1"), &json!("order:1:paid")));
    assert_eq!((&trace["events"], &trace["failed"], &trace["retrying"]), (&json!(2), &json!(1), &json!(0)));
    assert_eq!(trace["services"], json!(["depot", "shop"]));
    assert!(trace["durationMs"].is_u64() && listed["nextCursor"].is_null(), "{listed}");
    for query in ["limit=0", "limit=51", "limit=x", "cursor=x", "more=1"] {
        read(desk.get("viewer", &format!("/traces?{query}")).await, 400).await;
    }
    let plain = get(&desk, "viewer", "/traces/trace-of-order-1").await;
    assert!(plain["roots"][0].get("consumptions").is_none());
    let with = get(&desk, "viewer", "/traces/trace-of-order-1?attempts=true").await;
    let root = &with["roots"][0];
    let attempts = root["consumptions"].as_array().unwrap();
    let failed = attempts.iter().find(|one| one["attemptNo"] == 1).unwrap_or_else(|| panic!("{root}"));
    assert_eq!(failed["errorMessage"], "no such account", "{root}");
    assert_eq!(
        (&root["deliveries"][0]["status"], &root["children"][0]["deliveries"][0]["status"]),
        (&json!("NEW"), &json!("NEW"))
    );
    assert!(!with.to_string().contains("canary"), "no payloads");
    desk.close().await;
}

/// CONTRACT, S5: how much of a payload is shown, and to whom.
#[tokio::test]
async fn a_payload_is_shown_in_part_or_saved_by_those_who_may() {
    let desk = Desk::open().await;
    some_events(&desk).await;
    let path = "/events/order:1:paid";
    let full = desk.get("operator", path).await.text().await.unwrap();
    assert!(full.contains("{\"canary\":12345678901234567890}") && full.contains("\"payloadBytes\":31"), "{full}");
    assert_eq!(
        get(&desk, "operator", &format!("{path}?payload=full")).await,
        serde_json::from_str::<Value>(&full).unwrap()
    );
    let none = get(&desk, "operator", &format!("{path}?payload=none")).await;
    assert_eq!((none.get("payload"), &none["payloadBytes"], &none["masked"]), (None, &json!(31), &json!(false)));
    let masked = get(&desk, "viewer", &format!("{path}?payload=full")).await;
    assert_eq!((masked.get("payload"), &masked["masked"]), (None, &json!(true)));
    assert_eq!(
        (&masked["attempts"], &masked["retryingConsumers"], &masked["held"]),
        (&json!(1), &json!(0), &json!(false))
    );
    read(desk.get("operator", &format!("{path}?payload=some")).await, 400).await;

    let text = "号".repeat(30_000);
    desk.publish(json!({ "eventId": "large", "topic": "order.sent", "payload": { "text": text } }), 202).await;
    let preview = get(&desk, "operator", "/events/large?payload=preview").await;
    let part = preview["payload"].as_str().unwrap();
    assert!(part.starts_with("{\"text\":\"号") && (65_530..=65_536).contains(&part.len()), "{}", part.len());
    assert_eq!((&preview["payloadTruncated"], &preview["payloadBytes"]), (&json!(true), &json!(90_011)));
    let small = get(&desk, "operator", &format!("{path}?payload=preview")).await;
    assert!(small["payload"].is_object() && small.get("payloadTruncated").is_none(), "{small}");

    let file = desk.request("operator", Method::GET, "/api/v1/events/order:1:paid/payload").send().await.unwrap();
    assert_eq!(file.headers()["content-disposition"], "attachment; filename=\"order_1_paid.json\"");
    assert_eq!(file.headers()["content-type"], "application/octet-stream");
    assert_eq!(file.text().await.unwrap(), "{\"canary\":12345678901234567890}");
    let page = json!({ "eventId": "a\"b", "topic": "order.sent", "payloadType": "text/html", "payloadEncoding": "base64", "payload": "PHNjcmlwdD4=" });
    desk.publish(page, 202).await;
    let file = desk.request("admin", Method::GET, "/api/v1/events/a%22b/payload").send().await.unwrap();
    assert_eq!(file.headers()["content-type"], "application/octet-stream", "a browser runs nothing of it");
    assert_eq!(file.headers()["content-disposition"], "attachment; filename=\"a_b.bin\"");
    assert_eq!(file.bytes().await.unwrap(), "<script>");
    for role in ["viewer", "publisher", "consumer"] {
        read(desk.get(role, "/events/order:1:paid/payload").await, 403).await;
    }
    read(desk.get("operator", "/events/unknown/payload").await, 404).await;
    desk.close().await;
}

/// CONTRACT: one consumer, with its rules.
#[tokio::test]
async fn a_consumer_is_shown_with_its_rules() {
    let desk = Desk::open().await;
    some_events(&desk).await;
    let consumer = get(&desk, "viewer", "/consumers/points").await;
    assert_eq!(
        (&consumer["consumerId"], &consumer["via"], &consumer["dead"]),
        (&json!("points"), &json!("pull"), &json!(1))
    );
    assert_eq!(consumer["retry"]["maxAttempts"], 10);
    assert_eq!(consumer["description"], "for the test");
    read(desk.get("viewer", "/consumers/unknown").await, 404).await;
    read(desk.get("viewer", "/consumers/%00").await, 404).await;
    desk.close().await;
}

/// CONTRACT: a text finds what it names.
#[tokio::test]
async fn a_text_finds_what_it_names() {
    let desk = Desk::open().await;
    some_events(&desk).await;
    let hits = async |q: &str| {
        let found = get(&desk, "viewer", &format!("/search?q={q}")).await;
        found["hits"].as_array().unwrap().iter().map(|hit| (hit["kind"].clone(), hit["id"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(hits("order:1:p").await, [(json!("event"), json!("order:1:paid"))]);
    assert_eq!(hits("order-1").await, [(json!("key"), json!("order-1"))]);
    assert_eq!(hits("1").await, [(json!("aggregate"), json!("1"))]);
    assert_eq!(hits("trace-of").await, [(json!("trace"), json!("trace-of-order-1"))]);
    assert_eq!(hits("point").await, [(json!("consumer"), json!("points"))]);
    assert_eq!(hits("%20%20").await, []);
    let event = get(&desk, "viewer", "/search?q=order:1:paid").await;
    assert_eq!((&event["hits"][0]["status"], &event["hits"][0]["expected"]), (&json!("PARTIAL"), &json!(2)));
    assert!(!event.to_string().contains("canary"));
    read(desk.get("viewer", "/search").await, 400).await;
    desk.close().await;
}

/// CONTRACT: figures in steps of several minutes.
#[tokio::test]
async fn figures_are_added_up_in_steps() {
    let desk = Desk::open().await;
    some_events(&desk).await;
    let stats = get(&desk, "viewer", "/stats?minutes=1440&step=1440").await;
    assert_eq!(stats["step"], 1440);
    let days = stats["minutes"].as_array().unwrap();
    assert_eq!(days.iter().map(|day| day["created"].as_u64().unwrap()).sum::<u64>(), 2);
    assert!(days.iter().all(|day| day["at"].as_str().unwrap().ends_with("T00:00:00Z")), "{stats}");
    for step in ["0", "1441", "x"] {
        read(desk.get("viewer", &format!("/stats?step={step}")).await, 400).await;
    }
    desk.close().await;
}
