//! Keeping the checkpoint files of the log directory from speaking of what this log has no more.
//!
//! A log that was cut, or was found shorter than the files say, is limited: `checkpoint-limits` in its folder says what they
//! may say at most. Invariants: it is durable before anything appended after the cut is; it goes only once files were
//! written that are true of the log as it is, and before anybody is told that its start was saved.
//! It does not write the checkpoint files: their owner does, and says so (`Store::checkpointed`).

use std::cell::Cell;
use std::io::ErrorKind;
use std::path::Path;

use platform::Platform;
use platform::clock::Instant;
use platform::disk::{Disk, is_unreadable};
use platform::task::timeout;
use wire::types::Offset;

use super::Log;
use super::open::{remove, set_aside};
use super::recover::Recovered;
use crate::checkpoint::limits::{self, Limits};
use crate::error::{Error, Result};
use crate::options::OpenAs;
use crate::store::{LogPoints, Store};

/// What a log knows of its limits.
#[derive(Debug, Default)]
pub(super) struct State {
    limits: Cell<Option<Limits>>,
    /// They are in the file.
    saved: Cell<bool>,
}

/// What was found beside a log.
#[derive(Clone, Copy)]
pub(super) struct Found(Option<Limits>);

impl Found {
    /// Reads the file. One that is damaged is set aside, and nothing of the log goes unchecked.
    pub(super) async fn read<P: Platform>(store: &Store<P>, folder: &Path) -> Result<Self> {
        let path = folder.join(limits::FILE);
        let damaged = match store.disk().read_file(&path).await {
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

    /// What is known of the log, as far as it is true. What a clean stop has saved is.
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

    /// The limits of a log that was found to be `recovered`, of which the checkpoint files say `how`.
    pub(super) async fn state<P: Platform>(
        self,
        store: &Store<P>,
        folder: &Path,
        how: OpenAs,
        recovered: &Recovered<P>,
    ) -> Result<State> {
        let true_of = Limits {
            recovery_point: recovered.recovery_point,
            log_start: recovered.log_start,
        };
        let beyond =
            how.recovery_point > true_of.recovery_point || how.log_start > true_of.log_start;
        if !beyond && self.0.is_some() {
            remove_durably(store, folder).await?;
        }
        Ok(State {
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

impl<P: Platform> Log<P> {
    /// Limits the checkpoint files to what is true of a log that was cut; before that they may have named these. Written
    /// with the next flush: after a crash until then the start finds a log that is shorter than they say.
    pub(super) fn limit_checkpoints(&self, recovery_point: Offset, log_start: Offset) {
        let true_now = Limits {
            recovery_point: self.recovery_point.get(),
            log_start: self.start.get(),
        };
        let beyond = recovery_point > true_now.recovery_point || log_start > true_now.log_start;
        if beyond || self.is_limited() {
            self.limits.limits.set(Some(true_now));
            self.limits.saved.set(false);
        }
    }

    /// Writes the file if it is not what it should be. Nothing is written to the log before.
    pub(crate) async fn save_limits(&self) -> Result<()> {
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

    pub(crate) fn is_limited(&self) -> bool {
        self.limits.limits.get().is_some()
    }

    /// The checkpoint files say `points`: the limits go if that is true of the log as it is. `Busy`: not now, for until `end` something
    /// else was done to the log's files. They may lie on a path that hangs; those of the checkpoints do not.
    pub(crate) async fn lift_limits(&self, points: &LogPoints, end: Instant) -> Result<()> {
        let left = end.saturating_duration_since(self.store.clock().now());
        let rights = async {
            let gate = self.upkeep.gate.acquire().await;
            let gate = gate.map_err(|_| Error::Closed)?;
            Ok((gate, self.may_write().await?))
        };
        let rights = timeout(left, rights).await;
        // No time is left: the next checkpoint tries again.
        let _rights = rights.unwrap_or(Err(Error::Busy))?;
        // It may have been closed meanwhile, and its folder be another's: whoever opens that sees to it.
        if self.is_closed() {
            return Err(Error::Busy);
        }
        let is_true = points.recovery_point <= self.recovery_point.get()
            && points.log_start <= self.start.get();
        if is_true && self.is_limited() {
            remove_durably(&self.store, &self.folder).await?;
            self.limits.limits.set(None);
        }
        Ok(())
    }
}
