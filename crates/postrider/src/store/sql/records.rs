//! Events with their rows: the event, its deliveries, and every attempt.

use std::collections::BTreeMap;

use super::rows::{self, get, int, maybe_time, small, time_at};
use super::{Conn, Row, numbers};
use crate::entry::DeliveryStatus;
use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::status::Kept;
use crate::store::sql::target;
use crate::store::{AttemptPlace, ConsumerAttempt, Consumption, Delivery, DeliveryId, KeyState, Record, Routing};
use crate::subscription::{StoredSubscription, Subscription};

/// Reads events without payload and metadata.
pub(in super::super) async fn records(conn: &mut Conn, seqs: &[i64]) -> Result<Vec<Record>> {
    let events = sqlx::query(sql!("events/records")).bind(numbers(seqs)?).fetch_all(&mut *conn).await?;
    let mut records = with_rows(conn, &events, seqs).await?;
    // Read only for the ids that it names.
    records.iter_mut().for_each(|record| record.envelope.metadata = None);
    Ok(records)
}

/// Reads events with payload and metadata.
pub(super) async fn whole_records(conn: &mut Conn, seqs: &[i64]) -> Result<Vec<Record>> {
    let events = sqlx::query(sql!("events/whole_records")).bind(numbers(seqs)?).fetch_all(&mut *conn).await?;
    with_rows(conn, &events, seqs).await
}

pub(super) async fn with_rows(conn: &mut Conn, events: &[Row], seqs: &[i64]) -> Result<Vec<Record>> {
    // Deliveries first: one that is settled in between is then found in the history, and never missing from both.
    let deliveries = sqlx::query(sql!("events/find_deliveries")).bind(numbers(seqs)?).fetch_all(&mut *conn).await?;
    let consumptions = sqlx::query(sql!("events/find_consumptions")).bind(numbers(seqs)?).fetch_all(&mut *conn).await?;
    let mut records: BTreeMap<i64, Record> = BTreeMap::new();
    for row in events {
        let record = Record {
            sequence: get(row, 0)?,
            routing: Routing::of(get(row, 1)?),
            created_at: time_at(row, 2)?,
            expired: get(row, 3)?,
            listed: get::<Option<&str>>(row, 4)?.map(str::parse).transpose()?,
            listed_at: maybe_time(row, 5)?,
            kept: Kept {
                redrives: get::<Option<i32>>(row, 6)?.unwrap_or_default().unsigned_abs(),
                redriven_at: maybe_time(row, 7)?,
                expired_at: maybe_time(row, 8)?,
            },
            envelope: rows::envelope(row, 9)?,
            deliveries: Vec::new(),
            consumptions: Vec::new(),
        };
        records.insert(record.sequence, record);
    }
    for row in &deliveries {
        if let Some(record) = records.get_mut(&get(row, 0)?) {
            record.deliveries.push(delivery(row)?);
        }
    }
    for row in &consumptions {
        if let Some(record) = records.get_mut(&get(row, 0)?) {
            record.consumptions.push(consumption(row)?);
        }
    }
    Ok(records.into_values().collect())
}

fn delivery(row: &Row) -> Result<Delivery> {
    let (dead, leased, attempts) = (get(row, 5)?, get(row, 7)?, small(row, 8)?);
    Ok(Delivery {
        id: DeliveryId::new(get(row, 0)?, get(row, 1)?),
        lane: get(row, 2)?,
        target: target(get(row, 3)?),
        shard: u8::try_from(small(row, 4)?).map_err(|_| Error::corrupt("shard", "a number past the last shard"))?,
        status: DeliveryStatus::of(dead, leased, attempts),
        held: get(row, 6)?,
        attempts,
        due_at: time_at(row, 9)?,
        lock_owner: rows::text(row, 10)?,
        lock_time: maybe_time(row, 11)?,
        lock_until: maybe_time(row, 12)?,
        last_error: rows::text(row, 13)?,
        skipped_at: maybe_time(row, 14)?,
    })
}

fn consumption(row: &Row) -> Result<Consumption> {
    Ok(Consumption {
        consumer: get(row, 1)?,
        attempt: int(row, 2)?,
        success: get(row, 3)?,
        will_retry: get(row, 4)?,
        consumed_at: maybe_time(row, 5)?,
        error: rows::text(row, 6)?,
        code: rows::text(row, 7)?,
        created_at: time_at(row, 8)?,
    })
}

/// A row of a consumer's history: the columns of [`consumption`], then its event.
pub(super) fn consumer_attempt(row: &Row) -> Result<ConsumerAttempt> {
    let consumption = consumption(row)?;
    let place = AttemptPlace { at: time_at(row, 5)?, sequence: get(row, 0)?, attempt: consumption.attempt };
    let (event_id, topic, tenant_id) = (get(row, 9)?, get(row, 10)?, rows::text(row, 11)?);
    Ok(ConsumerAttempt { event_id, topic, tenant_id, place, consumption })
}

/// A stored event by its id.
pub(in super::super) fn by_id(row: &Row) -> Result<(String, Envelope)> {
    let envelope = rows::envelope(row, 0)?;
    Ok((envelope.event_id.to_string(), envelope))
}

pub(super) fn subscription(row: &Row) -> Result<StoredSubscription> {
    Ok(StoredSubscription {
        subscription: Subscription {
            topic: get(row, 0)?,
            consumer: get(row, 1)?,
            enabled: get(row, 2)?,
            sort_order: get(row, 3)?,
            description: rows::text(row, 4)?,
            via: get::<&str>(row, 5)?.parse()?,
            endpoint: rows::text(row, 6)?,
            exchange: rows::text(row, 7)?,
            routing_key: rows::text(row, 8)?,
            rate_per_second: limit(row, 9)?,
            timeout_seconds: limit(row, 10)?,
            max_attempts: limit(row, 11)?,
        },
        removed: get(row, 12)?,
        created_at: time_at(row, 13)?,
        updated_at: time_at(row, 14)?,
    })
}

fn limit(row: &Row, column: usize) -> Result<Option<u32>> {
    Ok(get::<Option<i32>>(row, column)?.map(i32::unsigned_abs))
}

/// The state of a key that the caller could not take.
pub(in super::super) fn key_state(row: &Row, fingerprint: &[u8]) -> Result<KeyState> {
    // The mismatch comes first: a wrong request must never get "in progress", which asks the caller to retry.
    if get::<&[u8]>(row, 0)? != fingerprint {
        return Ok(KeyState::Mismatch);
    }
    match get::<&str>(row, 1)? {
        "SUCCESS" => Ok(KeyState::Done(rows::text(row, 2)?.unwrap_or_default())),
        _ => Ok(KeyState::InProgress),
    }
}
