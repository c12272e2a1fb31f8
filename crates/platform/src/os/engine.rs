//! The two ways of doing file I/O behind one set of calls, and the choice between them.
//!
//! Each call is one system call: it may do less than asked, and the caller goes on from there. The
//! buffers of a call live until the kernel is done with them, also when the call's future is
//! dropped.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Bytes;

use super::ring::Ring;
use super::threads;
use super::turns::{Turn, Turns};
use crate::buf::AlignedBuf;
use crate::disk::IoClass;
use crate::error::Error;

/// Parts of one vectored write; the kernel's own bound is 1024.
pub(super) const PARTS_MAX: usize = 512;

/// The setting `disk.engine`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EngineChoice {
    /// `io_uring` if it works, else threads.
    Auto,
    /// `io_uring`, or refuse to start.
    IoUring,
    /// The thread pool.
    Threads,
}

impl EngineChoice {
    /// The names of the setting's values.
    pub const NAMES: [&str; 3] = ["auto", "io_uring", "threads"];

    /// The choice of a name.
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
    way: Way,
    /// Of large reads.
    pub(super) turns: Turns,
}

enum Way {
    Ring(Ring),
    Threads { fallback_reason: Option<String> },
}

impl Engine {
    pub(super) fn start(choice: EngineChoice) -> Result<Self, Error> {
        Ok(Self {
            way: Way::start(choice)?,
            turns: Turns::default(),
        })
    }

    pub(super) fn name(&self) -> &'static str {
        match &self.way {
            Way::Ring(_) => "io_uring",
            Way::Threads { .. } => "threads",
        }
    }

    pub(super) fn fallback_reason(&self) -> Option<&str> {
        match &self.way {
            Way::Ring(_) => None,
            Way::Threads { fallback_reason } => fallback_reason.as_deref(),
        }
    }

    /// Writes some of `parts` (at most [`PARTS_MAX`]); says how many bytes. Threads know no classes.
    pub(super) async fn write(
        &self,
        file: &Arc<OwnedFd>,
        class: IoClass,
        position: u64,
        parts: Vec<Bytes>,
    ) -> io::Result<usize> {
        debug_assert!(parts.len() <= PARTS_MAX);
        match &self.way {
            Way::Ring(ring) => ring.write(file, class, position, parts).await,
            Way::Threads { .. } => threads::write(file, position, parts).await,
        }
    }

    /// Reads into a part of `buf`; says how many bytes came, 0 at the end of the
    /// file. The transfer has its `turn` to its end.
    pub(super) async fn read(
        &self,
        file: &Arc<OwnedFd>,
        class: IoClass,
        position: u64,
        buf: AlignedBuf,
        part: Range<usize>,
        turn: Turn,
    ) -> io::Result<(usize, AlignedBuf)> {
        match &self.way {
            Way::Ring(ring) => ring.read(file, class, position, buf, part, turn).await,
            Way::Threads { .. } => threads::read(file, position, buf, part, turn).await,
        }
    }

    /// Syncs bytes and length.
    pub(super) async fn sync(&self, file: &Arc<OwnedFd>) -> io::Result<()> {
        match &self.way {
            Way::Ring(ring) => ring.sync(file).await,
            Way::Threads { .. } => threads::sync(file).await,
        }
    }

    /// Reserves room; the file becomes at least this long.
    pub(super) async fn allocate(&self, file: &Arc<OwnedFd>, len: u64) -> io::Result<()> {
        match &self.way {
            Way::Ring(ring) => ring.allocate(file, len).await,
            Way::Threads { .. } => threads::allocate(file, len).await,
        }
    }
}

impl Way {
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
