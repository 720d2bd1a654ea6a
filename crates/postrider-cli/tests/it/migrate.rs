//! `postrider migrate` on SQLite, and that it takes the other URLs; what it does to their servers is the stores' own test.

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
fn status_distinguishes_an_empty_database_from_a_current_one() {
    let file = File::new("status");
    let missing = postrider(&["migrate", "status", "--store", &file.url()]);
    assert_eq!(missing.status.code(), Some(5));
    assert!(stdout(&missing).ends_with("does not exist: `postrider migrate up` creates it\n"), "{}", stdout(&missing));
    let doctor = postrider(&["doctor", "--store", &file.url()]);
    assert_eq!(doctor.status.code(), Some(4));
    assert!(stdout(&doctor).contains("does not exist"), "{}", stdout(&doctor));
    assert!(!std::path::Path::new(&file.path()).exists(), "neither creates the file");

    std::fs::create_dir_all(&file.0).unwrap();
    std::fs::write(file.path(), "").unwrap();
    let empty = postrider(&["migrate", "status", "--store", &file.url()]);
    assert_eq!(empty.status.code(), Some(5));
    assert!(stdout(&empty).starts_with("the schema is at version 0, this program needs "), "{}", stdout(&empty));

    let up = postrider(&["migrate", "up", "--store", &file.url()]);
    assert!(up.status.success(), "{}", stderr(&up));
    assert!(stdout(&up).ends_with(", was 0\n"), "{}", stdout(&up));
    let current = postrider(&["migrate", "status", "--store", &file.url(), "-o", "json"]);
    assert_eq!(current.status.code(), Some(0));
    let current: serde_json::Value = serde_json::from_slice(&current.stdout).unwrap();
    assert_eq!((&current["current"], &current["found"]), (&true.into(), &current["needed"]));
    let again = postrider(&["migrate", "up", "--store", &file.url()]);
    assert!(stdout(&again).ends_with("nothing to do\n"), "{}", stdout(&again));
}

#[test]
fn tables_of_another_build_and_of_a_newer_one_are_distinguished() {
    let file = File::new("another");
    assert!(postrider(&["migrate", "up", "--store", &file.url()]).status.success());
    let remedies = |change: &str| {
        assert!(Command::new("sqlite3").args([&file.path(), change]).status().unwrap().success());
        let doctor = postrider(&["doctor", "--store", &file.url()]);
        assert_eq!(doctor.status.code(), Some(4));
        assert!(!stdout(&doctor).contains("migrate up"), "{}", stdout(&doctor));
        stdout(&doctor)
    };
    let newer = "INSERT INTO postrider_migrations VALUES (9999, 'future', CURRENT_TIMESTAMP, true, x'', 0)";
    assert!(remedies(newer).contains("update this program"));
    let another = "DELETE FROM postrider_migrations WHERE version = 9999; UPDATE postrider_migrations SET checksum = x'' WHERE version = 1";
    assert!(remedies(another).contains("use the build that made them"));

    for action in ["status", "up"] {
        let refused = postrider(&["migrate", action, "--store", &file.url()]);
        assert_eq!(refused.status.code(), Some(1), "{action}");
        assert!(stderr(&refused).contains("another build"), "{action}: {}", stderr(&refused));
    }
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

/// What `print --from` prints is the rest of the script: a database that has the versions before it is then up to date.
#[test]
fn what_print_from_prints_upgrades_a_database_of_that_version() {
    let print = |store: &str, from: u32| {
        let printed = postrider(&["migrate", "print", "--from", &from.to_string(), "--store", store]);
        assert!(printed.status.success(), "{}", stderr(&printed));
        stdout(&printed).trim_end().to_owned()
    };
    for store in ["postgres:", "mysql:"] {
        assert!(print(store, 0).ends_with(&print(store, 6)), "{store}");
        assert!(!print(store, 6).contains("CREATE TABLE postrider_event "), "{store}");
    }
    let file = File::new("print-from");
    std::fs::create_dir_all(&file.0).unwrap();
    let whole = print(&file.url(), 0);
    let run = |script: &str| {
        let mut shell = Command::new("sqlite3").args(["-bail", &file.path()]).stdin(Stdio::piped()).spawn().unwrap();
        shell.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        assert!(shell.wait().unwrap().success());
    };
    let versions: Vec<u32> =
        whole.lines().filter_map(|line| line.strip_prefix("-- Migration ")?.split_once(':')?.0.parse().ok()).collect();
    for version in &versions[..versions.len() - 1] {
        let rest = print(&file.url(), *version);
        run(whole.strip_suffix(&rest).expect("the end of the script"));
        assert_eq!(postrider(&["migrate", "status", "--store", &file.url()]).status.code(), Some(5), "{version}");
        run(&rest);
        let up = postrider(&["migrate", "up", "--store", &file.url()]);
        assert!(stdout(&up).ends_with("nothing to do\n"), "{version}: {}{}", stdout(&up), stderr(&up));
        std::fs::remove_file(file.path()).unwrap();
    }
}

#[test]
fn an_unknown_store_is_refused_with_what_to_write() {
    let refused = postrider(&["migrate", "up", "--store", "oracle://host/db"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("sqlite://path, postgres://"), "{}", stderr(&refused));
    assert!(stdout(&refused).is_empty());
}

#[test]
fn a_server_that_is_not_there_is_an_error_with_its_cause() {
    for scheme in ["postgres", "mysql"] {
        let url = format!("{scheme}://app:secret@127.0.0.1:1/shop");
        let refused = postrider(&["migrate", "status", "--store", &url]);
        assert_eq!(refused.status.code(), Some(1));
        let error = stderr(&refused);
        assert!(error.contains("not available") && error.contains("because:"), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}

/// Each dialect prints its own schema, and needs no server for that.
#[test]
fn each_dialect_is_printed_without_a_server() {
    for (url, own) in [("postgres:", "timestamptz"), ("mysql:", "utf8mb4_nopad_bin"), ("mariadb:", "utf8mb4_0900_bin")]
    {
        let printed = postrider(&["migrate", "print", "--store", url]);
        assert!(printed.status.success(), "{}", stderr(&printed));
        let script = stdout(&printed);
        assert!(script.contains(own) && script.contains("INSERT INTO postrider_migrations"), "{url}");
    }
}

#[test]
fn mysql_is_migrated_and_tells_where_it_stands() {
    let server = std::env::var("POSTRIDER_TEST_MYSQL")
        .expect("POSTRIDER_TEST_MYSQL is not set: run `make services` and `eval \"$(scripts/services urls)\"`");
    let (place, _) = server.rsplit_once('/').unwrap();
    // The database exists: the user of a migration may not be allowed to create one.
    let url = format!("{place}/cli_{}", std::process::id());
    let missing = postrider(&["migrate", "status", "--store", &url]);
    assert_eq!(missing.status.code(), Some(1), "{}", stderr(&missing));
    let mysql = MySqlDatabase::make(&url);
    assert_eq!(postrider(&["migrate", "status", "--store", &url]).status.code(), Some(5));
    let up = postrider(&["migrate", "up", "--store", &url]);
    assert!(up.status.success() && stdout(&up).ends_with(", was 0\n"), "{}{}", stdout(&up), stderr(&up));
    assert_eq!(postrider(&["migrate", "status", "--store", &url]).status.code(), Some(0));
    drop(mysql);
}

/// A database that goes when the test ends, made with the shell.
struct MySqlDatabase {
    shell: Vec<String>,
    password: String,
    name: String,
}

impl MySqlDatabase {
    fn make(url: &str) -> Self {
        let (user, place) = url.trim_start_matches("mysql://").split_once('@').unwrap();
        let (user, password) = user.split_once(':').unwrap_or((user, ""));
        let (host, name) = place.split_once('/').unwrap();
        let (host, port) = host.split_once(':').unwrap_or((host, "3306"));
        let shell = ["--no-defaults", "--protocol=tcp", "--host", host, "--port", port, "--user", user, "--execute"];
        let database = Self { shell: shell.map(Into::into).to_vec(), password: password.into(), name: name.into() };
        assert!(database.run(&format!("CREATE DATABASE {name}")), "the shell makes a database");
        database
    }

    fn run(&self, sql: &str) -> bool {
        let shell = Command::new("mariadb").args(&self.shell).arg(sql).env("MYSQL_PWD", &self.password).status();
        shell.is_ok_and(|status| status.success())
    }
}

impl Drop for MySqlDatabase {
    fn drop(&mut self) {
        self.run(&format!("DROP DATABASE {}", self.name));
    }
}
