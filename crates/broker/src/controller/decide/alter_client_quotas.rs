//! `AlterClientQuotas` (key 49), versions 0-1: sets and removes quotas of users, client ids and
//! addresses, each entity judged by itself.

use std::collections::BTreeMap;

use wire::StrBytes;
use wire::messages::alter_client_quotas_request::{EntryData, OpData};
use wire::messages::alter_client_quotas_response as response;
use wire::messages::{AlterClientQuotasRequest, AlterClientQuotasResponse};
use wire::types::ErrorCode;

use crate::controller::{Outcome, Refusal, Rules, check_count};
use crate::image::QuotaEntity;
use crate::rests::{DECISION, Rests, each};

/// Decides on a request.
pub(crate) async fn handle(
    rules: Rules<'_>,
    request: &AlterClientQuotasRequest,
) -> Outcome<AlterClientQuotasResponse> {
    let mut records = Vec::new();
    let mut results = BTreeMap::new();
    let parts = request.entries.iter().map(|entry| entry.ops.len().max(1));
    let allowed = check_count(parts.fold(0, usize::saturating_add));
    let mut rests = Rests::new();
    for entry in &request.entries {
        let entity = entity(entry);
        let values = allowed.clone().and_then(|()| values(&entry.ops, &entity));
        let judged = match values {
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
    let response = AlterClientQuotasResponse::default().with_entries(entries.await);
    Outcome { records, response }
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

/// An entity as Kafka's messages show it.
fn shown(entity: &QuotaEntity) -> String {
    let name = |(kind, name): (&String, &Option<String>)| {
        format!("{kind}={}", name.as_deref().unwrap_or("null"))
    };
    let names: Vec<_> = entity.iter().map(name).collect();
    format!("ClientQuotaEntity(entries={{{}}})", names.join(", "))
}

#[cfg(test)]
mod tests;
