//! A program with an outbox and a consumer, for tests to kill. It prints each point it passes, one line per point (`at
//! effect e00012`), and blocks at the point given by `--stop-at` (`stopped effect e00012`).
#![allow(clippy::print_stdout, reason = "the tests read its output")]

mod broker;
mod consume;
mod operate;
mod points;
mod produce;

use std::error::Error;

use clap::{Parser, Subcommand};
use postrider::store::mysql::MySqlStore;
use postrider::store::postgres::PostgresStore;
use postrider::store::sqlite::SqliteStore;
use postrider_proof::effect::Effect;

use crate::points::{Stop, Stops};

#[derive(Parser)]
struct Arguments {
    /// sqlite://path, postgres://user@host/database or mysql://user@host/database
    #[arg(long)]
    store: String,
    /// By how much the clock of this process is wrong.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    skew_ms: i64,
    #[command(flatten)]
    stop: Stop,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Writes events, each with a counter, one transaction at a time.
    Produce(produce::Produce),
    /// Consumes events: each increments its counter.
    Relay(consume::Consume),
    /// Publishes events to a broker.
    Publish(broker::Broker),
    /// Consumes events from a broker.
    Receive(broker::Receive),
    /// Processes bulk operations.
    Operate,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    postrider::testing::skew_clock(arguments.skew_ms);
    match arguments.store.split(':').next() {
        Some("sqlite") => run(SqliteStore::connect(&arguments.store).await?, arguments).await,
        Some("postgres") => run(PostgresStore::connect(&arguments.store).await?, arguments).await,
        Some("mysql") => run(MySqlStore::connect(&arguments.store).await?, arguments).await,
        _ => Err(format!("{}: unknown store; use sqlite, postgres or mysql", arguments.store).into()),
    }
}

async fn run<S: Effect>(store: S, arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let stops = Stops::new(arguments.stop);
    match arguments.command {
        Command::Produce(produce) => produce::produce(store, stops, produce).await,
        Command::Relay(consume) => consume::consume(store, stops, consume).await,
        Command::Publish(broker) => broker::publish(store, broker).await,
        Command::Receive(receive) => broker::receive(store, stops, receive).await,
        Command::Operate => operate::operate(store).await,
    }
}
