//! A simulated outside world: a disk in memory that injects faults and loses unsynced data, a
//! paused clock, reproducible randomness.
//!
//! Everything follows from the seed and the order of the calls: two identical runs give the same
//! [`SimDisk::trace_hash`]. Use it inside [`crate::runtime::run_simulated`].
//! [`SimNet`] is a network in memory. Not here: simulation of threads.

mod content;
mod disk;
mod fault;
mod file;
mod hanging;
mod mounts;
mod net;
mod rng;
mod sparse;
mod tree;

use std::cell::RefCell;
use std::rc::Rc;

pub use disk::SimDisk;
pub use fault::{Effect, Fault, OpKind, is_power_off};
pub use file::SimFile;
pub use net::{Pace, SimListener, SimNet, SimStream, Towards};
pub use rng::Rng;

use crate::{Clock, Platform};

/// Wall time when a simulation starts: 2026-01-01 00:00:00 UTC.
const WALL_MS_AT_START: i64 = 1_767_225_600_000;

/// A simulated [`Platform`]; clones share it.
#[derive(Clone)]
pub struct SimPlatform {
    disk: SimDisk,
    clock: Clock,
    rng: Rc<RefCell<Rng>>,
}

impl SimPlatform {
    /// Creates a platform with an empty disk without faults, and a clock that starts at a fixed
    /// time.
    pub fn new(seed: u64) -> Self {
        Self::on(
            SimDisk::new(seed),
            Clock::starting_at(WALL_MS_AT_START),
            seed,
        )
    }

    /// Creates a platform after a restart, with a given disk (such as an image after a crash) and
    /// clock.
    pub fn on(disk: SimDisk, clock: Clock, seed: u64) -> Self {
        disk.set_clock(&clock);
        Self {
            disk,
            clock,
            rng: Rc::new(RefCell::new(Rng::new(seed))),
        }
    }
}

impl Platform for SimPlatform {
    type Disk = SimDisk;

    fn disk(&self) -> &SimDisk {
        &self.disk
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn random_u64(&self) -> u64 {
        self.rng.borrow_mut().next_u64()
    }
}

#[cfg(test)]
mod tests;
