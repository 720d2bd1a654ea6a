//! What is due, and what is skipped. A pure function of the state of a job and the time.

use time::OffsetDateTime;

use super::{LATE, Misfire, Schedule};
use crate::store::JobState;

/// What to do about a job.
#[derive(Debug, PartialEq)]
pub(super) enum JobStep {
    /// Begin this slot; `next` is the one after it.
    Fire { slot: OffsetDateTime, next: Option<OffsetDateTime> },
    /// Nothing is due before this.
    Wait { next: Option<OffsetDateTime> },
    /// An instance runs it; look again at this time.
    Held { until: OffsetDateTime },
}

/// Decides about one job. The store decides again when the run begins, under lock.
pub(super) fn decide(schedule: &Schedule, misfire: Misfire, state: &JobState, now: OffsetDateTime) -> JobStep {
    if let Some(until) = state.lock_until.filter(|until| *until > now) {
        // Also at the next slot: the run may have ended by then.
        let next = schedule.next_after(now).unwrap_or(until);
        return JobStep::Held { until: until.min(next) };
    }
    let mut after = state.last_slot.map_or(state.since, |last| last.max(state.since));
    if misfire == Misfire::Skip {
        // Slots during a run are skipped: until it finished, or until its lease ran out.
        let ended = state.lock_until.max(state.finished_at);
        after = ended.map_or(after, |ended| ended.max(after));
    }
    let in_time = |slot: &OffsetDateTime| misfire == Misfire::Once || now - *slot <= LATE;
    // Also later than the last slot: after a clock was set back, the store would refuse an earlier one.
    let next = schedule.next_after(now.max(after));
    match schedule.last_between(after, now).filter(in_time) {
        Some(slot) => JobStep::Fire { slot, next },
        None => JobStep::Wait { next },
    }
}
