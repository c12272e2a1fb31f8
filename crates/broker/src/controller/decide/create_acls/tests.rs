//! What is created, and what is answered.

use wire::messages::create_acls_request::AclCreation;

use super::*;
use crate::controller::bounds::ACLS_BYTES_MAX;
use crate::controller::tests::random;
use crate::rests::PIECE;
use crate::rests::tests::rested;

/// `User:a` may read the topic of this name.
pub(crate) fn creation(name: &str) -> AclCreation {
    let text = |text: &str| StrBytes::from_string(text.to_owned());
    AclCreation::default()
        .with_resource_type(2)
        .with_resource_name(text(name))
        .with_resource_pattern_type(3)
        .with_principal(text("User:a"))
        .with_host(text("*"))
        .with_operation(3)
        .with_permission_type(3)
}

/// Asks for ACLs, applies what comes of it, and returns the answers and the number of records.
fn asked(image: &mut Image, creations: Vec<AclCreation>) -> (Vec<(i16, String)>, usize) {
    let request = CreateAclsRequest::default().with_creations(creations);
    let mut bits = random();
    let seed = u64::try_from(image.acls().len()).unwrap();
    let mut bits = move || bits() ^ seed;
    let decided = rested(handle(image, &request, &mut bits)).1;
    let count = decided.records.len();
    for record in decided.records {
        image.replay(record).unwrap();
    }
    let results = decided.response.results.iter();
    let results = results.map(|result| {
        let message = result.error_message.as_ref().expect("Kafka says something");
        (result.error_code, message.to_string())
    });
    (results.collect(), count)
}

/// Makes an image with ACLs.
pub(crate) fn with_acls(creations: Vec<AclCreation>) -> Image {
    let mut image = Image::empty();
    let (results, _) = asked(&mut image, creations);
    assert!(results.iter().all(|(code, _)| *code == 0), "{results:?}");
    image
}

#[test]
fn an_acl_is_created_once_however_often_it_is_asked_for() {
    let mut image = Image::empty();
    let done = (0, String::new());
    let asked_for = vec![creation("a"), creation("b"), creation("a")];
    let (results, records) = asked(&mut image, asked_for);
    assert_eq!((results, records), (vec![done.clone(); 3], 2));
    let (results, records) = asked(&mut image, vec![creation("b"), creation("c")]);
    assert_eq!((results, records), (vec![done; 2], 1));
    let ids: BTreeSet<Uuid> = image.acls().iter().map(|(id, _)| id).collect();
    assert_eq!(ids.len(), 3);
    assert!(ids.iter().all(|id| id.get_version_num() == 4));
}

#[test]
fn what_cannot_be_is_refused_alone_in_the_words_of_kafka() {
    let text = |text: &str| StrBytes::from_string(text.to_owned());
    let of_cluster = |name| creation(name).with_resource_type(4);
    let mut image = Image::empty();
    let (results, records) = asked(
        &mut image,
        vec![
            creation("a"),
            of_cluster("kafka"),
            of_cluster("kafka-cluster"),
            creation(""),
            creation("b").with_resource_type(99),
            creation("b").with_resource_pattern_type(2),
            creation("b").with_operation(1),
            creation("b").with_permission_type(0),
            creation("b").with_principal(text("ada")),
            // Users are resources in all versions, hosts are not judged.
            creation("User:b").with_resource_type(7).with_operation(13),
            creation("c").with_host(text("10.0.0.0/8")),
        ],
    );
    let invalid = ErrorCode::InvalidRequest.code();
    let expected = [
        (0, ""),
        (
            invalid,
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
        (0, ""),
        (invalid, "Invalid empty resource name"),
        (invalid, "Invalid resourceType UNKNOWN"),
        (invalid, "Invalid patternType MATCH"),
        (invalid, "Invalid operation ANY"),
        (invalid, "Invalid permissionType UNKNOWN"),
        (
            invalid,
            "Could not parse principal from `ada` (no colon is present separating the principal \
             type from the principal name)",
        ),
        (0, ""),
        (0, ""),
    ];
    let expected: Vec<_> = expected
        .iter()
        .map(|(code, message)| (*code, (*message).to_owned()))
        .collect();
    assert_eq!((results, records), (expected, 4));
}

#[test]
fn more_than_may_be_created_at_once_creates_nothing() {
    let many = |count: usize| (0..count).map(|number| creation(&format!("t{number}")));
    let mut image = Image::empty();
    let asked_for = many(CHANGES_MAX + 1).chain([creation("")]).collect();
    let (results, records) = asked(&mut image, asked_for);
    assert_eq!(records, 0);
    let policy = ErrorCode::PolicyViolation.code();
    let (last, others) = results.split_last().unwrap();
    let message = "Unable to perform excessively large batch operation.";
    assert!(others.iter().all(|one| *one == (policy, message.into())));
    assert_eq!(last.0, ErrorCode::InvalidRequest.code());
    // What is there does not count.
    let (_, records) = asked(&mut image, many(CHANGES_MAX).collect());
    assert_eq!(records, CHANGES_MAX);
    let (results, records) = asked(&mut image, many(CHANGES_MAX + 1).collect());
    assert!(records == 1 && results.iter().all(|(code, _)| *code == 0));
}

#[test]
fn all_acls_together_are_bounded_in_bytes() {
    const NAME_BYTES: usize = 30_000;
    let long = |number: usize| creation(&format!("{number:0NAME_BYTES$}"));
    let mut image = Image::empty();
    let fit = ACLS_BYTES_MAX / (NAME_BYTES + 64 + 7);
    let (results, records) = asked(&mut image, (0..fit + 2).map(long).collect());
    assert_eq!(records, fit);
    let codes = results.iter().filter(|(code, _)| *code == 0).count();
    assert_eq!(codes, fit);
    let refused = (
        ErrorCode::PolicyViolation.code(),
        "There may be 16777216 bytes of ACLs".to_owned(),
    );
    assert_eq!(results[fit..], [refused.clone(), refused.clone()]);
    // What is there may be asked for, and another takes the place of one that goes.
    let (results, _) = asked(&mut image, vec![long(0), long(fit)]);
    assert_eq!((results[0].0, &results[1]), (0, &refused));
}

#[test]
fn a_broker_without_authorizer_refuses_each() {
    let request = CreateAclsRequest::default().with_creations(vec![creation("a"), creation("")]);
    let response = rested(disabled(&request)).1;
    let code = ErrorCode::SecurityDisabled.code();
    assert_eq!(response.results.len(), 2);
    for result in response.results {
        assert_eq!(result.error_code, code);
        let message = result.error_message.unwrap();
        assert_eq!(message.as_str(), "No Authorizer is configured.");
    }
}

#[test]
fn others_have_their_turn_while_many_are_judged() {
    let many = (0..CHANGES_MAX).map(|number| creation(&format!("t{number}")));
    let image = with_acls(many.clone().collect());
    let request = CreateAclsRequest::default().with_creations(many.collect());
    let mut bits = random();
    let (rests, decided) = rested(handle(&image, &request, &mut bits));
    assert!(decided.records.is_empty());
    assert!(rests >= CHANGES_MAX / PIECE * DECISION, "{rests} rests");
}
