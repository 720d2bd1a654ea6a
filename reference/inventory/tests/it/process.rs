//! An inventory process, as its parent and its callers see it.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::shards::{Shards, TIMEOUT};

pub(crate) struct Process {
    child: Child,
    log: watch::Receiver<Vec<String>>,
    reading: JoinHandle<()>,
    caller: Caller,
}

/// A client of a process. Clones can send concurrently.
#[derive(Clone)]
pub(crate) struct Caller {
    base: String,
    client: reqwest::Client,
}

/// The program with these databases.
pub(crate) fn command(urls: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inventory"));
    command.args(["--listen", "127.0.0.1:0"]).env_remove("RUST_LOG").stderr(Stdio::piped()).kill_on_drop(true);
    for url in urls {
        command.args(["--store", url]);
    }
    command
}

impl Process {
    /// Starts a process and waits until it listens. It is killed when the test ends.
    pub(crate) async fn start(shards: &Shards) -> Self {
        let mut child = command(shards.urls()).spawn().unwrap();
        let (sender, log) = watch::channel(Vec::new());
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let reading = tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                sender.send_modify(|log: &mut Vec<String>| log.push(line));
            }
        });
        let caller = Caller { base: String::new(), client: reqwest::Client::new() };
        let mut process = Self { child, log, reading, caller };
        let line = process.logs("Listening").await;
        let address = line.split_once("address=").unwrap().1.split_whitespace().next().unwrap();
        process.caller.base = format!("http://{address}");
        process
    }

    pub(crate) fn caller(&self) -> Caller {
        self.caller.clone()
    }

    /// Waits for a log line that contains these words, and returns it.
    async fn logs(&mut self, words: &str) -> String {
        let has = |line: &&String| line.contains(words);
        let found = async {
            let log = self.log.wait_for(|log| log.iter().any(|line| has(&line))).await;
            log.map(|log| log.iter().find(has).cloned().unwrap())
        };
        if let Ok(Ok(line)) = timeout(TIMEOUT, found).await {
            return line;
        }
        panic!("no line with {words:?} in its log:\n{}", self.log.borrow().join("\n"))
    }

    /// Sends SIGKILL and waits for the end of the process.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
        let status = self.child.wait().await.unwrap();
        assert_eq!(status.signal(), Some(9), "it was alive until it was killed: {status}");
    }

    /// Sends a signal.
    pub(crate) async fn signal(&self, signal: &str) {
        let pid = self.child.id().unwrap().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().await.unwrap().success());
    }

    /// Sends SIGTERM and waits until it is logged.
    pub(crate) async fn terminate(&mut self) {
        self.signal("-TERM").await;
        self.logs("Stopping").await;
    }

    /// Sends SIGTERM and asserts a clean exit.
    pub(crate) async fn stop(mut self) {
        self.terminate().await;
        self.ends().await;
    }

    pub(crate) async fn ends(mut self) {
        let status = timeout(TIMEOUT, self.child.wait()).await.expect("it ends after SIGTERM").unwrap();
        self.reading.await.unwrap();
        let log = self.log.borrow().join("\n");
        assert!(status.success() && !log.contains("ERROR"), "{status}:\n{log}");
    }
}

impl Caller {
    /// The status and body of the response to a request.
    pub(crate) async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
        self.ask_raw(method, path, body.map(|body| body.to_string()), &[]).await
    }

    /// The same with a raw body and headers.
    pub(crate) async fn ask_raw(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
        headers: &[(&str, &str)],
    ) -> (u16, Value) {
        let mut request = self.client.request(method, format!("{}{path}", self.base));
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let body = answer.text().await.unwrap();
        (status, serde_json::from_str(&body).unwrap_or_else(|e| panic!("{path}: {e} in {body:?}")))
    }

    pub(crate) async fn put(&self, product: &str, stock: i64) {
        let path = format!("/inventory/products/{product}/s");
        let (status, body) = self.ask(Method::PUT, &path, Some(json!({ "stock": stock }))).await;
        assert_eq!((status, &body["stock"]), (200, &json!(stock)), "{body}");
    }

    /// Stock and reserved.
    pub(crate) async fn stock(&self, product: &str) -> (i64, i64) {
        let (status, body) = self.ask(Method::GET, &format!("/inventory/products/{product}/s"), None).await;
        assert_eq!(status, 200, "{body}");
        (body["stock"].as_i64().unwrap(), body["reserved"].as_i64().unwrap())
    }

    /// The same for several products.
    pub(crate) async fn stocks(&self, products: &[String]) -> Vec<(i64, i64)> {
        let mut stocks = Vec::new();
        for product in products {
            stocks.push(self.stock(product).await);
        }
        stocks
    }

    /// Deducts this quantity of each product. Returns the status, and the problem code or whether it was a replay.
    pub(crate) async fn deduct(&self, key: &str, products: &[String], quantity: i64) -> (u16, Value) {
        let (status, body) =
            self.ask(Method::POST, "/inventory/deductions", Some(deduction(key, products, quantity))).await;
        match status {
            200 => {
                assert_eq!(body["status"], "SUCCESS", "{body}");
                (status, body["replayed"].clone())
            }
            _ => (status, body["code"].clone()),
        }
    }

    /// The status of the response. Returns `None` if there was none.
    pub(crate) async fn try_deduct(&self, key: &str, products: &[String], quantity: i64) -> Option<u16> {
        let request = self.client.post(format!("{}/inventory/deductions", self.base));
        let request = request.header("content-type", "application/json");
        let answer = request.body(deduction(key, products, quantity).to_string()).send().await.ok()?;
        Some(answer.status().as_u16())
    }

    /// Sends a deduction without waiting for its response.
    pub(crate) fn begin_to_deduct(&self, key: &str, products: &[String], quantity: i64) {
        let request = self.client.post(format!("{}/inventory/deductions", self.base));
        tokio::spawn(
            request
                .header("content-type", "application/json")
                .body(deduction(key, products, quantity).to_string())
                .send(),
        );
    }

    /// Whether there was a response.
    pub(crate) async fn try_post(&self, path: &str) -> bool {
        self.client.post(format!("{}{path}", self.base)).send().await.is_ok()
    }

    /// Returns whether it was a replay.
    pub(crate) async fn release(&self, key: &str) -> bool {
        let (status, body) = self.ask(Method::POST, &format!("/inventory/deductions/{key}/release"), None).await;
        assert_eq!((status, &body["status"]), (200, &json!("RELEASED")), "{body}");
        body["replayed"].as_bool().unwrap()
    }

    /// Asserts a clean audit with nothing in flight.
    pub(crate) async fn audit(&self) {
        let (status, body) = self.ask(Method::GET, "/inventory/audit", None).await;
        let verdict = (status, &body["ok"], &body["inFlight"]);
        assert_eq!(verdict, (200, &json!(true), &json!(0)), "{body}");
    }
}

fn deduction(key: &str, products: &[String], quantity: i64) -> Value {
    let (skus, quantities) = (vec!["s"; products.len()], vec![quantity; products.len()]);
    json!({"orderId": 7, "productIds": products, "skuIds": skus, "quantities": quantities, "idempotencyKey": key})
}

/// The response to a new deduction.
pub(crate) fn fresh() -> (u16, Value) {
    (200, json!(false))
}

/// The response to a repeated deduction.
pub(crate) fn replayed() -> (u16, Value) {
    (200, json!(true))
}

/// The response to a refused deduction.
pub(crate) fn refused(status: u16, code: &str) -> (u16, Value) {
    (status, json!(code))
}
