//! Block-aligned memory for segment I/O: chunks that a log appends to and serves from, and buffers
//! for reads.
//!
//! A [`Chunk`] is at once the tail of a segment, the source of its writes and its tail cache: bytes
//! appended to it never move and never change, so they are handed out as [`bytes::Bytes`] without a
//! copy while appending goes on. Invariants: memory in use never exceeds `bytes_max`; memory is
//! reused and not given back to the system before the pool goes; the first touch of a page (slow in
//! virtual machines) happens on a helper thread as long as the reserve lasts. It does not: know
//! files or positions, evict, or wait; who holds chunks decides when to let go of them.

mod aligned;
mod arena;
mod chunk;
mod pool;
mod prefault;
mod streaming;

pub use aligned::{AlignedBuf, BufPool};
pub use chunk::Chunk;
pub use pool::{ChunkPool, PoolOptions};

use crate::disk::BLOCK_BYTES;

/// The largest multiple of the block size that is at most `len`.
pub fn block_floor(len: usize) -> usize {
    len - len % BLOCK_BYTES
}

/// The smallest multiple of the block size that is at least `len`.
pub fn block_ceil(len: usize) -> usize {
    len.next_multiple_of(BLOCK_BYTES)
}

#[cfg(test)]
mod tests;
