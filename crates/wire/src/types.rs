//! Kafka's basic values as types: offsets, epochs, ids, and pairs that are always used together.
//!
//! Invariant: offset arithmetic goes through these types, so an offset cannot be confused with a
//! file position or a record count. Not here: time, files, sockets.

use std::fmt;
use std::sync::Arc;

pub use kafka_protocol::ResponseError as ErrorCode;
pub use uuid::Uuid;

/// Position of a record in a partition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Offset(pub i64);

impl Offset {
    /// The first offset a partition can have.
    pub const ZERO: Self = Self(0);

    /// Returns the offset `records` after this one.
    ///
    /// Saturates, because offsets also come from disks and clients.
    #[must_use]
    pub const fn plus(self, records: i64) -> Self {
        Self(self.0.saturating_add(records))
    }

    /// Returns the number of offsets from `earlier` to `self`.
    pub const fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Version of a partition's leadership; grows by one at every election.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LeaderEpoch(pub i32);

impl LeaderEpoch {
    /// What clients send when they do not know the epoch.
    pub const NONE: Self = Self(-1);
}

impl fmt::Display for LeaderEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Identity of an idempotent or transactional producer; -1 is a producer that is neither.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProducerId(pub i64);

impl ProducerId {
    /// A producer without an identity.
    pub const NONE: Self = Self(-1);
}

/// Wall-clock time in milliseconds since the Unix epoch, as Kafka stores it; -1 is "none".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TimestampMs(pub i64);

impl TimestampMs {
    /// No timestamp.
    pub const NONE: Self = Self(-1);
}

/// A node of the cluster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub i32);

/// The permanent identity of a topic.
///
/// A topic that is deleted and created again gets another id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId(pub Uuid);

impl TopicId {
    /// The id of `__cluster_metadata` (0, 1).
    pub const METADATA: Self = Self(Uuid::from_u128(1));
    /// "No id", in requests that name topics instead.
    pub const ZERO: Self = Self(Uuid::nil());
}

const _: () = assert!(
    TopicId::METADATA.0.as_u128() != TopicId::ZERO.0.as_u128(),
    "an id is not \"no id\""
);

/// Digits of the text form that carry six bits each; one more digit carries the last two bits.
const FULL_DIGITS: u32 = 21;

const _: () = assert!(6 * FULL_DIGITS + 2 == u128::BITS);

/// Returns Kafka's text form of a UUID: 22 characters of URL-safe base64 without padding.
pub fn uuid_to_base64(uuid: Uuid) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bits = uuid.as_u128();
    // The last digit carries the lowest 2 bits and 4 bits of padding.
    (0..=FULL_DIGITS)
        .map(|digit| {
            let value = if digit < FULL_DIGITS {
                bits >> (122 - 6 * digit)
            } else {
                bits << 4
            };
            let [low, ..] = value.to_le_bytes();
            char::from(ALPHABET[usize::from(low & 63)])
        })
        .collect()
}

/// Reads Kafka's text form of a UUID.
pub fn uuid_from_base64(text: &str) -> Option<Uuid> {
    if text.len() != 22 {
        return None;
    }
    let mut bits: u128 = 0;
    for (digit, c) in (0..).zip(text.bytes()) {
        let value = u128::from(match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        });
        if digit < FULL_DIGITS {
            bits |= value << (122 - 6 * digit);
        } else if value & 0xf != 0 {
            return None;
        } else {
            bits |= value >> 4;
        }
    }
    Some(Uuid::from_u128(bits))
}

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&uuid_to_base64(self.0))
    }
}

impl fmt::Debug for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A partition by the name of its topic.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TopicPartition {
    /// Name of the topic.
    pub topic: Arc<str>,
    /// Index within the topic, from 0.
    pub partition: i32,
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_written_as_kafka_writes_them() {
        assert_eq!(TopicId::METADATA.to_string(), "AAAAAAAAAAAAAAAAAAAAAQ");
        assert_eq!(
            uuid_from_base64("AAAAAAAAAAAAAAAAAAAAAQ"),
            Some(TopicId::METADATA.0)
        );
        assert_eq!(
            uuid_from_base64("5mYQsAMCQ8SRQvTvTqT5lw")
                .map(uuid_to_base64)
                .as_deref(),
            Some("5mYQsAMCQ8SRQvTvTqT5lw")
        );
        assert_eq!(uuid_from_base64("AAAAAAAAAAAAAAAAAAAAA*"), None);
        assert_eq!(uuid_from_base64("short"), None);
    }
}
