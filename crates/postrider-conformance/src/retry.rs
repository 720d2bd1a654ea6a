//! `retry`: due again later, with what went wrong.

use std::time::Duration;

use postrider::Store;
use postrider::entry::DeliveryStatus;
use postrider::store::{Failed, History};

use crate::Harness;
use crate::steps::*;

/// A.5: FAILED, due after as long as the caller says, by the database's clock.
pub async fn makes_it_due_later_with_its_error<H: Harness>(h: H) {
    somebody_listens(&h).await;
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

/// F01 zombie settles: nor does it fail what another is working on.
pub async fn zombie_retries_nothing<H: Harness>(h: H) {
    let (zombie, heir) = a_zombie_and_its_heir(&h).await;
    let failure = [failed(zombie.deliveries[0].id, HOUR)];
    assert!(h.store().retry(zombie.token, &failure, History::Keep).await.unwrap().is_empty());
    assert_eq!(status(&h, "e").await, DeliveryStatus::Processing);
    assert!(find(&h, "e").await.consumptions.is_empty());
    settle(&h, &heir).await;
}

/// D.5: attempts are numbered when they are appended, 1, 2, 3, whatever the delivery's own count does.
pub async fn history_is_numbered_without_gap<H: Harness>(h: H) {
    somebody_listens(&h).await;
    enqueue_one(&h, draft("e")).await;
    for n in 0..4 {
        // A worker that dies counts an attempt of the delivery and appends nothing.
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
    let told: Vec<_> = attempts.iter().map(|c| (c.attempt, c.success, c.will_retry)).collect();
    let failure = |n| (n, Some(false), true);
    assert_eq!(told, [failure(1), failure(2), failure(3), (4, Some(true), false)]);
    assert_eq!((attempts[0].error.as_deref(), attempts[0].code.as_deref()), (Some("boom"), Some("E1")));
    assert!(attempts.iter().all(|c| c.consumer == LANE));
}

/// The delivery keeps its last error; no attempt is written.
pub async fn without_history_leaves_no_trace<H: Harness>(h: H) {
    somebody_listens(&h).await;
    enqueue_one(&h, draft("e")).await;
    let lease = claim(&h, 1).await;
    let failure = [failed(lease.deliveries[0].id, HOUR)];
    h.store().retry(lease.token, &failure, History::Omit).await.unwrap();
    assert!(find(&h, "e").await.consumptions.is_empty());
    assert_eq!(delivery(&h, "e").await.last_error.as_deref(), Some("boom"));
}

/// F39, E.1: saving a failure never fails because of what the failure says.
pub async fn an_error_of_any_text_is_saved_and_cut<H: Harness>(h: H) {
    somebody_listens(&h).await;
    enqueue_one(&h, draft("e")).await;
    let lease = claim(&h, 1).await;
    let failure =
        Failed { error: terrible_text(), code: Some(terrible_text()), ..failed(lease.deliveries[0].id, HOUR) };
    h.store().retry(lease.token, &[failure], History::Keep).await.unwrap();
    assert!(is_what_is_kept(delivery(&h, "e").await.last_error.as_deref()));
    let attempt = find(&h, "e").await.consumptions.remove(0);
    assert!(is_what_is_kept(attempt.error.as_deref()));
    assert!(attempt.code.is_some_and(|code| !code.contains('\0')));
}
