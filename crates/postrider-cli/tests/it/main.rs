//! Tests of the executable: its output, its streams and its exit codes.
#![allow(missing_docs, clippy::unwrap_used)]

mod alerts;
mod bench;
mod broker;
mod bytes;
mod canary;
mod commands;
mod demo;
mod disk;
mod flood;
mod grants;
mod health;
mod migrate;
mod process;
mod promises;
mod redrive;
mod roles;
mod schemathesis;
mod serve;
mod story;
mod subscriptions;
#[cfg(feature = "otel")]
mod telemetry;
mod tls;
mod upgrade;
mod webhooks;

use std::process::{Command, Output};

/// Runs `postrider` with nothing from the environment that could choose for it.
fn postrider(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
    for name in ["POSTRIDER_STORE", "POSTRIDER_SERVER", "POSTRIDER_TOKEN", "POSTRIDER_CONFIG"] {
        command.env_remove(name);
    }
    command.args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_wrong_command_line_ends_with_2_and_help() {
    let nothing = postrider(&[]);
    assert_eq!(nothing.status.code(), Some(2));
    assert!(stderr(&nothing).contains("migrate"), "{}", stderr(&nothing));
    assert_eq!(postrider(&["mirgate"]).status.code(), Some(2));
}
