//! From the records of a change of the metadata to its words.
//!
//! The records are what is true: they say what was changed whatever the request asked for. They are
//! put into words off the shards, by the thread that writes; until then an event holds the records
//! and what they only number (an ACL or a topic that goes). It holds no image: while a disk hangs
//! very many events may wait, each with an image of its own.
//! Invariants: the words hold no secret: of a credential the user and the mechanism, of a setting
//! that is never shown only its name. Every record of a decision has its words, and the largest
//! decision has [`RECORDS_BYTES_MAX`] at most. Not here: which records a request makes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use wire::acl::{AclBinding, RawAcl};
use wire::messages::TopicName;
use wire::records::metadata::{ClientQuotaRecord, ConfigRecord, MetadataRecord};
use wire::text::cut;
use wire::types::{TopicId, Uuid, uuid_to_base64};

use crate::controller::RECORDS_PER_REQUEST_MAX;
use crate::image::{Image, ResourceType};
use crate::options::ConfigKey;
use crate::secret_settings::is_secret;

/// Longest text of an event, in bytes.
pub const TEXT_BYTES_MAX: usize = 1024;

/// Bytes that a record takes besides its long texts, approximately.
const RECORD_BYTES: usize = 512;

/// Bytes of the texts of all records of a decision: of many, each keeps less.
const RECORDS_TEXT_BYTES: usize = 2 << 20;

/// Most bytes that the records of one decision take.
pub const RECORDS_BYTES_MAX: usize = RECORDS_PER_REQUEST_MAX * RECORD_BYTES + RECORDS_TEXT_BYTES;

/// Bytes of the long texts that a record of few keeps.
const RECORD_TEXTS_MAX: usize = 4 * TEXT_BYTES_MAX;

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
    /// True if a text is longer than is kept of it.
    pub is_cut: bool,
}

impl AuditedChange {
    /// Returns a change, with its texts cut to their bound.
    pub fn new(what: &'static str, target: &str, value: &str) -> Self {
        Self {
            what,
            target: cut(target, TEXT_BYTES_MAX).to_owned(),
            value: cut(value, TEXT_BYTES_MAX).to_owned(),
            is_cut: target.len().max(value.len()) > TEXT_BYTES_MAX,
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
    /// The names of topics that were there before and that records number.
    // Bounded: `controller::RECORDS_PER_REQUEST_MAX`.
    topics: BTreeMap<Uuid, TopicName>,
    /// The ACLs that go.
    // Bounded: `controller::RECORDS_PER_REQUEST_MAX`.
    acls: BTreeMap<Uuid, Arc<AclBinding>>,
    records: Vec<MetadataRecord>,
    bytes: usize,
    /// The configuration table, which says what is secret.
    keys: &'static [ConfigKey],
    /// True if the records are in the log and in force.
    pub is_done: bool,
    /// True if a text is longer than is kept of it.
    pub is_cut: bool,
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
    /// Keeps records that are about to be written, and what they number in the metadata before.
    pub(crate) fn new(
        before: &Image,
        records: Vec<MetadataRecord>,
        keys: &'static [ConfigKey],
    ) -> Self {
        let share = RECORDS_TEXT_BYTES.checked_div(records.len()).unwrap_or(0);
        let mut kept = Self {
            topics: BTreeMap::new(),
            acls: BTreeMap::new(),
            records,
            bytes: 0,
            keys,
            is_done: false,
            is_cut: false,
        };
        for record in &mut kept.records {
            let (bytes, is_cut) = shortened(record, share.min(RECORD_TEXTS_MAX));
            kept.bytes = kept
                .bytes
                .saturating_add(bytes)
                .saturating_add(RECORD_BYTES);
            kept.is_cut |= is_cut;
            let topic_id = match record {
                MetadataRecord::RemoveTopic(it) => it.topic_id,
                MetadataRecord::Partition(it) => it.topic_id,
                MetadataRecord::PartitionChange(it) => it.topic_id,
                MetadataRecord::RemoveAccessControlEntry(it) => {
                    let acl = before.acls().get(it.id).map(Arc::clone);
                    kept.acls.extend(acl.map(|acl| (it.id, acl)));
                    continue;
                }
                _ => continue,
            };
            if !kept.topics.contains_key(&topic_id) {
                let name = before.topic_name(TopicId(topic_id));
                kept.topics.extend(name.map(|name| (topic_id, name)));
            }
        }
        kept
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
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
                    Ok(acl) => of_acl("create_acl", &acl, &id),
                    Err(_) => of("create_acl", "of a kind that is not known", &id),
                }
            }
            MetadataRecord::RemoveAccessControlEntry(it) => {
                let id = uuid_to_base64(it.id);
                match self.acls.get(&it.id) {
                    Some(acl) => of_acl("delete_acl", acl, &id),
                    None => of("delete_acl", "not known", &id),
                }
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
        if let Some(name) = self.topics.get(&id) {
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

/// Returns the change of an ACL; one whose name is too long names its principal all the same.
fn of_acl(what: &'static str, acl: &AclBinding, id: &str) -> AuditedChange {
    let shown = acl.to_string();
    if shown.len() <= TEXT_BYTES_MAX {
        return AuditedChange::new(what, &shown, id);
    }
    let (principal, host) = (acl.principal.as_str(), acl.host.as_str());
    let value = format!("{id} to {principal} from {host}");
    AuditedChange::new(what, &shown, &value)
}

/// Cuts the long texts of a record; returns their bytes, and whether one was longer.
fn shortened(record: &mut MetadataRecord, bytes_max: usize) -> (usize, bool) {
    let none = &mut String::new();
    let mut texts: [&mut String; 3] = match record {
        MetadataRecord::Config(it) => match &mut it.value {
            Some(value) => [&mut it.resource_name, value, none],
            None => return (it.resource_name.len(), false),
        },
        MetadataRecord::AccessControlEntry(it) => {
            [&mut it.principal, &mut it.resource_name, &mut it.host]
        }
        _ => return (0, false),
    };
    let (mut left, mut is_cut) = (bytes_max, false);
    for text in &mut texts {
        let kept = cut(text, left).len();
        is_cut |= kept < text.len();
        left = left.saturating_sub(kept);
        text.truncate(kept);
        text.shrink_to_fit();
    }
    (bytes_max.saturating_sub(left), is_cut)
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

    fn told(before: &Image, records: Vec<MetadataRecord>) -> Vec<String> {
        let keys = options().config_keys;
        let records = AuditedRecords::new(before, records, keys);
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
            &before,
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
    fn a_name_that_is_too_long_says_so_and_hides_no_principal() {
        let keys = options().config_keys;
        for is_gone in [false, true] {
            let mut before = Image::empty();
            let mut long = acl(1);
            long.resource_name = "n".repeat(2 * TEXT_BYTES_MAX);
            let records = if is_gone {
                before.replay(long.into()).unwrap();
                let id = Uuid::from_u128(1);
                vec![RemoveAccessControlEntryRecord { id }.into()]
            } else {
                vec![long.into()]
            };
            let records = AuditedRecords::new(&before, records, keys);
            let [change] = &records.changes()[..] else {
                panic!("one change");
            };
            assert!(change.is_cut && change.value.contains("to User:ada from *"));
        }
    }

    #[test]
    fn records_count_what_they_take_and_the_most_of_one_decision_have_a_bound() {
        let config = |number: usize| ConfigRecord {
            resource_type: ResourceType::TOPIC.0,
            resource_name: format!("topic-{number}"),
            name: "leader.replication.throttled.replicas".into(),
            value: Some("1:1,".repeat(8000)),
        };
        let keys = options().config_keys;
        let kept = |count: usize| {
            let records = (0..count).map(|number| config(number).into()).collect();
            let records = AuditedRecords::new(&Image::empty(), records, keys);
            assert!(records.is_cut && records.changes()[0].value.contains("=1:1,1:1,"));
            records.bytes()
        };
        assert!((RECORD_TEXTS_MAX..2 * RECORD_TEXTS_MAX).contains(&kept(1)));
        let all = kept(RECORDS_PER_REQUEST_MAX);
        assert!(
            all > RECORDS_TEXT_BYTES && all <= RECORDS_BYTES_MAX,
            "{all}"
        );
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
            &Image::empty(),
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
