//! The configuration: every key in one table, from flags, the environment, `postrider.toml` and defaults, in that order. A
//! value that cannot be stops the start, and the message names its key and where it stands.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use postrider::jobs::Schedule;
use postrider::store;
use postrider_server::Setting;

/// The file that is read where it is, unless another is named.
const FILE: &str = "postrider.toml";

/// What a value may be.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Text,
    /// Text that nobody is shown.
    Secret,
    /// A URL, which may hold a password.
    Url,
    Number(u64, u64),
    Share,
    Flag,
    Cron,
    Zone,
    OneOf(&'static [&'static str]),
}

/// A key, its default, and what it may be. An empty default: not set.
struct Key(&'static str, &'static str, Kind);

/// Every key there is.
const KEYS: &[Key] = &[
    Key("listen", "127.0.0.1:7070", Kind::Text),
    Key("store", store::DEFAULT_URL, Kind::Url),
    Key("broker", "", Kind::Url),
    Key("behind-proxy", "false", Kind::Flag),
    Key("tls.cert", "", Kind::Text),
    Key("tls.key", "", Kind::Text),
    Key("outbox.batch-size", "100", Kind::Number(1, 500)),
    Key("outbox.max-retry-count", "10", Kind::Number(1, 10_000)),
    Key("outbox.publisher-cron", "0/10 * * * * ?", Kind::Cron),
    Key("outbox.lease-seconds", "30", Kind::Number(1, 3_600)),
    Key("outbox.backoff-cap-seconds", "3600", Kind::Number(1, 604_800)),
    Key("outbox.backoff-jitter", "0.1", Kind::Share),
    Key("redrive.sent-older-than-seconds", "600", Kind::Number(0, 31_536_000)),
    Key("redrive.max-count", "10", Kind::Number(0, 10_000)),
    Key("redrive.horizon-days", "7", Kind::Number(0, 3_650)),
    Key("retention.inbox-days", "14", Kind::Number(1, 36_500)),
    Key("retention.finished-days", "30", Kind::Number(1, 36_500)),
    Key("retention.archive-dir", "", Kind::Text),
    Key("ordering.dead-head", "hold", Kind::OneOf(&["hold", "skip"])),
    Key("asset.lock-timeout-minutes", "30", Kind::Number(1, 525_600)),
    Key("asset.order-timeout-minutes", "15", Kind::Number(1, 525_600)),
    Key("consistency.scan-window-hours", "24", Kind::Number(1, 8_760)),
    Key("scheduler.lock-timeout-reaper-cron", "0 */5 * * * ?", Kind::Cron),
    Key("scheduler.consistency-check-cron", "0 0 */2 * * ?", Kind::Cron),
    Key("scheduler.time-zone", "UTC", Kind::Zone),
    Key("points.per-cents", "100", Kind::Number(1, 1_000_000)),
    Key("shop.merchant-accept", "false", Kind::Flag),
    Key("inventory.shards", "3", Kind::Number(1, 64)),
    Key("limits.payload-bytes", "1048576", Kind::Number(1, 1_048_576)),
    Key("limits.requests-per-second", "1000", Kind::Number(1, 1_000_000)),
    Key("limits.wait-seconds", "55", Kind::Number(0, 55)),
    Key("otel.endpoint", "", Kind::Url),
    Key("otel.headers", "", Kind::Secret),
    Key("otel.service-name", "postrider", Kind::Text),
    Key("otel.sample-share", "1", Kind::Share),
    Key("webhook.secret", "", Kind::Secret),
    Key("webhook.previous-secret", "", Kind::Secret),
    Key("webhook.timeout-seconds", "15", Kind::Number(1, 60)),
    Key("webhook.allow-hosts", "", Kind::Text),
];

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag,
    Environment(String),
    File(PathBuf),
    Default,
}

impl Origin {
    fn as_str(&self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Environment(_) => "environment",
            Self::File(_) => "file",
            Self::Default => "default",
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("the command line"),
            Self::Environment(name) => write!(f, "the environment ({name})"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Default => f.write_str("the defaults"),
        }
    }
}

/// A value that cannot be: the key, where it stands, and what it must be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConfigError(pub(crate) String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What the command line says of the configuration, the same for every command.
#[derive(clap::Args, Debug, Clone, Default)]
pub(crate) struct Flags {
    /// The configuration file [default: postrider.toml, where there is one]
    #[arg(long, global = true, env = "POSTRIDER_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// A value of the configuration, as `outbox.batch-size=50`; may be given many times
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

/// Every value that counts, and where it comes from.
#[derive(Debug)]
pub(crate) struct Config(BTreeMap<&'static str, (String, Origin)>);

impl Config {
    /// Reads everything; `named` are flags that have a name of their own.
    pub(crate) fn load(flags: &Flags, named: &[(&'static str, Option<&str>)]) -> Result<Self, ConfigError> {
        Self::load_over(&[], flags, named)
    }

    /// The same, for a command with other defaults.
    pub(crate) fn load_over(
        defaults: &[(&str, &str)],
        flags: &Flags,
        named: &[(&'static str, Option<&str>)],
    ) -> Result<Self, ConfigError> {
        let file = match &flags.config {
            Some(path) => Some(path.clone()),
            None => Path::new(FILE).exists().then(|| PathBuf::from(FILE)),
        };
        let defaults = defaults.iter().map(|(key, value)| ((*key).into(), (*value).into(), Origin::Default));
        let mut said: Vec<(String, String, Origin)> = defaults.collect();
        if let Some(path) = file {
            let text = std::fs::read_to_string(&path)
                .map_err(|e| ConfigError(format!("{} cannot be read: {e}", path.display())))?;
            said.extend(from_file(&path, &text)?);
        }
        said.extend(from_environment(std::env::vars())?);
        for pair in &flags.set {
            let (key, value) =
                pair.split_once('=').ok_or_else(|| ConfigError(format!("--set takes KEY=VALUE, not {pair:?}")))?;
            said.push((key.into(), value.into(), Origin::Flag));
        }
        let named = named.iter().filter_map(|(key, value)| Some(((*key).into(), (*value)?.into(), Origin::Flag)));
        said.extend(named);
        Self::of(said)
    }

    /// The last word on each key counts.
    fn of(said: Vec<(String, String, Origin)>) -> Result<Self, ConfigError> {
        let defaults = KEYS.iter().map(|Key(name, value, _)| (*name, ((*value).to_owned(), Origin::Default)));
        let mut values: BTreeMap<_, _> = defaults.collect();
        for (name, value, origin) in said {
            let Key(name, _, kind) = KEYS.iter().find(|key| key.0 == name).ok_or_else(|| unknown(&name, &origin))?;
            check(*kind, &value).map_err(|must| {
                let shown = if matches!(kind, Kind::Secret) { "***" } else { &value };
                ConfigError(format!("{name} in {origin} must be {must}, is {shown:?}"))
            })?;
            values.insert(name, (value, origin));
        }
        Ok(Self(values))
    }

    fn raw(&self, key: &str) -> &str {
        self.0.get(key).map_or("", |(value, _)| value)
    }

    /// The value of a key; None: it is not set.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        Some(self.raw(key)).filter(|value| !value.is_empty())
    }

    /// A number that was checked when it was read.
    pub(crate) fn number(&self, key: &str) -> u64 {
        self.raw(key).parse().unwrap_or_default()
    }

    pub(crate) fn share(&self, key: &str) -> f64 {
        self.raw(key).parse().unwrap_or_default()
    }

    pub(crate) fn flag(&self, key: &str) -> bool {
        self.raw(key) == "true"
    }

    pub(crate) fn seconds(&self, key: &str) -> Duration {
        Duration::from_secs(self.number(key))
    }

    pub(crate) fn days(&self, key: &str) -> Duration {
        Duration::from_secs(self.number(key) * 86_400)
    }

    /// Names of a list, written with commas or as a list of the file.
    pub(crate) fn list(&self, key: &str) -> Vec<String> {
        self.raw(key).split(',').map(str::trim).filter(|one| !one.is_empty()).map(Into::into).collect()
    }

    /// The error of a value that is wrong for a reason that only its user knows.
    pub(crate) fn refuse(&self, key: &str, why: impl fmt::Display) -> ConfigError {
        let origin = self.0.get(key).map_or(&Origin::Default, |(_, origin)| origin);
        ConfigError(format!("{key} in {origin}: {why}"))
    }

    /// Where a value comes from.
    pub(crate) fn origin(&self, key: &str) -> Option<&Origin> {
        self.0.get(key).map(|(_, origin)| origin)
    }

    /// All of it for people, without secrets.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let shown = |kind: Kind, value: &str| match kind {
            Kind::Secret if !value.is_empty() => "***".to_owned(),
            Kind::Url => without_password(value),
            _ => value.to_owned(),
        };
        let setting = |Key(name, _, kind): &Key| {
            let (value, origin) = self.0.get(name)?;
            Some(Setting { key: (*name).into(), value: shown(*kind, value), origin: origin.as_str().into() })
        };
        KEYS.iter().filter_map(setting).collect()
    }
}

/// A URL as it may be shown.
pub(crate) fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.into();
    };
    match rest.rsplit_once('@') {
        Some((who, place)) => match who.split_once(':') {
            Some((user, _)) => format!("{scheme}://{user}:***@{place}"),
            None => url.into(),
        },
        None => url.into(),
    }
}

fn unknown(name: &str, origin: &Origin) -> ConfigError {
    let near = KEYS.iter().map(|key| key.0).filter(|key| {
        let plain = |text: &str| text.replace(['-', '_', '.'], "").to_lowercase();
        plain(key) == plain(name) || key.rsplit('.').next() == name.rsplit('.').next()
    });
    let near: Vec<_> = near.collect();
    let hint = if near.is_empty() { String::new() } else { format!(": did you mean {}?", near.join(" or ")) };
    ConfigError(format!("{name} in {origin} is no key of the configuration{hint}"))
}

/// What a value must be, if it is not.
fn check(kind: Kind, value: &str) -> Result<(), String> {
    let is = |right: bool, must: &str| if right { Ok(()) } else { Err(must.to_owned()) };
    match kind {
        Kind::Text | Kind::Secret | Kind::Url => Ok(()),
        Kind::Number(least, most) => {
            let right = value.parse::<u64>().is_ok_and(|n| (least..=most).contains(&n));
            is(right, &format!("a number from {least} to {most}"))
        }
        Kind::Share => is(value.parse::<f64>().is_ok_and(|n| (0.0..=1.0).contains(&n)), "a share from 0 to 1"),
        Kind::Flag => is(matches!(value, "true" | "false"), "true or false"),
        Kind::Cron => {
            Schedule::parse(value, "UTC").map(|_| ()).map_err(|e| format!("a cron expression with seconds ({e})"))
        }
        Kind::Zone => {
            Schedule::parse("0 0 0 * * ?", value).map(|_| ()).map_err(|_| "a time zone such as Asia/Shanghai".into())
        }
        Kind::OneOf(words) => is(words.contains(&value), &words.join(" or ")),
    }
}

fn from_file(path: &Path, text: &str) -> Result<Vec<(String, String, Origin)>, ConfigError> {
    fn flatten(prefix: &str, table: &toml::Table, out: &mut Vec<(String, String)>) -> Result<(), String> {
        for (name, value) in table {
            let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
            let text = match value {
                toml::Value::Table(table) => {
                    flatten(&key, table, out)?;
                    continue;
                }
                toml::Value::String(text) => text.clone(),
                toml::Value::Integer(n) => n.to_string(),
                toml::Value::Float(n) => n.to_string(),
                toml::Value::Boolean(flag) => flag.to_string(),
                toml::Value::Array(list) if list.iter().all(toml::Value::is_str) => {
                    list.iter().filter_map(toml::Value::as_str).collect::<Vec<_>>().join(",")
                }
                _ => return Err(key),
            };
            out.push((key, text));
        }
        Ok(())
    }
    let table: toml::Table =
        text.parse().map_err(|e: toml::de::Error| ConfigError(format!("{} is no TOML: {e}", path.display())))?;
    let mut said = Vec::new();
    flatten("", &table, &mut said).map_err(|key| {
        ConfigError(format!("{key} in {} must be text, a number, true, false or a list of texts", path.display()))
    })?;
    Ok(said.into_iter().map(|(key, value)| (key, value, Origin::File(path.into()))).collect())
}

/// What OpenTelemetry calls some of our keys, for every program alike. Ours have the last word.
const STANDARD: [(&str, &str); 3] = [
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "otel.endpoint"),
    ("OTEL_EXPORTER_OTLP_HEADERS", "otel.headers"),
    ("OTEL_SERVICE_NAME", "otel.service-name"),
];

/// `POSTRIDER_OUTBOX__BATCH_SIZE` is `outbox.batch-size`. Others of ours (`POSTRIDER_TOKEN`, …) are no keys, unless they have
/// a section, which only keys have.
fn from_environment(
    variables: impl Iterator<Item = (String, String)>,
) -> Result<Vec<(String, String, Origin)>, ConfigError> {
    let (mut standard, mut said) = (Vec::new(), Vec::new());
    for (name, value) in variables {
        if let Some((_, key)) = STANDARD.iter().find(|(known, _)| *known == name) {
            standard.push(((*key).to_owned(), value, Origin::Environment(name)));
            continue;
        }
        let Some(rest) = name.strip_prefix("POSTRIDER_") else {
            continue;
        };
        let key = rest.to_lowercase().replace("__", ".").replace('_', "-");
        let origin = Origin::Environment(name.clone());
        match KEYS.iter().any(|known| known.0 == key) {
            true => said.push((key, value, origin)),
            false if rest.contains("__") => return Err(unknown(&key, &origin)),
            false => {}
        }
    }
    Ok([standard, said].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Result<Vec<(String, String, Origin)>, ConfigError> {
        from_environment(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    /// A.17: every default is one that is allowed.
    #[test]
    fn every_default_passes_its_own_check() {
        for Key(name, value, kind) in KEYS {
            assert_eq!(check(*kind, value), Ok(()), "{name}");
        }
    }

    /// A.17: flags > environment > file > defaults, for every key.
    #[test]
    fn the_last_word_counts() -> Result<(), ConfigError> {
        for Key(name, default, kind) in KEYS {
            let other = match kind {
                Kind::Number(least, most) => if *default == least.to_string() { most } else { least }.to_string(),
                Kind::Share => "0.5".into(),
                Kind::Flag => "true".into(),
                Kind::Cron => "1 2 3 * * ?".into(),
                Kind::Zone => "Asia/Shanghai".into(),
                Kind::OneOf(words) => words[words.len() - 1].into(),
                Kind::Text | Kind::Secret | Kind::Url => "other".into(),
            };
            let toml = match kind {
                Kind::Number(..) | Kind::Share | Kind::Flag => format!("{name} = {other}"),
                _ => format!("{name} = {other:?}"),
            };
            let path = Path::new("some/postrider.toml");
            let file = from_file(path, &toml)?;
            let variable = format!("POSTRIDER_{}", name.to_uppercase().replace('.', "__").replace('-', "_"));
            let env = environment(&[(&variable, default)])?;
            let flag = vec![((*name).to_owned(), other.clone(), Origin::Flag)];
            let value = |said: Vec<_>| Config::of(said).map(|config| config.0[name].clone());
            assert_eq!(value(vec![])?, ((*default).to_owned(), Origin::Default), "{name}");
            assert_eq!(value(file.clone())?, (other.clone(), Origin::File(path.into())), "{name}");
            let both = [file, env].concat();
            assert_eq!(value(both.clone())?, ((*default).to_owned(), Origin::Environment(variable)), "{name}");
            assert_eq!(value([both, flag].concat())?, (other, Origin::Flag), "{name}");
        }
        Ok(())
    }

    /// A.17: a bad value is refused with its key and where it stands.
    #[test]
    fn a_bad_value_is_named_with_its_place() {
        let path = Path::new("/etc/postrider.toml");
        let refused = |toml: &str| from_file(path, toml).and_then(Config::of).map(|_| ()).expect_err("it is refused").0;
        assert_eq!(
            refused("[outbox]\nbatch-size = 501"),
            "outbox.batch-size in /etc/postrider.toml must be a number from 1 to 500, is \"501\""
        );
        assert!(
            refused("[outbox]\npublisher-cron = \"often\"")
                .starts_with("outbox.publisher-cron in /etc/postrider.toml must be a cron")
        );
        assert_eq!(
            refused("[outbox]\nbatch_size = 5"),
            "outbox.batch_size in /etc/postrider.toml is no key of the configuration: did you mean outbox.batch-size?"
        );
        assert!(refused("outbox = [1]").starts_with("outbox in /etc/postrider.toml must be text"));
        assert!(refused("outbox = ").starts_with("/etc/postrider.toml is no TOML"));
        let refused = environment(&[("POSTRIDER_OUTBOX__BATCHES", "1")]).expect_err("it is refused").0;
        assert!(refused.contains("outbox.batches in the environment (POSTRIDER_OUTBOX__BATCHES)"), "{refused}");
        let standard = [("POSTRIDER_OTEL__ENDPOINT", "http://ours"), ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all")];
        let config = environment(&standard).and_then(Config::of).expect("both are known");
        assert_eq!(config.text("otel.endpoint"), Some("http://ours"));
        assert!(environment(&[("POSTRIDER_TOKEN", "x"), ("POSTRIDER_TEST_MYSQL", "x")]).is_ok());
    }

    /// S22
    #[test]
    fn secrets_are_hidden() -> Result<(), ConfigError> {
        let said = [
            ("webhook.secret", "canary"),
            ("store", "postgres://app:canary@host/db"),
            ("broker", "amqp://u:canary@h/"),
            ("otel.endpoint", "https://u:canary@h/"),
            ("otel.headers", "authorization=canary"),
        ];
        let said = said.map(|(key, value)| (key.to_owned(), value.to_owned(), Origin::Flag)).to_vec();
        let shown = format!("{:?}", Config::of(said)?.settings());
        assert!(!shown.contains("canary") && shown.contains("postgres://app:***@host/db"), "{shown}");
        Ok(())
    }
}
