//! Runs the program of docs/observability.md with a real collector.
#![allow(missing_docs)]

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use postrider_proof::collector::{Collector, Span};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

struct Program {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    url: String,
    folder: std::path::PathBuf,
}

impl Program {
    fn start(collector: &Collector) -> Self {
        let folder = std::env::temp_dir().join(format!("postrider-otel-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let database = format!("sqlite://{}", folder.join("shop.db").display());
        let mut process = Command::new(env!("CARGO_BIN_EXE_postrider-otel"))
            .envs([("OTLP", &*collector.endpoint), ("DATABASE_URL", &database), ("LISTEN", "127.0.0.1:0")])
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut lines = BufReader::new(process.stdout.take().expect("is piped")).lines();
        let line = lines.next().expect("a line").expect("UTF-8");
        let url = format!("http://{}", line.strip_prefix("listening on ").expect("its address"));
        Self { process, lines, url, folder }
    }

    /// Stops it by signal. It sends its last spans.
    fn stop(mut self) {
        let signalled = Command::new("kill").arg(self.process.id().to_string()).status();
        assert!(signalled.expect("kill runs").success());
        assert!(self.process.wait().expect("it ends").success());
        let _ = std::fs::remove_dir_all(self.folder);
    }
}

/// The span of this name and topic, or consumer, or neither.
fn find<'a>(spans: &'a [Span], name: &str, about: &str) -> Option<&'a Span> {
    let about = format!("Str({about})");
    spans.iter().find(|span| span.name == name && (about == "Str()" || span.attributes.values().any(|v| *v == about)))
}

/// The metrics, once they have this line: a lane counts after it has written.
async fn metrics(url: &str, line: &str) -> String {
    let began = std::time::Instant::now();
    loop {
        let answer = reqwest::get(format!("{url}/metrics")).await.expect("it answers");
        let text = answer.text().await.expect("a text");
        if text.contains(line) {
            return text;
        }
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "{line} is missing: {text}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// D.10, G.5, G.6: with tracing-opentelemetry in a program, its request, the publish, the delivery, the consumer and what the
/// consumer publishes are one trace, each below the one that caused it, as a real collector shows it.
#[tokio::test]
async fn a_real_collector_shows_a_request_and_all_that_it_causes_as_one_trace() {
    let mut collector = Collector::start().await;
    let mut program = Program::start(&collector);
    let request = reqwest::Client::new().post(format!("{}/orders/7/pay", program.url));
    let request = request.header("traceparent", format!("00-{TRACE}-{CALLER}-01"));
    assert!(request.send().await.expect("it answers").status().is_success());
    let mail = program.lines.next().expect("a line").expect("UTF-8");
    let metrics = metrics(&program.url, r#"postrider_consumer_events_consumed_total{consumer="points"} 1"#).await;
    program.stop();

    let chain = [
        ("request", ""),
        ("publish", "order.paid"),
        ("deliver", "points"),
        ("consume", "points"),
        ("publish", "points.earned"),
        ("deliver", "mail"),
        ("consume", "mail"),
    ];
    let spans = collector.spans(|spans| chain.iter().all(|(name, about)| find(spans, name, about).is_some())).await;
    let mut parent = CALLER;
    for (name, about) in chain {
        let span = find(&spans, name, about).expect("was there");
        assert_eq!((&*span.trace_id, &*span.parent_id), (TRACE, parent), "{name} {about} of {spans:#?}");
        parent = &span.id;
    }
    let consumed = find(&spans, "consume", "mail").expect("was there");
    assert_eq!(mail, format!("mail for order 7 with 00-{TRACE}-{}-01", consumed.id), "the call's parent is exported");
    let kinds = ["request", "publish", "deliver"].map(|name| find(&spans, name, "").expect("was there").kind.clone());
    assert_eq!(kinds, ["SPAN_KIND_SERVER", "SPAN_KIND_PRODUCER", "SPAN_KIND_CONSUMER"]);

    assert!(metrics.contains(r#"postrider_delivery_seconds_bucket{consumer="points",le="0.001"}"#), "{metrics}");
    assert!(
        metrics.contains("# HELP postrider_consumer_events_consumed_total Effects that happened, by consumer."),
        "{metrics}"
    );
}
