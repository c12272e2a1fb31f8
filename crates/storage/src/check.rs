//! Reads all files of log directories and checks them against every rule that a log keeps: names,
//! batches (CRC, order, epochs), indexes, producers, checkpoints, identities.
//!
//! Several directories are checked together: log directories, and tier paths that hold segments of
//! the same logs. The broker must not run on them at the same time, because the check would report
//! unfinished writes as damage. Memory is bounded: a window of a data file, the small files of one
//! segment, and the first [`FINDINGS_MAX`] findings.
//! Where a directory was not left by a clean stop, what a killed process leaves is none: behind the
//! recovery point a log may end with a half-written batch, with padding, or with a segment whose
//! predecessor is not complete, because a flush writes to several at once.
//! It does not write or repair, and does not know settings: a gap between offsets is damage unless
//! `cleaner-offset-checkpoint` names the log.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use platform::disk::{Disk, Entry, is_not_now};
use wire::types::Offset;

use crate::backup::recovery_points;
use crate::checkpoint::{clean_shutdown, meta_properties, offsets};
use crate::segment::naming;

mod folder;
mod segment;

/// The number of findings that are kept; more are only counted.
pub const FINDINGS_MAX: usize = 10_000;

/// How serious a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// Nothing is wrong: the next start tidies it up, or it was set aside.
    Note,
    /// A damaged file that the broker rebuilds from others, or that only speeds up reads; or what
    /// the next start takes out of a log whose writing was interrupted.
    Hint,
    /// Records are damaged or missing, or their owner is unknown.
    Damage,
}

impl Severity {
    /// Returns the severity as one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Hint => "hint",
            Self::Damage => "damage",
        }
    }
}

/// Something that the check found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// The file or folder.
    pub path: PathBuf,
    /// The position in the file, in bytes.
    pub position: Option<u64>,
    /// The description.
    pub what: String,
}

/// What the directories hold, and what is wrong with it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Report {
    /// Logs of partitions.
    pub logs: u64,
    /// Segments.
    pub segments: u64,
    /// Batches whose CRC is right.
    pub batches: u64,
    /// Bytes of those batches.
    pub bytes: u64,
    /// The first findings, in the order in which they were met.
    pub findings: Vec<Finding>,
    /// The number of findings of each severity: notes, hints, damage.
    pub counts: [u64; 3],
}

impl Report {
    fn add(
        &mut self,
        severity: Severity,
        path: &Path,
        position: Option<u64>,
        what: impl Into<String>,
    ) {
        let count = match severity {
            Severity::Note => &mut self.counts[0],
            Severity::Hint => &mut self.counts[1],
            Severity::Damage => &mut self.counts[2],
        };
        *count = count.saturating_add(1);
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Finding {
                severity,
                path: path.to_path_buf(),
                position,
                what: what.into(),
            });
        }
    }

    fn note(&mut self, path: &Path, what: impl Into<String>) {
        self.add(Severity::Note, path, None, what);
    }

    fn hint(&mut self, path: &Path, what: impl Into<String>) {
        self.add(Severity::Hint, path, None, what);
    }

    fn damage(&mut self, path: &Path, position: Option<u64>, what: impl Into<String>) {
        self.add(Severity::Damage, path, position, what);
    }

    /// Returns true when there is neither damage nor a hint.
    pub fn is_sound(&self) -> bool {
        self.counts[1] == 0 && self.counts[2] == 0
    }
}

/// Checks everything in `dirs`.
///
/// An error is one of the operating system; it means that the check has no result.
pub async fn check<D: Disk>(disk: &D, dirs: &[PathBuf]) -> std::io::Result<Report> {
    let mut report = Report::default();
    // The folders of each log, by name, in all directories.
    let mut logs: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    let mut compacted = BTreeSet::new();
    let mut unclean = BTreeMap::new();
    for dir in dirs {
        let entries = disk.list(dir).await.map_err(|error| at(dir, &error))?;
        check_dir(disk, dir, &entries, &mut report).await?;
        compacted.extend(compacted_in(disk, dir).await?);
        if !entries
            .iter()
            .any(|entry| entry.name == clean_shutdown::FILE)
        {
            unclean.insert(dir.clone(), points_in(disk, dir).await?);
        }
        for entry in entries {
            let path = dir.join(&entry.name);
            if !entry.is_dir {
                continue;
            }
            if naming::parse_folder_name(&entry.name).is_some() {
                logs.entry(entry.name).or_default().push(path);
            } else if naming::is_deleted_folder(&entry.name) {
                report.note(&path, "a deleted log, removed by the next start");
            } else if naming::parse_future_folder_name(&entry.name).is_some() {
                report.note(&path, "a copy of a log on its way to another directory");
            } else {
                report.note(&path, "not a folder of a log");
            }
        }
    }
    for (name, folders) in &logs {
        report.logs = report.logs.saturating_add(1);
        let known = LogContext {
            name,
            was_compacted: compacted.contains(name),
            unclean: &unclean,
        };
        folder::check(disk, folders, &known, &mut report).await?;
    }
    Ok(report)
}

/// What the directories say about a log.
struct LogContext<'a> {
    /// The name of its folders.
    name: &'a str,
    was_compacted: bool,
    /// The recovery points in the directories that no clean stop left.
    unclean: &'a BTreeMap<PathBuf, BTreeMap<String, Offset>>,
}

/// Returns the recovery points in a directory, by the names of the folders.
async fn points_in<D: Disk>(disk: &D, dir: &Path) -> std::io::Result<BTreeMap<String, Offset>> {
    let file = dir.join(offsets::RECOVERY_POINTS);
    // `check_dir` has already reported anything wrong with it.
    let SmallFileContent::Bytes(bytes) = read(disk, &file, &mut Report::default()).await? else {
        return Ok(BTreeMap::new());
    };
    Ok(recovery_points(&file, &bytes))
}

/// Returns the folders of the logs that were ever compacted, from the checkpoint.
async fn compacted_in<D: Disk>(disk: &D, dir: &Path) -> std::io::Result<Vec<String>> {
    let file = dir.join(offsets::COMPACTED);
    // `check_dir` has already reported anything wrong with it.
    let SmallFileContent::Bytes(bytes) = read(disk, &file, &mut Report::default()).await? else {
        return Ok(Vec::new());
    };
    let entries = offsets::parse(&file, &bytes).unwrap_or_default();
    let names = entries
        .iter()
        .map(|(partition, _)| naming::folder_name(partition));
    Ok(names.collect())
}

/// Checks the small files of a log directory itself.
async fn check_dir<D: Disk>(
    disk: &D,
    dir: &Path,
    entries: &[Entry],
    report: &mut Report,
) -> std::io::Result<()> {
    let identity = dir.join(meta_properties::FILE);
    match read(disk, &identity, report).await? {
        SmallFileContent::Bytes(bytes) => match meta_properties::parse_marked(&identity, &bytes) {
            Ok(meta) if meta.journal.is_some() => report.note(
                &identity,
                "its journal may have bytes that its logs lack: `forebay recover` gives them these",
            ),
            Ok(_) => {}
            Err(error) => report.damage(&identity, None, error.to_string()),
        },
        SmallFileContent::Missing => report.damage(
            &identity,
            None,
            "missing: nobody knows whose directory this is",
        ),
        SmallFileContent::Unreadable => {}
    }
    for name in [
        offsets::RECOVERY_POINTS,
        offsets::LOG_STARTS,
        offsets::HIGH_WATERMARKS,
        offsets::COMPACTED,
    ] {
        let file = dir.join(name);
        // Kafka leaves empty ones behind.
        if let SmallFileContent::Bytes(bytes) = read(disk, &file, report).await?
            && !bytes.is_empty()
            && let Err(error) = offsets::parse(&file, &bytes)
        {
            report.hint(&file, error.to_string());
        }
    }
    let mark = dir.join(clean_shutdown::FILE);
    match read(disk, &mark, report).await? {
        SmallFileContent::Bytes(bytes) => {
            if let Err(error) = clean_shutdown::parse(&mark, &bytes) {
                report.hint(&mark, error.to_string());
            }
        }
        SmallFileContent::Missing if entries.iter().any(|entry| entry.is_dir) => {
            report.note(
                dir,
                "not left by a clean stop: what a start cuts off or finishes is named here, too",
            );
        }
        SmallFileContent::Missing | SmallFileContent::Unreadable => {}
    }
    Ok(())
}

/// The result of reading a small file.
enum SmallFileContent {
    Bytes(Vec<u8>),
    Missing,
    /// Already reported.
    Unreadable,
}

async fn read<D: Disk>(
    disk: &D,
    file: &Path,
    report: &mut Report,
) -> std::io::Result<SmallFileContent> {
    match disk.read_file(file).await {
        Ok(bytes) => Ok(SmallFileContent::Bytes(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(SmallFileContent::Missing),
        Err(error) if is_of_one_file(&error) => {
            report.hint(file, format!("cannot be read: {error}"));
            Ok(SmallFileContent::Unreadable)
        }
        Err(error) => Err(at(file, &error)),
    }
}

/// Returns true for an error that concerns one file only, such as an unreadable block; other files
/// can still be checked.
fn is_of_one_file(error: &std::io::Error) -> bool {
    error.kind() != ErrorKind::PermissionDenied && !is_not_now(error)
}

/// Returns the error with its path added.
fn at(path: &Path, error: &std::io::Error) -> std::io::Error {
    std::io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
