//! What Kafka's `StandardAuthorizer` decides in the cases that people get wrong.

use super::super::given::{acl, acls, closed};
use super::*;

const HERE: &str = "10.0.0.1";

fn ask<'a>(
    policy: &Policy,
    acls: &'a [AclBinding],
    (principal, address): (&str, &str),
    (operation, resource_type, name): (Operation, ResourceType, &str),
) -> Decision<'a> {
    let principal = Principal::parse(principal).unwrap();
    let client = Client::new(&principal, address.parse().unwrap());
    let action = Action {
        operation,
        resource_type,
        name,
    };
    decide(policy, acls, &client, &action)
}

/// Checks the answer to `User:a` about a topic, and that it does not depend on the order of the
/// ACLs.
#[track_caller]
fn topic(texts: &[&str], operation: Operation, name: &str, why: &str) {
    let mut acls = acls(texts);
    for _ in 0..2 {
        let asked = (operation, ResourceType::Topic, name);
        let decision = ask(&closed(""), &acls, ("User:a", HERE), asked);
        assert_eq!(decision.to_string(), why);
        let is_allowed = why.starts_with("ALLOW");
        assert_eq!(decision.is_allowed(), is_allowed);
        acls.reverse();
    }
}

const NO_ACL: &str = "no ACL for the resource";
const NO_MATCH: &str = "no ACL that permits it";

#[test]
fn one_ban_is_stronger_than_all_permissions() {
    let texts = [
        "ALLOW ALL LITERAL TOPIC orders User:a *",
        "ALLOW ALL LITERAL TOPIC * User:* *",
        "DENY WRITE PREFIXED TOPIC ord User:* *",
    ];
    topic(
        &texts,
        Operation::Write,
        "orders",
        r#"DENY WRITE on PREFIXED TOPIC "ord" to "User:*" from "*""#,
    );
    topic(
        &texts,
        Operation::Read,
        "orders",
        r#"ALLOW ALL on LITERAL TOPIC "orders" to "User:a" from "*""#,
    );
    topic(
        &texts,
        Operation::Read,
        "invoices",
        r#"ALLOW ALL on LITERAL TOPIC "*" to "User:*" from "*""#,
    );
}

#[test]
fn who_may_change_may_look_unless_looking_is_forbidden() {
    let read = "ALLOW READ LITERAL TOPIC orders User:a *";
    let why = r#"ALLOW READ on LITERAL TOPIC "orders" to "User:a" from "*""#;
    topic(&[read], Operation::Describe, "orders", why);
    topic(&[read], Operation::DescribeConfigs, "orders", NO_MATCH);
    topic(
        &[read, "DENY DESCRIBE LITERAL TOPIC orders User:a *"],
        Operation::Describe,
        "orders",
        r#"DENY DESCRIBE on LITERAL TOPIC "orders" to "User:a" from "*""#,
    );
    // The ban of reading is none of looking.
    topic(
        &[
            "DENY READ LITERAL TOPIC orders User:a *",
            "ALLOW WRITE LITERAL TOPIC orders User:a *",
        ],
        Operation::Describe,
        "orders",
        r#"ALLOW WRITE on LITERAL TOPIC "orders" to "User:a" from "*""#,
    );
    topic(
        &["ALLOW ALTER_CONFIGS LITERAL TOPIC orders User:a *"],
        Operation::DescribeConfigs,
        "orders",
        r#"ALLOW ALTER_CONFIGS on LITERAL TOPIC "orders" to "User:a" from "*""#,
    );
}

#[test]
fn an_acl_is_for_its_principal_and_everyone_is_every_type() {
    let texts = ["ALLOW READ LITERAL TOPIC orders User:b *"];
    topic(&texts, Operation::Read, "orders", NO_MATCH);
    // The name in the ACL is no pattern.
    let texts = ["ALLOW READ LITERAL TOPIC orders Group:* *"];
    topic(&texts, Operation::Read, "orders", NO_MATCH);
    let everyone = [acl("ALLOW READ LITERAL TOPIC orders User:* *")];
    let asked = (Operation::Read, ResourceType::Topic, "orders");
    for principal in ["User:a", "Group:a", "User:ANONYMOUS"] {
        let decision = ask(&closed(""), &everyone, (principal, HERE), asked);
        assert_eq!(decision.acl(), Some(&everyone[0]), "{principal}");
    }
}

#[test]
fn an_acl_is_for_its_host() {
    let list = acls(&[
        "ALLOW READ LITERAL TOPIC orders User:a 10.0.0.1",
        "ALLOW READ LITERAL TOPIC orders User:a 0:0:0:0:0:0:0:1",
    ]);
    let asked = (Operation::Read, ResourceType::Topic, "orders");
    for (address, allowed) in [
        ("10.0.0.1", true),
        ("::ffff:10.0.0.1", true),
        ("10.0.0.2", false),
        ("::1", true),
        ("::2", false),
    ] {
        let decision = ask(&closed(""), &list, ("User:a", address), asked);
        assert_eq!(decision.is_allowed(), allowed, "{address}");
    }
}

#[test]
fn a_resource_without_acls_is_left_to_the_setting() {
    let list = acls(&[
        "ALLOW READ LITERAL TOPIC orders User:b 10.9.9.9",
        "ALLOW READ LITERAL GROUP g User:b *",
    ]);
    let open = Policy {
        is_open_without_acl: true,
        ..Policy::default()
    };
    let asked = |name| (Operation::Write, ResourceType::Topic, name);
    let client = ("User:a", HERE);
    for (policy, allowed) in [(&open, true), (&closed(""), false)] {
        let decision = ask(policy, &list, client, asked("invoices"));
        assert_eq!(decision, Decision::NoAcl { allowed });
        assert_eq!(decision.is_allowed(), allowed);
        assert_eq!(decision.to_string(), NO_ACL);
        // Any ACL on the name counts, though it is for others and for another operation.
        let decision = ask(policy, &list, client, asked("orders"));
        assert_eq!(decision, Decision::NoMatch);
        // A group of this name is no topic.
        let decision = ask(policy, &list, client, asked("g"));
        assert_eq!(decision, Decision::NoAcl { allowed });
    }
    for fits in ["LITERAL TOPIC *", "PREFIXED TOPIC inv"] {
        let list = [acl(&format!("DENY ALTER {fits} User:b *"))];
        let decision = ask(&open, &list, client, asked("invoices"));
        assert_eq!(decision, Decision::NoMatch, "{fits}");
    }
}

#[test]
fn super_users_may_do_what_is_forbidden() {
    let deny = [acl("DENY ALL LITERAL CLUSTER kafka-cluster User:* *")];
    let asked = (Operation::Alter, ResourceType::Cluster, "kafka-cluster");
    let policy = closed("User:admin;User:ops");
    let decision = ask(&policy, &deny, ("User:ops", HERE), asked);
    assert_eq!(decision, Decision::SuperUser);
    // The type is a part of the principal, and case counts.
    for principal in ["Group:ops", "User:OPS", "User:*"] {
        let decision = ask(&policy, &deny, (principal, HERE), asked);
        assert_eq!(decision, Decision::Denied(&deny[0]), "{principal}");
    }
}

#[test]
fn the_closest_acl_is_the_one_that_is_told() {
    let mut texts = vec![
        "ALLOW READ LITERAL TOPIC * User:a *",
        "ALLOW READ PREFIXED TOPIC o User:a *",
        "ALLOW READ PREFIXED TOPIC ord User:a *",
        "ALLOW READ LITERAL TOPIC orders User:a *",
    ];
    while let Some(closest) = texts.last() {
        let pattern = closest.strip_prefix("ALLOW READ ").unwrap();
        let pattern = pattern.strip_suffix(" User:a *").unwrap();
        let (pattern, name) = pattern.rsplit_once(' ').unwrap();
        let why = format!(r#"ALLOW READ on {pattern} "{name}" to "User:a" from "*""#);
        topic(&texts, Operation::Read, "orders", &why);
        texts.pop();
    }
}

#[test]
fn an_acl_that_cannot_be_understood_is_an_acl_all_the_same() {
    let open = Policy {
        is_open_without_acl: true,
        ..Policy::default()
    };
    let read = (Operation::Read, ResourceType::Topic, "orders");
    let asks = |text: &str| {
        let list = [acl(text)];
        let decision = ask(&open, &list, ("User:alice", HERE), read);
        assert!(!decision.is_allowed(), "{text}");
        decision.to_string()
    };
    // Without them, every client could read.
    assert!(ask(&open, &[], ("User:alice", HERE), read).is_allowed());
    assert_eq!(asks("ALLOW READ LITERAL TOPIC orders alice *"), NO_MATCH);
    assert_eq!(asks("DENY READ LITERAL TOPIC orders alice *"), NO_MATCH);
    assert_eq!(asks("ALLOW 99 PREFIXED TOPIC o User:alice *"), NO_MATCH);
    assert_eq!(asks("9 99 LITERAL TOPIC * User:alice *"), NO_MATCH);
    // What is no known permission forbids what it names, to those for whom it is.
    let forbids = "9 READ LITERAL TOPIC orders User:* *";
    let why = r#"UNKNOWN(9) READ on LITERAL TOPIC "orders" to "User:*" from "*""#;
    assert_eq!(asks(forbids), why);
    let all = "ALLOW ALL LITERAL TOPIC orders User:a *";
    topic(&[all, forbids], Operation::Read, "orders", why);
    let why = r#"ALLOW ALL on LITERAL TOPIC "orders" to "User:a" from "*""#;
    topic(&[all, forbids], Operation::Describe, "orders", why);
    for other in [
        "9 READ LITERAL TOPIC orders User:b *",
        "9 READ LITERAL TOPIC orders User:a 10.9.9.9",
        "9 WRITE LITERAL TOPIC orders User:a *",
        "9 99 LITERAL TOPIC orders User:a *",
    ] {
        topic(&[all, other], Operation::Read, "orders", why);
    }
    // An interface cannot be compared, so it is the address to which it forbids.
    let list = acls(&[
        "ALLOW ALL LITERAL TOPIC orders User:* *",
        "9 READ LITERAL TOPIC orders User:* fe80::1%eth0",
    ]);
    assert!(!ask(&open, &list, ("User:a", "fe80::1"), read).is_allowed());
}

#[track_caller]
fn any_topic(policy: &Policy, texts: &[&str], why: &str) {
    let acls = acls(texts);
    let user = Principal::user("a");
    let client = Client::new(&user, HERE.parse().unwrap());
    let decision = decide_any(
        policy,
        &acls,
        &client,
        Operation::Write,
        ResourceType::Topic,
    );
    assert_eq!(decision.to_string(), why);
}

#[test]
fn one_topic_is_enough_for_an_idempotent_producer() {
    let check = |texts: &[&str], why: &str| any_topic(&closed(""), texts, why);
    let literal = "ALLOW WRITE LITERAL TOPIC orders User:a *";
    let literal_why = r#"ALLOW WRITE on LITERAL TOPIC "orders" to "User:a" from "*""#;
    let prefixed = "ALLOW ALL PREFIXED TOPIC ord User:* *";
    let prefixed_why = r#"ALLOW ALL on PREFIXED TOPIC "ord" to "User:*" from "*""#;
    check(&[], NO_MATCH);
    check(&[literal], literal_why);
    check(&[prefixed], prefixed_why);
    check(&["ALLOW WRITE LITERAL TOPIC orders User:b *"], NO_MATCH);
    check(&["ALLOW WRITE LITERAL GROUP orders User:a *"], NO_MATCH);
    check(&["ALLOW READ LITERAL TOPIC orders User:a *"], NO_MATCH);
    check(&["ALLOW WRITE LITERAL TOPIC orders User:a ::1"], NO_MATCH);
    // A ban on every topic, and one of every operation.
    for operation in ["WRITE", "ALL"] {
        let deny = format!("DENY {operation} LITERAL TOPIC * User:a *");
        let why = format!(r#"DENY {operation} on LITERAL TOPIC "*" to "User:a" from "*""#);
        check(&[literal, prefixed, &deny], &why);
    }
    // Bans that leave nothing, and bans that leave something.
    check(
        &[literal, "DENY WRITE LITERAL TOPIC orders User:* *"],
        NO_MATCH,
    );
    check(
        &[literal, "DENY WRITE PREFIXED TOPIC orders User:a *"],
        NO_MATCH,
    );
    check(
        &[literal, "DENY WRITE PREFIXED TOPIC orders- User:a *"],
        literal_why,
    );
    check(
        &[literal, "DENY READ PREFIXED TOPIC o User:a *"],
        literal_why,
    );
    check(
        &[literal, "DENY WRITE PREFIXED TOPIC o User:a ::1"],
        literal_why,
    );
    check(&[prefixed, "DENY ALL PREFIXED TOPIC o User:a *"], NO_MATCH);
    check(
        &[prefixed, "DENY ALL PREFIXED TOPIC ord User:a *"],
        NO_MATCH,
    );
    check(
        &[prefixed, "DENY ALL PREFIXED TOPIC orde User:a *"],
        prefixed_why,
    );
    // What is no known permission forbids here too.
    check(&[prefixed, "9 WRITE PREFIXED TOPIC o User:a *"], NO_MATCH);
    check(&[prefixed, "9 99 PREFIXED TOPIC o User:a *"], prefixed_why);
    check(&["ALLOW 99 PREFIXED TOPIC ord User:a *"], NO_MATCH);
    // Topics with this prefix have other names too.
    check(
        &[prefixed, "DENY ALL LITERAL TOPIC ord User:a *"],
        prefixed_why,
    );
}

#[test]
fn a_permission_for_every_topic_is_enough_whatever_some_bans_leave() {
    let everywhere = "ALLOW WRITE LITERAL TOPIC * User:a *";
    let why = r#"ALLOW WRITE on LITERAL TOPIC "*" to "User:a" from "*""#;
    any_topic(
        &closed(""),
        &[everywhere, "DENY WRITE PREFIXED TOPIC h User:a *"],
        why,
    );
}

#[test]
fn a_ban_on_the_empty_prefix_leaves_no_topic() {
    // Only an older release stored it. Kafka passes over it where any topic is asked for.
    let mut list = acls(&[
        "ALLOW WRITE LITERAL TOPIC orders User:a *",
        "DENY WRITE PREFIXED TOPIC - User:a *",
    ]);
    list[1].pattern.name = "".into();
    let user = Principal::user("a");
    let client = Client::new(&user, HERE.parse().unwrap());
    let (write, topic) = (Operation::Write, ResourceType::Topic);
    let decision = decide_any(&closed(""), &list, &client, write, topic);
    assert_eq!(decision, Decision::NoMatch);
    let asked = (write, topic, "orders");
    let decision = ask(&closed(""), &list, ("User:a", HERE), asked);
    assert_eq!(decision, Decision::Denied(&list[1]));
}

#[test]
fn any_topic_is_open_to_super_users_and_where_the_setting_says_so() {
    let deny = "DENY ALL LITERAL TOPIC * User:* *";
    any_topic(&closed("User:a"), &[deny], "super user");
    let open = Policy {
        is_open_without_acl: true,
        ..Policy::default()
    };
    any_topic(&open, &["DENY ALL LITERAL TOPIC orders User:a *"], NO_ACL);
    any_topic(
        &open,
        &[deny],
        r#"DENY ALL on LITERAL TOPIC "*" to "User:*" from "*""#,
    );
}
