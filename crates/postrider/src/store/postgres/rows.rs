//! Conversion of rows. Columns are read by position: the statements name them in this order.

use std::collections::HashMap;
use std::sync::Arc;

use sqlx::postgres::PgRow;
use sqlx::{Decode, Postgres, Row, Type};
use time::OffsetDateTime;

use super::address::Addresses;
use super::front::Place;
use crate::envelope::{Encoding, Envelope, Initiator, trim};
use crate::error::Result;
use crate::event::{Aggregate, EventId};
use crate::store::sql::target;
use crate::store::{Claimed, DeliveryId, Lease};

pub(super) fn get<'r, T: Decode<'r, Postgres> + Type<Postgres>>(row: &'r PgRow, column: usize) -> Result<T> {
    // Unchecked: the statements are static, so the type of each column is known.
    Ok(row.try_get_unchecked(column)?)
}

pub(super) fn text(row: &PgRow, column: usize) -> Result<Option<String>> {
    get(row, column)
}

pub(super) fn time_at(row: &PgRow, column: usize) -> Result<OffsetDateTime> {
    get(row, column)
}

pub(super) fn maybe_time(row: &PgRow, column: usize) -> Result<Option<OffsetDateTime>> {
    get(row, column)
}

/// A `smallint` that is never negative.
pub(super) fn small(row: &PgRow, column: usize) -> Result<u32> {
    Ok(u32::from(get::<i16>(row, column)?.unsigned_abs()))
}

/// An `integer` that is never negative.
pub(super) fn int(row: &PgRow, column: usize) -> Result<u32> {
    Ok(get::<i32>(row, column)?.unsigned_abs())
}

/// The event whose columns begin at `at`.
pub(super) fn envelope(row: &PgRow, at: usize) -> Result<Envelope> {
    let text = |column: usize| get::<Option<String>>(row, at + column);
    let mut envelope = Envelope {
        event_id: EventId::stored(get(row, at)?),
        topic: get(row, at + 1)?,
        key: text(2)?,
        payload: get(row, at + 3)?,
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

/// A leased delivery.
pub(super) struct Leased {
    pub(super) id: DeliveryId,
    attempt: u32,
    target: Option<String>,
}

/// The leased deliveries, in the order of their events.
pub(super) fn leased(row: &PgRow) -> Result<Vec<Leased>> {
    let column = |column| get::<Option<Vec<i64>>>(row, column).map(|list| list.unwrap_or_default().into_iter());
    let ids = column(0)?.zip(column(1)?).map(|(sequence, number)| DeliveryId::new(sequence, number));
    let attempts = get::<Option<Vec<i16>>>(row, 2)?.unwrap_or_default();
    let Addresses(addresses) = get::<Option<_>>(row, 3)?.unwrap_or_default();
    // NULL if no delivery has a target.
    let mut targets = get::<Option<Vec<String>>>(row, 4)?.unwrap_or_default().into_iter();
    let rows = ids.zip(addresses).zip(attempts);
    let mut leased: Vec<_> = rows
        .map(|((id, address), attempt)| Leased {
            id: id.with_hint(address),
            attempt: u32::from(attempt.unsigned_abs()),
            target: targets.next().and_then(target),
        })
        .collect();
    leased.sort_unstable_by_key(|leased| leased.id);
    Ok(leased)
}

/// The last position of a claim in the order of due deliveries: the last columns of `claim.sql`.
pub(super) fn last_due(row: &PgRow) -> Result<Option<Place>> {
    let (due_at, number): (Option<_>, Option<_>) = (get(row, 5)?, get(row, 6)?);
    Ok(due_at.zip(number).map(|(due_at, number)| Place { due_at, number }))
}

/// The keys that a search has found: the last column of `claim_keyed.sql`.
pub(super) fn looked(row: &PgRow) -> Result<Option<Vec<String>>> {
    get(row, 5)
}

/// The leased deliveries with their events, and the seqs of events with more to read.
pub(super) struct Fetched {
    pub(super) deliveries: Vec<Claimed>,
    /// They have more fields.
    pub(super) say_more: Vec<i64>,
    /// Deliveries whose event does not exist.
    pub(super) orphans: Vec<i64>,
    /// Their payload is still to be read.
    pub(super) large: Vec<i64>,
}

/// The leased deliveries with their events, from rows of `claim_fetch.sql`.
pub(super) fn claimed(leased: Vec<Leased>, events: &[PgRow]) -> Result<Fetched> {
    let events = events.iter().map(|row| Ok((get::<i64>(row, 0)?, row)));
    let mut events = events.collect::<Result<Vec<_>>>()?;
    events.sort_unstable_by_key(|(sequence, _)| *sequence);
    let mut events = events.into_iter().peekable();
    let mut claimed = Vec::with_capacity(leased.len());
    let (mut say_more, mut orphans, mut large) = (Vec::new(), Vec::new(), Vec::new());
    // Consecutive events usually come from one service.
    let mut initiators = ("", Initiator::default());
    for Leased { id, attempt, target } in leased {
        while events.next_if(|(sequence, _)| *sequence < id.sequence).is_some() {}
        let Some((_, row)) = events.peek().filter(|(sequence, _)| *sequence == id.sequence) else {
            orphans.push(id.sequence);
            continue;
        };
        let event_id = EventId::stored(get(row, 1)?);
        let payload = get::<Option<String>>(row, 4)?;
        if payload.is_none() {
            large.push(id.sequence);
        }
        let mut envelope = Envelope::new(event_id, get::<String>(row, 2)?, payload.unwrap_or_default(), get(row, 11)?);
        envelope.key = get(row, 3)?;
        envelope.trace_id = get(row, 5)?;
        envelope.span_id = get(row, 6)?;
        envelope.aggregate = aggregate(row, 7)?;
        envelope.tenant_id = get(row, 9)?;
        let json: &str = get(row, 10)?;
        if json != initiators.0 {
            initiators = (json, initiator(json));
        }
        envelope.initiator.clone_from(&initiators.1);
        if get(row, 12)? {
            say_more.push(id.sequence);
        }
        claimed.push(Claimed { id, target, attempt, expired: false, envelope: Arc::new(envelope) });
    }
    Ok(Fetched { deliveries: claimed, say_more, orphans, large })
}

/// Adds the rows of `claim_more.sql` to a lease.
pub(super) fn more(lease: &mut Lease, rows: &[PgRow]) -> Result<()> {
    for row in rows {
        let sequence: i64 = get(row, 0)?;
        // Two deliveries of a lease may have one event, for two targets of a broker.
        let from = lease.deliveries.partition_point(|claimed| claimed.id.sequence < sequence);
        for claimed in lease.deliveries[from..].iter_mut().take_while(|claimed| claimed.id.sequence == sequence) {
            claimed.expired = get(row, 11)?;
            let envelope = Arc::make_mut(&mut claimed.envelope);
            envelope.payload_type = get::<String>(row, 1)?.into();
            envelope.payload_encoding = encoding(row, 2)?;
            envelope.parent_event_id = get::<Option<String>>(row, 3)?.map(EventId::stored);
            envelope.store_id = get(row, 4)?;
            envelope.metadata = get::<Option<String>>(row, 5)?.map(Into::into);
            envelope.expire_at = time(row, 6)?;
            envelope.deliver_at = time(row, 7)?;
            envelope.max_attempts = max_attempts(row, 8)?;
            envelope.exchange = get(row, 9)?;
            envelope.routing_key = get(row, 10)?;
            envelope.fill_from_metadata();
        }
    }
    Ok(())
}

fn time(row: &PgRow, column: usize) -> Result<Option<OffsetDateTime>> {
    Ok(get::<Option<OffsetDateTime>>(row, column)?.map(trim))
}

fn encoding(row: &PgRow, column: usize) -> Result<Encoding> {
    Ok(match get::<Option<&str>>(row, column)? {
        Some("base64") => Encoding::Base64,
        _ => Encoding::Plain,
    })
}

fn aggregate(row: &PgRow, column: usize) -> Result<Option<Aggregate>> {
    Ok(match (get(row, column)?, get(row, column + 1)?) {
        (Some(kind), Some(id)) => Some(Aggregate { kind, id }),
        _ => None,
    })
}

/// Plain SQL may have written anything. An unreadable initiator must not block the event.
fn initiator(json: &str) -> Initiator {
    if json.is_empty() { Initiator::default() } else { serde_json::from_str(json).unwrap_or_default() }
}

fn max_attempts(row: &PgRow, column: usize) -> Result<Option<u32>> {
    Ok(get::<Option<i16>>(row, column)?.map(|n| u32::from(n.max(1).unsigned_abs())))
}

pub(super) fn delivery_id(row: &PgRow) -> Result<DeliveryId> {
    Ok(DeliveryId::new(get(row, 0)?, get(row, 1)?))
}

/// The ids that `enqueue.sql` has stored, each with whether it has a subscriber; and the seqs of events with remote
/// consumers.
pub(super) fn stored(rows: &[PgRow]) -> Result<(HashMap<String, bool>, Vec<i64>)> {
    let (mut stored, mut expecting) = (HashMap::with_capacity(rows.len()), Vec::new());
    for row in rows {
        stored.insert(get(row, 1)?, get(row, 2)?);
        if get(row, 3)? {
            expecting.push(get(row, 0)?);
        }
    }
    Ok((stored, expecting))
}

/// A row of `enqueue_known.sql`.
pub(super) fn event_seq(row: &PgRow) -> Result<i64> {
    get(row, 0)
}
