//! `AlterConfigs` (key 33), versions 0-2: replaces all settings of a resource. Old clients only;
//! see `incremental_alter_configs.rs`.

use wire::messages::alter_configs_request::AlterConfigsResource;
use wire::messages::alter_configs_response::AlterConfigsResourceResponse;
use wire::messages::{AlterConfigsRequest, AlterConfigsResponse};
use wire::types::ErrorCode;

use crate::controller::{Outcome, Refusal, Rules};
use crate::image::ResourceType;

/// Decides on a request.
pub(crate) fn handle(
    rules: Rules<'_>,
    request: &AlterConfigsRequest,
) -> Outcome<AlterConfigsResponse> {
    let is_same = |a: &AlterConfigsResource, b: &AlterConfigsResource| {
        a.resource_type == b.resource_type && a.resource_name == b.resource_name
    };
    let (mut records, mut responses) = (Vec::new(), Vec::new());
    for resource in &request.resources {
        let outcome = if request
            .resources
            .iter()
            .filter(|other| is_same(resource, other))
            .count()
            > 1
        {
            let message = "Each resource must appear at most once.";
            Err(Refusal::new(ErrorCode::InvalidRequest, message))
        } else {
            let settings: Vec<_> = resource
                .configs
                .iter()
                .map(|config| (config.name.as_str(), config.value.as_deref()))
                .collect();
            let kind = ResourceType(resource.resource_type);
            rules.alter_all(kind, resource.resource_name.as_str(), &settings)
        };
        let (code, message) = Refusal::parts(outcome.map(|more| records.extend(more)));
        responses.push(
            AlterConfigsResourceResponse::default()
                .with_resource_type(resource.resource_type)
                .with_resource_name(resource.resource_name.clone())
                .with_error_code(code)
                .with_error_message(message),
        );
    }
    if request.validate_only {
        records.clear();
    }
    Outcome {
        records,
        response: AlterConfigsResponse::default().with_responses(responses),
    }
}
