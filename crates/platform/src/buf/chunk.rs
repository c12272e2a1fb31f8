//! A chunk: the only writer of a region of memory, and the shared views of the written bytes.
//!
//! Invariants: bytes below `len` never change again; a view covers only bytes below the `len` at
//! its creation; only the `Chunk` accesses bytes at or above `len`. So a view read on one thread
//! and an append on another never access the same byte. The region returns to its pool when the
//! chunk and all views are dropped.
#![allow(unsafe_code, reason = "appends beside shared views of the same region")]

use std::ops::Range;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use bytes::Bytes;

use super::arena::Region;
use super::pool::SharedPool;
use super::{block_ceil, block_floor, streaming};

/// An append-only piece of block-aligned memory.
pub struct Chunk {
    lease: Arc<Lease>,
    len: usize,
}

impl Chunk {
    pub(super) fn new(region: Region, pool: Arc<SharedPool>) -> Self {
        Self {
            lease: Arc::new(Lease::new(region, pool)),
            len: 0,
        }
    }

    /// Returns the number of bytes appended so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true when nothing has been appended.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the total number of bytes that it can hold.
    pub fn capacity(&self) -> usize {
        self.lease.len()
    }

    /// Returns the number of bytes that still fit.
    pub fn remaining(&self) -> usize {
        self.capacity() - self.len
    }

    /// Copies as much of `bytes` as fits to the end, and returns that number of bytes.
    pub fn append(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.remaining());
        // SAFETY: `len + count` is within the region. There is no other writer (one `Chunk` per
        // lease, `&mut self`), and no view covers bytes from `len` on, so this write races with no
        // read and changes nothing under a reference. `bytes` may be a view of this chunk; it then
        // lies below `len`, so it does not overlap the target.
        unsafe {
            let end = self.lease.start().add(self.len);
            streaming::copy(bytes.as_ptr(), end.as_ptr(), count);
        }
        self.len += count;
        count
    }

    /// Returns everything appended so far, to read single fields without a view.
    pub fn filled(&self) -> &[u8] {
        self.lease.bytes(0..self.len)
    }

    /// Returns a view of appended bytes, without a copy.
    ///
    /// Panics when the range is not within them.
    pub fn slice(&self, range: Range<usize>) -> Bytes {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "slice of bytes that were not appended"
        );
        if range.is_empty() {
            return Bytes::new();
        }
        Bytes::from_owner(View {
            lease: Arc::clone(&self.lease),
            range,
        })
    }

    /// Returns a view of the whole blocks from `from`, which can be written to a file unchanged.
    ///
    /// `from` is a multiple of the block size. Together with [`Chunk::tail_block`] the view covers
    /// everything appended from there.
    pub fn aligned_slice(&self, from: usize) -> Bytes {
        assert!(
            block_floor(from) == from,
            "not at a block boundary: {from} of {}",
            self.len
        );
        let end = block_floor(self.len);
        self.slice(from.min(end)..end)
    }

    /// Returns an aligned copy of the last, partial block, padded with zeroes to a whole block.
    ///
    /// Empty when there is no partial block.
    pub fn tail_block(&self) -> Bytes {
        let start = block_floor(self.len);
        let tail = self.len - start;
        if tail == 0 {
            return Bytes::new();
        }
        let mut block = self.lease.pool.tail_blocks.take(block_ceil(tail));
        block[..tail].copy_from_slice(self.lease.bytes(start..self.len));
        block[tail..].fill(0);
        block.freeze()
    }
}

impl std::fmt::Debug for Chunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chunk")
            .field("len", &self.len)
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}

/// A region taken from its pool.
pub(super) struct Lease {
    /// `None` only while it drops.
    region: Option<Region>,
    pool: Arc<SharedPool>,
}

// SAFETY: a lease only returns the region's address; the rules of `Chunk` and `View` keep accesses
// apart.
unsafe impl Sync for Lease {}

impl Lease {
    pub(super) fn new(region: Region, pool: Arc<SharedPool>) -> Self {
        Self {
            region: Some(region),
            pool,
        }
    }

    fn region(&self) -> &Region {
        self.region.as_ref().expect("present until drop")
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.region().start()
    }

    pub(super) fn len(&self) -> usize {
        self.region().len()
    }

    /// Returns the bytes of `range`; all must have been appended.
    fn bytes(&self, range: Range<usize>) -> &[u8] {
        // SAFETY: the callers pass ranges below the chunk's `len`, thus within the region,
        // initialised, and never written again while the lease lives; the reference cannot outlive
        // the lease. Bytes written on another thread were written before the view was sent to this
        // one.
        unsafe { slice::from_raw_parts(self.start().add(range.start).as_ptr(), range.len()) }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(region) = self.region.take() {
            self.pool.give_back(region);
        }
    }
}

/// A range of a chunk that no longer changes.
struct View {
    lease: Arc<Lease>,
    range: Range<usize>,
}

impl AsRef<[u8]> for View {
    fn as_ref(&self) -> &[u8] {
        self.lease.bytes(self.range.clone())
    }
}
