//! Verdicts against a plain reading of Kafka's rules, and against the index that the broker asks.

use std::sync::Arc;

use proptest::prelude::*;
use wire::acl::{AclIndex, PermissionType, RawAcl};

use super::*;

/// Reads `ALLOW READ LITERAL TOPIC orders User:a *`.
pub(in super::super) fn acl(line: &str) -> AclBinding {
    let words: Vec<_> = line.split(' ').collect();
    let [
        permission,
        operation,
        pattern,
        resource,
        name,
        principal,
        host,
    ] = words[..]
    else {
        panic!("{line}: seven words");
    };
    let raw = RawAcl {
        resource_type: ResourceType::parse(resource).unwrap().code(),
        name,
        pattern_type: PatternType::parse(pattern).unwrap().code(),
        principal,
        host,
        operation: Operation::parse(operation).unwrap().code(),
        permission: PermissionType::parse(permission).unwrap().code(),
    };
    raw.read().unwrap()
}

pub(in super::super) fn question(line: &str) -> Question {
    let words: Vec<_> = line.split(' ').collect();
    let [principal, host, operation, resource, name] = words[..] else {
        panic!("{line}: five words");
    };
    Question {
        principal: Principal::parse(principal).unwrap(),
        host: host.parse().ok(),
        operation: Operation::parse(operation).unwrap(),
        resource_type: ResourceType::parse(resource).unwrap(),
        name: name.to_owned(),
    }
}

pub(in super::super) fn rights(open: Option<bool>, acls: &[&str]) -> KnownRights {
    KnownRights {
        acls: acls.iter().map(|line| acl(line)).collect(),
        super_users: None,
        is_open_without_acl: open,
    }
}

#[track_caller]
fn check(known: &KnownRights, asked: &str, expect: Answer) {
    assert_eq!(judge(&question(asked), known).answer, expect, "{asked}");
}

#[test]
fn deny_comes_first_and_changes_imply_describing() {
    let known = rights(
        Some(false),
        &[
            "ALLOW READ LITERAL TOPIC orders User:ada *",
            "DENY WRITE PREFIXED TOPIC ord User:* *",
            "ALLOW ALL LITERAL TOPIC * User:bob *",
        ],
    );
    check(&known, "User:ada * READ TOPIC orders", Answer::Allowed);
    check(&known, "User:ada * DESCRIBE TOPIC orders", Answer::Allowed);
    check(&known, "User:ada * CREATE TOPIC orders", Answer::Denied);
    check(&known, "User:bob * WRITE TOPIC orders", Answer::Denied);
    check(&known, "User:bob * WRITE TOPIC other", Answer::Allowed);
    check(&known, "User:ada * READ TOPIC other", Answer::Denied);
}

#[test]
fn a_resource_without_acl_depends_on_a_setting() {
    let asked = "User:ada * READ GROUP g";
    check(&rights(Some(true), &[]), asked, Answer::Allowed);
    check(&rights(Some(false), &[]), asked, Answer::Denied);
    check(&rights(None, &[]), asked, Answer::Unknown);
    // An ACL of another principal takes the setting out of the question.
    let other = rights(None, &["ALLOW READ LITERAL GROUP g User:bob *"]);
    check(&other, asked, Answer::Denied);
    let mut root = rights(None, &["DENY ALL LITERAL GROUP * User:* *"]);
    root.super_users = Some([Principal::user("ada")].into());
    check(&root, asked, Answer::Allowed);
}

#[test]
fn without_an_address_those_are_named_where_the_answer_is_another() {
    let known = rights(
        Some(false),
        &[
            "ALLOW READ LITERAL TOPIC t User:ada 10.0.0.1",
            "ALLOW READ LITERAL TOPIC t User:ada 192.0.2.1",
            "DENY READ LITERAL TOPIC t User:* 10.0.0.9",
            "ALLOW READ LITERAL TOPIC t User:bob 10.0.0.7",
        ],
    );
    let verdict = judge(&question("User:ada * READ TOPIC t"), &known);
    assert_eq!(verdict.answer, Answer::Denied);
    let expected = ["10.0.0.1", "192.0.2.1"].map(|host| (host.parse().unwrap(), Answer::Allowed));
    assert_eq!(verdict.elsewhere, expected);
    let there = judge(&question("User:ada 10.0.0.1 READ TOPIC t"), &known);
    assert_eq!((there.answer, there.elsewhere), (Answer::Allowed, vec![]));
}

/// Kafka's rules, read as they are written: super users, DENY, ALLOW, no ACL at all.
fn plainly(question: &Question, host: IpAddr, known: &KnownRights) -> bool {
    use Operation::{All, Alter, AlterConfigs, Delete, Describe, DescribeConfigs, Read, Write};
    let no_one = BTreeSet::new();
    let super_users = known.super_users.as_ref().unwrap_or(&no_one);
    if super_users.contains(&question.principal) {
        return true;
    }
    let mut any = false;
    let (mut denied, mut allowed) = (false, false);
    for acl in &known.acls {
        let name = &*acl.pattern.name;
        let fits = match acl.pattern.pattern_type {
            PatternType::Literal => name == "*" || name == question.name,
            PatternType::Prefixed => question.name.starts_with(name),
        };
        if acl.pattern.resource_type != question.resource_type || !fits {
            continue;
        }
        any = true;
        let who = acl.principal.as_str();
        let from = acl.host.as_str();
        if (who != "User:*" && who != question.principal.as_str())
            || (from != "*" && from.parse() != Ok(host))
        {
            continue;
        }
        let own = acl.operation.known().unwrap();
        let named = own == All || own == question.operation;
        let implied = match question.operation {
            Describe => matches!(own, Read | Write | Delete | Alter),
            DescribeConfigs => own == AlterConfigs,
            _ => false,
        };
        match acl.permission.known().unwrap() {
            PermissionType::Deny => denied |= named,
            PermissionType::Allow => allowed |= named || implied,
        }
    }
    !denied && (allowed || (!any && known.is_open_without_acl == Some(true)))
}

const NAMES: [&str; 5] = ["orders", "orders-eu", "or", "*", "x"];
const USERS: [&str; 4] = ["User:ada", "User:bob", "User:*", "Group:ada"];
const HOSTS: [&str; 4] = ["*", "10.0.0.1", "10.0.0.2", "::1"];

fn acls() -> impl Strategy<Value = Vec<AclBinding>> {
    let one = (
        0..NAMES.len(),
        0..USERS.len(),
        0..HOSTS.len(),
        0..14_usize,
        0..8_u8,
    );
    let one = one.prop_map(|(name, user, host, operation, bits)| {
        let kind = |bit: u8, yes, no| if bits & bit == 0 { yes } else { no };
        acl(&format!(
            "{} {} {} {} {} {} {}",
            kind(1, "ALLOW", "DENY"),
            Operation::ALL[operation].name(),
            kind(2, "LITERAL", "PREFIXED"),
            kind(4, "TOPIC", "GROUP"),
            NAMES[name],
            USERS[user],
            HOSTS[host],
        ))
    });
    proptest::collection::vec(one, 0..8)
}

proptest! {
    #[test]
    fn the_verdict_is_that_of_the_rules_and_of_the_brokers_index(
        acls in acls(), name in 0..NAMES.len(), user in 0..2_usize, host in 1..HOSTS.len(),
        operation in 1..14_usize, open in any::<bool>(), is_super in 0..4_u8
    ) {
        let principal = Principal::parse(USERS[user]).unwrap();
        let host: IpAddr = HOSTS[host].parse().unwrap();
        let question = Question {
            principal: principal.clone(),
            host: Some(host),
            operation: Operation::ALL[operation],
            resource_type: ResourceType::Topic,
            name: NAMES[name].to_owned(),
        };
        let super_users = (is_super == 0).then(|| BTreeSet::from([principal.clone()]));
        let known = KnownRights { acls, super_users, is_open_without_acl: Some(open) };
        let verdict = judge(&question, &known);
        let allowed = verdict.answer == Answer::Allowed;
        prop_assert_eq!(allowed, plainly(&question, host, &known));

        let shared: Vec<_> = known.acls.iter().cloned().map(Arc::new).collect();
        let policy = Policy {
            super_users: known.super_users.clone().unwrap_or_default(),
            is_open_without_acl: open,
        };
        let index = AclIndex::new(&shared);
        let client = Client::new(&principal, host);
        let decision = index.decide(&policy, &client, &question.action());
        prop_assert_eq!(decision, verdict.decision);

        // What is not known is not claimed.
        let unknown = KnownRights { is_open_without_acl: None, ..known.clone() };
        let cautious = judge(&question, &unknown).answer;
        prop_assert!(cautious == verdict.answer || cautious == Answer::Unknown);
    }
}
