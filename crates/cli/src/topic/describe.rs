//! `forebay topic describe`: partitions, leaders, replicas, offsets and settings of topics.
//!
//! It changes nothing. What is wrong with one topic is told on standard error, the others are
//! shown.

mod partition;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use clap::Args;
use serde::Serialize;
use wire::messages::metadata_response::MetadataResponseTopic;

use super::selected;
use crate::ask::{Cluster, EARLIEST, Failure, LATEST, Offsets, check};
use crate::configs::{self, Resource, Setting, settings};
use crate::names::Name;
use crate::outcome;
use crate::progress::counted;
use crate::show::Table;
use crate::target::Chosen;
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

#[derive(Serialize)]
struct Described {
    name: String,
    id: String,
    internal: bool,
    partitions: Vec<Partition>,
    settings: Vec<Setting>,
}

impl Describe {
    pub(super) fn run(&self, target: &Chosen) -> anyhow::Result<ExitCode> {
        let mut cluster = target.cluster()?;
        let mut names = selected::some(&mut cluster, &self.names)?.names;
        names.sort();
        let topics = cluster.look(Some(&names), false)?.topics;
        let (topics, missing) = outcome::found(each(topics, &names));
        let starts = cluster.offsets(&topics, EARLIEST, 0);
        let ends = cluster.offsets(&topics, LATEST, 0);
        let described = counted("topics", &topics)
            .map(|topic| self.describe(&mut cluster, topic, &starts, &ends));
        let (described, failed) = outcome::found(described);
        target.format.show(&described, || {
            let texts: Vec<_> = described.iter().map(Described::text).collect();
            texts.join("\n")
        })?;
        // A partition without a leader is described; a broker that is silent leaves offsets out.
        let mut offsets = starts.values().chain(ends.values());
        let is_silent = |one: &Result<i64, Failure>| one.as_ref().is_err_and(Failure::is_silence);
        let failed = missing || failed || offsets.any(is_silent);
        Ok(outcome::exit_code(failed))
    }

    fn describe(
        &self,
        cluster: &mut Cluster,
        topic: &MetadataResponseTopic,
        starts: &Offsets,
        ends: &Offsets,
    ) -> anyhow::Result<Described> {
        let name = topic.name.as_ref().map_or("", |name| name.0.as_str());
        let mut settings = settings(cluster.entrance(), Resource::Topic, name, None)?;
        settings.retain(|setting| self.all_settings || setting.is_set());
        let mut partitions: Vec<_> = topic
            .partitions
            .iter()
            .map(|partition| Partition::of(name, partition, starts, ends))
            .collect();
        partitions.sort_by_key(|partition| partition.index);
        Ok(Described {
            name: name.to_owned(),
            // Kafka writes ids in this encoding.
            id: BASE64_URL_SAFE_NO_PAD.encode(topic.topic_id),
            internal: topic.is_internal,
            partitions,
            settings,
        })
    }
}

/// Returns the metadata of each topic, or why there is none.
fn each(
    topics: Vec<MetadataResponseTopic>,
    names: &[String],
) -> impl Iterator<Item = anyhow::Result<MetadataResponseTopic>> {
    let named = |topic: MetadataResponseTopic| Some((topic.name.as_ref()?.0.to_string(), topic));
    let mut topics: BTreeMap<_, _> = topics.into_iter().filter_map(named).collect();
    names.iter().map(move |name| {
        let topic = topics.remove(name).ok_or(Failure::LeftOut);
        let topic = topic.and_then(|topic| {
            check(topic.error_code, None)?;
            Ok(topic)
        });
        let topic = topic.map_err(anyhow::Error::from);
        topic.with_context(|| format!("topic {name}"))
    })
}

impl Described {
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

#[cfg(test)]
mod tests {
    use wire::messages::TopicName;

    use super::*;
    use crate::ask::text;

    #[test]
    fn a_topic_that_is_missing_or_left_out_hides_no_other() {
        let topic = |name: &str, error: i16| {
            MetadataResponseTopic::default()
                .with_name(Some(TopicName(text(name))))
                .with_error_code(error)
        };
        let topics = vec![topic("not-asked", 0), topic("cars", 3), topic("trucks", 0)];
        let names = ["cars", "bikes", "trucks"].map(str::to_owned);
        let each = each(topics, &names).map(|topic| match topic {
            Ok(topic) => topic.name.unwrap().0.to_string(),
            Err(error) => format!("{error:#}"),
        });
        let expected = [
            "topic cars: UNKNOWN_TOPIC_OR_PARTITION",
            "topic bikes: the broker did not answer for it",
            "trucks",
        ];
        assert_eq!(each.collect::<Vec<_>>(), expected);
    }
}
