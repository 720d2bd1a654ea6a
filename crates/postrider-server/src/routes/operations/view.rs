//! An operation as it is shown.

use postrider::Scope;
use postrider::store::{Operation, OperationState, OperationStep, StepState};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::ask::Whom;
use crate::filter::FilterView;
use crate::view::At;

/// What is done to each event.
#[derive(Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = OperationKind)]
pub(super) enum Kind {
    Redrive,
}

/// An operation, and how far it has come.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Operation)]
pub(crate) struct OperationView {
    pub(crate) operation_id: String,
    /// A small number for people.
    number: i64,
    kind: Kind,
    state: OperationStateView,
    filter: FilterView,
    /// The chosen events.
    event_ids: Option<Vec<String>>,
    /// The group of failures, if there is one.
    failure_group: Option<String>,
    /// The groups of failures, if there are several.
    failure_groups: Option<Vec<String>>,
    consumer_id: Option<String>,
    consumers: Whom,
    rate_per_second: Option<u32>,
    ramp: Option<Vec<u32>>,
    gate_seconds: Option<u64>,
    stop_above_percent: Option<u32>,
    oldest_first: bool,
    reason: Option<String>,
    /// The name of the token.
    requested_by: Option<String>,
    /// How many match: an estimate until the plan is complete.
    total: Option<u64>,
    /// Events redriven: `delivered`, `failedAgain` and `open` together.
    done: u64,
    /// Events whose first attempt after the redrive succeeded.
    delivered: u64,
    /// Events whose first attempt after the redrive failed, or that expired or were discarded before it.
    failed_again: u64,
    /// Redriven events without an attempt so far.
    open: u64,
    /// Events that a rule forbade although they are not finished.
    failed: u64,
    /// Events that needed nothing any more.
    skipped: u64,
    /// The steps of its ramp; empty without one.
    steps: Vec<StepView>,
    /// Why it has stopped by itself. It is PAUSED then, and can be resumed after the repair.
    stopped_because: Option<String>,
    /// Who works on it at this moment.
    owner: Option<String>,
    created_at: At,
    updated_at: At,
    finished_at: Option<At>,
    #[serde(skip)]
    scope: Scope,
}

impl OperationView {
    /// Whether everything that it touches is inside a scope.
    pub(crate) fn is_within(&self, scope: &Scope) -> bool {
        scope.contains(&self.scope)
    }
}

/// A step of a ramp.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = OperationStep)]
pub(super) struct StepView {
    /// How many events it redrives.
    size: u64,
    rate_per_second: Option<u32>,
    state: StepStateView,
    /// Events redriven.
    done: u64,
    delivered: u64,
    failed_again: u64,
    /// When its gate has decided.
    ended_at: Option<At>,
}

impl StepView {
    pub(super) fn of(step: OperationStep, rate: Option<u32>) -> Self {
        Self {
            size: step.size.unwrap_or(step.done),
            rate_per_second: rate,
            state: step.state.into(),
            done: step.done,
            delivered: step.delivered,
            failed_again: step.failed_again,
            ended_at: step.ended_at.map(Into::into),
        }
    }
}

/// Where a step stands.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StepState)]
enum StepStateView {
    Todo,
    Running,
    Passed,
    Stopped,
}

impl From<StepState> for StepStateView {
    fn from(state: StepState) -> Self {
        match state {
            StepState::Todo => Self::Todo,
            StepState::Running => Self::Running,
            StepState::Passed => Self::Passed,
            StepState::Stopped => Self::Stopped,
        }
    }
}

/// Where an operation stands.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schema(as = OperationState)]
enum OperationStateView {
    Running,
    Paused,
    Cancelled,
    Done,
}

impl From<OperationState> for OperationStateView {
    fn from(state: OperationState) -> Self {
        match state {
            OperationState::Running => Self::Running,
            OperationState::Paused => Self::Paused,
            OperationState::Cancelled => Self::Cancelled,
            OperationState::Done => Self::Done,
        }
    }
}

impl From<Operation> for OperationView {
    fn from(operation: Operation) -> Self {
        let steps = operation.stairs();
        let (request, progress) = (operation.request, operation.progress);
        let rate = request.rate_per_second;
        let mut filter = request.filter;
        let event_ids = std::mem::take(&mut filter.event_ids);
        let mut groups = std::mem::take(&mut filter.failure_groups);
        let failure_group = if groups.len() == 1 { groups.pop() } else { None };
        Self {
            operation_id: request.id,
            number: operation.number,
            kind: Kind::Redrive,
            scope: filter.scope.clone(),
            state: operation.state.into(),
            filter: filter.into(),
            event_ids: Some(event_ids).filter(|ids| !ids.is_empty()),
            failure_group,
            failure_groups: Some(groups).filter(|groups| !groups.is_empty()),
            consumer_id: request.consumer,
            consumers: if request.only_failed { Whom::Failed } else { Whom::Open },
            rate_per_second: rate,
            gate_seconds: request.ramp.as_ref().map(|ramp| ramp.gate.as_secs()),
            stop_above_percent: request.ramp.as_ref().map(|ramp| ramp.stop_above_percent),
            ramp: request.ramp.map(|ramp| ramp.sizes),
            oldest_first: request.oldest_first,
            reason: request.reason,
            requested_by: request.requested_by,
            total: request.total,
            done: operation.done,
            delivered: progress.delivered,
            failed_again: progress.failed_again,
            open: progress.open,
            failed: operation.failed,
            skipped: operation.skipped,
            steps: steps.into_iter().map(|step| StepView::of(step, rate)).collect(),
            stopped_because: progress.stopped_because,
            owner: operation.owner,
            created_at: operation.created_at.into(),
            updated_at: operation.updated_at.into(),
            finished_at: operation.finished_at.map(Into::into),
        }
    }
}
