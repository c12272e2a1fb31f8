//! Client quotas in the metadata log, by entity and by name.
//!
//! A quota applies to an entity: a user, a client id, both, or an address, each by its name or as
//! the default for all without their own quota. Not here: which quotas are valid
//! (`controller/quotas.rs`) and how they are enforced (`quota`).

use std::collections::BTreeMap;
use std::sync::Arc;

use wire::records::metadata::{ClientQuotaRecord, MetadataRecord, QuotaEntityEntry};

use super::Image;

/// Entity type (`user`, `client-id`, `ip`) and name; `None` is the default for all without their
/// own quota.
pub type QuotaEntity = BTreeMap<String, Option<String>>;

/// The quotas of every entity; an entity without quotas is removed.
pub type QuotaTable = BTreeMap<QuotaEntity, BTreeMap<String, f64>>;

impl Image {
    pub(super) fn set_quota(&mut self, record: ClientQuotaRecord) {
        let quotas = Arc::make_mut(&mut self.quotas);
        let names = record.entity.into_iter();
        let entity: QuotaEntity = names
            .map(|entry| (entry.entity_type, entry.entity_name))
            .collect();
        if !record.remove {
            let of_entity = quotas.entry(entity).or_default();
            of_entity.insert(record.key, record.value);
        } else if let Some(of_entity) = quotas.get_mut(&entity) {
            of_entity.remove(&record.key);
            if of_entity.is_empty() {
                quotas.remove(&entity);
            }
        }
    }

    pub(super) fn quota_records(&self, records: &mut Vec<MetadataRecord>) {
        for (entity, quotas) in self.quotas.iter() {
            for (key, value) in quotas {
                let record = ClientQuotaRecord {
                    entity: entity_entries(entity),
                    key: key.clone(),
                    value: *value,
                    remove: false,
                };
                records.push(record.into());
            }
        }
    }
}

/// Returns an entity in the form of the records.
pub(crate) fn entity_entries(entity: &QuotaEntity) -> Vec<QuotaEntityEntry> {
    let entry = |(kind, name): (&String, &Option<String>)| QuotaEntityEntry {
        entity_type: kind.clone(),
        entity_name: name.clone(),
    };
    entity.iter().map(entry).collect()
}
