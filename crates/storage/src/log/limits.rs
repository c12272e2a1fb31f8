//! Keeps the checkpoint files of the log directory from naming what this log no longer has.
//!
//! A log that was truncated, or was found shorter than the files say, is limited:
//! `checkpoint-limits` in its folder has the most that they may say. Invariants: the file is
//! durable before anything appended after the truncation is; it goes only once files were written
//! that are true of the log as it is, and before its start is reported as saved.
//! It does not: write the checkpoint files; their owner does, and reports it
//! (`Store::checkpointed`).

use std::cell::Cell;
use std::io::ErrorKind;
use std::path::Path;

use platform::Platform;
use platform::clock::Instant;
use platform::disk::{Disk, SMALL_FILE_BYTES_MAX, is_unreadable};
use platform::task::timeout;
use wire::types::Offset;

use super::files::{remove, set_aside};
use super::open::folder::Folder;
use super::recover::RecoveredLog;
use crate::checkpoint::limits::{self, Limits};
use crate::error::{Error, Result};
use crate::log::views::{Flushing, Limiting};
use crate::options::OpenAs;
use crate::store::{LogPoints, Store};

/// The state of a log's limits.
#[derive(Debug, Default)]
pub(super) struct LimitState {
    limits: Cell<Option<Limits>>,
    /// True when the limits are in the file.
    saved: Cell<bool>,
}

/// The limits that were found beside a log.
#[derive(Clone, Copy)]
pub(super) struct FoundLimits(Option<Limits>);

impl FoundLimits {
    /// Reads the file; if it is damaged, it is set aside, and all of the log is checked.
    pub(super) async fn read<P: Platform>(store: &Store<P>, folder: &Folder) -> Result<Self> {
        let path = folder.path.join(limits::FILE);
        let look = &folder.look;
        let damaged = match look.read(store.disk(), &path, SMALL_FILE_BYTES_MAX).await {
            Ok(bytes) => match limits::parse(&path, &bytes) {
                Ok(limits) => return Ok(Self(Some(limits))),
                Err(error) => error.to_string(),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self(None)),
            Err(error) if is_unreadable(&error) => error.to_string(),
            Err(error) => return Err(Error::io("read", &path)(error)),
        };
        tracing::warn!(file = %path.display(), damaged, "all of the log is checked");
        set_aside(store, &path).await?;
        Ok(Self(Some(Limits {
            recovery_point: Offset::ZERO,
            log_start: Offset(i64::MAX),
        })))
    }

    /// Returns `how` within the limits.
    ///
    /// After a clean stop the checkpoints are true and are not limited.
    pub(super) fn limit(self, how: OpenAs) -> OpenAs {
        match self.0 {
            Some(limits) if !how.clean => OpenAs {
                recovery_point: how.recovery_point.min(limits.recovery_point),
                log_start: how.log_start.min(limits.log_start),
                ..how
            },
            _ => how,
        }
    }

    /// Returns the limits of a log that was found to be `recovered`, where the checkpoint files say
    /// `how`.
    pub(super) async fn state<P: Platform>(
        self,
        store: &Store<P>,
        folder: &Path,
        how: OpenAs,
        recovered: &RecoveredLog<P>,
    ) -> Result<LimitState> {
        let true_of = Limits {
            recovery_point: recovered.recovery_point,
            log_start: recovered.log_start,
        };
        let beyond =
            how.recovery_point > true_of.recovery_point || how.log_start > true_of.log_start;
        if !beyond && self.0.is_some() {
            remove_durably(store, folder).await?;
        }
        Ok(LimitState {
            limits: Cell::new(beyond.then_some(true_of)),
            saved: Cell::new(beyond && self.0 == Some(true_of)),
        })
    }
}

async fn remove_durably<P: Platform>(store: &Store<P>, folder: &Path) -> Result<()> {
    remove(store.disk(), &folder.join(limits::FILE)).await?;
    let synced = store.disk().sync_dir(folder).await;
    synced.map_err(Error::dir_sync(folder))
}

impl<P: Platform> Limiting<'_, P> {
    /// Limits the checkpoint files to what is true of a truncated log; they may have named these
    /// offsets.
    ///
    /// The limits are written with the next flush: after a crash before it, the start finds a log
    /// that is shorter than the files say.
    pub(super) fn limit_checkpoints(self, recovery_point: Offset, log_start: Offset) {
        let true_now = Limits {
            recovery_point: self.offsets.recovery_point(),
            log_start: self.offsets.start(),
        };
        let beyond = recovery_point > true_now.recovery_point || log_start > true_now.log_start;
        if beyond || self.is_limited() {
            self.limits.limits.set(Some(true_now));
            self.limits.saved.set(false);
        }
    }

    /// Writes the file if it is out of date; nothing is written to the log before.
    pub(crate) async fn save_limits(self) -> Result<()> {
        let Some(limits) = self
            .limits
            .limits
            .get()
            .filter(|_| !self.limits.saved.get())
        else {
            return Ok(());
        };
        let path = self.folder.join(limits::FILE);
        let bytes = limits::encode(limits);
        let replaced = self.store.disk().replace_file(&path, &bytes).await;
        replaced.map_err(Error::io("write", &path))?;
        self.limits.saved.set(true);
        Ok(())
    }

    pub(crate) fn is_limited(self) -> bool {
        self.limits.limits.get().is_some()
    }

    /// Removes the limits if the checkpoint files, which say `points`, are true of the log as it
    /// is.
    ///
    /// Returns `Busy` when another operation on the log's files does not end before `end`. The
    /// log's files may lie on a path that hangs; those of the checkpoints do not.
    pub(crate) async fn lift_limits(self, points: &LogPoints, end: Instant) -> Result<()> {
        let left = end.saturating_duration_since(self.store.clock().now());
        let rights = async {
            let gate = self.upkeep.gate.acquire().await;
            let gate = gate.map_err(|_| Error::Closed)?;
            Ok((gate, Flushing(self.0).may_write().await?))
        };
        let rights = timeout(left, rights).await;
        // No time is left: the next checkpoint tries again.
        let _rights = rights.unwrap_or(Err(Error::Busy))?;
        // The log may have been closed meanwhile, and its folder opened as another log, which then
        // lifts the limits.
        if self.is_closed() {
            return Err(Error::Busy);
        }
        let is_true = points.recovery_point <= self.offsets.recovery_point()
            && points.log_start <= self.offsets.start();
        if !is_true {
            // The points are older than a truncation: the limits stay, and the caller may not
            // report that they went.
            return Err(Error::Busy);
        }
        if self.is_limited() {
            remove_durably(&self.store, &self.folder).await?;
            self.limits.limits.set(None);
        }
        Ok(())
    }
}
