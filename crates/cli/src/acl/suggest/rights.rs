//! From the rights that clients asked for to the fewest ACLs that permit them: pure.
//!
//! Invariants: nothing is permitted that was not asked for, but what an ACL implies; a prefix is
//! that of the command line, never one that names happen to share. A role of the tools (producer,
//! consumer) is proposed where all of its rights were asked for.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::ensure;
use wire::acl::{Host, Operation, PatternType, ResourceType};

use super::line::LoggedDenial;
use crate::resource::NamedResource;

/// Most different rights that are kept.
const RIGHTS_MAX: usize = 100_000;
/// Names on one line.
const NAMES_MAX: usize = 40;

/// What a line of a tool permits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Grant {
    pub(super) role: Role,
    pub(super) pattern: PatternType,
    /// The resources, by type.
    pub(super) names: Vec<(ResourceType, Vec<String>)>,
}

/// Which operations a line permits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Producer,
    Consumer,
    Operations(Vec<Operation>),
}

/// Who asks, and from where.
type Client = (String, String);

/// The rights that were asked for, with how often.
#[derive(Debug, Default)]
pub(super) struct AskedRights(
    // Bounded: `RIGHTS_MAX`.
    BTreeMap<LoggedDenial, u64>,
);

/// The operations on each resource.
type WantedRights = BTreeMap<(PatternType, ResourceType, String), BTreeSet<Operation>>;

impl AskedRights {
    /// Takes a line.
    pub(super) fn add(&mut self, found: LoggedDenial) -> anyhow::Result<()> {
        // The same right, wherever it was read.
        let right = LoggedDenial {
            unsaid: 0,
            is_audited: false,
            ..found
        };
        *self.0.entry(right).or_default() += 1;
        ensure!(
            self.0.len() <= RIGHTS_MAX,
            "more than {RIGHTS_MAX} different rights: take a part of the log"
        );
        Ok(())
    }

    /// Returns the number of lines and what is to be permitted, for each client.
    pub(super) fn of_each(
        self,
        prefixes: &[NamedResource],
        by_host: bool,
    ) -> BTreeMap<Client, (u64, Vec<Grant>)> {
        let mut clients: BTreeMap<Client, (u64, WantedRights)> = BTreeMap::new();
        for (right, count) in self.0 {
            let host = if by_host { &right.address } else { Host::ANY };
            let (pattern, name) = pattern_of(&right, prefixes);
            let client = clients.entry((right.principal, host.to_owned()));
            let (lines, wanted) = client.or_default();
            *lines += count;
            let operations = wanted.entry((pattern, right.resource_type, name));
            operations.or_default().insert(right.operation);
        }
        let granted = clients.into_iter().map(|(client, (lines, mut wanted))| {
            leave_out_implied(&mut wanted);
            (client, (lines, grants(wanted)))
        });
        granted.collect()
    }
}

/// Returns the pattern for the name of a resource: the longest prefix of the command line that fits
/// it, or the name.
fn pattern_of(right: &LoggedDenial, prefixes: &[NamedResource]) -> (PatternType, String) {
    let fitting = prefixes.iter().filter(|prefix| {
        let is_type = prefix.resource_type == right.resource_type;
        is_type && right.name.starts_with(&prefix.name)
    });
    match fitting.max_by_key(|prefix| prefix.name.len()) {
        Some(prefix) if right.resource_type != ResourceType::Cluster => {
            (PatternType::Prefixed, prefix.name.clone())
        }
        _ => (PatternType::Literal, right.name.clone()),
    }
}

/// Takes out what the other rights of the same client imply.
fn leave_out_implied(wanted: &mut WantedRights) {
    use Operation::{Alter, AlterConfigs, Delete, Describe, DescribeConfigs, Read, Write};
    for operations in wanted.values_mut() {
        if [Read, Write, Delete, Alter]
            .iter()
            .any(|one| operations.contains(one))
        {
            operations.remove(&Describe);
        }
        if operations.contains(&AlterConfigs) {
            operations.remove(&DescribeConfigs);
        }
    }
    let writes = wanted.iter().any(|((_, resource, _), operations)| {
        *resource == ResourceType::Topic && operations.contains(&Write)
    });
    if writes {
        // Who may write a topic may have an idempotent producer.
        for ((_, resource, _), operations) in wanted.iter_mut() {
            if *resource == ResourceType::Cluster {
                operations.remove(&Operation::IdempotentWrite);
            }
        }
    }
    wanted.retain(|_, operations| !operations.is_empty());
}

fn grants(mut wanted: WantedRights) -> Vec<Grant> {
    use Operation::{Create, Read, Write};
    use ResourceType::{Group, Topic, TransactionalId};
    let mut grants = Vec::new();
    for pattern in [PatternType::Literal, PatternType::Prefixed] {
        let with = |wanted: &WantedRights, resource: ResourceType, operations: &[Operation]| {
            let fits = wanted.iter().filter(|((of, kind, _), own)| {
                *of == pattern
                    && *kind == resource
                    && operations.iter().all(|one| own.contains(one))
            });
            fits.map(|((_, _, name), _)| name.clone())
                .collect::<Vec<_>>()
        };
        let produced = with(&wanted, Topic, &[Write, Create]);
        if !produced.is_empty() {
            let ids = with(&wanted, TransactionalId, &[Write]);
            take(&mut wanted, pattern, (Topic, &produced), &[Write, Create]);
            take(&mut wanted, pattern, (TransactionalId, &ids), &[Write]);
            let names = vec![(Topic, produced), (TransactionalId, ids)];
            grants.extend(divided(&Role::Producer, pattern, &names));
        }
        let (topics, groups) = (with(&wanted, Topic, &[Read]), with(&wanted, Group, &[Read]));
        if !topics.is_empty() && !groups.is_empty() {
            take(&mut wanted, pattern, (Topic, &topics), &[Read]);
            take(&mut wanted, pattern, (Group, &groups), &[Read]);
            let names = vec![(Topic, topics), (Group, groups)];
            grants.extend(divided(&Role::Consumer, pattern, &names));
        }
    }
    let mut alike: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for ((pattern, resource, name), operations) in wanted {
        alike
            .entry((pattern, resource, operations))
            .or_default()
            .push(name);
    }
    for ((pattern, resource, operations), names) in alike {
        let role = Role::Operations(operations.into_iter().collect());
        grants.extend(divided(&role, pattern, &[(resource, names)]));
    }
    grants
}

/// Takes rights out that a line permits.
fn take(
    wanted: &mut WantedRights,
    pattern: PatternType,
    (resource, names): (ResourceType, &[String]),
    permitted: &[Operation],
) {
    for name in names {
        let key = (pattern, resource, name.clone());
        if let Some(operations) = wanted.get_mut(&key) {
            operations.retain(|one| !permitted.contains(one));
            if operations.is_empty() {
                wanted.remove(&key);
            }
        }
    }
}

/// Divides a grant into lines with a bounded number of names. A role needs its first type on each
/// line, and a consumer's its group.
fn divided(role: &Role, pattern: PatternType, names: &[(ResourceType, Vec<String>)]) -> Vec<Grant> {
    let lines = names
        .iter()
        .map(|(_, all)| all.len().div_ceil(NAMES_MAX))
        .max()
        .unwrap_or(0);
    let part = |line: usize, all: &[String]| {
        let mut parts = all.chunks(NAMES_MAX);
        // A type that has fewer names is repeated: an ACL that is there already is no error.
        let part = parts
            .nth(line)
            .or_else(|| all.chunks(NAMES_MAX).next_back());
        part.unwrap_or_default().to_vec()
    };
    let each = (0..lines).map(|line| Grant {
        role: role.clone(),
        pattern,
        names: names
            .iter()
            .filter(|(_, all)| !all.is_empty())
            .map(|(resource, all)| (*resource, part(line, all)))
            .collect(),
    });
    each.collect()
}

#[cfg(test)]
mod tests;
