//! `forebay topic describe`: partitions, leaders, replicas, offsets and settings of topics.
//!
//! It changes nothing.

use std::fmt::Write as _;
use std::process::ExitCode;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use clap::Args;
use serde::Serialize;
use wire::messages::metadata_response::{MetadataResponsePartition, MetadataResponseTopic};

use super::selected;
use crate::ask::{Cluster, EARLIEST, Failure, LATEST, Offsets};
use crate::configs::{self, Resource, Setting, settings};
use crate::names::Name;
use crate::progress::counted;
use crate::show::{Table, list, or_dash};
use crate::target::Chosen;

#[derive(Debug, Args)]
pub(super) struct Describe {
    /// Names of the topics, or patterns: 'cars*', '/cars-[0-9]+/'.
    #[arg(required = true)]
    names: Vec<Name>,
    /// Shows all settings, also those that have their default.
    #[arg(short, long)]
    all_settings: bool,
}

#[derive(Serialize)]
struct Described {
    name: String,
    id: String,
    internal: bool,
    partitions: Vec<Partition>,
    settings: Vec<Setting>,
}

#[derive(Serialize)]
struct Partition {
    #[serde(rename = "partition")]
    index: i32,
    leader: Option<i32>,
    leader_epoch: i32,
    replicas: Vec<i32>,
    isr: Vec<i32>,
    offline: Vec<i32>,
    start_offset: Option<i64>,
    end_offset: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Describe {
    pub(super) fn run(&self, target: &Chosen) -> anyhow::Result<ExitCode> {
        let mut cluster = target.cluster()?;
        let names = selected::some(&mut cluster, &self.names)?.names;
        let topics = cluster.topics(&names)?;
        let starts = cluster.offsets(&topics, EARLIEST, 0);
        let ends = cluster.offsets(&topics, LATEST, 0);
        let described = counted("topics", &topics)
            .map(|topic| self.describe(&mut cluster, topic, &starts, &ends))
            .collect::<anyhow::Result<Vec<_>>>()?;
        target.format.show(&described, || {
            let texts: Vec<_> = described.iter().map(Described::text).collect();
            texts.join("\n")
        })?;
        // A partition without a leader is described; offsets that others do not tell are a failure.
        let mut offsets = starts.values().chain(ends.values());
        let is_failed =
            |one: &Result<i64, Failure>| one.as_ref().is_err_and(|one| !one.is_excused());
        Ok(if offsets.any(is_failed) {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    }

    fn describe(
        &self,
        cluster: &mut Cluster,
        topic: &MetadataResponseTopic,
        starts: &Offsets,
        ends: &Offsets,
    ) -> anyhow::Result<Described> {
        let name = topic.name.as_ref().map_or("", |name| name.0.as_str());
        let mut settings = settings(cluster.entrance()?, Resource::Topic, name, None)?;
        settings.retain(|setting| self.all_settings || setting.is_set());
        let mut partitions: Vec<_> = topic
            .partitions
            .iter()
            .map(|partition| Partition::of(name, partition, starts, ends))
            .collect();
        partitions.sort_by_key(|partition| partition.index);
        Ok(Described {
            name: name.to_owned(),
            // Kafka writes ids in this encoding.
            id: BASE64_URL_SAFE_NO_PAD.encode(topic.topic_id),
            internal: topic.is_internal,
            partitions,
            settings,
        })
    }
}

impl Partition {
    fn of(
        topic: &str,
        partition: &MetadataResponsePartition,
        starts: &Offsets,
        ends: &Offsets,
    ) -> Self {
        let place = (topic.to_owned(), partition.partition_index);
        let found = |offsets: &Offsets| offsets.get(&place)?.as_ref().ok().copied();
        let refused =
            |offsets: &Offsets| offsets.get(&place)?.as_ref().err().map(ToString::to_string);
        let ids = |nodes: &[wire::messages::BrokerId]| nodes.iter().map(|node| node.0).collect();
        Self {
            index: partition.partition_index,
            leader: (partition.leader_id.0 >= 0).then_some(partition.leader_id.0),
            leader_epoch: partition.leader_epoch,
            replicas: ids(&partition.replica_nodes),
            isr: ids(&partition.isr_nodes),
            offline: ids(&partition.offline_replicas),
            start_offset: found(starts),
            end_offset: found(ends),
            error: refused(ends),
        }
    }
}

impl Described {
    fn text(&self) -> String {
        let mut head = Table::plain();
        let mut fact = |name: &str, value: String| head.row([name.to_owned(), value]);
        fact("NAME", self.name.clone());
        fact("ID", self.id.clone());
        fact("INTERNAL", self.internal.to_string());
        fact("PARTITIONS", self.partitions.len().to_string());
        let mut table = Table::headed(&[
            "PARTITION",
            "LEADER",
            "EPOCH",
            "REPLICAS",
            "ISR",
            "OFFLINE",
            "START",
            "END",
        ]);
        for one in &self.partitions {
            let end = match &one.error {
                Some(error) => error.clone(),
                None => or_dash(one.end_offset),
            };
            table.row([
                one.index.to_string(),
                or_dash(one.leader),
                one.leader_epoch.to_string(),
                list(&one.replicas),
                list(&one.isr),
                list(&one.offline),
                or_dash(one.start_offset),
                end,
            ]);
        }
        let mut text = format!("{}\n{}", head.render(), table.render());
        if !self.settings.is_empty() {
            let _ = write!(text, "\n{}", configs::table(&self.settings));
        }
        text
    }
}
