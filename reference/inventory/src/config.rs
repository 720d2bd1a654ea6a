//! How many shards there are, by the one setting of the inventory, `inventory.shards`: a flag, else
//! `POSTRIDER_INVENTORY__SHARDS` in the environment, else `postrider.toml`, else three. A value that cannot be used stops the
//! start, and the message names its key and where it stands.

use std::path::Path;

/// The file that is read where nobody names another.
pub const FILE: &str = "postrider.toml";
/// Where the environment says it.
pub const VARIABLE: &str = "POSTRIDER_INVENTORY__SHARDS";
/// Without a word about it.
const DEFAULT: i64 = 3;
/// A product's place is a hash with so many values: further shards would stay empty.
const MOST: i64 = 64;

/// The databases of the shards: those that were given, as many as were said; or as many files beside each other.
pub fn stores(
    given: Vec<String>,
    flag: Option<&str>,
    variable: Option<&str>,
    file: Option<&Path>,
) -> Result<Vec<String>, String> {
    let said = shards(flag, variable, file)?;
    match (given.len(), said) {
        (0, said) => {
            let shards = said.map_or(DEFAULT, |(shards, _)| shards);
            Ok((0..shards).map(|shard| format!("sqlite://inventory-data/shard-{shard}.db")).collect())
        }
        (stores, Some((shards, origin))) if i64::try_from(stores) != Ok(shards) => {
            Err(format!("inventory.shards ({origin}) is {shards}, and --store was given {stores} times: once for each"))
        }
        _ => Ok(given),
    }
}

/// What was said, and where.
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
    // One that is misspelt would otherwise be a wish that nobody hears.
    if let Some(unknown) = section.keys().find(|key| *key != "shards") {
        return Err(format!("inventory.{unknown} ({name}) is not known here: there is inventory.shards"));
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
    fn shards_are_as_many_as_was_said_and_three_by_default() {
        let said = |flag, variable| stores(Vec::new(), flag, variable, None).map(|stores| stores.len());
        assert_eq!(said(None, None), Ok(3));
        assert_eq!(said(None, Some("4")), Ok(4));
        assert_eq!(said(Some("5"), Some("4")), Ok(5));
        let given = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(stores(given.clone(), None, None, None).as_ref(), Ok(&given));
        let refused = stores(given, None, Some("3"), None).expect_err("refused");
        assert!(refused.starts_with("inventory.shards (POSTRIDER_INVENTORY__SHARDS) is 3"), "{refused}");
        for bad in ["0", "65", "three"] {
            let refused = said(None, Some(bad)).expect_err("refused");
            assert!(refused.starts_with("inventory.shards (POSTRIDER_INVENTORY__SHARDS) must be"), "{refused}");
        }
    }
}
