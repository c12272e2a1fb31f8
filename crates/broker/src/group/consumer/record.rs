//! The records of consumer groups as values, and their encoding.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use wire::protocol::StrBytes;
use wire::records::DecodeError;
use wire::records::offsets::consumer_group::{
    ClassicValue, ConsumerKey, CurrentTopic, CurrentValue, EpochValue, GroupKey, MemberValue,
    PartKey, PartitionMetadataValue, ProtocolValue, RegexValue, TargetEpochValue, TargetTopic,
    TargetValue,
};
use wire::types::Uuid;

use super::member::{Assignment, ClassicSide, Member, MemberState, Progress};
use crate::group::assignor::Partitions;

/// A record of a consumer group; without a value it is a tombstone.
#[derive(Clone, PartialEq, Debug)]
pub enum ConsumerRecord {
    /// The group's epoch.
    Epoch(Option<Epoch>),
    /// Topics in the format of releases before 4.1; read, and written only as a tombstone.
    OldTopics(Option<PartitionMetadataValue>),
    /// A member.
    Member(StrBytes, Option<Member>),
    /// The target epoch.
    TargetEpoch(Option<TargetEpoch>),
    /// A member's target assignment.
    Target(StrBytes, Option<Partitions>),
    /// A member's progress.
    Progress(StrBytes, Option<Progress>),
    /// The topics that an expression matched.
    Regex(StrBytes, Option<ResolvedRegex>),
}

/// The epoch of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Epoch {
    /// Grows with every change that needs a new assignment.
    pub epoch: i32,
    /// Hash of the topics that the group reads.
    pub metadata_hash: i64,
}

/// The epoch of a target assignment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TargetEpoch {
    /// The group epoch that the target was computed for.
    pub epoch: i32,
    /// Wall time of the assignment in milliseconds; 0 when unknown.
    pub made_ms: i64,
}

/// The topics that an expression matched.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ResolvedRegex {
    /// Topic names.
    // Bounded: lives with one record, `wire::kafka::shape::DECODED_BYTES_MAX`.
    pub topics: BTreeSet<StrBytes>,
    /// Offset of the metadata in which they were looked up.
    pub version: i64,
    /// Wall time of the lookup in milliseconds.
    pub looked_ms: i64,
}

/// Returns the bytes of a set of names.
pub(super) fn bytes_of(names: &BTreeSet<StrBytes>) -> usize {
    let each = names.iter();
    each.fold(0, |all: usize, name| {
        all.saturating_add(name.len()).saturating_add(64)
    })
}

impl ConsumerRecord {
    /// Returns true for an epoch of the group, which begins a rebalance.
    pub(in crate::group) fn is_epoch(&self) -> bool {
        matches!(self, Self::Epoch(Some(_)))
    }

    /// Returns a lower bound of its encoded bytes without the group id.
    pub fn size(&self) -> usize {
        let names = |names: &BTreeSet<StrBytes>| {
            names
                .iter()
                .fold(0, |all: usize, name| all.saturating_add(name.len() + 2))
        };
        match self {
            Self::Epoch(_) | Self::OldTopics(_) | Self::TargetEpoch(_) => 0,
            Self::Member(id, member) => {
                id.len().saturating_add(member.as_ref().map_or(0, |member| {
                    member.size().saturating_add(names(&member.topics))
                }))
            }
            Self::Target(id, target) => {
                let topics = target.iter().flatten();
                topics.fold(id.len(), |all, (_, partitions)| {
                    all.saturating_add(16 + 4 * partitions.len())
                })
            }
            Self::Progress(id, progress) => {
                let held = progress.iter().flat_map(Progress::held);
                id.len().saturating_add(8 * held.count())
            }
            Self::Regex(regex, matched) => {
                let matched = matched.as_ref().map_or(0, |matched| names(&matched.topics));
                regex.len().saturating_add(matched)
            }
        }
    }

    /// Encodes the record as key and value.
    pub fn encode(&self, group: &StrBytes) -> (Bytes, Option<Bytes>) {
        let group = || group.to_string();
        let whole = || GroupKey { group: group() };
        let part = |part: &StrBytes| PartKey {
            group: group(),
            part: part.to_string(),
        };
        let (key, value) = match self {
            Self::Epoch(value) => (
                ConsumerKey::Epoch(whole()),
                value.map(|value| epoch_value(value).encode()),
            ),
            Self::OldTopics(value) => (
                ConsumerKey::PartitionMetadata(whole()),
                value.as_ref().map(PartitionMetadataValue::encode),
            ),
            Self::Member(id, value) => (
                ConsumerKey::Member(part(id)),
                value.as_ref().map(|value| member_value(value).encode()),
            ),
            Self::TargetEpoch(value) => (
                ConsumerKey::TargetEpoch(whole()),
                value.map(|value| target_epoch_value(value).encode()),
            ),
            Self::Target(id, value) => (
                ConsumerKey::Target(part(id)),
                value.as_ref().map(|value| target_value(value).encode()),
            ),
            Self::Progress(id, value) => (
                ConsumerKey::Current(part(id)),
                value.as_ref().map(|value| current_value(value).encode()),
            ),
            Self::Regex(regex, value) => (
                ConsumerKey::Regex(part(regex)),
                value.as_ref().map(|value| regex_value(value).encode()),
            ),
        };
        (key.encode(), value)
    }

    /// Decodes a key and a value to the group and the record.
    pub fn decode(key: ConsumerKey, value: Option<&[u8]>) -> Result<(StrBytes, Self), DecodeError> {
        Ok(match key {
            ConsumerKey::Epoch(key) => {
                let value = value.map(EpochValue::decode).transpose()?;
                (text(key.group), Self::Epoch(value.as_ref().map(epoch)))
            }
            ConsumerKey::PartitionMetadata(key) => {
                let value = value.map(PartitionMetadataValue::decode).transpose()?;
                (text(key.group), Self::OldTopics(value))
            }
            ConsumerKey::Member(key) => {
                let value = value.map(MemberValue::decode).transpose()?;
                (
                    text(key.group),
                    Self::Member(text(key.part), value.map(member)),
                )
            }
            ConsumerKey::TargetEpoch(key) => {
                let value = value.map(TargetEpochValue::decode).transpose()?;
                (
                    text(key.group),
                    Self::TargetEpoch(value.as_ref().map(target_epoch)),
                )
            }
            ConsumerKey::Target(key) => {
                let value = value.map(TargetValue::decode).transpose()?;
                (
                    text(key.group),
                    Self::Target(text(key.part), value.map(target)),
                )
            }
            ConsumerKey::Current(key) => {
                let value = value.map(CurrentValue::decode).transpose()?;
                (
                    text(key.group),
                    Self::Progress(text(key.part), value.map(progress)),
                )
            }
            ConsumerKey::Regex(key) => {
                let value = value.map(RegexValue::decode).transpose()?;
                (
                    text(key.group),
                    Self::Regex(text(key.part), value.map(matched)),
                )
            }
        })
    }
}

fn text(text: String) -> StrBytes {
    StrBytes::from_string(text)
}

fn maybe(some: Option<&StrBytes>) -> Option<String> {
    some.map(ToString::to_string)
}

fn epoch_value(value: Epoch) -> EpochValue {
    EpochValue {
        epoch: value.epoch,
        metadata_hash: value.metadata_hash,
    }
}

fn epoch(value: &EpochValue) -> Epoch {
    Epoch {
        epoch: value.epoch,
        metadata_hash: value.metadata_hash,
    }
}

fn target_epoch_value(value: TargetEpoch) -> TargetEpochValue {
    TargetEpochValue {
        epoch: value.epoch,
        timestamp: value.made_ms,
    }
}

fn target_epoch(value: &TargetEpochValue) -> TargetEpoch {
    TargetEpoch {
        epoch: value.epoch,
        made_ms: value.timestamp,
    }
}

fn member_value(member: &Member) -> MemberValue {
    let classic = member.classic.as_ref().map(|side| ClassicValue {
        session_timeout: side.session_timeout_ms,
        protocols: side
            .protocols
            .iter()
            .map(|(name, metadata)| ProtocolValue {
                name: name.to_string(),
                metadata: metadata.clone(),
            })
            .collect(),
    });
    MemberValue {
        instance_id: maybe(member.instance_id.as_ref()),
        rack_id: maybe(member.rack_id.as_ref()),
        client_id: member.client_id.to_string(),
        client_host: member.client_host.to_string(),
        subscribed_topic_names: member.topics.iter().map(ToString::to_string).collect(),
        subscribed_topic_regex: Some(member.regex.to_string()),
        rebalance_timeout: member.rebalance_timeout_ms,
        server_assignor: maybe(member.assignor.as_ref()),
        classic,
    }
}

fn member(value: MemberValue) -> Member {
    let classic = value.classic.map(|side| ClassicSide {
        session_timeout_ms: side.session_timeout,
        protocols: side
            .protocols
            .into_iter()
            .map(|protocol| (text(protocol.name), protocol.metadata))
            .collect(),
    });
    Member {
        instance_id: value.instance_id.map(text),
        rack_id: value.rack_id.map(text),
        client_id: text(value.client_id),
        client_host: text(value.client_host),
        topics: value.subscribed_topic_names.into_iter().map(text).collect(),
        regex: text(value.subscribed_topic_regex.unwrap_or_default()),
        rebalance_timeout_ms: value.rebalance_timeout,
        assignor: value.server_assignor.map(text),
        classic,
    }
}

fn target_value(partitions: &Partitions) -> TargetValue {
    let topics = partitions.iter().map(|(topic, partitions)| TargetTopic {
        topic_id: *topic,
        partitions: partitions.iter().copied().collect(),
    });
    TargetValue {
        topics: topics.collect(),
    }
}

fn target(value: TargetValue) -> Partitions {
    let topics = value
        .topics
        .into_iter()
        .map(|topic| (topic.topic_id, topic.partitions.into_iter().collect()));
    topics.collect()
}

fn current_value(progress: &Progress) -> CurrentValue {
    CurrentValue {
        epoch: progress.epoch,
        previous_epoch: progress.previous_epoch,
        state: progress.state.code(),
        assigned: current_topics(&progress.assigned),
        revoking: current_topics(&progress.revoking),
    }
}

fn current_topics(assignment: &Assignment) -> Vec<CurrentTopic> {
    let topics = assignment.iter().map(|(topic, held)| CurrentTopic {
        topic_id: *topic,
        partitions: held.keys().copied().collect(),
        epochs: Some(held.values().copied().collect()),
    });
    topics.collect()
}

fn progress(value: CurrentValue) -> Progress {
    // Releases before 4.2 did not write the epochs: the member's epoch is the latest possible.
    let default = value.epoch.max(0);
    Progress {
        epoch: value.epoch,
        previous_epoch: value.previous_epoch,
        state: MemberState::of(value.state),
        assigned: assignment(value.assigned, default),
        revoking: assignment(value.revoking, default),
    }
}

fn assignment(topics: Vec<CurrentTopic>, default: i32) -> Assignment {
    let topics = topics.into_iter().map(|topic| {
        let count = topic.partitions.len();
        let epochs = topic.epochs.filter(|epochs| epochs.len() == count);
        let epochs = epochs.unwrap_or_else(|| vec![default; count]);
        let held: BTreeMap<i32, i32> = topic.partitions.into_iter().zip(epochs).collect();
        (topic.topic_id, held)
    });
    let topics: BTreeMap<Uuid, BTreeMap<i32, i32>> = topics.collect();
    topics
}

fn regex_value(matched: &ResolvedRegex) -> RegexValue {
    RegexValue {
        topics: matched.topics.iter().map(ToString::to_string).collect(),
        version: matched.version,
        timestamp: matched.looked_ms,
    }
}

fn matched(value: RegexValue) -> ResolvedRegex {
    ResolvedRegex {
        topics: value.topics.into_iter().map(text).collect(),
        version: value.version,
        looked_ms: value.timestamp,
    }
}
