//! The table of tiers: one for the process, shared by its shards through atomics.
//!
//! Invariant: `used` is the sum of the charges of all shards' segments ([`Charge`]); a segment is
//! charged to one path for as long as it is in memory. Numbers may be read slightly late, never
//! torn.
//! It does not decide anything, access a disk, or know partitions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use platform::sync::Notify;
use wire::types::Uuid;

use super::options::{Medium, PathOptions, TierOptions};
use super::pace::MoveRate;
use super::pool::{Pool, PoolOptions};

/// A path of a table, by position: the paths of the first tier come first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PathId(pub u16);

/// All tiers, the fastest first.
#[derive(Debug)]
pub struct TierTable {
    tiers: Vec<TierOptions>,
    paths: Vec<Arc<TierPath>>,
    /// The rate of all moves together.
    pub(crate) rate: MoveRate,
    /// Moves in progress, of all shards.
    pub(crate) moving: AtomicUsize,
    /// Wakes the movers of all shards when a move has ended.
    pub(crate) move_ended: Notify,
    /// The directories that were ever used, by their last path.
    known: OnceLock<BTreeMap<PathBuf, Uuid>>,
}

/// The use of a path that an operator allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathUse {
    /// All uses.
    Open,
    /// No new segment is put on it; segments there stay.
    Cordoned,
    /// As cordoned, and its segments are moved away.
    Draining,
}

/// One path of a tier and its current state.
#[derive(Debug)]
pub struct TierPath {
    /// The id of the path.
    pub id: PathId,
    /// The position of its tier in the table.
    pub tier: usize,
    /// Its settings.
    pub options: PathOptions,
    /// Bytes that the settings allow to use.
    capacity: AtomicU64,
    /// Bytes that the file system has left.
    free: AtomicU64,
    /// Bytes of segments on it.
    used: AtomicU64,
    segments: AtomicU64,
    /// Bytes of the current moves to it and from it.
    pub(crate) arriving: AtomicU64,
    pub(crate) leaving: AtomicU64,
    /// Bytes of appends written to it.
    appended: AtomicU64,
    /// Bytes that moves wrote to it, and the time that they took.
    written_bytes: AtomicU64,
    written_micros: AtomicU64,
    /// Segments and bytes that came from faster tiers, and from slower ones.
    came_down: (AtomicU64, AtomicU64),
    came_up: (AtomicU64, AtomicU64),
    move_errors: AtomicU64,
    /// Reads of it, and their bytes.
    hits: AtomicU64,
    /// Prepared segment files, on the first tier if it is persistent memory.
    pool: Option<Pool>,
    /// It was declared as persistent memory but is ordinary memory.
    emulated: AtomicBool,
    read_bytes: AtomicU64,
    /// An operator has cordoned or drained it; each is revoked separately.
    cordoned: AtomicBool,
    draining: AtomicBool,
    /// Why nothing is written to it any more.
    failed: OnceLock<Arc<str>>,
    /// The id of the directory, wherever it is mounted.
    identity: OnceLock<Uuid>,
}

impl TierTable {
    /// Creates a table of `tiers` whose state is not known yet.
    pub fn new(tiers: Vec<TierOptions>) -> Arc<Self> {
        Self::pooled(tiers, None)
    }

    /// Creates the same, with pools of segment files on paths of the first tier if it is persistent
    /// memory.
    pub fn with_pools(tiers: Vec<TierOptions>, options: PoolOptions) -> Arc<Self> {
        Self::pooled(tiers, Some(options))
    }

    fn pooled(tiers: Vec<TierOptions>, pools: Option<PoolOptions>) -> Arc<Self> {
        let mut paths = Vec::new();
        for (tier, options) in tiers.iter().enumerate() {
            for path in &options.paths {
                let id = PathId(u16::try_from(paths.len()).unwrap_or(u16::MAX));
                let mut path = TierPath::new(id, tier, path.clone());
                let takes_new_segments = tier == 0 && options.medium == Medium::Dax;
                let wanted = pools.filter(|_| takes_new_segments);
                path.pool = wanted.and_then(Pool::new);
                paths.push(Arc::new(path));
            }
        }
        Arc::new(Self {
            tiers,
            paths,
            rate: MoveRate::default(),
            moving: AtomicUsize::new(0),
            move_ended: Notify::new(),
            known: OnceLock::new(),
        })
    }

    /// Sets which directories were ever used and where each was last, as known before this start.
    ///
    /// It is called before any log is opened; only the first call has an effect.
    pub fn learn(&self, known: BTreeMap<PathBuf, Uuid>) {
        // An earlier caller has read the same files.
        let _ = self.known.set(known);
    }

    /// Returns the id of the directory that was last at a path.
    pub(crate) fn known_id(&self, dir: &Path) -> Option<Uuid> {
        self.known.get()?.get(dir).copied()
    }

    /// Returns true when every directory that was ever used is one of the paths, and none has
    /// failed.
    ///
    /// Then a segment that is not found exists nowhere.
    pub(crate) fn is_complete(&self) -> bool {
        let here = |id: &Uuid| self.paths.iter().any(|path| path.identity() == Some(*id));
        let known = self.known.get();
        let known_are_here = known.is_none_or(|known| known.values().all(here));
        known_are_here && self.paths.iter().all(|path| path.failed().is_none())
    }

    /// Returns the settings of the tiers.
    pub fn tiers(&self) -> &[TierOptions] {
        &self.tiers
    }

    /// Returns all paths, those of faster tiers first.
    pub fn paths(&self) -> &[Arc<TierPath>] {
        &self.paths
    }

    /// Returns the paths of one tier.
    pub fn paths_of(&self, tier: usize) -> impl Iterator<Item = &Arc<TierPath>> {
        self.paths.iter().filter(move |path| path.tier == tier)
    }

    /// Returns one path.
    pub fn path(&self, id: PathId) -> Option<&Arc<TierPath>> {
        self.paths.get(usize::from(id.0))
    }

    /// Returns the innermost path that contains `file`.
    pub fn holding(&self, file: &Path) -> Option<&Arc<TierPath>> {
        let under = self
            .paths
            .iter()
            .filter(|path| file.starts_with(path.dir()));
        under.max_by_key(|path| path.dir().components().count())
    }

    /// Returns the directories of all tiers below the first.
    pub fn lower_dirs(&self) -> impl Iterator<Item = &PathBuf> {
        let lower = self.paths.iter().filter(|path| path.tier > 0);
        lower.map(|path| &path.options.dir)
    }

    /// Returns true when some path has a pool of segment files.
    pub(crate) fn has_pools(&self) -> bool {
        self.paths.iter().any(|path| path.pool.is_some())
    }

    /// Returns true when there is more than one tier, so segments can move.
    pub fn is_tiered(&self) -> bool {
        self.tiers.len() > 1
    }
}

impl TierPath {
    fn new(id: PathId, tier: usize, options: PathOptions) -> Self {
        Self {
            id,
            tier,
            options,
            capacity: AtomicU64::new(0),
            free: AtomicU64::new(0),
            used: AtomicU64::new(0),
            segments: AtomicU64::new(0),
            arriving: AtomicU64::new(0),
            leaving: AtomicU64::new(0),
            appended: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
            written_micros: AtomicU64::new(0),
            came_down: (AtomicU64::new(0), AtomicU64::new(0)),
            came_up: (AtomicU64::new(0), AtomicU64::new(0)),
            move_errors: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            pool: None,
            emulated: AtomicBool::new(false),
            read_bytes: AtomicU64::new(0),
            cordoned: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            failed: OnceLock::new(),
            identity: OnceLock::new(),
        }
    }

    /// Returns the id of the directory; for a failed path, the expected id, if known.
    pub fn identity(&self) -> Option<Uuid> {
        self.identity.get().copied()
    }

    /// Sets the id of the directory before any log is opened; the first id stays.
    pub fn set_identity(&self, id: Uuid) {
        let _ = self.identity.set(id);
    }

    /// Returns the directory.
    pub fn dir(&self) -> &Path {
        &self.options.dir
    }

    /// Returns the bytes that the settings allow to use.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Returns the bytes of segments on it.
    pub fn used_bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns the number of segments on it.
    pub fn segments(&self) -> u64 {
        self.segments.load(Ordering::Relaxed)
    }

    /// Returns the bytes that may still be put on it, within the settings and the file system.
    ///
    /// Prepared files do not count as used, because they are removed when room is needed.
    pub fn free_bytes(&self) -> u64 {
        let by_settings = self.capacity_bytes().saturating_sub(self.used_bytes());
        let free = self.free.load(Ordering::Relaxed);
        by_settings.min(free.saturating_add(self.pooled_bytes()))
    }

    /// Returns the bytes of prepared segment files, which are not used yet.
    pub fn pooled_bytes(&self) -> u64 {
        self.pool.as_ref().map_or(0, Pool::bytes)
    }

    /// Returns its pool of prepared segment files.
    pub(crate) fn pool(&self) -> Option<&Pool> {
        self.pool.as_ref()
    }

    /// Returns true if it was declared as persistent memory but is ordinary memory.
    pub fn is_emulated(&self) -> bool {
        self.emulated.load(Ordering::Relaxed)
    }

    /// Sets whether it is emulated.
    pub fn set_emulated(&self, emulated: bool) {
        self.emulated.store(emulated, Ordering::Relaxed);
    }

    /// Notes the room that the file system reports.
    pub fn note_space(&self, free_bytes: u64, total_bytes: u64) {
        let capacity = self.options.capacity.of(total_bytes);
        self.capacity.store(capacity, Ordering::Relaxed);
        self.free.store(free_bytes, Ordering::Relaxed);
    }

    /// Notes a write by a move.
    pub fn note_written(&self, bytes: u64, micros: u64) {
        self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.written_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Returns the bytes that moves wrote to it and the microseconds that they took, which give its
    /// measured speed.
    pub fn written(&self) -> (u64, u64) {
        let bytes = self.written_bytes.load(Ordering::Relaxed);
        (bytes, self.written_micros.load(Ordering::Relaxed))
    }

    /// Returns the bytes of appends written to it.
    pub fn appended_bytes(&self) -> u64 {
        self.appended.load(Ordering::Relaxed)
    }

    pub(crate) fn note_appended(&self, bytes: u64) {
        self.appended.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes that a segment of `bytes` bytes came from another path.
    pub(crate) fn note_arrival(&self, from_tier: usize, bytes: u64) {
        let (segments, sum) = if from_tier <= self.tier {
            &self.came_down
        } else {
            &self.came_up
        };
        segments.fetch_add(1, Ordering::Relaxed);
        sum.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn note_move_error(&self) {
        self.move_errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns segments and bytes that came from faster tiers or from another path of this one.
    pub fn came_down(&self) -> (u64, u64) {
        let (segments, bytes) = &self.came_down;
        (
            segments.load(Ordering::Relaxed),
            bytes.load(Ordering::Relaxed),
        )
    }

    /// Returns segments and bytes that came from slower tiers.
    pub fn came_up(&self) -> (u64, u64) {
        let (segments, bytes) = &self.came_up;
        (
            segments.load(Ordering::Relaxed),
            bytes.load(Ordering::Relaxed),
        )
    }

    /// Returns the number of failed moves to it.
    pub fn move_errors(&self) -> u64 {
        self.move_errors.load(Ordering::Relaxed)
    }

    /// Returns the bytes of the current moves to it and from it.
    pub fn under_way(&self) -> (u64, u64) {
        let arriving = self.arriving.load(Ordering::Relaxed);
        (arriving, self.leaving.load(Ordering::Relaxed))
    }

    /// Returns the reads of segments on it that were not answered from memory.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    pub(crate) fn note_hit(&self) {
        self.hits.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the bytes of those reads.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn note_read_bytes(&self, bytes: u64) {
        self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the use of it that an operator allows.
    pub fn using(&self) -> PathUse {
        if self.draining.load(Ordering::Relaxed) {
            PathUse::Draining
        } else if self.cordoned.load(Ordering::Relaxed) {
            PathUse::Cordoned
        } else {
            PathUse::Open
        }
    }

    /// Sets whether new segments may be put on it.
    pub fn set_cordoned(&self, cordoned: bool) {
        self.cordoned.store(cordoned, Ordering::Relaxed);
    }

    /// Sets whether its segments are moved away.
    ///
    /// A path that is also cordoned stays cordoned when its drain is stopped.
    pub fn set_draining(&self, draining: bool) {
        self.draining.store(draining, Ordering::Relaxed);
    }

    /// Returns why nothing is written to it any more, if so.
    pub fn failed(&self) -> Option<&Arc<str>> {
        self.failed.get()
    }

    /// Marks it as failed; the first reason stays.
    ///
    /// Returns true the first time.
    pub fn fail(&self, reason: &str) -> bool {
        self.failed.set(reason.into()).is_ok()
    }

    /// Notes that nothing fits at the moment, whatever the numbers are.
    pub(crate) fn note_full(&self) {
        self.free.store(0, Ordering::Relaxed);
    }
}

/// The bytes of a segment, counted as used on a path until this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    path: Arc<TierPath>,
    bytes: std::cell::Cell<u64>,
}

impl Charge {
    pub(crate) fn new(path: &Arc<TierPath>, bytes: u64) -> Self {
        path.used.fetch_add(bytes, Ordering::Relaxed);
        path.segments.fetch_add(1, Ordering::Relaxed);
        Self {
            path: Arc::clone(path),
            bytes: std::cell::Cell::new(bytes),
        }
    }

    pub(crate) fn path(&self) -> &Arc<TierPath> {
        &self.path
    }

    /// Sets the bytes of the segment.
    pub(crate) fn set(&self, bytes: u64) {
        let before = self.bytes.replace(bytes);
        if bytes >= before {
            self.path.used.fetch_add(bytes - before, Ordering::Relaxed);
        } else {
            self.take(before - bytes);
        }
    }

    fn take(&self, bytes: u64) {
        let used = self.path.used.fetch_sub(bytes, Ordering::Relaxed);
        assert!(used >= bytes, "what is given back was counted");
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.take(self.bytes.get());
        let segments = self.path.segments.fetch_sub(1, Ordering::Relaxed);
        assert!(segments > 0, "what goes was counted");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tier::options::{Capacity, Medium, Safety};

    fn table() -> Arc<TierTable> {
        let tier = |name: &str, dirs: &[&str]| TierOptions {
            name: name.into(),
            paths: dirs
                .iter()
                .map(|dir| PathOptions {
                    dir: dir.into(),
                    capacity: Capacity::Bytes(100),
                })
                .collect(),
            medium: Medium::File,
            safety: Safety::Durable,
            read_bytes_per_second: None,
            write_bytes_per_second: None,
        };
        TierTable::new(vec![tier("fast", &["/a"]), tier("bulk", &["/a/b", "/c"])])
    }

    #[test]
    fn a_file_is_on_the_innermost_path_that_it_is_under() {
        let table = table();
        let of = |file: &str| table.holding(Path::new(file)).map(|path| path.id);
        assert_eq!(of("/a/t-0/x.log"), Some(PathId(0)));
        assert_eq!(of("/a/b/t-0/x.log"), Some(PathId(1)));
        assert_eq!(of("/ab"), None);
    }

    #[test]
    fn a_cordoned_path_is_still_cordoned_when_its_drain_is_stopped() {
        let table = table();
        let path = table.path(PathId(2)).unwrap();
        let steps = [
            (true, false, PathUse::Cordoned),
            (true, true, PathUse::Draining),
            (true, false, PathUse::Cordoned),
            (false, true, PathUse::Draining),
            (false, false, PathUse::Open),
        ];
        for (cordoned, draining, expected) in steps {
            path.set_cordoned(cordoned);
            path.set_draining(draining);
            assert_eq!(path.using(), expected);
        }
    }

    #[test]
    fn what_is_used_follows_the_segments() {
        let table = table();
        let path = table.path(PathId(2)).unwrap();
        path.note_space(1000, 2000);
        let charge = Charge::new(path, 30);
        assert_eq!((path.used_bytes(), path.free_bytes()), (30, 70));
        charge.set(10);
        assert_eq!((path.used_bytes(), path.segments()), (10, 1));
        path.note_space(50, 2000);
        assert_eq!(path.free_bytes(), 50);
        drop(charge);
        assert_eq!((path.used_bytes(), path.segments()), (0, 0));
    }
}
