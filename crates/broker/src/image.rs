//! The cluster's metadata as one immutable value: topics, partitions, settings, brokers, features.
//!
//! An image is what the metadata log says up to an offset. [`Image::replay`] is the only mutator,
//! so that a restart and normal running are the same path. Clones share everything that did not
//! change (an `Arc` per map and per topic). Invariants: every topic is found by name and by id; a
//! partition's leader epoch grows by one whenever a change names a leader, the same one too, and
//! its partition epoch by one with every change; a deleted topic's settings are gone. Not here:
//! which records to write (`controller`), reading and writing them (`controller/metadata_log.rs`).

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

pub use cluster::{BrokerRegistration, ControllerRegistration};
pub(crate) use quotas::entity_entries;
pub use quotas::{QuotaEntity, QuotaTable};
pub use replay::ReplayError;
pub use resource::{ResourceSettings, ResourceType};
pub use transaction::Replayer;

use crate::names::SUPPORTED_FEATURES;

/// SCRAM credentials by user and mechanism.
pub type ScramTable = BTreeMap<(String, i8), UserScramCredentialRecord>;

/// What the metadata log says up to an offset.
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    // Unbounded: the metadata are what was made and not deleted, as in Kafka; a request makes `RECORDS_PER_REQUEST_MAX`.
    topics: Arc<BTreeMap<Arc<str>, Arc<TopicImage>>>,
    // Unbounded: one for each topic of the metadata.
    names: Arc<BTreeMap<TopicId, Arc<str>>>,
    // Bounded: `controller::bounds::SETTINGS_BYTES_MAX`.
    settings: Arc<BTreeMap<ResourceType, ResourceSettings>>,
    // Unbounded: only this node registers, and what the log of metadata holds.
    brokers: Arc<BTreeMap<i32, Arc<BrokerRegistration>>>,
    // Unbounded: only this node registers, and what the log of metadata holds.
    controllers: Arc<BTreeMap<i32, Arc<ControllerRegistration>>>,
    // Unbounded: only features that we know are changed, and what the log of metadata holds.
    features: Arc<BTreeMap<String, i16>>,
    quotas: Arc<QuotaTable>,
    scram: Arc<ScramTable>,
    opaque: Arc<Vec<OpaqueRecord>>,
    next_producer_id: i64,
    /// Bytes of `settings`: names of resources for each setting, names and values.
    settings_bytes: usize,
    applied: Applied,
}

/// Where in the log an image stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
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
    // Unbounded: as many as were made; a request makes `RECORDS_PER_REQUEST_MAX`.
    pub partitions: BTreeMap<i32, PartitionImage>,
}

impl TopicImage {
    /// How many partitions it has.
    ///
    /// # Panics
    ///
    /// Never: their indexes are distinct and not below 0.
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
    /// Replicas on their way out.
    pub removing: Vec<i32>,
    /// Replicas on their way in.
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
    /// What an empty log says.
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
            opaque: Arc::default(),
            next_producer_id: 0,
            settings_bytes: 0,
            applied: Applied {
                offset: Offset(-1),
                epoch: LeaderEpoch(0),
                timestamp: TimestampMs(0),
            },
        }
    }

    /// The topics, by name.
    pub fn topics(&self) -> impl Iterator<Item = &Arc<TopicImage>> {
        self.topics.values()
    }

    /// The topics whose name is not less than `from`, by name.
    pub fn topics_from(&self, from: &str) -> impl Iterator<Item = &Arc<TopicImage>> {
        let from = (std::ops::Bound::Included(from), std::ops::Bound::Unbounded);
        self.topics.range::<str, _>(from).map(|(_, topic)| topic)
    }

    /// The topic called `name`.
    pub fn topic_by_name(&self, name: &str) -> Option<&Arc<TopicImage>> {
        self.topics.get(name)
    }

    /// The topic with this id.
    pub fn topic_by_id(&self, id: TopicId) -> Option<&Arc<TopicImage>> {
        self.topics.get(self.names.get(&id)?)
    }

    /// The name of the topic with this id, as messages say it.
    pub fn topic_name(&self, id: TopicId) -> Option<TopicName> {
        let name = self.names.get(&id)?;
        Some(TopicName(StrBytes::from_string(name.to_string())))
    }

    /// The settings of a resource that the log knows; no defaults.
    pub fn settings(&self, kind: ResourceType, name: &str) -> Option<&BTreeMap<String, String>> {
        self.settings.get(&kind)?.get(name).map(AsRef::as_ref)
    }

    /// The resources of a kind that have settings of their own.
    pub fn configured(&self, kind: ResourceType) -> impl Iterator<Item = &str> {
        let resources = self.settings.get(&kind).into_iter();
        resources.flat_map(|resources| resources.keys().map(String::as_str))
    }

    /// How many resources of a kind have settings of their own.
    pub fn configured_count(&self, kind: ResourceType) -> usize {
        self.settings.get(&kind).map_or(0, BTreeMap::len)
    }

    /// Bytes of all settings, with the name of the resource for each.
    pub fn settings_bytes(&self) -> usize {
        self.settings_bytes
    }

    /// Value of one setting of a resource.
    pub fn setting(&self, kind: ResourceType, resource: &str, name: &str) -> Option<&str> {
        Some(self.settings(kind, resource)?.get(name)?.as_str())
    }

    /// A broker, fenced or not.
    pub fn broker(&self, id: NodeId) -> Option<&Arc<BrokerRegistration>> {
        self.brokers.get(&id.0)
    }

    /// The brokers, fenced or not, by id.
    pub fn brokers(&self) -> impl Iterator<Item = &Arc<BrokerRegistration>> {
        self.brokers.values()
    }

    /// Features with the level that the cluster agreed on, as far as this broker does them: a log
    /// that was taken over may have others, which clients must not be told.
    pub fn finalized_features(&self) -> impl Iterator<Item = (&str, i16)> {
        let supported = |name: &str| SUPPORTED_FEATURES.iter().any(|(known, ..)| *known == name);
        let features = self.features.iter();
        features
            .filter(move |(name, _)| supported(name))
            .map(|(name, level)| (name.as_str(), *level))
    }

    /// The agreed level of a feature; 0 when it is off.
    pub fn feature(&self, name: &str) -> i16 {
        self.features.get(name).copied().unwrap_or(0)
    }

    /// The level that decides how records are written.
    pub fn metadata_version(&self) -> MetadataVersion {
        match self.feature(MetadataVersion::FEATURE) {
            0 => MetadataVersion::V3_3,
            level => MetadataVersion(level),
        }
    }

    /// Quotas of clients.
    pub fn quotas(&self) -> &Arc<QuotaTable> {
        &self.quotas
    }

    /// SCRAM credentials. Nothing is done with them while nobody is asked who he is.
    pub fn scram(&self) -> &ScramTable {
        &self.scram
    }

    /// The agreed levels of all features, also of those that this broker does not do.
    pub fn features(&self) -> &BTreeMap<String, i16> {
        &self.features
    }

    /// First producer id that was never handed out.
    pub fn next_producer_id(&self) -> i64 {
        self.next_producer_id
    }

    /// Records that are kept without being understood: ACLs, tokens.
    pub fn opaque_records(&self) -> &[OpaqueRecord] {
        &self.opaque
    }

    /// Where in the log this is.
    pub fn applied(&self) -> Applied {
        self.applied
    }

    /// Offset of the last record applied; -1 for none.
    pub fn last_applied_offset(&self) -> Offset {
        self.applied.offset
    }
}

#[cfg(test)]
mod tests;
