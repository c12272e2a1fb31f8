//! The ACLs that a client gets.

use wire::messages::create_acls_request::AclCreation;

use super::*;
use crate::controller::decide::create_acls::tests::{creation, with_acls};
use crate::rests::PIECE;
use crate::rests::tests::rested;

const ANY: i8 = 1;
const MATCH: i8 = 2;
const PREFIXED: i8 = 4;

fn asking(name: Option<&str>, pattern_type: i8) -> DescribeAclsRequest {
    DescribeAclsRequest::default()
        .with_resource_type_filter(ANY)
        .with_resource_name_filter(name.map(text))
        .with_pattern_type_filter(pattern_type)
        .with_principal_filter(None)
        .with_host_filter(None)
        .with_operation(ANY)
        .with_permission_type(ANY)
}

/// Returns the answer: type, name and pattern of each resource, with the principals and
/// operations of its ACLs.
fn told(image: &Image, request: &DescribeAclsRequest) -> Vec<String> {
    let response = rested(describe(image, request, &Room::some())).1;
    assert_eq!(response.error_code, 0);
    assert_eq!(response.error_message, Some(StrBytes::default()));
    let resources = response.resources.iter().map(|resource| {
        let acls = resource.acls.iter();
        let acls: Vec<_> = acls
            .map(|acl| format!("{} {}", acl.principal.as_str(), acl.operation))
            .collect();
        let (kind, pattern) = (resource.resource_type, resource.pattern_type);
        let name = resource.resource_name.as_str();
        format!("{kind} {name} {pattern}: {}", acls.join(", "))
    });
    resources.collect()
}

fn of(principal: &str, operation: i8, acl: AclCreation) -> AclCreation {
    acl.with_principal(text(principal))
        .with_operation(operation)
}

#[test]
fn acls_are_told_by_resource_in_order() {
    let prefixed = |name| creation(name).with_resource_pattern_type(PREFIXED);
    let image = with_acls(vec![
        of("User:b", 3, creation("orders")),
        of("User:a", 4, creation("orders")),
        of("User:a", 3, creation("orders")),
        prefixed("ord"),
        of("User:c", 8, creation("kafka-cluster").with_resource_type(4)),
        creation("zoo"),
    ]);
    let orders = "2 orders 3: User:a 3, User:a 4, User:b 3";
    let all = [
        "2 ord 4: User:a 3",
        orders,
        "2 zoo 3: User:a 3",
        "4 kafka-cluster 3: User:c 8",
    ];
    assert_eq!(told(&image, &asking(None, ANY)), all);
    assert_eq!(told(&image, &asking(Some("orders"), ANY)), [orders]);
    let matching = told(&image, &asking(Some("orders"), MATCH));
    assert_eq!(matching, ["2 ord 4: User:a 3", orders]);
    let writes = asking(None, ANY).with_operation(4);
    assert_eq!(told(&image, &writes), ["2 orders 3: User:a 4"]);
    // What is not known means nothing.
    assert!(told(&image, &asking(None, 9)).is_empty());
    assert!(told(&image, &asking(None, ANY).with_operation(99)).is_empty());
}

#[test]
fn what_is_not_known_is_told_as_it_is_stored_and_the_same_acl_once() {
    let mut image = Image::empty();
    for id in 0..2 {
        let record = wire::records::metadata::AccessControlEntryRecord {
            id: wire::types::Uuid::from_u128(id),
            resource_type: 2,
            resource_name: "t".into(),
            pattern_type: 3,
            principal: "nobody".into(),
            host: "*".into(),
            operation: 99,
            permission_type: 9,
        };
        image.replay(record.into()).unwrap();
    }
    assert_eq!(told(&image, &asking(None, ANY)), ["2 t 3: nobody 99"]);
}

#[test]
fn a_list_that_has_no_room_is_refused_and_a_long_one_lets_others_have_their_turn() {
    const COUNT: usize = 1_000;
    let long = |number: usize| creation(&format!("{number:05000}"));
    let image = with_acls((0..COUNT).map(long).collect());
    let (rests, whole) = rested(describe(&image, &asking(None, ANY), &Room::some()));
    assert_eq!(whole.resources.len(), COUNT);
    assert!(rests >= 2 * COUNT / PIECE, "{rests} rests");
    let answers = crate::answers::Answers::new(1 << 20);
    let room = Room::of_list(&answers, std::net::Ipv4Addr::LOCALHOST.into());
    let refused = rested(describe(&image, &asking(None, ANY), &room)).1;
    assert_eq!(refused.error_code, ErrorCode::PolicyViolation.code());
    assert!(refused.resources.is_empty());
}

#[test]
fn a_broker_without_authorizer_tells_nothing() {
    let told = disabled();
    assert_eq!(told.error_code, ErrorCode::SecurityDisabled.code());
    assert!(told.resources.is_empty());
}
