//! Lists, traces and relatives of events.

use serde_json::{Value, json};

use super::desk::{Desk, read};
use postrider::prelude::*;

async fn list(desk: &Desk, query: &str) -> Value {
    read(desk.get("viewer", &format!("/events?{query}")).await, 200).await
}

fn ids(page: &Value) -> Vec<&str> {
    page["events"].as_array().unwrap().iter().map(|event| event["eventId"].as_str().unwrap()).collect()
}

/// Ten orders of two users by one service, one of them dead, and a refund by another. Returns the id of the dead one: a claim
/// promises no order across keys.
async fn some_events(desk: &Desk) -> String {
    for topic in ["order.paid", "order.refunded"] {
        desk.subscribe(topic, "points", json!({})).await;
    }
    desk.subscribe("order.paid", "mail", json!({})).await;
    for n in 0..10 {
        let event = json!({
            "eventId": format!("e{n}"), "topic": "order.paid", "payload": "canary", "metadata": { "m": "canary" },
            "key": format!("user-{}", n % 2), "traceId": "t1", "tenantId": n % 2, "aggregateType": "ORDER", "aggregateId": n,
            "initiator": { "service": "shop" },
        });
        desk.publish(event, 202).await;
    }
    let refund = json!({ "eventId": "r", "topic": "order.refunded", "payload": 1, "parentEventId": "e0", "initiator": { "service": "desk" } });
    desk.publish(refund, 202).await;
    let claimed = desk.claim("mail", 1).await;
    let result = json!({ "deliveryId": claimed[0]["deliveryId"], "leaseToken": claimed[0]["leaseToken"], "success": false, "willRetry": false });
    desk.ask("consumer", "/consumers/mail/settle", json!({ "results": [result] }), 200).await;
    claimed[0]["event"]["eventId"].as_str().unwrap().to_owned()
}

/// D.13: every filter of the list, before and after the roll-up has seen the events.
#[tokio::test]
async fn every_filter_finds_its_events() {
    let desk = Desk::open().await;
    let failed = some_events(&desk).await;
    for folded in [false, true] {
        if folded {
            while desk.store.fold(500).await.unwrap().more {}
        }
        for (query, expected) in [
            ("topic=order.refunded", &["r"][..]),
            ("service=desk", &["r"]),
            ("parentEventId=e0", &["r"]),
            ("traceId=t1&limit=2", &["r", "e9"]),
            ("key=user-1&limit=2", &["e9", "e7"]),
            ("tenantId=0&limit=1", &["e8"]),
            ("aggregateType=ORDER&aggregateId=7", &["e7"]),
            ("aggregateType=ORDER&limit=1", &["e9"]),
            ("consumerId=mail&topic=order.refunded", &[]),
            ("consumerId=mail&limit=1", &["e9"]),
            ("from=2000-01-01T00:00:00Z&to=2001-01-01T00:00:00Z", &[]),
            ("from=2000-01-01T00:00:00Z&topic=order.refunded", &["r"]),
            ("limit=1", &["r"]),
        ] {
            assert_eq!(ids(&list(&desk, query).await), expected, "{query} folded={folded}");
        }
    }
    for (query, expected) in [
        ("status=PARTIAL", &[&*failed][..]),
        ("deliveryStatus=DEAD", &[&*failed]),
        ("status=PENDING&topic=order.refunded", &["r"]),
        ("status=CONSUMED", &[]),
    ] {
        assert_eq!(ids(&list(&desk, query).await), expected, "{query}");
    }
    desk.close().await;
}

/// Keyset pages: each event once, newest first, also while others arrive.
#[tokio::test]
async fn a_list_is_read_page_by_page() {
    let desk = Desk::open().await;
    some_events(&desk).await;
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = list(&desk, &format!("topic=order.paid&limit=3{cursor}")).await;
        seen.extend(ids(&page).into_iter().map(str::to_owned));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
        desk.publish(json!({ "topic": "order.paid", "payload": seen.len() }), 202).await;
    }
    let expected: Vec<_> = (0..10).rev().map(|n| format!("e{n}")).collect();
    assert_eq!(seen, expected);
    desk.close().await;
}

/// A list says where each event stands, and shows no payload to anybody.
#[tokio::test]
async fn a_list_has_summaries() {
    let desk = Desk::open().await;
    some_events(&desk).await;
    let page = read(desk.get("admin", "/events?status=PARTIAL").await, 200).await;
    assert_eq!(page["events"], json!([]), "the roll-up has not seen it");
    while desk.store.fold(500).await.unwrap().more {}
    let page = read(desk.get("admin", "/events?status=PARTIAL").await, 200).await;
    let event = &page["events"][0];
    assert_eq!((&event["retryCount"], &event["expectedConsumers"]), (&json!(0), &json!(2)));
    assert_eq!((&event["consumedConsumers"], &event["failedConsumers"]), (&json!(0), &json!(1)));
    for field in ["sentAt", "lastSentAt", "createdAt", "updatedAt", "statusAt", "occurredAt"] {
        assert!(event[field].is_string(), "{field}: {event}");
    }
    assert!(!page.to_string().contains("canary") && event.get("payload").is_none());
    desk.close().await;
}

/// S12: what cannot be is answered without asking the store.
#[tokio::test]
async fn an_invalid_query_is_refused() {
    let desk = Desk::open().await;
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("limit=x", "limit"),
        ("cursor=x", "cursor"),
        ("cursor=-1", "cursor"),
        ("status=DONE", "status"),
        ("deliveryStatus=dead", "deliveryStatus"),
        ("topic=a%20b", "topic"),
        ("consumerId=", "consumerId"),
        ("key=%00", "key"),
        ("traceId=", "traceId"),
        ("aggregateId=7", "aggregateType"),
        ("from=yesterday", "from"),
        ("topic=a&topic=b", "topic"),
    ] {
        let refused = read(desk.get("viewer", &format!("/events?{query}")).await, 400).await;
        assert_eq!((&refused["code"], &refused["errors"][0]["field"]), (&json!("badQuery"), &json!(field)), "{query}");
    }
    let unknown = read(desk.get("viewer", "/events?colour=red").await, 400).await;
    assert!(unknown["detail"].as_str().unwrap().contains("colour"), "{unknown}");
    read(desk.get("viewer", "/traces/%00").await, 404).await;
    read(desk.get("viewer", "/traces/unknown").await, 404).await;
    desk.close().await;
}

/// D.10: by trace a tree and a timeline, by event its parents and children.
#[tokio::test]
async fn a_trace_is_a_tree_and_a_timeline() {
    let desk = Desk::open().await;
    desk.subscribe("t", "points", json!({})).await;
    for (n, (id, parent)) in [("a", None), ("b", Some("a")), ("c", Some("a")), ("d", Some("b"))].into_iter().enumerate()
    {
        let mut event = json!({ "eventId": id, "topic": "t", "payload": 1, "traceId": "t1", "occurredAt": format!("2026-11-01T00:00:0{n}Z") });
        if let Some(parent) = parent {
            event["parentEventId"] = parent.into();
        }
        desk.publish(event, 202).await;
    }
    let trace = read(desk.get("viewer", "/traces/t1").await, 200).await;
    assert_eq!(ids(&trace), ["a", "b", "c", "d"]);
    let root = &trace["roots"][0];
    assert_eq!(
        (trace["roots"].as_array().unwrap().len(), &root["eventId"], &root["status"]),
        (1, &json!("a"), &json!("PENDING"))
    );
    assert_eq!((&root["children"][0]["eventId"], &root["children"][1]["eventId"]), (&json!("b"), &json!("c")));
    assert_eq!(root["children"][0]["children"][0]["eventId"], "d");
    let of = |list: &Value| {
        list.as_array().unwrap().iter().map(|one| one["eventId"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let shown = desk.show("b").await;
    assert_eq!((of(&shown["parents"]), of(&shown["children"])), (vec!["a".to_owned()], vec!["d".to_owned()]));
    assert_eq!(of(&desk.show("d").await["parents"]), ["b", "a"]);
    desk.close().await;
}

/// S13: a chain of parents has no limit: the timeline shows all of it, the tree is cut.
#[tokio::test]
async fn a_long_chain_is_cut_in_the_tree_only() {
    let desk = Desk::open().await;
    desk.subscribe("t", "points", json!({})).await;
    let event = |n: u32| json!({ "eventId": format!("e{n}"), "topic": "t", "payload": 1, "traceId": "t1", "parentEventId": format!("e{}", n.max(1) - 1) });
    let events: Vec<_> = (0..900).map(event).collect();
    desk.ask("publisher", "/events/batch", json!({ "events": events }), 200).await;
    let trace = read(desk.get("viewer", "/traces/t1").await, 200).await;
    assert_eq!(trace["events"].as_array().unwrap().len(), 900);
    let (mut node, mut depth) = (&trace["roots"][0], 0);
    while node.is_object() {
        (node, depth) = (&node["children"][0], depth + 1);
    }
    assert_eq!(depth, 60);
    desk.close().await;
}
