//! Produce against the generated codecs, for every version.

use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::messages::{self, TopicName, produce_request as theirs, produce_response};
use kafka_protocol::protocol::{Decodable, Encodable};
use proptest::prelude::*;

use super::*;
use crate::kafka::reader::PARTS_MAX;

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

/// The name, and the index and records of each partition.
type TestTopic<'a> = (&'a str, Vec<(i32, Option<Bytes>)>);

fn their_request(
    version: i16,
    transactional_id: Option<&str>,
    topics: &[TestTopic<'_>],
) -> messages::ProduceRequest {
    let topics = topics.iter().map(|(name, partitions)| {
        let topic = theirs::TopicProduceData::default().with_partition_data(
            partitions
                .iter()
                .map(|(index, records)| {
                    theirs::PartitionProduceData::default()
                        .with_index(*index)
                        .with_records(records.clone())
                })
                .collect(),
        );
        if version >= 13 {
            topic.with_topic_id(id_of(name))
        } else {
            topic.with_name(TopicName(text(name)))
        }
    });
    messages::ProduceRequest::default()
        .with_transactional_id(transactional_id.map(|id| text(id).into()))
        .with_acks(-1)
        .with_timeout_ms(30_000)
        .with_topic_data(topics.collect())
}

fn id_of(name: &str) -> Uuid {
    Uuid::from_u128(u128::from(crate::crc::crc32c(name.as_bytes())))
}

#[test]
fn requests_decode_as_the_generated_codec_wrote_them() {
    let records = Bytes::from_static(b"not looked at here");
    let topics = [
        ("first", vec![(0, Some(records.clone())), (7, None)]),
        ("second", vec![]),
        ("", vec![(-1, Some(Bytes::new()))]),
    ];
    for version in Api::Produce.versions() {
        for transactional_id in [None, Some("tx")] {
            let mut body = BytesMut::new();
            their_request(version, transactional_id, &topics)
                .encode(&mut body, version)
                .unwrap();
            let body = body.freeze();
            let request = ProduceRequest::decode(&body, version).unwrap();
            assert_eq!(request.transactional_id.as_deref(), transactional_id);
            assert_eq!((request.acks, request.timeout_ms), (-1, 30_000));
            assert_eq!(request.topics.len(), topics.len());
            for (topic, (name, partitions)) in request.topics.iter().zip(&topics) {
                if version >= 13 {
                    assert_eq!(topic.topic_id.0, id_of(name));
                } else {
                    assert_eq!(topic.name.as_str(), *name);
                }
                let found: Vec<_> = topic
                    .partitions
                    .iter()
                    .map(|partition| (partition.index, partition.records.clone()))
                    .collect();
                assert_eq!(&found, partitions);
            }
            let found = request.topics[0].partitions[0].records.as_ref().unwrap();
            let frame = body.as_ptr_range();
            assert!(
                frame.contains(&found.as_ptr()),
                "records must not be copied"
            );
        }
    }
}

#[test]
fn a_count_that_the_frame_cannot_hold_is_refused() {
    let mut body = BytesMut::new();
    body.extend_from_slice(&[255, 255, 0, 1, 0, 0, 0, 1]);
    body.extend_from_slice(&i32::MAX.to_be_bytes());
    let error = ProduceRequest::decode(&body.freeze(), 3).unwrap_err();
    assert_eq!(
        error.to_string(),
        "topic_data needs 12884901882 bytes, 0 are left"
    );
}

#[test]
fn a_frame_of_the_smallest_topics_cannot_take_much_more_memory_than_it_has_bytes() {
    let count = 1u32 << 22;
    let mut body = BytesMut::from(&[0, 0, 1, 0, 0, 0, 1][..]);
    put_uvarint(&mut body, count + 1);
    // No name, no partitions, no tags.
    (0..count).for_each(|_| body.extend_from_slice(&[1, 1, 0]));
    body.extend_from_slice(&[0]);
    assert!(matches!(
        ProduceRequest::decode(&body.freeze(), 12),
        Err(DecodeError::TooManyParts { .. })
    ));
}

#[test]
fn one_request_names_a_hundred_thousand_parts_and_no_more() {
    let named = |partitions: u32| {
        let mut body = BytesMut::from(&[0, 0, 1, 0, 0, 0, 1, 2, 2, b't'][..]);
        put_uvarint(&mut body, partitions + 1);
        (0..partitions).for_each(|_| body.extend_from_slice(&[0, 0, 0, 0, 0, 0]));
        body.extend_from_slice(&[0, 0]);
        ProduceRequest::decode(&body.freeze(), 12)
    };
    // The topic counts as a part, too.
    let most = u32::try_from(PARTS_MAX).unwrap() - 1;
    let request = named(most).unwrap();
    assert_eq!(request.topics[0].partitions.len(), PARTS_MAX - 1);
    assert_eq!(
        named(most + 1),
        Err(DecodeError::TooManyParts {
            parts_max: PARTS_MAX
        })
    );
}

#[test]
fn a_name_longer_than_kafka_reads_is_refused() {
    for (length, served) in [(32_767, true), (32_768, false)] {
        let mut body = BytesMut::from(&[0, 0, 1, 0, 0, 0, 1, 2][..]);
        put_uvarint(&mut body, length + 1);
        body.extend_from_slice(&vec![b't'; usize::try_from(length).unwrap()]);
        body.extend_from_slice(&[1, 0, 0]);
        let decoded = ProduceRequest::decode(&body.freeze(), 12);
        assert_eq!(decoded.is_ok(), served, "{length}");
    }
}

fn response() -> ProduceResponse {
    ProduceResponse {
        topics: vec![ProduceTopicResponse {
            name: text("topic"),
            topic_id: TopicId(id_of("topic")),
            partitions: vec![
                ProducePartitionResponse {
                    index: 3,
                    error: None,
                    base_offset: Offset(1 << 40),
                    log_append_time: TimestampMs(-1),
                    log_start_offset: Offset(5),
                    record_errors: vec![],
                    error_message: None,
                    current_leader: None,
                },
                ProducePartitionResponse {
                    record_errors: vec![RecordError {
                        batch_index: 4,
                        message: "no key".to_owned(),
                    }],
                    current_leader: Some(CurrentLeader {
                        leader: NodeId(2),
                        epoch: LeaderEpoch(9),
                    }),
                    ..ProducePartitionResponse::failed(
                        4,
                        ErrorCode::InvalidRecord,
                        Some("refused".to_owned()),
                    )
                },
            ],
        }],
        throttle_time_ms: 12,
        node_endpoints: vec![NodeEndpoint {
            node: NodeId(2),
            host: "there".to_owned(),
            port: 9092,
            rack: Some("r".to_owned()),
        }],
    }
}

fn their_response(ours: &ProduceResponse, version: i16) -> messages::ProduceResponse {
    let mut theirs =
        messages::ProduceResponse::default().with_throttle_time_ms(ours.throttle_time_ms);
    for topic in &ours.topics {
        let mut out = produce_response::TopicProduceResponse::default();
        if version >= 13 {
            out.topic_id = topic.topic_id.0;
        } else {
            out.name = TopicName(topic.name.clone());
        }
        for partition in &topic.partitions {
            let mut answer = produce_response::PartitionProduceResponse::default()
                .with_index(partition.index)
                .with_error_code(partition.error.map_or(0, |error| error.code()))
                .with_base_offset(partition.base_offset.0)
                .with_log_append_time_ms(partition.log_append_time.0)
                .with_log_start_offset(partition.log_start_offset.0)
                .with_error_message(partition.error_message.as_deref().map(text));
            if version >= 8 {
                answer.record_errors = partition
                    .record_errors
                    .iter()
                    .map(|error| {
                        produce_response::BatchIndexAndErrorMessage::default()
                            .with_batch_index(error.batch_index)
                            .with_batch_index_error_message(Some(text(&error.message)))
                    })
                    .collect();
            }
            if let (Some(leader), true) = (partition.current_leader, version >= 10) {
                answer.current_leader = produce_response::LeaderIdAndEpoch::default()
                    .with_leader_id(leader.leader.0.into())
                    .with_leader_epoch(leader.epoch.0);
            }
            out.partition_responses.push(answer);
        }
        theirs.responses.push(out);
    }
    if version >= 10 {
        theirs.node_endpoints = ours
            .node_endpoints
            .iter()
            .map(|endpoint| {
                produce_response::NodeEndpoint::default()
                    .with_node_id(endpoint.node.0.into())
                    .with_host(text(&endpoint.host))
                    .with_port(endpoint.port)
                    .with_rack(endpoint.rack.as_deref().map(text))
            })
            .collect();
    }
    theirs
}

#[test]
fn responses_are_byte_for_byte_those_of_the_generated_codec() {
    for version in Api::Produce.versions() {
        for ours in [ProduceResponse::default(), response()] {
            let theirs = super::super::encode_response(
                Api::Produce,
                version,
                -9,
                &their_response(&ours, version),
            )
            .unwrap();
            let ours = ours.encode(version, -9).unwrap().to_bytes();
            assert_eq!(ours, theirs.to_bytes(), "version {version}");
            let mut body = ours;
            body.advance(if version >= 9 { 9 } else { 8 });
            messages::ProduceResponse::decode(&mut body, version).unwrap();
            assert!(body.is_empty());
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_give_a_request_or_an_error(
        version in 2i16..15, body in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let _ = ProduceRequest::decode(&body.into(), version);
    }

    #[test]
    fn damaged_requests_give_a_request_or_an_error(
        version in 3i16..14, at in 0usize..80, byte: u8, cut in 0usize..80,
    ) {
        let topics = [("name", vec![(1, Some(Bytes::from_static(b"abc"))), (2, None)])];
        let mut body = BytesMut::new();
        their_request(version, Some("x"), &topics).encode(&mut body, version).unwrap();
        let length = body.len();
        body[at % length] = byte;
        body.truncate(length - cut % length);
        let _ = ProduceRequest::decode(&body.freeze(), version);
    }
}

#[test]
fn names_do_not_keep_the_memory_of_the_frame() {
    let records = Bytes::from_static(b"not looked at here");
    let mut body = BytesMut::new();
    their_request(9, Some("tx"), &[("topic", vec![(0, Some(records))])])
        .encode(&mut body, 9)
        .unwrap();
    let body = body.freeze();
    let mut request = ProduceRequest::decode(&body, 9).unwrap();
    assert!(!body.is_unique(), "the records are in it");
    request.topics[0].partitions.clear();
    assert!(body.is_unique());
    assert_eq!(request.topics[0].name.as_str(), "topic");
}
