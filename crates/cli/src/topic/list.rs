//! `forebay topic list`: lists topics.
//!
//! Internal topics are left out unless the user asks for them.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use wire::messages::metadata_response::MetadataResponseTopic;

use crate::names::{Name, wanted};
use crate::show::Table;
use crate::target::ChosenTarget;

#[derive(Debug, Args)]
pub(super) struct List {
    /// Only these topics: names, or patterns: 'cars*', '/cars-[0-9]+/'.
    names: Vec<Name>,
    /// Also lists internal topics.
    #[arg(short, long)]
    internal: bool,
}

/// A topic as the list shows it.
#[derive(Serialize)]
struct ListedTopic {
    name: String,
    partitions: usize,
    replicas: usize,
    internal: bool,
}

impl List {
    fn lists(&self, topic: &MetadataResponseTopic) -> bool {
        let name = topic.name.as_ref().map_or("", |name| name.0.as_str());
        (self.internal || !topic.is_internal) && wanted(&self.names, name)
    }

    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        let topics = target.cluster()?.look(None, false)?.topics;
        let mut listed: Vec<_> = topics
            .iter()
            .filter(|topic| self.lists(topic))
            .map(|topic| ListedTopic {
                name: topic
                    .name
                    .as_ref()
                    .map_or("", |name| name.0.as_str())
                    .to_owned(),
                partitions: topic.partitions.len(),
                replicas: topic
                    .partitions
                    .iter()
                    .map(|one| one.replica_nodes.len())
                    .max()
                    .unwrap_or(0),
                internal: topic.is_internal,
            })
            .collect();
        listed.sort_by(|one, other| one.name.cmp(&other.name));
        target.format.show(&listed, || {
            let mut table = Table::headed(&["NAME", "PARTITIONS", "REPLICAS"]);
            for topic in &listed {
                table.row([
                    topic.name.clone(),
                    topic.partitions.to_string(),
                    topic.replicas.to_string(),
                ]);
            }
            table.render()
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
