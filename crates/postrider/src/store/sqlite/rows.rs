//! Conversion of rows. Columns are read by position: the statements name them in this order. An event always has two
//! columns: its payload, and a JSON array of all other fields.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use sqlx::sqlite::SqliteRow;
use sqlx::{Decode, Row, Sqlite, Type};
use time::OffsetDateTime;

use crate::envelope::{Encoding, Envelope, Initiator};
use crate::error::{Error, Result};
use crate::event::{Aggregate, EventId};
use crate::shard;
use crate::store::sql::target;
use crate::store::{Claimed, DeliveryId, Lease, Token};

pub(super) fn get<'r, T: Decode<'r, Sqlite> + Type<Sqlite>>(row: &'r SqliteRow, column: usize) -> Result<T> {
    Ok(row.try_get(column)?)
}

/// Text that plain SQL may have written. SQLite allows bytes that are not UTF-8 in any column, and one such row must
/// not block the others of its claim: invalid bytes become U+FFFD.
pub(super) fn text(row: &SqliteRow, column: usize) -> Result<Option<String>> {
    Ok(bytes(row, column)?.map(|bytes| readable(bytes).into_owned()))
}

fn bytes(row: &SqliteRow, column: usize) -> Result<Option<&[u8]>> {
    Ok(row.try_get_unchecked(column)?)
}

fn readable(bytes: &[u8]) -> Cow<'_, str> {
    // It is nearly always UTF-8, and this check is several times faster than `from_utf8_lossy`.
    str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// A column of `json_array(…)`.
fn unpack<T: DeserializeOwned>(row: &SqliteRow, column: usize) -> Result<T> {
    let json = readable(bytes(row, column)?.unwrap_or_default());
    serde_json::from_str(&json).map_err(|e| Error::Store(e.into()))
}

fn required(row: &SqliteRow, column: usize) -> Result<String> {
    Ok(text(row, column)?.unwrap_or_default())
}

/// Converts milliseconds since 1970 to a time, limited to the range of the calendar.
pub(super) fn time(ms: i64) -> OffsetDateTime {
    const FIRST: i64 = -62_135_596_800_000;
    const LAST: i64 = 253_402_300_799_999;
    let nanos = i128::from(ms.clamp(FIRST, LAST)) * 1_000_000;
    OffsetDateTime::from_unix_timestamp_nanos(nanos).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

pub(super) fn time_at(row: &SqliteRow, column: usize) -> Result<OffsetDateTime> {
    Ok(time(get(row, column)?))
}

pub(super) fn small(row: &SqliteRow, column: usize) -> Result<u32> {
    get(row, column)
}

pub(super) fn int(row: &SqliteRow, column: usize) -> Result<u32> {
    get(row, column)
}

pub(super) fn maybe_time(row: &SqliteRow, column: usize) -> Result<Option<OffsetDateTime>> {
    Ok(get::<Option<i64>>(row, column)?.map(time))
}

/// An event without its payload; fields in the order of the array.
#[derive(Deserialize)]
struct Packed {
    event_id: String,
    topic: String,
    event_key: Option<String>,
    payload_type: String,
    payload_encoding: Option<String>,
    trace_id: Option<String>,
    span_id: Option<String>,
    parent_event_id: Option<String>,
    aggregate_type: Option<String>,
    aggregate_id: Option<String>,
    tenant_id: Option<String>,
    store_id: Option<String>,
    initiator: String,
    metadata: Option<Box<str>>,
    occurred_at: i64,
    expire_at: Option<i64>,
    deliver_at: Option<i64>,
    max_attempts: Option<u32>,
    exchange: Option<String>,
    routing_key: Option<String>,
}

impl Packed {
    fn envelope(self, payload: String) -> Envelope {
        let mut envelope = Envelope {
            event_id: EventId::stored(self.event_id),
            topic: self.topic,
            key: self.event_key,
            payload,
            payload_type: self.payload_type.into(),
            payload_encoding: match self.payload_encoding {
                None => Encoding::Plain,
                Some(_) => Encoding::Base64,
            },
            trace_id: self.trace_id,
            span_id: self.span_id,
            parent_event_id: self.parent_event_id.map(EventId::stored),
            aggregate: self.aggregate_type.zip(self.aggregate_id).map(|(kind, id)| Aggregate { kind, id }),
            tenant_id: self.tenant_id,
            store_id: self.store_id,
            initiator: if self.initiator.is_empty() {
                Initiator::default()
            } else {
                // Plain SQL may have written anything. An unreadable initiator must not block the event.
                serde_json::from_str(&self.initiator).unwrap_or_default()
            },
            metadata: self.metadata,
            cloud_event_id: None,
            occurred_at: time(self.occurred_at),
            expire_at: self.expire_at.map(time),
            deliver_at: self.deliver_at.map(time),
            max_attempts: self.max_attempts,
            exchange: self.exchange,
            routing_key: self.routing_key,
        };
        envelope.fill_from_metadata();
        envelope
    }
}

/// The event whose two columns begin at `at`.
pub(super) fn envelope(row: &SqliteRow, at: usize) -> Result<Envelope> {
    Ok(unpack::<Packed>(row, at + 1)?.envelope(required(row, at)?))
}

/// The event's seq: the first column.
fn seq(row: &SqliteRow) -> Result<i64> {
    get(row, 0)
}

/// A row of `route_lock.sql`.
pub(super) fn shard(row: &SqliteRow) -> Result<(i64, u8)> {
    let (event_id, key) = (required(row, 1)?, text(row, 2)?);
    Ok((seq(row)?, shard::shard_of(key.as_deref(), &event_id)))
}

/// A row of `enqueue.sql`.
pub(super) fn stored(row: &SqliteRow) -> Result<(i64, String, bool)> {
    Ok((seq(row)?, required(row, 1)?, get(row, 2)?))
}

/// The delivery: the event's seq and the delivery's id are the first columns.
pub(super) fn id(row: &SqliteRow) -> Result<DeliveryId> {
    Ok(DeliveryId::new(seq(row)?, get(row, 1)?))
}

/// A row of `settle.sql`.
pub(super) fn success(row: &SqliteRow) -> Result<(i64, String)> {
    Ok((seq(row)?, get(row, 2)?))
}

/// A claimed delivery; fields in the order of the array.
#[derive(Deserialize)]
struct Leased {
    event_seq: i64,
    id: i64,
    target: String,
    attempts: u32,
    expired: u8,
}

/// Rows of `claim_fetch.sql` or `claim_keyed_fetch.sql`. Also the seqs of events whose payload is still to be read.
pub(super) fn lease(token: Token, rows: &[SqliteRow]) -> Result<(Lease, Vec<i64>)> {
    let (mut deliveries, mut large) = (Vec::with_capacity(rows.len()), Vec::new());
    for row in rows {
        let (payload, fields) = (text(row, 0)?, unpack::<(Leased, Packed)>(row, 1));
        // The event was removed by hand, so there is nothing to deliver.
        let (leased, event) = match fields {
            Err(_) if payload.is_none() => continue,
            fields => fields?,
        };
        if payload.is_none() {
            large.push(leased.event_seq);
        }
        deliveries.push(Claimed {
            id: DeliveryId::new(leased.event_seq, leased.id),
            target: target(leased.target),
            attempt: leased.attempts,
            expired: leased.expired != 0,
            envelope: Arc::new(event.envelope(payload.unwrap_or_default())),
        });
    }
    deliveries.sort_unstable_by_key(|delivery| delivery.id);
    Ok((Lease { token, deliveries }, large))
}

/// A row of `claim_keyed.sql`: the delivery, and whether it was held.
pub(super) fn claimed(row: &SqliteRow) -> Result<(i64, bool)> {
    Ok((get(row, 0)?, get(row, 1)?))
}
