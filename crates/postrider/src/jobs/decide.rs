//! What is due, and what is to be left out. Pure: how a job stands and what time it is decide it.

use time::OffsetDateTime;

use super::{LATE, Misfire, Schedule};
use crate::store::JobState;

/// What to do about a job.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Begin this slot; the next one comes then.
    Fire { slot: OffsetDateTime, next: Option<OffsetDateTime> },
    /// Nothing until then.
    Wait { next: Option<OffsetDateTime> },
    /// Somebody runs it; look again then.
    Held { until: OffsetDateTime },
}

/// What a job's state asks for. Pure; the store has the last word.
pub(super) fn decide(schedule: &Schedule, misfire: Misfire, state: &JobState, now: OffsetDateTime) -> Step {
    if let Some(until) = state.lock_until.filter(|until| *until > now) {
        // At the next slot too: its holder may have ended by then, and be gone.
        let next = schedule.next_after(now).unwrap_or(until);
        return Step::Held { until: until.min(next) };
    }
    let mut after = state.last_slot.map_or(state.since, |last| last.max(state.since));
    if misfire == Misfire::Skip {
        // What came while it ran is left out: until it said that it ended, or until nobody believed it any more.
        let ended = state.lock_until.max(state.finished_at);
        after = ended.map_or(after, |ended| ended.max(after));
    }
    let in_time = |slot: &OffsetDateTime| misfire == Misfire::Once || now - *slot <= LATE;
    // Later than the last slot too: a clock that was set back must not promise what the store will refuse.
    let next = schedule.next_after(now.max(after));
    match schedule.last_between(after, now).filter(in_time) {
        Some(slot) => Step::Fire { slot, next },
        None => Step::Wait { next },
    }
}
