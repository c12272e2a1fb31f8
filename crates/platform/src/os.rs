//! The real world: Linux files, the system's clock and randomness.
//!
//! Segment files use one of two engines with the same behavior: `io_uring` with one ring per shard,
//! or a thread pool where `io_uring` is forbidden. A trial at the start decides. Segment files
//! under a directory declared as DAX ([`SystemDisk::use_dax`]) are mapped instead.
//! Invariant: one [`System`] belongs to one shard and stays on its thread.

mod called;
mod dax;
mod direct;
mod disk;
mod durable;
mod engine;
pub mod ethtool;
mod file;
mod freeing;
mod lanes;
mod names;
pub mod netdev;
mod netlink;
pub mod qdisc;
mod ring;
mod threads;
mod turns;
mod under_way;

use std::rc::Rc;

pub use disk::SystemDisk;
pub use engine::EngineChoice;
pub use file::SystemFile;
pub use names::create_dir;

use crate::error::Error;
use crate::{Clock, Platform};

/// The real [`Platform`] of a shard; clones share it.
#[derive(Clone)]
pub struct System {
    disk: SystemDisk,
    clock: Clock,
    engine: Rc<engine::Engine>,
}

impl System {
    /// Starts the disk engine and the clocks of a shard.
    ///
    /// Must run inside [`crate::runtime::run_shard`]. Fails only when the engine was requested by
    /// name and does not work.
    pub fn start(choice: EngineChoice) -> Result<Self, Error> {
        let engine = Rc::new(engine::Engine::start(choice)?);
        Ok(Self {
            disk: SystemDisk::new(Rc::clone(&engine)),
            clock: Clock::system(),
            engine,
        })
    }

    /// Returns the name of the disk engine in use: `io_uring` or `threads`.
    pub fn engine_name(&self) -> &'static str {
        self.engine.name()
    }

    /// Returns why the thread pool is used although it was not requested.
    pub fn engine_fallback_reason(&self) -> Option<&str> {
        self.engine.fallback_reason()
    }
}

impl Platform for System {
    type Disk = SystemDisk;

    fn disk(&self) -> &SystemDisk {
        &self.disk
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn random_u64(&self) -> u64 {
        random_u64()
    }
}

/// Returns 64 random bits of the kernel, which no peer can guess.
pub fn random_u64() -> u64 {
    u64::from_ne_bytes(random_bytes())
}

/// Returns random bytes of the kernel, which no peer can guess.
pub fn random_bytes<const COUNT: usize>() -> [u8; COUNT] {
    let mut bytes = [0; COUNT];
    let mut filled = 0;
    while filled < bytes.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        match rustix::rand::getrandom(&mut bytes[filled..], flags) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("the kernel gives no random bytes: {error}"),
        }
    }
    bytes
}
