//! `probe`: whether the store can be written.

use postrider::prelude::*;

use crate::Harness;
use crate::steps::*;

/// F66: instances probe at the same time, and none of them disturbs another or leaves anything behind.
pub async fn many_at_once_leave_nothing<H: Harness>(h: H) {
    let probes = (0..8).map(|_| {
        let h = h.clone();
        async move { h.store().probe().await }
    });
    together(probes).await.into_iter().for_each(|probed| probed.unwrap());
    let free = h.store().acquire_lease("postrider.probe", "test", LEASE).await.unwrap();
    assert!(free.is_some(), "the row is removed");
    h.store().probe().await.unwrap();
    age(&h, HOUR).await;
    h.store().probe().await.unwrap();
    assert!(
        h.store().acquire_lease("postrider.probe", "test", LEASE).await.unwrap().is_some(),
        "an old row is taken over"
    );
}
