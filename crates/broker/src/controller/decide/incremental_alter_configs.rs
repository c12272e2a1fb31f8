//! `IncrementalAlterConfigs` (key 44), versions 0-1: sets, deletes, appends to and subtracts from
//! single settings.

use wire::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use wire::messages::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};

use crate::controller::configs::{Named, Operation};
use crate::controller::{Outcome, Refusal, Rules};
use crate::image::ResourceType;
use crate::rests::{DECISION, Rests};

/// Decides on a request.
pub(crate) async fn handle(
    rules: Rules<'_>,
    request: &IncrementalAlterConfigsRequest,
) -> Outcome<IncrementalAlterConfigsResponse> {
    let mut named = Named::default();
    let mut rests = Rests::new();
    for resource in &request.resources {
        let name = resource.resource_name.as_str();
        named.add(resource.resource_type, name, resource.configs.len());
        rests.item().await;
    }
    let (mut records, mut responses) = (Vec::new(), Vec::new());
    for resource in &request.resources {
        let name = resource.resource_name.as_str();
        let outcome = named.check(resource.resource_type, name).and_then(|()| {
            let operations: Vec<_> = resource.configs.iter().map(operation).collect();
            let kind = ResourceType(resource.resource_type);
            rules.alter_incrementally(kind, name, &operations)
        });
        let (code, message) = Refusal::parts(outcome.map(|more| records.extend(more)));
        responses.push(
            AlterConfigsResourceResponse::default()
                .with_resource_type(resource.resource_type)
                .with_resource_name(resource.resource_name.clone())
                .with_error_code(code)
                .with_error_message(message),
        );
        rests
            .items(resource.configs.len().saturating_add(DECISION))
            .await;
    }
    if request.validate_only {
        records.clear();
    }
    let response = IncrementalAlterConfigsResponse::default().with_responses(responses);
    Outcome { records, response }
}

fn operation(
    config: &wire::messages::incremental_alter_configs_request::AlterableConfig,
) -> Operation<'_> {
    Operation {
        name: config.name.as_str(),
        code: config.config_operation,
        value: config.value.as_deref(),
    }
}
