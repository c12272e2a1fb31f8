//! `ListConfigResources` (key 74), versions 0-1: the resources that have settings, or can have
//! them: topics, brokers, their loggers, client metrics subscriptions, groups.
//!
//! Version 0 lists subscriptions only; version 1 added the resource types. Only groups and
//! subscriptions that have their own settings are listed.

use wire::StrBytes;
use wire::messages::list_config_resources_response::ConfigResource;
use wire::messages::{ListConfigResourcesRequest, ListConfigResourcesResponse};
use wire::types::ErrorCode;

use crate::image::{Image, ResourceType};

const ALL: [ResourceType; 5] = [
    ResourceType::TOPIC,
    ResourceType::BROKER,
    ResourceType::BROKER_LOGGER,
    ResourceType::CLIENT_METRICS,
    ResourceType::GROUP,
];

/// Answers from the image.
pub(crate) fn handle(
    image: &Image,
    request: &ListConfigResourcesRequest,
    version: i16,
) -> ListConfigResourcesResponse {
    let asked = request.resource_types.iter().copied().map(ResourceType);
    let mut kinds: Vec<_> = match version {
        0 => vec![ResourceType::CLIENT_METRICS],
        _ if request.resource_types.is_empty() => ALL.to_vec(),
        _ => asked.collect(),
    };
    kinds.sort_unstable();
    kinds.dedup();
    if kinds.iter().any(|kind| !ALL.contains(kind)) {
        return ListConfigResourcesResponse::default()
            .with_error_code(ErrorCode::UnsupportedVersion.code());
    }
    let resources = kinds.into_iter().flat_map(|kind| {
        let named = move |name: String| {
            ConfigResource::default()
                .with_resource_name(StrBytes::from_string(name))
                .with_resource_type(kind.0)
        };
        names(image, kind).into_iter().map(named)
    });
    ListConfigResourcesResponse::default().with_config_resources(resources.collect())
}

fn names(image: &Image, kind: ResourceType) -> Vec<String> {
    match kind {
        ResourceType::TOPIC => image.topics().map(|topic| topic.name.to_string()).collect(),
        ResourceType::BROKER | ResourceType::BROKER_LOGGER => {
            let active = image.brokers().filter(|broker| !broker.fenced);
            active.map(|broker| broker.id.to_string()).collect()
        }
        _ => image.configured(kind).map(str::to_owned).collect(),
    }
}
