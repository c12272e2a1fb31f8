//! What `Metadata` answers.

use wire::messages::metadata_request::MetadataRequestTopic;
use wire::types::Uuid;

use super::*;
use crate::access::given::{limited_to, logged};
use crate::controller::startup;
use crate::controller::tests::{apply, create, options, started};
use crate::rests::tests::{now, rested};
use Operation::{Create, Describe, Read};
use ResourceType::{Cluster, Topic};

fn answered(
    image: &Image,
    asked: MetadataQuery<'_>,
    request: &MetadataRequest,
) -> MetadataResponse {
    now(handle(image, asked, request))
}

fn found_missing(image: &Image, request: &MetadataRequest, version: i16) -> Vec<String> {
    let options = options();
    let rules = Rules {
        image,
        options: &options,
    };
    now(missing(rules, &Access::unlimited(), request, version)).unwrap()
}

const VERSION: i16 = 13;
const UNLIMITED: &Access = &Access::unlimited();

fn asked(version: i16) -> MetadataQuery<'static> {
    MetadataQuery {
        listener: "PLAINTEXT",
        cluster_id: "cluster",
        node: NodeId(1),
        version,
        access: UNLIMITED,
        creates: true,
    }
}

fn by_name(names: &[&str]) -> MetadataRequest {
    let topic = |name: &&str| {
        MetadataRequestTopic::default()
            .with_name(Some(StrBytes::from_string((*name).into()).into()))
    };
    MetadataRequest::default().with_topics(Some(names.iter().map(topic).collect()))
}

fn by_id(id: Uuid) -> MetadataRequest {
    let topic = MetadataRequestTopic::default()
        .with_name(None)
        .with_topic_id(id);
    MetadataRequest::default().with_topics(Some(vec![topic]))
}

fn names(response: &MetadataResponse) -> Vec<(String, i16)> {
    let name = |topic: &MetadataResponseTopic| {
        let name = topic.name.as_ref().map(|name| name.to_string());
        (name.unwrap_or_default(), topic.error_code)
    };
    response.topics.iter().map(name).collect()
}

fn with_topics() -> Image {
    let mut image = started();
    create(&mut image, "a", 2, &[]);
    create(&mut image, "__consumer_offsets", 1, &[]);
    image
}

#[test]
fn null_means_all_and_empty_means_none_but_all_in_version_0() {
    let image = with_topics();
    let all = MetadataRequest::default().with_topics(None);
    let none = MetadataRequest::default().with_topics(Some(Vec::new()));
    assert_eq!(answered(&image, asked(VERSION), &all).topics.len(), 2);
    assert_eq!(answered(&image, asked(1), &none).topics.len(), 0);
    assert_eq!(answered(&image, asked(0), &none).topics.len(), 2);
}

#[test]
fn a_topic_is_told_with_its_leader_and_where_it_listens() {
    let image = with_topics();
    let response = answered(&image, asked(VERSION), &by_name(&["a"]));
    let broker = &response.brokers[0];
    assert_eq!(
        (broker.node_id.0, broker.host.as_str(), broker.port),
        (1, "localhost", 9092)
    );
    assert_eq!(
        (response.controller_id.0, response.cluster_id.as_deref()),
        (1, Some("cluster"))
    );
    let topic = &response.topics[0];
    assert_eq!(topic.topic_id, image.topic_by_name("a").unwrap().id.0);
    assert_eq!(
        (topic.is_internal, topic.topic_authorized_operations),
        (false, i32::MIN)
    );
    let indexes: Vec<_> = topic
        .partitions
        .iter()
        .map(|p| (p.partition_index, p.leader_id.0))
        .collect();
    assert_eq!(indexes, [(0, 1), (1, 1)]);
    assert_eq!(topic.partitions[0].error_code, 0);
}

#[test]
fn topics_can_be_asked_for_by_id() {
    let image = with_topics();
    let id = image.topic_by_name("a").unwrap().id.0;
    assert_eq!(
        names(&answered(&image, asked(12), &by_id(id))),
        [("a".into(), 0)]
    );
    let unknown = answered(&image, asked(12), &by_id(Uuid::from_u128(5)));
    assert_eq!(unknown.topics[0].name, None);
    assert_eq!(
        unknown.topics[0].error_code,
        ErrorCode::UnknownTopicId.code()
    );
    assert_eq!(names(&answered(&image, asked(10), &by_id(id)))[0].1, 42);
}

#[test]
fn missing_and_misnamed_topics_have_their_own_errors() {
    let image = with_topics();
    let request = by_name(&["new", "bad name"]);
    let response = answered(&image, asked(VERSION), &request);
    assert_eq!(
        names(&response),
        [("bad name".into(), 17), ("new".into(), 3)]
    );
}

#[test]
fn only_valid_names_are_created_and_only_with_leave() {
    let image = with_topics();
    let request = by_name(&["a", "new", "bad name"]).with_allow_auto_topic_creation(true);
    assert_eq!(found_missing(&image, &request, VERSION), ["new"]);
    let without = request.with_allow_auto_topic_creation(false);
    assert!(found_missing(&image, &without, VERSION).is_empty());
    assert_eq!(
        found_missing(&image, &without, 3),
        ["new"],
        "before version 4 nobody could say no"
    );
    let all = MetadataRequest::default().with_topics(None);
    assert!(found_missing(&image, &all, VERSION).is_empty());
}

#[test]
fn of_more_topics_than_a_client_may_create_at_once_none_is() {
    let names: Vec<_> = (0..10_001).map(|number| format!("t{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let (image, options) = (with_topics(), options());
    let rules = Rules {
        image: &image,
        options: &options,
    };
    let found = |names: &[&str]| rested(missing(rules, &Access::unlimited(), &by_name(names), 3)).1;
    assert_eq!(found(&names), Err(TooMany(10_001)));
    assert_eq!(found(&names[1..]).unwrap().len(), 10_000);
}

#[test]
fn internal_topics_are_marked() {
    let response = answered(
        &with_topics(),
        asked(VERSION),
        &by_name(&["__consumer_offsets"]),
    );
    assert!(response.topics[0].is_internal);
}

#[test]
fn a_partition_whose_leader_is_fenced_has_none() {
    let mut image = with_topics();
    let fence = startup::fence(&image, NodeId(1), true);
    apply(&mut image, fence);
    let response = answered(&image, asked(VERSION), &by_name(&["a"]));
    assert!(response.brokers.is_empty());
    let partition = &response.topics[0].partitions[0];
    assert_eq!((partition.error_code, partition.leader_id.0), (5, -1));
    assert_eq!(partition.offline_replicas, [BrokerId(1)]);
    let other = MetadataQuery {
        listener: "OTHER",
        ..asked(VERSION)
    };
    let response = answered(&with_topics(), other, &by_name(&["a"]));
    assert_eq!(
        response.topics[0].partitions[0].error_code,
        ErrorCode::ListenerNotFound.code()
    );
}

#[test]
fn operations_are_told_on_demand() {
    let request = by_name(&["a"])
        .with_include_topic_authorized_operations(true)
        .with_include_cluster_authorized_operations(true);
    let response = answered(&with_topics(), asked(10), &request);
    assert_eq!(response.cluster_authorized_operations, 8096);
    assert_eq!(response.topics[0].topic_authorized_operations, 3576);
}

fn answered_to(access: &Access, version: i16, request: &MetadataRequest) -> MetadataResponse {
    let asked = MetadataQuery {
        access,
        ..asked(version)
    };
    answered(&with_topics(), asked, request)
}

#[test]
fn a_topic_that_the_client_may_not_describe_looks_like_one_that_is_not_there() {
    let access = limited_to(&[(Topic, "a", Read)]);
    let asked = by_name(&["a", "__consumer_offsets", "none"])
        .with_include_topic_authorized_operations(true);
    let response = answered_to(&access, VERSION, &asked);
    assert_eq!(
        names(&response),
        [
            ("__consumer_offsets".into(), 29),
            ("a".into(), 0),
            ("none".into(), 29)
        ]
    );
    let shown = |topic: &MetadataResponseTopic| topic.clone().with_name(None);
    let (hidden, none) = (&response.topics[0], &response.topics[2]);
    assert_eq!(shown(hidden), shown(none));
    assert!(hidden.topic_id.is_nil() && !hidden.is_internal && hidden.partitions.is_empty());
    assert_eq!(hidden.topic_authorized_operations, NOT_ASKED);
    // READ, and DESCRIBE with it.
    assert_eq!(
        response.topics[1].topic_authorized_operations,
        1 << 3 | 1 << 8
    );
    let all = MetadataRequest::default().with_topics(None);
    let response = answered_to(&access, VERSION, &all);
    assert_eq!(names(&response), [("a".into(), 0)]);
    let response = answered_to(&limited_to(&[]), 0, &by_name(&[]));
    assert!(response.topics.is_empty());
}

#[test]
fn the_id_of_a_topic_does_not_tell_its_name() {
    let id = with_topics().topic_by_name("a").unwrap().id.0;
    let response = answered_to(&limited_to(&[]), VERSION, &by_id(id));
    let topic = &response.topics[0];
    assert_eq!((topic.error_code, topic.topic_id), (29, id));
    assert_eq!((topic.name.as_ref(), topic.partitions.len()), (None, 0));
    let unknown = by_id(Uuid::from_u128(5)).with_include_topic_authorized_operations(true);
    let response = answered_to(&limited_to(&[]), VERSION, &unknown);
    let topic = &response.topics[0];
    assert_eq!(topic.error_code, ErrorCode::UnknownTopicId.code());
    assert_eq!(topic.topic_authorized_operations, NOT_ASKED);
}

#[test]
fn a_missing_topic_is_created_for_who_may_create_it() {
    let (image, options) = (with_topics(), options());
    let rules = Rules {
        image: &image,
        options: &options,
    };
    let request = by_name(&["bad name", "new"]).with_allow_auto_topic_creation(true);
    let without = request.clone().with_allow_auto_topic_creation(false);
    let denied = [("bad name".into(), 29), ("new".into(), 29)];
    let missed = [("bad name".into(), 17), ("new".into(), 3)];
    let described = [(Topic, "bad name", Describe), (Topic, "new", Describe)];
    let with = |right| limited_to(&[described[0], described[1], right]);
    for (access, found, told) in [
        (
            limited_to(&[(Cluster, CLUSTER_NAME, Create)]),
            vec![],
            &denied,
        ),
        (limited_to(&described), vec![], &denied),
        (with((Cluster, CLUSTER_NAME, Create)), vec!["new"], &missed),
        (logged(&[]), vec!["new"], &missed),
    ] {
        let missing = now(missing(rules, &access, &request, VERSION));
        assert_eq!(missing.unwrap(), found);
        assert_eq!(names(&answered_to(&access, VERSION, &request)), *told);
    }
    let access = with((Topic, "new", Create));
    let found = now(missing(rules, &access, &request, VERSION));
    assert_eq!(found.unwrap(), ["new"]);
    let told = names(&answered_to(&access, VERSION, &request));
    assert_eq!(told, [denied[0].clone(), missed[1].clone()]);
    // Who does not want it created needs no right to create it.
    let told = names(&answered_to(&limited_to(&described), VERSION, &without));
    assert_eq!(told, missed);
}

#[test]
fn the_operations_on_the_cluster_are_those_of_the_client() {
    let request = by_name(&[]).with_include_cluster_authorized_operations(true);
    let told = |rights: &[(ResourceType, &str, Operation)]| {
        answered_to(&limited_to(rights), 10, &request).cluster_authorized_operations
    };
    assert_eq!(told(&[(Cluster, CLUSTER_NAME, Create)]), 0);
    let both = [
        (Cluster, CLUSTER_NAME, Create),
        (Cluster, CLUSTER_NAME, Describe),
    ];
    assert_eq!(told(&both), 1 << 5 | 1 << 8);
}

#[test]
fn while_denials_are_only_logged_every_topic_is_shown() {
    let all = MetadataRequest::default().with_topics(None);
    assert_eq!(names(&answered_to(&logged(&[]), VERSION, &all)).len(), 2);
    let named = by_name(&["a"]);
    let told = names(&answered_to(&logged(&[]), VERSION, &named));
    assert_eq!(told, [("a".into(), 0)]);
}
