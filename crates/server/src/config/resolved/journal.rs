//! Journals from settings.
//!
//! Invariant: a broker with journals has one directory of rings for each log directory, and no
//! tiers. This module does not look at the directories: the start does.

use std::path::{Path, PathBuf};

use broker::options::JournalSettings;
use storage::JournalOptions;
use storage::journal::RingSize;

use super::super::problem::{Problem, Warning};
use super::super::values::Values;
use super::directories::normal;
use super::{LAND_AFTER, LAND_BYTES, TierSettings};

const BYTES: &str = "journal.bytes";
const DIR: &str = "journal.dir";
const UNLANDED: &str = "journal.unlanded.bytes.max";
const BYPASS: &str = "journal.bypass.bytes";

/// The smallest ring that is of use, in bytes.
const BYTES_LEAST: u64 = 1 << 20;

/// Returns the journals; `None` if there are none.
///
/// `memory_bytes` is what a shard has for unwritten bytes.
pub(super) fn resolve(
    values: &Values,
    (log_dirs, tiers): (&[PathBuf], Option<&TierSettings>),
    memory_bytes: usize,
    (warnings, problems): (&mut Vec<Warning>, &mut Vec<Problem>),
) -> Option<JournalSettings> {
    let bytes = values.int(BYTES).unsigned_abs();
    let dirs = dirs(values, log_dirs, problems);
    if bytes == 0 {
        for key in [DIR, UNLANDED, BYPASS] {
            if let Some(entry) = values.entry(key) {
                let why = "has no effect: journal.bytes is 0, so there is no journal";
                warnings.push(Warning::of(entry, why.into()));
            }
        }
        return None;
    }
    if bytes < BYTES_LEAST {
        let allowed = format!("must be 0 or at least {BYTES_LEAST}");
        problems.push(values.problem(BYTES, allowed));
    }
    if tiers.is_some() {
        let allowed = "must be 0 with tiers: their logs do not use a journal yet";
        problems.push(values.problem(BYTES, allowed));
    }
    // Whole blocks.
    let size = RingSize::new(bytes - bytes % storage::journal::BLOCK)?;
    let share = (memory_bytes / 2 / log_dirs.len().max(1)) as u64;
    Some(JournalSettings {
        size,
        dirs,
        options: JournalOptions {
            bypass_bytes: values.int(BYPASS).unsigned_abs(),
            land_bytes: LAND_BYTES,
            land_after: LAND_AFTER,
            unlanded_bytes_max: values.int(UNLANDED).unsigned_abs().min(share),
        },
    })
}

/// Returns where the rings of each log directory are.
fn dirs(
    values: &Values,
    log_dirs: &[PathBuf],
    problems: &mut Vec<Problem>,
) -> Vec<Option<PathBuf>> {
    let given: Vec<PathBuf> = values.list(DIR).into_iter().map(PathBuf::from).collect();
    if given.len() > 1 && given.len() != log_dirs.len() {
        let allowed = format!(
            "must be one directory, or {}: one for each of log.dirs",
            log_dirs.len()
        );
        problems.push(values.problem(DIR, allowed));
    }
    // Kafka takes every directory in a log directory for a log.
    let is_within = |dir: &PathBuf| {
        let dir = normal(dir);
        let mut around = log_dirs.iter().map(|around| normal(around));
        around.any(|around| dir != around && dir.starts_with(&around))
    };
    if let Some(dir) = given.iter().find(|dir| is_within(dir)) {
        let allowed = format!("must not lie in a log directory, as {} does", dir.display());
        problems.push(values.problem(DIR, allowed));
    }
    let one_for_all = given.first().filter(|_| given.len() == 1);
    let each = log_dirs.iter().enumerate().map(|(index, log_dir)| {
        let dir = one_for_all.or_else(|| given.get(index))?;
        own(dir, log_dir)
    });
    each.collect()
}

/// Returns a directory that is not the log directory, as the next start finds it from anywhere.
fn own(dir: &Path, log_dir: &Path) -> Option<PathBuf> {
    let dir = normal(dir);
    (dir != normal(log_dir)).then_some(dir)
}
