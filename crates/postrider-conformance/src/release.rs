//! `release`: a delivery is returned untried, as at shutdown.

use std::time::Duration;

use postrider::entry::DeliveryStatus;
use postrider::prelude::*;
use postrider::store::History;

use crate::Harness;
use crate::steps::*;

/// G.4: the delivery is as before the claim and due at once.
pub async fn gives_the_attempt_back<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, drafts(2)).await;
    let lease = claim(&h, 2).await;
    assert_eq!(h.store().release(lease.token, &lease.ids()[..1]).await.unwrap(), lease.ids()[..1]);
    let row = delivery(&h, "e00000").await;
    assert_eq!((row.status, row.attempts), (DeliveryStatus::New, 0));
    assert_eq!((row.lock_owner, row.lock_time, row.lock_until), (None, None, None));
    let again = claim(&h, 10).await;
    assert_eq!((ids(&again), again.deliveries[0].attempt), (vec!["e00000"], 1));
    nothing_is_written(&h, lease.token, &lease.ids()[..1], "e00000").await;
}

/// A released delivery gets its former status back.
pub async fn what_was_tried_before_is_still_failed<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    let lease = claim(&h, 1).await;
    let failure = [failed(lease.deliveries[0].id, Duration::ZERO)];
    h.store().retry(lease.token, &failure, History::Omit).await.unwrap();
    let lease = claim(&h, 1).await;
    h.store().release(lease.token, &lease.ids()).await.unwrap();
    let row = delivery(&h, "e").await;
    assert_eq!((row.status, row.attempts), (DeliveryStatus::Failed, 1));
    assert_eq!(row.last_error.as_deref(), Some("boom"));
}

/// F01 zombie settles: a zombie does not release a delivery that another worker holds.
pub async fn zombie_releases_nothing<H: Harness>(h: H) {
    let (zombie, successor) = expired_and_current_lease(&h).await;
    assert!(h.store().release(zombie.token, &zombie.ids()).await.unwrap().is_empty());
    assert_eq!(delivery(&h, "e").await.attempts, 2);
    assert!(claim(&h, 1).await.deliveries.is_empty(), "it is still the successor's");
    settle(&h, &successor).await;
}
