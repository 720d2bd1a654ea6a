//! Payloads that are too large to be read together with those of all other deliveries of a claim.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::rows::get;
use super::{SqlStore, numbers};
use crate::error::Result;
use crate::store::{Claim, Deliveries, DeliveryId, Lease};

/// F59: completes a lease that was read without its large payloads, those of the events `large`. It keeps as many deliveries as
/// the claim has bytes for, and releases the others.
pub(in super::super) async fn complete(
    store: &SqlStore,
    claim: &Claim,
    mut lease: Lease,
    large: Vec<i64>,
) -> Result<Lease> {
    if large.is_empty() {
        return Ok(lease);
    }
    let sizes = sqlx::query(text!(
        "SELECT e.seq, ",
        octets!("e.payload"),
        " FROM ",
        seqs!("$1"),
        " CROSS JOIN postrider_event e WHERE e.seq = i.seq"
    ));
    let sizes = sizes.bind(numbers(&large)?).fetch_all(store.reader()).await?;
    let sizes = sizes.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?))).collect::<Result<BTreeMap<i64, i64>>>()?;
    let size = |id: &DeliveryId| sizes.get(&id.sequence).map(|size| usize::try_from(*size).unwrap_or(usize::MAX));
    let all = lease.deliveries.iter().map(|one| size(&one.id).unwrap_or(one.envelope.payload.len()));
    let rest = lease.deliveries.split_off(claim.fitting(all));
    if !rest.is_empty() {
        store.release(lease.token, &rest.iter().map(|one| one.id).collect::<Vec<_>>()).await?;
    }
    let mut wanted: Vec<i64> = lease.deliveries.iter().map(|one| one.id.sequence).collect();
    wanted.retain(|seq| sizes.contains_key(seq));
    wanted.dedup();
    let payloads = sqlx::query(text!(
        "SELECT e.seq, e.payload FROM ",
        seqs!("$1"),
        " CROSS JOIN postrider_event e WHERE e.seq = i.seq"
    ));
    for row in payloads.bind(numbers(&wanted)?).fetch_all(store.reader()).await? {
        let (seq, payload): (i64, String) = (get(&row, 0)?, super::rows::text(&row, 1)?.unwrap_or_default());
        // Two deliveries of a lease may have one event, for two targets of a broker.
        let from = lease.deliveries.partition_point(|one| one.id.sequence < seq);
        for one in lease.deliveries[from..].iter_mut().take_while(|one| one.id.sequence == seq) {
            Arc::make_mut(&mut one.envelope).payload.clone_from(&payload);
        }
    }
    Ok(lease)
}
