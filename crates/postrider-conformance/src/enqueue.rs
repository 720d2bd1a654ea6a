//! `enqueue`: an event is written in the caller's transaction, exactly once and unchanged.

use std::time::Duration;

use postrider::clock::ManualClock;
use postrider::envelope::{Encoding, Envelope};
use postrider::prelude::*;
use postrider::store::{Filter, List, Routing};
use postrider::{Aggregate, Draft, Enqueued, Error, Initiator, Outbox, Unheard};
use serde_json::json;
use time::OffsetDateTime;

use crate::fold::fold_all;
use crate::steps::*;
use crate::{Harness, hostile};

/// A.1: after a commit, both the change and the event exist.
pub async fn commit_writes_the_event_and_the_change<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    h.make_counter("orders").await;
    let mut tx = h.store().begin().await.unwrap();
    h.add(&mut *tx, "orders").await.unwrap();
    let outbox = Outbox::new(h.store().clone());
    let enqueued = outbox.enqueue(&mut *tx, draft("e")).await.unwrap();
    h.store().commit(tx).await.unwrap();

    assert!(matches!(enqueued, Enqueued::Accepted(id) if id.as_str() == "e"));
    assert_eq!(h.counter("orders").await, 1);
    assert_eq!(find(&h, "e").await.routing, Routing::Routed);
    assert_eq!(ids(&claim(&h, 10).await), ["e"]);
}

/// A.1: after a rollback, neither exists.
pub async fn rollback_leaves_neither_event_nor_change<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    h.make_counter("orders").await;
    let mut tx = h.store().begin().await.unwrap();
    h.add(&mut *tx, "orders").await.unwrap();
    let outbox = Outbox::new(h.store().clone());
    outbox.enqueue_many(&mut *tx, drafts(3)).await.unwrap();
    drop(tx);

    // With a single writer, this transaction waits for the rollback, so the checks below see the final state.
    enqueue_one(&h, draft("after")).await;
    assert_eq!(h.counter("orders").await, 0);
    assert!(!is_stored(&h, "e00000").await);
    assert_eq!(ids(&claim(&h, 10).await), ["after"]);
}

/// A.14: a task aborted inside its transaction leaves nothing behind and blocks no other transaction.
pub async fn a_transaction_dropped_in_a_crash_leaves_nothing<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    h.make_counter("orders").await;
    let (in_the_middle, signal) = tokio::sync::oneshot::channel();
    let dying = h.clone();
    let task = tokio::spawn(async move {
        let mut tx = dying.store().begin().await.unwrap();
        dying.add(&mut *tx, "orders").await.unwrap();
        let outbox = Outbox::new(dying.store().clone());
        outbox.enqueue(&mut *tx, draft("e")).await.unwrap();
        in_the_middle.send(()).unwrap();
        // An abort instead of a panic: the drop is the same, and no panic message appears in the test output.
        std::future::pending::<()>().await;
        drop(tx);
    });
    signal.await.unwrap();
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());

    assert!(matches!(enqueue_one(&h, draft("e")).await, Enqueued::Accepted(_)));
    assert_eq!(h.counter("orders").await, 0);
    assert_eq!(ids(&claim(&h, 10).await), ["e"]);
}

/// A draft with every field.
fn full(id: &str, now: OffsetDateTime) -> Draft {
    Draft::text(TOPIC, "text/plain; charset=utf-8", "付款成功 ✓ 'quoted' \"double\" \\ %s $1 ?1")
        .event_id(id)
        .key("order-7")
        .aggregate(Aggregate::new("ORDER", 7))
        .tenant("tenant-1")
        .store("shop-2")
        .trace("4bf92f3577b34da6a3ce929d0e0e4736", Some("00f067aa0ba902b7".into()))
        .parent("order:7:created")
        .initiator(Initiator {
            service: Some("shop".into()),
            operation: Some("pay".into()),
            user_id: Some("u-1".into()),
            client_request_id: Some("r-1".into()),
            token_id: Some("t-1".into()),
        })
        .metadata(json!({"requestId": "r-1", "big": 9_007_199_254_740_993_i64}).as_object().unwrap())
        .occurred_at(now - HOUR)
        .deliver_at(now - MINUTE)
        .expire_at(now + HOUR)
        .max_attempts(3)
        .route("orders", "order.paid.eu")
}

/// A.2: every field comes back byte for byte, times to the millisecond.
pub async fn every_field_of_an_event_comes_back<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    let now = h.store().now().await.unwrap();
    let bytes = Draft::bytes(TOPIC, "application/octet-stream", [0_u8, 255, 128]).event_id("bytes");
    enqueue(&h, [full("order:7:paid", now), bytes]).await;

    let found = find(&h, "order:7:paid").await.envelope;
    assert_eq!(found.payload, "付款成功 ✓ 'quoted' \"double\" \\ %s $1 ?1");
    assert_eq!(found.payload_type, "text/plain; charset=utf-8");
    assert_eq!(found.key.as_deref(), Some("order-7"));
    assert_eq!(found.aggregate, Some(Aggregate::new("ORDER", 7)));
    assert_eq!((found.tenant_id.as_deref(), found.store_id.as_deref()), (Some("tenant-1"), Some("shop-2")));
    assert_eq!(found.trace_id.as_deref(), Some("4bf92f3577b34da6a3ce929d0e0e4736"));
    assert_eq!(found.span_id.as_deref(), Some("00f067aa0ba902b7"));
    assert_eq!(found.parent_event_id.as_ref().unwrap().as_str(), "order:7:created");
    assert_eq!(found.initiator.client_request_id.as_deref(), Some("r-1"));
    assert_eq!(found.initiator.service.as_deref(), Some("shop"));
    assert_eq!(found.metadata.as_deref(), Some(r#"{"big":9007199254740993,"requestId":"r-1"}"#));
    let millis = |at: OffsetDateTime| at.unix_timestamp_nanos() / 1_000_000;
    assert_eq!(millis(found.occurred_at), millis(now - HOUR));
    assert_eq!(found.deliver_at.map(millis), Some(millis(now - MINUTE)));
    assert_eq!(found.expire_at.map(millis), Some(millis(now + HOUR)));
    assert_eq!(found.max_attempts, Some(3));
    assert_eq!((found.exchange.as_deref(), found.routing_key.as_deref()), (Some("orders"), Some("order.paid.eu")));

    let claimed = claim_keyed(&h, 1).await.deliveries.remove(0);
    assert_eq!(*claimed.envelope, found, "a claim brings the same event as a look");
    let bytes = find(&h, "bytes").await.envelope;
    assert_eq!((bytes.payload.as_str(), bytes.payload_encoding), ("AP+A", Encoding::Base64));
}

/// A.3: a repeated event is reported as a duplicate and stored once.
pub async fn the_same_event_twice_is_a_duplicate<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    assert!(matches!(enqueue_one(&h, draft("e")).await, Enqueued::Accepted(_)));
    assert!(matches!(enqueue_one(&h, draft("e")).await, Enqueued::Duplicate(_)));
    let lease = claim(&h, 10).await;
    assert_eq!(ids(&lease), ["e"]);
    settle(&h, &lease).await;

    // The same holds next to new events, and after the event was delivered.
    let enqueued = enqueue(&h, [draft("f"), draft("e"), draft("g")]).await;
    let kinds: Vec<bool> = enqueued.iter().map(|e| matches!(e, Enqueued::Duplicate(_))).collect();
    assert_eq!(kinds, [false, true, false]);
    assert_eq!(ids(&claim(&h, 10).await), ["f", "g"]);
}

/// A.3: the same id with other content is an error and changes nothing.
pub async fn the_same_id_with_other_content_is_a_conflict<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    let outbox = Outbox::new(h.store().clone());
    for other in [
        Draft::json(TOPIC, &json!({"n": "other"})).unwrap().event_id("e"),
        draft("e").key("k"),
        draft("e").tenant("t"),
        Draft::json("order.other", &json!({"n": "e"})).unwrap().event_id("e"),
    ] {
        let mut tx = h.store().begin().await.unwrap();
        let refused = outbox.enqueue_many(&mut *tx, [draft("new"), other]).await.unwrap_err();
        assert!(matches!(&refused, Error::IdConflict { event_id } if event_id == "e"), "{refused:?}");
        drop(tx);
    }
    enqueue_one(&h, draft("after")).await;
    assert!(!is_stored(&h, "new").await);
    assert_eq!(find(&h, "e").await.envelope.payload, r#"{"n":"e"}"#);
}

/// A.3: the rule also holds within one batch.
pub async fn the_same_id_twice_in_one_batch<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    let enqueued = enqueue(&h, [draft("e"), draft("f"), draft("e")]).await;
    assert!(matches!(enqueued[0], Enqueued::Accepted(_)));
    assert!(matches!(enqueued[1], Enqueued::Accepted(_)));
    assert!(matches!(&enqueued[2], Enqueued::Duplicate(id) if id.as_str() == "e"));
    assert_eq!(ids(&claim(&h, 10).await), ["e", "f"]);

    let mut tx = h.store().begin().await.unwrap();
    let batch = [draft("g"), draft("g").key("other")];
    let refused = Outbox::new(h.store().clone()).enqueue_many(&mut *tx, batch).await.unwrap_err();
    assert!(matches!(refused, Error::IdConflict { .. }), "{refused:?}");
    drop(tx);
    enqueue_one(&h, draft("after")).await;
    assert!(!is_stored(&h, "g").await);
}

/// A.3, A.15: the same event written concurrently, by one transaction per connection.
pub async fn concurrent_duplicates_store_one_event<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    h.make_counter("accepted").await;
    let writers = (0..h.features().connections.min(8)).map(|_| {
        let h = h.clone();
        async move {
            let mut tx = h.store().begin().await.unwrap();
            let enqueued = Outbox::new(h.store().clone()).enqueue(&mut *tx, draft("e")).await.unwrap();
            if matches!(enqueued, Enqueued::Accepted(_)) {
                h.add(&mut *tx, "accepted").await.unwrap();
            }
            h.store().commit(tx).await.unwrap();
            enqueued
        }
    });
    let answers = together(writers).await;
    let duplicates = answers.iter().filter(|e| matches!(e, Enqueued::Duplicate(_))).count();
    assert_eq!(duplicates, answers.len() - 1, "{answers:?}");
    assert_eq!(h.counter("accepted").await, 1);
    assert_eq!(claim(&h, 10).await.deliveries.len(), 1);
}

/// A.3: different events with one id, written concurrently: one is stored, the others are refused.
pub async fn concurrent_conflicts_store_one_event<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    let writers = (0..h.features().connections.min(8)).map(|n| {
        let h = h.clone();
        async move {
            let mut tx = h.store().begin().await.unwrap();
            let draft = Draft::json(TOPIC, &json!({ "n": n })).unwrap().event_id("e");
            let enqueued = Outbox::new(h.store().clone()).enqueue(&mut *tx, draft).await;
            if enqueued.is_ok() {
                h.store().commit(tx).await.unwrap();
            }
            enqueued
        }
    });
    let answers = together(writers).await;
    let conflicts = answers.iter().filter(|e| matches!(e, Err(Error::IdConflict { .. }))).count();
    assert_eq!(conflicts, answers.len() - 1, "{answers:?}");
    assert_eq!(claim(&h, 10).await.deliveries.len(), 1);
}

/// DESIGN 6: 'A', 'a' and 'A ' are three ids, and so are the two Unicode forms of é.
pub async fn ids_are_compared_byte_for_byte<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    let written = ["A", "a", "A ", " A", "\u{e9}", "e\u{301}", "ß", "ss", "ſ", "İ", "i"];
    let enqueued = enqueue(&h, written.map(draft)).await;
    assert!(enqueued.iter().all(|e| matches!(e, Enqueued::Accepted(_))), "{enqueued:?}");
    for id in written {
        assert_eq!(find(&h, id).await.envelope.event_id.as_str(), id);
    }
    assert_eq!(ids(&claim(&h, 100).await), written);
    assert!(!is_stored(&h, "E\u{301}").await);
}

/// One result per event, in the order of the batch.
pub async fn answers_come_in_the_order_of_the_batch<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    let backwards: Vec<String> = (0..1000).rev().map(|n| format!("e{n:04}")).collect();
    let enqueued = enqueue(&h, backwards.iter().map(draft)).await;
    let answered: Vec<&str> = enqueued.iter().map(|e| e.event_id().as_str()).collect();
    assert_eq!(answered, backwards);
    // The sequence numbers follow the order of the batch too.
    assert_eq!(ids(&claim(&h, 500).await), backwards[..500]);

    let mut tx = h.store().begin().await.unwrap();
    let outbox = Outbox::new(h.store().clone());
    assert!(outbox.enqueue_many(&mut *tx, Vec::<Draft>::new()).await.unwrap().is_empty());
    let refused = outbox.enqueue_many(&mut *tx, drafts(1001)).await.unwrap_err();
    assert!(matches!(refused, Error::TooLarge { field: "events", .. }), "{refused:?}");
}

/// F16 sequence gap: sequence numbers commit out of order, so no reader may continue after "the last id seen".
pub async fn an_earlier_id_that_commits_later_is_still_delivered<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    let outbox = Outbox::new(h.store().clone());
    let mut first = h.store().begin().await.unwrap();
    outbox.enqueue(&mut *first, draft("first")).await.unwrap();
    let other = h.clone();
    let second = tokio::spawn(async move { enqueue_one(&other, draft("second")).await });
    if h.features().concurrent_transactions {
        second.await.unwrap();
        let lease = claim(&h, 10).await;
        assert_eq!(ids(&lease), ["second"], "the first is not committed");
        settle(&h, &lease).await;
        h.store().commit(first).await.unwrap();
        assert_eq!(ids(&claim(&h, 10).await), ["first"]);
    } else {
        // With one writer there is no gap: the second transaction cannot begin before the first ends. This sleep is the
        // only one in this module, because the check is that nothing happens.
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!second.is_finished());
        h.store().commit(first).await.unwrap();
        second.await.unwrap();
        assert_eq!(ids(&claim(&h, 10).await), ["first", "second"]);
    }
}

/// F14 clock skew: a process clock that is ten minutes off affects `occurredAt` only.
pub async fn a_clock_that_is_ten_minutes_off_harms_nothing<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    let now = h.store().now().await.unwrap();
    for (name, clock) in [("ahead", now + 10 * MINUTE), ("behind", now - 10 * MINUTE)] {
        let outbox = Outbox::new(h.store().clone()).clock(ManualClock::at(clock));
        let mut tx = h.store().begin().await.unwrap();
        let batch = [
            draft(format!("{name}-now")),
            draft(format!("{name}-delayed")).delay(5 * MINUTE),
            draft(format!("{name}-short")).expire_after(5 * MINUTE),
        ];
        outbox.enqueue_many(&mut *tx, batch).await.unwrap();
        h.store().commit(tx).await.unwrap();

        let found = find(&h, &format!("{name}-now")).await;
        assert!(
            is_about((found.envelope.occurred_at - clock).unsigned_abs(), Duration::ZERO),
            "the time of its own clock"
        );
        assert!(is_about((found.created_at - now).unsigned_abs(), Duration::ZERO));
        let delayed = delivery(&h, &format!("{name}-delayed")).await;
        assert!(is_about((delayed.due_at - now).unsigned_abs(), 5 * MINUTE), "{delayed:?}");

        let lease = claim(&h, 10).await;
        assert_eq!(ids(&lease), [format!("{name}-now"), format!("{name}-short")], "neither late nor early");
        assert!(lease.deliveries.iter().all(|d| !d.expired));
        let leased = delivery(&h, &format!("{name}-now")).await;
        assert!(is_about((leased.lock_until.unwrap() - now).unsigned_abs(), LEASE), "{leased:?}");
        settle(&h, &lease).await;
    }
    age(&h, 6 * MINUTE).await;
    assert_eq!(ids(&claim(&h, 10).await), ["ahead-delayed", "behind-delayed"]);
}

/// F39: unusual text is stored unchanged.
pub async fn odd_text_comes_back_as_it_went_in<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    let kept = [
        r#""\u0000 written as an escape""#,
        r#""a character pair: \ud83d\ude00""#,
        r#"{"n":1.10,"n":1e40,"big":12345678901234567890}"#,
        "not JSON at all {",
        "\"\u{feff}\u{202e}\u{10ffff}\u{7f}\u{1}\r\n\t\"",
        "",
        "  ",
    ];
    let written = kept.iter().enumerate();
    enqueue(&h, written.map(|(n, text)| Draft::text(TOPIC, "application/json", *text).event_id(n.to_string()))).await;
    for (n, text) in kept.iter().enumerate() {
        assert_eq!(find(&h, &n.to_string()).await.envelope.payload, *text);
    }
    let claimed = claim(&h, 10).await;
    let payloads: Vec<&str> = claimed.deliveries.iter().map(|d| d.envelope.payload.as_str()).collect();
    assert_eq!(payloads, kept);
}

/// F39, F60: JSON that not every reader can read is refused before anything is written.
pub async fn an_unreadable_payload_is_refused<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    for (name, payload) in hostile::unreadable_payloads() {
        let outbox = Outbox::new(h.store().clone());
        let mut tx = h.store().begin().await.unwrap();
        let refused = outbox.enqueue(&mut *tx, Draft::text(TOPIC, "application/json", payload).event_id(&*name)).await;
        assert!(matches!(refused, Err(Error::Invalid { field: "payload", .. })), "{name}: {refused:?}");
        drop(tx);
        assert!(!is_stored(&h, &name).await, "{name}");
    }
}

/// F40: a payload of exactly 1 MiB is stored and delivered.
pub async fn a_payload_of_the_largest_size_comes_back_intact<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    let payload = format!("\"{}\"", "错".repeat((1024 * 1024 - 2) / 3));
    let payload = format!("{payload}{}", " ".repeat(1024 * 1024 - payload.len()));
    enqueue_one(&h, Draft::text(TOPIC, "application/json", payload.clone()).event_id("e")).await;
    let lease = claim(&h, 1).await;
    assert_eq!(lease.deliveries[0].envelope.payload.len(), 1024 * 1024);
    assert!(lease.deliveries[0].envelope.payload == payload, "it is the same text");
}

/// F40: a batch of 20 MiB. MariaDB takes 16 MiB in one packet.
pub async fn a_batch_larger_than_a_packet_of_the_database_is_written<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    let payload = "x".repeat(1024 * 1024);
    enqueue(&h, (0..20).map(|n| Draft::text(TOPIC, "text/plain", payload.clone()).event_id(format!("e{n}")))).await;
    let mut claimed = 0;
    while claimed < 20 {
        let lease = claim(&h, 20).await;
        assert!(!lease.deliveries.is_empty(), "{claimed} of 20");
        assert!(lease.deliveries.iter().all(|delivery| delivery.envelope.payload == payload));
        claimed += lease.deliveries.len();
        settle(&h, &lease).await;
    }
}

/// F39, F40: an invalid event is refused with the field's name before anything is written.
pub async fn what_is_over_a_limit_is_refused_by_name_and_nothing_is_written<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    let text = |payload: String| Draft::text(TOPIC, "text/plain", payload);
    let mut big = serde_json::Map::new();
    big.insert("x".into(), "x".repeat(16 * 1024).into());
    let too_much = [
        ("payload", text("x".repeat(1024 * 1024 + 1))),
        ("payload", text("a\0b".into())),
        ("payload", Draft::text(TOPIC, "application/json", "[".repeat(65))),
        ("payloadType", Draft::text(TOPIC, "x".repeat(129), "")),
        ("topic", Draft::text("x".repeat(129), "text/plain", "")),
        ("topic", Draft::text("order paid", "text/plain", "")),
        ("topic", Draft::text("a\0b", "text/plain", "")),
        ("eventId", draft("x".repeat(65))),
        ("eventId", draft("")),
        ("eventId", draft("a\0b")),
        ("key", draft("e").key("k".repeat(257))),
        ("key", draft("e").key("a\0b")),
        ("tenantId", draft("e").tenant("x".repeat(129))),
        ("storeId", draft("e").store("a\0b")),
        ("traceId", draft("e").trace("x".repeat(129), None)),
        ("aggregateId", draft("e").aggregate(Aggregate::new("ORDER", "x".repeat(129)))),
        ("metadata", draft("e").metadata(&big)),
        ("exchange", draft("e").route("x".repeat(256), "")),
        ("routingKey", draft("e").route("", "a\0b")),
        ("maxAttempts", draft("e").max_attempts(0)),
        ("maxAttempts", draft("e").max_attempts(10_001)),
    ];
    let outbox = Outbox::new(h.store().clone());
    for (name, bad) in too_much {
        let mut tx = h.store().begin().await.unwrap();
        let refused = outbox.enqueue_many(&mut *tx, [draft("good"), bad]).await.unwrap_err();
        let (Error::Invalid { field, .. } | Error::TooLarge { field, .. }) = &refused else {
            panic!("{name}: {refused:?}");
        };
        assert_eq!(*field, name);
        // Even if the caller commits: one invalid event refuses the whole batch.
        h.store().commit(tx).await.unwrap();
        assert!(!is_stored(&h, "good").await, "{name}");
    }
    // Values at the limit are stored.
    let most = [
        draft("号".repeat(64)).key("钥".repeat(256)).tenant("x".repeat(128)),
        Draft::text(TOPIC, "x".repeat(128), "").event_id("type").max_attempts(10_000),
        draft("route").route("x".repeat(255), "y".repeat(255)),
    ];
    assert_eq!(enqueue(&h, most).await.len(), 3);
}

/// By default an event without subscribers is stored and reported as `Unheard`.
pub async fn unheard_is_kept_by_default<H: Harness>(h: H) {
    assert!(matches!(enqueue_one(&h, draft("e")).await, Enqueued::Unheard(_)));
    let found = find(&h, "e").await;
    assert_eq!(found.routing, Routing::Unheard);
    assert!(found.deliveries.is_empty() && found.consumptions.is_empty());
    assert!(matches!(enqueue_one(&h, draft("e")).await, Enqueued::Duplicate(_)));
}

/// D.3: nothing is stored, and the caller's transaction continues.
pub async fn unheard_is_skipped_where_asked<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    h.make_counter("orders").await;
    let outbox = Outbox::new(h.store().clone()).unheard(Unheard::Skip);
    let mut tx = h.store().begin().await.unwrap();
    h.add(&mut *tx, "orders").await.unwrap();
    let unheard = Draft::json("order.other", &json!({})).unwrap().event_id("unheard");
    let answers = outbox.enqueue_many(&mut *tx, [unheard, draft("heard")]).await.unwrap();
    h.store().commit(tx).await.unwrap();

    assert!(matches!(&answers[0], Enqueued::Skipped(id) if id.as_str() == "unheard"));
    assert!(matches!(&answers[1], Enqueued::Accepted(id) if id.as_str() == "heard"));
    assert!(!is_stored(&h, "unheard").await);
    assert!(is_stored(&h, "heard").await);
    assert_eq!(h.counter("orders").await, 1);
}

/// Refused with the topic's name. After the rollback nothing is stored.
pub async fn unheard_is_refused_where_asked<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    let outbox = Outbox::new(h.store().clone()).unheard(Unheard::Refuse);
    let mut tx = h.store().begin().await.unwrap();
    let unheard = Draft::json("order.other", &json!({})).unwrap().event_id("unheard");
    let refused = outbox.enqueue_many(&mut *tx, [draft("heard"), unheard]).await.unwrap_err();
    assert!(matches!(&refused, Error::Unheard { topic } if topic == "order.other"), "{refused:?}");
    drop(tx);
    let mut tx = h.store().begin().await.unwrap();
    assert!(matches!(outbox.enqueue(&mut *tx, draft("e")).await.unwrap(), Enqueued::Accepted(_)));
    h.store().commit(tx).await.unwrap();
    assert!(!is_stored(&h, "heard").await && !is_stored(&h, "unheard").await);
}

/// A.1: an event that no transaction carries is refused, and one that began with plain SQL counts.
pub async fn without_a_transaction_nothing_is_written<H: Harness>(h: H) {
    if h.dialect().is_none() {
        return skipped("every connection of this store is a transaction");
    }
    let outbox = Outbox::new(h.store().clone());
    let mut conn = h.bare_connection().await;
    for _ in 0..2 {
        let refused = outbox.enqueue(&mut conn, draft("e")).await.unwrap_err();
        assert!(matches!(refused, Error::NoTransaction), "{refused}");
    }
    assert!(!is_stored(&h, "e").await);

    for (end, is_kept) in [("ROLLBACK", false), ("COMMIT", true)] {
        h.execute(&mut conn, "BEGIN", &[]).await;
        outbox.enqueue(&mut conn, draft("e")).await.unwrap();
        h.execute(&mut conn, end, &[]).await;
        assert_eq!(is_stored(&h, "e").await, is_kept, "{end}");
    }
}

/// A.2: the plain `INSERT` for other drivers writes every field as `enqueue` does.
pub async fn a_statement_writes_what_enqueue_writes<H: Harness>(h: H) {
    let Some(dialect) = h.dialect() else { return skipped("this store has no SQL") };
    subscribe_lane(&h).await;
    let (statements, outbox) =
        (Outbox::for_statements(dialect).service("a"), Outbox::new(h.store().clone()).service("a"));
    let now = h.store().now().await.unwrap();
    let sent = |id: &str| {
        let bytes = Draft::bytes(TOPIC, "application/octet-stream", [0_u8, 255, 128]);
        let brief =
            Draft::json(TOPIC, &7).unwrap().trace("4bf92f3577b34da6a3ce929d0e0e4736", Some("00f067aa0ba902b7".into()));
        let later = brief.clone().delay(HOUR).expire_after(2 * HOUR);
        [("full", full("", now)), ("bytes", bytes.trace("a", Some("b".into()))), ("brief", brief), ("later", later)]
            .map(|(kind, draft)| draft.event_id(format!("{kind}-{id}")).occurred_at(now))
    };
    let mut tx = h.store().begin().await.unwrap();
    for draft in sent("plain") {
        let statement = statements.statement(draft).unwrap();
        h.execute(&mut *tx, &statement.sql, &statement.values).await;
    }
    outbox.enqueue_many(&mut *tx, sent("enqueued")).await.unwrap();
    h.store().commit(tx).await.unwrap();
    h.store().route(10).await.unwrap();

    for kind in ["full", "bytes", "brief", "later"] {
        let plain = find(&h, &format!("{kind}-plain")).await;
        let mut enqueued = find(&h, &format!("{kind}-enqueued")).await;
        assert_eq!(plain.deliveries.len(), 1, "{kind} has its delivery");
        enqueued.envelope.event_id = plain.envelope.event_id.clone();
        // The statements of one transaction may differ in what is now.
        for (plain, enqueued) in [
            (plain.envelope.deliver_at, &mut enqueued.envelope.deliver_at),
            (plain.envelope.expire_at, &mut enqueued.envelope.expire_at),
        ] {
            assert_eq!(plain.is_some(), enqueued.is_some());
            if let (Some(at), Some(other)) = (plain, *enqueued) {
                assert!((other - at).abs() < MINUTE, "{at} {other}");
            }
            *enqueued = plain;
        }
        assert_eq!(plain.envelope, enqueued.envelope);
    }
    let brief = statements.statement(Draft::json(TOPIC, &7).unwrap()).unwrap();
    assert_eq!(brief.values.len(), 7, "defaults are left to the table: {}", brief.sql);
}

/// A.2: `traceId`, `requestId` and `userId` of the metadata count where the columns of that name are empty: in claims, in the
/// detail and in lists, of a plain `INSERT` and of `enqueue`.
pub async fn metadata_names_what_the_columns_do_not<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    const NAMED: &str = r#"{"traceId":"t-1","requestId":"r-1","userId":42,"more":[1]}"#;
    let mut expected = vec!["enqueued"];
    let explicit = Initiator { user_id: Some("u-9".into()), ..Initiator::default() };
    let chosen = draft("chosen").metadata_json(NAMED).trace("t-9", None).initiator(explicit);
    enqueue(&h, [draft("enqueued").metadata_json(NAMED), chosen]).await;
    if h.dialect().is_some() {
        let mut tx = h.store().begin().await.unwrap();
        for (id, trace, metadata) in [
            ("plain", "NULL", NAMED),
            ("own-trace", "'t-9'", NAMED),
            ("odd", "NULL", r#"{"traceId": unreadable "traceId""#),
        ] {
            let sql = format!(
                "INSERT INTO postrider_event (event_id, topic, payload, trace_id, metadata) \
                 VALUES ('{id}', '{TOPIC}', '{{}}', {trace}, '{metadata}')"
            );
            h.execute(&mut *tx, &sql, &[]).await;
        }
        h.store().commit(tx).await.unwrap();
        expected.push("plain");
    }
    h.store().route(10).await.unwrap();
    let ids_of = |envelope: &Envelope| {
        let Initiator { client_request_id, user_id, .. } = envelope.initiator.clone();
        (envelope.trace_id.clone(), client_request_id, user_id)
    };
    let some = |text: &str| Some(text.to_owned());
    let named = (some("t-1"), some("r-1"), some("42"));
    let lease = claim(&h, 10).await;
    for id in &expected {
        assert_eq!(ids_of(&find(&h, id).await.envelope), named, "the detail of {id}");
        assert_eq!(find(&h, id).await.envelope.metadata.as_deref(), Some(NAMED), "{id}");
        let claimed = lease.deliveries.iter().find(|one| one.envelope.event_id.as_str() == *id).unwrap();
        assert_eq!(ids_of(&claimed.envelope), named, "the claim of {id}");
    }
    assert_eq!(ids_of(&find(&h, "chosen").await.envelope), (some("t-9"), some("r-1"), some("u-9")));
    if h.dialect().is_some() {
        assert_eq!(ids_of(&find(&h, "own-trace").await.envelope), (some("t-9"), some("r-1"), some("42")));
        assert_eq!(ids_of(&find(&h, "odd").await.envelope), (None, None, None));
        assert_eq!(lease.deliveries.len(), 5, "an unreadable one stops nothing");
    }
    expected.sort_unstable();
    for folded in [false, true] {
        if folded {
            fold_all(&h).await;
        }
        let filter = Filter { trace_id: some("t-1"), ..Filter::default() };
        let page = h.store().list(&List::new(filter, 10)).await.unwrap();
        let mut listed: Vec<_> = page.events.iter().map(|one| one.envelope.event_id.as_str()).collect();
        listed.sort_unstable();
        assert_eq!(listed, expected, "folded: {folded}");
        assert!(page.events.iter().all(|one| ids_of(&one.envelope) == named && one.envelope.metadata.is_none()));
    }
}
