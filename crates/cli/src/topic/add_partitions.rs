//! `forebay topic add-partitions`: more partitions than there are.
//!
//! Records stay where they are: keys go to other partitions from then on. What a pattern selects
//! gets partitions only with `--execute`.

use std::process::ExitCode;

use clap::Args;
use wire::messages::metadata_response::MetadataResponseTopic;

use super::{grow, selected};
use crate::ask::{Cluster, Failure};
use crate::confirm::ConfirmedNames;
use crate::outcome::{self, CommandOutcome};
use crate::progress::counted;
use crate::target::ChosenTarget;

#[derive(Debug, Args)]
pub(super) struct AddPartitions {
    #[command(flatten)]
    named: ConfirmedNames,
    /// How many partitions each topic gets beside those it has.
    #[arg(short, long, value_name = "COUNT", value_parser = clap::value_parser!(i32).range(1..))]
    num: i32,
    /// Only shows what the command would do.
    #[arg(long, conflicts_with = "execute")]
    dry_run: bool,
}

impl AddPartitions {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        let mut cluster = target.cluster()?;
        let selected = selected::some(&mut cluster, &self.named.names)?;
        if !self.dry_run && !self.named.confirmed(&selected) {
            let more = format!("given {} more partitions", self.num);
            return outcome::show_planned(target.format, "TOPIC", &selected.names, &more);
        }
        let outcomes = self.outcomes(&mut cluster, &selected.names)?;
        outcome::show(target.format, "TOPIC", &outcomes)
    }

    fn outcomes(
        &self,
        cluster: &mut Cluster,
        names: &[String],
    ) -> anyhow::Result<Vec<CommandOutcome>> {
        let mut topics = cluster.each_topic(names)?;
        let outcomes = counted("topics", names).map(|name| {
            let topic = topics.remove(name).unwrap_or(Err(Failure::LeftOut));
            match topic.and_then(|topic| self.add(cluster, name, &topic)) {
                Ok(done) if self.dry_run => CommandOutcome::would(name, &done),
                Ok(done) => CommandOutcome::of(name, Ok::<(), Failure>(()), &done),
                Err(failure) => CommandOutcome::of(name, Err(failure), ""),
            }
        });
        Ok(outcomes.collect())
    }

    /// Adds the partitions; returns what to tell about it.
    fn add(
        &self,
        cluster: &mut Cluster,
        name: &str,
        topic: &MetadataResponseTopic,
    ) -> Result<String, Failure> {
        let before = topic.partitions.len();
        // The broker refuses what is too many.
        let after = i32::try_from(before).unwrap_or(i32::MAX);
        let after = after.saturating_add(self.num);
        grow::to(cluster, name, after, self.dry_run)?;
        let would = if self.dry_run { "would have " } else { "" };
        Ok(format!("{would}{after} partitions, before {before}"))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;
    use wire::messages::create_partitions_response::CreatePartitionsTopicResult;
    use wire::messages::metadata_response::MetadataResponsePartition;
    use wire::messages::{CreatePartitionsRequest, CreatePartitionsResponse, TopicName};

    use super::*;
    use crate::ask::{AskedRequest, Peer, text};

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        add: AddPartitions,
    }

    fn answer(asked: &AskedRequest) -> Option<bytes::Bytes> {
        let topics = ["trucks", "cars"].map(|name| {
            MetadataResponseTopic::default()
                .with_name(Some(TopicName(text(name))))
                .with_partitions(vec![MetadataResponsePartition::default()])
        });
        let grown = |request: CreatePartitionsRequest| {
            let results = request.topics.into_iter().map(|topic| {
                assert_eq!((topic.name.0.as_str(), topic.count), ("cars", 3));
                CreatePartitionsTopicResult::default().with_name(topic.name)
            });
            CreatePartitionsResponse::default().with_results(results.collect())
        };
        asked.metadata(topics.to_vec()).or_else(|| asked.to(grown))
    }

    #[test]
    fn only_topics_that_were_asked_for_grow_and_one_that_is_left_out_has_failed() {
        let line = ["command", "cars", "bikes", "-n", "2"];
        let add = Command::try_parse_from(line).unwrap().add;
        let names = ["cars", "bikes"].map(str::to_owned);
        let mut cluster = Peer::start(answer).cluster();
        let outcomes = add.outcomes(&mut cluster, &names).unwrap();
        let left_out = "the broker did not answer for it";
        let expected = json!([
            {"name": "cars", "done": true},
            {"name": "bikes", "done": false, "error": left_out},
        ]);
        assert_eq!(serde_json::to_value(outcomes).unwrap(), expected);
    }
}
