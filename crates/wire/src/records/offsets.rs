//! Keys and values of `__consumer_offsets`.
//!
//! A key is its type (16 bits) and the plain form of its schema; a value is its version (16 bits)
//! and its schema; a null value is a tombstone. Compaction compares the bytes of keys, so the two
//! kinds of offset keys remain distinct although they mean the same. Types that the broker does not
//! serve (share and streams groups) decode to [`Key::Other`]; callers must leave them unchanged.

pub mod consumer_group;

use bytes::Bytes;
use uuid::Uuid;

use super::schema::schema;
use super::{DecodeError, Field, Reader};
use consumer_group::ConsumerKey;

schema! {
    /// The group, topic and partition of a committed offset.
    OffsetCommitKey, versions 0..=0, flexible 1.. {
        /// The group.
        group: String = String::new(), in 0..=0;
        /// The topic's name.
        topic: String = String::new(), in 0..=0;
        /// Index of the partition.
        partition: i32 = 0, in 0..=0;
    }

    /// A committed offset.
    OffsetCommitValue, versions 0..=4, flexible 4.. {
        /// The offset of the next record to consume.
        offset: i64 = 0, in 0..=4;
        /// Leader epoch of the last record consumed; -1 when the client did not send it.
        leader_epoch: i32 = -1, in 3..=4;
        /// Metadata that the client attached to the commit.
        metadata: String = String::new(), in 0..=4;
        /// The commit time.
        commit_timestamp: i64 = 0, in 0..=4;
        /// The expiry time, for clients that request one (`OffsetCommit` version 1); else -1.
        expire_timestamp: i64 = -1, in 1..=1;
        /// The topic's id; zero when the client sent only the name.
        topic_id: Uuid = Uuid::nil(), in 4..=4, tag 0;
    }

    /// The key of a classic group.
    GroupMetadataKey, versions 0..=0, flexible 1.. {
        /// The group.
        group: String = String::new(), in 0..=0;
    }

    /// A classic group after a completed rebalance.
    GroupMetadataValue, versions 0..=4, flexible 4.. {
        /// The kind of group: "consumer" for consumers, empty for a group that only stores offsets.
        protocol_type: String = String::new(), in 0..=4;
        /// The generation.
        generation: i32 = 0, in 0..=4;
        /// The protocol (assignor) that the members agreed on.
        protocol: Option<String> = None, in 0..=4;
        /// Member id of the leader.
        leader: Option<String> = None, in 0..=4;
        /// The time when the group entered its state.
        current_state_timestamp: i64 = -1, in 2..=4;
        /// The members.
        members: Vec<MemberMetadata> = Vec::new(), in 0..=4;
    }

    /// One member of a classic group.
    MemberMetadata, versions 0..=4, flexible 4.. {
        /// Member id.
        member_id: String = String::new(), in 0..=4;
        /// Name of a static member.
        group_instance_id: Option<String> = None, in 3..=4;
        /// Client id.
        client_id: String = String::new(), in 0..=4;
        /// Address of the client, with a leading slash.
        client_host: String = String::new(), in 0..=4;
        /// Rebalance timeout in milliseconds.
        rebalance_timeout: i32 = -1, in 1..=4;
        /// Session timeout in milliseconds.
        session_timeout: i32 = 0, in 0..=4;
        /// The member's subscription, opaque.
        subscription: Bytes = Bytes::new(), in 0..=4;
        /// The member's assignment, opaque.
        assignment: Bytes = Bytes::new(), in 0..=4;
    }
}

const LEGACY_OFFSET_COMMIT: i16 = 0;
const OFFSET_COMMIT: i16 = 1;
const GROUP_METADATA: i16 = 2;
const SHARE_GROUP_METADATA: i16 = 11;
const STREAMS_GROUP_METADATA: i16 = 17;

/// A kind of group that the broker does not serve.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum UnservedKind {
    /// A share group (KIP-932).
    Share,
    /// A streams group (KIP-1071).
    Streams,
}

/// Returns the group that the record with this key is the metadata of, if it is of a kind that the
/// broker does not serve.
///
/// A record of this key with a value says that the group exists, a tombstone that it is gone.
pub fn unserved_group(key: &[u8]) -> Option<(UnservedKind, String)> {
    let mut input = Reader::new(key);
    let form = OffsetCommitKey::form(0);
    let kind = match i16::read(&mut input, form).ok()? {
        SHARE_GROUP_METADATA => UnservedKind::Share,
        STREAMS_GROUP_METADATA => UnservedKind::Streams,
        _ => return None,
    };
    Some((kind, String::read(&mut input, form).ok()?))
}

/// A key of `__consumer_offsets`.
#[derive(Clone, PartialEq, Debug)]
pub enum Key {
    /// An offset as brokers before 0.10 keyed it; read, but never written.
    LegacyOffsetCommit(OffsetCommitKey),
    /// An offset.
    OffsetCommit(OffsetCommitKey),
    /// A classic group.
    GroupMetadata(GroupMetadataKey),
    /// A consumer group.
    Consumer(ConsumerKey),
    /// Another type of record, which the caller must leave unchanged.
    Other(i16),
}

impl Key {
    /// Reads a key.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Reader::new(bytes);
        let form = OffsetCommitKey::form(0);
        let key = match i16::read(&mut input, form)? {
            LEGACY_OFFSET_COMMIT => Self::LegacyOffsetCommit(Field::read(&mut input, form)?),
            OFFSET_COMMIT => Self::OffsetCommit(Field::read(&mut input, form)?),
            GROUP_METADATA => Self::GroupMetadata(Field::read(&mut input, form)?),
            other => match ConsumerKey::read(other, &mut input)? {
                Some(key) => Self::Consumer(key),
                None => return Ok(Self::Other(other)),
            },
        };
        input.finish()?;
        Ok(key)
    }
}

impl OffsetCommitKey {
    /// Returns the key's bytes.
    pub fn encode(&self) -> Bytes {
        encode(OFFSET_COMMIT, self, Self::form(0))
    }
}

impl GroupMetadataKey {
    /// Returns the key's bytes.
    pub fn encode(&self) -> Bytes {
        encode(GROUP_METADATA, self, Self::form(0))
    }
}

impl OffsetCommitValue {
    /// Returns the value's bytes in the version that Kafka 4.3 writes: 4, or 1 when the offset has
    /// its own expiry time.
    pub fn encode(&self) -> Bytes {
        let version = if self.expire_timestamp == -1 { 4 } else { 1 };
        encode(version, self, Self::form(version))
    }

    /// Reads a value of any version.
    ///
    /// Also reads the value of a [`Key::LegacyOffsetCommit`]: its only version has the layout of 0.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode(OFFSET_COMMIT, bytes, &Self::VERSIONS, Self::form)
    }
}

impl GroupMetadataValue {
    /// Returns the value's bytes in the version that Kafka 4.3 writes: 3.
    pub fn encode(&self) -> Bytes {
        encode(3, self, Self::form(3))
    }

    /// Reads a value of any version.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode(GROUP_METADATA, bytes, &Self::VERSIONS, Self::form)
    }
}

fn encode(prefix: i16, value: &impl Field, form: super::Form) -> Bytes {
    let mut out = Vec::with_capacity(64);
    prefix.write(&mut out, form);
    value.write(&mut out, form);
    out.into()
}

fn decode<T: Field>(
    key: i16,
    bytes: &[u8],
    versions: &std::ops::RangeInclusive<i16>,
    form: fn(i16) -> super::Form,
) -> Result<T, DecodeError> {
    let mut input = Reader::new(bytes);
    let version = i16::read(&mut input, form(0))?;
    if !versions.contains(&version) {
        return Err(DecodeError::Version { key, version });
    }
    let value = T::read(&mut input, form(version))?;
    input.finish()?;
    Ok(value)
}

#[cfg(test)]
mod tests;
