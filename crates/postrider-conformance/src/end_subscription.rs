//! `end_subscription`: a subscription is removed, and what waits for it is delivered or ended with a reason.

use postrider::entry::DISCARDED;
use postrider::failures::failures;
use postrider::prelude::*;
use postrider::redrive::Refusal;
use postrider::status::{ConsumerState, EventStatus};
use postrider::store::{DeadHead, History, SubscriptionRemoval, SubscriptionRemoved, Waiting};
use postrider::{Draft, Enqueued, Via};

use crate::Harness;
use crate::change_subscription::{EVERY, serve, state, subscription};
use crate::fold::{listed, report};
use crate::steps::*;

async fn remove(
    h: &impl Harness,
    topic: &str,
    consumer: &str,
    waiting: Option<Waiting>,
) -> Result<Option<SubscriptionRemoved>, Refusal> {
    let removal = SubscriptionRemoval { waiting, ..SubscriptionRemoval::new(topic, consumer) };
    ruled(h.store().end_subscription(&removal).await)
}

/// Subscribes a consumer to the topic of its name, and writes events to it.
async fn waiting(h: &impl Harness, consumer: &str, via: Via, events: &[&str]) -> Vec<String> {
    h.store().set_subscription(&subscription(consumer, consumer, via)).await.unwrap();
    let ids: Vec<_> = events.iter().map(|id| format!("{consumer}-{id}")).collect();
    enqueue(h, ids.iter().map(|id| Draft::json(consumer, &7).unwrap().event_id(id.clone()))).await;
    ids
}

/// F64: while something waits, a removal must name what becomes of it. Nothing changes before that.
pub async fn a_removal_is_refused_while_deliveries_wait<H: Harness>(h: H) {
    for via in EVERY {
        let consumer = format!("refused-{}", via.as_str());
        let ids = waiting(&h, &consumer, via, &["a", "b", "c"]).await;
        let refusal = remove(&h, &consumer, &consumer, None).await.expect_err("it is refused");
        assert_eq!(refusal, Refusal::DeliveriesWait(3), "{consumer}");
        assert!(refusal.to_string().contains("waiting=deliver"), "{refusal}");
        assert!(h.store().subscriptions(Some(&consumer)).await.unwrap()[0].subscription.enabled, "{consumer}");
        if via == Via::RabbitMq {
            let claim = postrider::store::Claim { lane: "rabbitmq".into(), ..wanted(10) };
            let lease = h.store().claim(&claim).await.unwrap();
            h.store().settle(lease.token, &lease.ids(), History::Keep).await.unwrap();
            for id in &ids {
                h.store().append_consumption(&report(id, &consumer, true, false)).await.unwrap();
            }
        } else {
            serve(&h, &consumer, via, &ids).await;
        }
        let removed = remove(&h, &consumer, &consumer, None).await.expect("nothing waits");
        assert_eq!(removed, Some(SubscriptionRemoved { waiting: 0, discarded: 0 }), "{consumer}");
        assert_eq!(remove(&h, &consumer, &consumer, None).await, Ok(None), "{consumer}: once");
    }
}

/// F64: delivered to the end, by every `via`: also a retry, and also behind the broker, where the queue is unbound.
pub async fn what_waits_is_delivered_to_the_end<H: Harness>(h: H) {
    for via in EVERY {
        let consumer = format!("deliver-{}", via.as_str());
        let ids = waiting(&h, &consumer, via, &["a", "b"]).await;
        let removed = remove(&h, &consumer, &consumer, Some(Waiting::Deliver)).await.expect("it is allowed");
        assert_eq!(removed, Some(SubscriptionRemoved { waiting: 2, discarded: 0 }), "{consumer}");
        h.store().register(&subscription(&consumer, &consumer, via)).await.unwrap();
        let later = Draft::json(consumer.clone(), &7).unwrap().event_id(format!("{consumer}-later"));
        assert!(matches!(enqueue_one(&h, later).await, Enqueued::Unheard(_)), "{consumer}: a restart changes nothing");
        if via.has_own_lane() {
            let claim = postrider::store::Claim { lane: consumer.clone(), ..wanted(1) };
            let lease = h.store().claim(&claim).await.unwrap();
            h.store().retry(lease.token, &[failed(lease.ids()[0], HOUR)], History::Keep).await.unwrap();
            age(&h, 2 * HOUR).await;
        }
        assert_eq!(serve(&h, &consumer, via, &ids).await, ids, "{consumer}");
        for id in &ids {
            assert_eq!(listed(&h, id).await, EventStatus::Consumed, "{id}");
        }
    }
}

/// F64: each is ended with a reason that is shown: what waits, what a worker holds, and what is dead.
pub async fn what_waits_is_discarded_with_a_reason<H: Harness>(h: H) {
    for via in EVERY {
        let consumer = format!("discard-{}", via.as_str());
        let ids = waiting(&h, &consumer, via, &["held", "dead", "new"]).await;
        let mut holder = None;
        if via.has_own_lane() {
            let claim = postrider::store::Claim { lane: consumer.clone(), ..wanted(2) };
            let lease = h.store().claim(&claim).await.unwrap();
            h.store().bury(lease.token, &[buried(lease.ids()[1])], History::Keep).await.unwrap();
            holder = Some(lease);
        }
        let removed = remove(&h, &consumer, &consumer, Some(Waiting::Discard)).await.expect("it is allowed");
        assert_eq!(removed, Some(SubscriptionRemoved { waiting: 0, discarded: 3 }), "{consumer}");
        for id in &ids {
            let found = find(&h, id).await;
            assert!(found.deliveries.is_empty(), "{id}: {found:?}");
            let last = found.consumptions.last().unwrap();
            assert_eq!((last.consumer.as_str(), last.success, last.will_retry), (&*consumer, Some(false), false));
            assert_eq!(last.code.as_deref(), Some(DISCARDED), "{id}");
            let reason = last.error.as_deref().unwrap();
            assert!(reason.contains(&consumer) && reason.contains("was removed"), "{reason}");
            assert_eq!(listed(&h, id).await, EventStatus::Failed, "{id}");
        }
        if let Some(lease) = holder {
            nothing_is_written(&h, lease.token, &lease.ids(), &ids[0]).await;
        }
    }
    assert!(failures(h.store(), &postrider::Scope::default()).await.unwrap().groups.is_empty(), "they are decided");
    assert!(h.store().counts().await.unwrap().is_empty());
}

/// Only the events of its topic, and only if no other subscription of the consumer is for them.
pub async fn other_subscriptions_keep_their_deliveries<H: Harness>(h: H) {
    subscribe(&h, TOPIC, LANE, Via::Pull).await;
    subscribe(&h, "order.refunded", LANE, Via::Pull).await;
    subscribe(&h, TOPIC, "other", Via::Pull).await;
    enqueue_one(&h, draft("paid")).await;
    enqueue_one(&h, Draft::json("order.refunded", &7).unwrap().event_id("refunded")).await;
    subscribe(&h, "*", LANE, Via::Pull).await;
    let covered = remove(&h, TOPIC, LANE, None).await.expect("the one to every topic covers it");
    assert_eq!(covered, Some(SubscriptionRemoved { waiting: 0, discarded: 0 }));
    assert_eq!(remove(&h, "*", LANE, None).await, Err(Refusal::DeliveriesWait(1)), "the other topic is covered");
    let removed = remove(&h, "*", LANE, Some(Waiting::Discard)).await.expect("it is allowed");
    assert_eq!(removed, Some(SubscriptionRemoved { waiting: 0, discarded: 1 }));
    assert_eq!(ids(&claim(&h, 10).await), ["refunded"]);
    assert_eq!(state(&h, "paid", "other").await, Some(ConsumerState::Waiting));
    assert_eq!(state(&h, "paid", LANE).await, Some(ConsumerState::Failed));
}

/// What is behind the discarded ones of a key goes on.
pub async fn a_discard_frees_the_keys_of_other_topics<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    subscribe(&h, "order.refunded", LANE, Via::Local).await;
    enqueue(&h, keyed("a", 1)).await;
    enqueue_one(&h, Draft::json("order.refunded", &7).unwrap().event_id("behind").key("a")).await;
    bury_head(&h, "a1").await;
    assert!(claim_keyed(&h, 10).await.deliveries.is_empty(), "the dead head holds");
    remove(&h, TOPIC, LANE, Some(Waiting::Discard)).await.expect("it is allowed");
    let lease = h.store().claim_keyed(&wanted(10), DeadHead::Hold).await.unwrap();
    assert_eq!(ids(&lease), ["behind"]);
}
