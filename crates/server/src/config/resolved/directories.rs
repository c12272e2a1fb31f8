//! The directories that the broker keeps its data in, as the settings name them.
//!
//! By their text alone: whether they are there, and what is in them, is not looked at here.

use std::path::{Component, Path, PathBuf};

use broker::node_config::CordonedDirs;

use super::super::problem::{Problem, Warning};
use super::super::values::Values;
use super::tiers::TierSettings;

/// Returns the log directories in their order, without repetitions; with tiers, the paths of the
/// first.
pub(super) fn log_dirs(values: &Values, tiers: Option<&TierSettings>) -> Vec<PathBuf> {
    if let Some(first) = tiers.and_then(|tiers| tiers.tiers.first()) {
        return first.paths.iter().map(|path| path.dir.clone()).collect();
    }
    let key = if values.is_given("log.dirs") {
        "log.dirs"
    } else {
        "log.dir"
    };
    let mut dirs: Vec<PathBuf> = Vec::new();
    for dir in values.list(key).into_iter().map(PathBuf::from) {
        if !dirs.contains(&dir) {
            dirs.push(dir);
        }
    }
    dirs
}

/// Returns every directory that the broker keeps its data in: those of logs, and of all tiers.
pub(super) fn owned_dirs(log_dirs: &[PathBuf], tiers: Option<&TierSettings>) -> Vec<PathBuf> {
    let tiers = tiers.iter().flat_map(|tiers| &tiers.tiers);
    let paths = tiers.flat_map(|tier| tier.paths.iter().map(|path| path.dir.clone()));
    let mut all: Vec<PathBuf> = paths.chain(log_dirs.iter().cloned()).collect();
    all.sort();
    all.dedup();
    all
}

/// Checks that `cordoned.log.dirs` names only configured directories.
pub(super) fn check_cordoned(
    values: &Values,
    log_dirs: &[PathBuf],
    tiers: Option<&TierSettings>,
    problems: &mut Vec<Problem>,
) {
    let all = owned_dirs(log_dirs, tiers);
    let key = "cordoned.log.dirs";
    if let CordonedDirs::Only(dirs) = CordonedDirs::parse(&values.string(key))
        && !dirs.iter().all(|dir| all.contains(dir))
    {
        let names: Vec<_> = all.iter().map(|dir| dir.display().to_string()).collect();
        problems.push(values.problem(key, format!("must be *, or some of {}", names.join(", "))));
    }
}

/// Warns about a directory of the metadata log that is none of `log.dirs`: the broker
/// does not look there.
pub(super) fn check_metadata_dir(
    values: &Values,
    log_dirs: &[PathBuf],
    warnings: &mut Vec<Warning>,
) {
    let Some(entry) = values.entry("metadata.log.dir") else {
        return;
    };
    let wanted = normal(Path::new(entry.text()));
    if !entry.text().is_empty() && !log_dirs.iter().any(|dir| normal(dir) == wanted) {
        let why = "the metadata log is looked for in log.dirs only: what is in this directory is not found";
        let advice = "name it in log.dirs, too";
        warnings.push(Warning::of(entry, why.into()).seen_by_clients(advice));
    }
}

/// Returns an absolute path without `.` and `..`, by its text alone; links are not followed.
pub(super) fn normal(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut normal = PathBuf::new();
    for part in absolute.components() {
        if part == Component::ParentDir {
            normal.pop();
        } else {
            normal.push(part);
        }
    }
    normal
}
