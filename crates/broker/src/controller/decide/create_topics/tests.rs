//! What `CreateTopics` answers and writes.

use wire::messages::create_topics_request::{CreatableReplicaAssignment, CreatableTopicConfig};

use wire::records::metadata::MetadataRecord;

use super::*;
use crate::access::given::{limited_to, logged};
use crate::controller::tests::{apply, create, options, random, started};
use crate::image::Image;
use crate::rests::PIECE;
use crate::rests::tests::rested;

fn topic(name: &str, partitions: i32, factor: i16) -> CreatableTopic {
    CreatableTopic::default()
        .with_name(StrBytes::from_string(name.into()).into())
        .with_num_partitions(partitions)
        .with_replication_factor(factor)
}

fn decide(image: &Image, topics: Vec<CreatableTopic>) -> ControllerDecision<CreateTopicsResponse> {
    decide_for(&Access::unlimited(), image, topics)
}

fn decide_for(
    access: &Access,
    image: &Image,
    topics: Vec<CreatableTopic>,
) -> ControllerDecision<CreateTopicsResponse> {
    let options = options();
    let rules = Rules {
        image,
        options: &options,
    };
    rested(handle(
        rules,
        access,
        &CreateTopicsRequest::default().with_topics(topics),
        &mut random(),
        &Gate::open(),
    ))
    .1
}

/// Returns code and message of the only topic.
fn refusal(topic: CreatableTopic) -> (i16, String) {
    let outcome = decide(&started(), vec![topic]);
    assert!(outcome.records.is_empty());
    let result = &outcome.response.topics[0];
    let message = result.error_message.as_ref().map(ToString::to_string);
    (result.error_code, message.unwrap_or_default())
}

#[test]
fn a_topic_is_created_with_defaults_and_all_its_settings_are_told() {
    let mut image = started();
    let setting = CreatableTopicConfig::default()
        .with_name("retention.ms".into())
        .with_value(Some("5".into()));
    let outcome = decide(&image, vec![topic("a", -1, -1).with_configs(vec![setting])]);
    let result = &outcome.response.topics[0];
    assert_eq!(
        (
            result.error_code,
            result.num_partitions,
            result.replication_factor
        ),
        (0, 1, 1)
    );
    assert_eq!(result.error_message, None);
    let configs = result.configs.as_ref().unwrap();
    // The internal setting is shown only where it is set.
    assert_eq!(configs.len(), DEFINITIONS.len() - 1);
    assert!(configs.is_sorted_by_key(|config| config.name.to_string()));
    let retention = configs
        .iter()
        .find(|c| c.name.as_str() == "retention.ms")
        .unwrap();
    assert_eq!(
        (retention.value.as_deref(), retention.config_source),
        (Some("5"), 1)
    );
    let segment = configs
        .iter()
        .find(|c| c.name.as_str() == "segment.bytes")
        .unwrap();
    assert_eq!(
        (segment.value.as_deref(), segment.config_source),
        (Some("1073741824"), 5)
    );
    let keys: Vec<_> = outcome.records.iter().map(MetadataRecord::key).collect();
    assert_eq!(keys, [2, 4, 3], "topic, settings, partitions");
    apply(&mut image, outcome.records);
    assert_eq!(image.topic_by_name("a").unwrap().id.0, result.topic_id);
}

#[test]
fn validate_only_answers_and_writes_nothing() {
    let (image, options) = (started(), options());
    let rules = Rules {
        image: &image,
        options: &options,
    };
    let request = CreateTopicsRequest::default()
        .with_validate_only(true)
        .with_topics(vec![topic("a", 3, 1)]);
    let access = Access::unlimited();
    let outcome = rested(handle(
        rules,
        &access,
        &request,
        &mut random(),
        &Gate::open(),
    ))
    .1;
    assert!(outcome.records.is_empty());
    assert_eq!(outcome.response.topics[0].num_partitions, 3);
}

#[test]
fn a_manual_assignment_decides_partitions_and_replicas() {
    let mut image = started();
    let partition = |index| {
        CreatableReplicaAssignment::default()
            .with_partition_index(index)
            .with_broker_ids(vec![1.into()])
    };
    let chosen = topic("a", -1, -1).with_assignments(vec![partition(1), partition(0)]);
    let outcome = decide(&image, vec![chosen]);
    assert_eq!(outcome.response.topics[0].num_partitions, 2);
    apply(&mut image, outcome.records);
    assert_eq!(image.topic_by_name("a").unwrap().partitions.len(), 2);

    let gap = topic("b", -1, -1).with_assignments(vec![partition(1)]);
    assert_eq!(
        refusal(gap),
        (
            39,
            "partitions should be a consecutive 0-based integer sequence".into()
        )
    );
    let twice = topic("b", -1, -1).with_assignments(vec![partition(0), partition(0)]);
    assert_eq!(
        refusal(twice),
        (
            39,
            "Found multiple manual partition assignments for partition 0".into()
        )
    );
    let counted = topic("b", 1, -1).with_assignments(vec![partition(0)]);
    assert_eq!(refusal(counted).0, ErrorCode::InvalidRequest.code());
    let elsewhere = partition(0).with_broker_ids(vec![9.into()]);
    assert_eq!(
        refusal(topic("b", -1, -1).with_assignments(vec![elsewhere])),
        (
            39,
            "The manual partition assignment includes broker 9, but no such broker is registered."
                .into()
        )
    );
}

#[test]
fn numbers_that_cannot_be_are_refused() {
    assert_eq!(
        refusal(topic("a", 0, 1)),
        (
            37,
            "Number of partitions was set to an invalid non-positive value.".into()
        )
    );
    assert_eq!(
        refusal(topic("a", 1, 0)),
        (
            38,
            "Replication factor must be larger than 0, or -1 to use the default value.".into()
        )
    );
    assert_eq!(
        refusal(topic("a", 1, 3)),
        (
            38,
            "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached \
             because only 1 broker(s) are registered or some brokers have all their log directories cordoned."
                .into()
        )
    );
    assert_eq!(
        refusal(topic("a", 10_001, 1)).0,
        ErrorCode::PolicyViolation.code()
    );
}

#[test]
fn names_that_are_taken_collide_or_are_reserved_are_refused() {
    let mut image = started();
    create(&mut image, "a.b", 1, &[]);
    let topics = ["a.b", "a_b", "__cluster_metadata", "c", "c"].map(|name| topic(name, 1, 1));
    let outcome = decide(&image, topics.into());
    assert!(outcome.records.is_empty());
    let results: Vec<_> = outcome
        .response
        .topics
        .iter()
        .map(|result| {
            let message = result.error_message.as_ref().map(ToString::to_string);
            (
                result.name.to_string(),
                result.error_code,
                message.unwrap_or_default(),
            )
        })
        .collect();
    let expected = [
        ("a.b", 36, "Topic 'a.b' already exists."),
        ("a_b", 17, "Topic 'a_b' collides with existing topic: a.b"),
        (
            "__cluster_metadata",
            42,
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
        ("c", 42, "Duplicate topic name."),
    ];
    assert_eq!(
        results,
        expected.map(|(name, code, text)| (name.into(), code, text.into()))
    );
}

#[test]
fn settings_that_are_wrong_refuse_the_topic() {
    let with = |name: &str, value: Option<&str>| {
        let config = CreatableTopicConfig::default()
            .with_name(StrBytes::from_string(name.into()))
            .with_value(value.map(|value| StrBytes::from_string(value.into())));
        refusal(topic("a", 1, 1).with_configs(vec![config]))
    };
    assert_eq!(
        with("nope", Some("1")),
        (40, "Unknown topic config name: nope".into())
    );
    let long = "x".repeat(1 << 20);
    for (name, value) in [(long.as_str(), "1"), ("retention.ms", &long)] {
        let (code, message) = with(name, Some(value));
        assert_ne!(code, 0);
        assert!(message.len() < 1000, "{} bytes", message.len());
    }
    assert_eq!(
        with("retention.ms", None),
        (
            40,
            "Null value not supported for topic configs: retention.ms".into()
        )
    );
}

#[test]
fn a_good_topic_beside_a_bad_one_is_created() {
    let outcome = decide(
        &started(),
        vec![topic("bad name", 1, 1), topic("good", 1, 1)],
    );
    let codes: Vec<_> = outcome
        .response
        .topics
        .iter()
        .map(|result| result.error_code)
        .collect();
    assert_eq!(codes, [17, 0]);
    assert_eq!(outcome.records.len(), 2);
}

#[test]
fn of_very_many_topics_the_settings_of_the_first_are_told() {
    let image = started();
    let many = (0..=DESCRIBED_MAX).map(|n| topic(&format!("t{n:04}"), 1, 1));
    let outcome = decide(&image, many.collect());
    let told = outcome.response.topics.iter();
    let told: Vec<_> = told
        .map(|topic| {
            let configs = topic.configs.as_ref().map_or(0, Vec::len);
            (topic.error_code, topic.topic_config_error_code, configs > 0)
        })
        .collect();
    assert_eq!(told[..DESCRIBED_MAX], vec![(0, 0, true); DESCRIBED_MAX]);
    let policy = ErrorCode::PolicyViolation.code();
    assert_eq!(told[DESCRIBED_MAX], (0, policy, false));
}

/// Only changes wait for a decision, but the shard that decides has other clients to serve.
#[test]
fn others_have_their_turn_while_many_topics_are_decided_on() {
    let (image, options) = (started(), options());
    let rules = Rules {
        image: &image,
        options: &options,
    };
    let decided = |count: usize| {
        let topics = (0..count).map(|at| topic(&format!("t{at}"), 1, 1));
        let request = CreateTopicsRequest::default().with_topics(topics.collect());
        let access = Access::unlimited();
        rested(handle(
            rules,
            &access,
            &request,
            &mut random(),
            &Gate::open(),
        ))
    };
    let (rests, outcome) = decided(10_000);
    assert_eq!(outcome.response.topics.len(), 10_000);
    assert!(rests >= 300, "{rests} rests");
    assert_eq!(decided(20).0, 0);
}

#[test]
fn too_many_topics_are_refused_in_hardly_more_turns_than_it_takes_to_name_them() {
    const TOPICS: usize = 20_000;
    let (image, options) = (started(), options());
    let rules = Rules {
        image: &image,
        options: &options,
    };
    let topics = (0..TOPICS).map(|at| topic(&format!("t{at}"), 1, 1));
    let request = CreateTopicsRequest::default().with_topics(topics.collect());
    let (access, gate) = (Access::unlimited(), Gate::open());
    let (rests, outcome) = rested(handle(rules, &access, &request, &mut random(), &gate));
    assert!(rests < TOPICS / PIECE + 2, "{rests} rests");
    assert!(outcome.records.is_empty());
    let told = outcome.response.topics;
    let policy = ErrorCode::PolicyViolation.code();
    assert_eq!(told.len(), TOPICS);
    assert!(told.iter().all(|topic| topic.error_code == policy));
}

/// A topic's error code, and what the response says of its settings: their error code, their
/// number, the partitions.
fn told(result: &CreatableTopicResult) -> (i16, i16, bool, i32) {
    let configs = result.configs.as_ref().map_or(0, Vec::len);
    let code = result.topic_config_error_code;
    (result.error_code, code, configs > 0, result.num_partitions)
}

#[test]
fn a_topic_is_created_for_who_may_create_it_or_every_topic() {
    use Operation::{Create, DescribeConfigs};
    use ResourceType::{Cluster, Topic};
    let cluster = (Cluster, wire::acl::CLUSTER_NAME, Create);
    let (own, sees) = ((Topic, "t", Create), (Topic, "t", DescribeConfigs));
    let (hidden, shown) = ((0, 29, false, -1), (0, 0, true, 2));
    let mut image = started();
    create(&mut image, "old", 1, &[]);
    for (access, expected) in [
        (limited_to(&[]), (29, 0, false, -1)),
        (
            limited_to(&[(Topic, "other", Create), sees]),
            (29, 0, false, -1),
        ),
        (limited_to(&[own]), hidden),
        (limited_to(&[cluster]), hidden),
        (limited_to(&[own, sees]), shown),
        (logged(&[]), shown),
    ] {
        let outcome = decide_for(&access, &image, vec![topic("t", 2, 1)]);
        let result = &outcome.response.topics[0];
        assert_eq!(told(result), expected);
        assert_eq!(outcome.records.is_empty(), expected.0 != 0);
        assert_eq!(result.topic_id.is_nil(), expected.0 != 0);
    }
    // Who may not create a topic does not learn that it exists.
    let outcome = decide_for(&limited_to(&[]), &image, vec![topic("old", 2, 1)]);
    let result = &outcome.response.topics[0];
    let message = result.error_message.as_deref();
    assert_eq!(
        (result.error_code, message),
        (29, Some("Authorization failed."))
    );
}

#[test]
fn what_is_wrong_with_the_request_itself_is_told_to_everybody() {
    let twice = vec![
        topic("t", 1, 1),
        topic("t", 1, 1),
        topic(METADATA_TOPIC, 1, 1),
    ];
    let outcome = decide_for(&limited_to(&[]), &started(), twice);
    let invalid = ErrorCode::InvalidRequest.code();
    let codes = outcome.response.topics.iter().map(|topic| topic.error_code);
    assert_eq!(codes.collect::<Vec<_>>(), [invalid, invalid]);
}
