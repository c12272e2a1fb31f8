//! `ApiVersions` (key 18), versions 0-4: the APIs that this broker serves, and the cluster's
//! finalized features.
//!
//! An unknown version gets a response in version 0 with `UNSUPPORTED_VERSION` and the table, so
//! that the client can retry. The two telemetry requests are listed only while there is a client
//! metrics subscription, as Kafka lists them only with a receiver: clients that see them ask every
//! five minutes without end, and some log that. They are served even when unlisted, for clients
//! that saw them before. Version 3 added the client's software name (checked), features and tagged
//! fields; version 4 lists features whose minimum is 0.

use std::cell::RefCell;

use platform::Platform;
use wire::kafka::Api;
use wire::messages::api_versions_response::{ApiVersion, FinalizedFeatureKey, SupportedFeatureKey};
use wire::messages::{ApiVersionsRequest, ApiVersionsResponse};
use wire::protocol::StrBytes;
use wire::text::cut;
use wire::types::ErrorCode;

use crate::handler::ClientSoftware;
use crate::image::Image;
use crate::{Broker, client_metrics};

/// Maximum stored length of the client software's name, and of its version.
const SOFTWARE_BYTES_MAX: usize = 256;

/// Answers a request of a supported version.
pub(crate) fn handle<P: Platform>(
    broker: &Broker<P>,
    software: &RefCell<ClientSoftware>,
    request: &ApiVersionsRequest,
    version: i16,
) -> ApiVersionsResponse {
    let named = is_software_name(&request.client_software_name)
        && is_software_name(&request.client_software_version);
    if version >= 3 && !named {
        return ApiVersionsResponse::default().with_error_code(ErrorCode::InvalidRequest.code());
    }
    if version >= 3 {
        software.replace(ClientSoftware {
            name: cut(&request.client_software_name, SOFTWARE_BYTES_MAX).to_owned(),
            version: cut(&request.client_software_version, SOFTWARE_BYTES_MAX).to_owned(),
        });
    }
    let image = broker.image();
    let response = ApiVersionsResponse::default().with_api_keys(served(&image));
    if version >= 3 {
        with_features(response, &image, version)
    } else {
        response
    }
}

/// Answers a request of an unsupported version, in version 0.
pub(crate) fn unsupported(image: &Image) -> ApiVersionsResponse {
    let code = ErrorCode::UnsupportedVersion.code();
    ApiVersionsResponse::default()
        .with_error_code(code)
        .with_api_keys(served(image))
}

fn served(image: &Image) -> Vec<ApiVersion> {
    let is_asked = client_metrics::in_force(image).next().is_some();
    let of_telemetry = [Api::GetTelemetrySubscriptions, Api::PushTelemetry];
    let row = |api: &Api| {
        let versions = api.advertised_versions();
        ApiVersion::default()
            .with_api_key(api.key())
            .with_min_version(*versions.start())
            .with_max_version(*versions.end())
    };
    let named = Api::ALL.iter();
    let named = named.filter(|api| is_asked || !of_telemetry.contains(api));
    named.map(row).collect()
}

fn with_features(
    response: ApiVersionsResponse,
    image: &Image,
    version: i16,
) -> ApiVersionsResponse {
    let text = |name: &str| StrBytes::from_string(name.to_owned());
    // Before version 4, clients reject features whose minimum is 0 (KAFKA-17011).
    let supported = crate::names::SUPPORTED_FEATURES
        .iter()
        .filter(|(_, min, _)| version >= 4 || *min > 0)
        .map(|(name, min, max)| {
            SupportedFeatureKey::default()
                .with_name(text(name))
                .with_min_version(*min)
                .with_max_version(*max)
        });
    let finalized = image.finalized_features().filter(|(_, level)| *level > 0);
    let finalized = finalized.map(|(name, level)| {
        FinalizedFeatureKey::default()
            .with_name(text(name))
            .with_min_version_level(level)
            .with_max_version_level(level)
    });
    response
        .with_supported_features(supported.collect())
        .with_finalized_features(finalized.collect())
        .with_finalized_features_epoch(image.last_applied_offset().0)
}

/// Returns true for a valid software name: letters, digits, dots and dashes, with neither a dot nor
/// a dash first or last (KIP-511).
fn is_software_name(name: &str) -> bool {
    let word = |c: u8| c.is_ascii_alphanumeric();
    let bytes = name.as_bytes();
    bytes.first().copied().is_some_and(word)
        && bytes.last().copied().is_some_and(word)
        && bytes.iter().all(|c| word(*c) || matches!(c, b'.' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::is_software_name;

    #[test]
    fn software_names_are_words_of_letters_digits_dots_and_dashes() {
        for good in ["apache-kafka-java", "librdkafka", "4.3.0", "a"] {
            assert!(is_software_name(good), "{good}");
        }
        for bad in ["", "-a", "a.", "a b", "a_b", "\u{e4}"] {
            assert!(!is_software_name(bad), "{bad}");
        }
    }
}
