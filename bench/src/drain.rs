//! Draining a backlog: claim 500, settle 500, until nothing is left.

use std::sync::Arc;
use std::time::Instant;

use futures_util::future::try_join_all;
use postrider::Store;
use postrider::store::{Claim, History};

use crate::report::Round;
use crate::setup::{LANE, Scratch, fill, fill_finished};
use crate::{Outcome, Size, bare_mysql, bare_postgres, bare_sqlite};

pub(crate) const BATCH: u32 = 500;
/// On two cores a third worker adds nothing.
pub(crate) const WORKERS: usize = 2;

/// Drains with `workers`; the rate per second. Every event's payload is looked at, as a consumer would.
pub(crate) async fn drain(store: Arc<dyn Store>, workers: usize, expected: usize, history: History) -> Outcome<f64> {
    let started = Instant::now();
    let tasks = (0..workers).map(|n| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let claim = Claim { owner: format!("bench-{n}"), ..Claim::new(LANE, BATCH) };
            let (mut drained, mut bytes) = (0_usize, 0_usize);
            loop {
                let lease = store.claim(&claim).await?;
                if lease.deliveries.is_empty() {
                    return Ok::<_, postrider::Error>((drained, bytes));
                }
                bytes += lease.deliveries.iter().map(|delivery| delivery.envelope.payload.len()).sum::<usize>();
                drained += store.settle(lease.token, &lease.ids(), history).await?.len();
            }
        })
    });
    let mut drained = 0;
    for worker in try_join_all(tasks).await? {
        let (settled, bytes) = worker?;
        assert!(settled == 0 || bytes > 0);
        drained += settled;
    }
    assert_eq!(drained, expected, "every delivery is settled once");
    Ok(expected as f64 / started.elapsed().as_secs_f64())
}

pub(crate) async fn postgres_beside_bare(scratch: &Scratch, size: Size) -> Outcome<Vec<Round>> {
    postgres_beside(scratch, size, "drain", History::Omit).await
}

pub(crate) async fn postgres_with_history(scratch: &Scratch, size: Size) -> Outcome<Vec<Round>> {
    postgres_beside(scratch, size, "history", History::Keep).await
}

async fn postgres_beside(scratch: &Scratch, size: Size, name: &str, history: History) -> Outcome<Vec<Round>> {
    let store = Arc::new(scratch.postgres_store(name).await?);
    let bare = bare_postgres::Bare::new(&scratch.postgres(&format!("{name}_bare")).await?).await?;
    let mut rounds = Vec::new();
    for _ in 0..size.rounds {
        // Each side drains right after its own fill: whoever came second would find its pages evicted.
        fill(&*store, size.pending, 0).await?;
        let ours_per_second = drain(store.clone(), WORKERS, size.pending, history).await?;
        bare.fill(size.pending).await?;
        rounds.push(Round { ours_per_second, other_per_second: bare.drain(WORKERS, size.pending).await? });
    }
    Ok(rounds)
}

pub(crate) async fn sqlite_beside_bare(scratch: &Scratch, size: Size) -> Outcome<Vec<Round>> {
    let store = Arc::new(scratch.sqlite_store("drain").await?);
    let bare = bare_sqlite::Bare::new(&scratch.sqlite("drain_bare")).await?;
    let mut rounds = Vec::new();
    for _ in 0..size.rounds {
        fill(&*store, size.pending, 0).await?;
        let ours_per_second = drain(store.clone(), WORKERS, size.pending, History::Omit).await?;
        bare.fill(size.pending).await?;
        rounds.push(Round { ours_per_second, other_per_second: bare.drain(size.pending).await? });
    }
    Ok(rounds)
}

pub(crate) async fn mysql_beside_bare(scratch: &Scratch, size: Size) -> Outcome<Vec<Round>> {
    let store = Arc::new(scratch.mysql_store("drain").await?);
    let bare = bare_mysql::Bare::new(&scratch.mysql("drain_bare").await?).await?;
    let mut rounds = Vec::new();
    for _ in 0..size.rounds {
        fill(&*store, size.pending, 0).await?;
        let ours_per_second = drain(store.clone(), WORKERS, size.pending, History::Omit).await?;
        bare.fill(size.pending).await?;
        rounds.push(Round { ours_per_second, other_per_second: bare.drain(WORKERS, size.pending).await? });
    }
    Ok(rounds)
}

pub(crate) async fn postgres_many_finished(scratch: &Scratch, size: Size) -> Outcome<Vec<Round>> {
    let few = scratch.postgres_store("few").await?;
    let many = scratch.postgres_store("many").await?;
    many_finished(few, many, size).await
}

pub(crate) async fn sqlite_many_finished(scratch: &Scratch, size: Size) -> Outcome<Vec<Round>> {
    let few = scratch.sqlite_store("few").await?;
    let many = scratch.sqlite_store("many").await?;
    many_finished(few, many, size).await
}

async fn many_finished<S: postrider::Enlist>(few: S, many: S, size: Size) -> Outcome<Vec<Round>> {
    fill_finished(&few, size.finished.0).await?;
    fill_finished(&many, size.finished.1).await?;
    let (few, many) = (Arc::new(few), Arc::new(many));
    let mut rounds = Vec::new();
    for _ in 0..size.rounds {
        fill(&*many, size.pending, 0).await?;
        let ours_per_second = drain(many.clone(), WORKERS, size.pending, History::Omit).await?;
        fill(&*few, size.pending, 0).await?;
        let other_per_second = drain(few.clone(), WORKERS, size.pending, History::Omit).await?;
        rounds.push(Round { ours_per_second, other_per_second });
    }
    Ok(rounds)
}

/// A relay that has been looking at an empty, unanalysed table for a while has cached its plans for that.
pub(crate) async fn postgres_started_empty(scratch: &Scratch, size: Size) -> Outcome<Vec<Round>> {
    let mut rounds = Vec::new();
    for round in 0..size.rounds {
        let empty = Arc::new(scratch.postgres_store(&format!("empty_{round}")).await?);
        // A generic plan is chosen after five executions on a session.
        for _ in 0..20 {
            drain(empty.clone(), WORKERS, 0, History::Omit).await?;
        }
        fill(&*empty, size.pending, 0).await?;
        let ours_per_second = drain(empty, WORKERS, size.pending, History::Omit).await?;
        let full = scratch.postgres_store(&format!("full_{round}")).await?;
        fill(&full, size.pending, 0).await?;
        let other_per_second = drain(Arc::new(full), WORKERS, size.pending, History::Omit).await?;
        rounds.push(Round { ours_per_second, other_per_second });
    }
    Ok(rounds)
}
