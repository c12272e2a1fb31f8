//! What is shown of an answer, and what is asked for it.

use wire::messages::describe_acls_response::{AclDescription, DescribeAclsResource};

use super::verdict::tests::{question, rights};
use super::*;
use crate::ask::{Peer, text as words};

fn told(open: Option<bool>, acls: &[&str]) -> ToldRights {
    ToldRights {
        known: rights(open, acls),
        ..ToldRights::default()
    }
}

#[test]
fn the_rule_is_named_and_so_is_what_it_overrides() {
    let told = told(
        Some(false),
        &[
            "ALLOW READ LITERAL TOPIC orders User:ada *",
            "DENY ALL PREFIXED TOPIC or User:* *",
        ],
    );
    let shown = explain(&question("User:ada * DESCRIBE TOPIC orders"), &told);
    assert_eq!(shown.verdict, Answer::Denied);
    let rule = shown.rule.as_ref().unwrap().line();
    assert_eq!(rule, "DENY User:* from *: ALL TOPIC or (PREFIXED)");
    assert_eq!(shown.overridden.len(), 1);
    assert!(shown.notes[0].contains("super.users"), "{:?}", shown.notes);
    let text = text(&shown);
    assert!(text.starts_with("denied"), "{text}");
    assert!(text.contains("overridden  ALLOW User:ada"), "{text}");
}

#[test]
fn an_implied_right_and_a_missing_setting_are_explained() {
    let implied = told(Some(false), &["ALLOW WRITE LITERAL TOPIC t User:ada *"]);
    let shown = explain(&question("User:ada * DESCRIBE TOPIC t"), &implied);
    assert!(
        shown.because.contains("WRITE, which implies DESCRIBE"),
        "{}",
        shown.because
    );
    let unknown = explain(&question("User:ada * READ GROUP g"), &told(None, &[]));
    assert_eq!(unknown.verdict, Answer::Unknown);
    assert!(unknown.because.contains(OPEN), "{}", unknown.because);
    let none = ToldRights {
        has_no_authorizer: true,
        ..ToldRights::default()
    };
    let shown = explain(&question("User:ada * READ GROUP g"), &none);
    assert_eq!(shown.verdict, Answer::Allowed);
    assert!(shown.because.contains("no authorizer"));
}

#[test]
fn settings_are_taken_if_they_are_told() {
    let setting = |name: &str, value: Option<&str>| configs::Setting {
        name: name.to_owned(),
        value: value.map(str::to_owned),
        source: "static",
        read_only: true,
    };
    let mut told = ToldRights::default();
    // As Kafka answers: it knows neither setting, and hides what it does not know.
    take_settings(
        &[setting(OPEN, None), setting(SUPER_USERS, None)],
        &mut told,
    );
    assert_eq!(told.known.is_open_without_acl, None);
    assert_eq!(told.known.super_users, None);
    let all = [
        setting(OPEN, Some("true")),
        setting(SUPER_USERS, Some("User:root")),
        setting(CLASS, Some("org.example.Other")),
        setting(MODE, Some("log")),
    ];
    take_settings(&all, &mut told);
    assert_eq!(told.known.is_open_without_acl, Some(true));
    assert!(told.known.super_users.is_some());
    assert_eq!(told.notes.len(), 2, "{:?}", told.notes);
}

#[test]
fn names_of_a_broker_forge_no_line() {
    let hostile = "x\x1b[2J\nallowed User:ada";
    let acl = AclDescription::default()
        .with_principal(words("User:ada"))
        .with_host(words(hostile))
        .with_operation(Operation::Read.code())
        .with_permission_type(PermissionType::Allow.code());
    let resource = |name: &str, pattern: i8| {
        DescribeAclsResource::default()
            .with_resource_type(2)
            .with_resource_name(words(name))
            .with_pattern_type(pattern)
            .with_acls(vec![acl.clone()])
    };
    let answer = DescribeAclsResponse::default()
        .with_resources(vec![resource("t", 3), resource(hostile, 99)]);
    let mut told = ToldRights::default();
    take_acls(&answer, &mut told);
    assert_eq!((told.known.acls.len(), told.notes.len()), (1, 1));
    let shown = text(&explain(&question("User:ada 10.0.0.1 READ TOPIC t"), &told));
    assert!(
        !shown.contains('\x1b') && !shown.contains("\nallowed"),
        "{shown}"
    );
    assert!(shown.contains("near miss"), "{shown}");
}

#[test]
fn a_refusal_says_which_right_is_missing() {
    let refused = DescribeAclsResponse::default().with_error_code(31);
    let peer = Peer::start(move |asked| asked.to(|_: DescribeAclsRequest| refused.clone()));
    let asked = question("User:ada * READ TOPIC t");
    let error = ask(&mut peer.cluster(), &asked).unwrap_err();
    let error = format!("{error:#}");
    assert!(error.contains("DESCRIBE the cluster"), "{error}");
    assert!(error.contains("CLUSTER_AUTHORIZATION_FAILED"), "{error}");
    let off = DescribeAclsResponse::default().with_error_code(54);
    let peer = Peer::start(move |asked| {
        asked.to(|request: DescribeAclsRequest| {
            // All ACLs of the type: near misses have other names and principals.
            assert_eq!(request.resource_type_filter, 2);
            assert_eq!(request.resource_name_filter, None);
            assert_eq!(request.principal_filter, None);
            assert_eq!(request.host_filter, None);
            off.clone()
        })
    });
    assert!(ask(&mut peer.cluster(), &asked).unwrap().has_no_authorizer);
}
