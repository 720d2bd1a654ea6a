//! What mends what no event did. Each job finds for itself what is left to do, does it order by order in short transactions
//! that hold the order's row, and writes into `shop_job_log` what it did: run twice, or on many instances, it does nothing twice.

use std::sync::Arc;

use metrics::counter;
use postrider::Enqueued;
use postrider::jobs::{JobResult, Jobs};
use serde::Serialize;

use crate::consumers::release_all;
use crate::database::Database;
use crate::error::Result;
use crate::events::{Facts, Paid, tell};
use crate::ledger;
use crate::orders::{self, By};
use crate::shop::{Caller, Shop, again};

/// Orders looked at in one go: ids are held in memory, and a job shows that it is alive in between.
const BATCH: i64 = 500;

/// The lock reaper, as jobs are called in the store.
pub const REAPER: &str = "shop-lock-reaper";
/// The consistency check.
pub const CONSISTENCY: &str = "shop-consistency-check";
/// The order timeout.
pub const ORDER_TIMEOUT: &str = "shop-order-timeout";

/// All jobs of a shop.
pub fn jobs<S: Database>(shop: &Shop<S>) -> Result<Jobs> {
    fn words<T: Serialize>(done: Result<T>) -> JobResult {
        Ok(serde_json::to_string(&done?)?)
    }
    let [reap_at, check_at, time_out_at] = shop.settings.schedules()?;
    let (reaping, checking, timing_out) = (shop.clone(), shop.clone(), shop.clone());
    Ok(Jobs::new(Arc::new(shop.store.clone()))
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

/// What the reaper did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reaped {
    /// Locks and freezes that were released.
    pub locks_released: u64,
    /// Orders that were canceled with it.
    pub orders_canceled: u64,
}

/// Releases locks and freezes that are too old, and cancels the order where it still waits for its payment: it could be paid
/// without them. An order that was paid keeps them, whatever their age.
pub async fn reap<S: Database>(shop: &Shop<S>) -> Result<Reaped> {
    const OLD: &str = "SELECT DISTINCT order_id FROM shop_lock WHERE status IN ('LOCKED', 'FROZEN')
        AND created_at <= $1 AND order_id > $2 ORDER BY order_id LIMIT $3";
    let mut reaped = Reaped::default();
    let mut last = String::new();
    loop {
        let batch = find_orders(shop, OLD, millis(shop.settings.lock_timeout), &last).await?;
        let Some(end) = batch.last().cloned() else { return Ok(reaped) };
        for order_id in &batch {
            let one = again(|| reap_order(shop, order_id)).await?;
            counter!("postrider_reaper_locks_released_total").increment(one.locks_released);
            reaped.locks_released += one.locks_released;
            reaped.orders_canceled += one.orders_canceled;
        }
        last = end;
    }
}

async fn reap_order<S: Database>(shop: &Shop<S>, order_id: &str) -> Result<Reaped> {
    let mut tx = shop.store.begin().await?;
    let mut order = orders::lock::<S>(&mut tx, order_id).await?;
    // Paid since it was found, perhaps: whoever had the row first has decided.
    if order.paid_at.is_some() {
        return Ok(Reaped::default());
    }
    // Counted here, since an operation that was done before answers as it did then.
    let held = ledger::locks::<S>(&mut tx, order_id).await?;
    let released = held.iter().filter(|lock| matches!(lock.status.as_str(), "LOCKED" | "FROZEN")).count() as u64;
    if released == 0 {
        return Ok(Reaped::default());
    }
    let canceled = order.status == "WAIT_PAY";
    if canceled {
        orders::cancel_in(shop, &mut tx, &mut order, &Caller::default(), By::Timeout).await?;
    }
    release_all(shop, &mut tx, &order).await?;
    log::<S>(&mut tx, REAPER, order_id, &format!("released {released} locks, canceled: {canceled}")).await?;
    shop.store.commit(tx).await?;
    Ok(Reaped { locks_released: released, orders_canceled: u64::from(canceled) })
}

/// What the consistency check did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Repaired {
    /// Paid orders without the event that says so.
    pub missing: u64,
    /// Events that were written for them.
    pub repaired: u64,
}

/// Gives every order that was paid lately its `order.paid`, where that is missing. It is written under the id that it should
/// have had, and what it does happens under keys: a wrong guess is harmless.
pub async fn check_consistency<S: Database>(shop: &Shop<S>) -> Result<Repaired> {
    const PAID: &str = "SELECT o.order_id FROM shop_order o JOIN shop_payment p ON p.order_id = o.order_id
        WHERE p.status = 'SUCCESS' AND o.paid_at >= $1 AND o.order_id > $2 ORDER BY o.order_id LIMIT $3";
    let mut repaired = Repaired::default();
    let mut last = String::new();
    loop {
        let batch = find_orders(shop, PAID, millis(shop.settings.scan_window), &last).await?;
        let Some(end) = batch.last().cloned() else { return Ok(repaired) };
        let ids: Vec<_> = batch.iter().map(|order_id| format!("order:{order_id}:paid")).collect();
        let there = shop.store.sight(&ids.iter().map(String::as_str).collect::<Vec<_>>()).await?;
        for (order_id, _) in batch.iter().zip(&ids).filter(|(_, id)| !there.contains(id)) {
            counter!("postrider_consistency_events_missing_total").increment(1);
            repaired.missing += 1;
            if again(|| restore_paid(shop, order_id)).await? {
                counter!("postrider_consistency_events_repaired_total").increment(1);
                repaired.repaired += 1;
            }
        }
        last = end;
    }
}

/// False: somebody else was faster.
async fn restore_paid<S: Database>(shop: &Shop<S>, order_id: &str) -> Result<bool> {
    let mut tx = shop.store.begin().await?;
    let order = orders::lock::<S>(&mut tx, order_id).await?;
    let payment = crate::payments::of_order::<S>(&mut tx, order_id).await?;
    let facts = payment.iter().fold(Facts::of(&order), |facts, payment| facts.payment(&payment.payment_id));
    let enqueued = tell(shop, &mut tx, &order, &Caller::default(), Paid(facts)).await?;
    if matches!(enqueued, Enqueued::Duplicate(_)) {
        return Ok(false);
    }
    log::<S>(&mut tx, CONSISTENCY, order_id, "restored order.paid").await?;
    shop.store.commit(tx).await?;
    tracing::warn!(order_id, trace_id = %order.trace_id, "A lost order.paid was restored");
    Ok(true)
}

/// What the order timeout did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TimedOut {
    /// Orders that were canceled.
    pub orders_canceled: u64,
}

/// Cancels orders that nobody paid in time.
pub async fn time_out_orders<S: Database>(shop: &Shop<S>) -> Result<TimedOut> {
    const UNPAID: &str = "SELECT order_id FROM shop_order WHERE status = 'WAIT_PAY'
        AND checked_out_at <= $1 AND order_id > $2 ORDER BY order_id LIMIT $3";
    let mut timed_out = TimedOut::default();
    let mut last = String::new();
    loop {
        let batch = find_orders(shop, UNPAID, millis(shop.settings.order_timeout), &last).await?;
        let Some(end) = batch.last().cloned() else { return Ok(timed_out) };
        for order_id in &batch {
            timed_out.orders_canceled += u64::from(again(|| time_out_order(shop, order_id)).await?);
        }
        last = end;
    }
}

/// False: it was paid or canceled since it was found.
async fn time_out_order<S: Database>(shop: &Shop<S>, order_id: &str) -> Result<bool> {
    let mut tx = shop.store.begin().await?;
    let mut order = orders::lock::<S>(&mut tx, order_id).await?;
    if order.status != "WAIT_PAY" {
        return Ok(false);
    }
    orders::cancel_in(shop, &mut tx, &mut order, &Caller::default(), By::Timeout).await?;
    log::<S>(&mut tx, ORDER_TIMEOUT, order_id, "canceled").await?;
    shop.store.commit(tx).await?;
    Ok(true)
}

/// The next orders that a question finds, `ago` milliseconds before now.
async fn find_orders<S: Database>(shop: &Shop<S>, sql: &'static str, ago: i64, last: &str) -> Result<Vec<String>> {
    let mut tx = shop.store.begin().await?;
    let since = S::clock(&mut tx).await? - ago;
    let rows = S::rows(&mut tx, sql, &[since.into(), last.into(), BATCH.into()]).await?;
    Ok(rows.into_iter().map(|mut row| row.text()).collect::<sqlx::Result<_>>()?)
}

async fn log<S: Database>(tx: &mut S::Conn, job: &str, order_id: &str, action: &str) -> Result<()> {
    const INSERT: &str = "INSERT INTO shop_job_log (job, order_id, action, created_at) VALUES ($1, $2, $3, $4)";
    let now = S::clock(tx).await?;
    S::execute(tx, INSERT, &[job.into(), order_id.into(), action.into(), now.into()]).await?;
    tracing::info!(job, order_id, action, "Job did");
    Ok(())
}

fn millis(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
