//! `forebay group ...`: consumer groups, their members and positions.
//!
//! Positions change only in groups without members.

mod delete;
mod describe;
mod list;
mod members;
mod positions;
mod reset;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::target::Target;

/// Arguments of `forebay group`.
#[derive(Debug, Args)]
pub struct GroupArgs {
    #[command(flatten)]
    target: Target,
    #[command(subcommand)]
    command: GroupCommand,
}

#[derive(Debug, Subcommand)]
enum GroupCommand {
    /// Lists groups.
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Shows members, positions and lag.
    Describe(describe::Describe),
    /// Moves the positions of a group without members; shows what it would do unless --execute is
    /// given.
    Reset(reset::Reset),
    /// Deletes groups without members.
    Delete(delete::Delete),
}

impl GroupArgs {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let target = self.target.choose()?;
        match &self.command {
            GroupCommand::List(list) => list.run(&target),
            GroupCommand::Describe(describe) => describe.run(&target),
            GroupCommand::Reset(reset) => reset.run(&target),
            GroupCommand::Delete(delete) => delete.run(&target),
        }
    }
}
