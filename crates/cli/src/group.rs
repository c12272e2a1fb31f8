//! `forebay group ...`: consumer groups, their members, positions and lag.
//!
//! Positions are moved only in groups without members.

mod assignment;
mod behind;
mod delete;
mod describe;
mod lag;
mod list;
mod members;
mod offset_delete;
mod positions;
mod reset;
mod scope;
mod selected;

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
    /// Shows the lag of groups, those with the largest first; with --watch again and again.
    Lag(lag::Lag),
    /// Moves the positions of a group without members; shows what it would do unless --execute is
    /// given.
    Reset(reset::Reset),
    /// Deletes positions of a group in topics that it does not read.
    OffsetDelete(offset_delete::OffsetDelete),
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
            GroupCommand::Lag(lag) => lag.run(&target),
            GroupCommand::Reset(reset) => reset.run(&target),
            GroupCommand::OffsetDelete(delete) => delete.run(&target),
            GroupCommand::Delete(delete) => delete.run(&target),
        }
    }
}
