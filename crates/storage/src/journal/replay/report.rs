//! What a replay has done: by ring and by log, as a start of a log directory reports it.

use std::path::{Path, PathBuf};

use wire::types::Offset;

use super::plan::{LogPlan, RefusalReason};
use crate::journal::LogId;
use crate::journal::scan::StopReason;

/// What a replay has done to a log directory.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ReplayReport {
    /// The rings, in the order in which they were named.
    pub rings: Vec<ReplayedRing>,
    /// The logs that have what the rings had of them. Bounded: the logs of the directory.
    pub logs: Vec<ReplayedLog>,
    /// The logs that were refused: what the rings had of them is in files beside them.
    pub refused: Vec<RefusedLog>,
    /// The logs that the directory does not have.
    pub unknown: Vec<UnknownLog>,
}

/// A ring that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplayedRing {
    /// Its file.
    pub path: PathBuf,
    /// The shard that wrote it.
    pub shard: u32,
    /// How many commits it had.
    pub commits: u64,
    /// How many parts were in them.
    pub parts: u64,
    /// How many bytes of logs.
    pub bytes: u64,
    /// Why they ended there.
    pub stopped: StopReason,
}

/// A log that has what a ring had of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplayedLog {
    /// The log.
    pub log: LogId,
    /// Its folder.
    pub folder: PathBuf,
    /// Bytes that the ring had, without those that a later part or cut overruled.
    pub bytes: u64,
    /// Bytes that the segments did not have, or not all of.
    pub written_bytes: u64,
    /// Segments that were made.
    pub made: Vec<Offset>,
    /// Segments that a cut had made void, and that were removed.
    pub removed: Vec<Offset>,
    /// Segments that retention had deleted: the ring's parts of them were left out.
    pub deleted: Vec<Offset>,
    /// The offset at which the log was cut, if it was.
    pub cut: Option<Offset>,
}

/// A log that does not get what a ring had of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RefusedLog {
    /// The log.
    pub log: LogId,
    /// Its folder.
    pub folder: PathBuf,
    /// Why.
    pub reason: RefusalReason,
    /// The files in which its parts are kept.
    pub kept: Vec<PathBuf>,
}

/// A log without a folder in the directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownLog {
    /// The log.
    pub log: LogId,
    /// Bytes that the ring had.
    pub bytes: u64,
    /// The files in which they are kept, when a folder does not say whose it is; otherwise the log
    /// was deleted.
    pub kept: Vec<PathBuf>,
}

impl ReplayReport {
    /// Returns true when every log has what the rings had of it.
    pub fn is_whole(&self) -> bool {
        self.refused.is_empty() && self.unknown.iter().all(|log| log.kept.is_empty())
    }
}

impl ReplayedLog {
    pub(super) fn new(log: LogId, folder: &Path, bytes: u64, plan: &LogPlan) -> Self {
        let made = plan.segments.iter().filter(|one| one.found.is_none());
        Self {
            log,
            folder: folder.to_path_buf(),
            bytes,
            written_bytes: 0,
            made: made.map(|one| one.segment).collect(),
            removed: plan.removed.clone(),
            deleted: plan.deleted.clone(),
            cut: plan.cut.map(|cut| cut.offset),
        }
    }

    /// Notes bytes that a segment did not have.
    pub(super) fn note_written(&mut self, bytes: u64) {
        self.written_bytes = self.written_bytes.saturating_add(bytes);
    }
}
