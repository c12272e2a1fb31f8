//! Lanes: what of a shard's means each directory may take, so that one whose disk hangs holds up nobody but who wants it.
//!
//! A call to a disk that does not answer does not come back, and who asked comes again: what it holds of the ring, of the
//! kernel's workers and of the threads that may block would be all there is after a while, and no other disk of the shard
//! could be asked for anything. Invariants: what is under way in one directory is bounded by its lane, whoever waits for it;
//! a place is free again when the kernel is done, not when nobody waits any more; who waits for a place waits in line.
//! Each knows for how long it has had what under way. It does not: say that a disk hangs, or give anything up.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::under_way::{Begin, UnderWay};
use crate::clock::Instant;

/// Requests of one directory at a time: more than keeps a device busy, and a fraction of what a ring takes.
const REQUESTS_MAX: usize = 192;

/// Writes among them. One that cannot be done at once holds one of the kernel's workers until it is done.
pub(super) const WRITES_MAX: usize = 96;

/// Calls about names of one directory at a time.
const CALLS_MAX: usize = 16;

/// A place among others; free when it is dropped. `None`: nothing is bounded any more.
type Permit = Option<OwnedSemaphorePermit>;

/// The place of a call in a lane; free when it is dropped.
pub(super) struct Place {
    _call: Permit,
    _begin: Begin,
}

/// The places of a request; free when they are dropped.
pub(super) struct Places {
    _request: Permit,
    _among: Permit,
    _begin: Begin,
}

/// What a request is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    /// It holds a thread until it is done.
    Slow,
}

/// What one directory may have under way.
pub(super) struct Lane {
    requests: Arc<Semaphore>,
    writes: Arc<Semaphore>,
    slow: Arc<Semaphore>,
    calls: Arc<Semaphore>,
    under_way: Arc<UnderWay>,
}

impl Lane {
    pub(super) fn new(slow_max: usize) -> Arc<Self> {
        Arc::new(Self {
            requests: Arc::new(Semaphore::new(REQUESTS_MAX)),
            writes: Arc::new(Semaphore::new(WRITES_MAX)),
            slow: Arc::new(Semaphore::new(slow_max)),
            calls: Arc::new(Semaphore::new(CALLS_MAX)),
            under_way: Arc::default(),
        })
    }

    /// Waits for a place for a request, and one among those of its kind.
    pub(super) async fn request(&self, kind: Kind) -> Places {
        // Never closed.
        let among = match kind {
            Kind::Read => None,
            Kind::Write => Arc::clone(&self.writes).acquire_owned().await.ok(),
            Kind::Slow => Arc::clone(&self.slow).acquire_owned().await.ok(),
        };
        Places {
            _request: Arc::clone(&self.requests).acquire_owned().await.ok(),
            _among: among,
            _begin: self.under_way.begin(Instant::now()),
        }
    }

    /// Waits for a place for a call about a name.
    pub(super) async fn call(&self) -> Place {
        Place {
            _call: Arc::clone(&self.calls).acquire_owned().await.ok(),
            _begin: self.under_way.begin(Instant::now()),
        }
    }

    /// For how long what is under way longest has been.
    pub(super) fn under_way_for(&self) -> Duration {
        self.under_way.longest(Instant::now())
    }
}

/// The lanes of a shard.
pub(super) struct Lanes {
    /// Directories with a lane of their own.
    // Bounded: those of the settings.
    apart: RefCell<Vec<(PathBuf, Arc<Lane>)>>,
    /// Of everything else.
    rest: Arc<Lane>,
    slow_max: usize,
}

impl Lanes {
    /// One for everything, with so many slow requests at a time.
    pub(super) fn new(slow_max: usize) -> Self {
        Self {
            apart: RefCell::default(),
            rest: Lane::new(slow_max),
            slow_max,
        }
    }

    /// Gives what is below `dir` a lane of its own; says how many have one.
    pub(super) fn add(&self, dir: &Path) -> usize {
        let mut apart = self.apart.borrow_mut();
        if !apart.iter().any(|(other, _)| other == dir) {
            apart.push((dir.to_owned(), Lane::new(self.slow_max)));
        }
        apart.len()
    }

    /// The lane of `path`: that of the innermost directory around it.
    pub(super) fn of(&self, path: &Path) -> Arc<Lane> {
        let apart = self.apart.borrow();
        let around = apart.iter().filter(|(dir, _)| path.starts_with(dir));
        let innermost = around.max_by_key(|(dir, _)| dir.components().count());
        Arc::clone(innermost.map_or(&self.rest, |(_, lane)| lane))
    }

    /// The slow requests that a lane may have.
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
                // Nothing can be read from a pipe at a position.
                return;
            }
            engine.keep_apart(["/hangs".into(), "/works".into()]);
            // Reads of an empty pipe do not come back.
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
