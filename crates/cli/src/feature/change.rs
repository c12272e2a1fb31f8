//! `forebay feature upgrade` and `downgrade`: other levels of features (`UpdateFeatures`).
//!
//! The levels of one command are changed together or not at all.

use std::process::ExitCode;
use std::str::FromStr;

use anyhow::bail;
use clap::Args;
use wire::messages::UpdateFeaturesRequest;
use wire::messages::update_features_request::FeatureUpdateKey;
use wire::messages::update_features_response::UpdateFeaturesResponse;

use crate::ask::{Failure, check, text};
use crate::outcome::{self, CommandOutcome};
use crate::property::Property;
use crate::target::ChosenTarget;

/// A feature and its new level.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Level {
    feature: String,
    level: i16,
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not FEATURE=LEVEL");
        let Property { key, value } = text.parse::<Property>().map_err(|_| wrong())?;
        let level = value.trim().parse::<i16>().ok().filter(|&level| level >= 0);
        Ok(Self {
            feature: key,
            level: level.ok_or_else(wrong)?,
        })
    }
}

#[derive(Debug, Args)]
pub(super) struct Upgrade {
    /// Features and their new levels.
    #[arg(required = true, value_name = "FEATURE=LEVEL")]
    levels: Vec<Level>,
    /// Only shows what the command would do.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
pub(super) struct Downgrade {
    /// Features and their new levels; 0 disables.
    #[arg(required = true, value_name = "FEATURE=LEVEL")]
    levels: Vec<Level>,
    /// Also lowers levels where metadata is lost by it.
    #[arg(long)]
    r#unsafe: bool,
    /// Only shows what the command would do.
    #[arg(long)]
    dry_run: bool,
}

/// The kinds of changes, by their numbers in the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    Up = 1,
    Down = 2,
    DownWithLoss = 3,
}

impl Upgrade {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        change(target, &self.levels, Direction::Up, self.dry_run)
    }
}

impl Downgrade {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        let direction = if self.r#unsafe {
            Direction::DownWithLoss
        } else {
            Direction::Down
        };
        change(target, &self.levels, direction, self.dry_run)
    }
}

fn change(
    target: &ChosenTarget,
    levels: &[Level],
    direction: Direction,
    dry_run: bool,
) -> anyhow::Result<ExitCode> {
    let mut cluster = target.cluster()?;
    let within_ms = cluster.within_ms();
    let controller = cluster.controller()?;
    let version = controller.version::<UpdateFeaturesRequest>()?;
    if version < 1 && dry_run {
        bail!(
            "broker {} cannot try a change of features",
            controller.address()
        );
    }
    let updates = levels.iter().map(|one| one.update(version, direction));
    let request = UpdateFeaturesRequest::default()
        .with_timeout_ms(within_ms)
        .with_feature_updates(updates.collect())
        .with_validate_only(dry_run);
    let answer = controller.ask(version, &request)?;
    let outcomes = levels.iter().map(|one| {
        let result = result(version, &answer, &one.feature);
        let done = format!("at level {}", one.level);
        CommandOutcome::tried(&one.feature, result, &done, dry_run)
    });
    outcome::show(target.format, "FEATURE", &outcomes.collect::<Vec<_>>())
}

impl Level {
    fn update(&self, version: i16, direction: Direction) -> FeatureUpdateKey {
        let update = FeatureUpdateKey::default()
            .with_feature(text(&self.feature))
            .with_max_version_level(self.level);
        // Version 0 has no word for the loss of metadata.
        if version < 1 {
            update.with_allow_downgrade(direction != Direction::Up)
        } else {
            update.with_upgrade_type(direction as i8)
        }
    }
}

/// Returns what became of a feature: since version 2 all have one error, and no others.
fn result(version: i16, answer: &UpdateFeaturesResponse, feature: &str) -> Result<(), Failure> {
    check(answer.error_code, answer.error_message.as_ref())?;
    let mut results = answer.results.iter();
    match results.find(|result| result.feature.as_str() == feature) {
        Some(result) => Ok(check(result.error_code, result.error_message.as_ref())?),
        None if version < 2 => Err(Failure::LeftOut),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use wire::messages::update_features_response::UpdatableFeatureResult;
    use wire::types::ErrorCode;

    use super::*;

    #[test]
    fn levels_are_small_numbers() {
        let level = "metadata.version=25".parse::<Level>().unwrap();
        assert_eq!(
            (level.feature.as_str(), level.level),
            ("metadata.version", 25)
        );
        for wrong in ["a", "=1", "a=", "a=-1", "a=4.0", "a=40000"] {
            assert!(wrong.parse::<Level>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_error_is_that_of_the_feature_or_of_all() {
        let of = |feature: &str, error: i16| {
            UpdatableFeatureResult::default()
                .with_feature(text(feature))
                .with_error_code(error)
                .with_error_message(None)
        };
        let results = vec![of("a", 95), of("b", 0)];
        let answer = UpdateFeaturesResponse::default().with_results(results);
        let refused = Err(ErrorCode::InvalidUpdateVersion.into());
        assert_eq!(result(1, &answer, "a"), refused);
        assert_eq!(result(1, &answer, "b"), Ok(()));
        assert_eq!(result(1, &answer, "c"), Err(Failure::LeftOut));
        let all = UpdateFeaturesResponse::default();
        assert_eq!(result(2, &all, "c"), Ok(()), "there is no error");
        let all = all.with_error_code(95);
        for version in 0..=2 {
            assert!(result(version, &all, "c").is_err());
        }
    }

    #[test]
    fn an_old_broker_is_asked_in_its_own_words() {
        let level: Level = "a=1".parse().unwrap();
        assert!(!level.update(0, Direction::Up).allow_downgrade);
        let old = level.update(0, Direction::DownWithLoss);
        assert!(old.allow_downgrade && old.upgrade_type == 1);
        let new = level.update(2, Direction::DownWithLoss);
        assert!(!new.allow_downgrade && new.upgrade_type == 3);
    }
}
