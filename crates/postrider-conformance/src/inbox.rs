//! `receive` and `complete`: the effect and the inbox row are committed in one transaction, once.

use postrider::entry::DeliveryStatus;
use postrider::prelude::*;
use postrider::store::{Completed, Completion, DeliveryId, History, Receipt, Token};
use postrider::{Error, Via};

use crate::steps::*;
use crate::{Conn, Harness};

fn receipt<'a>(consumer: &'a str, event_id: &'a str) -> Receipt<'a> {
    Receipt { consumer, event_id, topic: TOPIC, tenant_id: Some("tenant"), idempotency_key: Some("key") }
}

/// The completion of event `e`.
struct Done(Completed<'static>, Token, History);

fn completion(delivery: DeliveryId, token: Token, history: History) -> Done {
    Done(Completed { event_id: "e", delivery, result: Some("42 points") }, token, history)
}

async fn complete<H: Harness>(h: &H, conn: &mut Conn<H>, Done(completed, token, history): &Done) -> Result<(), Error> {
    let completed = std::slice::from_ref(completed);
    h.store().complete(conn, &Completion { consumer: LANE, token: *token, history: *history, completed }).await
}

/// The steps of a consumer: the inbox row, then the effect.
async fn receive_and_add<H: Harness>(h: &H, conn: &mut Conn<H>, consumer: &str) -> bool {
    let first = h.store().receive(conn, &receipt(consumer, "e")).await.unwrap();
    if first {
        h.add(conn, "effect").await.unwrap();
    }
    first
}

/// E.2: the second insert of an inbox row is skipped.
pub async fn a_second_receive_is_false<H: Harness>(h: H) {
    h.make_counter("effect").await;
    for first in [true, false, false] {
        let mut tx = h.store().begin().await.unwrap();
        assert_eq!(receive_and_add(&h, &mut *tx, LANE).await, first);
        // Also within one transaction.
        assert!(!receive_and_add(&h, &mut *tx, LANE).await);
        h.store().commit(tx).await.unwrap();
    }
    assert_eq!(h.counter("effect").await, 1);
}

/// F20 duplicate delivery, concurrent: one effect; the others see a duplicate.
pub async fn concurrent_receives_have_one_effect<H: Harness>(h: H) {
    h.make_counter("effect").await;
    let consumers = (0..h.features().connections.min(8)).map(|_| {
        let h = h.clone();
        async move {
            let mut tx = h.store().begin().await.unwrap();
            let first = receive_and_add(&h, &mut *tx, LANE).await;
            h.store().commit(tx).await.unwrap();
            first
        }
    });
    let firsts = together(consumers).await.into_iter().filter(|first| *first).count();
    assert_eq!((firsts, h.counter("effect").await), (1, 1));
}

/// E.2: the inbox key is consumer and event id. Both are compared byte for byte.
pub async fn two_consumers_of_one_event_both_get_it<H: Harness>(h: H) {
    h.make_counter("effect").await;
    let mut tx = h.store().begin().await.unwrap();
    for consumer in ["points", "wallet", "Points"] {
        assert!(receive_and_add(&h, &mut *tx, consumer).await, "{consumer}");
    }
    assert!(h.store().receive(&mut *tx, &receipt("points", "E")).await.unwrap());
    h.store().commit(tx).await.unwrap();
    assert_eq!(h.counter("effect").await, 3);
}

/// E.2: a rollback removes effect and inbox row together.
pub async fn a_rollback_leaves_nothing<H: Harness>(h: H) {
    h.make_counter("effect").await;
    let mut tx = h.store().begin().await.unwrap();
    assert!(receive_and_add(&h, &mut *tx, LANE).await);
    drop(tx);
    let mut tx = h.store().begin().await.unwrap();
    assert!(receive_and_add(&h, &mut *tx, LANE).await, "the rolled back row is not there");
    h.store().commit(tx).await.unwrap();
    assert_eq!(h.counter("effect").await, 1);
}

/// A.7: inbox row, effect, attempt and the end of the delivery are one transaction.
pub async fn complete_ends_the_delivery_with_its_effect<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    h.make_counter("effect").await;
    enqueue_one(&h, draft("e")).await;
    let lease = claim(&h, 1).await;
    let id = lease.deliveries[0].id;

    // After a rollback the delivery can be received again.
    let mut tx = h.store().begin().await.unwrap();
    receive_and_add(&h, &mut *tx, LANE).await;
    complete(&h, &mut *tx, &completion(id, lease.token, History::Keep)).await.unwrap();
    drop(tx);
    let mut tx = h.store().begin().await.unwrap();
    assert!(receive_and_add(&h, &mut *tx, LANE).await);
    complete(&h, &mut *tx, &completion(id, lease.token, History::Keep)).await.unwrap();
    h.store().commit(tx).await.unwrap();

    let found = find(&h, "e").await;
    assert!(found.deliveries.is_empty());
    let outcomes: Vec<_> = found.consumptions.iter().map(|c| (c.consumer.as_str(), c.attempt, c.success)).collect();
    assert_eq!(outcomes, [(LANE, 1, Some(true))]);
    assert_eq!(h.counter("effect").await, 1);
}

/// A consumer can be configured without history.
pub async fn complete_without_history_leaves_no_trace<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    h.make_counter("effect").await;
    enqueue_one(&h, draft("e")).await;
    let lease = claim(&h, 1).await;
    let mut tx = h.store().begin().await.unwrap();
    receive_and_add(&h, &mut *tx, LANE).await;
    let done = completion(lease.deliveries[0].id, lease.token, History::Omit);
    complete(&h, &mut *tx, &done).await.unwrap();
    h.store().commit(tx).await.unwrap();
    let found = find(&h, "e").await;
    assert!(found.deliveries.is_empty() && found.consumptions.is_empty());
}

/// F01: a consumer that lost its lease rolls its effect back; only the new holder's effect remains.
pub async fn complete_with_a_lost_lease_is_refused_and_rolls_back<H: Harness>(h: H) {
    let (zombie, successor) = expired_and_current_lease(&h).await;
    h.make_counter("effect").await;
    let id = zombie.deliveries[0].id;
    let mut tx = h.store().begin().await.unwrap();
    assert!(receive_and_add(&h, &mut *tx, LANE).await);
    let refused = complete(&h, &mut *tx, &completion(id, zombie.token, History::Keep)).await.unwrap_err();
    assert!(matches!(refused, Error::LeaseLost), "{refused:?}");
    drop(tx);

    let mut tx = h.store().begin().await.unwrap();
    assert!(receive_and_add(&h, &mut *tx, LANE).await, "the zombie's row is gone");
    complete(&h, &mut *tx, &completion(id, successor.token, History::Keep)).await.unwrap();
    h.store().commit(tx).await.unwrap();
    assert_eq!(h.counter("effect").await, 1);
    assert_eq!(find(&h, "e").await.consumptions.len(), 1);

    // After the successor has finished, the zombie sees a duplicate.
    let mut tx = h.store().begin().await.unwrap();
    assert!(!receive_and_add(&h, &mut *tx, LANE).await);
}

/// F55: without the inbox row in this transaction, `complete` is refused.
pub async fn complete_without_an_inbox_row_is_refused<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    let lease = claim(&h, 1).await;
    let mut tx = h.store().begin().await.unwrap();
    // Another consumer's row does not count.
    assert!(h.store().receive(&mut *tx, &receipt("other", "e")).await.unwrap());
    let done = completion(lease.deliveries[0].id, lease.token, History::Keep);
    let refused = complete(&h, &mut *tx, &done).await.unwrap_err();
    assert!(matches!(refused, Error::LeaseLost), "{refused:?}");
    drop(tx);
    enqueue_one(&h, draft("after")).await;
    assert_eq!(status(&h, "e").await, DeliveryStatus::Processing);
    settle(&h, &lease).await;
}

/// F17: the order of a key holds here too.
pub async fn complete_out_of_order_is_refused<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, [draft("first").key("k"), draft("e").key("k")]).await;
    let lease = claim_keyed(&h, 10).await;
    let done = completion(lease.deliveries[1].id, lease.token, History::Keep);
    let mut tx = h.store().begin().await.unwrap();
    h.store().receive(&mut *tx, &receipt(LANE, "e")).await.unwrap();
    let refused = complete(&h, &mut *tx, &done).await.unwrap_err();
    assert!(matches!(refused, Error::LeaseLost), "{refused:?}");
    drop(tx);
    let settled = h.store().settle(lease.token, &lease.ids()[..1], History::Omit).await.unwrap();
    assert_eq!(settled.len(), 1);
    let mut tx = h.store().begin().await.unwrap();
    h.store().receive(&mut *tx, &receipt(LANE, "e")).await.unwrap();
    complete(&h, &mut *tx, &done).await.unwrap();
    h.store().commit(tx).await.unwrap();
    assert!(find(&h, "e").await.deliveries.is_empty());
}

/// F55 handler swallows a database error: either everything is committed, or nothing and the delivery is retried.
pub async fn a_swallowed_database_error_loses_nothing<H: Harness>(h: H) {
    subscribe(&h, TOPIC, LANE, Via::Local).await;
    h.make_counter("effect").await;
    h.make_counter("late effect").await;
    enqueue_one(&h, draft("e")).await;
    let lease = claim(&h, 1).await;
    let done = completion(lease.deliveries[0].id, lease.token, History::Keep);

    let mut tx = h.store().begin().await.unwrap();
    assert!(receive_and_add(&h, &mut *tx, LANE).await);
    h.swallow_a_database_error(&mut *tx).await;
    // The faulty consumer continues.
    let _ = h.add(&mut *tx, "late effect").await;
    let completed = complete(&h, &mut *tx, &done).await;
    let done_at_all = match completed {
        Ok(()) => h.store().commit(tx).await.is_ok(),
        Err(_) => {
            drop(tx);
            false
        }
    };

    enqueue_one(&h, draft("after")).await;
    let effects = (h.counter("effect").await, h.counter("late effect").await);
    let found = find(&h, "e").await;
    if done_at_all {
        assert_eq!(effects, (1, 1));
        assert!(found.deliveries.is_empty());
        assert_eq!(found.consumptions.len(), 1);
    } else {
        assert_eq!(effects, (0, 0), "no half effect stays");
        assert_eq!(found.deliveries.len(), 1, "and nothing is acknowledged");
        assert!(found.consumptions.is_empty());
        let mut tx = h.store().begin().await.unwrap();
        assert!(receive_and_add(&h, &mut *tx, LANE).await, "the next try finds no trace of it");
        complete(&h, &mut *tx, &done).await.unwrap();
        h.store().commit(tx).await.unwrap();
        assert_eq!(h.counter("effect").await, 1);
    }
}

/// E.2: one result per receipt, in the order of the batch. A repeated event counts once.
pub async fn receive_many_answers_for_each<H: Harness>(h: H) {
    let mut tx = h.store().begin().await.unwrap();
    assert!(h.store().receive(&mut *tx, &receipt(LANE, "b")).await.unwrap());
    let receipts =
        [receipt(LANE, "c"), receipt(LANE, "b"), receipt("other", "b"), receipt(LANE, "a"), receipt(LANE, "c")];
    assert_eq!(h.store().receive_many(&mut *tx, &receipts).await.unwrap(), [true, false, true, true, false]);
    assert_eq!(h.store().receive_many(&mut *tx, &receipts).await.unwrap(), [false; 5]);
    assert_eq!(h.store().receive_many(&mut *tx, &[]).await.unwrap(), [] as [bool; 0]);
    h.store().commit(tx).await.unwrap();
}

/// A batch, with keys and history, completes as a whole.
pub async fn complete_ends_a_batch<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, (0..20).map(|n| draft(format!("e{n}")).key(format!("k{}", n % 3)))).await;
    let lease = claim_keyed(&h, 20).await;
    let ids: Vec<_> = lease.deliveries.iter().map(|claimed| claimed.envelope.event_id.to_string()).collect();
    let mut completed: Vec<_> = (lease.deliveries.iter().zip(&ids))
        .map(|(claimed, id)| Completed { event_id: id, delivery: claimed.id, result: None })
        .collect();
    completed[7].result = Some("kept");
    let mut tx = h.store().begin().await.unwrap();
    let receipts: Vec<_> = ids.iter().map(|id| receipt(LANE, id)).collect();
    h.store().receive_many(&mut *tx, &receipts).await.unwrap();
    let end = Completion { consumer: LANE, token: lease.token, history: History::Keep, completed: &completed };
    h.store().complete(&mut *tx, &end).await.unwrap();
    h.store().commit(tx).await.unwrap();
    for id in &ids {
        let found = find(&h, id).await;
        assert!(found.deliveries.is_empty(), "{id}");
        assert_eq!(found.consumptions.len(), 1, "{id}");
    }
}

/// F01, F55: one lost lease or one missing inbox row refuses the whole batch.
pub async fn complete_of_a_batch_is_all_or_nothing<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, ["a", "b", "c"].map(draft)).await;
    let lease = claim(&h, 3).await;
    let ids: Vec<_> = lease.deliveries.iter().map(|claimed| claimed.envelope.event_id.to_string()).collect();
    let completed: Vec<_> = (lease.deliveries.iter().zip(&ids))
        .map(|(claimed, id)| Completed { event_id: id, delivery: claimed.id, result: None })
        .collect();
    let end = Completion { consumer: LANE, token: lease.token, history: History::Keep, completed: &completed };

    let mut tx = h.store().begin().await.unwrap();
    h.store().receive_many(&mut *tx, &[receipt(LANE, &ids[0]), receipt(LANE, &ids[2])]).await.unwrap();
    let refused = h.store().complete(&mut *tx, &end).await.unwrap_err();
    assert!(matches!(refused, Error::LeaseLost), "an inbox row is missing: {refused:?}");
    drop(tx);

    h.store().release(lease.token, &lease.ids()[1..2]).await.unwrap();
    let mut tx = h.store().begin().await.unwrap();
    let receipts: Vec<_> = ids.iter().map(|id| receipt(LANE, id)).collect();
    assert_eq!(h.store().receive_many(&mut *tx, &receipts).await.unwrap(), [true; 3], "nothing was left behind");
    let refused = h.store().complete(&mut *tx, &end).await.unwrap_err();
    assert!(matches!(refused, Error::LeaseLost), "one is not ours any more: {refused:?}");
    drop(tx);
    enqueue_one(&h, draft("after")).await;
    for id in &ids {
        assert_eq!(find(&h, id).await.deliveries.len(), 1, "{id} is still there");
    }
}
