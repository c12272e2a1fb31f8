//! The outside world: disk, memory, clock, executor. Real ones and simulated ones behind the same
//! traits.
//!
//! Invariant: the only crate with `unsafe`. It knows nothing of Kafka, segments or requests.

pub mod bounded;
pub mod buf;
pub mod clock;
pub mod cpus;
pub mod disk;
pub mod error;
mod latch;
pub mod lock;
pub mod os;
pub mod process;
pub mod runtime;
pub mod sim;
pub mod socket;
pub mod stack;
pub mod sync;
pub mod task;

pub use clock::Clock;
pub use disk::{Disk, DiskFile};
pub use error::Error;

/// The outside world as one type parameter.
pub trait Platform: Clone + 'static {
    /// The disks.
    type Disk: Disk;
    /// The disks.
    fn disk(&self) -> &Self::Disk;
    /// The clocks.
    fn clock(&self) -> &Clock;
    /// Sixty-four random bits (replayable in the simulation).
    fn random_u64(&self) -> u64;
}
