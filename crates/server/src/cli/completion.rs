//! `forebay completion`: prints a script with which a shell completes commands and options.
//!
//! It completes no names of topics or groups: that would ask a cluster at every key.

use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::{Shell, generate};

/// Arguments of `forebay completion`.
#[derive(Debug, Args)]
pub(super) struct CompletionArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

impl CompletionArgs {
    /// Prints the script for the whole command line.
    pub(super) fn run(&self, mut commands: Command) -> anyhow::Result<ExitCode> {
        let mut script = Vec::new();
        generate(self.shell, &mut commands, "forebay", &mut script);
        super::print(&String::from_utf8(script)?)?;
        Ok(ExitCode::SUCCESS)
    }
}
