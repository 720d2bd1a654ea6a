//! docs/requirements.md lists every requirement, fault and security rule. What it calls proven is named by a test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// `A.1`, `F07`, `S12`.
fn is_id(word: &str) -> bool {
    let (letter, number) = word.split_at(word.len().min(1));
    let number = match letter {
        "A" | "B" | "C" | "D" | "E" | "G" => number.strip_prefix('.'),
        "F" | "S" => Some(number),
        _ => None,
    };
    number.is_some_and(|number| (1..=2).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '.'));
    words.map(|word| word.trim_matches('.'))
}

/// Ids that doc comments of tests name. A range such as `S1-S4` would name only its ends.
fn named(folder: &Path, found: &mut BTreeMap<String, PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && !matches!(name, "target" | "node_modules") {
            named(&path, found);
        } else if name.ends_with(".rs") || name.ends_with(".test.ts") {
            let text = std::fs::read_to_string(&path).expect("source text");
            // A file of tests, of cases that become tests by the suite's macro, or with a module of unit tests.
            let is_test = path.components().any(|part| part.as_os_str() == "tests")
                || folder.ends_with("postrider-conformance/src")
                || name.ends_with(".test.ts")
                || text.contains("#[test]")
                || text.contains("#[tokio::test");
            let comment =
                |line: &'_ str| line.trim().strip_prefix("///").or(line.trim().strip_prefix("/**")).map(str::to_owned);
            let comments: Vec<_> = text.lines().filter_map(comment).collect();
            for id in comments.iter().flat_map(|text| words(text)).filter(|word| is_test && is_id(word)) {
                found.entry(id.to_owned()).or_insert_with(|| path.clone());
            }
        }
    }
}

#[test]
fn what_is_called_proven_has_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/requirements.md")).expect("the page");
    let mut states = BTreeMap::new();
    for line in page.lines() {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        if let [_, id, _, state, _] = cells[..]
            && is_id(id)
        {
            assert!(matches!(state, "proven" | "later"), "{id} is {state}");
            assert!(states.insert(id.to_owned(), state).is_none(), "{id} is listed twice");
        }
    }
    assert!(states.len() > 150, "the tables were read: {states:?}");

    let mut tests = BTreeMap::new();
    for folder in ["crates", "reference", "examples", "bench", "console/browser"] {
        named(&root.join(folder), &mut tests);
    }
    let unproven: Vec<_> =
        states.iter().filter(|(id, state)| **state == "proven" && !tests.contains_key(*id)).map(|(id, _)| id).collect();
    assert!(unproven.is_empty(), "called proven, and no test names them: {unproven:?}");
    let unknown: BTreeSet<_> = tests.iter().filter(|(id, _)| !states.contains_key(*id)).collect();
    assert!(unknown.is_empty(), "tests name ids that docs/requirements.md does not list: {unknown:?}");
}
