//! `forebay quota alter`: sets and removes quotas of one entity, all or none.
//!
//! The broker knows which keys there are, and for which entities.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use wire::messages::AlterClientQuotasRequest;
use wire::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};

use super::entity::{self, Entity, Part};
use crate::ask::{check, text};
use crate::outcome::{self, Outcome};
use crate::property::Property;
use crate::target::Chosen;

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
    pub(super) fn run(&self, target: &Chosen) -> anyhow::Result<ExitCode> {
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
        let entry = entries.first().context("an empty answer")?;
        let result = check(entry.error_code, entry.error_message.as_ref());
        let done = if self.dry_run {
            "would be changed"
        } else {
            "changed"
        };
        let parts = parts.iter().map(|(kind, name)| Part {
            kind: kind.name().to_owned(),
            name: name.map(str::to_owned),
        });
        let name = entity::shown(&parts.collect::<Vec<_>>());
        outcome::show(target.format, "ENTITY", &[Outcome::of(&name, result, done)])
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

#[cfg(test)]
mod tests {
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
}
