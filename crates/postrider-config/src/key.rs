//! A key: its name, its default, what its value may be, and its type in code.

use std::time::Duration;

use postrider::jobs::Schedule;

/// A key whose values have the type `T`.
pub struct Key<T: 'static> {
    spec: Spec,
    /// Reads a value that was checked when it was loaded.
    read: fn(&Spec, &str) -> T,
}

/// A key without its type, for tables.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    /// The name in the file, with its section.
    pub name: &'static str,
    /// The default; empty if the value is not set.
    pub default: &'static str,
    /// What it is for.
    pub about: &'static str,
    pub(crate) kind: Kind,
}

/// The value that a flag or a command gives to a key.
#[derive(Debug, Clone)]
pub struct Assignment {
    pub(crate) name: &'static str,
    pub(crate) value: Option<String>,
}

/// What a value may be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Text,
    List,
    /// Text that is never shown.
    Secret,
    /// A URL; its password is never shown.
    Url,
    Number {
        least: u32,
        most: u32,
    },
    /// A number of units of so many seconds.
    Duration {
        unit: u64,
        least: u32,
        most: u32,
    },
    Share,
    Flag,
    Cron,
    Zone,
    OneOf(&'static [&'static str]),
}

impl<T> Key<T> {
    const fn new(name: &'static str, default: &'static str, kind: Kind, read: fn(&Spec, &str) -> T) -> Self {
        Self { spec: Spec { name, default, about: "", kind }, read }
    }

    pub(crate) const fn about(mut self, about: &'static str) -> Self {
        self.spec.about = about;
        self
    }

    /// The name in the file.
    pub const fn name(&self) -> &'static str {
        self.spec.name
    }

    /// The key without its type.
    pub const fn spec(&self) -> Spec {
        self.spec
    }

    /// No value for this key, also if the environment has one.
    pub fn unset(&self) -> Assignment {
        self.to("")
    }

    /// This value for this key, if there is one.
    pub fn to<'a>(&self, value: impl Into<Option<&'a str>>) -> Assignment {
        Assignment { name: self.spec.name, value: value.into().map(Into::into) }
    }

    pub(crate) fn read(&self, value: &str) -> T {
        (self.read)(&self.spec, value)
    }
}

impl Key<String> {
    pub(crate) const fn text(name: &'static str, default: &'static str) -> Self {
        Self::new(name, default, Kind::Text, |_, value| value.into())
    }

    pub(crate) const fn url(name: &'static str, default: &'static str) -> Self {
        Self::new(name, default, Kind::Url, |_, value| value.into())
    }

    pub(crate) const fn cron(name: &'static str, default: &'static str) -> Self {
        Self::new(name, default, Kind::Cron, |_, value| value.into())
    }

    pub(crate) const fn zone(name: &'static str, default: &'static str) -> Self {
        Self::new(name, default, Kind::Zone, |_, value| value.into())
    }

    pub(crate) const fn one_of(name: &'static str, words: &'static [&'static str]) -> Self {
        Self::new(name, words[0], Kind::OneOf(words), |_, value| value.into())
    }
}

impl Key<Option<String>> {
    pub(crate) const fn optional(name: &'static str) -> Self {
        Self::new(name, "", Kind::Text, set)
    }

    pub(crate) const fn optional_url(name: &'static str) -> Self {
        Self::new(name, "", Kind::Url, set)
    }

    pub(crate) const fn secret(name: &'static str) -> Self {
        Self::new(name, "", Kind::Secret, set)
    }
}

fn set(_: &Spec, value: &str) -> Option<String> {
    Some(value.to_owned()).filter(|value| !value.is_empty())
}

impl Key<Vec<String>> {
    pub(crate) const fn list(name: &'static str) -> Self {
        Self::new(name, "", Kind::List, items)
    }

    pub(crate) const fn secret_list(name: &'static str) -> Self {
        Self::new(name, "", Kind::Secret, items)
    }
}

fn items(_: &Spec, value: &str) -> Vec<String> {
    value.split(',').map(str::trim).filter(|one| !one.is_empty()).map(Into::into).collect()
}

impl Key<u32> {
    pub(crate) const fn number(name: &'static str, default: &'static str, least: u32, most: u32) -> Self {
        Self::new(name, default, Kind::Number { least, most }, |_, value| value.parse().unwrap_or_default())
    }
}

impl Key<Duration> {
    pub(crate) const fn seconds(name: &'static str, default: &'static str, least: u32, most: u32) -> Self {
        Self::duration(name, default, 1, least, most)
    }

    pub(crate) const fn minutes(name: &'static str, default: &'static str, least: u32, most: u32) -> Self {
        Self::duration(name, default, 60, least, most)
    }

    pub(crate) const fn hours(name: &'static str, default: &'static str, least: u32, most: u32) -> Self {
        Self::duration(name, default, 3_600, least, most)
    }

    pub(crate) const fn days(name: &'static str, default: &'static str, least: u32, most: u32) -> Self {
        Self::duration(name, default, 86_400, least, most)
    }

    const fn duration(name: &'static str, default: &'static str, unit: u64, least: u32, most: u32) -> Self {
        Self::new(name, default, Kind::Duration { unit, least, most }, |spec, value| {
            let unit = if let Kind::Duration { unit, .. } = spec.kind { unit } else { 1 };
            Duration::from_secs(value.parse::<u64>().unwrap_or_default().saturating_mul(unit))
        })
    }
}

impl Key<f64> {
    pub(crate) const fn share(name: &'static str, default: &'static str) -> Self {
        Self::new(name, default, Kind::Share, |_, value| value.parse().unwrap_or_default())
    }
}

impl Key<bool> {
    pub(crate) const fn flag(name: &'static str) -> Self {
        Self::new(name, "false", Kind::Flag, |_, value| value == "true")
    }
}

impl Kind {
    /// Checks a value. The error says what it must be.
    pub(crate) fn check(self, value: &str) -> Result<(), String> {
        let right = match self {
            Self::Text | Self::List | Self::Secret | Self::Url => true,
            Self::Number { least, most } | Self::Duration { least, most, .. } => {
                value.parse().is_ok_and(|number: u32| (least..=most).contains(&number))
            }
            Self::Share => value.parse().is_ok_and(|share: f64| (0.0..=1.0).contains(&share)),
            Self::Flag => matches!(value, "true" | "false"),
            Self::OneOf(words) => words.contains(&value),
            Self::Zone => Schedule::parse("0 0 0 * * ?", value).is_ok(),
            Self::Cron => {
                return Schedule::parse(value, "UTC").map(|_| ()).map_err(|e| format!("{} ({e})", self.rule()));
            }
        };
        if right { Ok(()) } else { Err(self.rule()) }
    }

    /// What a value must be.
    pub(crate) fn rule(self) -> String {
        match self {
            Self::Text => "text".into(),
            Self::List => "a list of texts".into(),
            Self::Secret => "a secret".into(),
            Self::Url => "a URL".into(),
            Self::Number { least, most } | Self::Duration { least, most, .. } => {
                format!("a number from {least} to {most}")
            }
            Self::Share => "a share from 0 to 1".into(),
            Self::Flag => "true or false".into(),
            Self::Cron => "a cron expression with seconds".into(),
            Self::Zone => "a time zone such as Asia/Shanghai".into(),
            Self::OneOf(words) => words.join(" or "),
        }
    }

    /// A value as it may be shown.
    pub(crate) fn shown(self, value: &str) -> String {
        match self {
            Self::Secret if !value.is_empty() => "***".into(),
            Self::Url => crate::without_password(value),
            _ => value.into(),
        }
    }
}

/// A table of keys: a constant for each, and `ALL` of them.
macro_rules! keys {
    ($($name:ident: $type:ty = $make:ident($($argument:expr),*), $about:literal;)*) => {
        $(
            #[doc = $about]
            pub const $name: $crate::Key<$type> = $crate::Key::<$type>::$make($($argument),*).about($about);
        )*
        /// All of them, in the order of the reference page.
        pub const ALL: &[$crate::Spec] = &[$($name.spec()),*];
    };
}
pub(crate) use keys;
