//! Lanes: limits of a shard's resources per directory, so that a hanging disk blocks only its own
//! users.
//!
//! A call to a hanging disk does not return, and its caller sends more calls. Without limits, they
//! would take all of the ring, of the kernel's workers and of the blocking threads after a while,
//! and the shard could not use any other disk. Invariants: the lane bounds the operations in flight
//! of one directory, whatever the caller does; a place is free again when the kernel is done, not
//! when the caller stops waiting; waiters for a place are served in order. Each lane knows how long
//! its oldest operation has been in flight. Not here: deciding that a disk hangs, and canceling
//! operations.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use super::under_way::{Begin, UnderWay};
use crate::clock::Instant;

/// Maximum concurrent requests of one directory: more than keeps a device busy, and a fraction of
/// the ring.
const REQUESTS_MAX: usize = 192;

/// Maximum writes among them. A write that cannot complete at once holds a kernel worker until it
/// is done.
pub(super) const WRITES_MAX: usize = 96;

/// From this number of files to be freed on, there are no pauses between their pieces.
const TO_FREE_MAX: usize = 32;

/// Maximum concurrent calls about names of one directory.
const CALLS_MAX: usize = 16;

/// A permit, released when it is dropped; `None` for a read, whose kind has no limit.
type Permit = Option<OwnedSemaphorePermit>;

/// The place of a call in a lane; dropping it releases the place.
pub(super) struct LanePlace {
    _call: Permit,
    _begin: Begin,
}

/// The places of a request; dropping them releases the places.
pub(super) struct Places {
    _request: Permit,
    _among: Permit,
    _begin: Begin,
}

/// The kind of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LaneKind {
    Read,
    Write,
    /// A request that holds a thread until it is done.
    Slow,
}

/// The limits of one directory.
pub(super) struct Lane {
    requests: Arc<Semaphore>,
    writes: Arc<Semaphore>,
    slow: Arc<Semaphore>,
    calls: Arc<Semaphore>,
    freeing: Semaphore,
    /// Files that are being freed or wait for that.
    to_free: AtomicUsize,
    under_way: Arc<UnderWay>,
}

impl Lane {
    pub(super) fn new(slow_max: usize) -> Arc<Self> {
        Arc::new(Self {
            requests: Arc::new(Semaphore::new(REQUESTS_MAX)),
            writes: Arc::new(Semaphore::new(WRITES_MAX)),
            slow: Arc::new(Semaphore::new(slow_max)),
            calls: Arc::new(Semaphore::new(CALLS_MAX)),
            freeing: Semaphore::new(1),
            to_free: AtomicUsize::new(0),
            under_way: Arc::default(),
        })
    }

    /// Waits for a place among the requests, and for one among those of its kind.
    pub(super) async fn request(&self, kind: LaneKind) -> Places {
        // The semaphores are never closed.
        let among = match kind {
            LaneKind::Read => None,
            LaneKind::Write => Arc::clone(&self.writes).acquire_owned().await.ok(),
            LaneKind::Slow => Arc::clone(&self.slow).acquire_owned().await.ok(),
        };
        Places {
            _request: Arc::clone(&self.requests).acquire_owned().await.ok(),
            _among: among,
            _begin: self.under_way.begin(Instant::now()),
        }
    }

    /// Waits for a place among the calls about names.
    pub(super) async fn call(&self) -> LanePlace {
        LanePlace {
            _call: Arc::clone(&self.calls).acquire_owned().await.ok(),
            _begin: self.under_way.begin(Instant::now()),
        }
    }

    /// Waits until no other file of the directory is being freed.
    pub(super) async fn freeing(&self) -> FreeingTurn<'_> {
        let to_free = ToFree::count(&self.to_free);
        FreeingTurn {
            to_free,
            // The semaphore is never closed.
            _permit: self.freeing.acquire().await.ok(),
        }
    }

    /// Returns how long the oldest operation has been in flight.
    pub(super) fn under_way_for(&self) -> Duration {
        self.under_way.longest(Instant::now())
    }
}

/// The turn to free the blocks of a file.
pub(super) struct FreeingTurn<'a> {
    to_free: ToFree<'a>,
    _permit: Option<SemaphorePermit<'a>>,
}

impl FreeingTurn<'_> {
    /// Returns true if more than [`TO_FREE_MAX`] files wait: they may come faster than they are
    /// freed.
    pub(super) fn is_waited_for(&self) -> bool {
        self.to_free.0.load(Ordering::Relaxed) > TO_FREE_MAX
    }
}

/// Counts a file that is to be freed, until it is dropped.
struct ToFree<'a>(&'a AtomicUsize);

impl<'a> ToFree<'a> {
    fn count(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for ToFree<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The lanes of a shard.
pub(super) struct Lanes {
    /// Directories with their own lane.
    // Bounded: the directories of the settings.
    apart: RefCell<Vec<(PathBuf, Arc<Lane>)>>,
    /// The lane of everything else.
    rest: Arc<Lane>,
    slow_max: usize,
}

impl Lanes {
    /// Creates one lane for everything, with at most `slow_max` concurrent slow requests.
    pub(super) fn new(slow_max: usize) -> Self {
        Self {
            apart: RefCell::default(),
            rest: Lane::new(slow_max),
            slow_max,
        }
    }

    /// Gives everything below `dir` its own lane, and returns the number of such directories.
    pub(super) fn add(&self, dir: &Path) -> usize {
        let mut apart = self.apart.borrow_mut();
        if !apart.iter().any(|(other, _)| other == dir) {
            apart.push((dir.to_owned(), Lane::new(self.slow_max)));
        }
        apart.len()
    }

    /// Returns the lane of `path`: that of the innermost enclosing directory.
    pub(super) fn of(&self, path: &Path) -> Arc<Lane> {
        let apart = self.apart.borrow();
        let around = apart.iter().filter(|(dir, _)| path.starts_with(dir));
        let innermost = around.max_by_key(|(dir, _)| dir.components().count());
        Arc::clone(innermost.map_or(&self.rest, |(_, lane)| lane))
    }

    /// Returns the limit of slow requests per lane.
    pub(super) fn slow_max(&self) -> usize {
        self.slow_max
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::rc::Rc;

    use tokio::time::timeout;

    use super::super::called::CalledFile;
    use super::super::engine::{Engine, EngineChoice};
    use super::*;
    use crate::buf::BufPool;
    use crate::disk::DiskFile;
    use crate::runtime::run_shard;

    const LARGE: usize = 1 << 20;
    const PATIENCE: Duration = Duration::from_mins(1);

    fn file(engine: &Rc<Engine>, path: &str, file: OwnedFd) -> CalledFile {
        let lane = engine.lanes.of(Path::new(path));
        CalledFile::new(Rc::clone(engine), lane, BufPool::new(LARGE), file, false)
    }

    #[test]
    fn a_directory_whose_disk_hangs_holds_up_nobody_who_wants_another() {
        let ran = run_shard(None, async {
            let engine = Rc::new(Engine::start(EngineChoice::Auto).unwrap());
            if engine.name() != "io_uring" {
                // A pipe cannot be read at a position by the thread engine.
                return;
            }
            engine.keep_apart(["/hangs".into(), "/works".into()]);
            // Reads of an empty pipe do not return.
            let (pipe, writer) = std::io::pipe().unwrap();
            let stuck = file(&engine, "/hangs/t-0/0.log", pipe.into());
            let reads: Vec<_> = (0..400)
                .map(|at| {
                    let (stuck, len) = (stuck.clone(), if at < 40 { LARGE } else { 4096 });
                    tokio::task::spawn_local(async move { stuck.read_at(0, len).await })
                })
                .collect();
            let other = tempfile::tempfile().unwrap();
            other.set_len(LARGE as u64).unwrap();
            let works = file(
                &engine,
                "/works/t-0/0.log",
                other.try_clone().unwrap().into(),
            );
            let same = file(&engine, "/hangs/t-1/0.log", other.into());
            for len in [LARGE, 4096, LARGE] {
                let read = timeout(PATIENCE, works.read_at(0, len)).await;
                let read = read.expect("another directory hangs").unwrap();
                assert_eq!(read.len(), len);
            }
            let synced = timeout(PATIENCE, works.sync()).await;
            synced.expect("another directory hangs").unwrap();
            let waits = timeout(Duration::from_millis(1), same.read_at(0, 4096)).await;
            assert!(waits.is_err(), "its own lane is full");
            let under_way = |dir: &str| engine.lanes.of(Path::new(dir)).under_way_for();
            let (hangs, idle) = (under_way("/hangs"), under_way("/works"));
            assert!(hangs >= Duration::from_millis(1), "{hangs:?}");
            assert_eq!(idle, Duration::ZERO);
            drop(writer);
            for read in reads {
                assert!(read.await.unwrap().unwrap().is_empty());
            }
            assert_eq!(same.read_at(0, LARGE).await.unwrap().len(), LARGE);
            assert_eq!(under_way("/hangs"), Duration::ZERO);
        });
        ran.unwrap();
    }

    #[test]
    fn a_path_is_in_the_lane_of_the_innermost_directory_around_it() {
        let lanes = Lanes::new(4);
        assert_eq!(lanes.add(Path::new("/a")), 1);
        assert_eq!(lanes.add(Path::new("/a/b")), 2);
        assert_eq!(lanes.add(Path::new("/a")), 2, "it has one");
        let lane = |path: &str| Arc::as_ptr(&lanes.of(Path::new(path)));
        assert_eq!(lane("/a/t-0/0.log"), lane("/a"));
        assert_eq!(lane("/a/b/t-0/0.log"), lane("/a/b"));
        assert_eq!(lane("/ab/t-0/0.log"), lane("/elsewhere"));
        assert_ne!(lane("/a"), lane("/a/b"));
        assert_ne!(lane("/a"), lane("/elsewhere"));
    }
}
