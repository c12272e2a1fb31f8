//! `forebay tls ...`: whether keys, certificates and listeners are as they should be.
//!
//! It changes nothing.

mod check;
mod files;
mod view;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::target::Target;

/// Arguments of `forebay tls`.
#[derive(Debug, Args)]
pub struct TlsArgs {
    #[command(flatten)]
    target: Target,
    #[command(subcommand)]
    command: TlsCommand,
}

#[derive(Debug, Subcommand)]
enum TlsCommand {
    /// Connects and shows what there is to know of the TLS of a server, or of files with keys and
    /// certificates.
    Check(check::Check),
}

impl TlsArgs {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        match &self.command {
            TlsCommand::Check(check) => check.run(&self.target.choose()?),
        }
    }
}
