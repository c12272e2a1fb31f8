//! What a stop left of logs that were moving from one log directory to another.
//!
//! A log that lies in two directories is in the one whose folder has the note of where it came from; the other folder is
//! the old copy and goes. Without such a note both stay, the larger is served, and an error names them. A copy that had not become the log is
//! listed, for whoever removes it and begins again.

use std::path::{Path, PathBuf};

use platform::{Disk, Platform};
use storage::OpenAs;
use storage::checkpoint::moved_log::{self, MovedLog};
use wire::types::{TopicId, TopicPartition};

use super::{
    LogDir, LogDirs, LogDirsError, failed, optional, random_uuid, read_topic_id, understood,
};

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

async fn bytes_in<P: Platform>(platform: &P, folder: &Path) -> u64 {
    let entries = platform.disk().list(folder).await.unwrap_or_default();
    let lens = entries.iter().map(|entry| entry.len);
    lens.fold(0, u64::saturating_add)
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
    /// Takes the names from the old copies of logs that have moved.
    pub(super) async fn finish_moves<P: Platform>(
        &mut self,
        platform: &P,
    ) -> Result<(), LogDirsError> {
        for (name, one, other) in std::mem::take(&mut self.twins) {
            let came = |to: usize, from: usize| {
                let id = self.dirs.get(from).map(|dir| dir.id);
                let mut arrived = self.arrived.iter();
                arrived.any(|log| log.name == name && log.index == to && Some(log.moved.from) == id)
            };
            let (new, old) = match (came(one, other), came(other, one)) {
                (true, false) => (one, other),
                (false, true) => (other, one),
                _ => {
                    self.choose(platform, name, one, other).await;
                    continue;
                }
            };
            let dir = self.dirs[old].path.clone();
            let from = dir.join(name.to_string());
            let unique = random_uuid(platform);
            let to = dir.join(storage::deleted_folder_name(&name, unique));
            let renamed = platform.disk().rename(&from, &to).await;
            renamed.map_err(failed("rename", &from))?;
            let synced = platform.disk().sync_dir(&dir).await;
            synced.map_err(failed("sync", &dir))?;
            let id = self.found.get(&name).and_then(|(_, id)| *id);
            self.found.insert(name, (new, id));
        }
        Ok(())
    }

    /// Serves the larger of two logs that nothing says more of, and touches neither.
    async fn choose<P: Platform>(
        &mut self,
        platform: &P,
        name: TopicPartition,
        one: usize,
        other: usize,
    ) {
        let (Some(dir), Some(other_dir)) = (self.dirs.get(one), self.dirs.get(other)) else {
            return;
        };
        let folder = name.to_string();
        let bytes = bytes_in(platform, &dir.path.join(&folder)).await;
        let other_bytes = bytes_in(platform, &other_dir.path.join(&folder)).await;
        let (served, left) = if other_bytes > bytes {
            (other_dir, dir)
        } else {
            (dir, other_dir)
        };
        let (served, left) = (served.path.join(&folder), left.path.join(&folder));
        tracing::error!(log = %name, served = %served.display(), served_bytes = bytes.max(other_bytes),
            left_alone = %left.display(), left_alone_bytes = bytes.min(other_bytes),
            "a log lies in two directories: the larger is served, the other is left alone. Stop, look into it, and move \
             the one that is not wanted away");
        let index = if other_bytes > bytes { other } else { one };
        let id = understood(read_topic_id(platform, &served).await, &served).flatten();
        self.found.insert(name, (index, id));
    }

    /// What a log's note adds to the checkpoints, which may be older than its arrival.
    pub(super) fn since_arrival(&self, dir: &LogDir, name: &TopicPartition, how: OpenAs) -> OpenAs {
        let mut here = self.arrived.iter();
        let here = here.find(|log| {
            let in_dir = self.dirs.get(log.index).is_some_and(|at| at.id == dir.id);
            log.name == *name && in_dir
        });
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

    /// Removes the notes of logs that have arrived: for when the checkpoints have what is in them.
    pub(crate) async fn forget_arrivals<P: Platform>(&self, platform: &P) {
        for log in &self.arrived {
            let Some(dir) = self.dirs.get(log.index) else {
                continue;
            };
            let note = dir.path.join(log.name.to_string()).join(moved_log::FILE);
            match platform.disk().remove_file(&note).await {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
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
