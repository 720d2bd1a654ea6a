//! A real collector of OpenTelemetry (`scripts/rotel`), and the spans that it received, as it prints them.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;

/// How long a test waits for spans. The first start installs the collector.
const PATIENCE: Duration = Duration::from_secs(120);

/// A span as the collector received it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Span {
    /// 32 hexadecimal digits.
    pub trace_id: String,
    /// 16 hexadecimal digits.
    pub id: String,
    /// The id of the span above it; empty for a root.
    pub parent_id: String,
    /// Its name.
    pub name: String,
    /// Its kind, such as `SPAN_KIND_SERVER`.
    pub kind: String,
    /// Its status, such as `STATUS_CODE_ERROR`.
    pub status: String,
    /// Its attributes, as the collector prints them: `Str(…)`, `Int(…)`.
    pub attributes: BTreeMap<String, String>,
}

/// The running collector. It ends when this is dropped.
pub struct Collector {
    /// The base URL for OTLP over HTTP.
    pub endpoint: String,
    spans: watch::Receiver<Vec<Span>>,
    _process: Child,
}

impl Collector {
    /// Starts the collector on loopback, and waits until it accepts connections.
    ///
    /// # Panics
    ///
    /// If the collector cannot be installed or started.
    pub async fn start() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/rotel");
        let (http, grpc) = (free_port(), free_port());
        let mut process = Command::new(script)
            .args(["start", "--exporter", "blackhole", "--debug-log", "traces", "--debug-log-verbosity", "detailed"])
            .args(["--batch-timeout", "20ms", "--otlp-http-endpoint", &format!("127.0.0.1:{http}")])
            .args(["--otlp-grpc-endpoint", &format!("127.0.0.1:{grpc}")])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("scripts/rotel starts");
        let stdout = process.stdout.take().expect("is piped");
        let (sender, spans) = watch::channel(Vec::new());
        tokio::spawn(async move {
            let mut lines = BufReader::new(stdout).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                sender.send_modify(|spans| read(spans, &line));
            }
        });
        let reachable = async {
            while tokio::net::TcpStream::connect(("127.0.0.1", http)).await.is_err() {
                assert!(process.try_wait().expect("can be asked").is_none(), "the collector has ended");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(PATIENCE, reachable).await.expect("the collector listens");
        Self { endpoint: format!("http://127.0.0.1:{http}"), spans, _process: process }
    }

    /// The spans, once `enough` says that all are there.
    ///
    /// # Panics
    ///
    /// If they do not arrive.
    pub async fn spans(&mut self, enough: impl Fn(&[Span]) -> bool) -> Vec<Span> {
        let arrived = tokio::time::timeout(PATIENCE, self.spans.wait_for(|spans| enough(spans))).await;
        let arrived = arrived.is_ok_and(|arrived| arrived.is_ok());
        let spans = self.spans.borrow().clone();
        assert!(arrived, "spans are missing: {spans:#?}");
        spans
    }
}

/// Adds what one line of the collector says.
fn read(spans: &mut Vec<Span>, line: &str) {
    if line.starts_with("Span #") {
        spans.push(Span::default());
        return;
    }
    let Some(span) = spans.last_mut() else { return };
    if let Some((name, value)) = line.trim().strip_prefix("-> ").and_then(|pair| pair.split_once(": ")) {
        span.attributes.insert(name.to_owned(), value.to_owned());
        return;
    }
    let Some((name, value)) = line.split_once(':') else { return };
    let field = match name.trim() {
        "Trace ID" => &mut span.trace_id,
        "ID" => &mut span.id,
        "Parent ID" => &mut span.parent_id,
        "Name" => &mut span.name,
        "Kind" => &mut span.kind,
        "Status code" => &mut span.status,
        _ => return,
    };
    *field = value.trim().to_owned();
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}
