//! Puts what one ring says of the logs into their segments.
//!
//! The ring is read twice for each share of the logs: once to know what it says, once, in the order
//! of the file, to move the bytes.
//! Invariants: a file is removed or cut only when the log's bytes were written without finding a
//! reason to refuse it; all files are synced, and then all names, before it returns.
//! It does not decide what belongs where (`plan`).

use std::collections::{BTreeSet, VecDeque};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use platform::Clock;
use platform::disk::Disk;
use platform::task::{self, JoinHandle};

use super::aside::{self, AsidePlace};
use super::homes::{self, Homes};
use super::image::{Images, LogImage, Share};
use super::plan::{LogPlan, RefusalReason, plan};
use super::report::{RefusedLog, ReplayReport, ReplayedLog, UnknownLog};
use super::segment_file::SegmentFile;
use crate::journal::LogId;
use crate::journal::commit::Commit;
use crate::journal::error::{JournalError, Result};
use crate::journal::file::ReadRing;
use crate::journal::unlanded::{Key, log_of};
use crate::segment::naming::{Role, file_path};

/// Parts whose extents are in memory at once: 24 bytes each, and twice as much while the
/// segments are written.
const PARTS_AT_ONCE: u64 = 1 << 20;

/// Bytes of segments that are gathered for writes at once.
const GATHERED_BYTES_MAX: usize = 64 << 20;

/// Files or folders that are synced at once.
const SYNCS_AT_ONCE: usize = 64;

/// The replay of one ring.
pub(super) struct Replay<'a, D: Disk> {
    pub(super) disk: &'a D,
    pub(super) clock: &'a Clock,
    pub(super) dir: &'a Path,
    pub(super) homes: &'a Homes,
    /// Logs with parts in another ring, too.
    pub(super) twice: &'a BTreeSet<Key>,
    pub(super) ring: &'a ReadRing<D::File>,
    /// What was behind is lost.
    pub(super) is_given_up: bool,
}

/// A log that gets what the ring has of it.
struct PlannedLog {
    image: LogImage,
    plan: LogPlan,
    folder: PathBuf,
    replayed: ReplayedLog,
    refused: Option<RefusalReason>,
}

/// A file, and the planned log that owns it.
struct FileOfLog {
    file: SegmentFile,
    log: usize,
}

/// Bytes on their way from the ring to a file.
struct Move {
    /// The distance in the ring, from its head.
    distance: u64,
    place: u64,
    length: u32,
    position: u32,
    /// The file, of those of the share.
    file: usize,
}

impl<D: Disk> Replay<'_, D> {
    /// Replays a ring that has this many parts.
    pub(super) async fn run(&self, parts: u64, report: &mut ReplayReport) -> Result<()> {
        let size = self.ring.header().size;
        for share in Share::each(parts, PARTS_AT_ONCE) {
            let mut images = Images::default();
            let note = |commit: Commit<'_>| images.note(&commit, size, share);
            self.ring.again(note).await?;
            self.replay_share(images, report).await?;
        }
        Ok(())
    }

    async fn replay_share(&self, images: Images, report: &mut ReplayReport) -> Result<()> {
        let mut logs = Vec::new();
        for (key, image) in images.by_log {
            match self.homes.of(log_of(key)) {
                Some(folder) => logs.push(self.planned(key, image, folder).await?),
                None => self.leave_out(log_of(key), &image, report).await?,
            }
        }
        let (mut files, mut moves) = (Vec::new(), Vec::new());
        for (number, log) in logs.iter().enumerate() {
            self.add_files(log, number, &mut files, &mut moves);
        }
        moves.sort_unstable_by_key(|one| one.distance);
        self.move_bytes(&moves, &mut files, &mut logs).await?;
        self.end_files(files, &mut logs).await?;
        for log in logs {
            self.end_log(log, report).await?;
        }
        Ok(())
    }

    async fn planned(&self, key: Key, image: LogImage, folder: &Path) -> Result<PlannedLog> {
        let found = homes::segments_in(self.disk, folder).await?;
        let planned = if self.twice.contains(&key) {
            Err(RefusalReason::TwoRings)
        } else if self.is_given_up && image.cut.is_some() {
            Err(RefusalReason::CutBeforeDamage)
        } else {
            plan(&image, &found)
        };
        let (plan, refused) = match planned {
            Ok(plan) => (plan, None),
            Err(reason) => (LogPlan::default(), Some(reason)),
        };
        let replayed = ReplayedLog::new(log_of(key), folder, image.bytes(), &plan);
        Ok(PlannedLog {
            image,
            plan,
            folder: folder.to_path_buf(),
            replayed,
            refused,
        })
    }

    fn add_files(
        &self,
        log: &PlannedLog,
        number: usize,
        files: &mut Vec<FileOfLog>,
        moves: &mut Vec<Move>,
    ) {
        let header = self.ring.header();
        for segment in &log.plan.segments {
            let file = files.len();
            moves.extend(segment.extents.iter().map(|extent| Move {
                distance: header.size.distance(header.head.position, extent.place),
                place: extent.place,
                length: extent.length,
                position: extent.position,
                file,
            }));
            let path = file_path(&log.folder, segment.segment, Role::Log);
            let file = SegmentFile::new(path, segment);
            files.push(FileOfLog { file, log: number });
        }
    }

    /// Reads the ring once, and gives each file its bytes.
    async fn move_bytes(
        &self,
        moves: &[Move],
        files: &mut [FileOfLog],
        logs: &mut [PlannedLog],
    ) -> Result<()> {
        let mut ring = self.ring.bytes();
        let mut gathered: usize = 0;
        for one in moves {
            let FileOfLog { file, log } = files.get_mut(one.file).expect("it was added");
            let log = logs.get_mut(*log).expect("it was added");
            if log.refused.is_some() {
                continue;
            }
            let bytes = ring.at(one.place, one.length).await?;
            gathered = gathered.saturating_sub(file.gathered());
            log.refused = file.take(self.disk, one.position, bytes).await?;
            gathered = gathered.saturating_add(file.gathered());
            if gathered > GATHERED_BYTES_MAX {
                self.flush(files, logs).await?;
                gathered = 0;
            }
        }
        self.flush(files, logs).await
    }

    async fn flush(&self, files: &mut [FileOfLog], logs: &mut [PlannedLog]) -> Result<()> {
        for FileOfLog { file, log } in files {
            let log = logs.get_mut(*log).expect("it was added");
            if log.refused.is_none() {
                log.refused = file.flush(self.disk).await?;
            }
        }
        Ok(())
    }

    /// Removes what is void, gives all files their lengths, and syncs them, then the names.
    async fn end_files(&self, files: Vec<FileOfLog>, logs: &mut [PlannedLog]) -> Result<()> {
        let mut syncs = Syncs::default();
        for FileOfLog { file, log } in files {
            let log = logs.get_mut(log).expect("it was added");
            if log.refused.is_none() {
                log.replayed.note_written(file.written());
                syncs.begin(file.end(self.disk.clone())).await?;
            }
        }
        syncs.end().await?;
        for log in logs.iter().filter(|log| log.refused.is_none()) {
            self.remove_void(log).await?;
        }
        for log in logs.iter() {
            let (disk, folder) = (self.disk.clone(), log.folder.clone());
            let sync = async move {
                let synced = disk.sync_dir(&folder).await;
                synced.map_err(JournalError::io("sync", &folder))
            };
            syncs.begin(sync).await?;
        }
        syncs.end().await
    }

    /// Removes what a cut has made void: segments, the last first, and what was derived from what
    /// was cut off.
    ///
    /// The index of aborted transactions of the segment that was cut stays: opening the log removes
    /// from it what is behind the end.
    async fn remove_void(&self, log: &PlannedLog) -> Result<()> {
        let (folder, Some(cut)) = (&log.folder, log.plan.cut) else {
            return Ok(());
        };
        for at in homes::snapshots_behind(self.disk, folder, cut.offset).await? {
            self.remove(&file_path(folder, at, Role::Snapshot)).await?;
        }
        for &segment in &log.plan.removed {
            for role in [
                Role::Log,
                Role::OffsetIndex,
                Role::TimeIndex,
                Role::TxnIndex,
            ] {
                self.remove(&file_path(folder, segment, role)).await?;
            }
        }
        for role in [Role::OffsetIndex, Role::TimeIndex] {
            let index = file_path(folder, cut.segment, role);
            self.remove(&index).await?;
        }
        Ok(())
    }

    async fn remove(&self, path: &Path) -> Result<()> {
        match self.disk.remove_file(path).await {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(JournalError::io("remove", path)(error))
            }
            _ => Ok(()),
        }
    }

    /// Reports a log; keeps what the ring has of it, if it is refused.
    async fn end_log(&self, log: PlannedLog, report: &mut ReplayReport) -> Result<()> {
        let Some(reason) = log.refused else {
            report.logs.push(log.replayed);
            return Ok(());
        };
        let kept = self.keep(&log.image, &log.folder, String::new()).await?;
        tracing::error!(folder = %log.folder.display(), %reason, files = kept.len(),
            "a log does not get what the journal has of it, which was set aside");
        report.refused.push(RefusedLog {
            log: log.replayed.log,
            folder: log.folder,
            reason,
            kept,
        });
        Ok(())
    }

    /// Leaves out a log without a folder; keeps what the ring has of it, if that may be
    /// one of a folder that does not say whose it is.
    async fn leave_out(
        &self,
        log: LogId,
        image: &LogImage,
        report: &mut ReplayReport,
    ) -> Result<()> {
        let mut kept = Vec::new();
        if self.homes.is_in_doubt {
            let prefix = format!("{}-{}.", log.topic_id, log.partition);
            kept = self.keep(image, self.dir, prefix).await?;
        }
        report.unknown.push(UnknownLog {
            log,
            bytes: image.bytes(),
            kept,
        });
        Ok(())
    }

    async fn keep(&self, image: &LogImage, dir: &Path, prefix: String) -> Result<Vec<PathBuf>> {
        let place = AsidePlace {
            dir,
            prefix,
            now_ms: self.clock.wall_ms(),
        };
        aside::keep(self.disk, &mut self.ring.bytes(), image, &place).await
    }
}

/// Syncs that are under way.
#[derive(Default)]
struct Syncs {
    /// Bounded: [`SYNCS_AT_ONCE`].
    under_way: VecDeque<JoinHandle<Result<()>>>,
}

impl Syncs {
    /// Begins one, after another has ended if there are many.
    async fn begin(&mut self, sync: impl Future<Output = Result<()>> + 'static) -> Result<()> {
        if self.under_way.len() >= SYNCS_AT_ONCE {
            self.end_first().await?;
        }
        self.under_way.push_back(task::spawn(sync));
        Ok(())
    }

    /// Waits for all of them.
    async fn end(&mut self) -> Result<()> {
        while !self.under_way.is_empty() {
            self.end_first().await?;
        }
        Ok(())
    }

    async fn end_first(&mut self) -> Result<()> {
        let Some(first) = self.under_way.pop_front() else {
            return Ok(());
        };
        // A task ends early only with its runtime.
        first.await.unwrap_or(Err(JournalError::Closed))
    }
}
