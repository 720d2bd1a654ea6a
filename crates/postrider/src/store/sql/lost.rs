//! Attempts without a trace: their worker died before it could write a result.

use std::collections::BTreeMap;

use super::redrives::mark;
use super::rows::{get, int};
use super::{SqlStore, numbers};
use crate::entry::LEASE_RAN_OUT;
use crate::error::Result;
use crate::store::sql::{is_new, retrying};
use crate::store::{DeliveryId, PriorAttempts, Token};

/// The attempts of claimed deliveries that the history must have and has not: event, consumer, number.
async fn missing(store: &SqlStore, token: Token, prior: &[PriorAttempts]) -> Result<Vec<(i64, String, i32)>> {
    let wanted: BTreeMap<DeliveryId, u32> = prior.iter().map(|one| (one.id, one.attempts)).collect();
    let seqs: Vec<i64> = wanted.keys().map(|id| id.sequence).collect();
    let query = sqlx::query(text!(
        "SELECT d.event_seq, d.id, CASE d.target WHEN '' THEN d.lane ELSE d.target END, d.recorded_before, \
         coalesce((SELECT max(c.attempt) FROM postrider_consumption c \
                   WHERE c.event_seq = d.event_seq AND c.consumer = CASE d.target WHEN '' THEN d.lane ELSE d.target END), 0) \
         FROM ",
        seqs!("$1"),
        " CROSS JOIN postrider_delivery d WHERE d.event_seq = i.seq AND d.token = $2"
    ));
    let rows = query.bind(numbers(&seqs)?).bind(token.0).fetch_all(store.reader()).await?;
    let mut missing = Vec::new();
    for row in &rows {
        let id = DeliveryId::new(get(row, 0)?, get(row, 1)?);
        let Some(attempts) = wanted.get(&id) else { continue };
        let (consumer, before, last): (String, _, _) = (get(row, 2)?, int(row, 3)?, int(row, 4)?);
        let numbers = last + 1..=before + attempts;
        missing.extend(numbers.map(|number| (id.sequence, consumer.clone(), number.cast_signed())));
    }
    Ok(missing)
}

pub(in super::super) async fn append_lost(store: &SqlStore, token: Token, prior: &[PriorAttempts]) -> Result<()> {
    let missing = missing(store, token, prior).await?;
    let insert = text!(
        "INSERT INTO postrider_consumption (event_seq, consumer, attempt, success, will_retry, consumed_at, error, code) \
         VALUES ($1, $2, $3, false, true, ",
        now!(),
        ", $4, $5)"
    );
    for (seq, consumer, attempt) in &missing {
        let (error, code) = LEASE_RAN_OUT;
        retrying!(async {
            let query = sqlx::query(insert).bind(seq).bind(consumer).bind(attempt).bind(error).bind(code);
            is_new(query.execute(store.writer()).await)
        })?;
    }
    if missing.is_empty() {
        return Ok(());
    }
    let mut seqs: Vec<i64> = missing.iter().map(|(seq, _, _)| *seq).collect();
    seqs.dedup();
    retrying!(async {
        let mut tx = store.write().await?;
        mark(&mut tx, &seqs).await?;
        tx.commit().await?;
        Ok(())
    })
}
