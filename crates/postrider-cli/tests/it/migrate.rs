//! `postrider migrate` on SQLite; what it does to PostgreSQL is the store's own test.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::{postrider, stderr, stdout};

/// A file in a folder that goes when the test ends.
struct File(std::path::PathBuf);

impl File {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("postrider-cli-{name}-{}", std::process::id())))
    }

    fn path(&self) -> String {
        self.0.join("some.db").display().to_string()
    }

    fn url(&self) -> String {
        format!("sqlite://{}", self.path())
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // Where the test failed before it made the folder, there is none.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn status_tells_an_empty_database_from_a_current_one() {
    let file = File::new("status");
    let empty = postrider(&["migrate", "status", "--store", &file.url()]);
    assert_eq!(empty.status.code(), Some(5));
    assert!(stdout(&empty).starts_with("the schema is at version 0, this program needs "), "{}", stdout(&empty));

    let up = postrider(&["migrate", "up", "--store", &file.url()]);
    assert!(up.status.success(), "{}", stderr(&up));
    assert!(stdout(&up).ends_with(", was 0\n"), "{}", stdout(&up));
    assert_eq!(postrider(&["migrate", "status", "--store", &file.url()]).status.code(), Some(0));
    let again = postrider(&["migrate", "up", "--store", &file.url()]);
    assert!(stdout(&again).ends_with("nothing to do\n"), "{}", stdout(&again));
}

#[test]
fn what_print_prints_is_a_whole_schema() {
    let file = File::new("print");
    let printed = postrider(&["migrate", "print", "--store", &file.url()]);
    assert!(printed.status.success());
    assert!(!file.0.exists(), "print connects to nothing");

    std::fs::create_dir_all(&file.0).unwrap();
    let mut shell = Command::new("sqlite3").args(["-bail", &file.path()]).stdin(Stdio::piped()).spawn().unwrap();
    shell.stdin.take().unwrap().write_all(&printed.stdout).unwrap();
    assert!(shell.wait().unwrap().success());
    let up = postrider(&["migrate", "up", "--store", &file.url()]);
    assert!(stdout(&up).ends_with("nothing to do\n"), "{}{}", stdout(&up), stderr(&up));
}

#[test]
fn an_unknown_store_is_refused_with_what_to_write() {
    let refused = postrider(&["migrate", "up", "--store", "oracle://host/db"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("sqlite://path or postgres://"), "{}", stderr(&refused));
    assert!(stdout(&refused).is_empty());
}

#[test]
fn a_server_that_is_not_there_is_an_error_with_its_cause() {
    let refused = postrider(&["migrate", "status", "--store", "postgres://app:secret@127.0.0.1:1/shop"]);
    assert_eq!(refused.status.code(), Some(1));
    let error = stderr(&refused);
    assert!(error.contains("not available") && error.contains("because:"), "{error}");
    assert!(!error.contains("secret"), "{error}");
}
