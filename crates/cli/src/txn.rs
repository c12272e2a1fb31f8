//! `forebay txn ...`: transactional ids, the producers of a partition, and the end of hanging
//! transactions.
//!
//! Only `abort` changes anything.

mod abort;
mod describe;
mod list;
mod producers;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::target::Target;

/// Arguments of `forebay txn`.
#[derive(Debug, Args)]
pub struct TxnArgs {
    #[command(flatten)]
    target: Target,
    #[command(subcommand)]
    command: TxnCommand,
}

#[derive(Debug, Subcommand)]
enum TxnCommand {
    /// Lists transactional ids.
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Shows transactional ids and their transactions.
    Describe(describe::Describe),
    /// Shows the producers of a partition, and where their open transactions begin.
    Producers(producers::Producers),
    /// Aborts a transaction in one partition, whatever its coordinator knows of it: for
    /// transactions that hang.
    Abort(abort::Abort),
}

impl TxnArgs {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let target = self.target.choose()?;
        match &self.command {
            TxnCommand::List(list) => list.run(&target),
            TxnCommand::Describe(describe) => describe.run(&target),
            TxnCommand::Producers(producers) => producers.run(&target),
            TxnCommand::Abort(abort) => abort.run(&target),
        }
    }
}
