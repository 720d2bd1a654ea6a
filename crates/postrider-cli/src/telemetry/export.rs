//! Spans on their way to a collector: OTLP over HTTP, as protobuf. Queue, batches and encoding are OpenTelemetry's; a full
//! queue drops spans, so a slow collector delays no request.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{RetryPolicy, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url};
use tokio::runtime::Handle;

use crate::End;
use crate::config::{Config, ConfigError, server};

/// The longest queue, some megabytes: more than a collector that answers ever leaves waiting.
const QUEUE_SPANS: usize = 8_192;
/// Spans in one request.
const BATCH_SPANS: usize = 512;
/// How long a span waits for its batch to fill.
const BATCH_DELAY: Duration = Duration::from_secs(1);
/// The timeout of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the end of the program waits for the last batch.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// Sends spans until the program ends.
pub(super) struct Exporter(SdkTracerProvider);

impl Exporter {
    /// Starts to export, if `otel.endpoint` names a collector.
    pub(super) fn start(config: &Config) -> Result<Option<(Self, SdkTracer)>, End> {
        let Some(endpoint) = config.get(&server::OTEL_ENDPOINT) else { return Ok(None) };
        let url = traces_url(&endpoint)
            .ok_or_else(|| config.refuse(&server::OTEL_ENDPOINT, "must be a URL such as http://127.0.0.1:4318"))?;
        let failed = |e: &dyn std::fmt::Display| End::Wrong(format!("nothing can be sent to otel.endpoint: {e}"));
        let client = Client::builder()
            .timeout(REQUEST_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent("postrider")
            .build()
            .map_err(|e| failed(&e))?;
        let collector = Collector {
            client,
            headers: headers(config)?,
            runtime: Handle::current(),
            is_away: AtomicBool::new(false),
        };
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(collector)
            .with_endpoint(url)
            .with_timeout(REQUEST_TIMEOUT)
            // Spans of an outage are dropped: a retry would hold back the batches behind it.
            .with_retry_policy(RetryPolicy::disabled())
            .build()
            .map_err(|e| failed(&e))?;
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE_SPANS)
            .with_max_export_batch_size(BATCH_SPANS)
            .with_scheduled_delay(BATCH_DELAY);
        let resource = Resource::builder_empty()
            .with_service_name(config.get(&server::OTEL_SERVICE_NAME))
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
        let provider = SdkTracerProvider::builder()
            .with_span_processor(BatchSpanProcessor::new(exporter, batches.build()))
            // By the trace's id alone, so that every process decides the same.
            .with_sampler(Sampler::TraceIdRatioBased(config.get(&server::OTEL_SAMPLE_SHARE)))
            .with_resource(resource.build())
            .build();
        let tracer = provider.tracer("postrider");
        Ok(Some((Self(provider), tracer)))
    }

    /// Sends what is queued, if the collector answers in time.
    pub(super) async fn end(self) {
        // The processor blocks its caller, and a request of its last batch needs this runtime.
        let ending = tokio::task::spawn_blocking(move || self.0.shutdown_with_timeout(SHUTDOWN_TIMEOUT));
        if let Ok(Err(error)) = ending.await {
            tracing::debug!(%error, "the last spans were not exported");
        }
    }
}

/// The URL of the traces below an endpoint for all signals, as the standard has it.
fn traces_url(endpoint: &str) -> Option<String> {
    let mut url = Url::parse(endpoint).ok()?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return None;
    }
    if !url.path().ends_with("/v1/traces") {
        url.set_path(&format!("{}/v1/traces", url.path().trim_end_matches('/')));
    }
    Some(url.into())
}

fn headers(config: &Config) -> Result<HeaderMap, ConfigError> {
    let mut headers = HeaderMap::new();
    for pair in config.get(&server::OTEL_HEADERS) {
        let must = || config.refuse(&server::OTEL_HEADERS, "must be NAME=VALUE, with commas between them");
        let (name, value) = pair.split_once('=').ok_or_else(must)?;
        let name: HeaderName = name.trim().parse().map_err(|_| must())?;
        let mut value: HeaderValue = value.trim().parse().map_err(|_| must())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// The way to the collector. Ours, because the exporter's own clients need either a second runtime or a caller inside one,
/// and because the log reports an outage once.
#[derive(Debug)]
struct Collector {
    client: Client,
    headers: HeaderMap,
    runtime: Handle,
    /// Whether the last request failed.
    is_away: AtomicBool,
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let mut request: reqwest::Request = request.try_into()?;
        // After those that the exporter reads from OTEL_EXPORTER_OTLP_HEADERS: our configuration has the last word.
        request.headers_mut().extend(self.headers.clone());
        let client = self.client.clone();
        let sending = async move { client.execute(request).await?.error_for_status() };
        match self.runtime.spawn(sending).await? {
            Ok(response) => {
                if self.is_away.swap(false, Ordering::Relaxed) {
                    tracing::info!("the collector of otel.endpoint takes spans again");
                }
                // Without the body: only how many spans were refused would be in it.
                Ok(Response::builder().status(response.status()).body(Bytes::new())?)
            }
            Err(error) => {
                // The URL may hold a secret.
                let error = error.without_url();
                if !self.is_away.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%error, "the collector of otel.endpoint takes no spans: they are dropped until it does");
                }
                Err(error.into())
            }
        }
    }
}
