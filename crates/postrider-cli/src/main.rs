//! `postrider`, the executable: parses the command line, runs one command per file, and sets the exit code.
//!
//! Data goes to stdout, everything else to stderr.

mod bench;
mod bulk;
mod client;
mod completions;
mod config;
mod consumers;
mod dead;
mod demo;
mod doctor;
mod embedded;
mod events;
mod listen;
mod migrate;
mod operations;
mod output;
mod process;
mod publish;
mod reads;
mod serve;
mod story;
mod subscriptions;
mod tail;
mod telemetry;
mod tokens;
mod top;

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
  postrider story 10492                              everything about one business key
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
    Consumers(consumers::Consumers),
    Story(story::Story),
    Operations(operations::Operations),
    /// Failures, grouped by consumer and error
    #[command(after_help = "Examples:\n  postrider failures\n  postrider failures -o jsonl")]
    Failures(reads::Read),
    /// Whether the promises hold: nothing lost, nothing twice, nobody stuck, order kept
    ///
    /// Exits with 1 if one does not hold.
    #[command(after_help = "Examples:\n  postrider promises\n  postrider promises -o json")]
    Promises(reads::Promises),
    /// Topics: events, subscribers, and events that no consumer subscribes to
    #[command(after_help = "Examples:\n  postrider topics")]
    Topics(reads::Read),
    /// Jobs: last and next fire, and how the last one ended
    #[command(after_help = "Examples:\n  postrider jobs")]
    Jobs(reads::Read),
    /// Instances, and the leases that each holds
    #[command(after_help = "Examples:\n  postrider instances")]
    Instances(reads::Read),
    Audit(reads::Audit),
    /// The configuration of the running server, with the origin of each value; secrets are hidden
    #[command(after_help = "Examples:\n  postrider config\n  postrider config -o json")]
    Config(reads::Read),
    Top(top::Top),
    Subscriptions(subscriptions::Subscriptions),
    Tokens(tokens::Tokens),
    Bench(bench::Bench),
    Completions(completions::Completions),
}

/// The flags that all commands share.
struct Context {
    flags: Flags,
    output: Format,
}

/// Why a command did not succeed. Each has its own exit code.
enum End {
    /// An error of the library, printed with its causes.
    Failed(Error),
    /// An error of one line.
    Wrong(String),
    /// An argument cannot be used.
    Usage(String),
    /// The server does not answer.
    Away(String),
    /// The thing does not exist.
    NotFound(String),
    /// Some of it failed. The command has printed what.
    Partly,
    /// The schema is older or newer than this program.
    OutOfDate,
    /// The server refuses.
    NotAllowed(String),
}

impl End {
    fn code(&self) -> u8 {
        match self {
            Self::Failed(_) | Self::Wrong(_) | Self::Away(_) => 1,
            Self::Usage(_) => 2,
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
                print_error(&error);
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
    // A wrong command line exits here, with code 2.
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
        Command::Consumers(command) => command.run(&context).await,
        Command::Story(command) => command.run(&context).await,
        Command::Operations(command) => command.run(&context).await,
        Command::Failures(command) => command.run(&context, reads::FAILURES).await,
        Command::Promises(command) => command.run(&context).await,
        Command::Topics(command) => command.run(&context, reads::TOPICS).await,
        Command::Jobs(command) => command.run(&context, reads::JOBS).await,
        Command::Instances(command) => command.run(&context, reads::INSTANCES).await,
        Command::Audit(command) => command.run(&context).await,
        Command::Config(command) => command.run(&context, reads::CONFIG).await,
        Command::Top(command) => command.run(&context).await,
        Command::Subscriptions(command) => command.run(&context).await,
        Command::Tokens(command) => command.run(&context).await,
        Command::Bench(command) => command.run(&context).await,
        Command::Completions(command) => command.run(&mut Cli::command()),
    };
    let Err(end) = ended else {
        return ExitCode::SUCCESS;
    };
    match &end {
        End::Failed(error) => print_error(error),
        End::Wrong(text) | End::Usage(text) | End::Away(text) | End::NotFound(text) | End::NotAllowed(text) => {
            print_note(format!("error: {text}"));
        }
        End::Partly | End::OutOfDate => {}
    }
    ExitCode::from(end.code())
}

/// Prints an error and its causes, one line each.
fn print_error(error: &Error) {
    print_note(format!("error: {error}"));
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        print_note(format!("  because: {cause}"));
        source = cause.source();
    }
}

/// Prints a line to stderr.
#[expect(clippy::print_stderr, reason = "messages go to stderr")]
fn print_note(line: impl std::fmt::Display) {
    eprintln!("{line}");
}

/// Prints a line of data to stdout. Exits if the reader has closed the pipe.
fn print_data(line: impl std::fmt::Display) {
    use std::io::Write as _;
    if writeln!(std::io::stdout(), "{line}").is_err() {
        std::process::exit(0);
    }
}
