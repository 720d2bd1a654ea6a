//! Conversion of rows. Columns are read by position: the statements name them in this order.

use std::sync::Arc;

use sqlx::mysql::MySqlRow;
use sqlx::{Decode, MySql, Row, Type};
use time::OffsetDateTime;

use crate::envelope::{Encoding, Envelope, trim};
use crate::error::Result;
use crate::event::{Aggregate, EventId};
use crate::store::sql::target;
use crate::store::{Claimed, DeliveryId, Lease, Token};

pub(super) fn get<'r, T: Decode<'r, MySql> + Type<MySql>>(row: &'r MySqlRow, column: usize) -> Result<T> {
    // Unchecked: the statements are static, so the type of each column is known.
    Ok(row.try_get_unchecked(column)?)
}

pub(super) fn text(row: &MySqlRow, column: usize) -> Result<Option<String>> {
    get(row, column)
}

pub(super) fn time_at(row: &MySqlRow, column: usize) -> Result<OffsetDateTime> {
    get(row, column)
}

pub(super) fn maybe_time(row: &MySqlRow, column: usize) -> Result<Option<OffsetDateTime>> {
    get(row, column)
}

/// A `SMALLINT` that is never negative.
pub(super) fn small(row: &MySqlRow, column: usize) -> Result<u32> {
    Ok(u32::from(get::<i16>(row, column)?.unsigned_abs()))
}

/// An `INT` that is never negative.
pub(super) fn int(row: &MySqlRow, column: usize) -> Result<u32> {
    Ok(get::<i32>(row, column)?.unsigned_abs())
}

/// The event whose columns begin at `at`.
pub(super) fn envelope(row: &MySqlRow, at: usize) -> Result<Envelope> {
    let text = |column: usize| get::<Option<String>>(row, at + column);
    let time = |column: usize| get::<Option<OffsetDateTime>>(row, at + column).map(|time| time.map(trim));
    let initiator: &str = get(row, at + 13)?;
    let mut envelope = Envelope {
        event_id: EventId::stored(get(row, at)?),
        topic: get(row, at + 1)?,
        key: text(2)?,
        // NULL: still to be read.
        payload: text(3)?.unwrap_or_default(),
        payload_type: get::<String>(row, at + 4)?.into(),
        payload_encoding: match get::<Option<&str>>(row, at + 5)? {
            Some("base64") => Encoding::Base64,
            _ => Encoding::Plain,
        },
        trace_id: text(6)?,
        span_id: text(7)?,
        parent_event_id: text(8)?.map(EventId::stored),
        aggregate: match (text(9)?, text(10)?) {
            (Some(kind), Some(id)) => Some(Aggregate { kind, id }),
            _ => None,
        },
        tenant_id: text(11)?,
        store_id: text(12)?,
        // Plain SQL may have written anything. An unreadable initiator must not block the event.
        initiator: if initiator.is_empty() {
            Default::default()
        } else {
            serde_json::from_str(initiator).unwrap_or_default()
        },
        metadata: text(14)?.map(Into::into),
        cloud_event_id: None,
        occurred_at: trim(get(row, at + 15)?),
        expire_at: time(16)?,
        deliver_at: time(17)?,
        max_attempts: get::<Option<i16>>(row, at + 18)?.map(|n| u32::from(n.max(1).unsigned_abs())),
        exchange: text(19)?,
        routing_key: text(20)?,
    };
    envelope.fill_from_metadata();
    Ok(envelope)
}

/// Rows of `claim_fetch.sql` or `claim_keyed_fetch.sql`. Also the seqs of events whose payload is still to be read.
pub(super) fn lease(token: Token, rows: &[MySqlRow]) -> Result<(Lease, Vec<i64>)> {
    let mut deliveries = rows.iter().filter_map(|row| claimed(row).transpose()).collect::<Result<Vec<_>>>()?;
    deliveries.sort_unstable_by_key(|delivery| delivery.id);
    let mut large = Vec::new();
    for row in rows {
        if get::<Option<i64>>(row, 5)?.is_some() && get::<Option<&str>>(row, 9)?.is_none() {
            large.push(get(row, 1)?);
        }
    }
    Ok((Lease { token, deliveries }, large))
}

/// Returns `None` if the event was removed by hand, so that there is nothing to deliver.
fn claimed(row: &MySqlRow) -> Result<Option<Claimed>> {
    if get::<Option<i64>>(row, 5)?.is_none() {
        return Ok(None);
    }
    Ok(Some(Claimed {
        id: DeliveryId::new(get(row, 1)?, get(row, 0)?),
        target: target(get(row, 2)?),
        attempt: u32::from(get::<i16>(row, 3)?.unsigned_abs()),
        expired: get(row, 4)?,
        envelope: Arc::new(envelope(row, 6)?),
    }))
}
