//! `forebay cluster config`: shows or changes the settings of brokers.
//!
//! Without a change on the command line it only reads.

use std::process::ExitCode;

use clap::Args;

use crate::configs::{self, Changes, Resource, settings};
use crate::outcome::{self, Outcome};
use crate::target::Chosen;

#[derive(Debug, Args)]
pub(super) struct Config {
    /// Only these settings.
    keys: Vec<String>,
    /// The broker. Without it, the settings of the first broker are shown, and those of all brokers
    /// are changed.
    #[arg(long, value_name = "ID")]
    broker: Option<i32>,
    /// Also shows the settings that have their default.
    #[arg(short, long)]
    all: bool,
    #[command(flatten)]
    changes: Changes,
    /// Only shows what a change would do.
    #[arg(long)]
    dry_run: bool,
}

impl Config {
    pub(super) fn run(&self, target: &Chosen) -> anyhow::Result<ExitCode> {
        let mut cluster = target.cluster()?;
        if self.changes.is_empty() {
            let id = match self.broker {
                Some(id) => id,
                None => first(&cluster.brokers()?)?,
            };
            let keys = (!self.keys.is_empty()).then_some(&self.keys[..]);
            let broker = cluster.broker(id)?;
            let mut settings = settings(broker, Resource::Broker, &id.to_string(), keys)?;
            settings.retain(|setting| self.all || keys.is_some() || setting.is_set());
            target
                .format
                .show(&settings, || configs::table(&settings))?;
            return Ok(ExitCode::SUCCESS);
        }
        let (name, connection) = match self.broker {
            Some(id) => (id.to_string(), cluster.broker(id)?),
            None => (String::new(), cluster.controller()?),
        };
        let changed = self
            .changes
            .make(connection, Resource::Broker, &name, self.dry_run)?;
        let done = if self.dry_run {
            "would be changed"
        } else {
            "changed"
        };
        let shown = if name.is_empty() { "all" } else { &name };
        outcome::show(
            target.format,
            "BROKER",
            &[Outcome::of(shown, changed, done)],
        )
    }
}

fn first(brokers: &[i32]) -> anyhow::Result<i32> {
    let first = brokers.first().copied();
    first.ok_or_else(|| anyhow::anyhow!("the cluster has no brokers"))
}
