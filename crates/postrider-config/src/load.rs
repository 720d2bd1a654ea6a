//! The layers: defaults, the file, the environment, flags. The last that has a value for a key decides.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::key::{Assignment, Key, Spec};
use crate::{TABLES, server};

/// The file that is read if no other is named.
const FILE: &str = "postrider.toml";
/// How a variable of ours begins.
const PREFIX: &str = "POSTRIDER_";
/// How alike an unknown key and a known one must be for a hint, 0 to 1: half of the letters.
const ALIKE: f64 = 0.5;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A flag.
    Flag,
    /// This variable.
    Environment(String),
    /// This file.
    File(PathBuf),
    /// The default.
    Default,
}

impl Origin {
    /// In one word: `flag`, `environment`, `file` or `default`.
    pub fn as_str(&self) -> &'static str {
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

/// A value that cannot be used: its key, where it comes from, and what it must be.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigError(String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// What is read, the weakest first.
#[derive(Debug, Default)]
pub struct Sources<'a> {
    /// Defaults of one command, instead of those of the table.
    pub defaults: Vec<Assignment>,
    /// The file; without one, `postrider.toml` if it exists.
    pub file: Option<&'a Path>,
    /// The environment.
    pub environment: Vec<(String, String)>,
    /// `KEY=VALUE` from the command line.
    pub set: &'a [String],
    /// Flags with a name of their own.
    pub flags: Vec<Assignment>,
}

impl Sources<'_> {
    /// The variables of this process. One that is not Unicode is not ours.
    pub fn process_environment() -> Vec<(String, String)> {
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect()
    }
}

/// One value, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The key.
    pub key: &'static str,
    /// The value; `***` for a secret.
    pub value: String,
    /// `flag`, `environment`, `file` or `default`.
    pub origin: &'static str,
}

/// The value of each key of a program, and where it comes from.
#[derive(Debug)]
pub struct Config {
    specs: Vec<Spec>,
    values: BTreeMap<&'static str, (String, Origin)>,
}

impl Config {
    /// Reads the keys of these tables.
    pub fn load(tables: &[&[Spec]], sources: Sources<'_>) -> Result<Self, ConfigError> {
        let specs = tables.concat();
        let defaults = specs.iter().map(|spec| (spec.name, (spec.default.to_owned(), Origin::Default)));
        let mut config = Self { values: defaults.collect(), specs };
        config.assign(sources.defaults, &Origin::Default)?;
        let file = sources.file.or_else(|| Some(Path::new(FILE)).filter(|path| path.exists()));
        if let Some(path) = file {
            let text = std::fs::read_to_string(path)
                .map_err(|e| ConfigError(format!("{} cannot be read: {e}", path.display())))?;
            config.read_file(path, &text)?;
            config.refuse_shared_secrets(path)?;
        }
        config.read_environment(sources.environment)?;
        for pair in sources.set {
            let (key, value) =
                pair.split_once('=').ok_or_else(|| ConfigError(format!("--set takes KEY=VALUE, not {pair:?}")))?;
            config.put(key, value.into(), Origin::Flag)?;
        }
        config.assign(sources.flags, &Origin::Flag)?;
        config.check()?;
        Ok(config)
    }

    /// The value of a key of this program.
    pub fn get<T>(&self, key: &Key<T>) -> T {
        debug_assert!(self.values.contains_key(key.name()), "{} is a key of another program", key.name());
        key.read(self.values.get(key.name()).map_or(key.spec().default, |(value, _)| value))
    }

    /// Where the value of a key comes from.
    pub fn origin<T>(&self, key: &Key<T>) -> &Origin {
        self.values.get(key.name()).map_or(&Origin::Default, |(_, origin)| origin)
    }

    /// The error for a value that only its user can judge.
    pub fn refuse<T>(&self, key: &Key<T>, why: impl fmt::Display) -> ConfigError {
        self.refuse_name(key.name(), why)
    }

    /// The same, for a check that names its key.
    pub fn refuse_name(&self, name: &str, why: impl fmt::Display) -> ConfigError {
        let origin = self.values.get(name).map_or(&Origin::Default, |(_, origin)| origin);
        ConfigError(format!("{name} in {origin}: {why}"))
    }

    /// Every value, without secrets.
    pub fn settings(&self) -> Vec<Setting> {
        let setting = |spec: &Spec| {
            let (value, origin) = self.values.get(spec.name)?;
            Some(Setting { key: spec.name, value: spec.kind.shown(value), origin: origin.as_str() })
        };
        self.specs.iter().filter_map(setting).collect()
    }

    fn assign(&mut self, assignments: Vec<Assignment>, origin: &Origin) -> Result<(), ConfigError> {
        for Assignment { name, value } in assignments {
            if let Some(value) = value {
                self.put(name, value, origin.clone())?;
            }
        }
        Ok(())
    }

    fn put(&mut self, name: &str, value: String, origin: Origin) -> Result<(), ConfigError> {
        let Some(spec) = self.specs.iter().find(|spec| spec.name == name) else {
            return match origin {
                _ if !is_known(name) => Err(unknown(name, &origin)),
                Origin::Flag => Err(ConfigError(format!("{name} in {origin} is a key of another program"))),
                // The file and the environment are shared by all programs.
                _ => Ok(()),
            };
        };
        self.values.insert(spec.name, (value, origin));
        Ok(())
    }

    /// Secrets in a file that every user of the machine can read are no secrets. A group may read it: services share one.
    #[cfg(unix)]
    fn refuse_shared_secrets(&self, path: &Path) -> Result<(), ConfigError> {
        use std::os::unix::fs::PermissionsExt as _;
        const OTHERS: u32 = 0o007;
        let is_secret = |spec: &&Spec| {
            let value = self.values.get(spec.name);
            value.is_some_and(|(value, origin)| matches!(origin, Origin::File(_)) && spec.kind.shown(value) != *value)
        };
        let secrets: Vec<_> = self.specs.iter().filter(is_secret).map(|spec| spec.name).collect();
        let mode = std::fs::metadata(path).map_or(0, |file| file.permissions().mode());
        if secrets.is_empty() || mode & OTHERS == 0 {
            return Ok(());
        }
        let (keys, path) = (secrets.join(", "), path.display());
        Err(ConfigError(format!("{path} has secrets ({keys}) and every user can open it: chmod 600 '{path}'")))
    }

    #[cfg(not(unix))]
    fn refuse_shared_secrets(&self, _path: &Path) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Only values that count are checked: a flag may replace a bad value of the file.
    fn check(&self) -> Result<(), ConfigError> {
        for Spec { name, kind, .. } in &self.specs {
            let Some((value, origin)) = self.values.get(name) else { continue };
            kind.check(value).map_err(|must| {
                ConfigError(format!("{name} in {origin} must be {must}, is {:?}", kind.shown(value)))
            })?;
        }
        Ok(())
    }

    fn read_file(&mut self, path: &Path, text: &str) -> Result<(), ConfigError> {
        // Not the whole error: it repeats the line, which may have a secret.
        let refused = |e: toml::de::Error| {
            let before = e.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            ConfigError(format!("{} is no TOML: line {line}: {}", path.display(), e.message()))
        };
        let table: toml::Table = text.parse().map_err(refused)?;
        let mut values = Vec::new();
        flatten("", &table, &mut values).map_err(|key| {
            ConfigError(format!("{key} in {} must be text, a number, true, false or a list of texts", path.display()))
        })?;
        values.into_iter().try_for_each(|(key, value)| self.put(&key, value, Origin::File(path.into())))
    }

    /// `POSTRIDER_OUTBOX__BATCH_SIZE` is `outbox.batch-size`. Others of ours (`POSTRIDER_TOKEN`) are no keys, unless they
    /// have a section, which only keys have.
    fn read_environment(&mut self, mut variables: Vec<(String, String)>) -> Result<(), ConfigError> {
        // The standard's names first: ours overwrite them.
        variables.sort_by_key(|(name, _)| name.starts_with(PREFIX));
        for (variable, value) in variables {
            let key =
                match (server::STANDARD.iter().find(|(known, _)| *known == variable), variable.strip_prefix(PREFIX)) {
                    (Some((_, key)), _) => (*key).to_owned(),
                    (None, Some(rest)) => rest.to_lowercase().replace("__", ".").replace('_', "-"),
                    (None, None) => continue,
                };
            if is_known(&key) || key.contains('.') {
                self.put(&key, value, Origin::Environment(variable))?;
            }
        }
        Ok(())
    }
}

/// A URL as it may be shown.
pub fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.into();
    };
    match rest.rsplit_once('@').and_then(|(user, place)| Some((user.split_once(':')?.0, place))) {
        Some((user, place)) => format!("{scheme}://{user}:***@{place}"),
        None => url.into(),
    }
}

fn is_known(name: &str) -> bool {
    TABLES.iter().any(|table| table.iter().any(|spec| spec.name == name))
}

/// An unknown key would be ignored silently.
fn unknown(name: &str, origin: &Origin) -> ConfigError {
    let likeness = |key: &str| strsim::normalized_damerau_levenshtein(key, name);
    let nearest = TABLES.iter().flat_map(|table| table.iter()).map(|spec| spec.name);
    let nearest = nearest.max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
    let hint = nearest.filter(|key| likeness(key) >= ALIKE).map(|key| format!(": did you mean {key}?"));
    ConfigError(format!("{name} in {origin} is no key of the configuration{}", hint.unwrap_or_default()))
}

/// The values of a table by their whole keys. The error is the key of a value that is neither text nor a number.
fn flatten(prefix: &str, table: &toml::Table, values: &mut Vec<(String, String)>) -> Result<(), String> {
    for (name, value) in table {
        let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        let text = match value {
            toml::Value::Table(table) => {
                flatten(&key, table, values)?;
                continue;
            }
            toml::Value::String(text) => text.clone(),
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Float(number) => number.to_string(),
            toml::Value::Boolean(flag) => flag.to_string(),
            toml::Value::Array(list) if list.iter().all(toml::Value::is_str) => {
                list.iter().filter_map(toml::Value::as_str).collect::<Vec<_>>().join(",")
            }
            _ => return Err(key),
        };
        values.push((key, text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Kind;
    use crate::shop;

    const PATH: &str = "/etc/postrider.toml";

    /// A configuration of all keys, from a file, variables and `--set`.
    fn read(file: &str, variables: &[(&str, &str)], set: &[String]) -> Result<Config, String> {
        let read = || {
            let mut config =
                Config::load(&TABLES, Sources { file: Some(Path::new("/dev/null")), ..Sources::default() })?;
            config.read_file(Path::new(PATH), file)?;
            let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            config.read_environment(variables.iter().map(owned).collect())?;
            for pair in set {
                let (key, value) = pair.split_once('=').expect("a pair");
                config.put(key, value.into(), Origin::Flag)?;
            }
            config.check()?;
            Ok(config)
        };
        read().map_err(|error: ConfigError| error.to_string())
    }

    /// A.17
    #[test]
    fn every_default_passes_its_own_check() {
        for spec in TABLES.concat() {
            assert!(spec.default.is_empty() || spec.kind.check(spec.default).is_ok(), "{spec:?}");
        }
    }

    /// A.17: flags > environment > file > defaults, for every key.
    #[test]
    fn the_strongest_layer_decides() -> Result<(), String> {
        for spec in TABLES.concat() {
            let Spec { name, default, kind, .. } = spec;
            let other = match kind {
                Kind::Number { least, most } | Kind::Duration { least, most, .. } => {
                    if default == least.to_string() { most } else { least }.to_string()
                }
                Kind::Share => "0.5".into(),
                Kind::Flag => "true".into(),
                Kind::Cron => "1 2 3 * * ?".into(),
                Kind::Zone => "Asia/Shanghai".into(),
                Kind::OneOf(words) => words[words.len() - 1].into(),
                Kind::Text | Kind::List | Kind::Secret | Kind::Url => "other".into(),
            };
            let is_bare = matches!(kind, Kind::Number { .. } | Kind::Duration { .. } | Kind::Share | Kind::Flag);
            let file = if is_bare { format!("{name} = {other}") } else { format!("{name} = {other:?}") };
            let variable = format!("POSTRIDER_{}", name.to_uppercase().replace('.', "__").replace('-', "_"));
            let environment = [(variable.as_str(), default)];
            let set = [format!("{name}={other}")];
            let value = |config: Config| config.values[name].clone();
            assert_eq!(value(read("", &[], &[])?), (default.into(), Origin::Default), "{name}");
            assert_eq!(value(read(&file, &[], &[])?), (other.clone(), Origin::File(PATH.into())), "{name}");
            let both = value(read(&file, &environment, &[])?);
            assert_eq!(both, (default.into(), Origin::Environment(variable.clone())), "{name}");
            assert_eq!(value(read(&file, &environment, &set)?), (other, Origin::Flag), "{name}");
        }
        Ok(())
    }

    /// S22: a file with secrets that every user can open is refused, and an error repeats no line of it.
    #[cfg(unix)]
    #[test]
    fn secrets_are_read_from_files_that_others_cannot_open() {
        use std::os::unix::fs::PermissionsExt as _;
        let path = std::env::temp_dir().join(format!("postrider-config-{}.toml", std::process::id()));
        let load = |text: &str, mode: u32| {
            std::fs::write(&path, text).expect("a file");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("its owner");
            let loaded = Config::load(&TABLES, Sources { file: Some(&path), ..Sources::default() });
            loaded.map(drop).map_err(|error| error.to_string())
        };
        for secret in
            ["webhook.secret = 'canary'", "store = 'postgres://app:canary@db/bus'", "otel.headers = ['a=canary']"]
        {
            for mode in [0o604, 0o606, 0o644, 0o777] {
                let error = load(secret, mode).expect_err("it is refused");
                assert!(error.contains(&format!("chmod 600 '{}'", path.display())), "{error}");
                assert!(
                    error.contains(secret.split(' ').next().expect("a key")) && !error.contains("canary"),
                    "{error}"
                );
            }
            assert_eq!((load(secret, 0o600), load(secret, 0o640)), (Ok(()), Ok(())));
        }
        for open in ["outbox.batch-size = 7", "store = 'postgres://app@db/bus'", ""] {
            assert_eq!(load(open, 0o644), Ok(()));
        }
        let error = load("[webhook]\nsecret = canary", 0o600).expect_err("it is no TOML");
        assert!(error.contains("line 2") && !error.contains("canary"), "{error}");
        std::fs::remove_file(&path).expect("it was there");
    }

    /// A.17
    #[test]
    fn a_bad_value_is_refused_with_its_key_and_origin() {
        let refused = |file: &str| read(file, &[], &[]).expect_err("it is refused");
        assert_eq!(
            refused("[outbox]\nbatch-size = 501"),
            "outbox.batch-size in /etc/postrider.toml must be a number from 1 to 500, is \"501\""
        );
        let cron = refused("[outbox]\npublisher-cron = \"often\"");
        assert!(cron.starts_with("outbox.publisher-cron in /etc/postrider.toml must be a cron"), "{cron}");
        assert!(refused("outbox = [1]").starts_with("outbox in /etc/postrider.toml must be text"));
        assert!(refused("outbox = ").starts_with("/etc/postrider.toml is no TOML"));
        for (file, key) in [
            ("asset.lock-timeout-minutes = 0", "asset.lock-timeout-minutes"),
            ("consistency.scan-window-hours = -1", "consistency.scan-window-hours"),
            ("retention.finished-days = 0.5", "retention.finished-days"),
            ("scheduler.consistency-check-cron = 5", "scheduler.consistency-check-cron"),
            ("scheduler.time-zone = \"Mars\"", "scheduler.time-zone"),
            ("shop.merchant-accept = 1", "shop.merchant-accept"),
        ] {
            let error = refused(file);
            assert!(error.starts_with(&format!("{key} in /etc/postrider.toml must be ")), "{error}");
        }
        let error = read("", &[("POSTRIDER_INVENTORY__SHARDS", "65")], &[]).expect_err("it is refused");
        assert_eq!(
            error,
            "inventory.shards in the environment (POSTRIDER_INVENTORY__SHARDS) must be a number from 1 to 64, is \"65\""
        );
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest_known_one() {
        for (file, nearest) in [
            ("outbox.batch_size = 5", "outbox.batch-size"),
            ("batch-size = 5", "outbox.batch-size"),
            ("asset.lock-timeout = 30", "asset.lock-timeout-minutes"),
            ("[retntion]\nfinished-days = 3", "retention.finished-days"),
        ] {
            let error = read(file, &[], &[]).expect_err("it is refused");
            assert!(error.ends_with(&format!("is no key of the configuration: did you mean {nearest}?")), "{error}");
        }
        let error = read("colour = 1", &[], &[]).expect_err("it is refused");
        assert_eq!(error, "colour in /etc/postrider.toml is no key of the configuration");
        let error = read("", &[("POSTRIDER_OUTBOX__BATCHES", "1")], &[]).expect_err("it is refused");
        assert!(error.starts_with("outbox.batches in the environment (POSTRIDER_OUTBOX__BATCHES)"), "{error}");
        assert!(read("", &[("POSTRIDER_TOKEN", "x"), ("POSTRIDER_TEST_MYSQL", "x")], &[]).is_ok());
    }

    #[test]
    fn our_variable_counts_before_the_standard_one() -> Result<(), String> {
        let variables = [("POSTRIDER_OTEL__ENDPOINT", "http://ours"), ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all")];
        assert_eq!(read("", &variables, &[])?.get(&server::OTEL_ENDPOINT).as_deref(), Some("http://ours"));
        assert_eq!(read("", &variables[1..], &[])?.get(&server::OTEL_ENDPOINT).as_deref(), Some("http://all"));
        Ok(())
    }

    #[test]
    fn a_key_of_another_program_is_ignored_in_shared_places_and_refused_as_a_flag() {
        let load = |sources: Sources<'_>| Config::load(&[server::ALL], sources).map_err(|error| error.to_string());
        let variable = ("POSTRIDER_ASSET__LOCK_TIMEOUT_MINUTES".to_owned(), "5".to_owned());
        let config = load(Sources { environment: vec![variable], ..Sources::default() }).expect("it is ignored");
        assert!(!config.settings().iter().any(|setting| setting.key == shop::ASSET_LOCK_TIMEOUT.name()));
        let set = ["asset.lock-timeout-minutes=5".to_owned()];
        let error = load(Sources { set: &set, ..Sources::default() }).expect_err("it is refused");
        assert_eq!(error, "asset.lock-timeout-minutes in the command line is a key of another program");
    }

    /// S22
    #[test]
    fn secrets_are_hidden() -> Result<(), String> {
        let set = [
            "webhook.secret=canary",
            "store=postgres://app:canary@host/db",
            "broker=amqp://u:canary@h/",
            "otel.endpoint=https://u:canary@h/",
            "otel.headers=authorization=canary",
        ];
        let shown = format!("{:?}", read("", &[], &set.map(Into::into))?.settings());
        assert!(!shown.contains("canary") && shown.contains("postgres://app:***@host/db"), "{shown}");
        Ok(())
    }
}
