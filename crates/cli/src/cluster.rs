//! `forebay cluster ...`: the brokers, their health and their settings.
//!
//! Topics, groups and transactions have commands of their own.

mod health;
mod overview;
mod quorum;
mod settings;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::target::Target;

/// Arguments of `forebay cluster`.
#[derive(Debug, Args)]
pub struct ClusterArgs {
    #[command(flatten)]
    target: Target,
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Debug, Subcommand)]
enum ClusterCommand {
    /// Shows the cluster's id, its brokers, the controller, and the features in effect.
    Info,
    /// Shows what is wrong: brokers, log directories, partitions; fails if anything is.
    Health(health::Health),
    /// Shows who leads the log of the metadata, and how far the other controllers and the brokers
    /// are.
    Quorum,
    /// Shows the settings of a broker, or changes them at run time.
    Config(settings::Config),
}

impl ClusterArgs {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let target = self.target.choose()?;
        match &self.command {
            ClusterCommand::Info => overview::run(&target),
            ClusterCommand::Health(health) => health.run(&target),
            ClusterCommand::Quorum => quorum::run(&target),
            ClusterCommand::Config(config) => config.run(&target),
        }
    }
}
