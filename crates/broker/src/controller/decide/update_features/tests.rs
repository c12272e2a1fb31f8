//! What `UpdateFeatures` answers and writes.

use super::*;
use crate::controller::tests::{apply, options, started};
use crate::image::Image;

const UPGRADE: i8 = 1;
const SAFE_DOWNGRADE: i8 = 2;

fn update(
    image: &Image,
    updates: &[(&str, i16, i8)],
) -> ControllerDecision<UpdateFeaturesResponse> {
    let update = |(name, level, kind): &(&str, i16, i8)| {
        FeatureUpdateKey::default()
            .with_feature(StrBytes::from_string((*name).to_owned()))
            .with_max_version_level(*level)
            .with_upgrade_type(*kind)
    };
    let request =
        UpdateFeaturesRequest::default().with_feature_updates(updates.iter().map(update).collect());
    let options = options();
    let rules = Rules {
        image,
        options: &options,
    };
    handle(rules, &request, 2)
}

/// Returns an image at a level of the log, as a directory of an older Kafka has it.
fn older(level: i16) -> Image {
    let mut image = started();
    for (name, level) in [
        (MetadataVersion::FEATURE, level),
        ("transaction.version", 0),
    ] {
        let record = FeatureLevelRecord {
            name: name.to_owned(),
            feature_level: level,
        };
        apply(&mut image, [record.into()]);
    }
    image
}

#[test]
fn an_older_directory_is_raised_all_at_once() {
    let mut image = older(21);
    let outcome = update(
        &image,
        &[
            ("transaction.version", 2, UPGRADE),
            ("metadata.version", 30, UPGRADE),
        ],
    );
    assert_eq!(outcome.response.error_code, 0);
    assert!(is_metadata_version(&outcome.records[0]));
    apply(&mut image, outcome.records);
    assert_eq!(
        (
            image.metadata_version().0,
            image.feature("transaction.version")
        ),
        (30, 2)
    );
    let again = update(&image, &[("transaction.version", 2, UPGRADE)]);
    assert!(again.records.is_empty());
    let outcome = update(&image, &[("group.version", 0, SAFE_DOWNGRADE)]);
    apply(&mut image, outcome.records);
    assert_eq!(image.feature("group.version"), 0);
}

#[test]
fn one_refusal_is_a_refusal_of_all() {
    let image = older(25);
    for (name, level, kind, says) in [
        (
            "transaction.version",
            3,
            UPGRADE,
            "only supports versions 0-2",
        ),
        ("share.version", 1, UPGRADE, "does not support this feature"),
        (
            "group.version",
            0,
            UPGRADE,
            "Can't downgrade the version of this feature",
        ),
        (
            "transaction.version",
            1,
            SAFE_DOWNGRADE,
            "Can't downgrade to a newer version.",
        ),
        ("group.version", -1, UPGRADE, "cannot be less than 0"),
        (
            "group.version",
            1,
            9,
            "does not support the given upgrade type",
        ),
        (
            "metadata.version",
            6,
            SAFE_DOWNGRADE,
            "only supports versions 7-30",
        ),
        (
            "metadata.version",
            21,
            SAFE_DOWNGRADE,
            "Refusing to perform the requested downgrade",
        ),
        ("kraft.version", 0, SAFE_DOWNGRADE, "of a single node"),
    ] {
        let outcome = update(
            &image,
            &[("metadata.version", 30, UPGRADE), (name, level, kind)],
        );
        assert!(outcome.records.is_empty());
        assert_eq!(
            outcome.response.error_code,
            ErrorCode::InvalidUpdateVersion.code()
        );
        let message = outcome.response.error_message.unwrap();
        assert!(message.contains(says), "{message}");
    }
}

#[test]
fn old_requests_are_answered_feature_by_feature_and_validation_changes_nothing() {
    let image = older(21);
    let key = FeatureUpdateKey::default()
        .with_feature(StrBytes::from_static_str("transaction.version"))
        .with_max_version_level(2)
        .with_upgrade_type(UPGRADE);
    let request = UpdateFeaturesRequest::default()
        .with_validate_only(true)
        .with_feature_updates(vec![key]);
    let options = options();
    let rules = Rules {
        image: &image,
        options: &options,
    };
    let outcome = handle(rules, &request, 1);
    assert!(outcome.records.is_empty());
    let result = &outcome.response.results[0];
    assert_eq!(result.feature.as_str(), "transaction.version");
    assert_eq!(result.error_code, 0);
    assert_eq!(result.error_message.as_deref(), Some("NONE"));
}
