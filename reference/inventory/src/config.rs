//! The databases of the shards, by `--store` and by `inventory.shards` of the configuration that all of Postrider's programs
//! share.

use postrider_config::{Config, ConfigError, Origin, Sources, inventory};

/// The databases of the shards: those that `--store` names, or as many files beside each other as configured.
pub fn stores(given: Vec<String>, sources: Sources<'_>) -> Result<Vec<String>, ConfigError> {
    let config = Config::load(&[inventory::ALL], sources)?;
    let shards = config.get(&inventory::SHARDS);
    if given.is_empty() {
        return Ok((0..shards).map(|shard| format!("sqlite://inventory-data/shard-{shard}.db")).collect());
    }
    let is_configured = *config.origin(&inventory::SHARDS) != Origin::Default;
    if is_configured && u32::try_from(given.len()) != Ok(shards) {
        let why = format!("is {shards}, but --store is given {} times: give it once for each shard", given.len());
        return Err(config.refuse(&inventory::SHARDS, why));
    }
    Ok(given)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A.17, C.6
    #[test]
    fn shards_are_as_many_as_configured_and_three_by_default() {
        let variable = |value: &str| vec![("POSTRIDER_INVENTORY__SHARDS".to_owned(), value.to_owned())];
        let stores = |given: &[&str], environment, flag: Option<&str>| {
            let given = given.iter().map(ToString::to_string).collect();
            let flags = vec![inventory::SHARDS.to(flag)];
            stores(given, Sources { environment, flags, ..Sources::default() }).map_err(|error| error.to_string())
        };
        let count = |environment, flag| stores(&[], environment, flag).map(|stores| stores.len());
        assert_eq!(count(Vec::new(), None), Ok(3));
        assert_eq!(count(variable("4"), None), Ok(4));
        assert_eq!(count(variable("4"), Some("5")), Ok(5));
        assert_eq!(stores(&["a", "b"], Vec::new(), None), Ok(vec!["a".to_owned(), "b".to_owned()]));
        let refused = stores(&["a", "b"], variable("3"), None).expect_err("refused");
        assert!(refused.contains("(POSTRIDER_INVENTORY__SHARDS): is 3, but --store is given 2 times"), "{refused}");
        for bad in ["0", "65", "three"] {
            assert!(count(variable(bad), None).expect_err("refused").contains("must be a number from 1 to 64"));
        }
    }
}
