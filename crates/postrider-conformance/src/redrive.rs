//! `redrive`: a person makes a delivery due now.

use std::time::Duration;

use postrider::Store;
use postrider::entry::DeliveryStatus;
use postrider::store::{Claim, History, Redriven};

use crate::Harness;
use crate::steps::*;

async fn redrive(h: &impl Harness, event_id: &str) -> Redriven {
    h.store().redrive(event_id, LANE, "").await.unwrap()
}

/// D.8: a delivery that waits for its retry, or that is delayed.
pub async fn a_waiting_delivery_is_due_now<H: Harness>(h: H) {
    somebody_listens(&h).await;
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

/// D.8: it has all its attempts again.
pub async fn a_dead_delivery_is_due_now_with_its_attempts_reset<H: Harness>(h: H) {
    somebody_listens(&h).await;
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

/// D.8: the same event id goes out again.
pub async fn a_finished_delivery_is_made_anew<H: Harness>(h: H) {
    somebody_listens(&h).await;
    enqueue_one(&h, draft("e")).await;
    settle(&h, &claim(&h, 1).await).await;
    assert_eq!(redrive(&h, "e").await, Redriven::Made);
    assert_eq!(redrive(&h, "e").await, Redriven::Due, "and only once");
    let lease = claim(&h, 10).await;
    assert_eq!(ids(&lease), ["e"]);
    settle(&h, &lease).await;
}

/// DESIGN 6: that is how a new consumer gets old events.
pub async fn a_consumer_that_came_later_gets_the_event<H: Harness>(h: H) {
    somebody_listens(&h).await;
    enqueue_one(&h, draft("e")).await;
    assert_eq!(h.store().redrive("e", "newcomer", "").await.unwrap(), Redriven::Made);
    let newcomer = Claim { lane: "newcomer".into(), ..wanted(10) };
    let lease = h.store().claim(&newcomer).await.unwrap();
    assert_eq!(ids(&lease), ["e"]);
    let shard = find(&h, "e").await.deliveries.iter().map(|d| d.shard).collect::<Vec<_>>();
    assert_eq!(shard, [lease.deliveries[0].envelope.shard(); 2]);
}

/// D.8: one being worked on is refused, and its worker goes on undisturbed.
pub async fn a_delivery_being_worked_on_is_refused<H: Harness>(h: H) {
    somebody_listens(&h).await;
    enqueue_one(&h, draft("e")).await;
    let lease = claim(&h, 1).await;
    assert_eq!(redrive(&h, "e").await, Redriven::InProgress);
    assert!(claim(&h, 1).await.deliveries.is_empty());
    settle(&h, &lease).await;
}

/// F01: after a redrive the old holder's token is no longer the last one.
pub async fn a_delivery_whose_lease_ran_out_is_taken_from_its_holder<H: Harness>(h: H) {
    somebody_listens(&h).await;
    enqueue_one(&h, draft("e")).await;
    let zombie = claim(&h, 1).await;
    age(&h, HOUR).await;
    assert_eq!(redrive(&h, "e").await, Redriven::Due);
    nothing_is_written(&h, zombie.token, &zombie.ids(), "e").await;
    assert_eq!(claim(&h, 1).await.deliveries[0].attempt, 1);
}

/// D.9: what is past its expiry is not redriven.
pub async fn an_expired_event_is_refused<H: Harness>(h: H) {
    somebody_listens(&h).await;
    enqueue_one(&h, draft("e").expire_after(HOUR)).await;
    settle(&h, &claim(&h, 1).await).await;
    assert_eq!(redrive(&h, "e").await, Redriven::Made);
    settle(&h, &claim(&h, 1).await).await;
    age(&h, 2 * HOUR).await;
    assert_eq!(redrive(&h, "e").await, Redriven::Expired);
    assert!(find(&h, "e").await.deliveries.is_empty());
}

/// There is nothing to redrive.
pub async fn an_unknown_event_is_refused<H: Harness>(h: H) {
    assert_eq!(redrive(&h, "e").await, Redriven::UnknownEvent);
    assert!(h.store().counts().await.unwrap().is_empty());
}

/// One consumer of the broker, alone: its delivery is apart from that of all, and so are its attempts.
pub async fn a_target_has_a_delivery_of_its_own<H: Harness>(h: H) {
    subscribe(&h, TOPIC, "member", postrider::Via::RabbitMq).await;
    subscribe(&h, TOPIC, "message", postrider::Via::RabbitMq).await;
    enqueue_one(&h, draft("e")).await;
    assert_eq!(h.store().redrive("e", "rabbitmq", "member").await.unwrap(), Redriven::Made);
    let claim = Claim { lane: "rabbitmq".into(), ..wanted(10) };
    let lease = h.store().claim(&claim).await.unwrap();
    let mut targets: Vec<&str> = lease.deliveries.iter().map(|d| d.target.as_str()).collect();
    targets.sort_unstable();
    assert_eq!(targets, ["", "member"]);
    let member = lease.deliveries.iter().find(|d| d.target == "member").unwrap();
    let failure = [failed(member.id, Duration::ZERO)];
    h.store().retry(lease.token, &failure, History::Keep).await.unwrap();
    let of_member = find(&h, "e").await.consumptions.into_iter().filter(|c| c.consumer == "member");
    assert_eq!(of_member.map(|c| c.attempt).collect::<Vec<_>>(), [0, 1]);
}

/// One claim may hold two deliveries of one event: what is done with one is not done with the other.
pub async fn a_target_is_settled_by_itself<H: Harness>(h: H) {
    subscribe(&h, TOPIC, "member", postrider::Via::RabbitMq).await;
    enqueue_one(&h, draft("e")).await;
    assert_eq!(h.store().redrive("e", "rabbitmq", "member").await.unwrap(), Redriven::Made);
    let claim = Claim { lane: "rabbitmq".into(), ..wanted(10) };
    let lease = h.store().claim(&claim).await.unwrap();
    let id = |target: &str| lease.deliveries.iter().find(|d| d.target == target).unwrap().id;
    assert_eq!(h.store().extend(lease.token, &[id("member")], HOUR).await.unwrap(), [id("member")]);
    assert_eq!(h.store().settle(lease.token, &[id("member")], History::Omit).await.unwrap(), [id("member")]);
    assert_eq!(h.store().release(lease.token, &[id("")]).await.unwrap(), [id("")]);
}
