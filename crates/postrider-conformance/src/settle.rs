//! `settle`: a finished delivery is deleted, if the token is the latest.

use postrider::Via;
use postrider::entry::DeliveryStatus;
use postrider::prelude::*;
use postrider::store::{Claim, History, Redriven};

use crate::Harness;
use crate::steps::*;

/// The delivery row is deleted; the event stays.
pub async fn a_settled_delivery_is_deleted<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, drafts(500)).await;
    let lease = claim(&h, 500).await;
    let mut settled = h.store().settle(lease.token, &lease.ids(), History::Omit).await.unwrap();
    settled.sort();
    let mut ids = lease.ids();
    ids.sort();
    assert_eq!(settled, ids);
    assert!(find(&h, "e00000").await.deliveries.is_empty());
    assert!(h.store().counts().await.unwrap().is_empty());
    age(&h, HOUR).await;
    assert!(claim(&h, 1).await.deliveries.is_empty());
    let again = h.store().settle(lease.token, &lease.ids(), History::Omit).await.unwrap();
    assert!(again.is_empty(), "once");
}

/// Without history, no attempt is appended.
pub async fn without_history_leaves_no_trace<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    settle(&h, &claim(&h, 1).await).await;
    assert!(find(&h, "e").await.consumptions.is_empty());
}

/// D.5: the success is appended as an attempt of the lane's consumer.
pub async fn with_history_appends_the_success<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    for attempt in 1..=2 {
        let lease = claim(&h, 1).await;
        h.store().settle(lease.token, &lease.ids(), History::Keep).await.unwrap();
        let last = find(&h, "e").await.consumptions.pop().unwrap();
        assert_eq!((last.consumer.as_str(), last.attempt, last.success), (LANE, attempt, Some(true)));
        assert_eq!((last.will_retry, last.error, last.code), (false, None, None));
        let now = h.store().now().await.unwrap();
        assert!(is_about((now - last.consumed_at.unwrap()).unsigned_abs(), std::time::Duration::ZERO));
        h.store().redrive("e", LANE, None).await.unwrap();
    }
    assert_eq!(find(&h, "e").await.consumptions.len(), 2);
}

/// An expired lease makes a delivery claimable. The old token stays valid until the next claim.
pub async fn an_expired_lease_can_be_settled_until_the_next_claim<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    let lease = claim(&h, 1).await;
    age(&h, HOUR).await;
    settle(&h, &lease).await;
    assert!(find(&h, "e").await.deliveries.is_empty());
}

/// F01 zombie settles, F04 the successor has finished: with an outdated token, no verb writes anything.
pub async fn zombie_settles_nothing<H: Harness>(h: H) {
    let (zombie, successor) = expired_and_current_lease(&h).await;
    nothing_is_written(&h, zombie.token, &zombie.ids(), "e").await;
    settle(&h, &successor).await;
    assert!(find(&h, "e").await.deliveries.is_empty());
    // Nor after the successor has settled.
    nothing_is_written(&h, zombie.token, &zombie.ids(), "e").await;
}

/// F08 node name reused after restart: leases are checked by token, not by owner name.
pub async fn zombie_with_the_same_owner_name_settles_nothing<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    let claim = Claim { owner: "host-1".into(), ..wanted(1) };
    let former = h.store().claim(&claim).await.unwrap();
    assert!(h.store().claim(&claim).await.unwrap().deliveries.is_empty(), "the former incarnation's lease still runs");
    age(&h, HOUR).await;
    let latter = h.store().claim(&claim).await.unwrap();
    assert_eq!(delivery(&h, "e").await.lock_owner.as_deref(), Some("host-1"));
    nothing_is_written(&h, former.token, &former.ids(), "e").await;
    settle(&h, &latter).await;
}

/// F01: row ids and attempt counts can repeat; tokens cannot.
pub async fn zombie_settles_nothing_after_the_row_was_made_anew<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    let old = claim(&h, 1).await;
    settle(&h, &old).await;
    assert_eq!(h.store().redrive("e", LANE, None).await.unwrap(), Redriven::Made);
    let new = claim(&h, 1).await;
    assert_eq!(new.deliveries[0].attempt, 1);
    let both: Vec<_> = old.ids().into_iter().chain(new.ids()).collect();
    nothing_is_written(&h, old.token, &both, "e").await;
    settle(&h, &new).await;

    // Another event's delivery may reuse the row id as well.
    enqueue_one(&h, draft("f")).await;
    let other = claim(&h, 1).await;
    let all: Vec<_> = both.into_iter().chain(other.ids()).collect();
    nothing_is_written(&h, old.token, &all, "f").await;
    nothing_is_written(&h, new.token, &all, "f").await;
    settle(&h, &other).await;
}

/// Only the deliveries of this token are settled.
pub async fn a_foreign_delivery_in_the_call_is_left_alone<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, drafts(3)).await;
    let mine = claim(&h, 1).await;
    let theirs = claim(&h, 1).await;
    let all: Vec<_> = mine.ids().into_iter().chain(theirs.ids()).collect();
    let settled = h.store().settle(mine.token, &all, History::Keep).await.unwrap();
    assert_eq!(settled, mine.ids());
    assert_eq!(status(&h, "e00001").await, DeliveryStatus::Processing);
    assert!(find(&h, "e00001").await.consumptions.is_empty());
    assert!(h.store().settle(mine.token, &[], History::Omit).await.unwrap().is_empty());
}

/// F17: a delivery of a key is not settled before an earlier one.
pub async fn out_of_order_is_refused<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    subscribe(&h, TOPIC, "other", Via::Local).await;
    enqueue(&h, keyed("a", 4)).await;
    let lease = claim_keyed(&h, 10).await;
    let [a1, a2, a3, a4] = lease.ids()[..] else {
        panic!("{lease:?}");
    };
    for history in [History::Omit, History::Keep] {
        for early in [vec![a2], vec![a2, a3, a4], vec![a4]] {
            assert!(h.store().settle(lease.token, &early, history).await.unwrap().is_empty());
        }
    }
    assert!(find(&h, "a2").await.consumptions.is_empty());
    // With a gap, the deliveries before it are settled.
    let mut settled = h.store().settle(lease.token, &[a4, a2, a1], History::Omit).await.unwrap();
    settled.sort();
    assert_eq!(settled, [a1, a2]);
    assert_eq!(h.store().settle(lease.token, &[a3], History::Omit).await.unwrap(), [a3]);
    assert_eq!(h.store().settle(lease.token, &[a4], History::Omit).await.unwrap(), [a4]);
}

/// A whole run is settled in one call, in any order of its ids.
pub async fn a_run_is_settled_together<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, keyed("a", 50)).await;
    let lease = claim_keyed(&h, 50).await;
    let backwards: Vec<_> = lease.ids().into_iter().rev().collect();
    let settled = h.store().settle(lease.token, &backwards, History::Keep).await.unwrap();
    assert_eq!(settled.len(), 50);
    assert_eq!(find(&h, "a50").await.consumptions.len(), 1);
}

/// F07: deliveries with an extended lease, and those behind them in the key, are settled with the others.
pub async fn lengthened_leases_are_settled_with_the_others<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, drafts(10).into_iter().chain(keyed("a", 10))).await;
    for (lease, history) in [(claim(&h, 10).await, History::Omit), (claim_keyed(&h, 10).await, History::Keep)] {
        let lengthened: Vec<_> = lease.ids().into_iter().skip(1).step_by(3).collect();
        let mut kept = h.store().extend(lease.token, &lengthened, HOUR).await.unwrap();
        kept.sort();
        assert_eq!(kept, lengthened);
        let mut settled = h.store().settle(lease.token, &lease.ids(), history).await.unwrap();
        settled.sort();
        assert_eq!(settled, lease.ids());
    }
    assert!(h.store().counts().await.unwrap().is_empty());
    assert_eq!(find(&h, "a10").await.consumptions.len(), 1);
}

/// A lease that is extended at the same moment is not lost: every settle counts.
pub async fn a_settle_during_an_extension_counts<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, drafts(200)).await;
    let lease = claim(&h, 200).await;
    let (token, ids) = (lease.token, lease.ids());
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let extending = tokio::spawn({
        let (h, ids, stop) = (h.clone(), ids.clone(), stop.clone());
        async move {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                h.store().extend(token, &ids, LEASE).await.unwrap();
            }
        }
    });
    for some in ids.chunks(10) {
        assert_eq!(h.store().settle(token, some, History::Omit).await.unwrap().len(), some.len());
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    extending.await.unwrap();
}
