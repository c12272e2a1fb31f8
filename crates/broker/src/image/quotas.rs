//! Quotas of clients, as the metadata log has them: by entity and by name.
//!
//! An entity is what a quota is for: a user, a client id, both, or an address, each by its name or
//! for all that have none of their own. Not here: what is a good quota (`controller/quotas.rs`) and
//! what comes of it (`quota`).

use std::collections::BTreeMap;
use std::sync::Arc;

use wire::records::metadata::{ClientQuotaRecord, MetadataRecord, QuotaEntityEntry};

use super::Image;

/// Kind of name (`user`, `client-id`, `ip`) and name; `None` stands for all without a quota of
/// their own.
pub type QuotaEntity = BTreeMap<String, Option<String>>;

/// The quotas of every entity. No entity is without any.
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

/// An entity as records have it.
pub(crate) fn entity_entries(entity: &QuotaEntity) -> Vec<QuotaEntityEntry> {
    let entry = |(kind, name): (&String, &Option<String>)| QuotaEntityEntry {
        entity_type: kind.clone(),
        entity_name: name.clone(),
    };
    entity.iter().map(entry).collect()
}
