//! `redrive_event`: the rules for operators, checked against the rows.

use std::time::Duration;

use postrider::Via;
use postrider::prelude::*;
use postrider::redrive::{RedriveRules, Refusal};
use postrider::status::EventStatus;
use postrider::store::{Claim, History, Lease, Record};

use crate::Harness;
use crate::fold::{fold_all, report};
use crate::steps::*;

async fn redrive(h: &impl Harness, event_id: &str, consumer: Option<&str>) -> Result<Record, Refusal> {
    ruled(h.store().redrive_event(event_id, consumer, &RedriveRules::default()).await)
}

async fn refused(h: &impl Harness, event_id: &str, consumer: Option<&str>) -> Refusal {
    let before = format!("{:?}", find(h, event_id).await);
    let refusal = redrive(h, event_id, consumer).await.expect_err("it is refused");
    assert_eq!(format!("{:?}", find(h, event_id).await), before, "and nothing is written");
    refusal
}

async fn append_report(h: &impl Harness, event_id: &str, consumer: &str, success: bool, will_retry: bool) {
    h.store().append_consumption(&report(event_id, consumer, success, will_retry)).await.unwrap();
}

async fn claim_of(h: &impl Harness, lane: &str) -> Lease {
    h.store().claim(&Claim { lane: lane.into(), ..wanted(100) }).await.unwrap()
}

async fn settle_kept(h: &impl Harness, lease: &Lease) {
    let settled = h.store().settle(lease.token, &lease.ids(), History::Keep).await.unwrap();
    assert_eq!(settled.len(), lease.deliveries.len());
}

async fn bury_all(h: &impl Harness, lane: &str) {
    let lease = claim_of(h, lane).await;
    let burials: Vec<_> = lease.ids().into_iter().map(buried).collect();
    h.store().bury(lease.token, &burials, History::Keep).await.unwrap();
}

/// D.8: the unfinished consumers get the event again under the same id, and the redrive is counted.
pub async fn only_unfinished_consumers_receive<H: Harness>(h: H) {
    for lane in ["points", "coupon", "mail"] {
        subscribe(&h, TOPIC, lane, Via::Local).await;
    }
    enqueue_one(&h, draft("e")).await;
    settle_kept(&h, &claim_of(&h, "points").await).await;
    bury_all(&h, "coupon").await;
    let mail = claim_of(&h, "mail").await;
    h.store().retry(mail.token, &[failed(mail.deliveries[0].id, HOUR)], History::Keep).await.unwrap();
    let found = redrive(&h, "e", None).await.expect("it is allowed");
    let standing = found.standing();
    assert_eq!((standing.status, standing.redrives), (EventStatus::Retrying, 1));
    assert!(claim_of(&h, "points").await.deliveries.is_empty(), "it has had it");
    for lane in ["coupon", "mail"] {
        let lease = claim_of(&h, lane).await;
        assert_eq!((ids(&lease), lease.deliveries[0].attempt), (vec!["e"], 1), "{lane}");
        settle_kept(&h, &lease).await;
    }
    assert_eq!(find(&h, "e").await.standing().status, EventStatus::Consumed);
    assert_eq!(refused(&h, "e", None).await, Refusal::Consumed);
    fold_all(&h).await;
    assert_eq!(find(&h, "e").await.listed, Some(EventStatus::Consumed));
}

/// D.8: only the named consumer gets the event.
pub async fn a_named_consumer_alone_receives<H: Harness>(h: H) {
    for lane in ["points", "coupon"] {
        subscribe(&h, TOPIC, lane, Via::Local).await;
    }
    enqueue_one(&h, draft("e")).await;
    bury_all(&h, "points").await;
    bury_all(&h, "coupon").await;
    redrive(&h, "e", Some("coupon")).await.expect("it is allowed");
    assert!(claim_of(&h, "points").await.deliveries.is_empty());
    settle_kept(&h, &claim_of(&h, "coupon").await).await;
    assert_eq!(refused(&h, "e", Some("coupon")).await, Refusal::Consumed);
    assert_eq!(refused(&h, "e", Some("unknown")).await, Refusal::UnknownConsumer);
    assert_eq!(redrive(&h, "nothing", None).await.expect_err("unknown"), Refusal::UnknownEvent);
}

/// D.8: each remote consumer gets a delivery of its own; the other consumers of the broker get none.
pub async fn remote_consumers_are_redriven_one_by_one<H: Harness>(h: H) {
    for consumer in ["member", "message"] {
        subscribe(&h, TOPIC, consumer, Via::RabbitMq).await;
    }
    subscribe(&h, TOPIC, "own-means", Via::External).await;
    enqueue_one(&h, draft("e")).await;
    assert_eq!(refused(&h, "e", None).await, Refusal::NotSent, "it goes out by itself");
    settle_kept(&h, &claim_of(&h, "rabbitmq").await).await;
    append_report(&h, "e", "member", true, false).await;
    append_report(&h, "e", "message", false, false).await;
    redrive(&h, "e", None).await.expect("it is allowed");
    let lease = claim_of(&h, "rabbitmq").await;
    let targets: Vec<_> = lease.deliveries.iter().map(|one| one.target.as_deref()).collect();
    assert_eq!(targets, [Some("message")], "who has had it, and who gets it by its own means, are left out");
    assert_eq!(refused(&h, "e", None).await, Refusal::InProgress);
    settle_kept(&h, &lease).await;
    assert_eq!(refused(&h, "e", Some("own-means")).await, Refusal::External);
    // If the broker delivery is dead, it is redriven as a whole, because no consumer has received the event.
    enqueue_one(&h, draft("f")).await;
    bury_all(&h, "rabbitmq").await;
    redrive(&h, "f", None).await.expect("it is allowed");
    let lease = claim_of(&h, "rabbitmq").await;
    let targets: Vec<_> = lease.deliveries.iter().map(|one| one.target.as_deref()).collect();
    assert_eq!(targets, [None]);
}

/// D.8: an event that was sent but not reported on is redriven only after `sent_older_than`.
pub async fn an_event_sent_recently_is_refused<H: Harness>(h: H) {
    subscribe(&h, TOPIC, "member", Via::RabbitMq).await;
    enqueue_one(&h, draft("e")).await;
    settle_kept(&h, &claim_of(&h, "rabbitmq").await).await;
    let patience = RedriveRules::default().sent_older_than;
    assert_eq!(refused(&h, "e", None).await, Refusal::SentRecently(patience));
    assert_eq!(refused(&h, "e", Some("member")).await, Refusal::SentRecently(patience));
    age(&h, patience + MINUTE).await;
    redrive(&h, "e", None).await.expect("it is allowed");
    settle_kept(&h, &claim_of(&h, "rabbitmq").await).await;
    assert_eq!(refused(&h, "e", None).await, Refusal::SentRecently(patience), "it was sent again");
}

/// D.8: redrives are limited by number and by age.
pub async fn limits_end_redriving<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, ["often", "old"].map(draft)).await;
    bury_all(&h, LANE).await;
    for n in 1..=10 {
        let found = redrive(&h, "often", None).await.unwrap_or_else(|refusal| panic!("{n}: {refusal}"));
        assert_eq!(found.standing().redrives, n);
        bury_all(&h, LANE).await;
    }
    let refusal = refused(&h, "often", None).await;
    assert_eq!(refusal, Refusal::TooMany(10));
    assert!(refusal.to_string().contains("10 times"), "{refusal}");
    let two = RedriveRules { max_count: 12, ..RedriveRules::default() };
    assert!(ruled(h.store().redrive_event("often", None, &two).await).is_ok(), "the limit is configured");
    age(&h, 8 * 24 * HOUR).await;
    assert_eq!(refused(&h, "old", None).await, Refusal::TooOld(RedriveRules::default().horizon));
}

/// D.8: a redrive of what the last redrive made due, and that was not tried since, changes nothing and does not count.
pub async fn an_event_that_still_waits_uses_up_no_redrive<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    subscribe(&h, TOPIC, "mail", Via::Local).await;
    enqueue_one(&h, draft("e")).await;
    bury_all(&h, LANE).await;
    bury_all(&h, "mail").await;
    for _ in 0..20 {
        let found = redrive(&h, "e", Some("mail")).await.expect("it is allowed");
        assert_eq!(found.standing().redrives, 1, "it was not delivered in between");
    }
    assert_eq!(redrive(&h, "e", None).await.expect("it is allowed").standing().redrives, 2, "the other is due now too");
    assert_eq!(redrive(&h, "e", None).await.expect("it is allowed").standing().redrives, 2);
    assert_eq!(claim_of(&h, LANE).await.deliveries[0].attempt, 1);
    bury_all(&h, "mail").await;
    assert_eq!(redrive(&h, "e", Some("mail")).await.expect("it is allowed").standing().redrives, 3);
}

/// D.8, D.9: leased and expired events are refused.
pub async fn what_is_held_or_expired_is_refused<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e").expire_after(HOUR)).await;
    let lease = claim(&h, 1).await;
    h.store().retry(lease.token, &[failed(lease.deliveries[0].id, Duration::ZERO)], History::Keep).await.unwrap();
    let lease = claim(&h, 1).await;
    assert_eq!(refused(&h, "e", None).await, Refusal::InProgress);
    h.store().bury(lease.token, &[buried(lease.deliveries[0].id)], History::Keep).await.unwrap();
    redrive(&h, "e", None).await.expect("it is allowed");
    bury_all(&h, LANE).await;
    age(&h, 2 * HOUR).await;
    assert_eq!(refused(&h, "e", None).await, Refusal::Expired);
    assert_eq!(refused(&h, "e", Some(LANE)).await, Refusal::Expired);
}

/// D.8, D.6: a redrive gives old events to a new consumer, also consumed ones, which are RETRYING then.
pub async fn a_new_consumer_gets_old_events<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    settle_kept(&h, &claim(&h, 1).await).await;
    assert_eq!(find(&h, "e").await.standing().status, EventStatus::Consumed);
    subscribe(&h, "*", "auditor", Via::Local).await;
    subscribe(&h, TOPIC, "member", Via::RabbitMq).await;
    assert_eq!(refused(&h, "e", None).await, Refusal::Consumed, "no consumer is named");
    redrive(&h, "e", Some("auditor")).await.expect("it is allowed");
    assert_eq!(find(&h, "e").await.standing().status, EventStatus::Retrying, "one more is expected");
    settle_kept(&h, &claim_of(&h, "auditor").await).await;
    assert_eq!(find(&h, "e").await.standing().status, EventStatus::Consumed);
    redrive(&h, "e", Some("member")).await.expect("it is allowed");
    let lease = claim_of(&h, "rabbitmq").await;
    assert_eq!(lease.deliveries[0].target.as_deref(), Some("member"));
    settle_kept(&h, &lease).await;
    assert_eq!(find(&h, "e").await.standing().status, EventStatus::Sent, "it will report");
    append_report(&h, "e", "member", true, false).await;
    assert_eq!(find(&h, "e").await.standing().status, EventStatus::Consumed);
}

/// D.8: three concurrent callers redrive each event once.
pub async fn redrives_at_once_happen_one_after_the_other<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, drafts(20)).await;
    bury_all(&h, LANE).await;
    let people = (0..3).map(|_| {
        let h = h.clone();
        async move {
            let mut done = 0;
            for n in 0..20 {
                let one = RedriveRules { max_count: 1, ..RedriveRules::default() };
                let redriven = ruled(h.store().redrive_event(&format!("e{n:05}"), None, &one).await);
                done += u32::from(redriven.is_ok());
            }
            done
        }
    });
    assert_eq!(together(people).await.into_iter().sum::<u32>(), 20);
    assert_eq!(claim_of(&h, LANE).await.deliveries.len(), 20);
}

/// A.6: a redriven event keeps its place in the order of its key.
pub async fn a_redriven_head_frees_its_key<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, keyed("a", 3)).await;
    let lease = claim_keyed(&h, 10).await;
    h.store().bury(lease.token, &[buried(lease.deliveries[0].id)], History::Keep).await.unwrap();
    assert!(claim_keyed(&h, 10).await.deliveries.is_empty(), "the dead head holds");
    redrive(&h, "a1", None).await.expect("it is allowed");
    assert_eq!(ids(&claim_keyed(&h, 10).await), ["a1", "a2", "a3"]);
}
