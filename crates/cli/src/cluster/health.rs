//! `forebay cluster health`: what is wrong with a cluster, in one look.
//!
//! It asks every broker for its log directories, and one for the metadata and for the controllers.
//! It changes nothing.
//!
//! Invariant: the exit code is a failure if anything is wrong. Once the metadata is there, an error
//! of asking is a problem, and the look goes on.

mod controller;
mod partitions;

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use wire::messages::{DescribeClusterRequest, DescribeLogDirsRequest};

use crate::ask::{Cluster, check};
use crate::logdir;
use crate::progress::counted;
use crate::show::{Table, list, or_dash};
use crate::target::ChosenTarget;
use crate::watch::Watch;

#[derive(Debug, Args)]
pub(super) struct Health {
    #[command(flatten)]
    watch: Watch,
}

/// What the look found.
#[derive(Debug, Serialize)]
struct HealthFindings {
    healthy: bool,
    controller: Option<i32>,
    brokers: Vec<i32>,
    partitions: usize,
    problems: Vec<Problem>,
}

/// Something that is wrong, and where.
#[derive(PartialEq, Eq, Debug, Serialize)]
struct Problem {
    problem: &'static str,
    #[serde(rename = "where")]
    place: String,
}

impl Problem {
    fn at(problem: &'static str, place: impl Into<String>) -> Self {
        let place = place.into();
        Self { problem, place }
    }
}

impl Health {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        self.watch
            .run(target, look, HealthFindings::text, |found| found.healthy)
    }
}

fn look(cluster: &mut Cluster) -> anyhow::Result<HealthFindings> {
    let metadata = cluster.look(None, false)?;
    let mut brokers: Vec<_> = metadata.brokers.iter().map(|one| one.node_id.0).collect();
    brokers.sort_unstable();
    let mut problems = Vec::new();
    match fenced(cluster) {
        Ok(fenced) => problems.extend(fenced),
        Err(error) => {
            let place = format!("{error:#}");
            problems.push(Problem::at("fenced brokers are not known", place));
        }
    }
    for &id in counted("brokers", &brokers) {
        problems.extend(of_broker(cluster, id));
    }
    problems.extend(partitions::problems(cluster, &metadata.topics));
    // The last question to this broker: without a controller it may not be answered in time.
    let named = Some(metadata.controller_id.0).filter(|&id| id >= 0);
    let controller = controller::find(cluster, named).unwrap_or_else(|problem| {
        problems.insert(0, problem);
        None
    });
    let topics = metadata.topics.iter();
    let partitions = topics.map(|topic| topic.partitions.len());
    Ok(HealthFindings {
        healthy: problems.is_empty(),
        controller,
        brokers,
        partitions: partitions.fold(0, usize::saturating_add),
        problems,
    })
}

/// Returns the brokers that are registered and not in service; old brokers do not tell.
fn fenced(cluster: &mut Cluster) -> anyhow::Result<Vec<Problem>> {
    let broker = cluster.entrance()?;
    let version = broker.version::<DescribeClusterRequest>().unwrap_or(0);
    if version < 2 {
        return Ok(Vec::new());
    }
    let request = DescribeClusterRequest::default().with_include_fenced_brokers(true);
    let answer = broker.ask(version, &request)?;
    check(answer.error_code, answer.error_message.as_ref())?;
    let fenced = answer.brokers.iter().filter(|broker| broker.is_fenced);
    let problem = |id: i32| Problem::at("broker is fenced", id.to_string());
    Ok(fenced.map(|broker| problem(broker.broker_id.0)).collect())
}

/// Returns what is wrong with a broker: it cannot be reached, or lost log directories.
fn of_broker(cluster: &mut Cluster, id: i32) -> Vec<Problem> {
    let served = cluster
        .broker(id)
        .map(|broker| broker.serves::<DescribeLogDirsRequest>());
    let dirs = match served {
        Ok(true) => logdir::of_broker(cluster, id),
        Ok(false) => Ok(Vec::new()),
        Err(error) => Err(error),
    };
    match dirs {
        Ok(dirs) => {
            let failed = dirs.into_iter().filter_map(|dir| {
                let name = or_dash(dir.dir);
                let place = format!("broker {id}, {name} ({})", dir.error?);
                Some(Problem::at("log directory failed", place))
            });
            failed.collect()
        }
        Err(error) => {
            let place = format!("broker {id} ({error:#})");
            vec![Problem::at("broker does not answer", place)]
        }
    }
}

impl HealthFindings {
    fn text(&self) -> String {
        let mut head = Table::plain();
        let mut fact = |name: &str, value: String| head.row([name.to_owned(), value]);
        let health = match self.problems.len() {
            0 => "healthy".to_owned(),
            1 => "1 problem".to_owned(),
            count => format!("{count} problems"),
        };
        fact("HEALTH", health);
        fact("CONTROLLER", or_dash(self.controller));
        fact("BROKERS", list(&self.brokers));
        fact("PARTITIONS", self.partitions.to_string());
        if self.problems.is_empty() {
            return head.render();
        }
        let mut table = Table::headed(&["PROBLEM", "WHERE"]);
        for one in &self.problems {
            table.row([one.problem.to_owned(), one.place.clone()]);
        }
        format!("{}\n{}", head.render(), table.render())
    }
}
