//! `forebay feature describe`: the levels that a broker supports, and those in effect.
//!
//! The supported ones are those of the broker that answers; the others are the cluster's.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde::Serialize;
use wire::messages::ApiVersionsResponse;

use crate::show::{Table, or_dash};
use crate::target::ChosenTarget;

#[derive(Default, Debug, Serialize)]
struct Feature {
    supported_min: Option<i16>,
    supported_max: Option<i16>,
    /// `None` if no level is in effect: the feature is disabled.
    level: Option<i16>,
    /// Counts the changes of levels.
    epoch: Option<i64>,
}

pub(super) fn run(target: &ChosenTarget) -> anyhow::Result<ExitCode> {
    let answer = target.cluster()?.entrance()?.features()?;
    let features = of(&answer);
    target.format.show(&features, || {
        let head = ["FEATURE", "LEVEL", "SUPPORTED", "EPOCH"];
        let mut table = Table::headed(&head);
        for (name, feature) in &features {
            let range = feature.supported_min.zip(feature.supported_max);
            table.row([
                name.clone(),
                or_dash(feature.level),
                or_dash(range.map(|(min, max)| format!("{min} to {max}"))),
                or_dash(feature.epoch),
            ]);
        }
        table.render()
    })?;
    Ok(ExitCode::SUCCESS)
}

fn of(answer: &ApiVersionsResponse) -> BTreeMap<String, Feature> {
    let mut features: BTreeMap<String, Feature> = BTreeMap::new();
    for one in &answer.supported_features {
        let feature = features.entry(one.name.to_string()).or_default();
        feature.supported_min = Some(one.min_version);
        feature.supported_max = Some(one.max_version);
    }
    let epoch = answer.finalized_features_epoch;
    let epoch = (epoch >= 0).then_some(epoch);
    for one in &answer.finalized_features {
        let feature = features.entry(one.name.to_string()).or_default();
        feature.level = Some(one.max_version_level);
        feature.epoch = epoch;
    }
    features
}

#[cfg(test)]
mod tests {
    use wire::messages::api_versions_response::{FinalizedFeatureKey, SupportedFeatureKey};

    use super::*;
    use crate::ask::text;

    #[test]
    fn a_feature_without_a_level_is_shown_and_one_that_this_broker_lacks_too() {
        let supported = SupportedFeatureKey::default()
            .with_name(text("new"))
            .with_max_version(2);
        let in_effect = FinalizedFeatureKey::default()
            .with_name(text("other"))
            .with_max_version_level(7);
        let answer = ApiVersionsResponse::default()
            .with_supported_features(vec![supported])
            .with_finalized_features(vec![in_effect])
            .with_finalized_features_epoch(40);
        let features = of(&answer);
        let shown: Vec<_> = features
            .iter()
            .map(|(name, one)| (name.as_str(), one.supported_max, one.level, one.epoch))
            .collect();
        let new = ("new", Some(2), None, None);
        assert_eq!(shown, [new, ("other", None, Some(7), Some(40))]);
    }
}
