//! The log on stderr, and, where `otel.endpoint` names a collector, spans for it: requests, publishes and each attempt to
//! deliver, in the traces that the events themselves belong to.

#[cfg(feature = "otel")]
mod export;
#[cfg(feature = "otel")]
mod spans;

use postrider::observe::SPANS;
use tracing_subscriber::filter::{EnvFilter, FilterExt as _, FilterFn};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};

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
        let for_people = FilterFn::new(|about| {
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
            start(registry)?;
            Ok(Self {})
        }
        #[cfg(feature = "otel")]
        {
            let Some((exporter, spans)) = export::Exporter::start(config)? else {
                start(registry)?;
                return Ok(Self { exporter: None });
            };
            let for_collectors = FilterFn::new(|about| about.target() == SPANS)
                .with_max_level_hint(tracing::level_filters::LevelFilter::INFO);
            start(registry.with(spans.with_filter(for_collectors)))?;
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

/// Collects what is logged with `tracing`, and nothing of the crate `log`: a question of the latter whether a record is enabled
/// makes the filter of a layer drop the thread's next event. The driver of the database asks with each statement.
fn start(subscriber: impl tracing::Subscriber + Send + Sync) -> Result<(), End> {
    tracing::subscriber::set_global_default(subscriber)
        .map_err(|e| End::Wrong(format!("the log cannot be started: {e}")))
}
