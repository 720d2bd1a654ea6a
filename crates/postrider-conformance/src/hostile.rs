//! The hostile data of `hostile/`: one corpus for every way in. Its README says what is expected of each part.

use std::path::{Path, PathBuf};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("hostile").join(name)
}

/// The files of a folder of the corpus, by name.
pub fn files(name: &str) -> Vec<(String, Vec<u8>)> {
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.unwrap().path();
        (path.file_stem().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap())
    };
    let mut files: Vec<_> = std::fs::read_dir(folder(name)).unwrap().map(read).collect();
    files.sort_unstable();
    assert!(files.len() > 1, "{name} is a folder of the corpus");
    files
}

fn texts(name: &str) -> Vec<(String, String)> {
    files(name).into_iter().map(|(name, bytes)| (name, String::from_utf8(bytes).unwrap())).collect()
}

/// JSON that strict readers refuse.
pub fn unreadable_payloads() -> Vec<(String, String)> {
    texts("payloads/unreadable")
}

/// Odd JSON that every reader can read.
pub fn readable_payloads() -> Vec<(String, String)> {
    texts("payloads/readable")
}

/// Error texts of consumers, as JSON literals.
pub fn error_texts() -> Vec<String> {
    let text = std::fs::read_to_string(folder("error-texts.txt")).unwrap();
    text.lines().map(Into::into).collect()
}

/// Texts for any field.
pub fn strings() -> Vec<String> {
    serde_json::from_slice(&std::fs::read(folder("strings.json")).unwrap()).unwrap()
}
