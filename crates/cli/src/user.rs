//! `forebay user ...`: users who log in by SCRAM, in the metadata of a cluster.
//!
//! Invariant: a password is in no argument, no message and no request: a broker gets what is
//! derived from it. `user set --data-dir` is for a broker that does not run: who calls this crate
//! knows its files ([`UserArgs::offline`]).

mod change;
mod credential;
mod delete;
mod list;
pub(crate) mod password;
mod set;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use wire::sasl::scram::Credential;

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

/// A password for a user in the metadata of a broker that does not run.
#[derive(Debug)]
pub struct OfflineUser {
    /// The log directory with the metadata.
    pub data_dir: PathBuf,
    /// The user's name.
    pub name: String,
    /// What a broker keeps of the password, for each mechanism.
    pub credentials: Vec<Credential>,
}

impl UserArgs {
    /// Returns what `set --data-dir` sets; `None` for a command that asks a broker.
    pub fn offline(&self) -> anyhow::Result<Option<OfflineUser>> {
        match &self.command {
            UserCommand::Set(set) => set.offline(),
            UserCommand::List(_) | UserCommand::Delete(_) => Ok(None),
        }
    }

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
