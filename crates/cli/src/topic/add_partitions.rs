//! `forebay topic add-partitions`: more partitions than there are.
//!
//! Records stay where they are: keys go to other partitions from then on. What a pattern selects
//! gets partitions only with `--execute`.

use std::process::ExitCode;

use clap::Args;
use wire::messages::metadata_response::MetadataResponseTopic;

use super::{grow, selected};
use crate::ask::{Cluster, Failure, check};
use crate::confirm::Named;
use crate::outcome::{self, Outcome};
use crate::progress::counted;
use crate::target::Chosen;

#[derive(Debug, Args)]
pub(super) struct AddPartitions {
    #[command(flatten)]
    named: Named,
    /// How many partitions each topic gets beside those it has.
    #[arg(short, long, value_name = "COUNT", value_parser = clap::value_parser!(i32).range(1..))]
    num: i32,
    /// Only shows what the command would do.
    #[arg(long, conflicts_with = "execute")]
    dry_run: bool,
}

impl AddPartitions {
    pub(super) fn run(&self, target: &Chosen) -> anyhow::Result<ExitCode> {
        let mut cluster = target.cluster()?;
        let selected = selected::some(&mut cluster, &self.named.names)?;
        if !self.dry_run && !self.named.confirmed(&selected) {
            let more = format!("given {} more partitions", self.num);
            return outcome::show_planned(target.format, "TOPIC", &selected.names, &more);
        }
        let topics = cluster.look(Some(&selected.names), false)?.topics;
        let outcomes = counted("topics", &topics).map(|topic| {
            let name = topic.name.as_ref().map_or("", |name| name.0.as_str());
            match self.add(&mut cluster, name, topic) {
                Ok(done) if self.dry_run => Outcome::would(name, &done),
                Ok(done) => Outcome::of(name, Ok::<(), Failure>(()), &done),
                Err(failure) => Outcome::of(name, Err(failure), ""),
            }
        });
        outcome::show(target.format, "TOPIC", &outcomes.collect::<Vec<_>>())
    }

    /// Adds the partitions; returns what to tell about it.
    fn add(
        &self,
        cluster: &mut Cluster,
        name: &str,
        topic: &MetadataResponseTopic,
    ) -> Result<String, Failure> {
        check(topic.error_code, None)?;
        let before = topic.partitions.len();
        // The broker refuses what is too many.
        let after = i32::try_from(before).unwrap_or(i32::MAX);
        let after = after.saturating_add(self.num);
        grow::to(cluster, name, after, self.dry_run)?;
        let would = if self.dry_run { "would have " } else { "" };
        Ok(format!("{would}{after} partitions, before {before}"))
    }
}
