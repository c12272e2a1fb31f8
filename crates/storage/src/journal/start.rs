//! The rings of a log directory at a start: those that count are replayed, and afterwards none
//! does.
//!
//! Order: the mark of the directory says which rings count (`marked`); one whose void mark says
//! otherwise does not; all others have to be there, in the use that the mark names, and are
//! replayed together; then the directory is unmarked, and only then their next use begins. After an
//! interruption the next start does the same again. Invariants: what counts is read, or the
//! directory is not used; what does not count keeps no start from its way; a replay does not write
//! to rings, so one into a copy of a log directory takes nothing from the directory itself. It does
//! not mark directories: each shard opens its own ring (`renew_ring`), and then all of them are
//! marked together.

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
use super::replay::{AppliedRings, LogDirectory, ReplayReport, RingToRead, apply_all};
use super::{RingSize, marked, void};
use crate::checkpoint::clean_shutdown;
use crate::checkpoint::journal_mark::RingMark;
use crate::checkpoint::meta_properties::MetaProperties;

/// The open file of a ring.
type File<P> = <<P as Platform>::Disk as Disk>::File;

/// A log directory whose rings are to be replayed.
#[derive(Clone, Copy, Debug)]
pub struct UnsettledDirectory<'a> {
    /// Where it is.
    pub path: &'a Path,
    /// Where its rings are, if not where its mark says.
    pub rings_dir: Option<&'a Path>,
    /// Where they may be, too: the device is mounted elsewhere, and the settings say where.
    pub also_in: &'a [PathBuf],
    /// True when a ring that counts and cannot be read is given up.
    pub gives_up: bool,
}

/// What became of the rings of a log directory.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct SettledDirectory {
    /// What was replayed.
    pub report: ReplayReport,
    /// The rings that counted and cannot be read, or not to their end, and why: what only they had
    /// is lost, but for what a damaged one has before the damage.
    pub given_up: Vec<(PathBuf, String)>,
}

/// A ring that counts.
struct CountingRing {
    path: PathBuf,
    /// Where it is looked for if it is not there. Bounded: the directories of the settings.
    elsewhere: Vec<PathBuf>,
    mark: RingMark,
    /// It is damaged: what is before the damage is replayed, the rest is lost.
    is_given_up: bool,
}

impl CountingRing {
    /// Returns true when it is the reason of an error.
    fn is_reason_of(&self, error: &JournalError) -> bool {
        error.is_of(&self.path) || self.elsewhere.iter().any(|path| error.is_of(path))
    }
}

/// What a ring is opened for.
#[derive(Clone, Copy)]
enum Use {
    Replay,
    Look,
}

/// Where the rings of a log directory are looked for.
struct RingPlaces<'a> {
    dir: &'a Path,
    elsewhere: &'a [PathBuf],
    directory_id: Uuid,
}

impl RingPlaces<'_> {
    fn ring(&self, mark: RingMark) -> CountingRing {
        let path = |dir: &Path| ring_path(dir, self.directory_id, mark.shard);
        let elsewhere = self.elsewhere.iter().filter(|also| *also != self.dir);
        CountingRing {
            path: path(self.dir),
            elsewhere: elsewhere.map(|dir| path(dir)).collect(),
            mark,
            is_given_up: false,
        }
    }
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
    let Some((directory, mut rings)) = counting(disk, dir, &meta, &mut settled).await? else {
        return Ok(settled);
    };
    let applied = loop {
        let error = match apply_counting(platform, &directory, &rings).await {
            Ok(applied) => break applied,
            Err(error) => error,
        };
        // A lack of descriptors or memory says nothing of a ring.
        let gives_up = dir.gives_up && !error.is_exhausted();
        let reason = rings.iter().position(|ring| ring.is_reason_of(&error));
        let Some(at) = reason.filter(|_| gives_up) else {
            return Err(error);
        };
        match rings.get_mut(at) {
            Some(ring) if !ring.is_given_up => {
                settled.give_up(ring, &error);
                ring.is_given_up = true;
                if !matches!(error, JournalError::Damaged { .. }) {
                    drop(rings.remove(at));
                }
            }
            _ => drop(rings.remove(at)),
        }
    };
    let now = TimestampMs(platform.clock().wall_ms());
    marked::unmark(disk, dir.path, now).await?;
    settled.report = applied.report;
    Ok(settled)
}

/// Fails as [`settle`] does if a ring that counts is not there, or is another one.
///
/// It only looks.
pub async fn look_for_rings<P: Platform>(platform: &P, dir: &UnsettledDirectory<'_>) -> Result<()> {
    let disk = platform.disk();
    let meta = marked::read(disk, dir.path).await?;
    let mut settled = SettledDirectory::default();
    if let Some((directory, rings)) = counting(disk, dir, &meta, &mut settled).await? {
        for ring in &rings {
            find_ring(disk, &directory, ring, Use::Look).await?;
        }
    }
    Ok(())
}

/// Returns the rings of a directory that count, if it is marked.
async fn counting<'a, D: Disk>(
    disk: &D,
    dir: &UnsettledDirectory<'a>,
    meta: &'a MetaProperties,
    settled: &mut SettledDirectory,
) -> Result<Option<(LogDirectory<'a>, Vec<CountingRing>)>> {
    let Some(journal) = &meta.journal else {
        return Ok(None);
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
    let places = RingPlaces {
        dir: rings_dir,
        elsewhere: dir.also_in,
        directory_id,
    };
    let voids = voids_in(disk, dir.path, directory_id).await?;
    let mut rings = Vec::new();
    for mark in &journal.rings {
        let ring = places.ring(*mark);
        match does_count(mark, voids.get(&mark.shard)) {
            Ok(true) => rings.push(ring),
            Ok(false) => tracing::warn!(ring = %ring.path.display(),
                "a journal failed and its logs went on without it: it is not read"),
            Err(error) if dir.gives_up => settled.give_up(&ring, &error),
            Err(error) => return Err(error),
        }
    }
    Ok(Some((directory, rings)))
}

impl SettledDirectory {
    fn give_up(&mut self, ring: &CountingRing, error: &JournalError) {
        tracing::error!(%error, "a journal is given up, with what it alone had");
        self.given_up.push((ring.path.clone(), error.to_string()));
    }
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

/// Returns true if a ring counts that the directory's mark names.
///
/// A void mark was written in the use that the directory's mark names, since none is there when a
/// directory is marked; so nothing in a void ring is needed to know that it is void.
fn does_count(mark: &RingMark, void: Option<&(PathBuf, Option<u64>)>) -> Result<bool> {
    match void {
        Some((file, None)) => Err(JournalError::Unreadable { path: file.clone() }),
        Some((_, Some(generation_max))) => Ok(*generation_max < mark.generation),
        None => Ok(true),
    }
}

/// Replays rings that are those that the mark names.
async fn apply_counting<P: Platform>(
    platform: &P,
    directory: &LogDirectory<'_>,
    rings: &[CountingRing],
) -> Result<AppliedRings<File<P>>> {
    let mut found = Vec::new();
    for ring in rings {
        found.push(RingToRead {
            path: find_ring(platform.disk(), directory, ring, Use::Replay).await?,
            is_given_up: ring.is_given_up,
        });
    }
    apply_all(platform, directory, &found).await
}

/// Returns where a ring that counts is.
///
/// Only where there is none, or another one, it is looked for elsewhere: what cannot be read may be
/// newer than a copy.
async fn find_ring<D: Disk>(
    disk: &D,
    directory: &LogDirectory<'_>,
    ring: &CountingRing,
    what_for: Use,
) -> Result<PathBuf> {
    let mark = &ring.mark;
    let missing = match check_ring(disk, directory, (&ring.path, mark), what_for).await {
        Ok(()) => return Ok(ring.path.clone()),
        Err(error @ (JournalError::Missing { .. } | JournalError::Stale { .. })) => error,
        Err(error) => return Err(error),
    };
    for elsewhere in &ring.elsewhere {
        match check_ring(disk, directory, (elsewhere, mark), what_for).await {
            Ok(()) => {
                tracing::warn!(ring = %elsewhere.display(), last = %ring.path.display(), "a journal has moved");
                return Ok(elsewhere.clone());
            }
            Err(JournalError::Missing { .. } | JournalError::Stale { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Err(missing)
}

/// Fails unless a ring is the one that a mark names.
async fn check_ring<D: Disk>(
    disk: &D,
    directory: &LogDirectory<'_>,
    (path, mark): (&Path, &RingMark),
    what_for: Use,
) -> Result<()> {
    let LogDirectory {
        cluster_id,
        directory_id,
        ..
    } = *directory;
    let opened = match what_for {
        Use::Replay => file::open_to_replay(disk, path, cluster_id, directory_id).await,
        Use::Look => file::open_to_look(disk, path, cluster_id, directory_id).await,
    };
    let path = path.to_path_buf();
    match opened {
        Err(JournalError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
            Err(JournalError::Missing { path })
        }
        Ok(found) if !found.header().is_of(mark) => Err(JournalError::Stale { path }),
        found => found.map(drop),
    }
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
    let rings = rings_in(disk, rings_dir, directory_id).await;
    for (path, shard) in rings.map_err(JournalError::io("list", rings_dir))? {
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
