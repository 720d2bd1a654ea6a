//! `playlists`: users, songs and playlists, together or each in a process of its own.

use std::future::Future;
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

/// What the log shows unless RUST_LOG says otherwise: the story, and of the drivers only what our own lines do not say. The
/// broker's would even write whole messages into it, when one finds no queue.
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

  Three processes, each with a database of its own, and a broker between them (the playlists
  first: its queue is then there when the first event comes):
    export PLAYLISTS_BROKER=amqp://guest:guest@localhost:5672/%2f
    playlists --service playlists --listen 127.0.0.1:7080 --store postgres://app@localhost/playlists
    playlists --service songs     --listen 127.0.0.1:7081 --store postgres://app@localhost/songs
    playlists --service users     --listen 127.0.0.1:7082 --store postgres://app@localhost/users

URLs may hold passwords: in the environment fewer people see them than on the command line.
RUST_LOG chooses what is logged, on stderr.";

/// Users, songs and playlists: a deletion in one service cleans up in another, once.
#[derive(Parser)]
#[command(version, after_help = EXAMPLES)]
struct Arguments {
    /// Where to listen; port 0 takes any that is free, and the log says which
    #[arg(long, default_value = "127.0.0.1:7080", env = "PLAYLISTS_LISTEN")]
    listen: String,
    /// The database of this process: sqlite://path, postgres://user@host/database or mysql://user@host/database
    #[arg(
        long,
        default_value = "sqlite://playlists-data/playlists.db",
        env = "PLAYLISTS_STORE",
        hide_env_values = true
    )]
    store: String,
    /// The broker between the services, as amqp://user:password@host:port/vhost; without one, events stay in the process
    #[arg(long, env = "PLAYLISTS_BROKER", hide_env_values = true)]
    broker: Option<String>,
    /// What to serve
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
            tracing::error!(error = %Failure::from(error), "playlists ends");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), AnyError> {
    // Before anything says that it is ready: a signal that nobody waits for would end the process at once.
    let shutdown = shutdown_signal()?;
    let listener = TcpListener::bind(&arguments.listen).await.map_err(|e| format!("{}: {e}", arguments.listen))?;
    let broker = arguments.broker.as_deref().map(RabbitMq::new).transpose()?;
    let process = Process { service: arguments.service, listener, broker };
    match arguments.store.split(':').next() {
        Some("sqlite") => process.run(SqliteStore::connect(&arguments.store).await?, shutdown).await,
        Some("postgres" | "postgresql") => process.run(PostgresStore::connect(&arguments.store).await?, shutdown).await,
        Some("mysql" | "mariadb") => process.run(MySqlStore::connect(&arguments.store).await?, shutdown).await,
        // Not the URL itself: it may hold a password.
        _ => {
            Err("--store names no database of this program: write sqlite://…, postgres://… or mysql://… (--help has examples)"
                .into())
        }
    }
}

/// What ends a service: SIGTERM from whoever runs it, or Ctrl-C from a person.
#[cfg(unix)]
fn shutdown_signal() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// What ends a service: Ctrl-C.
#[cfg(not(unix))]
fn shutdown_signal() -> std::io::Result<impl Future<Output = ()>> {
    Ok(async { tokio::signal::ctrl_c().await.unwrap_or_default() })
}
