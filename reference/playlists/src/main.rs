//! `playlists`: users, songs and playlists, in one process or in one process each.

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use postrider::store::mysql::MySqlStore;
use postrider::store::postgres::PostgresStore;
use postrider::store::sqlite::SqliteStore;
use postrider::{Failure, RabbitMq};
use postrider_playlists::service::AnyError;
use postrider_playlists::{Process, Service};
use tokio::net::TcpListener;
use tracing_subscriber::EnvFilter;

/// The default log filter. RUST_LOG overrides it. Statements of sqlx are left out, and so are warnings of lapin, which
/// contain whole messages if a message is unroutable.
const LOG: &str = "info,sqlx=warn,lapin=error";

const EXAMPLES: &str = "\
Examples:
  Everything in one process on SQLite; nothing else is needed:
    playlists --listen 127.0.0.1:7080 --store sqlite://playlists.db

  Then, from another shell:
    curl -X POST http://127.0.0.1:7080/users/ada
    curl -X POST http://127.0.0.1:7080/songs/So%20What
    curl -X PUT http://127.0.0.1:7080/playlists/late \\
         --json '{\"owner\": \"ada\", \"songs\": [\"So What\"]}'
    curl -X DELETE http://127.0.0.1:7080/songs/So%20What
    curl http://127.0.0.1:7080/playlists/late

  Three processes, each with its own database, and a broker between them (the playlists
  first, so that its queue exists before the first event):
    export PLAYLISTS_BROKER=amqp://guest:guest@localhost:5672/%2f
    playlists --service playlists --listen 127.0.0.1:7080 --store postgres://app@localhost/playlists
    playlists --service songs     --listen 127.0.0.1:7081 --store postgres://app@localhost/songs
    playlists --service users     --listen 127.0.0.1:7082 --store postgres://app@localhost/users

URLs may contain passwords: the environment exposes them less than the command line.
RUST_LOG sets the log filter. The log is written to stderr.";

/// Users, songs and playlists: a deletion in one service cleans up in another, once.
#[derive(Parser)]
#[command(version, after_help = EXAMPLES)]
struct Arguments {
    /// Address to listen on; port 0 takes a free port, which is logged
    #[arg(long, default_value = "127.0.0.1:7080", env = "PLAYLISTS_LISTEN")]
    listen: String,
    /// Database of this process: sqlite://path, postgres://user@host/database or mysql://user@host/database
    #[arg(
        long,
        default_value = "sqlite://playlists-data/playlists.db",
        env = "PLAYLISTS_STORE",
        hide_env_values = true
    )]
    store: String,
    /// Broker between the services, amqp://user:password@host:port/vhost; without it, events stay in the process
    #[arg(long, env = "PLAYLISTS_BROKER", hide_env_values = true)]
    broker: Option<String>,
    /// Service to run
    #[arg(long, default_value = "all", env = "PLAYLISTS_SERVICE")]
    service: Service,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LOG)))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
    match run(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = %Failure::from(error), "The service stops with an error");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), AnyError> {
    // Registered before the service is ready: without a handler, a signal would end the process at once.
    let shutdown = postrider::service::shutdown_signal()?;
    let listener = TcpListener::bind(&arguments.listen).await.map_err(|e| format!("{}: {e}", arguments.listen))?;
    let broker = arguments.broker.as_deref().map(RabbitMq::new).transpose()?;
    let process = Process { service: arguments.service, listener, broker };
    match arguments.store.split(':').next() {
        Some("sqlite") => process.run(SqliteStore::connect(&arguments.store).await?, shutdown).await,
        Some("postgres" | "postgresql") => process.run(PostgresStore::connect(&arguments.store).await?, shutdown).await,
        Some("mysql" | "mariadb") => process.run(MySqlStore::connect(&arguments.store).await?, shutdown).await,
        // The URL is left out because it may contain a password.
        _ => {
            Err("unknown database in --store: use sqlite://…, postgres://… or mysql://… (see --help for examples)"
                .into())
        }
    }
}
