//! The spans of deliveries that pulling consumers hold: from the claim to the settle. They are kept in memory, only while
//! spans are collected. A delivery that another instance settles ends its span with its lease.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postrider::entry::Outcome;
use postrider::envelope::Envelope;
use postrider::observe;
use postrider::store::{DeliveryId, Token};
use tokio::time::Instant;
use tracing::Span;

/// Open spans at most, some megabytes. Above it a span ends when its delivery is handed out.
const OPEN: usize = 10_000;

/// The open spans, and when their leases end.
#[derive(Default)]
pub(crate) struct HandedOut(Mutex<HashMap<(DeliveryId, Token), (Span, Instant)>>);

impl HandedOut {
    fn open(&self) -> MutexGuard<'_, HashMap<(DeliveryId, Token), (Span, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A consumer has claimed a delivery.
    pub(crate) fn begin(
        &self,
        id: DeliveryId,
        token: Token,
        lease: Duration,
        consumer: &str,
        attempt: u32,
        envelope: &Envelope,
    ) {
        if !observe::wants_spans() {
            return;
        }
        let span = observe::delivering(consumer, attempt, envelope);
        let (mut open, now) = (self.open(), Instant::now());
        if open.len() >= OPEN {
            end_expired(&mut open, now);
        }
        if open.len() < OPEN {
            open.insert((id, token), (span, now + lease));
        } else {
            span.record("postrider.outcome", "handedOut");
        }
    }

    /// The lease was extended.
    pub(crate) fn extend(&self, id: DeliveryId, token: Token, lease: Duration) {
        if let Some((_, until)) = self.open().get_mut(&(id, token)) {
            *until = Instant::now() + lease;
        }
    }

    /// The consumer has reported its outcome, or has given the delivery back.
    pub(crate) fn end(&self, id: DeliveryId, token: Token, outcome: &Outcome) {
        let ended = self.open().remove(&(id, token));
        if let Some((span, _)) = ended {
            observe::delivered(&span, outcome);
        }
    }

    /// Ends the spans whose lease has ended.
    pub(crate) fn end_expired(&self) {
        end_expired(&mut self.open(), Instant::now());
    }
}

fn end_expired(open: &mut HashMap<(DeliveryId, Token), (Span, Instant)>, now: Instant) {
    open.retain(|_, (span, until)| {
        if *until < now {
            observe::delivered(span, &Outcome::LeaseLost);
        }
        *until >= now
    });
}
