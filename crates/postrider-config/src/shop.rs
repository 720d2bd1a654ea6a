//! The keys of the reference shop.

use std::time::Duration;

use crate::key::{Spec, keys};
use crate::server;

keys! {
    ASSET_LOCK_TIMEOUT: Duration = minutes("asset.lock-timeout-minutes", "30", 1, 525_600), "The age at which locks on assets are released";
    ASSET_ORDER_TIMEOUT: Duration = minutes("asset.order-timeout-minutes", "15", 1, 525_600), "How long an order may stay unpaid; shorter than the lock timeout";
    CONSISTENCY_SCAN_WINDOW: Duration = hours("consistency.scan-window-hours", "24", 1, 8_760), "How far back the consistency check looks";
    LOCK_TIMEOUT_REAPER_CRON: String = cron("scheduler.lock-timeout-reaper-cron", "0 */5 * * * ?"), "When locks that are too old are released";
    CONSISTENCY_CHECK_CRON: String = cron("scheduler.consistency-check-cron", "0 0 */2 * * ?"), "When orders and events are compared";
    POINTS_PER_CENTS: u32 = number("points.per-cents", "100", 1, 1_000_000), "Cents that earn one point";
    MERCHANT_ACCEPT: bool = flag("shop.merchant-accept"), "Whether a paid order waits for the merchant";
}

/// Keys of the server that the shop reads too.
pub const SHARED: &[Spec] = &[server::RETENTION_FINISHED.spec(), server::SCHEDULER_TIME_ZONE.spec()];
