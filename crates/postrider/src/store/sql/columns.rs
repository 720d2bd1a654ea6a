//! How PostgreSQL and MySQL return columns and events: in the same order, with the same types.

use sqlx::{Decode, Row as _, Type};
use time::OffsetDateTime;

use super::{Database, Row};
use crate::envelope::{Encoding, Envelope, Initiator, trim};
use crate::error::Result;
use crate::event::{Aggregate, EventId};

pub(super) fn get<'r, T: Decode<'r, Database> + Type<Database>>(row: &'r Row, column: usize) -> Result<T> {
    // Unchecked: the statements are static, so the type of each column is known.
    Ok(row.try_get_unchecked(column)?)
}

pub(super) fn text(row: &Row, column: usize) -> Result<Option<String>> {
    get(row, column)
}

pub(super) fn time_at(row: &Row, column: usize) -> Result<OffsetDateTime> {
    get(row, column)
}

pub(super) fn maybe_time(row: &Row, column: usize) -> Result<Option<OffsetDateTime>> {
    get(row, column)
}

/// A `smallint` that is never negative.
pub(super) fn small(row: &Row, column: usize) -> Result<u32> {
    Ok(u32::from(get::<i16>(row, column)?.unsigned_abs()))
}

/// An `integer` that is never negative.
pub(super) fn int(row: &Row, column: usize) -> Result<u32> {
    Ok(get::<i32>(row, column)?.unsigned_abs())
}

/// The event whose columns begin at `at`.
pub(super) fn envelope(row: &Row, at: usize) -> Result<Envelope> {
    let text = |column: usize| get::<Option<String>>(row, at + column);
    let mut envelope = Envelope {
        event_id: EventId::stored(get(row, at)?),
        topic: get(row, at + 1)?,
        key: text(2)?,
        // NULL: still to be read.
        payload: text(3)?.unwrap_or_default(),
        payload_type: get::<String>(row, at + 4)?.into(),
        payload_encoding: encoding(row, at + 5)?,
        trace_id: text(6)?,
        span_id: text(7)?,
        parent_event_id: text(8)?.map(EventId::stored),
        aggregate: aggregate(row, at + 9)?,
        tenant_id: text(11)?,
        store_id: text(12)?,
        initiator: initiator(get(row, at + 13)?),
        metadata: text(14)?.map(Into::into),
        cloud_event_id: None,
        occurred_at: trim(get(row, at + 15)?),
        expire_at: time(row, at + 16)?,
        deliver_at: time(row, at + 17)?,
        max_attempts: max_attempts(row, at + 18)?,
        exchange: text(19)?,
        routing_key: text(20)?,
    };
    envelope.fill_from_metadata();
    Ok(envelope)
}

pub(super) fn time(row: &Row, column: usize) -> Result<Option<OffsetDateTime>> {
    Ok(get::<Option<OffsetDateTime>>(row, column)?.map(trim))
}

pub(super) fn encoding(row: &Row, column: usize) -> Result<Encoding> {
    Ok(match get::<Option<&str>>(row, column)? {
        Some("base64") => Encoding::Base64,
        _ => Encoding::Plain,
    })
}

pub(super) fn aggregate(row: &Row, column: usize) -> Result<Option<Aggregate>> {
    Ok(match (get(row, column)?, get(row, column + 1)?) {
        (Some(kind), Some(id)) => Some(Aggregate { kind, id }),
        _ => None,
    })
}

/// Plain SQL may have written anything. An unreadable initiator must not block the event.
pub(super) fn initiator(json: &str) -> Initiator {
    if json.is_empty() { Initiator::default() } else { serde_json::from_str(json).unwrap_or_default() }
}

pub(super) fn max_attempts(row: &Row, column: usize) -> Result<Option<u32>> {
    Ok(get::<Option<i16>>(row, column)?.map(|n| u32::from(n.max(1).unsigned_abs())))
}
