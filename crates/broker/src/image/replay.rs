//! Applies one record to an image: the only way in which the content of an image changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use wire::records::metadata::{
    BrokerRegistrationChangeRecord, ConfigRecord, MetadataRecord, PartitionChangeRecord,
    PartitionRecord, TopicRecord,
};
use wire::types::{TopicId, Uuid, uuid_to_base64};

use super::{
    BrokerRegistration, ControllerRegistration, Image, ImagePosition, PartitionImage, ResourceType,
    TopicImage,
};

const NO_LEADER_CHANGE: i32 = -2;

/// A record that does not fit the image.
///
/// It changed nothing, or only what the variant describes; replay continues with the next record.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReplayError {
    /// A topic that already exists, with its partitions.
    #[error("a metadata record creates topic id {0}, which exists: skipped")]
    TopicExists(TopicId),
    /// A new topic with the name of another: the new one replaces the old one.
    #[error(
        "a metadata record creates topic {name} anew, without a removal of topic id {before}: that one is gone"
    )]
    NameTaken {
        /// The name.
        name: Arc<str>,
        /// The topic that had it.
        before: TopicId,
    },
    /// An impossible partition index.
    #[error("a metadata record names partition {1} of topic id {0}, which cannot be: skipped")]
    BadPartition(TopicId, i32),
    /// Producer ids that were given out before, or are impossible.
    #[error("a metadata record goes back to producer id {next}, from {known}: skipped")]
    ProducerIds {
        /// The record's next producer id.
        next: i64,
        /// The image's next producer id.
        known: i64,
    },
    /// An unknown topic.
    #[error("a metadata record names topic id {0}, which does not exist: skipped")]
    Topic(TopicId),
    /// An unknown partition.
    #[error("a metadata record names partition {1} of topic id {0}, which does not exist: skipped")]
    Partition(TopicId, i32),
    /// A broker that is unknown, or has another epoch.
    #[error(
        "a metadata record names broker {id} in epoch {epoch}, which is not registered: skipped"
    )]
    Broker {
        /// The broker.
        id: i32,
        /// The epoch.
        epoch: i64,
    },
    /// An unknown ACL.
    #[error("a metadata record removes ACL {}, which does not exist: skipped", uuid_to_base64(*.0))]
    Acl(Uuid),
    /// Replicas and directories of a partition differ in number: the partition is added, without
    /// directories.
    #[error(
        "a metadata record gives partition {1} of topic id {0} another number of directories than \
         replicas: the directories are left out"
    )]
    Directories(TopicId, i32),
}

impl Image {
    /// Applies one record, or returns why it does not fit.
    ///
    /// Transaction records have no effect here: see [`super::Replayer`].
    pub fn replay(&mut self, record: MetadataRecord) -> Result<(), ReplayError> {
        match record {
            MetadataRecord::Topic(record) => self.create_topic(&record)?,
            MetadataRecord::Partition(record) => self.set_partition(&record)?,
            MetadataRecord::PartitionChange(record) => self.change_partition(&record)?,
            MetadataRecord::RemoveTopic(record) => self.remove_topic(TopicId(record.topic_id))?,
            MetadataRecord::ClearElr(record) => self.clear_eligible(&record.topic_name),
            MetadataRecord::Config(record) => self.set_setting(record),
            MetadataRecord::FeatureLevel(record) => {
                let features = Arc::make_mut(&mut self.features);
                if record.feature_level == 0 {
                    features.remove(&record.name);
                } else {
                    features.insert(record.name, record.feature_level);
                }
            }
            MetadataRecord::RegisterBroker(record) => {
                let broker = BrokerRegistration::from(record);
                Arc::make_mut(&mut self.brokers).insert(broker.id, Arc::new(broker));
            }
            MetadataRecord::UnregisterBroker(record) => {
                Arc::make_mut(&mut self.brokers).remove(&record.broker_id);
            }
            MetadataRecord::FenceBroker(record) => self.fence(record.id, record.epoch, 1)?,
            MetadataRecord::UnfenceBroker(record) => self.fence(record.id, record.epoch, -1)?,
            MetadataRecord::BrokerRegistrationChange(record) => self.change_broker(&record)?,
            MetadataRecord::RegisterController(record) => {
                let controller = Arc::new(ControllerRegistration(record));
                let id = controller.0.controller_id;
                Arc::make_mut(&mut self.controllers).insert(id, controller);
            }
            MetadataRecord::UserScramCredential(record) => {
                let key = (record.name.clone(), record.mechanism);
                Arc::make_mut(&mut self.scram).insert(key, record);
            }
            MetadataRecord::RemoveUserScramCredential(record) => {
                let key = (record.name, record.mechanism);
                Arc::make_mut(&mut self.scram).remove(&key);
            }
            MetadataRecord::AccessControlEntry(record) => self.add_acl(record),
            MetadataRecord::RemoveAccessControlEntry(record) => self.remove_acl(record.id)?,
            MetadataRecord::ClientQuota(record) => self.set_quota(record),
            MetadataRecord::ProducerIds(record) => self.hand_out(record.next_producer_id)?,
            MetadataRecord::Opaque(record) => Arc::make_mut(&mut self.opaque).push(record),
            MetadataRecord::NoOp(_)
            | MetadataRecord::BeginTransaction(_)
            | MetadataRecord::EndTransaction(_)
            | MetadataRecord::AbortTransaction(_) => {}
        }
        Ok(())
    }

    /// Sets the position in the log.
    pub fn advance(&mut self, applied: ImagePosition) {
        self.applied = applied;
    }

    fn create_topic(&mut self, record: &TopicRecord) -> Result<(), ReplayError> {
        let name: Arc<str> = record.name.as_str().into();
        let id = TopicId(record.topic_id);
        if self.names.contains_key(&id) {
            return Err(ReplayError::TopicExists(id));
        }
        let before = self.topics.get(&name).map(|topic| topic.id);
        if let Some(before) = before {
            self.remove_topic(before)?;
        }
        let topic = TopicImage {
            id,
            name: Arc::clone(&name),
            partitions: BTreeMap::new(),
        };
        Arc::make_mut(&mut self.names).insert(id, Arc::clone(&name));
        Arc::make_mut(&mut self.topics).insert(Arc::clone(&name), Arc::new(topic));
        self.check_names();
        match before {
            Some(before) => Err(ReplayError::NameTaken { name, before }),
            None => Ok(()),
        }
    }

    /// Sets the next producer id, which never decreases: an id is given out only once.
    fn hand_out(&mut self, next: i64) -> Result<(), ReplayError> {
        let known = self.next_producer_id;
        if next < known {
            return Err(ReplayError::ProducerIds { next, known });
        }
        self.next_producer_id = next;
        Ok(())
    }

    fn remove_topic(&mut self, id: TopicId) -> Result<(), ReplayError> {
        if !self.names.contains_key(&id) {
            return Err(ReplayError::Topic(id));
        }
        let name = Arc::make_mut(&mut self.names)
            .remove(&id)
            .ok_or(ReplayError::Topic(id))?;
        Arc::make_mut(&mut self.topics).remove(&name);
        self.check_names();
        let settings = Arc::make_mut(&mut self.settings);
        if let Some(topics) = settings.get_mut(&ResourceType::TOPIC) {
            let gone = topics.remove(name.as_ref());
            let gone = gone.iter().flat_map(|settings| settings.iter());
            let bytes = gone.map(|(key, value)| setting_bytes(&name, key, value));
            let bytes = bytes.fold(0, usize::saturating_add);
            assert!(self.settings_bytes >= bytes, "the sum of all settings");
            self.settings_bytes = self.settings_bytes.saturating_sub(bytes);
        }
        Ok(())
    }

    /// Checks that every topic has one name and one id.
    fn check_names(&self) {
        let (names, topics) = (self.names.len(), self.topics.len());
        assert_eq!(names, topics, "a topic has one name and one id");
    }

    fn topic_mut(&mut self, id: TopicId) -> Result<&mut TopicImage, ReplayError> {
        let name = self.names.get(&id).ok_or(ReplayError::Topic(id))?;
        Arc::make_mut(&mut self.topics)
            .get_mut(name)
            .map(Arc::make_mut)
            .ok_or(ReplayError::Topic(id))
    }

    fn set_partition(&mut self, record: &PartitionRecord) -> Result<(), ReplayError> {
        let id = TopicId(record.topic_id);
        if record.partition_id < 0 {
            return Err(ReplayError::BadPartition(id, record.partition_id));
        }
        let mut partition = PartitionImage::from(record);
        let directories = partition.directories.len();
        let differs = directories != 0 && directories != partition.replicas.len();
        if differs {
            // The partition is kept: without it, its records could not be read.
            partition.directories.clear();
        }
        let topic = self.topic_mut(id)?;
        topic.partitions.insert(record.partition_id, partition);
        if differs {
            return Err(ReplayError::Directories(id, record.partition_id));
        }
        Ok(())
    }

    fn change_partition(&mut self, record: &PartitionChangeRecord) -> Result<(), ReplayError> {
        let id = TopicId(record.topic_id);
        self.topic_mut(id)?
            .partitions
            .get_mut(&record.partition_id)
            .ok_or(ReplayError::Partition(id, record.partition_id))?
            .change(record);
        Ok(())
    }

    fn clear_eligible(&mut self, topic: &str) {
        for (name, image) in Arc::make_mut(&mut self.topics) {
            if topic.is_empty() || name.as_ref() == topic {
                for partition in Arc::make_mut(image).partitions.values_mut() {
                    partition.eligible.clear();
                    partition.last_known_eligible.clear();
                }
            }
        }
    }

    fn set_setting(&mut self, record: ConfigRecord) {
        let kinds = Arc::make_mut(&mut self.settings);
        let resources = kinds.entry(ResourceType(record.resource_type)).or_default();
        let resource = Arc::make_mut(resources.entry(record.resource_name.clone()).or_default());
        let bytes = |value: &String| setting_bytes(&record.resource_name, &record.name, value);
        let after = record.value.as_ref().map_or(0, bytes);
        let before = resource.get(&record.name).map_or(0, bytes);
        assert!(self.settings_bytes >= before, "the sum of all settings");
        self.settings_bytes = self
            .settings_bytes
            .saturating_sub(before)
            .saturating_add(after);
        match record.value {
            Some(value) => {
                resource.insert(record.name, value);
            }
            None => {
                resource.remove(&record.name);
            }
        }
        if resource.is_empty() {
            resources.remove(&record.resource_name);
        }
    }

    fn fence(&mut self, id: i32, epoch: i64, fenced: i8) -> Result<(), ReplayError> {
        self.change_broker(&BrokerRegistrationChangeRecord {
            broker_id: id,
            broker_epoch: epoch,
            fenced,
            ..BrokerRegistrationChangeRecord::default()
        })
    }

    fn change_broker(
        &mut self,
        record: &BrokerRegistrationChangeRecord,
    ) -> Result<(), ReplayError> {
        let (id, epoch) = (record.broker_id, record.broker_epoch);
        let broker = Arc::make_mut(&mut self.brokers)
            .get_mut(&id)
            .filter(|broker| broker.epoch == epoch)
            .ok_or(ReplayError::Broker { id, epoch })?;
        Arc::make_mut(broker).change(record);
        Ok(())
    }
}

impl From<&PartitionRecord> for PartitionImage {
    fn from(record: &PartitionRecord) -> Self {
        Self {
            replicas: record.replicas.clone(),
            directories: record.directories.clone(),
            isr: record.isr.clone(),
            removing: record.removing_replicas.clone(),
            adding: record.adding_replicas.clone(),
            eligible: record.eligible_leader_replicas.clone().unwrap_or_default(),
            last_known_eligible: record.last_known_elr.clone().unwrap_or_default(),
            leader: record.leader,
            recovering: record.leader_recovery_state == 1,
            leader_epoch: record.leader_epoch,
            partition_epoch: record.partition_epoch,
        }
    }
}

impl PartitionImage {
    fn change(&mut self, record: &PartitionChangeRecord) {
        let replace = |field: &mut Vec<i32>, new: &Option<Vec<i32>>| {
            if let Some(new) = new {
                field.clone_from(new);
            }
        };
        replace(&mut self.replicas, &record.replicas);
        replace(&mut self.isr, &record.isr);
        replace(&mut self.removing, &record.removing_replicas);
        replace(&mut self.adding, &record.adding_replicas);
        replace(&mut self.eligible, &record.eligible_leader_replicas);
        replace(&mut self.last_known_eligible, &record.last_known_elr);
        if let Some(directories) = &record.directories {
            self.directories.clone_from(directories);
        }
        if record.leader != NO_LEADER_CHANGE {
            self.leader = record.leader;
            self.leader_epoch = self.leader_epoch.saturating_add(1);
        }
        match record.leader_recovery_state {
            0 => self.recovering = false,
            1 => self.recovering = true,
            _ => {}
        }
        self.partition_epoch = self.partition_epoch.saturating_add(1);
    }
}

/// Returns the bytes that a setting counts.
fn setting_bytes(resource: &str, name: &str, value: &str) -> usize {
    let names = resource.len().saturating_add(name.len());
    names.saturating_add(value.len())
}
