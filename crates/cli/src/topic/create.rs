//! `forebay topic create`: creates topics, and reports the outcome of each.
//!
//! The controller decides; `--dry-run` only asks it.

use std::process::ExitCode;

use clap::Args;
use wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use wire::messages::{CreateTopicsRequest, TopicName};
use wire::types::ErrorCode;

use crate::ask::{Refusal, check, text};
use crate::outcome::{self, Outcome};
use crate::property::Property;
use crate::target::Chosen;

#[derive(Debug, Args)]
pub(super) struct Create {
    /// Names of the topics.
    #[arg(required = true)]
    names: Vec<String>,
    /// Number of partitions; the default is the cluster's.
    #[arg(short, long, value_parser = clap::value_parser!(i32).range(1..))]
    partitions: Option<i32>,
    /// Number of replicas of each partition; the default is the cluster's.
    #[arg(short, long, value_parser = clap::value_parser!(i16).range(1..))]
    replicas: Option<i16>,
    /// A setting; can be given many times.
    #[arg(
        short = 's',
        long,
        visible_alias = "topic-config",
        value_name = "KEY=VALUE"
    )]
    set: Vec<Property>,
    /// Accepts a topic that already exists.
    #[arg(long)]
    if_not_exists: bool,
    /// Only shows what the command would do.
    #[arg(long)]
    dry_run: bool,
}

impl Create {
    pub(super) fn run(&self, target: &Chosen) -> anyhow::Result<ExitCode> {
        let configs = self.set.iter().map(|property| {
            CreatableTopicConfig::default()
                .with_name(text(&property.key))
                .with_value(Some(text(&property.value)))
        });
        let configs: Vec<_> = configs.collect();
        let topics = self.names.iter().map(|name| {
            CreatableTopic::default()
                .with_name(TopicName(text(name)))
                .with_num_partitions(self.partitions.unwrap_or(-1))
                .with_replication_factor(self.replicas.unwrap_or(-1))
                .with_configs(configs.clone())
        });
        let mut cluster = target.cluster()?;
        let request = CreateTopicsRequest::default()
            .with_topics(topics.collect())
            .with_timeout_ms(cluster.within_ms())
            .with_validate_only(self.dry_run);
        let answer = cluster.controller()?.ask_newest(&request)?;
        let outcomes = answer.topics.iter().map(|made| {
            let result = check(made.error_code, made.error_message.as_ref());
            let name = made.name.0.as_str();
            match result {
                Err(refusal)
                    if self.if_not_exists && refusal.error == ErrorCode::TopicAlreadyExists =>
                {
                    Outcome::of(name, Ok::<(), Refusal>(()), "there already")
                }
                _ if self.dry_run => Outcome::of(name, result, "would be created"),
                _ => Outcome::of(name, result, "created"),
            }
        });
        outcome::show(target.format, "TOPIC", &outcomes.collect::<Vec<_>>())
    }
}
