//! `postrider completions`: completions of commands and flags for a shell.

use clap::{Args, Command};
use clap_complete::Shell;

use crate::End;

/// Print the completions of a shell
#[derive(Args)]
#[command(after_help = "Examples:
  postrider completions bash > /etc/bash_completion.d/postrider
  postrider completions zsh > ~/.zfunc/_postrider")]
pub(crate) struct Completions {
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, command: &mut Command) -> Result<(), End> {
        clap_complete::generate(self.shell, command, "postrider", &mut std::io::stdout());
        Ok(())
    }
}
