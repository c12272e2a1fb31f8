//! The index decides as the plain function does, however it was made.

use std::net::IpAddr;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::given::{acl, closed};
use super::super::{Host, decide, decide_any};
use super::*;

fn shared(acls: &[AclBinding]) -> Vec<Arc<AclBinding>> {
    acls.iter().cloned().map(Arc::new).collect()
}

/// Returns names that are prefixes of each other, with the names that mean something special.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => "[ab]{1,3}",
        2 => select(vec!["*", "**", "*a", "hardcode", "hard", "h", "a-", "\u{e4}", "\u{e4}a"])
            .prop_map(str::to_owned),
        1 => Just(String::new()),
    ]
}

fn principal() -> impl Strategy<Value = Principal> {
    let texts = select(vec!["User:a", "User:b", "User:*", "Group:a", "Group:*"]);
    texts.prop_map(|text| Principal::parse(text).unwrap())
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::{All, AlterConfigs, Describe, DescribeConfigs, Read, Write};
    prop_oneof![
        3 => select(vec![All, AlterConfigs, Describe, DescribeConfigs, Read, Write]),
        1 => select(Operation::ALL),
    ]
}

fn resource_type() -> impl Strategy<Value = ResourceType> {
    prop_oneof![4 => Just(ResourceType::Topic), 1 => select(ResourceType::ALL)]
}

fn binding() -> impl Strategy<Value = AclBinding> {
    let pattern_type = select(PatternType::ALL);
    let host = select(vec![
        "*",
        "*",
        "*",
        "10.0.0.1",
        "10.0.0.2",
        "0:0:0:0:0:0:0:1",
        "::1",
        "fe80:0:0:0:0:0:0:1%eth0",
        "somewhere",
    ]);
    let permission = prop_oneof![2 => Just(PermissionType::Allow), 1 => Just(PermissionType::Deny)];
    let pattern = (resource_type(), name(), pattern_type);
    (pattern, principal(), host, operation(), permission).prop_map(
        |((resource_type, name, pattern_type), principal, host, operation, permission)| {
            AclBinding {
                pattern: ResourcePattern {
                    resource_type,
                    name: name.into(),
                    pattern_type,
                },
                principal,
                host: Host::new(host),
                operation,
                permission,
            }
        },
    )
}

fn policy() -> impl Strategy<Value = Policy> {
    let users = prop_oneof![4 => Just(""), 1 => Just("User:b")];
    (users, any::<bool>()).prop_map(|(users, is_open_without_acl)| Policy {
        is_open_without_acl,
        ..closed(users)
    })
}

fn question() -> impl Strategy<Value = (Principal, IpAddr, Operation, ResourceType, String)> {
    let addresses = ["10.0.0.1", "::ffff:10.0.0.1", "10.0.0.3", "::1", "fe80::1"];
    let addresses: Vec<IpAddr> = addresses.map(|text| text.parse().unwrap()).to_vec();
    (
        principal(),
        select(addresses),
        operation(),
        resource_type(),
        name(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn an_index_decides_as_the_list_does(
        acls in vec(binding(), 0..25),
        later in vec(binding(), 0..10),
        removed in vec(any::<prop::sample::Index>(), 0..12),
        policy in policy(),
        questions in vec(question(), 1..40),
    ) {
        let before = AclIndex::new(&shared(&acls));
        let mut left: Vec<AclBinding> = acls.iter().chain(&later).cloned().collect();
        let mut gone = Vec::new();
        for index in removed {
            if !left.is_empty() {
                gone.push(left.swap_remove(index.index(left.len())));
            }
        }
        // Somebody else's ACL, which is not there.
        let mut absent = gone.clone();
        absent.push(acl("ALLOW READ LITERAL TOPIC a User:nobody *"));
        let after = before.with(&shared(&later), &shared(&absent));
        prop_assert_eq!(before.count(), acls.len());
        prop_assert_eq!(after.count(), left.len());

        for (principal, address, operation, resource_type, name) in &questions {
            let client = Client::new(principal, *address);
            let action = Action { operation: *operation, resource_type: *resource_type, name };
            for (index, acls) in [(&before, &acls), (&after, &left)] {
                prop_assert_eq!(
                    index.decide(&policy, &client, &action),
                    decide(&policy, acls, &client, &action)
                );
                prop_assert_eq!(
                    index.decide_any(&policy, &client, *operation, *resource_type),
                    decide_any(&policy, acls, &client, *operation, *resource_type)
                );
            }
        }
    }
}

#[test]
fn an_acl_that_is_there_twice_is_in_force_until_both_are_gone() {
    let one = [Arc::new(acl("ALLOW READ LITERAL TOPIC orders User:a *"))];
    let twice = AclIndex::new(&one).with(&one, &[]);
    assert_eq!(twice.count(), 2);
    let user = Principal::user("a");
    let client = Client::new(&user, [10, 0, 0, 1].into());
    let action = Action {
        operation: Operation::Read,
        resource_type: ResourceType::Topic,
        name: "orders",
    };
    let once = twice.with(&[], &one);
    let decision = once.decide(&closed(""), &client, &action);
    assert_eq!(decision, Decision::Allowed(&one[0]));
    let none = once.with(&[], &one).with(&[], &one);
    assert_eq!(none.count(), 0);
    let decision = none.decide(&closed(""), &client, &action);
    assert_eq!(decision, Decision::NoAcl { allowed: false });
}

#[test]
fn ten_thousand_acls_are_indexed_and_each_decides_its_own() {
    let acls: Vec<AclBinding> = (0..10_000)
        .map(|number| {
            let user = number % 500;
            acl(&format!(
                "ALLOW READ PREFIXED TOPIC t{number}. User:u{user} *"
            ))
        })
        .collect();
    let mut index = AclIndex::new(&shared(&acls));
    assert_eq!(index.count(), 10_000);
    let decides = |index: &AclIndex, number: usize, user: usize| {
        let user = Principal::user(&format!("u{user}"));
        let client = Client::new(&user, [10, 0, 0, 1].into());
        let action = Action {
            operation: Operation::Read,
            resource_type: ResourceType::Topic,
            name: &format!("t{number}.x"),
        };
        index.decide(&closed(""), &client, &action).is_allowed()
    };
    for number in (0..10_000).step_by(97) {
        assert!(decides(&index, number, number % 500), "{number}");
        assert!(!decides(&index, number, (number + 1) % 500), "{number}");
    }
    let older = index.clone();
    for acl in &acls[..50] {
        index = index.with(&[], &[Arc::new(acl.clone())]);
    }
    assert!(!decides(&index, 49, 49) && decides(&index, 50, 50));
    assert!(decides(&older, 49, 49), "an index never changes");
}
