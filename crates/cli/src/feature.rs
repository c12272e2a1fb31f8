//! `forebay feature ...`: what the brokers can do, and which level of it is in effect.
//!
//! `upgrade` and `downgrade` change levels; the controller refuses what it cannot undo.

mod change;
mod describe;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::target::Target;

/// Arguments of `forebay feature`.
#[derive(Debug, Args)]
pub struct FeatureArgs {
    #[command(flatten)]
    target: Target,
    #[command(subcommand)]
    command: FeatureCommand,
}

#[derive(Debug, Subcommand)]
enum FeatureCommand {
    /// Shows the levels that a broker supports and those in effect.
    #[command(visible_aliases = ["list", "ls"])]
    Describe,
    /// Raises levels.
    Upgrade(change::Upgrade),
    /// Lowers levels; level 0 disables a feature.
    Downgrade(change::Downgrade),
}

impl FeatureArgs {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let target = self.target.choose()?;
        match &self.command {
            FeatureCommand::Describe => describe::run(&target),
            FeatureCommand::Upgrade(upgrade) => upgrade.run(&target),
            FeatureCommand::Downgrade(downgrade) => downgrade.run(&target),
        }
    }
}
