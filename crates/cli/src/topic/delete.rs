//! `forebay topic delete`: deletes topics, with all records in them.
//!
//! It reports the outcome of each topic. What a pattern selects is deleted only with `--execute`.

use std::process::ExitCode;

use clap::Args;
use wire::messages::delete_topics_request::DeleteTopicState;
use wire::messages::{DeleteTopicsRequest, TopicName};
use wire::types::ErrorCode;

use super::selected;
use crate::ask::{check, text};
use crate::names::Name;
use crate::outcome::{self, Outcome};
use crate::target::Chosen;

#[derive(Debug, Args)]
pub(super) struct Delete {
    /// Names of the topics, or patterns: 'cars*', '/cars-[0-9]+/'.
    #[arg(required = true)]
    names: Vec<Name>,
    /// Accepts a topic that does not exist.
    #[arg(long)]
    if_exists: bool,
    /// Deletes what a pattern selects; without it the command only shows that.
    #[arg(long)]
    execute: bool,
}

impl Delete {
    pub(super) fn run(&self, target: &Chosen) -> anyhow::Result<ExitCode> {
        let mut cluster = target.cluster()?;
        let selected = if self.if_exists {
            selected::any(&mut cluster, &self.names)?
        } else {
            selected::some(&mut cluster, &self.names)?
        };
        if selected.by_pattern && !self.execute {
            return outcome::show_planned(target.format, "TOPIC", &selected.names, "deleted");
        }
        let request = DeleteTopicsRequest::default().with_timeout_ms(cluster.within_ms());
        let controller = cluster.controller()?;
        let version = controller.version::<DeleteTopicsRequest>()?;
        let names = selected.names.iter().map(|name| TopicName(text(name)));
        let request = if version >= 6 {
            let states = names.map(|name| DeleteTopicState::default().with_name(Some(name)));
            request.with_topics(states.collect())
        } else {
            request.with_topic_names(names.collect())
        };
        let answer = controller.ask(version, &request)?;
        let outcomes = answer.responses.iter().map(|gone| {
            let name = gone.name.as_ref().map_or("", |name| name.0.as_str());
            match check(gone.error_code, gone.error_message.as_ref()) {
                Err(refusal)
                    if self.if_exists && refusal.error == ErrorCode::UnknownTopicOrPartition =>
                {
                    Outcome::of(name, Ok(()), "not there")
                }
                result => Outcome::of(name, result, "deleted"),
            }
        });
        outcome::show(target.format, "TOPIC", &outcomes.collect::<Vec<_>>())
    }
}
