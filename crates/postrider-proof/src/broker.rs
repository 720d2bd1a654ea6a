//! RabbitMQ for tests: a virtual host on the shared broker, or a private broker that a test can stop.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use reqwest::Method;
use tokio::process::Command;
use uuid::Uuid;

/// A fresh virtual host.
#[derive(Debug, Clone)]
pub struct VirtualHost {
    url: String,
    name: String,
    /// The URL of the broker's management API.
    http: String,
}

impl VirtualHost {
    /// Creates a virtual host on the shared test broker.
    pub async fn fresh() -> Self {
        let url = std::env::var("POSTRIDER_TEST_RABBITMQ").unwrap_or_else(|_| {
            panic!("POSTRIDER_TEST_RABBITMQ is not set: run `make services` and `eval \"$(scripts/services urls)\"`")
        });
        let (place, _) = url.rsplit_once('/').expect("a URL with a virtual host");
        let name = format!("case-{}", Uuid::new_v4().simple());
        let host = Self { url: format!("{place}/{name}"), http: management(place), name };
        host.ask(Method::PUT, format!("vhosts/{}", host.name), "{}").await;
        let all = r#"{"configure":".*","write":".*","read":".*"}"#;
        host.ask(Method::PUT, format!("permissions/{}/guest", host.name), all).await;
        host
    }

    /// The AMQP URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The bindings and queues of the management API, as JSON: `bindings` or `queues`.
    pub async fn list(&self, what: &str) -> String {
        let answer = self.ask(Method::GET, format!("{what}/{}", self.name), "").await;
        answer.text().await.expect("a text")
    }

    /// Takes the first messages out of a queue, as JSON of the management API.
    pub async fn take(&self, queue: &str) -> String {
        let how = r#"{"count":100,"ackmode":"ack_requeue_false","encoding":"auto"}"#;
        let answer = self.ask(Method::POST, format!("queues/{}/{queue}/get", self.name), how).await;
        answer.text().await.expect("a text")
    }

    /// Removes it with all its queues.
    pub async fn remove(self) {
        self.ask(Method::DELETE, format!("vhosts/{}", self.name), "").await;
    }

    async fn ask(&self, method: Method, path: String, body: &'static str) -> reqwest::Response {
        let url = format!("{}/api/{path}", self.http);
        let asked = reqwest::Client::new().request(method, &url).header("content-type", "application/json").body(body);
        let answer = asked.send().await.expect("the broker's management answers");
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
        answer
    }
}

/// The management port of our brokers is three above the AMQP port. `POSTRIDER_TEST_RABBITMQ_HTTP` overrides the URL.
fn management(place: &str) -> String {
    std::env::var("POSTRIDER_TEST_RABBITMQ_HTTP").unwrap_or_else(|_| {
        let (scheme_and_user, address) = place.rsplit_once('@').expect("a URL with a user");
        let (_, user) = scheme_and_user.split_once("://").expect("a URL");
        let (host, port) = address.rsplit_once(':').expect("a URL with a port");
        format!("http://{user}@{host}:{}", port.parse::<u16>().expect("a port") + 3)
    })
}

/// A broker of one test, with its own folder and ports.
#[derive(Debug)]
pub struct PrivateBroker {
    folder: PathBuf,
    port: u16,
}

impl PrivateBroker {
    /// Starts a broker on free ports.
    pub async fn start() -> Self {
        let folder = std::env::temp_dir().join(format!("postrider-broker-{}", Uuid::new_v4()));
        let broker = Self { folder, port: four_free_ports() };
        broker.resume().await;
        broker
    }

    /// The AMQP port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Stops the broker; its data stays.
    pub async fn stop(&self) {
        self.services(&["stop", "rabbitmq"]).await;
    }

    /// Starts the broker again.
    pub async fn resume(&self) {
        self.services(&["start", "rabbitmq"]).await;
    }

    /// Raises the memory alarm: the broker blocks publishers.
    pub async fn raise_memory_alarm(&self) {
        self.services(&["rabbitmqctl", "set_vm_memory_high_watermark", "0"]).await;
    }

    /// Clears the memory alarm.
    pub async fn clear_memory_alarm(&self) {
        self.services(&["rabbitmqctl", "set_vm_memory_high_watermark", "0.4"]).await;
    }

    /// Makes the broker close a channel that leaves a message unacknowledged
    /// for longer than this, with a check every 100 ms.
    pub async fn set_consumer_timeout(&self, limit: Duration) {
        for (setting, value) in [("consumer_timeout", limit.as_millis()), ("channel_tick_interval", 100)] {
            let set = format!("application:set_env(rabbit, {setting}, {value}).");
            self.services(&["rabbitmqctl", "eval", &set]).await;
        }
    }

    /// Whether the broker's log contains this text.
    pub fn has_logged(&self, text: &str) -> bool {
        std::fs::read_to_string(self.folder.join("rabbitmq.log")).expect("it has a log").contains(text)
    }

    async fn services(&self, arguments: &[&str]) {
        let status = services(&self.folder, self.port).args(arguments).status().await.expect("bash is there");
        assert!(status.success(), "scripts/services {arguments:?}: {status}");
    }
}

impl Drop for PrivateBroker {
    /// Also runs when the test has failed.
    fn drop(&mut self) {
        let mut stop = services(&self.folder, self.port);
        let stopped = stop.args(["stop", "rabbitmq"]).as_std_mut().status();
        if stopped.is_ok_and(|status| status.success()) {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

fn services(folder: &Path, port: u16) -> Command {
    let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/services"));
    command
        .env_remove("POSTRIDER_TEST_RABBITMQ")
        .env("POSTRIDER_SERVICES_DIR", folder)
        .env("POSTRIDER_RABBITMQ_PORT", port.to_string())
        .stdout(Stdio::null());
    command
}

/// The first of four free ports, below the range that the kernel uses for outgoing connections.
fn four_free_ports() -> u16 {
    let free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    let start = 20_000 + u16::try_from(std::process::id() % 1_000).unwrap_or_default() * 4;
    (start..32_000).step_by(4).find(|port| (*port..port + 4).all(free)).expect("four free ports")
}
