//! `forebay acl add`: makes ACLs, one for each principal, host, resource and operation.
//!
//! `--producer` and `--consumer` stand for the operations that such clients need, as with
//! `kafka-acls.sh`.

mod requests;

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use wire::acl::{CLUSTER_NAME, Operation, PatternType, PermissionType, ResourceType};
use wire::messages::create_acls_request::AclCreation;

use super::entry::{self, Entry, creation};
use super::filter::Filter;
use super::list::found;
use crate::outcome::{self, CommandOutcome};
use crate::target::ChosenTarget;

/// The most ACLs of one command: more than a cluster takes.
const ACLS_MAX: usize = 100_000;

#[derive(Debug, Args, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one for each flag of the command"
)]
pub(super) struct Add {
    /// Principal that the ACLs permit something, such as User:ada; can be given many times.
    #[arg(long, value_name = "TYPE:NAME", value_parser = entry::principal,
          visible_alias = "principal")]
    allow_principal: Vec<String>,
    /// Principal that the ACLs forbid something; can be given many times.
    #[arg(long, value_name = "TYPE:NAME", value_parser = entry::principal)]
    deny_principal: Vec<String>,
    /// Address of the clients [default: all]; can be given many times.
    #[arg(long, value_name = "ADDRESS", value_parser = entry::host)]
    host: Vec<String>,
    /// Topic; can be given many times.
    #[arg(long, value_name = "NAME")]
    topic: Vec<String>,
    /// Group; can be given many times.
    #[arg(long, value_name = "ID")]
    group: Vec<String>,
    /// Transactional id; can be given many times.
    #[arg(long, value_name = "ID")]
    transactional_id: Vec<String>,
    /// The cluster.
    #[arg(long)]
    cluster: bool,
    /// The names are beginnings of names.
    #[arg(long)]
    prefixed: bool,
    /// Operation on all of these; can be given many times.
    #[arg(long, value_parser = entry::operation)]
    operation: Vec<Operation>,
    /// What a producer does: write, describe and create topics; use transactional ids.
    #[arg(long)]
    producer: bool,
    /// What a consumer does: read and describe topics; read groups.
    #[arg(long)]
    consumer: bool,
    /// Only shows what the command would add.
    #[arg(long)]
    dry_run: bool,
}

impl Add {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        let creations = self.creations()?;
        let entries: Vec<_> = creations.iter().map(Entry::made).collect();
        let mut cluster = target.cluster()?;
        if self.dry_run {
            let there = found(&mut cluster, &Filter::default())?;
            let planned = entries.iter().map(|entry| {
                let is_there = there.contains(entry);
                let words = if is_there {
                    "there already"
                } else {
                    "would be added"
                };
                CommandOutcome::would(&entry.line(), words)
            });
            return outcome::show(target.format, "ACL", &planned.collect::<Vec<_>>());
        }
        let outcomes = requests::added(&mut cluster, creations)?;
        outcome::show(target.format, "ACL", &outcomes)
    }

    /// Returns the ACLs, each once.
    fn creations(&self) -> anyhow::Result<Vec<AclCreation>> {
        let principals: Vec<_> = [
            (&self.allow_principal, PermissionType::Allow),
            (&self.deny_principal, PermissionType::Deny),
        ]
        .into_iter()
        .flat_map(|(names, permission)| names.iter().map(move |name| (name, permission)))
        .collect();
        if principals.is_empty() {
            bail!("whose ACLs? --allow-principal or --deny-principal says whose");
        }
        let resources = self.resources()?;
        self.check_number(principals.len(), &resources)?;
        let every = ["*".to_owned()];
        let hosts = if self.host.is_empty() {
            &every[..]
        } else {
            &self.host
        };
        let (mut seen, mut creations) = (BTreeSet::new(), Vec::new());
        for (principal, permission) in principals {
            for host in hosts {
                for (resource, name) in &resources {
                    let pattern = self.pattern(*resource);
                    for operation in self.operations(*resource) {
                        let acl = creation(
                            (*resource, name, pattern),
                            (principal, host),
                            operation,
                            permission,
                        );
                        if seen.insert(Entry::made(&acl)) {
                            creations.push(acl);
                        }
                    }
                }
            }
        }
        Ok(creations)
    }

    /// Checks that one command does not make more ACLs than a cluster takes.
    fn check_number(
        &self,
        principals: usize,
        resources: &[(ResourceType, &str)],
    ) -> anyhow::Result<()> {
        let operations = resources
            .iter()
            .map(|(kind, _)| self.operations(*kind).len());
        let operations = operations.fold(0, usize::saturating_add);
        let number = principals
            .saturating_mul(self.host.len().max(1))
            .saturating_mul(operations);
        if number > ACLS_MAX {
            bail!("these options make {number} ACLs, and one command adds at most {ACLS_MAX}");
        }
        Ok(())
    }

    fn pattern(&self, resource: ResourceType) -> PatternType {
        if self.prefixed && resource != ResourceType::Cluster {
            PatternType::Prefixed
        } else {
            PatternType::Literal
        }
    }

    /// Returns the resources; each of them has an operation.
    fn resources(&self) -> anyhow::Result<Vec<(ResourceType, &str)>> {
        let lists = [
            (ResourceType::Topic, &self.topic),
            (ResourceType::Group, &self.group),
            (ResourceType::TransactionalId, &self.transactional_id),
        ];
        let named = lists
            .into_iter()
            .flat_map(|(resource, names)| names.iter().map(move |name| (resource, name.as_str())));
        let cluster = self
            .cluster
            .then_some((ResourceType::Cluster, CLUSTER_NAME));
        let resources: Vec<_> = named.chain(cluster).collect();
        if resources.is_empty() {
            bail!("on what? --topic, --group, --transactional-id or --cluster says on what");
        }
        if self.consumer && (self.topic.is_empty() || self.group.is_empty()) {
            bail!("--consumer needs --topic and --group");
        }
        if self.producer && self.topic.is_empty() {
            bail!("--producer needs --topic");
        }
        for (resource, name) in &resources {
            if self.operations(*resource).is_empty() {
                bail!("{resource} {name}: --operation says which operation");
            }
        }
        Ok(resources)
    }

    fn operations(&self, resource: ResourceType) -> Vec<Operation> {
        use Operation::{Create, Describe, Read, Write};
        let mut operations = self.operation.clone();
        if self.producer {
            operations.extend(match resource {
                ResourceType::Topic => &[Write, Describe, Create][..],
                ResourceType::TransactionalId => &[Write, Describe],
                _ => &[],
            });
        }
        if self.consumer {
            operations.extend(match resource {
                ResourceType::Topic => &[Read, Describe][..],
                ResourceType::Group => &[Read],
                _ => &[],
            });
        }
        operations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn lines(add: &Add) -> Vec<String> {
        let creations = add.creations().unwrap();
        creations
            .iter()
            .map(|acl| Entry::made(acl).line())
            .collect()
    }

    #[test]
    fn a_producer_and_a_consumer_get_what_kafkas_tool_gives_them() {
        let both = Add {
            allow_principal: some(&["User:ada"]),
            topic: some(&["orders"]),
            group: some(&["g"]),
            transactional_id: some(&["x"]),
            producer: true,
            consumer: true,
            ..Add::default()
        };
        let expected = [
            "ALLOW User:ada from *: WRITE TOPIC orders (LITERAL)",
            "ALLOW User:ada from *: DESCRIBE TOPIC orders (LITERAL)",
            "ALLOW User:ada from *: CREATE TOPIC orders (LITERAL)",
            "ALLOW User:ada from *: READ TOPIC orders (LITERAL)",
            "ALLOW User:ada from *: READ GROUP g (LITERAL)",
            "ALLOW User:ada from *: WRITE TRANSACTIONAL_ID x (LITERAL)",
            "ALLOW User:ada from *: DESCRIBE TRANSACTIONAL_ID x (LITERAL)",
        ];
        assert_eq!(lines(&both), expected);
    }

    #[test]
    fn there_is_one_for_each_principal_host_resource_and_operation() {
        let add = Add {
            deny_principal: some(&["User:a", "User:b"]),
            host: some(&["10.0.0.1", "10.0.0.2"]),
            topic: some(&["t"]),
            cluster: true,
            prefixed: true,
            operation: vec![Operation::Alter, Operation::Alter],
            ..Add::default()
        };
        let lines = lines(&add);
        assert_eq!(lines.len(), 8, "{lines:?}");
        assert_eq!(
            lines[0],
            "DENY User:a from 10.0.0.1: ALTER TOPIC t (PREFIXED)"
        );
        assert_eq!(
            lines[1],
            "DENY User:a from 10.0.0.1: ALTER CLUSTER kafka-cluster (LITERAL)"
        );
    }

    #[test]
    fn more_acls_than_a_cluster_takes_are_refused_before_they_are_made() {
        let many = |letter: &str| (0..1000).map(|id| format!("{letter}{id}")).collect();
        let mut add = Add {
            allow_principal: many("User:"),
            topic: many("t"),
            operation: vec![Operation::Read],
            ..Add::default()
        };
        let told = add.creations().unwrap_err().to_string();
        assert!(
            told.contains("1000000") && told.contains("100000"),
            "{told}"
        );
        add.topic.truncate(100);
        assert_eq!(add.creations().unwrap().len(), ACLS_MAX);
    }

    #[test]
    fn what_is_missing_is_said() {
        let told = |add: &Add| add.creations().unwrap_err().to_string();
        let mut add = Add::default();
        assert!(told(&add).contains("--allow-principal"));
        add.allow_principal = some(&["User:a"]);
        assert!(told(&add).contains("--topic"));
        add.group = some(&["g"]);
        add.producer = true;
        assert!(told(&add).contains("--producer needs --topic"));
        add.topic = some(&["t"]);
        assert!(told(&add).contains("GROUP g: --operation"));
    }
}
