//! `forebay topic delete`: deletes topics, with all records in them.
//!
//! It reports the outcome of each topic. What a pattern selects is deleted only with `--execute`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::Args;
use wire::messages::delete_topics_request::DeleteTopicState;
use wire::messages::{DeleteTopicsRequest, DeleteTopicsResponse, TopicName};
use wire::types::ErrorCode;

use super::selected;
use crate::ask::{Failure, check, text};
use crate::confirm::ConfirmedNames;
use crate::outcome::{self, CommandOutcome};
use crate::target::ChosenTarget;

#[derive(Debug, Args)]
pub(super) struct Delete {
    #[command(flatten)]
    named: ConfirmedNames,
    /// Accepts a topic that does not exist.
    #[arg(long)]
    if_exists: bool,
}

impl Delete {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        let mut cluster = target.cluster()?;
        let selected = if self.if_exists {
            selected::any(&mut cluster, &self.named.names)?
        } else {
            selected::some(&mut cluster, &self.named.names)?
        };
        if !self.named.confirmed(&selected) {
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
        let mut answers = answered(answer);
        let outcomes = selected.names.iter().map(|name| {
            let result = answers.remove(name);
            self.outcome(name, result.unwrap_or(Err(Failure::LeftOut)))
        });
        outcome::show(target.format, "TOPIC", &outcomes.collect::<Vec<_>>())
    }

    fn outcome(&self, name: &str, result: Result<(), Failure>) -> CommandOutcome {
        match result {
            Err(Failure::Refused(refusal))
                if self.if_exists && refusal.error == ErrorCode::UnknownTopicOrPartition =>
            {
                CommandOutcome::of(name, Ok::<(), Failure>(()), "not there")
            }
            result => CommandOutcome::of(name, result, "deleted"),
        }
    }
}

/// Returns what the controller answered for each topic that it names.
fn answered(answer: DeleteTopicsResponse) -> BTreeMap<String, Result<(), Failure>> {
    let answers = answer.responses.into_iter().filter_map(|gone| {
        let result = check(gone.error_code, gone.error_message.as_ref());
        Some((gone.name?.0.to_string(), result.map_err(Failure::from)))
    });
    answers.collect()
}

#[cfg(test)]
mod tests {
    use wire::messages::delete_topics_response::DeletableTopicResult;

    use super::*;

    #[test]
    fn only_a_topic_that_the_controller_names_was_answered() {
        let gone = |name: &str, error: i16| {
            DeletableTopicResult::default()
                .with_name(Some(TopicName(text(name))))
                .with_error_code(error)
        };
        let responses = vec![gone("cars", 0), gone("trucks", 3)];
        let mut answers = answered(DeleteTopicsResponse::default().with_responses(responses));
        assert_eq!(answers.remove("cars"), Some(Ok(())));
        let unknown = Err(ErrorCode::UnknownTopicOrPartition.into());
        assert_eq!(answers.remove("trucks"), Some(unknown));
        assert_eq!(answers.remove("bikes"), None);
    }
}
