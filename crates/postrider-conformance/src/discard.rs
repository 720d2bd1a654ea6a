//! `discard`: an operator gives up the delivery of an event to one consumer.

use postrider::entry::{DISCARDED, DeliveryStatus};
use postrider::failures::failures;
use postrider::prelude::*;
use postrider::redrive::{RedriveRules, Refusal};
use postrider::status::EventStatus;
use postrider::store::{Completed, Completion, History, Receipt};
use postrider::{Error, Via};

use crate::Harness;
use crate::fold::listed;
use crate::steps::*;

const WHY: &str = "the customer has cancelled";

/// Whether it waits, is retried, is held by a worker or is dead: it is not delivered any more, and the history says why.
pub async fn a_delivery_ends_with_its_reason<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, ["retried", "dead", "held", "new"].map(draft)).await;
    let lease = claim(&h, 3).await;
    let [retried, dead, held] = lease.ids()[..] else { panic!("{lease:?}") };
    h.store().retry(lease.token, &[failed(retried, HOUR)], History::Keep).await.unwrap();
    h.store().bury(lease.token, &[buried(dead)], History::Keep).await.unwrap();
    for (id, attempt) in [("retried", 2), ("dead", 2), ("held", 1), ("new", 1)] {
        let found = ruled(h.store().discard(id, LANE, WHY).await).expect("it is allowed");
        assert!(found.deliveries.is_empty(), "{id}");
        let last = found.consumptions.last().unwrap();
        assert_eq!((last.consumer.as_str(), last.attempt), (LANE, attempt), "{id}");
        assert_eq!((last.success, last.will_retry), (Some(false), false), "{id}");
        assert_eq!((last.error.as_deref(), last.code.as_deref()), (Some(WHY), Some(DISCARDED)), "{id}");
        let standing = found.standing();
        assert_eq!((standing.status, standing.failed), (EventStatus::Failed, 1), "{id}");
        assert_eq!(standing.sent_at.is_some(), attempt == 2, "{id}: a discard sends nothing");
        assert_eq!(listed(&h, id).await, EventStatus::Failed, "{id}");
    }
    nothing_is_written(&h, lease.token, &[held], "held").await;
    age(&h, 2 * HOUR).await;
    assert!(claim(&h, 10).await.deliveries.is_empty());
    assert!(
        failures(h.store(), &postrider::Scope::default()).await.unwrap().groups.is_empty(),
        "nobody has to look at them again"
    );
}

/// The other consumers of the event are not affected.
pub async fn other_consumers_go_on<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    subscribe(&h, TOPIC, "other", Via::Local).await;
    enqueue_one(&h, draft("e")).await;
    let found = ruled(h.store().discard("e", "other", WHY).await).expect("it is allowed");
    assert_eq!(found.standing().status, EventStatus::Partial);
    let lease = claim(&h, 1).await;
    assert_eq!(h.store().settle(lease.token, &lease.ids(), History::Keep).await.unwrap().len(), 1);
    assert_eq!(listed(&h, "e").await, EventStatus::Partial);
    let standing = find(&h, "e").await.standing();
    assert_eq!((standing.expected, standing.consumed, standing.failed), (2, 1, 1));
}

/// F17: the followers of its key are delivered in order, behind a dead head and behind a held one.
pub async fn a_discarded_head_frees_its_key<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, keyed("a", 3)).await;
    bury_head(&h, "a1").await;
    assert!(claim_keyed(&h, 10).await.deliveries.is_empty(), "the dead head holds");
    ruled(h.store().discard("a1", LANE, WHY).await).expect("it is allowed");
    let lease = claim_keyed(&h, 10).await;
    assert_eq!(ids(&lease), ["a2", "a3"]);
    ruled(h.store().discard("a2", LANE, WHY).await).expect("it is allowed");
    let [_, last] = lease.ids()[..] else { panic!("{lease:?}") };
    assert_eq!(h.store().settle(lease.token, &[last], History::Keep).await.unwrap(), [last], "a3 is the first now");
}

/// D.8: as with a dead one, a redrive delivers it again.
pub async fn a_discarded_delivery_may_be_redriven<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    ruled(h.store().discard("e", LANE, WHY).await).expect("it is allowed");
    let rules = RedriveRules::default();
    let found = ruled(h.store().redrive_event("e", None, &rules).await).expect("it is allowed");
    assert_eq!(found.standing().status, EventStatus::Retrying);
    let lease = claim(&h, 10).await;
    assert_eq!((ids(&lease), lease.deliveries[0].attempt), (vec!["e"], 1));
    assert_eq!(h.store().settle(lease.token, &lease.ids(), History::Keep).await.unwrap().len(), 1);
    assert_eq!(listed(&h, "e").await, EventStatus::Consumed);
}

/// What is done, unknown or not there is refused, and so is an empty reason. A long one is cut.
pub async fn what_cannot_be_discarded_is_refused<H: Harness>(h: H) {
    let refused =
        async |id: &str, consumer: &str| ruled(h.store().discard(id, consumer, WHY).await).expect_err("it is refused");
    subscribe_lane(&h).await;
    subscribe(&h, TOPIC, "queued", Via::RabbitMq).await;
    enqueue(&h, ["done", "e"].map(draft)).await;
    let lease = claim(&h, 1).await;
    h.store().settle(lease.token, &lease.ids(), History::Keep).await.unwrap();
    assert_eq!(refused("nothing", LANE).await, Refusal::UnknownEvent);
    assert_eq!(refused("done", LANE).await, Refusal::Consumed);
    assert_eq!(refused("e", "unknown").await, Refusal::NotWaiting);
    assert_eq!(refused("e", "queued").await, Refusal::NotWaiting, "the broker's delivery is for all its consumers");
    for reason in ["", "  \n"] {
        let error = h.store().discard("e", LANE, reason).await.unwrap_err();
        assert!(matches!(error, Error::Invalid { field: "reason", .. }), "{error:?}");
    }
    assert_eq!(status(&h, "e").await, DeliveryStatus::New, "nothing is written");
    let found = ruled(h.store().discard("e", LANE, &oversized_text()).await).expect("it is allowed");
    let last = found.consumptions.iter().find(|one| one.consumer == LANE);
    assert!(is_cut_to_limit(last.and_then(|one| one.error.as_deref())), "{last:?}");
    assert_eq!(refused("e", LANE).await, Refusal::NotWaiting, "once");
}

/// F01: a consumer works on the delivery while it is discarded. Either the effect has happened and the discard is refused, or
/// the discard is recorded and the effect is rolled back.
pub async fn a_discard_beside_a_consumer_has_one_winner<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    h.make_counter("effect").await;
    let mut effects = 0;
    for round in 0..20 {
        let id = format!("e{round}");
        enqueue_one(&h, draft(&id)).await;
        let lease = claim(&h, 1).await;
        let mut tx = h.store().begin().await.unwrap();
        let receipt = Receipt { consumer: LANE, event_id: &id, topic: TOPIC, tenant_id: None, idempotency_key: None };
        assert!(h.store().receive(&mut *tx, &receipt).await.unwrap());
        h.add(&mut *tx, "effect").await.unwrap();
        let discarding = tokio::spawn({
            let (h, id) = (h.clone(), id.clone());
            async move { ruled(h.store().discard(&id, LANE, WHY).await) }
        });
        if round % 2 == 0 {
            tokio::task::yield_now().await;
        }
        let completed = [Completed { event_id: &id, delivery: lease.deliveries[0].id, result: None }];
        let end = Completion { consumer: LANE, token: lease.token, history: History::Keep, completed: &completed };
        let done = match h.store().complete(&mut *tx, &end).await {
            Ok(()) => {
                h.store().commit(tx).await.unwrap();
                true
            }
            Err(Error::LeaseLost | Error::TransactionLost(_)) => {
                drop(tx);
                false
            }
            Err(error) => panic!("{error:?}"),
        };
        effects += i64::from(done);
        let discarded = discarding.await.unwrap();
        assert_eq!(h.counter("effect").await, effects, "round {round}");
        let expected = if done { EventStatus::Consumed } else { EventStatus::Failed };
        match discarded {
            Ok(_) => assert!(!done, "round {round}: both"),
            Err(refusal) => assert_eq!((refusal, done), (Refusal::Consumed, true), "round {round}"),
        }
        assert_eq!(listed(&h, &id).await, expected, "round {round}");
        assert!(find(&h, &id).await.deliveries.is_empty());
    }
}
