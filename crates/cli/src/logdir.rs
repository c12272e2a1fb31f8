//! `forebay logdir ...`: the log directories of the brokers, and what lies in them.
//!
//! It changes nothing.

mod describe;
mod dirs;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::target::Target;
pub(crate) use dirs::of_broker;

/// Arguments of `forebay logdir`.
#[derive(Debug, Args)]
pub struct LogdirArgs {
    #[command(flatten)]
    target: Target,
    #[command(subcommand)]
    command: LogdirCommand,
}

#[derive(Debug, Subcommand)]
enum LogdirCommand {
    /// Shows log directories: their size, what is free, and the partitions in them.
    #[command(visible_aliases = ["list", "ls"])]
    Describe(describe::Describe),
}

impl LogdirArgs {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let target = self.target.choose()?;
        match &self.command {
            LogdirCommand::Describe(describe) => describe.run(&target),
        }
    }
}
