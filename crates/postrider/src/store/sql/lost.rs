//! Attempts without a trace: their worker died before it could write a result.

use std::collections::BTreeMap;

use super::rows::{get, int};
use super::{SqlStore, numbers};
use crate::error::Result;
use crate::store::{DeliveryId, PriorAttempts, Token};

/// The attempts of claimed deliveries that the history must have and has not: event, consumer, number.
pub(super) async fn missing(
    store: &SqlStore,
    token: Token,
    prior: &[PriorAttempts],
) -> Result<Vec<(i64, String, i32)>> {
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
