//! The rights that a client has, and the denials that are counted.

use wire::acl::{Operation, RawAcl, ResourceType};
use wire::types::Uuid;

use super::*;
use crate::image::Image;
use crate::rests::tests::now;

/// ACLs that permit, each with `User:ada`, a type, a name and an operation.
fn acls(permitted: &[(ResourceType, &str, Operation)]) -> Arc<Acls> {
    let mut image = Image::empty();
    for (id, (resource_type, name, operation)) in (0..).zip(permitted) {
        let raw = RawAcl {
            resource_type: resource_type.code(),
            name,
            pattern_type: 3,
            principal: "User:ada",
            host: "*",
            operation: operation.code(),
            permission: 3,
        };
        let record = raw
            .validate()
            .expect("an ACL")
            .to_record(Uuid::from_u128(id));
        image.replay(record.into()).expect("it fits");
    }
    Arc::clone(image.acls())
}

fn shown(access: &Access) -> String {
    let limited = access.0.as_ref().expect("limited");
    limited.denials.shown()
}

use ResourceType::{Cluster, Group, Topic};

#[test]
fn a_client_may_do_what_acls_permit_and_denials_are_counted() {
    let acls = acls(&[
        (Topic, "t", Operation::Read),
        (Group, "*", Operation::Delete),
    ]);
    let access = Access::given(Arc::clone(&acls), AuthorizerMode::Enforce, "User:ada");
    assert!(access.is_limited());
    assert!(access.may(Operation::Read, Topic, "t"));
    assert!(access.sees(Topic, "t") && access.sees(Group, "any"));
    assert!(!shown(&access).contains("_total{"));
    assert!(!access.may(Operation::Write, Topic, "t"));
    assert!(!access.may_cluster(Operation::Alter));
    assert!(!now(access.may_any(Operation::Write, Topic)));
    assert!(now(access.may_any(Operation::Read, Topic)));
    let told = shown(&access);
    let counted = "denied_total{resource_type=\"TOPIC\",operation=\"WRITE\"} 2\n";
    assert!(told.contains(counted), "{told}");
    let counted = "denied_total{resource_type=\"CLUSTER\",operation=\"ALTER\"} 1\n";
    assert!(told.contains(counted), "{told}");
    // What is asked for beside is not.
    assert!(!access.has(Operation::Alter, Topic, "t") && !access.has_cluster(Operation::Create));
    assert!(!access.sees(Topic, "other") && !access.sees(Cluster, CLUSTER_NAME));
    assert_eq!(access.operations(Topic, "t"), 1 << 3 | 1 << 8);
    assert_eq!(access.operations(Topic, "other"), 0);
    assert_eq!(shown(&access), told);
    let other = Access::given(acls, AuthorizerMode::Enforce, "User:bob");
    assert!(!other.may(Operation::Read, Topic, "t"));
}

#[test]
fn nothing_is_refused_or_hidden_while_denials_are_only_logged() {
    let acls = acls(&[(Topic, "t", Operation::Read)]);
    let access = Access::given(acls, AuthorizerMode::Log, "User:ada");
    assert!(
        access.may(Operation::Write, Topic, "t") && now(access.may_any(Operation::Write, Topic))
    );
    assert!(access.may_cluster(Operation::Alter));
    assert!(access.sees(Topic, "other"));
    assert_eq!(
        access.operations(Group, "g"),
        Access::unlimited().operations(Group, "g")
    );
    // So that the right that is asked for next is counted.
    assert!(!access.has_cluster(Operation::Create));
    let told = shown(&access);
    let counted = "would_deny_total{resource_type=\"TOPIC\",operation=\"WRITE\"} 2\n";
    assert!(told.contains(counted), "{told}");
    assert!(!told.contains("\ndenied_total{"), "{told}");
}

#[test]
fn a_client_without_limits_may_do_everything() {
    let access = Access::unlimited();
    assert!(!access.is_limited());
    assert!(
        access.may(Operation::Write, Topic, "t") && now(access.may_any(Operation::Write, Topic))
    );
    assert!(access.has_cluster(Operation::Alter) && access.sees(Group, "g"));
    assert_eq!(access.operations(Topic, "t"), 3576);
}

#[test]
fn a_request_that_has_waited_asks_the_acls_of_today() {
    let before = acls(&[(Topic, "t", Operation::Read)]);
    let access = Access::given(before, AuthorizerMode::Enforce, "User:ada");
    // The ACLs of an empty image give no right.
    let image = Image::empty();
    let renewed = access.renewed(&image).expect("other ACLs");
    assert!(access.may(Operation::Read, Topic, "t"));
    assert!(!renewed.may(Operation::Read, Topic, "t"));
    assert!(renewed.renewed(&image).is_none(), "the same ACLs");
    assert!(Access::unlimited().renewed(&image).is_none());
}
