//! `forebay acl list`: ACLs, all of them or those that fit.
//!
//! It changes nothing.

use std::process::ExitCode;

use clap::Args;

use super::entry::{self, Entry};
use super::filter::Filter;
use crate::ask::{Cluster, check};
use crate::target::ChosenTarget;

#[derive(Debug, Args)]
pub(super) struct List {
    #[command(flatten)]
    filter: Filter,
}

impl List {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        let entries = found(&mut target.cluster()?, &self.filter)?;
        target.format.show(&entries, || entry::table(&entries))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Asks for the ACLs that fit.
pub(super) fn found(cluster: &mut Cluster, filter: &Filter) -> anyhow::Result<Vec<Entry>> {
    let answer = cluster.entrance()?.ask_newest(&filter.to_describe())?;
    check(answer.error_code, answer.error_message.as_ref())?;
    Ok(Entry::all(answer))
}
