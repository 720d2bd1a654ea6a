//! The shop's settings from the configuration that all of Postrider's programs share.

use postrider_config::Config;
pub use postrider_config::{ConfigError, Sources, server, shop};

use crate::error::ShopError;
use crate::settings::Settings;

/// Reads what is configured; the other settings stay.
pub fn load(sources: Sources<'_>, settings: Settings) -> Result<Settings, ConfigError> {
    let config = Config::load(&[shop::ALL, shop::SHARED], sources)?;
    let settings = settings.configured(&config);
    match settings.check() {
        Ok(()) => Ok(settings),
        Err(ShopError::Invalid { field, message }) => Err(config.refuse_name(field, message)),
        Err(error) => Err(config.refuse_name("shop", error)),
    }
}

impl Settings {
    /// These settings with what is configured.
    #[must_use]
    pub fn configured(mut self, config: &Config) -> Self {
        self.lock_timeout = config.get(&shop::ASSET_LOCK_TIMEOUT);
        self.order_timeout = config.get(&shop::ASSET_ORDER_TIMEOUT);
        self.scan_window = config.get(&shop::CONSISTENCY_SCAN_WINDOW);
        self.reaper_cron = config.get(&shop::LOCK_TIMEOUT_REAPER_CRON);
        self.consistency_cron = config.get(&shop::CONSISTENCY_CHECK_CRON);
        self.time_zone = config.get(&server::SCHEDULER_TIME_ZONE);
        self.points_per_cents = config.get(&shop::POINTS_PER_CENTS).into();
        self.merchant_accept = config.get(&shop::MERCHANT_ACCEPT);
        self.retention.finished = config.get(&server::RETENTION_FINISHED);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(set: &[&str]) -> Result<Settings, String> {
        let set: Vec<String> = set.iter().map(ToString::to_string).collect();
        super::load(Sources { set: &set, ..Sources::default() }, Settings::default()).map_err(|error| error.to_string())
    }

    /// A.17
    #[test]
    fn every_key_is_read() {
        let read = load(&[
            "asset.lock-timeout-minutes=31",
            "asset.order-timeout-minutes=16",
            "consistency.scan-window-hours=25",
            "scheduler.lock-timeout-reaper-cron=1 * * * * ?",
            "scheduler.consistency-check-cron=2 * * * * ?",
            "scheduler.time-zone=Asia/Shanghai",
            "points.per-cents=101",
            "shop.merchant-accept=true",
            "retention.finished-days=31",
        ]);
        let read = read.expect("good");
        let seconds = [read.lock_timeout, read.order_timeout, read.scan_window, read.retention.finished];
        assert_eq!(seconds.map(|duration| duration.as_secs()), [31 * 60, 16 * 60, 25 * 3_600, 31 * 86_400]);
        assert_eq!((read.reaper_cron.as_str(), read.consistency_cron.as_str()), ("1 * * * * ?", "2 * * * * ?"));
        assert_eq!(
            (read.time_zone.as_str(), read.points_per_cents, read.merchant_accept),
            ("Asia/Shanghai", 101, true)
        );
    }

    /// A.12, A.13: the defaults of the table are those of a shop without a configuration.
    #[test]
    fn the_defaults_are_the_same_with_and_without_a_configuration() {
        let (read, plain) = (load(&[]).expect("good"), Settings::default());
        assert_eq!(format!("{read:?}"), format!("{plain:?}"));
    }

    /// A.12, A.13, A.17
    #[test]
    fn settings_that_contradict_each_other_are_refused_with_their_key() {
        let refused = load(&["asset.order-timeout-minutes=30"]).expect_err("refused");
        assert!(refused.starts_with("asset.order-timeout-minutes in the command line: must be shorter"), "{refused}");
        let refused = load(&["outbox.batch-size=5"]).expect_err("refused");
        assert_eq!(refused, "outbox.batch-size in the command line is a key of another program");
    }
}
