//! The consumers' own protocol within the classic one: what members tell their leader, and what the
//! leader tells them.
//!
//! Subscription: version (16 bits), topics, user data; from version 1 on the partitions that the
//! member owns, from 2 its generation. Assignment: version, partitions by topic, user data. Numbers
//! are big-endian, arrays have a 32-bit count, text a 16-bit length. Bytes after the last known
//! field are ignored. Invariant: what other members wrote is read in memory bounded by its length.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use wire::types::TopicPartition;

/// The version that is written.
const VERSION: i16 = 2;
/// A generation that is not known.
pub(super) const NO_GENERATION: i32 = -1;

/// What a member tells its leader.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Subscription {
    pub(super) topics: BTreeSet<Arc<str>>,
    /// What it owned when it joined.
    pub(super) owned: BTreeSet<TopicPartition>,
    /// The generation in which it got that.
    pub(super) generation: i32,
}

impl Subscription {
    /// Encodes; `tells_generation` adds it as user data, as the cooperative assignor of Java's
    /// client does.
    pub(super) fn encode(&self, tells_generation: bool) -> Bytes {
        let mut out = BytesMut::new();
        out.put_i16(VERSION);
        out.put_i32(length(self.topics.len()));
        for topic in &self.topics {
            put_text(&mut out, topic);
        }
        if tells_generation {
            out.put_i32(4);
            out.put_i32(self.generation);
        } else {
            out.put_i32(-1);
        }
        put_partitions(&mut out, &self.owned);
        out.put_i32(self.generation);
        out.freeze()
    }

    /// Decodes; `None` if the bytes are no subscription.
    pub(super) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let input = &mut bytes;
        let version = i16::from_be_bytes(take(input)?);
        if version < 0 {
            return None;
        }
        let mut topics = BTreeSet::new();
        for _ in 0..count(input)? {
            topics.insert(text(input)?);
        }
        let user_data = user_data(input)?;
        let owned = if version >= 1 {
            partitions(input)?
        } else {
            BTreeSet::new()
        };
        let generation = if version >= 2 {
            i32::from_be_bytes(take(input)?)
        } else {
            // Older cooperative members tell it as user data.
            let generation = user_data.first_chunk::<4>();
            generation.map_or(NO_GENERATION, |bytes| i32::from_be_bytes(*bytes))
        };
        Some(Self {
            topics,
            owned,
            generation,
        })
    }
}

/// Encodes what a member is assigned.
pub(super) fn encode_assignment(assigned: &BTreeSet<TopicPartition>) -> Bytes {
    let mut out = BytesMut::new();
    out.put_i16(VERSION);
    put_partitions(&mut out, assigned);
    out.put_i32(-1);
    out.freeze()
}

/// Decodes what this member is assigned; `None` if the bytes are no assignment. Empty bytes are an
/// empty one.
pub(super) fn decode_assignment(mut bytes: &[u8]) -> Option<BTreeSet<TopicPartition>> {
    if bytes.is_empty() {
        return Some(BTreeSet::new());
    }
    let input = &mut bytes;
    let version = i16::from_be_bytes(take(input)?);
    if version < 0 {
        return None;
    }
    partitions(input)
}

fn put_partitions(out: &mut BytesMut, partitions: &BTreeSet<TopicPartition>) {
    let mut by_topic: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for place in partitions {
        let of_topic = by_topic.entry(&place.topic).or_default();
        of_topic.push(place.partition);
    }
    out.put_i32(length(by_topic.len()));
    for (topic, partitions) in by_topic {
        put_text(out, topic);
        out.put_i32(length(partitions.len()));
        for one in partitions {
            out.put_i32(one);
        }
    }
}

/// Writes a topic's name, which brokers keep far below the longest text.
fn put_text(out: &mut BytesMut, text: &str) {
    let bytes = text.as_bytes();
    let bytes = bytes.get(..i16::MAX as usize).unwrap_or(bytes);
    out.put_i16(i16::try_from(bytes.len()).unwrap_or(i16::MAX));
    out.put_slice(bytes);
}

fn length(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn partitions(input: &mut &[u8]) -> Option<BTreeSet<TopicPartition>> {
    let mut all = BTreeSet::new();
    for _ in 0..count(input)? {
        let topic = text(input)?;
        for _ in 0..count(input)? {
            all.insert(TopicPartition {
                topic: Arc::clone(&topic),
                partition: i32::from_be_bytes(take(input)?),
            });
        }
    }
    Some(all)
}

/// Reads the length of an array. It reserves nothing: each element takes bytes, which end.
fn count(input: &mut &[u8]) -> Option<u32> {
    u32::try_from(i32::from_be_bytes(take(input)?)).ok()
}

fn text(input: &mut &[u8]) -> Option<Arc<str>> {
    let length = usize::try_from(i16::from_be_bytes(take(input)?)).ok()?;
    let (text, rest) = input.split_at_checked(length)?;
    *input = rest;
    Some(str::from_utf8(text).ok()?.into())
}

fn user_data<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    // Null has no bytes.
    let length = usize::try_from(i32::from_be_bytes(take(input)?)).unwrap_or(0);
    let (bytes, rest) = input.split_at_checked(length)?;
    *input = rest;
    Some(bytes)
}

fn take<const N: usize>(input: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = input.split_first_chunk::<N>()?;
    *input = rest;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn owned(places: &[(&str, i32)]) -> BTreeSet<TopicPartition> {
        let places = places.iter().map(|(topic, partition)| TopicPartition {
            topic: (*topic).into(),
            partition: *partition,
        });
        places.collect()
    }

    #[test]
    fn what_is_written_is_read() {
        for tells_generation in [false, true] {
            let subscription = Subscription {
                topics: ["a".into(), "b".into()].into(),
                owned: owned(&[("a", 0), ("a", 7), ("b", 1)]),
                generation: 5,
            };
            let bytes = subscription.encode(tells_generation);
            assert_eq!(Subscription::decode(&bytes), Some(subscription));
            for length in 0..bytes.len() {
                assert_eq!(Subscription::decode(&bytes[..length]), None);
            }
        }
        let assigned = owned(&[("a", 0), ("b", 3)]);
        let bytes = encode_assignment(&assigned);
        assert_eq!(decode_assignment(&bytes), Some(assigned));
        assert_eq!(decode_assignment(b""), Some(BTreeSet::new()));
        assert_eq!(decode_assignment(b"\xff\xff\0\0\0\0"), None);
    }

    #[test]
    fn subscriptions_of_other_clients_are_understood() {
        // Java's client, version 3, with a rack.
        let java = b"\x00\x03\x00\x00\x00\x01\x00\x02ab\xff\xff\xff\xff\
            \x00\x00\x00\x01\x00\x02ab\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x05\
            \x00\x00\x00\x07\x00\x01r";
        let read = Subscription::decode(java).unwrap();
        assert_eq!(
            (read.owned, read.generation),
            (owned(&[("ab", 0), ("ab", 5)]), 7)
        );
        // Version 0 has topics only, version 1 the generation as user data.
        let old = Subscription::decode(b"\0\0\0\0\0\x01\0\x01t\0\0\0\0").unwrap();
        assert_eq!((old.topics.len(), old.generation), (1, NO_GENERATION));
        let sticky = Subscription::decode(b"\0\x01\0\0\0\0\0\0\0\x04\0\0\0\x09\0\0\0\0").unwrap();
        assert_eq!(sticky.generation, 9);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = Subscription::decode(&bytes);
            let _ = decode_assignment(&bytes);
        }
    }
}
