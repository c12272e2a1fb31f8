//! `forebay acl ...`: what principals may do, in the metadata of a cluster.
//!
//! Only `add` and `delete` change anything; `delete` shows what it would delete until `--execute`.

mod add;
mod delete;
mod entry;
mod filter;
mod list;
mod suggest;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::target::Target;
pub(crate) use entry::{Entry, operation, principal};

/// Arguments of `forebay acl`.
#[derive(Debug, Args)]
pub struct AclArgs {
    #[command(flatten)]
    target: Target,
    #[command(subcommand)]
    command: AclCommand,
}

#[derive(Debug, Subcommand)]
enum AclCommand {
    /// Lists ACLs: all of them, or some.
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Adds ACLs: one for each principal, host, resource and operation.
    #[command(visible_alias = "create")]
    Add(Box<add::Add>),
    /// Deletes the ACLs that fit.
    Delete(delete::Delete),
    /// Proposes ACLs from what a broker with authorizer.mode=log has logged.
    Suggest(suggest::Suggest),
}

impl AclArgs {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let target = self.target.choose()?;
        match &self.command {
            AclCommand::List(list) => list.run(&target),
            AclCommand::Add(add) => add.run(&target),
            AclCommand::Delete(delete) => delete.run(&target),
            AclCommand::Suggest(suggest) => suggest.run(&target),
        }
    }
}
