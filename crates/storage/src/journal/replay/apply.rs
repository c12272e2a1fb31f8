//! Puts what one ring says of the logs into their segments.
//!
//! The ring is read once, in the order of the file, to move the bytes; where it has very many
//! parts, twice for each share of the logs: before that to know what it says.
//! Invariants: a file is removed or cut only when the log's bytes were written without finding a
//! reason to refuse it; all files are synced, and then all names, before it returns.
//! It does not decide what belongs where (`plan`).

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use platform::Clock;
use platform::disk::Disk;

use super::aside::{self, AsidePlace};
use super::homes::{self, Homes};
use super::image::{Images, LogImage, Share};
use super::plan::{LogPlan, RefusalReason, plan};
use super::report::{RefusedLog, ReplayReport, ReplayedLog, UnknownLog};
use super::segment_file::SegmentFile;
use super::turns::Turns;
use crate::journal::LogId;
use crate::journal::commit::Commit;
use crate::journal::error::{JournalError, Result};
use crate::journal::file::ReadRing;
use crate::journal::unlanded::{Key, log_of};
use crate::segment::naming::{Role, file_path};

/// Parts whose extents are in memory at once: 24 bytes each, and twice as much while the
/// segments are written.
pub(super) const PARTS_AT_ONCE: u64 = 1 << 20;

/// Bytes of segments that are gathered for writes at once; while they are compared and written they
/// take three times as much.
const GATHERED_BYTES_MAX: usize = 64 << 20;

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

/// Bytes on their way from the ring to a file.
struct Move {
    /// The distance in the ring, from its head.
    distance: u64,
    place: u64,
    length: u32,
    position: u32,
    /// The log, of those of the share, and the file, of those of the log.
    file: (usize, usize),
}

/// The files of a log, in order, and why it is refused, if it is.
type WrittenFiles = (Vec<SegmentFile>, Option<RefusalReason>);

impl<D: Disk> Replay<'_, D> {
    /// Replays a ring that has this many parts; `images` are those of all logs, if they are known.
    pub(super) async fn run(
        &self,
        parts: u64,
        images: Option<Images>,
        report: &mut ReplayReport,
    ) -> Result<()> {
        if let Some(images) = images {
            return self.replay_share(images, report).await;
        }
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
        let mut logs = self.planned(images, report).await?;
        let (mut files, mut moves) = (Vec::new(), Vec::new());
        for log in &logs {
            files.push(self.files_of(log, files.len(), &mut moves));
        }
        moves.sort_unstable_by_key(|one| one.distance);
        self.move_bytes(&moves, &mut files, &mut logs).await?;
        self.end_files(files, &mut logs).await?;
        for log in logs {
            self.end_log(log, report).await?;
        }
        Ok(())
    }

    /// Plans for all logs that are there, and leaves out the others.
    async fn planned(&self, images: Images, report: &mut ReplayReport) -> Result<Vec<PlannedLog>> {
        let mut at_home = Vec::new();
        for (key, image) in images.by_log {
            match self.homes.of(log_of(key)) {
                Some(folder) => at_home.push((key, image, folder.to_path_buf())),
                None => self.leave_out(log_of(key), &image, report).await?,
            }
        }
        let mut plans = Turns::default();
        for (key, image, folder) in at_home {
            let refused = self.refusal(key, &image);
            let plan = planned_log(self.disk.clone(), (log_of(key), image), folder, refused);
            plans.begin(plan).await?;
        }
        plans.end().await
    }

    /// Returns why a log is refused, whatever is on the disk.
    fn refusal(&self, key: Key, image: &LogImage) -> Option<RefusalReason> {
        if self.twice.contains(&key) {
            Some(RefusalReason::TwoRings)
        } else if self.is_given_up && image.cut.is_some() {
            Some(RefusalReason::CutBeforeDamage)
        } else {
            None
        }
    }

    /// Returns the files of the log with this number, and notes what goes to them.
    fn files_of(&self, log: &PlannedLog, number: usize, moves: &mut Vec<Move>) -> Vec<SegmentFile> {
        let header = self.ring.header();
        let mut files = Vec::new();
        for segment in &log.plan.segments {
            let file = (number, files.len());
            moves.extend(segment.extents.iter().map(|extent| Move {
                distance: header.size.distance(header.head.position, extent.place),
                place: extent.place,
                length: extent.length,
                position: extent.position,
                file,
            }));
            let path = file_path(&log.folder, segment.segment, Role::Log);
            files.push(SegmentFile::new(path, segment));
        }
        files
    }

    /// Reads the ring once, and gives each file its bytes.
    async fn move_bytes(
        &self,
        moves: &[Move],
        files: &mut [Vec<SegmentFile>],
        logs: &mut [PlannedLog],
    ) -> Result<()> {
        let mut ring = self.ring.bytes();
        let mut gathered: usize = 0;
        for one in moves {
            let (number, file) = one.file;
            let log = logs.get_mut(number).expect("it was planned");
            if log.refused.is_some() {
                continue;
            }
            let files_of_log = files.get_mut(number).expect("it was planned");
            let file = files_of_log.get_mut(file).expect("it was planned");
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

    /// Writes what is gathered, many logs at once, each file after the other of its log.
    async fn flush(&self, files: &mut [Vec<SegmentFile>], logs: &mut [PlannedLog]) -> Result<()> {
        let (mut numbers, mut writes) = (Vec::new(), Turns::default());
        for (number, (files, log)) in files.iter_mut().zip(logs.iter()).enumerate() {
            let has_gathered = files.iter().any(|file| file.gathered() > 0);
            if log.refused.is_none() && has_gathered {
                numbers.push(number);
                let write = flush_log(self.disk.clone(), std::mem::take(files));
                writes.begin(write).await?;
            }
        }
        for (number, (written, refused)) in numbers.into_iter().zip(writes.end().await?) {
            *files.get_mut(number).expect("its files were taken") = written;
            logs.get_mut(number).expect("it was planned").refused = refused;
        }
        Ok(())
    }

    /// Removes what is void, gives all files their lengths, and syncs them, then the names.
    async fn end_files(&self, files: Vec<Vec<SegmentFile>>, logs: &mut [PlannedLog]) -> Result<()> {
        let mut syncs = Turns::default();
        for (files, log) in files.into_iter().zip(logs.iter_mut()) {
            if log.refused.is_some() {
                continue;
            }
            for file in files {
                log.replayed.note_written(file.written());
                syncs.begin(file.end(self.disk.clone())).await?;
            }
        }
        syncs.end().await?;
        for log in logs.iter().filter(|log| log.refused.is_none()) {
            self.remove_void(log).await?;
        }
        let mut syncs = Turns::default();
        for log in logs.iter() {
            let (disk, folder) = (self.disk.clone(), log.folder.clone());
            let sync = async move {
                let synced = disk.sync_dir(&folder).await;
                synced.map_err(JournalError::io("sync", &folder))
            };
            syncs.begin(sync).await?;
        }
        syncs.end().await.map(drop)
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

/// Looks into the folder of a log, and plans what is done to it unless it is refused.
async fn planned_log<D: Disk>(
    disk: D,
    (log, image): (LogId, LogImage),
    folder: PathBuf,
    refused: Option<RefusalReason>,
) -> Result<PlannedLog> {
    let found = homes::segments_in(&disk, &folder).await?;
    let planned = match refused {
        Some(reason) => Err(reason),
        None => plan(&image, &found),
    };
    let (plan, refused) = match planned {
        Ok(plan) => (plan, None),
        Err(reason) => (LogPlan::default(), Some(reason)),
    };
    let replayed = ReplayedLog::new(log, &folder, image.bytes(), &plan);
    Ok(PlannedLog {
        image,
        plan,
        folder,
        replayed,
        refused,
    })
}

/// Writes what is gathered of a log's files, unless the log is refused.
async fn flush_log<D: Disk>(disk: D, mut files: Vec<SegmentFile>) -> Result<WrittenFiles> {
    for file in &mut files {
        let refused = file.flush(&disk).await?;
        if refused.is_some() {
            return Ok((files, refused));
        }
    }
    Ok((files, None))
}
