//! Figures: the backlog now, and what happened per minute.

use axum::Json;
use axum::extract::State;
use postrider::store::Minute;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::App;
use crate::input::Query;
use crate::problem::Problem;
use crate::view::At;

/// The default number of minutes.
const HOUR: i64 = 60;
/// The longest step.
const DAY: i64 = 24 * 60;
/// The most minutes: a week.
const WEEK: i64 = 7 * 24 * 60;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(show))
}

/// What waits, of all consumers together.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Waiting {
    /// By the store's clock.
    at: At,
    /// Deliveries that wait or are worked on.
    backlog: u64,
    processing: u64,
    retrying: u64,
    dead: u64,
    /// Those that wait behind a dead one of their key.
    held: u64,
    /// For how long the oldest delivery has been due; absent if none is due.
    oldest_pending_seconds: Option<f64>,
}

/// What happened to events in one minute, as the roll-up saw it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Minute)]
pub(super) struct MinuteView {
    /// Its beginning.
    at: At,
    created: u64,
    sent: u64,
    consumed: u64,
    failed: u64,
    dead: u64,
}

impl From<Minute> for MinuteView {
    fn from(minute: Minute) -> Self {
        let Minute { at, created, sent, consumed, failed, dead } = minute;
        Self { at: at.into(), created, sent, consumed, failed, dead }
    }
}

/// The figures.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Stats {
    #[serde(flatten)]
    waiting: Waiting,
    /// How many minutes each point sums up.
    step: i64,
    /// In the order of time; minutes without events are left out.
    minutes: Vec<MinuteView>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Span {
    /// How many minutes back; 60 where it is missing.
    #[param(minimum = 1, maximum = 10080)]
    minutes: Option<i64>,
    /// How many minutes each point sums up; 1 where it is missing.
    #[param(minimum = 1, maximum = 1440)]
    step: Option<i64>,
}

/// What waits now, and what happened per minute
#[utoipa::path(get, path = "/api/v1/stats", tag = "operations", params(Span),
    responses((status = 200, description = "The figures.", body = Stats)))]
async fn show(State(app): State<App>, Query(span): Query<Span>) -> Result<Json<Stats>, Problem> {
    let minutes = span.minutes.unwrap_or(HOUR);
    if !(1..=WEEK).contains(&minutes) {
        return Err(Problem::bad_query("minutes", format!("must be 1 to {WEEK}, is {minutes}")));
    }
    let step = span.step.unwrap_or(1);
    if !(1..=DAY).contains(&step) {
        return Err(Problem::bad_query("step", format!("must be 1 to {DAY}, is {step}")));
    }
    let mut stats = stats(&app, minutes).await?;
    stats.minutes = sum(stats.minutes, step);
    Ok(Json(Stats { step, ..stats }))
}

/// Adds up the minutes of each step; steps are counted from 1970, so that they stay where they are as time goes on.
fn sum(minutes: Vec<MinuteView>, step: i64) -> Vec<MinuteView> {
    let mut sums: Vec<MinuteView> = Vec::new();
    for one in minutes {
        let at = At::from(one.at.start_of(60 * step));
        match sums.last_mut() {
            Some(last) if last.at == at => {
                last.created += one.created;
                last.sent += one.sent;
                last.consumed += one.consumed;
                last.failed += one.failed;
                last.dead += one.dead;
            }
            _ => sums.push(MinuteView { at, ..one }),
        }
    }
    sums
}

/// The figures of so many minutes.
pub(crate) async fn stats(app: &App, minutes: i64) -> postrider::Result<Stats> {
    let now = app.store.now().await?;
    let mut waiting = Waiting {
        at: now.into(),
        backlog: 0,
        processing: 0,
        retrying: 0,
        dead: 0,
        held: 0,
        oldest_pending_seconds: app.store.oldest_pending().await?.map(|age| age.as_secs_f64()),
    };
    for lane in app.store.counts().await?.into_values() {
        waiting.backlog += lane.new + lane.processing + lane.failed;
        waiting.processing += lane.processing;
        waiting.retrying += lane.failed;
        waiting.dead += lane.dead;
        waiting.held += lane.held;
    }
    // Up to the next minute, so that the current one is included.
    let (from, to) = (now - time::Duration::minutes(minutes), now + time::Duration::MINUTE);
    let figures = app.store.figures(from, to).await?;
    Ok(Stats { waiting, step: 1, minutes: figures.into_iter().map(Into::into).collect() })
}
