//! ARCHITECTURE.md shows the tree as it is: its code map names files that exist, and leaves no file of the library out.

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

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
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
