//! `IncrementalAlterConfigs` (key 44), versions 0-1: sets and deletes single settings, and appends
//! to and subtracts from lists.

use wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use wire::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use wire::messages::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};
use wire::records::metadata::MetadataRecord;

use crate::access::Access;
use crate::controller::configs::{Operation, ResourceCounts};
use crate::controller::stores::{ChangedStores, CheckedStores, changed_by};
use crate::controller::{ControllerDecision, Refusal, Rules, check_parts, config_rights};
use crate::image::ResourceType;
use crate::rests::{DECISION, Rests, each};

/// Decides on a request.
pub(crate) async fn handle(
    rules: Rules<'_>,
    access: &Access,
    request: &IncrementalAlterConfigsRequest,
    stores: &CheckedStores,
) -> ControllerDecision<IncrementalAlterConfigsResponse> {
    let settings = request.resources.iter();
    if let Err(refusal) = check_parts(settings.map(|resource| resource.configs.len())) {
        return refused(request, &refusal).await;
    }
    let mut named = ResourceCounts::default();
    let mut rests = Rests::new();
    for resource in &request.resources {
        let name = resource.resource_name.as_str();
        named.add(resource.resource_type, name);
        rests.item().await;
    }
    let (mut records, mut responses) = (Vec::new(), Vec::new());
    for resource in &request.resources {
        let name = resource.resource_name.as_str();
        let outcome = named.check(resource.resource_type, name).and_then(|()| {
            let records = records_of(rules, access, resource)?;
            stores.judge(rules, &records)?;
            Ok(records)
        });
        responses.push(told(resource, outcome.map(|more| records.extend(more))));
        rests
            .items(resource.configs.len().saturating_add(DECISION))
            .await;
    }
    if request.validate_only {
        records.clear();
    }
    let response = IncrementalAlterConfigsResponse::default().with_responses(responses);
    ControllerDecision { records, response }
}

/// Returns the stores of listeners that a request would change if it were decided on now: those of
/// its first resource that is a broker. A request with two of them is refused.
///
/// A right that the client lacks is counted once, when the request is decided on.
pub(crate) fn changed_stores(
    rules: Rules<'_>,
    access: &Access,
    request: &IncrementalAlterConfigsRequest,
) -> Vec<ChangedStores> {
    if !config_rights::lets_alter_brokers(access) {
        return Vec::new();
    }
    let mut resources = request.resources.iter();
    let is_broker = |resource: &&AlterConfigsResource| {
        ResourceType(resource.resource_type) == ResourceType::BROKER
            && !resource.resource_name.is_empty()
    };
    let settings = request.resources.iter();
    if check_parts(settings.map(|resource| resource.configs.len())).is_err() {
        return Vec::new();
    }
    let records = resources
        .find(is_broker)
        .map(|it| records_of(rules, &Access::unlimited(), it));
    records.map_or_else(Vec::new, |records| {
        records.map_or_else(|_| Vec::new(), |records| changed_by(rules, &records))
    })
}

/// Returns the records of one resource.
fn records_of(
    rules: Rules<'_>,
    access: &Access,
    resource: &AlterConfigsResource,
) -> Result<Vec<MetadataRecord>, Refusal> {
    let operations: Vec<_> = resource.configs.iter().map(operation).collect();
    let kind = ResourceType(resource.resource_type);
    rules.alter_incrementally(access, (kind, resource.resource_name.as_str()), &operations)
}

/// Returns the same refusal for every resource; nothing changes.
async fn refused(
    request: &IncrementalAlterConfigsRequest,
    refusal: &Refusal,
) -> ControllerDecision<IncrementalAlterConfigsResponse> {
    let one = |resource| told(resource, Err(refusal.clone()));
    let responses = each(&request.resources, one).await;
    ControllerDecision {
        records: Vec::new(),
        response: IncrementalAlterConfigsResponse::default().with_responses(responses),
    }
}

fn told(
    resource: &AlterConfigsResource,
    outcome: Result<(), Refusal>,
) -> AlterConfigsResourceResponse {
    let (code, message) = Refusal::parts(outcome);
    AlterConfigsResourceResponse::default()
        .with_resource_type(resource.resource_type)
        .with_resource_name(resource.resource_name.clone())
        .with_error_code(code)
        .with_error_message(message)
}

fn operation(config: &AlterableConfig) -> Operation<'_> {
    Operation {
        name: config.name.as_str(),
        code: config.config_operation,
        value: config.value.as_deref(),
    }
}

#[cfg(test)]
mod tests {
    use wire::StrBytes;
    use wire::types::ErrorCode;

    use super::*;
    use crate::controller::tests::{create, options, started};
    use crate::rests::PIECE;
    use crate::rests::tests::rested;

    #[test]
    fn too_many_resources_are_refused_in_hardly_more_turns_than_it_takes_to_name_them() {
        const RESOURCES: usize = 20_000;
        let (image, options) = (started(), options());
        let rules = Rules {
            image: &image,
            options: &options,
        };
        let resources = (0..RESOURCES).map(|number| {
            let name = StrBytes::from_string(format!("t{number}"));
            let resource = AlterConfigsResource::default().with_resource_type(2);
            resource.with_resource_name(name)
        });
        let request = IncrementalAlterConfigsRequest::default().with_resources(resources.collect());
        let (rests, outcome) = rested(handle(
            rules,
            &Access::unlimited(),
            &request,
            &CheckedStores::default(),
        ));
        assert!(rests < RESOURCES / PIECE + 2, "{rests} rests");
        assert!(outcome.records.is_empty());
        let told = outcome.response.responses;
        let policy = ErrorCode::PolicyViolation.code();
        assert_eq!(told.len(), RESOURCES);
        assert!(told.iter().all(|resource| resource.error_code == policy));
    }

    #[test]
    fn texts_that_no_setting_has_are_refused_before_anything_is_made_of_them() {
        let (mut image, options) = (started(), options());
        create(&mut image, "t", 1, &[]);
        let rules = Rules {
            image: &image,
            options: &options,
        };
        let text = |text: &str| StrBytes::from_string(text.to_owned());
        let long = "x".repeat(1 << 20);
        for kind in [2, 4, 16, 32] {
            for (name, value) in [(long.as_str(), "1"), ("retention.ms", &long)] {
                let config = AlterableConfig::default()
                    .with_name(text(name))
                    .with_value(Some(text(value)));
                let resource = AlterConfigsResource::default()
                    .with_resource_type(kind)
                    .with_resource_name(text(if kind == 4 { "" } else { "t" }))
                    .with_configs(vec![config]);
                let request =
                    IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
                let (_, outcome) = rested(handle(
                    rules,
                    &Access::unlimited(),
                    &request,
                    &CheckedStores::default(),
                ));
                assert!(outcome.records.is_empty());
                let told = &outcome.response.responses[0];
                assert_ne!(told.error_code, 0);
                let message = told.error_message.as_deref().unwrap_or_default();
                assert!(message.len() < 1000, "{} bytes", message.len());
            }
        }
    }
}
