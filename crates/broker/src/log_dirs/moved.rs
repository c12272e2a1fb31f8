//! What a stop left of logs that were moving from one log directory to another.
//!
//! A log (the same topic, the same partition) that lies in two directories is in the one whose folder has the note of where it came from; the other folder is
//! the old copy and goes. Without such a note both stay, the larger is served, and an error names them. A copy that had not become the log is
//! listed, for whoever removes it and begins again.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use platform::{Disk, Platform};
use storage::OpenAs;
use storage::checkpoint::moved_log::{self, MovedLog};
use wire::types::{TopicId, TopicPartition};

use super::found::Log;
use super::{LogDir, LogDirs, LogDirsError, failed, optional, random_uuid};

/// A log that came from another directory.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) name: TopicPartition,
    /// Position of the directory that it is in now.
    pub(super) index: usize,
    pub(super) moved: MovedLog,
}

/// A copy that had not become the log.
#[derive(Clone, Debug)]
pub(crate) struct Unfinished {
    pub(crate) name: TopicPartition,
    pub(crate) topic_id: Option<TopicId>,
    /// Position of the directory that the log was on its way to.
    pub(crate) index: usize,
    pub(crate) folder: PathBuf,
}

/// How many bytes a log has in a folder. One that cannot be listed is named: how large it is, nobody knows.
async fn bytes_in<P: Platform>(platform: &P, folder: &Path) -> Option<u64> {
    let entries = match platform.disk().list(folder).await {
        Ok(entries) => entries,
        // Nothing is there any more.
        Err(error) if error.kind() == ErrorKind::NotFound => return Some(0),
        Err(error) => {
            tracing::error!(log = %folder.display(), %error, "a log's folder cannot be listed");
            return None;
        }
    };
    let lens = entries.iter().map(|entry| entry.len);
    Some(lens.fold(0, u64::saturating_add))
}

/// The note in a partition's folder, if there is one.
pub(super) async fn read_note<P: Platform>(
    platform: &P,
    folder: &Path,
) -> Result<Option<MovedLog>, LogDirsError> {
    let file = folder.join(moved_log::FILE);
    let bytes = optional(platform, &file).await?;
    Ok(bytes
        .map(|bytes| moved_log::parse(&file, &bytes))
        .transpose()?)
}

impl LogDirs {
    /// Of two that may be the same log, the one that came from the other's directory, and the other.
    fn new_and_old(&self, name: &TopicPartition, one: Log, other: Log) -> Option<(Log, Log)> {
        let came = |to: Log, from: Log| {
            let id = self.at(from.index).id;
            let mut arrived = self.arrived.iter();
            let is_it = |log: &Arrived| log.name == *name && log.index == to.index;
            arrived.any(|log| is_it(log) && log.moved.from == id)
        };
        match (came(one, other), came(other, one)) {
            (true, false) => Some((one, other)),
            (false, true) => Some((other, one)),
            _ => None,
        }
    }

    /// Takes the names from the old copies of logs that have moved, and chooses among those that nothing is noted of: last, for
    /// what a note calls old is no log to choose.
    pub(super) async fn finish_moves<P: Platform>(
        &mut self,
        platform: &P,
    ) -> Result<(), LogDirsError> {
        self.finish_noted(platform).await?;
        for (name, one, other) in self.found.twins() {
            // Of three, one may have been left alone by now.
            let are_there = self.found.has(&name, one) && self.found.has(&name, other);
            // Of one that says nothing and one that says whose it is nobody knows whether they are the same: each topic
            // gets its own, and neither is touched.
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
                // Nobody knows whether they are the same; but what has arrived is the log, even where it cannot be read.
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

    /// Serves the larger of two logs of a topic that nothing says more of, and touches neither. One that cannot be listed
    /// may be the larger: the other does not take its place, for what is written there would part from it.
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

    /// What a log's note adds to the checkpoints, which may be older than its arrival.
    pub(super) fn since_arrival(&self, dir: &LogDir, name: &TopicPartition, how: OpenAs) -> OpenAs {
        let mut here = self.arrived.iter();
        let here = here.find(|log| log.name == *name && self.at(log.index).id == dir.id);
        let Some(Arrived { moved, .. }) = here else {
            return how;
        };
        OpenAs {
            clean: how.clean,
            recovery_point: how.recovery_point.max(moved.recovery_point),
            log_start: how.log_start.max(moved.log_start),
            compacted: how.compacted.max(moved.compacted),
        }
    }

    /// Removes the notes of logs that have arrived: for when the checkpoints have what is in them. While the directory that
    /// a log came from is not here, its old copy may be in it: that part of its note stays.
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

    /// Copies of logs that were on their way to another directory.
    pub(crate) fn unfinished(&self) -> &[Unfinished] {
        &self.unfinished
    }
}
