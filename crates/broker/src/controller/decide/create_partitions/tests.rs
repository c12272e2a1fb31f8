//! What `CreatePartitions` answers and writes.

use wire::messages::create_partitions_request::{
    CreatePartitionsAssignment, CreatePartitionsTopic,
};

use super::*;
use crate::access::given::limited_to;
use crate::controller::tests::{apply, create, options, started};
use crate::image::Image;
use crate::rests::tests::rested;

fn image() -> Image {
    let mut image = started();
    create(&mut image, "a", 2, &[]);
    image
}

fn topic(name: &str, count: i32) -> CreatePartitionsTopic {
    CreatePartitionsTopic::default()
        .with_name(StrBytes::from_string(name.into()).into())
        .with_count(count)
        .with_assignments(None)
}

fn decide(
    image: &Image,
    topics: Vec<CreatePartitionsTopic>,
) -> ControllerDecision<CreatePartitionsResponse> {
    decide_for(&Access::unlimited(), image, topics)
}

fn decide_for(
    access: &Access,
    image: &Image,
    topics: Vec<CreatePartitionsTopic>,
) -> ControllerDecision<CreatePartitionsResponse> {
    let options = options();
    let request = CreatePartitionsRequest::default().with_topics(topics);
    rested(handle(
        Rules {
            image,
            options: &options,
        },
        access,
        &request,
        &Gate::open(),
    ))
    .1
}

fn refusal(topic: CreatePartitionsTopic) -> (i16, String) {
    let outcome = decide(&image(), vec![topic]);
    assert!(outcome.records.is_empty());
    let result = &outcome.response.results[0];
    let message = result.error_message.as_ref().map(ToString::to_string);
    (result.error_code, message.unwrap_or_default())
}

#[test]
fn new_partitions_follow_the_old_ones() {
    let mut image = image();
    let outcome = decide(&image, vec![topic("a", 5)]);
    assert_eq!(outcome.response.results[0].error_code, 0);
    apply(&mut image, outcome.records);
    let topic = image.topic_by_name("a").unwrap();
    assert_eq!(
        topic.partitions.keys().copied().collect::<Vec<_>>(),
        [0, 1, 2, 3, 4]
    );
}

#[test]
fn fewer_or_as_many_are_refused() {
    assert_eq!(
        refusal(topic("a", 2)),
        (37, "Topic already has 2 partition(s).".into())
    );
    assert_eq!(
        refusal(topic("a", 1)),
        (
            37,
            "The topic a currently has 2 partition(s); 1 would not be an increase.".into()
        )
    );
    assert_eq!(refusal(topic("x", 3)), (3, String::new()));
    assert_eq!(
        refusal(topic("a", i32::MAX)).0,
        ErrorCode::PolicyViolation.code()
    );
}

#[test]
fn a_chosen_assignment_must_fit() {
    let on = |ids: &[i32]| {
        CreatePartitionsAssignment::default()
            .with_broker_ids(ids.iter().map(|id| (*id).into()).collect())
    };
    let one_of_two = topic("a", 4).with_assignments(Some(vec![on(&[1])]));
    assert_eq!(
        refusal(one_of_two),
        (
            39,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified."
                .into()
        )
    );
    let empty = topic("a", 3).with_assignments(Some(vec![on(&[])]));
    assert_eq!(refusal(empty).0, 39);
    let good = topic("a", 3).with_assignments(Some(vec![on(&[1])]));
    assert_eq!(decide(&image(), vec![good]).records.len(), 1);
}

#[test]
fn a_topic_named_twice_is_refused() {
    let outcome = decide(&image(), vec![topic("a", 3), topic("a", 4)]);
    assert!(outcome.records.is_empty());
    assert_eq!(outcome.response.results.len(), 1);
    assert_eq!(outcome.response.results[0].error_code, 42);
}

#[test]
fn a_topic_grows_for_who_may_alter_it() {
    let alter = |name| limited_to(&[(ResourceType::Topic, name, Operation::Alter)]);
    let grown = decide_for(&alter("a"), &image(), vec![topic("a", 5)]);
    assert_eq!(
        (grown.response.results[0].error_code, grown.records.len()),
        (0, 3)
    );
    // Others do not learn whether it exists, nor how large it is.
    let asked = || vec![topic("a", 1_000_000), topic("none", 5)];
    let outcome = decide_for(&alter("b"), &image(), asked());
    assert!(outcome.records.is_empty());
    for result in &outcome.response.results {
        assert_eq!(
            (result.error_code, result.error_message.as_ref()),
            (29, None)
        );
    }
    let twice = vec![topic("a", 5), topic("a", 5)];
    let outcome = decide_for(&alter("b"), &image(), twice);
    let results = &outcome.response.results;
    let invalid = ErrorCode::InvalidRequest.code();
    assert_eq!((results.len(), results[0].error_code), (1, invalid));
}
