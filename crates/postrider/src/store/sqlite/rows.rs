//! Rows as the library knows them. Columns are read by their place: the statements name them in this order, and an event's
//! columns always come first.

use std::collections::HashMap;

use sqlx::sqlite::SqliteRow;
use sqlx::{Decode, Row, Sqlite, Type};
use time::OffsetDateTime;

use crate::entry::DeliveryStatus;
use crate::envelope::{Encoding, Envelope, Initiator};
use crate::error::{Error, Result};
use crate::event::{Aggregate, EventId};
use crate::shard;
use crate::store::{Claimed, Consumption, Delivery, DeliveryId, Found, KeyState, LaneCounts, Lease, Token};
use crate::subscription::{StoredSubscription, Subscription};

/// How many columns an event has; what else a statement selects comes after them.
const EVENT_COLUMNS: usize = 22;

fn get<'r, T: Decode<'r, Sqlite> + Type<Sqlite>>(row: &'r SqliteRow, column: usize) -> Result<T> {
    row.try_get(column).map_err(super::own)
}

/// Text that plain SQL may have written. SQLite lets bytes that are no UTF-8 into any column, and one such row must not
/// keep the others of its claim from being delivered: what cannot be read becomes U+FFFD.
fn text(row: &SqliteRow, column: usize) -> Result<Option<String>> {
    let bytes: Option<&[u8]> = row.try_get_unchecked(column).map_err(super::own)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
}

fn required(row: &SqliteRow, column: usize) -> Result<String> {
    Ok(text(row, column)?.unwrap_or_default())
}

/// Milliseconds since 1970 as a time; what is out of our calendar is its first or last moment.
pub(super) fn time(ms: i64) -> OffsetDateTime {
    const FIRST: i64 = -62_135_596_800_000;
    const LAST: i64 = 253_402_300_799_999;
    let nanos = i128::from(ms.clamp(FIRST, LAST)) * 1_000_000;
    OffsetDateTime::from_unix_timestamp_nanos(nanos).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

fn maybe_time(row: &SqliteRow, column: usize) -> Result<Option<OffsetDateTime>> {
    Ok(get::<Option<i64>>(row, column)?.map(time))
}

fn envelope(row: &SqliteRow) -> Result<Envelope> {
    Ok(Envelope {
        event_id: EventId::stored(required(row, 1)?),
        topic: required(row, 2)?,
        key: text(row, 3)?,
        payload: required(row, 4)?,
        payload_type: required(row, 5)?,
        payload_encoding: match text(row, 6)? {
            None => Encoding::Plain,
            Some(_) => Encoding::Base64,
        },
        trace_id: text(row, 7)?,
        span_id: text(row, 8)?,
        parent_event_id: text(row, 9)?.map(EventId::stored),
        aggregate: aggregate(row, 10)?,
        tenant_id: text(row, 12)?,
        store_id: text(row, 13)?,
        initiator: initiator(row, 14)?,
        metadata: text(row, 15)?.map(Into::into),
        occurred_at: time(get(row, 16)?),
        expire_at: maybe_time(row, 17)?,
        deliver_at: maybe_time(row, 18)?,
        max_attempts: get(row, 19)?,
        exchange: text(row, 20)?,
        routing_key: text(row, 21)?,
    })
}

/// The event's seq, in every row that begins with it.
pub(super) fn seq(row: &SqliteRow) -> Result<i64> {
    get(row, 0)
}

/// A row of `route_lock.sql`.
pub(super) fn shard(row: &SqliteRow) -> Result<(i64, u8)> {
    let (event_id, key) = (required(row, 1)?, text(row, 2)?);
    Ok((seq(row)?, shard::shard_of(key.as_deref(), &event_id)))
}

/// A row of `enqueue.sql`.
pub(super) fn stored(row: &SqliteRow) -> Result<(i64, String, String)> {
    Ok((seq(row)?, required(row, 1)?, required(row, 2)?))
}

/// The delivery, in every row that begins with its event's seq and its own id.
pub(super) fn id(row: &SqliteRow) -> Result<DeliveryId> {
    Ok(DeliveryId { sequence: seq(row)?, number: get(row, 1)? })
}

/// A row of `settle.sql`.
pub(super) fn success(row: &SqliteRow) -> Result<(i64, String)> {
    Ok((seq(row)?, get(row, 2)?))
}

/// Rows of `claim.sql` or `claim_keyed.sql` with their events.
pub(super) fn lease(token: Token, leased: &[SqliteRow], mut events: Events) -> Result<Lease> {
    let mut rows = leased.iter().map(|row| Ok((id(row)?, row))).collect::<Result<Vec<_>>>()?;
    rows.sort_unstable_by_key(|(id, _)| *id);
    let mut deliveries = Vec::with_capacity(rows.len());
    let mut rows = rows.into_iter().peekable();
    while let Some((id, row)) = rows.next() {
        // One claim may hold two deliveries of an event: for a broker, and for one of its consumers.
        let shared = rows.peek().is_some_and(|(next, _)| next.sequence == id.sequence);
        let event = if shared { events.get(&id.sequence).cloned() } else { events.remove(&id.sequence) };
        // An event without a row was removed by hand; there is nothing to deliver.
        let Some((envelope, expired)) = event else { continue };
        deliveries.push(Claimed { id, target: get(row, 2)?, attempt: get(row, 3)?, expired, envelope });
    }
    Ok(Lease { token, deliveries })
}

/// The ids of the rows of `claim_keyed.sql` that were held.
pub(super) fn held(leased: &[SqliteRow]) -> Result<Vec<i64>> {
    let mut ids = Vec::new();
    for row in leased {
        if get(row, 4)? {
            ids.push(get(row, 1)?);
        }
    }
    Ok(ids)
}

/// Events by seq, and whether each has expired.
pub(super) type Events = HashMap<i64, (Envelope, bool)>;

/// The rows of `claim_events.sql`, and the seqs of those that say more.
pub(super) fn brief(rows: &[SqliteRow]) -> Result<(Events, Vec<i64>)> {
    let (mut events, mut say_more) = (Events::with_capacity(rows.len()), Vec::new());
    for row in rows {
        let seq = seq(row)?;
        if get(row, 12)? {
            say_more.push(seq);
            continue;
        }
        let id = EventId::stored(required(row, 1)?);
        let mut envelope = Envelope::new(id, required(row, 2)?, required(row, 4)?, time(get(row, 11)?));
        envelope.key = text(row, 3)?;
        envelope.payload_type = required(row, 5)?;
        envelope.trace_id = text(row, 6)?;
        envelope.span_id = text(row, 7)?;
        envelope.aggregate = aggregate(row, 8)?;
        envelope.initiator = initiator(row, 10)?;
        events.insert(seq, (envelope, false));
    }
    Ok((events, say_more))
}

/// A row of `claim_events_whole.sql`.
pub(super) fn whole(row: &SqliteRow) -> Result<(Envelope, bool)> {
    Ok((envelope(row)?, get(row, EVENT_COLUMNS)?))
}

fn aggregate(row: &SqliteRow, at: usize) -> Result<Option<Aggregate>> {
    Ok(match (text(row, at)?, text(row, at + 1)?) {
        (Some(kind), Some(id)) => Some(Aggregate { kind, id }),
        _ => None,
    })
}

fn initiator(row: &SqliteRow, at: usize) -> Result<Initiator> {
    Ok(match required(row, at)? {
        empty if empty.is_empty() => Initiator::default(),
        // Plain SQL may have written anything; what cannot be read is not worth losing the event for.
        json => serde_json::from_str(&json).unwrap_or_default(),
    })
}

pub(super) fn known(row: &SqliteRow) -> Result<(String, Envelope)> {
    let envelope = envelope(row)?;
    Ok((envelope.event_id.to_string(), envelope))
}

pub(super) fn subscription(row: &SqliteRow) -> Result<StoredSubscription> {
    Ok(StoredSubscription {
        subscription: Subscription {
            topic: get(row, 0)?,
            consumer: get(row, 1)?,
            enabled: get(row, 2)?,
            sort_order: get(row, 3)?,
            description: text(row, 4)?,
            via: get::<&str>(row, 5)?.parse()?,
            endpoint: text(row, 6)?,
            exchange: text(row, 7)?,
            routing_key: text(row, 8)?,
        },
        removed: get(row, 9)?,
        created_at: time(get(row, 10)?),
        updated_at: time(get(row, 11)?),
    })
}

pub(super) fn found(event: &SqliteRow, deliveries: &[SqliteRow], consumptions: &[SqliteRow]) -> Result<Found> {
    Ok(Found {
        envelope: envelope(event)?,
        routing: get::<&str>(event, EVENT_COLUMNS)?.parse()?,
        created_at: time(get(event, EVENT_COLUMNS + 1)?),
        deliveries: deliveries.iter().map(delivery).collect::<Result<_>>()?,
        consumptions: consumptions.iter().map(consumption).collect::<Result<_>>()?,
    })
}

fn delivery(row: &SqliteRow) -> Result<Delivery> {
    let (dead, leased, attempts) = (get(row, 5)?, get(row, 7)?, get(row, 8)?);
    Ok(Delivery {
        id: id(row)?,
        lane: get(row, 2)?,
        target: get(row, 3)?,
        shard: u8::try_from(get::<i64>(row, 4)?)
            .map_err(|_| Error::corrupt("shard", "a number past the last shard"))?,
        status: DeliveryStatus::of(dead, leased, attempts),
        held: get(row, 6)?,
        attempts,
        due_at: time(get(row, 9)?),
        lock_owner: text(row, 10)?,
        lock_time: maybe_time(row, 11)?,
        lock_until: maybe_time(row, 12)?,
        last_error: text(row, 13)?,
    })
}

fn consumption(row: &SqliteRow) -> Result<Consumption> {
    Ok(Consumption {
        consumer: get(row, 0)?,
        attempt: get(row, 1)?,
        success: get(row, 2)?,
        will_retry: get(row, 3)?,
        consumed_at: maybe_time(row, 4)?,
        error: text(row, 5)?,
        code: text(row, 6)?,
        created_at: time(get(row, 7)?),
    })
}

pub(super) fn lane_counts(row: &SqliteRow) -> Result<(String, LaneCounts)> {
    let count = |column| get::<i64>(row, column).map(i64::unsigned_abs);
    Ok((
        get(row, 0)?,
        LaneCounts { new: count(1)?, processing: count(2)?, failed: count(3)?, dead: count(4)?, held: count(5)? },
    ))
}

pub(super) fn key_state(row: &SqliteRow, fingerprint: &[u8]) -> Result<KeyState> {
    // The mismatch comes first: a wrong request must never hear "in progress" and come again.
    if get::<&[u8]>(row, 0)? != fingerprint {
        return Ok(KeyState::Mismatch);
    }
    match get::<&str>(row, 1)? {
        "SUCCESS" => Ok(KeyState::Done(text(row, 2)?.unwrap_or_default())),
        _ => Ok(KeyState::InProgress),
    }
}
