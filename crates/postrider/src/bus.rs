//! The bus: events of callers without a transaction, such as those over HTTP. By default an event of a topic without a
//! subscription is not stored, and the result says so.

use std::collections::HashMap;
use std::sync::Arc;

use crate::clock::{Clock, SystemClock};
use crate::envelope::trace::TraceContext;
use crate::error::Result;
use crate::event::EventId;
use crate::observe;
use crate::outbox::{self, Draft, IntoDraft};
use crate::scope::Scope;
use crate::store::{Enqueued, IntoStore, NewEvent, Store, Unheard};

/// Writes events in transactions of its own, on any store.
///
/// ```
/// # async fn example(store: std::sync::Arc<dyn postrider::Store>) -> postrider::Result<()> {
/// use postrider::{Bus, Draft, Enqueued};
///
/// let bus = Bus::new(store);
/// let paid = bus.prepare(Draft::json("order.paid", &serde_json::json!({"orderId": 7}))?)?;
/// if let [Enqueued::Skipped(id)] = &bus.publish(&[paid]).await?[..] {
///     println!("order.paid has no subscription: {id} is not stored");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Bus {
    store: Arc<dyn Store>,
    unheard: Unheard,
}

impl Bus {
    /// The bus on a store.
    pub fn new(store: impl IntoStore) -> Self {
        Self { store: store.into_store(), unheard: Unheard::Skip }
    }

    /// What happens to an event of a topic without an enabled subscription; [`Unheard::Skip`] by default.
    #[must_use]
    pub fn unheard(mut self, unheard: Unheard) -> Self {
        self.unheard = unheard;
        self
    }

    /// D.10: gives drafts that name a parent and no trace the trace of that parent, which may be in the same batch. A
    /// stored parent outside the scope is no parent. To be called before [`Bus::prepare`].
    #[doc(hidden)]
    pub async fn inherit_traces(&self, drafts: &mut [Draft], scope: &Scope) -> Result<()> {
        let at: HashMap<String, usize> =
            drafts.iter().enumerate().filter_map(|(n, one)| Some((one.id()?.to_owned(), n))).collect();
        for first in 0..drafts.len() {
            // From the child up, as long as parents are in this batch and have no trace.
            let mut chain = vec![first];
            let trace = loop {
                let Some(one) = chain.last().map(|n| &drafts[*n]) else { break None };
                match (one.named_trace(), one.parent_id()) {
                    (Some(trace), _) => break Some(trace),
                    (None, None) => break (chain.len() > 1).then(|| TraceContext::fresh().trace_id),
                    (None, Some(parent)) => match at.get(parent) {
                        Some(next) if chain.contains(next) => break Some(TraceContext::fresh().trace_id),
                        Some(next) => chain.push(*next),
                        None => break self.trace_of(parent, scope).await?,
                    },
                }
            };
            for (n, trace) in chain.into_iter().zip(std::iter::repeat(trace)) {
                drafts[n].continue_trace(trace);
            }
        }
        Ok(())
    }

    async fn trace_of(&self, event_id: &str, scope: &Scope) -> Result<Option<String>> {
        // A wrong id is refused when the event is prepared.
        let Ok(id) = EventId::new(event_id) else { return Ok(None) };
        let parent = self.store.find(id.as_str()).await?.filter(|found| scope.has_event(found));
        Ok(parent.and_then(|found| found.envelope.trace_id))
    }

    /// Completes an event or a draft with defaults, and checks every limit. Nothing is written yet.
    pub fn prepare(&self, event: impl IntoDraft) -> Result<NewEvent> {
        outbox::complete(event.into_draft()?, None, SystemClock.now())
    }

    /// Writes prepared events in one transaction: 1,000 at most. One result per event, in order; after an error nothing is
    /// written. An event of a topic without a subscription is [`Enqueued::Skipped`], and an error in the log, unless
    /// [`unheard`](Self::unheard) says otherwise.
    pub async fn publish(&self, batch: &[NewEvent]) -> Result<Vec<Enqueued>> {
        outbox::check_batch(batch)?;
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let enqueued = self.store.publish(batch, self.unheard).await;
        observe::published(batch, &enqueued);
        let enqueued = enqueued?;
        outbox::announce(self.store.wake(), batch, &enqueued);
        Ok(enqueued)
    }
}
