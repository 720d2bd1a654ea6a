//! Tables that have grown: old rows are removed beside the work.

use std::cell::Cell;
use std::time::{Duration, Instant};

use postrider::store::{Claim, History, Prunable, Prune};
use postrider::{Draft, Outbox};
use postrider_proof::effect::Effect;

use crate::database::{Database, over_each_typed_server, soak};

over_each_typed_server! {
    /// F22: handled events and inbox rows are removed while others are enqueued, claimed and settled. `make soak` has five million.
    claims_are_not_slowed_by_the_removal_of_old_rows,
}

/// Claims with and without the pruner beside them, by turns, so that the load of the machine concerns both.
const TURNS: usize = 12;
/// Claims in a turn.
const CLAIMS: usize = 40;
/// What a claim takes at most while other tests run. A claim that waited for the removal of 100,000 rows would take longer.
const PROMPTLY: Duration = Duration::from_millis(500);
/// What `Retention` removes in one transaction.
const BATCH: u32 = 500;

/// Writes handled events and their inbox rows, two months old.
async fn write_old_rows(database: &Database, rows: u64, measurement: u32) {
    let (settings, numbers, then) = if database.url().starts_with("postgres") {
        ("", format!("generate_series(1, {rows}) n"), "now() - interval '60 days'")
    } else {
        let digits = "(WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n <";
        (
            "SET SESSION max_recursive_iterations = 100000000;",
            format!("{digits} {rows}) SELECT n FROM n) n"),
            "UTC_TIMESTAMP(6) - INTERVAL 60 DAY",
        )
    };
    let sql = format!(
        "{settings} INSERT INTO postrider_event (event_id, topic, payload, created_at, waits_for)
             SELECT concat('old-{measurement}-', n), 'work.done', '{{}}', {then}, NULL FROM {numbers};
         INSERT INTO postrider_inbox (consumer, event_id, topic, received_at)
             SELECT 'count', concat('old-{measurement}-', n), 'work.done', {then} FROM {numbers}"
    );
    database.execute(&sql).await;
}

async fn claims_are_not_slowed_by_the_removal_of_old_rows<S: Effect>(database: &Database) {
    let store = S::with_connections(database.url(), 10).await.unwrap();
    if !soak() {
        // The ratio of two short measurements says nothing on a machine that runs other tests. No claim waits for the pruner.
        write_old_rows(database, 100_000, 1).await;
        let (without, with) = measure(&store).await;
        assert!(with < PROMPTLY, "p99 of a claim: {with:?} beside the pruner, {without:?} without it");
        return;
    }
    // Other work of the machine may spoil a measurement, but not three.
    for measurement in 1..=3 {
        write_old_rows(database, 5_000_000, measurement).await;
        let (without, with) = measure(&store).await;
        eprintln!("F22: p99 of a claim {without:?}, beside the pruner {with:?}");
        if with < 2 * without {
            return;
        }
    }
    panic!("claims are slower beside the pruner");
}

/// The p99 of claims without and with the pruner.
async fn measure<S: Effect>(store: &S) -> (Duration, Duration) {
    let outbox = Outbox::new(store.clone());
    let claims = async |times: &mut Vec<Duration>| {
        for _ in 0..CLAIMS {
            let mut tx = store.begin().await.unwrap();
            outbox.enqueue_many(&mut tx, (0..5).map(|_| Draft::text("work.done", "text/plain", "7"))).await.unwrap();
            store.commit(tx).await.unwrap();
            let asked = Instant::now();
            let lease = store.claim(&Claim::new("count", 5)).await.unwrap();
            times.push(asked.elapsed());
            store.settle(lease.token, &lease.ids(), History::Omit).await.unwrap();
        }
    };
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let (mut removed, mut after) = (0, 0);
    let mut prune = async |what| {
        let batch = Prune { what, older_than: Duration::from_secs(86_400), after, limit: BATCH };
        let pruned = store.prune(&batch).await.unwrap();
        assert!(pruned.removed <= u64::from(BATCH));
        removed += pruned.removed;
        if what == Prunable::Events {
            after = pruned.next.unwrap_or_default();
        }
    };
    claims(&mut Vec::new()).await;
    for _ in 0..TURNS {
        claims(&mut without).await;
        let over = Cell::new(false);
        let claiming = async {
            claims(&mut with).await;
            over.set(true);
        };
        let pruning = async {
            while !over.get() {
                prune(Prunable::Events).await;
                prune(Prunable::Inbox).await;
            }
        };
        tokio::join!(claiming, pruning);
    }
    assert!(removed >= 2 * u64::from(BATCH) * TURNS as u64, "the pruner worked: {removed}");
    let p99 = |times: &mut Vec<Duration>| {
        times.sort();
        times[times.len() * 99 / 100]
    };
    (p99(&mut without), p99(&mut with))
}
