//! `UpdateFeatures` (key 57), versions 0-2: raises and lowers the levels that the cluster has agreed
//! on. All features of a request change together, or none does.
//!
//! Version 1 brought kinds of change and validation alone; before, a flag allowed lowering. Lowering
//! `metadata.version` is refused always: the log would hold records that the level does not have.
//! The level of the Raft protocol is not in the hands of a single node.

use wire::StrBytes;
use wire::messages::update_features_request::FeatureUpdateKey;
use wire::messages::update_features_response::UpdatableFeatureResult;
use wire::messages::{UpdateFeaturesRequest, UpdateFeaturesResponse};
use wire::records::metadata::{FeatureLevelRecord, MetadataRecord, MetadataVersion};
use wire::types::ErrorCode;

use crate::controller::{Outcome, Refusal, Rules, check_count};
use crate::names::SUPPORTED_FEATURES;

const KRAFT_VERSION: &str = "kraft.version";

/// What a change may do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Upgrade,
    Downgrade,
    Unknown,
}

/// Decides on a request.
pub(crate) fn handle(
    rules: Rules<'_>,
    request: &UpdateFeaturesRequest,
    version: i16,
) -> Outcome<UpdateFeaturesResponse> {
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
    // The level of the log itself first: it decides how the rest is written.
    records.sort_by_key(|record| !is_metadata_version(record));
    let results = request.feature_updates.iter().filter(|_| version <= 1);
    let results = results.map(|update| {
        UpdatableFeatureResult::default()
            .with_feature(update.feature.clone())
            // What Kafka says where nothing is wrong.
            .with_error_message(Some(StrBytes::from_static_str("NONE")))
    });
    let response = UpdateFeaturesResponse::default()
        .with_error_message(None)
        .with_results(results.collect());
    Outcome { records, response }
}

fn refused(refusal: &Refusal) -> Outcome<UpdateFeaturesResponse> {
    let message = format!(
        "The update failed for all features since the following feature had an error: {}",
        refusal.message.as_deref().unwrap_or_default()
    );
    let response = UpdateFeaturesResponse::default()
        .with_error_code(refusal.code.code())
        .with_error_message(Some(StrBytes::from_string(message)));
    Outcome {
        records: Vec::new(),
        response,
    }
}

fn is_metadata_version(record: &MetadataRecord) -> bool {
    matches!(record, MetadataRecord::FeatureLevel(level) if level.name == MetadataVersion::FEATURE)
}

fn kind(update: &FeatureUpdateKey, version: i16) -> Kind {
    match (version, update.upgrade_type) {
        (0, _) if update.allow_downgrade => Kind::Downgrade,
        (0, _) | (_, 1) => Kind::Upgrade,
        (_, 2 | 3) => Kind::Downgrade,
        _ => Kind::Unknown,
    }
}

impl Rules<'_> {
    fn update_feature(
        &self,
        update: &FeatureUpdateKey,
        kind: Kind,
    ) -> Result<Option<MetadataRecord>, Refusal> {
        let (name, level) = (update.feature.as_str(), update.max_version_level);
        let invalid = |message: &str| {
            let message = format!("Invalid update version {level} for feature {name}. {message}");
            Err(Refusal::new(ErrorCode::InvalidUpdateVersion, message))
        };
        if kind == Kind::Unknown {
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
        if level < current && kind == Kind::Upgrade {
            return invalid(
                "Can't downgrade the version of this feature without setting the upgrade type to \
                 either safe or unsafe downgrade.",
            );
        }
        if level > current && kind != Kind::Upgrade {
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
