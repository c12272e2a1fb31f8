//! The consumers' own protocol within the classic one: subscriptions and assignments, which the
//! coordinator has to decode while a group has members of both protocols.
//!
//! Subscription: version (16 bits), topics, user data; from version 1 on the partitions that the
//! member owns, from 2 its generation, from 3 its rack. Assignment: version, partitions by topic,
//! user data. Numbers are big-endian, arrays have a 32-bit count, text a 16-bit length. Bytes after
//! the last known field are ignored.

use std::collections::BTreeSet;

use bytes::Bytes;
use wire::protocol::StrBytes;

/// The latest version that is known.
const VERSION_MAX: i16 = 3;

/// Most topics and partitions of a subscription or an assignment; one with more is not decoded.
const PARTS_MAX: usize = 100_000;

/// Partitions by topic name.
pub(super) type NamedPartitions = Vec<(String, Vec<i32>)>;

/// The subscription of a classic member.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Subscription {
    pub(super) version: i16,
    // Bounded: lives with one subscription, `join_group::METADATA_BYTES_MAX`.
    pub(super) topics: BTreeSet<StrBytes>,
    pub(super) owned: NamedPartitions,
    pub(super) rack: Option<StrBytes>,
}

/// The assignment of a classic member.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct ClassicAssignment {
    pub(super) partitions: NamedPartitions,
    pub(super) has_user_data: bool,
}

impl Subscription {
    /// Decodes a subscription; returns `None` if the bytes are not one.
    pub(super) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let input = &mut bytes;
        let version = number(input)?;
        if version < 0 {
            return None;
        }
        let mut topics = BTreeSet::new();
        let mut left = PARTS_MAX;
        for _ in 0..within(&mut left, count(input)?)? {
            topics.insert(StrBytes::from_string(text(input)?));
        }
        user_data(input)?;
        let mut subscription = Self {
            version: version.min(VERSION_MAX),
            topics,
            ..Self::default()
        };
        if version >= 1 {
            subscription.owned = named(input)?;
        }
        if version >= 2 {
            take::<4>(input)?;
        }
        if version >= 3 {
            subscription.rack = maybe_text(input)?.map(StrBytes::from_string);
        }
        Some(subscription)
    }
}

impl ClassicAssignment {
    /// Decodes an assignment; returns `None` if the bytes are not one.
    ///
    /// Empty bytes are an empty assignment.
    pub(super) fn decode(mut bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Self::default());
        }
        let input = &mut bytes;
        if number(input)? < 0 {
            return None;
        }
        let partitions = named(input)?;
        let has_user_data = user_data(input)? > 0;
        Some(Self {
            partitions,
            has_user_data,
        })
    }
}

/// Encodes an assignment without user data.
///
/// A topic whose name is too long for the 16-bit length, which only a foreign metadata log has, is
/// left out: the bytes after it could not be decoded.
pub(super) fn encode_assignment(version: i16, partitions: &NamedPartitions) -> Bytes {
    let sayable = partitions.iter().filter_map(|(topic, partitions)| {
        let bytes = i16::try_from(topic.len()).ok()?;
        Some((bytes, topic, partitions))
    });
    let mut out = Vec::new();
    out.extend(version.to_be_bytes());
    out.extend(length(sayable.clone().count()).to_be_bytes());
    for (bytes, topic, partitions) in sayable {
        out.extend(bytes.to_be_bytes());
        out.extend(topic.as_bytes());
        out.extend(length(partitions.len()).to_be_bytes());
        out.extend(partitions.iter().flat_map(|one| one.to_be_bytes()));
    }
    out.extend((-1_i32).to_be_bytes());
    out.into()
}

fn length(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn named(input: &mut &[u8]) -> Option<NamedPartitions> {
    let mut all = NamedPartitions::new();
    let mut left = PARTS_MAX;
    for _ in 0..within(&mut left, count(input)?)? {
        let topic = text(input)?;
        let mut partitions = Vec::new();
        for _ in 0..within(&mut left, count(input)?)? {
            partitions.push(i32::from_be_bytes(take(input)?));
        }
        all.push((topic, partitions));
    }
    Some(all)
}

fn number(input: &mut &[u8]) -> Option<i16> {
    Some(i16::from_be_bytes(take(input)?))
}

fn count(input: &mut &[u8]) -> Option<u32> {
    u32::try_from(i32::from_be_bytes(take(input)?)).ok()
}

/// Returns the count if at most that many parts are left.
fn within(left: &mut usize, count: u32) -> Option<u32> {
    *left = left.checked_sub(usize::try_from(count).ok()?)?;
    Some(count)
}

fn text(input: &mut &[u8]) -> Option<String> {
    maybe_text(input)?
}

#[allow(
    clippy::option_option,
    reason = "the bytes may be wrong, and the text may be null"
)]
fn maybe_text(input: &mut &[u8]) -> Option<Option<String>> {
    let Ok(length) = usize::try_from(number(input)?) else {
        return Some(None);
    };
    let (text, rest) = input.split_at_checked(length)?;
    *input = rest;
    Some(Some(std::str::from_utf8(text).ok()?.to_owned()))
}

/// Skips user data and returns its length.
fn user_data(input: &mut &[u8]) -> Option<usize> {
    let length = usize::try_from(i32::from_be_bytes(take(input)?)).unwrap_or(0);
    let (_, rest) = input.split_at_checked(length)?;
    *input = rest;
    Some(length)
}

fn take<const N: usize>(input: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = input.split_first_chunk::<N>()?;
    *input = rest;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscription_of_the_java_client_is_understood() {
        let bytes = b"\x00\x03\x00\x00\x00\x01\x00\x02ab\xff\xff\xff\xff\
            \x00\x00\x00\x01\x00\x02ab\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x05\
            \x00\x00\x00\x07\x00\x01r";
        let subscription = Subscription::decode(bytes).unwrap();
        assert_eq!(subscription.version, 3);
        assert_eq!(subscription.topics.len(), 1);
        assert_eq!(subscription.owned, [("ab".to_owned(), vec![0, 5])]);
        assert_eq!(subscription.rack.as_deref(), Some("r"));
        for length in 0..bytes.len() {
            assert_eq!(Subscription::decode(&bytes[..length]), None);
        }
    }

    #[test]
    fn assignments_round_trip_and_user_data_is_noticed() {
        let partitions = vec![("t".to_owned(), vec![1, 2]), ("u".to_owned(), vec![])];
        let bytes = encode_assignment(1, &partitions);
        let read = ClassicAssignment::decode(&bytes).unwrap();
        assert_eq!((read.partitions, read.has_user_data), (partitions, false));
        let custom =
            ClassicAssignment::decode(b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01x").unwrap();
        assert!(custom.has_user_data);
        assert_eq!(
            ClassicAssignment::decode(b""),
            Some(ClassicAssignment::default())
        );
        assert_eq!(ClassicAssignment::decode(b"\x00\x00\x7f\xff\xff\xff"), None);
    }

    #[test]
    fn an_assignment_with_a_topic_whose_name_is_too_long_to_be_said_is_read_without_it() {
        let long = ("a".repeat(40_000), vec![0]);
        let bytes = encode_assignment(1, &vec![long, ("t".to_owned(), vec![3])]);
        let read = ClassicAssignment::decode(&bytes).unwrap();
        assert_eq!(read.partitions, [("t".to_owned(), vec![3])]);
    }
}
