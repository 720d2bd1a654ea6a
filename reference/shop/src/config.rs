//! Settings come from a flag, else from the environment (`POSTRIDER_ASSET__LOCK_TIMEOUT_MINUTES` and so on), else from
//! `postrider.toml`, else they are the default. An invalid value stops the start; the message names its key and its
//! origin.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::error::ShopError;
use crate::settings::Settings;

/// The file that is read by default.
pub const FILE: &str = "postrider.toml";

/// The keys of the shop. Unknown keys in these sections are refused; other sections belong to other programs.
const KEYS: [&str; 9] = [
    "asset.lock-timeout-minutes",
    "asset.order-timeout-minutes",
    "consistency.scan-window-hours",
    "points.per-cents",
    "scheduler.consistency-check-cron",
    "scheduler.lock-timeout-reaper-cron",
    "scheduler.time-zone",
    "shop.merchant-accept",
    "retention.finished-days",
];
/// A section that another program shares, with more keys.
const SHARED: &str = "retention.";

/// Why the settings are invalid.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A key has an invalid value.
    #[error("{key} ({origin}) {message}")]
    Value {
        /// The key.
        key: String,
        /// Where the value comes from.
        origin: String,
        /// The rule that it breaks.
        message: String,
    },
    /// The file cannot be read.
    #[error("{file}: {message}")]
    File {
        /// The file.
        file: String,
        /// The reason.
        message: String,
    },
}

/// The sources, in order of precedence.
#[derive(Debug, Default)]
pub struct Sources {
    flags: BTreeMap<&'static str, String>,
    environment: BTreeMap<String, String>,
    name: String,
    file: toml::Table,
}

impl Sources {
    /// Reads the flags by key, the environment, and the file. A missing file
    /// is an error only if it was named explicitly.
    pub fn read(
        flags: impl IntoIterator<Item = (&'static str, Option<String>)>,
        environment: impl IntoIterator<Item = (String, String)>,
        file: Option<&Path>,
    ) -> Result<Self, ConfigError> {
        let path = file.unwrap_or(Path::new(FILE));
        let name = path.display().to_string();
        let failed = |message: String| ConfigError::File { file: name.clone(), message };
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && file.is_none() => String::new(),
            Err(error) => return Err(failed(error.to_string())),
        };
        let file = text.parse().map_err(|error: toml::de::Error| failed(error.to_string()))?;
        let flags = flags.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        let sources = Self { flags, environment: environment.into_iter().collect(), name, file };
        sources.refuse_unknown()?;
        Ok(sources)
    }

    /// Applies the configured values to the given settings.
    pub fn settings(&self, mut settings: Settings) -> Result<Settings, ConfigError> {
        self.duration("asset.lock-timeout-minutes", 60, &mut settings.lock_timeout)?;
        self.duration("asset.order-timeout-minutes", 60, &mut settings.order_timeout)?;
        self.duration("consistency.scan-window-hours", 3_600, &mut settings.scan_window)?;
        self.duration("retention.finished-days", 86_400, &mut settings.retention.finished)?;
        self.value("scheduler.lock-timeout-reaper-cron", &mut settings.reaper_cron)?;
        self.value("scheduler.consistency-check-cron", &mut settings.consistency_cron)?;
        self.value("scheduler.time-zone", &mut settings.time_zone)?;
        self.value("points.per-cents", &mut settings.points_per_cents)?;
        self.value("shop.merchant-accept", &mut settings.merchant_accept)?;
        match settings.check() {
            Ok(()) => Ok(settings),
            Err(ShopError::Invalid { field, message }) => Err(self.invalid(field, message)),
            Err(error) => Err(self.invalid("shop", error.to_string())),
        }
    }

    fn duration(&self, key: &str, seconds: u64, duration: &mut Duration) -> Result<(), ConfigError> {
        let mut units = i64::try_from(duration.as_secs() / seconds).unwrap_or(i64::MAX);
        self.value(key, &mut units)?;
        *duration = Duration::from_secs(units.unsigned_abs().saturating_mul(seconds));
        Ok(())
    }

    fn value<T: Value>(&self, key: &str, value: &mut T) -> Result<(), ConfigError> {
        let (read, given) = if let Some(text) = self.flags.get(key).or_else(|| self.environment.get(&variable(key))) {
            (T::parse(text), format!("{text:?}"))
        } else if let Some(given) = in_file(&self.file, key) {
            (T::of(given), given.to_string())
        } else {
            return Ok(());
        };
        match read {
            Some(read) => *value = read,
            None => return Err(self.invalid(key, format!("must be {}, is {given}", T::RULE))),
        }
        Ok(())
    }

    fn invalid(&self, key: &str, message: String) -> ConfigError {
        let origin = if self.flags.contains_key(key) {
            "a flag".to_owned()
        } else if self.environment.contains_key(&variable(key)) {
            variable(key)
        } else if in_file(&self.file, key).is_some() {
            self.name.clone()
        } else {
            "default".to_owned()
        };
        ConfigError::Value { key: key.to_owned(), origin, message }
    }

    /// An unknown key would be ignored silently.
    fn refuse_unknown(&self) -> Result<(), ConfigError> {
        let mut sections: Vec<_> = KEYS.iter().filter(|key| !key.starts_with(SHARED)).collect();
        sections.dedup_by_key(|key| section(key));
        for section in sections.into_iter().map(|key| section(key)) {
            let message = || {
                let known: Vec<_> = KEYS.iter().filter(|key| self::section(key) == section).copied().collect();
                format!("is unknown; the known keys are {}", known.join(", "))
            };
            let prefix = variable(section) + "__";
            let named = self.environment.keys().filter(|name| name.starts_with(&prefix));
            for name in named {
                if !KEYS.iter().any(|key| variable(key) == *name) {
                    let key = name.clone();
                    return Err(ConfigError::Value { key, origin: "environment".into(), message: message() });
                }
            }
            for key in self.file.get(section).and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::keys) {
                let key = format!("{section}.{key}");
                if !KEYS.contains(&key.as_str()) {
                    return Err(ConfigError::Value { key, origin: self.name.clone(), message: message() });
                }
            }
        }
        Ok(())
    }
}

fn section(key: &str) -> &str {
    key.split_once('.').map_or(key, |(section, _)| section)
}

/// The environment variable of a key.
fn variable(key: &str) -> String {
    format!("POSTRIDER_{}", key.replace('.', "__").replace('-', "_").to_uppercase())
}

fn in_file<'a>(file: &'a toml::Table, key: &str) -> Option<&'a toml::Value> {
    let (section, name) = key.split_once('.')?;
    file.get(section)?.get(name)
}

/// The type of a setting.
trait Value: Sized {
    /// The rule, for error messages.
    const RULE: &'static str;
    fn parse(text: &str) -> Option<Self>;
    fn of(value: &toml::Value) -> Option<Self>;
}

impl Value for i64 {
    const RULE: &'static str = "a whole number of 1 or more";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().filter(|number| *number >= 1)
    }

    fn of(value: &toml::Value) -> Option<Self> {
        value.as_integer().filter(|number| *number >= 1)
    }
}

impl Value for bool {
    const RULE: &'static str = "true or false";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn of(value: &toml::Value) -> Option<Self> {
        value.as_bool()
    }
}

impl Value for String {
    const RULE: &'static str = "a text";

    fn parse(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }

    fn of(value: &toml::Value) -> Option<Self> {
        value.as_str().map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(flag: Option<&str>, environment: &[(&str, &str)], file: &str) -> Result<Sources, ConfigError> {
        let flags = flag.map(|value| ("asset.lock-timeout-minutes", value.to_owned())).into_iter().collect();
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let file = file.parse().expect("TOML");
        let sources = Sources { flags, environment, name: FILE.to_owned(), file };
        sources.refuse_unknown().map(|()| sources)
    }

    fn settings(flag: Option<&str>, environment: &[(&str, &str)], file: &str) -> Result<Settings, String> {
        let settings = sources(flag, environment, file).and_then(|sources| sources.settings(Settings::default()));
        settings.map_err(|error| error.to_string())
    }

    /// A.17
    #[test]
    fn a_flag_counts_before_the_environment_and_that_before_the_file() {
        let environment = [("POSTRIDER_ASSET__LOCK_TIMEOUT_MINUTES", "50")];
        let file = "[asset]\nlock-timeout-minutes = 40\n[outbox]\nbatch-size = 7\n";
        let minutes = |settings: Result<Settings, String>| settings.expect("good").lock_timeout.as_secs() / 60;
        assert_eq!(minutes(settings(None, &[], "")), 30);
        assert_eq!(minutes(settings(None, &[], file)), 40, "another program's section does not matter");
        assert_eq!(minutes(settings(None, &environment, file)), 50);
        assert_eq!(minutes(settings(Some("60"), &environment, file)), 60);
    }

    /// A.17
    #[test]
    fn every_key_is_read() {
        let file = r#"
            asset = { lock-timeout-minutes = 31, order-timeout-minutes = 16 }
            consistency = { scan-window-hours = 25 }
            scheduler = { lock-timeout-reaper-cron = "1 * * * * ?", consistency-check-cron = "2 * * * * ?", time-zone = "Asia/Shanghai" }
            points = { per-cents = 101 }
            shop = { merchant-accept = true }
            retention = { finished-days = 31, inbox-days = 40 }
        "#;
        let read = settings(None, &[], file).expect("good");
        let seconds = [read.lock_timeout, read.order_timeout, read.scan_window, read.retention.finished];
        assert_eq!(seconds.map(|duration| duration.as_secs()), [31 * 60, 16 * 60, 25 * 3_600, 31 * 86_400]);
        assert_eq!((read.reaper_cron.as_str(), read.consistency_cron.as_str()), ("1 * * * * ?", "2 * * * * ?"));
        assert_eq!(
            (read.time_zone.as_str(), read.points_per_cents, read.merchant_accept),
            ("Asia/Shanghai", 101, true)
        );
    }

    /// A.12, A.13, A.17
    #[test]
    fn a_bad_value_is_refused_with_its_key_and_where_it_stands() {
        let refused =
            |environment: &[(&str, &str)], file: &str| settings(None, environment, file).expect_err("refused");
        for (file, key) in [
            ("asset = { lock-timeout-minutes = 0 }", "asset.lock-timeout-minutes"),
            ("asset = { lock-timeout-minutes = \"30\" }", "asset.lock-timeout-minutes"),
            ("asset = { order-timeout-minutes = 30 }", "asset.order-timeout-minutes"),
            ("consistency = { scan-window-hours = -1 }", "consistency.scan-window-hours"),
            ("retention = { finished-days = 0.5 }", "retention.finished-days"),
            ("scheduler = { lock-timeout-reaper-cron = \"often\" }", "scheduler.lock-timeout-reaper-cron"),
            ("scheduler = { consistency-check-cron = 5 }", "scheduler.consistency-check-cron"),
            ("points = { per-cents = 0 }", "points.per-cents"),
            ("shop = { merchant-accept = 1 }", "shop.merchant-accept"),
            ("asset = { lock-timeout = 30 }", "asset.lock-timeout"),
        ] {
            let error = refused(&[], file);
            assert!(error.starts_with(&format!("{key} (postrider.toml) ")), "{error}");
        }
        let name = "POSTRIDER_POINTS__PER_CENTS";
        assert_eq!(
            refused(&[(name, "many")], ""),
            format!("points.per-cents ({name}) must be a whole number of 1 or more, is \"many\"")
        );
        let error = refused(&[("POSTRIDER_SHOP__ACCEPT", "true")], "");
        assert!(error.starts_with("POSTRIDER_SHOP__ACCEPT (environment) is unknown"), "{error}");
        let zone = refused(&[], "scheduler = { time-zone = \"Mars\" }");
        assert!(zone.contains("(postrider.toml)") || zone.contains("Mars"), "{zone}");
    }
}
