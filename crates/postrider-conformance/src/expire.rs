//! `expire`: an operator ends an event.

use postrider::Via;
use postrider::prelude::*;
use postrider::redrive::{RedriveRules, Refusal};
use postrider::status::EventStatus;
use postrider::store::History;

use crate::Harness;
use crate::fold::{listed, report};
use crate::steps::*;

/// D.9: an expired event is neither retried nor redriven, and a worker that holds it loses its lease.
pub async fn an_event_is_expired_by_hand<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, ["waiting", "held", "dead"].map(draft)).await;
    let lease = claim(&h, 3).await;
    let [waiting, held, dead] = lease.ids()[..] else { panic!("{lease:?}") };
    h.store().retry(lease.token, &[failed(waiting, HOUR)], History::Keep).await.unwrap();
    h.store().bury(lease.token, &[buried(dead)], History::Keep).await.unwrap();
    for id in ["waiting", "held", "dead"] {
        let found = ruled(h.store().expire(id).await).expect("it is allowed");
        assert_eq!(found.standing().status, EventStatus::Expired, "{id}");
        assert!(found.deliveries.is_empty(), "{id}");
        assert_eq!(listed(&h, id).await, EventStatus::Expired);
        let again = ruled(h.store().expire(id).await).expect("the same again");
        assert_eq!(again.kept, found.kept, "once");
        let refusal = ruled(h.store().redrive_event(id, None, &RedriveRules::default()).await);
        assert_eq!(refusal.expect_err("it is refused"), Refusal::Expired);
    }
    assert!(h.store().settle(lease.token, &[held], History::Keep).await.unwrap().is_empty(), "its lease is gone");
    age(&h, 2 * HOUR).await;
    assert!(claim(&h, 10).await.deliveries.is_empty());
}

/// D.6: a consumed event cannot expire.
pub async fn a_consumed_event_is_refused<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    let lease = claim(&h, 1).await;
    h.store().settle(lease.token, &lease.ids(), History::Keep).await.unwrap();
    assert_eq!(ruled(h.store().expire("e").await).expect_err("it is refused"), Refusal::Consumed);
    assert_eq!(ruled(h.store().expire("nothing").await).expect_err("it is refused"), Refusal::UnknownEvent);
}

/// D.9: an expired event that was not routed is never routed.
pub async fn an_expired_unrouted_event_is_never_routed<H: Harness>(h: H) {
    insert_plainly(&h, "e").await;
    ruled(h.store().expire("e").await).expect("it is allowed");
    subscribe_lane(&h).await;
    h.store().route(10).await.unwrap();
    assert!(claim(&h, 10).await.deliveries.is_empty());
    assert_eq!(listed(&h, "e").await, EventStatus::Expired);
}

/// D.9: the followers of its key are delivered.
pub async fn an_expired_head_frees_its_key<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, keyed("a", 3)).await;
    let lease = claim_keyed(&h, 10).await;
    h.store().bury(lease.token, &[buried(lease.deliveries[0].id)], History::Keep).await.unwrap();
    assert!(claim_keyed(&h, 10).await.deliveries.is_empty(), "the dead head holds");
    ruled(h.store().expire("a1").await).expect("it is allowed");
    assert_eq!(ids(&claim_keyed(&h, 10).await), ["a2", "a3"]);
}

/// D.5, D.6: late reports are stored. If all consumers succeed after all, the status is CONSUMED.
pub async fn late_reports_are_kept<H: Harness>(h: H) {
    for consumer in ["a", "b"] {
        subscribe(&h, TOPIC, consumer, Via::External).await;
    }
    enqueue_one(&h, draft("e")).await;
    ruled(h.store().expire("e").await).expect("it is allowed");
    h.store().append_consumption(&report("e", "a", true, false)).await.unwrap();
    assert_eq!(listed(&h, "e").await, EventStatus::Expired);
    h.store().append_consumption(&report("e", "b", true, false)).await.unwrap();
    assert_eq!(listed(&h, "e").await, EventStatus::Consumed);
}
