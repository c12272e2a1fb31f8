//! The pool of one shard's chunks: allocation, return, and preparation of memory.
//!
//! States of a region: cold (mapped, maybe never touched) -> warm (touched, free) -> taken (a
//! [`Chunk`] or slices of it exist) -> warm. Invariants: taken chunks times chunk size <=
//! `bytes_max`, and only that decides whether `take` succeeds (so simulations do not depend on the
//! helper thread); warm + taken exceeds the bound only briefly, because a surplus warmed region is
//! released.

use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::aligned::{AlignedBuf, BufPool};
use super::arena::Region;
use super::chunk::{Chunk, Lease};
use super::prefault;
use crate::disk::BLOCK_BYTES;

/// Maximum bytes of free tail-block copies that a pool keeps for reuse.
const TAIL_BLOCKS_KEPT_BYTES_MAX: usize = 1 << 20;

/// Size and bounds of a [`ChunkPool`].
#[derive(Clone, Copy, Debug)]
pub struct PoolOptions {
    /// Size of a chunk: a multiple of [`BLOCK_BYTES`]; 1 MiB is suitable.
    pub chunk_bytes: usize,
    /// Maximum bytes of taken chunks.
    pub bytes_max: usize,
    /// Free touched chunks to keep ready, or an eighth of the taken ones if that is more. With 0
    /// nothing is prepared, and no helper thread takes part (simulation).
    pub reserve_chunks: usize,
}

/// The pool of a shard; clones share it.
#[derive(Clone)]
pub struct ChunkPool {
    shared: Arc<SharedPool>,
    /// A pool belongs to one shard, although its memory may move between threads.
    _shard: std::marker::PhantomData<Rc<()>>,
}

impl ChunkPool {
    /// Creates an empty pool, whose reserve the helper thread prepares.
    pub fn new(options: PoolOptions) -> Self {
        assert!(
            options.chunk_bytes > 0 && options.chunk_bytes.is_multiple_of(BLOCK_BYTES),
            "chunk size must be a multiple of the block size"
        );
        let shared = Arc::new(SharedPool {
            options,
            state: Mutex::default(),
            tail_blocks: BufPool::new(TAIL_BLOCKS_KEPT_BYTES_MAX),
            freed: Notify::new(),
        });
        shared.prepare_reserve();
        Self {
            shared,
            _shard: std::marker::PhantomData,
        }
    }

    /// Returns an empty chunk, or `None` when the bound is reached.
    pub fn take(&self) -> Option<Chunk> {
        self.chunk(self.shared.take_region(true))
    }

    /// Returns an empty chunk of touched memory, or `None` when none is ready or the bound is
    /// reached.
    ///
    /// The helper thread then prepares more. For a caller that can drop old chunks instead: reusing
    /// one is an order of magnitude faster than touching new memory. Without a reserve it is
    /// `take`.
    pub fn take_ready(&self) -> Option<Chunk> {
        let cold_too = self.shared.options.reserve_chunks == 0;
        self.chunk(self.shared.take_region(cold_too))
    }

    /// Returns a buffer of a chunk's size in touched memory, or `None` as [`ChunkPool::take_ready`]
    /// does.
    ///
    /// It still contains the bytes of its last user.
    pub fn take_ready_buf(&self) -> Option<AlignedBuf> {
        let cold_too = self.shared.options.reserve_chunks == 0;
        self.buf(self.shared.take_region(cold_too))
    }

    /// Returns the same, touched or not; `None` when the bound is reached.
    pub fn take_buf(&self) -> Option<AlignedBuf> {
        self.buf(self.shared.take_region(true))
    }

    fn buf(&self, region: Option<Region>) -> Option<AlignedBuf> {
        self.shared.prepare_reserve();
        let lease = Lease::new(region?, Arc::clone(&self.shared));
        Some(AlignedBuf::leased(lease))
    }

    fn chunk(&self, region: Option<Region>) -> Option<Chunk> {
        self.shared.prepare_reserve();
        Some(Chunk::new(region?, Arc::clone(&self.shared)))
    }

    /// Completes when a chunk has returned since the last call; may complete early.
    ///
    /// For waiting after a `None`.
    pub async fn freed(&self) {
        self.shared.freed.notified().await;
    }

    /// Returns the size of a chunk.
    pub fn chunk_bytes(&self) -> usize {
        self.shared.options.chunk_bytes
    }

    /// Returns the bytes of chunks that are taken or kept alive by slices.
    pub fn used_bytes(&self) -> usize {
        self.shared.lock().taken * self.shared.options.chunk_bytes
    }

    /// Returns the bytes that can still be taken.
    pub fn available_bytes(&self) -> usize {
        let used = self.used_bytes();
        self.shared.options.bytes_max.saturating_sub(used)
    }

    /// Returns the bytes of memory (taken or ready) that this pool has made resident.
    pub fn resident_bytes(&self) -> usize {
        let state = self.shared.lock();
        (state.taken + state.warm.len()) * self.shared.options.chunk_bytes
    }
}

/// The state that the handles, the chunks and the helper thread share.
pub(super) struct SharedPool {
    options: PoolOptions,
    state: Mutex<PoolState>,
    pub(super) tail_blocks: BufPool,
    freed: Notify,
}

#[derive(Default)]
struct PoolState {
    warm: Vec<Region>,
    cold: Vec<Region>,
    taken: usize,
    /// True while the helper thread has an unfinished request.
    asked: bool,
}

impl SharedPool {
    /// Locks the state.
    ///
    /// The shard takes the lock; rarely and briefly, so do the helper thread and a thread that
    /// drops a last slice.
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count_max(&self) -> usize {
        self.options.bytes_max / self.options.chunk_bytes
    }

    fn take_region(&self, cold_too: bool) -> Option<Region> {
        let mut state = self.lock();
        if state.taken >= self.count_max() {
            return None;
        }
        let region = match state.warm.pop() {
            Some(region) => region,
            None if cold_too => self.cold_region(&mut state)?,
            None => return None,
        };
        state.taken += 1;
        Some(region)
    }

    fn cold_region(&self, state: &mut PoolState) -> Option<Region> {
        if state.cold.is_empty() {
            match Region::map(self.options.chunk_bytes, self.count_max()) {
                Ok(regions) => state.cold = regions,
                Err(error) => {
                    tracing::error!(%error, "cannot map memory for chunks");
                    return None;
                }
            }
        }
        state.cold.pop()
    }

    /// Takes a region back, on any thread, when the chunk and its last slice are dropped.
    pub(super) fn give_back(&self, region: Region) {
        let mut state = self.lock();
        state.taken -= 1;
        state.warm.push(region);
        drop(state);
        self.freed.notify_one();
    }

    fn reserve_is_short(&self, state: &PoolState) -> bool {
        if self.options.reserve_chunks == 0 {
            return false;
        }
        let wanted = self.options.reserve_chunks.max(state.taken / 8);
        state.warm.len() < wanted && state.warm.len() + state.taken < self.count_max()
    }

    fn prepare_reserve(self: &Arc<Self>) {
        let mut state = self.lock();
        if state.asked || !self.reserve_is_short(&state) {
            return;
        }
        state.asked = prefault::ask(Arc::downgrade(self));
    }

    /// Warms regions until the reserve is full, on the helper thread.
    pub(super) fn fill_reserve(&self) {
        loop {
            let mut state = self.lock();
            let region = if self.reserve_is_short(&state) {
                self.cold_region(&mut state)
            } else {
                None
            };
            let Some(region) = region else {
                state.asked = false;
                return;
            };
            drop(state);
            region.populate();
            let mut state = self.lock();
            if state.warm.len() + state.taken < self.count_max() {
                state.warm.push(region);
            } else {
                region.release();
                state.cold.push(region);
            }
        }
    }
}
