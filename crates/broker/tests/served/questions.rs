//! For every API and version: requests that are granted, and requests with something in them that
//! cannot be.

use broker::dispatch::Reply;
use bytes::Bytes;
use wire::StrBytes;
use wire::kafka::{Api, NewestVersion};
use wire::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, AlterConfigsRequest, ApiVersionsRequest,
    ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest, CreatePartitionsRequest,
    CreateTopicsRequest, DeleteGroupsRequest, DeleteRecordsRequest, DeleteTopicsRequest,
    DescribeClusterRequest, DescribeConfigsRequest, DescribeGroupsRequest, DescribeLogDirsRequest,
    DescribeProducersRequest, DescribeTopicPartitionsRequest, DescribeTransactionsRequest,
    EndTxnRequest, FindCoordinatorRequest, GroupId, HeartbeatRequest,
    IncrementalAlterConfigsRequest, InitProducerIdRequest, JoinGroupRequest, LeaveGroupRequest,
    ListGroupsRequest, ListTransactionsRequest, MetadataRequest, OffsetCommitRequest,
    OffsetDeleteRequest, OffsetFetchRequest, OffsetForLeaderEpochRequest, SyncGroupRequest,
    TransactionalId, TxnOffsetCommitRequest, WriteTxnMarkersRequest,
    add_partitions_to_txn_request as add, alter_configs_request as alter,
    create_partitions_request as more, create_topics_request as create,
    delete_records_request as trim, delete_topics_request as delete,
    describe_configs_request as describe, describe_log_dirs_request as dirs,
    describe_producers_request as producers, describe_topic_partitions_request as pages,
    incremental_alter_configs_request as change, join_group_request as join,
    leave_group_request as leave, list_offsets_request as list, metadata_request as metadata,
    offset_commit_request as commit, offset_delete_request as forget,
    offset_fetch_request as committed, offset_for_leader_epoch_request as epochs,
    txn_offset_commit_request as txn_commit, write_txn_markers_request as markers,
};
use wire::protocol::Request;

use crate::admin_questions;
use crate::harness::Cluster;
use crate::harness::asks::{fetch, list_offsets, produce, text, topic_name};
use crate::harness::batches::batch;
use crate::harness::client::{decode, frame};

/// The topic that is there, with two partitions, and one that is not.
pub(crate) const TOPIC: &str = "t";
pub(crate) const MISSING: &str = "missing";

/// A request, and how to show its answer.
pub(crate) struct Question {
    pub(crate) frame: Bytes,
    pub(crate) show: fn(i16, Reply) -> String,
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "every caller makes one for it"
)]
pub(crate) fn ask<R>(version: i16, request: R) -> Question
where
    R: Request<Response: std::fmt::Debug> + 'static,
{
    Question {
        frame: frame(version, &request),
        show: |version, reply| format!("{:?}", decode::<R>(version, reply)),
    }
}

fn group(name: &str) -> GroupId {
    GroupId(text(name))
}

/// A request in which everything is granted.
pub(crate) fn granted(api: Api, version: i16, cluster: &Cluster) -> Question {
    question(api, version, cluster, TOPIC, 0)
}

/// A request in which something is refused, for APIs that can refuse a part. The name of the topic
/// is unknown, or the number of the partition.
pub(crate) fn refused(api: Api, version: i16, cluster: &Cluster, topic: &str) -> Option<Question> {
    let (topic, partition) = (topic, if topic == TOPIC { 9 } else { 0 });
    let whole_topic = topic == TOPIC
        && matches!(
            api,
            Api::Metadata
                | Api::DescribeClientQuotas
                | Api::DescribeUserScramCredentials
                | Api::ElectLeaders
                | Api::AlterReplicaLogDirs
                | Api::AlterUserScramCredentials
                | Api::PushTelemetry
                | Api::AlterPartitionReassignments
                | Api::DescribeQuorum
                | Api::UpdateFeatures
                | Api::UnregisterBroker
                | Api::AddRaftVoter
                | Api::RemoveRaftVoter
                | Api::AlterClientQuotas
                | Api::DeleteTopics
                | Api::DescribeConfigs
                | Api::AlterConfigs
                | Api::IncrementalAlterConfigs
                | Api::DescribeTopicPartitions
                | Api::CreatePartitions
        );
    let cannot = matches!(
        api,
        Api::OffsetFetch
            | Api::FindCoordinator
            | Api::DescribeGroups
            | Api::ConsumerGroupHeartbeat
            | Api::ConsumerGroupDescribe
            | Api::ListGroups
            | Api::ApiVersions
            | Api::CreateTopics
            | Api::InitProducerId
            | Api::DescribeLogDirs
            | Api::DescribeCluster
            | Api::JoinGroup
            | Api::ListTransactions
            | Api::ListPartitionReassignments
            | Api::ListConfigResources
            | Api::GetTelemetrySubscriptions
    );
    (!cannot && !whole_topic).then(|| question(api, version, cluster, topic, partition))
}

fn question(api: Api, v: i16, cluster: &Cluster, topic: &str, partition: i32) -> Question {
    if let Some(question) = admin_questions::question(api, v, topic == TOPIC) {
        return question;
    }
    match api {
        Api::Produce | Api::Fetch => records(api, v, cluster, topic, partition),
        Api::ListOffsets
        | Api::DeleteRecords
        | Api::OffsetForLeaderEpoch
        | Api::DescribeProducers
        | Api::DescribeLogDirs
        | Api::InitProducerId => partitions(api, v, topic, partition),
        Api::OffsetCommit | Api::OffsetFetch | Api::OffsetDelete => {
            positions(api, v, cluster, topic, partition)
        }
        Api::JoinGroup
        | Api::Heartbeat
        | Api::LeaveGroup
        | Api::SyncGroup
        | Api::DescribeGroups
        | Api::ListGroups
        | Api::DeleteGroups
        | Api::ConsumerGroupHeartbeat
        | Api::ConsumerGroupDescribe
        | Api::FindCoordinator => groups(api, v),
        Api::AddPartitionsToTxn
        | Api::AddOffsetsToTxn
        | Api::EndTxn
        | Api::WriteTxnMarkers
        | Api::TxnOffsetCommit
        | Api::DescribeTransactions
        | Api::ListTransactions => transactions(api, v, topic, partition),
        Api::DescribeConfigs | Api::AlterConfigs | Api::IncrementalAlterConfigs => {
            settings(api, v, topic)
        }
        _ => topics(api, v, cluster, topic),
    }
}

fn records(api: Api, v: i16, cluster: &Cluster, topic: &str, partition: i32) -> Question {
    let name = if v >= 13 { "" } else { topic };
    let id = if v >= 13 {
        unknown_or(cluster, topic)
    } else {
        wire::types::Uuid::nil()
    };
    if api == Api::Produce {
        let mut request = produce(name, -1, &[(partition, batch(&["a"]))]);
        request.topic_data[0].topic_id = id;
        return ask(v, request);
    }
    let mut request = fetch(name, &[(partition, 0)]);
    request.topics[0].topic_id = id;
    ask(v, request)
}

fn unknown_or(cluster: &Cluster, topic: &str) -> wire::types::Uuid {
    let id = cluster.topic_id(topic).0;
    if id.is_nil() {
        wire::types::Uuid::from_u128(404)
    } else {
        id
    }
}

fn partitions(api: Api, v: i16, topic: &str, partition: i32) -> Question {
    match api {
        Api::ListOffsets => {
            let mut request = list_offsets(topic, partition, -1);
            let more = list::ListOffsetsPartition::default()
                .with_partition_index(partition)
                .with_timestamp(-2);
            // A partition must not be named twice.
            request.topics[0]
                .partitions
                .push(more.with_partition_index(partition + 1));
            ask(v, NewestVersion::from(request))
        }
        Api::DeleteRecords => {
            let partition = trim::DeleteRecordsPartition::default()
                .with_partition_index(partition)
                .with_offset(-1);
            let topic = trim::DeleteRecordsTopic::default()
                .with_name(topic_name(topic))
                .with_partitions(vec![partition]);
            ask(v, DeleteRecordsRequest::default().with_topics(vec![topic]))
        }
        Api::OffsetForLeaderEpoch => {
            let partition = epochs::OffsetForLeaderPartition::default().with_partition(partition);
            let topic = epochs::OffsetForLeaderTopic::default()
                .with_topic(topic_name(topic))
                .with_partitions(vec![partition.with_leader_epoch(0)]);
            ask(
                v,
                OffsetForLeaderEpochRequest::default().with_topics(vec![topic]),
            )
        }
        Api::DescribeProducers => {
            let topic = producers::TopicRequest::default()
                .with_name(topic_name(topic))
                .with_partition_indexes(vec![partition]);
            ask(
                v,
                DescribeProducersRequest::default().with_topics(vec![topic]),
            )
        }
        Api::DescribeLogDirs => {
            let topic = dirs::DescribableLogDirTopic::default()
                .with_topic(topic_name(topic))
                .with_partitions(vec![partition]);
            let request = DescribeLogDirsRequest::default().with_topics(Some(vec![topic]));
            ask(v, NewestVersion::from(request))
        }
        _ => ask(
            v,
            InitProducerIdRequest::default().with_transactional_id(None),
        ),
    }
}

fn positions(api: Api, v: i16, cluster: &Cluster, topic: &str, partition: i32) -> Question {
    match api {
        Api::OffsetCommit => {
            let partition = commit::OffsetCommitRequestPartition::default()
                .with_partition_index(partition)
                .with_committed_offset(1)
                .with_committed_metadata(Some(text("note")));
            let topic = commit::OffsetCommitRequestTopic::default()
                .with_name(topic_name(topic))
                .with_topic_id(unknown_or(cluster, topic))
                .with_partitions(vec![partition]);
            let request = OffsetCommitRequest::default()
                .with_group_id(group("g"))
                .with_generation_id_or_member_epoch(-1);
            ask(v, NewestVersion::from(request.with_topics(vec![topic])))
        }
        Api::OffsetFetch if v >= 8 => {
            let topic = committed::OffsetFetchRequestTopics::default()
                .with_name(topic_name(topic))
                .with_topic_id(unknown_or(cluster, topic))
                .with_partition_indexes(vec![partition]);
            let group = committed::OffsetFetchRequestGroup::default()
                .with_group_id(group("g"))
                .with_topics(Some(vec![topic]));
            let request = OffsetFetchRequest::default().with_groups(vec![group]);
            ask(v, NewestVersion::from(request))
        }
        Api::OffsetFetch => {
            let topic = committed::OffsetFetchRequestTopic::default()
                .with_name(topic_name(topic))
                .with_partition_indexes(vec![partition]);
            let request = OffsetFetchRequest::default().with_group_id(group("g"));
            ask(
                v,
                NewestVersion::from(request.with_topics(Some(vec![topic]))),
            )
        }
        _ => {
            let partition =
                forget::OffsetDeleteRequestPartition::default().with_partition_index(partition);
            let topic = forget::OffsetDeleteRequestTopic::default()
                .with_name(topic_name(topic))
                .with_partitions(vec![partition]);
            let request = OffsetDeleteRequest::default().with_group_id(group("g"));
            ask(v, request.with_topics(vec![topic]))
        }
    }
}

fn groups(api: Api, v: i16) -> Question {
    match api {
        Api::FindCoordinator if v >= 4 => ask(
            v,
            FindCoordinatorRequest::default().with_coordinator_keys(vec![text("g")]),
        ),
        Api::FindCoordinator => ask(v, FindCoordinatorRequest::default().with_key(text("g"))),
        Api::JoinGroup => {
            let protocol = join::JoinGroupRequestProtocol::default()
                .with_name(text("range"))
                .with_metadata(Bytes::from_static(b"x"));
            let request = JoinGroupRequest::default()
                .with_group_id(group(&format!("joined-{v}")))
                .with_session_timeout_ms(10_000)
                .with_rebalance_timeout_ms(10_000)
                .with_protocol_type(text("consumer"))
                .with_protocols(vec![protocol]);
            ask(v, request)
        }
        Api::Heartbeat => {
            let request = HeartbeatRequest::default().with_group_id(group("nobody"));
            ask(v, request.with_member_id(text("nobody")))
        }
        Api::LeaveGroup if v >= 3 => {
            let member = leave::MemberIdentity::default().with_member_id(text("nobody"));
            let request = LeaveGroupRequest::default().with_group_id(group("nobody"));
            ask(v, request.with_members(vec![member]))
        }
        Api::LeaveGroup => {
            let request = LeaveGroupRequest::default().with_group_id(group("nobody"));
            ask(v, request.with_member_id(text("nobody")))
        }
        Api::SyncGroup => {
            let request = SyncGroupRequest::default()
                .with_group_id(group("nobody"))
                .with_member_id(text("nobody"));
            let named = Some(text("consumer"));
            ask(
                v,
                if v >= 5 {
                    request
                        .with_protocol_type(named.clone())
                        .with_protocol_name(named)
                } else {
                    request
                },
            )
        }
        Api::ConsumerGroupHeartbeat => {
            let request = ConsumerGroupHeartbeatRequest::default()
                .with_group_id(group(&format!("consumers-{v}")))
                .with_member_id(text("m"))
                .with_rebalance_timeout_ms(10_000)
                .with_subscribed_topic_names(Some(vec![topic_name(TOPIC)]))
                .with_topic_partitions(Some(Vec::new()));
            ask(v, request)
        }
        Api::ConsumerGroupDescribe => ask(
            v,
            ConsumerGroupDescribeRequest::default().with_group_ids(vec![group("nobody")]),
        ),
        Api::DescribeGroups => ask(
            v,
            DescribeGroupsRequest::default().with_groups(vec![group("g"), group("x")]),
        ),
        Api::DeleteGroups => ask(
            v,
            DeleteGroupsRequest::default().with_groups_names(vec![group("nobody")]),
        ),
        _ => ask(v, ListGroupsRequest::default()),
    }
}

fn transactions(api: Api, v: i16, topic: &str, partition: i32) -> Question {
    let id = TransactionalId(text("nobody"));
    let in_transaction = || {
        add::AddPartitionsToTxnTopic::default()
            .with_name(topic_name(topic))
            .with_partitions(vec![partition])
    };
    match api {
        Api::AddPartitionsToTxn if v >= 4 => {
            let one = add::AddPartitionsToTxnTransaction::default()
                .with_transactional_id(id)
                .with_topics(vec![in_transaction()]);
            let request = AddPartitionsToTxnRequest::default();
            ask(v, request.with_transactions(vec![one]))
        }
        Api::AddPartitionsToTxn => {
            let request = AddPartitionsToTxnRequest::default()
                .with_v3_and_below_transactional_id(id)
                .with_v3_and_below_topics(vec![in_transaction()]);
            ask(v, request)
        }
        Api::AddOffsetsToTxn => {
            let request = AddOffsetsToTxnRequest::default().with_transactional_id(id);
            ask(v, request.with_group_id(group("g")))
        }
        Api::EndTxn => ask(v, EndTxnRequest::default().with_transactional_id(id)),
        Api::WriteTxnMarkers => {
            let topic = markers::WritableTxnMarkerTopic::default()
                .with_name(topic_name(topic))
                .with_partition_indexes(vec![partition]);
            let marker = markers::WritableTxnMarker::default()
                .with_producer_id(77.into())
                .with_topics(vec![topic]);
            let request = WriteTxnMarkersRequest::default();
            ask(v, NewestVersion::from(request.with_markers(vec![marker])))
        }
        Api::TxnOffsetCommit => {
            let partition = txn_commit::TxnOffsetCommitRequestPartition::default()
                .with_partition_index(partition);
            let topic = txn_commit::TxnOffsetCommitRequestTopic::default()
                .with_name(topic_name(topic))
                .with_partitions(vec![partition]);
            let request = TxnOffsetCommitRequest::default()
                .with_transactional_id(id)
                .with_group_id(group("g"));
            ask(v, request.with_topics(vec![topic]))
        }
        Api::DescribeTransactions => {
            let request = DescribeTransactionsRequest::default();
            ask(v, request.with_transactional_ids(vec![id]))
        }
        _ => ask(v, ListTransactionsRequest::default()),
    }
}

fn settings(api: Api, v: i16, topic: &str) -> Question {
    const TOPIC_RESOURCE: i8 = 2;
    match api {
        Api::DescribeConfigs => {
            let resource = describe::DescribeConfigsResource::default()
                .with_resource_type(TOPIC_RESOURCE)
                .with_resource_name(text(topic))
                .with_configuration_keys(None);
            ask(
                v,
                DescribeConfigsRequest::default().with_resources(vec![resource]),
            )
        }
        Api::AlterConfigs => {
            let config = alter::AlterableConfig::default().with_name(text("retention.ms"));
            let resource = alter::AlterConfigsResource::default()
                .with_resource_type(TOPIC_RESOURCE)
                .with_resource_name(text(topic))
                .with_configs(vec![config.with_value(Some(text("60000")))]);
            ask(
                v,
                AlterConfigsRequest::default().with_resources(vec![resource]),
            )
        }
        _ => {
            let config = change::AlterableConfig::default().with_name(text("retention.ms"));
            let resource = change::AlterConfigsResource::default()
                .with_resource_type(TOPIC_RESOURCE)
                .with_resource_name(text(topic))
                .with_configs(vec![config.with_value(Some(text("60000")))]);
            ask(
                v,
                IncrementalAlterConfigsRequest::default().with_resources(vec![resource]),
            )
        }
    }
}

fn topics(api: Api, v: i16, cluster: &Cluster, topic: &str) -> Question {
    match api {
        Api::Metadata => {
            let name = metadata::MetadataRequestTopic::default();
            let name = name.with_name(Some(topic_name(topic)));
            ask(v, MetadataRequest::default().with_topics(Some(vec![name])))
        }
        Api::CreateTopics => {
            let topic = create::CreatableTopic::default()
                .with_name(topic_name(&format!("created-{v}")))
                .with_num_partitions(2)
                .with_replication_factor(1);
            ask(v, CreateTopicsRequest::default().with_topics(vec![topic]))
        }
        Api::DeleteTopics => {
            // The topic itself is needed by other tests: one of its own for each version.
            let name = if topic == TOPIC {
                format!("doomed-{v}")
            } else {
                topic.to_owned()
            };
            let request = DeleteTopicsRequest::default();
            ask(
                v,
                if v >= 6 {
                    let state = delete::DeleteTopicState::default();
                    request.with_topics(vec![state.with_name(Some(topic_name(&name)))])
                } else {
                    request.with_topic_names(vec![topic_name(&name)])
                },
            )
        }
        Api::CreatePartitions => {
            let image = cluster.brokers[0].image();
            let count = image
                .topic_by_name(topic)
                .map_or(2, |topic| topic.partitions.len() + 1);
            let topic = more::CreatePartitionsTopic::default()
                .with_name(topic_name(topic))
                .with_count(i32::try_from(count).unwrap())
                .with_assignments(None);
            ask(
                v,
                CreatePartitionsRequest::default().with_topics(vec![topic]),
            )
        }
        Api::DescribeTopicPartitions => {
            let topic = pages::TopicRequest::default().with_name(topic_name(topic));
            ask(
                v,
                DescribeTopicPartitionsRequest::default().with_topics(vec![topic]),
            )
        }
        Api::DescribeCluster => ask(v, DescribeClusterRequest::default()),
        _ => {
            let software = StrBytes::from_static_str("harness");
            let request = ApiVersionsRequest::default();
            ask(
                v,
                if v >= 3 {
                    request
                        .with_client_software_name(software.clone())
                        .with_client_software_version(software)
                } else {
                    request
                },
            )
        }
    }
}
