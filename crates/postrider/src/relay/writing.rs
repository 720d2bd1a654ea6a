//! Results on their way to the store: gathered by claim, and written a batch at a time.
//!
//! Results of one claim are written one write after the other, and successes before failures: a failure releases the rest
//! of its key, which must not find a delivery in front of it whose settle is still queued here.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::RelayShared;
use crate::alert::Alarm;
use crate::consumer::{Cause, Failure};
use crate::entry::{Decision, Outcome};
use crate::envelope::Envelope;
use crate::error::Result;
use crate::observe::{self, LaneFigures};
use crate::store::{Buried, DeliveryId, Failed, History, Token};
use crate::transport::Lane;

/// How long a result may wait to be written together with the others of its claim. With a fifth of this, which is less
/// than a claim takes, a relay to the broker waited for the disk nearly twice as often.
const LINGER: Duration = Duration::from_millis(25);
/// Writes at the same time: one runs in the database while the other is on its way.
const CONCURRENT_WRITES: usize = 2;

/// A delivery, and how its try ended.
pub(super) struct Tried {
    pub(super) id: DeliveryId,
    pub(super) attempt: u32,
    pub(super) envelope: Arc<Envelope>,
    pub(super) outcome: Outcome,
}

/// The results of one lane that are not written yet.
#[derive(Default)]
pub(super) struct Writing {
    waiting: Results,
    /// The claims whose results are being written, one set for each write.
    under_way: Vec<HashSet<Token>>,
    under_way_results: usize,
}

/// A write that has ended.
pub(super) struct Written {
    tokens: HashSet<Token>,
    count: usize,
    /// Not written because the store did not answer: they are written when it does.
    left: Results,
    /// Whether a later delivery of some key may be free now.
    frees_keys: bool,
}

impl Writing {
    /// How many results are not written yet.
    pub(super) fn len(&self) -> usize {
        self.waiting.count + self.under_way_results
    }

    /// Decides what is written for a result, and queues it.
    pub(super) fn add(&mut self, lane: &Lane, figures: &LaneFigures, token: Token, tried: Tried) {
        observe_outcome(lane, figures, &tried);
        self.waiting.add(lane, token, tried);
    }

    /// The results to write now, if any. `whole`: whether a claim has nothing unfinished but its results, so that nothing
    /// will join them. `more_is_coming`: whether the lane still delivers.
    pub(super) fn take(&mut self, more_is_coming: bool, whole: impl Fn(Token) -> bool) -> Option<Results> {
        if self.waiting.count == 0 || self.under_way.len() >= CONCURRENT_WRITES {
            return None;
        }
        let under_way = &self.under_way;
        let results = self.waiting.take(|token, since| {
            (whole(token) || !more_is_coming || since.elapsed() >= LINGER) && !contains(under_way, token)
        });
        if results.count == 0 {
            return None;
        }
        self.under_way_results += results.count;
        self.under_way.push(results.tokens());
        Some(results)
    }

    /// Ends a write. Returns true if a later delivery of some key may be free now.
    pub(super) fn written(&mut self, written: Written) -> bool {
        self.under_way_results -= written.count;
        self.under_way.retain(|tokens| *tokens != written.tokens);
        self.waiting.join(written.left);
        written.frees_keys
    }

    /// How long until results have waited long enough. Returns `None` if a write has to end first, or there are none.
    pub(super) fn wait(&self) -> Option<Duration> {
        if self.under_way.len() >= CONCURRENT_WRITES {
            return None;
        }
        let waiting = self.waiting.by_claim.iter().filter(|(token, _)| !contains(&self.under_way, **token));
        waiting.map(|(_, claim)| LINGER.saturating_sub(claim.since.elapsed())).min()
    }
}

fn contains(under_way: &[HashSet<Token>], token: Token) -> bool {
    under_way.iter().any(|tokens| tokens.contains(&token))
}

/// Counts and logs how a try ended.
fn observe_outcome(lane: &Lane, figures: &LaneFigures, tried: &Tried) {
    match &tried.outcome {
        Outcome::Completed => {
            figures.sent(1);
            figures.consumed(&tried.envelope);
        }
        Outcome::Duplicate => {
            figures.sent(1);
            figures.idempotent();
        }
        // Sent is counted when it is settled.
        Outcome::Done => figures.consumed(&tried.envelope),
        Outcome::Failed(_) => figures.failed(),
        Outcome::LeaseLost => {
            observe::lease_lost(1);
            let event_id = &tried.envelope.event_id;
            tracing::warn!(consumer = %lane.name, %event_id, "the lease was lost: the effect was rolled back");
        }
        Outcome::NotTried | Outcome::Expired | Outcome::Exhausted | Outcome::Behind => {}
    }
}

/// Results by claim.
#[derive(Default)]
pub(super) struct Results {
    by_claim: HashMap<Token, ClaimResults>,
    count: usize,
}

/// Everything that is to be written under one token.
struct ClaimResults {
    /// Since when the first of them has waited.
    since: Instant,
    settle: Vec<DeliveryId>,
    expire: Vec<DeliveryId>,
    retry: Vec<Failed>,
    bury: Vec<(Buried, Alarm)>,
    release: Vec<DeliveryId>,
    /// Whether any of these has a key.
    keyed: bool,
}

impl Default for ClaimResults {
    fn default() -> Self {
        Self {
            since: Instant::now(),
            settle: Vec::new(),
            expire: Vec::new(),
            retry: Vec::new(),
            bury: Vec::new(),
            release: Vec::new(),
            keyed: false,
        }
    }
}

impl Results {
    fn add(&mut self, lane: &Lane, token: Token, tried: Tried) {
        let Tried { id, attempt, envelope, outcome } = tried;
        match lane.decide(&outcome, attempt, &envelope) {
            Decision::Nothing => {}
            Decision::Settle => self.of(token, &envelope).settle.push(id),
            Decision::Expire => self.of(token, &envelope).expire.push(id),
            Decision::Release => self.of(token, &envelope).release.push(id),
            Decision::Retry(after) => {
                let Cause { message: error, code } = cause(outcome, attempt);
                tracing::warn!(
                    consumer = %lane.name, event_id = %envelope.event_id, trace_id = envelope.trace_id.as_deref(),
                    request_id = envelope.request_id(), attempt, ?after, code, error, "failed, will be tried again"
                );
                self.of(token, &envelope).retry.push(Failed { id, after, error, code });
            }
            Decision::Bury => {
                // The claim that finds the attempts used up is no attempt itself.
                let tried = outcome != Outcome::Exhausted;
                let attempts = if tried { attempt } else { attempt.saturating_sub(1) };
                let Cause { message: error, code } = cause(outcome, attempts);
                let alarm = Alarm::Dead {
                    event_id: envelope.event_id.to_string(),
                    topic: envelope.topic.clone(),
                    trace_id: envelope.trace_id.clone(),
                    request_id: envelope.request_id().map(Into::into),
                    key: envelope.key.clone(),
                    lane: lane.name.to_string(),
                    attempts,
                    error: error.clone(),
                    code: code.clone(),
                    held: None,
                };
                self.of(token, &envelope).bury.push((Buried { id, tried, error, code }, alarm));
            }
        }
    }

    /// The results of one claim, which get one more.
    fn of(&mut self, token: Token, envelope: &Envelope) -> &mut ClaimResults {
        self.count += 1;
        let results = self.by_claim.entry(token).or_default();
        results.keyed |= envelope.key.is_some();
        results
    }

    fn tokens(&self) -> HashSet<Token> {
        self.by_claim.keys().copied().collect()
    }

    /// Takes the results of the claims that are to be written now.
    fn take(&mut self, now: impl Fn(Token, Instant) -> bool) -> Self {
        let by_claim: HashMap<_, _> = self.by_claim.extract_if(|token, results| now(*token, results.since)).collect();
        let count = by_claim.values().map(ClaimResults::len).sum();
        self.count -= count;
        Self { by_claim, count }
    }

    /// Adds results that could not be written.
    fn join(&mut self, left: Self) {
        self.count += left.count;
        for (token, mut left) in left.by_claim {
            let results = self.by_claim.entry(token).or_default();
            results.keyed |= left.keyed;
            results.settle.append(&mut left.settle);
            results.expire.append(&mut left.expire);
            results.retry.append(&mut left.retry);
            results.bury.append(&mut left.bury);
            results.release.append(&mut left.release);
        }
    }

    /// Writes everything. An outage of the store keeps what is left; other errors leave it to its lease.
    pub(super) async fn write(self, shared: &RelayShared, figures: &LaneFigures, history: History) -> Written {
        let (tokens, count) = (self.tokens(), self.count);
        let mut written = Written { tokens, count, left: Results::default(), frees_keys: false };
        for (token, mut results) in self.by_claim {
            written.frees_keys |= results.keyed;
            let Err(error) = results.write(shared, figures, token, history).await else { continue };
            let deliveries = results.len();
            if shared.health.note(&error) {
                written.left.count += deliveries;
                written.left.by_claim.insert(token, results);
            } else {
                let error = Failure::from(error);
                tracing::error!(%error, deliveries, "the store refused results: the deliveries are left to their lease");
            }
        }
        written
    }
}

/// What is kept with the attempt.
fn cause(outcome: Outcome, attempts: u32) -> Cause {
    match outcome {
        Outcome::Failed(failure) => failure.into_cause(),
        _ => Cause {
            message: format!(
                "given up after {attempts} attempts: the lease of the last one ran out, so it may have been delivered"
            ),
            code: Some("exhausted".into()),
        },
    }
}

impl ClaimResults {
    fn len(&self) -> usize {
        self.settle.len() + self.expire.len() + self.retry.len() + self.bury.len() + self.release.len()
    }

    /// Each kind is one statement, and is removed from here once it is written.
    async fn write(
        &mut self,
        shared: &RelayShared,
        figures: &LaneFigures,
        token: Token,
        history: History,
    ) -> Result<()> {
        let store = &*shared.store;
        if !self.settle.is_empty() {
            let settled = store.settle(token, &self.settle, history).await?.len();
            figures.sent(settled);
            note_lost(self.settle.len(), settled);
            self.settle.clear();
        }
        if !self.expire.is_empty() {
            let expired = store.settle(token, &self.expire, History::Omit).await?.len();
            note_lost(self.expire.len(), expired);
            self.expire.clear();
        }
        if !self.retry.is_empty() {
            let retried = store.retry(token, &self.retry, history).await?.len();
            note_lost(self.retry.len(), retried);
            self.retry.clear();
            shared.look.notify_one();
        }
        if !self.bury.is_empty() {
            let burials: Vec<_> = self.bury.iter().map(|(buried, _)| buried.clone()).collect();
            let buried = store.bury(token, &burials, history).await?;
            note_lost(self.bury.len(), buried.len());
            for (dead, mut alarm) in self.bury.drain(..).filter(|(dead, _)| buried.contains(&dead.id)) {
                figures.dead();
                alarm.count_held(store, dead.id).await;
                shared.alarm(alarm);
            }
        }
        if !self.release.is_empty() {
            let released = store.release(token, &self.release).await?.len();
            note_lost(self.release.len(), released);
            self.release.clear();
        }
        Ok(())
    }
}

/// Of `asked` deliveries that were to be written, the claim still held `written`.
fn note_lost(asked: usize, written: usize) {
    if written < asked {
        let deliveries = asked - written;
        observe::lease_lost(deliveries);
        tracing::warn!(deliveries, "results came after the lease was lost: the new holder decides");
    }
}
