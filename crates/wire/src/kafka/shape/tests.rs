//! The shapes against the generated codecs: bytes made from a shape must decode, and encode to the
//! same bytes again.

use bytes::{BufMut, BytesMut};
use kafka_protocol::messages::{self, *};
use proptest::prelude::*;
use proptest::test_runner::{TestRng, TestRunner};

use super::*;
use crate::kafka::NewestVersion;
use crate::kafka::fetch::FetchRequest;
use crate::kafka::produce::ProduceRequest;
use crate::kafka::writer::put_uvarint;
use crate::protocol::Request;

/// Calls a generic function with the request type of an API.
macro_rules! with_request {
    ($api:expr, $function:ident $arguments:tt, [$($name:ident: $request:ty),* $(,)?]) => {
        match $api {
            $(Api::$name => $function::<$request> $arguments,)*
            Api::Produce | Api::Fetch => unreachable!("no shape"),
        }
    };
}

macro_rules! dispatch {
    ($api:expr, $function:ident $arguments:tt) => {
        with_request!($api, $function $arguments, [
            ListOffsets: NewestVersion<ListOffsetsRequest>, Metadata: MetadataRequest,
            OffsetCommit: NewestVersion<OffsetCommitRequest>, OffsetFetch: NewestVersion<OffsetFetchRequest>,
            FindCoordinator: FindCoordinatorRequest, JoinGroup: JoinGroupRequest,
            Heartbeat: HeartbeatRequest, LeaveGroup: LeaveGroupRequest,
            SyncGroup: SyncGroupRequest, DescribeGroups: DescribeGroupsRequest,
            ListGroups: ListGroupsRequest, ApiVersions: ApiVersionsRequest,
            CreateTopics: CreateTopicsRequest, DeleteTopics: DeleteTopicsRequest,
            DeleteRecords: DeleteRecordsRequest, InitProducerId: InitProducerIdRequest,
            OffsetForLeaderEpoch: OffsetForLeaderEpochRequest,
            AddPartitionsToTxn: AddPartitionsToTxnRequest,
            AddOffsetsToTxn: AddOffsetsToTxnRequest, EndTxn: EndTxnRequest,
            WriteTxnMarkers: NewestVersion<WriteTxnMarkersRequest>, TxnOffsetCommit: TxnOffsetCommitRequest,
            DescribeTransactions: DescribeTransactionsRequest,
            ListTransactions: ListTransactionsRequest,
            DescribeConfigs: DescribeConfigsRequest, AlterConfigs: AlterConfigsRequest,
            AlterReplicaLogDirs: AlterReplicaLogDirsRequest,
            DescribeLogDirs: NewestVersion<DescribeLogDirsRequest>, CreatePartitions: CreatePartitionsRequest,
            DeleteGroups: DeleteGroupsRequest,
            IncrementalAlterConfigs: IncrementalAlterConfigsRequest,
            ElectLeaders: ElectLeadersRequest,
            AlterPartitionReassignments: AlterPartitionReassignmentsRequest,
            ListPartitionReassignments: ListPartitionReassignmentsRequest,
            DescribeUserScramCredentials: DescribeUserScramCredentialsRequest,
            AlterUserScramCredentials: AlterUserScramCredentialsRequest,
            GetTelemetrySubscriptions: GetTelemetrySubscriptionsRequest,
            PushTelemetry: PushTelemetryRequest,
            DescribeQuorum: DescribeQuorumRequest,
            UpdateFeatures: UpdateFeaturesRequest,
            ListConfigResources: ListConfigResourcesRequest,
            DescribeClientQuotas: DescribeClientQuotasRequest,
            AlterClientQuotas: AlterClientQuotasRequest,
            OffsetDelete: OffsetDeleteRequest, DescribeCluster: DescribeClusterRequest,
            DescribeProducers: DescribeProducersRequest,
            ConsumerGroupHeartbeat: ConsumerGroupHeartbeatRequest,
            ConsumerGroupDescribe: ConsumerGroupDescribeRequest,
            DescribeTopicPartitions: DescribeTopicPartitionsRequest,
            SaslHandshake: SaslHandshakeRequest, SaslAuthenticate: SaslAuthenticateRequest,
            DescribeAcls: DescribeAclsRequest, CreateAcls: CreateAclsRequest,
            DeleteAcls: DeleteAclsRequest,
            CreateDelegationToken: CreateDelegationTokenRequest,
            RenewDelegationToken: RenewDelegationTokenRequest,
            ExpireDelegationToken: ExpireDelegationTokenRequest,
            DescribeDelegationToken: DescribeDelegationTokenRequest,
            UnregisterBroker: UnregisterBrokerRequest,
            AddRaftVoter: NewestVersion<AddRaftVoterRequest>, RemoveRaftVoter: RemoveRaftVoterRequest,
        ])
    };
}

/// Returns every API with a shape, in every version.
fn shaped() -> impl Iterator<Item = (Api, i16, &'static [Field])> {
    Api::ALL
        .iter()
        .filter_map(|&api| table::of(api).map(|shape| (api, shape)))
        .flat_map(|(api, shape)| api.versions().map(move |version| (api, version, shape)))
}

/// Builds bytes of a shape.
struct Maker<'a> {
    rng: &'a mut TestRng,
    version: i16,
    flexible: bool,
    /// The first number of tagged fields.
    first_tag: u32,
    out: BytesMut,
}

impl Maker<'_> {
    fn below(&mut self, bound: u32) -> u32 {
        self.rng.next_u32() % bound
    }

    fn structure(&mut self, fields: &'static [Field]) {
        let version = self.version;
        for field in fields.iter().filter(|field| field.is_in(version)) {
            self.value(field.kind);
        }
        if self.flexible {
            let known = self.known_tags(fields);
            let tags = if self.below(8) == 0 { 2 } else { 0 };
            put_uvarint(&mut self.out, tags + u32::try_from(known.len()).unwrap());
            for (tag, value) in known {
                put_uvarint(&mut self.out, tag);
                put_uvarint(&mut self.out, u32::try_from(value.len()).unwrap());
                self.out.put_slice(&value);
            }
            for tag in 0..tags {
                put_uvarint(&mut self.out, self.first_tag + tag);
                put_uvarint(&mut self.out, 3);
                self.out.put_slice(b"tag");
            }
        }
    }

    /// Returns some of the known tagged fields; none has its default, which is not written.
    fn known_tags(&mut self, fields: &'static [Field]) -> Vec<(u32, BytesMut)> {
        let mut known = Vec::new();
        let version = self.version;
        for field in fields.iter().filter(|field| field.is_in(version)) {
            if let FieldKind::Tagged(tag, kind) = field.kind
                && self.below(2) == 0
            {
                let before = std::mem::take(&mut self.out);
                if let FieldKind::List(fields) = *kind {
                    self.length(2, true);
                    self.structure(fields);
                    self.structure(fields);
                } else {
                    self.value(*kind);
                }
                known.push((tag, std::mem::replace(&mut self.out, before)));
            }
        }
        known
    }

    fn length(&mut self, length: u32, wide: bool) {
        if self.flexible {
            put_uvarint(&mut self.out, length + 1);
        } else if wide {
            self.out.put_u32(length);
        } else {
            self.out.put_u16(u16::try_from(length).unwrap());
        }
    }

    fn value(&mut self, kind: FieldKind) {
        match kind {
            // 1 is valid for every number, flag and id.
            FieldKind::Fixed(bytes) => {
                self.out.put_bytes(0, bytes - 1);
                self.out.put_u8(1);
            }
            FieldKind::Text | FieldKind::Blob => {
                let length = self.below(200);
                self.length(length, matches!(kind, FieldKind::Blob));
                self.out.put_bytes(b'x', length as usize);
            }
            FieldKind::Optional(fields) => {
                let present = self.below(2) == 1;
                self.out.put_i8(if present { 1 } else { -1 });
                if present {
                    self.structure(fields);
                }
            }
            FieldKind::Struct(fields) => self.structure(fields),
            FieldKind::Tagged(..) => {}
            FieldKind::Each(element) => {
                let count = self.below(4);
                self.length(count, true);
                (0..count).for_each(|_| self.value(*element));
            }
            FieldKind::List(fields) => {
                let count = self.below(4);
                self.length(count, true);
                (0..count).for_each(|_| self.structure(fields));
            }
        }
    }
}

/// Answers, behind the same guard.
mod answers;

/// Makes a body whose tagged fields no codec knows.
fn make(rng: &mut TestRng, api: Api, version: i16, shape: &'static [Field]) -> Bytes {
    make_with_tags(rng, api, version, shape, 1000)
}

fn make_with_tags(
    rng: &mut TestRng,
    api: Api,
    version: i16,
    shape: &'static [Field],
    first_tag: u32,
) -> Bytes {
    let mut maker = Maker {
        rng,
        version,
        flexible: api.is_flexible(version),
        first_tag,
        out: BytesMut::new(),
    };
    maker.structure(shape);
    maker.out.freeze()
}

fn round_trip<T: Request>(version: i16, body: &Bytes) -> Bytes {
    let request = decode_request::<T>(version, body, usize::MAX).unwrap();
    let mut out = BytesMut::new();
    request.encode(&mut out, version).unwrap();
    out.freeze()
}

/// The codec keeps unknown tagged fields as they are. It would read a known one as a value, and
/// refuse it: the walk does not look into tagged fields, so a shape with a known one is not true.
#[test]
fn every_shape_is_exactly_what_the_generated_codec_reads_and_writes() {
    let mut runner = TestRunner::deterministic();
    for (api, version, shape) in shaped() {
        for round in 0..50 {
            let first_tag = [0, 2, 4, 1000][round % 4];
            let body = make_with_tags(runner.rng(), api, version, shape, first_tag);
            let again = dispatch!(api, round_trip(version, &body));
            assert_eq!(again, body, "{api:?} {version}");
        }
    }
}

#[test]
fn the_shapes_of_requests_with_records_are_what_their_codecs_read() {
    let mut runner = TestRunner::deterministic();
    for api in [Api::Produce, Api::Fetch] {
        for version in api.versions() {
            for _ in 0..50 {
                let body = make(runner.rng(), api, version, Shape::fields_of(api));
                let decode = |body: &Bytes| match api {
                    Api::Produce => ProduceRequest::decode(body, version).map(drop),
                    _ => FetchRequest::decode(body, version).map(drop),
                };
                assert_eq!(decode(&body), Ok(()), "{api:?} {version}");
                let short = body.slice(..body.len() - 1);
                assert!(decode(&short).is_err(), "{api:?} {version}: to the end");
            }
        }
    }
}

fn default_body<T: Request + Default>(version: i16) -> Option<Bytes> {
    let mut out = BytesMut::new();
    T::default().encode(&mut out, version).ok()?;
    Some(out.freeze())
}

#[test]
fn default_requests_of_the_generated_codec_pass_and_so_do_bytes_after_them() {
    for (api, version, _) in shaped() {
        let body = dispatch!(api, default_body(version)).unwrap();
        let bytes = decoded_bytes(api, version, &body).unwrap();
        // Clients send extra bytes (librdkafka with Metadata 13), and Kafka ignores them.
        let longer = Bytes::from([&body[..], &[0, 0, 0]].concat());
        assert_eq!(
            decoded_bytes(api, version, &longer),
            Ok(bytes),
            "{api:?} {version}"
        );
    }
}

#[test]
fn a_claim_of_a_billion_elements_is_refused_by_name() {
    let mut body = BytesMut::new();
    body.put_u8(2);
    body.put_slice(&[0; 16]);
    body.put_slice(&[2, b't', 0, 1, 0]);
    assert!(decode_request::<MetadataRequest>(12, &body.clone().freeze(), 4096).is_err());

    let mut body = BytesMut::new();
    body.put_i32(1_000_000_000);
    let error = decode_request::<MetadataRequest>(1, &body.freeze(), usize::MAX).unwrap_err();
    assert_eq!(
        error.to_string(),
        "topics needs 1000000000 bytes, 0 are left"
    );

    let mut body = BytesMut::new();
    body.put_i32(1);
    body.put_slice(&[0, 1, b't']);
    body.put_i32(i32::MAX);
    let error = decode_request::<CreatePartitionsRequest>(0, &body.freeze(), usize::MAX);
    assert!(error.unwrap_err().to_string().starts_with("topics[0]."));
}

#[test]
fn text_longer_than_kafka_reads_is_refused_before_anything_looks_at_it() {
    for (length, served) in [(32_767, true), (32_768, false), (98 << 20, false)] {
        let mut body = BytesMut::new();
        put_uvarint(&mut body, length + 1);
        body.put_bytes(b'g', usize::try_from(length).unwrap());
        // Generation, member, no instance, no tags.
        body.put_slice(&[0, 0, 0, 1, 2, b'm', 0, 0]);
        let decoded = decode_request::<HeartbeatRequest>(4, &body.freeze(), usize::MAX);
        let expected = DecodeError::Length {
            field: "group_id".to_owned(),
            length: i64::from(length),
        };
        assert_eq!(decoded.err(), (!served).then_some(expected), "{length}");
    }
}

#[test]
fn memory_is_bounded_by_the_caller() {
    let mut body = BytesMut::new();
    body.put_i32(100);
    (0..100).for_each(|_| body.put_slice(&[0, 1, b't']));
    let body = body.freeze();
    let bytes = decoded_bytes(Api::Metadata, 1, &body).unwrap();
    assert!(bytes >= 100 * size_of::<metadata_request::MetadataRequestTopic>());
    decode_request::<MetadataRequest>(1, &body, bytes).unwrap();
    assert_eq!(
        decode_request::<MetadataRequest>(1, &body, bytes - 1),
        Err(DecodeError::TooMuchMemory {
            bytes,
            bytes_max: bytes - 1
        })
    );
}

/// Returns the shape of the structures in the array at this path.
fn structure_at(api: Api, path: &[&str]) -> &'static [Field] {
    path.iter().fold(table::of(api).unwrap(), |fields, name| {
        match fields
            .iter()
            .find(|field| field.name == *name)
            .unwrap()
            .kind
        {
            FieldKind::List(inner) | FieldKind::Optional(inner) => inner,
            other => panic!("{name} is {other:?}"),
        }
    })
}

#[test]
fn estimates_are_no_less_than_the_sizes_of_the_decoded_structures() {
    fn top<T>() -> usize {
        size_of::<T>()
    }
    for &api in Api::ALL {
        if let Some(shape) = table::of(api) {
            let size = dispatch!(api, top());
            assert!(message_bytes(api, shape) >= size, "{api:?}: {size}");
        }
    }
    let mut checked = Vec::new();
    macro_rules! check {
        ($($api:ident $path:expr => $module:ident::$name:ident;)*) => {$({
            let estimate = struct_bytes(structure_at(Api::$api, &$path));
            assert!(estimate >= size_of::<messages::$module::$name>(), stringify!($name));
            checked.push(format!("{} {}", Api::$api.name(), $path.join(".")));
        })*};
    }
    check! {
        ListOffsets ["topics"] => list_offsets_request::ListOffsetsTopic;
        ListOffsets ["topics", "partitions"] => list_offsets_request::ListOffsetsPartition;
        Metadata ["topics"] => metadata_request::MetadataRequestTopic;
        OffsetCommit ["topics"] => offset_commit_request::OffsetCommitRequestTopic;
        OffsetCommit ["topics", "partitions"] =>
            offset_commit_request::OffsetCommitRequestPartition;
        OffsetFetch ["topics"] => offset_fetch_request::OffsetFetchRequestTopic;
        OffsetFetch ["groups"] => offset_fetch_request::OffsetFetchRequestGroup;
        OffsetFetch ["groups", "topics"] => offset_fetch_request::OffsetFetchRequestTopics;
        JoinGroup ["protocols"] => join_group_request::JoinGroupRequestProtocol;
        LeaveGroup ["members"] => leave_group_request::MemberIdentity;
        SyncGroup ["assignments"] => sync_group_request::SyncGroupRequestAssignment;
        CreateTopics ["topics"] => create_topics_request::CreatableTopic;
        CreateTopics ["topics", "assignments"] => create_topics_request::CreatableReplicaAssignment;
        CreateTopics ["topics", "configs"] => create_topics_request::CreatableTopicConfig;
        DeleteTopics ["topics"] => delete_topics_request::DeleteTopicState;
        DeleteRecords ["topics"] => delete_records_request::DeleteRecordsTopic;
        DeleteRecords ["topics", "partitions"] => delete_records_request::DeleteRecordsPartition;
        OffsetForLeaderEpoch ["topics"] => offset_for_leader_epoch_request::OffsetForLeaderTopic;
        OffsetForLeaderEpoch ["topics", "partitions"] =>
            offset_for_leader_epoch_request::OffsetForLeaderPartition;
        AddPartitionsToTxn ["transactions"] =>
            add_partitions_to_txn_request::AddPartitionsToTxnTransaction;
        AddPartitionsToTxn ["transactions", "topics"] =>
            add_partitions_to_txn_request::AddPartitionsToTxnTopic;
        AddPartitionsToTxn ["v3_and_below_topics"] =>
            add_partitions_to_txn_request::AddPartitionsToTxnTopic;
        WriteTxnMarkers ["markers"] => write_txn_markers_request::WritableTxnMarker;
        WriteTxnMarkers ["markers", "topics"] => write_txn_markers_request::WritableTxnMarkerTopic;
        TxnOffsetCommit ["topics"] => txn_offset_commit_request::TxnOffsetCommitRequestTopic;
        TxnOffsetCommit ["topics", "partitions"] =>
            txn_offset_commit_request::TxnOffsetCommitRequestPartition;
        DescribeConfigs ["resources"] => describe_configs_request::DescribeConfigsResource;
        AlterConfigs ["resources"] => alter_configs_request::AlterConfigsResource;
        AlterConfigs ["resources", "configs"] => alter_configs_request::AlterableConfig;
        DescribeLogDirs ["topics"] => describe_log_dirs_request::DescribableLogDirTopic;
        CreatePartitions ["topics"] => create_partitions_request::CreatePartitionsTopic;
        CreatePartitions ["topics", "assignments"] =>
            create_partitions_request::CreatePartitionsAssignment;
        IncrementalAlterConfigs ["resources"] =>
            incremental_alter_configs_request::AlterConfigsResource;
        IncrementalAlterConfigs ["resources", "configs"] =>
            incremental_alter_configs_request::AlterableConfig;
        OffsetDelete ["topics"] => offset_delete_request::OffsetDeleteRequestTopic;
        OffsetDelete ["topics", "partitions"] =>
            offset_delete_request::OffsetDeleteRequestPartition;
        DescribeProducers ["topics"] => describe_producers_request::TopicRequest;
        DescribeTopicPartitions ["topics"] => describe_topic_partitions_request::TopicRequest;
        CreateAcls ["creations"] => create_acls_request::AclCreation;
        DeleteAcls ["filters"] => delete_acls_request::DeleteAclsFilter;
        CreateDelegationToken ["renewers"] => create_delegation_token_request::CreatableRenewers;
        DescribeDelegationToken ["owners"] =>
            describe_delegation_token_request::DescribeDelegationTokenOwner;
        AddRaftVoter ["listeners"] => add_raft_voter_request::Listener;
        DescribeTopicPartitions ["cursor"] => describe_topic_partitions_request::Cursor;
        AlterReplicaLogDirs ["dirs"] => alter_replica_log_dirs_request::AlterReplicaLogDir;
        AlterReplicaLogDirs ["dirs", "topics"] =>
            alter_replica_log_dirs_request::AlterReplicaLogDirTopic;
        DescribeClientQuotas ["components"] => describe_client_quotas_request::ComponentData;
        AlterClientQuotas ["entries"] => alter_client_quotas_request::EntryData;
        AlterClientQuotas ["entries", "entity"] => alter_client_quotas_request::EntityData;
        AlterClientQuotas ["entries", "ops"] => alter_client_quotas_request::OpData;
        ConsumerGroupHeartbeat ["topic_partitions"] =>
            consumer_group_heartbeat_request::TopicPartitions;
        ElectLeaders ["topic_partitions"] => elect_leaders_request::TopicPartitions;
        AlterPartitionReassignments ["topics"] =>
            alter_partition_reassignments_request::ReassignableTopic;
        AlterPartitionReassignments ["topics", "partitions"] =>
            alter_partition_reassignments_request::ReassignablePartition;
        ListPartitionReassignments ["topics"] =>
            list_partition_reassignments_request::ListPartitionReassignmentsTopics;
        DescribeUserScramCredentials ["users"] =>
            describe_user_scram_credentials_request::UserName;
        AlterUserScramCredentials ["deletions"] =>
            alter_user_scram_credentials_request::ScramCredentialDeletion;
        AlterUserScramCredentials ["upsertions"] =>
            alter_user_scram_credentials_request::ScramCredentialUpsertion;
        DescribeQuorum ["topics"] => describe_quorum_request::TopicData;
        DescribeQuorum ["topics", "partitions"] => describe_quorum_request::PartitionData;
        UpdateFeatures ["feature_updates"] => update_features_request::FeatureUpdateKey;
    }
    let mut all = Vec::new();
    for &api in Api::ALL {
        structures(
            api.name(),
            table::of(api).unwrap_or_default(),
            " ",
            &mut all,
        );
    }
    checked.sort();
    all.sort();
    assert_eq!(
        checked, all,
        "the list above has every structure of the table"
    );
}

/// Adds the paths of all structures below some fields.
fn structures(above: &str, fields: &'static [Field], separator: &str, all: &mut Vec<String>) {
    for field in fields {
        if let FieldKind::List(inner) | FieldKind::Optional(inner) = field.kind {
            let path = format!("{above}{separator}{}", field.name);
            structures(&path, inner, ".", all);
            all.push(path);
        }
    }
}

fn decode_any<T: Request>(version: i16, body: &Bytes) {
    let _ = decode_request::<T>(version, body, 1 << 20);
}

proptest! {
    #[test]
    fn any_bytes_give_a_request_or_an_error(
        at: prop::sample::Index, body in proptest::collection::vec(any::<u8>(), 0..120),
    ) {
        let all: Vec<_> = shaped().collect();
        let (api, version, _) = *at.get(&all);
        let body = body.into();
        dispatch!(api, decode_any(version, &body));
    }

    #[test]
    fn damaged_requests_give_a_request_or_an_error(
        which: prop::sample::Index, seed: [u8; 32], at: prop::sample::Index, byte: u8,
        cut: prop::sample::Index,
    ) {
        let all: Vec<_> = shaped().collect();
        let (api, version, shape) = *which.get(&all);
        let mut rng = TestRng::from_seed(proptest::test_runner::RngAlgorithm::ChaCha, &seed);
        let mut body = make(&mut rng, api, version, shape).to_vec();
        if !body.is_empty() {
            let length = body.len();
            body[at.index(length)] = byte;
            if byte % 2 == 0 {
                body.truncate(length - cut.index(length));
            }
        }
        let body = body.into();
        dispatch!(api, decode_any(version, &body));
    }
}
