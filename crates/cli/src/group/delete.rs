//! `forebay group delete`: deletes groups, and reports the outcome of each.
//!
//! A group with members is refused by its coordinator. What a pattern selects is deleted only with
//! `--execute`.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use wire::messages::{DeleteGroupsRequest, GroupId};

use super::selected;
use crate::ask::{Cluster, Coordinates, Failure, check, patiently, text};
use crate::confirm::Named;
use crate::outcome::{self, Outcome};
use crate::progress::counted;
use crate::target::Chosen;

#[derive(Debug, Args)]
pub(super) struct Delete {
    #[command(flatten)]
    named: Named,
}

impl Delete {
    pub(super) fn run(&self, target: &Chosen) -> anyhow::Result<ExitCode> {
        let mut cluster = target.cluster()?;
        let selected = selected::some(&mut cluster, &self.named.names)?;
        if !self.named.confirmed(&selected) {
            return outcome::show_planned(target.format, "GROUP", &selected.names, "deleted");
        }
        let mut outcomes = Vec::new();
        for name in counted("groups", &selected.names) {
            // Each group has a coordinator of its own: an error concerns this group only.
            let result = delete(&mut cluster, name).map_err(Failure::from);
            outcomes.push(Outcome::of(name, result, "deleted"));
        }
        outcome::show(target.format, "GROUP", &outcomes)
    }
}

fn delete(cluster: &mut Cluster, name: &str) -> anyhow::Result<()> {
    let id = cluster.coordinator(Coordinates::Group, name)?;
    let within = cluster.within();
    let broker = cluster.broker(id)?;
    let request = DeleteGroupsRequest::default().with_groups_names(vec![GroupId(text(name))]);
    patiently(within, || {
        let results = broker.ask_newest(&request)?.results;
        let result = results.first().context("an empty answer")?;
        Ok(check(result.error_code, None)?)
    })
}
