//! Judges client quotas that a request sets or removes: which values are valid, and for which
//! entities.

use std::collections::BTreeMap;
use std::net::IpAddr;

use wire::records::metadata::{ClientQuotaRecord, MetadataRecord};
use wire::types::ErrorCode;

use super::bounds::{check_entities, check_text};
use super::{Refusal, Rules, quoted};
use crate::image::{QuotaEntity, entity_entries};

pub(crate) const USER: &str = "user";
pub(crate) const CLIENT_ID: &str = "client-id";
pub(crate) const IP: &str = "ip";

/// The number types of quotas.
#[derive(Clone, Copy)]
enum Number {
    Long,
    Int,
    Double,
}

const OF_CLIENTS: [(&str, Number); 4] = [
    ("producer_byte_rate", Number::Long),
    ("consumer_byte_rate", Number::Long),
    ("request_percentage", Number::Double),
    ("controller_mutation_rate", Number::Double),
];
const OF_ADDRESSES: [(&str, Number); 1] = [("connection_creation_rate", Number::Int)];

impl Rules<'_> {
    /// Decides on new values of an entity's quotas; `None` removes one.
    pub(crate) fn alter_quotas(
        &self,
        entity: &QuotaEntity,
        values: &BTreeMap<&str, Option<f64>>,
    ) -> Result<Vec<MetadataRecord>, Refusal> {
        check_names(entity)?;
        let allowed = allowed(entity)?;
        let current = self.image.quotas().get(entity);
        let sets = values.values().any(Option::is_some);
        if sets && current.is_none() {
            check_entities(self.image.quotas().len(), "quotas")?;
            for name in entity.values().flatten() {
                check_text(name.len(), "name of an entity")?;
            }
        }
        let current = |key: &str| current.and_then(|quotas| quotas.get(key)).copied();
        let mut records = Vec::new();
        for (key, value) in values {
            if let Some(value) = value {
                check_value(allowed, key, *value)?;
            }
            let same = match (current(key), value) {
                (None, None) => true,
                (Some(old), Some(new)) => old.to_bits() == new.to_bits(),
                _ => false,
            };
            if !same {
                let record = ClientQuotaRecord {
                    entity: entity_entries(entity),
                    key: (*key).to_owned(),
                    value: value.unwrap_or_default(),
                    remove: value.is_none(),
                };
                records.push(record.into());
            }
        }
        Ok(records)
    }
}

fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::new(ErrorCode::InvalidRequest, message)
}

fn check_names(entity: &QuotaEntity) -> Result<(), Refusal> {
    if entity.is_empty() {
        return Err(invalid("Invalid empty client quota entity"));
    }
    for (kind, name) in entity {
        if ![USER, CLIENT_ID, IP].contains(&kind.as_str()) {
            return Err(invalid(format!(
                "Unhandled client quota entity type: {}",
                quoted(kind)
            )));
        }
        if name.as_ref().is_some_and(String::is_empty) {
            return Err(invalid(format!("Empty {kind} not supported")));
        }
    }
    Ok(())
}

/// Returns the quotas that an entity can have.
fn allowed(entity: &QuotaEntity) -> Result<&'static [(&'static str, Number)], Refusal> {
    let Some(address) = entity.get(IP) else {
        return Ok(&OF_CLIENTS);
    };
    if entity.len() > 1 {
        return Err(invalid(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or \
             ClientId",
        ));
    }
    // Host names are not resolved.
    match address {
        Some(text) if text.parse::<IpAddr>().is_err() => Err(invalid(format!(
            "{} is not a valid IP or resolvable host.",
            quoted(text)
        ))),
        _ => Ok(&OF_ADDRESSES),
    }
}

#[allow(clippy::cast_precision_loss, reason = "as Kafka compares them")]
fn check_value(allowed: &[(&str, Number)], key: &str, value: f64) -> Result<(), Refusal> {
    let Some((_, number)) = allowed.iter().find(|(name, _)| *name == key) else {
        return Err(invalid(format!(
            "Invalid configuration key {}",
            quoted(key)
        )));
    };
    // NaN is not greater than 0 either.
    if value <= 0.0 || value.is_nan() {
        return Err(invalid(format!("Quota {key} must be greater than 0")));
    }
    let (most, name) = match number {
        Number::Double => return Ok(()),
        Number::Int => (f64::from(i32::MAX), "an INT"),
        Number::Long => (i64::MAX as f64, "a LONG"),
    };
    if value > most {
        return Err(invalid(format!(
            "Proposed value for {key} is too large for {name}."
        )));
    }
    // Kafka accepts every value close to a whole number, 0 included. A rate close to 0 would
    // throttle every client, including the one that would have to correct it.
    if value < 1.0 || (value % 1.0).abs() > 1e-6 {
        return Err(invalid(format!("{key} cannot be a fractional value.")));
    }
    Ok(())
}
