//! The newest versions: their bytes, and round trips.

use bytes::Bytes;
use kafka_protocol::messages::{
    DescribeLogDirsResponse, GroupId, OffsetCommitRequest, OffsetFetchRequest,
    WriteTxnMarkersRequest,
    describe_log_dirs_response::{
        DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
    },
    offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
    offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics},
    write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic},
};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::kafka::api::{Api, beyond};
use crate::kafka::shape::{decode_request, decoded_bytes};
use crate::protocol::StrBytes;
use crate::types::Uuid;

fn bytes_of<T: Encodable>(message: &T, version: i16) -> Bytes {
    let mut bytes = BytesMut::new();
    message.encode(&mut bytes, version).unwrap();
    assert_eq!(message.compute_size(version).unwrap(), bytes.len());
    bytes.freeze()
}

/// Checks a round trip, and that bytes after the message are left alone.
fn check<T>(message: &NewestVersion<T>)
where
    T: LacksNewest + Encodable + Decodable + PartialEq + std::fmt::Debug,
{
    let version = NewestVersion::<T>::VERSIONS.max;
    let mut bytes = BytesMut::from(&bytes_of(message, version)[..]);
    bytes.extend_from_slice(b"more");
    let mut bytes = bytes.freeze();
    assert_eq!(
        &NewestVersion::decode(&mut bytes, version).unwrap(),
        message
    );
    assert_eq!(&bytes[..], b"more");
}

#[test]
fn a_commit_by_id_is_these_bytes() {
    let partition = OffsetCommitRequestPartition::default()
        .with_partition_index(1)
        .with_committed_offset(2)
        .with_committed_leader_epoch(3)
        .with_committed_metadata(Some(StrBytes::from_static_str("m")));
    let topic = OffsetCommitRequestTopic::default()
        .with_topic_id(Uuid::from_u128(0x0102_0304))
        .with_partitions(vec![partition]);
    let request = OffsetCommitRequest::default()
        .with_group_id(GroupId(StrBytes::from_static_str("g")))
        .with_generation_id_or_member_epoch(7)
        .with_member_id(StrBytes::from_static_str("me"))
        .with_topics(vec![topic]);
    let request = NewestVersion::from(request);
    let expected = [
        &b"\x02g\0\0\0\x07\x03me\0"[..],
        b"\x02\0\0\0\0\0\0\0\0\0\0\0\0\x01\x02\x03\x04",
        b"\x02\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\x03\x02m\0\0\0",
    ];
    assert_eq!(bytes_of(&request, 10), expected.concat());
    // A name in addition to the id is not encoded.
    let mut named = request.clone();
    named.message.topics[0].name.0 = StrBytes::from_static_str("name");
    assert_eq!(bytes_of(&named, 10), expected.concat());
    let body = expected.concat().into();
    let decoded: NewestVersion<OffsetCommitRequest> = decode_request(10, &body, 4096).unwrap();
    assert_eq!(decoded, request);
}

#[test]
fn a_cordoned_directory_is_a_byte_behind_its_room() {
    let dir = |path: &'static str| {
        DescribeLogDirsResult::default()
            .with_log_dir(StrBytes::from_static_str(path))
            .with_total_bytes(1)
            .with_usable_bytes(2)
    };
    let response = NewestVersion {
        message: DescribeLogDirsResponse::default().with_results(vec![dir("/a"), dir("/b")]),
        more: vec![false, true],
    };
    let expected = [
        &b"\0\0\0\0\0\0\x03"[..],
        b"\0\0\x03/a\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0",
        b"\0\0\x03/b\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\x01\0",
        b"\0",
    ];
    assert_eq!(bytes_of(&response, 5), expected.concat());
    assert_eq!(bytes_of(&response, 4), bytes_of(&response.message, 4));
}

#[test]
fn a_row_that_does_not_fit_its_message_is_refused() {
    let topics = vec![OffsetCommitRequestTopic::default(); 2];
    let mut commit = OffsetCommitRequest::default().with_topics(topics);
    for (row_bytes, fits) in [
        (0, false),
        (16, false),
        (31, false),
        (32, true),
        (48, false),
    ] {
        assert_eq!(
            commit.tell(&vec![1; row_bytes]).is_ok(),
            fits,
            "{row_bytes}"
        );
    }
    assert_eq!(commit.topics[1].topic_id.as_bytes(), &[1; 16]);
    let results = vec![DescribeLogDirsResult::default(); 2];
    let dirs = DescribeLogDirsResponse::default().with_results(results);
    assert!(dirs.clone().tell(&[1]).is_err());
    let shape = DescribeLogDirsResponse::shape().unwrap();
    let before = bytes_of(&dirs, 4);
    assert!(newer(&shape, 5, &before, &[1, 0]).is_ok());
    assert!(newer(&shape, 5, &before, &[1]).is_err());
    assert!(newer(&shape, 5, &before, &[1, 0, 1]).is_err());
}

#[test]
fn older_versions_are_the_generated_ones() {
    let topic = OffsetCommitRequestTopic::default().with_name(name("t"));
    let request = OffsetCommitRequest::default().with_topics(vec![topic]);
    for version in 2..=9 {
        let bytes = bytes_of(&NewestVersion::from(request.clone()), version);
        assert_eq!(bytes, bytes_of(&request, version));
        let decoded =
            NewestVersion::<OffsetCommitRequest>::decode(&mut bytes.clone(), version).unwrap();
        assert_eq!(decoded.message, request);
    }
    let beyond = bytes_of(&NewestVersion::from(request), 10);
    assert!(NewestVersion::<OffsetCommitRequest>::decode(&mut beyond.clone(), 11).is_err());
}

fn name(text: &str) -> crate::messages::TopicName {
    crate::messages::TopicName(StrBytes::from_string(text.to_owned()))
}

fn id() -> impl Strategy<Value = Uuid> {
    any::<u128>().prop_map(Uuid::from_u128)
}

fn text() -> impl Strategy<Value = StrBytes> {
    "[a-z]{0,200}".prop_map(StrBytes::from_string)
}

prop_compose! {
    fn commit()(
        group in text(), member in text(), instance in proptest::option::of(text()), epoch: i32,
        topics in vec((id(), vec((any::<i32>(), any::<i64>(), proptest::option::of(text())), 0..4)), 0..4),
    ) -> OffsetCommitRequest {
        let topics = topics.into_iter().map(|(id, partitions)| {
            let partitions = partitions.into_iter().map(|(index, offset, note)| {
                OffsetCommitRequestPartition::default()
                    .with_partition_index(index)
                    .with_committed_offset(offset)
                    .with_committed_metadata(note)
            });
            OffsetCommitRequestTopic::default()
                .with_topic_id(id)
                .with_partitions(partitions.collect())
        });
        OffsetCommitRequest::default()
            .with_group_id(GroupId(group))
            .with_member_id(member)
            .with_group_instance_id(instance)
            .with_generation_id_or_member_epoch(epoch)
            .with_topics(topics.collect())
    }
}

prop_compose! {
    fn question()(
        stable: bool,
        groups in vec((text(), proptest::option::of(vec((id(), vec(any::<i32>(), 0..4)), 0..3))), 0..4),
    ) -> OffsetFetchRequest {
        let groups = groups.into_iter().map(|(group, topics)| {
            let topics = topics.map(|topics| {
                let topics = topics.into_iter().map(|(id, indexes)| {
                    OffsetFetchRequestTopics::default()
                        .with_topic_id(id)
                        .with_partition_indexes(indexes)
                });
                topics.collect()
            });
            OffsetFetchRequestGroup::default()
                .with_group_id(GroupId(group))
                .with_topics(topics)
        });
        OffsetFetchRequest::default()
            .with_require_stable(stable)
            .with_groups(groups.collect())
    }
}

prop_compose! {
    fn dirs()(
        dirs in vec((text(), any::<bool>(), vec((text(), vec(any::<i64>(), 0..3)), 0..3)), 0..4),
    ) -> NewestVersion<DescribeLogDirsResponse> {
        let more = dirs.iter().map(|(_, cordoned, _)| *cordoned).collect();
        let results = dirs.into_iter().map(|(path, _, topics)| {
            let topics = topics.into_iter().map(|(topic, sizes)| {
                let partitions = sizes
                    .into_iter()
                    .map(|size| DescribeLogDirsPartition::default().with_partition_size(size));
                DescribeLogDirsTopic::default()
                    .with_name(name(&topic))
                    .with_partitions(partitions.collect())
            });
            DescribeLogDirsResult::default()
                .with_log_dir(path)
                .with_topics(topics.collect())
        });
        let message = DescribeLogDirsResponse::default().with_results(results.collect());
        NewestVersion { message, more }
    }
}

prop_compose! {
    fn markers()(
        markers in vec((any::<i64>(), any::<i8>(), vec((text(), vec(any::<i32>(), 0..3)), 0..3)), 0..4),
    ) -> NewestVersion<WriteTxnMarkersRequest> {
        let more = markers.iter().map(|(_, version, _)| *version).collect();
        let markers = markers.into_iter().map(|(producer, _, topics)| {
            let topics = topics.into_iter().map(|(topic, indexes)| {
                WritableTxnMarkerTopic::default()
                    .with_name(name(&topic))
                    .with_partition_indexes(indexes)
            });
            WritableTxnMarker::default()
                .with_producer_id(producer.into())
                .with_topics(topics.collect())
        });
        let message = WriteTxnMarkersRequest::default().with_markers(markers.collect());
        NewestVersion { message, more }
    }
}

fn again<T: LacksNewest + Encodable + Decodable>(mut bytes: Bytes) {
    let version = NewestVersion::<T>::VERSIONS.max;
    if let Ok(message) = NewestVersion::<T>::decode(&mut bytes, version) {
        let _ = message.encode(&mut BytesMut::new(), version);
    }
}

proptest! {
    #[test]
    fn every_message_comes_back_as_it_went(
        commit in commit(), question in question(), dirs in dirs(), markers in markers(),
    ) {
        check(&NewestVersion::from(commit));
        check(&NewestVersion::from(question));
        check(&dirs);
        check(&markers);
    }

    #[test]
    fn a_message_changed_at_random_is_one_or_an_error(
        commit in commit(), question in question(), dirs in dirs(), markers in markers(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4), cut: prop::sample::Index,
    ) {
        let changed = |bytes: Bytes| {
            let mut bytes = bytes.to_vec();
            for (at, byte) in &changes {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            let end = bytes.len() - cut.index(bytes.len()) / 4;
            Bytes::from(bytes).slice(..end)
        };
        again::<OffsetCommitRequest>(changed(bytes_of(&NewestVersion::from(commit), 10)));
        again::<OffsetFetchRequest>(changed(bytes_of(&NewestVersion::from(question), 10)));
        again::<DescribeLogDirsResponse>(changed(bytes_of(&dirs, 5)));
        again::<WriteTxnMarkersRequest>(changed(bytes_of(&markers, 2)));
    }

    #[test]
    fn any_bytes_give_a_message_or_an_error(body in vec(any::<u8>(), 0..80)) {
        let body = Bytes::from(body);
        for &api in Api::ALL.iter().filter(|api| beyond(**api)) {
            let version = *api.versions().end();
            let _ = decoded_bytes(api, version, &body);
        }
        let _ = NewestVersion::<OffsetCommitRequest>::decode(&mut body.clone(), 10);
        let _ = NewestVersion::<WriteTxnMarkersRequest>::decode(&mut body.clone(), 2);
        let _ = NewestVersion::<OffsetFetchRequest>::decode(&mut body.clone(), 10);
        let _ = NewestVersion::<DescribeLogDirsResponse>::decode(&mut body.clone(), 5);
    }
}
