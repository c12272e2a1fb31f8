//! `forebay topic create`: creates topics, and reports the outcome of each.
//!
//! The controller decides; `--dry-run` only asks it. A topic that its answer leaves out has failed.

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::Args;
use wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use wire::messages::{CreateTopicsRequest, CreateTopicsResponse, TopicName};
use wire::types::ErrorCode;

use crate::ask::{Failure, check, text};
use crate::outcome::{self, CommandOutcome};
use crate::property::Property;
use crate::target::ChosenTarget;

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
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        let configs = self.set.iter().map(|property| {
            CreatableTopicConfig::default()
                .with_name(text(&property.key))
                .with_value(Some(text(&property.value)))
        });
        let configs: Vec<_> = configs.collect();
        let mut seen = BTreeSet::new();
        let names = self.names.iter().filter(|name| seen.insert(*name));
        let names: Vec<_> = names.collect();
        let topics = names.iter().map(|name| {
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
        let outcomes = names.iter().map(|name| match answered(&answer, name) {
            Err(Failure::Refused(refusal))
                if self.if_not_exists && refusal.error == ErrorCode::TopicAlreadyExists =>
            {
                CommandOutcome::of(name, Ok::<(), Failure>(()), "there already")
            }
            result => CommandOutcome::tried(name, result, "created", self.dry_run),
        });
        outcome::show(target.format, "TOPIC", &outcomes.collect::<Vec<_>>())
    }
}

/// Returns what the controller answered for a topic.
fn answered(answer: &CreateTopicsResponse, name: &str) -> Result<(), Failure> {
    let mut all = answer.topics.iter();
    let made = all.find(|made| made.name.0.as_str() == name);
    let made = made.ok_or(Failure::LeftOut)?;
    Ok(check(made.error_code, made.error_message.as_ref())?)
}

#[cfg(test)]
mod tests {
    use wire::messages::create_topics_response::CreatableTopicResult;

    use super::*;

    #[test]
    fn a_topic_that_the_controller_does_not_name_has_failed() {
        let made = |name: &str, error: i16| {
            CreatableTopicResult::default()
                .with_name(TopicName(text(name)))
                .with_error_code(error)
                .with_error_message(None)
        };
        let topics = vec![made("trucks", 36), made("cars", 0)];
        let answer = CreateTopicsResponse::default().with_topics(topics);
        assert_eq!(answered(&answer, "cars"), Ok(()));
        let there = Err(ErrorCode::TopicAlreadyExists.into());
        assert_eq!(answered(&answer, "trucks"), there);
        assert_eq!(answered(&answer, "bikes"), Err(Failure::LeftOut));
    }
}
