//! The records of group decisions in `__consumer_offsets`, as values.

use bytes::Bytes;
use wire::protocol::StrBytes;
use wire::records::DecodeError;
use wire::records::offsets::{
    GroupMetadataKey, GroupMetadataValue, Key, OffsetCommitKey, OffsetCommitValue,
};

use super::consumer::record::ConsumerRecord;

/// Key and value to append; a record without a value is a tombstone.
pub type RawRecord = (Bytes, Option<Bytes>);

/// A record of a group; without a value it is a tombstone.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupRecord {
    /// A committed offset.
    Offset {
        /// The group.
        group: StrBytes,
        /// Name of the topic.
        topic: StrBytes,
        /// Index of the partition.
        partition: i32,
        /// The offset.
        value: Option<OffsetCommitValue>,
    },
    /// Members and generation of a classic group.
    Metadata {
        /// The group.
        group: StrBytes,
        /// The group after a completed rebalance.
        value: Option<GroupMetadataValue>,
    },
    /// A part of a consumer group.
    Consumer {
        /// The group.
        group: StrBytes,
        /// The part.
        record: ConsumerRecord,
    },
}

impl GroupRecord {
    /// Returns the group.
    pub fn group(&self) -> &StrBytes {
        match self {
            Self::Offset { group, .. }
            | Self::Metadata { group, .. }
            | Self::Consumer { group, .. } => group,
        }
    }

    /// Returns true for a record of the group itself, and false for one of its offsets.
    pub fn is_of_state(&self) -> bool {
        matches!(self, Self::Metadata { .. } | Self::Consumer { .. })
    }

    /// Returns a lower bound of its bytes, in the log and in memory.
    pub fn size(&self) -> usize {
        let value = match self {
            Self::Offset { topic, value, .. } => {
                let note = value.as_ref().map_or(0, |value| value.metadata.len());
                topic.len().saturating_add(note)
            }
            Self::Metadata { value, .. } => {
                let members = value.iter().flat_map(|value| &value.members);
                members.fold(0, |all: usize, member| {
                    let opaque = member
                        .subscription
                        .len()
                        .saturating_add(member.assignment.len());
                    all.saturating_add(opaque)
                        .saturating_add(member.member_id.len())
                })
            }
            Self::Consumer { record, .. } => record.size(),
        };
        self.group().len().saturating_add(value)
    }

    /// Returns a lower bound of the bytes that an offset record takes in a batch, with its numbers
    /// and the lengths of its texts.
    pub fn log_bytes(&self) -> usize {
        const KEY: usize = 10;
        const VALUE: usize = 24;
        const IN_BATCH: usize = 7;
        let value = match self {
            Self::Offset { value: Some(_), .. } => VALUE,
            _ => 0,
        };
        self.size().saturating_add(KEY + value + IN_BATCH)
    }

    /// Encodes the record.
    pub fn encode(&self) -> RawRecord {
        match self {
            Self::Offset {
                group,
                topic,
                partition,
                value,
            } => {
                let key = OffsetCommitKey {
                    group: group.to_string(),
                    topic: topic.to_string(),
                    partition: *partition,
                };
                (key.encode(), value.as_ref().map(OffsetCommitValue::encode))
            }
            Self::Metadata { group, value } => {
                let key = GroupMetadataKey {
                    group: group.to_string(),
                };
                (key.encode(), value.as_ref().map(GroupMetadataValue::encode))
            }
            Self::Consumer { group, record } => record.encode(group),
        }
    }

    /// Decodes a record; returns `None` for an unknown type.
    pub fn decode(key: &[u8], value: Option<&[u8]>) -> Result<Option<Self>, DecodeError> {
        Ok(Some(match Key::decode(key)? {
            Key::LegacyOffsetCommit(key) | Key::OffsetCommit(key) => Self::Offset {
                group: StrBytes::from_string(key.group),
                topic: StrBytes::from_string(key.topic),
                partition: key.partition,
                value: value.map(OffsetCommitValue::decode).transpose()?,
            },
            Key::GroupMetadata(key) => Self::Metadata {
                group: StrBytes::from_string(key.group),
                value: value.map(GroupMetadataValue::decode).transpose()?,
            },
            Key::Consumer(key) => {
                let (group, record) = ConsumerRecord::decode(key, value)?;
                Self::Consumer { group, record }
            }
            Key::Other(_) => return Ok(None),
        }))
    }
}
