//! Gates and steps, without a store.

// A failed unwrap fails the test.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;
use crate::store::{Cursor, Filter};

fn begun(sizes: &[u32], events: u64) -> Operation {
    let ramp = Some(Ramp::new(sizes.to_vec()));
    let new = NewOperation { ramp, ..NewOperation::redrive("op", Filter::default()) };
    let mut operation = Operation::new(&new, 1, Cursor(events as i64 + 1), OffsetDateTime::UNIX_EPOCH);
    let events = (1..=events as i64).map(|seq| (seq, seq.to_string())).collect();
    operation.plan(&PlanPage { after: operation.position, events, next: None });
    operation
}

/// Redrives as many as the operation allows, starting at `from`.
fn redrive(operation: &mut Operation, batch: u32, from: &mut i64) -> u32 {
    let allowed = operation.allowance(batch);
    let left = u32::try_from(operation.left()).unwrap();
    let asked: Vec<i64> = (*from..).take(allowed.min(left) as usize).collect();
    *from += asked.len() as i64;
    let answers: Vec<_> = asked.iter().map(|seq| (*seq, Ok(Watched::default()))).collect();
    operation.redriven(&asked, &answers);
    asked.len() as u32
}

fn results(operation: &mut Operation, step: u32, delivered: usize, failed: usize) {
    let seen =
        [vec![(step, ItemOutcome::Delivered); delivered], vec![(step, ItemOutcome::FailedAgain); failed]].concat();
    operation.observe(&seen, None, OffsetDateTime::UNIX_EPOCH);
}

/// G.12: what a gate decides, line by line.
#[test]
fn a_gate_decides_on_the_results() {
    const EPOCH: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;
    // delivered, failed again, seconds waited: passes, stops with a text, or waits.
    let table = [
        (10, 0, 0, Some(None)),
        (8, 2, 0, Some(None)),
        (7, 3, 0, Some(Some("3 of 10 failed again (30.0 %)"))),
        (0, 1, 29, None),
        (4, 1, 30, Some(None)),
        (0, 1, 30, Some(Some("1 of 1 failed again (100.0 %), 9 more have no result yet"))),
        (0, 0, 30, Some(Some("none of 10 redriven events had its first attempt within 30 s"))),
    ];
    for (delivered, failed, seconds, expected) in table {
        let mut operation = begun(&[10], 100);
        assert_eq!(redrive(&mut operation, 200, &mut 1), 10);
        operation.turn(EPOCH);
        assert_eq!(operation.gate_since, Some(EPOCH));
        results(&mut operation, 0, delivered, failed);
        operation.turn(EPOCH + Duration::from_secs(seconds));
        let state = operation.progress.steps[0].state;
        let decided = match state {
            StepState::Running => None,
            StepState::Passed => Some(None),
            StepState::Stopped | StepState::Todo => Some(operation.progress.stopped_because.clone()),
        };
        assert_eq!(decided, expected.map(|why| why.map(str::to_owned)), "{delivered} {failed} {seconds}");
        let paused = matches!(expected, Some(Some(_)));
        assert_eq!(operation.state == OperationState::Paused, paused, "{delivered} {failed} {seconds}");
    }
}

/// G.12: a large step that goes wrong stops before all of it is redriven, and is tried again with a smaller one.
#[test]
fn a_step_that_goes_wrong_stops_early() {
    let now = OffsetDateTime::UNIX_EPOCH;
    let mut operation = begun(&[1, 10], 10_000);
    let mut from = 1;
    for (step, size) in [(0, 1), (1, 10)] {
        assert_eq!(redrive(&mut operation, 200, &mut from), size);
        results(&mut operation, step, size as usize, 0);
        operation.turn(now);
    }
    redrive(&mut operation, 200, &mut from);
    results(&mut operation, 2, 30, 19);
    operation.turn(now);
    assert_eq!(operation.state, OperationState::Running, "too few results to judge");
    results(&mut operation, 2, 0, 1);
    operation.turn(now);
    assert_eq!(
        operation.progress.stopped_because.as_deref(),
        Some("20 of 50 failed again (40.0 %), 150 more have no result yet")
    );
    assert!(operation.steer(Steer::Resume, now));
    let sizes: Vec<_> = operation.progress.steps.iter().map(|step| step.size).collect();
    assert_eq!(sizes, [Some(1), Some(10), None, Some(10), None]);
    assert_eq!(operation.allowance(200), 10);
    let shown: Vec<_> = operation.stairs().iter().map(|step| step.size.unwrap()).collect();
    assert_eq!(shown, [1, 10, 200, 10, 10_000 - 221]);
}

/// A step without anything to redrive passes: there is nothing that could fail.
#[test]
fn what_needs_no_redrive_opens_the_gate() {
    let mut operation = begun(&[3], 3);
    let asked = [1, 2, 3];
    let answers: Vec<_> = asked.iter().map(|seq| (*seq, Err(Refusal::Consumed))).collect();
    operation.redriven(&asked[..], &answers[..2]);
    operation.turn(OffsetDateTime::UNIX_EPOCH);
    assert_eq!((operation.state, operation.skipped, operation.done), (OperationState::Done, 3, 0));
}

proptest! {
    /// G.12: whatever comes of the events, each is redriven once, no step is larger than asked for, and it comes to an end.
    #[test]
    fn every_ramp_ends(
        sizes in prop::collection::vec(1_u32..40, 1..5),
        events in 0_u64..300,
        batch in 1_u32..60,
        bad in prop::collection::vec(0_usize..100, 1..20),
    ) {
        let now = OffsetDateTime::UNIX_EPOCH;
        let mut operation = begun(&sizes, events);
        let (mut from, mut turns) = (1, 0);
        let mut bad = bad.into_iter().cycle();
        while operation.state != OperationState::Done {
            turns += 1;
            prop_assert!(turns < 10_000, "{operation:?}");
            if operation.state == OperationState::Paused {
                prop_assert!(operation.progress.stopped_because.is_some());
                prop_assert!(operation.steer(Steer::Resume, now));
            }
            redrive(&mut operation, batch, &mut from);
            operation.turn(now);
            if operation.gate_since.is_some() {
                let step = operation.progress.current().unwrap();
                let open = (operation.progress.steps[step].done - operation.progress.steps[step].results()) as usize;
                let failed = open * bad.next().unwrap() / 100;
                results(&mut operation, step as u32, open - failed, failed);
                operation.turn(now);
            }
        }
        prop_assert_eq!(from as u64 - 1, events);
        prop_assert_eq!(operation.done, events);
        prop_assert_eq!(operation.progress.delivered + operation.progress.failed_again, events);
        for step in &operation.progress.steps {
            prop_assert!(step.size.is_none_or(|size| step.done <= size));
        }
    }
}
