//! Jobs: their last and next run.

use axum::Json;
use axum::extract::State;
use postrider::store::{JobOutcome, JobState};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::App;
use crate::problem::Problem;
use crate::view::At;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list))
}

/// A job of all instances.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Job)]
struct JobView {
    name: String,
    schedule: String,
    time_zone: String,
    next_fire: Option<At>,
    last_slot: Option<At>,
    last_fire: Option<At>,
    /// Who runs it, or ran it last.
    owner: Option<String>,
    /// Until when an instance holds it; absent if none runs it.
    locked_until: Option<At>,
    finished_at: Option<At>,
    success: Option<bool>,
    /// What the last run had to say.
    message: Option<String>,
}

impl From<JobState> for JobView {
    fn from(job: JobState) -> Self {
        let (success, message) = match job.outcome {
            None => (None, None),
            Some(JobOutcome::Done(text)) => (Some(true), Some(text)),
            Some(JobOutcome::Failed(text)) => (Some(false), Some(text)),
        };
        Self {
            name: job.name,
            schedule: job.schedule,
            time_zone: job.zone,
            next_fire: job.next_slot.map(Into::into),
            last_slot: job.last_slot.map(Into::into),
            last_fire: job.fired_at.map(Into::into),
            owner: job.owner,
            locked_until: job.lock_until.map(Into::into),
            finished_at: job.finished_at.map(Into::into),
            success,
            message,
        }
    }
}

#[derive(Serialize, ToSchema)]
struct JobList {
    jobs: Vec<JobView>,
}

/// The jobs, by name
#[utoipa::path(get, path = "/api/v1/jobs", tag = "operations", responses((status = 200, description = "The jobs.", body = JobList)))]
async fn list(State(app): State<App>) -> Result<Json<JobList>, Problem> {
    Ok(Json(JobList { jobs: app.store.jobs().await?.into_iter().map(Into::into).collect() }))
}
