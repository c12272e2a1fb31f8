//! `forebay acl delete`: deletes the ACLs that fit.
//!
//! It shows them, and deletes with `--execute`. With it the broker applies the options again.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use wire::messages::DeleteAclsRequest;

use super::entry::Entry;
use super::filter::Filter;
use super::list::found;
use crate::ask::check;
use crate::outcome::{self, CommandOutcome};
use crate::target::ChosenTarget;

#[derive(Debug, Args)]
pub(super) struct Delete {
    #[command(flatten)]
    filter: Filter,
    /// Deletes; without it the command only shows what it would delete.
    #[arg(long, conflicts_with = "dry_run")]
    execute: bool,
    /// Only shows what the command would delete, which it does anyway without --execute.
    #[arg(long)]
    dry_run: bool,
}

impl Delete {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        if self.filter.is_empty() {
            bail!("which ACLs? --principal, --topic, --group and other options say which");
        }
        let mut cluster = target.cluster()?;
        if !self.execute {
            let found = found(&mut cluster, &self.filter)?;
            let lines: Vec<_> = found.iter().map(Entry::line).collect();
            return outcome::show_planned(target.format, "ACL", &lines, "deleted");
        }
        let request = DeleteAclsRequest::default().with_filters(vec![self.filter.to_delete()]);
        let answer = cluster.controller()?.ask_newest(&request)?;
        let result = answer.filter_results.into_iter().next();
        let result = result.context("the broker did not answer for it")?;
        check(result.error_code, result.error_message.as_ref())?;
        let mut outcomes: Vec<_> = result.matching_acls.iter().collect();
        outcomes.sort_by_key(|acl| Entry::of(acl));
        let outcomes = outcomes.iter().map(|acl| {
            let result = check(acl.error_code, acl.error_message.as_ref());
            CommandOutcome::of(&Entry::of(acl).line(), result, "deleted")
        });
        outcome::show(target.format, "ACL", &outcomes.collect::<Vec<_>>())
    }
}
