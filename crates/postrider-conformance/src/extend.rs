//! `extend`: a heartbeat.

use postrider::Store;

use crate::Harness;
use crate::steps::*;

/// The lease is counted from now, not added to what is left of it.
pub async fn the_lease_runs_from_now<H: Harness>(h: H) {
    somebody_listens(&h).await;
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

/// A token that nobody has replaced is still the caller's.
pub async fn a_lease_that_nobody_took_can_be_extended_late<H: Harness>(h: H) {
    somebody_listens(&h).await;
    enqueue_one(&h, draft("e")).await;
    let lease = claim(&h, 1).await;
    age(&h, HOUR).await;
    assert_eq!(h.store().extend(lease.token, &lease.ids(), LEASE).await.unwrap(), lease.ids());
    assert!(claim(&h, 1).await.deliveries.is_empty());
}

/// F01 zombie settles: nor does it renew.
pub async fn zombie_extends_nothing<H: Harness>(h: H) {
    let (zombie, heir) = a_zombie_and_its_heir(&h).await;
    let until = delivery(&h, "e").await.lock_until;
    let extended = h.store().extend(zombie.token, &zombie.ids(), 9 * HOUR).await.unwrap();
    assert!(extended.is_empty());
    assert_eq!(delivery(&h, "e").await.lock_until, until);
    settle(&h, &heir).await;
}
