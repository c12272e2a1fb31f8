//! An image as the records that rebuild it, in the order in which Kafka writes them: features
//! first, because they decide the versions of the others.

use wire::records::metadata::{
    ConfigRecord, FeatureLevelRecord, MetadataRecord, MetadataVersion, PartitionRecord,
    ProducerIdsRecord, RegisterBrokerRecord, TopicRecord,
};

use super::{Image, PartitionImage, TopicImage};

impl Image {
    /// Returns the records of a snapshot. Replayed on [`Image::empty`], they rebuild this image.
    pub fn records(&self) -> Vec<MetadataRecord> {
        let mut records = self.feature_records();
        for broker in self.brokers.values() {
            records.push(RegisterBrokerRecord::from(broker.as_ref()).into());
        }
        for controller in self.controllers.values() {
            records.push(controller.0.clone().into());
        }
        for topic in self.topics.values() {
            topic_records(topic, &mut records);
        }
        self.setting_records(&mut records);
        self.quota_records(&mut records);
        let scram = self.scram.values().cloned();
        records.extend(scram.map(MetadataRecord::UserScramCredential));
        if self.next_producer_id != 0 {
            records.push(
                ProducerIdsRecord {
                    broker_id: -1,
                    broker_epoch: -1,
                    next_producer_id: self.next_producer_id,
                }
                .into(),
            );
        }
        self.acl_records(&mut records);
        records.extend(self.opaque.iter().cloned().map(MetadataRecord::Opaque));
        records
    }

    fn feature_records(&self) -> Vec<MetadataRecord> {
        let is_metadata = |name: &str| name == MetadataVersion::FEATURE;
        let (first, rest): (Vec<_>, Vec<_>) = self
            .features
            .iter()
            .partition(|(name, _)| is_metadata(name));
        let record = |(name, level): (&String, &i16)| {
            MetadataRecord::from(FeatureLevelRecord {
                name: name.clone(),
                feature_level: *level,
            })
        };
        first.into_iter().chain(rest).map(record).collect()
    }

    fn setting_records(&self, records: &mut Vec<MetadataRecord>) {
        for (kind, resources) in self.settings.iter() {
            for (resource, settings) in resources {
                for (name, value) in settings.iter() {
                    records.push(
                        ConfigRecord {
                            resource_type: kind.0,
                            resource_name: resource.clone(),
                            name: name.clone(),
                            value: Some(value.clone()),
                        }
                        .into(),
                    );
                }
            }
        }
    }
}

fn topic_records(topic: &TopicImage, records: &mut Vec<MetadataRecord>) {
    records.push(
        TopicRecord {
            name: topic.name.to_string(),
            topic_id: topic.id.0,
        }
        .into(),
    );
    for (index, partition) in &topic.partitions {
        records.push(partition.to_record(topic, *index).into());
    }
}

impl PartitionImage {
    fn to_record(&self, topic: &TopicImage, index: i32) -> PartitionRecord {
        let some = |list: &Vec<i32>| (!list.is_empty()).then(|| list.clone());
        PartitionRecord {
            partition_id: index,
            topic_id: topic.id.0,
            replicas: self.replicas.clone(),
            isr: self.isr.clone(),
            removing_replicas: self.removing.clone(),
            adding_replicas: self.adding.clone(),
            leader: self.leader,
            leader_epoch: self.leader_epoch,
            partition_epoch: self.partition_epoch,
            directories: self.directories.clone(),
            leader_recovery_state: i8::from(self.recovering),
            eligible_leader_replicas: some(&self.eligible),
            last_known_elr: some(&self.last_known_eligible),
        }
    }
}
