//! The table of tiers: one for the process, shared by its shards through atomics.
//!
//! Invariant: `used` is the sum of what the segments of all shards are charged with ([`Charge`]); a segment is charged
//! for as long as it is in memory, to one path. Numbers may be read a moment late, never torn.
//! It does not: decide anything, touch a disk, or know partitions.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::options::{PathOptions, TierOptions};

/// A path of a table, by position: the paths of the first tier come first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PathId(pub u16);

/// All tiers, the fastest first.
#[derive(Debug)]
pub struct TierTable {
    tiers: Vec<TierOptions>,
    paths: Vec<Arc<TierPath>>,
}

/// One path of a tier and what is known of it just now.
#[derive(Debug)]
pub struct TierPath {
    /// Which one it is.
    pub id: PathId,
    /// Position of its tier in the table.
    pub tier: usize,
    /// Its settings.
    pub options: PathOptions,
    /// Bytes that may be used, by the settings.
    capacity: AtomicU64,
    /// Bytes that the file system has left.
    free: AtomicU64,
    /// Bytes of segments on it.
    used: AtomicU64,
    segments: AtomicU64,
    /// Bytes written to it, and the time that took.
    written_bytes: AtomicU64,
    written_micros: AtomicU64,
    /// Nothing new is put on it, and what is there leaves.
    cordoned: AtomicBool,
    /// Why nothing is written to it any more.
    failed: OnceLock<Arc<str>>,
}

impl TierTable {
    /// A table of `tiers`, of which nothing is known yet.
    pub fn new(tiers: Vec<TierOptions>) -> Arc<Self> {
        let mut paths = Vec::new();
        for (tier, options) in tiers.iter().enumerate() {
            for path in &options.paths {
                let id = PathId(u16::try_from(paths.len()).unwrap_or(u16::MAX));
                paths.push(Arc::new(TierPath::new(id, tier, path.clone())));
            }
        }
        Arc::new(Self { tiers, paths })
    }

    /// The tiers' settings.
    pub fn tiers(&self) -> &[TierOptions] {
        &self.tiers
    }

    /// All paths, those of faster tiers first.
    pub fn paths(&self) -> &[Arc<TierPath>] {
        &self.paths
    }

    /// The paths of one tier.
    pub fn paths_of(&self, tier: usize) -> impl Iterator<Item = &Arc<TierPath>> {
        self.paths.iter().filter(move |path| path.tier == tier)
    }

    /// One path.
    pub fn path(&self, id: PathId) -> Option<&Arc<TierPath>> {
        self.paths.get(usize::from(id.0))
    }

    /// The path that `file` is under.
    pub fn holding(&self, file: &Path) -> Option<&Arc<TierPath>> {
        let under = self
            .paths
            .iter()
            .filter(|path| file.starts_with(path.dir()));
        under.max_by_key(|path| path.dir().components().count())
    }

    /// The directories of all tiers below the first.
    pub fn lower_dirs(&self) -> impl Iterator<Item = &PathBuf> {
        let lower = self.paths.iter().filter(|path| path.tier > 0);
        lower.map(|path| &path.options.dir)
    }

    /// True when there is more than one tier: segments have somewhere to go.
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
            written_bytes: AtomicU64::new(0),
            written_micros: AtomicU64::new(0),
            cordoned: AtomicBool::new(false),
            failed: OnceLock::new(),
        }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.options.dir
    }

    /// Bytes that may be used, by the settings.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Bytes of segments on it.
    pub fn used_bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Segments on it.
    pub fn segments(&self) -> u64 {
        self.segments.load(Ordering::Relaxed)
    }

    /// Bytes that may still be put on it: what the settings and the file system both allow.
    pub fn free_bytes(&self) -> u64 {
        let by_settings = self.capacity_bytes().saturating_sub(self.used_bytes());
        by_settings.min(self.free.load(Ordering::Relaxed))
    }

    /// Takes note of what the file system says.
    pub fn note_space(&self, free_bytes: u64, total_bytes: u64) {
        let capacity = self.options.capacity.of(total_bytes);
        self.capacity.store(capacity, Ordering::Relaxed);
        self.free.store(free_bytes, Ordering::Relaxed);
    }

    /// Takes note of a write.
    pub fn note_written(&self, bytes: u64, micros: u64) {
        self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.written_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Bytes written to it by moves, and the microseconds that took: how fast it is, measured.
    pub fn written(&self) -> (u64, u64) {
        let bytes = self.written_bytes.load(Ordering::Relaxed);
        (bytes, self.written_micros.load(Ordering::Relaxed))
    }

    /// True when nothing new is to be put on it and what is there is to leave.
    pub fn is_cordoned(&self) -> bool {
        self.cordoned.load(Ordering::Relaxed)
    }

    /// Says whether it is to be emptied.
    pub fn set_cordoned(&self, cordoned: bool) {
        self.cordoned.store(cordoned, Ordering::Relaxed);
    }

    /// Why nothing is written to it any more, if so.
    pub fn failed(&self) -> Option<&Arc<str>> {
        self.failed.get()
    }

    /// Says that it failed; the first reason stays. True the first time.
    pub fn fail(&self, reason: &str) -> bool {
        self.failed.set(reason.into()).is_ok()
    }

    /// True when segments may be put on it.
    pub fn takes_segments(&self) -> bool {
        !self.is_cordoned() && self.failed().is_none()
    }
}

/// A segment's bytes, counted as used on a path until this is dropped.
#[derive(Debug)]
#[allow(
    dead_code,
    reason = "segments are charged as soon as they know their path"
)]
pub(crate) struct Charge {
    path: Arc<TierPath>,
    bytes: std::cell::Cell<u64>,
}

#[allow(dead_code, reason = "as above")]
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

    /// The segment has so many bytes now.
    pub(crate) fn set(&self, bytes: u64) {
        let before = self.bytes.replace(bytes);
        if bytes >= before {
            self.path.used.fetch_add(bytes - before, Ordering::Relaxed);
        } else {
            self.path.used.fetch_sub(before - bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.path
            .used
            .fetch_sub(self.bytes.get(), Ordering::Relaxed);
        self.path.segments.fetch_sub(1, Ordering::Relaxed);
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
