//! The index decides as the plain function does, however it was made.

use std::iter;
use std::net::IpAddr;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::given::{acl, closed};
use super::super::{
    Host, PatternType, PermissionType, ResourcePattern, StoredCode, decide, decide_any,
};
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

/// Returns principals of stored ACLs; some no client can have.
fn stored_principal() -> impl Strategy<Value = Principal> {
    let incomplete = select(vec!["alice", "User", ""]).prop_map(Principal::stored);
    prop_oneof![9 => principal(), 1 => incomplete]
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::{All, AlterConfigs, Describe, DescribeConfigs, Read, Write};
    prop_oneof![
        3 => select(vec![All, AlterConfigs, Describe, DescribeConfigs, Read, Write]),
        1 => select(Operation::ALL),
    ]
}

/// Returns codes of stored ACLs; some are not known.
fn stored<T: Copy + std::fmt::Debug + 'static>(
    known: impl Strategy<Value = T>,
) -> impl Strategy<Value = StoredCode<T>> {
    let unknown = select(vec![-1_i8, 0, 1, 16, 99]).prop_map(StoredCode::Unknown);
    prop_oneof![9 => known.prop_map(StoredCode::Known), 1 => unknown]
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
        "::ffff:10.0.0.1",
        "fe80::1",
        "fe80:0:0:0:0:0:0:1%eth0",
        "::1%lo",
        "somewhere",
        "%",
        "",
    ]);
    let permission = prop_oneof![2 => Just(PermissionType::Allow), 1 => Just(PermissionType::Deny)];
    let (operation, permission) = (stored(operation()), stored(permission));
    let pattern = (resource_type(), name(), pattern_type);
    (pattern, stored_principal(), host, operation, permission).prop_map(
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

/// Checks that the index decides as the list does.
fn equals(
    index: &AclIndex,
    acls: &[AclBinding],
    policy: &Policy,
    questions: &[(Principal, IpAddr, Operation, ResourceType, String)],
) -> Result<(), TestCaseError> {
    prop_assert_eq!(index.count(), acls.len());
    for (principal, address, operation, resource_type, name) in questions {
        let client = Client::new(principal, *address);
        let action = Action {
            operation: *operation,
            resource_type: *resource_type,
            name,
        };
        prop_assert_eq!(
            index.decide(policy, &client, &action),
            decide(policy, acls, &client, &action)
        );
        prop_assert_eq!(
            index.decide_any(policy, &client, *operation, *resource_type),
            decide_any(policy, acls, &client, *operation, *resource_type)
        );
    }
    Ok(())
}

/// Makes the changes on a list, one after the other.
fn changed(mut acls: Vec<AclBinding>, changes: &[Change]) -> Vec<AclBinding> {
    for change in changes {
        match change {
            Change::Added(acl) => acls.push(AclBinding::clone(acl)),
            Change::Removed(acl) => {
                if let Some(at) = acls.iter().position(|own| own == &**acl) {
                    acls.swap_remove(at);
                }
            }
        }
    }
    acls
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn an_index_decides_as_the_list_does(
        acls in vec(binding(), 1..25),
        batches in vec(vec((any::<prop::sample::Index>(), any::<bool>()), 0..20), 0..4),
        policy in policy(),
        questions in vec(question(), 1..40),
    ) {
        let shared = shared(&acls);
        let first = AclIndex::new(&shared);
        equals(&first, &acls, &policy, &questions)?;
        let (mut index, mut list) = (first.clone(), acls.clone());
        for batch in &batches {
            // The same ACL comes and goes several times, also when it is not there.
            let changes: Vec<Change> = batch
                .iter()
                .map(|(which, is_added)| {
                    let acl = Arc::clone(which.get(&shared));
                    if *is_added { Change::Added(acl) } else { Change::Removed(acl) }
                })
                .collect();
            index = index.with(&changes);
            list = changed(list, &changes);
            equals(&index, &list, &policy, &questions)?;
        }
        equals(&first, &acls, &policy, &questions)?;
    }

    /// Many bans and permissions within each other, for one client.
    #[test]
    fn any_name_is_decided_as_the_list_does(
        acls in vec(
            ("[ab]{0,4}", select(PatternType::ALL), any::<bool>(), any::<bool>()).prop_map(
                |(name, pattern_type, is_own, allows)| {
                    let permission = if allows { "ALLOW" } else { "DENY" };
                    let user = if is_own { "User:a" } else { "User:*" };
                    let mut acl = acl(&format!("{permission} WRITE LITERAL TOPIC x {user} *"));
                    acl.pattern.name = name.into();
                    acl.pattern.pattern_type = pattern_type;
                    acl
                },
            ),
            0..12,
        ),
    ) {
        let index = AclIndex::new(&shared(&acls));
        let user = Principal::user("a");
        let client = Client::new(&user, [10, 0, 0, 1].into());
        let (write, topic) = (Operation::Write, ResourceType::Topic);
        prop_assert_eq!(
            index.decide_any(&closed(""), &client, write, topic),
            decide_any(&closed(""), &acls, &client, write, topic)
        );
        let by_names = |names_max| {
            let mut walk = NamesWalk::default();
            iter::repeat_with(|| {
                index.decide_any_by_names(&client, (write, topic), &mut walk, names_max)
            })
            .find_map(|decision| decision)
        };
        prop_assert_eq!(by_names(1), by_names(usize::MAX), "in pieces");
    }
}

/// Returns the decision whether `User:alice` may read the topic `orders`, where every topic without
/// ACLs is free for all.
fn reads(index: &AclIndex) -> Decision<'_> {
    let open = Policy {
        is_open_without_acl: true,
        ..Policy::default()
    };
    let user = Principal::user("alice");
    let client = Client::new(&user, [10, 0, 0, 1].into());
    let action = Action {
        operation: Operation::Read,
        resource_type: ResourceType::Topic,
        name: "orders",
    };
    index.decide(&open, &client, &action)
}

#[test]
fn a_topic_whose_only_acl_cannot_be_understood_is_not_open() {
    let free = Decision::NoAcl { allowed: true };
    assert_eq!(reads(&AclIndex::default()), free);
    for text in [
        "ALLOW READ LITERAL TOPIC orders alice *",
        "DENY 99 LITERAL TOPIC orders User:alice *",
        "ALLOW READ PREFIXED TOPIC ord User:alice somewhere",
        "9 99 LITERAL TOPIC * User:b *",
    ] {
        let one = Arc::new(acl(text));
        let index = AclIndex::new(&[Arc::clone(&one)]);
        assert_eq!(
            (index.count(), reads(&index)),
            (1, Decision::NoMatch),
            "{text}"
        );
        let without = index.with(&[Change::Removed(one)]);
        assert_eq!((without.count(), reads(&without)), (0, free), "{text}");
    }
    let forbids = Arc::new(acl("9 READ LITERAL TOPIC orders User:* *"));
    let allows = Arc::new(acl("ALLOW ALL LITERAL TOPIC orders User:alice *"));
    let index = AclIndex::new(&[allows, Arc::clone(&forbids)]);
    assert_eq!(reads(&index), Decision::Denied(&forbids));
}

#[test]
fn changes_are_made_in_their_order() {
    let one = Arc::new(acl("ALLOW READ LITERAL TOPIC orders User:alice *"));
    let (added, removed) = (
        Change::Added(Arc::clone(&one)),
        Change::Removed(Arc::clone(&one)),
    );
    let made = |changes: &[&Change]| {
        let changes: Vec<Change> = changes.iter().copied().cloned().collect();
        AclIndex::default().with(&changes).count()
    };
    // What goes before it is there does not take what comes later with it.
    assert_eq!(made(&[&removed, &added]), 1);
    assert_eq!(made(&[&added, &removed]), 0);
    assert_eq!(made(&[&added, &removed, &removed, &added, &added]), 2);
    let moved = AclIndex::new(&[one]).with(&[removed, added]);
    assert!(reads(&moved).is_allowed());
}

#[test]
fn what_changes_nothing_copies_nothing() {
    let acls = shared(&[
        acl("ALLOW READ LITERAL TOPIC orders User:a *"),
        acl("ALLOW READ LITERAL GROUP g User:a *"),
    ]);
    let [topic, group] = &acls[..] else {
        panic!("two ACLs");
    };
    let index = AclIndex::new(&acls);
    let is_shared = |other: &AclIndex, resource_type| {
        Arc::ptr_eq(&index.types[&resource_type], &other.types[&resource_type])
    };
    let (add, remove) = (
        |acl: &Arc<AclBinding>| Change::Added(Arc::clone(acl)),
        |acl: &Arc<AclBinding>| Change::Removed(Arc::clone(acl)),
    );
    let absent = Arc::new(acl("ALLOW READ LITERAL TOPIC orders User:nobody *"));
    for nothing in [
        vec![],
        vec![remove(&absent)],
        vec![add(topic), remove(topic)],
        vec![remove(&absent), remove(topic), add(topic)],
    ] {
        let same = index.with(&nothing);
        assert!(is_shared(&same, ResourceType::Topic), "{nothing:?}");
    }
    let other = index.with(&[remove(group)]);
    assert!(is_shared(&other, ResourceType::Topic));
    assert_eq!(other.count(), 1);
}

#[test]
fn a_decision_looks_at_no_acl_of_another_address_or_principal() {
    let each = |number: usize| {
        let host = format!("10.0.{}.{}", number / 250, number % 250);
        ["User:a", "User:*", "User:b"]
            .map(|user| acl(&format!("ALLOW READ PREFIXED TOPIC ord {user} {host}")))
    };
    let acls: Vec<AclBinding> = (0..5_000).flat_map(each).collect();
    let index = AclIndex::new(&shared(&acls));
    let user = Principal::user("a");
    for (address, looks) in [([10, 0, 3, 3], 2), ([10, 9, 9, 9], 0)] {
        let client = Client::new(&user, address.into());
        let topics = &index.types[&ResourceType::Topic];
        assert_eq!(topics.concerning(&client, "orders").count(), looks);
    }
}

#[test]
fn an_acl_that_is_there_twice_is_in_force_until_both_are_gone() {
    let one = [Arc::new(acl("ALLOW READ LITERAL TOPIC orders User:a *"))];
    let goes = [Change::Removed(Arc::clone(&one[0]))];
    let twice = AclIndex::new(&one).with(&[Change::Added(Arc::clone(&one[0]))]);
    assert_eq!(twice.count(), 2);
    let user = Principal::user("a");
    let client = Client::new(&user, [10, 0, 0, 1].into());
    let action = Action {
        operation: Operation::Read,
        resource_type: ResourceType::Topic,
        name: "orders",
    };
    let once = twice.with(&goes);
    let decision = once.decide(&closed(""), &client, &action);
    assert_eq!(decision, Decision::Allowed(&one[0]));
    let none = once.with(&goes).with(&goes);
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
        index = index.with(&[Change::Removed(Arc::new(acl.clone()))]);
    }
    assert!(!decides(&index, 49, 49) && decides(&index, 50, 50));
    assert!(decides(&older, 49, 49), "an index never changes");
}
