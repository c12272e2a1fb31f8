//! The partitions of a member of a classic group, as its leader assigned them.
//!
//! The members agree on these bytes and the broker passes them on unread. Any of them may send
//! anything: every length is checked, and memory is taken only for what is there.

use bytes::{Buf as _, Bytes};

use crate::ask::PartitionKey;

/// Kafka accepts no longer names of topics. Each partition repeats the name.
const TOPIC_BYTES_MAX: usize = 249;

/// Decodes an assignment in the format of consumers; returns `None` for other bytes.
pub(super) fn decode(mut bytes: Bytes) -> Option<Vec<PartitionKey>> {
    let mut places = Vec::new();
    if bytes.is_empty() {
        return Some(places);
    }
    // Newer versions only add to the older ones.
    let version = bytes.try_get_i16().ok()?;
    let topics = count(&mut bytes)?;
    for _ in 0..topics {
        let topic = topic(&mut bytes)?;
        for _ in 0..count(&mut bytes)? {
            let partition = bytes.try_get_i32().ok()?;
            places.push((topic.clone(), partition));
        }
    }
    (version >= 0).then_some(places)
}

fn count(bytes: &mut Bytes) -> Option<u32> {
    let count = bytes.try_get_i32().ok()?;
    u32::try_from(count).ok()
}

fn topic(bytes: &mut Bytes) -> Option<String> {
    let length = usize::try_from(bytes.try_get_i16().ok()?).ok()?;
    if length > bytes.len().min(TOPIC_BYTES_MAX) {
        return None;
    }
    let name = bytes.split_to(length);
    str::from_utf8(&name).ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use bytes::{BufMut as _, BytesMut};
    use proptest::prelude::*;
    use wire::Encodable as _;
    use wire::messages::consumer_protocol_assignment::TopicPartition;
    use wire::messages::{ConsumerProtocolAssignment, TopicName};

    use super::*;
    use crate::ask::text;

    fn encoded(version: i16, topics: &[(&str, &[i32])]) -> Bytes {
        let topics = topics.iter().map(|(name, partitions)| {
            TopicPartition::default()
                .with_topic(TopicName(text(name)))
                .with_partitions(partitions.to_vec())
        });
        let mut bytes = BytesMut::new();
        bytes.put_i16(version);
        ConsumerProtocolAssignment::default()
            .with_assigned_partitions(topics.collect())
            .encode(&mut bytes, version.min(3))
            .unwrap();
        bytes.freeze()
    }

    #[test]
    fn an_assignment_names_partitions() {
        let topics: [(&str, &[i32]); 3] = [("cars", &[2, 0]), ("none", &[]), ("trucks", &[7])];
        let places = [("cars", 2), ("cars", 0), ("trucks", 7)];
        let places = places.map(|(topic, index)| (topic.to_owned(), index));
        for version in [0, 3, 9] {
            let decoded = decode(encoded(version, &topics));
            assert_eq!(decoded.as_deref(), Some(&places[..]), "{version}");
        }
        assert_eq!(decode(Bytes::new()), Some(Vec::new()));
    }

    #[test]
    fn what_is_no_assignment_is_refused_whatever_it_claims() {
        let long = "c".repeat(TOPIC_BYTES_MAX + 1);
        let claims = |topics: i32, name: i16, partitions: i32| {
            let mut bytes = BytesMut::new();
            bytes.put_i16(0);
            bytes.put_i32(topics);
            bytes.put_i16(name);
            bytes.put_i32(partitions);
            bytes.freeze()
        };
        for bytes in [
            Bytes::from_static(&[0]),
            claims(i32::MAX, 0, 0),
            claims(1, 0, i32::MAX),
            claims(1, i16::MAX, 0),
            claims(1, -1, 0),
            claims(-1, 0, 0),
            claims(1, 0, -1),
            encoded(0, &[(&long, &[1])]),
        ] {
            assert_eq!(decode(bytes.clone()), None, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_make_no_more_than_there_is(bytes in prop::collection::vec(0_u8.., 0..200)) {
            let length = bytes.len();
            if let Some(places) = decode(bytes.into()) {
                prop_assert!(places.len() <= length / size_of::<i32>());
            }
        }
    }
}
