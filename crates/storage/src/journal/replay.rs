//! What a start does with the rings of a log directory: their parts go into the segments, and the
//! rings begin their next use.
//!
//! Order: all rings are read, and nothing is changed unless all can be; what each says of a log is
//! put together (`replay/image.rs`) and compared with what is on the disk (`replay/plan.rs`); files
//! are written, removed and synced (`replay/apply.rs`); then all rings get new headers.
//! Invariants: after an interruption at any step, or a crash, the next start does the same again; a
//! log that is refused keeps its parts in files beside it; a ring that is refused stays as it is,
//! and so do all others. Memory is bounded whatever the size of the rings.
//! It does not open logs, judge batches that are not in the way, or find out which rings there are
//! (`names`).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use platform::Platform;
use platform::disk::{Disk, DiskFile};
use wire::types::Uuid;

use super::commit::Commit;
use super::error::{JournalError, Result};
use super::file::{self, OpenRing, ReadRing};
use super::unlanded::{Key, key};
use apply::{PARTS_AT_ONCE, Replay};
use homes::Homes;
use image::{Images, Share};

pub use plan::RefusalReason;
pub use report::{RefusedLog, ReplayReport, ReplayedLog, ReplayedRing, UnknownLog};

mod apply;
mod aside;
mod batch_walk;
mod homes;
pub(super) mod image;
pub(super) mod plan;
#[cfg(test)]
pub(super) mod planted;
mod report;
mod segment_file;
mod turns;

/// A log directory with rings.
#[derive(Clone, Copy, Debug)]
pub struct LogDirectory<'a> {
    /// Where it is.
    pub path: &'a Path,
    /// The cluster that it belongs to.
    pub cluster_id: &'a str,
    /// Its id.
    pub directory_id: Uuid,
    /// True when the directory says that it was left by a clean stop: then no ring has commits,
    /// unless another program was there since.
    pub left_clean: bool,
}

/// What a replay has left.
pub struct Replayed<F> {
    /// What was done.
    pub report: ReplayReport,
    /// The rings, ready for commits. Those that no shard uses any more may be removed.
    pub rings: Vec<ReadyRing<F>>,
}

/// A ring that takes commits.
pub struct ReadyRing<F> {
    /// Its file.
    pub path: PathBuf,
    /// The shard in its header, which wrote it.
    pub shard: u32,
    /// The ring.
    pub ring: OpenRing<F>,
}

type File<P> = <<P as Platform>::Disk as Disk>::File;

/// Puts into the segments of a log directory what its rings have of them, and begins the next use
/// of the rings.
///
/// The caller opens no log of the directory before it has returned, and opens all of them as after
/// an unclean stop. It knows all rings of the directory, of whatever shards. A worn-out ring is
/// removed.
pub async fn replay<P: Platform>(
    platform: &P,
    directory: &LogDirectory<'_>,
    rings: &[PathBuf],
) -> Result<Replayed<File<P>>> {
    let rings = rings.iter().cloned().map(RingToRead::whole);
    apply_all(platform, directory, &rings.collect::<Vec<_>>())
        .await?
        .begin(platform)
        .await
}

/// A ring that is to be replayed.
pub(super) struct RingToRead {
    pub(super) path: PathBuf,
    /// It is damaged and given up: only what is before the damage is read.
    pub(super) is_given_up: bool,
}

impl RingToRead {
    fn whole(path: PathBuf) -> Self {
        Self {
            path,
            is_given_up: false,
        }
    }
}

/// Puts into the segments of a log directory what its rings have of them, synced.
pub(super) async fn apply_all<P: Platform>(
    platform: &P,
    directory: &LogDirectory<'_>,
    rings: &[RingToRead],
) -> Result<AppliedRings<File<P>>> {
    let disk = platform.disk();
    let mut report = ReplayReport::default();
    let mut found = Vec::new();
    let mut parts_left = PARTS_AT_ONCE;
    for ring in rings {
        let ring = FoundParts::read(disk, directory, ring, &mut parts_left).await?;
        report.rings.push(ring.counted.clone());
        found.push(ring);
    }
    let with_commits = || found.iter().filter(|ring| ring.counted.commits > 0);
    if let Some(ring) = with_commits().next() {
        if directory.left_clean {
            let path = ring.read.path().to_path_buf();
            return Err(JournalError::Overtaken { path });
        }
        let twice = logs_of_two(&found);
        let homes = Homes::read(disk, directory.path).await?;
        for log in with_commits().flat_map(|ring| &ring.logs) {
            homes.refuse_two(*log)?;
        }
        let with_commits = found.iter_mut().filter(|ring| ring.counted.commits > 0);
        for ring in with_commits {
            let images = ring.images.take();
            let replay = Replay {
                disk,
                clock: platform.clock(),
                dir: directory.path,
                homes: &homes,
                twice: &twice,
                ring: &ring.read,
                is_given_up: ring.is_given_up,
            };
            let parts = ring.counted.parts;
            replay.run(parts, images, &mut report).await?;
        }
    }
    Ok(AppliedRings { report, found })
}

/// Rings whose parts are in the segments.
pub(super) struct AppliedRings<F> {
    pub(super) report: ReplayReport,
    found: Vec<FoundParts<F>>,
}

impl<F: DiskFile> AppliedRings<F> {
    /// Begins the next use of all rings.
    async fn begin<P: Platform>(self, platform: &P) -> Result<Replayed<F>>
    where
        P::Disk: Disk<File = F>,
    {
        let mut ready = Vec::new();
        for ring in self.found {
            #[cfg(test)]
            if !ready.is_empty() && planted::is_planted(planted::ReplayBug::LeaveOtherRings) {
                break;
            }
            ready.extend(begin(platform, ring.read).await?);
        }
        Ok(Replayed {
            report: self.report,
            rings: ready,
        })
    }
}

/// Begins the next use of a ring; removes one that is worn out.
async fn begin<P: Platform>(
    platform: &P,
    read: ReadRing<File<P>>,
) -> Result<Option<ReadyRing<File<P>>>> {
    let (path, shard) = (read.path().to_path_buf(), read.header().id.shard);
    match read.begin(platform.random_u64()).await {
        Ok(ring) => Ok(Some(ReadyRing { path, shard, ring })),
        Err(JournalError::WornOut { path }) => {
            file::remove(platform.disk(), &path).await?;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// A ring that was read, and the logs that have parts in it.
struct FoundParts<F> {
    read: ReadRing<F>,
    /// Bounded: the logs of the directory, and those that were deleted lately.
    logs: BTreeSet<Key>,
    counted: ReplayedRing,
    /// What it says of all logs, unless that is too much to be in memory at once.
    images: Option<Images>,
    is_given_up: bool,
}

impl<F: DiskFile> FoundParts<F> {
    async fn read<D: Disk<File = F>>(
        disk: &D,
        directory: &LogDirectory<'_>,
        RingToRead { path, is_given_up }: &RingToRead,
        parts_left: &mut u64,
    ) -> Result<Self> {
        let LogDirectory {
            cluster_id,
            directory_id,
            ..
        } = *directory;
        let found = file::open_to_replay(disk, path, cluster_id, directory_id).await?;
        let shard = found.header().id.shard;
        let mut logs = BTreeSet::new();
        let (mut commits, mut parts, mut bytes) = (0_u64, 0_u64, 0_u64);
        let size = found.header().size;
        let mut images = Some(Images::default());
        let visit = |commit: Commit<'_>| {
            commits = commits.saturating_add(1);
            // A look at the count first: what is too much is not gathered.
            let many = parts.saturating_add(commit.parts().count() as u64);
            images = images.take().filter(|_| many <= *parts_left);
            if let Some(images) = &mut images {
                images.note(&commit, size, Share::WHOLE);
            }
            for part in commit.parts() {
                parts = parts.saturating_add(1);
                bytes = bytes.saturating_add(part.bytes().len() as u64);
                logs.insert(key(part.log));
            }
        };
        // What a clean stop leaves has no commits: nothing can be lost of it.
        let read = if directory.left_clean {
            found.glance(visit).await?
        } else if *is_given_up {
            found.scan_up_to_damage(visit).await?
        } else {
            found.scan(visit).await?
        };
        if images.is_some() {
            *parts_left = parts_left.saturating_sub(parts);
        }
        let counted = ReplayedRing {
            path: path.clone(),
            shard,
            commits,
            parts,
            bytes,
            stopped: read.stopped(),
        };
        Ok(Self {
            read,
            logs,
            counted,
            images,
            is_given_up: *is_given_up,
        })
    }
}

/// Returns the logs with parts in more than one ring.
///
/// Only one shard writes a log between two starts, and a start ends with rings that have no
/// commits.
fn logs_of_two<F>(found: &[FoundParts<F>]) -> BTreeSet<Key> {
    let (mut once, mut twice) = (BTreeSet::new(), BTreeSet::new());
    for log in found.iter().flat_map(|ring| &ring.logs) {
        if !once.insert(*log) {
            twice.insert(*log);
        }
    }
    twice
}
