//! Block-aligned memory for segment I/O: chunks that a log appends to and serves from, and buffers
//! for reads.
//!
//! A [`Chunk`] is the tail of a segment, the source of its writes and its tail cache. Appended
//! bytes never move or change, so a chunk returns them as [`bytes::Bytes`] without a copy while
//! appends continue. Invariants: memory in use never exceeds `bytes_max`; memory is reused, and
//! returns to the system only when the pool drops; while the reserve lasts, a helper thread does
//! the first touch of a page (slow in virtual machines). Not here: files, positions, eviction,
//! waiting; the holder of a chunk decides when to drop it.

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

/// Returns the largest multiple of the block size that is at most `len`.
pub fn block_floor(len: usize) -> usize {
    len - len % BLOCK_BYTES
}

/// Returns the smallest multiple of the block size that is at least `len`.
pub fn block_ceil(len: usize) -> usize {
    len.next_multiple_of(BLOCK_BYTES)
}

#[cfg(test)]
mod tests;
