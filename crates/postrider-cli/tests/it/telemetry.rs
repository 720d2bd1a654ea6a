//! Spans for a collector: a listener that decodes them, a real collector, and collectors that are away or never answer.

use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Attribute;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use postrider_proof::collector::{Collector, Span as CollectorSpan};
use prost::Message as _;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::process::{Database, Kind, Process};
use crate::webhooks::{SECRET, header, receive};

/// Spans as they come, until `enough` says so.
async fn collect(listener: &TcpListener, spans: &mut Vec<Span>, enough: impl Fn(&[Span]) -> bool) {
    let collecting = async {
        while !enough(spans) {
            let (headers, body) = receive(listener, "200 OK").await;
            assert_eq!(header(&headers, "content-type"), "application/x-protobuf");
            assert_eq!(header(&headers, "authorization"), "Bearer canary-token");
            let request = ExportTraceServiceRequest::decode(&body[..]).unwrap();
            for resource in request.resource_spans {
                let attributes = resource.resource.unwrap().attributes;
                assert!(attributes.iter().any(|one| one.key == "service.name"), "{attributes:?}");
                spans.extend(resource.scope_spans.into_iter().flat_map(|scoped| scoped.spans));
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), collecting).await.expect("the spans arrive");
}

fn attribute(span: &Span, name: &str) -> Option<Attribute> {
    span.attributes.iter().find(|one| one.key == name).and_then(|one| one.value.clone()?.value)
}

fn text(text: &str) -> Option<Attribute> {
    Some(Attribute::StringValue(text.into()))
}

/// D.10, G.6, S21: what the collector shows of an event is in the event's own trace: its writing, and each attempt to deliver it. It says
/// where and when, never what.
#[tokio::test]
async fn the_trace_of_an_event_arrives_at_the_collector() {
    let database = Database::make(Kind::Sqlite).await;
    let (collector, hook) =
        (TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let endpoint = format!("otel.endpoint=http://{}", collector.local_addr().unwrap());
    let secret = format!("webhook.secret=whsec_{SECRET}");
    let server = Process::start(
        &database,
        &[
            "--set",
            &endpoint,
            "--set",
            "otel.headers=Authorization=Bearer canary-token",
            "--set",
            &secret,
            "--set",
            "webhook.allow-hosts=127.0.0.1",
        ],
    );
    let called = json!({ "endpoint": format!("http://{}/", hook.local_addr().unwrap()) });
    server.admin(Method::PUT, "/subscriptions/order.paid/mailer", called, 200).await;
    server.admin(Method::PUT, "/subscriptions/order.paid/points", json!({ "via": "pull" }), 200).await;
    let event = json!({ "eventId": "order:7", "topic": "order.paid", "payload": "canary-payload", "key": "canary-key", "metadata": { "m": "canary-metadata" } });
    server.admin(Method::POST, "/events", event, 202).await;
    receive(&hook, "500 Oops").await;
    receive(&hook, "204 No Content").await;
    settle(&server, "points").await;
    let shown = server.admin(Method::GET, "/events/order:7", Value::Null, 200).await;

    let mut spans = Vec::new();
    let of = |spans: &[Span], name: &str| spans.iter().filter(|span| span.name == name).cloned().collect::<Vec<_>>();
    let requested = |spans: &[Span], route: &str| {
        of(spans, "request").into_iter().find(|span| attribute(span, "http.route") == text(route))
    };
    collect(&collector, &mut spans, |spans| {
        of(spans, "deliver").len() == 3 && requested(spans, "/api/v1/events/{eventId}").is_some()
    })
    .await;
    let publish = &of(&spans, "publish")[0];
    assert_eq!(hex::encode(&publish.span_id), shown["spanId"].as_str().unwrap(), "the event names what wrote it");
    for span in [&of(&spans, "deliver")[..], std::slice::from_ref(publish)].concat() {
        assert_eq!(hex::encode(&span.trace_id), shown["traceId"].as_str().unwrap(), "the trace is the event's own");
        assert!(span.name == "publish" || span.parent_span_id == publish.span_id, "caused by what wrote it");
        assert_eq!(attribute(&span, "messaging.message.id"), text("order:7"));
        assert_eq!(attribute(&span, "messaging.destination.name"), text("order.paid"));
        assert!(0 < span.start_time_unix_nano && span.start_time_unix_nano <= span.end_time_unix_nano);
    }
    let attempts: Vec<_> = of(&spans, "deliver")
        .iter()
        .filter(|span| attribute(span, "messaging.consumer.group.name") == text("mailer"))
        .map(|span| {
            let is_error = span.status.as_ref().is_some_and(|status| status.code == i32::from(StatusCode::Error));
            (attribute(span, "postrider.attempt"), attribute(span, "postrider.outcome"), is_error)
        })
        .collect();
    let attempt = |n| Some(Attribute::IntValue(n));
    assert_eq!(attempts, [(attempt(1), text("failed"), true), (attempt(2), text("done"), false)]);
    assert_eq!((publish.kind, attribute(publish, "postrider.outcome")), (SpanKind::Producer.into(), text("accepted")));
    let request = requested(&spans, "/api/v1/events").unwrap();
    assert_eq!(publish.parent_span_id, request.span_id, "caused by the request");
    assert_eq!(attribute(&request, "http.response.status_code"), Some(Attribute::IntValue(202)));
    let everything = format!("{spans:?}");
    assert!(!everything.contains("canary") && !everything.contains(server.token()), "{everything}");

    // A caller who is in a trace already: its request and its event are in that one.
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let request = server.client.post(format!("{}/api/v1/events", server.url)).bearer_auth(server.token());
    let request = request.header("traceparent", traceparent).json(&json!({ "topic": "order.paid", "payload": 1 }));
    assert_eq!(request.send().await.unwrap().status().as_u16(), 202);
    let theirs = |span: &Span| traceparent.contains(&hex::encode(&span.trace_id));
    collect(&collector, &mut spans, |spans| {
        ["request", "publish"].iter().all(|name| of(spans, name).iter().any(theirs))
    })
    .await;
    let request = of(&spans, "request").into_iter().find(theirs).unwrap();
    assert_eq!(hex::encode(&request.parent_span_id), "00f067aa0ba902b7");
    server.kill();
    database.drop().await;
}

/// A.16: with default settings the log has its lines, whatever the database's driver asks of the log itself.
#[tokio::test]
async fn the_log_has_its_lines_on_sqlite_postgres_and_mysql() {
    for kind in [Kind::Sqlite, Kind::Postgres, Kind::MySql] {
        let database = Database::make(kind).await;
        let server = Process::start(&database, &[]);
        server.admin(Method::PUT, "/subscriptions/order.paid/points", json!({}), 200).await;
        for n in 0..20 {
            server.admin(Method::POST, "/events", json!({ "topic": "order.paid", "payload": n }), 202).await;
        }
        server.stop();
        let log = std::fs::read_to_string(database.folder().join("log")).unwrap();
        assert_eq!(log.matches("Outbox enqueued").count(), 20, "{log}");
        assert!(log.contains("the relay has started") && log.contains("the relay has finished"), "{log}");
        database.drop().await;
    }
}

/// Claims one delivery and settles it.
async fn settle(server: &Process, consumer: &str) {
    let claimed = server.admin(Method::POST, &format!("/consumers/{consumer}/claim"), json!({ "max": 1 }), 200).await;
    let held = &claimed["deliveries"][0];
    let result = json!({ "deliveryId": held["deliveryId"], "leaseToken": held["leaseToken"], "success": true });
    server.admin(Method::POST, &format!("/consumers/{consumer}/settle"), json!({ "results": [result] }), 200).await;
}

/// D.10, G.5, G.6: a real collector shows one trace: the caller's span, the request, the publish, and below that each
/// delivery. The webhook's `traceparent` names its delivery, and a pulling consumer's delivery ends when it is settled.
#[tokio::test]
async fn a_real_collector_shows_one_trace_from_the_caller_to_its_consumers() {
    let (trace, caller) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let mut collector = Collector::start().await;
    let (database, hook) = (Database::make(Kind::Sqlite).await, TcpListener::bind("127.0.0.1:0").await.unwrap());
    let endpoint = format!("otel.endpoint={}", collector.endpoint);
    let secret = format!("webhook.secret=whsec_{SECRET}");
    let hosts = "webhook.allow-hosts=127.0.0.1";
    let server = Process::start(&database, &["--set", &endpoint, "--set", &secret, "--set", hosts]);
    let called = json!({ "endpoint": format!("http://{}/", hook.local_addr().unwrap()) });
    server.admin(Method::PUT, "/subscriptions/order.paid/mailer", called, 200).await;
    server.admin(Method::PUT, "/subscriptions/order.paid/points", json!({ "via": "pull" }), 200).await;
    let request = server.client.post(format!("{}/api/v1/events", server.url)).bearer_auth(server.token());
    let request = request.header("traceparent", format!("00-{trace}-{caller}-01"));
    let event = json!({ "eventId": "order:7", "topic": "order.paid", "payload": 1 });
    assert_eq!(request.json(&event).send().await.unwrap().status().as_u16(), 202);
    let (called, _) = receive(&hook, "204 No Content").await;

    let find = |spans: &[CollectorSpan], name: &str, about: &str| {
        let is_it = |span: &&CollectorSpan| span.name == name && span.attributes.values().any(|value| value == about);
        spans.iter().find(is_it).cloned()
    };
    let spans = collector.spans(|spans| find(spans, "deliver", "Str(mailer)").is_some()).await;
    assert_eq!(find(&spans, "deliver", "Str(points)"), None, "not handed out yet");
    let claimed = server.admin(Method::POST, "/consumers/points/claim", json!({ "max": 1 }), 200).await;
    let held = &claimed["deliveries"][0];
    let shown = server.admin(Method::GET, "/events/order:7", Value::Null, 200).await;
    // The batch with this request's span has no span of the delivery that was handed out before it.
    let spans = collector.spans(|spans| find(spans, "request", "Str(/api/v1/events/{eventId})").is_some()).await;
    assert_eq!(find(&spans, "deliver", "Str(points)"), None, "not settled yet");
    let result = json!({ "deliveryId": held["deliveryId"], "leaseToken": held["leaseToken"], "success": false, "errorCode": "full" });
    server.admin(Method::POST, "/consumers/points/settle", json!({ "results": [result] }), 200).await;
    let spans = collector.spans(|spans| find(spans, "deliver", "Str(points)").is_some()).await;

    let request = find(&spans, "request", "Str(/api/v1/events)").unwrap();
    let publish = find(&spans, "publish", "Str(order.paid)").unwrap();
    let (mailer, points) =
        (find(&spans, "deliver", "Str(mailer)").unwrap(), find(&spans, "deliver", "Str(points)").unwrap());
    for (span, parent) in [(&request, caller), (&publish, &request.id), (&mailer, &publish.id), (&points, &publish.id)]
    {
        assert_eq!((&*span.trace_id, &*span.parent_id), (trace, parent), "{span:?} of {spans:#?}");
    }
    assert_eq!((&shown["traceId"], &shown["spanId"]), (&json!(trace), &json!(publish.id)));
    assert_eq!(header(&called, "traceparent"), format!("00-{trace}-{}-01", mailer.id));
    assert_eq!(points.attributes["postrider.outcome"], "Str(failed)");
    assert_eq!((&*points.attributes["error.type"], &*points.status), ("Str(full)", "STATUS_CODE_ERROR"));
    server.kill();
    database.drop().await;
}

/// G.6: a collector that is away, or that takes a connection and never answers, slows nothing and stops nothing.
#[tokio::test]
async fn a_collector_that_is_away_or_silent_slows_nothing() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    for endpoint in [silent.local_addr().unwrap(), gone] {
        let database = Database::make(Kind::Sqlite).await;
        let server = Process::start(&database, &["--set", &format!("otel.endpoint=http://{endpoint}")]);
        server.admin(Method::PUT, "/subscriptions/order.paid/points", json!({}), 200).await;
        let began = Instant::now();
        for n in 0..10 {
            let events: Vec<_> = (0..1_000).map(|_| json!({ "topic": "order.paid", "payload": n })).collect();
            server.admin(Method::POST, "/events/batch", json!({ "events": events }), 200).await;
        }
        let claimed = server.admin(Method::POST, "/consumers/points/claim", json!({ "max": 500 }), 200).await;
        assert_eq!(claimed["deliveries"].as_array().unwrap().len(), 500);
        // More spans than may wait, and a collector that is given ten seconds for an answer.
        server.stop();
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
        let log = std::fs::read_to_string(database.folder().join("log")).unwrap();
        assert!(log.matches("takes no spans").count() <= 1, "logged once: {log}");
        assert!(endpoint != gone || log.contains("takes no spans"), "{log}");
        database.drop().await;
    }
}
