//! `plan_job`, `begin_job`, `extend_job`, `finish_job`, `jobs`: each slot of a job is begun once, by one holder at a
//! time.

use std::time::Duration;

use postrider::Error;
use postrider::prelude::*;
use postrider::store::{JobOutcome, JobPlan, JobStart, JobState, Token};
use time::OffsetDateTime;

use crate::Harness;
use crate::steps::*;

const JOB: &str = "reaper";

async fn plan(h: &impl Harness, name: &str, schedule: &str, next_slot: Option<OffsetDateTime>) {
    h.store().plan_job(&JobPlan { name, schedule, zone: "UTC", next_slot }).await.unwrap();
}

/// A job that was planned days ago.
async fn planned(h: &impl Harness) {
    plan(h, JOB, "0 0 * * * ?", None).await;
    age(h, 72 * HOUR).await;
}

fn start(slot: Option<OffsetDateTime>) -> JobStart<'static> {
    JobStart { name: JOB, slot, next_slot: None, owner: "host-1", lease: LEASE }
}

async fn begin(h: &impl Harness, slot: OffsetDateTime) -> Option<Token> {
    h.store().begin_job(&start(Some(slot))).await.unwrap()
}

async fn finish(h: &impl Harness, token: Token) -> bool {
    let outcome = JobOutcome::Done("released 3".into());
    h.store().finish_job(JOB, token, &outcome).await.unwrap()
}

async fn state(h: &impl Harness) -> JobState {
    let mut jobs = h.store().jobs().await.unwrap();
    assert_eq!(jobs.len(), 1);
    jobs.remove(0)
}

/// The slot that long ago by the database clock. Slots are whole seconds.
async fn ago(h: &impl Harness, by: Duration) -> OffsetDateTime {
    (h.store().now().await.unwrap() - by).replace_nanosecond(0).unwrap()
}

/// F51: (job, slot) is unique. A slot is never begun twice, nor is an earlier one, which a database clock that is set
/// back would offer (F15).
pub async fn a_slot_is_begun_once<H: Harness>(h: H) {
    planned(&h).await;
    let slot = ago(&h, 2 * MINUTE).await;
    let token = begin(&h, slot).await.expect("the first has it");
    assert!(finish(&h, token).await);
    assert_eq!(begin(&h, slot).await, None, "once");
    assert_eq!(begin(&h, slot - HOUR).await, None, "nor an earlier one");
    assert!(begin(&h, slot + MINUTE).await.is_some(), "the next one");
}

/// F51: eight concurrent instances.
pub async fn concurrent_instances_have_one_winner<H: Harness>(h: H) {
    planned(&h).await;
    for minutes in [5, 4, 3, 2] {
        let slot = ago(&h, minutes * MINUTE).await;
        let instances = (0..8).map(|_| {
            let h = h.clone();
            async move { begin(&h, slot).await }
        });
        let begun: Vec<Token> = together(instances).await.into_iter().flatten().collect();
        assert_eq!(begun.len(), 1);
        assert!(finish(&h, begun[0]).await);
    }
}

/// F54: a run that outlasts its schedule is not started again elsewhere.
pub async fn a_running_job_is_not_begun_beside_itself<H: Harness>(h: H) {
    planned(&h).await;
    let slot = ago(&h, 2 * MINUTE).await;
    let token = begin(&h, slot).await.unwrap();
    assert_eq!(begin(&h, slot + MINUTE).await, None);
    assert_eq!(h.store().begin_job(&start(None)).await.unwrap(), None, "not by hand either");
    assert_eq!(state(&h).await.last_slot, Some(slot), "what was refused has written nothing");
    assert!(finish(&h, token).await);
    assert!(begin(&h, slot + MINUTE).await.is_some());
}

/// F14: a slot in the future of the database clock is refused, whatever the instance's clock shows.
pub async fn a_slot_that_has_not_come_is_refused<H: Harness>(h: H) {
    planned(&h).await;
    let slot = ago(&h, Duration::ZERO).await + 10 * MINUTE;
    assert_eq!(begin(&h, slot).await, None);
    assert_eq!(state(&h).await.last_slot, None);
}

/// F09: after a crash the job is free as soon as the lease expires. The slot of the crashed run is not repeated.
pub async fn a_crashed_run_is_followed_once_its_lease_is_over<H: Harness>(h: H) {
    planned(&h).await;
    let first = begin(&h, ago(&h, 2 * MINUTE).await).await.unwrap();
    age(&h, HOUR).await;
    let crashed = state(&h).await;
    assert!(crashed.lock_until.unwrap() < h.store().now().await.unwrap(), "it shows");
    assert_eq!(begin(&h, crashed.last_slot.unwrap()).await, None);
    let second = begin(&h, ago(&h, MINUTE).await).await.expect("the next slot");
    assert_ne!(first, second);
    assert_eq!(begin(&h, ago(&h, Duration::ZERO).await).await, None, "with a lease of its own");
}

/// F01, F24: an outdated token writes nothing.
pub async fn a_late_holder_writes_nothing<H: Harness>(h: H) {
    planned(&h).await;
    let zombie = begin(&h, ago(&h, 2 * MINUTE).await).await.unwrap();
    age(&h, HOUR).await;
    let successor = begin(&h, ago(&h, MINUTE).await).await.unwrap();
    let before = state(&h).await;
    assert!(!h.store().extend_job(JOB, zombie, 9 * HOUR).await.unwrap());
    assert!(!finish(&h, zombie).await);
    assert_eq!(state(&h).await, before);
    assert!(finish(&h, successor).await);
    assert!(!finish(&h, successor).await, "once");
    assert!(!h.store().extend_job(JOB, successor, HOUR).await.unwrap(), "it is over");
    assert!(!h.store().extend_job("unknown", successor, HOUR).await.unwrap());
}

/// F54: a heartbeat keeps the lease of a slow run. A late heartbeat counts if no other instance has begun.
pub async fn the_lease_is_extended_from_now<H: Harness>(h: H) {
    planned(&h).await;
    let token = begin(&h, ago(&h, 5 * MINUTE).await).await.unwrap();
    assert!(h.store().extend_job(JOB, token, 3 * HOUR).await.unwrap());
    age(&h, 2 * HOUR).await;
    assert_eq!(begin(&h, ago(&h, MINUTE).await).await, None, "it was extended");
    age(&h, 2 * HOUR).await;
    assert!(h.store().extend_job(JOB, token, HOUR).await.unwrap(), "no other instance began");
    assert_eq!(begin(&h, ago(&h, MINUTE).await).await, None);
    age(&h, 2 * HOUR).await;
    assert!(finish(&h, token).await, "no other instance began");
}

/// A manual run does not change the slots.
pub async fn a_run_by_hand_is_no_slot<H: Harness>(h: H) {
    planned(&h).await;
    let slot = ago(&h, 2 * MINUTE).await;
    let token = begin(&h, slot).await.unwrap();
    finish(&h, token).await;
    let by_hand = h.store().begin_job(&start(None)).await.unwrap().unwrap();
    assert!(finish(&h, by_hand).await);
    assert_eq!(state(&h).await.last_slot, Some(slot));
    assert!(begin(&h, slot + MINUTE).await.is_some());
}

/// An operator can read the last and next slot, the owner and the result.
pub async fn everything_can_be_read<H: Harness>(h: H) {
    assert_eq!(h.store().jobs().await.unwrap(), []);
    let next = ago(&h, Duration::ZERO).await + 3 * MINUTE;
    plan(&h, JOB, "0 */3 * * * ?", Some(next)).await;
    let planned = state(&h).await;
    assert_eq!(
        (planned.name.as_str(), planned.schedule.as_str(), planned.zone.as_str()),
        (JOB, "0 */3 * * * ?", "UTC")
    );
    assert_eq!(planned.next_slot, Some(next));
    assert!(is_about((h.store().now().await.unwrap() - planned.since).unsigned_abs(), Duration::ZERO));
    assert_eq!((planned.last_slot, planned.fired_at, planned.owner, planned.lock_until), (None, None, None, None));
    assert_eq!((planned.finished_at, planned.outcome), (None, None));

    let slot = ago(&h, Duration::ZERO).await;
    let next = Some(next + 3 * MINUTE);
    let token = h.store().begin_job(&JobStart { next_slot: next, ..start(Some(slot)) }).await.unwrap().unwrap();
    let running = state(&h).await;
    assert_eq!((running.last_slot, running.next_slot, running.owner.as_deref()), (Some(slot), next, Some("host-1")));
    let lease = running.lock_until.unwrap() - running.fired_at.unwrap();
    assert!(is_about(lease.unsigned_abs(), LEASE), "{lease}");
    assert_eq!((running.finished_at, running.outcome), (None, None));

    assert!(h.store().finish_job(JOB, token, &JobOutcome::Failed("no disk".into())).await.unwrap());
    let failed = state(&h).await;
    assert_eq!((failed.outcome, failed.lock_until), (Some(JobOutcome::Failed("no disk".into())), None));
    assert!(failed.finished_at.unwrap() >= failed.fired_at.unwrap());
    assert_eq!((failed.owner.as_deref(), failed.next_slot), (Some("host-1"), next));

    let token = h.store().begin_job(&start(None)).await.unwrap().unwrap();
    assert_eq!(state(&h).await.outcome, Some(JobOutcome::Failed("no disk".into())), "until this one has ended");
    assert!(finish(&h, token).await);
    assert_eq!(state(&h).await.outcome, Some(JobOutcome::Done("released 3".into())));
}

/// Planning again updates only what changed. A new schedule counts from now on.
pub async fn a_plan_is_kept_until_it_changes<H: Harness>(h: H) {
    planned(&h).await;
    let slot = ago(&h, HOUR).await;
    let token = begin(&h, slot).await.unwrap();
    let before = state(&h).await;
    plan(&h, JOB, "0 0 * * * ?", None).await;
    assert_eq!(state(&h).await, before, "the same");
    let next = Some(slot + 2 * HOUR);
    plan(&h, JOB, "0 0 * * * ?", next).await;
    assert_eq!(state(&h).await, JobState { next_slot: next, ..before.clone() });
    plan(&h, JOB, "0 30 * * * ?", next).await;
    let after = state(&h).await;
    assert!(is_about((h.store().now().await.unwrap() - after.since).unsigned_abs(), Duration::ZERO));
    assert_eq!(after.schedule, "0 30 * * * ?");
    assert_eq!((after.last_slot, after.lock_until), (before.last_slot, before.lock_until), "its run goes on");
    assert!(finish(&h, token).await);
}

/// Five instances start on an empty table.
pub async fn concurrent_plans_make_one_job<H: Harness>(h: H) {
    let instances = (0..5).map(|_| {
        let h = h.clone();
        async move { plan(&h, JOB, "0 0 * * * ?", None).await }
    });
    together(instances).await;
    state(&h).await;
}

/// Names are compared byte for byte. A job without a plan cannot begin.
pub async fn names_are_apart<H: Harness>(h: H) {
    for name in ["reaper", "Reaper", "pruner"] {
        plan(&h, name, "0 0 * * * ?", None).await;
    }
    for name in ["reaper", "Reaper", "pruner"] {
        let start = JobStart { name, ..start(None) };
        assert!(h.store().begin_job(&start).await.unwrap().is_some(), "{name}");
    }
    let unknown = JobStart { name: "REAPER", ..start(None) };
    assert_eq!(h.store().begin_job(&unknown).await.unwrap(), None);
    let names: Vec<String> = h.store().jobs().await.unwrap().into_iter().map(|job| job.name).collect();
    assert_eq!(names, ["Reaper", "pruner", "reaper"], "in the order of their bytes");
}

/// F39: an outcome is saved whatever its text contains.
pub async fn an_outcome_of_any_text_is_saved_and_cut<H: Harness>(h: H) {
    planned(&h).await;
    for outcome in [JobOutcome::Done(oversized_text()), JobOutcome::Failed(oversized_text())] {
        let token = h.store().begin_job(&start(None)).await.unwrap().unwrap();
        assert!(h.store().finish_job(JOB, token, &outcome).await.unwrap());
        match (outcome, state(&h).await.outcome.unwrap()) {
            (JobOutcome::Done(_), JobOutcome::Done(text)) | (JobOutcome::Failed(_), JobOutcome::Failed(text)) => {
                assert!(is_cut_to_limit(Some(&text)), "{text}");
            }
            (written, kept) => panic!("{written:?} became {kept:?}"),
        }
    }
}

/// A value over its limit is refused with the field's name.
pub async fn bad_ones_are_refused_by_name<H: Harness>(h: H) {
    let long = "x".repeat(129);
    let plan = JobPlan { name: JOB, schedule: "0 0 * * * ?", zone: "UTC", next_slot: None };
    for (plan, field) in [
        (JobPlan { name: "a job", ..plan.clone() }, "job"),
        (JobPlan { name: &long, ..plan.clone() }, "job"),
        (JobPlan { schedule: &long, ..plan.clone() }, "schedule"),
        (JobPlan { zone: "", ..plan.clone() }, "zone"),
    ] {
        let refused = h.store().plan_job(&plan).await.unwrap_err();
        assert!(matches!(refused, Error::Invalid { field: f, .. } if f == field), "{refused:?}");
    }
    planned(&h).await;
    for (start, field) in [
        (JobStart { lease: Duration::ZERO, ..start(None) }, "lease"),
        (JobStart { owner: &long, ..start(None) }, "owner"),
        (JobStart { name: "", ..start(None) }, "job"),
    ] {
        let refused = h.store().begin_job(&start).await.unwrap_err();
        assert!(matches!(refused, Error::Invalid { field: f, .. } if f == field), "{refused:?}");
    }
}
