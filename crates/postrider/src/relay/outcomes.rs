//! What became of deliveries, gathered by claim until it is written down, a batch at a time.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::time::Instant;

use super::Shared;
use crate::alert::Alarm;
use crate::consumer::Failure;
use crate::entry::Decision;
use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::observe::{self, LaneFigures};
use crate::store::{Buried, DeliveryId, Failed, History, Token};
use crate::transport::{Delivered, Lane};

/// A delivery that was tried, or not, as the lane remembers it.
pub(super) struct Tried {
    pub(super) id: DeliveryId,
    pub(super) attempt: u32,
    pub(super) envelope: Arc<Envelope>,
    pub(super) how: How,
}

/// How it went.
pub(super) enum How {
    Delivered(Delivered),
    /// Past its expiry: it goes without a try.
    Expired,
    /// Its attempts were used up by workers that died.
    Exhausted,
    /// Behind one of its key that failed: released together with that.
    Behind,
}

/// Everything that is to be written under one token.
struct Ledger {
    /// Since when the first of it has waited.
    since: Instant,
    settle: Vec<DeliveryId>,
    expire: Vec<DeliveryId>,
    retry: Vec<Failed>,
    bury: Vec<(Buried, Alarm)>,
    release: Vec<DeliveryId>,
    /// Whether any of these has a key.
    keyed: bool,
}

impl Default for Ledger {
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

/// What waits to be written.
#[derive(Default)]
pub(super) struct Outcomes {
    ledgers: HashMap<Token, Ledger>,
    count: usize,
}

/// What writing came to.
#[derive(Default)]
pub(super) struct Written {
    /// Could not be written while the store is away; to be written when it is back.
    pub(super) left: Outcomes,
    /// Whether any of them may have let a later one of its key go.
    pub(super) freed: bool,
}

impl Outcomes {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Takes note of one.
    pub(super) fn add(&mut self, lane: &Lane, figures: &LaneFigures, token: Token, tried: Tried) {
        let Tried { id, attempt, envelope, how } = tried;
        let delivered = match how {
            // It goes with the one in front.
            How::Behind => return,
            How::Expired => return self.ledger(token, &envelope).expire.push(id),
            How::Exhausted => {
                let error = format!("given up: its worker died in each of {} attempts", attempt.saturating_sub(1));
                let (attempts, code) = (attempt.saturating_sub(1), Some("exhausted".into()));
                return self.bury(lane, token, id, attempts, &envelope, false, error, code);
            }
            How::Delivered(delivered) => delivered,
        };
        match delivered {
            Delivered::Completed => {
                figures.sent(1);
                figures.consumed(&envelope);
            }
            Delivered::LeaseLost => {
                observe::lease_lost(1);
                tracing::warn!(consumer = %lane.name, event_id = %envelope.event_id, "the lease was lost: its effect was taken back");
            }
            Delivered::Duplicate => {
                figures.sent(1);
                figures.idempotent();
            }
            Delivered::Done => {
                figures.consumed(&envelope);
                self.ledger(token, &envelope).settle.push(id);
            }
            Delivered::NotTried => self.ledger(token, &envelope).release.push(id),
            Delivered::Failed(failure) => {
                figures.failed();
                self.failed(lane, token, id, attempt, &envelope, &failure);
            }
        }
    }

    fn failed(
        &mut self,
        lane: &Lane,
        token: Token,
        id: DeliveryId,
        attempt: u32,
        envelope: &Envelope,
        failure: &Failure,
    ) {
        let cause = failure.cause();
        let (error, code) = (cause.message.clone(), cause.code.clone());
        match lane.after(failure, attempt, envelope) {
            Decision::Retry(after) => {
                tracing::warn!(
                    consumer = %lane.name, event_id = %envelope.event_id, trace_id = envelope.trace_id.as_deref(),
                    attempt, ?after, code, error, "failed, will be tried again"
                );
                self.ledger(token, envelope).retry.push(Failed { id, after, error, code });
            }
            // Nothing else follows from a failure.
            Decision::Bury | Decision::Settle | Decision::Release => {
                self.bury(lane, token, id, attempt, envelope, true, error, code);
            }
        }
    }

    #[allow(clippy::too_many_arguments, reason = "all of it goes into one row and one alarm")]
    fn bury(
        &mut self,
        lane: &Lane,
        token: Token,
        id: DeliveryId,
        attempts: u32,
        envelope: &Envelope,
        tried: bool,
        error: String,
        code: Option<String>,
    ) {
        let alarm = Alarm::Dead {
            event_id: envelope.event_id.to_string(),
            topic: envelope.topic.clone(),
            lane: lane.name.to_string(),
            attempts,
            error: error.clone(),
        };
        self.ledger(token, envelope).bury.push((Buried { id, tried, error, code }, alarm));
    }

    /// The claims that these are results of.
    pub(super) fn tokens(&self) -> HashSet<Token> {
        self.ledgers.keys().copied().collect()
    }

    /// The claims that these are results of, and since when the first of each has waited.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (Token, Instant)> {
        self.ledgers.iter().map(|(token, ledger)| (*token, ledger.since))
    }

    /// Takes the results of those claims that are to be written now.
    pub(super) fn take(&mut self, now: impl Fn(Token, Instant) -> bool) -> Self {
        let ledgers: HashMap<_, _> = self.ledgers.extract_if(|token, ledger| now(*token, ledger.since)).collect();
        let count = ledgers.values().map(Ledger::len).sum();
        self.count -= count;
        Self { ledgers, count }
    }

    /// Adds what could not be written to what is to be written next.
    pub(super) fn join(&mut self, left: Self) {
        self.count += left.count;
        for (token, mut ledger) in left.ledgers {
            let mine = self.ledgers.entry(token).or_default();
            mine.keyed |= ledger.keyed;
            mine.settle.append(&mut ledger.settle);
            mine.expire.append(&mut ledger.expire);
            mine.retry.append(&mut ledger.retry);
            mine.bury.append(&mut ledger.bury);
            mine.release.append(&mut ledger.release);
        }
    }

    fn ledger(&mut self, token: Token, envelope: &Envelope) -> &mut Ledger {
        self.count += 1;
        let ledger = self.ledgers.entry(token).or_default();
        ledger.keyed |= envelope.key.is_some();
        ledger
    }

    /// Writes everything down. What is done goes first: what failed frees the rest of its run, which must find
    /// nothing before it that is only waiting for our pen.
    pub(super) async fn write(self, shared: &Shared, figures: &LaneFigures, history: History) -> Written {
        let mut written = Written::default();
        for (token, mut ledger) in self.ledgers {
            if let Err(error) = ledger.write(shared, figures, token, history, &mut written).await {
                let rest = ledger.len();
                match shared.health.note(&error) {
                    true => {
                        written.left.count += rest;
                        written.left.ledgers.insert(token, ledger);
                    }
                    false => {
                        let error = Failure::from(error);
                        tracing::error!(%error, deliveries = rest, "results were refused by the store: left to their lease");
                    }
                }
            }
        }
        written
    }
}

impl Ledger {
    fn len(&self) -> usize {
        self.settle.len() + self.expire.len() + self.retry.len() + self.bury.len() + self.release.len()
    }

    /// Each kind is one statement, and is forgotten once it is written.
    async fn write(
        &mut self,
        shared: &Shared,
        figures: &LaneFigures,
        token: Token,
        history: History,
        written: &mut Written,
    ) -> Result<(), Error> {
        let store = &*shared.store;
        written.freed |= self.keyed;
        if !self.settle.is_empty() {
            let settled = store.settle(token, &self.settle, history).await?.len();
            figures.sent(settled);
            note(self.settle.len(), settled);
            self.settle.clear();
        }
        if !self.expire.is_empty() {
            let expired = store.settle(token, &self.expire, History::Omit).await?.len();
            note(self.expire.len(), expired);
            self.expire.clear();
        }
        if !self.retry.is_empty() {
            let retried = store.retry(token, &self.retry, history).await?.len();
            note(self.retry.len(), retried);
            self.retry.clear();
            shared.look.notify_one();
        }
        if !self.bury.is_empty() {
            let burials: Vec<_> = self.bury.iter().map(|(buried, _)| buried.clone()).collect();
            let buried = store.bury(token, &burials, history).await?;
            note(self.bury.len(), buried.len());
            for (_, alarm) in self.bury.drain(..).filter(|(dead, _)| buried.contains(&dead.id)) {
                figures.dead();
                shared.alarm(alarm);
            }
        }
        if !self.release.is_empty() {
            let released = store.release(token, &self.release).await?.len();
            note(self.release.len(), released);
            self.release.clear();
        }
        Ok(())
    }
}

/// `asked` were to be written, `counted` were still ours.
fn note(asked: usize, counted: usize) {
    if counted < asked {
        observe::lease_lost(asked - counted);
        tracing::warn!(deliveries = asked - counted, "results came after the lease was lost: somebody else decides");
    }
}
