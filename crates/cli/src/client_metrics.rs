//! `forebay client-metrics ...`: which metrics clients send to the brokers (KIP-714).
//!
//! A subscription has a name and three settings: `metrics`, `interval.ms` and `match`.

mod alter;
mod delete;
mod describe;
mod subscriptions;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::target::Target;

/// Arguments of `forebay client-metrics`.
#[derive(Debug, Args)]
pub struct ClientMetricsArgs {
    #[command(flatten)]
    target: Target,
    #[command(subcommand)]
    command: ClientMetricsCommand,
}

#[derive(Debug, Subcommand)]
enum ClientMetricsCommand {
    /// Lists subscriptions.
    #[command(visible_alias = "ls")]
    List,
    /// Shows the settings of subscriptions.
    Describe(describe::Describe),
    /// Changes settings of a subscription, and creates it if it does not exist.
    Alter(alter::Alter),
    /// Deletes subscriptions.
    Delete(delete::Delete),
}

impl ClientMetricsArgs {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let target = self.target.choose()?;
        match &self.command {
            ClientMetricsCommand::List => subscriptions::run(&target),
            ClientMetricsCommand::Describe(describe) => describe.run(&target),
            ClientMetricsCommand::Alter(alter) => alter.run(&target),
            ClientMetricsCommand::Delete(delete) => delete.run(&target),
        }
    }
}
