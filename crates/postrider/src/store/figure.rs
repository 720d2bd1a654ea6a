//! Figures for charts, and holders of leases.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use time::OffsetDateTime;

use super::{Delivery, DeliveryId};
use crate::alert::SnapshotHolder;
use crate::entry::DeliveryStatus;
use crate::error::Result;
use crate::status::{EventStatus, Record, Standing};

/// Counts, ages and holders: what operators and metrics read.
#[async_trait]
pub trait Figures: Send + Sync {
    /// How many deliveries are in which state, by lane.
    async fn counts(&self) -> Result<BTreeMap<String, LaneCounts>>;

    /// What happened per minute, from one time to another, as far as the roll-up has folded it. Minutes without events are
    /// left out.
    async fn figures(&self, from: OffsetDateTime, to: OffsetDateTime) -> Result<Vec<Minute>>;

    /// Current holders: leased deliveries by lane, named leases, running jobs, bulk operations.
    async fn holdings(&self) -> Result<Vec<Holding>>;

    /// For each lane, how long its oldest due delivery has waited; `None` if none is due.
    async fn oldest_due(&self, lanes: &[&str]) -> Result<Vec<Option<Duration>>>;

    /// How long the oldest due delivery of all lanes has waited; `None` if none is due.
    async fn oldest_pending(&self) -> Result<Option<Duration>>;

    /// Dead deliveries of a lane, at most `limit`, those that were due last first.
    async fn dead_letters(&self, lane: &str, limit: u32) -> Result<Vec<DeadLetter>>;

    /// Those of the deliveries that are dead.
    async fn find_dead(&self, deliveries: &[DeliveryId]) -> Result<Vec<DeadLetter>>;

    /// Sessions that have kept a snapshot open for longer than `older_than`, on a database where that slows claims.
    async fn snapshot_holders(&self, _older_than: Duration) -> Result<Vec<SnapshotHolder>> {
        Ok(Vec::new())
    }
}

/// Number of deliveries of a lane by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LaneCounts {
    /// Never attempted.
    pub new: u64,
    /// Leased.
    pub processing: u64,
    /// Waiting for another attempt.
    pub failed: u64,
    /// Dead.
    pub dead: u64,
    /// Of the new and failed ones, those that wait behind a dead delivery of their key.
    pub held: u64,
}

/// A delivery that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The delivery.
    pub id: DeliveryId,
    /// The consumer, or the broker's lane.
    pub consumer: String,
    /// The event.
    pub event_id: String,
    /// Its topic.
    pub topic: String,
    /// Its key.
    pub key: Option<String>,
    /// Its trace.
    pub trace_id: Option<String>,
    /// The request that it came from.
    pub request_id: Option<String>,
    /// How often it was tried.
    pub attempts: u32,
    /// The last error.
    pub error: Option<String>,
    /// The code of the last error.
    pub code: Option<String>,
    /// When the last attempt ended; of a lane without history, when it was due.
    pub died_at: OffsetDateTime,
    /// How many later deliveries of its key and lane are not dead.
    pub held: u64,
}

/// The dead deliveries of these events. The caller counts those behind them.
pub(super) fn dead_letters(records: &[Record]) -> Vec<DeadLetter> {
    let dead_of = |record: &Record| {
        let dead = record.deliveries.iter().filter(|one| one.status == DeliveryStatus::Dead);
        let letter = |delivery: &Delivery| {
            let consumer = delivery.target.as_ref().unwrap_or(&delivery.lane);
            let last = record.consumptions.iter().rfind(|attempt| attempt.consumer == *consumer && attempt.attempt > 0);
            DeadLetter {
                id: delivery.id,
                consumer: consumer.clone(),
                event_id: record.envelope.event_id.to_string(),
                topic: record.envelope.topic.clone(),
                key: record.envelope.key.clone(),
                trace_id: record.envelope.trace_id.clone(),
                request_id: record.envelope.request_id().map(Into::into),
                attempts: delivery.attempts,
                error: delivery.last_error.clone(),
                code: last.and_then(|attempt| attempt.code.clone()),
                died_at: last.map_or(delivery.due_at, |attempt| attempt.created_at),
                held: 0,
            }
        };
        dead.map(letter).collect::<Vec<_>>()
    };
    records.iter().flat_map(dead_of).collect()
}

/// What happened to events in one minute, as the roll-up counted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Minute {
    /// The beginning of the minute.
    pub at: OffsetDateTime,
    /// Events stored.
    pub created: u64,
    /// Events sent for the first time.
    pub sent: u64,
    /// Events that all consumers have consumed.
    pub consumed: u64,
    /// Events that began to be retried.
    pub failed: u64,
    /// Events that are dead for at least one consumer.
    pub dead: u64,
}

/// A lease that an instance holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// The holder.
    pub owner: String,
    /// `lane`, `lease`, `job` or `operation`.
    pub kind: String,
    /// The name of the lane, lease, job or operation.
    pub name: String,
    /// How many deliveries, for a lane; 1 for the others.
    pub count: u64,
    /// When it ends, unless it is extended.
    pub until: OffsetDateTime,
}

/// Minute, created, sent, consumed, failed, dead.
pub(super) type Counted = [i64; 6];

/// Converts a stored row; its minute is counted from 1970.
pub(super) fn minute(row: Counted) -> Minute {
    let [minute, created, sent, consumed, failed, dead] = row;
    let at = OffsetDateTime::from_unix_timestamp(minute.saturating_mul(60)).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let count = i64::unsigned_abs;
    Minute {
        at,
        created: count(created),
        sent: count(sent),
        consumed: count(consumed),
        failed: count(failed),
        dead: count(dead),
    }
}

/// The minute of a time, counted from 1970.
pub(super) fn minute_of(at: OffsetDateTime) -> i64 {
    at.unix_timestamp().div_euclid(60)
}

/// The changes of events that were read before their new status is written. Each change counts once, in its minute.
pub(super) fn changes<'a>(records: impl IntoIterator<Item = (&'a Record, &'a Standing)>) -> Vec<Counted> {
    use EventStatus::{Consumed, Failed, Partial, Pending, Retrying};
    let mut minutes: BTreeMap<i64, Counted> = BTreeMap::new();
    let mut add = |at: OffsetDateTime, column: usize| {
        let minute = minute_of(at);
        minutes.entry(minute).or_insert([minute, 0, 0, 0, 0, 0])[column] += 1;
    };
    for (record, standing) in records {
        let (was, is) = (record.listed, standing.status);
        if was.is_none() {
            add(record.created_at, 1);
        }
        if let (None | Some(Pending), Some(at)) = (was, standing.sent_at) {
            add(at, 2);
        }
        let is_dead = |status| matches!(status, Failed | Partial);
        match is {
            Consumed if was != Some(Consumed) => add(standing.updated_at, 3),
            Retrying if was != Some(Retrying) => add(standing.updated_at, 4),
            Failed | Partial if !was.is_some_and(is_dead) => add(standing.updated_at, 5),
            _ => {}
        }
    }
    minutes.into_values().collect()
}
