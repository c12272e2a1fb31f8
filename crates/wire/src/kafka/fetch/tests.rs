//! Fetch against the generated codecs, for every version.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{self, TopicName, fetch_request as theirs, fetch_response};
use kafka_protocol::protocol::Encodable;
use proptest::prelude::*;

use super::*;

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn request(version: i16) -> FetchRequest {
    let since = |first: i16, value: i64, before: i64| if version >= first { value } else { before };
    let since32 =
        |first: i16, value: i32, before: i32| if version >= first { value } else { before };
    let topic = |name: &'static str| {
        if version >= 13 {
            (
                StrBytes::new(),
                TopicId(Uuid::from_u128(name.len() as u128)),
            )
        } else {
            (text(name), TopicId::ZERO)
        }
    };
    let partition = |index| FetchPartition {
        index,
        current_leader_epoch: LeaderEpoch(since32(9, 3, -1)),
        fetch_offset: Offset(1 << 33),
        last_fetched_epoch: LeaderEpoch(since32(12, 2, -1)),
        log_start_offset: Offset(since(5, 17, -1)),
        partition_max_bytes: 1 << 20,
        replica_directory_id: Uuid::from_u128(if version >= 17 { 99 } else { 0 }),
        high_watermark: Offset(since(18, 44, i64::MAX)),
    };
    let (name, topic_id) = topic("first");
    let (other, other_id) = topic("second topic");
    FetchRequest {
        cluster_id: (version >= 12).then(|| text("cluster")),
        replica_id: NodeId(5),
        replica_epoch: since(15, 6, -1),
        max_wait_ms: 500,
        min_bytes: 1,
        max_bytes: 1 << 25,
        isolation_level: 1,
        session_id: since32(7, 1234, 0),
        session_epoch: since32(7, 2, -1),
        topics: vec![
            FetchTopic {
                name,
                topic_id,
                partitions: vec![partition(0), partition(6)],
            },
            FetchTopic {
                name: other.clone(),
                topic_id: other_id,
                partitions: vec![],
            },
        ],
        forgotten_topics: if version >= 7 {
            vec![ForgottenTopic {
                name: other,
                topic_id: other_id,
                partitions: vec![1, 2, 3],
            }]
        } else {
            vec![]
        },
        rack_id: text(if version >= 11 { "rack" } else { "" }),
    }
}

fn encode_as_they_do(ours: &FetchRequest, version: i16) -> Bytes {
    let mut out = messages::FetchRequest::default()
        .with_cluster_id(ours.cluster_id.clone())
        .with_max_wait_ms(ours.max_wait_ms)
        .with_min_bytes(ours.min_bytes)
        .with_max_bytes(ours.max_bytes)
        .with_isolation_level(ours.isolation_level)
        .with_session_id(ours.session_id)
        .with_session_epoch(ours.session_epoch)
        .with_rack_id(ours.rack_id.clone());
    if version >= 15 {
        out.replica_state = theirs::ReplicaState::default()
            .with_replica_id(ours.replica_id.0.into())
            .with_replica_epoch(ours.replica_epoch);
    } else {
        out.replica_id = ours.replica_id.0.into();
    }
    out.topics = ours
        .topics
        .iter()
        .map(|topic| {
            theirs::FetchTopic::default()
                .with_topic(TopicName(topic.name.clone()))
                .with_topic_id(topic.topic_id.0)
                .with_partitions(
                    topic
                        .partitions
                        .iter()
                        .map(|p| {
                            theirs::FetchPartition::default()
                                .with_partition(p.index)
                                .with_current_leader_epoch(p.current_leader_epoch.0)
                                .with_fetch_offset(p.fetch_offset.0)
                                .with_last_fetched_epoch(p.last_fetched_epoch.0)
                                .with_log_start_offset(p.log_start_offset.0)
                                .with_partition_max_bytes(p.partition_max_bytes)
                                .with_replica_directory_id(p.replica_directory_id)
                                .with_high_watermark(p.high_watermark.0)
                        })
                        .collect(),
                )
        })
        .collect();
    out.forgotten_topics_data = ours
        .forgotten_topics
        .iter()
        .map(|topic| {
            theirs::ForgottenTopic::default()
                .with_topic(TopicName(topic.name.clone()))
                .with_topic_id(topic.topic_id.0)
                .with_partitions(topic.partitions.clone())
        })
        .collect();
    let mut body = BytesMut::new();
    out.encode(&mut body, version).unwrap();
    body.freeze()
}

#[test]
fn requests_decode_as_the_generated_codec_wrote_them() {
    for version in Api::Fetch.versions() {
        let ours = request(version);
        let body = encode_as_they_do(&ours, version);
        assert_eq!(
            FetchRequest::decode(&body, version),
            Ok(ours),
            "version {version}"
        );
    }
}

fn response(version: i16) -> FetchResponse {
    let end = EpochEnd {
        epoch: LeaderEpoch(3),
        end_offset: Offset(900),
    };
    let partition = FetchPartitionResponse {
        index: 1,
        error: None,
        high_watermark: Offset(1000),
        last_stable_offset: Offset(990),
        log_start_offset: Offset(10),
        diverging_epoch: None,
        current_leader: None,
        snapshot_id: None,
        aborted_transactions: None,
        preferred_read_replica: NodeId(-1),
        records: vec![
            Bytes::from_static(b"first batch"),
            Bytes::from_static(b"second"),
        ],
    };
    let partitions = vec![
        partition.clone(),
        FetchPartitionResponse {
            records: vec![],
            ..partition.clone()
        },
        FetchPartitionResponse {
            records: vec![Bytes::new()],
            ..partition.clone()
        },
        FetchPartitionResponse {
            aborted_transactions: Some(vec![AbortedTransaction {
                producer_id: ProducerId(77),
                first_offset: Offset(980),
            }]),
            preferred_read_replica: NodeId(if version >= 11 { 4 } else { -1 }),
            ..partition.clone()
        },
        FetchPartitionResponse {
            diverging_epoch: Some(end),
            current_leader: Some(CurrentLeader {
                leader: NodeId(8),
                epoch: LeaderEpoch(4),
            }),
            snapshot_id: Some(end),
            ..FetchPartitionResponse::failed(2, ErrorCode::NotLeaderOrFollower)
        },
    ];
    FetchResponse {
        throttle_time_ms: 3,
        error: None,
        session_id: if version >= 7 { 55 } else { 0 },
        topics: vec![FetchTopicResponse {
            name: text("topic"),
            topic_id: TopicId(Uuid::from_u128(7)),
            partitions,
        }],
        node_endpoints: vec![NodeEndpoint {
            node: NodeId(8),
            host: "h".to_owned(),
            port: 1,
            rack: None,
        }],
    }
}

fn their_partition(p: &FetchPartitionResponse, version: i16) -> fetch_response::PartitionData {
    let mut out = fetch_response::PartitionData::default()
        .with_partition_index(p.index)
        .with_error_code(p.error.map_or(0, |error| error.code()))
        .with_high_watermark(p.high_watermark.0)
        .with_last_stable_offset(p.last_stable_offset.0)
        .with_log_start_offset(p.log_start_offset.0)
        .with_preferred_read_replica(p.preferred_read_replica.0.into())
        .with_records(Some(p.records.concat().into()));
    out.aborted_transactions = p.aborted_transactions.as_ref().map(|aborted| {
        aborted
            .iter()
            .map(|aborted| {
                fetch_response::AbortedTransaction::default()
                    .with_producer_id(aborted.producer_id.0.into())
                    .with_first_offset(aborted.first_offset.0)
            })
            .collect()
    });
    if version >= 12 {
        if let Some(end) = p.diverging_epoch {
            out.diverging_epoch = fetch_response::EpochEndOffset::default()
                .with_epoch(end.epoch.0)
                .with_end_offset(end.end_offset.0);
        }
        if let Some(leader) = p.current_leader {
            out.current_leader = fetch_response::LeaderIdAndEpoch::default()
                .with_leader_id(leader.leader.0.into())
                .with_leader_epoch(leader.epoch.0);
        }
        if let Some(end) = p.snapshot_id {
            out.snapshot_id = fetch_response::SnapshotId::default()
                .with_epoch(end.epoch.0)
                .with_end_offset(end.end_offset.0);
        }
    }
    out
}

fn their_response(ours: &FetchResponse, version: i16) -> messages::FetchResponse {
    let mut out = messages::FetchResponse::default()
        .with_throttle_time_ms(ours.throttle_time_ms)
        .with_error_code(ours.error.map_or(0, |error| error.code()))
        .with_session_id(ours.session_id);
    out.responses = ours
        .topics
        .iter()
        .map(|topic| {
            let out = fetch_response::FetchableTopicResponse::default().with_partitions(
                topic
                    .partitions
                    .iter()
                    .map(|p| their_partition(p, version))
                    .collect(),
            );
            if version >= 13 {
                out.with_topic_id(topic.topic_id.0)
            } else {
                out.with_topic(TopicName(topic.name.clone()))
            }
        })
        .collect();
    if version >= 16 {
        out.node_endpoints = ours
            .node_endpoints
            .iter()
            .map(|endpoint| {
                fetch_response::NodeEndpoint::default()
                    .with_node_id(endpoint.node.0.into())
                    .with_host(text(&endpoint.host))
                    .with_port(endpoint.port)
                    .with_rack(endpoint.rack.as_deref().map(text))
            })
            .collect();
    }
    out
}

#[test]
fn responses_are_byte_for_byte_those_of_the_generated_codec() {
    for version in Api::Fetch.versions() {
        for ours in [FetchResponse::default(), response(version)] {
            let theirs = their_response(&ours, version);
            let theirs = super::super::encode_response(Api::Fetch, version, 3, &theirs).unwrap();
            let ours = ours.encode(version, 3).unwrap();
            assert_eq!(ours.to_bytes(), theirs.to_bytes(), "version {version}");
            assert!(ours.segments().iter().all(|segment| !segment.is_empty()));
        }
    }
}

/// Returns a response without what its version does not tell, as a reader gets it.
fn as_read(mut ours: FetchResponse, version: i16) -> FetchResponse {
    for topic in &mut ours.topics {
        if version >= 13 {
            topic.name = StrBytes::new();
        } else {
            topic.topic_id = TopicId::ZERO;
        }
        for partition in &mut topic.partitions {
            partition.records = vec![partition.records.concat().into()];
            if version < 5 {
                partition.log_start_offset = Offset(-1);
            }
            if version < 12 {
                partition.diverging_epoch = None;
                partition.current_leader = None;
                partition.snapshot_id = None;
            }
        }
    }
    if version < 16 {
        ours.node_endpoints.clear();
    }
    ours
}

/// The bytes of a response without its length, correlation id and tags.
fn body(ours: FetchResponse, version: i16) -> Bytes {
    let header = if version >= 12 { 9 } else { 8 };
    ours.encode(version, 3).unwrap().to_bytes().slice(header..)
}

#[test]
fn responses_are_read_as_they_were_written() {
    for version in Api::Fetch.versions() {
        for ours in [FetchResponse::default(), response(version)] {
            let read = FetchResponse::decode(&body(ours.clone(), version), version);
            assert_eq!(read, Ok(as_read(ours, version)), "version {version}");
        }
    }
}

#[test]
fn records_are_read_without_a_copy() {
    for version in Api::Fetch.versions() {
        let frame = body(response(version), version);
        let read = FetchResponse::decode(&frame, version).unwrap();
        let records = &read.topics[0].partitions[0].records[0];
        assert!(frame.as_ptr_range().contains(&records.as_ptr()));
    }
}

#[test]
fn a_response_is_the_same_however_few_parts_are_encoded_at_a_time() {
    for version in Api::Fetch.versions() {
        let mut large = response(version);
        let topics = large.topics.clone();
        large.topics.extend(topics.into_iter().map(|mut topic| {
            topic.partitions = vec![topic.partitions; 7].concat();
            topic
        }));
        large.topics.extend(response(version).topics);
        let parts = large.parts();
        let whole = large.clone().encode(version, 5).unwrap();
        for at_a_time in [1, 2, 3, 7, parts, parts + 1] {
            let mut encoding = large.clone().begin(version, 5).unwrap();
            let mut turns = 1;
            while encoding.more(at_a_time) {
                turns += 1;
            }
            assert!(turns >= parts.div_ceil(at_a_time), "{turns} turns");
            let pieces = encoding.finish().unwrap();
            assert_eq!(pieces.to_bytes(), whole.to_bytes(), "version {version}");
        }
    }
}

#[test]
fn records_are_spliced_in_and_not_copied() {
    let ours = response(17);
    let stored = ours.topics[0].partitions[0].records[0].as_ptr();
    let response = ours.encode(17, 3).unwrap();
    assert!(
        response
            .segments()
            .iter()
            .any(|segment| segment.as_ptr() == stored)
    );
}

proptest! {
    #[test]
    fn any_bytes_give_a_request_or_an_error(
        version in 3i16..20, body in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let _ = FetchRequest::decode(&body.into(), version);
    }

    #[test]
    fn any_bytes_give_a_response_or_an_error(
        version in 3i16..20, body in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let _ = FetchResponse::decode(&body.into(), version);
    }

    #[test]
    fn damaged_responses_give_a_response_or_an_error(
        version in 4i16..19, at: prop::sample::Index, byte: u8, cut: prop::sample::Index,
    ) {
        let mut body = BytesMut::from(&body(response(version), version)[..]);
        let length = body.len();
        body[at.index(length)] = byte;
        body.truncate(length - cut.index(length));
        let _ = FetchResponse::decode(&body.freeze(), version);
    }

    #[test]
    fn damaged_requests_give_a_request_or_an_error(
        version in 4i16..19, at: prop::sample::Index, byte: u8, cut: prop::sample::Index,
    ) {
        let mut body = BytesMut::from(&encode_as_they_do(&request(version), version)[..]);
        let length = body.len();
        body[at.index(length)] = byte;
        body.truncate(length - cut.index(length));
        let _ = FetchRequest::decode(&body.freeze(), version);
    }
}
