//! `postrider completions`: completions of commands and flags for a shell.

use clap::{Args, Command};
use clap_complete::Shell;

use crate::{End, print_data};

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
        let mut script = Vec::new();
        clap_complete::generate(self.shell, command, "postrider", &mut script);
        print_data(String::from_utf8_lossy(&script).trim_end());
        Ok(())
    }
}
