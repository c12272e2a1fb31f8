//! The cluster's metadata as one immutable value: topics, partitions, settings, brokers, features,
//! ACLs.
//!
//! An image is the content of the metadata log up to an offset. Only [`Image::replay`] changes that
//! content, so a restart and normal operation use the same path. Clones share everything that did
//! not change (an `Arc` per map and per topic). Invariants: every topic can be found by name and by
//! id; a partition's leader epoch grows by one whenever a change names a leader, even the same one,
//! and its partition epoch by one with every change; the settings of a deleted topic are gone. Not
//! here: which records to write (`controller`), reading and writing them
//! (`controller/metadata_log.rs`).

mod acls;
mod availability;
mod cluster;
mod quotas;
mod replay;
mod resource;
mod snapshot;
mod transaction;

use std::collections::BTreeMap;
use std::sync::Arc;

use wire::StrBytes;
use wire::messages::TopicName;
use wire::records::metadata::{MetadataVersion, OpaqueRecord, UserScramCredentialRecord};
use wire::types::{LeaderEpoch, NodeId, Offset, TimestampMs, TopicId, Uuid};

pub use acls::Acls;
pub(crate) use acls::acl_bytes;
pub use cluster::{BrokerRegistration, ControllerRegistration};
pub(crate) use quotas::entity_entries;
pub use quotas::{QuotaEntity, QuotaTable};
pub use replay::ReplayError;
pub use resource::{ResourceSettings, ResourceType};
pub use transaction::Replayer;

use crate::names::SUPPORTED_FEATURES;

/// SCRAM credentials by user and mechanism.
pub type ScramTable = BTreeMap<(String, i8), UserScramCredentialRecord>;

/// The content of the metadata log up to an offset.
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    // Unbounded: the metadata are what was created and not deleted, as in Kafka; a request creates
    // at most `RECORDS_PER_REQUEST_MAX`.
    topics: Arc<BTreeMap<Arc<str>, Arc<TopicImage>>>,
    // Unbounded: one for each topic of the metadata.
    names: Arc<BTreeMap<TopicId, Arc<str>>>,
    // Bounded: `controller::bounds::SETTINGS_BYTES_MAX`.
    settings: Arc<BTreeMap<ResourceType, ResourceSettings>>,
    // Unbounded: only this node registers; the metadata log may hold others.
    brokers: Arc<BTreeMap<i32, Arc<BrokerRegistration>>>,
    // Unbounded: only this node registers; the metadata log may hold others.
    controllers: Arc<BTreeMap<i32, Arc<ControllerRegistration>>>,
    // Unbounded: only known features change; the metadata log may hold others.
    features: Arc<BTreeMap<String, i16>>,
    quotas: Arc<QuotaTable>,
    scram: Arc<ScramTable>,
    acls: Arc<Acls>,
    opaque: Arc<Vec<OpaqueRecord>>,
    next_producer_id: i64,
    /// Bytes of `settings`: for each setting its resource's name, its name and its value.
    settings_bytes: usize,
    applied: ImagePosition,
}

/// The position of an image in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImagePosition {
    /// Offset of the last record applied; -1 for none.
    pub offset: Offset,
    /// Leader epoch of that record.
    pub epoch: LeaderEpoch,
    /// Append time of that record.
    pub timestamp: TimestampMs,
}

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicImage {
    /// Its id.
    pub id: TopicId,
    /// Its name.
    pub name: Arc<str>,
    /// Its partitions by index.
    // Unbounded: the partitions that were created; a request creates at most
    // `RECORDS_PER_REQUEST_MAX`.
    pub partitions: BTreeMap<i32, PartitionImage>,
}

impl TopicImage {
    /// Returns the number of partitions.
    ///
    /// # Panics
    ///
    /// Never: the indexes are distinct and not negative.
    pub fn partition_count(&self) -> i32 {
        let count = i32::try_from(self.partitions.len());
        count.expect("partitions are numbered by an i32")
    }
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionImage {
    /// Replicas by preference.
    pub replicas: Vec<i32>,
    /// Log directory of each replica.
    pub directories: Vec<Uuid>,
    /// In-sync replicas.
    pub isr: Vec<i32>,
    /// Replicas that are being removed.
    pub removing: Vec<i32>,
    /// Replicas that are being added.
    pub adding: Vec<i32>,
    /// Eligible leader replicas.
    pub eligible: Vec<i32>,
    /// Members of the last in-sync set.
    pub last_known_eligible: Vec<i32>,
    /// The leader; -1 when there is none.
    pub leader: i32,
    /// True while the leader recovers from an unclean election.
    pub recovering: bool,
    /// Version of the leadership.
    pub leader_epoch: i32,
    /// Version of everything here.
    pub partition_epoch: i32,
}

impl Image {
    /// Returns the image of an empty log.
    pub fn empty() -> Self {
        Self {
            topics: Arc::default(),
            names: Arc::default(),
            settings: Arc::default(),
            brokers: Arc::default(),
            controllers: Arc::default(),
            features: Arc::default(),
            quotas: Arc::default(),
            scram: Arc::default(),
            acls: Arc::default(),
            opaque: Arc::default(),
            next_producer_id: 0,
            settings_bytes: 0,
            applied: ImagePosition {
                offset: Offset(-1),
                epoch: LeaderEpoch(0),
                timestamp: TimestampMs(0),
            },
        }
    }

    /// Returns the topics, by name.
    pub fn topics(&self) -> impl Iterator<Item = &Arc<TopicImage>> {
        self.topics.values()
    }

    /// Returns the topics whose name is not less than `from`, by name.
    pub fn topics_from(&self, from: &str) -> impl Iterator<Item = &Arc<TopicImage>> {
        let from = (std::ops::Bound::Included(from), std::ops::Bound::Unbounded);
        self.topics.range::<str, _>(from).map(|(_, topic)| topic)
    }

    /// Returns the topic called `name`.
    pub fn topic_by_name(&self, name: &str) -> Option<&Arc<TopicImage>> {
        self.topics.get(name)
    }

    /// Returns the topic with this id.
    pub fn topic_by_id(&self, id: TopicId) -> Option<&Arc<TopicImage>> {
        self.topics.get(self.names.get(&id)?)
    }

    /// Returns the name of the topic with this id, in the type of protocol messages.
    pub fn topic_name(&self, id: TopicId) -> Option<TopicName> {
        let name = self.names.get(&id)?;
        Some(TopicName(StrBytes::from_string(name.to_string())))
    }

    /// Returns the settings of a resource in the log, without defaults.
    pub fn settings(&self, kind: ResourceType, name: &str) -> Option<&BTreeMap<String, String>> {
        self.settings.get(&kind)?.get(name).map(AsRef::as_ref)
    }

    /// Returns the resources of a kind that have their own settings.
    pub fn configured(&self, kind: ResourceType) -> impl Iterator<Item = &str> {
        let resources = self.settings.get(&kind).into_iter();
        resources.flat_map(|resources| resources.keys().map(String::as_str))
    }

    /// Returns how many resources of a kind have their own settings.
    pub fn configured_count(&self, kind: ResourceType) -> usize {
        self.settings.get(&kind).map_or(0, BTreeMap::len)
    }

    /// Returns the bytes of all settings, counting the resource's name for each.
    pub fn settings_bytes(&self) -> usize {
        self.settings_bytes
    }

    /// Returns the value of one setting of a resource.
    pub fn setting(&self, kind: ResourceType, resource: &str, name: &str) -> Option<&str> {
        Some(self.settings(kind, resource)?.get(name)?.as_str())
    }

    /// Returns a broker, fenced or not.
    pub fn broker(&self, id: NodeId) -> Option<&Arc<BrokerRegistration>> {
        self.brokers.get(&id.0)
    }

    /// Returns the brokers, fenced or not, by id.
    pub fn brokers(&self) -> impl Iterator<Item = &Arc<BrokerRegistration>> {
        self.brokers.values()
    }

    /// Returns the finalized features that this broker supports.
    ///
    /// A log that was taken over may have others, which clients must not see.
    pub fn finalized_features(&self) -> impl Iterator<Item = (&str, i16)> {
        let supported = |name: &str| SUPPORTED_FEATURES.iter().any(|(known, ..)| *known == name);
        let features = self.features.iter();
        features
            .filter(move |(name, _)| supported(name))
            .map(|(name, level)| (name.as_str(), *level))
    }

    /// Returns the finalized level of a feature; 0 if it is off.
    pub fn feature(&self, name: &str) -> i16 {
        self.features.get(name).copied().unwrap_or(0)
    }

    /// Returns the level that decides how records are encoded.
    pub fn metadata_version(&self) -> MetadataVersion {
        match self.feature(MetadataVersion::FEATURE) {
            0 => MetadataVersion::V3_3,
            level => MetadataVersion(level),
        }
    }

    /// Returns the client quotas.
    pub fn quotas(&self) -> &Arc<QuotaTable> {
        &self.quotas
    }

    /// Returns the SCRAM credentials.
    pub fn scram(&self) -> &Arc<ScramTable> {
        &self.scram
    }

    /// Returns the ACLs.
    pub fn acls(&self) -> &Arc<Acls> {
        &self.acls
    }

    /// Returns the finalized levels of all features, including those that this broker does not
    /// support.
    pub fn features(&self) -> &BTreeMap<String, i16> {
        &self.features
    }

    /// Returns the first producer id that was never given out.
    pub fn next_producer_id(&self) -> i64 {
        self.next_producer_id
    }

    /// Returns the position in the log.
    pub fn applied(&self) -> ImagePosition {
        self.applied
    }

    /// Returns the offset of the last record applied; -1 for none.
    pub fn last_applied_offset(&self) -> Offset {
        self.applied.offset
    }
}

#[cfg(test)]
mod tests;
