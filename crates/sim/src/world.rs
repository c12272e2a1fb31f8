//! The platforms of a run: an honest one, and one whose disk lies about syncs.

use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use platform::buf::AlignedBuf;
use platform::disk::{Disk, DiskFile, Entry, Medium, Open, Space};
use platform::sim::{SimDisk, SimFile, SimPlatform};
use platform::{Clock, Platform};

/// A bug that a run must find.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlantedBug {
    /// The disk reports that it synced a segment, but did not.
    SyncsAreLies,
    /// The disk reports that it synced what lands from a journal, but did not: so the room in the
    /// journal is released before the sync.
    ReleasedBeforeSync,
    /// Producers get the acknowledgement of a batch as soon as it has its offsets.
    EarlyAcknowledgement,
    /// A write that a full disk refused counts as not written, although the log still writes it
    /// when there is room.
    FullIsNotWritten,
    /// A start keeps an older copy of a segment instead of the segment.
    StaleCopyWins,
    /// A segment that is not found at a start counts as deleted.
    AbsentIsGone,
    /// The note of a segment's old place is removed before the note of its new place is written.
    NoteGoesFirst,
    /// A log directory that is not mounted counts as new.
    MissingIsNew,
    /// An expired timer is armed again for the current time.
    TimerArmedAtNow,
    /// A checked offset is used after a wait in which the log may have been truncated.
    CheckedBeforeWaiting,
    /// A watermark that is due at a time of the wall clock waits when that clock goes back.
    EarlierIsNotDue,
    /// A start takes the recovery point of the checkpoint for the end of the log.
    CheckpointIsTheEnd,
}

/// A platform on a simulated disk.
pub trait World: Platform {
    /// Boots on `disk`, inside a simulated shard.
    fn boot(disk: SimDisk, wall_ms: i64, seed: u64) -> Self;
}

impl World for SimPlatform {
    fn boot(disk: SimDisk, wall_ms: i64, seed: u64) -> Self {
        Self::on(disk, Clock::starting_at(wall_ms), seed)
    }
}

/// A platform whose segments are never synced, although the disk reports that they were. All other
/// files are.
#[derive(Clone)]
pub struct LyingPlatform {
    honest: SimPlatform,
    disk: LyingDisk,
}

impl World for LyingPlatform {
    fn boot(disk: SimDisk, wall_ms: i64, seed: u64) -> Self {
        Self {
            honest: SimPlatform::boot(disk.clone(), wall_ms, seed),
            disk: LyingDisk(disk),
        }
    }
}

impl Platform for LyingPlatform {
    type Disk = LyingDisk;

    fn disk(&self) -> &LyingDisk {
        &self.disk
    }

    fn clock(&self) -> &Clock {
        self.honest.clock()
    }

    fn random_u64(&self) -> u64 {
        self.honest.random_u64()
    }
}

/// See [`LyingPlatform`].
#[derive(Clone)]
pub struct LyingDisk(SimDisk);

/// An open file of a [`LyingDisk`].
#[derive(Clone)]
pub struct LyingFile {
    honest: SimFile,
    is_segment: bool,
}

impl Disk for LyingDisk {
    type File = LyingFile;

    fn medium(&self, dir: &Path) -> Medium {
        self.0.medium(dir)
    }

    fn under_way_for(&self, dir: &Path) -> Duration {
        self.0.under_way_for(dir)
    }

    async fn open(&self, path: &Path, how: Open) -> io::Result<LyingFile> {
        let name = path.file_name().unwrap_or_default();
        Ok(LyingFile {
            honest: self.0.open(path, how).await?,
            is_segment: name.to_string_lossy().contains(".log"),
        })
    }

    async fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.0.list(dir).await
    }

    async fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.create_dir(dir).await
    }

    async fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to).await
    }

    async fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.0.remove_file(path).await
    }

    async fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.remove_dir(dir).await
    }

    async fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.sync_dir(dir).await
    }

    async fn read_file_within(&self, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
        self.0.read_file_within(path, bytes_max).await
    }

    async fn replace_file(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.0.replace_file(path, bytes).await
    }

    async fn replace_file_by(&self, path: &Path, bytes: Bytes) -> io::Result<()> {
        self.0.replace_file_by(path, bytes).await
    }

    async fn set_modified(&self, path: &Path, modified_ms: i64) -> io::Result<()> {
        self.0.set_modified(path, modified_ms).await
    }

    async fn space(&self, dir: &Path) -> io::Result<Space> {
        self.0.space(dir).await
    }
}

impl DiskFile for LyingFile {
    async fn write_at(&self, position: u64, parts: Vec<Bytes>) -> io::Result<()> {
        self.honest.write_at(position, parts).await
    }

    async fn read_at(&self, position: u64, len: usize) -> io::Result<Bytes> {
        self.honest.read_at(position, len).await
    }

    async fn read_into(&self, position: u64, buf: AlignedBuf) -> io::Result<AlignedBuf> {
        self.honest.read_into(position, buf).await
    }

    async fn sync(&self) -> io::Result<()> {
        if self.is_segment {
            return Ok(());
        }
        self.honest.sync().await
    }

    async fn write_durably_at(&self, position: u64, parts: Vec<Bytes>) -> io::Result<()> {
        self.honest.write_durably_at(position, parts).await
    }

    async fn allocate(&self, len: u64) -> io::Result<()> {
        self.honest.allocate(len).await
    }

    async fn set_len(&self, len: u64) -> io::Result<()> {
        self.honest.set_len(len).await
    }

    async fn len(&self) -> io::Result<u64> {
        self.honest.len().await
    }
}
