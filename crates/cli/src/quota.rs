//! `forebay quota ...`: how much users, client ids and addresses may use.
//!
//! Only `alter` changes anything.

mod alter;
mod describe;
mod entity;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::target::Target;

/// Arguments of `forebay quota`.
#[derive(Debug, Args)]
pub struct QuotaArgs {
    #[command(flatten)]
    target: Target,
    #[command(subcommand)]
    command: QuotaCommand,
}

#[derive(Debug, Subcommand)]
enum QuotaCommand {
    /// Shows quotas: all of them, or those of an entity.
    #[command(visible_aliases = ["list", "ls"])]
    Describe(describe::Describe),
    /// Sets and removes quotas of an entity.
    Alter(alter::Alter),
}

impl QuotaArgs {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let target = self.target.choose()?;
        match &self.command {
            QuotaCommand::Describe(describe) => describe.run(&target),
            QuotaCommand::Alter(alter) => alter.run(&target),
        }
    }
}
