//! Spans on their way to a collector: OTLP over HTTP, as protobuf. Whatever the collector does, nobody waits for it: what it
//! does not take in time is dropped, and the log says so once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message as _;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::spans::{Taking, attribute};
use crate::End;
use crate::config::{Config, ConfigError};

/// Spans that wait at most, some megabytes: more than a collector that answers ever lets wait.
const WAITING: usize = 8_192;
/// Spans in one request.
const BATCH: usize = 512;
/// How long a span waits for others to go with.
const GATHER: Duration = Duration::from_secs(1);
/// How long the collector may take to answer.
const ANSWER: Duration = Duration::from_secs(10);
/// How long a program that ends waits for it.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// Where spans go.
pub(super) struct Collector {
    url: Url,
    headers: HeaderMap,
    service: String,
    below: u64,
}

impl Collector {
    /// As configured; None: nowhere.
    pub(super) fn of(config: &Config) -> Result<Option<Self>, ConfigError> {
        let Some(endpoint) = config.text("otel.endpoint") else { return Ok(None) };
        let wrong = || config.refuse("otel.endpoint", "must be a URL such as http://127.0.0.1:4318");
        let mut url = Url::parse(endpoint).map_err(|_| wrong())?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(wrong());
        }
        // As the standard has it: an endpoint for all signals, of which this is one.
        if !url.path().ends_with("/v1/traces") {
            url.set_path(&format!("{}/v1/traces", url.path().trim_end_matches('/')));
        }
        let mut headers = HeaderMap::new();
        for pair in config.list("otel.headers") {
            let must = || config.refuse("otel.headers", "must be NAME=VALUE, with commas between them");
            let (name, value) = pair.split_once('=').ok_or_else(must)?;
            let name: HeaderName = name.trim().parse().map_err(|_| must())?;
            let mut value: HeaderValue = value.trim().parse().map_err(|_| must())?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let service = config.text("otel.service-name").unwrap_or("postrider").to_owned();
        let share = config.share("otel.sample-share");
        let below = if share >= 1.0 { u64::MAX } else { (share * u64::MAX as f64) as u64 };
        Ok(Some(Self { url, headers, service, below }))
    }
}

/// Where spans wait until they are sent.
#[derive(Clone)]
pub(super) struct Queue {
    waiting: mpsc::Sender<Span>,
    dropped: Arc<AtomicU64>,
}

impl Queue {
    /// Never waits: where there is no room, the span is gone.
    pub(super) fn put(&self, span: Span) {
        if self.waiting.try_send(span).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Sends spans until it is told to end.
pub(super) struct Exporter {
    sending: JoinHandle<()>,
    stop: CancellationToken,
}

impl Exporter {
    pub(super) fn start(collector: Collector) -> Result<(Self, Taking), End> {
        let client = Client::builder()
            .timeout(ANSWER)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent("postrider")
            .build()
            .map_err(|e| End::Wrong(format!("nothing can be sent to otel.endpoint: {e}")))?;
        let (waiting, taken) = mpsc::channel(WAITING);
        let queue = Queue { waiting, dropped: Arc::default() };
        let taking = Taking { queue: queue.clone(), below: collector.below };
        let stop = CancellationToken::new();
        let sender = Sender { client, collector, dropped: queue.dropped, is_away: false };
        let sending = tokio::spawn(sender.run(taken, stop.clone()));
        Ok((Self { sending, stop }, taking))
    }

    pub(super) async fn end(self) {
        self.stop.cancel();
        let abort = self.sending.abort_handle();
        if tokio::time::timeout(LAST_WORDS, self.sending).await.is_err() {
            abort.abort();
        }
    }
}

struct Sender {
    client: Client,
    collector: Collector,
    dropped: Arc<AtomicU64>,
    /// Whether the log has been told that it does not answer.
    is_away: bool,
}

impl Sender {
    async fn run(mut self, mut taken: mpsc::Receiver<Span>, stop: CancellationToken) {
        loop {
            let mut batch = Vec::new();
            let gathered = gather(&mut taken, &mut batch);
            let is_over = stop.run_until_cancelled(gathered).await.is_none();
            // What it had in hand is in `batch`, and what came meanwhile is still there.
            while batch.len() < BATCH
                && let Ok(span) = taken.try_recv()
            {
                batch.push(span);
            }
            if batch.is_empty() && is_over {
                return;
            }
            self.send(batch).await;
        }
    }

    async fn send(&mut self, spans: Vec<Span>) {
        let count = spans.len() as u64;
        let body = request(&self.collector.service, spans).encode_to_vec();
        let sent = self.client.post(self.collector.url.clone()).headers(self.collector.headers.clone()).body(body);
        let answer = sent.send().await.and_then(reqwest::Response::error_for_status);
        match answer {
            Ok(_) if self.is_away => {
                let dropped = self.dropped.swap(0, Ordering::Relaxed);
                tracing::info!(dropped, "the collector takes spans again");
                self.is_away = false;
            }
            Ok(_) => {}
            Err(error) => {
                self.dropped.fetch_add(count, Ordering::Relaxed);
                if !self.is_away {
                    // Its address may hold a secret.
                    let error = error.without_url();
                    tracing::warn!(%error, "the collector of otel.endpoint takes no spans: they are dropped until it does");
                }
                self.is_away = true;
            }
        }
    }
}

/// Waits for a span, and a little for more.
async fn gather(taken: &mut mpsc::Receiver<Span>, batch: &mut Vec<Span>) {
    match taken.recv().await {
        Some(first) => batch.push(first),
        // Nobody is left to put any: the end is near.
        None => return std::future::pending().await,
    }
    let more = async {
        while batch.len() < BATCH
            && let Some(span) = taken.recv().await
        {
            batch.push(span);
        }
    };
    // Over time or full, both is well.
    let _ = tokio::time::timeout(GATHER, more).await;
}

fn request(service: &str, spans: Vec<Span>) -> ExportTraceServiceRequest {
    let text = |text: &str| Value::StringValue(text.into());
    let attributes =
        vec![attribute("service.name", text(service)), attribute("service.version", text(env!("CARGO_PKG_VERSION")))];
    let scope = InstrumentationScope {
        name: "postrider".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        ..Default::default()
    };
    let scoped = ScopeSpans { scope: Some(scope), spans, ..Default::default() };
    let resource = Resource { attributes, ..Default::default() };
    let resource_spans = ResourceSpans { resource: Some(resource), scope_spans: vec![scoped], ..Default::default() };
    ExportTraceServiceRequest { resource_spans: vec![resource_spans] }
}
