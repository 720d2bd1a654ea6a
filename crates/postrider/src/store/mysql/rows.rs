//! Conversion of rows. Columns are read by position: the statements name them in this order.

use std::sync::Arc;

use sqlx::mysql::MySqlRow;

pub(super) use super::columns::{envelope, get, int, maybe_time, small, text, time_at};
use crate::error::Result;
use crate::store::sql::target;
use crate::store::{Claimed, DeliveryId, Lease, Token};

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
