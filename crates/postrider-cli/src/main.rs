//! `postrider`, the one executable. A file per command; this one knows how they begin and how they end.
//!
//! Data goes to stdout, everything else to stderr, and the exit code says what happened.

mod bulk;
mod client;
mod completions;
mod config;
mod dead;
mod demo;
mod doctor;
mod events;
mod listen;
mod migrate;
mod operations;
mod output;
mod process;
mod publish;
mod serve;
mod subscriptions;
mod telemetry;
mod tokens;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use postrider::Error;

use crate::config::{ConfigError, Flags};
use crate::output::Format;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Events that ride in your transaction.
#[derive(Parser)]
#[command(
    name = "postrider",
    version,
    arg_required_else_help = true,
    after_help = "Examples:
  postrider demo                                     a shop under traffic: see it work, nothing needed
  postrider serve                                    the API and a relay on the default SQLite file
  postrider publish order.paid --data '{\"orderId\": 7}'
  postrider listen order.paid --consumer points
  postrider events trace EVENT_ID
  postrider dead redrive --consumer points --dry-run

Exit codes: 0 ok, 1 error, 2 usage, 3 not found, 4 partly failed, 5 schema out of date, 6 not allowed.
Configuration: flags > POSTRIDER_* in the environment > postrider.toml > defaults."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    flags: Flags,
    /// How data is printed
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table)]
    output: Format,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::Serve),
    Demo(demo::Demo),
    Migrate(migrate::Migrate),
    Doctor(doctor::Doctor),
    Publish(publish::Publish),
    Listen(listen::Listen),
    Events(events::Events),
    Dead(dead::Dead),
    Operations(operations::Operations),
    Subscriptions(subscriptions::Subscriptions),
    Tokens(tokens::Tokens),
    Completions(completions::Completions),
}

/// What every command is given beside its own arguments.
struct Context {
    flags: Flags,
    output: Format,
}

/// How a command ended, beside success.
enum End {
    /// Something went wrong.
    Failed(Error),
    /// Something went wrong that is told in one line.
    Wrong(String),
    /// What was asked for is not there.
    NotFound(String),
    /// Some of it went wrong; it has been told what.
    Partly,
    /// The database's schema is not this program's.
    OutOfDate,
    /// The server does not let us.
    NotAllowed(String),
}

impl End {
    fn code(&self) -> u8 {
        match self {
            Self::Failed(_) | Self::Wrong(_) => 1,
            Self::NotFound(_) => 3,
            Self::Partly => 4,
            Self::OutOfDate => 5,
            Self::NotAllowed(_) => 6,
        }
    }
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        match error {
            Error::SchemaOutOfDate { .. } | Error::SchemaTooNew { .. } => {
                complain(&error);
                Self::OutOfDate
            }
            error => Self::Failed(error),
        }
    }
}

impl From<ConfigError> for End {
    fn from(error: ConfigError) -> Self {
        Self::Wrong(error.to_string())
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    // A wrong command line ends here, with 2.
    let cli = Cli::parse();
    let context = Context { flags: cli.flags, output: cli.output };
    let ended = match cli.command {
        Command::Serve(command) => command.run(&context).await,
        Command::Demo(command) => command.run(&context).await,
        Command::Migrate(command) => command.run(&context).await,
        Command::Doctor(command) => command.run(&context).await,
        Command::Publish(command) => command.run(&context).await,
        Command::Listen(command) => command.run(&context).await,
        Command::Events(command) => command.run(&context).await,
        Command::Dead(command) => command.run(&context).await,
        Command::Operations(command) => command.run(&context).await,
        Command::Subscriptions(command) => command.run(&context).await,
        Command::Tokens(command) => command.run(&context).await,
        Command::Completions(command) => command.run(&mut Cli::command()),
    };
    let Err(end) = ended else {
        return ExitCode::SUCCESS;
    };
    match &end {
        End::Failed(error) => complain(error),
        End::Wrong(text) | End::NotFound(text) | End::NotAllowed(text) => tell(format!("error: {text}")),
        End::Partly | End::OutOfDate => {}
    }
    ExitCode::from(end.code())
}

/// The error and what lies behind it, one line each.
fn complain(error: &Error) {
    tell(format!("error: {error}"));
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        tell(format!("  because: {cause}"));
        source = cause.source();
    }
}

/// Prints a line for people.
#[expect(clippy::print_stderr, reason = "stderr is where a command complains")]
fn tell(line: impl std::fmt::Display) {
    eprintln!("{line}");
}

/// Prints a line of data. Nobody may be left to read it.
fn say(line: impl std::fmt::Display) {
    use std::io::Write as _;
    if writeln!(std::io::stdout(), "{line}").is_err() {
        std::process::exit(0);
    }
}
