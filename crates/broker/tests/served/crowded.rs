//! Requests that name seventy thousand things, or as many as a change of metadata may: one of them
//! again and again, or as many that differ. Each is answered or refused by work that grows with its
//! bytes, not with their square.
//!
//! The work is the time that this thread computes: a busy machine does not lengthen it. Its bound
//! is generous: it separates a second from minutes, whatever the processor.

use std::time::Duration;

use broker::dispatch::Reply;
use bytes::Bytes;
use platform::sim::SimDisk;
use wire::StrBytes;
use wire::kafka::{Api, NewestVersion};
use wire::messages::{
    AddPartitionsToTxnRequest, AlterClientQuotasRequest, AlterConfigsRequest,
    AlterPartitionReassignmentsRequest, AlterReplicaLogDirsRequest,
    AlterUserScramCredentialsRequest, ConsumerGroupDescribeRequest, CreateAclsRequest,
    CreatePartitionsRequest, CreateTopicsRequest, DeleteAclsRequest, DeleteGroupsRequest,
    DeleteRecordsRequest, DeleteTopicsRequest, DescribeClientQuotasRequest, DescribeConfigsRequest,
    DescribeGroupsRequest, DescribeLogDirsRequest, DescribeProducersRequest, DescribeQuorumRequest,
    DescribeTopicPartitionsRequest, DescribeTransactionsRequest,
    DescribeUserScramCredentialsRequest, ElectLeadersRequest, FindCoordinatorRequest, GroupId,
    IncrementalAlterConfigsRequest, ListConfigResourcesRequest, ListGroupsRequest,
    ListPartitionReassignmentsRequest, ListTransactionsRequest, MetadataRequest,
    OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest, OffsetForLeaderEpochRequest,
    TransactionalId, UpdateFeaturesRequest, add_partitions_to_txn_request as add,
    alter_client_quotas_request as quotas, alter_configs_request as replace,
    alter_partition_reassignments_request as reassign, alter_replica_log_dirs_request as moves,
    alter_user_scram_credentials_request as scram, create_acls_request as acls,
    create_partitions_request as more, create_topics_request as create,
    delete_acls_request as no_acls, delete_records_request as trim,
    delete_topics_request as delete, describe_client_quotas_request as filter,
    describe_configs_request as describe, describe_log_dirs_request as dirs,
    describe_producers_request as producers, describe_quorum_request as quorum,
    describe_topic_partitions_request as pages, describe_user_scram_credentials_request as users,
    elect_leaders_request as elect, incremental_alter_configs_request as change,
    list_offsets_request as list, list_partition_reassignments_request as reassigned,
    metadata_request as metadata, offset_commit_request as commit, offset_delete_request as forget,
    offset_fetch_request as committed, offset_for_leader_epoch_request as epochs,
    update_features_request as features,
};
use wire::protocol::Request;

use crate::harness::asks::{fetch, list_offsets, produce, text, topic_name, wanted};
use crate::harness::batches::batch;
use crate::harness::client::frame;
use crate::harness::{Cluster, Setup, life};

/// More than a change of metadata may name.
const MANY: i32 = 70_000;
/// As many as it may.
const ACCEPTED: i32 = 9_999;
/// Most that one of these requests may compute.
const WORK_MAX: Duration = Duration::from_secs(20);

/// The things that a request names.
#[derive(Clone, Copy)]
struct Crowd {
    count: i32,
    differ: bool,
}

impl Crowd {
    fn numbers(self) -> impl Iterator<Item = i32> {
        (0..self.count).map(move |number| if self.differ { number } else { 0 })
    }

    fn names(self, of_one: &'static str) -> impl Iterator<Item = StrBytes> {
        self.numbers().map(move |number| match number {
            0 => text(of_one),
            _ => text(&format!("{of_one}.{number}")),
        })
    }

    fn each<T>(self, of_one: &'static str, make: impl Fn(StrBytes) -> T) -> Vec<T> {
        self.names(of_one).map(make).collect()
    }

    fn each_number<T>(self, make: impl Fn(i32) -> T) -> Vec<T> {
        self.numbers().map(make).collect()
    }
}

type AskedRequest = (&'static str, Bytes);

#[allow(
    clippy::needless_pass_by_value,
    reason = "every caller makes one for it"
)]
fn ask<R: Request>(name: &'static str, version: i16, request: R) -> AskedRequest {
    (name, frame(version, &request))
}

fn records(crowd: Crowd) -> Vec<AskedRequest> {
    let one = batch(&["a"]);
    let batches: Vec<_> = crowd.numbers().map(|index| (index, one.clone())).collect();
    let mut read = fetch("t", &[]).with_max_wait_ms(0);
    read.topics[0].partitions = crowd.each_number(|index| wanted(index, 0));
    let mut session = read.clone().with_session_epoch(0);
    session.topics = crowd.each("t", |name| {
        let mut topic = fetch("t", &[(0, 0)]).topics.remove(0);
        topic.topic.0 = name;
        topic
    });
    let mut offsets = list_offsets("t", 0, -1);
    offsets.topics[0].partitions = crowd
        .each_number(|index| list::ListOffsetsPartition::default().with_partition_index(index));
    let ends = epochs::OffsetForLeaderTopic::default()
        .with_topic(topic_name("t"))
        .with_partitions(crowd.each_number(|index| {
            epochs::OffsetForLeaderPartition::default().with_partition(index)
        }));
    let starts = trim::DeleteRecordsTopic::default()
        .with_name(topic_name("t"))
        .with_partitions(crowd.each_number(|index| {
            trim::DeleteRecordsPartition::default().with_partition_index(index)
        }));
    let who = producers::TopicRequest::default()
        .with_name(topic_name("t"))
        .with_partition_indexes(crowd.each_number(|index| index));
    vec![
        ask("Produce", 9, produce("t", -1, &batches)),
        ask("Fetch", 12, read),
        ask("Fetch, a new session", 12, session),
        ask("ListOffsets", 10, offsets),
        ask(
            "OffsetForLeaderEpoch",
            4,
            OffsetForLeaderEpochRequest::default().with_topics(vec![ends]),
        ),
        ask(
            "DeleteRecords",
            2,
            DeleteRecordsRequest::default().with_topics(vec![starts]),
        ),
        ask(
            "DescribeProducers",
            0,
            DescribeProducersRequest::default().with_topics(vec![who]),
        ),
    ]
}

fn topics(crowd: Crowd) -> Vec<AskedRequest> {
    let named = crowd.each("t", |name| {
        metadata::MetadataRequestTopic::default().with_name(Some(name.into()))
    });
    let by_id = crowd.each_number(|number| {
        metadata::MetadataRequestTopic::default()
            .with_name(None)
            .with_topic_id(wire::types::Uuid::from_u128(
                1000 + u128::try_from(number).unwrap(),
            ))
    });
    let created = |partitions: i32| {
        CreateTopicsRequest::default()
            .with_validate_only(true)
            .with_topics(crowd.each("n.n", |name| {
                create::CreatableTopic::default()
                    .with_name(name.into())
                    .with_num_partitions(partitions)
                    .with_replication_factor(1)
            }))
    };
    let grown = crowd.each("t", |name| {
        more::CreatePartitionsTopic::default()
            .with_name(name.into())
            .with_count(3)
            .with_assignments(None)
    });
    let deleted = crowd.each("u", |name| {
        delete::DeleteTopicState::default().with_name(Some(name.into()))
    });
    let described = crowd.each("t", |name| {
        pages::TopicRequest::default().with_name(name.into())
    });
    vec![
        ask(
            "Metadata",
            12,
            MetadataRequest::default().with_topics(Some(named)),
        ),
        ask(
            "Metadata by id",
            12,
            MetadataRequest::default().with_topics(Some(by_id)),
        ),
        ask("CreateTopics", 7, created(1)),
        ask("CreateTopics of nothing", 7, created(-3)),
        ask(
            "CreatePartitions",
            3,
            CreatePartitionsRequest::default()
                .with_validate_only(true)
                .with_topics(grown),
        ),
        ask(
            "DeleteTopics",
            6,
            DeleteTopicsRequest::default().with_topics(deleted),
        ),
        ask(
            "DescribeTopicPartitions",
            0,
            DescribeTopicPartitionsRequest::default().with_topics(described),
        ),
    ]
}

fn settings(crowd: Crowd) -> Vec<AskedRequest> {
    const TOPIC: i8 = 2;
    const GROUP: i8 = 32;
    let config = |name: StrBytes, code: i8, value: String| {
        change::AlterableConfig::default()
            .with_name(name)
            .with_config_operation(code)
            .with_value(Some(StrBytes::from_string(value)))
    };
    let changed = |resources| IncrementalAlterConfigsRequest::default().with_resources(resources);
    let resource = |configs| {
        change::AlterConfigsResource::default()
            .with_resource_type(TOPIC)
            .with_resource_name(text("t"))
            .with_configs(configs)
    };
    let resources = crowd.each("x", |name| resource(Vec::new()).with_resource_name(name));
    let names = crowd.each("x", |name| config(name, 0, "1".into()));
    let list: Vec<String> = crowd.names("e").map(|name| name.to_string()).collect();
    let listed = |code| {
        let name = text("cleanup.policy");
        changed(vec![resource(vec![config(name, code, list.join(","))])])
    };
    let replaced = crowd.each("x", |name| {
        replace::AlterConfigsResource::default()
            .with_resource_type(TOPIC)
            .with_resource_name(name)
    });
    let shown = |kind, keys: Option<Vec<StrBytes>>| {
        crowd.each("t", move |name| {
            describe::DescribeConfigsResource::default()
                .with_resource_type(kind)
                .with_resource_name(name)
                .with_configuration_keys(keys.clone())
        })
    };
    let described = |resources| DescribeConfigsRequest::default().with_resources(resources);
    let keys = crowd.each("k", |name| name);
    let by_key = describe::DescribeConfigsResource::default()
        .with_resource_type(TOPIC)
        .with_resource_name(text("t"))
        .with_configuration_keys(Some(keys));
    let updates = crowd.each("metadata.version", |name| {
        features::FeatureUpdateKey::default()
            .with_feature(name)
            .with_upgrade_type(1)
    });
    vec![
        ask("IncrementalAlterConfigs", 1, changed(resources)),
        ask(
            "IncrementalAlterConfigs, settings",
            1,
            changed(vec![resource(names)]),
        ),
        ask("IncrementalAlterConfigs, append", 1, listed(2)),
        ask("IncrementalAlterConfigs, subtract", 1, listed(3)),
        ask(
            "AlterConfigs",
            2,
            AlterConfigsRequest::default().with_resources(replaced),
        ),
        ask(
            "DescribeConfigs of topics",
            4,
            described(shown(TOPIC, None)),
        ),
        ask(
            "DescribeConfigs of groups",
            4,
            described(shown(GROUP, None)),
        ),
        ask("DescribeConfigs, keys", 4, described(vec![by_key])),
        ask(
            "UpdateFeatures",
            2,
            UpdateFeaturesRequest::default().with_feature_updates(updates),
        ),
        ask(
            "ListConfigResources",
            1,
            ListConfigResourcesRequest::default().with_resource_types(
                crowd.each_number(|number| i8::try_from(number % 100).unwrap()),
            ),
        ),
    ]
}

fn users(crowd: Crowd) -> Vec<AskedRequest> {
    let limited = crowd.each("u", |name| {
        let entity = quotas::EntityData::default()
            .with_entity_type(text("user"))
            .with_entity_name(Some(name));
        let op = quotas::OpData::default()
            .with_key(text("producer_byte_rate"))
            .with_value(1000.0);
        quotas::EntryData::default()
            .with_entity(vec![entity])
            .with_ops(vec![op])
    });
    let filters = crowd.each("user", |name| {
        filter::ComponentData::default().with_entity_type(name)
    });
    let credentials = crowd.each("u", |name| {
        scram::ScramCredentialUpsertion::default()
            .with_name(name)
            .with_mechanism(1)
            .with_iterations(4096)
            .with_salted_password(Bytes::from_static(&[7; 32]))
    });
    let asked = crowd.each("u", |name| users::UserName::default().with_name(name));
    let allowed = crowd.each("u", |name| {
        acls::AclCreation::default().with_principal(name)
    });
    let denied = crowd.each("u", |name| {
        no_acls::DeleteAclsFilter::default().with_principal_filter(Some(name))
    });
    vec![
        ask(
            "AlterClientQuotas",
            1,
            AlterClientQuotasRequest::default()
                .with_validate_only(true)
                .with_entries(limited),
        ),
        ask(
            "DescribeClientQuotas",
            1,
            DescribeClientQuotasRequest::default().with_components(filters),
        ),
        ask(
            "AlterUserScramCredentials",
            0,
            AlterUserScramCredentialsRequest::default().with_upsertions(credentials),
        ),
        ask(
            "DescribeUserScramCredentials",
            0,
            DescribeUserScramCredentialsRequest::default().with_users(Some(asked)),
        ),
        ask(
            "CreateAcls",
            3,
            CreateAclsRequest::default().with_creations(allowed),
        ),
        ask(
            "DeleteAcls",
            3,
            DeleteAclsRequest::default().with_filters(denied),
        ),
    ]
}

fn places(crowd: Crowd) -> Vec<AskedRequest> {
    let reassignments = crowd.each("t", |name| {
        let partition = reassign::ReassignablePartition::default().with_replicas(None);
        reassign::ReassignableTopic::default()
            .with_name(name.into())
            .with_partitions(vec![partition])
    });
    let listed = crowd.each("t", |name| {
        reassigned::ListPartitionReassignmentsTopics::default()
            .with_name(name.into())
            .with_partition_indexes(vec![0])
    });
    let elected = elect::TopicPartitions::default()
        .with_topic(topic_name("t"))
        .with_partitions(crowd.each_number(|index| index));
    let moved = crowd.each("t", |name| {
        moves::AlterReplicaLogDirTopic::default()
            .with_name(name.into())
            .with_partitions(vec![0])
    });
    let moved = moves::AlterReplicaLogDir::default()
        .with_path(text("/logs"))
        .with_topics(moved);
    let sizes = crowd.each("t", |name| {
        dirs::DescribableLogDirTopic::default()
            .with_topic(name.into())
            .with_partitions(vec![0])
    });
    let voters = crowd.each("t", |name| {
        quorum::TopicData::default().with_topic_name(name.into())
    });
    vec![
        ask(
            "AlterPartitionReassignments",
            1,
            AlterPartitionReassignmentsRequest::default().with_topics(reassignments),
        ),
        ask(
            "ListPartitionReassignments",
            0,
            ListPartitionReassignmentsRequest::default().with_topics(Some(listed)),
        ),
        ask(
            "ElectLeaders",
            2,
            ElectLeadersRequest::default().with_topic_partitions(Some(vec![elected])),
        ),
        ask(
            "AlterReplicaLogDirs",
            2,
            AlterReplicaLogDirsRequest::default().with_dirs(vec![moved]),
        ),
        ask(
            "DescribeLogDirs",
            4,
            NewestVersion::from(DescribeLogDirsRequest::default().with_topics(Some(sizes))),
        ),
        ask(
            "DescribeQuorum",
            2,
            DescribeQuorumRequest::default().with_topics(voters),
        ),
    ]
}

fn groups(crowd: Crowd) -> Vec<AskedRequest> {
    let ids = || crowd.each("g", GroupId);
    let positions = crowd.each("g", |name| {
        committed::OffsetFetchRequestGroup::default()
            .with_group_id(GroupId(name))
            .with_topics(None)
    });
    let of_one = crowd.each("t", |name| {
        committed::OffsetFetchRequestTopics::default()
            .with_name(name.into())
            .with_partition_indexes(vec![0])
    });
    let of_one = committed::OffsetFetchRequestGroup::default()
        .with_group_id(GroupId(text("g")))
        .with_topics(Some(of_one));
    let commits = commit::OffsetCommitRequestTopic::default()
        .with_name(topic_name("t"))
        .with_partitions(crowd.each_number(|index| {
            commit::OffsetCommitRequestPartition::default().with_partition_index(index)
        }));
    let commits = OffsetCommitRequest::default()
        .with_group_id(GroupId(text("h")))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![commits]);
    let forgotten = forget::OffsetDeleteRequestTopic::default()
        .with_name(topic_name("t"))
        .with_partitions(crowd.each_number(|index| {
            forget::OffsetDeleteRequestPartition::default().with_partition_index(index)
        }));
    let forgotten = OffsetDeleteRequest::default()
        .with_group_id(GroupId(text("g")))
        .with_topics(vec![forgotten]);
    let fetched = |groups| OffsetFetchRequest::default().with_groups(groups);
    vec![
        ask(
            "FindCoordinator",
            6,
            FindCoordinatorRequest::default().with_coordinator_keys(crowd.each("g", |name| name)),
        ),
        ask(
            "DescribeGroups",
            6,
            DescribeGroupsRequest::default().with_groups(ids()),
        ),
        ask(
            "ConsumerGroupDescribe",
            0,
            ConsumerGroupDescribeRequest::default().with_group_ids(ids()),
        ),
        ask(
            "DeleteGroups",
            2,
            DeleteGroupsRequest::default().with_groups_names(ids()),
        ),
        ask(
            "ListGroups",
            5,
            ListGroupsRequest::default().with_states_filter(crowd.each("s", |name| name)),
        ),
        ask("OffsetFetch", 9, NewestVersion::from(fetched(positions))),
        ask(
            "OffsetFetch of one group",
            9,
            NewestVersion::from(fetched(vec![of_one])),
        ),
        ask("OffsetCommit", 9, NewestVersion::from(commits)),
        ask("OffsetDelete", 0, forgotten),
    ]
}

fn transactions(crowd: Crowd) -> Vec<AskedRequest> {
    let ids = || crowd.each("x", TransactionalId);
    let added = crowd.each("x", |name| {
        add::AddPartitionsToTxnTransaction::default().with_transactional_id(TransactionalId(name))
    });
    let of_one = crowd.each("t", |name| {
        add::AddPartitionsToTxnTopic::default()
            .with_name(name.into())
            .with_partitions(vec![0])
    });
    vec![
        ask(
            "DescribeTransactions",
            0,
            DescribeTransactionsRequest::default().with_transactional_ids(ids()),
        ),
        ask(
            "ListTransactions",
            1,
            ListTransactionsRequest::default().with_state_filters(crowd.each("s", |name| name)),
        ),
        ask(
            "AddPartitionsToTxn",
            5,
            AddPartitionsToTxnRequest::default().with_transactions(added),
        ),
        ask(
            "AddPartitionsToTxn of one",
            3,
            AddPartitionsToTxnRequest::default()
                .with_v3_and_below_transactional_id(TransactionalId(text("x")))
                .with_v3_and_below_topics(of_one),
        ),
    ]
}

/// How long this thread has computed, which the simulated clock does not know.
#[allow(clippy::disallowed_methods, reason = "no file of the broker")]
fn computed() -> Duration {
    let said = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let nanos = said.split_whitespace().next().unwrap();
    Duration::from_nanos(nanos.parse().unwrap())
}

async fn is_answered_in_time(cluster: &Cluster, (name, frame): AskedRequest) {
    let begun = computed();
    let reply = cluster.reply(0, &frame).await;
    let took = computed().saturating_sub(begun);
    assert!(!matches!(reply, Reply::Nothing), "{name} is not answered");
    assert!(
        took < WORK_MAX,
        "{name} of {} bytes took {took:?}",
        frame.len()
    );
    let goes_on = cluster.offset("t", 1, -1).await > 0;
    assert!(goes_on, "{name}");
}

fn all_are_answered(counts: &[i32], of_one_kind: impl Fn(Crowd) -> Vec<AskedRequest>) {
    let crowds = counts.iter().flat_map(|count| {
        let count = *count;
        [false, true].map(|differ| Crowd { count, differ })
    });
    for crowd in crowds {
        life(&SimDisk::new(1), &Setup::shards(2), async |cluster| {
            cluster.create("t", 2).await;
            cluster.create("n.n_n", 1).await;
            cluster.commit("g", "t", 0, 1).await;
            cluster.produce("t", 1, &["a"]).await;
            for asked in of_one_kind(crowd) {
                is_answered_in_time(cluster, asked).await;
            }
        });
    }
}

#[test]
fn requests_about_records() {
    all_are_answered(&[MANY], records);
}

#[test]
fn requests_about_topics() {
    all_are_answered(&[MANY, ACCEPTED], topics);
}

#[test]
fn requests_about_settings() {
    all_are_answered(&[MANY, ACCEPTED], settings);
}

#[test]
fn requests_about_users() {
    all_are_answered(&[MANY, ACCEPTED], users);
}

#[test]
fn requests_about_places() {
    all_are_answered(&[MANY], places);
}

#[test]
fn requests_about_groups() {
    all_are_answered(&[MANY], groups);
}

#[test]
fn requests_about_transactions() {
    all_are_answered(&[MANY], transactions);
}

/// Names and numbers of a request, and how many bytes tell of each: a small request must have no
/// huge answer.
#[test]
fn a_name_of_thirty_two_kilobytes_is_not_told_again_for_each_partition() {
    life(&SimDisk::new(1), &Setup::shards(1), async |cluster| {
        let long = topic_name(&"x".repeat(32_000));
        let indexes: Vec<i32> = (0..9_000).collect();
        let elected = elect::TopicPartitions::default()
            .with_topic(long.clone())
            .with_partitions(indexes.clone());
        let who = producers::TopicRequest::default()
            .with_name(long.clone())
            .with_partition_indexes(indexes.clone());
        let partition = |index: &i32| {
            reassign::ReassignablePartition::default()
                .with_partition_index(*index)
                .with_replicas(None)
        };
        let reassigned = reassign::ReassignableTopic::default()
            .with_name(long)
            .with_partitions(indexes.iter().map(partition).collect());
        for (name, frame) in [
            ask(
                "ElectLeaders",
                2,
                ElectLeadersRequest::default().with_topic_partitions(Some(vec![elected])),
            ),
            ask(
                "DescribeProducers",
                0,
                DescribeProducersRequest::default().with_topics(vec![who]),
            ),
            ask(
                "AlterPartitionReassignments",
                1,
                AlterPartitionReassignmentsRequest::default().with_topics(vec![reassigned]),
            ),
        ] {
            let Reply::Send(answer) = cluster.reply(0, &frame).await else {
                panic!("{name} is not answered");
            };
            let bytes = answer.to_bytes().len();
            assert!(
                bytes < 10 << 20,
                "{name}: {bytes} bytes for {}",
                frame.len()
            );
        }
    });
}

#[test]
fn every_kind_of_request_with_a_list_is_here() {
    let all = [
        records,
        topics,
        settings,
        users,
        places,
        groups,
        transactions,
    ];
    let asked = all.iter().flat_map(|kind| {
        kind(Crowd {
            count: MANY,
            differ: false,
        })
    });
    let asked: Vec<&str> = asked.map(|(name, _)| name).collect();
    // Without a list, with one of a fixed kind, or with one that its members' machines look at.
    let others = [
        Api::ApiVersions,
        Api::InitProducerId,
        Api::AddOffsetsToTxn,
        Api::EndTxn,
        Api::DescribeCluster,
        Api::Heartbeat,
        Api::JoinGroup,
        Api::SyncGroup,
        Api::LeaveGroup,
        Api::ConsumerGroupHeartbeat,
        Api::TxnOffsetCommit,
        Api::WriteTxnMarkers,
        Api::SaslHandshake,
        Api::SaslAuthenticate,
        Api::DescribeAcls,
        Api::CreateDelegationToken,
        Api::RenewDelegationToken,
        Api::ExpireDelegationToken,
        Api::DescribeDelegationToken,
        Api::UnregisterBroker,
        Api::AddRaftVoter,
        Api::RemoveRaftVoter,
        Api::GetTelemetrySubscriptions,
        Api::PushTelemetry,
    ];
    for api in Api::ALL {
        let is_here = asked.contains(&api.name());
        let is_named = asked.iter().any(|name| name.starts_with(api.name()));
        assert!(
            is_here || is_named || others.contains(api),
            "{}",
            api.name()
        );
    }
}
