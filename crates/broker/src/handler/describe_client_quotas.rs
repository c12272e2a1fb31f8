//! `DescribeClientQuotas` (key 48), versions 0-1: the quotas of the entities that pass a filter.

use std::collections::BTreeMap;

use wire::StrBytes;
use wire::messages::describe_client_quotas_request::ComponentData;
use wire::messages::describe_client_quotas_response::{EntityData, EntryData, ValueData};
use wire::messages::{DescribeClientQuotasRequest, DescribeClientQuotasResponse};
use wire::types::ErrorCode;

use crate::controller::Refusal;
use crate::controller::quotas::{CLIENT_ID, IP, USER};
use crate::image::{Image, QuotaEntity};

const EXACT: i8 = 0;
const DEFAULT: i8 = 1;
const SPECIFIED: i8 = 2;

/// The entity types that an entity must have, each with its name: `None` for any, `Some(None)` for
/// the default entity.
type Filter<'a> = BTreeMap<&'a str, Option<Option<&'a str>>>;

/// Answers from the image.
pub(crate) fn handle(
    image: &Image,
    request: &DescribeClientQuotasRequest,
) -> DescribeClientQuotasResponse {
    let filter = match filter(&request.components) {
        Ok(filter) => filter,
        Err(refusal) => {
            let (code, message) = Refusal::parts(Err(refusal));
            return DescribeClientQuotasResponse::default()
                .with_error_code(code)
                .with_error_message(message)
                .with_entries(None);
        }
    };
    let quotas = image.quotas().iter();
    let passed = quotas.filter(|(entity, _)| passes(entity, &filter, request.strict));
    let entries = passed.map(|(entity, quotas)| entry(entity, quotas));
    DescribeClientQuotasResponse::default()
        .with_error_message(None)
        .with_entries(Some(entries.collect()))
}

fn filter(components: &[ComponentData]) -> Result<Filter<'_>, Refusal> {
    let invalid = |message: String| Err(Refusal::new(ErrorCode::InvalidRequest, message));
    let mut filter = Filter::new();
    for component in components {
        let kind = component.entity_type.as_str();
        if kind.is_empty() {
            return invalid("Invalid empty entity type.".into());
        }
        if filter.contains_key(kind) {
            return invalid(format!(
                "Entity type {kind} cannot appear more than once in the filter."
            ));
        }
        if ![USER, CLIENT_ID, IP].contains(&kind) {
            let message = format!("Unsupported entity type {kind}");
            return Err(Refusal::new(ErrorCode::UnsupportedVersion, message));
        }
        let name = component._match.as_deref();
        let also = |word: &str| {
            invalid(format!(
                "Request specified MATCH_TYPE_{word}, but also specified a match string."
            ))
        };
        let wanted = match (component.match_type, name) {
            (EXACT, Some(name)) => Some(Some(name)),
            (EXACT, None) => {
                return invalid(
                    "Request specified MATCH_TYPE_EXACT, but set match string to null.".into(),
                );
            }
            (DEFAULT, None) => Some(None),
            (DEFAULT, Some(_)) => return also("DEFAULT"),
            (SPECIFIED, None) => None,
            (SPECIFIED, Some(_)) => return also("SPECIFIED"),
            (other, _) => return invalid(format!("Unknown match type {other}")),
        };
        filter.insert(kind, wanted);
    }
    if filter.contains_key(IP) && filter.len() > 1 {
        return invalid(
            "Invalid entity filter component combination. IP filter component should not be used \
             with user or clientId filter component."
                .into(),
        );
    }
    Ok(filter)
}

fn passes(entity: &QuotaEntity, filter: &Filter<'_>, strict: bool) -> bool {
    let has = |(kind, wanted): (&&str, &Option<Option<&str>>)| {
        let name = entity.get(*kind);
        name.is_some_and(|name| wanted.is_none_or(|wanted| wanted == name.as_deref()))
    };
    (!strict || entity.len() == filter.len()) && filter.iter().all(has)
}

fn entry(entity: &QuotaEntity, quotas: &BTreeMap<String, f64>) -> EntryData {
    let text = |text: &String| StrBytes::from_string(text.clone());
    let name = |(kind, name): (&String, &Option<String>)| {
        EntityData::default()
            .with_entity_type(text(kind))
            .with_entity_name(name.as_ref().map(text))
    };
    let value =
        |(key, value): (&String, &f64)| ValueData::default().with_key(text(key)).with_value(*value);
    EntryData::default()
        .with_entity(entity.iter().map(name).collect())
        .with_values(quotas.iter().map(value).collect())
}
