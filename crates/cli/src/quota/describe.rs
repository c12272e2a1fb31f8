//! `forebay quota describe`: the quotas of all entities, or of some.
//!
//! It changes nothing. It shows what is set, not what is used.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use serde::Serialize;
use wire::messages::DescribeClientQuotasRequest;
use wire::messages::describe_client_quotas_request::ComponentData;
use wire::messages::describe_client_quotas_response::EntryData;

use super::entity::{self, Entity, Kind, Part};
use crate::ask::{check, text};
use crate::show::Table;
use crate::target::ChosenTarget;

/// How a component of the request is compared, by its numbers in the protocol.
const EXACT: i8 = 0;
const DEFAULT: i8 = 1;
const ANY: i8 = 2;

#[derive(Debug, Args)]
pub(super) struct Describe {
    #[command(flatten)]
    entity: Entity,
    /// Every entity with this type, the default included; can be given many times.
    #[arg(long, value_enum, value_name = "TYPE")]
    any: Vec<Kind>,
    /// Only entities that have no other type than those named.
    #[arg(long)]
    strict: bool,
}

#[derive(Debug, Serialize)]
struct DescribedQuota {
    entity: Vec<Part>,
    values: BTreeMap<String, f64>,
}

impl Describe {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        let request = DescribeClientQuotasRequest::default()
            .with_components(self.components()?)
            .with_strict(self.strict);
        let answer = target.cluster()?.entrance()?.ask_newest(&request)?;
        check(answer.error_code, answer.error_message.as_ref())?;
        let entries = answer.entries.unwrap_or_default().into_iter();
        let mut described: Vec<_> = entries.map(DescribedQuota::of).collect();
        described.sort_by(|one, other| one.entity.cmp(&other.entity));
        target.format.show(&described, || table(&described))?;
        Ok(ExitCode::SUCCESS)
    }

    fn components(&self) -> anyhow::Result<Vec<ComponentData>> {
        let parts = self.entity.parts()?;
        for kind in &self.any {
            let name = kind.name();
            let of_kind = self.any.iter().filter(|other| *other == kind).count();
            if of_kind > 1 || parts.iter().any(|(other, _)| other == kind) {
                bail!("--any {name}: an entity has one {name}");
            }
        }
        let component = |kind: Kind, compare: i8| {
            ComponentData::default()
                .with_entity_type(text(kind.name()))
                .with_match_type(compare)
        };
        let named = parts.iter().map(|&(kind, name)| match name {
            Some(name) => component(kind, EXACT).with_match(Some(text(name))),
            None => component(kind, DEFAULT).with_match(None),
        });
        let any = self.any.iter();
        let any = any.map(|&kind| component(kind, ANY).with_match(None));
        Ok(named.chain(any).collect())
    }
}

impl DescribedQuota {
    fn of(entry: EntryData) -> Self {
        let entity = entry.entity.into_iter().map(|part| Part {
            kind: part.entity_type.to_string(),
            name: part.entity_name.map(|name| name.to_string()),
        });
        let values = entry.values.into_iter();
        let mut entity: Vec<_> = entity.collect();
        // Users first, as Kafka's tools write it.
        entity.sort_by(|one, other| other.kind.cmp(&one.kind));
        Self {
            entity,
            values: values.map(|one| (one.key.to_string(), one.value)).collect(),
        }
    }
}

fn table(described: &[DescribedQuota]) -> String {
    let mut table = Table::headed(&["ENTITY", "KEY", "VALUE"]);
    for one in described {
        for (key, value) in &one.values {
            table.row([entity::shown(&one.entity), key.clone(), value.to_string()]);
        }
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_asked_for_once() {
        let components = |any: Vec<Kind>| {
            let entity = Entity::default();
            let strict = false;
            let components = Describe {
                entity,
                any,
                strict,
            }
            .components()
            .ok()?;
            let compared = components.iter().map(|one| one.match_type);
            Some(compared.collect::<Vec<_>>())
        };
        assert_eq!(components(vec![]), Some(vec![]));
        assert_eq!(components(vec![Kind::User, Kind::Ip]), Some(vec![ANY, ANY]));
        assert_eq!(components(vec![Kind::User, Kind::User]), None);
    }
}
