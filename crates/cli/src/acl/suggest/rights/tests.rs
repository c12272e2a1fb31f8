//! What is proposed for rights that were asked for.

use std::sync::Arc;

use proptest::prelude::*;
use wire::acl::{AclBinding, AclIndex, Action, Client, Policy, Principal, RawAcl};

use super::super::words::forebay;
use super::*;

fn right(
    principal: &str,
    operation: Operation,
    resource: ResourceType,
    name: &str,
) -> LoggedDenial {
    LoggedDenial {
        principal: principal.to_owned(),
        address: "10.0.0.1".to_owned(),
        resource_type: resource,
        name: name.to_owned(),
        operation,
        unsaid: 0,
        is_audited: false,
    }
}

fn rights(lines: &[&str]) -> AskedRights {
    let mut asked = AskedRights::default();
    for line in lines {
        let words: Vec<_> = line.split(' ').collect();
        let [principal, operation, resource, name] = words[..] else {
            panic!("{line}: four words");
        };
        let operation = Operation::parse(operation).unwrap();
        let resource = ResourceType::parse(resource).unwrap();
        asked
            .add(right(principal, operation, resource, name))
            .unwrap();
    }
    asked
}

fn lines(asked: &[&str], prefixes: &[&str], by_host: bool) -> Vec<String> {
    let prefixes: Vec<_> = prefixes
        .iter()
        .map(|it| crate::resource::parse(it).unwrap())
        .collect();
    let of_each = rights(asked).of_each(&prefixes, by_host);
    let lines = of_each.iter().flat_map(|((principal, host), (_, grants))| {
        let each = grants
            .iter()
            .filter_map(|grant| forebay(principal, host, grant));
        each.map(|line| line.replace("forebay acl add --allow-principal ", ""))
            .collect::<Vec<_>>()
    });
    lines.collect()
}

#[test]
fn roles_are_proposed_where_all_of_their_rights_were_asked_for() {
    let asked = [
        "User:ada DESCRIBE TOPIC orders",
        "User:ada WRITE TOPIC orders",
        "User:ada CREATE TOPIC orders",
        "User:ada WRITE TRANSACTIONAL_ID pay",
        "User:ada IDEMPOTENT_WRITE CLUSTER kafka-cluster",
        "User:bob READ TOPIC orders",
        "User:bob READ GROUP readers",
        "User:bob DESCRIBE GROUP readers",
        "User:bob ALTER_CONFIGS TOPIC orders",
        "User:eve WRITE TOPIC logs",
        "User:eve DESCRIBE TOPIC logs",
        "User:eve DESCRIBE TOPIC other",
        "User:eve READ TOPIC plain",
    ];
    let expected = [
        "User:ada --topic orders --transactional-id pay --producer",
        "User:bob --topic orders --group readers --consumer",
        "User:bob --topic orders --operation alter-configs",
        "User:eve --topic plain --operation read",
        "User:eve --topic logs --operation write",
        "User:eve --topic other --operation describe",
    ];
    assert_eq!(lines(&asked, &[], false), expected);
}

#[test]
fn a_prefix_is_only_the_one_that_was_given() {
    let asked = [
        "User:ada READ TOPIC orders-1",
        "User:ada READ TOPIC orders-2",
        "User:ada READ GROUP orders-g",
    ];
    assert_eq!(
        lines(&asked, &[], false),
        ["User:ada --topic orders-1 --topic orders-2 --group orders-g --consumer"]
    );
    assert_eq!(
        lines(&asked, &["topic:orders-"], false),
        [
            "User:ada --group orders-g --operation read",
            "User:ada --topic orders- --operation read --prefixed"
        ]
    );
    assert_eq!(
        lines(&asked, &["topic:orders-", "group:o"], true),
        ["User:ada --host 10.0.0.1 --topic orders- --group o --consumer --prefixed"]
    );
}

#[test]
fn many_names_take_several_lines() {
    let names: Vec<_> = (0..=NAMES_MAX * 2)
        .map(|n| format!("User:a READ TOPIC t{n:03}"))
        .collect();
    let mut asked: Vec<&str> = names.iter().map(String::as_str).collect();
    asked.push("User:a READ GROUP g");
    let lines = lines(&asked, &[], false);
    assert_eq!(lines.len(), 3);
    assert!(
        lines
            .iter()
            .all(|line| line.ends_with("--group g --consumer")),
        "{lines:?}"
    );
}

/// The ACLs of a grant, as the commands make them.
fn acls(principal: &str, host: &str, grant: &Grant) -> Vec<Arc<AclBinding>> {
    use Operation::{Create, Describe, Read, Write};
    let of = |resource: ResourceType| match (&grant.role, resource) {
        (Role::Producer, ResourceType::Topic) => vec![Write, Describe, Create],
        (Role::Producer, _) => vec![Write, Describe],
        (Role::Consumer, ResourceType::Topic) => vec![Read, Describe],
        (Role::Consumer, _) => vec![Read],
        (Role::Operations(operations), _) => operations.clone(),
    };
    let each = grant.names.iter().flat_map(|(resource, names)| {
        let pairs = names
            .iter()
            .flat_map(|name| of(*resource).into_iter().map(move |it| (name, it)));
        pairs.map(|(name, operation)| {
            let raw = RawAcl {
                resource_type: resource.code(),
                name,
                pattern_type: grant.pattern.code(),
                principal,
                host,
                operation: operation.code(),
                permission: 3,
            };
            Arc::new(raw.validate().unwrap())
        })
    });
    each.collect()
}

proptest! {
    #[test]
    fn what_was_asked_for_is_permitted_and_nothing_else(
        asked in proptest::collection::vec((0..2_usize, 0..4_usize, 0..14_usize, 0..3_usize), 1..12),
        by_host in any::<bool>(),
    ) {
        use Operation::{Alter, AlterConfigs, Delete, Describe, DescribeConfigs, IdempotentWrite,
            Read, Write};
        const RESOURCES: [ResourceType; 4] = [
            ResourceType::Topic, ResourceType::Group, ResourceType::TransactionalId,
            ResourceType::Cluster,
        ];
        let named = |resource: usize, name: usize| {
            if resource == 3 { "kafka-cluster" } else { ["a", "ab", "c"][name] }
        };
        let mut rights = AskedRights::default();
        for &(user, resource, operation, name) in &asked {
            let principal = ["User:ada", "User:bob"][user];
            let operation = Operation::ALL[operation];
            // No request asks for ALL.
            if operation != Operation::All {
                let one = right(principal, operation, RESOURCES[resource], named(resource, name));
                rights.add(one).unwrap();
            }
        }
        let kept: Vec<_> = rights.0.keys().cloned().collect();
        let mut made = Vec::new();
        for ((principal, host), (_, grants)) in rights.of_each(&[], by_host) {
            made.extend(grants.iter().flat_map(|grant| acls(&principal, &host, grant)));
        }
        let index = AclIndex::new(&made);
        for user in ["User:ada", "User:bob"] {
            let principal = Principal::parse(user).unwrap();
            let writes = kept.iter().any(|it| it.principal == user
                && it.operation == Write && it.resource_type == ResourceType::Topic);
            let client = Client::new(&principal, "10.0.0.1".parse().unwrap());
            for (resource, &resource_type) in RESOURCES.iter().enumerate() {
                for name in 0..3 {
                    for &operation in Operation::ALL.iter().skip(1) {
                        let name = named(resource, name);
                        let action = Action { operation, resource_type, name };
                        let may = index.decide(&Policy::default(), &client, &action).is_allowed();
                        let was = |asked: Operation| {
                            kept.contains(&right(user, asked, resource_type, name))
                        };
                        let implied = match operation {
                            Describe => [Read, Write, Delete, Alter].into_iter().any(was),
                            DescribeConfigs => was(AlterConfigs),
                            _ => false,
                        };
                        let needed = was(operation) || implied;
                        if operation == IdempotentWrite && resource == 3 && writes {
                            continue;
                        }
                        prop_assert_eq!(may, needed, "{} {} {:?}", user, operation, action);
                    }
                }
            }
        }
    }
}
