//! `AlterConfigs` (key 33), versions 0-2: replaces all settings of a resource. Old clients only;
//! see `incremental_alter_configs.rs`.

use wire::messages::alter_configs_response::AlterConfigsResourceResponse;
use wire::messages::{AlterConfigsRequest, AlterConfigsResponse};

use crate::controller::configs::Named;
use crate::controller::{Outcome, Refusal, Rules};
use crate::image::ResourceType;
use crate::rests::{DECISION, Rests};

/// Decides on a request.
pub(crate) async fn handle(
    rules: Rules<'_>,
    request: &AlterConfigsRequest,
) -> Outcome<AlterConfigsResponse> {
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
            let configs = resource.configs.iter();
            let settings: Vec<_> = configs
                .map(|config| (config.name.as_str(), config.value.as_deref()))
                .collect();
            let kind = ResourceType(resource.resource_type);
            rules.alter_all(kind, name, &settings)
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
    Outcome {
        records,
        response: AlterConfigsResponse::default().with_responses(responses),
    }
}
