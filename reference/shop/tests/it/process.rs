//! A shop process, as its parent and its callers see it.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use reqwest::Method;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The time limit of a wait. Only a failing test waits this long.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Process {
    child: Child,
    log: watch::Receiver<Vec<String>>,
    reading: JoinHandle<()>,
    pub(crate) base: String,
    client: reqwest::Client,
}

impl Process {
    /// Starts a shop and waits until it listens. It is killed when the test ends.
    pub(crate) async fn start(store: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shop"));
        command.args(["--listen", "127.0.0.1:0", "--store", store]).args(arguments).env_remove("RUST_LOG");
        Self::spawn(command).await
    }

    /// The same for heavy load: logs only its address and warnings.
    pub(crate) async fn start_quietly(store: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shop"));
        command.args(["--listen", "127.0.0.1:0", "--store", store]).args(arguments);
        command.env("RUST_LOG", "warn,postrider_shop::service=info");
        Self::spawn(command).await
    }

    /// Starts an inventory on these shards, with short leases for tests that kill it.
    pub(crate) async fn start_inventory(listen: &str, shards: &[String]) -> Self {
        let mut command = Command::new(example("inventory"));
        command.args(["--listen", listen, "--lease-seconds", "2"]).env_remove("RUST_LOG");
        for shard in shards {
            command.args(["--store", shard]);
        }
        Self::spawn(command).await
    }

    async fn spawn(mut command: Command) -> Self {
        let command = command.stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let (sender, log) = watch::channel(Vec::new());
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let reading = tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                sender.send_modify(|log: &mut Vec<String>| log.push(line));
            }
        });
        let mut process = Self { child, log, reading, base: String::new(), client: reqwest::Client::new() };
        let line = process.logs(&["Listening"]).await;
        let address = line.split_once("address=").unwrap().1.split_whitespace().next().unwrap();
        process.base = format!("http://{address}");
        process
    }

    /// Waits for a log line that contains all these words, and returns it.
    pub(crate) async fn logs(&mut self, words: &[&str]) -> String {
        let has = |line: &&String| words.iter().all(|word| line.contains(word));
        let found = async {
            let log = self.log.wait_for(|log| log.iter().any(|line| has(&line))).await;
            log.map(|log| log.iter().find(has).cloned().unwrap())
        };
        match timeout(TIMEOUT, found).await {
            Ok(Ok(line)) => line,
            _ => panic!("no line with {words:?} in its log:\n{}", self.log.borrow().join("\n")),
        }
    }

    /// The address it listens on.
    pub(crate) fn address(&self) -> String {
        self.base.trim_start_matches("http://").to_owned()
    }

    /// The status and body of the response to a request.
    pub(crate) async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
        self.ask_as(None, method, path, body).await
    }

    /// The same with a token.
    pub(crate) async fn ask_as(
        &self,
        token: Option<&str>,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> (u16, Value) {
        let mut request =
            self.client.request(method, format!("{}{path}", self.base)).header("x-request-id", "request-7");
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.unwrap();
        let (status, text) = (answer.status().as_u16(), answer.text().await.unwrap());
        (status, serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e} in {text:?}")))
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.ask(Method::POST, path, Some(body)).await
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask(Method::GET, path, None).await;
        assert_eq!(status, 200, "{body}");
        body
    }

    /// Repeats a request until the response matches.
    pub(crate) async fn until(&self, path: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let asking = async {
            loop {
                let body = self.get(path).await;
                if fits(&body) {
                    return body;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        match timeout(TIMEOUT, asking).await {
            Ok(body) => body,
            Err(_) => panic!("{path} is still {}", self.get(path).await),
        }
    }

    /// Sends SIGKILL and waits for the end of the process.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
        let status = self.child.wait().await.unwrap();
        assert_eq!(status.signal(), Some(9), "it was alive until it was killed: {status}");
    }

    /// Sends SIGTERM, asserts a clean exit, and returns the log.
    pub(crate) async fn stop(mut self) -> Vec<String> {
        let pid = self.child.id().unwrap().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().await.unwrap().success());
        let status = timeout(TIMEOUT, self.child.wait()).await.expect("it ends after SIGTERM").unwrap();
        self.reading.await.unwrap();
        let log = self.log.borrow().clone();
        assert!(status.success(), "{status}:\n{}", log.join("\n"));
        log
    }
}

/// An example program, which Cargo builds next to the tests unless targets are selected.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    let file = profile.join("examples").join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(file.exists(), "{} is not there: run `cargo build --locked --workspace --examples`", file.display());
    file
}
