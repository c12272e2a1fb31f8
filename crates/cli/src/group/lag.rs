//! `forebay group lag`: how far groups are behind, the one with the largest lag first.
//!
//! It reads positions and ends of partitions, and changes nothing. A partition without a position
//! has no lag. What is not known has a dash, and an error below.

mod measure;

use std::process::ExitCode;

use clap::Args;

use super::list::SilentBroker;
use crate::names::Name;
use crate::show::{Format, Table, or_dash};
use crate::target::ChosenTarget;
use crate::watch::Watch;
use measure::{GroupLag, MeasuredLag};

#[derive(Debug, Args)]
pub(super) struct Lag {
    /// Names of the groups, or patterns: 'cars*', '/cars-[0-9]+/'. Without any: all groups with
    /// positions.
    names: Vec<Name>,
    /// Only in these topics: names or patterns; can be given many times.
    #[arg(short, long = "topic", value_name = "TOPIC")]
    topics: Vec<Name>,
    /// Shows every partition.
    #[arg(short, long)]
    partitions: bool,
    #[command(flatten)]
    watch: Watch,
}

impl Lag {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        self.watch.run(
            target,
            |cluster| {
                let measured = measure::all(cluster, &self.names, &self.topics)?;
                // A table has these errors in rows.
                if target.format == Format::Json {
                    measured.silent.iter().for_each(SilentBroker::say);
                }
                Ok(measured)
            },
            |measured| self.text(measured),
            MeasuredLag::is_complete,
        )
    }

    fn text(&self, measured: &MeasuredLag) -> String {
        let groups = &measured.groups;
        let lags = if self.partitions {
            by_partition(groups)
        } else {
            by_topic(groups)
        };
        let silent = measured.silent.iter().map(|one| {
            let place = format!("groups of broker {}", one.broker);
            (place, one.failure.to_string())
        });
        let errors = silent.chain(groups.iter().flat_map(GroupLag::errors));
        let errors: Vec<_> = errors.collect();
        if errors.is_empty() {
            return lags;
        }
        let mut table = Table::headed(&["WHERE", "ERROR"]);
        for (place, error) in errors {
            table.row([place, error]);
        }
        format!("{lags}\n{}", table.render())
    }
}

fn by_topic(groups: &[GroupLag]) -> String {
    let mut table = Table::headed(&[
        "GROUP",
        "STATE",
        "MEMBERS",
        "TOPIC",
        "PARTITIONS",
        "LAG",
        "LARGEST",
    ]);
    let dash = || "-".to_owned();
    for group in groups {
        let head = || {
            let members = or_dash(group.members);
            [group.name.clone(), or_dash(group.state.as_ref()), members]
        };
        let topics = group.by_topic();
        for (topic, of_topic) in &topics {
            let [name, state, members] = head();
            let largest = of_topic.largest;
            table.row([
                name,
                state,
                members,
                (*topic).to_owned(),
                of_topic.partitions.to_string(),
                of_topic.sum.to_string(),
                or_dash(largest.map(|(index, lag)| format!("{lag} in {index}"))),
            ]);
        }
        if topics.is_empty() {
            let [name, state, members] = head();
            table.row([name, state, members, dash(), dash(), dash(), dash()]);
        }
    }
    table.render()
}

fn by_partition(groups: &[GroupLag]) -> String {
    let mut table = Table::headed(&[
        "GROUP",
        "STATE",
        "TOPIC",
        "PARTITION",
        "CURRENT-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
    ]);
    for group in groups {
        for one in &group.partitions {
            table.row([
                group.name.clone(),
                or_dash(group.state.as_ref()),
                one.topic.clone(),
                one.index.to_string(),
                one.position.to_string(),
                or_dash(one.end_offset),
                or_dash(one.lag),
            ]);
        }
    }
    table.render()
}
