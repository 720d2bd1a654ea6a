//! `acquire_lease`, `extend_lease`, `release_lease`: a name has one holder at a time.

use crate::Harness;
use crate::steps::*;
use postrider::prelude::*;

async fn acquire(h: &impl Harness, name: &str) -> Option<postrider::store::Token> {
    h.store().acquire_lease(name, "host-1", LEASE).await.unwrap()
}

/// F51: a held lease is refused to others, even under the same owner name.
pub async fn has_one_holder<H: Harness>(h: H) {
    assert!(acquire(&h, "pruner").await.is_some());
    assert!(acquire(&h, "pruner").await.is_none());
}

/// F51: the same for concurrent callers.
pub async fn concurrent_seekers_have_one_winner<H: Harness>(h: H) {
    let seekers = (0..8).map(|_| {
        let h = h.clone();
        async move { acquire(&h, "pruner").await }
    });
    assert_eq!(together(seekers).await.into_iter().flatten().count(), 1);
    age(&h, HOUR).await;
    let seekers = (0..8).map(|_| {
        let h = h.clone();
        async move { acquire(&h, "pruner").await }
    });
    assert_eq!(together(seekers).await.into_iter().flatten().count(), 1, "one takes it over");
}

/// F09: after a crash the lease is free as soon as it expires.
pub async fn is_taken_over_once_it_ran_out<H: Harness>(h: H) {
    let first = acquire(&h, "pruner").await.unwrap();
    age(&h, HOUR).await;
    let second = acquire(&h, "pruner").await.unwrap();
    assert_ne!(first, second);
    assert!(acquire(&h, "pruner").await.is_none());
}

/// F01: only the latest token can extend.
pub async fn is_extended_by_its_holder_only<H: Harness>(h: H) {
    let first = acquire(&h, "pruner").await.unwrap();
    assert!(h.store().extend_lease("pruner", first, 3 * HOUR).await.unwrap());
    age(&h, 2 * HOUR).await;
    assert!(acquire(&h, "pruner").await.is_none(), "it was extended");
    age(&h, 2 * HOUR).await;
    let second = acquire(&h, "pruner").await.unwrap();
    assert!(!h.store().extend_lease("pruner", first, 9 * HOUR).await.unwrap());
    assert!(!h.store().extend_lease("unknown", second, HOUR).await.unwrap());
    age(&h, HOUR).await;
    assert!(acquire(&h, "pruner").await.is_some(), "the zombie did not lengthen it");
}

/// F01: an outdated token cannot release.
pub async fn is_released_by_its_holder_only<H: Harness>(h: H) {
    let first = acquire(&h, "pruner").await.unwrap();
    age(&h, HOUR).await;
    let second = acquire(&h, "pruner").await.unwrap();
    assert!(!h.store().release_lease("pruner", first).await.unwrap());
    assert!(acquire(&h, "pruner").await.is_none(), "it is still the second's");
    assert!(h.store().release_lease("pruner", second).await.unwrap());
    assert!(!h.store().release_lease("pruner", second).await.unwrap(), "once");
    assert!(acquire(&h, "pruner").await.is_some());
}

/// Names are compared byte for byte.
pub async fn names_are_apart<H: Harness>(h: H) {
    for name in ["pruner", "Pruner", "pruner ", "router"] {
        assert!(acquire(&h, name).await.is_some(), "{name:?}");
    }
}
