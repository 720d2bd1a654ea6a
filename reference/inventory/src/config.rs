//! The number of shards, from the setting `inventory.shards`: a flag, else `POSTRIDER_INVENTORY__SHARDS`, else
//! `postrider.toml`, else three. An invalid value stops the start; the message names its key and its origin.

use std::path::Path;

/// The file that is read by default.
pub const FILE: &str = "postrider.toml";
/// The environment variable of the setting.
pub const VARIABLE: &str = "POSTRIDER_INVENTORY__SHARDS";
/// The default number of shards.
const DEFAULT: i64 = 3;
/// The shard hash has this many values; more shards would stay empty.
const MOST: i64 = 64;

/// The databases of the shards: the given URLs, or one SQLite file per shard. Refuses a number of URLs that differs
/// from the setting.
pub fn stores(
    given: Vec<String>,
    flag: Option<&str>,
    variable: Option<&str>,
    file: Option<&Path>,
) -> Result<Vec<String>, String> {
    let configured = shards(flag, variable, file)?;
    match (given.len(), configured) {
        (0, configured) => {
            let shards = configured.map_or(DEFAULT, |(shards, _)| shards);
            Ok((0..shards).map(|shard| format!("sqlite://inventory-data/shard-{shard}.db")).collect())
        }
        (stores, Some((shards, origin))) if i64::try_from(stores) != Ok(shards) => {
            Err(format!("inventory.shards ({origin}) is {shards}, and --store was given {stores} times: once for each"))
        }
        _ => Ok(given),
    }
}

/// The configured number and its origin.
fn shards(flag: Option<&str>, variable: Option<&str>, file: Option<&Path>) -> Result<Option<(i64, String)>, String> {
    if let Some(text) = flag {
        return checked(text.parse().ok(), text, "a flag".into()).map(Some);
    }
    if let Some(text) = variable {
        return checked(text.parse().ok(), text, VARIABLE.into()).map(Some);
    }
    let path = file.unwrap_or(Path::new(FILE));
    let name = path.display().to_string();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && file.is_none() => return Ok(None),
        Err(error) => return Err(format!("{name}: {error}")),
    };
    let table: toml::Table = text.parse().map_err(|error| format!("{name}: {error}"))?;
    let Some(section) = table.get("inventory").and_then(toml::Value::as_table) else {
        return Ok(None);
    };
    // An unknown key would be ignored silently.
    if let Some(unknown) = section.keys().find(|key| *key != "shards") {
        return Err(format!("inventory.{unknown} ({name}) is unknown; the only key is inventory.shards"));
    }
    match section.get("shards") {
        Some(value) => checked(value.as_integer(), &value.to_string(), name).map(Some),
        None => Ok(None),
    }
}

fn checked(shards: Option<i64>, text: &str, origin: String) -> Result<(i64, String), String> {
    match shards {
        Some(shards) if (1..=MOST).contains(&shards) => Ok((shards, origin)),
        _ => Err(format!("inventory.shards ({origin}) must be a whole number from 1 to {MOST}, is {text}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A.17, C.6
    #[test]
    fn the_number_of_shards_is_configured_and_three_by_default() {
        let count = |flag, variable| stores(Vec::new(), flag, variable, None).map(|stores| stores.len());
        assert_eq!(count(None, None), Ok(3));
        assert_eq!(count(None, Some("4")), Ok(4));
        assert_eq!(count(Some("5"), Some("4")), Ok(5));
        let given = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(stores(given.clone(), None, None, None).as_ref(), Ok(&given));
        let refused = stores(given, None, Some("3"), None).expect_err("refused");
        assert!(refused.starts_with("inventory.shards (POSTRIDER_INVENTORY__SHARDS) is 3"), "{refused}");
        for bad in ["0", "65", "three"] {
            let refused = count(None, Some(bad)).expect_err("refused");
            assert!(refused.starts_with("inventory.shards (POSTRIDER_INVENTORY__SHARDS) must be"), "{refused}");
        }
    }
}
