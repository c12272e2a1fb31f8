//! `forebay topic describe`: partitions, leaders, replicas, offsets and settings of topics.
//!
//! It changes nothing. Standard error names what is wrong with one topic; the other topics are
//! shown.

mod partition;

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use clap::Args;
use serde::Serialize;
use wire::messages::metadata_response::MetadataResponseTopic;

use super::selected;
use crate::ask::{Cluster, EARLIEST, Failure, LATEST, Offsets};
use crate::configs::{self, Resource, Setting, settings};
use crate::names::Name;
use crate::outcome;
use crate::progress::counted;
use crate::show::Table;
use crate::target::ChosenTarget;
use partition::Partition;

#[derive(Debug, Args)]
pub(super) struct Describe {
    /// Names of the topics, or patterns: 'cars*', '/cars-[0-9]+/'.
    #[arg(required = true)]
    names: Vec<Name>,
    /// Shows all settings, also those that have their default.
    #[arg(short, long)]
    all_settings: bool,
}

/// A topic as the command shows it.
#[derive(Serialize)]
struct DescribedTopic {
    name: String,
    id: String,
    internal: bool,
    partitions: Vec<Partition>,
    settings: Vec<Setting>,
}

impl Describe {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        let mut cluster = target.cluster()?;
        let names = selected::some(&mut cluster, &self.names)?.names;
        let topics = cluster.each_topic(&names)?.into_iter();
        let topics = topics.map(|(name, topic)| {
            let topic = topic.map_err(anyhow::Error::from);
            topic.with_context(|| format!("topic {name}"))
        });
        let (topics, missing) = outcome::found(topics);
        let starts = cluster.offsets(&topics, EARLIEST, 0);
        let ends = cluster.offsets(&topics, LATEST, 0);
        let described = counted("topics", &topics)
            .map(|topic| self.describe(&mut cluster, topic, &starts, &ends));
        let (described, failed) = outcome::found(described);
        target.format.show(&described, || {
            let texts: Vec<_> = described.iter().map(DescribedTopic::text).collect();
            texts.join("\n")
        })?;
        // A partition without a leader is described; offsets that others do not tell are a failure.
        let mut offsets = starts.values().chain(ends.values());
        let is_failed =
            |one: &Result<i64, Failure>| one.as_ref().is_err_and(|one| !one.is_excused());
        let failed = missing || failed || offsets.any(is_failed);
        Ok(outcome::exit_code(failed))
    }

    fn describe(
        &self,
        cluster: &mut Cluster,
        topic: &MetadataResponseTopic,
        starts: &Offsets,
        ends: &Offsets,
    ) -> anyhow::Result<DescribedTopic> {
        let name = topic.name.as_ref().map_or("", |name| name.0.as_str());
        let mut settings = settings(cluster.entrance()?, Resource::Topic, name, None)?;
        settings.retain(|setting| self.all_settings || setting.is_set());
        let mut partitions: Vec<_> = topic
            .partitions
            .iter()
            .map(|partition| Partition::of(name, partition, starts, ends))
            .collect();
        partitions.sort_by_key(|partition| partition.index);
        Ok(DescribedTopic {
            name: name.to_owned(),
            // Kafka writes ids in this encoding.
            id: BASE64_URL_SAFE_NO_PAD.encode(topic.topic_id),
            internal: topic.is_internal,
            partitions,
            settings,
        })
    }
}

impl DescribedTopic {
    fn text(&self) -> String {
        let mut head = Table::plain();
        let mut fact = |name: &str, value: String| head.row([name.to_owned(), value]);
        fact("NAME", self.name.clone());
        fact("ID", self.id.clone());
        fact("INTERNAL", self.internal.to_string());
        fact("PARTITIONS", self.partitions.len().to_string());
        let mut table = Table::headed(&partition::HEAD);
        for one in &self.partitions {
            table.row(one.cells());
        }
        let mut text = format!("{}\n{}", head.render(), table.render());
        if !self.settings.is_empty() {
            let _ = write!(text, "\n{}", configs::table(&self.settings));
        }
        text
    }
}
