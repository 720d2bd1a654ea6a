//! From a message to its acknowledgement: the consumer is called through the inbox, and the message is acknowledged, moved
//! to a retry queue, or moved to the dead queue.

use std::collections::BTreeSet;
use std::sync::Arc;

use lapin::options::BasicAckOptions;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::message::Message;
use super::publisher::{Letter, Properties};
use super::receipts;
use super::receiver::ReceiverShared;
use super::topology;
use crate::alert::Alarm;
use crate::clock::{Clock, SystemClock};
use crate::consumer::Failure;
use crate::entry::Decision;
use crate::envelope::Envelope;
use crate::inbox::Try;
use crate::observe::LaneFigures;
use crate::retry;
use crate::store::{Enlist, Report};
use crate::transport::{Lane, Outcome};

/// After this many deliveries without an answer, a message counts as the cause of the crashes.
const MAX_UNANSWERED: i64 = 20;

/// The context of one task.
pub(super) struct HandleMessages<S: Enlist> {
    pub(super) shared: Arc<ReceiverShared<S>>,
    pub(super) lane: Arc<Lane>,
    pub(super) delays: Arc<BTreeSet<u64>>,
    pub(super) figures: Arc<LaneFigures>,
    /// Cancelled when the channel is gone that delivered the messages.
    pub(super) session: CancellationToken,
}

impl<S: Enlist> HandleMessages<S> {
    pub(super) async fn handle(&self, batch: Vec<Message>) {
        let mut events = Vec::with_capacity(batch.len());
        for message in batch {
            match self.before(&message) {
                Ok(envelope) => events.push((message, envelope)),
                Err(Outcome::Failed(failure)) => self.dead(&message, &failure, message.attempt() - 1).await,
                Err(_) => self.answer(&message).await,
            }
        }
        let mut refusals = 0;
        while !events.is_empty() {
            let tries: Vec<_> = events
                .iter()
                .map(|(message, envelope)| Try::of_message(&self.lane, Arc::clone(envelope), message.attempt()))
                .collect();
            let outcomes = self.shared.inbox.consume(&self.lane, tries.into_iter()).await;
            // What was not tried is tried again: a batch of several topics is consumed topic by topic, the database may be
            // unreachable, or an earlier message of the same key failed and has now left for its retry queue.
            let outcomes = outcomes.into_iter().chain(std::iter::repeat(Outcome::NotTried));
            let mut left = Vec::new();
            let before = events.len();
            for ((message, envelope), outcome) in events.into_iter().zip(outcomes) {
                match outcome {
                    Outcome::NotTried | Outcome::Behind | Outcome::LeaseLost => left.push((message, envelope)),
                    outcome => self.note(&message, &envelope, outcome).await,
                }
            }
            refusals = if left.len() < before { 0 } else { refusals + 1 };
            events = left;
            if refusals > 0 {
                tokio::select! {
                    // Without an acknowledgement they go back to the queue.
                    () = self.shared.stop.cancelled() => return,
                    () = tokio::time::sleep(retry::pause(refusals)) => {}
                }
            }
        }
    }

    /// The event to handle, or the outcome without a try: it failed for good, or is past its expiry.
    fn before(&self, message: &Message) -> Result<Arc<Envelope>, Outcome> {
        let envelope = message.envelope.as_ref().map_err(|failure| Outcome::Failed(failure.clone()))?;
        let unanswered = message.unanswered_deliveries();
        if unanswered >= MAX_UNANSWERED {
            let why = format!("given up: it was handed out {unanswered} times without an answer");
            return Err(Outcome::Failed(Failure::reject(why).code("exhausted")));
        }
        if envelope.expire_at.is_some_and(|expiry| expiry <= SystemClock.now()) {
            return Err(Outcome::Expired);
        }
        Ok(Arc::clone(envelope))
    }

    /// Moves a message to where its outcome leads, reports it, and acknowledges it.
    async fn note(&self, message: &Message, envelope: &Envelope, outcome: Outcome) {
        let attempt = message.attempt();
        let decision = self.lane.decide(&outcome, attempt, envelope);
        let failure = match outcome {
            Outcome::Failed(failure) => failure,
            Outcome::Duplicate => {
                self.figures.idempotent();
                return self.succeeded(message, envelope).await;
            }
            _ => {
                self.figures.consumed(envelope);
                return self.succeeded(message, envelope).await;
            }
        };
        self.figures.failed();
        let Decision::Retry(after) = decision else { return self.dead(message, &failure, attempt).await };
        let after = topology::delay_for(&self.delays, after);
        tracing::warn!(
            consumer = %self.lane.name, event_id = %envelope.event_id, trace_id = envelope.trace_id.as_deref(),
            request_id = envelope.request_id(), attempt, after_seconds = after, code = failure.cause().code, error = %failure, "failed, will be tried again"
        );
        let queue = topology::retry_queue(&self.lane.name, after);
        if self.move_to(&queue, message, &failure, attempt).await && self.report(envelope, Some((&failure, true))).await
        {
            self.answer(message).await;
        }
    }

    async fn succeeded(&self, message: &Message, envelope: &Envelope) {
        if self.report(envelope, None).await {
            self.answer(message).await;
        }
    }

    /// Moves a message to the dead queue, raises an alarm and acknowledges it.
    async fn dead(&self, message: &Message, failure: &Failure, attempts: u32) {
        if !self.move_to(&topology::dead_queue(&self.lane.name), message, failure, attempts).await {
            return;
        }
        self.figures.dead();
        let id = message.delivery.properties.message_id().as_ref().map(ToString::to_string);
        let envelope = message.envelope.as_ref().ok();
        let alarm = Alarm::Dead {
            event_id: envelope.map(|e| e.event_id.to_string()).or(id).unwrap_or_default(),
            topic: envelope.map(|e| e.topic.clone()).unwrap_or_default(),
            trace_id: envelope.and_then(|e| e.trace_id.clone()),
            request_id: envelope.and_then(|e| e.request_id()).map(Into::into),
            key: message.key().map(str::to_owned),
            lane: self.lane.name.to_string(),
            attempts,
            error: failure.to_string(),
            code: failure.cause().code.clone(),
            held: None,
        };
        alarm.log();
        alarm.send(&self.shared.alerts).await;
        let reported = match envelope {
            Some(envelope) => self.report(envelope, Some((failure, false))).await,
            None => true,
        };
        if reported {
            self.answer(message).await;
        }
    }

    /// Publishes the message to another queue of its consumer. Returns false if it was not confirmed, so that it must
    /// not be acknowledged here.
    async fn move_to(&self, queue: &str, message: &Message, failure: &Failure, attempts: u32) -> bool {
        let letter = Letter {
            exchange: topology::TO_QUEUE,
            routing_key: queue,
            body: &message.delivery.data,
            properties: Properties::Given(&message.after(failure, attempts)),
        };
        self.send(letter).await
    }

    /// Sends a receipt, if they are enabled. Returns false if it may not have arrived.
    async fn report(&self, envelope: &Envelope, failure: Option<(&Failure, bool)>) -> bool {
        if !self.shared.options.receipts {
            return true;
        }
        let cause = failure.map(|(failure, _)| failure.cause());
        let report = Report {
            event_id: envelope.event_id.to_string(),
            consumer: self.lane.name.to_string(),
            success: failure.is_none(),
            will_retry: failure.is_some_and(|(_, will_retry)| will_retry),
            error: cause.map(|cause| cause.message.clone()),
            code: cause.and_then(|cause| cause.code.clone()),
            // All reports of a success are one; each failure is another.
            callback_id: Some(failure.map_or_else(|| "success".into(), |_| Uuid::new_v4().to_string())),
            consumed_at: Some(SystemClock.now()),
        };
        let body = receipts::body(&report);
        self.send(Letter {
            exchange: topology::TO_QUEUE,
            routing_key: topology::RECEIPTS,
            body: &body,
            properties: Properties::Given(&receipts::properties()),
        })
        .await
    }

    /// Sends until it is confirmed, or until the receiver stops.
    async fn send(&self, letter: Letter<'_>) -> bool {
        let mut failures = 0;
        loop {
            match self.shared.publisher.publish(vec![letter]).await.pop() {
                Some(Outcome::Done) => return true,
                Some(Outcome::Failed(failure)) => {
                    tracing::error!(queue = letter.routing_key, error = %failure, "a message cannot be moved");
                }
                _ => {}
            }
            failures += 1;
            tokio::select! {
                () = self.shared.stop.cancelled() => return false,
                () = tokio::time::sleep(retry::pause(failures)) => {}
            }
        }
    }

    /// Acknowledges the message. If that does not arrive, the message comes again.
    async fn answer(&self, message: &Message) {
        tokio::select! {
            () = self.session.cancelled() => {}
            answered = message.delivery.acker.ack(BasicAckOptions::default()) => {
                if let Err(error) = answered {
                    tracing::debug!(%error, "an acknowledgement did not arrive");
                }
            }
        }
    }
}
