//! `forebay topic ...`: topics and the records in them.
//!
//! Records are read and written by `client`, everything else by plain requests.

mod add_partitions;
mod alter;
mod consume;
mod create;
mod delete;
mod describe;
mod grow;
mod line;
mod list;
mod partitions;
mod produce;
mod selected;
mod trim;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::target::Target;

/// Arguments of `forebay topic`.
#[derive(Debug, Args)]
pub struct TopicArgs {
    #[command(flatten)]
    target: Target,
    #[command(subcommand)]
    command: TopicCommand,
}

#[derive(Debug, Subcommand)]
enum TopicCommand {
    /// Creates topics.
    Create(create::Create),
    /// Lists topics.
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Shows partitions, leaders, replicas, offsets, and the settings that are not the default.
    Describe(describe::Describe),
    /// Changes settings, adds partitions.
    Alter(alter::Alter),
    /// Adds partitions to those that topics have.
    AddPartitions(add_partitions::AddPartitions),
    /// Deletes topics, with all records in them.
    Delete(delete::Delete),
    /// Deletes the records before a position; shows what it would do unless --execute is given.
    #[command(visible_alias = "trim-prefix")]
    Trim(trim::Trim),
    /// Writes records, from the command line or standard input.
    Produce(Box<produce::Produce>),
    /// Reads records.
    Consume(Box<consume::Consume>),
}

impl TopicArgs {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let target = self.target.choose()?;
        match &self.command {
            TopicCommand::Create(create) => create.run(&target),
            TopicCommand::List(list) => list.run(&target),
            TopicCommand::Describe(describe) => describe.run(&target),
            TopicCommand::Alter(alter) => alter.run(&target),
            TopicCommand::AddPartitions(add) => add.run(&target),
            TopicCommand::Delete(delete) => delete.run(&target),
            TopicCommand::Trim(trim) => trim.run(&target),
            TopicCommand::Produce(produce) => produce.run(&target),
            TopicCommand::Consume(consume) => consume.run(&target),
        }
    }
}
