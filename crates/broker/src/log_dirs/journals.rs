//! The journals of log directories at a start: what they have goes into the logs before these are
//! opened.
//!
//! Invariants: a directory is left cleanly, or its journal counts, never both; folders of deleted
//! logs go first, since a replay may need room. Not here: the journals that this process writes
//! (`crate::journals`).

use std::path::{Path, PathBuf};

use platform::{Disk, Platform};
use storage::journal::JournalError;
use storage::journal::replay::ReplayReport;
use storage::journal::start::{UnsettledDirectory, settle};

use super::{LogDirs, LogDirsError, OperatorConsent};
use crate::checkpoints::room;

/// Logs that do not have what the journals had of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RefusedLogs {
    /// How many: one at least.
    pub count: usize,
    /// One of them, and where its bytes are.
    pub example: String,
}

impl LogDirs {
    /// Replays the journal of a directory whose mark says that it counts; it may be in `also_in`
    /// now.
    pub(super) async fn settle<P: Platform>(
        &mut self,
        platform: &P,
        path: &Path,
        also_in: &[PathBuf],
    ) -> Result<(), LogDirsError> {
        let began = platform.clock().now();
        storage::remove_some_leftovers(platform.disk(), path).await?;
        let unsettled = unsettled(path, also_in, self.told);
        let mut settled = settle(platform, &unsettled).await;
        if settled.as_ref().is_err_and(JournalError::is_full) {
            // What is kept for checkpoints may be enough; they get room again when there is some.
            let kept = path.join(room::FILE);
            let removed = platform.disk().remove_file(&kept).await;
            tracing::warn!(dir = %path.display(), was_there = removed.is_ok(),
                "the disk has no room for what the journal has: it gets that which was kept for checkpoints");
            settled = settle(platform, &unsettled).await;
        }
        let settled = settled?;
        let took = platform.clock().now().saturating_duration_since(began);
        tell(path, &settled.report, took.as_millis());
        self.refused.extend(settled.report.refused);
        Ok(())
    }

    /// Returns the logs that do not have what the journals had of them, if there are any.
    pub fn refused_logs(&self) -> Option<RefusedLogs> {
        let first = self.refused.first()?.folder.display();
        Some(RefusedLogs {
            count: self.refused.len(),
            example: format!(
                "{first}: what the journal had of it is kept in files beside its segments"
            ),
        })
    }
}

/// Describes a directory whose rings may be in `also_in` now.
pub(super) fn unsettled<'a>(
    path: &'a Path,
    also_in: &'a [PathBuf],
    told: OperatorConsent,
) -> UnsettledDirectory<'a> {
    UnsettledDirectory {
        path,
        rings_dir: None,
        also_in,
        gives_up: told.forget_journals,
    }
}

/// Logs what a replay has done.
fn tell(dir: &Path, report: &ReplayReport, took_ms: u128) {
    let of_rings = report.rings.iter();
    let (commits, bytes) = of_rings.fold((0_u64, 0_u64), |(commits, bytes), ring| {
        let commits = commits.saturating_add(ring.commits);
        (commits, bytes.saturating_add(ring.bytes))
    });
    let written = report.logs.iter().map(|log| log.written_bytes);
    let written_bytes = written.fold(0, u64::saturating_add);
    tracing::info!(dir = %dir.display(), rings = report.rings.len(), commits, bytes, written_bytes,
        logs = report.logs.len(), took_ms, "the journal was replayed");
    for log in &report.refused {
        tracing::error!(log = %log.folder.display(), reason = %log.reason, kept = ?log.kept,
            "the log does not fit to what the journal has of it: that is kept in files beside its segments");
    }
    for log in report.unknown.iter().filter(|log| !log.kept.is_empty()) {
        tracing::error!(topic_id = %log.log.topic_id, partition = log.log.partition, kept = ?log.kept,
            "no folder says that it is of this log, and the journal has bytes of it: they are kept in files");
    }
}
