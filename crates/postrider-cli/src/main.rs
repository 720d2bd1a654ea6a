//! `postrider`, the one executable. A file per command; this one knows how they begin and how they end.
//!
//! Data goes to stdout, everything else to stderr, and the exit code says what happened.

mod migrate;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use postrider::Error;

/// Events that ride in your transaction.
#[derive(Parser)]
#[command(name = "postrider", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Migrate(migrate::Migrate),
}

/// How a command ended, beside success.
enum End {
    /// Something went wrong.
    Failed(Error),
    /// The database's schema is not this program's.
    OutOfDate,
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

#[tokio::main]
async fn main() -> ExitCode {
    // A wrong command line ends here, with 2.
    let cli = Cli::parse();
    let ended = match cli.command {
        Command::Migrate(command) => command.run().await,
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(End::Failed(error)) => {
            complain(&error);
            ExitCode::from(1)
        }
        Err(End::OutOfDate) => ExitCode::from(5),
    }
}

/// The error and what lies behind it, one line each.
#[expect(clippy::print_stderr, reason = "stderr is where a command complains")]
fn complain(error: &Error) {
    eprintln!("error: {error}");
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        eprintln!("  because: {cause}");
        source = cause.source();
    }
}

/// Prints a line of data.
#[expect(clippy::print_stdout, reason = "stdout is where data goes")]
fn say(line: impl std::fmt::Display) {
    println!("{line}");
}
