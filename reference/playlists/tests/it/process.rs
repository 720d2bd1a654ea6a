//! A service process, as its parent and its callers see it.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use reqwest::Method;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::database::TIMEOUT;

pub(crate) struct Process {
    child: Child,
    log: watch::Receiver<Vec<String>>,
    reading: JoinHandle<()>,
    base: String,
    client: reqwest::Client,
}

impl Process {
    /// Starts a process and waits until it listens. It is killed when the test ends.
    pub(crate) async fn start(store: &str, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_playlists"))
            .args(["--listen", "127.0.0.1:0", "--store", store])
            .args(arguments)
            .env_remove("RUST_LOG")
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
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

    pub(crate) fn id(&self) -> u32 {
        self.child.id().unwrap()
    }

    pub(crate) fn port(&self) -> u16 {
        self.base.rsplit_once(':').unwrap().1.parse().unwrap()
    }

    /// Waits for a log line that contains all these words, and returns it.
    pub(crate) async fn logs(&mut self, words: &[&str]) -> String {
        let has = |line: &&String| words.iter().all(|word| line.contains(word));
        let found = async {
            let log = self.log.wait_for(|log| log.iter().any(|line| has(&line))).await;
            log.map(|log| log.iter().find(has).cloned().unwrap())
        };
        match timeout(TIMEOUT, found).await {
            Ok(Ok(line)) => return line,
            Ok(Err(_)) => {}
            Err(_) => {}
        }
        panic!("no line with {words:?} in its log:\n{}", self.log.borrow().join("\n"))
    }

    /// The status and body of the response to a request.
    pub(crate) async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
        let (status, body) = self.ask_raw(method, path, body.map(|body| body.to_string())).await;
        (status, serde_json::from_str(&body).unwrap_or_else(|e| panic!("{path}: {e} in {body:?}")))
    }

    /// The same with a raw body.
    pub(crate) async fn ask_raw(&self, method: Method, path: &str, body: Option<String>) -> (u16, String) {
        let mut request = self.client.request(method, format!("{}{path}", self.base));
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body);
        }
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    pub(crate) async fn post(&self, path: &str) {
        let (status, body) = self.ask(Method::POST, path, None).await;
        assert_eq!(status, 201, "{body}");
    }

    pub(crate) async fn put_playlist(&self, name: &str, owner: &str, songs: &[&str]) {
        let body = serde_json::json!({"owner": owner, "songs": songs});
        let (status, body) = self.ask(Method::PUT, &format!("/playlists/{name}"), Some(body)).await;
        assert_eq!(status, 201, "{body}");
    }

    /// The songs of a playlist. Returns `None` if it does not exist.
    pub(crate) async fn songs_of(&self, playlist: &str) -> Option<Value> {
        match self.ask(Method::GET, &format!("/playlists/{playlist}"), None).await {
            (200, body) => Some(body["songs"].clone()),
            (404, _) => None,
            other => panic!("{other:?}"),
        }
    }

    /// Deletes, and returns the id of the event.
    pub(crate) async fn delete(&self, path: &str) -> String {
        let (status, body) = self.ask(Method::DELETE, path, None).await;
        assert_eq!(status, 200, "{body}");
        body["eventId"].as_str().unwrap().to_owned()
    }

    /// Sends a deletion without waiting for its response.
    pub(crate) fn begin_to_delete(&self, path: &str) {
        tokio::spawn(self.client.delete(format!("{}{path}", self.base)).send());
    }

    /// Sends SIGKILL and waits for the end of the process. Returns its log.
    pub(crate) async fn kill(mut self) -> Vec<String> {
        self.child.kill().await.unwrap();
        let status = self.child.wait().await.unwrap();
        assert_eq!(status.signal(), Some(9), "it was alive until it was killed: {status}");
        self.whole_log().await
    }

    /// Sends SIGTERM, asserts a clean exit, and returns the log.
    pub(crate) async fn stop(mut self) -> Vec<String> {
        let pid = self.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().await.unwrap().success());
        let status = timeout(TIMEOUT, self.child.wait()).await.expect("it ends after SIGTERM").unwrap();
        let log = self.whole_log().await;
        assert!(status.success(), "{status}:\n{}", log.join("\n"));
        log
    }

    async fn whole_log(self) -> Vec<String> {
        self.reading.await.unwrap();
        self.log.borrow().clone()
    }
}

/// The number of lines that contain all these words.
pub(crate) fn count(log: &[String], words: &[&str]) -> usize {
    log.iter().filter(|line| words.iter().all(|word| line.contains(word))).count()
}
