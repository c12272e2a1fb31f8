//! Records of consumer groups (KIP-848): the group's epoch, its members, their target and current
//! assignments, and the topics that regular expressions matched.
//!
//! Each value has one version, 0; later releases added tagged fields. Two defaults of Kafka are
//! unexpected: a member without the tag of the classic protocol is a member that speaks it (so the
//! tag is always written), and partitions without epochs have an empty list.

use bytes::Bytes;
use uuid::Uuid;

use super::super::schema::schema;
use super::super::{DecodeError, Field, Form, Reader};

schema! {
    /// The key of a record that a group has once.
    GroupKey, versions 0..=0, flexible 1.. {
        /// The group.
        group: String = String::new(), in 0..=0;
    }

    /// The key of a member of a group, or of a regular expression.
    PartKey, versions 0..=0, flexible 1.. {
        /// The group.
        group: String = String::new(), in 0..=0;
        /// Member id, or regular expression.
        part: String = String::new(), in 0..=0;
    }

    /// The epoch of a group.
    EpochValue, versions 0..=0, flexible 0.. {
        /// Grows with every change that requires a new assignment.
        epoch: i32 = 0, in 0..=0;
        /// Hash of the topics that the group reads and of their partitions.
        metadata_hash: i64 = 0, in 0..=0, tag 0;
    }

    /// The topics that a group reads, as stored by releases before 4.1.
    PartitionMetadataValue, versions 0..=0, flexible 0.. {
        /// The topics.
        topics: Vec<TopicMetadata> = Vec::new(), in 0..=0;
    }

    /// One topic that a group reads.
    TopicMetadata, versions 0..=0, flexible 0.. {
        /// Its id.
        topic_id: Uuid = Uuid::nil(), in 0..=0;
        /// Its name.
        topic_name: String = String::new(), in 0..=0;
        /// Number of partitions.
        num_partitions: i32 = 0, in 0..=0;
        /// Location of the partitions.
        partition_metadata: Vec<PartitionMetadata> = Vec::new(), in 0..=0;
    }

    /// Location of one partition.
    PartitionMetadata, versions 0..=0, flexible 0.. {
        /// Its index.
        partition: i32 = 0, in 0..=0;
        /// The racks of its replicas.
        racks: Vec<String> = Vec::new(), in 0..=0;
    }

    /// A member and its subscription.
    MemberValue, versions 0..=0, flexible 0.. {
        /// Name of a static member.
        instance_id: Option<String> = None, in 0..=0;
        /// Its rack.
        rack_id: Option<String> = None, in 0..=0;
        /// Client id.
        client_id: String = String::new(), in 0..=0;
        /// Address of the client, with a leading slash.
        client_host: String = String::new(), in 0..=0;
        /// Topics by name, sorted.
        subscribed_topic_names: Vec<String> = Vec::new(), in 0..=0;
        /// Topics by regular expression; empty or null for none.
        subscribed_topic_regex: Option<String> = None, in 0..=0;
        /// How long the member may take to revoke partitions, in milliseconds.
        rebalance_timeout: i32 = -1, in 0..=0;
        /// The assignor that the member requests.
        server_assignor: Option<String> = None, in 0..=0;
        /// Set for a member that speaks the classic protocol.
        classic: Option<ClassicValue> = Some(ClassicValue::default()), in 0..=0, tag 0;
    }

    /// The part that only a member of the classic protocol has.
    ClassicValue, versions 0..=0, flexible 0.. {
        /// Session timeout in milliseconds.
        session_timeout: i32 = 0, in 0..=0;
        /// The protocols that the member offers.
        protocols: Vec<ProtocolValue> = Vec::new(), in 0..=0;
    }

    /// One protocol that a member offers.
    ProtocolValue, versions 0..=0, flexible 0.. {
        /// Its name.
        name: String = String::new(), in 0..=0;
        /// The member's metadata, opaque.
        metadata: Bytes = Bytes::new(), in 0..=0;
    }

    /// The epoch of a group's target assignment.
    TargetEpochValue, versions 0..=0, flexible 0.. {
        /// The group epoch that the assignment was computed for.
        epoch: i32 = 0, in 0..=0;
        /// When the assignment was computed.
        timestamp: i64 = 0, in 0..=0, tag 0;
    }

    /// The target assignment of a member.
    TargetValue, versions 0..=0, flexible 0.. {
        /// Partitions by topic.
        topics: Vec<TargetTopic> = Vec::new(), in 0..=0;
    }

    /// Partitions of one topic in a target assignment.
    TargetTopic, versions 0..=0, flexible 0.. {
        /// The topic.
        topic_id: Uuid = Uuid::nil(), in 0..=0;
        /// The partitions.
        partitions: Vec<i32> = Vec::new(), in 0..=0;
    }

    /// The current assignment of a member, and the state of its reconciliation.
    CurrentValue, versions 0..=0, flexible 0.. {
        /// Its epoch.
        epoch: i32 = 0, in 0..=0;
        /// Its previous epoch, which the member may still send after it missed a response.
        previous_epoch: i32 = 0, in 0..=0;
        /// 0 stable, 1 partitions not revoked yet, 2 partitions not free yet.
        state: i8 = 0, in 0..=0;
        /// The assigned partitions.
        assigned: Vec<CurrentTopic> = Vec::new(), in 0..=0;
        /// The partitions that it must revoke.
        revoking: Vec<CurrentTopic> = Vec::new(), in 0..=0;
    }

    /// Partitions of one topic in a current assignment.
    CurrentTopic, versions 0..=0, flexible 0.. {
        /// The topic.
        topic_id: Uuid = Uuid::nil(), in 0..=0;
        /// The partitions.
        partitions: Vec<i32> = Vec::new(), in 0..=0;
        /// The epoch in which the member got each partition.
        epochs: Option<Vec<i32>> = Some(Vec::new()), in 0..=0, tag 0;
    }

    /// The topics that a regular expression matched.
    RegexValue, versions 0..=0, flexible 0.. {
        /// Their names.
        topics: Vec<String> = Vec::new(), in 0..=0;
        /// Offset of the metadata in which the broker resolved the expression.
        version: i64 = 0, in 0..=0;
        /// When the broker resolved the expression.
        timestamp: i64 = 0, in 0..=0;
    }
}

impl Field for Option<ClassicValue> {
    fn write(&self, out: &mut Vec<u8>, form: Form) {
        super::super::write_unsigned_varint(out, u32::from(self.is_some()));
        if let Some(value) = self {
            value.write(out, form);
        }
    }
    fn read(input: &mut Reader<'_>, form: Form) -> Result<Self, DecodeError> {
        match input.unsigned_varint()? {
            0 => Ok(None),
            _ => Ok(Some(ClassicValue::read(input, form)?)),
        }
    }
}

pub(super) const EPOCH: i16 = 3;
pub(super) const PARTITION_METADATA: i16 = 4;
pub(super) const MEMBER: i16 = 5;
pub(super) const TARGET_EPOCH: i16 = 6;
pub(super) const TARGET: i16 = 7;
pub(super) const CURRENT: i16 = 8;
pub(super) const REGEX: i16 = 16;

/// A key of a consumer group's records.
#[derive(Clone, PartialEq, Debug)]
pub enum ConsumerKey {
    /// The group's epoch.
    Epoch(GroupKey),
    /// The topics, as old releases stored them.
    PartitionMetadata(GroupKey),
    /// A member.
    Member(PartKey),
    /// The epoch of the target assignment.
    TargetEpoch(GroupKey),
    /// The target assignment of a member.
    Target(PartKey),
    /// The current assignment of a member.
    Current(PartKey),
    /// The topics that a regular expression matched.
    Regex(PartKey),
}

impl ConsumerKey {
    /// Returns the key's bytes.
    pub fn encode(&self) -> Bytes {
        let form = GroupKey::form(0);
        match self {
            Self::Epoch(key) => super::encode(EPOCH, key, form),
            Self::PartitionMetadata(key) => super::encode(PARTITION_METADATA, key, form),
            Self::Member(key) => super::encode(MEMBER, key, form),
            Self::TargetEpoch(key) => super::encode(TARGET_EPOCH, key, form),
            Self::Target(key) => super::encode(TARGET, key, form),
            Self::Current(key) => super::encode(CURRENT, key, form),
            Self::Regex(key) => super::encode(REGEX, key, form),
        }
    }

    /// Reads the part after the key's type; `None` for a type that is not listed here.
    pub(super) fn read(kind: i16, input: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        let form = GroupKey::form(0);
        Ok(Some(match kind {
            EPOCH => Self::Epoch(Field::read(input, form)?),
            PARTITION_METADATA => Self::PartitionMetadata(Field::read(input, form)?),
            MEMBER => Self::Member(Field::read(input, form)?),
            TARGET_EPOCH => Self::TargetEpoch(Field::read(input, form)?),
            TARGET => Self::Target(Field::read(input, form)?),
            CURRENT => Self::Current(Field::read(input, form)?),
            REGEX => Self::Regex(Field::read(input, form)?),
            _ => return Ok(None),
        }))
    }
}

macro_rules! values {
    ($($name:ident = $key:ident;)*) => {$(
        impl $name {
            /// Returns the value's bytes.
            pub fn encode(&self) -> Bytes {
                super::encode(0, self, Self::form(0))
            }

            /// Reads a value.
            pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
                super::decode($key, bytes, &Self::VERSIONS, Self::form)
            }
        }
    )*};
}

values! {
    EpochValue = EPOCH;
    PartitionMetadataValue = PARTITION_METADATA;
    MemberValue = MEMBER;
    TargetEpochValue = TARGET_EPOCH;
    TargetValue = TARGET;
    CurrentValue = CURRENT;
    RegexValue = REGEX;
}

#[cfg(test)]
mod tests;
