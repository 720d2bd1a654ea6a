//! Events: published in every form, completed, looked at, reported on.

use postrider::Unheard;
use postrider::prelude::*;
use postrider_server::Options;
use reqwest::Method;
use serde_json::{Value, json};

use super::desk::{Desk, read};
use postrider::store::Record;

/// D.1: what is missing is filled in, over HTTP by the token's name, the route and `X-Request-Id`.
#[tokio::test]
async fn an_event_is_completed_by_its_request() {
    let desk = Desk::open().await;
    desk.subscribe("order.paid", "points", json!({})).await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let sent = desk.post("publisher", "/events", &json!({ "topic": "order.paid", "payload": { "n": 1 } }));
    let sent = sent.header("x-request-id", "r-1").header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01"));
    let published = read(sent.send().await.unwrap(), 202).await;
    assert_eq!(published["outcome"], "accepted");
    let shown = desk.show(published["eventId"].as_str().unwrap()).await;
    let tokens = read(desk.get("admin", "/tokens").await, 200).await;
    let is_publisher = |one: &&Value| one["name"] == "publisher";
    let token = tokens["tokens"].as_array().unwrap().iter().find(is_publisher).unwrap()["tokenId"].clone();
    assert_eq!(
        shown["initiator"],
        json!({ "service": "publisher", "operation": "POST /api/v1/events", "clientRequestId": "r-1", "tokenId": token })
    );
    assert_eq!(shown["traceId"], trace);
    assert_eq!(shown["payloadType"], "application/json");
    assert!(shown["occurredAt"].as_str().unwrap().ends_with('Z'), "{shown}");
    assert_eq!(shown["status"], "PENDING");
    desk.close().await;
}

/// D.1: every field is stored; ids may be strings or numbers and keep every digit.
#[tokio::test]
async fn every_field_comes_back() {
    let desk = Desk::open().await;
    desk.subscribe("order.paid", "points", json!({})).await;
    let body = r#"{"eventId":"e1","topic":"order.paid","payload":{"b":1.50,"a":12345678901234567890123},
        "traceId":"t","spanId":"s","parentEventId":"p","initiator":{"service":"shop","operation":"pay","userId":9007199254740993,"clientRequestId":"c"},
        "occurredAt":"2026-11-01T08:00:00+08:00","expireAt":"2999-01-01T00:00:00Z","deliverAt":"2998-01-01T00:00:00Z",
        "key":7,"tenantId":1,"storeId":"2","aggregateType":"ORDER","aggregateId":123456789012345678901234567890,
        "metadata":{"z":1,"a":2.0},"maxAttempts":3,"exchange":"x","routingKey":"r"}"#;
    let sent = desk.request("publisher", Method::POST, "/api/v1/events").header("content-type", "application/json");
    read(sent.body(body).send().await.unwrap(), 202).await;
    let text = desk.get("operator", "/events/e1").await.text().await.unwrap();
    assert!(text.contains(r#""payload":{"b":1.50,"a":12345678901234567890123}"#), "{text}");
    assert!(text.contains(r#""metadata":{"z":1,"a":2.0}"#), "{text}");
    let shown: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(shown["initiator"]["userId"], "9007199254740993");
    assert_eq!(shown["aggregateId"], "123456789012345678901234567890");
    assert_eq!(shown["occurredAt"], "2026-11-01T00:00:00Z");
    for (field, value) in [
        ("traceId", "t"),
        ("spanId", "s"),
        ("parentEventId", "p"),
        ("key", "7"),
        ("tenantId", "1"),
        ("storeId", "2"),
        ("aggregateType", "ORDER"),
        ("exchange", "x"),
        ("routingKey", "r"),
    ] {
        assert_eq!(shown[field], value, "{field}");
    }
    assert_eq!(shown["maxAttempts"], 3);
    desk.close().await;
}

/// A.2: `traceId`, `requestId` and `userId` of the metadata count where the event itself has none.
#[tokio::test]
async fn metadata_names_what_the_event_does_not() {
    let desk = Desk::open().await;
    desk.subscribe("order.paid", "points", json!({})).await;
    let metadata = json!({ "traceId": "t-1", "requestId": "r-1", "userId": 42 });
    let send = async |id: &str, more: Value| {
        let mut event = json!({ "eventId": id, "topic": "order.paid", "payload": 1, "metadata": metadata });
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let sent = desk.post("publisher", "/events", &event).header("x-request-id", "of-the-call");
        read(sent.send().await.unwrap(), 202).await;
        let shown = desk.show(id).await;
        assert_eq!(shown["metadata"], metadata, "it is stored as it is");
        [&shown["traceId"], &shown["initiator"]["clientRequestId"], &shown["initiator"]["userId"]].map(Value::clone)
    };
    assert_eq!(send("e1", json!({})).await, ["t-1", "r-1", "42"]);
    let own = json!({ "traceId": "t-9", "initiator": { "userId": "u-9", "clientRequestId": "r-9" } });
    assert_eq!(send("e2", own).await, ["t-9", "r-9", "u-9"]);
    let listed = read(desk.get("viewer", "/events?traceId=t-1").await, 200).await;
    assert_eq!(listed["events"].as_array().unwrap().len(), 1);
    assert_eq!(listed["events"][0]["initiator"]["userId"], "42");
    assert_eq!(desk.claim("points", 1).await[0]["event"]["traceId"], "t-1");
    desk.close().await;
}

/// D.10: an event with `parentEventId` and no trace continues the trace of its parent.
#[tokio::test]
async fn a_child_continues_the_trace_of_its_parent() {
    let desk = Desk::open().await;
    desk.subscribe("order.paid", "points", json!({})).await;
    let event = |id: &str, parent: Option<&str>| {
        json!({ "eventId": id, "topic": "order.paid", "payload": 1, "parentEventId": parent })
    };
    desk.publish(event("root", None), 202).await;
    desk.publish(event("child", Some("root")), 202).await;
    let batch = json!({ "events": [event("a", Some("child")), event("b", Some("c")), event("c", None)] });
    desk.ask("publisher", "/events/batch", batch, 200).await;
    let trace = async |id: &str| desk.show(id).await["traceId"].as_str().unwrap().to_owned();
    assert_eq!(trace("child").await, trace("root").await);
    assert_eq!(trace("a").await, trace("root").await);
    assert_eq!(trace("b").await, trace("c").await, "the parent may be in the same batch");
    assert_ne!(trace("c").await, trace("root").await);
    let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let sent = desk.post("publisher", "/events", &event("traced", Some("root"))).header("traceparent", header);
    read(sent.send().await.unwrap(), 202).await;
    assert_eq!(trace("traced").await, "4bf92f3577b34da6a3ce929d0e0e4736");
    desk.close().await;
}

/// S4: payloads are for those who mend.
#[tokio::test]
async fn a_payload_is_masked_for_viewers() {
    let desk = Desk::open().await;
    desk.subscribe("order.paid", "points", json!({})).await;
    let event = json!({ "eventId": "e1", "topic": "order.paid", "payload": "canary", "metadata": { "m": "canary" } });
    desk.publish(event, 202).await;
    for role in ["viewer", "publisher", "consumer"] {
        let text = desk.get(role, "/events/e1").await.text().await.unwrap();
        assert!(!text.contains("canary") && text.contains(r#""masked":true"#), "{role}: {text}");
    }
    let shown = desk.show("e1").await;
    assert_eq!((&shown["payload"], &shown["masked"]), (&json!("canary"), &json!(false)));
    desk.close().await;
}

/// G.5: CloudEvents, structured and binary, of JSON, text and bytes.
#[tokio::test]
async fn cloud_events_are_taken_in_both_modes() {
    let desk = Desk::open().await;
    desk.subscribe("order.paid", "points", json!({})).await;
    let post = |kind: &str| desk.request("publisher", Method::POST, "/api/v1/events").header("content-type", kind);
    let structured = json!({
        "specversion": "1.0", "id": "s1", "type": "order.paid", "source": "shop", "subject": "ORDER/7",
        "time": "2026-11-01T00:00:00Z", "data": { "orderId": 7 }, "partitionkey": "7",
    });
    let sent = post("application/cloudevents+json; charset=utf-8").body(structured.to_string());
    let id = |published: Value| published["eventId"].as_str().unwrap().to_owned();
    let shown = desk.show(&id(read(sent.send().await.unwrap(), 202).await)).await;
    assert_eq!(shown["cloudEventId"], "s1");
    assert_eq!((&shown["payload"], &shown["key"]), (&json!({ "orderId": 7 }), &json!("7")));
    assert_eq!((&shown["aggregateType"], &shown["aggregateId"]), (&json!("ORDER"), &json!("7")));
    assert_eq!(shown["initiator"]["service"], "shop");

    let binary = |id: &str, kind: &str| {
        post(kind)
            .header("ce-specversion", "1.0")
            .header("ce-id", id)
            .header("ce-type", "order.paid")
            .header("ce-source", "%E5%BA%97")
    };
    let sent = binary("b1", "application/json").body(r#"{"n":1.0}"#).send().await.unwrap();
    let shown = desk.show(&id(read(sent, 202).await)).await;
    assert_eq!((&shown["payload"], &shown["initiator"]["service"]), (&json!({ "n": 1.0 }), &json!("店")));
    let sent = binary("b2", "text/plain").body("hello").send().await.unwrap();
    let shown = desk.show(&id(read(sent, 202).await)).await;
    assert_eq!((&shown["payload"], &shown["payloadType"]), (&json!("hello"), &json!("text/plain")));
    let sent = binary("b3", "image/png").body(vec![0_u8, 255, 1]).send().await.unwrap();
    let shown = desk.show(&id(read(sent, 202).await)).await;
    assert_eq!((&shown["payload"], &shown["payloadEncoding"]), (&json!("AP8B"), &json!("base64")));
    read(binary("b4", "application/json").body("{").send().await.unwrap(), 400).await;
    desk.close().await;
}

/// F63, G.5: the same id from two sources is two events, the same from one source is one. Each is found by the id that it had,
/// and its schema and extensions come out as they went in, structured and binary.
#[tokio::test]
async fn two_sources_may_use_one_id() {
    let desk = Desk::open().await;
    desk.subscribe("order.paid", "points", json!({})).await;
    let post = |kind: &str| desk.request("publisher", Method::POST, "/api/v1/events").header("content-type", kind);
    let structured = async |source: &str, n: u32, expected: u16| {
        let event = json!({
            "specversion": "1.0", "id": "A-1", "type": "order.paid", "source": source, "subject": "plain",
            "dataschema": "https://shop.example/1", "comexampleflag": true, "comexamplenumber": 42, "data": n,
        });
        let sent = post("application/cloudevents+json").body(event.to_string());
        (event, read(sent.send().await.unwrap(), expected).await)
    };
    let (event, shop) = structured("/shop", 1, 202).await;
    let binary = post("application/json").header("ce-specversion", "1.0").header("ce-id", "A-1").body("1");
    let binary = binary.header("ce-type", "order.paid").header("ce-source", "/bank");
    let binary = binary.header("ce-dataschema", "/schema").header("ce-comexamplename", "%E5%BA%97");
    let bank = read(binary.send().await.unwrap(), 202).await;
    assert_ne!(shop["eventId"], bank["eventId"]);
    let (_, again) = structured("/shop", 1, 200).await;
    assert_eq!((&again["eventId"], &again["outcome"]), (&shop["eventId"], &json!("duplicate")));
    let (_, conflict) = structured("/shop", 2, 409).await;
    assert_eq!(conflict["code"], "idConflict");

    let structured_of = async |published: &Value| {
        let found = desk.store.find(published["eventId"].as_str().unwrap()).await.unwrap().unwrap();
        let text = postrider::envelope::cloudevents::to_structured(&found.envelope).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let out = structured_of(&shop).await;
    for (name, value) in event.as_object().unwrap() {
        assert_eq!(out[name], *value, "{name}");
    }
    let out = structured_of(&bank).await;
    for (name, value) in [("id", "A-1"), ("source", "/bank"), ("dataschema", "/schema"), ("comexamplename", "店")] {
        assert_eq!(out[name], value, "{name}");
    }

    // Before and after the roll-up has written the lookups.
    for is_folded in [false, true] {
        while is_folded && desk.store.fold(500).await.unwrap().more {}
        let listed = read(desk.get("viewer", "/events?cloudEventId=A-1").await, 200).await;
        let ids: Vec<_> = listed["events"].as_array().unwrap().iter().map(|one| &one["eventId"]).collect();
        assert_eq!(ids, [&bank["eventId"], &shop["eventId"]], "{listed}");
        let none = read(desk.get("viewer", "/events?cloudEventId=A-2").await, 200).await;
        assert_eq!(none["events"], json!([]));
    }
    let hits = read(desk.get("viewer", "/search?q=A-1").await, 200).await;
    let mut ids: Vec<_> = hits["hits"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    let mut expected = [bank["eventId"].as_str().unwrap(), shop["eventId"].as_str().unwrap()];
    expected.sort_unstable();
    assert_eq!(ids, expected, "{hits}");
    desk.close().await;
}

/// A.3: the same id again is the same event, or a conflict.
#[tokio::test]
async fn an_id_stands_for_one_event() {
    let desk = Desk::open().await;
    desk.subscribe("order.paid", "points", json!({})).await;
    let event = |n: u32| json!({ "eventId": "e1", "topic": "order.paid", "payload": n });
    desk.publish(event(1), 202).await;
    let again = desk.publish(event(1), 200).await;
    assert_eq!((&again["eventId"], &again["outcome"]), (&json!("e1"), &json!("duplicate")));
    assert!(again["reason"].is_string());
    let conflict = desk.publish(event(2), 409).await;
    assert_eq!(conflict["code"], "idConflict");
    desk.close().await;
}

/// D.3: without a subscription nothing is stored, and the answer says so.
#[tokio::test]
async fn an_event_without_a_subscription_is_skipped() {
    let desk = Desk::open().await;
    let event = json!({ "eventId": "e1", "topic": "order.paid", "payload": 1 });
    let skipped = desk.publish(event.clone(), 200).await;
    assert_eq!(skipped["outcome"], "skipped");
    assert!(skipped["reason"].as_str().unwrap().contains("order.paid"));
    assert!(desk.store.find("e1").await.unwrap().is_none());
    desk.subscribe("order.paid", "points", json!({ "enabled": false })).await;
    assert_eq!(desk.publish(event.clone(), 200).await["outcome"], "skipped", "disabled is not subscribed");
    desk.subscribe("order.paid", "points", json!({})).await;
    assert_eq!(desk.publish(event, 202).await["outcome"], "accepted");
    desk.close().await;
}

/// D.3: the operator may let such events be kept, or refused; the answer says which.
#[tokio::test]
async fn an_event_without_a_subscription_may_be_kept_or_refused() {
    let event = json!({ "eventId": "e1", "topic": "order.paid", "payload": 1 });
    let batch = json!({ "events": [event.clone()] });
    let desk = Desk::with(Options { unheard: Unheard::Keep, ..Options::default() }).await;
    let kept = desk.publish(event.clone(), 202).await;
    assert_eq!((&kept["outcome"], &kept["eventId"]), (&json!("unheard"), &json!("e1")));
    assert!(kept["reason"].as_str().unwrap().contains("order.paid"));
    assert_eq!(desk.show("e1").await["status"], "PENDING");
    let again = desk.ask("publisher", "/events/batch", batch.clone(), 200).await;
    assert_eq!(again["results"][0]["outcome"], "duplicate");
    desk.subscribe("order.paid", "points", json!({})).await;
    desk.store.route(10).await.unwrap();
    assert_eq!(desk.claim("points", 10).await.len(), 1, "it waits for the consumer that came later");
    desk.close().await;

    let desk = Desk::with(Options { unheard: Unheard::Refuse, ..Options::default() }).await;
    for (path, body) in [("/events", event), ("/events/batch", batch)] {
        let refused = desk.ask("publisher", path, body, 422).await;
        assert_eq!(refused["code"], "notSubscribed");
        assert!(refused["detail"].as_str().unwrap().contains("order.paid"), "{refused}");
    }
    assert!(desk.store.find("e1").await.unwrap().is_none());
    desk.close().await;
}

/// A batch is one transaction: one bad event refuses them all.
#[tokio::test]
async fn a_batch_is_stored_whole_or_not_at_all() {
    let desk = Desk::open().await;
    desk.subscribe("order.paid", "points", json!({})).await;
    let event = |id: &str, topic: &str, n: u32| json!({ "eventId": id, "topic": topic, "payload": n });
    let batch =
        json!({ "events": [event("a", "order.paid", 1), event("b", "unheard", 1), event("a", "order.paid", 1)] });
    let results = desk.ask("publisher", "/events/batch", batch, 200).await;
    let outcomes: Vec<_> = results["results"].as_array().unwrap().iter().map(|one| one["outcome"].clone()).collect();
    assert_eq!(outcomes, ["accepted", "skipped", "duplicate"]);
    let batch = json!({ "events": [event("c", "order.paid", 1), event("a", "order.paid", 2)] });
    let conflict = desk.ask("publisher", "/events/batch", batch, 409).await;
    assert!(conflict["detail"].as_str().unwrap().contains("event id a"), "{conflict}");
    assert!(desk.store.find("c").await.unwrap().is_none());
    let nothing = desk.ask("publisher", "/events/batch", json!({ "events": [] }), 200).await;
    assert_eq!(nothing, json!({ "results": [] }));
    desk.close().await;
}

/// D.5: 201 and a number; the same callback again, 200 and the same number.
#[tokio::test]
async fn a_remote_consumer_reports_its_attempts() {
    let desk = Desk::open().await;
    desk.subscribe("order.paid", "member-service", json!({ "via": "external" })).await;
    desk.subscribe("order.paid", "points", json!({ "via": "pull" })).await;
    desk.publish(json!({ "eventId": "e1", "topic": "order.paid", "payload": 1 }), 202).await;
    let report = async |body: Value, expected| desk.ask("consumer", "/events/e1/consumptions", body, expected).await;
    let failed = json!({ "consumerId": "member-service", "success": false, "willRetry": true, "errorMessage": "down", "errorCode": "E1", "callbackId": 1 });
    assert_eq!(report(failed.clone(), 201).await, json!({ "attemptNo": 1 }));
    assert_eq!(report(failed, 200).await, json!({ "attemptNo": 1 }));
    let shown = desk.show("e1").await;
    assert_eq!((&shown["status"], &shown["lastError"]), (&json!("RETRYING"), &json!("down")));
    let done = json!({ "consumerId": "member-service", "success": true, "consumedAt": "2026-11-01T00:00:00Z" });
    assert_eq!(report(done, 201).await, json!({ "attemptNo": 2 }));
    let shown = desk.show("e1").await;
    assert_eq!((&shown["expectedConsumers"], &shown["consumedConsumers"]), (&json!(2), &json!(1)));
    assert_eq!(shown["status"], "SENT");
    assert_eq!(shown["consumptions"].as_array().unwrap().len(), 4, "expected, failed, done; the other one expected: {shown}");
    assert_eq!(shown["consumptions"][0]["success"], Value::Null);
    assert_eq!(shown["consumptions"][1]["errorCode"], "E1");
    assert_eq!(shown.get("lastError"), None, "it has gone well since");

    let settles = report(json!({ "consumerId": "points", "success": true }), 409).await;
    assert_eq!(settles["code"], "useSettle");
    let stranger = report(json!({ "consumerId": "stranger", "success": true }), 422).await;
    assert_eq!(stranger["code"], "notSubscribed");
    assert_eq!(report(json!({ "consumerId": "a b", "success": true }), 422).await["errors"][0]["field"], "consumerId");
    let unknown = json!({ "consumerId": "member-service", "success": true });
    desk.ask("consumer", "/events/unknown/consumptions", unknown, 404).await;
    desk.close().await;
}

/// D.5: 64 callbacks at the same moment, in any order: attempts numbered without gap or repeat, the event untouched.
#[tokio::test]
async fn sixty_four_simultaneous_callbacks_are_sixty_four_attempts() {
    let desk = Desk::open().await;
    for consumer in ["member", "message"] {
        desk.subscribe("order.paid", consumer, json!({ "via": "external" })).await;
    }
    desk.publish(json!({ "eventId": "e1", "topic": "order.paid", "payload": 1 }), 202).await;
    let row = async || -> String {
        let Record { sequence, envelope, routing, created_at, .. } = desk.store.find("e1").await.unwrap().unwrap();
        format!("{sequence} {envelope:?} {routing:?} {created_at}")
    };
    let before = row().await;
    let callbacks: Vec<_> = (0..64)
        .map(|n| {
            let consumer = if n % 2 == 0 { "member" } else { "message" };
            let body = json!({ "consumerId": consumer, "success": n >= 60, "willRetry": true, "callbackId": n });
            tokio::spawn(desk.post("consumer", "/events/e1/consumptions", &body).send())
        })
        .collect();
    let mut numbers = Vec::new();
    for callback in callbacks {
        numbers.push(read(callback.await.unwrap().unwrap(), 201).await["attemptNo"].as_u64().unwrap());
    }
    numbers.sort_unstable();
    let expected: Vec<u64> = (1..=32).flat_map(|n| [n, n]).collect();
    assert_eq!(numbers, expected, "1 to 32 for each of the two");
    assert_eq!(row().await, before);
    let shown = desk.show("e1").await;
    assert_eq!((&shown["status"], &shown["consumedConsumers"]), (&json!("CONSUMED"), &json!(2)));
    desk.close().await;
}
