//! What a program needs for traces and metrics. The program that uses it is `main.rs`; docs/observability.md explains both.

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use postrider::observe::{self, SPANS};
use tracing_subscriber::filter::{LevelFilter, dynamic_filter_fn};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// A log on stderr, and spans for the collector at `endpoint`. Call `shutdown` of the answer at the end of the program: it
/// sends the last spans.
pub fn traces(endpoint: &str) -> Result<SdkTracerProvider, AnyError> {
    let exporter = SpanExporter::builder().with_http().with_endpoint(format!("{endpoint}/v1/traces")).build()?;
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        // By the trace's id alone: an event does not store whether its trace is sampled.
        .with_sampler(Sampler::TraceIdRatioBased(1.0))
        .with_resource(Resource::builder().with_service_name("shop").build())
        .build();
    let spans = tracing_opentelemetry::layer().with_tracer(provider.tracer("shop"));
    // The spans for the collector repeat the fields of a log line.
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let log = log.with_filter(dynamic_filter_fn(|about, _| about.target() != SPANS));
    tracing_subscriber::registry().with(LevelFilter::INFO).with(log).with(spans).init();
    Ok(provider)
}

/// The recorder of all metrics of this process. `render` of the answer is the body for Prometheus.
pub fn metrics() -> Result<PrometheusHandle, AnyError> {
    let mut builder = PrometheusBuilder::new();
    for metric in observe::METRICS.iter().filter(|metric| !metric.buckets.is_empty()) {
        builder = builder.set_buckets_for_metric(Matcher::Full(metric.name.into()), metric.buckets)?;
    }
    let handle = builder.install_recorder()?;
    observe::describe();
    Ok(handle)
}

/// The programs of docs/observability.md are compiled with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/observability.md")]
mod observability {}
