//! `route`: which consumers get an event. The rules are the same in `enqueue` and for events from a plain `INSERT`.

use postrider::prelude::*;
use postrider::store::{Redriven, Routed, Routing};
use postrider::{Draft, Enqueued, Subscription, Via};
use serde_json::json;
use time::macros::datetime;

use crate::Harness;
use crate::steps::*;

async fn lanes(h: &impl Harness, event_id: &str) -> Vec<String> {
    let deliveries = find(h, event_id).await.deliveries;
    deliveries.into_iter().map(|d| d.lane).collect()
}

/// The consumers that are expected to report: those with an attempt 0.
async fn expected(h: &impl Harness, event_id: &str) -> Vec<String> {
    let consumptions = find(h, event_id).await.consumptions;
    assert!(consumptions.iter().all(|c| c.attempt == 0 && c.success.is_none() && !c.will_retry));
    consumptions.into_iter().map(|c| c.consumer).collect()
}

/// A.6: every consumer with its own lane gets its own delivery.
pub async fn each_enabled_lane_gets_one_delivery<H: Harness>(h: H) {
    for (consumer, via) in [("a", Via::Local), ("b", Via::Pull), ("c", Via::Webhook)] {
        subscribe(&h, TOPIC, consumer, via).await;
    }
    subscribe(&h, "order.other", "d", Via::Local).await;
    assert!(matches!(enqueue_one(&h, draft("e")).await, Enqueued::Accepted(_)));
    assert_eq!(lanes(&h, "e").await, ["a", "b", "c"]);
    assert!(expected(&h, "e").await.is_empty(), "their deliveries say that they are expected");
}

/// A consumer with both subscriptions gets the event once.
pub async fn topic_and_star_together_deliver_once<H: Harness>(h: H) {
    subscribe(&h, TOPIC, "both", Via::Local).await;
    subscribe(&h, "*", "both", Via::Local).await;
    subscribe(&h, "*", "everything", Via::Pull).await;
    subscribe(&h, TOPIC, "remote", Via::External).await;
    subscribe(&h, "*", "remote", Via::External).await;
    enqueue_one(&h, draft("e")).await;
    assert_eq!(lanes(&h, "e").await, ["both", "everything"]);
    assert_eq!(expected(&h, "e").await, ["remote"]);
}

/// DESIGN 6: topics and consumers are compared byte for byte.
pub async fn topics_are_compared_byte_for_byte<H: Harness>(h: H) {
    subscribe(&h, "Order.Paid", "upper", Via::Local).await;
    subscribe(&h, "order_paid", "underscore", Via::Local).await;
    subscribe(&h, "order.paid", "points", Via::Local).await;
    subscribe(&h, "order.paid", "Points", Via::Local).await;
    enqueue_one(&h, draft("e")).await;
    assert_eq!(lanes(&h, "e").await, ["Points", "points"]);
}

/// D.2: a disabled or removed subscription gets nothing. Without another subscriber, the event is unheard.
pub async fn disabled_and_removed_subscriptions_get_nothing<H: Harness>(h: H) {
    let disabled = Subscription { enabled: false, ..Subscription::new(TOPIC, "disabled", Via::Local) };
    h.store().set_subscription(&disabled).await.unwrap();
    subscribe(&h, TOPIC, "removed", Via::Local).await;
    assert!(h.store().remove_subscription(TOPIC, "removed").await.unwrap());
    assert!(matches!(enqueue_one(&h, draft("unheard")).await, Enqueued::Unheard(_)));
    subscribe(&h, TOPIC, "there", Via::Local).await;
    enqueue_one(&h, draft("heard")).await;
    assert_eq!(lanes(&h, "heard").await, ["there"]);
}

/// D.11: one delivery for the broker and one expectation per consumer. The broker itself is not expected to report.
pub async fn the_consumers_of_the_broker_share_its_lane<H: Harness>(h: H) {
    for consumer in ["member", "message", "rabbitmq"] {
        subscribe(&h, TOPIC, consumer, Via::RabbitMq).await;
    }
    enqueue_one(&h, draft("e")).await;
    assert_eq!(lanes(&h, "e").await, ["rabbitmq"]);
    assert_eq!(expected(&h, "e").await, ["member", "message"]);
}

/// D.4: a consumer that gets the event by other means is recorded as expected.
pub async fn external_consumers_are_expected_and_get_no_delivery<H: Harness>(h: H) {
    subscribe(&h, TOPIC, "elsewhere", Via::External).await;
    assert!(matches!(enqueue_one(&h, draft("e")).await, Enqueued::Accepted(_)));
    assert!(lanes(&h, "e").await.is_empty());
    assert_eq!(expected(&h, "e").await, ["elsewhere"]);
    assert_eq!(find(&h, "e").await.routing, Routing::Routed);
}

/// D.2: a subscription counts for events written after it.
pub async fn a_subscription_counts_for_events_written_after_it<H: Harness>(h: H) {
    subscribe(&h, TOPIC, "first", Via::Local).await;
    enqueue_one(&h, draft("before")).await;
    subscribe(&h, TOPIC, "second", Via::Local).await;
    enqueue_one(&h, draft("after")).await;
    assert_eq!(h.store().route(100).await.unwrap(), Routed::default(), "nothing is left to route");
    assert_eq!(lanes(&h, "before").await, ["first"]);
    assert_eq!(lanes(&h, "after").await, ["first", "second"]);
}

/// A.19: a plain `INSERT` is sufficient.
pub async fn a_plain_insert_is_routed_and_delivered<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    subscribe(&h, "*", "remote", Via::External).await;
    insert_plainly(&h, "by-hand").await;
    assert_eq!(find(&h, "by-hand").await.routing, Routing::New);
    assert!(claim(&h, 10).await.deliveries.is_empty());

    assert_eq!(h.store().route(100).await.unwrap(), Routed { routed: 1, unheard: 0 });
    assert_eq!(h.store().route(100).await.unwrap(), Routed::default());
    assert_eq!(find(&h, "by-hand").await.routing, Routing::Routed);
    assert_eq!(expected(&h, "by-hand").await, ["remote"]);
    let lease = claim(&h, 10).await;
    assert_eq!(lease.deliveries[0].envelope.payload, r#"{"by":"hand"}"#);
    settle(&h, &lease).await;
}

/// The router marks the event as unheard, and routes it only after a subscription is added.
pub async fn a_plain_insert_without_subscribers_is_unheard<H: Harness>(h: H) {
    insert_plainly(&h, "by-hand").await;
    assert_eq!(h.store().route(100).await.unwrap(), Routed { routed: 0, unheard: 1 });
    assert_eq!(h.store().route(100).await.unwrap(), Routed::default());
    assert_eq!(find(&h, "by-hand").await.routing, Routing::Unheard);
}

/// A.19, D.1: an event inserted in a shell with time zone +08:00 is
/// delivered, with correct times and every optional column.
pub async fn an_insert_with_the_databases_own_shell_is_delivered<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    let smallest =
        format!("INSERT INTO postrider_event (event_id, topic, payload) VALUES ('small', '{TOPIC}', '{{}}')");
    if h.shell_insert(&smallest).await.is_none() {
        return skipped("this store has no shell");
    }
    let (occurred, deliver, expire) =
        (datetime!(2024-02-29 23:30:00 UTC), datetime!(2024-03-01 00:00:00 UTC), datetime!(2100-01-01 00:00:00 UTC));
    let full = format!(
        "INSERT INTO postrider_event (event_id, topic, payload, payload_type, payload_encoding, event_key, trace_id, span_id, \
         parent_event_id, aggregate_type, aggregate_id, tenant_id, store_id, initiator, metadata, occurred_at, \
         deliver_at, expire_at, max_attempts, exchange, routing_key) \
         VALUES ('full', '{TOPIC}', 'AP+A', 'image/png', 'base64', '钥', 'trace', 'span', 'parent', 'ORDER', '7', 'tenant', \
         'shop', '{{\"userId\":\"u\"}}', '{{\"a\":1}}', {}, {}, {}, 3, 'orders', 'order.paid.eu')",
        h.sql_time(occurred),
        h.sql_time(deliver),
        h.sql_time(expire),
    );
    h.shell_insert(&full).await.unwrap();
    assert_eq!(h.store().route(100).await.unwrap().routed, 2);

    let now = h.store().now().await.unwrap();
    let small = find(&h, "small").await;
    assert!(is_about((now - small.created_at).unsigned_abs(), std::time::Duration::ZERO), "{}", small.created_at);
    assert!(is_about((now - small.envelope.occurred_at).unsigned_abs(), std::time::Duration::ZERO));
    assert_eq!(small.envelope.initiator.service.as_deref(), Some("sql"));
    assert_eq!(small.envelope.payload_type, "application/json");
    assert_eq!(ids(&claim(&h, 10).await), ["small"]);

    let lease = claim_keyed(&h, 10).await;
    let claimed = &lease.deliveries[0];
    let event = &claimed.envelope;
    assert!(!claimed.expired);
    assert_eq!((event.occurred_at, event.deliver_at, event.expire_at), (occurred, Some(deliver), Some(expire)));
    assert_eq!((event.payload.as_str(), &*event.payload_type), ("AP+A", "image/png"));
    assert_eq!(event.payload_encoding, postrider::envelope::Encoding::Base64);
    assert_eq!((event.key.as_deref(), event.max_attempts), (Some("钥"), Some(3)));
    assert_eq!((event.trace_id.as_deref(), event.span_id.as_deref()), (Some("trace"), Some("span")));
    assert_eq!(event.parent_event_id.as_ref().map(|id| id.as_str()), Some("parent"));
    assert_eq!(event.aggregate, Some(postrider::Aggregate::new("ORDER", 7)));
    assert_eq!((event.tenant_id.as_deref(), event.store_id.as_deref()), (Some("tenant"), Some("shop")));
    assert_eq!(event.initiator.user_id.as_deref(), Some("u"));
    assert_eq!(event.metadata.as_deref(), Some(r#"{"a":1}"#));
    assert_eq!((event.exchange.as_deref(), event.routing_key.as_deref()), (Some("orders"), Some("order.paid.eu")));
    let delivery = delivery(&h, "full").await;
    assert_eq!(delivery.due_at, deliver, "due at deliver_at");
    assert_eq!(delivery.shard, postrider::shard::shard_of(Some("钥"), "full"), "the shard is the one Rust computes");
    settle(&h, &lease).await;
}

/// An unheard event is stored until a consumer subscribes, then delivered in sequence order.
pub async fn an_unheard_event_is_routed_after_a_subscription<H: Harness>(h: H) {
    enqueue(&h, [draft("e"), draft("f")]).await;
    let other = Draft::json("order.other", &json!({})).unwrap().event_id("other");
    enqueue_one(&h, other).await;
    assert_eq!(h.store().route(100).await.unwrap(), Routed::default());
    subscribe_lane(&h).await;
    assert_eq!(h.store().route(100).await.unwrap(), Routed { routed: 2, unheard: 0 });
    assert_eq!(ids(&claim(&h, 10).await), ["e", "f"]);
    assert_eq!(find(&h, "other").await.routing, Routing::Unheard);
}

/// A subscription to `*` gets unheard events too.
pub async fn an_unheard_event_is_routed_after_a_star_subscription<H: Harness>(h: H) {
    enqueue_one(&h, draft("e")).await;
    let other = Draft::json("order.other", &json!({})).unwrap().event_id("other");
    enqueue_one(&h, other).await;
    subscribe(&h, "*", LANE, Via::Local).await;
    assert_eq!(h.store().route(100).await.unwrap(), Routed { routed: 2, unheard: 0 });
    assert_eq!(ids(&claim(&h, 10).await), ["e", "other"]);
}

/// A pass is limited, so that its transaction stays short.
pub async fn a_pass_takes_no_more_than_its_limit<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    for n in 0..7 {
        insert_plainly(&h, &format!("e{n}")).await;
    }
    assert_eq!(h.store().route(5).await.unwrap(), Routed { routed: 5, unheard: 0 });
    assert_eq!(h.store().route(5).await.unwrap(), Routed { routed: 2, unheard: 0 });
    assert_eq!(claim(&h, 10).await.deliveries.len(), 7);
}

/// With concurrent routers, each event is routed by one of them.
pub async fn concurrent_routers_share_the_work<H: Harness>(h: H) {
    enqueue(&h, drafts(300)).await;
    let mut tx = postrider::Enlist::begin(h.store()).await.unwrap();
    for n in 0..100 {
        h.insert_plainly(&mut *tx, &format!("hand{n}"), TOPIC, "{}").await;
    }
    postrider::Enlist::commit(h.store(), tx).await.unwrap();
    subscribe_lane(&h).await;
    let routers = (0..4).map(|_| {
        let h = h.clone();
        async move {
            let mut routed = 0;
            // Another router may hold the remaining rows, so an empty pass does not prove that nothing waits.
            while h.store().counts().await.unwrap().get(LANE).is_none_or(|lane| lane.new < 400) {
                routed += h.store().route(25).await.unwrap().routed;
            }
            routed
        }
    });
    assert_eq!(together(routers).await.iter().sum::<u64>(), 400);
    let lease = claim(&h, 500).await;
    assert_eq!(lease.deliveries.len(), 400);
    settle(&h, &lease).await;
}

/// If a redrive comes before the router, there is still one delivery.
pub async fn a_redriven_unheard_event_is_not_delivered_twice<H: Harness>(h: H) {
    enqueue_one(&h, draft("e")).await;
    assert_eq!(h.store().redrive("e", LANE, None).await.unwrap(), Redriven::Made);
    subscribe_lane(&h).await;
    subscribe(&h, TOPIC, "second", Via::Local).await;
    assert_eq!(h.store().route(100).await.unwrap(), Routed { routed: 1, unheard: 0 });
    assert_eq!(lanes(&h, "e").await, [LANE, "second"]);
    assert_eq!(claim(&h, 10).await.deliveries.len(), 1);
}
