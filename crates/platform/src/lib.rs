//! The outside world: disk, memory, clock and executor, with real and simulated implementations
//! behind the same traits.
//!
//! Invariant: this is the only crate with `unsafe`. Not here: Kafka, segments, requests.

pub mod bounded;
pub mod buf;
pub mod clock;
pub mod cpus;
pub mod disk;
pub mod error;
mod latch;
pub mod lifeline;
pub mod lock;
pub mod memory;
pub mod net;
pub mod os;
pub mod process;
pub mod runtime;
pub mod sim;
pub mod socket;
pub mod stack;
pub mod sync;
pub mod task;
mod workers;

pub use clock::Clock;
pub use disk::{Disk, DiskFile};
pub use error::Error;

/// The outside world, as one type parameter.
pub trait Platform: Clone + 'static {
    /// The disks.
    type Disk: Disk;
    /// Returns the disks.
    fn disk(&self) -> &Self::Disk;
    /// Returns the clocks.
    fn clock(&self) -> &Clock;
    /// Returns 64 random bits (reproducible in the simulation).
    fn random_u64(&self) -> u64;
}
