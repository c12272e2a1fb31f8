//! `forebay client-metrics describe`: the settings of subscriptions.
//!
//! It changes nothing.

use std::process::ExitCode;

use anyhow::ensure;
use clap::Args;
use serde::Serialize;
use wire::text::EscapedText;

use super::subscriptions;
use crate::configs::{self, Resource, Setting, settings};
use crate::names::{Name, Selection};
use crate::outcome;
use crate::target::ChosenTarget;

#[derive(Debug, Args)]
pub(super) struct Describe {
    /// Names of the subscriptions, or patterns: 'latency*', '/latency-[0-9]+/'. Without any: all.
    names: Vec<Name>,
}

#[derive(Serialize)]
struct DescribedSubscription {
    name: String,
    settings: Vec<Setting>,
}

impl Describe {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        let mut cluster = target.cluster()?;
        let controller = cluster.controller()?;
        let there = subscriptions::all(controller)?;
        let names = if self.names.is_empty() {
            there.clone()
        } else {
            let selected = Selection::of(&self.names, || Ok(there.clone()))?;
            selected.complete("subscription")?.names
        };
        let described = names.into_iter().map(|name| {
            // A broker answers with defaults for a subscription that does not exist.
            ensure!(there.contains(&name), "subscription {name} does not exist");
            let settings = settings(controller, Resource::ClientMetrics, &name, None)?;
            Ok(DescribedSubscription { name, settings })
        });
        let (described, failed) = outcome::found(described);
        target.format.show(&described, || {
            let texts = described.iter().map(|one| {
                let settings = configs::table(&one.settings);
                format!("NAME  {}\n\n{settings}", EscapedText(&one.name))
            });
            texts.collect::<Vec<_>>().join("\n")
        })?;
        Ok(outcome::exit_code(failed))
    }
}
