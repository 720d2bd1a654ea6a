//! Benchmarks against bare hand-written loops. Both sides take turns in one process on one server, and the result is
//! their ratio: absolute rates differ between machines and over time.
//!
//! Each scenario has a target. A run prints a table, writes `bench/out/bench.json`, and
//! exits with 1 if a median is below its target. `--smoke`, part of `make test`, is a quick
//! run at half the targets and without limits in milliseconds.

mod bare_mysql;
mod bare_postgres;
mod bare_sqlite;
mod broker;
mod drain;
mod engine;
mod http;
mod ordered;
mod producer;
mod report;
mod setup;
mod turns;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use report::{Figure, Report};

// The allocator of `postrider`, also for the bare loops.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Compare with bare hand-written loops, as ratios within one run
#[derive(Parser)]
#[command(
    after_help = "Examples:\n  make bench\n  cargo run --locked --release -p postrider-bench -- --only keyed\n  cargo run --locked --release -p postrider-bench -- --smoke"
)]
struct Args {
    /// Quick run with small tables, at half the targets
    #[arg(long)]
    smoke: bool,
    /// Run only scenarios whose name contains this
    #[arg(long)]
    only: Option<String>,
    /// Rounds of each scenario; the median counts
    #[arg(long)]
    rounds: Option<usize>,
    /// Drain this store and print the peak memory; used by the run as a child process
    #[arg(long, hide = true, requires = "events")]
    drain: Option<String>,
    #[arg(long, hide = true)]
    events: Option<usize>,
    /// Serve this store over HTTP until killed; used by the run as a child process
    #[arg(long, hide = true)]
    serve: Option<String>,
}

/// The size of a run.
#[derive(Clone, Copy)]
struct Size {
    /// Deliveries drained per round.
    pending: usize,
    /// Stored finished events: few and many.
    finished: (usize, usize),
    /// Keys of the ordered backlog, and deliveries of one hot key.
    keyed: (usize, usize),
    /// Business transactions per round.
    transactions: usize,
    /// Events drained to measure memory.
    memory: usize,
    /// Idle latency samples, with transactions that commit at once and with ones that stay open.
    latencies: (usize, usize),
    /// Seconds of publishing over HTTP.
    http_seconds: usize,
    /// Stored events for the lists, and requests per list.
    listed: usize,
    looks: usize,
    rounds: usize,
}

const FULL: Size = Size {
    pending: 100_000,
    finished: (10_000, 1_000_000),
    keyed: (1_000, 20_000),
    transactions: 60_000,
    memory: 1_000_000,
    latencies: (500, 100),
    http_seconds: 20,
    listed: 1_000_000,
    looks: 300,
    rounds: 5,
};
const SMOKE: Size = Size {
    pending: 20_000,
    finished: (1_000, 50_000),
    keyed: (200, 4_000),
    transactions: 3_000,
    memory: 20_000,
    latencies: (50, 10),
    http_seconds: 5,
    listed: 20_000,
    looks: 50,
    rounds: 3,
};

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("bench: {e}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Outcome<bool> {
    if let (Some(url), Some(events)) = (&args.drain, args.events) {
        engine::drain_and_report(url, events).await?;
        return Ok(true);
    }
    if let Some(url) = &args.serve {
        http::serve(url).await?;
        return Ok(true);
    }
    let mut size = if args.smoke { SMOKE } else { FULL };
    size.rounds = args.rounds.unwrap_or(size.rounds).max(1);
    let server = std::env::var("POSTRIDER_TEST_POSTGRES")
        .map_err(|_| "POSTRIDER_TEST_POSTGRES is not set: run `make bench`, which starts the servers")?;
    let mysql = std::env::var("POSTRIDER_TEST_MYSQL")
        .map_err(|_| "POSTRIDER_TEST_MYSQL is not set: run `make bench`, which starts the servers")?;
    let scratch = setup::Scratch::new(&server, &mysql).await?;
    let mut report = Report::new(args.smoke);
    let wanted = |name: &str| args.only.as_ref().is_none_or(|only| name.contains(only.as_str()));

    macro_rules! scenario {
        ($name:literal, $target:expr, $ran:expr) => {
            if wanted($name) {
                report.add(Figure { name: $name, target: $target, rounds: $ran.await? });
            }
        };
    }
    scenario!("postgres: claim+settle / bare loop", Some(0.8), drain::postgres_beside_bare(&scratch, size));
    scenario!("sqlite: claim+settle / bare loop", Some(0.8), drain::sqlite_beside_bare(&scratch, size));
    scenario!("mysql: claim+settle / bare loop", Some(0.7), drain::mysql_beside_bare(&scratch, size));
    scenario!("postgres: many finished events / few", Some(0.9), drain::postgres_many_finished(&scratch, size));
    scenario!("sqlite: many finished events / few", Some(0.9), drain::sqlite_many_finished(&scratch, size));
    scenario!("postgres: started empty / started full", Some(0.9), drain::postgres_started_empty(&scratch, size));
    scenario!("postgres: a snapshot held / none", Some(0.6), drain::postgres_snapshot_held(&scratch, size));
    scenario!("postgres: keyed, four claimers / unkeyed", Some(0.5), ordered::postgres_keyed(&scratch, size));
    scenario!("postgres: one hot key, four claimers / unkeyed", None, ordered::postgres_hot_key(&scratch, size));
    scenario!(
        "postgres: enqueue / classic outbox INSERT",
        Some(0.9),
        producer::postgres_beside_classic(&scratch, size)
    );
    scenario!("postgres: settle with history / bare loop", None, drain::postgres_with_history(&scratch, size));
    scenario!("postgres: no-op consumer / bare loop", Some(0.8), engine::postgres_no_op(&scratch, size));
    scenario!(
        "postgres: no-op consumer, history / bare loop",
        Some(0.5),
        engine::postgres_no_op_with_history(&scratch, size)
    );
    scenario!("postgres: exactly once / bare transaction", Some(0.8), engine::postgres_exactly_once(&scratch, size));
    scenario!("postgres: batches of 100 / single steps", Some(4.0), engine::postgres_batches(&scratch, size));
    scenario!("postgres to rabbitmq / bare publisher", Some(0.7), broker::postgres_to_rabbitmq(&scratch, size));
    for (open, samples) in [(0, size.latencies.0), (200, size.latencies.1)] {
        let during = if open == 0 { String::new() } else { format!(", open for {open} ms") };
        for store in ["postgres", "sqlite"] {
            let name = format!("{store}: idle latency{during}");
            if wanted(&name) {
                let (open, database) = (Duration::from_millis(open), format!("latency_{open}"));
                let measured = match store {
                    "postgres" => engine::latency(scratch.postgres_store(&database).await?, samples, open).await?,
                    _ => engine::latency(scratch.sqlite_store(&database).await?, samples, open).await?,
                };
                report.limit(format!("{name} p50"), "ms", measured.p50, 2.0);
                report.limit(format!("{name} p99"), "ms", measured.p99, 10.0);
            }
        }
    }
    for store in ["postgres", "mysql", "sqlite"] {
        let name = format!("{store}: plain INSERT, idle");
        if wanted(&name) {
            let measured = engine::insert_latency(&scratch, store, size.latencies.1).await?;
            report.limit(format!("{name} p50"), "ms", measured.p50, 20.0);
        }
    }
    if wanted("postgres: resident memory") {
        let name = format!("postgres: resident memory, {} events", size.memory);
        report.limit(name, "MiB", engine::resident_memory(&scratch, size.memory).await?, 64.0);
    }
    if wanted("http: publishes") {
        http::publishes(&scratch, size, &mut report).await?;
    }
    if wanted("http: lists") {
        http::lists(&scratch, size, &mut report).await?;
    }
    scratch.remove().await?;
    report.finish()
}
