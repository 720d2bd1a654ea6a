//! `Jobs::run`: several instances on a real clock. The tests of the library simulate days, with a clock that jumps.

use std::sync::Arc;
use std::time::Duration;

use postrider::jobs::{Job, Jobs, Misfire, RunNow, Schedule};
use postrider::prelude::*;
use postrider::store::JobOutcome;
use time::OffsetDateTime;
use tokio::sync::mpsc;

use crate::Harness;
use crate::steps::*;

type Fired = mpsc::UnboundedReceiver<Option<OffsetDateTime>>;

/// A job that increments a counter and then sends its slot to the test.
fn job<H: Harness>(h: &H, expression: &str) -> (Job, Fired) {
    let (sender, fired) = mpsc::unbounded_channel();
    let h = h.clone();
    let job = Job::new("job", Schedule::parse(expression, "UTC").unwrap(), move |context| {
        let (h, sender) = (h.clone(), sender.clone());
        async move {
            let mut tx = h.store().begin().await?;
            h.add(&mut *tx, "runs").await?;
            h.store().commit(tx).await?;
            sender.send(context.slot)?;
            Ok("counted".into())
        }
    });
    (job, fired)
}

fn instances<H: Harness>(h: &H, job: &Job, n: usize) -> Vec<Arc<Jobs>> {
    let store: Arc<dyn Store> = Arc::new(h.store().clone());
    (0..n).map(|_| Arc::new(Jobs::new(Arc::clone(&store)).with(job.clone()))).collect()
}

/// Runs the instances until `enough` is ready, then stops them and waits.
async fn run_until(instances: &[Arc<Jobs>], enough: impl Future<Output = ()>) {
    let (stop, _) = tokio::sync::watch::channel(false);
    let running: Vec<_> = instances
        .iter()
        .map(|jobs| {
            let (jobs, mut stopped) = (Arc::clone(jobs), stop.subscribe());
            tokio::spawn(
                async move { jobs.run(async { stopped.wait_for(|stop| *stop).await.map_or((), |_| ()) }).await },
            )
        })
        .collect();
    enough.await;
    stop.send_replace(true);
    for instance in running {
        instance.await.unwrap().unwrap();
    }
}

/// F51: three instances, one slot per second. Each slot fires once.
pub async fn three_instances_fire_each_slot_once<H: Harness>(h: H) {
    h.make_counter("runs").await;
    let (job, mut fired) = job(&h, "* * * * * ?");
    let mut slots = Vec::new();
    let four = async {
        while slots.len() < 4 {
            slots.push(fired.recv().await.unwrap().unwrap());
        }
    };
    run_until(&instances(&h, &job, 3), four).await;
    while let Ok(slot) = fired.try_recv() {
        slots.push(slot.unwrap());
    }
    assert!(slots.windows(2).all(|pair| pair[0] < pair[1]), "{slots:?}");
    assert_eq!(h.counter("runs").await, slots.len() as i64);
    let state = h.store().jobs().await.unwrap().remove(0);
    assert_eq!(state.outcome, Some(JobOutcome::Done("counted".into())));
    assert_eq!((state.last_slot, state.lock_until), (slots.last().copied(), None));
}

/// All instances were down for three days: one run stands for the 72 missed slots.
pub async fn missed_slots_cause_one_run<H: Harness>(h: H) {
    h.make_counter("runs").await;
    let (job, mut fired) = job(&h, "0 0 * * * ?");
    let instances = instances(&h, &job, 3);
    instances[0].plan().await.unwrap();
    age(&h, 72 * HOUR).await;
    let mut slot = None;
    run_until(&instances, async { slot = fired.recv().await.unwrap() }).await;
    let late = h.store().now().await.unwrap() - slot.unwrap();
    assert!(late.unsigned_abs() < HOUR + MINUTE, "the latest of them, not {late} ago");
    assert_eq!(h.counter("runs").await, 1);
    assert!(fired.try_recv().is_err());
}

/// With `Misfire::Skip` no run does; the plan contains the next slot.
pub async fn missed_slots_are_skipped_where_asked<H: Harness>(h: H) {
    h.make_counter("runs").await;
    // Half an hour from now, so that no slot falls into the run of the case.
    let minute = (h.store().now().await.unwrap() + 30 * MINUTE).minute();
    let (job, mut fired) = job(&h, &format!("0 {minute} * * * ?"));
    let skips = instances(&h, &job.clone().misfire(Misfire::Skip), 1);
    skips[0].plan().await.unwrap();
    age(&h, 72 * HOUR).await;
    let planned = async {
        // The loop writes the next slot after it decided not to run.
        while h.store().jobs().await.unwrap()[0].next_slot.unwrap() < h.store().now().await.unwrap() {
            tokio::task::yield_now().await;
        }
    };
    run_until(&skips, planned).await;
    assert!(fired.try_recv().is_err());
    assert_eq!(h.counter("runs").await, 0);
}

/// The first start does not fire for past slots, and a manual run does not change the schedule.
pub async fn run_now_fires_outside_of_a_slot<H: Harness>(h: H) {
    h.make_counter("runs").await;
    let (job, mut fired) = job(&h, "0 0 * * * ?");
    let instances = instances(&h, &job, 2);
    let (one, other) = tokio::join!(instances[0].run_now("job"), instances[1].run_now("job"));
    let ran = [one.unwrap(), other.unwrap()];
    let done = RunNow::Ended(JobOutcome::Done("counted".into()));
    // Both run if the first ended before the second asked.
    let ended = ran.iter().filter(|ran| **ran == done).count() as i64;
    assert!(ended >= 1 && ran.iter().all(|ran| *ran == done || *ran == RunNow::Busy), "{ran:?}");
    assert_eq!(h.counter("runs").await, ended);
    assert_eq!(fired.recv().await.unwrap(), None);
    let state = h.store().jobs().await.unwrap().remove(0);
    assert_eq!(state.last_slot, None);
    assert!(state.next_slot.unwrap() > state.fired_at.unwrap());
}

/// F07, F54: a run that lasts several leases is not begun elsewhere, because its heartbeat extends the lease.
pub async fn a_long_run_keeps_its_lease<H: Harness>(h: H) {
    let (sender, mut fired) = mpsc::unbounded_channel();
    let (finish, finished) = tokio::sync::watch::channel(false);
    let schedule = Schedule::parse("0 0 * * * ?", "UTC").unwrap();
    let job = Job::new("job", schedule, move |_| {
        let (sender, mut finished) = (sender.clone(), finished.clone());
        async move {
            sender.send(())?;
            finished.wait_for(|finished| *finished).await?;
            Ok("at last".into())
        }
    });
    let instances = instances(&h, &job.lease(Duration::from_secs(2)), 2);
    instances[0].plan().await.unwrap();
    age(&h, 2 * HOUR).await;
    let long = async {
        fired.recv().await.unwrap();
        let begun = h.store().jobs().await.unwrap()[0].lock_until.unwrap();
        // Waits for the extension, not for a time. Without a heartbeat the lease would expire.
        while h.store().jobs().await.unwrap()[0].lock_until.unwrap() <= begun + Duration::from_secs(2) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(fired.try_recv().is_err(), "no other instance began");
        finish.send_replace(true);
    };
    run_until(&instances, long).await;
    assert_eq!(h.store().jobs().await.unwrap()[0].outcome, Some(JobOutcome::Done("at last".into())));
}
