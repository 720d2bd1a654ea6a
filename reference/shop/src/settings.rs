//! What may be chosen for a shop, under the names of the configuration keys.

use std::time::Duration;

use postrider::jobs::Schedule;
use postrider::{Retention, RetryPolicy};
use postrider_config::{server, shop};

use crate::error::{Result, ShopError};

/// What may be chosen.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `asset.lock-timeout-minutes`: older locks are released.
    pub lock_timeout: Duration,
    /// `asset.order-timeout-minutes`: an order that is not paid for so long is canceled.
    pub order_timeout: Duration,
    /// `consistency.scan-window-hours`: how far back the consistency check looks.
    pub scan_window: Duration,
    /// `scheduler.lock-timeout-reaper-cron`
    pub reaper_cron: String,
    /// `scheduler.consistency-check-cron`
    pub consistency_cron: String,
    /// `scheduler.time-zone`
    pub time_zone: String,
    /// `points.per-cents`: one point for so many cents that were paid.
    pub points_per_cents: i64,
    /// `shop.merchant-accept`: a paid order waits for the merchant.
    pub merchant_accept: bool,
    /// Where the inventory service is; without one, stock is nobody's concern.
    pub inventory: Option<String>,
    /// When consumers try again, and how often.
    pub retry: RetryPolicy,
    /// How long finished events are kept.
    pub retention: Retention,
    /// The share of consumers' tries that fail on purpose, half of them after their work: for demonstrations and tests.
    pub fail_rate: f64,
}

impl Default for Settings {
    fn default() -> Self {
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        Self {
            lock_timeout: minutes(30),
            order_timeout: minutes(15),
            scan_window: minutes(24 * 60),
            reaper_cron: "0 */5 * * * ?".into(),
            consistency_cron: "0 0 */2 * * ?".into(),
            time_zone: "UTC".into(),
            points_per_cents: 100,
            merchant_accept: false,
            inventory: None,
            retry: RetryPolicy::default(),
            retention: Retention::default(),
            fail_rate: 0.0,
        }
    }
}

/// How often unpaid orders are looked for: a minute late is in time for a timeout of minutes.
const ORDER_TIMEOUT_CRON: &str = "0 * * * * ?";

impl Settings {
    /// Refuses values that cannot be meant, and names the key.
    pub fn check(&self) -> Result<()> {
        if self.order_timeout >= self.lock_timeout {
            return Err(ShopError::invalid(
                shop::ASSET_ORDER_TIMEOUT.name(),
                "must be shorter than asset.lock-timeout-minutes: an order could be paid after its locks are gone",
            ));
        }
        if self.scan_window.is_zero() {
            return Err(ShopError::invalid(shop::CONSISTENCY_SCAN_WINDOW.name(), "must be longer than nothing"));
        }
        if self.retention.finished < self.scan_window {
            return Err(ShopError::invalid(
                server::RETENTION_FINISHED.name(),
                "must not be shorter than consistency.scan-window-hours: what was pruned would look lost",
            ));
        }
        if self.points_per_cents < 1 {
            return Err(ShopError::invalid(shop::POINTS_PER_CENTS.name(), "must be 1 or more"));
        }
        if !(0.0..1.0).contains(&self.fail_rate) {
            return Err(ShopError::invalid("fail-rate", "must be 0 or more and less than 1"));
        }
        self.schedules().map(|_| ())
    }

    /// When the reaper, the consistency check and the order timeout run.
    pub(crate) fn schedules(&self) -> Result<[Schedule; 3]> {
        let parse = |key, cron: &str| {
            Schedule::parse(cron, &self.time_zone).map_err(|e| ShopError::invalid(key, format!("cannot be read: {e}")))
        };
        Ok([
            parse(shop::LOCK_TIMEOUT_REAPER_CRON.name(), &self.reaper_cron)?,
            parse(shop::CONSISTENCY_CHECK_CRON.name(), &self.consistency_cron)?,
            parse(server::SCHEDULER_TIME_ZONE.name(), ORDER_TIMEOUT_CRON)?,
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A.12, A.13, A.17
    #[test]
    fn what_cannot_be_meant_is_refused_by_the_name_of_its_key() {
        let refused = |change: fn(&mut Settings)| {
            let mut settings = Settings::default();
            change(&mut settings);
            settings.check().expect_err("it is refused").to_string()
        };
        assert!(Settings::default().check().is_ok());
        let same = refused(|s| s.order_timeout = s.lock_timeout);
        assert!(same.starts_with("asset.order-timeout-minutes must be shorter"), "{same}");
        let short = refused(|s| s.retention.finished = Duration::from_secs(3600));
        assert!(short.starts_with("retention.finished-days must not be shorter"), "{short}");
        let cron = refused(|s| s.reaper_cron = "often".into());
        assert!(cron.starts_with("scheduler.lock-timeout-reaper-cron cannot be read"), "{cron}");
        assert!(refused(|s| s.points_per_cents = 0).starts_with("points.per-cents"));
    }
}
