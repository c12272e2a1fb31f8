//! `forebay topic alter`: changes settings, and adds partitions.
//!
//! Partitions cannot be removed.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use wire::messages::create_partitions_request::CreatePartitionsTopic;
use wire::messages::{CreatePartitionsRequest, TopicName};

use crate::ask::{Cluster, Refusal, check, text};
use crate::configs::{Changes, Resource};
use crate::outcome::{self, Outcome};
use crate::target::Chosen;

#[derive(Debug, Args)]
pub(super) struct Alter {
    /// Names of the topics.
    #[arg(required = true)]
    names: Vec<String>,
    #[command(flatten)]
    changes: Changes,
    /// New number of partitions; it can only grow.
    #[arg(short, long, value_parser = clap::value_parser!(i32).range(1..))]
    partitions: Option<i32>,
    /// Only shows what the command would do.
    #[arg(long)]
    dry_run: bool,
}

impl Alter {
    pub(super) fn run(&self, target: &Chosen) -> anyhow::Result<ExitCode> {
        if self.changes.is_empty() && self.partitions.is_none() {
            bail!(
                "nothing to change: --set, --unset, --append, --subtract or --partitions say what"
            );
        }
        let mut cluster = target.cluster()?;
        let done = if self.dry_run {
            "would be changed"
        } else {
            "changed"
        };
        let mut outcomes = Vec::new();
        for name in &self.names {
            let result = self.alter(&mut cluster, name)?;
            outcomes.push(Outcome::of(name, result, done));
        }
        outcome::show(target.format, "TOPIC", &outcomes)
    }

    fn alter(&self, cluster: &mut Cluster, name: &str) -> anyhow::Result<Result<(), Refusal>> {
        if !self.changes.is_empty() {
            let controller = cluster.controller()?;
            let changed = self
                .changes
                .make(controller, Resource::Topic, name, self.dry_run)?;
            if changed.is_err() {
                return Ok(changed);
            }
        }
        match self.partitions {
            Some(count) => self.grow(cluster, name, count),
            None => Ok(Ok(())),
        }
    }

    fn grow(
        &self,
        cluster: &mut Cluster,
        name: &str,
        count: i32,
    ) -> anyhow::Result<Result<(), Refusal>> {
        let topic = CreatePartitionsTopic::default()
            .with_name(TopicName(text(name)))
            .with_count(count)
            .with_assignments(None);
        let request = CreatePartitionsRequest::default()
            .with_topics(vec![topic])
            .with_timeout_ms(cluster.within_ms())
            .with_validate_only(self.dry_run);
        let results = cluster.controller()?.ask_newest(&request)?.results;
        let result = results.first().context("an empty answer")?;
        Ok(check(result.error_code, result.error_message.as_ref()))
    }
}
