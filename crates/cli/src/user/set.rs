//! `forebay user set`: sets the password of a user.
//!
//! The broker gets the salted password, as from `kafka-configs.sh`; the metadata of one that does
//! not run get what it would derive from that.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use platform::os::random_bytes;
use wire::messages::alter_user_scram_credentials_request::ScramCredentialUpsertion;
use wire::sasl::scram::{Credential, ITERATIONS_MAX, ITERATIONS_MIN, salt, salted_password};
use wire::sasl::{Secret, check_user};

use super::change::{self, CredentialChange};
use super::credential::Scram;
use super::{OfflineUser, password};
use crate::ask::text;
use crate::outcome::{self, CommandOutcome};
use crate::target::ChosenTarget;

/// What became of a password.
const DONE: &str = "set";

#[derive(Debug, Args)]
pub(super) struct Set {
    /// The user's name, without `User:`.
    name: String,
    /// By which the user may log in with this password; can be given many times.
    #[arg(long, value_enum, default_value = "SCRAM-SHA-512")]
    mechanism: Vec<Scram>,
    /// How much work it is to try one password.
    #[arg(long, default_value_t = ITERATIONS_MIN,
          value_parser = clap::value_parser!(u32).range(i64::from(ITERATIONS_MIN)..=i64::from(ITERATIONS_MAX)))]
    iterations: u32,
    /// File whose first line is the password, instead of standard input.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// The log directory with the metadata of a broker that does not run, instead of a broker: for
    /// operators whose password is lost.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl Set {
    pub(super) fn offline(&self) -> anyhow::Result<Option<OfflineUser>> {
        let Some(data_dir) = self.data_dir.clone() else {
            return Ok(None);
        };
        check_user(&self.name)?;
        let password = password::read(self.password_file.as_deref(), &self.name)?;
        let each = self.mechanisms().into_iter().map(|mechanism| {
            let salt = salt(random_bytes());
            Credential::derive(mechanism.hash(), &password, &salt, self.iterations)
        });
        Ok(Some(OfflineUser {
            data_dir,
            name: self.name.clone(),
            credentials: each.collect::<Result<_, _>>()?,
        }))
    }

    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        check_user(&self.name)?;
        let password = password::read(self.password_file.as_deref(), &self.name)?;
        let mut cluster = target.cluster()?;
        let upsertions = self.upsertions(&password).into_iter();
        let changes = upsertions.map(CredentialChange::Set).collect();
        let changes = BTreeMap::from([(self.name.clone(), changes)]);
        let outcomes = change::made(&mut cluster, &changes, DONE).into_iter();
        let outcomes = outcomes.map(|(name, result)| CommandOutcome::of(&name, result, DONE));
        outcome::show(target.format, "USER", &outcomes.collect::<Vec<_>>())
    }

    /// Returns each mechanism once.
    fn mechanisms(&self) -> Vec<Scram> {
        let mut mechanisms: Vec<Scram> = Vec::new();
        for mechanism in &self.mechanism {
            if !mechanisms.contains(mechanism) {
                mechanisms.push(*mechanism);
            }
        }
        mechanisms
    }

    fn upsertions(&self, password: &Secret<String>) -> Vec<ScramCredentialUpsertion> {
        let each = self.mechanisms().into_iter().map(|mechanism| {
            let hash = mechanism.hash();
            let salt = salt(random_bytes());
            let salted = salted_password(hash, password, &salt, self.iterations);
            ScramCredentialUpsertion::default()
                .with_name(text(&self.name))
                .with_mechanism(hash.code())
                .with_iterations(i32::try_from(self.iterations).unwrap_or(i32::MAX))
                .with_salt(salt.into())
                .with_salted_password(salted.expose().clone().into())
        });
        each.collect()
    }
}

#[cfg(test)]
mod tests {
    use wire::sasl::scram::ScramHash;

    use super::*;

    #[test]
    fn a_mechanism_that_is_named_twice_is_set_once() {
        let set = Set {
            name: "ada".to_owned(),
            mechanism: vec![Scram::Sha256, Scram::Sha512, Scram::Sha256],
            iterations: 4096,
            password_file: None,
            data_dir: None,
        };
        let made = set.upsertions(&Secret::new("hunter2".to_owned()));
        let codes: Vec<_> = made.iter().map(|one| one.mechanism).collect();
        assert_eq!(codes, [ScramHash::Sha256.code(), ScramHash::Sha512.code()]);
    }

    #[test]
    fn each_mechanism_has_a_salt_of_its_own_and_no_request_has_the_password() {
        let set = Set {
            name: "ada".to_owned(),
            mechanism: vec![Scram::Sha256, Scram::Sha512],
            iterations: 4096,
            password_file: None,
            data_dir: None,
        };
        let made = set.upsertions(&Secret::new("hunter2".to_owned()));
        assert_eq!(made.len(), 2);
        assert_ne!(made[0].salt, made[1].salt);
        assert!(!format!("{made:?}").contains("hunter2"));
        for (one, hash) in made.iter().zip([ScramHash::Sha256, ScramHash::Sha512]) {
            let stored = Credential::of_salted(hash, &one.salt, 4096, &one.salted_password);
            assert!(stored.is_ok());
        }
    }
}
