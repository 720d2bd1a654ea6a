//! Jobs that repair what no event did. Each job finds its own work, handles one order per short transaction with the
//! order's row locked, and records its actions in `shop_job_log`. A repeated or concurrent run has no second effect.

use std::time::Duration;

use metrics::counter;
use postrider::Enqueued;
use postrider::jobs::{JobResult, Jobs};
use postrider::prelude::*;
use serde::Serialize;

use crate::consumers::release_all;
use crate::database::{Database, Value};
use crate::error::Result;
use crate::events::{Facts, Paid, enqueue_event};
use crate::ledger;
use crate::orders::{self, By};
use crate::shop::{Caller, Shop};

/// Orders per query: bounds memory, and the job sends a heartbeat between batches.
const BATCH: i64 = 500;

/// The name of the lock reaper in the store.
pub const REAPER: &str = "shop-lock-reaper";
/// The name of the consistency check.
pub const CONSISTENCY: &str = "shop-consistency-check";
/// The name of the order timeout.
pub const ORDER_TIMEOUT: &str = "shop-order-timeout";

/// All jobs of a shop.
pub fn jobs<S: Database>(shop: &Shop<S>) -> Result<Jobs> {
    fn words<T: Serialize>(done: Result<T>) -> JobResult {
        Ok(serde_json::to_string(&done?)?)
    }
    let [reap_at, check_at, time_out_at] = shop.settings.schedules()?;
    let (reaping, checking, timing_out) = (shop.clone(), shop.clone(), shop.clone());
    Ok(Jobs::new(shop.store.clone())
        .owner("shop")
        .job(REAPER, reap_at, move |_| {
            let shop = reaping.clone();
            async move { words(reap(&shop).await) }
        })
        .job(CONSISTENCY, check_at, move |_| {
            let shop = checking.clone();
            async move { words(check_consistency(&shop).await) }
        })
        .job(ORDER_TIMEOUT, time_out_at, move |_| {
            let shop = timing_out.clone();
            async move { words(time_out_orders(&shop).await) }
        }))
}

/// The result of the reaper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reaped {
    /// Released locks and freezes.
    pub locks_released: u64,
    /// Orders canceled with them.
    pub orders_canceled: u64,
}

/// Releases locks and freezes older than the timeout. Cancels the order if it still waits for payment, because it could
/// otherwise be paid without its assets. A paid order keeps its locks, however old they are.
pub async fn reap<S: Database>(shop: &Shop<S>) -> Result<Reaped> {
    const OLD: &str = "SELECT DISTINCT order_id FROM shop_lock WHERE status IN ('LOCKED', 'FROZEN')
        AND created_at <= $1 AND order_id > $2 ORDER BY order_id LIMIT $3";
    let mut reaped = Reaped::default();
    let mut last = String::new();
    loop {
        let batch = find_orders(shop, OLD, &[shop.settings.lock_timeout], &last).await?;
        let Some(end) = batch.last().cloned() else { return Ok(reaped) };
        for order_id in &batch {
            let one = shop.store.transaction(|tx| reap_order(shop, tx, order_id)).await?;
            counter!("postrider_reaper_locks_released_total").increment(one.locks_released);
            reaped.locks_released += one.locks_released;
            reaped.orders_canceled += one.orders_canceled;
        }
        last = end;
    }
}

async fn reap_order<S: Database>(shop: &Shop<S>, mut tx: S::Tx, order_id: &str) -> Result<(S::Tx, Reaped)> {
    let mut order = orders::lock::<S>(&mut tx, order_id).await?;
    // The order may have been paid since the query. The row lock decides the race.
    if order.paid_at.is_some() {
        return Ok((tx, Reaped::default()));
    }
    // Counted before the release, because a repeated operation returns its first result.
    let held = ledger::locks::<S>(&mut tx, order_id).await?;
    let released = held.iter().filter(|lock| matches!(lock.status.as_str(), "LOCKED" | "FROZEN")).count() as u64;
    if released == 0 {
        return Ok((tx, Reaped::default()));
    }
    let canceled = order.status == "WAIT_PAY";
    if canceled {
        orders::cancel_in(shop, &mut tx, &mut order, &Caller::default(), By::Timeout).await?;
    }
    release_all(shop, &mut tx, &order).await?;
    log::<S>(&mut tx, REAPER, order_id, &format!("released {released} locks, canceled: {canceled}")).await?;
    Ok((tx, Reaped { locks_released: released, orders_canceled: u64::from(canceled) }))
}

/// The result of the consistency check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Repaired {
    /// Paid orders without an `order.paid` event.
    pub missing: u64,
    /// Events restored for them.
    pub repaired: u64,
}

/// Restores a missing `order.paid` of paid orders that changed lately, whatever their status is by now. The event gets
/// its regular id, and its effects have idempotency keys, so an unnecessary repair has no effect. An order that was paid
/// before the retention began is left out: its event may have been pruned.
pub async fn check_consistency<S: Database>(shop: &Shop<S>) -> Result<Repaired> {
    const PAID: &str = "SELECT o.order_id FROM shop_order o JOIN shop_payment p ON p.order_id = o.order_id
        WHERE p.status = 'SUCCESS' AND o.updated_at >= $1 AND o.paid_at >= $2 AND o.order_id > $3
        ORDER BY o.order_id LIMIT $4";
    let ages = [shop.settings.scan_window, shop.settings.retention.finished];
    let mut repaired = Repaired::default();
    let mut last = String::new();
    loop {
        let batch = find_orders(shop, PAID, &ages, &last).await?;
        let Some(end) = batch.last().cloned() else { return Ok(repaired) };
        let ids: Vec<_> = batch.iter().map(|order_id| format!("order:{order_id}:paid")).collect();
        let there = shop.store.sight(&ids.iter().map(String::as_str).collect::<Vec<_>>()).await?;
        for (order_id, _) in batch.iter().zip(&ids).filter(|(_, id)| !there.contains(id)) {
            counter!("postrider_consistency_events_missing_total").increment(1);
            repaired.missing += 1;
            if shop.store.transaction(|tx| restore_paid(shop, tx, order_id)).await? {
                counter!("postrider_consistency_events_repaired_total").increment(1);
                repaired.repaired += 1;
            }
        }
        last = end;
    }
}

/// Returns false if another process has restored it.
async fn restore_paid<S: Database>(shop: &Shop<S>, mut tx: S::Tx, order_id: &str) -> Result<(S::Tx, bool)> {
    let order = orders::lock::<S>(&mut tx, order_id).await?;
    let payment = crate::payments::of_order::<S>(&mut tx, order_id).await?;
    let facts = payment.iter().fold(Facts::of(&order), |facts, payment| facts.payment(&payment.payment_id));
    let enqueued = enqueue_event(shop, &mut tx, &order, &Caller::default(), Paid(facts)).await?;
    if matches!(enqueued, Enqueued::Duplicate(_)) {
        return Ok((tx, false));
    }
    log::<S>(&mut tx, CONSISTENCY, order_id, "restored order.paid").await?;
    tracing::warn!(order_id, trace_id = %order.trace_id, "A missing order.paid was restored");
    Ok((tx, true))
}

/// The result of the order timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TimedOut {
    /// Canceled orders.
    pub orders_canceled: u64,
}

/// Cancels orders that were not paid in time.
pub async fn time_out_orders<S: Database>(shop: &Shop<S>) -> Result<TimedOut> {
    const UNPAID: &str = "SELECT order_id FROM shop_order WHERE status = 'WAIT_PAY'
        AND checked_out_at <= $1 AND order_id > $2 ORDER BY order_id LIMIT $3";
    let mut timed_out = TimedOut::default();
    let mut last = String::new();
    loop {
        let batch = find_orders(shop, UNPAID, &[shop.settings.order_timeout], &last).await?;
        let Some(end) = batch.last().cloned() else { return Ok(timed_out) };
        for order_id in &batch {
            timed_out.orders_canceled +=
                u64::from(shop.store.transaction(|tx| time_out_order(shop, tx, order_id)).await?);
        }
        last = end;
    }
}

/// Returns false if the order was paid or canceled since the query.
async fn time_out_order<S: Database>(shop: &Shop<S>, mut tx: S::Tx, order_id: &str) -> Result<(S::Tx, bool)> {
    let mut order = orders::lock::<S>(&mut tx, order_id).await?;
    if order.status != "WAIT_PAY" {
        return Ok((tx, false));
    }
    orders::cancel_in(shop, &mut tx, &mut order, &Caller::default(), By::Timeout).await?;
    log::<S>(&mut tx, ORDER_TIMEOUT, order_id, "canceled").await?;
    Ok((tx, true))
}

/// The next batch of order ids of a query. Its first values are times: each this long before now.
async fn find_orders<S: Database>(
    shop: &Shop<S>,
    sql: &'static str,
    ages: &[Duration],
    last: &str,
) -> Result<Vec<String>> {
    let mut tx = shop.store.begin().await?;
    let now = S::clock(&mut tx).await?;
    let mut values: Vec<Value<'_>> = ages.iter().map(|age| now.saturating_sub(millis(*age)).into()).collect();
    values.push(last.into());
    values.push(BATCH.into());
    let rows = S::rows(&mut tx, sql, &values).await?;
    Ok(rows.into_iter().map(|mut row| row.text()).collect::<sqlx::Result<_>>()?)
}

async fn log<S: Database>(tx: &mut S::Conn, job: &str, order_id: &str, action: &str) -> Result<()> {
    const INSERT: &str = "INSERT INTO shop_job_log (job, order_id, action, created_at) VALUES ($1, $2, $3, $4)";
    let now = S::clock(tx).await?;
    S::execute(tx, INSERT, &[job.into(), order_id.into(), action.into(), now.into()]).await?;
    tracing::info!(job, order_id, action, "Job changed an order");
    Ok(())
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
