//! The format of batches for SQL stores: one JSON parameter, whose names are the columns of the statement that reads
//! it, and one answer per event.

use serde::Serialize;

use std::collections::{HashMap, HashSet};

use super::decide::{DueDelivery, ExpectedConsumer};
use super::{Buried, Enqueued, Failed, NewEvent, Unheard};
use crate::envelope::{Encoding, Envelope};
use crate::error::{Error, Result};
use crate::limits;
use time::OffsetDateTime;

#[derive(Serialize)]
struct EventRow<'a> {
    event_id: &'a str,
    topic: &'a str,
    event_key: Option<&'a str>,
    payload: &'a str,
    payload_type: &'a str,
    payload_encoding: Option<&'static str>,
    trace_id: Option<&'a str>,
    span_id: Option<&'a str>,
    parent_event_id: Option<&'a str>,
    aggregate_type: Option<&'a str>,
    aggregate_id: Option<&'a str>,
    tenant_id: Option<&'a str>,
    store_id: Option<&'a str>,
    initiator: String,
    metadata: Option<&'a str>,
    occurred_ms: i64,
    expire_ms: Option<i64>,
    expire_in_ms: Option<i64>,
    deliver_ms: Option<i64>,
    deliver_in_ms: Option<i64>,
    max_attempts: Option<u32>,
    exchange: Option<&'a str>,
    routing_key: Option<&'a str>,
    shard: u8,
}

/// The first event of each id in the batch. The same id with other content is a conflict before anything is sent.
pub(super) fn distinct(batch: &[NewEvent]) -> Result<Vec<&NewEvent>> {
    let mut seen: HashMap<&str, &NewEvent> = HashMap::with_capacity(batch.len());
    let mut distinct = Vec::with_capacity(batch.len());
    for new in batch {
        match seen.insert(new.envelope.event_id.as_str(), new) {
            None => distinct.push(new),
            Some(first) if first.envelope.same_content(&new.envelope) => {}
            Some(_) => {
                return Err(Error::IdConflict { event_id: new.envelope.event_id.to_string() });
            }
        }
    }
    Ok(distinct)
}

/// The ids that the statement did not store: they exist already, or they have no subscriber.
pub(super) fn missing<'a>(distinct: &[&'a NewEvent], stored: &HashMap<String, bool>) -> Vec<&'a str> {
    let ids = distinct.iter().map(|new| new.envelope.event_id.as_str());
    ids.filter(|id| !stored.contains_key(*id)).collect()
}

/// One answer per event, from what was stored (and whether it has a subscriber) and what existed before.
pub(super) fn answers(
    batch: &[NewEvent],
    mut stored: HashMap<String, bool>,
    known: &HashMap<String, Envelope>,
    unheard: Unheard,
) -> Result<Vec<Enqueued>> {
    let mut mine = HashSet::new();
    batch
        .iter()
        .map(|NewEvent { envelope, .. }| {
            let id = envelope.event_id.clone();
            match (stored.remove(id.as_str()), known.get(id.as_str())) {
                (Some(subscribed), _) => {
                    mine.insert(envelope.event_id.as_str());
                    Ok(if subscribed { Enqueued::Accepted(id) } else { Enqueued::Unheard(id) })
                }
                // A duplicate within the batch counts once.
                (None, _) if mine.contains(id.as_str()) => Ok(Enqueued::Duplicate(id)),
                (None, Some(known)) if known.same_content(envelope) => Ok(Enqueued::Duplicate(id)),
                (None, Some(_)) => Err(Error::IdConflict { event_id: id.to_string() }),
                (None, None) if unheard == Unheard::Refuse => Err(Error::Unheard { topic: envelope.topic.clone() }),
                (None, None) => Ok(Enqueued::Skipped(id)),
            }
        })
        .collect()
}

/// The parameter of `enqueue.sql`.
pub(super) fn events(batch: &[&NewEvent]) -> Result<String> {
    let rows: Vec<_> = batch
        .iter()
        .map(|new| {
            let e = &new.envelope;
            EventRow {
                event_id: e.event_id.as_str(),
                topic: &e.topic,
                event_key: e.key.as_deref(),
                payload: &e.payload,
                payload_type: &e.payload_type,
                payload_encoding: encoding(e.payload_encoding),
                trace_id: e.trace_id.as_deref(),
                span_id: e.span_id.as_deref(),
                parent_event_id: e.parent_event_id.as_ref().map(|id| id.as_str()),
                aggregate_type: e.aggregate.as_ref().map(|a| a.kind.as_str()),
                aggregate_id: e.aggregate.as_ref().map(|a| a.id.as_str()),
                tenant_id: e.tenant_id.as_deref(),
                store_id: e.store_id.as_deref(),
                initiator: e.initiator_json(),
                metadata: e.metadata.as_deref(),
                occurred_ms: unix_ms(e.occurred_at),
                expire_ms: e.expire_at.map(unix_ms),
                expire_in_ms: new.expire_after.map(millis),
                deliver_ms: e.deliver_at.map(unix_ms),
                deliver_in_ms: new.delay.map(millis),
                max_attempts: e.max_attempts,
                exchange: e.exchange.as_deref(),
                routing_key: e.routing_key.as_deref(),
                shard: e.shard(),
            }
        })
        .collect();
    serde_json::to_string(&rows).map_err(Error::Encode)
}

#[derive(Serialize)]
struct FailureRow {
    seq: i64,
    id: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    after_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tried: Option<bool>,
    error: String,
    code: Option<String>,
}

/// The parameter of `retry.sql`.
pub(super) fn failures(failed: &[Failed]) -> Result<String> {
    let rows: Vec<_> = failed
        .iter()
        .map(|f| FailureRow {
            seq: f.id.sequence,
            id: f.id.number,
            after_ms: Some(millis(f.after)),
            tried: None,
            error: limits::error_text(&f.error),
            code: f.code.as_deref().map(limits::error_code),
        })
        .collect();
    serde_json::to_string(&rows).map_err(Error::Encode)
}

/// The parameter of `bury.sql`.
pub(super) fn burials(buried: &[Buried]) -> Result<String> {
    let rows: Vec<_> = buried
        .iter()
        .map(|b| FailureRow {
            seq: b.id.sequence,
            id: b.id.number,
            after_ms: None,
            tried: Some(b.tried),
            error: limits::error_text(&b.error),
            code: b.code.as_deref().map(limits::error_code),
        })
        .collect();
    serde_json::to_string(&rows).map_err(Error::Encode)
}

#[derive(Serialize)]
struct DueRow<'a> {
    seq: i64,
    lane: &'a str,
    target: &'a str,
    shard: u8,
}

/// The parameter of statements that insert, delete or make due such deliveries. Without a target the column is an empty text,
/// which is part of a unique key.
pub(super) fn due(deliveries: &[DueDelivery]) -> Result<String> {
    let rows: Vec<_> = deliveries
        .iter()
        .map(|one| DueRow {
            seq: one.seq,
            lane: &one.lane,
            target: one.target.as_deref().unwrap_or_default(),
            shard: one.shard,
        })
        .collect();
    serde_json::to_string(&rows).map_err(Error::Encode)
}

#[derive(Serialize)]
struct ExpectedRow<'a> {
    seq: i64,
    consumer: &'a str,
}

/// The parameter of `expect.sql`.
pub(super) fn expected(expected: &[ExpectedConsumer]) -> Result<String> {
    let rows: Vec<_> = expected.iter().map(|one| ExpectedRow { seq: one.seq, consumer: &one.consumer }).collect();
    serde_json::to_string(&rows).map_err(Error::Encode)
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
#[derive(Serialize)]
struct RouteRow {
    seq: i64,
    shard: u8,
}

/// The parameter of `route.sql`.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(super) fn routes(events: impl IntoIterator<Item = (i64, u8)>) -> Result<String> {
    let rows: Vec<_> = events.into_iter().map(|(seq, shard)| RouteRow { seq, shard }).collect();
    serde_json::to_string(&rows).map_err(Error::Encode)
}

/// The stored form of an encoding.
pub(super) fn encoding(encoding: Encoding) -> Option<&'static str> {
    match encoding {
        Encoding::Plain => None,
        Encoding::Base64 => Some("base64"),
    }
}

/// Milliseconds of a duration, limited to what every database can add to a date.
pub(super) fn millis(duration: std::time::Duration) -> i64 {
    // A thousand years: longer than any real wait, short enough to add to any date.
    const LONGEST: u128 = 1_000 * 365 * 86_400_000;
    i64::try_from(duration.as_millis().min(LONGEST)).unwrap_or(i64::MAX)
}

/// Serializes an optional time as milliseconds since 1970.
pub(super) fn option_ms<S: serde::Serializer>(
    time: &Option<OffsetDateTime>,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    time.map(unix_ms).serialize(serializer)
}

/// Milliseconds since 1970.
pub(super) fn unix_ms(time: OffsetDateTime) -> i64 {
    i64::try_from(time.unix_timestamp_nanos() / 1_000_000).unwrap_or_default()
}
