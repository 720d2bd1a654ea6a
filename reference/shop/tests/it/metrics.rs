//! The counters of the jobs.

use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use postrider_shop::jobs;

use crate::acceptance::lose_the_payment;
use crate::fixture::{Fixture, Tested, over_every_store};

over_every_store! {
    /// A.12, A.18
    the_reaper_counts_the_locks_that_it_releases,
    /// A.13, A.18
    the_consistency_check_counts_what_was_missing_and_what_it_repaired,
}

/// The counters by name.
fn counted(recorder: &DebuggingRecorder) -> impl Fn(&str) -> u64 {
    let snapshot = recorder.snapshotter().snapshot().into_vec();
    move |name| {
        let found = snapshot.iter().find(|(key, ..)| key.key().name() == name).map(|(.., value)| value);
        if let Some(DebugValue::Counter(count)) = found { *count } else { 0 }
    }
}

async fn the_reaper_counts_the_locks_that_it_releases<S: Tested>(shop: Fixture<S>) {
    let recorder = DebuggingRecorder::new();
    shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    shop.age(Duration::from_secs(31 * 60)).await;
    // The job runs on the thread of this test, so a local recorder sees it.
    let guard = metrics::set_default_local_recorder(&recorder);
    for _ in 0..2 {
        jobs::reap(&shop.shop).await.unwrap();
    }
    drop(guard);
    assert_eq!(counted(&recorder)("postrider_reaper_locks_released_total"), 3, "once");
}

async fn the_consistency_check_counts_what_was_missing_and_what_it_repaired<S: Tested>(shop: Fixture<S>) {
    let recorder = DebuggingRecorder::new();
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    shop.pay(&order).await;
    lose_the_payment(&shop).await;
    let guard = metrics::set_default_local_recorder(&recorder);
    for _ in 0..2 {
        jobs::check_consistency(&shop.shop).await.unwrap();
    }
    drop(guard);
    let counted = counted(&recorder);
    assert_eq!(counted("postrider_consistency_events_missing_total"), 1, "once");
    assert_eq!(counted("postrider_consistency_events_repaired_total"), 1, "once");
    shop.settle().await;
    shop.books_balance().await;
}
