//! `forebay topic trim`: deletes the records before a position (`DeleteRecords`).
//!
//! Invariant: nothing is deleted without `--execute`, and nothing from the position on.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use serde::Serialize;
use wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use wire::messages::metadata_response::MetadataResponseTopic;
use wire::messages::{DeleteRecordsRequest, TopicName};

use super::selected;
use crate::ask::{Cluster, Place, Refusal, check, text};
use crate::names::Name;
use crate::outcome;
use crate::position::{Position, bounds};
use crate::show::Table;
use crate::target::Chosen;

#[derive(Debug, Args)]
pub(super) struct Trim {
    /// Names of the topics, or patterns: 'cars*', '/cars-[0-9]+/'.
    #[arg(required = true)]
    names: Vec<Name>,
    /// The new start; the records before it are deleted: OFFSET, -COUNT (so many before the end),
    /// @TIME (milliseconds since 1970 or a date), end (all records).
    #[arg(short, long, allow_hyphen_values = true)]
    offset: Position,
    /// Only these partitions.
    #[arg(short, long, value_delimiter = ',')]
    partitions: Vec<i32>,
    /// Deletes the records; without it the command shows what it would do.
    #[arg(long)]
    execute: bool,
}

/// A partition and what becomes of its start.
#[derive(Debug, Serialize)]
struct Trimmed {
    topic: String,
    partition: i32,
    from: i64,
    to: i64,
    end: i64,
    executed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// The new start of a partition, or why it was refused.
type Started = BTreeMap<Place, Result<i64, Refusal>>;

impl Trim {
    pub(super) fn run(&self, target: &Chosen) -> anyhow::Result<ExitCode> {
        let mut cluster = target.cluster()?;
        let names = selected::some(&mut cluster, &self.names)?.names;
        let mut topics = cluster.topics(&names)?;
        for topic in &mut topics {
            self.keep_partitions(topic)?;
        }
        let bounds = bounds(&mut cluster, &topics, 0)?;
        let wanted = self.offset.find(&mut cluster, &topics, &bounds)?;
        let started = if self.execute {
            let starts = |place: &Place| bounds.get(place).map(|bounds| bounds.start);
            let moved = wanted
                .iter()
                .filter(|(place, to)| starts(place) < Some(**to));
            let moved = moved.map(|(place, &to)| (place.clone(), to)).collect();
            delete(&mut cluster, &topics, &moved)?
        } else {
            Started::new()
        };
        let trimmed = wanted.into_iter().filter_map(|(place, to)| {
            let bounds = bounds.get(&place)?;
            let answer = started.get(&place);
            Some(Trimmed {
                from: bounds.start,
                to: answer.map_or(to, |answer| *answer.as_ref().unwrap_or(&bounds.start)),
                end: bounds.end,
                executed: answer.is_some_and(Result::is_ok),
                error: answer.and_then(|answer| Some(answer.as_ref().err()?.to_string())),
                topic: place.0,
                partition: place.1,
            })
        });
        let trimmed: Vec<_> = trimmed.collect();
        target.format.show(&trimmed, || table(&trimmed))?;
        if !self.execute {
            outcome::say_planned();
        }
        let failed = trimmed.iter().any(|one| one.error.is_some());
        Ok(if failed {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    }

    /// Leaves the partitions of the command line in the topic's metadata.
    fn keep_partitions(&self, topic: &mut MetadataResponseTopic) -> anyhow::Result<()> {
        if self.partitions.is_empty() {
            return Ok(());
        }
        let name = topic.name.as_ref().map_or("", |name| name.0.as_str());
        for wanted in &self.partitions {
            let mut there = topic.partitions.iter();
            if !there.any(|one| one.partition_index == *wanted) {
                bail!("topic {name} has no partition {wanted}");
            }
        }
        let is_wanted = |index: i32| self.partitions.contains(&index);
        let partitions = &mut topic.partitions;
        partitions.retain(|one| is_wanted(one.partition_index));
        Ok(())
    }
}

/// Asks the leader of each partition to delete what is before the offset.
fn delete(
    cluster: &mut Cluster,
    topics: &[MetadataResponseTopic],
    wanted: &BTreeMap<Place, i64>,
) -> anyhow::Result<Started> {
    let mut by_leader: BTreeMap<i32, BTreeMap<&str, Vec<DeleteRecordsPartition>>> = BTreeMap::new();
    for topic in topics {
        let name = topic.name.as_ref().map_or("", |name| name.0.as_str());
        for partition in &topic.partitions {
            let index = partition.partition_index;
            if let Some(&offset) = wanted.get(&(name.to_owned(), index)) {
                let start = DeleteRecordsPartition::default()
                    .with_partition_index(index)
                    .with_offset(offset);
                let of_leader = by_leader.entry(partition.leader_id.0).or_default();
                of_leader.entry(name).or_default().push(start);
            }
        }
    }
    let mut started = Started::new();
    for (leader, topics) in by_leader {
        let topics = topics.into_iter().map(|(name, partitions)| {
            DeleteRecordsTopic::default()
                .with_name(TopicName(text(name)))
                .with_partitions(partitions)
        });
        let request = DeleteRecordsRequest::default()
            .with_topics(topics.collect())
            .with_timeout_ms(cluster.within_ms());
        let answer = cluster.broker(leader)?.ask_newest(&request);
        // What other leaders have deleted stays deleted: the error says whose answer is missing.
        let answer = answer.with_context(|| format!("deleting at broker {leader}"))?;
        for topic in answer.topics {
            for one in topic.partitions {
                let place = (topic.name.0.to_string(), one.partition_index);
                let start = check(one.error_code, None).map(|()| one.low_watermark);
                started.insert(place, start);
            }
        }
    }
    Ok(started)
}

fn table(trimmed: &[Trimmed]) -> String {
    let mut table = Table::headed(&["TOPIC", "PARTITION", "START", "NEW-START", "END", "STATUS"]);
    for one in trimmed {
        table.row([
            one.topic.clone(),
            one.partition.to_string(),
            one.from.to_string(),
            one.to.to_string(),
            one.end.to_string(),
            one.status(),
        ]);
    }
    table.render()
}

impl Trimmed {
    fn status(&self) -> String {
        let count = self.to.saturating_sub(self.from);
        match &self.error {
            Some(error) => error.clone(),
            None if self.executed => format!("{count} offsets deleted"),
            None if count <= 0 => "nothing to delete".to_owned(),
            None => format!("{count} offsets would be deleted"),
        }
    }
}
