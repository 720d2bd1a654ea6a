//! Scheduled jobs: each slot of a schedule runs once, however many instances have the job.
//!
//! ```
//! # async fn example(store: std::sync::Arc<dyn postrider::Store>) -> postrider::Result<()> {
//! use postrider::jobs::{Jobs, Schedule};
//!
//! let jobs = Jobs::new(store).job("reaper", Schedule::parse("0 */5 * * * ?", "UTC")?, |_context| async {
//!     Ok("released 3 locks".into())
//! });
//! jobs.run(async { /* until shutdown */ }).await?;
//! # Ok(())
//! # }
//! ```
//!
//! `decide` computes from the store's rows what is due. A run begins with [`JobRuns::begin_job`](crate::store::JobRuns::begin_job), which gives a token to one
//! instance. While the run works its lease is extended; it ends with [`JobRuns::finish_job`](crate::store::JobRuns::finish_job). All times are those of the
//! store; this process only measures how long to sleep.
//!
//! A slot runs at most once. If its process dies, the slot is over, the lease runs out, and the job continues with the slots
//! that have become due since, as [`Misfire`] says. Work that must not be missed has to find what is left to do by itself,
//! as a reaper does.

mod cron;
mod decide;
mod run;

use std::collections::HashMap;
use std::error::Error as StdError;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use time::OffsetDateTime;
use tokio::sync::{Notify, watch};
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;
use uuid::Uuid;

pub use cron::Schedule;
use decide::{JobStep, decide};
use run::{Run, Stage, chain};

use crate::error::{Error, Result};
use crate::limits;
use crate::presence;
use crate::retry::{RetryPolicy, chance};
use crate::store::{IntoStore, JobOutcome, JobPlan, JobStart, JobState, Store};

/// The lease of a run: as long as that of a claim.
pub const LEASE: Duration = Duration::from_secs(30);
/// The shortest lease. It is extended after a third of its length, and a slow store needs time to answer.
pub const MIN_LEASE: Duration = Duration::from_secs(1);
/// How long a run may take. A run that hangs would stop its job for good.
pub const TIMEOUT: Duration = Duration::from_secs(3600);
/// How long shutdown waits for running jobs: what orchestrators usually allow.
pub const GRACE: Duration = Duration::from_secs(30);
/// How late a slot may begin under [`Misfire::Skip`], so that a restart skips no slot.
pub const LATE: Duration = Duration::from_secs(60);
/// The longest time between two looks, to notice a changed database clock and a job that another instance gave up.
const LOOK: Duration = Duration::from_secs(30);
/// How soon to look again after another instance was faster.
const AGAIN: Duration = Duration::from_secs(1);
/// How long writing the results of runs that were stopped at shutdown may take.
const LAST_RESULTS: Duration = Duration::from_secs(5);
/// The waits while the store does not answer: at least a second.
const OUTAGE: RetryPolicy = RetryPolicy {
    base: Duration::from_secs(2),
    factor: 2.0,
    cap: Duration::from_secs(30),
    jitter: 0.5,
    max_attempts: u32::MAX,
};

/// The result of a run: a short text for the operator, or an error.
pub type JobResult = Result<String, Box<dyn StdError + Send + Sync>>;

type Work = Arc<dyn Fn(JobContext) -> Pin<Box<dyn Future<Output = JobResult> + Send>> + Send + Sync>;

/// What happens to missed slots: all instances were down, or the last run took longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Misfire {
    /// One run replaces all of them, as soon as possible, under the latest slot.
    #[default]
    Once,
    /// They are skipped: the next slot is the next run. A slot that is no later than [`LATE`] is not missed, unless it came
    /// while the job was running.
    Skip,
}

/// A job: what to do, and when.
#[derive(Clone)]
pub struct Job {
    name: Arc<str>,
    schedule: Schedule,
    lease: Duration,
    timeout: Duration,
    misfire: Misfire,
    work: Work,
}

impl Job {
    /// A job with the default lease and timeout. Its name has to be the same in every instance and every version.
    pub fn new<F, Fut>(name: impl Into<String>, schedule: Schedule, work: F) -> Self
    where
        F: Fn(JobContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = JobResult> + Send + 'static,
    {
        Self {
            name: name.into().into(),
            schedule,
            lease: LEASE,
            timeout: TIMEOUT,
            misfire: Misfire::default(),
            work: Arc::new(move |context| Box::pin(work(context))),
        }
    }

    /// How soon another instance may run the job after this one has died. The lease is extended during the run; if that
    /// fails for this long, the run is stopped.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How long a run may take before it is stopped, at its next `await`, and counts as failed.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// What happens to missed slots.
    pub fn misfire(mut self, misfire: Misfire) -> Self {
        self.misfire = misfire;
        self
    }

    fn check(&self) -> Result<()> {
        limits::name("job", &self.name)?;
        if self.lease < MIN_LEASE {
            let message = format!("of job {} must be {MIN_LEASE:?} or longer, is {:?}", self.name, self.lease);
            return Err(Error::invalid("lease", message));
        }
        if self.timeout.is_zero() {
            return Err(Error::invalid("timeout", format!("of job {} must be longer than nothing", self.name)));
        }
        Ok(())
    }
}

/// The context of a run.
#[derive(Debug, Clone)]
pub struct JobContext {
    /// The job.
    pub job: Arc<str>,
    /// The slot, or the latest one if this run replaces several; `None` if [`Jobs::run_now`] started it.
    pub slot: Option<OffsetDateTime>,
    /// The instance that runs it.
    pub owner: Arc<str>,
    stage: watch::Receiver<Stage>,
}

impl JobContext {
    /// Whether the program is shutting down: long work should stop at a good point.
    pub fn is_stopping(&self) -> bool {
        *self.stage.borrow() != Stage::Open
    }

    /// Waits until the program is shutting down.
    pub async fn stopping(&self) {
        let mut stage = self.stage.clone();
        if stage.wait_for(|stage| *stage != Stage::Open).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The result of [`Jobs::run_now`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunNow {
    /// It ran, with this outcome.
    Ended(JobOutcome),
    /// It is running already, here or elsewhere.
    Busy,
    /// It was stopped: its lease was lost, and another instance may run it now.
    Lost,
}

/// Jobs of one instance. Any number of instances may have the same ones.
pub struct Jobs {
    store: Arc<dyn Store>,
    owner: Arc<str>,
    jobs: Vec<Job>,
    grace: Duration,
    /// A run of `run_now` has ended: slots that waited for it may be due.
    ended: Notify,
}

impl Jobs {
    /// An instance without jobs.
    pub fn new(store: impl IntoStore) -> Self {
        let store = store.into_store();
        Self { store, owner: with_incarnation("jobs"), jobs: Vec::new(), grace: GRACE, ended: Notify::new() }
    }

    /// The name of this instance, for operators. A random suffix is added.
    pub fn owner(mut self, name: &str) -> Self {
        self.owner = with_incarnation(name);
        self
    }

    /// How long shutdown waits for running jobs; then they are stopped and count as failed.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Adds a job with the default options.
    pub fn job<F, Fut>(self, name: impl Into<String>, schedule: Schedule, work: F) -> Self
    where
        F: Fn(JobContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = JobResult> + Send + 'static,
    {
        self.with(Job::new(name, schedule, work))
    }

    /// Adds a job with options of its own.
    pub fn with(mut self, job: Job) -> Self {
        self.jobs.push(job);
        self
    }

    /// Writes the schedules, as [`run`](Self::run) does when it starts. From then on their slots count, also while no
    /// instance runs.
    pub async fn plan(&self) -> Result<()> {
        self.check()?;
        self.see(true).await.map(|_| ())
    }

    /// Runs jobs when they are due until `shutdown` is ready, then waits for those that run. It waits while the store does
    /// not answer; only invalid jobs are an error, at once. Dropping the future stops everything at its next `await`;
    /// leases then run out.
    pub async fn run(&self, shutdown: impl Future<Output = ()>) -> Result<()> {
        self.check()?;
        let _running = self.store.wake().presence().run_loop(presence::JOBS);
        let mut shutdown = pin!(shutdown);
        let (stage, _) = watch::channel(Stage::Open);
        let mut runs = Runs::default();
        let (mut first, mut failures) = (true, 0);
        loop {
            let seen = tokio::select! {
                () = &mut shutdown => break,
                seen = self.see(first) => seen,
            };
            // Not cancelled by shutdown: a run that has begun in the store must begin here.
            let looked = match seen {
                Ok((now, states)) => self.fire(&mut runs, &stage, now, &states).await,
                Err(error) => Err(error),
            };
            let wait = match looked {
                Ok(wait) => {
                    (first, failures) = (false, 0);
                    wait
                }
                Err(error) => {
                    failures += 1;
                    let wait = OUTAGE.delay(failures, chance());
                    let error = chain(&error);
                    tracing::warn!(owner = %self.owner, failures, ?wait, error, "jobs cannot see the store");
                    wait
                }
            };
            tokio::select! {
                () = &mut shutdown => break,
                () = runs.one_ended() => {}
                () = self.ended.notified() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
        self.stop(runs, &stage).await;
        Ok(())
    }

    /// Runs a job outside of its schedule, under the same lease: never at the same time as another run of it. Slots stay as
    /// they are.
    pub async fn run_now(&self, name: &str) -> Result<RunNow> {
        self.check()?;
        let Some(job) = self.jobs.iter().find(|job| *job.name == *name) else {
            let names: Vec<&str> = self.jobs.iter().map(|job| &*job.name).collect();
            return Err(Error::invalid("job", format!("{name:?} is not known here: write one of {names:?}")));
        };
        self.see(false).await?;
        // The sender lives as long as the run.
        let (stage, _) = watch::channel(Stage::Open);
        let Some(run) = self.begin(job, None, None, &stage).await? else {
            return Ok(RunNow::Busy);
        };
        let outcome = run.carry_out().await;
        self.ended.notify_one();
        Ok(outcome.map_or(RunNow::Lost, RunNow::Ended))
    }

    fn check(&self) -> Result<()> {
        limits::text("owner", &self.owner, limits::LABEL_CHARS)?;
        for (at, job) in self.jobs.iter().enumerate() {
            job.check()?;
            if self.jobs[..at].iter().any(|other| other.name == job.name) {
                return Err(Error::invalid("job", format!("{} is there twice: give one another name", job.name)));
            }
        }
        Ok(())
    }

    /// The store's time and the states of the jobs. Unknown jobs are planned; at the `first` look, also those with another
    /// schedule. Later, another schedule is that of an instance of another version: both would overwrite each other.
    async fn see(&self, first: bool) -> Result<(OffsetDateTime, HashMap<String, JobState>)> {
        let (mut now, mut states) = self.read().await?;
        let mut planned = false;
        for job in &self.jobs {
            let known = states.get(&*job.name);
            if known.is_none_or(|state| first && !job.is_planned_in(state)) {
                self.write_plan(job, job.schedule.next_after(now)).await?;
                planned = true;
            }
        }
        if planned {
            (now, states) = self.read().await?;
        }
        Ok((now, states))
    }

    async fn read(&self) -> Result<(OffsetDateTime, HashMap<String, JobState>)> {
        let states = self.store.jobs().await?;
        let states = states.into_iter().map(|state| (state.name.clone(), state)).collect();
        Ok((self.store.now().await?, states))
    }

    async fn write_plan(&self, job: &Job, next_slot: Option<OffsetDateTime>) -> Result<()> {
        let (schedule, zone) = (job.schedule.expression(), job.schedule.zone());
        self.store.plan_job(&JobPlan { name: &job.name, schedule, zone, next_slot }).await
    }

    /// Begins what is due. Returns how long until something else is due.
    async fn fire(
        &self,
        runs: &mut Runs,
        stage: &watch::Sender<Stage>,
        now: OffsetDateTime,
        states: &HashMap<String, JobState>,
    ) -> Result<Duration> {
        let mut wait = LOOK;
        for job in &self.jobs {
            // A run of this instance wakes the loop when it ends.
            let Some(state) = states.get(&*job.name).filter(|_| !runs.has(&job.name)) else { continue };
            match decide(&job.schedule, job.misfire, state, now) {
                JobStep::Fire { slot, next } => match self.begin(job, Some(slot), next, stage).await? {
                    Some(run) => runs.begin(run),
                    None => wait = wait.min(AGAIN),
                },
                JobStep::Wait { next } => {
                    if job.is_planned_in(state) && state.next_slot != next {
                        self.write_plan(job, next).await?;
                    }
                    wait = next.map_or(wait, |next| wait.min(until(next, now)));
                }
                JobStep::Held { until: lock } => wait = wait.min(until(lock, now)),
            }
        }
        Ok(wait)
    }

    async fn begin(
        &self,
        job: &Job,
        slot: Option<OffsetDateTime>,
        next_slot: Option<OffsetDateTime>,
        stage: &watch::Sender<Stage>,
    ) -> Result<Option<Run>> {
        // Measured before the store begins to count, so that this process never assumes a longer lease than the store.
        let held_since = Instant::now();
        let start = JobStart { name: &job.name, slot, next_slot, owner: &self.owner, lease: job.lease };
        let token = self.store.begin_job(&start).await?;
        Ok(token.map(|token| Run {
            store: Arc::clone(&self.store),
            job: job.clone(),
            token,
            slot,
            owner: Arc::clone(&self.owner),
            held_since,
            stage: stage.subscribe(),
        }))
    }

    /// Nothing more begins. Runs may end within the grace; then they are stopped.
    async fn stop(&self, mut runs: Runs, stage: &watch::Sender<Stage>) {
        stage.send_replace(Stage::Stopping);
        if tokio::time::timeout(self.grace, runs.all_ended()).await.is_err() {
            stage.send_replace(Stage::Over);
            if tokio::time::timeout(LAST_RESULTS, runs.all_ended()).await.is_err() {
                tracing::warn!(owner = %self.owner, "jobs were stopped and their results not written: their leases run out");
            }
        }
    }
}

impl Job {
    fn is_planned_in(&self, state: &JobState) -> bool {
        (state.schedule.as_str(), state.zone.as_str()) == (self.schedule.expression(), self.schedule.zone())
    }
}

/// The runs of one loop, each in a task that ends with the loop.
#[derive(Default)]
struct Runs {
    tasks: JoinSet<()>,
    jobs: HashMap<Id, Arc<str>>,
}

impl Runs {
    fn has(&self, job: &str) -> bool {
        self.jobs.values().any(|running| **running == *job)
    }

    fn begin(&mut self, run: Run) {
        let job = Arc::clone(&run.job.name);
        let task = self.tasks.spawn(async move {
            run.carry_out().await;
        });
        self.jobs.insert(task.id(), job);
    }

    /// Waits until one has ended; forever, if there is none.
    async fn one_ended(&mut self) {
        let id = match self.tasks.join_next_with_id().await {
            None => return std::future::pending().await,
            Some(Ok((id, ()))) => id,
            Some(Err(error)) => error.id(),
        };
        self.jobs.remove(&id);
    }

    async fn all_ended(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}

/// The name of an instance, which differs after a restart.
fn with_incarnation(name: &str) -> Arc<str> {
    format!("{name}/{}", &Uuid::new_v4().simple().to_string()[..8]).into()
}

fn until(time: OffsetDateTime, now: OffsetDateTime) -> Duration {
    // At least a millisecond: a timer may end a fraction too early.
    Duration::try_from(time - now).unwrap_or_default().max(Duration::from_millis(1))
}

#[cfg(test)]
mod tests;
