//! `forebay topic produce`: writes records from the command line or standard input.
//!
//! Invariant: success means that every record was acknowledged as `--acks` requires; a record that
//! was not is reported, and the command fails.

mod ahead;
mod input;
mod sender;

use std::io::{self, BufReader};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use wire::types::ErrorCode;

use crate::ask::{Cluster, Refusal, check, while_it_passes};
use crate::property::Property;
use crate::target::ChosenTarget;
use input::{Input, Record};

/// Bytes that are read at once.
const READ_BYTES: usize = 256 << 10;

/// How long a request may take, if the command may take longer.
const REQUEST_WITHIN: Duration = Duration::from_secs(30);

#[derive(Debug, Args)]
pub(super) struct Produce {
    /// The topic.
    topic: String,
    /// Values, one record each; without any, records are read from standard input.
    values: Vec<String>,
    /// How standard input is read.
    #[arg(long, value_enum, default_value_t = Input::Lines)]
    input: Input,
    /// The key of all records.
    #[arg(short, long, conflicts_with = "key_delimiter")]
    key: Option<String>,
    /// The text between key and value of each record (a line without it has no key).
    #[arg(short = 'K', long, value_name = "TEXT")]
    key_delimiter: Option<String>,
    /// A header of all records; can be given many times.
    #[arg(short = 'H', long = "header", value_name = "KEY=VALUE")]
    headers: Vec<Property>,
    /// The partition; by default it is chosen by the key, or spread for records without a key.
    #[arg(short, long, value_parser = clap::value_parser!(i32).range(0..))]
    partition: Option<i32>,
    /// The timestamp of all records: milliseconds since 1970, or a date.
    #[arg(short, long, value_parser = crate::moment::parse, allow_hyphen_values = true)]
    timestamp: Option<i64>,
    /// Turns empty values into null: tombstones on a compacted topic.
    #[arg(short = 'Z', long)]
    tombstone: bool,
    /// Which replicas must have a record before it is acknowledged.
    #[arg(long, value_enum, default_value_t = Acks::All)]
    acks: Acks,
    /// How batches are compressed.
    #[arg(short = 'z', long, value_enum, default_value_t = Compression::None)]
    compression: Compression,
    /// Creates a missing topic, if the brokers allow it.
    #[arg(long)]
    allow_auto_topic_creation: bool,
    /// Does not report the records that were written.
    #[arg(short, long)]
    quiet: bool,
    /// A property of a producer, by its name in Java's clients or in librdkafka, which overrides
    /// the other options. Can be given many times.
    #[arg(short = 'X', long = "property", value_name = "KEY=VALUE")]
    properties: Vec<Property>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Acks {
    /// None: the client waits for no acknowledgement.
    #[value(name = "0")]
    None,
    /// The leader.
    #[value(name = "1")]
    Leader,
    /// All replicas in sync.
    #[value(alias = "-1")]
    All,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Compression {
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

impl Produce {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        let mut cluster = target.cluster()?;
        let partitions = self.partitions(&mut cluster)?;
        if let Some(partition) = self.partition.filter(|&one| one >= partitions) {
            bail!(
                "topic {} has {partitions} partitions, there is no {partition}",
                self.topic
            );
        }
        let delimiter = self.key_delimiter.clone();
        if self.values.is_empty() {
            let input = self.input;
            return sender::send(self, target, move |each| {
                // Its own buffer, of 8 KiB, is passed by.
                let from = BufReader::with_capacity(READ_BYTES, io::stdin().lock());
                input::read(from, input, delimiter.as_deref(), each)
            });
        }
        let values = self.values.clone();
        sender::send(self, target, move |each| {
            let lines = values.iter();
            let mut records =
                lines.map(|value| input::line(value.as_bytes(), delimiter.as_deref()));
            records.try_for_each(each)
        })
    }

    /// Fills in from the options what a record does not set itself.
    fn fill(&self, mut record: Record) -> Record {
        record.key = record
            .key
            .or_else(|| self.key.clone().map(String::into_bytes));
        record.partition = record.partition.or(self.partition);
        record.timestamp = record.timestamp.or(self.timestamp);
        let headers = self.headers.iter().map(|header| {
            let value = header.value.clone().into_bytes();
            (header.key.clone(), Some(value))
        });
        record.headers.extend(headers);
        if self.tombstone && record.value.as_ref().is_some_and(Vec::is_empty) {
            record.value = None;
        }
        record
    }

    /// Returns the number of partitions of the topic, and waits for a topic that is being created.
    fn partitions(&self, cluster: &mut Cluster) -> anyhow::Result<i32> {
        let names = [self.topic.clone()];
        let create = self.allow_auto_topic_creation;
        let within = cluster.within();
        // A topic that this request creates is missing at first.
        let passing = |refusal: &Refusal| {
            let is_made = create && refusal.error == ErrorCode::UnknownTopicOrPartition;
            is_made || refusal.passes()
        };
        let found = while_it_passes(within, passing, || {
            let topics = cluster.look(Some(&names), create)?.topics;
            let topic = topics.into_iter().next().context("an empty answer")?;
            check(topic.error_code, None)?;
            Ok(topic.partitions.len())
        });
        let found = found.with_context(|| format!("topic {}", self.topic))?;
        Ok(i32::try_from(found)?)
    }

    /// Returns the properties of the producer.
    fn settings(&self, target: &ChosenTarget) -> Vec<(String, String)> {
        let acks = match self.acks {
            Acks::None => "0",
            Acks::Leader => "1",
            Acks::All => "all",
        };
        let compression = match self.compression {
            Compression::None => "none",
            Compression::Gzip => "gzip",
            Compression::Snappy => "snappy",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        };
        let within = target.within.as_millis().to_string();
        let request = target.within.min(REQUEST_WITHIN).as_millis().to_string();
        // With the acknowledgements of all replicas a producer is idempotent: it avoids duplicates
        // and reordering.
        let ours = [
            ("acks", acks.to_owned()),
            ("compression.type", compression.to_owned()),
            ("delivery.timeout.ms", within.clone()),
            ("max.block.ms", within),
            ("request.timeout.ms", request),
            (
                "allow.auto.create.topics",
                self.allow_auto_topic_creation.to_string(),
            ),
            // The broker refuses a record that is too large, with a message.
            ("max.request.size", "1000000000".to_owned()),
        ];
        let ours = ours.map(|(key, value)| (key.to_owned(), value)).into_iter();
        let theirs = self.properties.iter();
        ours.chain(theirs.map(|one| (one.key.clone(), one.value.clone())))
            .collect()
    }
}
