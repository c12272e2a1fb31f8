//! `forebay quota alter`: sets and removes quotas of one entity, all or none.
//!
//! The broker knows which keys there are, and for which entities.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use wire::messages::AlterClientQuotasRequest;
use wire::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};
use wire::messages::alter_client_quotas_response as response;

use super::entity::{self, Entity, Kind, Part};
use crate::ask::{Failure, check, text};
use crate::outcome::{self, CommandOutcome};
use crate::property::Property;
use crate::target::ChosenTarget;

#[derive(Debug, Args)]
pub(super) struct Alter {
    #[command(flatten)]
    entity: Entity,
    /// Sets a quota; can be given many times.
    #[arg(short = 's', long, value_name = "KEY=VALUE")]
    set: Vec<Property>,
    /// Removes a quota; can be given many times.
    #[arg(long, value_name = "KEY")]
    unset: Vec<String>,
    /// Only shows what the command would do.
    #[arg(long)]
    dry_run: bool,
}

impl Alter {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        let parts = self.entity.parts()?;
        if parts.is_empty() {
            bail!("whose quota? --user, --client-id, --ip or --default say whose");
        }
        let operations = self.operations()?;
        let entity = parts.iter().map(|(kind, name)| {
            EntityData::default()
                .with_entity_type(text(kind.name()))
                .with_entity_name(name.map(text))
        });
        let entry = EntryData::default()
            .with_entity(entity.collect())
            .with_ops(operations);
        let request = AlterClientQuotasRequest::default()
            .with_entries(vec![entry])
            .with_validate_only(self.dry_run);
        let mut cluster = target.cluster()?;
        let entries = cluster.controller()?.ask_newest(&request)?.entries;
        let result = answered(&entries, &parts);
        let parts = parts.iter().map(|(kind, name)| Part {
            kind: kind.name().to_owned(),
            name: name.map(str::to_owned),
        });
        let name = entity::shown(&parts.collect::<Vec<_>>());
        let outcome = CommandOutcome::tried(&name, result, "changed", self.dry_run);
        outcome::show(target.format, "ENTITY", &[outcome])
    }

    fn operations(&self) -> anyhow::Result<Vec<OpData>> {
        let mut operations = Vec::new();
        for Property { key, value } in &self.set {
            let number = value.trim().parse::<f64>().ok();
            let number = number.filter(|number| number.is_finite());
            let number = number.with_context(|| format!("{key}={value}: must be a number"))?;
            let set = OpData::default().with_key(text(key)).with_value(number);
            operations.push(set);
        }
        for key in &self.unset {
            let remove = OpData::default().with_key(text(key)).with_remove(true);
            operations.push(remove);
        }
        if operations.is_empty() {
            bail!("nothing to change: --set or --unset say what");
        }
        Ok(operations)
    }
}

/// Returns what the controller answered for the entity, whose parts it may name in any order.
fn answered(
    entries: &[response::EntryData],
    parts: &[(Kind, Option<&str>)],
) -> Result<(), Failure> {
    let wanted: BTreeSet<_> = parts
        .iter()
        .map(|&(kind, name)| (kind.name(), name))
        .collect();
    let is_it = |entry: &&response::EntryData| {
        let parts = entry.entity.iter();
        let parts = parts.map(|part| (part.entity_type.as_str(), part.entity_name.as_deref()));
        parts.collect::<BTreeSet<_>>() == wanted
    };
    let entry = entries.iter().find(is_it).ok_or(Failure::LeftOut)?;
    Ok(check(entry.error_code, entry.error_message.as_ref())?)
}

#[cfg(test)]
mod tests {
    use wire::types::ErrorCode;

    use super::*;

    fn alter(set: &[&str], unset: &[&str]) -> Alter {
        Alter {
            entity: Entity::default(),
            set: set.iter().map(|one| one.parse().unwrap()).collect(),
            unset: unset.iter().map(|&key| key.to_owned()).collect(),
            dry_run: false,
        }
    }

    #[test]
    fn quotas_are_numbers() {
        let operations = alter(&["a=1048576", "b=12.5"], &["c"])
            .operations()
            .unwrap();
        let operations: Vec<_> = operations
            .iter()
            .map(|one| (one.key.as_str(), one.value, one.remove))
            .collect();
        let expected = [
            ("a", 1_048_576.0, false),
            ("b", 12.5, false),
            ("c", 0.0, true),
        ];
        assert_eq!(operations, expected);
        for wrong in ["a=", "a=much", "a=inf", "a=NaN", "a=1MB"] {
            let refused = alter(&[wrong], &[]).operations().unwrap_err();
            assert_eq!(refused.to_string(), format!("{wrong}: must be a number"));
        }
        assert!(alter(&[], &[]).operations().is_err());
    }

    #[test]
    fn what_became_of_another_entity_is_no_answer() {
        let entry = |parts: &[(&str, Option<&str>)], error: i16| {
            let parts = parts.iter().map(|&(kind, name)| {
                response::EntityData::default()
                    .with_entity_type(text(kind))
                    .with_entity_name(name.map(text))
            });
            response::EntryData::default()
                .with_entity(parts.collect())
                .with_error_code(error)
                .with_error_message(None)
        };
        let entries = [
            entry(&[("user", Some("alice"))], 0),
            entry(&[("client-id", None), ("user", Some("alice"))], 42),
        ];
        let alice = (Kind::User, Some("alice"));
        assert_eq!(answered(&entries, &[alice]), Ok(()));
        let refused = Err(ErrorCode::InvalidRequest.into());
        assert_eq!(
            answered(&entries, &[alice, (Kind::ClientId, None)]),
            refused
        );
        for other in [(Kind::User, None), (Kind::Ip, Some("alice"))] {
            assert_eq!(answered(&entries, &[other]), Err(Failure::LeftOut));
        }
    }
}
