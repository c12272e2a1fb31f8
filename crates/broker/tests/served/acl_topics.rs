//! Topics and settings that ACLs protect: what a client sees, creates, changes and deletes, and the
//! errors for the rest.

use broker::authorizer::AuthorizerMode;
use platform::sim::SimDisk;
use wire::acl::{NOT_ASKED, Operation};
use wire::kafka::NewestVersion;
use wire::messages::create_partitions_request::CreatePartitionsTopic;
use wire::messages::create_topics_request::CreatableTopic;
use wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use wire::messages::delete_topics_request::DeleteTopicState;
use wire::messages::describe_configs_request::DescribeConfigsResource;
use wire::messages::describe_producers_request::TopicRequest;
use wire::messages::describe_topic_partitions_request as pages;
use wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use wire::messages::{
    CreatePartitionsRequest, CreateTopicsRequest, DeleteRecordsRequest, DeleteTopicsRequest,
    DescribeClusterRequest, DescribeConfigsRequest, DescribeProducersRequest,
    DescribeTopicPartitionsRequest, IncrementalAlterConfigsRequest, ListOffsetsRequest,
    MetadataRequest, MetadataResponse, OffsetForLeaderEpochRequest,
};
use wire::types::{ErrorCode, Uuid};

use crate::harness::asks::{error, list_offsets, text, topic_name};
use crate::harness::users::{CLUSTER, User, topic};
use crate::harness::{Cluster, Setup, life};

const DENIED: i16 = 29;
const UNKNOWN: i16 = 3;

fn with(setup: &Setup, story: impl AsyncFnOnce(&Cluster)) {
    life(&SimDisk::new(1), setup, story);
}

fn on(shards: usize, story: impl AsyncFnOnce(&Cluster)) {
    with(&Setup::shards(shards).with_users(), story);
}

fn naming(names: &[&str]) -> MetadataRequest {
    let topic = |name: &&str| MetadataRequestTopic::default().with_name(Some(topic_name(name)));
    MetadataRequest::default().with_topics(Some(names.iter().map(topic).collect()))
}

/// Name and code of each topic of an answer.
fn shown(answer: &MetadataResponse) -> Vec<(String, i16)> {
    let topics = answer.topics.iter().map(|topic| {
        let name = topic.name.as_ref().map(|name| name.0.to_string());
        (name.unwrap_or_default(), topic.error_code)
    });
    topics.collect()
}

fn entries(entries: &[(&str, i16)]) -> Vec<(String, i16)> {
    let entries = entries.iter();
    entries
        .map(|(name, code)| ((*name).to_owned(), *code))
        .collect()
}

#[test]
fn a_client_sees_the_topics_that_it_may_describe_and_no_others() {
    on(2, async |cluster| {
        for name in ["mine", "other"] {
            cluster.create(name, 1).await;
        }
        cluster.allow("ada", Operation::Write, topic("mine")).await;
        let user = User::login(cluster, "ada").await;
        let all = MetadataRequest::default().with_topics(None);
        let answer = user.ask(13, &all).await;
        assert_eq!(shown(&answer), entries(&[("mine", 0)]));
        let answer = user.ask(13, &naming(&["mine", "none", "other"])).await;
        let expected = [("mine", 0), ("none", DENIED), ("other", DENIED)];
        assert_eq!(shown(&answer), entries(&expected));
        assert_eq!(answer.topics[0].topic_id, cluster.topic_id("mine").0);
        assert!(answer.topics[2].topic_id.is_nil());
        // By id.
        let asked = MetadataRequestTopic::default()
            .with_name(None)
            .with_topic_id(cluster.topic_id("other").0);
        let request = MetadataRequest::default().with_topics(Some(vec![asked]));
        let answer = user.ask(13, &request).await;
        assert_eq!(
            (answer.topics[0].name.as_ref(), answer.topics[0].error_code),
            (None, DENIED)
        );
        // In pages.
        let pages = DescribeTopicPartitionsRequest::default().with_response_partition_limit(10);
        let answer = user.ask(0, &pages).await;
        let names = answer.topics.iter().filter_map(|topic| topic.name.as_ref());
        assert_eq!(
            names.map(|name| name.as_str()).collect::<Vec<_>>(),
            ["mine"]
        );
        let named = ["mine", "none", "other"];
        let named = named.map(|name| pages::TopicRequest::default().with_name(topic_name(name)));
        let answer = user.ask(0, &pages.with_topics(named.into())).await;
        let codes = answer.topics.iter().map(|topic| topic.error_code);
        assert_eq!(codes.collect::<Vec<_>>(), [0, DENIED, DENIED]);
        // What is denied now is not seen any more.
        cluster
            .deny("ada", Operation::Describe, topic("mine"))
            .await;
        assert!(user.ask(13, &all).await.topics.is_empty());
    });
}

#[test]
fn a_client_without_rights_creates_no_topic_by_naming_it() {
    let mut setup = Setup::shards(2).with_users();
    setup.options.auto_create_topics = true;
    with(&setup, async |cluster| {
        let user = User::login(cluster, "ada").await;
        let request = naming(&["new"]).with_allow_auto_topic_creation(true);
        let denied = entries(&[("new", DENIED)]);
        let exists = || !cluster.topic_id("new").0.is_nil();
        assert_eq!(shown(&user.ask(13, &request).await), denied);
        // A right to create that does not show the topic is not enough.
        cluster.allow("ada", Operation::Create, topic("new")).await;
        assert_eq!(shown(&user.ask(13, &request).await), denied);
        cluster.remove_acls("ada", topic("new")).await;
        // Nor one that only shows it.
        cluster
            .allow("ada", Operation::Describe, topic("new"))
            .await;
        assert_eq!(shown(&user.ask(13, &request).await), denied);
        assert!(!exists());
        cluster.allow("ada", Operation::Create, topic("new")).await;
        let answer = user.ask(13, &request).await;
        assert_eq!(shown(&answer), entries(&[("new", 0)]));
        assert!(exists());
        cluster.allow("ada", Operation::Create, CLUSTER).await;
        cluster.allow("ada", Operation::Read, topic("next")).await;
        let answer = user
            .ask(13, &naming(&["next"]).with_allow_auto_topic_creation(true))
            .await;
        assert_eq!(shown(&answer), entries(&[("next", 0)]));
    });
}

/// Code, code of the settings, number of partitions of the only topic of an answer.
async fn created(user: &User<'_>, name: &str) -> (i16, i16, i32) {
    let topic = CreatableTopic::default()
        .with_name(topic_name(name))
        .with_num_partitions(2)
        .with_replication_factor(1);
    let request = CreateTopicsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(10_000);
    let answer = user.ask(7, &request).await.topics.remove(0);
    let settings = answer.topic_config_error_code;
    (answer.error_code, settings, answer.num_partitions)
}

async fn deleted(user: &User<'_>, name: Option<&str>, id: Uuid) -> (Option<String>, i16) {
    let state = DeleteTopicState::default()
        .with_name(name.map(topic_name))
        .with_topic_id(id);
    let request = DeleteTopicsRequest::default()
        .with_topics(vec![state])
        .with_timeout_ms(10_000);
    let answer = user.ask(6, &request).await.responses.remove(0);
    (answer.name.map(|name| name.to_string()), answer.error_code)
}

async fn grown(user: &User<'_>, name: &str) -> i16 {
    let topic = CreatePartitionsTopic::default()
        .with_name(topic_name(name))
        .with_count(5)
        .with_assignments(None);
    let request = CreatePartitionsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(10_000);
    user.ask(3, &request).await.results[0].error_code
}

#[test]
fn topics_are_created_grown_and_deleted_with_a_right_to_each() {
    for shards in [1, 2] {
        on(shards, async |cluster| {
            let user = User::login(cluster, "ada").await;
            let name = Some("mine".to_owned());
            assert_eq!(created(&user, "mine").await, (DENIED, 0, -1));
            cluster.allow("ada", Operation::Create, topic("mine")).await;
            assert_eq!(created(&user, "mine").await, (0, DENIED, -1));
            assert_eq!(created(&user, "other").await.0, DENIED);
            let id = cluster.topic_id("mine").0;
            assert_eq!(grown(&user, "mine").await, DENIED);
            assert_eq!(
                deleted(&user, Some("mine"), Uuid::nil()).await,
                (name.clone(), DENIED)
            );
            assert_eq!(deleted(&user, None, id).await, (None, DENIED));
            cluster.allow("ada", Operation::Alter, topic("mine")).await;
            assert_eq!(grown(&user, "mine").await, 0);
            // ALTER implies DESCRIBE.
            assert_eq!(deleted(&user, None, id).await, (name.clone(), DENIED));
            cluster.allow("ada", Operation::Delete, topic("mine")).await;
            assert_eq!(deleted(&user, None, id).await, (name, 0));
            assert_eq!(deleted(&user, Some("mine"), Uuid::nil()).await.1, UNKNOWN);
            // With rights on the cluster no topic needs its own.
            cluster.allow("bob", Operation::Create, CLUSTER).await;
            cluster.allow("bob", Operation::Delete, CLUSTER).await;
            cluster
                .allow("bob", Operation::DescribeConfigs, topic("any"))
                .await;
            let user = User::login(cluster, "bob").await;
            assert_eq!(created(&user, "any").await, (0, 0, 2));
            assert_eq!(deleted(&user, Some("any"), Uuid::nil()).await.1, 0);
        });
    }
}

#[test]
fn positions_are_told_of_topics_that_the_client_may_describe() {
    on(2, async |cluster| {
        for name in ["mine", "other"] {
            cluster.create(name, 1).await;
            cluster.produce(name, 0, &["a"]).await;
        }
        cluster
            .allow("ada", Operation::Describe, topic("mine"))
            .await;
        cluster
            .allow("bob", Operation::ClusterAction, CLUSTER)
            .await;
        let named = ["mine", "other", "none"];
        let offsets = named.map(|name| list_offsets(name, 0, -1).topics.remove(0));
        let offsets = ListOffsetsRequest::default()
            .with_replica_id((-1).into())
            .with_topics(offsets.into());
        let epochs = named.map(|name| {
            let partition = OffsetForLeaderPartition::default();
            OffsetForLeaderTopic::default()
                .with_topic(topic_name(name))
                .with_partitions(vec![partition])
        });
        let epochs = OffsetForLeaderEpochRequest::default().with_topics(epochs.into());
        let told = async |user: &User<'_>| {
            let answer = user
                .ask(11, &NewestVersion::from(offsets.clone()))
                .await
                .message;
            let offsets = answer.topics.iter().map(|topic| {
                let partition = &topic.partitions[0];
                (
                    topic.name.to_string(),
                    partition.error_code,
                    partition.offset,
                )
            });
            let answer = user.ask(4, &epochs).await;
            let ends = answer.topics.iter().map(|topic| {
                let partition = &topic.partitions[0];
                (
                    topic.topic.to_string(),
                    partition.error_code,
                    partition.end_offset,
                )
            });
            (offsets.collect::<Vec<_>>(), ends.collect::<Vec<_>>())
        };
        let entry = |name: &str, code, offset| (name.to_owned(), code, offset);
        let user = User::login(cluster, "ada").await;
        let (offsets, ends) = told(&user).await;
        let denied = [entry("other", DENIED, -1), entry("none", DENIED, -1)];
        assert_eq!(offsets[0], entry("mine", 0, 1));
        assert_eq!(offsets[1..], denied);
        assert_eq!(ends[0], entry("mine", 0, 1));
        assert_eq!(ends[1..], denied);
        // A follower asks for ends of epochs by a right on the cluster, and for nothing else.
        let user = User::login(cluster, "bob").await;
        let (offsets, ends) = told(&user).await;
        assert!(offsets.iter().all(|(_, code, _)| *code == DENIED));
        let ends: Vec<_> = ends.into_iter().map(|(_, code, _)| code).collect();
        assert_eq!(ends, [0, 0, UNKNOWN]);
    });
}

#[test]
fn records_are_deleted_and_producers_shown_with_a_right_to_each_topic() {
    on(2, async |cluster| {
        for name in ["deletes", "reads"] {
            cluster.create(name, 1).await;
            cluster.produce(name, 0, &["a"]).await;
        }
        cluster
            .allow("ada", Operation::Delete, topic("deletes"))
            .await;
        cluster.allow("ada", Operation::Read, topic("reads")).await;
        let user = User::login(cluster, "ada").await;
        let named = ["deletes", "none", "reads"];
        let topics = named.map(|name| {
            let partition = DeleteRecordsPartition::default().with_offset(-1);
            DeleteRecordsTopic::default()
                .with_name(topic_name(name))
                .with_partitions(vec![partition])
        });
        let request = DeleteRecordsRequest::default()
            .with_topics(topics.into())
            .with_timeout_ms(1000);
        let answer = user.ask(2, &request).await;
        let told = answer.topics.iter().map(|topic| {
            let partition = &topic.partitions[0];
            (partition.error_code, partition.low_watermark)
        });
        assert_eq!(
            told.collect::<Vec<_>>(),
            [(0, 1), (DENIED, -1), (DENIED, -1)]
        );
        assert_eq!(cluster.offset("reads", 0, -2).await, 0);
        let named = ["deletes", "none", "reads", "bad name"];
        let topics = named.map(|name| {
            TopicRequest::default()
                .with_name(topic_name(name))
                .with_partition_indexes(vec![0])
        });
        let request = DescribeProducersRequest::default().with_topics(topics.into());
        let answer = user.ask(0, &request).await;
        let told = answer.topics.iter().map(|topic| {
            let partition = &topic.partitions[0];
            let message = partition.error_message.as_deref().unwrap_or_default();
            (partition.error_code, message.len())
        });
        let denied = (DENIED, "Topic authorization failed.".len());
        let told: Vec<_> = told.collect();
        assert_eq!(told[..3], [denied, denied, (0, 0)]);
        assert_eq!(error(told[3].0), Some(ErrorCode::InvalidTopicException));
    });
}

/// Codes of describing a resource, and of setting one of its settings.
async fn configured(user: &User<'_>, (kind, name): (i8, &str), setting: &str) -> (i16, i16) {
    let resource = DescribeConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_configuration_keys(None);
    let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
    let described = user.ask(4, &request).await.results.remove(0);
    assert_eq!(described.configs.is_empty(), described.error_code != 0);
    let config = AlterableConfig::default()
        .with_name(text(setting))
        .with_value(Some(text("1000000")));
    let resource = AlterConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_configs(vec![config]);
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    let altered = user.ask(1, &request).await.responses.remove(0);
    (described.error_code, altered.error_code)
}

#[test]
fn settings_are_those_of_resources_that_the_client_has_a_right_to() {
    on(2, async |cluster| {
        cluster.create("t", 1).await;
        let user = User::login(cluster, "ada").await;
        let settings = async || {
            [
                configured(&user, (2, "t"), "retention.ms").await,
                configured(&user, (32, "g"), "consumer.session.timeout.ms").await,
                configured(&user, (16, "m"), "interval.ms").await,
            ]
        };
        assert_eq!(settings().await, [(DENIED, DENIED), (30, 30), (31, 31)]);
        cluster
            .allow("ada", Operation::DescribeConfigs, topic("t"))
            .await;
        cluster
            .allow("ada", Operation::DescribeConfigs, CLUSTER)
            .await;
        let told = settings().await;
        assert_eq!(
            (told[0], told[1], told[2]),
            ((0, DENIED), (30, 30), (0, 31))
        );
        cluster
            .allow("ada", Operation::AlterConfigs, topic("t"))
            .await;
        assert_eq!(settings().await[0], (0, 0));
    });
}

#[test]
fn the_operations_that_a_client_may_do_are_told_on_demand() {
    on(1, async |cluster| {
        cluster.create("t", 1).await;
        let user = User::login(cluster, "ada").await;
        let request = DescribeClusterRequest::default()
            .with_endpoint_type(1)
            .with_include_cluster_authorized_operations(true);
        let bits = async |user: &User<'_>| {
            let answer = user.ask(2, &request).await;
            answer.cluster_authorized_operations
        };
        cluster.allow("ada", Operation::Create, CLUSTER).await;
        assert_eq!(bits(&user).await, 0);
        cluster.allow("ada", Operation::Describe, CLUSTER).await;
        assert_eq!(bits(&user).await, 1 << 5 | 1 << 8);
        cluster.allow("ada", Operation::Write, topic("t")).await;
        let request = naming(&["t", "x"]).with_include_topic_authorized_operations(true);
        let answer = user.ask(13, &request).await;
        let told = answer.topics.iter();
        let told = told.map(|topic| topic.topic_authorized_operations);
        assert_eq!(told.collect::<Vec<_>>(), [1 << 4 | 1 << 8, NOT_ASKED]);
        // A super user may do everything.
        let answer = cluster.ask(13, &request).await;
        assert_eq!(answer.topics[0].topic_authorized_operations, 3576);
    });
}

#[test]
fn while_denials_are_only_logged_a_client_without_acls_does_everything() {
    let setup = Setup::shards(2)
        .with_users()
        .authorized(AuthorizerMode::Log);
    with(&setup, async |cluster| {
        let user = User::login(cluster, "ada").await;
        assert_eq!(created(&user, "t").await, (0, 0, 2));
        let all = MetadataRequest::default().with_topics(None);
        assert_eq!(shown(&user.ask(13, &all).await), entries(&[("t", 0)]));
        assert_eq!(grown(&user, "t").await, 0);
        assert_eq!(deleted(&user, Some("t"), Uuid::nil()).await.1, 0);
        let counted = |operation: &str| {
            let labels = format!("resource_type=\"TOPIC\",operation=\"{operation}\"");
            let would = "forebay_authorization_would_deny_total";
            cluster.metric(&format!("{would}{{{labels}}}"))
        };
        for operation in ["CREATE", "ALTER", "DELETE"] {
            assert_eq!(counted(operation).as_deref(), Some("1"), "{operation}");
        }
        // What the client did not ask for is not counted: neither the list nor the settings.
        assert_eq!(counted("DESCRIBE_CONFIGS"), None);
    });
}
