//! What `DeleteTopics` answers and writes.

use wire::messages::delete_topics_request::DeleteTopicState;

use super::*;
use crate::access::given::{limited_to, logged};
use crate::controller::tests::{apply, create, options, started};
use crate::image::Image;
use crate::rests::tests::rested;

fn state(name: Option<&str>, id: TopicId) -> DeleteTopicState {
    DeleteTopicState::default()
        .with_name(name.map(|name| StrBytes::from_string(name.into()).into()))
        .with_topic_id(id.0)
}

fn image() -> (Image, TopicId) {
    let mut image = started();
    create(&mut image, "a", 1, &[("retention.ms", "5")]);
    create(&mut image, "b", 1, &[]);
    let id = image.topic_by_name("a").unwrap().id;
    (image, id)
}

fn decide(
    image: &Image,
    topics: Vec<DeleteTopicState>,
) -> ControllerDecision<DeleteTopicsResponse> {
    decide_for(&Access::unlimited(), image, topics)
}

fn decide_for(
    access: &Access,
    image: &Image,
    topics: Vec<DeleteTopicState>,
) -> ControllerDecision<DeleteTopicsResponse> {
    let options = options();
    let request = DeleteTopicsRequest::default().with_topics(topics);
    rested(handle(
        Rules {
            image,
            options: &options,
        },
        access,
        &request,
        6,
        &Gate::open(),
    ))
    .1
}

#[test]
fn topics_are_deleted_by_name_and_by_id() {
    let (mut image, id) = image();
    let outcome = decide(
        &image,
        vec![state(None, id), state(Some("b"), TopicId::ZERO)],
    );
    assert!(
        outcome
            .response
            .responses
            .iter()
            .all(|result| result.error_code == 0)
    );
    apply(&mut image, outcome.records);
    assert_eq!(image.topics().count(), 0);
}

#[test]
fn what_is_named_twice_is_not_deleted() {
    let (image, id) = image();
    let by_both = vec![state(None, id), state(Some("a"), TopicId::ZERO)];
    let twice = vec![state(None, id), state(None, id)];
    let name_and_id = vec![state(Some("a"), id)];
    let nothing = vec![state(None, TopicId::ZERO)];
    for topics in [by_both, twice, name_and_id, nothing] {
        let outcome = decide(&image, topics);
        assert!(outcome.records.is_empty());
        assert_eq!(outcome.response.responses.len(), 1);
        assert_eq!(outcome.response.responses[0].error_code, 42);
    }
}

#[test]
fn what_is_not_there_is_an_error() {
    let (image, _) = image();
    let unknown = TopicId(Uuid::from_u128(3));
    let outcome = decide(
        &image,
        vec![state(None, unknown), state(Some("x"), TopicId::ZERO)],
    );
    let codes: Vec<_> = outcome
        .response
        .responses
        .iter()
        .map(|r| r.error_code)
        .collect();
    assert_eq!(codes, [100, 3]);
}

#[test]
fn deletion_can_be_forbidden() {
    let (image, id) = image();
    let options = crate::options::BrokerOptions {
        delete_topics: false,
        ..options()
    };
    let request = DeleteTopicsRequest::default().with_topics(vec![state(None, id)]);
    let outcome = rested(handle(
        Rules {
            image: &image,
            options: &options,
        },
        &Access::unlimited(),
        &request,
        6,
        &Gate::open(),
    ))
    .1;
    assert!(outcome.records.is_empty());
    let code = ErrorCode::TopicDeletionDisabled.code();
    assert_eq!(outcome.response.responses[0].error_code, code);
}

/// Name, code and whether there is an id, of each topic of an answer.
fn told(outcome: &ControllerDecision<DeleteTopicsResponse>) -> Vec<(Option<String>, i16, bool)> {
    let results = outcome.response.responses.iter();
    let told = results.map(|result| {
        let name = result.name.as_ref().map(|name| name.0.to_string());
        (name, result.error_code, !result.topic_id.is_nil())
    });
    told.collect()
}

#[test]
fn a_topic_is_deleted_for_who_may_delete_it_or_every_topic() {
    use Operation::{Delete, Describe};
    use ResourceType::{Cluster, Topic};
    let (image, id) = image();
    let name = || Some("a".to_owned());
    let cluster = (Cluster, wire::acl::CLUSTER_NAME, Delete);
    for (access, by_name, by_id) in [
        (limited_to(&[]), (name(), 29, false), (None, 29, true)),
        (
            limited_to(&[(Topic, "a", Describe)]),
            (name(), 29, false),
            (name(), 29, true),
        ),
        (
            limited_to(&[(Topic, "a", Delete)]),
            (name(), 0, true),
            (name(), 0, true),
        ),
        (limited_to(&[cluster]), (name(), 0, true), (name(), 0, true)),
        (logged(&[]), (name(), 0, true), (name(), 0, true)),
    ] {
        for (asked, expected) in [
            (state(Some("a"), TopicId::ZERO), by_name),
            (state(None, id), by_id),
        ] {
            let outcome = decide_for(&access, &image, vec![asked]);
            assert_eq!(outcome.records.is_empty(), expected.1 != 0);
            assert_eq!(told(&outcome), [expected]);
        }
    }
}

#[test]
fn who_may_not_describe_a_topic_does_not_learn_whether_it_exists() {
    let (image, id) = image();
    let access = limited_to(&[(ResourceType::Topic, "c", Operation::Describe)]);
    let names = ["a", "c", "none"];
    let asked = names.map(|name| state(Some(name), TopicId::ZERO));
    let codes = told(&decide_for(&access, &image, asked.into()));
    let codes: Vec<_> = codes.into_iter().map(|(_, code, _)| code).collect();
    assert_eq!(codes, [29, 3, 29]);
    // Nor that the name and the id are those of one topic.
    let both = vec![state(None, id), state(Some("a"), TopicId::ZERO)];
    let outcome = decide_for(&access, &image, both);
    assert_eq!(
        told(&outcome),
        [(None, 29, true), (Some("a".to_owned()), 29, false)]
    );
    // An id of no topic is no secret.
    let other = vec![state(None, TopicId(Uuid::from_u128(5)))];
    let outcome = decide_for(&access, &image, other);
    assert_eq!(told(&outcome)[0].1, ErrorCode::UnknownTopicId.code());
}
