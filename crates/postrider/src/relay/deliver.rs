//! Delivery of claimed parcels to the transport. The tasks of a lane take from one queue, a little at a time, so that
//! nothing waits behind a slow delivery while another task is free.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use smallvec::SmallVec;
use tokio::time::Instant;
use tracing::{Instrument as _, Span};

use super::RelayShared;
use super::writing::Tried;
use crate::consumer::Failure;
use crate::entry::{Outcome, StoppedKeys};
use crate::observe;
use crate::store::Token;
use crate::transport::{Lane, Parcel, Transport};

/// A task ends and reports after this long, or after this many parcels.
const PORTION: Duration = Duration::from_millis(10);
const PORTION_PARCELS: usize = 64;
/// How much work a task takes from the queue at once, where parcels do not go together.
const TAKE: Duration = Duration::from_micros(500);

/// What a task has delivered, and how long that took.
#[derive(Default)]
pub(super) struct Portion {
    pub(super) tried: Vec<(Token, Tried)>,
    pub(super) took: Duration,
    /// The transport was called, and has tried nothing.
    pub(super) refused: bool,
}

/// Deliveries of one key in order, or one without a key. Most are of length one, which needs no memory of its own.
pub(super) type Run = SmallVec<[Parcel; 1]>;

/// What was claimed and not begun.
#[derive(Default)]
pub(super) struct Queue(Mutex<VecDeque<Run>>);

impl Queue {
    fn runs(&self) -> MutexGuard<'_, VecDeque<Run>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn len(&self) -> usize {
        self.runs().len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs().is_empty()
    }

    pub(super) fn extend(&self, runs: Vec<Run>) {
        self.runs().extend(runs);
    }

    /// Empties the queue and returns its parcels.
    pub(super) fn clear(&self) -> Vec<Parcel> {
        std::mem::take(&mut *self.runs()).into_iter().flatten().collect()
    }

    /// Removes parcels, wherever they are in the queue.
    pub(super) fn remove(&self, gone: impl Fn(&Parcel) -> bool) -> Vec<Parcel> {
        let (mut runs, mut removed) = (self.runs(), Vec::new());
        for run in runs.iter_mut() {
            let (lost, kept): (Run, Run) = std::mem::take(run).into_iter().partition(|parcel| gone(parcel));
            removed.extend(lost);
            *run = kept;
        }
        runs.retain(|run| !run.is_empty());
        removed
    }

    /// Takes the next parcels, all of one claim, and says how many of them the transport may have at a time. A transport
    /// that takes many at once gets as many as it takes. Others get up to `limit`, or a fair share of the queue; there no
    /// two are of one key, except for a run, which is offered one by one: nothing behind a failure may be tried.
    fn take(&self, lane: &Lane, limit: usize) -> (Vec<Parcel>, usize) {
        let mut runs = self.runs();
        let together = lane.at_once > 1;
        let most =
            if together { lane.at_once } else { limit.min(runs.len().div_ceil(lane.options.concurrency.max(1))) };
        let mut taken: Vec<Parcel> = Vec::with_capacity(most.min(runs.len()));
        taken.extend(runs.pop_front().into_iter().flatten());
        if !together && taken.len() > 1 {
            return (taken, 1);
        }
        let token = |parcels: &[Parcel]| parcels.first().map(|parcel| parcel.lease.token);
        while let Some(run) = runs.front()
            && token(run) == token(&taken)
            && (together || run.len() == 1)
            && taken.len() + run.len() <= most
        {
            taken.extend(runs.pop_front().into_iter().flatten());
        }
        (taken, most)
    }
}

/// Delivers what is queued until it is time to report. Nothing begins that its lease may not outlast, or after the relay
/// was stopped. `pace`: how many seconds a delivery takes; 0: not known.
pub(super) async fn deliver(
    shared: &RelayShared,
    lane: &Lane,
    transport: &dyn Transport,
    queue: &Queue,
    pace: f64,
) -> Portion {
    let started = Instant::now();
    let limit = if pace == 0.0 || observe::wants_spans() {
        // Each try has a span of its own.
        1
    } else {
        (TAKE.as_secs_f64() / pace) as usize
    };
    let limit = limit.clamp(1, PORTION_PARCELS);
    let mut portion = Portion::default();
    while !portion.refused && portion.tried.len() < PORTION_PARCELS && started.elapsed() < PORTION {
        let (parcels, at_a_time) = queue.take(lane, limit);
        if parcels.is_empty() {
            break;
        }
        deliver_taken(shared, lane, transport, parcels, at_a_time, &mut portion).await;
    }
    portion.took = started.elapsed();
    portion
}

/// Delivers what was taken from the queue, `at_a_time` parcels in each call of the transport.
async fn deliver_taken(
    shared: &RelayShared,
    lane: &Lane,
    transport: &dyn Transport,
    parcels: Vec<Parcel>,
    at_a_time: usize,
    portion: &mut Portion,
) {
    let mut stopped = StoppedKeys::default();
    let mut parcels = parcels.into_iter();
    while !parcels.as_slice().is_empty() {
        let next = parcels.as_slice().iter().take(at_a_time.max(1));
        let free = next.take_while(|parcel| stopped.instead_of_try(parcel.envelope.key.as_deref()).is_none()).count();
        let outcomes = if portion.refused || free == 0 {
            vec![Outcome::NotTried]
        } else {
            offer(shared, lane, transport, &parcels.as_slice()[..free], &mut portion.refused).await
        };
        // The transport may answer for fewer than it was offered: the others are offered again.
        for (outcome, Parcel { id, attempt, envelope, lease, .. }) in outcomes.into_iter().zip(parcels.by_ref()) {
            if matches!(outcome, Outcome::Completed | Outcome::Done) {
                tracing::info!(
                    lane = %lane.name, event_id = %envelope.event_id, topic = %envelope.topic,
                    trace_id = envelope.trace_id.as_deref(), request_id = envelope.request_id(), attempt,
                    "{}", observe::PUBLISHED
                );
            }
            let outcome = stopped.record(envelope.key.as_deref(), outcome);
            portion.tried.push((lease.token, Tried { id, attempt, envelope, outcome }));
        }
    }
}

/// Offers parcels of one claim to the transport. Returns an outcome for the first at least. Sets `refused` if the transport
/// was called and has tried nothing.
async fn offer(
    shared: &RelayShared,
    lane: &Lane,
    transport: &dyn Transport,
    offered: &[Parcel],
    refused: &mut bool,
) -> Vec<Outcome> {
    // A try that begins must be able to end within its lease: with less than a tenth left it does not begin.
    let spare = shared.options.lease / 10;
    let too_late = offered.first().is_some_and(|parcel| parcel.lease.remaining() < spare);
    if too_late {
        observe::shed(offered.len());
    }
    if too_late || shared.stop.is_cancelled() {
        return vec![Outcome::NotTried; offered.len()];
    }
    let spans = observe::delivering_all(&lane.name, offered);
    // The inbox catches the panics of consumers; this is for panics of a transport.
    let delivering = AssertUnwindSafe(transport.deliver(lane, offered)).catch_unwind();
    // What a transport does for many parcels at once belongs to none of them.
    let around = if let [alone] = &spans[..] { alone.clone() } else { Span::none() };
    let mut outcomes = delivering.instrument(around).await.unwrap_or_else(|_| {
        vec![Outcome::Failed(Failure::retry("the transport panicked").code("panic")); offered.len()]
    });
    spans.iter().zip(&outcomes).for_each(|(span, outcome)| observe::delivered(span, outcome));
    outcomes.truncate(offered.len());
    *refused = outcomes.iter().all(|outcome| *outcome == Outcome::NotTried);
    if outcomes.is_empty() { vec![Outcome::NotTried; offered.len()] } else { outcomes }
}
