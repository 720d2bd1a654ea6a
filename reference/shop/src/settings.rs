//! The settings of a shop, with the names of their configuration keys.

use std::time::Duration;

use postrider::jobs::Schedule;
use postrider::{Retention, RetryPolicy};
use postrider_config::{server, shop};

use crate::error::{Result, ShopError};

/// The settings of a shop.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `asset.lock-timeout-minutes`: age after which locks are released.
    pub lock_timeout: Duration,
    /// `asset.order-timeout-minutes`: age after which an unpaid order is canceled.
    pub order_timeout: Duration,
    /// `consistency.scan-window-hours`: time span of the consistency check.
    pub scan_window: Duration,
    /// `scheduler.lock-timeout-reaper-cron`
    pub reaper_cron: String,
    /// `scheduler.consistency-check-cron`
    pub consistency_cron: String,
    /// `scheduler.time-zone`
    pub time_zone: String,
    /// `points.per-cents`: cents that earn one point.
    pub points_per_cents: i64,
    /// `shop.merchant-accept`: a paid order waits for the merchant's acceptance.
    pub merchant_accept: bool,
    /// URL of the inventory service. Without it, orders do not check stock.
    pub inventory: Option<String>,
    /// Retry policy of the consumers.
    pub retry: RetryPolicy,
    /// Retention of finished events.
    pub retention: Retention,
    /// Share of consumer attempts that fail on purpose, half of them after their work. For demonstrations and tests.
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

/// Every minute is often enough for a timeout of minutes.
const ORDER_TIMEOUT_CRON: &str = "0 * * * * ?";

impl Settings {
    /// Refuses invalid values and names the key.
    pub fn check(&self) -> Result<()> {
        if self.order_timeout >= self.lock_timeout {
            return Err(ShopError::invalid(
                shop::ASSET_ORDER_TIMEOUT.name(),
                "must be shorter than asset.lock-timeout-minutes: an order could be paid after its locks are gone",
            ));
        }
        if self.scan_window.is_zero() {
            return Err(ShopError::invalid(shop::CONSISTENCY_SCAN_WINDOW.name(), "must be greater than zero"));
        }
        if self.retention.finished < self.scan_window {
            return Err(ShopError::invalid(
                server::RETENTION_FINISHED.name(),
                "must not be shorter than consistency.scan-window-hours: a pruned event would look missing",
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

    /// The schedules of the reaper, the consistency check and the order timeout.
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
    fn an_invalid_value_is_refused_with_its_key() {
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
