//! `bury`: a delivery becomes DEAD until an operator redrives it.

use postrider::entry::DeliveryStatus;
use postrider::prelude::*;
use postrider::store::{Buried, History};

use crate::Harness;
use crate::steps::*;

/// A.5: a DEAD delivery is never claimed.
pub async fn only_a_redrive_brings_it_back<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    let lease = claim(&h, 1).await;
    let burial = [buried(lease.deliveries[0].id)];
    assert_eq!(h.store().bury(lease.token, &burial, History::Omit).await.unwrap(), lease.ids());
    let row = delivery(&h, "e").await;
    assert_eq!((row.status, row.attempts), (DeliveryStatus::Dead, 1));
    assert_eq!((row.last_error.as_deref(), row.lock_owner, row.lock_until), (Some("boom"), None, None));
    age(&h, 1_000 * HOUR).await;
    assert!(claim(&h, 1).await.deliveries.is_empty());
    assert!(find(&h, "e").await.consumptions.is_empty());
    nothing_is_written(&h, lease.token, &lease.ids(), "e").await;
    h.store().redrive("e", LANE, None).await.unwrap();
    assert_eq!(ids(&claim(&h, 1).await), ["e"]);
}

/// F01 zombie settles: a zombie does not bury a delivery that another worker holds.
pub async fn zombie_buries_nothing<H: Harness>(h: H) {
    let (zombie, successor) = expired_and_current_lease(&h).await;
    let burial = [buried(zombie.deliveries[0].id)];
    assert!(h.store().bury(zombie.token, &burial, History::Keep).await.unwrap().is_empty());
    assert_eq!(status(&h, "e").await, DeliveryStatus::Processing);
    assert!(find(&h, "e").await.consumptions.is_empty());
    settle(&h, &successor).await;
}

/// D.5: the last failure is appended with `will_retry` false.
pub async fn with_history_appends_the_failure<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    let lease = claim(&h, 1).await;
    let failure = [failed(lease.deliveries[0].id, std::time::Duration::ZERO)];
    h.store().retry(lease.token, &failure, History::Keep).await.unwrap();
    let lease = claim(&h, 1).await;
    let burial = [buried(lease.deliveries[0].id)];
    h.store().bury(lease.token, &burial, History::Keep).await.unwrap();
    let attempts = find(&h, "e").await.consumptions;
    let outcomes: Vec<_> = attempts.iter().map(|c| (c.attempt, c.success, c.will_retry)).collect();
    assert_eq!(outcomes, [(1, Some(false), true), (2, Some(false), false)]);
    assert_eq!((attempts[1].error.as_deref(), attempts[1].code.as_deref()), (Some("boom"), Some("E1")));
}

/// F03: the claim that found the attempts used up does not count as an attempt.
pub async fn an_untried_burial_does_not_count_its_claim<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    claim(&h, 1).await;
    age(&h, HOUR).await;
    let lease = claim(&h, 1).await;
    let burial = Buried { tried: false, ..buried(lease.deliveries[0].id) };
    h.store().bury(lease.token, &[burial], History::Omit).await.unwrap();
    let row = delivery(&h, "e").await;
    assert_eq!((row.status, row.attempts), (DeliveryStatus::Dead, 1));
}

/// F39, E.1: a failure is saved whatever its text contains.
pub async fn an_error_of_any_text_is_saved_and_cut<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    let lease = claim(&h, 1).await;
    let burial = Buried { error: oversized_text(), code: Some(oversized_text()), ..buried(lease.deliveries[0].id) };
    h.store().bury(lease.token, &[burial], History::Keep).await.unwrap();
    assert!(is_cut_to_limit(delivery(&h, "e").await.last_error.as_deref()));
    assert!(is_cut_to_limit(find(&h, "e").await.consumptions[0].error.as_deref()));
}
