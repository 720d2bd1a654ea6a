//! One run of a job: the work, the extension of its lease meanwhile, and what can end it.

use std::any::Any;
use std::error::Error as StdError;
use std::sync::Arc;

use time::OffsetDateTime;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use super::{Job, JobContext, JobResult, OUTAGE};
use crate::retry::chance;
use crate::store::{JobOutcome, Store, Token};

/// The stage of the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Jobs begin.
    Open,
    /// No job begins; runs may end.
    Stopping,
    /// Runs are stopped.
    Over,
}

/// A run that has begun in the store.
pub(super) struct Run {
    pub(super) store: Arc<dyn Store>,
    pub(super) job: Job,
    pub(super) token: Token,
    pub(super) slot: Option<OffsetDateTime>,
    pub(super) owner: Arc<str>,
    /// When the lease was asked for.
    pub(super) held_since: Instant,
    pub(super) stage: watch::Receiver<Stage>,
}

impl Run {
    /// Runs to the end, and writes the outcome. Returns `None` if the lease was lost: the run is stopped, and nothing
    /// is written.
    pub(super) async fn carry_out(self) -> Option<JobOutcome> {
        let (job, owner) = (&*self.job.name, &*self.owner);
        let slot = self.slot.map(tracing::field::display);
        tracing::info!(job, slot, owner, "job begins");
        let outcome = self.work().await;
        let took = self.held_since.elapsed();
        // The one place where every run ends: dashboards may count these lines.
        match &outcome {
            Some(JobOutcome::Done(result)) => tracing::info!(job, slot, owner, ?took, result, "job is done"),
            Some(JobOutcome::Failed(error)) => tracing::error!(job, slot, owner, ?took, error, "job failed"),
            None => tracing::warn!(job, slot, owner, ?took, "job lost its lease and was stopped"),
        }
        if let Some(outcome) = &outcome {
            self.finish(outcome).await;
        }
        outcome
    }

    async fn work(&self) -> Option<JobOutcome> {
        let context = JobContext {
            job: Arc::clone(&self.job.name),
            slot: self.slot,
            owner: Arc::clone(&self.owner),
            stage: self.stage.clone(),
        };
        let work = Arc::clone(&self.job.work);
        // In a task of its own: it may block a thread, and the lease must be extended all the same. A set, because dropping
        // it stops the task.
        let mut task = JoinSet::new();
        task.spawn(async move { work(context).await });
        let timeout = self.job.timeout;
        let stopped = tokio::select! {
            Some(ended) = task.join_next() => return Some(outcome(ended)),
            () = self.lease_is_lost() => None,
            () = tokio::time::sleep(timeout) => Some(format!("stopped after {timeout:?}, which is its timeout")),
            () = self.is_over() => Some("stopped at shutdown, after the grace period".into()),
        };
        // Waits until it has stopped: only then may another instance begin.
        task.shutdown().await;
        stopped.map(JobOutcome::Failed)
    }

    /// Extends the lease until another instance has it, or may have it: once it ran out, a store that does not answer may
    /// have given it away.
    async fn lease_is_lost(&self) {
        let Self { job, token, .. } = self;
        let mut held_until = self.held_since + job.lease;
        loop {
            tokio::time::sleep_until(held_until.min(Instant::now() + job.lease / 3)).await;
            let asked = Instant::now();
            let extended = self.store.extend_job(&job.name, *token, job.lease);
            match tokio::time::timeout_at(held_until, extended).await {
                Ok(Ok(true)) => held_until = asked + job.lease,
                Ok(Ok(false)) | Err(_) => return,
                Ok(Err(error)) => {
                    let error = chain(&error);
                    tracing::warn!(job = %job.name, owner = %self.owner, error, "the lease of a job was not extended");
                }
            }
        }
    }

    async fn is_over(&self) {
        // Without a loop there is no shutdown.
        if self.stage.clone().wait_for(|stage| *stage == Stage::Over).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Writes the outcome. It tries for the length of a lease; after that the store has ended the run by itself.
    async fn finish(&self, outcome: &JobOutcome) {
        let (job, owner) = (&*self.job.name, &*self.owner);
        let given_up = Instant::now() + self.job.lease;
        let mut failures = 0;
        loop {
            let error = match self.store.finish_job(job, self.token, outcome).await {
                Ok(true) => return,
                Ok(false) => {
                    tracing::warn!(job, owner, "a job ended after its lease was taken over: its outcome is not kept");
                    return;
                }
                Err(error) => error,
            };
            failures += 1;
            let wait = OUTAGE.delay(failures, chance());
            let error = chain(&error);
            if Instant::now() + wait > given_up {
                tracing::warn!(job, owner, error, "the outcome of a job could not be written");
                return;
            }
            tracing::warn!(job, owner, error, ?wait, "the outcome of a job is not written yet");
            tokio::time::sleep(wait).await;
        }
    }
}

fn outcome(ended: Result<JobResult, JoinError>) -> JobOutcome {
    match ended {
        Ok(Ok(result)) => JobOutcome::Done(result),
        Ok(Err(error)) => JobOutcome::Failed(chain(&*error)),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => JobOutcome::Failed(format!("panicked: {}", panic_text(&*panic))),
            Err(error) => JobOutcome::Failed(error.to_string()),
        },
    }
}

/// The text of an error and of its sources.
pub(super) fn chain(error: &(dyn StdError + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => "no text",
    }
}
