//! Draining a backlog: claim 500, settle 500, until nothing is left.

use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};

use futures_util::future::try_join_all;
use postrider::Store;
use postrider::store::{Claim, History};
use sqlx::Connection;
use sqlx::postgres::PgConnection;
use tokio::task::JoinHandle;

use crate::report::Round;
use crate::setup::{LANE, Scratch, fill, fill_both, fill_finished};
use crate::turns::{Turn, in_turns};
use crate::{Outcome, Size, bare_mysql, bare_postgres, bare_sqlite};

pub(crate) const BATCH: u32 = 500;
/// A third worker adds nothing on two cores.
pub(crate) const WORKERS: usize = 2;
/// Turns of each side per round.
pub(crate) const TURNS: usize = 10;

/// Drains up to `goal` events with `workers`. Reads every payload, as a consumer would.
pub(crate) async fn drain(store: Arc<dyn Store>, workers: usize, goal: usize, history: History) -> Outcome<Turn> {
    let left = Arc::new(AtomicIsize::new(goal as isize));
    let tasks = (0..workers).map(|n| {
        let (store, left) = (Arc::clone(&store), Arc::clone(&left));
        tokio::spawn(async move {
            let claim = Claim { owner: format!("bench-{n}"), ..Claim::new(LANE, BATCH) };
            let (mut drained, mut bytes) = (0_usize, 0_usize);
            while left.fetch_sub(BATCH as isize, Ordering::AcqRel) > 0 {
                let lease = store.claim(&claim).await?;
                if lease.deliveries.is_empty() {
                    break;
                }
                bytes += lease.deliveries.iter().map(|delivery| delivery.envelope.payload.len()).sum::<usize>();
                drained += store.settle(lease.token, &lease.ids(), history).await?.len();
            }
            assert!(drained == 0 || bytes > 0);
            Ok::<_, postrider::Error>(drained)
        })
    });
    Turn::time(sum(tasks)).await
}

/// The sum of what the workers did.
pub(crate) async fn sum<E>(tasks: impl Iterator<Item = JoinHandle<Result<usize, E>>>) -> Outcome<usize>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let mut drained = 0;
    for worker in try_join_all(tasks).await? {
        drained += worker?;
    }
    Ok(drained)
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
        fill(&*store, size.pending, 0).await?;
        bare.fill(size.pending).await?;
        let ours = async |goal| drain(store.clone(), WORKERS, goal, history).await;
        rounds.push(in_turns(size.pending, TURNS, ours, async |goal| bare.drain(WORKERS, goal).await).await?);
    }
    Ok(rounds)
}

pub(crate) async fn sqlite_beside_bare(scratch: &Scratch, size: Size) -> Outcome<Vec<Round>> {
    let store = Arc::new(scratch.sqlite_store("drain").await?);
    let bare = bare_sqlite::Bare::new(&scratch.sqlite("drain_bare")).await?;
    let mut rounds = Vec::new();
    for _ in 0..size.rounds {
        fill(&*store, size.pending, 0).await?;
        bare.fill(size.pending).await?;
        let ours = async |goal| drain(store.clone(), WORKERS, goal, History::Omit).await;
        rounds.push(in_turns(size.pending, TURNS, ours, async |goal| bare.drain(goal).await).await?);
    }
    Ok(rounds)
}

pub(crate) async fn mysql_beside_bare(scratch: &Scratch, size: Size) -> Outcome<Vec<Round>> {
    let store = Arc::new(scratch.mysql_store("drain").await?);
    let bare = bare_mysql::Bare::new(&scratch.mysql("drain_bare").await?).await?;
    let mut rounds = Vec::new();
    for _ in 0..size.rounds {
        fill(&*store, size.pending, 0).await?;
        bare.fill(size.pending).await?;
        let ours = async |goal| drain(store.clone(), WORKERS, goal, History::Omit).await;
        rounds.push(in_turns(size.pending, TURNS, ours, async |goal| bare.drain(WORKERS, goal).await).await?);
    }
    Ok(rounds)
}

pub(crate) async fn postgres_many_finished(scratch: &Scratch, size: Size) -> Outcome<Vec<Round>> {
    let few = scratch.postgres_store("few").await?;
    let many = scratch.postgres_store("many").await?;
    fill_finished(&few, size.finished.0).await?;
    fill_finished(&many, size.finished.1).await?;
    // Finished events are days old in practice, so they are vacuumed here. Dead rows that cannot be vacuumed are
    // measured by `postgres_snapshot_held`.
    scratch.vacuum("few").await?;
    scratch.vacuum("many").await?;
    many_finished(few, many, size).await
}

pub(crate) async fn sqlite_many_finished(scratch: &Scratch, size: Size) -> Outcome<Vec<Round>> {
    let few = scratch.sqlite_store("few").await?;
    let many = scratch.sqlite_store("many").await?;
    fill_finished(&few, size.finished.0).await?;
    fill_finished(&many, size.finished.1).await?;
    many_finished(few, many, size).await
}

async fn many_finished<S: postrider::Enlist>(few: S, many: S, size: Size) -> Outcome<Vec<Round>> {
    let (few, many) = (Arc::new(few), Arc::new(many));
    let mut rounds = Vec::new();
    for _ in 0..size.rounds {
        fill_both(&*many, &*few, size.pending).await?;
        let ours = async |goal| drain(many.clone(), WORKERS, goal, History::Omit).await;
        let other = async |goal| drain(few.clone(), WORKERS, goal, History::Omit).await;
        rounds.push(in_turns(size.pending, TURNS, ours, other).await?);
    }
    Ok(rounds)
}

/// A long-running transaction, such as a report or a hanging backup,
/// prevents the vacuum of rows deleted since it began.
pub(crate) async fn postgres_snapshot_held(scratch: &Scratch, size: Size) -> Outcome<Vec<Round>> {
    let mut rounds = Vec::new();
    for round in 0..size.rounds {
        let held = Arc::new(scratch.postgres_store(&format!("held_{round}")).await?);
        let free = Arc::new(scratch.postgres_store(&format!("free_{round}")).await?);
        fill_both(&*held, &*free, size.pending).await?;
        let mut holder = PgConnection::connect(&scratch.url(&format!("held_{round}"))?).await?;
        sqlx::raw_sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").execute(&mut holder).await?;
        let ours = async |goal| drain(held.clone(), WORKERS, goal, History::Omit).await;
        let other = async |goal| drain(free.clone(), WORKERS, goal, History::Omit).await;
        rounds.push(in_turns(size.pending, TURNS, ours, other).await?);
        holder.close().await?;
    }
    Ok(rounds)
}

/// A relay that polled an empty, unanalysed table for a while has cached plans for an empty table.
pub(crate) async fn postgres_started_empty(scratch: &Scratch, size: Size) -> Outcome<Vec<Round>> {
    let mut rounds = Vec::new();
    for round in 0..size.rounds {
        let empty = Arc::new(scratch.postgres_store(&format!("empty_{round}")).await?);
        // PostgreSQL may choose a generic plan after five executions in a session.
        for _ in 0..20 {
            drain(empty.clone(), WORKERS, 1, History::Omit).await?;
        }
        let full = Arc::new(scratch.postgres_store(&format!("full_{round}")).await?);
        fill_both(&*empty, &*full, size.pending).await?;
        let ours = async |goal| drain(empty.clone(), WORKERS, goal, History::Omit).await;
        let other = async |goal| drain(full.clone(), WORKERS, goal, History::Omit).await;
        rounds.push(in_turns(size.pending, TURNS, ours, other).await?);
    }
    Ok(rounds)
}
