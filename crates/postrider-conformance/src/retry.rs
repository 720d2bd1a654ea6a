//! `retry`: a failed delivery is due again later, with its error.

use std::time::Duration;

use postrider::entry::DeliveryStatus;
use postrider::prelude::*;
use postrider::store::{Failed, History};

use crate::Harness;
use crate::steps::*;

/// A.5: FAILED, and due after the given time by the database clock.
pub async fn makes_it_due_later_with_its_error<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    let lease = claim(&h, 1).await;
    let failure = [failed(lease.deliveries[0].id, HOUR)];
    assert_eq!(h.store().retry(lease.token, &failure, History::Keep).await.unwrap(), lease.ids());
    let row = delivery(&h, "e").await;
    assert_eq!((row.status, row.attempts), (DeliveryStatus::Failed, 1));
    assert_eq!((row.last_error.as_deref(), row.lock_owner, row.lock_until), (Some("boom"), None, None));
    let now = h.store().now().await.unwrap();
    assert!(is_about((row.due_at - now).unsigned_abs(), HOUR));
    assert!(claim(&h, 1).await.deliveries.is_empty());
    age(&h, 61 * MINUTE).await;
    assert_eq!(claim(&h, 1).await.deliveries[0].attempt, 2);
}

/// F01 zombie settles: a zombie does not fail a delivery that another worker holds.
pub async fn zombie_retries_nothing<H: Harness>(h: H) {
    let (zombie, successor) = expired_and_current_lease(&h).await;
    let failure = [failed(zombie.deliveries[0].id, HOUR)];
    assert!(h.store().retry(zombie.token, &failure, History::Keep).await.unwrap().is_empty());
    assert_eq!(status(&h, "e").await, DeliveryStatus::Processing);
    assert!(find(&h, "e").await.consumptions.is_empty());
    settle(&h, &successor).await;
}

/// D.5: attempts are numbered 1, 2, 3 when they are appended, independent of the delivery's own count.
pub async fn history_is_numbered_without_gap<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    for n in 0..4 {
        // A worker that dies uses an attempt of the delivery but appends none.
        claim(&h, 1).await;
        age(&h, HOUR).await;
        let lease = claim(&h, 1).await;
        let failure = [failed(lease.deliveries[0].id, Duration::ZERO)];
        match n {
            0..=2 => h.store().retry(lease.token, &failure, History::Keep).await.unwrap(),
            _ => h.store().settle(lease.token, &lease.ids(), History::Keep).await.unwrap(),
        };
    }
    let attempts = find(&h, "e").await.consumptions;
    let outcomes: Vec<_> = attempts.iter().map(|c| (c.attempt, c.success, c.will_retry)).collect();
    let failure = |n| (n, Some(false), true);
    assert_eq!(outcomes, [failure(1), failure(2), failure(3), (4, Some(true), false)]);
    assert_eq!((attempts[0].error.as_deref(), attempts[0].code.as_deref()), (Some("boom"), Some("E1")));
    assert!(attempts.iter().all(|c| c.consumer == LANE));
}

/// The delivery stores its last error; no attempt is appended.
pub async fn without_history_leaves_no_trace<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    let lease = claim(&h, 1).await;
    let failure = [failed(lease.deliveries[0].id, HOUR)];
    h.store().retry(lease.token, &failure, History::Omit).await.unwrap();
    assert!(find(&h, "e").await.consumptions.is_empty());
    assert_eq!(delivery(&h, "e").await.last_error.as_deref(), Some("boom"));
}

/// F39, E.1: a failure is saved whatever its text contains.
pub async fn an_error_of_any_text_is_saved_and_cut<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    let lease = claim(&h, 1).await;
    let failure =
        Failed { error: oversized_text(), code: Some(oversized_text()), ..failed(lease.deliveries[0].id, HOUR) };
    h.store().retry(lease.token, &[failure], History::Keep).await.unwrap();
    assert!(is_cut_to_limit(delivery(&h, "e").await.last_error.as_deref()));
    let attempt = find(&h, "e").await.consumptions.remove(0);
    assert!(is_cut_to_limit(attempt.error.as_deref()));
    assert!(attempt.code.is_some_and(|code| !code.contains('\0')));
}
