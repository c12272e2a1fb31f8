//! `forebay user delete`: deletes the passwords of users, so that they cannot log in by SCRAM.
//!
//! ACLs and quotas of a user stay. What a pattern selects is deleted only with `--execute`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use wire::messages::alter_user_scram_credentials_request::ScramCredentialDeletion;

use super::change::{self, CredentialChange};
use super::credential::{self, Scram};
use crate::ask::text;
use crate::confirm::ConfirmedNames;
use crate::names::Selection;
use crate::outcome::{self, CommandOutcome};
use crate::target::ChosenTarget;

/// What became of a password.
const DONE: &str = "deleted";

#[derive(Debug, Args)]
pub(super) struct Delete {
    #[command(flatten)]
    named: ConfirmedNames,
    /// Deletes the passwords of this mechanism only; can be given many times.
    #[arg(long, value_enum)]
    mechanism: Vec<Scram>,
}

impl Delete {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        let mut cluster = target.cluster()?;
        let users = credential::all(&mut cluster)?;
        let known = || Ok(users.iter().map(|user| user.name.clone()).collect());
        let selection = Selection::of(&self.named.names, known)?.complete("user")?;
        if !self.named.confirmed(&selection) {
            return outcome::show_planned(target.format, "USER", &selection.names, "deleted");
        }
        let by_name: BTreeMap<_, _> = users.iter().map(|user| (&user.name, user)).collect();
        let mut deletions = BTreeMap::new();
        for name in &selection.names {
            let codes = by_name.get(name).map_or(&[][..], |user| &user.codes);
            let of_user = self.deletions(name, codes);
            if of_user.is_empty() {
                bail!("user {name} has no such password; nothing was deleted");
            }
            deletions.insert(name.clone(), of_user);
        }
        let outcomes = change::made(&mut cluster, &deletions, DONE).into_iter();
        let outcomes = outcomes.map(|(name, result)| CommandOutcome::of(&name, result, DONE));
        outcome::show(target.format, "USER", &outcomes.collect::<Vec<_>>())
    }

    /// Returns what is deleted of a user who has passwords of these mechanisms.
    fn deletions(&self, name: &str, codes: &[i8]) -> Vec<CredentialChange> {
        let is_meant = |code: &&i8| {
            let mut named = self.mechanism.iter();
            self.mechanism.is_empty() || named.any(|one| one.hash().code() == **code)
        };
        let meant = codes.iter().filter(is_meant).map(|&code| {
            let deletion = ScramCredentialDeletion::default()
                .with_name(text(name))
                .with_mechanism(code);
            CredentialChange::Delete(deletion)
        });
        meant.collect()
    }
}
