//! `forebay topic add-partitions`: more partitions than there are.
//!
//! Records stay where they are: keys go to other partitions from then on. What a pattern selects
//! gets partitions only with `--execute`.

use std::process::ExitCode;

use clap::Args;
use wire::messages::metadata_response::MetadataResponseTopic;

use super::{grow, selected};
use crate::ask::{Cluster, check};
use crate::names::Name;
use crate::outcome::{self, Outcome};
use crate::progress::counted;
use crate::target::Chosen;

#[derive(Debug, Args)]
pub(super) struct AddPartitions {
    /// Names of the topics, or patterns: 'cars*', '/cars-[0-9]+/'.
    #[arg(required = true)]
    names: Vec<Name>,
    /// How many partitions each topic gets beside those it has.
    #[arg(short, long, value_name = "COUNT", value_parser = clap::value_parser!(i32).range(1..))]
    num: i32,
    /// Only shows what the command would do.
    #[arg(long, conflicts_with = "execute")]
    dry_run: bool,
    /// Adds partitions to what a pattern selects; without it the command only shows that.
    #[arg(long)]
    execute: bool,
}

impl AddPartitions {
    pub(super) fn run(&self, target: &Chosen) -> anyhow::Result<ExitCode> {
        let mut cluster = target.cluster()?;
        let selected = selected::some(&mut cluster, &self.names)?;
        if selected.by_pattern && !self.dry_run && !self.execute {
            let more = format!("given {} more partitions", self.num);
            return outcome::show_planned(target.format, "TOPIC", &selected.names, &more);
        }
        let topics = cluster.look(Some(&selected.names), false)?.topics;
        let outcomes = counted("topics", &topics).map(|topic| self.add(&mut cluster, topic));
        let outcomes = outcomes.collect::<anyhow::Result<Vec<_>>>()?;
        outcome::show(target.format, "TOPIC", &outcomes)
    }

    fn add(&self, cluster: &mut Cluster, topic: &MetadataResponseTopic) -> anyhow::Result<Outcome> {
        let name = topic.name.as_ref().map_or("", |name| name.0.as_str());
        if let Err(refusal) = check(topic.error_code, None) {
            return Ok(Outcome::of(name, Err(refusal), ""));
        }
        let before = i32::try_from(topic.partitions.len())?;
        // The broker refuses what is too many.
        let after = before.saturating_add(self.num);
        let added = grow::to(cluster, name, after, self.dry_run)?;
        let would = if self.dry_run { "would have " } else { "" };
        let done = format!("{would}{after} partitions, before {before}");
        Ok(Outcome::of(name, added, &done))
    }
}
