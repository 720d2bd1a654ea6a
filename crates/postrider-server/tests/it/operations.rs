//! Bulk operations, and what people watch.

use std::time::Duration;

use postrider::operations::Operations;
use postrider::prelude::*;
use postrider::testing::Age;
use serde_json::{Value, json};

use super::desk::{Desk, read};

async fn fold(desk: &Desk) {
    while desk.store.fold(500).await.unwrap().more {}
}

/// So many events that their consumer has given up.
async fn dead_events(desk: &Desk, count: u32) {
    desk.subscribe("order.paid", "points", json!({})).await;
    let events: Vec<_> =
        (0..count).map(|n| json!({ "eventId": format!("e{n}"), "topic": "order.paid", "payload": n })).collect();
    desk.ask("publisher", "/events/batch", json!({ "events": events }), 200).await;
    let result = |n: usize, one: &Value| {
        let error = format!("the wallet of user {n} is away");
        json!({ "deliveryId": one["deliveryId"], "leaseToken": one["leaseToken"], "success": false, "willRetry": false, "errorMessage": error, "errorCode": "wallet" })
    };
    let claimed = desk.claim("points", 500).await;
    let results: Vec<_> = claimed.iter().enumerate().map(|(n, one)| result(n, one)).collect();
    desk.ask("consumer", "/consumers/points/settle", json!({ "results": results }), 200).await;
    fold(desk).await;
}

async fn create(desk: &Desk, more: Value, expected: u16) -> Value {
    let mut wanted = json!({ "kind": "redrive", "filter": { "deliveryStatus": "DEAD" }, "reason": "mended" });
    wanted.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    desk.ask("operator", "/operations", wanted, expected).await
}

async fn work(desk: &Desk) {
    Operations::new(desk.store.clone()).drain().await.unwrap();
}

/// D.8: in bulk by filter: counted first, then each once.
#[tokio::test]
async fn everything_that_matches_is_redriven_once() {
    let desk = Desk::open().await;
    dead_events(&desk, 30).await;
    let preview = create(&desk, json!({ "dryRun": true }), 200).await;
    assert_eq!((&preview["matching"], &preview["exact"]), (&json!(30), &json!(true)));
    assert_eq!((&preview["split"][0]["rule"], &preview["split"][0]["count"]), (&json!("redrive"), &json!(30)));
    assert_eq!(preview["samples"].as_array().unwrap().len(), 5);
    assert_eq!(desk.claim("points", 500).await.len(), 0, "a dry run does nothing");
    assert_eq!(create(&desk, json!({ "dryRun": true, "filter": { "topic": "other" } }), 200).await["matching"], 0);
    let created = create(&desk, json!({ "consumerId": "points" }), 202).await;
    let path = format!("/operations/{}", created["operationId"].as_str().unwrap());
    let before = read(desk.get("viewer", &path).await, 200).await;
    assert_eq!((&before["state"], &before["total"], &before["done"]), (&json!("RUNNING"), &json!(30), &json!(0)));
    assert_eq!((&before["requestedBy"], &before["reason"]), (&json!("operator"), &json!("mended")));
    assert_eq!(before["filter"], json!({ "deliveryStatus": "DEAD" }));
    work(&desk).await;
    let after = read(desk.get("viewer", &path).await, 200).await;
    assert_eq!((&after["state"], &after["done"], &after["failed"]), (&json!("DONE"), &json!(30), &json!(0)));
    assert!(after["finishedAt"].is_string());
    assert_eq!(desk.claim("points", 500).await.len(), 30);
    assert_eq!(desk.show("e7").await["retryCount"], 1);
    let listed = read(desk.get("viewer", "/operations?limit=1").await, 200).await;
    assert_eq!(listed["operations"][0]["operationId"], created["operationId"]);
    desk.close().await;
}

#[tokio::test]
async fn an_operation_is_paused_resumed_and_cancelled() {
    let desk = Desk::open().await;
    dead_events(&desk, 3).await;
    let created = create(&desk, json!({}), 202).await;
    let id = created["operationId"].as_str().unwrap();
    let steer = async |verb: &str, expected| {
        desk.ask("operator", &format!("/operations/{id}/{verb}"), json!({}), expected).await
    };
    assert_eq!(steer("pause", 200).await["state"], "PAUSED");
    assert_eq!(steer("pause", 200).await["state"], "PAUSED", "twice is once");
    work(&desk).await;
    assert!(desk.claim("points", 10).await.is_empty());
    assert_eq!(steer("resume", 200).await["state"], "RUNNING");
    assert_eq!(steer("cancel", 200).await["state"], "CANCELLED");
    work(&desk).await;
    assert!(desk.claim("points", 10).await.is_empty());
    let refused = steer("resume", 409).await;
    assert_eq!(
        (&refused["code"], &refused["detail"]),
        (&json!("operationState"), &json!("it is CANCELLED, and cannot become RUNNING"))
    );
    desk.ask("operator", "/operations/unknown/pause", json!({}), 404).await;
    read(desk.get("viewer", "/operations/unknown").await, 404).await;
    desk.close().await;
}

#[tokio::test]
async fn an_invalid_operation_is_refused() {
    let desk = Desk::open().await;
    for (more, field) in [
        (json!({ "reason": null }), "reason"),
        (json!({ "reason": "" }), "reason"),
        (json!({ "ratePerSecond": 0 }), "ratePerSecond"),
        (json!({ "ramp": [] }), "ramp"),
        (json!({ "ramp": [1, 0] }), "ramp"),
        (json!({ "ramp": [1_000_001] }), "ramp"),
        (json!({ "ramp": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11] }), "ramp"),
        (json!({ "ramp": [1], "gateSeconds": 0 }), "gateSeconds"),
        (json!({ "ramp": [1], "gateSeconds": 86_401 }), "gateSeconds"),
        (json!({ "ramp": [1], "stopAbovePercent": 101 }), "stopAbovePercent"),
        (json!({ "gateSeconds": 30 }), "gateSeconds"),
        (json!({ "stopAbovePercent": 5 }), "stopAbovePercent"),
        (json!({ "eventIds": [] }), "eventIds"),
        (json!({ "eventIds": [""] }), "eventIds"),
        (json!({ "eventIds": (0..1_001).collect::<Vec<_>>() }), "eventIds"),
        (json!({ "failureGroup": "points" }), "failureGroup"),
        (json!({ "failureGroups": vec!["points-0123456789ab"; 51] }), "failureGroups"),
        (json!({ "consumers": "some" }), "consumers"),
        (json!({ "filter": null }), "filter"),
        (json!({ "consumerId": "a b" }), "consumerId"),
        (json!({ "filter": { "status": "DONE" } }), "status"),
        (json!({ "filter": { "colour": "red" } }), "filter.colour"),
        (json!({ "kind": "expire" }), "kind"),
    ] {
        let refused = create(&desk, more.clone(), 422).await;
        assert_eq!(refused["errors"][0]["field"], field, "{more}: {refused}");
    }
    desk.close().await;
}

/// The consumer takes everything that is due, and fails so many of it.
async fn consume(desk: &Desk, failures: usize) -> usize {
    let claimed = desk.claim("points", 500).await;
    let result = |(n, one): (usize, &Value)| {
        json!({ "deliveryId": one["deliveryId"], "leaseToken": one["leaseToken"], "success": n >= failures,
                "willRetry": false, "errorMessage": "still away" })
    };
    let results: Vec<_> = claimed.iter().enumerate().map(result).collect();
    if !results.is_empty() {
        desk.ask("consumer", "/consumers/points/settle", json!({ "results": results }), 200).await;
    }
    claimed.len()
}

/// The worker and the consumer work until the operation does not run any more.
async fn work_and_consume(desk: &Desk, path: &str, fails: bool) -> Value {
    let worker = tokio::spawn(Operations::new(desk.store.clone()).run(std::future::pending()));
    let ended = async {
        loop {
            consume(desk, if fails { usize::MAX } else { 0 }).await;
            let shown = read(desk.get("viewer", path).await, 200).await;
            if shown["state"] != "RUNNING" {
                return shown;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(60), ended).await.expect("it ends or stops");
    worker.abort();
    ended
}

/// G.12: over HTTP: the redrive stops by itself while the consumer fails, says why, is audited, and finishes after the repair.
/// Its events are listed by what came of them.
#[tokio::test]
async fn a_ramp_stops_by_itself_and_is_resumed() {
    let desk = Desk::open().await;
    dead_events(&desk, 40).await;
    let wanted = json!({ "ramp": [1, 10], "gateSeconds": 60, "stopAbovePercent": 20, "oldestFirst": true });
    let preview = create(&desk, json!({ "dryRun": true, "ramp": [1, 10] }), 200).await;
    let sizes: Vec<_> = preview["steps"].as_array().unwrap().iter().map(|step| step["size"].clone()).collect();
    assert_eq!(sizes, [1, 10, 29]);
    let created = create(&desk, wanted, 202).await;
    let id = created["operationId"].as_str().unwrap();
    let path = format!("/operations/{id}");
    let stopped = work_and_consume(&desk, &path, true).await;
    assert_eq!((&stopped["state"], &stopped["done"]), (&json!("PAUSED"), &json!(1)), "{stopped}");
    assert_eq!(stopped["stoppedBecause"], "1 of 1 failed again (100.0 %)");
    assert_eq!((&stopped["steps"][0]["state"], &stopped["steps"][1]["state"]), (&json!("stopped"), &json!("todo")));
    assert!(stopped["number"].as_i64().unwrap() > 0 && stopped["gateSeconds"] == 60, "{stopped}");
    let audit = read(desk.get("operator", &format!("/audit?target={id}")).await, 200).await;
    assert_eq!(audit["records"][0]["reason"], "1 of 1 failed again (100.0 %)", "{audit}");

    let resumed = desk.ask("operator", &format!("{path}/resume"), json!({}), 200).await;
    assert_eq!((&resumed["state"], &resumed["stoppedBecause"]), (&json!("RUNNING"), &Value::Null));
    let done = work_and_consume(&desk, &path, false).await;
    let figures = |name: &str| done[name].as_u64().unwrap();
    assert_eq!((&done["state"], figures("done"), figures("open")), (&json!("DONE"), 40, 0), "{done}");
    assert_eq!((figures("delivered"), figures("failedAgain")), (39, 1));
    let first = read(desk.get("viewer", &format!("{path}/items?limit=25")).await, 200).await;
    assert_eq!(first["items"][0], json!({ "eventId": "e0", "outcome": "failedAgain", "rule": null, "step": 1 }));
    let cursor = first["nextCursor"].as_str().unwrap();
    let rest = read(desk.get("viewer", &format!("{path}/items?limit=25&cursor={cursor}")).await, 200).await;
    assert_eq!((rest["items"].as_array().unwrap().len(), &rest["nextCursor"]), (15, &Value::Null));
    let failed = read(desk.get("viewer", &format!("{path}/items?outcome=failedAgain")).await, 200).await;
    assert_eq!(failed["items"].as_array().unwrap().len(), 1);
    for (query, field) in [("outcome=lost", "query"), ("cursor=x", "cursor"), ("limit=501", "limit")] {
        let refused = read(desk.get("viewer", &format!("{path}/items?{query}")).await, 400).await;
        assert_eq!(refused["errors"][0]["field"], field, "{refused}");
    }
    read(desk.get("viewer", "/operations/unknown/items").await, 404).await;
    read(desk.get("publisher", &format!("{path}/items")).await, 403).await;
    desk.close().await;
}

/// G.12: chosen events and groups of failures; lists go on behind a cursor.
#[tokio::test]
async fn chosen_events_and_groups_are_redriven() {
    let desk = Desk::open().await;
    dead_events(&desk, 6).await;
    let groups = read(desk.get("viewer", "/failures").await, 200).await;
    let group = &groups["groups"][0];
    let id = group["groupId"].as_str().unwrap();
    assert_eq!(group["topics"], json!([{ "topic": "order.paid", "count": 6 }]));
    assert_eq!((group["hours"].as_array().unwrap().len(), &group["hours"][23], &group["held"]), (24, &json!(6), &json!(0)));
    let listed = read(desk.get("viewer", &format!("/events?failureGroup={id}&limit=4")).await, 200).await;
    assert_eq!(listed["events"].as_array().unwrap().len(), 4);
    assert!(listed["nextCursor"].is_string());
    let counted = read(desk.get("viewer", &format!("/counts?failureGroup={id}")).await, 200).await;
    assert_eq!(counted["total"], json!({ "value": 6, "exact": true }));
    read(desk.get("viewer", "/events?failureGroup=points").await, 400).await;

    let chosen = create(&desk, json!({ "filter": {}, "eventIds": ["e1", "e4", "e1"] }), 202).await;
    let by_group = create(&desk, json!({ "filter": {}, "failureGroups": [id], "consumers": "failed" }), 202).await;
    work(&desk).await;
    let show = async |created: &Value| {
        let path = format!("/operations/{}", created["operationId"].as_str().unwrap());
        read(desk.get("viewer", &path).await, 200).await
    };
    let shown = show(&chosen).await;
    assert_eq!((&shown["done"], &shown["eventIds"]), (&json!(2), &json!(["e1", "e4"])), "{shown}");
    let shown = show(&by_group).await;
    // The first operation has made two of them due, and these wait for their attempt.
    assert_eq!((&shown["failureGroup"], &shown["consumers"]), (&json!(id), &json!("failed")), "{shown}");
    assert_eq!(desk.claim("points", 500).await.len(), 6);
    let first = read(desk.get("viewer", "/operations?limit=1").await, 200).await;
    assert_eq!(first["operations"][0]["operationId"], by_group["operationId"]);
    let cursor = first["nextCursor"].as_str().unwrap();
    let second = read(desk.get("viewer", &format!("/operations?limit=1&cursor={cursor}")).await, 200).await;
    assert_eq!(second["operations"][0]["operationId"], chosen["operationId"]);
    desk.close().await;
}

/// A repeated request with the same key begins one operation; another request with the key is refused.
#[tokio::test]
async fn a_repeated_request_begins_one_operation() {
    let desk = Desk::open().await;
    dead_events(&desk, 2).await;
    let post = async |body: &Value, expected: u16| {
        let request = desk.request("operator", reqwest::Method::POST, "/api/v1/operations");
        read(request.header("idempotency-key", "k1").json(body).send().await.unwrap(), expected).await
    };
    let wanted = json!({ "kind": "redrive", "filter": { "olderThanSeconds": 0 }, "reason": "mended" });
    let first = post(&wanted, 202).await;
    assert_eq!(post(&wanted, 202).await, first);
    let other = json!({ "kind": "redrive", "filter": {}, "reason": "mended" });
    assert_eq!(post(&other, 422).await["code"], "idempotencyKeyReused");
    let listed = read(desk.get("viewer", "/operations").await, 200).await;
    assert_eq!(listed["operations"].as_array().unwrap().len(), 1);
    desk.close().await;
}

/// G.12: events as a file: each once, in both forms, for operators, and written to the audit.
#[tokio::test]
async fn events_are_exported() {
    let desk = Desk::open().await;
    desk.subscribe("order.paid", "points", json!({})).await;
    for half in [0, 600] {
        let event = |n: u32| json!({ "eventId": format!("e{n}"), "topic": "order.paid", "payload": n });
        let events: Vec<_> = (half..half + 600).map(event).collect();
        desk.ask("publisher", "/events/batch", json!({ "events": events }), 200).await;
    }
    let odd = json!({ "eventId": "odd", "topic": "order.paid", "payload": 1, "key": "=1+1", "aggregateType": "A,\"B\"", "aggregateId": "-2" });
    desk.publish(odd, 202).await;
    fold(&desk).await;
    let export = async |role: &str, query: &str| desk.get(role, &format!("/export?{query}")).await;
    let answer = export("operator", "format=jsonl&topic=order.paid").await;
    assert_eq!((answer.status().as_u16(), &answer.headers()["content-type"]), (200, &"application/jsonl".parse().unwrap()));
    assert_eq!(answer.headers()["content-disposition"], "attachment; filename=\"events.jsonl\"");
    let text = answer.text().await.unwrap();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ids: std::collections::BTreeSet<_> = rows.iter().map(|row| row["eventId"].as_str().unwrap()).collect();
    assert_eq!((rows.len(), ids.len()), (1_201, 1_201), "each once");
    assert!(rows.iter().all(|row| row.get("payload").is_none()));
    let table = export("operator", "format=csv&key=%3D1%2B1").await.text().await.unwrap();
    let mut lines = table.split("\r\n");
    assert!(lines.next().unwrap().starts_with("eventId,topic,status,key,"), "{table}");
    let row = lines.next().unwrap();
    assert!(row.starts_with("odd,order.paid,PENDING,\"'=1+1\","), "{row}");
    assert!(row.contains("\"A,\"\"B\"\"\",\"'-2\""), "{row}");
    let chosen = export("operator", "eventIds=e7,odd,unknown").await.text().await.unwrap();
    assert_eq!(chosen.lines().count(), 2);
    assert_eq!(export("operator", "format=csv&topic=none").await.text().await.unwrap().lines().count(), 1, "headings");
    for (query, field) in [("format=xml", "format"), ("colour=red", "colour"), ("status=none", "status")] {
        let refused = read(export("operator", query).await, 400).await;
        assert_eq!(refused["errors"][0]["field"], field, "{query}: {refused}");
    }
    read(export("viewer", "format=csv").await, 403).await;
    let audit = read(desk.get("operator", "/audit?target=/export").await, 200).await;
    let outcomes: Vec<_> = audit["records"].as_array().unwrap().iter().map(|one| one["outcome"].clone()).collect();
    assert_eq!(outcomes, ["403", "400", "400", "400", "200", "200", "200", "200"], "{audit}");
    assert!(audit["records"][7]["detail"].as_str().unwrap().contains("order.paid"), "{audit}");
    desk.close().await;
}

/// Failures by kind, consumers with what waits, figures, and who holds what.
#[tokio::test]
async fn what_goes_wrong_is_seen() {
    let desk = Desk::open().await;
    dead_events(&desk, 5).await;
    desk.publish(json!({ "eventId": "held", "topic": "order.paid", "payload": 1 }), 202).await;
    desk.publish(json!({ "eventId": "waits", "topic": "order.paid", "payload": 1 }), 202).await;
    desk.store.age(Duration::from_secs(90)).await.unwrap();
    assert_eq!(desk.claim("points", 1).await.len(), 1);
    fold(&desk).await;
    let failures = read(desk.get("viewer", "/failures").await, 200).await;
    let group = &failures["groups"][0];
    assert_eq!((failures["groups"].as_array().unwrap().len(), &failures["cut"]), (1, &json!(false)));
    assert_eq!((&group["count"], &group["dead"], &group["consumerId"]), (&json!(5), &json!(5), &json!("points")));
    assert_eq!(
        (&group["fingerprint"], &group["errorCode"]),
        (&json!("the wallet of user # is away"), &json!("wallet"))
    );
    assert!(group["sampleEventId"].is_string() && group["first"].is_string() && group["last"].is_string());

    let consumers = read(desk.get("viewer", "/consumers").await, 200).await;
    let points = &consumers["consumers"][0];
    assert_eq!((&points["lag"], &points["dead"], &points["retrying"]), (&json!(2), &json!(5), &json!(0)));
    assert!(points["oldestAgeSeconds"].as_u64().unwrap() >= 90, "{points}");

    let stats = read(desk.get("viewer", "/stats?minutes=60").await, 200).await;
    assert_eq!((&stats["backlog"], &stats["dead"], &stats["processing"]), (&json!(2), &json!(5), &json!(1)));
    assert!(stats["oldestPendingSeconds"].as_f64().unwrap() >= 90.0, "{stats}");
    let sum =
        |field: &str| stats["minutes"].as_array().unwrap().iter().map(|one| one[field].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("created"), sum("dead")), (7, 5), "{stats}");
    read(desk.get("viewer", "/stats?minutes=0").await, 400).await;

    let instances = read(desk.get("viewer", "/instances").await, 200).await;
    let holdings = &instances["instances"][0]["holdings"];
    assert_eq!(
        (&holdings[0]["kind"], &holdings[0]["name"], &holdings[0]["count"]),
        (&json!("lane"), &json!("points"), &json!(1))
    );
    desk.close().await;
}

/// The messages of a stream.
struct Ear {
    messages: tokio::sync::mpsc::UnboundedReceiver<String>,
    heard: Vec<(String, Value)>,
}

impl Ear {
    /// Reads a stream in a task of its own, until it ends.
    fn of(mut response: reqwest::Response) -> (Self, tokio::task::JoinHandle<()>) {
        let (sender, messages) = tokio::sync::mpsc::unbounded_channel();
        let reading = tokio::spawn(async move {
            let mut text = String::new();
            while let Ok(Some(bytes)) = response.chunk().await {
                text.push_str(std::str::from_utf8(&bytes).unwrap());
                while let Some((message, rest)) = text.split_once("\n\n") {
                    let _ = sender.send(message.to_owned());
                    text = rest.to_owned();
                }
            }
        });
        (Self { messages, heard: Vec::new() }, reading)
    }

    /// The first message of this kind that matches, also one that is yet to come.
    async fn hear(&mut self, kind: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let hearing = async {
            loop {
                if let Some((_, data)) = self.heard.iter().find(|(said, data)| said == kind && fits(data)) {
                    return data.clone();
                }
                let message = self.messages.recv().await.expect("the stream goes on");
                let mut lines = message.lines();
                let said = lines.next().and_then(|line| line.strip_prefix("event: ")).unwrap_or_default().to_owned();
                let data = lines.next().and_then(|line| line.strip_prefix("data: ")).unwrap_or("null");
                self.heard.push((said, serde_json::from_str(data).unwrap()));
            }
        };
        tokio::time::timeout(Duration::from_secs(30), hearing).await.unwrap_or_else(|_| panic!("no {kind} that fits"))
    }
}

/// The stream reports new events, statuses, consumers, operations and figures, and ends with the server.
#[tokio::test]
async fn a_stream_reports_changes() {
    let desk = Desk::open().await;
    dead_events(&desk, 1).await;
    let response = desk.get("viewer", "/stream").await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let (mut ear, reading) = Ear::of(response);
    let stats = ear.hear("stats", |_| true).await;
    assert_eq!(stats["dead"], 1);
    desk.publish(json!({ "eventId": "new", "topic": "order.paid", "payload": "canary" }), 202).await;
    let event = ear.hear("event", |event| event["eventId"] == "new").await;
    assert_eq!(event["status"], "PENDING");
    assert!(!event.to_string().contains("canary"));
    ear.hear("consumer", |one| one["consumerId"] == "points" && one["lag"] == 1).await;
    let claimed = desk.claim("points", 1).await;
    let result =
        json!({ "deliveryId": claimed[0]["deliveryId"], "leaseToken": claimed[0]["leaseToken"], "success": true });
    desk.ask("consumer", "/consumers/points/settle", json!({ "results": [result] }), 200).await;
    ear.hear("status", |event| event["eventId"] == "new" && event["status"] == "CONSUMED").await;
    create(&desk, json!({}), 202).await;
    work(&desk).await;
    ear.hear("operation", |one| one["state"] == "DONE").await;
    ear.hear("status", |event| event["eventId"] == "e0" && event["status"] == "RETRYING").await;
    desk.close().await;
    reading.await.unwrap();
}
