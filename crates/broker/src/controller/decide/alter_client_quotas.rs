//! `AlterClientQuotas` (key 49), versions 0-1: sets and removes quotas of users, client ids and
//! addresses. Each entity is judged separately.

use std::collections::BTreeMap;

use wire::StrBytes;
use wire::messages::alter_client_quotas_request::{EntryData, OpData};
use wire::messages::alter_client_quotas_response as response;
use wire::messages::{AlterClientQuotasRequest, AlterClientQuotasResponse};
use wire::types::ErrorCode;

use crate::controller::bounds::check_length;
use crate::controller::{ControllerDecision, Refusal, Rules, check_parts};
use crate::image::QuotaEntity;
use crate::rests::{DECISION, Rests, each};

/// Maximum number of names of an entity. Two can be combined, and a client may repeat a type by
/// mistake.
const NAMES_MAX: usize = 8;

/// Decides on a request.
pub(crate) async fn handle(
    rules: Rules<'_>,
    request: &AlterClientQuotasRequest,
) -> ControllerDecision<AlterClientQuotasResponse> {
    if let Err(refusal) = check_parts(request.entries.iter().map(|entry| entry.ops.len())) {
        return refused(request, &refusal).await;
    }
    let mut records = Vec::new();
    let mut results = BTreeMap::new();
    let mut outsized = Vec::new();
    let mut rests = Rests::new();
    for entry in &request.entries {
        if let Err(refusal) = check_size(entry) {
            outsized.push(told_as_asked(entry, &refusal));
            rests.items(DECISION).await;
            continue;
        }
        let entity = entity(entry);
        let judged = match values(&entry.ops, &entity) {
            _ if results.contains_key(&entity) => Err(Refusal::new(
                ErrorCode::InvalidRequest,
                format!("Ignoring duplicate entity {}", shown(&entity)),
            )),
            Ok(values) => rules.alter_quotas(&entity, &values),
            Err(refusal) => Err(refusal),
        };
        results.insert(entity, judged.map(|more| records.extend(more)));
        let items = entry.ops.len().saturating_add(entry.entity.len());
        rests.items(items.saturating_add(DECISION)).await;
    }
    if request.validate_only {
        records.clear();
    }
    let entries = each(results, |(entity, judged)| {
        let (code, message) = Refusal::parts(judged);
        response::EntryData::default()
            .with_error_code(code)
            .with_error_message(message)
            .with_entity(names(entity))
    });
    let mut entries = entries.await;
    entries.append(&mut outsized);
    let response = AlterClientQuotasResponse::default().with_entries(entries);
    ControllerDecision { records, response }
}

/// Returns the same refusal for every entity; no quota changes.
async fn refused(
    request: &AlterClientQuotasRequest,
    refusal: &Refusal,
) -> ControllerDecision<AlterClientQuotasResponse> {
    let entries = each(&request.entries, |entry| told_as_asked(entry, refusal)).await;
    ControllerDecision {
        records: Vec::new(),
        response: AlterClientQuotasResponse::default().with_entries(entries),
    }
}

/// Refuses an entity with too many or too long parts, before the parts are used.
fn check_size(entry: &EntryData) -> Result<(), Refusal> {
    if entry.entity.len() > NAMES_MAX {
        let message = format!("An entity has {NAMES_MAX} names at most");
        return Err(Refusal::new(ErrorCode::InvalidRequest, message));
    }
    for part in &entry.entity {
        check_length(part.entity_type.len(), "type of an entity")?;
        let name = part.entity_name.as_ref().map_or(0, |name| name.len());
        check_length(name, "name of an entity")?;
    }
    let mut keys = entry.ops.iter().map(|op| op.key.len());
    keys.try_for_each(|bytes| check_length(bytes, "key of a quota"))
}

/// Returns the refusal of an entity, with the names of the request, at most `NAMES_MAX` of them.
fn told_as_asked(entry: &EntryData, refusal: &Refusal) -> response::EntryData {
    let (code, message) = Refusal::parts(Err(refusal.clone()));
    let names = entry.entity.iter().take(NAMES_MAX).map(|part| {
        response::EntityData::default()
            .with_entity_type(part.entity_type.clone())
            .with_entity_name(part.entity_name.clone())
    });
    response::EntryData::default()
        .with_error_code(code)
        .with_error_message(message)
        .with_entity(names.collect())
}

fn entity(entry: &EntryData) -> QuotaEntity {
    let names = entry.entity.iter().map(|name| {
        let kind = name.entity_type.to_string();
        (kind, name.entity_name.as_ref().map(ToString::to_string))
    });
    names.collect()
}

fn values<'a>(
    ops: &'a [OpData],
    entity: &QuotaEntity,
) -> Result<BTreeMap<&'a str, Option<f64>>, Refusal> {
    let mut values = BTreeMap::new();
    for op in ops {
        let key = op.key.as_str();
        let value = (!op.remove).then_some(op.value);
        if values.insert(key, value).is_some() {
            let entity = shown(entity);
            let message =
                format!("Duplicate quota key {key} not updating quota for this entity {entity}");
            return Err(Refusal::new(ErrorCode::InvalidRequest, message));
        }
    }
    Ok(values)
}

fn names(entity: QuotaEntity) -> Vec<response::EntityData> {
    let name = |(kind, name): (String, Option<String>)| {
        response::EntityData::default()
            .with_entity_type(StrBytes::from_string(kind))
            .with_entity_name(name.map(StrBytes::from_string))
    };
    entity.into_iter().map(name).collect()
}

/// Returns an entity formatted as in Kafka's messages.
fn shown(entity: &QuotaEntity) -> String {
    let name = |(kind, name): (&String, &Option<String>)| {
        format!("{kind}={}", name.as_deref().unwrap_or("null"))
    };
    let names: Vec<_> = entity.iter().map(name).collect();
    format!("ClientQuotaEntity(entries={{{}}})", names.join(", "))
}

#[cfg(test)]
mod tests;
