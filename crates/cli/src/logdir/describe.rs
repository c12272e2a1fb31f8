//! `forebay logdir describe`: the log directories of all brokers, or of some.
//!
//! With topics, only partitions of these count. A broker that does not tell its directories has a
//! row with the reason, and is a failure.

use std::process::ExitCode;

use clap::Args;

use super::dirs::{LogDir, of_broker};
use crate::names::Name;
use crate::outcome;
use crate::progress::counted;
use crate::show::{Table, or_dash};
use crate::target::ChosenTarget;

#[derive(Debug, Args)]
pub(super) struct Describe {
    /// Only partitions of these topics: names, or patterns: 'cars*', '/cars-[0-9]+/'.
    topics: Vec<Name>,
    /// Only these brokers.
    #[arg(long, value_delimiter = ',', value_name = "ID")]
    broker: Vec<i32>,
    /// Shows every partition.
    #[arg(short, long)]
    partitions: bool,
}

impl Describe {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        let mut cluster = target.cluster()?;
        let brokers = if self.broker.is_empty() {
            cluster.brokers()?
        } else {
            self.broker.clone()
        };
        let mut dirs = Vec::new();
        let mut failed = false;
        for &id in counted("brokers", &brokers) {
            let told = of_broker(&mut cluster, id);
            failed |= told.is_err();
            dirs.extend(told.unwrap_or_else(|error| vec![LogDir::unknown(id, &error)]));
        }
        if !self.topics.is_empty() {
            for dir in &mut dirs {
                let is_wanted = |topic: &str| self.topics.iter().any(|name| name.matches(topic));
                dir.partitions.retain(|one| is_wanted(&one.topic));
            }
        }
        target.format.show(&dirs, || {
            if self.partitions {
                by_partition(&dirs)
            } else {
                by_dir(&dirs)
            }
        })?;
        Ok(outcome::exit_code(failed))
    }
}

fn by_dir(dirs: &[LogDir]) -> String {
    let mut table = Table::headed(&[
        "BROKER",
        "DIR",
        "PARTITIONS",
        "SIZE",
        "USABLE",
        "TOTAL",
        "STATUS",
    ]);
    for dir in dirs {
        table.row([
            dir.broker.to_string(),
            or_dash(dir.dir.as_ref()),
            dir.partitions.len().to_string(),
            dir.size_bytes().to_string(),
            or_dash(dir.usable_bytes),
            or_dash(dir.total_bytes),
            dir.error.clone().unwrap_or_else(|| "in service".to_owned()),
        ]);
    }
    table.render()
}

fn by_partition(dirs: &[LogDir]) -> String {
    let mut table = Table::headed(&[
        "BROKER",
        "DIR",
        "TOPIC",
        "PARTITION",
        "SIZE",
        "OFFSET-LAG",
        "STATUS",
    ]);
    for dir in dirs {
        if let Some(error) = &dir.error {
            let dash = || "-".to_owned();
            table.row([
                dir.broker.to_string(),
                or_dash(dir.dir.as_ref()),
                dash(),
                dash(),
                dash(),
                dash(),
                error.clone(),
            ]);
        }
        for one in &dir.partitions {
            let moving = if one.is_future { "moves here" } else { "-" };
            table.row([
                dir.broker.to_string(),
                or_dash(dir.dir.as_ref()),
                one.topic.clone(),
                one.index.to_string(),
                one.size_bytes.to_string(),
                one.offset_lag.to_string(),
                moving.to_owned(),
            ]);
        }
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_tells_nothing_has_a_row_with_the_reason() {
        let silent = [LogDir::unknown(3, &anyhow::anyhow!("silent"))];
        for table in [by_dir(&silent), by_partition(&silent)] {
            let row = table.lines().last().unwrap();
            assert!(
                row.starts_with("3       -") && row.ends_with("silent"),
                "{row}"
            );
        }
        let json = serde_json::to_value(&silent).unwrap();
        assert!(json[0]["dir"].is_null() && json[0]["error"] == "silent");
    }
}
