//! The configuration as the command line has it.

use std::path::PathBuf;

pub(crate) use postrider_config::{Assignment, Config, ConfigError, Origin, inventory, server, shop, without_password};
use postrider_config::{Sources, Spec};

/// What the command line says of the configuration, the same for every command.
#[derive(clap::Args, Debug, Clone, Default)]
pub(crate) struct Flags {
    /// The configuration file [default: postrider.toml, if it exists]
    #[arg(long, global = true, env = "POSTRIDER_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// A value of the configuration, as `outbox.batch-size=50`; may be given many times
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl Flags {
    /// Reads the keys of the server; `flags` have a name of their own.
    pub(crate) fn load(&self, flags: Vec<Assignment>) -> Result<Config, ConfigError> {
        self.load_tables(&[server::ALL], Vec::new(), flags)
    }

    /// Reads the keys of all programs, for a command that runs them all and has other defaults.
    pub(crate) fn load_all(&self, defaults: Vec<Assignment>, flags: Vec<Assignment>) -> Result<Config, ConfigError> {
        self.load_tables(&[server::ALL, shop::ALL, inventory::ALL], defaults, flags)
    }

    fn load_tables(
        &self,
        tables: &[&[Spec]],
        defaults: Vec<Assignment>,
        flags: Vec<Assignment>,
    ) -> Result<Config, ConfigError> {
        let environment = Sources::process_environment();
        let sources = Sources { defaults, file: self.config.as_deref(), environment, set: &self.set, flags };
        Config::load(tables, sources)
    }
}
