//! `inventory`: stock in several databases, over HTTP.

use std::future::Future;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use postrider::Failure;
use postrider::store::mysql::MySqlStore;
use postrider::store::postgres::PostgresStore;
use postrider::store::sqlite::SqliteStore;
use postrider_config::{Sources, inventory};
use postrider_inventory::Process;
use postrider_inventory::config;
use postrider_inventory::database::Dialect;
use postrider_inventory::service::AnyError;
use tokio::net::TcpListener;
use tracing_subscriber::EnvFilter;

/// The default log filter. RUST_LOG overrides it. Statements of sqlx are left out.
const LOG: &str = "info,sqlx=warn";

const EXAMPLES: &str = "\
Examples:
  Three shards on SQLite; nothing else is needed:
    inventory --listen 127.0.0.1:7090

  Then, from another shell:
    curl -X PUT http://127.0.0.1:7090/inventory/products/lamp/red --json '{\"stock\": 10}'
    curl -X POST http://127.0.0.1:7090/inventory/deductions -H 'Idempotency-Key: 7-DEDUCT' \\
         --json '{\"orderId\": 7, \"productIds\": [\"lamp\"], \"skuIds\": [\"red\"], \"quantities\": [2]}'
    curl http://127.0.0.1:7090/inventory/products/lamp/red
    curl -X POST http://127.0.0.1:7090/inventory/deductions/7-DEDUCT/release
    curl http://127.0.0.1:7090/inventory/audit

  Three shards on PostgreSQL (or on MariaDB: mysql://…); always all of them, in the same order:
    inventory --store postgres://app@localhost/stock_0 \\
              --store postgres://app@localhost/stock_1 \\
              --store postgres://app@localhost/stock_2

  Create the log of deductions by hand, in every shard database, before the first start:
    inventory --print-log-table postgres | psql stock_0

The setting in brackets can also be set in postrider.toml or in the environment (POSTRIDER_INVENTORY__SHARDS).
URLs may contain passwords: the environment exposes them less than the command line.
RUST_LOG sets the log filter. The log is written to stderr.";

/// Stock in several databases: a batch is deducted in all of them or in none, once per key.
#[derive(Parser)]
#[command(version, after_help = EXAMPLES)]
struct Arguments {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1:7090", env = "INVENTORY_LISTEN")]
    listen: String,
    /// Database of a shard, once per shard: sqlite://path, postgres://user@host/database or mysql://user@host/database;
    /// separated by commas in the environment [default: sqlite://inventory-data/shard-0.db and so on]
    #[arg(long, value_delimiter = ',', env = "INVENTORY_STORE", hide_env_values = true)]
    store: Vec<String>,
    /// Number of shards [inventory.shards, default: 3]
    #[arg(long, value_name = "NUMBER")]
    shards: Option<String>,
    /// Settings file; default: postrider.toml, if it exists
    #[arg(long, env = "POSTRIDER_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Seconds that a deduction may take before its key can be taken over
    #[arg(long, default_value_t = 30, env = "INVENTORY_LEASE_SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    lease_seconds: u32,
    /// Print the SQL of the log table (inventory_deduction_idempotency) for this kind of database, and exit
    #[arg(long, value_name = "DATABASE")]
    print_log_table: Option<Dialect>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(dialect) = arguments.print_log_table {
        return print(dialect.log_table());
    }
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LOG)))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
    match run(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = %Failure::from(error), "The inventory stops with an error");
            ExitCode::FAILURE
        }
    }
}

/// Writes to stdout. A reader that ends early is no panic.
fn print(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

async fn run(Arguments { listen, store, shards, config, lease_seconds, .. }: Arguments) -> Result<(), AnyError> {
    let (file, environment) = (config.as_deref(), Sources::process_environment());
    let flags = vec![inventory::SHARDS.to(shards.as_deref())];
    let store = config::stores(store, Sources { file, environment, flags, ..Sources::default() })?;
    // Registered before the service is ready: without a handler, a signal would end the process at once.
    let shutdown = postrider::service::shutdown_signal()?;
    let listener = TcpListener::bind(&listen).await.map_err(|e| format!("{listen}: {e}"))?;
    let process = Process { listener, lease: Duration::from_secs(lease_seconds.into()) };
    let all_are = |schemes: &[&str]| store.iter().all(|url| schemes.contains(&url.split(':').next().unwrap_or(url)));
    if all_are(&["sqlite"]) {
        process.run(connect(&store, SqliteStore::connect).await?, shutdown).await
    } else if all_are(&["postgres", "postgresql"]) {
        process.run(connect(&store, PostgresStore::connect).await?, shutdown).await
    } else if all_are(&["mysql", "mariadb"]) {
        process.run(connect(&store, MySqlStore::connect).await?, shutdown).await
    } else {
        // The URLs are left out because they may contain passwords.
        Err("each --store must be of the same kind: sqlite://…, postgres://… or mysql://…".into())
    }
}

async fn connect<'a, S, F: Future<Output = postrider::Result<S>>>(
    urls: &'a [String],
    connect: impl Fn(&'a str) -> F,
) -> postrider::Result<Vec<S>> {
    let mut stores = Vec::new();
    for url in urls {
        stores.push(connect(url).await?);
    }
    Ok(stores)
}
