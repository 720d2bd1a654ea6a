//! Migrations are append-only: a released one never changes, because databases remember its checksum.

use std::collections::BTreeMap;
use std::path::Path;

use sha2::{Digest, Sha384};

/// F42: every file has its released checksum, and every released file exists. `migrations/CHECKSUMS` is the output of
/// `sha384sum */*.sql`; a new migration adds a line to it and changes none.
#[test]
fn released_migrations_are_unchanged() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let list = std::fs::read_to_string(folder.join("CHECKSUMS")).expect("the list is there");
    let released: BTreeMap<&str, &str> =
        list.lines().filter_map(|line| line.split_once("  ")).map(|(sum, file)| (file, sum)).collect();
    let mut found = BTreeMap::new();
    for dialect in ["mysql", "postgres", "sqlite"] {
        for file in std::fs::read_dir(folder.join(dialect)).expect("a folder per dialect") {
            let file = file.expect("a file");
            let name = format!("{dialect}/{}", file.file_name().display());
            let sum = hex::encode(Sha384::digest(std::fs::read(file.path()).expect("readable")));
            found.insert(name, sum);
        }
    }
    let found: BTreeMap<&str, &str> = found.iter().map(|(file, sum)| (file.as_str(), sum.as_str())).collect();
    assert_eq!(found, released);
}
