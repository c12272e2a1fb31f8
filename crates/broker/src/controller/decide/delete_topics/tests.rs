//! What `DeleteTopics` answers and writes.

use wire::messages::delete_topics_request::DeleteTopicState;

use super::*;
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
    let options = options();
    let request = DeleteTopicsRequest::default().with_topics(topics);
    rested(handle(
        Rules {
            image,
            options: &options,
        },
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
        &request,
        6,
        &Gate::open(),
    ))
    .1;
    assert!(outcome.records.is_empty());
    let code = ErrorCode::TopicDeletionDisabled.code();
    assert_eq!(outcome.response.responses[0].error_code, code);
}
