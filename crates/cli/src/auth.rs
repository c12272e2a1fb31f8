//! `forebay auth ...`: who this client is for a cluster, and what a principal may do.
//!
//! It changes nothing.

mod explain;
mod whoami;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::target::Target;

/// Arguments of `forebay auth`.
#[derive(Debug, Args)]
pub struct AuthArgs {
    #[command(flatten)]
    target: Target,
    #[command(subcommand)]
    command: AuthCommand,
}

#[derive(Debug, Subcommand)]
enum AuthCommand {
    /// Shows the principal by which a broker knows this client, and what it may do with the
    /// cluster.
    Whoami,
    /// Shows whether a principal may do something, which ACL decides, and which ones nearly did.
    Explain(explain::Explain),
}

impl AuthArgs {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let target = self.target.choose()?;
        match &self.command {
            AuthCommand::Whoami => whoami::run(&target),
            AuthCommand::Explain(explain) => explain.run(&target),
        }
    }
}
