//! `forebay user ...`: users who log in by SCRAM, in the metadata of a cluster.
//!
//! Invariant: a password is in no argument, no message and no request: a broker gets what is
//! derived from it.

mod change;
mod credential;
mod delete;
mod list;
pub(crate) mod password;
mod set;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::target::Target;

/// Arguments of `forebay user`.
#[derive(Debug, Args)]
pub struct UserArgs {
    #[command(flatten)]
    target: Target,
    #[command(subcommand)]
    command: UserCommand,
}

#[derive(Debug, Subcommand)]
enum UserCommand {
    /// Lists users and the mechanisms by which they may log in.
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Sets the password of a user, who is created if need be. The password is a line of standard
    /// input.
    Set(set::Set),
    /// Deletes the passwords of users.
    Delete(delete::Delete),
}

impl UserArgs {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let target = self.target.choose()?;
        match &self.command {
            UserCommand::List(list) => list.run(&target),
            UserCommand::Set(set) => set.run(&target),
            UserCommand::Delete(delete) => delete.run(&target),
        }
    }
}
