//! The settings of the authorizer, and what a start says of them.

use std::sync::Arc;

use broker::authorizer::{Authorizer, AuthorizerMode};
use wire::acl::Principal;

use super::super::problem::Effect;
use super::tests::{check_refused, check_warned, resolve, settings};
use super::*;

const STANDARD: &str =
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n";
const SAFE: &str = "listeners=SAFE://:9092\n\
                    listener.security.protocol.map=SAFE:SASL_PLAINTEXT\n";
const PLAIN: &str = "listener.name.safe.sasl.enabled.mechanisms=PLAIN\n\
                     listener.name.safe.plain.sasl.jaas.config=\
                     org.apache.kafka.common.security.plain.PlainLoginModule required \
                     user_ada=\"hunter2\";\n";
const SCRAM: &str = "sasl.enabled.mechanisms=SCRAM-SHA-256\n";

fn authorizer(text: &str) -> Option<Arc<Authorizer>> {
    settings(text).broker_options(NodeId(1), &[9092]).authorizer
}

#[test]
fn the_settings_are_those_of_kafka_and_a_mode() {
    assert_eq!(authorizer(""), None);
    let text = format!(
        "{STANDARD}super.users= User:ada ; User:CN=b,O=c\nallow.everyone.if.no.acl.found=true\n"
    );
    let found = authorizer(&text).unwrap();
    let users = found.policy.super_users.iter();
    let users: Vec<&str> = users.map(Principal::as_str).collect();
    assert_eq!(users, ["User:CN=b,O=c", "User:ada"]);
    assert!(found.policy.is_open_without_acl);
    assert_eq!(found.mode, AuthorizerMode::Enforce);
    let log = authorizer(&format!("{STANDARD}authorizer.mode=log\n")).unwrap();
    assert_eq!(log.mode, AuthorizerMode::Log);
    assert!(!log.policy.is_open_without_acl && log.policy.super_users.is_empty());
}

#[test]
fn what_cannot_be_read_is_refused() {
    check_refused(
        "authorizer.class.name=acme.Doorman\nsuper.users=nobody",
        "server.properties:1: authorizer.class.name=acme.Doorman: must be empty or \
         org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    );
    check_refused(
        &format!("{STANDARD}super.users=User:ada;bob"),
        "server.properties:2: super.users=User:ada;bob: must be principals such as User:ada, with \
         ; between them: Could not parse principal from `bob` (no colon is present separating the \
         principal type from the principal name)",
    );
    check_refused(
        &format!("{STANDARD}authorizer.mode=dry"),
        "server.properties:2: authorizer.mode=dry: must be one of enforce, log",
    );
}

#[test]
fn settings_of_acls_without_authorizer_are_warned_of() {
    let none = "there is no authorizer: every client may do everything, whatever ACLs there are";
    for key in ["super.users=User:a", "allow.everyone.if.no.acl.found=false"] {
        let name = key.split('=').next().unwrap();
        check_warned(key, &[&format!("server.properties:1: {name}: {none}")]);
    }
    check_warned("super.users=", &[]);
}

#[test]
fn super_users_that_no_client_can_be_are_named() {
    let unreal = |listeners: &str, users: &str, said: &[&str]| {
        let text = format!("{STANDARD}super.users={users}\n{listeners}");
        let resolved = resolve(&text).unwrap();
        let about = resolved
            .warnings
            .iter()
            .filter(|one| one.key == "super.users");
        let about: Vec<_> = about.map(|one| one.why.as_str()).collect();
        assert_eq!(about, said, "{text}");
    };
    let plain = format!("{SAFE}{PLAIN}");
    let scram = format!("{SAFE}{SCRAM}");
    unreal(&plain, "User:ada", &[]);
    unreal(&scram, "User:whoever", &[]);
    unreal(
        &plain,
        "User:ada;User:bob;User:CN=x",
        &["names who no client can be: User:CN=x and 1 more"],
    );
    let group = "names who no client can be: Group:ada";
    unreal(&scram, "Group:ada;User:x", &[group]);
    let anonymous = "names who no client can be: User:ANONYMOUS";
    unreal(&plain, "User:ANONYMOUS;User:ada", &[anonymous]);
    unreal(
        "",
        "User:ANONYMOUS",
        &["with User:ANONYMOUS whoever reaches a listener without login may do everything"],
    );
}

#[test]
fn anonymous_super_users_of_this_machine_alone_are_nothing_to_warn_of() {
    for (listeners, effect) in [
        ("PLAINTEXT://127.0.0.1:9092", Effect::Nothing),
        ("PLAINTEXT://localhost:9092", Effect::Nothing),
        ("PLAINTEXT://[::1]:9092", Effect::Nothing),
        ("PLAINTEXT://127.0.0.1:9092,SAFE://:9093", Effect::Nothing),
        ("PLAINTEXT://:9092", Effect::Clients),
        ("PLAINTEXT://10.0.0.1:9092", Effect::Clients),
        ("PLAINTEXT://127.0.0.1:9092,OTHER://:9093", Effect::Clients),
    ] {
        let resolved = resolve(&format!(
            "{STANDARD}super.users=User:ANONYMOUS\nlisteners={listeners}\n{SCRAM}\
             listener.security.protocol.map=SAFE:SASL_PLAINTEXT,OTHER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
        ));
        let warnings = resolved.unwrap().warnings;
        let about = warnings.iter().filter(|one| one.key == "super.users");
        let about: Vec<_> = about.collect();
        assert_eq!(about.len(), 1, "{listeners}");
        assert_eq!(about[0].effect, effect, "{listeners}");
        let has_advice = !about[0].advice.is_empty();
        assert_eq!(has_advice, effect == Effect::Clients, "{listeners}");
    }
}

#[test]
fn a_broker_that_nobody_could_use_is_warned_of() {
    let shut = "server.properties:1: authorizer.class.name: no listener asks for a login, and no \
                client can be a super user: nobody may do anything but what ACLs permit to \
                User:ANONYMOUS";
    check_warned(STANDARD, &[shut]);
    check_warned(
        &format!("{STANDARD}allow.everyone.if.no.acl.found=true"),
        &[],
    );
    check_warned(&format!("{STANDARD}{SAFE}{SCRAM}"), &[]);
    check_warned(
        &format!("{STANDARD}allow.everyone.if.no.acl.found=true\nauthorizer.mode=log"),
        &[
            "server.properties:3: authorizer.mode: what ACLs forbid is done, and only counted and \
           logged: every client may do everything",
        ],
    );
}
