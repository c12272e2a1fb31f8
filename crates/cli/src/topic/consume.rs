//! `forebay topic consume`: reads the records of topics, from a chosen position to a chosen end.
//!
//! Patterns select among the topics that exist when the command begins.
//!
//! Without a group, partitions are read from offsets that are looked up first. With a group, the
//! group's positions are used and stored. A partition that the broker cannot read is reported, and
//! ends the command ([`patience`]).

mod form;
mod patience;
mod reader;

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, ValueEnum};
use client::fetch::Whence;
use wire::types::TopicPartition;

use super::{partitions, selected};
use crate::ask::{PartitionKey, read_committed};
use crate::names::Name;
use crate::position::{Bounds, Position, bounds};
use crate::property::Property;
use crate::target::ChosenTarget;
use form::Form;

#[derive(Debug, Args)]
pub(super) struct Consume {
    /// The topics: names, or patterns: 'cars*', '/cars-[0-9]+/'.
    #[arg(required = true, value_name = "TOPIC")]
    topics: Vec<Name>,
    /// Where to begin: start, end, OFFSET, -COUNT (COUNT before the end), @TIME (milliseconds
    /// since 1970 or a date). With a group: start or end, where the group has no position.
    #[arg(short, long, default_value = "start", allow_hyphen_values = true)]
    offset: Position,
    /// Only these partitions of each topic.
    #[arg(short, long, value_delimiter = ',', conflicts_with = "group")]
    partitions: Vec<i32>,
    /// Ends after this many records.
    #[arg(short, long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    num: Option<u64>,
    /// Ends when all existing records were read.
    #[arg(short, long)]
    exit: bool,
    /// Reads as a member of this group, and stores its position.
    #[arg(short, long)]
    group: Option<String>,
    /// The group's protocol.
    #[arg(long, value_enum, default_value_t = Protocol::Classic, requires = "group")]
    group_protocol: Protocol,
    /// Also reads records of transactions that are not committed.
    #[arg(long)]
    read_uncommitted: bool,
    /// How a record is written, as in kcat: %t topic, %p partition, %o offset, %k key, %s value, %T
    /// timestamp, %h headers, %K and %S their lengths, \n, \t, \0, %%.
    #[arg(short = 'f', long, value_name = "TEMPLATE")]
    template: Option<String>,
    /// A property of the client, by its name in Java's clients or in librdkafka; it overrides the
    /// other options. Can be given many times.
    #[arg(short = 'X', long = "property", value_name = "KEY=VALUE")]
    properties: Vec<Property>,
}

/// The protocol between a member and its group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Protocol {
    /// All members rebalance together.
    Classic,
    /// The broker assigns (KIP-848).
    Consumer,
}

impl Consume {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        let form = Form::of(target.format, self.template.as_deref())?;
        let mut cluster = target.cluster()?;
        let names = selected::some(&mut cluster, &self.topics)?.names;
        let mut topics = cluster.topics(&names)?;
        if self.group.is_some() {
            if !matches!(self.offset, Position::Start | Position::End) {
                bail!("--offset with --group is start or end: `forebay group reset` moves a group");
            }
            let topics = names.into_iter().collect();
            reader::Reader::subscribed(self, target, topics)?.read(&form)?;
            return Ok(ExitCode::SUCCESS);
        }
        for topic in &mut topics {
            partitions::keep(topic, &self.partitions)?;
        }
        let bounds = bounds(
            &mut cluster,
            &topics,
            read_committed(!self.read_uncommitted),
        )?;
        let offsets = self.offset.find(&mut cluster, &topics, &bounds)?;
        if self.exit
            && offsets
                .iter()
                .all(|(place, offset)| nothing_after(&bounds, place, *offset))
        {
            return Ok(ExitCode::SUCCESS);
        }
        let positions = offsets.into_iter().map(|((topic, partition), offset)| {
            let topic = topic.into();
            (
                TopicPartition { topic, partition },
                Whence::At(offset, None),
            )
        });
        reader::Reader::assigned(self, target, positions.collect())?.read(&form)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn nothing_after(
    bounds: &BTreeMap<PartitionKey, Bounds>,
    place: &PartitionKey,
    offset: i64,
) -> bool {
    bounds.get(place).is_none_or(|bounds| offset >= bounds.end)
}
