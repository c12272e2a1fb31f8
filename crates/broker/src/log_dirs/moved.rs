//! Logs that were moving from one log directory to another when the process ended.
//!
//! A log (the same topic, the same partition) that is in two directories is the one whose folder
//! has the note of where it came from; the other folder is the old copy and is removed. Without
//! such a note both stay, the larger is served, and an error names them. A copy that had not yet
//! replaced the log is listed, for the caller that removes it and starts again.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use platform::{Disk, Platform};
use storage::OpenAs;
use storage::checkpoint::moved_log::{self, MovedLog};
use wire::types::{TopicId, TopicPartition};

use super::found::Log;
use super::{LogDir, LogDirs, LogDirsError, failed, random_uuid};

/// A log that came from another directory.
#[derive(Debug)]
pub(super) struct ArrivedLog {
    pub(super) name: TopicPartition,
    /// Index of its current directory.
    pub(super) index: usize,
    pub(super) moved: MovedLog,
}

/// A copy that had not yet replaced the log.
#[derive(Clone, Debug)]
pub(crate) struct UnfinishedMove {
    pub(crate) name: TopicPartition,
    pub(crate) topic_id: Option<TopicId>,
    /// Index of the directory that the log was moving to.
    pub(crate) index: usize,
    pub(crate) folder: PathBuf,
}

/// Returns the bytes of a log in a folder; `None`, with an error in the log, if the folder cannot
/// be listed.
async fn bytes_in<P: Platform>(platform: &P, folder: &Path) -> Option<u64> {
    let entries = match platform.disk().list(folder).await {
        Ok(entries) => entries,
        // The folder is gone.
        Err(error) if error.kind() == ErrorKind::NotFound => return Some(0),
        Err(error) => {
            tracing::error!(log = %folder.display(), %error, "a log's folder cannot be listed");
            return None;
        }
    };
    let lens = entries.iter().map(|entry| entry.len);
    Some(lens.fold(0, u64::saturating_add))
}

impl LogDirs {
    /// Returns two folders that may be the same log in order: the one that came from the other's
    /// directory first.
    fn new_and_old(&self, name: &TopicPartition, one: Log, other: Log) -> Option<(Log, Log)> {
        let came = |to: Log, from: Log| {
            let id = self.at(from.index).id;
            let mut arrived = self.arrived.iter();
            let is_it = |log: &ArrivedLog| log.name == *name && log.index == to.index;
            arrived.any(|log| is_it(log) && log.moved.from == id)
        };
        match (came(one, other), came(other, one)) {
            (true, false) => Some((one, other)),
            (false, true) => Some((other, one)),
            _ => None,
        }
    }

    /// Renames the old copies of moved logs, and then chooses between duplicates without a note.
    ///
    /// The order matters, because what a note identifies as old is not a candidate.
    pub(super) async fn finish_moves<P: Platform>(
        &mut self,
        platform: &P,
    ) -> Result<(), LogDirsError> {
        self.finish_noted(platform).await?;
        for (name, one, other) in self.found.twins() {
            // Of three folders, one may be dropped already.
            let are_there = self.found.has(&name, one) && self.found.has(&name, other);
            // It is unknown whether a folder with a topic id and one without are the same log: each
            // topic gets its own, and neither is touched.
            if are_there && one.id == other.id && self.new_and_old(&name, one, other).is_none() {
                self.choose(platform, name, one, other).await;
            }
        }
        Ok(())
    }

    async fn finish_noted<P: Platform>(&mut self, platform: &P) -> Result<(), LogDirsError> {
        for (name, one, other) in self.found.twins() {
            let Some((new, old)) = self.new_and_old(&name, one, other) else {
                continue;
            };
            if !self.found.has(&name, new) || !self.found.has(&name, old) {
                continue;
            }
            if new.id != old.id {
                // It is unknown whether the two are the same log; but the folder that arrived is
                // the log, even if it cannot be read.
                if new.id.is_none() {
                    self.found.forget(&name, old);
                }
                continue;
            }
            let dir = self.at(old.index).path.clone();
            let from = dir.join(name.to_string());
            let unique = random_uuid(platform);
            let to = dir.join(storage::deleted_folder_name(&name, unique));
            let renamed = platform.disk().rename(&from, &to).await;
            renamed.map_err(failed("rename", &from))?;
            let synced = platform.disk().sync_dir(&dir).await;
            synced.map_err(failed("sync", &dir))?;
            self.found.forget(&name, old);
        }
        Ok(())
    }

    /// Serves the larger of two logs of a topic without a note, and touches neither.
    ///
    /// A folder that cannot be listed may be the larger, so the other one does not replace it: new
    /// records there would diverge from it.
    async fn choose<P: Platform>(
        &mut self,
        platform: &P,
        name: TopicPartition,
        one: Log,
        other: Log,
    ) {
        let (dir, other_dir) = (self.at(one.index), self.at(other.index));
        let (folder, other_folder) = (name.to_string(), name.to_string());
        let (folder, other_folder) = (dir.path.join(folder), other_dir.path.join(other_folder));
        let bytes = bytes_in(platform, &folder).await;
        let other_bytes = bytes_in(platform, &other_folder).await;
        let is_other_larger = match (bytes, other_bytes) {
            (Some(bytes), Some(other_bytes)) => other_bytes > bytes,
            (Some(_), None) => true,
            (None, _) => false,
        };
        let (here, there) = ((folder, bytes, one), (other_folder, other_bytes, other));
        let (served, left) = if is_other_larger {
            (there, here)
        } else {
            (here, there)
        };
        tracing::error!(log = %name, served = %served.0.display(), served_bytes = served.1,
            left_alone = %left.0.display(), left_alone_bytes = left.1,
            "a log lies in two directories: the larger is served, or one whose size is not known; the other is left alone. \
             Stop, look into it, and move the one that is not wanted away");
        let not_served = left.2;
        self.found.forget(&name, not_served);
    }

    /// Merges a log's note into the checkpoints, which may be older than its arrival.
    pub(super) fn since_arrival(&self, dir: &LogDir, name: &TopicPartition, how: OpenAs) -> OpenAs {
        let mut here = self.arrived.iter();
        let here = here.find(|log| log.name == *name && self.at(log.index).id == dir.id);
        let Some(ArrivedLog { moved, .. }) = here else {
            return how;
        };
        OpenAs {
            clean: how.clean,
            recovery_point: how.recovery_point.max(moved.recovery_point),
            log_start: how.log_start.max(moved.log_start),
            compacted: how.compacted.max(moved.compacted),
        }
    }

    /// Removes the notes of logs that have arrived, once the checkpoints contain them.
    ///
    /// While the directory that a log came from is missing, it may hold the old copy: that part of
    /// the note stays.
    pub(crate) async fn forget_arrivals<P: Platform>(&self, platform: &P) {
        for log in &self.arrived {
            let dir = self.at(log.index);
            let note = dir.path.join(log.name.to_string()).join(moved_log::FILE);
            let from = log.moved.from;
            let forgotten = if self.dirs.iter().any(|dir| dir.id == from) {
                platform.disk().remove_file(&note).await
            } else {
                let left = MovedLog::only_from(from);
                if log.moved == left {
                    continue;
                }
                let bytes = moved_log::encode(&left);
                platform.disk().replace_file(&note, &bytes).await
            };
            match forgotten {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    tracing::warn!(file = %note.display(), %error, "a note that is not needed stays");
                }
                _ => {}
            }
        }
    }

    /// Returns the copies of logs that were moving to another directory.
    pub(crate) fn unfinished(&self) -> &[UnfinishedMove] {
        &self.unfinished
    }
}
