//! The tables, as maps. Their names and columns are those of the SQL schema.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use time::OffsetDateTime;

use super::access::{SessionRow, TokenRow};
use super::jobs::JobRow;
use crate::entry::{self, DeliveryStatus, Step};
use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::status::{Kept, Standing};
use crate::store::access::{AuditEnds, Sealed};
use crate::store::decide::Watched;
use crate::store::figure::Counted;
use crate::store::{
    Consumption, DeliveryId, Instance, LaneSettings, Operation, OperationItem, Routing, SecretText, StoredAlert,
    StoredPromise, Token, batch,
};
use crate::subscription::StoredSubscription;

/// All tables. A transaction works on a clone.
#[derive(Clone, Default)]
pub(super) struct State {
    /// By sequence.
    pub(super) events: BTreeMap<i64, EventRow>,
    pub(super) sequences: BTreeMap<String, i64>,
    pub(super) deliveries: BTreeMap<DeliveryId, DeliveryRow>,
    /// By event, lane and target, which are unique.
    pub(super) delivery_ids: BTreeMap<(i64, String, Option<String>), DeliveryId>,
    /// By event, consumer and attempt.
    pub(super) consumptions: BTreeMap<(i64, String, u32), ConsumptionRow>,
    /// By consumer and event id.
    pub(super) inbox: BTreeMap<(String, String), InboxRow>,
    /// By consumer and event id.
    pub(super) repeats: BTreeMap<(String, String), StoredRepeat>,
    /// By promise and half hour.
    pub(super) promises: BTreeMap<(String, i64), StoredPromise>,
    /// Consumers that the roll-up has seen expected, with the event.
    pub(super) expected: BTreeSet<(String, i64)>,
    /// By scope and key.
    pub(super) keys: BTreeMap<(String, String), KeyRow>,
    /// By topic and consumer.
    pub(super) subscriptions: BTreeMap<(String, String), StoredSubscription>,
    /// Of webhooks, by topic and consumer.
    pub(super) secrets: BTreeMap<(String, String), SecretRow>,
    /// By id.
    pub(super) instances: BTreeMap<String, Instance>,
    /// By kind and subject.
    pub(super) alerts: BTreeMap<(&'static str, Option<String>), StoredAlert>,
    pub(super) leases: BTreeMap<String, LeaseRow>,
    pub(super) paused: BTreeSet<String>,
    /// By name.
    pub(super) lanes: BTreeMap<String, LaneSettings>,
    pub(super) jobs: BTreeMap<String, JobRow>,
    /// By mark number: the event that has changed.
    pub(super) marks: BTreeMap<i64, i64>,
    /// By minute.
    pub(super) figures: BTreeMap<i64, Counted>,
    /// In order of creation.
    pub(super) operations: Vec<OperationRow>,
    /// By number of the operation and sequence of the event.
    pub(super) items: BTreeMap<(i64, i64), ItemRow>,
    pub(super) last_operation: i64,
    /// By event.
    pub(super) statuses: BTreeMap<i64, StatusRow>,
    /// In order of creation.
    pub(super) tokens: Vec<TokenRow>,
    /// By hash.
    pub(super) sessions: BTreeMap<String, SessionRow>,
    /// By number. Those at place 0 are not sealed yet.
    pub(super) audit: Vec<Sealed>,
    pub(super) audit_ends: AuditEnds,
    pub(super) last_audit: i64,
    /// Business tables for tests.
    pub(super) counters: BTreeMap<String, i64>,
    pub(super) log: Vec<(String, i64)>,
    last_sequence: i64,
    last_delivery: i64,
    last_mark: i64,
}

#[derive(Clone)]
pub(super) struct SecretRow {
    pub(super) secret: SecretText,
    pub(super) previous: Option<SecretText>,
    pub(super) changed_at: OffsetDateTime,
}

#[derive(Clone)]
pub(super) struct EventRow {
    /// Shared by the state and its copies, because it never changes.
    pub(super) envelope: Arc<Envelope>,
    pub(super) routing: Routing,
    pub(super) created_at: OffsetDateTime,
}

#[derive(Clone)]
pub(super) struct DeliveryRow {
    pub(super) event_seq: i64,
    pub(super) lane: String,
    pub(super) target: Option<String>,
    pub(super) key: Option<Arc<str>>,
    pub(super) shard: u8,
    pub(super) status: DeliveryStatus,
    pub(super) held: bool,
    /// Since when the later deliveries of its key go on without it.
    pub(super) skipped_at: Option<OffsetDateTime>,
    pub(super) attempts: u32,
    /// How many attempts the history had when a redrive set `attempts` to 0.
    pub(super) recorded_before: u32,
    pub(super) due_at: OffsetDateTime,
    pub(super) lock: Option<Lock>,
    pub(super) last_error: Option<String>,
}

#[derive(Clone)]
pub(super) struct Lock {
    pub(super) token: Token,
    pub(super) owner: String,
    pub(super) since: OffsetDateTime,
    pub(super) until: OffsetDateTime,
}

impl DeliveryRow {
    /// Takes a step of the state machine and updates the attempts.
    pub(super) fn step(&mut self, step: Step) -> Result<()> {
        let illegal = |illegal: entry::Illegal| Error::Store(illegal.into());
        let next = entry::step(self.status, step, self.attempts).map_err(illegal)?;
        self.status = next.unwrap_or(self.status);
        match step {
            Step::Claim => self.attempts += 1,
            Step::Release => self.attempts -= 1,
            Step::Redrive => self.attempts = 0,
            Step::Settle | Step::Retry | Step::Bury | Step::Expire | Step::Discard => {}
        }
        if self.status != DeliveryStatus::Processing {
            self.lock = None;
        }
        Ok(())
    }

    /// Whether the caller's claim is the last one, even if its lease has ended.
    pub(super) fn belongs_to(&self, token: Token) -> bool {
        self.lock.as_ref().is_some_and(|lock| lock.token == token)
    }

    /// Whether no unexpired lease exists.
    pub(super) fn is_free(&self, now: OffsetDateTime) -> bool {
        self.lock.as_ref().is_none_or(|lock| lock.until <= now)
    }

    /// Whether a claim would take it.
    pub(super) fn is_ready(&self, now: OffsetDateTime) -> bool {
        self.status != DeliveryStatus::Dead && self.due_at <= now && self.is_free(now)
    }

    /// Whether claims consider it.
    pub(super) fn is_in_sight(&self) -> bool {
        self.status != DeliveryStatus::Dead && !self.held
    }

    /// The consumer that its attempts belong to.
    pub(super) fn consumer(&self) -> &str {
        self.target.as_deref().unwrap_or(&self.lane)
    }
}

#[derive(Clone)]
pub(super) struct ConsumptionRow {
    pub(super) consumption: Consumption,
    pub(super) callback_id: Option<String>,
}

#[derive(Clone)]
pub(super) struct InboxRow {
    pub(super) received_at: OffsetDateTime,
    pub(super) idempotency_key: Option<String>,
    pub(super) result: Option<String>,
}

#[derive(Clone)]
pub(super) struct StoredRepeat {
    pub(super) repeats: u32,
    pub(super) repeated_at: OffsetDateTime,
}

#[derive(Clone)]
pub(super) struct KeyRow {
    pub(super) fingerprint: Vec<u8>,
    pub(super) status: KeyStatus,
    pub(super) token: Token,
    pub(super) until: OffsetDateTime,
    pub(super) updated_at: OffsetDateTime,
}

#[derive(Clone, PartialEq)]
pub(super) enum KeyStatus {
    Processing,
    Success(String),
    Failed(String),
}

#[derive(Clone)]
pub(super) struct OperationRow {
    pub(super) operation: Operation,
    pub(super) lease: Option<LeaseRow>,
    /// When a worker looks at it next.
    pub(super) look_at: Option<OffsetDateTime>,
}

#[derive(Clone)]
pub(super) struct ItemRow {
    pub(super) item: OperationItem,
    pub(super) watched: Option<Watched>,
}

#[derive(Clone, Default)]
pub(super) struct StatusRow {
    pub(super) kept: Kept,
    /// `None` if only the actions of people are known so far.
    pub(super) standing: Option<Standing>,
    pub(super) status_at: Option<OffsetDateTime>,
}

#[derive(Clone)]
pub(super) struct LeaseRow {
    pub(super) owner: String,
    pub(super) token: Token,
    pub(super) until: OffsetDateTime,
}

impl State {
    pub(super) fn next_sequence(&mut self) -> i64 {
        self.last_sequence += 1;
        self.last_sequence
    }

    /// A number that was never used before.
    pub(super) fn next_delivery(&mut self, sequence: i64) -> DeliveryId {
        self.last_delivery += 1;
        DeliveryId::new(sequence, self.last_delivery)
    }

    /// Appends with the next attempt number; the number in `consumption` is ignored.
    pub(super) fn append(&mut self, event_seq: i64, mut consumption: Consumption, callback_id: Option<String>) -> u32 {
        let consumer = consumption.consumer.clone();
        let attempt = self.last_attempt(event_seq, &consumer) + 1;
        consumption.attempt = attempt;
        let row = ConsumptionRow { consumption, callback_id };
        self.consumptions.insert((event_seq, consumer, attempt), row);
        self.mark(event_seq);
        attempt
    }

    /// The number of a consumer's last attempt; 0 if it has none.
    pub(super) fn last_attempt(&self, event_seq: i64, consumer: &str) -> u32 {
        let of_consumer = (event_seq, consumer.to_owned(), 0)..=(event_seq, consumer.to_owned(), u32::MAX);
        self.consumptions.range(of_consumer).next_back().map_or(0, |((_, _, attempt), _)| *attempt)
    }

    /// Marks an event whose status may have changed.
    pub(super) fn mark(&mut self, event_seq: i64) {
        self.last_mark += 1;
        self.marks.insert(self.last_mark, event_seq);
    }

    /// Moves every stored time back, except the times in envelopes.
    #[cfg(feature = "testing")]
    pub(super) fn age(&mut self, by: time::Duration) {
        for event in self.events.values_mut() {
            event.created_at -= by;
            let envelope = Arc::make_mut(&mut event.envelope);
            envelope.expire_at = envelope.expire_at.map(|at| at - by);
            envelope.deliver_at = envelope.deliver_at.map(|at| at - by);
        }
        for delivery in self.deliveries.values_mut() {
            delivery.due_at -= by;
            delivery.skipped_at = delivery.skipped_at.map(|at| at - by);
            if let Some(lock) = &mut delivery.lock {
                lock.since -= by;
                lock.until -= by;
            }
        }
        for row in self.consumptions.values_mut() {
            row.consumption.created_at -= by;
            row.consumption.consumed_at = row.consumption.consumed_at.map(|at| at - by);
        }
        self.inbox.values_mut().for_each(|row| row.received_at -= by);
        self.repeats.values_mut().for_each(|row| row.repeated_at -= by);
        self.promises.values_mut().for_each(|row| row.checked_at -= by);
        self.secrets.values_mut().for_each(|row| row.changed_at -= by);
        for row in self.keys.values_mut() {
            row.until -= by;
            row.updated_at -= by;
        }
        self.leases.values_mut().for_each(|row| row.until -= by);
        for row in self.instances.values_mut() {
            row.started_at -= by;
            row.seen_at -= by;
        }
        for row in self.alerts.values_mut() {
            row.since -= by;
            row.over_at = row.over_at.map(|at| at - by);
        }
        let minutes = by.whole_minutes();
        let aged = std::mem::take(&mut self.figures).into_iter().map(|(minute, row)| {
            let [_, created, sent, consumed, failed, dead] = row;
            (minute - minutes, [minute - minutes, created, sent, consumed, failed, dead])
        });
        self.figures = aged.collect();
        for row in &mut self.operations {
            row.operation.created_at -= by;
            row.operation.updated_at -= by;
            row.operation.finished_at = row.operation.finished_at.map(|at| at - by);
            row.operation.gate_since = row.operation.gate_since.map(|at| at - by);
            row.look_at = row.look_at.map(|at| at - by);
            row.lease.iter_mut().for_each(|lease| lease.until -= by);
        }
        for row in self.statuses.values_mut() {
            row.kept.redriven_at = row.kept.redriven_at.map(|at| at - by);
            row.kept.expired_at = row.kept.expired_at.map(|at| at - by);
            row.status_at = row.status_at.map(|at| at - by);
        }
        self.jobs.values_mut().for_each(|row| row.age(by));
        self.tokens.iter_mut().for_each(|row| row.age(by));
        self.sessions.values_mut().for_each(|row| row.age(by));
    }
}

/// A duration that can be added to any date, to the millisecond.
pub(super) fn span(duration: std::time::Duration) -> time::Duration {
    time::Duration::milliseconds(batch::millis(duration))
}
