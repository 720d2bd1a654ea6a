//! The documents show the tree as it is, and the stores keep their shape: small roles, no forwarding, no unused query.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The paths in the first column of the library's table, relative to the library's folder. A name without a folder lies in
/// the folder of the path before it.
fn code_map(page: &str) -> BTreeSet<PathBuf> {
    let section = page.split("### `crates/postrider`").nth(1).expect("the library has a section");
    let section = section.split("\n### ").next().expect("which ends");
    let mut paths = BTreeSet::new();
    for row in section.lines().filter(|line| line.starts_with("| `")) {
        let first = row.split('|').nth(1).expect("a first column");
        let mut folder = PathBuf::new();
        for name in first.split('`').skip(1).step_by(2) {
            let path = if name.contains("src/") || folder.as_os_str().is_empty() {
                PathBuf::from(name)
            } else {
                folder.join(name)
            };
            folder = path.parent().expect("a folder").to_owned();
            paths.insert(path);
        }
    }
    paths
}

fn all_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            all_files(&path, found);
        } else {
            found.push(path);
        }
    }
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    all_files(folder, found);
    found.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
}

#[test]
fn the_code_map_shows_the_tree() {
    let library = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(library.join("../../ARCHITECTURE.md")).expect("the page is there");
    let map = code_map(&page);
    assert!(map.len() > 40, "the table was read: {map:?}");
    // What is named by a pattern has no path of its own.
    for path in map.iter().filter(|path| !path.to_string_lossy().contains('<')) {
        assert!(library.join(path).exists(), "ARCHITECTURE.md names {}, which is not there", path.display());
    }
    let mut files = Vec::new();
    rust_files(&library.join("src"), &mut files);
    for file in files {
        let file = file.strip_prefix(library).expect("below it");
        // A file of a folder is covered by its folder, or by the file that the folder belongs to.
        let covered = |path: &Path| map.contains(path) || map.contains(&path.with_extension("rs"));
        assert!(
            file.ancestors().any(covered) || file == Path::new("src/lib.rs"),
            "ARCHITECTURE.md leaves out {}",
            file.display()
        );
    }
}

/// The section of every other crate names its files: by path, by folder, or by their own name. A command of the executable is
/// named by its variant in `main.rs`.
#[test]
fn the_code_map_shows_every_crate() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = std::fs::read_to_string(crates.join("../ARCHITECTURE.md")).expect("the page is there");
    let commands = std::fs::read_to_string(crates.join("postrider-cli/src/main.rs")).expect("a source file");
    // Every module of the suite is an operation: `lib.rs` has the table.
    for name in ["postrider-server", "postrider-config", "postrider-cli", "postrider-proof"] {
        let section = page.split(&format!("### `crates/{name}`")).nth(1).unwrap_or_else(|| panic!("{name} is there"));
        let section = section.split("\n### ").next().expect("which ends");
        let folder = crates.join(name);
        let mut files = Vec::new();
        rust_files(&folder.join("src"), &mut files);
        for file in files {
            let path = file.strip_prefix(&folder).expect("below it");
            let own_name = file.file_name().expect("a file").to_string_lossy();
            let is_command = name == "postrider-cli"
                && path.components().count() == 2
                && commands.contains(&format!("({}::", file.file_stem().expect("a name").to_string_lossy()));
            let named = path.ancestors().any(|path| {
                let path = path.display();
                section.contains(&format!("`{path}`")) || section.contains(&format!("`{path}/`"))
            });
            let covered = named || is_command || section.contains(&format!("`{own_name}`"));
            let is_root = ["lib.rs", "main.rs"].contains(&&*own_name);
            assert!(covered || is_root, "ARCHITECTURE.md leaves out {}", file.display());
        }
    }
}

fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    rust_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut files);
    let read = |file: PathBuf| {
        let text = std::fs::read_to_string(&file).expect("a source file");
        (file, text)
    };
    files.into_iter().map(read).collect()
}

/// A role stays small: no trait of a store has more than twelve methods, and decision 9 lists each role with its number.
#[test]
fn no_role_of_a_store_has_more_than_twelve_methods() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/decisions/0009-stores-by-role.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let mut roles = 0;
    for (file, text) in sources("src/store") {
        for part in text.split("\npub trait ").skip(1) {
            let name = part.split(|c: char| !c.is_alphanumeric()).next().expect("a name");
            let body = part.split("\n}").next().expect("which ends");
            let is_method = |line: &&str| line.starts_with("    fn ") || line.starts_with("    async fn ");
            let methods = body.lines().filter(is_method).count();
            assert!(methods <= 12, "{name} in {} has {methods} methods", file.display());
            if page.contains(&format!("| `{name}` |")) {
                assert!(
                    page.contains(&format!("| `{name}` | {methods} |")),
                    "decision 9: {name} has {methods} methods"
                );
                roles += 1;
            }
        }
    }
    assert_eq!(roles, 20, "decision 9 lists every role");
}

/// The parameters of a function without `self`, and its body, of each function of an `impl` or a trait.
fn methods(text: &str) -> Vec<(String, Vec<String>, String)> {
    let mut found = Vec::new();
    for part in text.split("\n    async fn ").skip(1).chain(text.split("\n    fn ").skip(1)) {
        let Some((signature, rest)) = part.split_once("{\n") else { continue };
        if signature.contains(';') {
            continue;
        }
        let name = signature.split(|c: char| !c.is_alphanumeric() && c != '_').next().expect("a name");
        let parameters = signature.split_once('(').expect("parameters").1.rsplit_once(')').expect("which end").0;
        let parameters = parameters.split(") ->").next().expect("a part");
        let names =
            parameters.split(", ").filter_map(|one| one.split_once(": ")).map(|(name, _)| name.trim().to_owned());
        let body = rest.split("\n    }\n").next().expect("a body").split_whitespace().collect::<Vec<_>>().join(" ");
        found.push((name.to_owned(), names.collect(), body));
    }
    found
}

/// Whether a body is one call that passes all parameters on, and nothing else.
fn forwards(parameters: &[String], body: &str) -> bool {
    let call = body.trim_end_matches(".await").trim_end();
    let Some((callee, arguments)) = call.strip_suffix(')').and_then(|call| call.split_once('(')) else { return false };
    let arguments: Vec<_> = arguments.split(", ").filter(|one| *one != "self").collect();
    let is_path = callee.chars().all(|c| c.is_alphanumeric() || "_:. ".contains(c));
    is_path && !parameters.is_empty() && arguments == parameters
}

/// A method of a store does its work where it is. It calls another function with the same parameters only if every store decides
/// or does that in the same way: lists and counts in `decide`, and `publish`, which is a transaction around `enqueue`.
#[test]
fn no_method_of_a_store_forwards() {
    assert!(forwards(&["a".into(), "b".into()], "self.inner.work(a, b).await"));
    assert!(!forwards(&["a".into()], "Ok(self.inner.work(a).await?)"));
    let mut shared = BTreeSet::new();
    for (file, text) in sources("src/store") {
        for (name, parameters, body) in methods(&text) {
            // `Display` of an enumeration is no method of a store.
            if name != "fmt" && forwards(&parameters, &body) {
                let is_shared = body.starts_with("decide::") || body.starts_with("enlist::publish(");
                assert!(is_shared, "{name} in {} only calls {body}", file.display());
                shared.insert(name);
            }
        }
    }
    assert_eq!(shared.into_iter().collect::<Vec<_>>(), ["count_events", "list", "publish", "search"]);
}

/// Every file of queries is used by its dialect.
#[test]
fn every_query_is_used() {
    let queries = Path::new(env!("CARGO_MANIFEST_DIR")).join("queries");
    for dialect in ["mysql", "postgres", "sqlite"] {
        let is_of = |file: &Path| {
            let file = file.to_string_lossy();
            file.contains("/store/sql/") || file.contains(&format!("/store/{dialect}"))
        };
        let used: String =
            sources("src/store").into_iter().filter(|(file, _)| is_of(file)).map(|(_, text)| text).collect();
        for area in std::fs::read_dir(queries.join(dialect)).expect("areas") {
            let area = area.expect("an area").path();
            for file in std::fs::read_dir(&area).expect("queries") {
                let file = file.expect("a query").path();
                let verb = file.strip_prefix(queries.join(dialect)).expect("below it").with_extension("");
                let call = format!("sql!(\"{}\")", verb.display());
                assert!(used.contains(&call), "no source of {dialect} uses {}", file.display());
            }
        }
    }
}

/// B.6: only `clock.rs` reads the clock of the machine. Everything else that needs a time asks the database, and tests that make the
/// process's clock wrong reach every use of it.
#[test]
fn one_file_reads_the_machines_clock() {
    let mut files = Vec::new();
    rust_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    let reads = |file: &PathBuf| {
        let text = std::fs::read_to_string(file).expect("a source file");
        ["now_utc(", "now_local(", "SystemTime::now("].iter().any(|call| text.contains(call))
    };
    let files: Vec<_> = files.iter().filter(|file| reads(file)).filter_map(|file| file.file_name()).collect();
    assert_eq!(files, ["clock.rs"]);
}

/// F43: no transaction is prepared, so none of ours can be left behind.
#[test]
fn no_transaction_is_prepared() {
    let library = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["src", "queries", "migrations"] {
        all_files(&library.join(folder), &mut files);
    }
    assert!(files.len() > 300, "the sources were read");
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a text").to_uppercase();
        for statement in ["PREPARE TRANSACTION", "XA PREPARE", "XA START"] {
            assert!(!text.contains(statement), "{} prepares a transaction", file.display());
        }
    }
}

/// S13: SQL is never composed from values. The driver takes only literals, unless a text is declared safe, and these are the places
/// that do: names that are written in our sources, in code for tests and in the reference shop.
#[test]
fn sql_is_composed_in_known_places_only() {
    const KNOWN: [(&str, usize); 2] = [
        // Tables and columns of a constant; only with the feature `testing`.
        ("crates/postrider/src/store/sql/testing.rs", 1),
        // `$1` in a literal becomes `?`, and an index has one of two spellings.
        ("reference/shop/src/database.rs", 2),
    ];
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository");
    let mut found = Vec::new();
    for area in ["crates", "reference"] {
        for program in std::fs::read_dir(root.join(area)).expect("crates") {
            let folder = program.expect("a crate").path().join("src");
            if folder.is_dir() {
                rust_files(&folder, &mut found);
            }
        }
    }
    assert!(found.len() > 300, "the sources were found");
    let mut composed = Vec::new();
    for file in found {
        let text = std::fs::read_to_string(&file).expect("a source file");
        // Of the suite, which sets databases up for tests.
        if file
            .components()
            .any(|part| matches!(part.as_os_str().to_str(), Some("postrider-conformance" | "postrider-proof")))
        {
            continue;
        }
        let declared = text.lines().filter(|line| !line.trim_start().starts_with("use "));
        let declared = declared.filter(|line| line.contains("AssertSqlSafe(")).count();
        for way_around in ["QueryBuilder", ".leak()", "Box::leak", "String::leak", "SqlStr::from"] {
            assert!(!text.contains(way_around), "{} uses {way_around}", file.display());
        }
        if declared > 0 {
            let file = file.strip_prefix(&root).expect("below it").to_string_lossy().into_owned();
            composed.push((file, declared));
        }
    }
    composed.sort();
    assert_eq!(composed, KNOWN.map(|(file, places)| (file.to_owned(), places)), "bind the values instead");
}

/// S27: the executable is built without the feature that moves stored times and reads what tests need, and no route is for tests.
#[test]
fn a_release_has_no_hook_for_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tree = |package: &str| {
        let tree = std::process::Command::new(env!("CARGO"))
            .args([
                "tree",
                "--locked",
                "--offline",
                "--edges",
                "normal,build,features",
                "--prefix",
                "none",
                "--package",
                package,
            ])
            .current_dir(&root)
            .output()
            .expect("cargo");
        assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
        String::from_utf8(tree.stdout).expect("text")
    };
    for program in ["postrider-cli", "postrider-shop", "postrider-inventory", "postrider-playlists"] {
        let tree = tree(program);
        assert!(tree.contains("postrider feature \"sqlite\""), "{tree}");
        for hook in ["postrider feature \"testing\"", "postrider-conformance", "postrider-proof"] {
            assert!(!tree.lines().any(|line| line.starts_with(hook)), "{program} has {hook}");
        }
    }
    // What the feature is for is behind it.
    for (file, text) in sources("src") {
        let file = file.to_string_lossy().replace('\\', "/");
        let hooks = ["impl Age for", "impl Peek for", "fn age_once"];
        if hooks.iter().any(|hook| text.contains(hook)) {
            let behind = text.contains("#[cfg(feature = \"testing\")]") || file.ends_with("/testing.rs");
            assert!(behind, "{file}");
        }
    }
    let table = std::fs::read_to_string(root.join("crates/postrider-server/src/access.rs")).expect("the table");
    let routes = table.lines().filter(|line| line.contains("Method::")).map(str::to_lowercase);
    for word in ["debug", "test", "seed", "failpoint", "panic", "pprof", "reset"] {
        assert!(!routes.clone().any(|route| route.contains(word)), "a route has {word}");
    }
    let words = std::fs::read_to_string(root.join("Cargo.lock")).expect("the lock file");
    assert!(!words.contains("name = \"fail\""), "no crate of failpoints");
}
