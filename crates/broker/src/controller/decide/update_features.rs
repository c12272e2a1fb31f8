//! `UpdateFeatures` (key 57), versions 0-2: raises and lowers the finalized feature levels of the
//! cluster. All features of a request change together, or none does.
//!
//! Version 1 added upgrade types and `validate_only`; before, a flag allowed lowering. Lowering
//! `metadata.version` is always refused, because the log would hold records that the lower level
//! does not have. A single node cannot change the level of the Raft protocol.

use wire::StrBytes;
use wire::messages::update_features_request::FeatureUpdateKey;
use wire::messages::update_features_response::UpdatableFeatureResult;
use wire::messages::{UpdateFeaturesRequest, UpdateFeaturesResponse};
use wire::records::metadata::{FeatureLevelRecord, MetadataRecord, MetadataVersion};
use wire::types::ErrorCode;

use crate::controller::{ControllerDecision, Refusal, Rules, check_count};
use crate::names::SUPPORTED_FEATURES;

const KRAFT_VERSION: &str = "kraft.version";

/// What a change may do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FeatureChange {
    Upgrade,
    Downgrade,
    Unknown,
}

/// Decides on a request.
pub(crate) fn handle(
    rules: Rules<'_>,
    request: &UpdateFeaturesRequest,
    version: i16,
) -> ControllerDecision<UpdateFeaturesResponse> {
    let mut records = Vec::new();
    if let Err(refusal) = check_count(request.feature_updates.len()) {
        return refused(&refusal);
    }
    for update in &request.feature_updates {
        match rules.update_feature(update, kind(update, version)) {
            Ok(record) => records.extend(record),
            Err(refusal) => return refused(&refusal),
        }
    }
    if request.validate_only {
        records.clear();
    }
    // The level of the log comes first: it decides how the other records are encoded.
    records.sort_by_key(|record| !is_metadata_version(record));
    let results = request.feature_updates.iter().filter(|_| version <= 1);
    let results = results.map(|update| {
        UpdatableFeatureResult::default()
            .with_feature(update.feature.clone())
            // Kafka's message for a success.
            .with_error_message(Some(StrBytes::from_static_str("NONE")))
    });
    let response = UpdateFeaturesResponse::default()
        .with_error_message(None)
        .with_results(results.collect());
    ControllerDecision { records, response }
}

fn refused(refusal: &Refusal) -> ControllerDecision<UpdateFeaturesResponse> {
    let message = format!(
        "The update failed for all features since the following feature had an error: {}",
        refusal.message.as_deref().unwrap_or_default()
    );
    let response = UpdateFeaturesResponse::default()
        .with_error_code(refusal.code.code())
        .with_error_message(Some(StrBytes::from_string(message)));
    ControllerDecision {
        records: Vec::new(),
        response,
    }
}

fn is_metadata_version(record: &MetadataRecord) -> bool {
    matches!(record, MetadataRecord::FeatureLevel(level) if level.name == MetadataVersion::FEATURE)
}

fn kind(update: &FeatureUpdateKey, version: i16) -> FeatureChange {
    match (version, update.upgrade_type) {
        (0, _) if update.allow_downgrade => FeatureChange::Downgrade,
        (0, _) | (_, 1) => FeatureChange::Upgrade,
        (_, 2 | 3) => FeatureChange::Downgrade,
        _ => FeatureChange::Unknown,
    }
}

impl Rules<'_> {
    fn update_feature(
        &self,
        update: &FeatureUpdateKey,
        kind: FeatureChange,
    ) -> Result<Option<MetadataRecord>, Refusal> {
        let (name, level) = (update.feature.as_str(), update.max_version_level);
        let invalid = |message: &str| {
            let message = format!("Invalid update version {level} for feature {name}. {message}");
            Err(Refusal::new(ErrorCode::InvalidUpdateVersion, message))
        };
        if kind == FeatureChange::Unknown {
            return invalid("The controller does not support the given upgrade type.");
        }
        if level < 0 {
            return invalid("A feature version cannot be less than 0.");
        }
        if let Some(reason) = self.not_supported(name, level) {
            return invalid(&reason);
        }
        let current = match name {
            MetadataVersion::FEATURE => self.image.metadata_version().0,
            _ => self.image.feature(name),
        };
        if level < current && kind == FeatureChange::Upgrade {
            return invalid(
                "Can't downgrade the version of this feature without setting the upgrade type to \
                 either safe or unsafe downgrade.",
            );
        }
        if level > current && kind != FeatureChange::Upgrade {
            return invalid("Can't downgrade to a newer version.");
        }
        if name == KRAFT_VERSION {
            return invalid("The level of the Raft protocol of a single node does not change.");
        }
        if name == MetadataVersion::FEATURE && level < current {
            return Err(Refusal::new(
                ErrorCode::InvalidUpdateVersion,
                format!(
                    "Unsupported metadata.version downgrade from {current} to {level}. Refusing to \
                     perform the requested downgrade because it might delete metadata information."
                ),
            ));
        }
        let record = FeatureLevelRecord {
            name: name.to_owned(),
            feature_level: level,
        };
        Ok((level != current).then(|| record.into()))
    }

    fn not_supported(&self, name: &str, level: i16) -> Option<String> {
        let node = self.options.node_id.0;
        let mut features = SUPPORTED_FEATURES.iter();
        let Some((_, min, max)) = features.find(|(known, ..)| *known == name) else {
            let reason = format!("Local controller {node} does not support this feature.");
            return (level != 0).then_some(reason);
        };
        let reason = || format!("Local controller {node} only supports versions {min}-{max}");
        (!(*min..=*max).contains(&level)).then(reason)
    }
}

#[cfg(test)]
mod tests;
