//! `forebay user list`: users of SCRAM, by which mechanisms they log in, and with how many
//! iterations.
//!
//! It changes nothing.

use std::process::ExitCode;

use clap::Args;

use super::credential;
use crate::names::{Name, wanted};
use crate::show::Table;
use crate::target::ChosenTarget;

#[derive(Debug, Args)]
pub(super) struct List {
    /// Names, or patterns: 'app-*', '/app-[0-9]+/'.
    names: Vec<Name>,
}

impl List {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        let mut users = credential::all(&mut target.cluster()?)?;
        users.retain(|user| wanted(&self.names, &user.name));
        target.format.show(&users, || {
            let mut table = Table::headed(&["USER", "MECHANISM", "ITERATIONS"]);
            for user in &users {
                for one in &user.credentials {
                    let iterations = one.iterations.to_string();
                    table.row([user.name.clone(), one.mechanism.clone(), iterations]);
                }
            }
            table.render()
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
