//! `change_subscription`: a consumer gets its events another way, and everything that waits for it follows.

use std::time::Duration;

use postrider::entry::DeliveryStatus;
use postrider::prelude::*;
use postrider::redrive::{RedriveRules, Refusal};
use postrider::status::{ConsumerState, EventStatus};
use postrider::store::access::{NewAudit, audited};
use postrider::store::{
    Appended, Claim, DeadHead, History, Lease, SecretChange, SecretText, SubscriptionChange, SubscriptionChanged,
    SubscriptionRemoval, Token,
};
use postrider::subscription::RABBITMQ;
use postrider::{Draft, Enqueued, Outbox, Subscription, Via};

use crate::Harness;
use crate::fold::{listed, report};
use crate::steps::*;

pub(crate) const EVERY: [Via; 5] = [Via::Local, Via::Pull, Via::Webhook, Via::RabbitMq, Via::External];

pub(crate) fn subscription(topic: &str, consumer: &str, via: Via) -> Subscription {
    let endpoint = (via == Via::Webhook).then(|| "https://example.org/hook".into());
    Subscription { endpoint, ..Subscription::new(topic, consumer, via) }
}

async fn change(h: &impl Harness, subscription: Subscription) -> SubscriptionChanged {
    ruled(h.store().change_subscription(&SubscriptionChange::new(subscription)).await).expect("it is allowed")
}

/// Everything that can be claimed in a lane now, with and without a key.
pub(crate) async fn claim_lane(h: &impl Harness, lane: &str) -> Vec<Lease> {
    let claim = Claim { lane: lane.into(), ..wanted(500) };
    let mut leases = vec![h.store().claim(&claim).await.unwrap()];
    loop {
        let lease = h.store().claim_keyed(&claim, DeadHead::Hold).await.unwrap();
        if lease.deliveries.is_empty() {
            return leases;
        }
        leases.push(lease);
    }
}

/// Serves a consumer the way its `via` says, and returns the events that it got.
pub(crate) async fn serve(h: &impl Harness, consumer: &str, via: Via, expected: &[String]) -> Vec<String> {
    let lane = if via == Via::RabbitMq { RABBITMQ } else { consumer };
    let mut got = Vec::new();
    if via != Via::External {
        for lease in claim_lane(h, lane).await {
            for claimed in &lease.deliveries {
                let target = (via == Via::RabbitMq).then(|| consumer.to_owned());
                assert_eq!(claimed.target, target, "to this consumer only");
            }
            let settled = h.store().settle(lease.token, &lease.ids(), History::Keep).await.unwrap();
            assert_eq!(settled.len(), lease.deliveries.len());
            got.extend(ids(&lease).into_iter().map(str::to_owned));
        }
    }
    if !via.has_own_lane() {
        // What the broker has brought, or what the consumer has got by its own means.
        for id in expected {
            let appended = h.store().append_consumption(&report(id, consumer, true, false)).await.unwrap();
            assert!(matches!(appended, Appended::Attempt(_)), "{id}: {appended:?}");
        }
        if via == Via::External {
            got = expected.to_vec();
        }
    }
    got.sort();
    got
}

pub(crate) async fn state(h: &impl Harness, event_id: &str, consumer: &str) -> Option<ConsumerState> {
    find(h, event_id).await.consumers().get(consumer).copied()
}

/// The events of one consumer before its `via` changes.
struct Before {
    /// Those that wait.
    waiting: Vec<String>,
    /// One that a worker holds, and its token.
    held: Option<(String, Token)>,
    dead: Option<String>,
}

/// Writes events for a consumer. If it has its own lane, one of them is retried later, one is held and one is dead.
async fn events_before(h: &impl Harness, consumer: &str, via: Via) -> Before {
    let name = |name: &str| format!("{consumer}-{name}");
    let draft = |id: &str| Draft::json(consumer, &7).unwrap().event_id(name(id));
    let delayed = draft("delayed").delay(HOUR);
    let drafts = ["retried", "held", "dead", "new"].map(draft).into_iter();
    let keyed = ["k1", "k2"].map(|id| draft(id).key("k"));
    enqueue(h, drafts.chain(keyed).chain([delayed])).await;
    let all = ["dead", "delayed", "held", "k1", "k2", "new", "retried"].map(name).to_vec();
    if !via.has_own_lane() {
        return Before { waiting: all, held: None, dead: None };
    }
    let lease = h.store().claim(&Claim { lane: consumer.into(), ..wanted(3) }).await.unwrap();
    let [retried, _held, dead] = lease.ids()[..] else { panic!("{lease:?}") };
    h.store().retry(lease.token, &[failed(retried, HOUR)], History::Keep).await.unwrap();
    h.store().bury(lease.token, &[buried(dead)], History::Omit).await.unwrap();
    let waiting = all.into_iter().filter(|id| *id != name("dead")).collect();
    Before { waiting, held: Some((name("held"), lease.token)), dead: Some(name("dead")) }
}

/// F64: from each `via` to each other, every waiting delivery is served the new way; what a worker holds is written once.
pub async fn what_waits_follows_every_change_of_via<H: Harness>(h: H) {
    for from in EVERY {
        for to in EVERY.into_iter().filter(|to| *to != from) {
            let consumer = format!("{}-{}", from.as_str(), to.as_str());
            h.store().set_subscription(&subscription(&consumer, &consumer, from)).await.unwrap();
            let before = events_before(&h, &consumer, from).await;
            let changed = change(&h, subscription(&consumer, &consumer, to)).await;
            assert_eq!(changed.waiting, 7 - u64::from(before.dead.is_some()), "{consumer}");
            let same_lane = from.has_own_lane() && to.has_own_lane();
            assert_eq!(changed.moved, if same_lane { 0 } else { 7 }, "{consumer}");

            let mut waiting = before.waiting;
            if let Some((held, token)) = before.held {
                let id = find(&h, &held).await.deliveries.first().map(|one| one.id);
                if same_lane {
                    let id = id.expect("it is still there");
                    assert_eq!(h.store().settle(token, &[id], History::Keep).await.unwrap(), [id], "{consumer}");
                    assert_eq!(state(&h, &held, &consumer).await, Some(ConsumerState::Ok));
                    waiting.retain(|one| *one != held);
                } else {
                    nothing_is_written(&h, token, &id.into_iter().collect::<Vec<_>>(), &held).await;
                }
            }
            age(&h, 2 * HOUR).await;
            let served = serve(&h, &consumer, to, &waiting).await;
            assert_eq!(served, waiting, "{consumer}");
            for id in &waiting {
                assert_eq!(state(&h, id, &consumer).await, Some(ConsumerState::Ok), "{consumer}: {id}");
                assert!(find(&h, id).await.deliveries.is_empty(), "{consumer}: {id}");
            }
            if let Some(dead) = &before.dead {
                a_dead_one_is_redriven_the_new_way(&h, dead, &consumer, to).await;
            }
        }
    }
}

async fn a_dead_one_is_redriven_the_new_way(h: &impl Harness, dead: &str, consumer: &str, to: Via) {
    assert_eq!(listed(h, dead).await, EventStatus::Failed, "{consumer}: its failure is shown");
    let redriven = ruled(h.store().redrive_event(dead, Some(consumer), &RedriveRules::default()).await);
    if to == Via::External {
        assert_eq!(redriven.unwrap_err(), Refusal::External, "{consumer}");
        return;
    }
    redriven.expect("it is allowed");
    let served = serve(h, consumer, to, &[dead.to_owned()]).await;
    assert_eq!(served, [dead], "{consumer}");
    assert_eq!(state(h, dead, consumer).await, Some(ConsumerState::Ok), "{consumer}");
}

/// F64: what the broker has confirmed is in the queue; its report counts, and a redrive uses the new `via`.
pub async fn what_is_in_a_queue_stays_there<H: Harness>(h: H) {
    subscribe(&h, TOPIC, LANE, Via::RabbitMq).await;
    enqueue(&h, ["read", "unread"].map(draft)).await;
    for lease in claim_lane(&h, RABBITMQ).await {
        h.store().settle(lease.token, &lease.ids(), History::Keep).await.unwrap();
    }
    let changed = change(&h, subscription(TOPIC, LANE, Via::Pull)).await;
    assert_eq!((changed.moved, changed.waiting), (0, 0));
    assert!(claim(&h, 10).await.deliveries.is_empty());
    h.store().append_consumption(&report("read", LANE, true, false)).await.unwrap();
    assert_eq!(listed(&h, "read").await, EventStatus::Consumed);
    let rules = RedriveRules { sent_older_than: Duration::ZERO, ..RedriveRules::default() };
    ruled(h.store().redrive_event("unread", Some(LANE), &rules).await).expect("it is allowed");
    assert_eq!(ids(&claim(&h, 10).await), ["unread"]);
}

/// The other consumers behind the broker still get what is published to all.
pub async fn other_consumers_of_the_broker_go_on<H: Harness>(h: H) {
    subscribe(&h, TOPIC, LANE, Via::RabbitMq).await;
    subscribe(&h, TOPIC, "other", Via::RabbitMq).await;
    enqueue_one(&h, draft("e")).await;
    change(&h, subscription(TOPIC, LANE, Via::Pull)).await;
    assert_eq!(ids(&claim(&h, 10).await), ["e"]);
    let published = h.store().claim(&Claim { lane: RABBITMQ.into(), ..wanted(10) }).await.unwrap();
    assert_eq!((ids(&published), published.deliveries[0].target.as_deref()), (vec!["e"], None));
}

/// F64: disabled, a subscription gets no new event, and what waits is still delivered: behind the broker too, where the queue
/// is unbound.
pub async fn what_waits_for_a_disabled_one_is_delivered<H: Harness>(h: H) {
    for via in EVERY {
        let consumer = format!("off-{}", via.as_str());
        h.store().set_subscription(&subscription(&consumer, &consumer, via)).await.unwrap();
        let draft = |id: &str| Draft::json(consumer.clone(), &7).unwrap().event_id(format!("{consumer}-{id}"));
        enqueue(&h, ["a", "b"].map(draft)).await;
        let disabled = Subscription { enabled: false, ..subscription(&consumer, &consumer, via) };
        let changed = change(&h, disabled).await;
        assert_eq!(changed.waiting, 2, "{consumer}");
        assert!(matches!(enqueue_one(&h, draft("later")).await, Enqueued::Unheard(_)), "{consumer}");
        let waiting = ["a", "b"].map(|id| format!("{consumer}-{id}"));
        assert_eq!(serve(&h, &consumer, via, &waiting).await, waiting, "{consumer}");
        for id in &waiting {
            assert_eq!(listed(&h, id).await, EventStatus::Consumed);
        }
    }
}

/// F64: a consumer has one `via`. A change of all its topics moves what waits for all of them.
pub async fn a_second_via_is_refused<H: Harness>(h: H) {
    subscribe(&h, TOPIC, LANE, Via::Pull).await;
    subscribe(&h, "order.refunded", LANE, Via::Pull).await;
    enqueue_one(&h, draft("paid")).await;
    enqueue_one(&h, Draft::json("order.refunded", &7).unwrap().event_id("refunded")).await;
    for via in EVERY.into_iter().filter(|via| *via != Via::Pull) {
        let second = SubscriptionChange::new(subscription(TOPIC, LANE, via));
        let refusal = ruled(h.store().change_subscription(&second).await).expect_err("it is refused");
        let expected = Refusal::SecondVia { consumer: LANE.into(), via: "pull", topics: "order.refunded".into() };
        assert_eq!(refusal, expected);
        assert!(refusal.to_string().contains("allTopics"), "{refusal}");
    }
    let new = SubscriptionChange::new(subscription("*", LANE, Via::External));
    assert!(ruled(h.store().change_subscription(&new).await).is_err(), "a new topic too");
    assert_eq!(h.store().subscriptions(None).await.unwrap().len(), 2);

    let all =
        SubscriptionChange { all_topics: true, ..SubscriptionChange::new(subscription(TOPIC, LANE, Via::RabbitMq)) };
    let changed = ruled(h.store().change_subscription(&all).await).expect("it is allowed");
    assert_eq!((changed.moved, changed.waiting), (2, 1), "one event of each topic");
    let stored = h.store().subscriptions(None).await.unwrap();
    assert!(stored.iter().all(|row| row.subscription.via == Via::RabbitMq), "{stored:?}");
    let both = ["paid", "refunded"].map(String::from);
    assert_eq!(serve(&h, LANE, Via::RabbitMq, &both).await, both);
}

/// A key stays in order: its deliveries move together, behind no dead head.
pub async fn a_moved_key_stays_in_order<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, keyed("a", 4)).await;
    bury_head(&h, "a1").await;
    assert!(claim_keyed(&h, 10).await.deliveries.is_empty(), "held");
    change(&h, subscription(TOPIC, LANE, Via::RabbitMq)).await;
    let claim = Claim { lane: RABBITMQ.into(), ..wanted(10) };
    let published = h.store().claim_keyed(&claim, DeadHead::Hold).await.unwrap();
    assert_eq!(ids(&published), ["a2", "a3", "a4"]);
    change(&h, subscription(TOPIC, LANE, Via::Pull)).await;
    nothing_is_written(&h, published.token, &published.ids(), "a3").await;
    assert_eq!(ids(&claim_keyed(&h, 10).await), ["a2", "a3", "a4"], "and back");
}

/// The version that was read is the one that is changed.
pub async fn a_change_may_ask_for_a_version<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    let read = h.store().subscriptions(None).await.unwrap().remove(0).subscription;
    let only_if = |versions: &[&str], sort_order| SubscriptionChange {
        if_version: Some(versions.iter().map(ToString::to_string).collect()),
        ..SubscriptionChange::new(Subscription { sort_order, ..read.clone() })
    };
    let stale = |answer| ruled::<SubscriptionChanged>(answer).expect_err("it is refused") == Refusal::Stale;
    assert!(stale(h.store().change_subscription(&only_if(&["another"], 1)).await));
    let changed = h.store().change_subscription(&only_if(&["another", &read.version()], 1)).await.unwrap();
    assert_ne!(changed.stored.subscription.version(), read.version());
    assert!(stale(h.store().change_subscription(&only_if(&[&read.version()], 2)).await), "it has changed since");
    h.store().change_subscription(&only_if(&["*"], 3)).await.unwrap();
    let removal =
        SubscriptionRemoval { if_version: Some(vec![read.version()]), ..SubscriptionRemoval::new(TOPIC, LANE) };
    assert_eq!(ruled(h.store().end_subscription(&removal).await).expect_err("it is refused"), Refusal::Stale);
    h.store().remove_subscription(TOPIC, LANE).await.unwrap();
    assert!(stale(h.store().change_subscription(&only_if(&["*"], 4)).await), "it does not exist");
}

/// S17: a webhook's own secret, the one before it for a day, and neither in any other read nor in the audit.
pub async fn a_webhook_may_have_its_own_secret<H: Harness>(h: H) {
    let [one, two] =
        ["c2VjcmV0LW51bWJlci1vbmUtb2YtdHdv", "c2VjcmV0LW51bWJlci10d28tb2YtdHdv"].map(|key| format!("whsec_{key}"));
    let webhook = || subscription(TOPIC, LANE, Via::Webhook);
    let change = async |subscription: Subscription, secret: SecretChange| {
        let change = SubscriptionChange { secret, ..SubscriptionChange::new(subscription) };
        h.store().change_subscription(&change).await
    };
    let set = |text: &str| SecretChange::Set(text.parse().unwrap());
    let found = async |consumer: &str| {
        let own = h.store().webhook_secrets().await.unwrap();
        assert!(own.iter().all(|own| own.topic == TOPIC), "{own:?}");
        let own = own.into_iter().filter(|own| own.consumer == consumer);
        own.flat_map(|own| own.secrets).map(|secret| secret.as_str().to_owned()).collect::<Vec<_>>()
    };
    let record = NewAudit { actor: "ada", action: "set", outcome: "200", ..NewAudit::default() };
    audited(&record, change(webhook(), set(&one))).await.done.unwrap();
    let audit = h.store().audit(None, 1).await.unwrap().remove(0).after.unwrap();
    assert!(audit.contains("\"secret\":\"set\"") && !audit.contains("whsec"), "{audit}");
    change(webhook(), SecretChange::Keep).await.unwrap();
    change(webhook(), set(&one)).await.unwrap();
    assert_eq!(found(LANE).await, [one.as_str()], "set again, it is no rotation");
    change(webhook(), set(&two)).await.unwrap();
    assert_eq!(found(LANE).await, [two.clone(), one.clone()], "both sign");
    age(&h, 25 * HOUR).await;
    assert_eq!(found(LANE).await, [two.as_str()], "the rotation has ended");
    change(webhook(), set(&one)).await.unwrap();
    h.store().rename_consumer(LANE, "renamed").await.unwrap();
    assert_eq!((found("renamed").await, found(LANE).await), (vec![one.clone(), two.clone()], vec![]));
    let renamed = || subscription(TOPIC, "renamed", Via::Webhook);
    change(renamed(), SecretChange::Remove).await.unwrap();
    assert_eq!(found("renamed").await, Vec::<String>::new(), "neither of them signs any more");

    change(renamed(), set(&one)).await.unwrap();
    change(subscription(TOPIC, "renamed", Via::Pull), SecretChange::Keep).await.unwrap();
    assert_eq!(found("renamed").await, Vec::<String>::new(), "it is no webhook any more");
    change(renamed(), set(&one)).await.unwrap();
    h.store().remove_subscription(TOPIC, "renamed").await.unwrap();
    assert_eq!(found("renamed").await, [one.as_str()], "what waits is still called and signed");
    change(renamed(), SecretChange::Keep).await.unwrap();
    assert_eq!(found("renamed").await, Vec::<String>::new(), "it is another webhook");

    let refused = change(subscription(TOPIC, "puller", Via::Pull), set(&one)).await;
    assert!(matches!(refused, Err(postrider::Error::Invalid { field: "secret", .. })), "{refused:?}");
    assert!("whsec_c2hvcnQ=".parse::<SecretText>().is_err());
    assert_eq!(format!("{:?}", set(&one)), "Set(SecretText(***))");
}

/// Two changes at the same moment that exclude each other: one of them wins.
pub async fn concurrent_changes_leave_one_via<H: Harness>(h: H) {
    let topics = (0..8).map(|n| {
        let h = h.clone();
        let via = if n % 2 == 0 { Via::Pull } else { Via::External };
        async move {
            h.store().change_subscription(&SubscriptionChange::new(subscription(&format!("t{n}"), LANE, via))).await
        }
    });
    let answers = together(topics).await;
    let won = answers.into_iter().filter(was_allowed).count();
    assert_eq!(won, 4);
    let stored = h.store().subscriptions(None).await.unwrap();
    assert!(stored.iter().all(|row| row.subscription.via == stored[0].subscription.via), "{stored:?}");
}

fn was_allowed(answer: &postrider::Result<SubscriptionChanged>) -> bool {
    match answer {
        Ok(_) => true,
        Err(postrider::Error::Refused(Refusal::SecondVia { .. })) => false,
        Err(error) => panic!("the store failed: {error}"),
    }
}

/// F64: a delivery that a producer wrote for the old `via` in the meantime moves when the subscription is set again.
pub async fn what_a_producer_wrote_late_moves_with_a_second_call<H: Harness>(h: H) {
    if !h.features().concurrent_transactions {
        return skipped("no producer writes during the change");
    }
    subscribe_lane(&h).await;
    let outbox = Outbox::new(h.store().clone());
    let mut tx = h.store().begin().await.unwrap();
    outbox.enqueue_many(&mut *tx, [draft("late")]).await.unwrap();
    change(&h, subscription(TOPIC, LANE, Via::RabbitMq)).await;
    h.store().commit(tx).await.unwrap();
    assert_eq!(status(&h, "late").await, DeliveryStatus::New, "in the old lane");
    assert_eq!(change(&h, subscription(TOPIC, LANE, Via::RabbitMq)).await.moved, 1);
    assert_eq!(serve(&h, LANE, Via::RabbitMq, &["late".to_owned()]).await, ["late"]);
}

/// D.2: a program that starts does not give its consumer a second `via`.
pub async fn a_new_topic_is_registered_with_the_via_of_its_consumer<H: Harness>(h: H) {
    h.store().register(&subscription(TOPIC, LANE, Via::Local)).await.unwrap();
    change(&h, subscription(TOPIC, LANE, Via::Webhook)).await;
    h.store().register(&subscription(TOPIC, LANE, Via::Local)).await.unwrap();
    h.store().register(&subscription("order.refunded", LANE, Via::Local)).await.unwrap();
    let stored = h.store().subscriptions(None).await.unwrap();
    assert_eq!(stored.len(), 2);
    for row in stored {
        assert_eq!((row.subscription.via, row.subscription.endpoint.is_some()), (Via::Webhook, true));
    }
}

/// D.2: a change by a statement in the table counts for the next event, and survives the restart of the consumer.
pub async fn a_change_in_the_table_counts<H: Harness>(h: H) {
    if h.dialect().is_none() {
        return skipped("there is no table");
    }
    let execute = async |sql: &str| h.execute(&mut *h.bare_connection().await, sql, &[]).await;
    let in_code = subscription(TOPIC, LANE, Via::Local);
    h.store().register(&in_code).await.unwrap();
    assert!(matches!(enqueue_one(&h, draft("before")).await, Enqueued::Accepted(_)));
    for (by_hand, id) in [
        ("UPDATE postrider_subscription SET enabled = false WHERE consumer = 'points'", "disabled"),
        ("UPDATE postrider_subscription SET enabled = true, removed = true WHERE consumer = 'points'", "removed"),
    ] {
        execute(by_hand).await;
        h.store().register(&in_code).await.unwrap();
        assert!(matches!(enqueue_one(&h, draft(id)).await, Enqueued::Unheard(_)), "{id}");
    }
    assert_eq!(ids(&claim(&h, 10).await), ["before"], "what waited is delivered");
    execute("UPDATE postrider_subscription SET removed = false, via = 'external', max_attempts = 3 WHERE consumer = 'points'")
        .await;
    h.store().register(&in_code).await.unwrap();
    let stored = h.store().subscriptions(None).await.unwrap().remove(0).subscription;
    assert_eq!((stored.via, stored.max_attempts), (Via::External, Some(3)));
    enqueue_one(&h, draft("external")).await;
    let found = find(&h, "external").await;
    assert!(found.deliveries.is_empty());
    assert_eq!(found.consumers().get(LANE), Some(&ConsumerState::Waiting));
    execute("INSERT INTO postrider_subscription (topic, consumer, via) VALUES ('order.paid', 'coupon', 'pull')").await;
    enqueue_one(&h, draft("new")).await;
    let lanes: Vec<_> = find(&h, "new").await.deliveries.into_iter().map(|one| one.lane).collect();
    assert_eq!(lanes, ["coupon"]);
}
