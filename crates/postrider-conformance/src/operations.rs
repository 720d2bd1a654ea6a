//! Bulk operations: each event is redriven once, at the requested rate, even if workers die.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider::operations::{Operations, OperationsOptions, dry_run};
use postrider::prelude::*;
use postrider::redrive::RedriveRules;
use postrider::status::EventStatus;
use postrider::store::{
    Advance, Filter, History, List, NewOperation, Operation, OperationState, PlanPage, Ramp, Steer,
};

use crate::Harness;
use crate::fold::fold_all;
use crate::steps::*;

/// Enqueues and buries `n` events, so that lists show them as FAILED.
pub(crate) async fn dead_events(h: &impl Harness, n: usize) {
    subscribe_lane(h).await;
    enqueue(h, drafts(n)).await;
    loop {
        let lease = claim(h, 500).await;
        if lease.deliveries.is_empty() {
            break;
        }
        let burials: Vec<_> = lease.ids().into_iter().map(buried).collect();
        h.store().bury(lease.token, &burials, History::Keep).await.unwrap();
    }
    fold_all(h).await;
}

pub(crate) fn failed_ones() -> Filter {
    Filter { status: Some(EventStatus::Failed), ..Filter::default() }
}

async fn ask(h: &impl Harness, request: NewOperation) -> Operation {
    h.store().create_operation(&request).await.unwrap()
}

async fn state(h: &impl Harness, id: &str) -> Operation {
    h.store().operation(id).await.unwrap().expect("the operation is there")
}

fn workers(h: &impl Harness) -> Operations {
    let store: Arc<dyn Store> = Arc::new(h.store().clone());
    let options = OperationsOptions { poll: Duration::from_millis(5), lease: LEASE, ..OperationsOptions::default() };
    Operations::new(store).options(options)
}

/// The redrive count of each event.
pub(crate) async fn redrives(h: &impl Harness) -> Vec<u32> {
    let mut list = List::new(Filter::default(), 500);
    let mut redrives = Vec::new();
    loop {
        let page = h.store().list(&list).await.unwrap();
        redrives.extend(page.events.iter().map(|record| record.kept.redrives));
        match page.next {
            Some(next) => list.after = Some(next),
            None => return redrives,
        }
    }
}

/// D.8: all matching events are redriven once, and none that is written later.
pub async fn everything_that_matches_is_redriven_once<H: Harness>(h: H) {
    dead_events(&h, 450).await;
    enqueue_one(&h, draft("fine")).await;
    let lease = claim(&h, 1).await;
    h.store().settle(lease.token, &lease.ids(), History::Keep).await.unwrap();
    fold_all(&h).await;
    let counted = dry_run(h.store(), &NewOperation::redrive("op", failed_ones())).await.unwrap();
    assert_eq!((counted.matching, counted.exact), (450, true), "the dry run");
    let asked =
        ask(&h, NewOperation { total: Some(counted.matching), ..NewOperation::redrive("op", failed_ones()) }).await;
    assert_eq!(asked.state, OperationState::Running);
    enqueue_one(&h, draft("later")).await;
    let lease = claim(&h, 1).await;
    h.store().bury(lease.token, &[buried(lease.deliveries[0].id)], History::Keep).await.unwrap();
    fold_all(&h).await;
    workers(&h).drain().await.unwrap();
    let done = state(&h, "op").await;
    assert_eq!((done.state, done.done, done.failed, done.skipped), (OperationState::Done, 450, 0, 0));
    assert!(done.finished_at.is_some() && done.position.is_none(), "{done:?}");
    let mut redrives = redrives(&h).await;
    redrives.sort_unstable();
    assert_eq!(redrives, [vec![0; 2], vec![1; 450]].concat());
    let mut due = 0;
    loop {
        match claim(&h, 500).await.deliveries.len() {
            0 => break,
            n => due += n,
        }
    }
    assert_eq!(due, 450);
}

/// D.8: an event that the rules refuse is counted as failed or skipped.
pub async fn refusals_are_counted<H: Harness>(h: H) {
    dead_events(&h, 10).await;
    for n in 0..3 {
        h.store().redrive(&format!("e{n:05}"), LANE, None).await.unwrap();
    }
    let lease = claim(&h, 2).await;
    // Two are leased, one is due and seven are dead; one of the seven then expires.
    assert_eq!(ids(&lease), ["e00000", "e00001"]);
    h.store().expire("e00009").await.unwrap();
    let all = Filter { topic: Some(TOPIC.into()), ..Filter::default() };
    let rules = RedriveRules { max_count: 1, ..RedriveRules::default() };
    ask(&h, NewOperation { rules, ..NewOperation::redrive("op", all) }).await;
    workers(&h).drain().await.unwrap();
    let done = state(&h, "op").await;
    assert_eq!((done.done, done.failed, done.skipped), (6, 3, 1), "{done:?}");
}

/// One piece of work by a claim that is kept.
async fn advance(h: &impl Harness, token: postrider::store::Token, operation: &Operation) -> Option<Operation> {
    let (after, mut page) = (operation.position, None);
    if after.is_some() {
        let found = h.store().list(&List { filter: failed_ones(), limit: 500, after }).await.unwrap();
        let events = found.events.iter().map(|one| (one.sequence, one.envelope.event_id.to_string())).collect();
        page = Some(PlanPage { after, events, next: found.next });
    }
    let advance = Advance { id: "op", token, page, batch: 100, lease: LEASE };
    h.store().advance_operation(&advance).await.unwrap()
}

/// D.8: a paused operation redrives nothing, and continues where it stopped.
pub async fn it_is_paused_resumed_and_cancelled<H: Harness>(h: H) {
    dead_events(&h, 300).await;
    ask(&h, NewOperation::redrive("op", failed_ones())).await;
    let (operation, token) = h.store().claim_operation("me", LEASE).await.unwrap().expect("it can be claimed");
    let operation = advance(&h, token, &operation).await.expect("it is the caller's");
    assert_eq!((operation.done, operation.owner.as_deref()), (100, Some("me")));
    let paused = h.store().steer_operation("op", Steer::Pause).await.unwrap().unwrap();
    assert_eq!((paused.state, paused.owner), (OperationState::Paused, None));
    assert!(advance(&h, token, &operation).await.is_none(), "the token is outdated");
    // A worker takes it only to read what came of the redriven events.
    let (found, token) = h.store().claim_operation("me", LEASE).await.unwrap().expect("results are missing");
    assert_eq!(advance(&h, token, &found).await.expect("it is the caller's").done, 100, "nothing more is done");
    let resumed = h.store().steer_operation("op", Steer::Resume).await.unwrap().unwrap();
    assert_eq!(resumed.state, OperationState::Running);
    assert!(advance(&h, token, &operation).await.is_none(), "the old token is outdated");
    let (operation, token) = h.store().claim_operation("me", LEASE).await.unwrap().expect("it can be claimed");
    let operation = advance(&h, token, &operation).await.expect("it is the caller's");
    assert_eq!(operation.done, 200, "it goes on where it was");
    let cancelled = h.store().steer_operation("op", Steer::Cancel).await.unwrap().unwrap();
    assert!(cancelled.state == OperationState::Cancelled && cancelled.finished_at.is_some());
    assert!(advance(&h, token, &operation).await.is_none());
    for steer in [Steer::Resume, Steer::Pause] {
        let still = h.store().steer_operation("op", steer).await.unwrap().unwrap();
        assert_eq!(still.state, OperationState::Cancelled, "for good");
    }
    assert_eq!(redrives(&h).await.iter().sum::<u32>(), 200);
    assert!(h.store().steer_operation("nothing", Steer::Pause).await.unwrap().is_none());
}

/// F01: an outdated token advances nothing, and an operation has one holder.
pub async fn a_zombie_advances_nothing<H: Harness>(h: H) {
    dead_events(&h, 10).await;
    ask(&h, NewOperation::redrive("op", failed_ones())).await;
    let (zombie, old) = h.store().claim_operation("zombie", LEASE).await.unwrap().expect("it can be claimed");
    assert!(h.store().claim_operation("other", LEASE).await.unwrap().is_none(), "one at a time");
    age(&h, HOUR).await;
    let (_, new) = h.store().claim_operation("successor", LEASE).await.unwrap().expect("it ran out");
    assert!(advance(&h, old, &zombie).await.is_none());
    assert!(!h.store().release_operation("op", old, Duration::ZERO).await.unwrap());
    assert_eq!(redrives(&h).await.iter().sum::<u32>(), 0);
    assert_eq!(advance(&h, new, &zombie).await.expect("it is the successor's").done, 10);
    // A page that was read for an earlier place of the plan is not noted again.
    assert_eq!(advance(&h, new, &zombie).await.expect("it is the successor's").progress.planned, 10);
    assert!(h.store().release_operation("op", new, HOUR).await.unwrap());
    assert!(h.store().claim_operation("next", LEASE).await.unwrap().is_none(), "it rests");
    age(&h, HOUR).await;
    assert!(h.store().claim_operation("next", LEASE).await.unwrap().is_some());
}

/// D.8: the worker dies at arbitrary points, repeatedly. Every event is redriven once.
pub async fn workers_that_die_redrive_nothing_twice<H: Harness>(h: H) {
    dead_events(&h, 1_000).await;
    ask(&h, NewOperation::redrive("op", failed_ones())).await;
    for n in 0..12 {
        let worker = tokio::spawn(workers(&h).run(std::future::pending()));
        tokio::time::sleep(Duration::from_millis(3 * n + 1)).await;
        worker.abort();
        let _ = worker.await;
        age(&h, HOUR).await;
    }
    // The last statement of an aborted worker may still arrive and hold the operation until its lease expires.
    while state(&h, "op").await.state != OperationState::Done {
        age(&h, HOUR).await;
        workers(&h).drain().await.unwrap();
    }
    let done = state(&h, "op").await;
    assert_eq!((done.done, done.skipped), (1_000, 0), "{done:?}");
    assert_eq!(redrives(&h).await, vec![1; 1_000]);
}

/// D.8: an operation does not exceed its rate.
pub async fn it_keeps_its_rate<H: Harness>(h: H) {
    dead_events(&h, 90).await;
    ask(&h, NewOperation { rate_per_second: Some(60), ..NewOperation::redrive("op", failed_ones()) }).await;
    let began = Instant::now();
    workers(&h).drain().await.unwrap();
    // It does not wait after the last batch, which is a quarter of a second's worth.
    assert!(began.elapsed() >= Duration::from_millis(1_200), "{:?}", began.elapsed());
    assert_eq!(state(&h, "op").await.done, 90);
}

/// A repeated request with the same id creates one operation.
pub async fn creating_it_twice_makes_one<H: Harness>(h: H) {
    dead_events(&h, 3).await;
    let request = NewOperation {
        consumer: Some(LANE.into()),
        rate_per_second: Some(7),
        reason: Some("the coupon service is back, \u{1f600}".into()),
        requested_by: Some("ops".into()),
        total: Some(3),
        only_failed: true,
        oldest_first: true,
        ramp: Some(Ramp { stop_above_percent: 7, ..Ramp::new(vec![1, 20]) }),
        fingerprint: Some("f".into()),
        rules: RedriveRules { max_count: 3, ..RedriveRules::default() },
        ..NewOperation::redrive(
            "op",
            Filter { key: Some("k".into()), from: Some(time::OffsetDateTime::UNIX_EPOCH), ..failed_ones() },
        )
    };
    let asked = ask(&h, request.clone()).await;
    assert_eq!(asked.request, request, "everything comes back");
    assert_eq!(ask(&h, NewOperation::redrive("op", Filter::default())).await, asked);
    ask(&h, NewOperation::redrive("second", Filter::default())).await;
    let listed = h.store().operations(None, 10).await.unwrap();
    assert_eq!(listed.iter().map(|one| one.request.id.as_str()).collect::<Vec<_>>(), ["second", "op"]);
    assert_eq!(listed[1], asked);
    assert_eq!(h.store().operations(None, 1).await.unwrap().len(), 1);
    assert!(h.store().operation("nothing").await.unwrap().is_none());
    let none = NewOperation { rate_per_second: Some(0), ..NewOperation::redrive("bad", Filter::default()) };
    assert!(h.store().create_operation(&none).await.is_err());
    let odd = [
        Ramp::new(vec![]),
        Ramp::new(vec![0]),
        Ramp::new(vec![1; 11]),
        Ramp { gate: Duration::ZERO, ..Ramp::new(vec![1]) },
        Ramp { stop_above_percent: 101, ..Ramp::new(vec![1]) },
    ];
    for ramp in odd {
        let bad = NewOperation { ramp: Some(ramp), ..NewOperation::redrive("bad", Filter::default()) };
        assert!(h.store().create_operation(&bad).await.is_err(), "{bad:?}");
    }
    assert!(h.store().create_operation(&NewOperation::redrive("", Filter::default())).await.is_err());
}

/// A stopped worker releases its operation, and another instance continues.
pub async fn a_stopped_worker_releases_its_operation<H: Harness>(h: H) {
    dead_events(&h, 400).await;
    ask(&h, NewOperation { rate_per_second: Some(200), ..NewOperation::redrive("op", failed_ones()) }).await;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = tokio::spawn(workers(&h).run(async { drop(stopped.await) }));
    while state(&h, "op").await.done == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(stop);
    worker.await.unwrap().unwrap();
    let left = state(&h, "op").await;
    assert_eq!((left.state, left.owner), (OperationState::Running, None));
    workers(&h).drain().await.unwrap();
    assert_eq!(state(&h, "op").await.done, 400);
}
