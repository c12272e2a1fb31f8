//! Metadata as text for tools that print it.
//!
//! Invariant: no text has a secret. The value of a setting is in one only if the configuration
//! table that the caller gives says that it is none (`secret_settings.rs`).

use wire::records::metadata::{ConfigRecord, MetadataRecord};

use crate::image::ResourceType;
use crate::options::ConfigKey;
use crate::secret_settings::is_secret;

/// Returns a record as text, without secrets. Control characters are escaped.
pub(super) fn record(record: &MetadataRecord, keys: &[ConfigKey]) -> String {
    match record {
        MetadataRecord::UserScramCredential(record) => format!(
            "UserScramCredential {{ name: {:?}, mechanism: {}, .. }}",
            record.name, record.mechanism
        ),
        MetadataRecord::Config(ConfigRecord {
            resource_type,
            resource_name,
            name,
            value: Some(_),
        }) if is_secret(keys, ResourceType(*resource_type), name) => format!(
            "Config(ConfigRecord {{ resource_type: {resource_type}, \
             resource_name: {resource_name:?}, name: {name:?}, value: hidden }})"
        ),
        record => format!("{record:?}"),
    }
}

/// Returns a setting with its value, as text.
pub(super) fn setting(keys: &[ConfigKey], kind: ResourceType, name: &str, value: &str) -> String {
    if is_secret(keys, kind, name) {
        return format!("{name} (its value is hidden)");
    }
    format!("{name}={value:?}")
}
