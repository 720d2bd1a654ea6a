//! What was claimed, on its way to the transport. The tasks of a lane take from one line, a little at a time: nothing stands
//! behind something slow while somebody is free.

use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use smallvec::SmallVec;
use tokio::time::Instant;

use super::Shared;
use super::outcomes::{How, Tried};
use crate::consumer::Failure;
use crate::observe;
use crate::store::{DeliveryId, Token};
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

/// Deliveries of one key in order, or one without: nearly all are that, and need no memory of their own.
pub(super) type Run = SmallVec<[Parcel; 1]>;

/// What was claimed and not begun.
#[derive(Default)]
pub(super) struct Line(Mutex<VecDeque<Run>>);

impl Line {
    fn runs(&self) -> MutexGuard<'_, VecDeque<Run>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn len(&self) -> usize {
        self.runs().len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs().is_empty()
    }

    pub(super) fn join(&self, runs: Vec<Run>) {
        self.runs().extend(runs);
    }

    /// Everybody leaves.
    pub(super) fn clear(&self) -> Vec<Parcel> {
        std::mem::take(&mut *self.runs()).into_iter().flatten().collect()
    }

    /// Takes parcels out, wherever they stand.
    pub(super) fn remove(&self, gone: impl Fn(&Parcel) -> bool) -> Vec<DeliveryId> {
        let (mut runs, mut removed) = (self.runs(), Vec::new());
        for run in runs.iter_mut() {
            removed.extend(run.iter().filter(|parcel| gone(parcel)).map(|parcel| parcel.id));
            run.retain(|parcel| !gone(parcel));
        }
        runs.retain(|run| !run.is_empty());
        removed
    }

    /// The next, all of one claim, and how many of them the transport may have at a time: of what goes together as many as it
    /// takes; otherwise a handful, or a fair share of what there is. There no two are of one key, unless they are a run, which
    /// is offered one by one: what follows a failure must not be tried.
    fn take(&self, lane: &Lane, handful: usize) -> (Vec<Parcel>, usize) {
        let mut runs = self.runs();
        let together = lane.at_once > 1;
        let most = match together {
            true => lane.at_once,
            false => handful.min(runs.len().div_ceil(lane.options.concurrency.max(1))),
        };
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
    let handful = match pace == 0.0 || observe::wants_spans() {
        // Each try has a span to itself.
        true => 1,
        false => (HANDFUL.as_secs_f64() / pace) as usize,
    };
    let handful = handful.clamp(1, PORTION_PARCELS);
    let mut portion = Portion::default();
    while !portion.refused && portion.tried.len() < PORTION_PARCELS && started.elapsed() < PORTION {
        let (parcels, at_a_time) = line.take(lane, handful);
        if parcels.is_empty() {
            break;
        }
        deliver_taken(shared, lane, transport, parcels, at_a_time, &mut portion).await;
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

/// Tries what was taken from the line, so many at a time, or as few of them as the transport takes.
async fn deliver_taken(
    shared: &Shared,
    lane: &Lane,
    transport: &dyn Transport,
    parcels: Vec<Parcel>,
    at_a_time: usize,
    portion: &mut Portion,
) {
    let mut broken: HashMap<String, Broken> = HashMap::new();
    let mut parcels = parcels.into_iter();
    while let Some(first) = parcels.as_slice().first() {
        let offered = &parcels.as_slice()[..at_a_time.clamp(1, parcels.len())];
        let untried = portion.refused || first.envelope.key.as_ref().is_some_and(|key| broken.contains_key(key));
        let delivered = match untried {
            true => vec![Delivered::NotTried],
            false => offer(shared, lane, transport, offered, &mut portion.refused).await,
        };
        // As many as there are answers: with the others it is asked again.
        for (delivered, Parcel { id, attempt, envelope, lease, .. }) in delivered.into_iter().zip(parcels.by_ref()) {
            if matches!(delivered, Delivered::Completed | Delivered::Done) {
                tracing::info!(
                    lane = %lane.name, event_id = %envelope.event_id, topic = %envelope.topic,
                    trace_id = envelope.trace_id.as_deref(), attempt, "{}", observe::PUBLISHED
                );
            }
            let before = envelope.key.as_ref().and_then(|key| broken.get(key));
            let how = match (delivered, before) {
                (Delivered::NotTried, Some(broken)) => broken.rest(),
                (delivered, _) => How::Delivered(delivered),
            };
            if let (Some(key), Some(reason)) = (&envelope.key, Broken::of(&how)) {
                broken.entry(key.clone()).or_insert(reason);
            }
            portion.tried.push((lease.token, Tried { id, attempt, envelope, how }));
        }
    }
}

/// Offers parcels of one claim to the transport: an answer for the first, at least. `refused`: it tried nothing.
async fn offer(
    shared: &Shared,
    lane: &Lane,
    transport: &dyn Transport,
    offered: &[Parcel],
    refused: &mut bool,
) -> Vec<Delivered> {
    let nothing = vec![Delivered::NotTried; offered.len()];
    // A tenth of the lease is kept in hand: a try that begins must be able to end.
    let spare = shared.options.lease / 10;
    if offered.first().is_some_and(|parcel| parcel.lease.remaining() < spare) {
        observe::shed(offered.len());
        return nothing;
    }
    if shared.stop.is_cancelled() {
        return nothing;
    }
    let spans = observe::delivering_all(&lane.name, offered);
    // Consumers are guarded each by itself; this is for transports.
    let delivering = AssertUnwindSafe(transport.deliver(lane, offered)).catch_unwind();
    let mut delivered = delivering.await.unwrap_or_else(|_| {
        vec![Delivered::Failed(Failure::retry("the transport panicked").code("panic")); offered.len()]
    });
    spans.iter().zip(&delivered).for_each(|(span, delivered)| observe::delivered(span, delivered));
    delivered.truncate(offered.len());
    *refused = delivered.iter().all(|delivered| *delivered == Delivered::NotTried);
    match delivered.is_empty() {
        true => nothing,
        false => delivered,
    }
}
