//! Rows as the library knows them. Columns are read by their place: the statements name them in this order.

use std::collections::BTreeMap;
use std::sync::Arc;

use sqlx::mysql::MySqlRow;
use sqlx::{Decode, MySql, Row, Type};
use time::OffsetDateTime;

use super::error::meaning;
use crate::entry::DeliveryStatus;
use crate::envelope::{Encoding, Envelope, trim};
use crate::error::{Error, Result};
use crate::event::{Aggregate, EventId};
use crate::status::Kept;
use crate::store::{Claimed, Consumption, Delivery, DeliveryId, Found, KeyState, LaneCounts, Lease, Routing, Token};
use crate::subscription::{StoredSubscription, Subscription};

fn get<'r, T: Decode<'r, MySql> + Type<MySql>>(row: &'r MySqlRow, column: usize) -> Result<T> {
    // Unchecked: the statements are ours, and so the type of each column is known.
    row.try_get_unchecked(column).map_err(meaning)
}

/// The event whose columns, from its seq on, begin at `at`.
fn envelope(row: &MySqlRow, at: usize) -> Result<Envelope> {
    let text = |column: usize| get::<Option<String>>(row, at + column);
    let time = |column: usize| get::<Option<OffsetDateTime>>(row, at + column).map(|time| time.map(trim));
    let initiator: &str = get(row, at + 14)?;
    Ok(Envelope {
        event_id: EventId::stored(get(row, at + 1)?),
        topic: get(row, at + 2)?,
        key: text(3)?,
        payload: get(row, at + 4)?,
        payload_type: get::<String>(row, at + 5)?.into(),
        payload_encoding: match get::<Option<&str>>(row, at + 6)? {
            Some("base64") => Encoding::Base64,
            _ => Encoding::Plain,
        },
        trace_id: text(7)?,
        span_id: text(8)?,
        parent_event_id: text(9)?.map(EventId::stored),
        aggregate: match (text(10)?, text(11)?) {
            (Some(kind), Some(id)) => Some(Aggregate { kind, id }),
            _ => None,
        },
        tenant_id: text(12)?,
        store_id: text(13)?,
        // Plain SQL may have written anything; what cannot be read is not worth losing the event for.
        initiator: if initiator.is_empty() {
            Default::default()
        } else {
            serde_json::from_str(initiator).unwrap_or_default()
        },
        metadata: text(15)?.map(Into::into),
        occurred_at: trim(get(row, at + 16)?),
        expire_at: time(17)?,
        deliver_at: time(18)?,
        max_attempts: get::<Option<i16>>(row, at + 19)?.map(|n| u32::from(n.max(1).unsigned_abs())),
        exchange: text(20)?,
        routing_key: text(21)?,
    })
}

pub(super) fn lease(token: Token, rows: &[MySqlRow]) -> Result<Lease> {
    let mut deliveries = rows.iter().filter_map(|row| claimed(row).transpose()).collect::<Result<Vec<_>>>()?;
    deliveries.sort_unstable_by_key(|delivery| delivery.id);
    Ok(Lease { token, deliveries })
}

/// None: its event was removed by hand, and there is nothing to deliver.
fn claimed(row: &MySqlRow) -> Result<Option<Claimed>> {
    if get::<Option<i64>>(row, 5)?.is_none() {
        return Ok(None);
    }
    Ok(Some(Claimed {
        id: DeliveryId::new(get(row, 1)?, get(row, 0)?),
        target: get(row, 2)?,
        attempt: u32::from(get::<i16>(row, 3)?.unsigned_abs()),
        expired: get(row, 4)?,
        envelope: Arc::new(envelope(row, 5)?),
    }))
}

pub(super) fn known(row: &MySqlRow) -> Result<(String, Envelope)> {
    let envelope = envelope(row, 0)?;
    Ok((envelope.event_id.to_string(), envelope))
}

pub(super) fn subscription(row: &MySqlRow) -> Result<StoredSubscription> {
    Ok(StoredSubscription {
        subscription: Subscription {
            topic: get(row, 0)?,
            consumer: get(row, 1)?,
            enabled: get(row, 2)?,
            sort_order: get(row, 3)?,
            description: get(row, 4)?,
            via: get::<&str>(row, 5)?.parse()?,
            endpoint: get(row, 6)?,
            exchange: get(row, 7)?,
            routing_key: get(row, 8)?,
        },
        removed: get(row, 9)?,
        created_at: get(row, 10)?,
        updated_at: get(row, 11)?,
    })
}

/// The seq of a row of `find.sql`.
pub(super) fn seq(row: &MySqlRow) -> Result<i64> {
    get(row, 2)
}

/// Rows of `find.sql` or `records.sql` with those of `find_deliveries.sql` and `find_consumptions.sql`.
pub(super) fn records(events: &[MySqlRow], deliveries: &[MySqlRow], consumptions: &[MySqlRow]) -> Result<Vec<Found>> {
    let mut records: BTreeMap<i64, Found> = BTreeMap::new();
    for row in events {
        let record = Found {
            sequence: seq(row)?,
            routing: Routing::of(get(row, 0)?),
            created_at: get(row, 1)?,
            envelope: envelope(row, 2)?,
            expired: get(row, 24)?,
            listed: get::<Option<&str>>(row, 25)?.map(str::parse).transpose()?,
            listed_at: get(row, 29)?,
            kept: Kept {
                redrives: get::<Option<i32>>(row, 26)?.unwrap_or_default().unsigned_abs(),
                redriven_at: get(row, 27)?,
                expired_at: get(row, 28)?,
            },
            deliveries: Vec::new(),
            consumptions: Vec::new(),
        };
        records.insert(record.sequence, record);
    }
    for row in deliveries {
        if let Some(record) = records.get_mut(&get(row, 0)?) {
            record.deliveries.push(delivery(row)?);
        }
    }
    for row in consumptions {
        if let Some(record) = records.get_mut(&get(row, 0)?) {
            record.consumptions.push(consumption(row)?);
        }
    }
    Ok(records.into_values().collect())
}

fn delivery(row: &MySqlRow) -> Result<Delivery> {
    let (dead, leased, attempts): (bool, bool, i16) = (get(row, 5)?, get(row, 7)?, get(row, 8)?);
    Ok(Delivery {
        id: DeliveryId::new(get(row, 0)?, get(row, 1)?),
        lane: get(row, 2)?,
        target: get(row, 3)?,
        shard: u8::try_from(get::<i16>(row, 4)?)
            .map_err(|_| Error::corrupt("shard", "a number past the last shard"))?,
        status: DeliveryStatus::of(dead, leased, u32::from(attempts.unsigned_abs())),
        held: get(row, 6)?,
        attempts: u32::from(attempts.unsigned_abs()),
        due_at: get(row, 9)?,
        lock_owner: get(row, 10)?,
        lock_time: get(row, 11)?,
        lock_until: get(row, 12)?,
        last_error: get(row, 13)?,
    })
}

fn consumption(row: &MySqlRow) -> Result<Consumption> {
    Ok(Consumption {
        consumer: get(row, 1)?,
        attempt: get::<i32>(row, 2)?.unsigned_abs(),
        success: get(row, 3)?,
        will_retry: get(row, 4)?,
        consumed_at: get(row, 5)?,
        error: get(row, 6)?,
        code: get(row, 7)?,
        created_at: get(row, 8)?,
    })
}

pub(super) fn lane_counts(row: &MySqlRow) -> Result<(String, LaneCounts)> {
    let count = |column| get::<i64>(row, column).map(i64::unsigned_abs);
    Ok((
        get(row, 0)?,
        LaneCounts { new: count(1)?, processing: count(2)?, failed: count(3)?, dead: count(4)?, held: count(5)? },
    ))
}

pub(super) fn key_state(row: &MySqlRow, fingerprint: &[u8]) -> Result<KeyState> {
    // The mismatch comes first: a wrong request must never hear "in progress" and come again.
    if get::<&[u8]>(row, 0)? != fingerprint {
        return Ok(KeyState::Mismatch);
    }
    match get::<&str>(row, 1)? {
        "SUCCESS" => Ok(KeyState::Done(get::<Option<String>>(row, 2)?.unwrap_or_default())),
        _ => Ok(KeyState::InProgress),
    }
}
