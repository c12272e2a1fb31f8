//! `forebay cluster info`: the cluster's id, its brokers, and its features.
//!
//! It changes nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

use serde::Serialize;

use crate::show::{Table, or_dash};
use crate::target::ChosenTarget;

#[derive(Serialize)]
struct Overview {
    id: Option<String>,
    controller: i32,
    brokers: Vec<Broker>,
    topics: usize,
    partitions: usize,
    /// Finalized levels by feature name.
    features: BTreeMap<String, i16>,
}

#[derive(Serialize)]
struct Broker {
    id: i32,
    host: String,
    port: i32,
    rack: Option<String>,
}

pub(super) fn run(target: &ChosenTarget) -> anyhow::Result<ExitCode> {
    let mut cluster = target.cluster()?;
    let answer = cluster.look(None, false)?;
    let features = cluster.entrance()?.features()?.finalized_features;
    let mut brokers: Vec<_> = answer
        .brokers
        .into_iter()
        .map(|broker| Broker {
            id: broker.node_id.0,
            host: broker.host.to_string(),
            port: broker.port,
            rack: broker.rack.map(|rack| rack.to_string()),
        })
        .collect();
    brokers.sort_by_key(|broker| broker.id);
    let overview = Overview {
        id: answer.cluster_id.map(|id| id.to_string()),
        controller: answer.controller_id.0,
        brokers,
        topics: answer.topics.len(),
        partitions: answer
            .topics
            .iter()
            .map(|topic| topic.partitions.len())
            .sum(),
        features: features
            .into_iter()
            .map(|feature| (feature.name.to_string(), feature.max_version_level))
            .collect(),
    };
    target.format.show(&overview, || overview.text())?;
    Ok(ExitCode::SUCCESS)
}

impl Overview {
    fn text(&self) -> String {
        let mut head = Table::plain();
        let mut fact = |name: &str, value: String| head.row([name.to_owned(), value]);
        fact("CLUSTER", or_dash(self.id.as_ref()));
        fact("TOPICS", self.topics.to_string());
        fact("PARTITIONS", self.partitions.to_string());
        let mut brokers = Table::headed(&["ID", "HOST", "PORT", "RACK"]);
        for broker in &self.brokers {
            let star = if broker.id == self.controller {
                "*"
            } else {
                ""
            };
            brokers.row([
                format!("{}{star}", broker.id),
                broker.host.clone(),
                broker.port.to_string(),
                or_dash(broker.rack.as_ref()),
            ]);
        }
        let mut text = format!("{}\n{}", head.render(), brokers.render());
        if !self.features.is_empty() {
            let mut features = Table::headed(&["FEATURE", "LEVEL"]);
            for (name, level) in &self.features {
                features.row([name.clone(), level.to_string()]);
            }
            let _ = write!(text, "\n{}", features.render());
        }
        text
    }
}
