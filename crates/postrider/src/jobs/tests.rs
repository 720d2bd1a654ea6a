//! Whole days of jobs on the memory store with tokio's paused clock, which jumps from one timer to the next: a day
//! takes a moment and nothing depends on the machine. That clock differs from the machine's by years, which proves
//! that no process clock is read (F14).

// A failed unwrap fails the test.
#![allow(clippy::unwrap_used)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use time::macros::datetime;
use tokio::sync::oneshot;

use super::*;
use crate::clock::Clock;
use crate::prelude::*;
use crate::store::memory::MemoryStore;

const NOON: OffsetDateTime = datetime!(2026-03-04 12:00 UTC);

/// A database's clock that goes with tokio's, and can be set.
#[derive(Clone)]
struct SimClock {
    began: Instant,
    at: Arc<Mutex<OffsetDateTime>>,
}

impl Clock for SimClock {
    fn now(&self) -> OffsetDateTime {
        *self.at.lock().unwrap() + self.began.elapsed()
    }
}

/// The slot of a run, and when it began.
type Fired = (Option<OffsetDateTime>, OffsetDateTime);

/// One database, and what its jobs have done.
#[derive(Clone)]
struct World {
    store: Arc<MemoryStore>,
    clock: SimClock,
    fired: Arc<Mutex<Vec<Fired>>>,
}

impl World {
    fn at(start: OffsetDateTime) -> Self {
        let clock = SimClock { began: Instant::now(), at: Arc::new(Mutex::new(start)) };
        Self { store: Arc::new(MemoryStore::with_clock(clock.clone())), clock, fired: Arc::default() }
    }

    /// A job that records its slot and the time, then works for `takes`.
    fn job(&self, expression: &str, zone: &str, takes: Duration) -> Job {
        let world = self.clone();
        Job::new("job", Schedule::parse(expression, zone).unwrap(), move |context| {
            let world = world.clone();
            async move {
                world.fired.lock().unwrap().push((context.slot, world.clock.now()));
                tokio::time::sleep(takes).await;
                Ok("done".into())
            }
        })
    }

    fn instance(&self, job: Job) -> Jobs {
        Jobs::new(self.store.clone()).with(job)
    }

    /// Runs instances for so long, then shuts them down.
    async fn run(&self, jobs: impl IntoIterator<Item = Job>, during: Duration) {
        let mut instances = JoinSet::new();
        for job in jobs {
            let jobs = self.instance(job);
            instances.spawn(async move { jobs.run(tokio::time::sleep(during)).await });
        }
        while let Some(ended) = instances.join_next().await {
            ended.unwrap().unwrap();
        }
    }

    /// The slots that fired, in order.
    fn slots(&self) -> Vec<OffsetDateTime> {
        self.fired.lock().unwrap().iter().map(|(slot, _)| slot.unwrap()).collect()
    }

    async fn state(&self) -> JobState {
        self.store.jobs().await.unwrap().remove(0)
    }
}

fn minutes(n: u64) -> Duration {
    Duration::from_secs(60 * n)
}

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);
const AT_ONCE: Duration = Duration::ZERO;

/// F51, F14: three instances, each slot once, none early, none late.
#[tokio::test(start_paused = true)]
async fn each_slot_fires_once_across_instances() {
    let world = World::at(NOON);
    let job = || world.job("0 */5 * * * ?", "UTC", Duration::from_secs(20));
    world.run([job(), job(), job()], 2 * HOUR + minutes(1)).await;
    let expected: Vec<_> = (1..=24).map(|n| NOON + minutes(5 * n)).collect();
    assert_eq!(world.slots(), expected);
    for (slot, at) in world.fired.lock().unwrap().iter() {
        let late = *at - slot.unwrap();
        assert!((time::Duration::ZERO..time::Duration::milliseconds(50)).contains(&late), "{slot:?} at {at}");
    }
    let state = world.state().await;
    assert_eq!(state.outcome, Some(JobOutcome::Done("done".into())));
    assert_eq!(state.last_slot, expected.last().copied());
    assert_eq!(state.next_slot, Some(NOON + minutes(125)));
    assert_eq!((state.schedule.as_str(), state.zone.as_str()), ("0 */5 * * * ?", "UTC"));
}

/// F52: through the nights in which clocks change, on the real loop.
#[tokio::test(start_paused = true)]
async fn a_daily_job_runs_once_a_day_when_clocks_change() {
    for (start, expected) in [
        (
            datetime!(2026-03-28 12:00 +1),
            [datetime!(2026-03-29 03:00 +2), datetime!(2026-03-30 02:30 +2), datetime!(2026-03-31 02:30 +2)],
        ),
        (
            datetime!(2026-10-24 12:00 +2),
            [datetime!(2026-10-25 02:30 +2), datetime!(2026-10-26 02:30 +1), datetime!(2026-10-27 02:30 +1)],
        ),
    ] {
        let world = World::at(start);
        let job = || world.job("0 30 2 * * ?", "Europe/Berlin", AT_ONCE);
        world.run([job(), job()], 3 * DAY).await;
        assert_eq!(world.slots(), expected);
    }
}

/// F15: the database's clock is set back an hour. No slot fires twice, and the job continues after the last fired slot.
#[tokio::test(start_paused = true)]
async fn a_clock_that_steps_back_fires_no_slot_twice() {
    let world = World::at(NOON);
    let job = || world.job("0 */5 * * * ?", "UTC", AT_ONCE);
    let back = async {
        tokio::time::sleep(minutes(31)).await;
        *world.clock.at.lock().unwrap() -= HOUR;
    };
    tokio::join!(world.run([job(), job()], 2 * HOUR - minutes(1)), back);
    let slots = world.slots();
    let expected: Vec<_> = (1..slots.len() as u64 + 1).map(|n| NOON + minutes(5 * n)).collect();
    assert_eq!(slots, expected, "each once, in order");
    assert_eq!(slots.len(), 11, "until 12:30, and from 12:35 to 12:55, when the clock is there again");
}

/// A clock that is set forward skips slots, except for one run.
#[tokio::test(start_paused = true)]
async fn a_clock_that_steps_ahead_is_noticed() {
    let world = World::at(NOON);
    let ahead = async {
        tokio::time::sleep(minutes(1)).await;
        *world.clock.at.lock().unwrap() += DAY;
    };
    tokio::join!(world.run([world.job("0 30 2 * * ?", "UTC", AT_ONCE)], minutes(2)), ahead);
    assert_eq!(world.slots(), [datetime!(2026-03-05 02:30 UTC)]);
}

/// The first start does not fire past slots; neither does a job with another schedule.
#[tokio::test(start_paused = true)]
async fn a_job_does_not_begin_with_the_past() {
    let world = World::at(NOON);
    world.run([world.job("0 0 * * * ?", "UTC", AT_ONCE)], minutes(30)).await;
    assert!(world.slots().is_empty());
    world.run([world.job("0 15 * * * ?", "UTC", AT_ONCE)], minutes(10)).await;
    assert!(world.slots().is_empty(), "12:15 was before it had this schedule");
    assert_eq!(world.state().await.schedule, "0 15 * * * ?");
    world.run([world.job("0 15 * * * ?", "UTC", AT_ONCE)], HOUR).await;
    assert_eq!(world.slots(), [NOON + minutes(75)]);
}

/// Every instance was down for a day and a half.
#[tokio::test(start_paused = true)]
async fn missed_slots_are_made_up_for_once_or_left_out() {
    for (misfire, expected) in [
        (Misfire::Once, vec![datetime!(2026-03-05 23:00 UTC), datetime!(2026-03-06 00:00 UTC)]),
        (Misfire::Skip, vec![datetime!(2026-03-06 00:00 UTC)]),
    ] {
        let world = World::at(NOON);
        let job = || world.job("0 0 * * * ?", "UTC", AT_ONCE).misfire(misfire);
        world.instance(job()).plan().await.unwrap();
        tokio::time::sleep(DAY + 11 * HOUR + minutes(30)).await;
        world.run([job(), job()], minutes(45)).await;
        assert_eq!(world.slots(), expected, "{misfire:?}");
        assert_eq!(world.state().await.next_slot, Some(datetime!(2026-03-06 01:00 UTC)), "{misfire:?}");
    }
}

/// A short stop loses no run, even if missed slots are skipped.
#[tokio::test(start_paused = true)]
async fn a_slot_that_is_a_little_late_is_not_missed() {
    let world = World::at(NOON);
    let job = || world.job("0 0 * * * ?", "UTC", AT_ONCE).misfire(Misfire::Skip);
    world.instance(job()).plan().await.unwrap();
    tokio::time::sleep(HOUR + Duration::from_secs(40)).await;
    world.run([job()], minutes(1)).await;
    assert_eq!(world.slots(), [NOON + HOUR]);
    assert_eq!(world.state().await.next_slot, Some(NOON + 2 * HOUR));
}

/// F54: lock 5 min, drain 8 min. The lease is extended, so no other instance begins, and the missed slots are one run.
#[tokio::test(start_paused = true)]
async fn a_run_that_outlives_its_schedule_is_not_started_elsewhere() {
    for (misfire, slots) in [(Misfire::Once, [1, 8, 16]), (Misfire::Skip, [1, 9, 17])] {
        let world = World::at(NOON);
        let job =
            || world.job("0 * * * * ?", "UTC", minutes(8) - Duration::from_secs(1)).lease(minutes(5)).misfire(misfire);
        world.run([job(), job(), job()], minutes(20)).await;
        let expected = slots.map(|n| NOON + minutes(n));
        assert_eq!(world.slots(), expected, "{misfire:?}");
        let mut began: Vec<_> = world.fired.lock().unwrap().iter().map(|(_, at)| *at).collect();
        began.dedup_by(|next, last| *next - *last < minutes(8) - Duration::from_secs(2));
        assert_eq!(began.len(), 3, "{misfire:?}: no two at the same time");
    }
}

/// F09, F51: the instance that ran it died. Its slot is over; the job continues when the lease has ended.
#[tokio::test(start_paused = true)]
async fn a_crashed_run_delays_its_job_no_longer_than_its_lease() {
    let world = World::at(NOON);
    let dies = world.instance(world.job("0 * * * * ?", "UTC", HOUR).lease(minutes(3)));
    // Dropped in the middle, like a killed process.
    let killed = tokio::time::timeout(minutes(1) + Duration::from_secs(30), dies.run(std::future::pending()));
    killed.await.unwrap_err();
    assert_eq!(world.slots(), [NOON + minutes(1)]);
    assert!(world.state().await.lock_until.is_some(), "it never said how it ended");
    world.run([world.job("0 * * * * ?", "UTC", AT_ONCE)], minutes(4)).await;
    assert_eq!(
        world.slots()[1..],
        [NOON + minutes(4), NOON + minutes(5)],
        "as soon as it is over, and one for all missed"
    );
}

/// F51: the instance of the last slot has finished and stopped. Another one runs the next slot in time, although the
/// last lease that it saw would last longer.
#[tokio::test(start_paused = true)]
async fn another_instance_takes_the_next_slot_in_time() {
    let world = World::at(NOON);
    let job = || world.job("0/10 * * * * ?", "UTC", Duration::from_secs(2)).lease(minutes(5));
    let first = world.instance(job());
    let second = async {
        // Its first look is in the middle of the other's run.
        tokio::time::sleep(Duration::from_secs(11)).await;
        world.run([job()], Duration::from_secs(20)).await;
    };
    let (ended, ()) = tokio::join!(first.run(tokio::time::sleep(Duration::from_secs(15))), second);
    ended.unwrap();
    assert_eq!(world.slots(), [10, 20, 30].map(|n| NOON + Duration::from_secs(n)));
    let late = world.fired.lock().unwrap().iter().map(|(slot, at)| *at - slot.unwrap()).max().unwrap();
    assert!(late < time::Duration::milliseconds(50), "{late}");
}

/// An error or a panic ends only its run; the loop continues.
#[tokio::test(start_paused = true)]
async fn an_error_or_a_panic_is_recorded() {
    let world = World::at(NOON);
    let schedule = || Schedule::parse("0 * * * * ?", "UTC").unwrap();
    let good = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&good);
    let jobs = Jobs::new(world.store.clone())
        .owner("host-1")
        .job("error", schedule(), |_| async { Err(std::io::Error::other("the disk is full").into()) })
        .job("good", schedule(), move |_| {
            let good = Arc::clone(&counted);
            async move { Ok(format!("{}", good.fetch_add(1, Ordering::Relaxed))) }
        })
        .job("panic", schedule(), |context| async move { panic!("slot {}", context.slot.unwrap()) })
        .job("panic-at-once", schedule(), |_| -> std::future::Ready<JobResult> { panic!("before it began") })
        .with(Job::new("slow", schedule(), |_| std::future::pending()).timeout(Duration::from_secs(10)));
    jobs.run(tokio::time::sleep(minutes(3) + Duration::from_secs(30))).await.unwrap();
    let states = world.store.jobs().await.unwrap();
    let outcomes: Vec<_> = states.iter().map(|state| (state.name.as_str(), state.outcome.clone().unwrap())).collect();
    assert_eq!(
        outcomes,
        [
            ("error", JobOutcome::Failed("the disk is full".into())),
            ("good", JobOutcome::Done("2".into())),
            ("panic", JobOutcome::Failed("panicked: slot 2026-03-04 12:03:00.0 +00:00:00".into())),
            ("panic-at-once", JobOutcome::Failed("panicked: before it began".into())),
            ("slow", JobOutcome::Failed("stopped after 10s, which is its timeout".into())),
        ]
    );
    for state in &states {
        assert_eq!((state.last_slot, state.lock_until), (Some(NOON + minutes(3)), None), "{}", state.name);
        assert!(state.owner.as_ref().unwrap().starts_with("host-1/"));
    }
}

/// G.4: nothing begins any more, and running jobs finish and record their outcome.
#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_what_runs() {
    let world = World::at(NOON);
    let jobs = world.instance(world.job("0 * * * * ?", "UTC", Duration::from_secs(20)));
    jobs.run(tokio::time::sleep(minutes(1) + Duration::from_secs(5))).await.unwrap();
    assert_eq!(world.clock.now(), NOON + Duration::from_secs(80));
    assert_eq!(world.state().await.outcome, Some(JobOutcome::Done("done".into())));
}

/// G.4: after the grace they are stopped, and other instances need not wait for their leases.
#[tokio::test(start_paused = true)]
async fn shutdown_stops_what_does_not_end() {
    let world = World::at(NOON);
    let jobs = world.instance(world.job("0 * * * * ?", "UTC", HOUR)).grace(Duration::from_secs(10));
    jobs.run(tokio::time::sleep(minutes(1) + Duration::from_secs(5))).await.unwrap();
    assert_eq!(world.clock.now(), NOON + Duration::from_secs(75));
    let state = world.state().await;
    assert!(matches!(&state.outcome, Some(JobOutcome::Failed(why)) if why.contains("shutdown")), "{state:?}");
    assert_eq!(state.lock_until, None);
}

/// Long work sees the shutdown, and can stop at a good point.
#[tokio::test(start_paused = true)]
async fn a_job_sees_the_shutdown() {
    let world = World::at(NOON);
    let jobs = Jobs::new(world.store.clone()).job(
        "polite",
        Schedule::parse("0 * * * * ?", "UTC").unwrap(),
        |context| async move {
            assert!(!context.is_stopping());
            context.stopping().await;
            assert!(context.is_stopping());
            Ok("as far as page 7".into())
        },
    );
    jobs.run(tokio::time::sleep(minutes(2))).await.unwrap();
    assert_eq!(world.clock.now(), NOON + minutes(2));
    assert_eq!(world.state().await.outcome, Some(JobOutcome::Done("as far as page 7".into())));
}

/// F01, F54: another instance holds the job, so the work is stopped and writes nothing.
#[tokio::test(start_paused = true)]
async fn a_run_that_lost_its_lease_is_stopped() {
    struct Tell(Option<oneshot::Sender<()>>);
    impl Drop for Tell {
        fn drop(&mut self) {
            self.0.take().unwrap().send(()).unwrap();
        }
    }
    let world = World::at(NOON);
    let (tell, stopped) = oneshot::channel();
    let tell = Mutex::new(Some(Tell(Some(tell))));
    let schedule = Schedule::parse("0 0 * * * ?", "UTC").unwrap();
    let jobs = Jobs::new(world.store.clone()).job("job", schedule, move |_| {
        let tell = tell.lock().unwrap().take();
        async move {
            let _tell = tell;
            std::future::pending().await
        }
    });
    let theft = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        // As if this process had been suspended for longer than its lease: the clock is set ahead, and another instance begins.
        *world.clock.at.lock().unwrap() += minutes(1);
        let start = JobStart { name: "job", slot: None, next_slot: None, owner: "thief", lease: HOUR };
        world.store.begin_job(&start).await.unwrap().expect("the lease ran out");
        stopped.await.unwrap();
    };
    let (ran, ()) = tokio::join!(jobs.run_now("job"), theft);
    assert_eq!(ran.unwrap(), RunNow::Lost);
    let state = world.state().await;
    assert_eq!((state.owner.as_deref(), state.outcome), (Some("thief"), None), "the late holder wrote nothing");
}

/// For operators: outside of any slot, under the same lease, and not counted as one.
#[tokio::test(start_paused = true)]
async fn run_now_is_never_beside_another_run() {
    let world = World::at(NOON);
    let jobs = world.instance(world.job("0 0 * * * ?", "UTC", minutes(10)));
    let (one, other) = tokio::join!(jobs.run_now("job"), jobs.run_now("job"));
    assert_eq!(one.unwrap(), RunNow::Ended(JobOutcome::Done("done".into())));
    assert_eq!(other.unwrap(), RunNow::Busy);
    let state = world.state().await;
    assert_eq!((state.last_slot, state.next_slot), (None, Some(NOON + HOUR)));
    assert_eq!(world.fired.lock().unwrap()[..], [(None, NOON)]);
    let unknown = jobs.run_now("jbo").await.unwrap_err().to_string();
    assert!(unknown.contains("\"jbo\"") && unknown.contains("\"job\""), "{unknown}");
}

/// A slot that comes during `run_now` waits for it, and no longer.
#[tokio::test(start_paused = true)]
async fn the_loop_goes_on_as_soon_as_run_now_has_ended() {
    let world = World::at(NOON + minutes(59));
    let jobs = world.instance(world.job("0 0 * * * ?", "UTC", minutes(10)).lease(HOUR));
    let stop = tokio::time::sleep(minutes(30));
    let (ran, now) = tokio::join!(jobs.run(stop), jobs.run_now("job"));
    ran.unwrap();
    now.unwrap();
    assert_eq!(world.fired.lock().unwrap()[1], (Some(NOON + HOUR), NOON + minutes(69)));
}

/// F44: with any jitter, there is at most one try in a second.
#[test]
fn an_outage_has_at_most_one_try_a_second() {
    for failures in [1, 2, 3, 100, u32::MAX] {
        for chance in [0.0, 0.5, 0.999] {
            let wait = OUTAGE.delay(failures, chance);
            assert!((Duration::from_secs(1)..=OUTAGE.cap).contains(&wait), "{failures}: {wait:?}");
        }
    }
    assert!((0..1_000).map(|_| chance()).all(|chance| (0.0..1.0).contains(&chance)));
}

/// An invalid job is an error at the start that names the job.
#[tokio::test(start_paused = true)]
async fn bad_jobs_are_refused() {
    let world = World::at(NOON);
    let job = || world.job("0 0 * * * ?", "UTC", AT_ONCE);
    let refused = |jobs: Jobs| async move { jobs.run(std::future::pending()).await.unwrap_err().to_string() };
    let twice = refused(world.instance(job()).with(job())).await;
    assert!(twice.contains("job is there twice"), "{twice}");
    let lease = refused(world.instance(job().lease(Duration::from_millis(999)))).await;
    assert!(lease.starts_with("lease of job job must be 1s or longer"), "{lease}");
    let timeout = refused(world.instance(job().timeout(Duration::ZERO))).await;
    assert!(timeout.starts_with("timeout of job job"), "{timeout}");
    let schedule = Schedule::parse("0 0 * * * ?", "UTC").unwrap();
    let name = refused(Jobs::new(world.store.clone()).job("a job", schedule, |_| async { Ok("".into()) })).await;
    assert!(name.starts_with("job may hold A-Z"), "{name}");
    assert_eq!(world.store.jobs().await.unwrap(), []);
}
