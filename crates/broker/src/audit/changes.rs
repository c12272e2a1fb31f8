//! From the records of a change of the metadata to its words.
//!
//! The records are what is true: they say what was changed whatever the request asked for. They are
//! put into words off the shards, by the thread that writes; until then an event holds the records
//! and the image before them, which names what a record only numbers (an ACL or a topic that goes).
//! Invariants: the words hold no secret: of a credential the user and the mechanism, of a setting
//! that is never shown only its name. Every record of a decision has its words. Not here: which
//! records a request makes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use wire::acl::RawAcl;
use wire::records::metadata::{ClientQuotaRecord, ConfigRecord, MetadataRecord};
use wire::text::cut;
use wire::types::{TopicId, Uuid, uuid_to_base64};

use crate::image::{Image, ResourceType};
use crate::options::ConfigKey;
use crate::secret_settings::is_secret;

/// Longest text of an event, in bytes.
pub const TEXT_BYTES_MAX: usize = 1024;

/// Bytes that a record takes, approximately: few have long texts.
const RECORD_BYTES: usize = 512;

/// What stands in the place of a value that is never shown.
const HIDDEN: &str = "[hidden]";

/// One change, in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditedChange {
    /// What was done, a word of ours.
    pub what: &'static str,
    /// To what.
    pub target: String,
    /// The new state, or what is gone; empty if `what` says it all.
    pub value: String,
}

impl AuditedChange {
    /// Returns a change, with its texts cut to their bound.
    pub fn new(what: &'static str, target: &str, value: &str) -> Self {
        Self {
            what,
            target: cut(target, TEXT_BYTES_MAX).to_owned(),
            value: cut(value, TEXT_BYTES_MAX).to_owned(),
        }
    }

    /// Returns the bytes that it takes, approximately.
    pub(super) fn bytes(&self) -> usize {
        let texts = [self.target.len(), self.value.len()];
        texts.into_iter().fold(64, usize::saturating_add)
    }
}

/// The records of one change of the metadata.
#[derive(Clone)]
pub struct AuditedRecords {
    /// The metadata before it.
    before: Arc<Image>,
    records: Vec<MetadataRecord>,
    /// The configuration table, which says what is secret.
    keys: &'static [ConfigKey],
    /// True if the records are in the log and in force.
    pub is_done: bool,
}

/// Says nothing of the records: credentials are among them.
impl fmt::Debug for AuditedRecords {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("AuditedRecords")
            .field("count", &self.records.len())
            .field("is_done", &self.is_done)
            .finish_non_exhaustive()
    }
}

impl AuditedRecords {
    /// Keeps records that are about to be written.
    pub(crate) fn new(
        before: Arc<Image>,
        records: Vec<MetadataRecord>,
        keys: &'static [ConfigKey],
    ) -> Self {
        Self {
            before,
            records,
            keys,
            is_done: false,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.records.len().saturating_mul(RECORD_BYTES)
    }

    /// Returns the changes in words; the partitions of a topic are one.
    pub fn changes(&self) -> Vec<AuditedChange> {
        let mut partitions: BTreeMap<Uuid, usize> = BTreeMap::new();
        let mut changes = Vec::new();
        for record in &self.records {
            match record {
                MetadataRecord::Partition(record) => {
                    let count = partitions.entry(record.topic_id).or_default();
                    *count = count.saturating_add(1);
                }
                other => changes.push(self.change(other)),
            }
        }
        let added = partitions.into_iter().map(|(topic, count)| {
            AuditedChange::new("add_partitions", &self.topic(topic), &count.to_string())
        });
        changes.extend(added);
        changes
    }

    fn change(&self, record: &MetadataRecord) -> AuditedChange {
        let of = AuditedChange::new;
        match record {
            MetadataRecord::Topic(it) => of("create_topic", &it.name, &uuid_to_base64(it.topic_id)),
            MetadataRecord::RemoveTopic(it) => {
                let id = uuid_to_base64(it.topic_id);
                of("delete_topic", &self.topic(it.topic_id), &id)
            }
            MetadataRecord::PartitionChange(it) => {
                let target = format!("{}-{}", self.topic(it.topic_id), it.partition_id);
                let replicas = it.replicas.as_ref();
                let replicas = replicas.map(|them| format!("replicas {them:?}"));
                of("change_partition", &target, &replicas.unwrap_or_default())
            }
            MetadataRecord::Config(it) => self.config(it),
            MetadataRecord::ClientQuota(it) => quota(it),
            MetadataRecord::FeatureLevel(it) => {
                of("set_feature", &it.name, &it.feature_level.to_string())
            }
            MetadataRecord::AccessControlEntry(it) => {
                let id = uuid_to_base64(it.id);
                match RawAcl::from(it).read() {
                    Ok(acl) => of("create_acl", &acl.to_string(), &id),
                    Err(_) => of("create_acl", "of a kind that is not known", &id),
                }
            }
            MetadataRecord::RemoveAccessControlEntry(it) => {
                let acl = self.before.acls().get(it.id);
                let acl = acl.map(ToString::to_string);
                let id = uuid_to_base64(it.id);
                of("delete_acl", acl.as_deref().unwrap_or("not known"), &id)
            }
            MetadataRecord::UserScramCredential(it) => {
                of("set_credential", &it.name, mechanism(it.mechanism))
            }
            MetadataRecord::RemoveUserScramCredential(it) => {
                of("delete_credential", &it.name, mechanism(it.mechanism))
            }
            MetadataRecord::UnregisterBroker(it) => {
                of("unregister_broker", &it.broker_id.to_string(), "")
            }
            other => of("write_record", &format!("of type {}", other.key()), ""),
        }
    }

    fn topic(&self, id: Uuid) -> String {
        let is_it = |record: &&MetadataRecord| matches!(record, MetadataRecord::Topic(it) if it.topic_id == id);
        if let Some(name) = self.before.topic_name(TopicId(id)) {
            return name.0.to_string();
        }
        match self.records.iter().find(is_it) {
            Some(MetadataRecord::Topic(it)) => it.name.clone(),
            _ => uuid_to_base64(id),
        }
    }

    fn config(&self, record: &ConfigRecord) -> AuditedChange {
        let kind = ResourceType(record.resource_type);
        let word = match kind {
            ResourceType::TOPIC => "topic",
            ResourceType::BROKER => "broker",
            ResourceType::CLIENT_METRICS => "client metrics",
            ResourceType::GROUP => "group",
            _ => "resource",
        };
        let name = match &*record.resource_name {
            "" => "(default)",
            name => name,
        };
        let (setting, target) = (&record.name, format!("{word} {name}"));
        let Some(value) = &record.value else {
            return AuditedChange::new("remove_config", &target, setting);
        };
        let shown = if is_secret(self.keys, kind, setting) {
            HIDDEN
        } else {
            value
        };
        AuditedChange::new("set_config", &target, &format!("{setting}={shown}"))
    }
}

fn quota(record: &ClientQuotaRecord) -> AuditedChange {
    let named = record.entity.iter().map(|entry| {
        let name = entry.entity_name.as_deref().unwrap_or("(default)");
        format!("{} {name}", entry.entity_type)
    });
    let target = named.collect::<Vec<_>>().join(", ");
    if record.remove {
        return AuditedChange::new("remove_quota", &target, &record.key);
    }
    let value = format!("{}={}", record.key, record.value);
    AuditedChange::new("set_quota", &target, &value)
}

fn mechanism(code: i8) -> &'static str {
    match code {
        1 => "SCRAM-SHA-256",
        2 => "SCRAM-SHA-512",
        _ => "of a kind that is not known",
    }
}

#[cfg(test)]
mod tests {
    use wire::records::metadata::{
        AccessControlEntryRecord, PartitionRecord, QuotaEntityEntry,
        RemoveAccessControlEntryRecord, RemoveTopicRecord, TopicRecord, UserScramCredentialRecord,
    };

    use super::*;
    use crate::topic_config::tests::options;

    /// Appears wherever a secret stands in a record.
    const CANARY: &str = "c4n4ry-c4n4ry";

    fn told(before: Image, records: Vec<MetadataRecord>) -> Vec<String> {
        let keys = options().config_keys;
        let records = AuditedRecords::new(Arc::new(before), records, keys);
        assert!(!format!("{records:?}").contains(CANARY));
        let each = records.changes().into_iter();
        each.map(|it| format!("{}: {}: {}", it.what, it.target, it.value))
            .collect()
    }

    fn acl(id: u128) -> AccessControlEntryRecord {
        AccessControlEntryRecord {
            id: Uuid::from_u128(id),
            resource_type: 2,
            resource_name: "orders".into(),
            pattern_type: 3,
            principal: "User:ada".into(),
            host: "*".into(),
            operation: 3,
            permission_type: 3,
        }
    }

    #[test]
    fn records_are_told_with_the_names_that_they_number() {
        let mut before = Image::empty();
        let (topic_id, acl_id) = (Uuid::from_u128(7), Uuid::from_u128(1));
        let name = "orders".to_owned();
        before
            .replay(TopicRecord { name, topic_id }.into())
            .unwrap();
        before.replay(acl(1).into()).unwrap();
        let partition = |partition_id| PartitionRecord {
            partition_id,
            topic_id,
            ..PartitionRecord::default()
        };
        let quota = ClientQuotaRecord {
            entity: vec![QuotaEntityEntry {
                entity_type: "user".into(),
                entity_name: None,
            }],
            key: "producer_byte_rate".into(),
            value: 1000.0,
            remove: false,
        };
        let told = told(
            before,
            vec![
                partition(1).into(),
                partition(2).into(),
                RemoveAccessControlEntryRecord { id: acl_id }.into(),
                quota.into(),
                RemoveTopicRecord { topic_id }.into(),
            ],
        );
        let id = uuid_to_base64(acl_id);
        let acl = "ALLOW READ on LITERAL TOPIC \"orders\" to \"User:ada\" from \"*\"";
        let expected = [
            format!("delete_acl: {acl}: {id}"),
            "set_quota: user (default): producer_byte_rate=1000".to_owned(),
            format!("delete_topic: orders: {}", uuid_to_base64(topic_id)),
            "add_partitions: orders: 2".to_owned(),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn no_secret_of_a_record_is_in_its_words() {
        let config = |resource_type: ResourceType, name: &str| ConfigRecord {
            resource_type: resource_type.0,
            resource_name: "1".into(),
            name: name.into(),
            value: Some(CANARY.into()),
        };
        let credential = UserScramCredentialRecord {
            name: "ada".into(),
            mechanism: 2,
            salt: CANARY.as_bytes().into(),
            stored_key: CANARY.as_bytes().into(),
            server_key: CANARY.as_bytes().into(),
            iterations: 4096,
        };
        let told = told(
            Image::empty(),
            vec![
                config(ResourceType::BROKER, "ssl.key.password").into(),
                config(ResourceType::BROKER, "listener.name.a.ssl.keystore.key").into(),
                config(ResourceType::TOPIC, "not.known").into(),
                credential.into(),
            ],
        );
        assert_eq!(
            told,
            [
                "set_config: broker 1: ssl.key.password=[hidden]",
                "set_config: broker 1: listener.name.a.ssl.keystore.key=[hidden]",
                "set_config: topic 1: not.known=[hidden]",
                "set_credential: ada: SCRAM-SHA-512",
            ]
        );
    }
}
