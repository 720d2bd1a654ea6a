//! `register`, `set_subscription`, `remove_subscription`, `subscriptions`: code registers defaults; the operator's
//! changes take precedence.

use postrider::prelude::*;
use postrider::{Draft, Enqueued, Error, Subscription, Via};

use crate::Harness;
use crate::steps::*;

async fn listed(h: &impl Harness, topic: Option<&str>) -> Vec<Subscription> {
    let stored = h.store().subscriptions(topic).await.unwrap();
    assert!(stored.iter().all(|s| !s.removed));
    stored.into_iter().map(|s| s.subscription).collect()
}

/// D.2: registering does not change an existing subscription.
pub async fn registering_never_overwrites<H: Harness>(h: H) {
    let first = Subscription { description: Some("first".into()), ..Subscription::new(TOPIC, LANE, Via::Local) };
    h.store().register(&first).await.unwrap();
    let second = Subscription { sort_order: 9, ..Subscription::new(TOPIC, LANE, Via::Pull) };
    h.store().register(&second).await.unwrap();
    assert_eq!(listed(&h, None).await, [first]);
}

/// D.2: also after a restart.
pub async fn what_was_disabled_stays_disabled<H: Harness>(h: H) {
    let in_code = Subscription::new(TOPIC, LANE, Via::Local);
    h.store().register(&in_code).await.unwrap();
    let disabled = Subscription { enabled: false, ..in_code.clone() };
    h.store().set_subscription(&disabled).await.unwrap();
    h.store().register(&in_code).await.unwrap();
    assert_eq!(listed(&h, Some(TOPIC)).await, [disabled]);
}

/// D.2: a restart of the consumer does not add it again.
pub async fn what_was_removed_stays_removed<H: Harness>(h: H) {
    let in_code = Subscription::new(TOPIC, LANE, Via::Local);
    h.store().register(&in_code).await.unwrap();
    assert!(h.store().remove_subscription(TOPIC, LANE).await.unwrap());
    h.store().register(&in_code).await.unwrap();
    assert!(listed(&h, None).await.is_empty());
    assert!(matches!(enqueue_one(&h, draft("e")).await, Enqueued::Unheard(_)));
}

/// `set_subscription` restores a removed subscription.
pub async fn setting_brings_a_removed_one_back<H: Harness>(h: H) {
    let subscription = Subscription::new(TOPIC, LANE, Via::Local);
    h.store().set_subscription(&subscription).await.unwrap();
    h.store().remove_subscription(TOPIC, LANE).await.unwrap();
    h.store().set_subscription(&subscription).await.unwrap();
    assert_eq!(listed(&h, None).await, [subscription]);
    assert!(matches!(enqueue_one(&h, draft("e")).await, Enqueued::Accepted(_)));
}

/// D.2: a change counts for the next event, even if a producer caches subscriptions.
pub async fn a_change_counts_for_the_next_event<H: Harness>(h: H) {
    /// The lanes of two events written now: one with a generated id, one with a given id.
    async fn lanes<H: Harness>(h: &H, id: &str) -> Vec<String> {
        let mut routed = Vec::new();
        for draft in [Draft::json(TOPIC, &7).unwrap(), draft(id)] {
            let (Enqueued::Accepted(id) | Enqueued::Unheard(id)) = enqueue_one(h, draft).await else {
                panic!("it is neither known nor skipped");
            };
            let mut lanes: Vec<_> = find(h, id.as_str()).await.deliveries.into_iter().map(|d| d.lane).collect();
            lanes.sort();
            routed.push(lanes);
        }
        assert_eq!(routed[0], routed[1], "both alike");
        routed.remove(0)
    }
    let subscription = |consumer, enabled| Subscription { enabled, ..Subscription::new(TOPIC, consumer, Via::Local) };
    h.store().register(&subscription("a", true)).await.unwrap();
    assert_eq!(lanes(&h, "first").await, ["a"]);
    assert_eq!(lanes(&h, "as before").await, ["a"]);
    subscribe(&h, "*", "b", Via::Pull).await;
    assert_eq!(lanes(&h, "another").await, ["a", "b"]);
    subscribe(&h, "*", "a", Via::Local).await;
    assert_eq!(lanes(&h, "one lane by two subscriptions").await, ["a", "b"]);
    h.store().remove_subscription("*", "a").await.unwrap();
    h.store().set_subscription(&subscription("a", false)).await.unwrap();
    assert_eq!(lanes(&h, "disabled").await, ["b"]);
    subscribe(&h, TOPIC, "c", Via::RabbitMq).await;
    assert_eq!(lanes(&h, "by the broker").await, ["b", "rabbitmq"]);
    h.store().remove_subscription("*", "b").await.unwrap();
    h.store().remove_subscription(TOPIC, "c").await.unwrap();
    assert!(lanes(&h, "none").await.is_empty());
    h.store().set_subscription(&subscription("a", true)).await.unwrap();
    assert_eq!(lanes(&h, "again").await, ["a"]);
}

/// Returns false if there was no such subscription.
pub async fn removing_an_absent_subscription_returns_false<H: Harness>(h: H) {
    assert!(!h.store().remove_subscription(TOPIC, LANE).await.unwrap());
    subscribe_lane(&h).await;
    assert!(!h.store().remove_subscription("*", LANE).await.unwrap());
    assert!(h.store().remove_subscription(TOPIC, LANE).await.unwrap());
    assert!(!h.store().remove_subscription(TOPIC, LANE).await.unwrap(), "once");
}

/// D.11: what was removed is still known, as it was, so that what was set up for it can be taken down.
pub async fn removed_ones_are_listed_apart<H: Harness>(h: H) {
    let named = Subscription {
        exchange: Some("billing".into()),
        routing_key: Some("eu.paid".into()),
        ..Subscription::new("b", "queue", Via::RabbitMq)
    };
    let other = Subscription::new("a", "queue", Via::RabbitMq);
    for subscription in [&named, &other] {
        h.store().set_subscription(subscription).await.unwrap();
    }
    assert!(h.store().removed_subscriptions().await.unwrap().is_empty());
    for subscription in [&named, &other] {
        h.store().remove_subscription(&subscription.topic, "queue").await.unwrap();
    }
    let removed = h.store().removed_subscriptions().await.unwrap();
    assert!(removed.iter().all(|one| one.removed));
    let removed: Vec<_> = removed.into_iter().map(|one| one.subscription).collect();
    let disabled = |one: &Subscription| Subscription { enabled: false, ..one.clone() };
    assert_eq!(removed, [disabled(&other), disabled(&named)]);
    assert!(listed(&h, None).await.is_empty());
    h.store().set_subscription(&named).await.unwrap();
    assert_eq!(h.store().removed_subscriptions().await.unwrap().len(), 1, "one is back");
}

/// Sorted by topic, sort order and consumer, byte for byte.
pub async fn are_listed_in_order<H: Harness>(h: H) {
    for (topic, consumer, sort_order) in [
        ("b", "x", 0),
        ("a", "late", 5),
        ("a", "b", 1),
        ("a", "B", 1),
        ("a", "early", -1),
        ("*", "all", 0),
        ("B", "x", 0),
    ] {
        let subscription = Subscription { sort_order, ..Subscription::new(topic, consumer, Via::Local) };
        h.store().set_subscription(&subscription).await.unwrap();
    }
    let names = |subscriptions: Vec<Subscription>| {
        subscriptions.into_iter().map(|s| format!("{} {}", s.topic, s.consumer)).collect::<Vec<_>>()
    };
    assert_eq!(names(listed(&h, None).await), ["* all", "B x", "a early", "a B", "a b", "a late", "b x"]);
    assert_eq!(names(listed(&h, Some("b")).await), ["b x"], "a topic's own, without those to everything");
}

/// Every field comes back, with times of the database clock.
pub async fn every_field_comes_back<H: Harness>(h: H) {
    let full = Subscription {
        topic: TOPIC.into(),
        consumer: "hook".into(),
        enabled: false,
        sort_order: -7,
        description: Some("通知 'quoted'".into()),
        via: Via::Webhook,
        endpoint: Some("https://example.org/hook?a=1&b=2".into()),
        exchange: Some("orders".into()),
        routing_key: Some("order.#".into()),
        rate_per_second: Some(7),
        timeout_seconds: Some(8),
        max_attempts: Some(9),
    };
    h.store().set_subscription(&full).await.unwrap();
    let stored = h.store().subscriptions(None).await.unwrap().remove(0);
    assert_eq!(stored.subscription, full);
    let now = h.store().now().await.unwrap();
    assert!(is_about((now - stored.created_at).unsigned_abs(), std::time::Duration::ZERO));
    let changed = Subscription { enabled: true, ..full };
    h.store().set_subscription(&changed).await.unwrap();
    let again = h.store().subscriptions(None).await.unwrap().remove(0);
    assert_eq!((again.subscription, again.created_at), (changed, stored.created_at));
    assert!(again.updated_at >= stored.updated_at);
}

/// Every instance registers when it starts.
pub async fn concurrent_registrations_make_one<H: Harness>(h: H) {
    let instances = (0..8).map(|_| {
        let h = h.clone();
        async move { h.store().register(&Subscription::new(TOPIC, LANE, Via::Local)).await }
    });
    assert!(together(instances).await.iter().all(Result::is_ok));
    assert_eq!(listed(&h, None).await.len(), 1);
}

/// Refused with the field's name, and nothing is written.
pub async fn bad_ones_are_refused_by_name<H: Harness>(h: H) {
    let bad = [
        ("topic", Subscription::new("order.*", LANE, Via::Local)),
        ("topic", Subscription::new("", LANE, Via::Local)),
        ("consumer", Subscription::new(TOPIC, "postrider-x", Via::Local)),
        ("consumer", Subscription::new(TOPIC, "rabbitmq", Via::Local)),
        ("consumer", Subscription::new(TOPIC, "with space", Via::Local)),
        ("endpoint", Subscription::new(TOPIC, LANE, Via::Webhook)),
        ("ratePerSecond", Subscription { rate_per_second: Some(0), ..Subscription::new(TOPIC, LANE, Via::Local) }),
        ("ratePerSecond", Subscription { rate_per_second: Some(5), ..Subscription::new(TOPIC, LANE, Via::RabbitMq) }),
        ("timeoutSeconds", Subscription { timeout_seconds: Some(3601), ..Subscription::new(TOPIC, LANE, Via::Local) }),
        ("timeoutSeconds", Subscription { timeout_seconds: Some(5), ..Subscription::new(TOPIC, LANE, Via::Pull) }),
        ("maxAttempts", Subscription { max_attempts: Some(10_001), ..Subscription::new(TOPIC, LANE, Via::Local) }),
        ("maxAttempts", Subscription { max_attempts: Some(5), ..Subscription::new(TOPIC, LANE, Via::External) }),
    ];
    for (name, subscription) in bad {
        let set = h.store().set_subscription(&subscription).await.unwrap_err();
        let registered = h.store().register(&subscription).await.unwrap_err();
        for refused in [set, registered] {
            assert!(matches!(&refused, Error::Invalid { field, .. } if *field == name), "{refused:?}");
        }
    }
    assert!(listed(&h, None).await.is_empty());
}
