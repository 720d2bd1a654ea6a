//! Limits at their boundaries, and round trips through each form an envelope takes.

use proptest::option::of;
use proptest::prelude::*;
use time::Duration;

use super::*;

fn plain() -> Envelope {
    Envelope::new(EventId::stored("e1".into()), "order.paid", "{}", OffsetDateTime::UNIX_EPOCH)
}

/// F40: one byte over the limit is refused, the limit itself is not.
#[test]
fn the_payload_stops_at_its_limit() {
    let mut envelope = plain();
    envelope.payload = format!("\"{}\"", "a".repeat(limits::PAYLOAD_BYTES - 2));
    envelope.check().expect("exactly the limit");
    envelope.payload.push('a');
    let refused = envelope.check().expect_err("one byte over");
    assert!(matches!(refused, Error::TooLarge { field: "payload", .. }), "{refused}");
    assert!(refused.to_string().contains("1048576"), "{refused}");
}

/// F39: NUL cannot be stored by every store, so no store takes it; its escaped form is ordinary text.
#[test]
fn nul_is_refused_and_its_escape_is_kept() {
    let mut envelope = plain();
    envelope.payload = "\"a\0b\"".into();
    assert!(matches!(envelope.check(), Err(Error::Invalid { field: "payload", .. })));
    envelope.payload = r#""a\u0000b""#.into();
    envelope.check().expect("escapes are text");
    // F60: half of a character pair is JSON that many readers refuse.
    envelope.payload = r#""a\ud800""#.into();
    assert!(matches!(envelope.check(), Err(Error::Invalid { field: "payload", .. })));
}

#[test]
fn each_bad_field_is_named() {
    type Spoil = fn(&mut Envelope);
    let cases: [(&str, Spoil); 9] = [
        ("topic", |e| e.topic = "no spaces".into()),
        ("key", |e| e.key = Some("k".repeat(limits::KEY_CHARS + 1))),
        ("key", |e| e.key = Some(String::new())),
        ("traceId", |e| e.trace_id = Some("t".repeat(limits::LABEL_CHARS + 1))),
        ("aggregateId", |e| e.aggregate = Some(Aggregate::new("ORDER", ""))),
        ("metadata", |e| e.metadata = Some("[1]".into())),
        ("metadata", |e| e.metadata = Some(format!("{{\"a\":\"{}\"}}", "m".repeat(limits::METADATA_BYTES)).into())),
        ("routingKey", |e| e.routing_key = Some("r".repeat(limits::ROUTE_BYTES + 1))),
        ("maxAttempts", |e| e.max_attempts = Some(0)),
    ];
    for (name, spoil) in cases {
        let mut envelope = plain();
        spoil(&mut envelope);
        let refused = envelope.check().expect_err(name).to_string();
        assert!(refused.starts_with(name), "{name}: {refused}");
    }
}

#[test]
fn a_payload_keeps_every_digit_and_space() {
    let json = r#"{"eventId":"e","topic":"t","occurredAt":"2026-01-01T00:00:00Z","payload":{"n": 12345678901234567890.10, "a":1,"a":2}}"#;
    let envelope: Envelope = serde_json::from_str(json).expect("valid");
    assert_eq!(envelope.payload, r#"{"n": 12345678901234567890.10, "a":1,"a":2}"#);
    assert!(serde_json::to_string(&envelope).expect("writes").contains(&envelope.payload));
}

#[test]
fn the_same_fact_may_come_from_another_request() {
    let (first, mut second) = (plain(), plain());
    second.trace_id = Some("other".into());
    second.occurred_at += Duration::SECOND;
    assert!(first.same_content(&second));
    second.payload = "{ }".into();
    assert!(!first.same_content(&second));
}

fn label() -> impl Strategy<Value = String> {
    "[^\\p{C}/]{1,20}"
}

prop_compose! {
    fn payload()(kind in 0..3, text in "\\PC{0,50}", bytes in prop::collection::vec(any::<u8>(), 0..50)) -> (String, &'static str, Encoding) {
        use base64::prelude::*;
        match kind {
            0 => (serde_json::to_string(&text).expect("a string is JSON"), JSON, Encoding::Plain),
            1 => (text, "text/plain", Encoding::Plain),
            _ => (BASE64_STANDARD.encode(bytes), "application/octet-stream", Encoding::Base64),
        }
    }
}

prop_compose! {
    fn envelope()(
        (event_id, topic) in (label(), "[A-Za-z0-9._-]{1,30}"),
        (payload, payload_type, payload_encoding) in payload(),
        (key, trace_id, span_id, parent) in (of(label()), of(label()), of(label()), of(label())),
        (aggregate, tenant_id, store_id) in (of((label(), label())), of(label()), of(label())),
        (service, operation, user_id, client_request_id) in (of(label()), of(label()), of(label()), of(label())),
        (metadata, max_attempts) in (of("[a-z]{0,9}"), of(1_u32..100)),
        (occurred, expire, deliver) in (0_i64..4_000_000_000_000, of(0_i64..4_000_000_000), of(0_i64..4_000_000_000)),
        (exchange, routing_key) in (of(label()), of(label())),
    ) -> Envelope {
        let at = |seconds| OffsetDateTime::from_unix_timestamp(seconds).expect("in range");
        Envelope {
            event_id: EventId::stored(event_id), topic, key, payload, payload_type: payload_type.into(), payload_encoding,
            trace_id, span_id, parent_event_id: parent.map(EventId::stored),
            aggregate: aggregate.map(|(kind, id)| Aggregate { kind, id }), tenant_id, store_id,
            initiator: Initiator { service, operation, user_id, client_request_id, token_id: None },
            cloud_event_id: None,
            metadata: metadata.map(|text| format!("{{\"k\":{text:?}}}").into()),
            occurred_at: OffsetDateTime::UNIX_EPOCH + Duration::milliseconds(occurred),
            expire_at: expire.map(at), deliver_at: deliver.map(at), max_attempts, exchange, routing_key,
        }
    }
}

proptest! {
    #[test]
    fn json_brings_back_what_it_took(envelope in envelope()) {
        let json = serde_json::to_string(&envelope).expect("writes");
        prop_assert_eq!(serde_json::from_str::<Envelope>(&json).expect("reads"), envelope);
    }

    /// G.5, F63: as a CloudEvent it comes back with the id of that CloudEvent, and all else as it was.
    #[test]
    fn cloudevents_bring_back_what_they_took(envelope in envelope()) {
        let json = cloudevents::to_structured(&envelope).expect("writes");
        let mut read = cloudevents::from_structured(&json, OffsetDateTime::UNIX_EPOCH).expect("reads");
        prop_assert_eq!(read.cloud_event_id.as_deref(), Some(envelope.event_id.as_str()));
        let again = cloudevents::to_structured(&read).expect("writes");
        let same = |one: &str| serde_json::from_str::<serde_json::Value>(one).expect("JSON");
        prop_assert_eq!(same(&again), same(&json));
        read.metadata = read.metadata.as_deref().and_then(origin::Origin::taken_from).map(Into::into);
        (read.event_id, read.cloud_event_id) = (envelope.event_id.clone(), None);
        prop_assert_eq!(read, envelope);
    }
}

/// F63: id, source, schema and extensions come out as they went in, numbers and booleans included.
#[test]
fn a_cloudevent_comes_out_as_it_went_in() {
    let json = r#"{"specversion":"1.0","id":"1","source":"https://shop.example/orders","type":"order.paid","subject":"plain","time":"2026-11-18T08:00:00Z","datacontenttype":"application/json","dataschema":"https://shop.example/schema/1","comexampleflag":true,"comexamplenumber":42,"tracestate":"a=b","metadata":"{\"z\": 1.0}","data":{"n":1.50}}"#;
    let envelope = cloudevents::from_structured(json, OffsetDateTime::UNIX_EPOCH).expect("reads");
    envelope.check().expect("it is an event");
    assert_eq!(envelope.event_id, cloudevents::event_id("https://shop.example/orders", "1"));
    let value = |json: &str| serde_json::from_str::<serde_json::Value>(json).expect("JSON");
    assert_eq!(value(&cloudevents::to_structured(&envelope).expect("writes")), value(json));
    let other = json.replace("shop.example/orders", "bank.example/orders");
    let other = cloudevents::from_structured(&other, OffsetDateTime::UNIX_EPOCH).expect("reads");
    assert_ne!(other.event_id, envelope.event_id, "the same id of another source is another event");
}
