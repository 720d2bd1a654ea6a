//! How a bulk operation is asked for: the request, the dry run, and the repeated request.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use postrider::limits::{IDEMPOTENCY_KEY_CHARS, INITIATOR_BYTES};
use postrider::operations::{self, RuleShare};
use postrider::store::access::{explain, hash};
use postrider::store::{NewOperation, Operation, Ramp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::view::{Kind, StepView};
use crate::App;
use crate::auth::Caller;
use crate::filter::{FilterIn, event_ids};
use crate::input::{self, Body, Id, Raw};
use crate::problem::Problem;
use crate::routes::events::mend::needs_consumer;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(create))
}

/// What to do, to which events. One of `filter`, `eventIds`, `failureGroup` and `failureGroups` is needed; several narrow each other.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewOperation)]
struct OperationIn {
    #[expect(dead_code, reason = "there is one kind, and a request names it")]
    kind: Kind,
    /// Which events, of those that are there now.
    filter: Option<FilterIn>,
    /// These events.
    #[schema(max_items = 1_000)]
    event_ids: Option<Vec<Id>>,
    /// The events of this group of failures: a `groupId` of `GET /failures`.
    failure_group: Option<String>,
    /// The events of several groups. An event of two of them counts once.
    #[schema(max_items = 50)]
    failure_groups: Option<Vec<String>>,
    /// One consumer's part of them only.
    #[schema(pattern = "^[A-Za-z0-9._-]{1,128}$")]
    consumer_id: Option<String>,
    /// Without `consumerId`: whose part of them.
    consumers: Option<Whom>,
    /// How many a second at most; as many as go where it is missing.
    #[schema(minimum = 1)]
    rate_per_second: Option<u32>,
    /// The sizes of the first steps, as in `[1, 10, 100]`; one more step takes the rest. Without it there is one step without a gate.
    #[schema(max_items = 10)]
    ramp: Option<Vec<u32>>,
    /// How long a gate waits for the first attempts of its step; 30 where it is missing.
    #[schema(minimum = 1, maximum = 86_400)]
    gate_seconds: Option<u32>,
    /// A gate stops the operation if more than this share of the results are failures; 20 where it is missing.
    #[schema(minimum = 0, maximum = 100)]
    stop_above_percent: Option<u32>,
    /// Begin with the oldest event instead of the newest.
    #[serde(default)]
    oldest_first: bool,
    /// Only say what it would do.
    #[serde(default)]
    dry_run: bool,
    /// Why, for people; needed unless it is a dry run.
    reason: Option<String>,
}

/// Whose part of an event is redriven.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RedriveConsumers)]
pub(super) enum Whom {
    /// Consumers whose last attempt failed; if failure groups are named, their consumers only.
    Failed,
    /// Every consumer that is not done.
    Open,
}

impl OperationIn {
    /// The request as the library takes it.
    async fn into_operation(self, app: &App, caller: &Caller, id: String) -> Result<NewOperation, Problem> {
        if self.consumer_id.as_deref().is_some_and(|consumer| !input::is_name(consumer)) {
            return Err(Problem::invalid("consumerId", "must be 1 to 128 of A-Z a-z 0-9 . _ -"));
        }
        match &self.reason {
            Some(reason) => input::short("reason", reason, INITIATOR_BYTES / 4)?,
            None if self.dry_run => {}
            None => return Err(Problem::invalid("reason", "is needed, for the audit")),
        }
        let ramp = self.ramp()?;
        let groups: Vec<String> =
            self.failure_group.into_iter().chain(self.failure_groups.unwrap_or_default()).collect();
        for group in &groups {
            input::short("failureGroup", group, postrider::limits::KEY_CHARS)?;
        }
        if self.filter.is_none() && self.event_ids.is_none() && groups.is_empty() {
            let detail = "is needed: say which events by a filter, by eventIds or by a failureGroup; {} is every event";
            return Err(Problem::invalid("filter", detail));
        }
        if self.event_ids.as_ref().is_some_and(Vec::is_empty) {
            return Err(Problem::invalid("eventIds", "must name an event, or be left out"));
        }
        let scope = &caller.scope;
        let consumer = self.consumer_id.or_else(|| scope.only_consumer().map(Into::into));
        match &consumer {
            Some(consumer) if !scope.has_consumer(consumer) => {
                return Err(needs_consumer("is outside the token's scope"));
            }
            None if !scope.consumers.is_empty() => {
                return Err(needs_consumer("is needed: the token is for some consumers only"));
            }
            _ => {}
        }
        let mut filter = self.filter.unwrap_or_default().into_filter(app, scope).await?;
        if let Some(ids) = &self.event_ids {
            filter.event_ids = event_ids(ids.iter().map(|id| id.0.as_str()))?;
        }
        filter.failure_groups.extend(groups);
        let new = NewOperation {
            consumer,
            only_failed: self.consumers == Some(Whom::Failed),
            rate_per_second: self.rate_per_second,
            ramp,
            oldest_first: self.oldest_first,
            rules: app.options.redrive,
            reason: self.reason,
            requested_by: Some(caller.name.clone()),
            ..NewOperation::redrive(id, filter)
        };
        new.check()?;
        Ok(new)
    }

    fn ramp(&self) -> Result<Option<Ramp>, Problem> {
        let Some(sizes) = self.ramp.clone() else {
            for (field, given) in [("gateSeconds", self.gate_seconds), ("stopAbovePercent", self.stop_above_percent)] {
                if given.is_some() {
                    return Err(Problem::invalid(field, "is for a ramp: give one too, as in [1, 10, 100]"));
                }
            }
            return Ok(None);
        };
        let mut ramp = Ramp::new(sizes);
        if let Some(seconds) = self.gate_seconds {
            ramp.gate = Duration::from_secs(seconds.into());
        }
        ramp.stop_above_percent = self.stop_above_percent.unwrap_or(ramp.stop_above_percent);
        Ok(Some(ramp))
    }
}

/// What an operation would do now.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct DryRun {
    matching: u64,
    /// False: the number is an estimate, and the split is of the newest `lookedAt` events.
    exact: bool,
    looked_at: u64,
    /// How they divide by rule; `redrive` is what would be redriven.
    split: Vec<RuleShareView>,
    /// Some of those that would be redriven.
    samples: Vec<String>,
    /// The steps of its ramp.
    steps: Vec<StepView>,
    /// Consumers that had succeeded with these events before. They are left out.
    already_succeeded: Vec<SucceededView>,
}

/// The events that one rule is about.
#[derive(Serialize, ToSchema)]
#[schema(as = RuleShare)]
struct RuleShareView {
    /// `redrive`, or the code of the rule that is in the way, as a redrive of one event answers it.
    rule: &'static str,
    count: u64,
    /// Five of them at most.
    samples: Vec<String>,
}

/// A consumer that has nothing to do with a redrive.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ConsumerShare)]
struct SucceededView {
    consumer_id: String,
    count: u64,
}

impl DryRun {
    fn of(found: operations::DryRun, rate: Option<u32>) -> Self {
        let would = found.split.iter().find(|share| share.rule == operations::REDRIVE);
        let share =
            |share: &RuleShare| RuleShareView { rule: share.rule, count: share.events, samples: share.samples.clone() };
        let succeeded = found.already_succeeded.iter();
        Self {
            matching: found.matching,
            exact: found.exact,
            looked_at: found.looked_at,
            samples: would.map(|share| share.samples.clone()).unwrap_or_default(),
            split: found.split.iter().map(share).collect(),
            steps: found.steps.into_iter().map(|step| StepView::of(step, rate)).collect(),
            already_succeeded: succeeded
                .map(|(consumer, count)| SucceededView { consumer_id: consumer.clone(), count: *count })
                .collect(),
        }
    }
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Created {
    operation_id: String,
}

/// Redrive everything that matches, or say what that would do
///
/// Each event is measured by the rules of a redrive when its turn comes. The operation goes on after a restart, and redrives
/// nothing twice. With a ramp it stops by itself if too many of a step fail again. A request with the header `Idempotency-Key`
/// can be repeated: it begins one operation.
#[utoipa::path(post, path = "/api/v1/operations", tag = "operations", request_body = OperationIn,
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes the request repeatable.", max_length = 255)),
    responses(
        (status = 202, description = "It will be worked on.", body = Created),
        (status = 200, description = "A dry run: nothing is done.", body = DryRun),
    ))]
async fn create(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    Body(wanted): Body<Raw>,
) -> Result<Response, Problem> {
    let text = wanted.0.get();
    let repeat = Repeat::of(&headers, &caller, text)?;
    let wanted: OperationIn = input::read(text)?;
    let (is_dry_run, rate) = (wanted.dry_run, wanted.rate_per_second);
    if let (Some(repeat), false) = (&repeat, is_dry_run)
        && let Some(known) = app.store.operation(&repeat.id).await?
    {
        return repeat.answer(&known);
    }
    let id = repeat.as_ref().map_or_else(|| uuid::Uuid::now_v7().to_string(), |repeat| repeat.id.clone());
    let mut new = wanted.into_operation(&app, &caller, id).await?;
    if is_dry_run {
        let found = operations::dry_run(&*app.store, &new).await?;
        explain(new.reason.as_deref(), Some(&format!("dryRun matching={}", found.matching)));
        return Ok(Json(DryRun::of(found, rate)).into_response());
    }
    // Exact when the plan is complete.
    let matching = app.store.count_events(&new.filter).await?.value;
    new.total = Some(matching);
    new.fingerprint = repeat.as_ref().map(|repeat| repeat.fingerprint.clone());
    explain(new.reason.as_deref(), Some(&format!("operation={} matching={matching}", new.id)));
    let created = app.store.create_operation(&new).await?;
    match repeat {
        Some(repeat) => repeat.answer(&created),
        None => Ok(accepted(&created)),
    }
}

fn accepted(operation: &Operation) -> Response {
    let operation_id = operation.request.id.clone();
    (StatusCode::ACCEPTED, Json(Created { operation_id })).into_response()
}

/// A request that its caller may repeat.
struct Repeat {
    /// The id of its operation follows from the key and the caller.
    id: String,
    fingerprint: String,
}

impl Repeat {
    fn of(headers: &HeaderMap, caller: &Caller, body: &str) -> Result<Option<Self>, Problem> {
        let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
        let key = key.to_str().unwrap_or_default();
        input::short("Idempotency-Key", key, IDEMPOTENCY_KEY_CHARS)?;
        let id = hash(&format!("{}\n{key}", caller.name))[..32].to_owned();
        Ok(Some(Self { id, fingerprint: hash(body) }))
    }

    /// The answer to a request whose operation exists.
    fn answer(&self, known: &Operation) -> Result<Response, Problem> {
        if known.request.fingerprint.as_deref() == Some(&*self.fingerprint) {
            return Ok(accepted(known));
        }
        let detail = "this key belongs to another request: use a new key for a new operation";
        Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "idempotencyKeyReused", detail))
    }
}
