//! The checkpoint files of the log directories: recovery points, log start offsets, high
//! watermarks, and the offsets up to which logs are compacted.
//!
//! Every shard knows the offsets of its own logs; the files cover all logs, so one shard collects
//! the offsets and writes the files. Invariants: a file is replaced as a whole; an offset in it was
//! true when it was collected, and recovery points name only what was durable by then. A file that
//! holds its bytes already is left as it is, so an idle broker writes nothing. A file that cannot
//! be written is retried with the next turn, and logged once a minute, as is a log for which the
//! files are not valid yet.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use platform::sync::SemaphorePermit;
use platform::{Disk, Platform};
use storage::checkpoint::offsets;
use storage::store::LogPoints;
use wire::types::{Offset, TopicPartition};

use crate::Broker;
use crate::names::CONTROLLER_SHARD;
use crate::queues::turn_at;

pub(crate) mod room;
mod saved;

pub(crate) use saved::CheckpointFiles;

/// The files with an entry for each log.
const FILES_OF_ALL_LOGS: [&str; 3] = [
    offsets::LOG_STARTS,
    offsets::HIGH_WATERMARKS,
    offsets::RECOVERY_POINTS,
];

/// The state of a directory's checkpoint files.
#[derive(Clone, PartialEq, Eq, Debug)]
enum CheckpointState {
    /// The files match the logs, except for these logs: their own files were busy, so a start may
    /// accept less than the checkpoints contain.
    But(Vec<TopicPartition>),
    /// A file could not be written, or its state is unknown.
    No,
}

impl CheckpointState {
    fn wholly() -> Self {
        Self::But(Vec::new())
    }

    fn is_whole(&self) -> bool {
        *self == Self::wholly()
    }

    /// Returns the state after another file was written, or not.
    fn and(self, is_written: bool) -> Self {
        if is_written { self } else { Self::No }
    }
}

/// The state of the checkpoint files of some directories.
// Unbounded: the log directories of the settings.
#[derive(Default, Debug)]
// Unbounded: the log directories of the settings.
pub(crate) struct CheckpointStates(BTreeMap<PathBuf, CheckpointState>);

impl CheckpointStates {
    /// Returns whether a log's offsets are durable in the files of a directory.
    pub(crate) fn holds(&self, dir: &Path, log: &TopicPartition) -> bool {
        match self.0.get(dir) {
            Some(CheckpointState::But(busy)) => !busy.contains(log),
            Some(CheckpointState::No) | None => false,
        }
    }
}

impl<P: Platform> Broker<P> {
    /// Writes the checkpoint files of all log directories; false if one could not be written.
    pub async fn checkpoint(&self) -> bool {
        self.checkpoint_all().await.is_empty()
    }

    /// Does so, unless no log has done anything since the last time: to see that its entries are
    /// the same takes a look at each log. Runs on the shard that writes the files.
    pub(crate) async fn checkpoint_what_is_new(self: Rc<Self>) {
        let touches = |broker: Rc<Self>| std::future::ready(broker.store.touches());
        let touches = self.shards.call_all(touches).await;
        if self.checkpoint_files.may_rest(&touches) && self.are_as_written().await {
            return;
        }
        let unwritten = Rc::clone(&self).write_checkpoints().await;
        let all = unwritten.is_empty().then_some(touches);
        self.checkpoint_files.note_rest(all);
    }

    /// Returns true if the files of all directories still read as they were written.
    async fn are_as_written(self: &Rc<Self>) -> bool {
        for dir in &self.log_dirs.dirs {
            let (me, path) = (Rc::clone(self), dir.path.clone());
            let read = async move {
                let mut all = true;
                for name in FILES_OF_ALL_LOGS {
                    let (files, disk) = (&me.checkpoint_files, me.platform.disk());
                    all &= files.is_as_written(disk, &path.join(name)).await;
                }
                all
            };
            if self.while_it_answers(&dir.path, read).await != Some(true) {
                return false;
            }
        }
        true
    }

    /// Writes the checkpoint files of all log directories; returns the directories with a file that
    /// could not be written.
    pub(crate) async fn checkpoint_all(&self) -> Vec<PathBuf> {
        let write = |broker: Rc<Self>| async move { broker.write_checkpoints().await };
        let unwritten = self.shards.call(CONTROLLER_SHARD, write).await;
        let all = || self.log_dirs.dirs.iter().map(|dir| dir.path.clone());
        unwritten.unwrap_or_else(|| all().collect())
    }

    /// Writes the checkpoint files of some directories.
    pub(crate) async fn checkpoint_in(&self, dirs: BTreeSet<PathBuf>) -> CheckpointStates {
        let write = |broker: Rc<Self>| async move {
            let mut written = BTreeMap::new();
            for dir in dirs {
                let how = Rc::clone(&broker).write_checkpoints_in(&dir).await;
                written.insert(dir, how);
            }
            CheckpointStates(written)
        };
        let written = self.shards.call(CONTROLLER_SHARD, write).await;
        // The shard is stopping, so no file counts as written.
        written.unwrap_or_default()
    }

    /// Writes only the recovery points; false if they could not be written.
    pub(crate) async fn checkpoint_saved(&self) -> bool {
        let write = |broker: Rc<Self>| async move {
            let mut all_written = true;
            for dir in &broker.log_dirs.dirs {
                let (me, path) = (Rc::clone(&broker), dir.path.clone());
                let write = async move {
                    let _turn = me.checkpoint_turn(&path).await;
                    let points = me.gathered(&path).await;
                    let written = me.write_recovery_points(&path, points, false).await;
                    written.is_whole()
                };
                all_written &= broker
                    .while_it_answers(&dir.path, write)
                    .await
                    .unwrap_or(false);
            }
            all_written
        };
        self.shards
            .call(CONTROLLER_SHARD, write)
            .await
            .unwrap_or(false)
    }

    /// Writes the offsets up to which the logs of a directory are compacted; false if they could
    /// not be written.
    pub(crate) async fn save_compacted(&self, dir: PathBuf) -> bool {
        let write = |broker: Rc<Self>| async move {
            let (me, path) = (Rc::clone(&broker), dir.clone());
            let write = async move {
                let _turn = me.checkpoint_turn(&path).await;
                let points = me.gathered(&path).await;
                me.write_compacted(&path, &points).await
            };
            let written = broker.while_it_answers(&dir, write).await;
            // The directory hangs, so the file counts as not written.
            written.unwrap_or(false)
        };
        self.shards
            .call(CONTROLLER_SHARD, write)
            .await
            .unwrap_or(false)
    }

    async fn gathered(&self, dir: &Path) -> Arc<[LogPoints]> {
        let dir = dir.to_owned();
        let gathered = self
            .shards
            .call_all(move |broker| std::future::ready(broker.points_of(&dir)));
        gathered.await.into_iter().flatten().collect()
    }

    /// Writes the file of compacted logs, which lists no others; a directory that never had one
    /// gets none.
    async fn write_compacted(&self, dir: &Path, points: &[LogPoints]) -> bool {
        let rows: Vec<_> = points
            .iter()
            .filter_map(|points| Some((points.topic_partition.clone(), points.compacted?)))
            .collect();
        let path = dir.join(offsets::COMPACTED);
        let bytes = offsets::encode(&rows);
        let disk = self.platform.disk();
        if rows.is_empty() {
            match disk.read_file(&path).await {
                Ok(there) if !there.is_empty() && there != bytes => {}
                _ => return true,
            }
        }
        self.write_file(&path, &bytes).await
    }

    /// Writes a checkpoint file unless it holds these bytes; false if it could not be written.
    async fn write_file(&self, path: &Path, bytes: &[u8]) -> bool {
        let disk = self.platform.disk();
        if self.checkpoint_files.holds(disk, path, bytes).await {
            return true;
        }
        self.checkpoint_files.forget(path);
        let written = room::replace(disk, path, bytes).await;
        if written.is_ok() {
            self.checkpoint_files.note(path, bytes);
        }
        self.is_written(path, written)
    }

    /// Counts a checkpoint that could not be written, and logs it at a limited rate: the write is
    /// retried every few seconds.
    fn is_written(&self, path: &Path, written: std::io::Result<()>) -> bool {
        let Err(error) = written else { return true };
        self.metrics.failed_checkpoints.inc();
        let mut unwritten = self.checkpoint_files.unwritten.borrow_mut();
        // One entry for each checkpoint file.
        let seldom = unwritten.entry(path.to_path_buf()).or_default();
        if let Some(unsaid) = seldom.turn(self.platform.clock().now()) {
            tracing::error!(path = %path.display(), %error, unsaid, "cannot write the checkpoint");
        }
        false
    }

    /// Logs, at a limited rate, the logs for which the files are not valid yet: the write is
    /// retried every few seconds.
    fn warn_of_busy(&self, dir: &Path, busy: &[TopicPartition]) {
        let Some(partition) = busy.first() else {
            return;
        };
        let mut unwritten = self.checkpoint_files.unwritten.borrow_mut();
        // One entry for each directory.
        let seldom = unwritten.entry(dir.to_path_buf()).or_default();
        if let Some(unsaid) = seldom.turn(self.platform.clock().now()) {
            tracing::warn!(dir = %dir.display(), %partition, others = busy.len().saturating_sub(1), unsaid,
                "the checkpoints do not hold for a log yet that was cut, for its files are busy: deletions of its records are refused");
        }
    }

    /// Writes the checkpoint files of all directories; returns those that failed.
    ///
    /// A directory that hangs does not stop the others.
    pub(crate) async fn write_checkpoints(self: Rc<Self>) -> Vec<PathBuf> {
        let mut unwritten = Vec::new();
        for dir in &self.log_dirs.dirs {
            let written = Rc::clone(&self).write_checkpoints_in(&dir.path).await;
            if !written.is_whole() {
                unwritten.push(dir.path.clone());
            }
        }
        unwritten
    }

    async fn write_checkpoints_in(self: Rc<Self>, dir: &Path) -> CheckpointState {
        let write = Rc::clone(&self).write_checkpoints_of(dir.to_owned());
        let written = self.while_it_answers(dir, write).await;
        // The directory hangs, so the files count as not written.
        written.unwrap_or(CheckpointState::No)
    }

    async fn write_checkpoints_of(self: Rc<Self>, dir: PathBuf) -> CheckpointState {
        let _turn = self.checkpoint_turn(&dir).await;
        let clock = self.platform.clock();
        let begun = clock.now();
        let points = self.gathered(&dir).await;
        let mut all_written = self.write_compacted(&dir, &points).await;
        let rows = async |file, of: fn(&LogPoints) -> Offset| {
            self.write_rows(&dir, file, &points, of).await
        };
        let with_starts = rows(offsets::LOG_STARTS, |of| of.log_start).await;
        let with_ends = rows(offsets::HIGH_WATERMARKS, |of| of.high_watermark).await;
        all_written &= with_starts & with_ends;
        let all = Arc::clone(&points);
        let written = self.write_recovery_points(&dir, all, with_starts).await;
        if with_starts && with_ends && written != CheckpointState::No {
            self.checkpoint_files.note_points(&dir, points);
        }
        room::regain(self.platform.disk(), &dir, &self.checkpoint_files).await;
        let took = clock.now().saturating_duration_since(begun);
        self.metrics.checkpoint_seconds.observe(took.as_secs_f64());
        written.and(all_written)
    }

    /// Waits for the turn to write the files of a directory, one writer at a time: older offsets
    /// must not replace newer ones.
    async fn checkpoint_turn(&self, dir: &Path) -> Option<SemaphorePermit<'_>> {
        Some(turn_at(self.checkpoint_turns.get(dir)?).await)
    }

    /// Writes the recovery points; `with_starts` if the log start offsets of the same points are
    /// written.
    async fn write_recovery_points(
        &self,
        dir: &Path,
        points: Arc<[LogPoints]>,
        with_starts: bool,
    ) -> CheckpointState {
        let file = offsets::RECOVERY_POINTS;
        let write = self.write_rows(dir, file, &points, |of| of.recovery_point);
        if !write.await {
            return CheckpointState::No;
        }
        let of: Arc<Path> = dir.into();
        // Each shard detects hangs of its own logs; if one gives up, the files count as not
        // written.
        let tell = move |broker: Rc<Self>| {
            let (points, dir, me) = (Arc::clone(&points), Arc::clone(&of), Rc::clone(&broker));
            let told = async move { me.store.checkpointed(&points, with_starts).await };
            async move { broker.while_it_answers(&dir, told).await }
        };
        let busy: Option<Vec<_>> = self.shards.call_all(tell).await.into_iter().collect();
        let Some(busy) = busy else {
            return CheckpointState::No;
        };
        let busy = busy.concat();
        self.warn_of_busy(dir, &busy);
        CheckpointState::But(busy)
    }

    /// Writes one offset of each log into a file; false if it could not be written.
    async fn write_rows(
        &self,
        dir: &Path,
        name: &str,
        points: &[LogPoints],
        of: fn(&LogPoints) -> Offset,
    ) -> bool {
        let (files, path) = (&self.checkpoint_files, dir.join(name));
        if !files.are_from(dir, points) {
            files.forget_points(dir);
        } else if files.is_as_written(self.platform.disk(), &path).await {
            return true;
        }
        let rows = points
            .iter()
            .map(|points| (points.topic_partition.clone(), of(points)));
        let rows: Vec<_> = rows.collect();
        self.write_file(&path, &offsets::encode(&rows)).await
    }
}
