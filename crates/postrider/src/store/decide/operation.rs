//! What a bulk operation does next, and what came of what it did. Pure: a store locks the operation's row, reads the rows that
//! these functions name, and writes what they return.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::redrive::Request;
use crate::entry::{DISCARDED, DeliveryStatus};
use crate::redrive::{Refusal, Target};
use crate::status::{ConsumerState, Record};
use crate::store::{
    ItemOutcome, NewOperation, Operation, OperationState, OperationStep, PlanPage, Progress, Ramp, Steer, StepState,
};
use crate::subscription::{RABBITMQ, StoredSubscription};

/// Redriven events whose results are read at once.
pub(crate) const LOOKED_AT: u32 = 500;
/// How often results are read while an operation runs.
const LOOK: Duration = Duration::from_millis(500);
/// How often they are read while results come.
const SOON: Duration = Duration::from_millis(50);
/// How rarely results are read at most, of events that no worker attempts.
const SELDOM: Duration = Duration::from_secs(300);
/// So many results judge a step before all of it is redriven.
const JUDGED: u64 = 50;

/// The consumers whose first attempts decide what came of a redrive, with the number of the last attempt before it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Watched(pub(crate) BTreeMap<String, u32>);

impl Watched {
    /// For a redrive to these targets.
    pub(super) fn of(record: &Record, targets: &[Target]) -> Self {
        let last = |name: &str| {
            let of_consumer = record.consumptions.iter().filter(|one| one.consumer == name);
            of_consumer.map(|one| one.attempt).max().unwrap_or_default()
        };
        let mut names: Vec<&str> = Vec::new();
        for target in targets {
            names.push(target.target.as_deref().unwrap_or(&target.lane));
            if target.lane == RABBITMQ && target.target.is_none() {
                // It reaches every consumer behind the broker.
                let open = record.consumers().into_iter().filter(|(_, state)| *state != ConsumerState::Ok);
                names.extend(open.map(|(name, _)| name).filter(|name| is_remote(record, name)));
            }
        }
        Self(names.into_iter().map(|name| (name.to_owned(), last(name))).collect())
    }

    /// What has come of the redrive so far.
    pub(crate) fn outcome(&self, record: &Record) -> ItemOutcome {
        let results: Vec<_> = self.0.iter().map(|(name, before)| result(record, name, *before)).collect();
        if results.contains(&Some(false)) {
            ItemOutcome::FailedAgain
        } else if results.contains(&None) {
            ItemOutcome::Open
        } else {
            ItemOutcome::Delivered
        }
    }
}

fn is_remote(record: &Record, consumer: &str) -> bool {
    record.consumptions.iter().any(|one| one.consumer == consumer && one.attempt == 0)
}

/// Whether a consumer's first attempt after the redrive succeeded; `None` if there was none.
fn result(record: &Record, name: &str, before: u32) -> Option<bool> {
    let later = record.consumptions.iter().filter(|one| one.consumer == name && one.attempt > before);
    let first = later.filter(|one| one.success.is_some()).min_by_key(|one| one.attempt);
    if let Some(first) = first {
        return Some(first.success == Some(true) && first.code.as_deref() != Some(DISCARDED));
    }
    let waiting = record.deliveries.iter().find(|one| one.target.as_deref().unwrap_or(&one.lane) == name);
    match waiting.map(|one| (one.status, one.attempts)) {
        // A lane without history: its delivery is the only source.
        Some((DeliveryStatus::Failed | DeliveryStatus::Dead, _) | (DeliveryStatus::Processing, 2..)) => Some(false),
        Some((DeliveryStatus::New | DeliveryStatus::Processing, _)) => None,
        None if record.expired || record.kept.expired_at.is_some() => Some(false),
        None if is_remote(record, name) => None,
        None => Some(true),
    }
}

/// What an operation asks of each event.
pub(crate) fn request<'a>(new: &'a NewOperation, subscriptions: &'a [StoredSubscription]) -> Request<'a> {
    let of_groups = new.filter.failure_groups.iter().filter_map(|group| crate::failures::consumer_of(group));
    Request {
        consumer: new.consumer.as_deref(),
        only_failed: new.only_failed.then(|| of_groups.collect()),
        rules: &new.rules,
        subscriptions,
    }
}

impl ItemOutcome {
    /// What a rule makes of an event that it did not let through.
    pub(crate) fn of_refusal(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::UnknownEvent
            | Refusal::Consumed
            | Refusal::Expired
            | Refusal::NotSent
            | Refusal::NotFailed
            | Refusal::SentRecently(_) => Self::Skipped,
            Refusal::TooMany(_)
            | Refusal::TooOld(_)
            | Refusal::InProgress
            | Refusal::UnknownConsumer
            | Refusal::External
            // A redrive is never refused for these.
            | Refusal::NotWaiting
            | Refusal::NoSuchConsumer(_)
            | Refusal::NameInUse(_)
            | Refusal::BrokerQueue(_)
            | Refusal::SecondVia { .. }
            | Refusal::DeliveriesWait(_)
            | Refusal::Stale => Self::Refused,
        }
    }
}

/// The answer about one event of a batch, to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Noted {
    pub(crate) sequence: i64,
    pub(crate) step: u32,
    pub(crate) outcome: ItemOutcome,
    pub(crate) rule: Option<&'static str>,
    pub(crate) watched: Option<Watched>,
}

impl Progress {
    /// The steps of a new operation.
    pub(crate) fn new(ramp: Option<&Ramp>) -> Self {
        let sized = |size: &u32| OperationStep { size: Some((*size).into()), ..OperationStep::default() };
        let mut steps: Vec<_> = ramp.iter().flat_map(|ramp| &ramp.sizes).map(sized).collect();
        steps.push(OperationStep::default());
        Self { steps, ..Self::default() }
    }

    /// The step that redrives or waits now.
    fn current(&self) -> Option<usize> {
        self.steps.iter().position(|step| matches!(step.state, StepState::Todo | StepState::Running))
    }
}

impl OperationStep {
    fn results(&self) -> u64 {
        self.delivered + self.failed_again
    }

    fn is_full(&self) -> bool {
        self.size.is_some_and(|size| self.done >= size)
    }

    fn is_bad(&self, ramp: &Ramp) -> bool {
        self.failed_again * 100 > u64::from(ramp.stop_above_percent) * self.results()
    }

    /// Why its gate does not let it pass.
    fn fault(&self, ramp: &Ramp) -> Option<String> {
        let (results, again) = (self.results(), self.failed_again);
        if self.done == 0 {
            return None;
        }
        if results == 0 {
            return Some(format!(
                "none of {} redriven events had its first attempt within {} s",
                self.done,
                ramp.gate.as_secs_f64()
            ));
        }
        if !self.is_bad(ramp) {
            return None;
        }
        let percent = again as f64 * 100.0 / results as f64;
        let open = match self.done - results {
            0 => String::new(),
            open => format!(", {open} more have no result yet"),
        };
        Some(format!("{again} of {results} failed again ({percent:.1} %){open}"))
    }
}

impl Operation {
    /// A new operation on events below a number.
    pub(crate) fn new(new: &NewOperation, number: i64, position: crate::store::Cursor, now: OffsetDateTime) -> Self {
        Self {
            request: new.clone(),
            number,
            state: OperationState::Running,
            done: 0,
            failed: 0,
            skipped: 0,
            position: Some(position),
            progress: Progress::new(new.ramp.as_ref()),
            gate_since: None,
            owner: None,
            created_at: now,
            updated_at: now,
            finished_at: None,
        }
    }

    /// Events of the plan that have not had their turn.
    pub fn left(&self) -> u64 {
        self.progress.planned.saturating_sub(self.done + self.failed + self.skipped)
    }

    /// The steps of its ramp with their sizes, as far as they are known; empty without a ramp. Before the plan is complete, the
    /// sizes follow from the number of events that matched when it was asked for.
    pub fn stairs(&self) -> Vec<OperationStep> {
        if self.request.ramp.is_none() {
            return Vec::new();
        }
        let expected = self.request.total.unwrap_or_default().saturating_sub(self.done + self.failed + self.skipped);
        let left = if self.position.is_some() { self.left().max(expected) } else { self.left() };
        stairs(&self.progress.steps, left)
    }

    /// Notes a page of the plan.
    pub(crate) fn plan(&mut self, page: &PlanPage) {
        self.progress.planned += page.events.len() as u64;
        self.position = page.next;
        if page.next.is_none() {
            self.request.total = Some(self.progress.planned);
        }
    }

    /// Whether results are to be read now.
    pub(crate) fn wants_look(&self, now: OffsetDateTime) -> bool {
        self.progress.open > 0 && (self.look_due() <= now || self.is_at_gate() || self.state != OperationState::Running)
    }

    fn look_due(&self) -> OffsetDateTime {
        self.progress.looked_at.map_or(self.created_at, |at| at + LOOK)
    }

    fn is_at_gate(&self) -> bool {
        self.gate_since.is_some()
    }

    /// Notes the results of a look: of each event the step and what came of it. `last` is the last event that was read,
    /// `None` if the round is complete.
    pub(crate) fn observe(&mut self, seen: &[(u32, ItemOutcome)], last: Option<i64>, now: OffsetDateTime) {
        let progress = &mut self.progress;
        progress.looked_at = Some(now);
        progress.looked_to = last.unwrap_or_default();
        for (step, outcome) in seen {
            let step = progress.steps.get_mut(*step as usize);
            match outcome {
                ItemOutcome::Delivered => {
                    progress.delivered += 1;
                    step.into_iter().for_each(|step| step.delivered += 1);
                }
                ItemOutcome::FailedAgain => {
                    progress.failed_again += 1;
                    step.into_iter().for_each(|step| step.failed_again += 1);
                }
                ItemOutcome::Planned | ItemOutcome::Open | ItemOutcome::Skipped | ItemOutcome::Refused => continue,
            }
            progress.open = progress.open.saturating_sub(1);
            progress.result_at = Some(now);
        }
    }

    /// How many planned events may be redriven now.
    pub(crate) fn allowance(&self, batch: u32) -> u32 {
        if self.state != OperationState::Running || self.position.is_some() || self.is_at_gate() {
            return 0;
        }
        let Some(step) = self.progress.current().and_then(|at| self.progress.steps.get(at)) else { return 0 };
        let room = step.size.map_or(u64::from(batch), |size| size.saturating_sub(step.done));
        batch.min(u32::try_from(room).unwrap_or(batch))
    }

    /// Notes the answers about the planned events of a batch. An event without an answer does not exist any more.
    pub(crate) fn redriven(
        &mut self,
        asked: &[i64],
        answers: &[(i64, std::result::Result<Watched, Refusal>)],
    ) -> Vec<Noted> {
        let Some(at) = self.progress.current() else { return Vec::new() };
        let answers: BTreeMap<i64, _> = answers.iter().map(|(seq, answer)| (*seq, answer)).collect();
        let mut noted = Vec::with_capacity(asked.len());
        for seq in asked {
            let mut note = Noted {
                sequence: *seq,
                step: u32::try_from(at).unwrap_or(u32::MAX),
                outcome: ItemOutcome::Open,
                rule: None,
                watched: None,
            };
            match answers.get(seq) {
                Some(Ok(watched)) => {
                    self.done += 1;
                    self.progress.open += 1;
                    self.progress.steps[at].done += 1;
                    note.watched = Some(watched.clone());
                }
                Some(Err(refusal)) => {
                    note.outcome = ItemOutcome::of_refusal(refusal);
                    note.rule = Some(refusal.code());
                }
                None => {
                    note.outcome = ItemOutcome::Skipped;
                    note.rule = Some(Refusal::UnknownEvent.code());
                }
            }
            match note.outcome {
                ItemOutcome::Skipped => self.skipped += 1,
                ItemOutcome::Refused => self.failed += 1,
                _ => {}
            }
            noted.push(note);
        }
        if !asked.is_empty() {
            self.progress.steps[at].state = StepState::Running;
        }
        noted
    }

    /// Ends a step, its gate or the operation if it is time.
    pub(crate) fn turn(&mut self, now: OffsetDateTime) {
        if self.state != OperationState::Running || self.position.is_some() {
            return;
        }
        let is_last = self.left() == 0;
        let (Some(at), Some(ramp)) = (self.progress.current(), self.request.ramp.clone()) else {
            if is_last {
                self.finish(now);
            }
            return;
        };
        let step = &mut self.progress.steps[at];
        let is_early = step.results() >= JUDGED && step.is_bad(&ramp);
        if !is_early {
            if !step.is_full() && !is_last {
                return;
            }
            let since = *self.gate_since.get_or_insert(now);
            if step.results() < step.done && now - since < ramp.gate {
                return;
            }
        }
        let fault = step.fault(&ramp);
        step.state = if fault.is_some() { StepState::Stopped } else { StepState::Passed };
        step.ended_at = Some(now);
        self.gate_since = None;
        if is_last {
            self.finish(now);
        } else if fault.is_some() {
            self.state = OperationState::Paused;
            self.progress.stopped_because = fault;
        }
    }

    fn finish(&mut self, now: OffsetDateTime) {
        self.state = OperationState::Done;
        self.finished_at = Some(now);
        for step in self.progress.steps.iter_mut().filter(|step| step.state == StepState::Running) {
            step.state = StepState::Passed;
            step.ended_at = Some(now);
        }
    }

    /// Pauses, resumes or cancels. Returns false if its state does not allow that.
    pub(crate) fn steer(&mut self, steer: Steer, now: OffsetDateTime) -> bool {
        use OperationState::{Cancelled, Paused, Running};
        self.state = match (steer, self.state) {
            (Steer::Pause, Running) => Paused,
            (Steer::Resume, Paused) => Running,
            (Steer::Cancel, Running | Paused) => Cancelled,
            _ => return false,
        };
        // A gate waits anew after a pause.
        self.gate_since = None;
        if self.state == Cancelled {
            self.finished_at = Some(now);
        }
        if self.state == Running && self.progress.stopped_because.take().is_some() {
            self.try_again();
        }
        true
    }

    /// After a gate has stopped it: the next events are as many as those that failed again, behind a gate of their own. What failed
    /// before does not count there.
    fn try_again(&mut self) {
        let (Some(ramp), steps) = (&self.request.ramp, &mut self.progress.steps) else { return };
        let Some(stopped) = steps.iter().rposition(|step| step.state == StepState::Stopped) else { return };
        let largest = ramp.sizes.last().copied().map(u64::from);
        let again = OperationStep { size: steps[stopped].size.or(largest), ..OperationStep::default() };
        if steps[stopped].size.is_none() {
            steps.push(OperationStep::default());
        }
        steps.insert(stopped + 1, again);
    }

    /// How long no worker needs to look at it; `None` if there is nothing left to do.
    pub(crate) fn pause(&self, redriven: u64, now: OffsetDateTime) -> Option<Duration> {
        if self.state == OperationState::Running {
            if self.is_at_gate() {
                return Some(if self.progress.looked_to > 0 { SOON } else { self.gate_pause(now) });
            }
            let rate = self.request.rate_per_second.filter(|_| self.position.is_none());
            return Some(
                rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(redriven as f64 / f64::from(rate.max(1)))),
            );
        }
        if self.progress.open == 0 {
            return None;
        }
        let quiet = self.progress.result_at.unwrap_or(self.updated_at.min(now));
        let quiet = Duration::try_from(now - quiet).unwrap_or_default();
        Some(if self.progress.looked_to > 0 && quiet < LOOK { SOON } else { (quiet / 10).clamp(LOOK, SELDOM) })
    }

    /// Results are due at once, or when the gate closes.
    fn gate_pause(&self, now: OffsetDateTime) -> Duration {
        let gate = self.request.ramp.as_ref().map(|ramp| ramp.gate).unwrap_or_default();
        let waited = self.gate_since.map_or(time::Duration::ZERO, |since| now - since);
        let waited = Duration::try_from(waited).unwrap_or_default();
        // Short gates are looked at more often.
        gate.saturating_sub(waited).min(LOOK).min(gate / 4).max(Duration::from_millis(5))
    }
}

/// The sizes of steps over so many events that have not had their turn. Steps that get none are left out.
pub(crate) fn stairs(steps: &[OperationStep], mut left: u64) -> Vec<OperationStep> {
    let mut stairs = Vec::with_capacity(steps.len());
    for step in steps {
        let mut step = step.clone();
        let size = match step.state {
            StepState::Passed | StepState::Stopped => step.done,
            StepState::Todo | StepState::Running => {
                let more = step.size.map_or(left, |size| size.saturating_sub(step.done).min(left));
                left -= more;
                step.done + more
            }
        };
        step.size = Some(size);
        if size > 0 {
            stairs.push(step);
        }
    }
    stairs
}

#[cfg(test)]
mod tests;
