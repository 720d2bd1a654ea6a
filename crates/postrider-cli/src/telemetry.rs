//! The log on stderr, and, where `otel.endpoint` names a collector, spans for it: requests, publishes and each attempt to
//! deliver, in the traces that the events themselves belong to.

#[cfg(feature = "otel")]
mod export;

use postrider::observe::SPANS;
use tracing_subscriber::filter::{DynFilterFn, EnvFilter, FilterExt as _, dynamic_filter_fn};
use tracing_subscriber::layer::{Context, Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::End;
use crate::config::Config;
#[cfg(not(feature = "otel"))]
use crate::config::server;

/// The log and the export of spans, for as long as the program runs.
pub(crate) struct Telemetry {
    #[cfg(feature = "otel")]
    exporter: Option<export::Exporter>,
}

impl Telemetry {
    /// Starts the log, as RUST_LOG says or else as `default`, and the export if it is configured. Once per process.
    pub(crate) fn begin(config: &Config, default: &str) -> Result<Self, End> {
        let chosen = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
        // Spans for the collector would be repeated in front of every line. The broker's client shows whole messages at its
        // lowest level.
        let for_people = each_time(|about| {
            about.target() != SPANS && !(about.target().starts_with("lapin") && *about.level() == tracing::Level::TRACE)
        });
        let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
        let log = log.with_filter(chosen.and(for_people));
        let registry = tracing_subscriber::registry().with(log);
        #[cfg(not(feature = "otel"))]
        {
            if config.get(&server::OTEL_ENDPOINT).is_some() {
                return Err(config
                    .refuse(&server::OTEL_ENDPOINT, "this program was built without the feature otel")
                    .into());
            }
            registry.init();
            Ok(Self {})
        }
        #[cfg(feature = "otel")]
        {
            let Some((exporter, tracer)) = export::Exporter::start(config)? else {
                registry.init();
                return Ok(Self { exporter: None });
            };
            // Fields are exported as they are: only spans whose fields are known, and no log line.
            let for_collectors = each_time(|about| about.target() == SPANS || is_consume(about))
                .with_max_level_hint(tracing::level_filters::LevelFilter::INFO);
            let spans = tracing_opentelemetry::layer()
                .with_tracer(tracer)
                .with_location(false)
                .with_threads(false)
                .with_level(false)
                .with_target(false)
                .with_tracked_inactivity(false);
            registry.with(spans.with_filter(for_collectors)).init();
            Ok(Self { exporter: Some(exporter) })
        }
    }

    /// Sends the last spans.
    pub(crate) async fn end(self) {
        #[cfg(feature = "otel")]
        if let Some(exporter) = self.exporter {
            exporter.end().await;
        }
    }
}

/// A filter of one layer that is asked for each event. If its answer were cached, the layer would take the answer to the last
/// question of this thread for the answer about an event, and drivers ask `tracing::enabled!` for levels that are disabled: on
/// PostgreSQL and MySQL every line would be lost.
fn each_time<S>(
    is_wanted: fn(&tracing::Metadata<'_>) -> bool,
) -> DynFilterFn<S, impl Fn(&tracing::Metadata<'_>, &Context<'_, S>) -> bool> {
    dynamic_filter_fn(move |about, _: &Context<'_, S>| is_wanted(about))
}

/// The span of a consumer of this process.
#[cfg(feature = "otel")]
fn is_consume(about: &tracing::Metadata<'_>) -> bool {
    about.is_span() && about.target() == "postrider::inbox" && about.name() == "consume"
}
