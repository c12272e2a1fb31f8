//! The rings of a log directory at a start: those that count are replayed, and afterwards none
//! does.
//!
//! Order: the mark of the directory says which rings count (`marked`); one whose void mark says
//! otherwise does not; all others have to be there, in the use that the mark names, and are
//! replayed together; then the directory is unmarked, and only then their next use begins. After an
//! interruption the next start does the same again. Invariants: what counts is read, or the
//! directory is not used; what does not count keeps no start from its way. It does not mark
//! directories: each shard opens its own ring (`renew_ring`), and then all of them are marked
//! together.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use platform::Platform;
use platform::disk::Disk;
use wire::types::{TimestampMs, Uuid};

use super::error::{JournalError, Result};
use super::file::{self, OpenRing};
use super::header::{HeaderError, RingId};
use super::names::{ring_path, rings_in};
use super::replay::{AppliedRings, LogDirectory, ReplayReport, apply_all};
use super::{RingSize, marked, void};
use crate::checkpoint::clean_shutdown;
use crate::checkpoint::journal_mark::RingMark;

/// The open file of a ring.
type File<P> = <<P as Platform>::Disk as Disk>::File;

/// A log directory whose rings are to be replayed.
#[derive(Clone, Copy, Debug)]
pub struct UnsettledDirectory<'a> {
    /// Where it is.
    pub path: &'a Path,
    /// Where its rings are, if not where its mark says.
    pub rings_dir: Option<&'a Path>,
    /// True when a ring that counts and cannot be read is given up.
    pub gives_up: bool,
}

/// What became of the rings of a log directory.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct SettledDirectory {
    /// What was replayed.
    pub report: ReplayReport,
    /// The rings that counted and cannot be read, and why: what only they had is lost.
    pub given_up: Vec<(PathBuf, String)>,
}

/// A ring that counts.
struct CountingRing {
    path: PathBuf,
    mark: RingMark,
}

/// Brings a log directory to the state in which its logs may be opened, by whatever program: its
/// segments have what its rings had, and no ring counts.
///
/// No broker uses the directory.
pub async fn settle<P: Platform>(
    platform: &P,
    dir: &UnsettledDirectory<'_>,
) -> Result<SettledDirectory> {
    let disk = platform.disk();
    let meta = marked::read(disk, dir.path).await?;
    let mut settled = SettledDirectory::default();
    let Some(journal) = &meta.journal else {
        return Ok(settled);
    };
    let Some(directory_id) = meta.directory_id else {
        return Err(JournalError::NoIdentity {
            reason: "a log directory with a journal has an id".into(),
        });
    };
    let directory = LogDirectory {
        path: dir.path,
        cluster_id: &meta.cluster_id,
        directory_id,
        left_clean: is_left_clean(disk, dir.path).await?,
    };
    let rings_dir = dir.rings_dir.unwrap_or(journal.rings_dir(dir.path));
    let voids = voids_in(disk, dir.path, directory_id).await?;
    let mut rings = counting(&journal.rings, &voids, (rings_dir, directory_id))?;
    let applied = loop {
        let error = match apply_counting(platform, &directory, &rings).await {
            Ok(applied) => break applied,
            Err(error) => error,
        };
        let reason = rings.iter().position(|ring| error.is_of(&ring.path));
        let Some(at) = reason.filter(|_| dir.gives_up) else {
            return Err(error);
        };
        let ring = rings.remove(at);
        tracing::error!(%error, "a journal is given up, with what it alone had");
        settled.given_up.push((ring.path, error.to_string()));
    };
    let now = TimestampMs(platform.clock().wall_ms());
    marked::unmark(disk, dir.path, now).await?;
    settled.report = applied.begin_those_that_work(platform).await;
    Ok(settled)
}

/// Returns true when the directory says that it was left by a clean stop.
async fn is_left_clean<D: Disk>(disk: &D, dir: &Path) -> Result<bool> {
    let mark = dir.join(clean_shutdown::FILE);
    match disk.read_file(&mark).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(JournalError::io("read", &mark)(error)),
    }
}

/// Returns the generations up to which rings are void, by shard; `None` where the mark is not
/// whole.
async fn voids_in<D: Disk>(
    disk: &D,
    dir: &Path,
    directory_id: Uuid,
) -> Result<BTreeMap<u32, (PathBuf, Option<u64>)>> {
    let mut voids = BTreeMap::new();
    for (mark, shard) in marked::void_marks_in(disk, dir, directory_id).await? {
        let bytes = disk.read_file(&mark).await;
        let bytes = bytes.map_err(JournalError::io("read", &mark))?;
        voids.insert(shard, (mark, void::parse(&bytes)));
    }
    Ok(voids)
}

/// Returns the rings that count.
///
/// A void mark was written in the use that the directory's mark names, since none is there when a
/// directory is marked; so nothing in a void ring is needed to know that it is void.
fn counting(
    marks: &[RingMark],
    voids: &BTreeMap<u32, (PathBuf, Option<u64>)>,
    (rings_dir, directory_id): (&Path, Uuid),
) -> Result<Vec<CountingRing>> {
    let mut rings = Vec::new();
    for mark in marks {
        let path = ring_path(rings_dir, directory_id, mark.shard);
        match voids.get(&mark.shard) {
            Some((file, None)) => {
                return Err(JournalError::Unreadable { path: file.clone() });
            }
            Some((_, Some(generation_max))) if *generation_max >= mark.generation => {
                tracing::warn!(ring = %path.display(),
                    "a journal failed and its logs went on without it: it is not read");
            }
            _ => rings.push(CountingRing { path, mark: *mark }),
        }
    }
    Ok(rings)
}

/// Replays rings that are those that the mark names.
async fn apply_counting<P: Platform>(
    platform: &P,
    directory: &LogDirectory<'_>,
    rings: &[CountingRing],
) -> Result<AppliedRings<File<P>>> {
    for ring in rings {
        let LogDirectory {
            cluster_id,
            directory_id,
            ..
        } = *directory;
        let opened = file::open(platform.disk(), &ring.path, cluster_id, directory_id).await;
        let path = ring.path.clone();
        let found = match opened {
            Err(JournalError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                return Err(JournalError::Missing { path });
            }
            found => found?,
        };
        if !found.header().is_of(&ring.mark) {
            return Err(JournalError::Stale { path });
        }
    }
    let paths: Vec<_> = rings.iter().map(|ring| ring.path.clone()).collect();
    apply_all(platform, directory, &paths).await
}

/// Opens the ring of a shard for its next use, or makes it. Its log directory is not marked, so
/// nothing counts that the ring has.
///
/// A ring of another size is replaced, and one that is damaged; one of another cluster or log
/// directory stays.
pub async fn renew_ring<P: Platform>(
    platform: &P,
    id: RingId,
    rings_dir: &Path,
    size: RingSize,
) -> Result<OpenRing<File<P>>> {
    let disk = platform.disk();
    let path = ring_path(rings_dir, id.directory_id, id.shard);
    let random = platform.random_u64();
    match begin_next_use(disk, &path, (&id, size), random).await {
        Ok(Some(ring)) => return Ok(ring),
        Ok(None) => {}
        Err(JournalError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
            return file::create(disk, &path, id, size, random).await;
        }
        Err(
            error @ JournalError::Refused {
                reason: HeaderError::OtherCluster { .. } | HeaderError::OtherDirectory { .. },
                ..
            },
        ) => return Err(error),
        Err(error @ (JournalError::Refused { .. } | JournalError::Damaged { .. })) => {
            tracing::warn!(%error, "nothing in it is needed: it is replaced");
        }
        Err(error) => return Err(error),
    }
    file::remove(disk, &path).await?;
    file::create(disk, &path, id, size, random).await
}

/// Removes the rings of an unmarked log directory that no shard uses any more.
pub async fn remove_unused<D: Disk>(
    disk: &D,
    rings_dir: &Path,
    directory_id: Uuid,
    is_used: impl Fn(u32) -> bool,
) -> Result<()> {
    for (path, shard) in rings_in(disk, rings_dir, directory_id).await? {
        if !is_used(shard) {
            file::remove(disk, &path).await?;
        }
    }
    Ok(())
}

/// Begins the next use of a ring that is there; `None` if it has another size or is worn out.
async fn begin_next_use<D: Disk>(
    disk: &D,
    path: &Path,
    (id, size): (&RingId, RingSize),
    random: u64,
) -> Result<Option<OpenRing<D::File>>> {
    let found = file::open(disk, path, &id.cluster_id, id.directory_id).await?;
    if found.header().size != size || found.header().id != *id {
        return Ok(None);
    }
    // The next use begins behind what the last one has left.
    let read = found.glance(|_| {}).await?;
    match read.begin(random).await {
        Err(JournalError::WornOut { .. }) => Ok(None),
        begun => begun.map(Some),
    }
}
