//! A program with an outbox and a consumer, for tests to kill. It says on stdout where it is, one line a point
//! (`at effect e00012`), and stops for good where it is told to (`stopped effect e00012`).
#![allow(clippy::print_stdout, reason = "its output is what it is for")]

mod broker;
mod consume;
mod effect;
mod operate;
mod points;
mod produce;

use std::error::Error;

use clap::{Parser, Subcommand};
use postrider::store::mysql::MySqlStore;
use postrider::store::postgres::PostgresStore;
use postrider::store::sqlite::SqliteStore;

use crate::effect::Effect;
use crate::points::{Stop, Stops};

#[derive(Parser)]
struct Arguments {
    /// sqlite://path, postgres://user@host/database or mysql://user@host/database
    #[arg(long)]
    store: String,
    #[command(flatten)]
    stop: Stop,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Writes events, each with its counter, in transactions of their own.
    Produce(produce::Produce),
    /// Consumes events: each adds one to its counter.
    Relay(consume::Consume),
    /// Sends events to a broker.
    Publish(broker::Broker),
    /// Consumes events that a broker has.
    Receive(broker::Receive),
    /// Works on bulk operations.
    Operate,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    match arguments.store.split(':').next() {
        Some("sqlite") => run(SqliteStore::connect(&arguments.store).await?, arguments).await,
        Some("postgres") => run(PostgresStore::connect(&arguments.store).await?, arguments).await,
        Some("mysql") => run(MySqlStore::connect(&arguments.store).await?, arguments).await,
        _ => Err(format!("{} is no store of this program", arguments.store).into()),
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
