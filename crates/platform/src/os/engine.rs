//! The two implementations of file I/O behind one set of calls, and the choice between them.
//!
//! Each call is one system call: it may transfer less than requested, and the caller continues from
//! there. The buffers of a call live until the kernel is done with them, even when the call's
//! future is dropped. Not here: completing partial transfers (`os/called.rs`).

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use super::durable::WriteKind;
use super::lanes::{Lane, LaneKind, Lanes, Places, WRITES_MAX};
use super::ring::{self, Ring};
use super::threads;
use super::turns::{Turn, Turns};
use crate::buf::AlignedBuf;
use crate::disk::IoClass;
use crate::error::Error;

/// Maximum parts of one vectored write; the kernel's limit is 1024.
pub(super) const PARTS_MAX: usize = 512;

/// The setting `disk.engine`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EngineChoice {
    /// `io_uring` if it works, else threads.
    Auto,
    /// `io_uring`; fails to start without it.
    IoUring,
    /// The thread pool.
    Threads,
}

impl EngineChoice {
    /// The names of the values of the setting.
    pub const NAMES: [&str; 3] = ["auto", "io_uring", "threads"];

    /// Returns the choice with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "auto" => Some(Self::Auto),
            "io_uring" => Some(Self::IoUring),
            "threads" => Some(Self::Threads),
            _ => None,
        }
    }
}

/// The engine of a shard.
pub(super) struct Engine {
    way: EngineBackend,
    #[cfg(test)]
    pub(super) watched: super::durable::tests::WatchedEngine,
    /// Limits large reads.
    pub(super) turns: Turns,
    pub(super) lanes: Lanes,
}

enum EngineBackend {
    Ring(Ring),
    Threads { fallback_reason: Option<String> },
}

impl Engine {
    pub(super) fn start(choice: EngineChoice) -> Result<Self, Error> {
        let way = EngineBackend::start(choice)?;
        let slow_max = match &way {
            EngineBackend::Ring(ring) => ring.workers(),
            EngineBackend::Threads { .. } => threads::THREADS_MAX,
        };
        Ok(Self {
            way,
            #[cfg(test)]
            watched: super::durable::tests::WatchedEngine::default(),
            turns: Turns::default(),
            lanes: Lanes::new(slow_max),
        })
    }

    /// Gives each of `dirs` its own lane, so that a hanging directory blocks no other.
    pub(super) fn keep_apart(&self, dirs: impl IntoIterator<Item = PathBuf>) {
        let count = dirs.into_iter().fold(0, |_, dir| self.lanes.add(&dir));
        let of_each = self.lanes.slow_max().saturating_add(WRITES_MAX);
        if let EngineBackend::Ring(ring) = &self.way
            && count > 1
        {
            ring.allow_workers(of_each.saturating_mul(count.saturating_add(1)));
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match &self.way {
            EngineBackend::Ring(_) => "io_uring",
            EngineBackend::Threads { .. } => "threads",
        }
    }

    pub(super) fn fallback_reason(&self) -> Option<&str> {
        match &self.way {
            EngineBackend::Ring(_) => None,
            EngineBackend::Threads { fallback_reason } => fallback_reason.as_deref(),
        }
    }

    /// Writes some of `parts` (at most [`PARTS_MAX`]), and returns the number of bytes.
    ///
    /// The thread engine ignores classes.
    pub(super) async fn write(
        &self,
        lane: &Lane,
        file: &Arc<OwnedFd>,
        class: IoClass,
        position: u64,
        parts: Vec<Bytes>,
        kind: WriteKind,
    ) -> io::Result<usize> {
        debug_assert!(parts.len() <= PARTS_MAX);
        #[cfg(test)]
        self.watched.write(kind)?;
        let places = lane.request(self.kind(LaneKind::Write)).await;
        match &self.way {
            EngineBackend::Ring(ring) => {
                let write = ring.write(file, class, position, parts, kind, places);
                write.await
            }
            EngineBackend::Threads { .. } => {
                threads::write(file, position, parts, kind, places).await
            }
        }
    }

    /// Reads into a part of `buf`, and returns the number of bytes, 0 at the end of the file.
    ///
    /// The transfer keeps its turn and its places until its end.
    pub(super) async fn read(
        &self,
        file: &Arc<OwnedFd>,
        class: IoClass,
        position: u64,
        buf: AlignedBuf,
        part: Range<usize>,
        kept: (Turn, Places),
    ) -> io::Result<(usize, AlignedBuf)> {
        match &self.way {
            EngineBackend::Ring(ring) => ring.read(file, class, position, buf, part, kept).await,
            EngineBackend::Threads { .. } => threads::read(file, position, buf, part, kept).await,
        }
    }

    /// Syncs data and length.
    pub(super) async fn sync(&self, lane: &Lane, file: &Arc<OwnedFd>) -> io::Result<()> {
        #[cfg(test)]
        self.watched.sync()?;
        let places = lane.request(LaneKind::Slow).await;
        match &self.way {
            EngineBackend::Ring(ring) => ring.sync(file, places).await,
            EngineBackend::Threads { .. } => threads::sync(file, places).await,
        }
    }

    /// Reserves room and extends the file to at least `len` bytes.
    pub(super) async fn allocate(
        &self,
        lane: &Lane,
        file: &Arc<OwnedFd>,
        len: u64,
    ) -> io::Result<()> {
        let places = lane.request(LaneKind::Slow).await;
        match &self.way {
            EngineBackend::Ring(ring) => ring.allocate(file, len, places).await,
            EngineBackend::Threads { .. } => threads::allocate(file, len, places).await,
        }
    }

    /// Returns the kind of a read into `buf`.
    pub(super) fn kind_of_read(&self, buf: &AlignedBuf) -> LaneKind {
        self.kind(if ring::is_slow(buf) {
            LaneKind::Slow
        } else {
            LaneKind::Read
        })
    }

    /// Returns the kind of a request whose kind in a ring is `in_ring`.
    fn kind(&self, in_ring: LaneKind) -> LaneKind {
        match self.way {
            EngineBackend::Ring(_) => in_ring,
            EngineBackend::Threads { .. } => LaneKind::Slow,
        }
    }
}

impl EngineBackend {
    fn start(choice: EngineChoice) -> Result<Self, Error> {
        if choice == EngineChoice::Threads {
            return Ok(Self::Threads {
                fallback_reason: None,
            });
        }
        match Ring::start() {
            Ok(ring) => Ok(Self::Ring(ring)),
            Err(error) if choice == EngineChoice::Auto => Ok(Self::Threads {
                fallback_reason: Some(error.to_string()),
            }),
            Err(error) => Err(Error::Engine {
                engine: "io_uring",
                reason: error.to_string(),
            }),
        }
    }
}
