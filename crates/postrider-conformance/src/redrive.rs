//! `redrive`: an operator makes a delivery due now.

use std::time::Duration;

use postrider::entry::DeliveryStatus;
use postrider::prelude::*;
use postrider::store::{Claim, History, Redriven};

use crate::Harness;
use crate::steps::*;

async fn redrive(h: &impl Harness, event_id: &str) -> Redriven {
    h.store().redrive(event_id, LANE, None).await.unwrap()
}

/// D.8: a delivery that waits for its retry, and one that is delayed.
pub async fn a_waiting_delivery_is_due_now<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    let lease = claim(&h, 1).await;
    let failure = [failed(lease.deliveries[0].id, HOUR)];
    h.store().retry(lease.token, &failure, History::Omit).await.unwrap();
    enqueue_one(&h, draft("delayed").delay(HOUR)).await;
    assert!(claim(&h, 10).await.deliveries.is_empty());
    assert_eq!(redrive(&h, "e").await, Redriven::Due);
    assert_eq!(redrive(&h, "delayed").await, Redriven::Due);
    let lease = claim(&h, 10).await;
    assert_eq!(ids(&lease), ["e", "delayed"]);
    assert!(lease.deliveries.iter().all(|d| d.attempt == 1), "attempts are counted anew");
}

/// D.8: its attempts start again at 1.
pub async fn a_dead_delivery_is_due_now_with_its_attempts_reset<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    claim(&h, 1).await;
    age(&h, HOUR).await;
    let lease = claim(&h, 1).await;
    let burial = [buried(lease.deliveries[0].id)];
    h.store().bury(lease.token, &burial, History::Keep).await.unwrap();
    assert_eq!(redrive(&h, "e").await, Redriven::Due);
    let row = delivery(&h, "e").await;
    assert_eq!((row.status, row.attempts), (DeliveryStatus::New, 0));
    assert_eq!(claim(&h, 1).await.deliveries[0].attempt, 1);
    assert_eq!(find(&h, "e").await.consumptions.len(), 1, "history is never taken back");
}

/// D.8: a settled delivery is created again, with the same event id.
pub async fn a_finished_delivery_is_made_anew<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    settle(&h, &claim(&h, 1).await).await;
    assert_eq!(redrive(&h, "e").await, Redriven::Made);
    assert_eq!(redrive(&h, "e").await, Redriven::Due, "and only once");
    let lease = claim(&h, 10).await;
    assert_eq!(ids(&lease), ["e"]);
    settle(&h, &lease).await;
}

/// DESIGN 6: a redrive gives an old event to a new consumer.
pub async fn a_consumer_that_came_later_gets_the_event<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    assert_eq!(h.store().redrive("e", "newcomer", None).await.unwrap(), Redriven::Made);
    let newcomer = Claim { lane: "newcomer".into(), ..wanted(10) };
    let lease = h.store().claim(&newcomer).await.unwrap();
    assert_eq!(ids(&lease), ["e"]);
    let shard = find(&h, "e").await.deliveries.iter().map(|d| d.shard).collect::<Vec<_>>();
    assert_eq!(shard, [lease.deliveries[0].envelope.shard(); 2]);
}

/// D.8: a leased delivery is refused, and its worker is not affected.
pub async fn a_delivery_being_worked_on_is_refused<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    let lease = claim(&h, 1).await;
    assert_eq!(redrive(&h, "e").await, Redriven::InProgress);
    assert!(claim(&h, 1).await.deliveries.is_empty());
    settle(&h, &lease).await;
}

/// F01: after a redrive, the old holder's token is outdated.
pub async fn a_delivery_whose_lease_ran_out_is_taken_from_its_holder<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    let zombie = claim(&h, 1).await;
    age(&h, HOUR).await;
    assert_eq!(redrive(&h, "e").await, Redriven::Due);
    nothing_is_written(&h, zombie.token, &zombie.ids(), "e").await;
    assert_eq!(claim(&h, 1).await.deliveries[0].attempt, 1);
}

/// D.9: an expired event is not redriven.
pub async fn an_expired_event_is_refused<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e").expire_after(HOUR)).await;
    settle(&h, &claim(&h, 1).await).await;
    assert_eq!(redrive(&h, "e").await, Redriven::Made);
    settle(&h, &claim(&h, 1).await).await;
    age(&h, 2 * HOUR).await;
    assert_eq!(redrive(&h, "e").await, Redriven::Expired);
    assert!(find(&h, "e").await.deliveries.is_empty());
}

/// No delivery is created for an unknown event.
pub async fn an_unknown_event_is_refused<H: Harness>(h: H) {
    assert_eq!(redrive(&h, "e").await, Redriven::UnknownEvent);
    assert!(h.store().counts().await.unwrap().is_empty());
}

/// A target is one consumer of the broker. Its delivery and its attempts are separate from the shared ones.
pub async fn a_target_has_a_delivery_of_its_own<H: Harness>(h: H) {
    subscribe(&h, TOPIC, "member", postrider::Via::RabbitMq).await;
    subscribe(&h, TOPIC, "message", postrider::Via::RabbitMq).await;
    enqueue_one(&h, draft("e")).await;
    assert_eq!(h.store().redrive("e", "rabbitmq", Some("member")).await.unwrap(), Redriven::Made);
    let claim = Claim { lane: "rabbitmq".into(), ..wanted(10) };
    let lease = h.store().claim(&claim).await.unwrap();
    let mut targets: Vec<_> = lease.deliveries.iter().map(|d| d.target.as_deref()).collect();
    targets.sort_unstable();
    assert_eq!(targets, [None, Some("member")]);
    let member = lease.deliveries.iter().find(|d| d.target.is_some()).unwrap();
    let failure = [failed(member.id, Duration::ZERO)];
    h.store().retry(lease.token, &failure, History::Keep).await.unwrap();
    let of_member = find(&h, "e").await.consumptions.into_iter().filter(|c| c.consumer == "member");
    assert_eq!(of_member.map(|c| c.attempt).collect::<Vec<_>>(), [0, 1]);
}

/// One lease may hold two deliveries of one event. Each is settled separately.
pub async fn a_target_is_settled_by_itself<H: Harness>(h: H) {
    subscribe(&h, TOPIC, "member", postrider::Via::RabbitMq).await;
    enqueue_one(&h, draft("e")).await;
    assert_eq!(h.store().redrive("e", "rabbitmq", Some("member")).await.unwrap(), Redriven::Made);
    let claim = Claim { lane: "rabbitmq".into(), ..wanted(10) };
    let lease = h.store().claim(&claim).await.unwrap();
    let id = |target: Option<&str>| lease.deliveries.iter().find(|d| d.target.as_deref() == target).unwrap().id;
    let (member, all) = (id(Some("member")), id(None));
    assert_eq!(h.store().extend(lease.token, &[member], HOUR).await.unwrap(), [member]);
    assert_eq!(h.store().settle(lease.token, &[member], History::Omit).await.unwrap(), [member]);
    assert_eq!(h.store().release(lease.token, &[all]).await.unwrap(), [all]);
}
