//! `forebay cluster config`: shows or changes the settings of brokers.
//!
//! Without a change on the command line it only reads. A named setting that a broker leaves out of
//! its answer is one that it does not have.

use std::process::ExitCode;

use clap::Args;

use crate::configs::{self, Changes, Resource, Setting, settings};
use crate::outcome::{self, CommandOutcome};
use crate::show::say;
use crate::target::ChosenTarget;

#[derive(Debug, Args)]
pub(super) struct Config {
    /// Only these settings.
    #[arg(conflicts_with_all = ["set", "unset", "append", "subtract"])]
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
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
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
            let missing = missing(&self.keys, &settings);
            for key in &missing {
                say(&format!("broker {id} has no setting {key}"));
            }
            return Ok(outcome::exit_code(!missing.is_empty()));
        }
        let (name, connection) = match self.broker {
            Some(id) => (id.to_string(), cluster.broker(id)?),
            None => (String::new(), cluster.controller()?),
        };
        let changed = self
            .changes
            .make(connection, Resource::Broker, &name, self.dry_run);
        let shown = if name.is_empty() { "all" } else { &name };
        let outcome = CommandOutcome::tried(shown, changed, "changed", self.dry_run);
        outcome::show(target.format, "BROKER", &[outcome])
    }
}

fn first(brokers: &[i32]) -> anyhow::Result<i32> {
    let first = brokers.first().copied();
    first.ok_or_else(|| anyhow::anyhow!("the cluster has no brokers"))
}

/// Returns the keys for which there is no setting.
fn missing<'a>(keys: &'a [String], settings: &[Setting]) -> Vec<&'a String> {
    let is_there = |key: &str| settings.iter().any(|setting| setting.name == key);
    keys.iter().filter(|key| !is_there(key)).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        config: Config,
    }

    fn parse(line: &[&str]) -> Result<Config, clap::Error> {
        let line = ["config"].into_iter().chain(line.iter().copied());
        Command::try_parse_from(line).map(|command| command.config)
    }

    #[test]
    fn settings_are_shown_or_changed() {
        assert_eq!(parse(&["a", "b"]).unwrap().keys, ["a", "b"]);
        assert!(
            !parse(&["--set", "a=1", "--unset", "b"])
                .unwrap()
                .changes
                .is_empty()
        );
        for change in [
            ["--set", "b=1"],
            ["--unset", "b"],
            ["--append", "b=1"],
            ["--subtract", "b=1"],
        ] {
            let both = parse(&["a", change[0], change[1]]).unwrap_err();
            assert_eq!(both.exit_code(), 2, "{change:?}");
        }
    }

    #[test]
    fn a_setting_that_the_broker_leaves_out_is_missing() {
        let setting = Setting {
            name: "log.retention.ms".into(),
            value: None,
            source: "default",
            read_only: false,
        };
        let keys = ["log.retentio.ms", "log.retention.ms"].map(str::to_owned);
        assert_eq!(missing(&keys, &[setting]), ["log.retentio.ms"]);
    }
}
