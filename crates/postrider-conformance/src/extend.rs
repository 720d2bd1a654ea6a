//! `extend`: the heartbeat of a lease.

use crate::Harness;
use crate::steps::*;
use postrider::prelude::*;

/// The new lease runs from now; it is not added to the remaining time.
pub async fn the_lease_runs_from_now<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, drafts(2)).await;
    let lease = claim(&h, 2).await;
    let one = [lease.deliveries[0].id];
    assert_eq!(h.store().extend(lease.token, &one, 5 * HOUR).await.unwrap(), one);
    let now = h.store().now().await.unwrap();
    let extended = delivery(&h, "e00000").await;
    assert!(is_about((extended.lock_until.unwrap() - now).unsigned_abs(), 5 * HOUR), "{extended:?}");
    assert_eq!(extended.attempts, 1, "a heartbeat is no attempt");
    let other = delivery(&h, "e00001").await;
    assert!(is_about((other.lock_until.unwrap() - now).unsigned_abs(), LEASE), "{other:?}");
}

/// An expired lease is valid until another claim replaces its token.
pub async fn an_expired_lease_can_be_extended_until_the_next_claim<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    let lease = claim(&h, 1).await;
    age(&h, HOUR).await;
    assert_eq!(h.store().extend(lease.token, &lease.ids(), LEASE).await.unwrap(), lease.ids());
    assert!(claim(&h, 1).await.deliveries.is_empty());
}

/// F01 zombie settles: a zombie does not extend either.
pub async fn zombie_extends_nothing<H: Harness>(h: H) {
    let (zombie, successor) = expired_and_current_lease(&h).await;
    let until = delivery(&h, "e").await.lock_until;
    let extended = h.store().extend(zombie.token, &zombie.ids(), 9 * HOUR).await.unwrap();
    assert!(extended.is_empty());
    assert_eq!(delivery(&h, "e").await.lock_until, until);
    settle(&h, &successor).await;
}
