//! The checkpoint files of the log directories: recovery points, log start offsets, high watermarks, and
//! up to where logs are compacted.
//!
//! Every shard knows the positions of its own logs; the files are for all of them, so one shard gathers and writes.
//! Invariants: a file is replaced as a whole; a position in it was true when it was gathered, and recovery points only
//! name what was durable by then. A file that cannot be written is tried again with the next turn, and named once a minute, as is a log
//! for which the files do not hold yet.

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

/// How the checkpoint files of a directory are.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Written {
    /// As the logs are, but for these: a start may take less than the files say for true of them, whose own files were busy.
    But(Vec<TopicPartition>),
    /// One could not be written, or nobody knows.
    No,
}

impl Written {
    fn wholly() -> Self {
        Self::But(Vec::new())
    }

    fn is_whole(&self) -> bool {
        *self == Self::wholly()
    }

    /// Not, if another file could not be written either.
    fn and(self, is_written: bool) -> Self {
        if is_written { self } else { Self::No }
    }
}

/// What became of the checkpoint files of some directories.
// Unbounded: the log directories of the settings.
#[derive(Default, Debug)]
// Unbounded: the log directories of the settings.
pub(crate) struct Checkpointed(BTreeMap<PathBuf, Written>);

impl Checkpointed {
    /// Whether what a log has to say in the files of a directory is durable there.
    pub(crate) fn holds(&self, dir: &Path, log: &TopicPartition) -> bool {
        match self.0.get(dir) {
            Some(Written::But(busy)) => !busy.contains(log),
            Some(Written::No) | None => false,
        }
    }
}

impl<P: Platform> Broker<P> {
    /// Writes the checkpoint files of all log directories; false when one could not be written.
    pub async fn checkpoint(&self) -> bool {
        self.checkpoint_all().await.is_empty()
    }

    /// The same; says of which directories one could not be written.
    pub(crate) async fn checkpoint_all(&self) -> Vec<PathBuf> {
        let write = |broker: Rc<Self>| async move { broker.write_checkpoints().await };
        let unwritten = self.shards.call(CONTROLLER_SHARD, write).await;
        let all = || self.log_dirs.dirs.iter().map(|dir| dir.path.clone());
        unwritten.unwrap_or_else(|| all().collect())
    }

    /// Writes the checkpoint files of some directories.
    pub(crate) async fn checkpoint_in(&self, dirs: BTreeSet<PathBuf>) -> Checkpointed {
        let write = |broker: Rc<Self>| async move {
            let mut written = BTreeMap::new();
            for dir in dirs {
                let how = Rc::clone(&broker).write_checkpoints_in(&dir).await;
                written.insert(dir, how);
            }
            Checkpointed(written)
        };
        let written = self.shards.call(CONTROLLER_SHARD, write).await;
        // The shard ends: nothing says that any was written.
        written.unwrap_or_default()
    }

    /// Writes only how far the logs have been saved; false when that could not be written.
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

    /// Writes up to where each log of a directory is compacted; false when that could not be written.
    pub(crate) async fn save_compacted(&self, dir: PathBuf) -> bool {
        let write = |broker: Rc<Self>| async move {
            let (me, path) = (Rc::clone(&broker), dir.clone());
            let write = async move {
                let _turn = me.checkpoint_turn(&path).await;
                let points = me.gathered(&path).await;
                me.write_compacted(&path, &points).await
            };
            let written = broker.while_it_answers(&dir, write).await;
            // Given up: nothing says that it was written.
            written.unwrap_or(false)
        };
        self.shards
            .call(CONTROLLER_SHARD, write)
            .await
            .unwrap_or(false)
    }

    async fn gathered(&self, dir: &Path) -> Vec<LogPoints> {
        let dir = dir.to_owned();
        let gathered = self
            .shards
            .call_all(move |broker| std::future::ready(broker.points_of(&dir)));
        gathered.await.into_iter().flatten().collect()
    }

    /// Only logs that are compacted are in this file; where there never was one, there is no file.
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
        self.is_written(&path, room::replace(disk, &path, &bytes).await)
    }

    /// Counts a checkpoint that could not be written, and says so now and then: it is tried again every few seconds.
    fn is_written(&self, path: &Path, written: std::io::Result<()>) -> bool {
        let Err(error) = written else { return true };
        self.metrics.failed_checkpoints.inc();
        let mut unwritten = self.unwritten.borrow_mut();
        // There are as many as there are checkpoint files.
        let seldom = unwritten.entry(path.to_path_buf()).or_default();
        if let Some(unsaid) = seldom.turn(self.platform.clock().now()) {
            tracing::error!(path = %path.display(), %error, unsaid, "cannot write the checkpoint");
        }
        false
    }

    /// Says of logs for which the files do not hold yet, now and then: it is tried again every few seconds.
    fn warn_of_busy(&self, dir: &Path, busy: &[TopicPartition]) {
        let Some(partition) = busy.first() else {
            return;
        };
        let mut unwritten = self.unwritten.borrow_mut();
        // There are as many as there are directories.
        let seldom = unwritten.entry(dir.to_path_buf()).or_default();
        if let Some(unsaid) = seldom.turn(self.platform.clock().now()) {
            tracing::warn!(dir = %dir.display(), %partition, others = busy.len().saturating_sub(1), unsaid,
                "the checkpoints do not hold for a log yet that was cut, for its files are busy: deletions of its records are refused");
        }
    }

    /// One that hangs keeps no other directory from being written.
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

    async fn write_checkpoints_in(self: Rc<Self>, dir: &Path) -> Written {
        let write = Rc::clone(&self).write_checkpoints_of(dir.to_owned());
        let written = self.while_it_answers(dir, write).await;
        // Given up: nothing says that they were written.
        written.unwrap_or(Written::No)
    }

    async fn write_checkpoints_of(self: Rc<Self>, dir: PathBuf) -> Written {
        let _turn = self.checkpoint_turn(&dir).await;
        let points = self.gathered(&dir).await;
        let mut all_written = self.write_compacted(&dir, &points).await;
        let starts = rows(&points, |p| p.log_start);
        let with_starts = self.write_rows(&dir, offsets::LOG_STARTS, &starts).await;
        all_written &= with_starts;
        let watermarks = rows(&points, |p| p.high_watermark);
        let file = offsets::HIGH_WATERMARKS;
        all_written &= self.write_rows(&dir, file, &watermarks).await;
        let written = self.write_recovery_points(&dir, points, with_starts).await;
        room::regain(self.platform.disk(), &dir).await;
        written.and(all_written)
    }

    /// Waits for the turn to write the files of a directory. One at a time: an older gathering must not replace the file of a
    /// newer one.
    async fn checkpoint_turn(&self, dir: &Path) -> Option<SemaphorePermit<'_>> {
        Some(turn_at(self.checkpoint_turns.get(dir)?).await)
    }

    /// `with_starts`: the log starts of the same points are written.
    async fn write_recovery_points(
        &self,
        dir: &Path,
        points: Vec<LogPoints>,
        with_starts: bool,
    ) -> Written {
        let recovery = rows(&points, |p| p.recovery_point);
        if !self
            .write_rows(dir, offsets::RECOVERY_POINTS, &recovery)
            .await
        {
            return Written::No;
        }
        let points: Arc<[LogPoints]> = points.into();
        let of: Arc<Path> = dir.into();
        // Each shard knows what hangs of its own; one that gives up holds for nothing.
        let tell = move |broker: Rc<Self>| {
            let (points, dir, me) = (Arc::clone(&points), Arc::clone(&of), Rc::clone(&broker));
            let told = async move { me.store.checkpointed(&points, with_starts).await };
            async move { broker.while_it_answers(&dir, told).await }
        };
        let busy: Option<Vec<_>> = self.shards.call_all(tell).await.into_iter().collect();
        let Some(busy) = busy else {
            return Written::No;
        };
        let busy = busy.concat();
        self.warn_of_busy(dir, &busy);
        Written::But(busy)
    }

    async fn write_rows(&self, dir: &Path, name: &str, rows: &[(TopicPartition, Offset)]) -> bool {
        let path = dir.join(name);
        let bytes = offsets::encode(rows);
        let written = room::replace(self.platform.disk(), &path, &bytes).await;
        self.is_written(&path, written)
    }
}

fn rows(
    points: &[LogPoints],
    field: impl Fn(&LogPoints) -> Offset,
) -> Vec<(TopicPartition, Offset)> {
    points
        .iter()
        .map(|points| (points.topic_partition.clone(), field(points)))
        .collect()
}
