//! The ACLs that are deleted, and the results of the filters.

use wire::messages::delete_acls_request::DeleteAclsFilter;

use super::*;
use crate::controller::decide::create_acls::tests::{creation, with_acls};
use crate::rests::tests::rested;

const ANY: i8 = 1;
const MATCH: i8 = 2;
const LITERAL: i8 = 3;
const PREFIXED: i8 = 4;

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

/// ACLs on topics of this name, or on all of them.
fn filter(name: Option<&str>, pattern_type: i8) -> DeleteAclsFilter {
    DeleteAclsFilter::default()
        .with_resource_type_filter(2)
        .with_resource_name_filter(name.map(text))
        .with_pattern_type_filter(pattern_type)
        .with_principal_filter(None)
        .with_host_filter(None)
        .with_operation(ANY)
        .with_permission_type(ANY)
}

/// The answer to a filter: the code, the message, and the names of the ACLs in order.
type FilterAnswer = (i16, Option<String>, Vec<String>);

/// Deletes, applies what comes of it, and returns the answers and the number of records.
fn asked(image: &mut Image, filters: Vec<DeleteAclsFilter>) -> (Vec<FilterAnswer>, usize) {
    let request = DeleteAclsRequest::default().with_filters(filters);
    let decided = rested(handle(image, &request)).1;
    let count = decided.records.len();
    for record in decided.records {
        image.replay(record).unwrap();
    }
    let told = decided.response.filter_results.iter().map(|result| {
        let names = result.matching_acls.iter().map(|acl| {
            assert_eq!((acl.error_code, &acl.error_message), (0, &None));
            acl.resource_name.to_string()
        });
        let mut names: Vec<_> = names.collect();
        names.sort();
        let message = result.error_message.as_ref().map(ToString::to_string);
        (result.error_code, message, names)
    });
    (told.collect(), count)
}

fn names(of: &[&str]) -> FilterAnswer {
    let names = of.iter().map(|name| (*name).to_owned());
    (0, None, names.collect())
}

fn some() -> Image {
    let prefixed = |name| creation(name).with_resource_pattern_type(PREFIXED);
    with_acls(vec![
        creation("orders"),
        creation("*"),
        prefixed("ord"),
        prefixed("orders"),
        creation("other"),
    ])
}

#[test]
fn filters_mean_acls_by_name_and_by_match() {
    let check = |name, pattern_type, told: &[&str]| {
        let mut image = some();
        let before = image.acls().len();
        let (found, records) = asked(&mut image, vec![filter(name, pattern_type)]);
        assert_eq!((found, records), (vec![names(told)], told.len()));
        assert_eq!(image.acls().len(), before - told.len());
    };
    check(Some("orders"), LITERAL, &["orders"]);
    check(Some("ord"), PREFIXED, &["ord"]);
    check(Some("orders"), ANY, &["orders", "orders"]);
    check(Some("orders"), MATCH, &["*", "ord", "orders", "orders"]);
    check(None, LITERAL, &["*", "orders", "other"]);
    check(None, MATCH, &["*", "ord", "orders", "orders", "other"]);
    check(Some("nothing"), ANY, &[]);
    check(Some("nothing"), MATCH, &["*"]);
}

#[test]
fn an_acl_of_two_filters_is_told_twice_and_removed_once() {
    let mut image = some();
    let filters = vec![filter(Some("orders"), MATCH), filter(Some("ord"), PREFIXED)];
    let (told, records) = asked(&mut image, filters);
    let both = [names(&["*", "ord", "orders", "orders"]), names(&["ord"])];
    assert_eq!((&told[..], records), (&both[..], 4));
    assert_eq!(image.acls().len(), 1);
}

#[test]
fn a_filter_that_cannot_be_refuses_itself() {
    let mut image = some();
    let filters = vec![
        filter(None, 9),
        filter(None, ANY).with_operation(0),
        filter(Some("other"), LITERAL),
    ];
    let (told, records) = asked(&mut image, filters);
    let invalid = |message: &str| {
        let code = ErrorCode::InvalidRequest.code();
        (code, Some(message.to_owned()), Vec::new())
    };
    let expected = [
        invalid("Unknown patternFilter."),
        invalid("Unknown entryFilter."),
        names(&["other"]),
    ];
    assert_eq!((&told[..], records), (&expected[..], 1));
}

#[test]
fn what_is_told_is_the_acl() {
    let acl = creation("orders").with_host(text("::1"));
    let image = with_acls(vec![acl.clone()]);
    let request = DeleteAclsRequest::default().with_filters(vec![filter(None, ANY)]);
    let decided = rested(handle(&image, &request)).1;
    let [result] = decided.response.filter_results.as_slice() else {
        panic!("{:?}", decided.response);
    };
    let expected = DeleteAclsMatchingAcl::default()
        .with_error_message(None)
        .with_resource_type(2)
        .with_resource_name(text("orders"))
        .with_pattern_type(LITERAL)
        .with_principal(text("User:a"))
        .with_host(text("::1"))
        .with_operation(3)
        .with_permission_type(3);
    assert_eq!(result.matching_acls, [expected]);
}

/// More ACLs than a request may create or delete.
fn many(count: usize) -> Image {
    let mut image = Image::empty();
    for id in 0..count {
        let record = wire::records::metadata::AccessControlEntryRecord {
            id: Uuid::from_u128(u128::try_from(id).unwrap()),
            resource_type: 2,
            resource_name: format!("t{id}"),
            pattern_type: LITERAL,
            principal: "User:a".into(),
            host: "*".into(),
            operation: 3,
            permission_type: 3,
        };
        image.replay(record.into()).unwrap();
    }
    image
}

#[test]
fn more_than_may_be_deleted_at_once_are_all_kept() {
    let too_many = (
        ErrorCode::InvalidRequest.code(),
        Some("Cannot remove more than 10000 acls in a single delete operation.".to_owned()),
        Vec::new(),
    );
    let mut image = many(CHANGES_MAX + 1);
    let filters = vec![
        filter(Some("t1"), LITERAL),
        filter(None, ANY),
        filter(None, 9),
    ];
    let (told, records) = asked(&mut image, filters);
    assert_eq!((told, records), (vec![too_many.clone(); 3], 0));
    let mut image = many(CHANGES_MAX);
    // As in Kafka, one that is removed already is one more.
    let twice = vec![filter(None, ANY), filter(Some("t1"), ANY)];
    assert_eq!(asked(&mut image, twice), (vec![too_many; 2], 0));
    let (_, records) = asked(&mut image, vec![filter(None, ANY)]);
    assert_eq!((records, image.acls().len()), (CHANGES_MAX, 0));
}

#[test]
fn very_many_filters_are_looked_up_by_name_or_refused() {
    let mut image = many(CHANGES_MAX);
    let by_name = (0..CHANGES_MAX).map(|id| filter(Some(&format!("t{id}")), LITERAL));
    let (told, records) = asked(&mut image, by_name.collect());
    assert_eq!((records, image.acls().len()), (CHANGES_MAX, 0));
    assert!(
        told.iter()
            .all(|(code, _, names)| *code == 0 && names.len() == 1)
    );
    let mut image = many(CHANGES_MAX);
    let of_nobody = filter(None, ANY).with_principal_filter(Some(text("User:z")));
    let filters = vec![of_nobody; LOOKS_MAX / CHANGES_MAX + 1];
    let (told, _) = asked(&mut image, filters);
    let policy = ErrorCode::PolicyViolation.code();
    assert!(told.iter().all(|(code, ..)| *code == policy));
}

#[test]
fn an_answer_is_bounded_however_often_filters_mean_an_acl() {
    let mut image = with_acls(vec![creation(&"t".repeat(30_000))]);
    let all = vec![filter(None, ANY); TOLD_BYTES_MAX / 30_000 + 1];
    let (told, records) = asked(&mut image, all);
    let policy = ErrorCode::PolicyViolation.code();
    assert!(records == 0 && told.iter().all(|(code, ..)| *code == policy));
}
