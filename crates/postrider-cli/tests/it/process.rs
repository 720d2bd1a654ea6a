//! `postrider serve` as a process, on a database of its own.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use reqwest::{Client, Method};
use serde_json::{Value, json};

/// Which database.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
    MySql,
}

/// A database that goes when the test ends.
pub(crate) struct Database {
    pub(crate) url: String,
    server: Option<String>,
    name: String,
    folder: PathBuf,
}

impl Database {
    pub(crate) async fn make(kind: Kind) -> Self {
        let name = format!("serve_{}", uuid::Uuid::new_v4().simple());
        let folder = std::env::temp_dir().join(&name);
        std::fs::create_dir_all(&folder).unwrap();
        let variable = match kind {
            Kind::Sqlite => {
                let url = format!("sqlite://{}", folder.join("bus.db").display());
                return Self { url, server: None, name, folder };
            }
            Kind::Postgres => "POSTRIDER_TEST_POSTGRES",
            Kind::MySql => "POSTRIDER_TEST_MYSQL",
        };
        let server = std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set: run `make services`"));
        execute(&server, &format!("CREATE DATABASE {name}")).await;
        let (place, _) = server.rsplit_once('/').unwrap();
        Self { url: format!("{place}/{name}"), server: Some(server.clone()), name, folder }
    }

    /// Runs a script of SQL on it.
    pub(crate) async fn run_script(&self, sql: &str) {
        use sqlx::{AssertSqlSafe, Connection as _, raw_sql};
        let sql = raw_sql(AssertSqlSafe(sql.to_owned()));
        if self.url.starts_with("postgres") {
            sql.execute(&mut sqlx::PgConnection::connect(&self.url).await.unwrap()).await.unwrap();
        } else if self.url.starts_with("mysql") {
            sql.execute(&mut sqlx::MySqlConnection::connect(&self.url).await.unwrap()).await.unwrap();
        } else {
            let url = format!("{}?mode=rwc", self.url);
            sql.execute(&mut sqlx::SqliteConnection::connect(&url).await.unwrap()).await.unwrap();
        }
    }

    /// The same database under another URL; it is not dropped.
    pub(crate) fn at(url: String, folder: &Path) -> Self {
        Self { url, server: None, name: String::new(), folder: folder.into() }
    }

    pub(crate) async fn drop(self) {
        if let Some(server) = &self.server {
            // A pool of the test itself may still close its connections.
            let force = if server.starts_with("postgres") { " WITH (FORCE)" } else { "" };
            execute(server, &format!("DROP DATABASE {}{force}", self.name)).await;
        }
        std::fs::remove_dir_all(&self.folder).unwrap();
    }

    pub(crate) fn folder(&self) -> &std::path::Path {
        &self.folder
    }
}

async fn execute(server: &str, sql: &str) {
    use sqlx::{Connection as _, Executor as _};
    // The name is ours, made of hexadecimal digits.
    let sql = sqlx::AssertSqlSafe(sql.to_owned());
    if server.starts_with("postgres") {
        sqlx::PgConnection::connect(server).await.unwrap().execute(sql).await.unwrap();
    } else {
        sqlx::MySqlConnection::connect(server).await.unwrap().execute(sql).await.unwrap();
    }
}

/// A running server.
pub(crate) struct Process {
    child: Child,
    pub(crate) url: String,
    /// Printed on the first start only.
    pub(crate) token: Option<String>,
    pub(crate) client: Client,
}

impl Process {
    pub(crate) fn start(database: &Database, more: &[&str]) -> Self {
        Self::start_with_log(database, more, None)
    }

    /// The same with a log filter of its own.
    pub(crate) fn start_with_log(database: &Database, more: &[&str], filter: Option<&str>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
        command.envs(filter.map(|filter| ("RUST_LOG", filter)));
        Self::serve(command, database, more)
    }

    /// With more variables in its environment.
    pub(crate) fn start_with_environment(database: &Database, more: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
        command.envs(variables.iter().copied());
        Self::serve(command, database, more)
    }

    /// The executable of another build.
    pub(crate) fn start_program(program: &str, database: &Database) -> Self {
        Self::serve(Command::new(program), database, &[])
    }

    /// In a process whose files may not grow beyond so many KiB, until [`Process::lift_limit`]. Without the `trap` a write beyond
    /// it would end the process instead of failing.
    pub(crate) fn start_limited(database: &Database, kib: u32) -> Self {
        let mut command = Command::new("bash");
        let script = "trap '' XFSZ; ulimit -S -f \"$1\"; shift; exec \"$@\"";
        command.args(["-c", script, "bash", &kib.to_string(), env!("CARGO_BIN_EXE_postrider")]);
        Self::serve(command, database, &[])
    }

    pub(crate) fn lift_limit(&self) {
        let lifted =
            Command::new("prlimit").args(["--pid", &self.child.id().to_string(), "--fsize=unlimited:"]).status();
        assert!(lifted.unwrap().success());
    }

    fn serve(mut command: Command, database: &Database, more: &[&str]) -> Self {
        command.args(["serve", "--listen", "127.0.0.1:0", "--store", &database.url]).args(more);
        Self::run_until(command, &database.folder, "listening on ").0
    }

    /// Runs it in a folder until it prints the line that begins like this; what it printed until then comes back too.
    pub(crate) fn spawn(arguments: &[&str], folder: &Path, last: &str) -> (Self, Vec<String>) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
        command.args(arguments);
        Self::run_until(command, folder, last)
    }

    fn run_until(mut command: Command, folder: &Path, last: &str) -> (Self, Vec<String>) {
        let mut child = command
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(std::fs::File::options().create(true).append(true).open(folder.join("log")).unwrap())
            .spawn()
            .unwrap();
        let mut lines = Vec::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            lines.push(line.unwrap());
            if !lines.last().unwrap().starts_with(last) {
                continue;
            }
            let find = |prefix: &str| lines.iter().find_map(|line| line.strip_prefix(prefix)).map(str::to_owned);
            let (url, token) = (find("listening on ").unwrap(), find("admin token: "));
            return (Self { child, url, token, client: Client::new() }, lines);
        }
        let _ = child.wait();
        let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
        panic!("the server did not start: {log}");
    }

    pub(crate) fn token(&self) -> &str {
        self.token.as_deref().unwrap()
    }

    /// Sends a request with this token, and expects this status.
    pub(crate) async fn ask(&self, token: &str, method: Method, path: &str, body: Value, expected: u16) -> Value {
        let request = self.client.request(method, format!("{}/api/v1{path}", self.url)).bearer_auth(token);
        let request = if body.is_null() { request } else { request.json(&body) };
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        assert_eq!(status, expected, "{path}: {text}");
        if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() }
    }

    pub(crate) async fn admin(&self, method: Method, path: &str, body: Value, expected: u16) -> Value {
        self.ask(self.token(), method, path, body, expected).await
    }

    /// The code of `/readyz`, or `ready`.
    pub(crate) async fn readiness(&self) -> String {
        let response = self.client.get(format!("{}/readyz", self.url)).send().await.unwrap();
        if response.status().is_success() {
            return "ready".into();
        }
        assert_eq!(response.status().as_u16(), 503);
        response.json::<Value>().await.unwrap()["code"].as_str().unwrap().to_owned()
    }

    /// Waits until `/readyz` says this, some seconds at most.
    pub(crate) async fn until_readiness_is(&self, expected: &str) {
        let asking = async {
            while self.readiness().await != expected {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        };
        let asked = tokio::time::timeout(std::time::Duration::from_secs(20), asking).await;
        assert!(asked.is_ok(), "{}, not {expected}", self.readiness().await);
    }

    /// A token of this role.
    pub(crate) async fn token_of(&self, role: &str) -> String {
        let made = self.admin(Method::POST, "/tokens", json!({ "name": role, "role": role }), 201).await;
        made["secret"].as_str().unwrap().to_owned()
    }

    /// A command that talks to this server.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
        command.args(arguments).env("POSTRIDER_SERVER", &self.url).env("POSTRIDER_TOKEN", self.token());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The most memory that it has had.
    pub(crate) fn peak_memory_mib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        peak.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() / 1024
    }

    /// Asks the process to stop, and expects exit code 0.
    pub(crate) fn stop(self) {
        self.end("-TERM");
    }

    /// The same, as Ctrl-C does it.
    pub(crate) fn interrupt(self) {
        self.end("-INT");
    }

    fn end(mut self, signal: &str) {
        let told = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(told.success());
        let ended = self.child.wait().unwrap();
        assert_eq!(ended.code(), Some(0));
    }

    /// As a power cut does.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A relay without an API.
pub(crate) struct RelayProcess(Child);

impl RelayProcess {
    /// On these stores; its log is in the folder of the first.
    pub(crate) fn start(databases: &[&Database], log: &str, more: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
        command.args(["serve", "--role", "relay"]).args(more).current_dir(databases[0].folder());
        for database in databases {
            command.args(["--store", &database.url]);
        }
        let log = std::fs::File::create(databases[0].folder().join(log)).unwrap();
        Self(command.stdout(Stdio::null()).stderr(log).spawn().unwrap())
    }

    /// Asks the process to stop, and expects exit code 0.
    pub(crate) fn stop(mut self) {
        let told = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status().unwrap();
        assert!(told.success());
        assert_eq!(self.0.wait().unwrap().code(), Some(0));
    }
}

impl Drop for RelayProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    /// Where a test has failed, nothing is left running.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
