//! What was claimed, on its way to the transport. The tasks of a lane take from one line, a little at a time: nothing stands
//! behind something slow while somebody is free.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;

use super::Shared;
use super::outcomes::{How, Tried};
use crate::consumer::Failure;
use crate::observe;
use crate::store::Token;
use crate::transport::{Delivered, Lane, Parcel, Transport};

/// When a task ends and tells what it did, at the latest: after so long, or after so many.
const PORTION: Duration = Duration::from_millis(10);
const PORTION_PARCELS: usize = 64;
/// Work that a task takes from the line at once: more than one only if that is soon done.
const HANDFUL: Duration = Duration::from_micros(500);

/// Deliveries that a task has tried, and what it took.
#[derive(Default)]
pub(super) struct Portion {
    pub(super) tried: Vec<(Token, Tried)>,
    pub(super) took: Duration,
    /// The transport was asked, and tried nothing.
    pub(super) refused: bool,
}

/// What was claimed and not begun: single deliveries, and runs of a key.
#[derive(Default)]
pub(super) struct Line(Mutex<VecDeque<Vec<Parcel>>>);

impl Line {
    fn runs(&self) -> MutexGuard<'_, VecDeque<Vec<Parcel>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn len(&self) -> usize {
        self.runs().len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs().is_empty()
    }

    pub(super) fn join(&self, runs: Vec<Vec<Parcel>>) {
        self.runs().extend(runs);
    }

    /// Everybody leaves.
    pub(super) fn clear(&self) -> Vec<Parcel> {
        std::mem::take(&mut *self.runs()).into_iter().flatten().collect()
    }

    /// Takes parcels out, wherever they stand. How many those were.
    pub(super) fn remove(&self, gone: impl Fn(&Parcel) -> bool) -> usize {
        let mut runs = self.runs();
        let before: usize = runs.iter().map(Vec::len).sum();
        runs.iter_mut().for_each(|run| run.retain(|parcel| !gone(parcel)));
        runs.retain(|run| !run.is_empty());
        before - runs.iter().map(Vec::len).sum::<usize>()
    }

    /// The next for a transport that takes one at a time: so many, or a fair share of what there is.
    fn handful(&self, lane: &Lane, parcels: usize) -> Vec<Vec<Parcel>> {
        let mut runs = self.runs();
        let share = runs.len().div_ceil(lane.options.concurrency.max(1));
        let (mut taken, mut count) = (Vec::new(), 0);
        while count < parcels.min(share) {
            let Some(run) = runs.pop_front() else { break };
            count += run.len();
            taken.push(run);
        }
        taken
    }

    /// The next for a transport that takes many at once. They have one transaction, and its completion one token.
    fn chunk(&self, lane: &Lane) -> Vec<Parcel> {
        let mut runs = self.runs();
        let mut taken: Vec<Parcel> = Vec::new();
        while let Some(run) = runs.front() {
            let token = |parcels: &[Parcel]| parcels.first().map(|parcel| parcel.lease.token);
            let fits = token(&taken) == token(run) && taken.len() + run.len() <= lane.at_once;
            if !taken.is_empty() && !fits {
                break;
            }
            taken.extend(runs.pop_front().into_iter().flatten());
        }
        taken
    }
}

/// Tries what stands in line, until there is something to tell. What its lease will not outlast is shed, and so is
/// everything once the relay stops. `pace`: how long one takes, in seconds, lately; 0: nobody knows.
pub(super) async fn deliver(
    shared: &Shared,
    lane: &Lane,
    transport: &dyn Transport,
    line: &Line,
    pace: f64,
) -> Portion {
    let started = Instant::now();
    let handful = if pace == 0.0 { 1 } else { (HANDFUL.as_secs_f64() / pace) as usize };
    let handful = handful.clamp(1, PORTION_PARCELS);
    let mut portion = Portion::default();
    while !portion.refused && portion.tried.len() < PORTION_PARCELS && started.elapsed() < PORTION {
        if lane.at_once > 1 {
            let parcels = line.chunk(lane);
            if parcels.is_empty() {
                break;
            }
            portion.refused = deliver_together(shared, lane, transport, parcels, &mut portion.tried).await;
            continue;
        }
        let runs = line.handful(lane, handful);
        if runs.is_empty() {
            break;
        }
        for run in runs {
            let mut broken = portion.refused.then_some(Broken::NotTried);
            for parcel in run {
                if let Some(broken) = &broken {
                    let Parcel { id, attempt, envelope, lease, .. } = parcel;
                    portion.tried.push((lease.token, Tried { id, attempt, envelope, how: broken.rest() }));
                    continue;
                }
                portion.refused |= deliver_together(shared, lane, transport, [parcel], &mut portion.tried).await;
                broken = portion.tried.last().and_then(|(_, tried)| Broken::of(&tried.how));
            }
        }
    }
    portion.took = started.elapsed();
    portion
}

/// Why the rest of a run is not tried.
pub(super) enum Broken {
    /// Its failure releases the rest.
    Failed,
    /// The rest is given back.
    NotTried,
}

impl Broken {
    pub(super) fn of(how: &How) -> Option<Self> {
        match how {
            How::Delivered(Delivered::Failed(_)) | How::Exhausted | How::Behind => Some(Self::Failed),
            How::Delivered(Delivered::NotTried | Delivered::LeaseLost) | How::Expired => Some(Self::NotTried),
            How::Delivered(Delivered::Completed | Delivered::Done | Delivered::Duplicate) => None,
        }
    }

    /// What becomes of the rest.
    pub(super) fn rest(&self) -> How {
        match self {
            Self::Failed => How::Behind,
            Self::NotTried => How::Delivered(Delivered::NotTried),
        }
    }
}

/// Tries what goes together. True: the transport was asked, and tried nothing of it.
async fn deliver_together<P>(
    shared: &Shared,
    lane: &Lane,
    transport: &dyn Transport,
    parcels: P,
    all: &mut Vec<(Token, Tried)>,
) -> bool
where
    P: AsRef<[Parcel]> + IntoIterator<Item = Parcel>,
{
    let together = parcels.as_ref();
    // A tenth of the lease is kept in hand: a try that begins must be able to end.
    let spare = shared.options.lease / 10;
    let shed = together.iter().any(|parcel| parcel.lease.remaining() < spare);
    let mut refused = false;
    let delivered = match shed || shared.stop.is_cancelled() {
        true => {
            if shed {
                observe::shed(together.len());
            }
            Vec::new()
        }
        false => {
            // Consumers are guarded each by itself; this is for transports.
            let spans: Vec<_> = together
                .iter()
                .map(|parcel| observe::delivering(&lane.name, parcel.attempt, &parcel.envelope))
                .collect();
            let delivering = AssertUnwindSafe(transport.deliver(lane, together)).catch_unwind();
            let delivered = delivering.await.unwrap_or_else(|_| {
                vec![Delivered::Failed(Failure::retry("the transport panicked").code("panic")); together.len()]
            });
            debug_assert_eq!(together.len(), delivered.len(), "one answer per parcel");
            spans.iter().zip(&delivered).for_each(|(span, delivered)| observe::delivered(span, delivered));
            refused = delivered.iter().all(|delivered| *delivered == Delivered::NotTried);
            delivered
        }
    };
    let mut failed_keys: Vec<String> = Vec::new();
    // A transport that answers for too few has not tried the others, as far as anybody knows.
    let delivered = delivered.into_iter().chain(std::iter::repeat(Delivered::NotTried));
    for (Parcel { id, attempt, envelope, lease, .. }, delivered) in parcels.into_iter().zip(delivered) {
        let behind = envelope.key.as_ref().is_some_and(|key| failed_keys.contains(key));
        match &delivered {
            Delivered::Failed(_) => failed_keys.extend(envelope.key.clone()),
            Delivered::Completed | Delivered::Done => tracing::info!(
                lane = %lane.name, event_id = %envelope.event_id, topic = %envelope.topic,
                trace_id = envelope.trace_id.as_deref(), attempt, "{}", observe::PUBLISHED
            ),
            _ => {}
        }
        let how = match delivered {
            Delivered::NotTried if behind => How::Behind,
            delivered => How::Delivered(delivered),
        };
        all.push((lease.token, Tried { id, attempt, envelope, how }));
    }
    refused
}
