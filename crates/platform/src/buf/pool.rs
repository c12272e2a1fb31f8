//! The pool of one shard's chunks: who has memory, who gets it back, when to prepare more.
//!
//! States of a region: cold (mapped, maybe never touched) -> warm (touched, free) -> taken (a
//! [`Chunk`] or slices of it exist) -> warm again. Invariants: taken chunks times chunk size <=
//! `bytes_max`, and that alone decides whether `take` succeeds (so simulations do not depend on the
//! helper thread); warm + taken never exceeds the bound for long, since a region warmed in vain is
//! given back.

use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::aligned::{AlignedBuf, BufPool};
use super::arena::Region;
use super::chunk::{Chunk, Lease};
use super::prefault;
use crate::disk::BLOCK_BYTES;

/// Free tail-block copies that a pool keeps for reuse, in bytes.
const TAIL_BLOCKS_KEPT_BYTES_MAX: usize = 1 << 20;

/// Size and bounds of a [`ChunkPool`].
#[derive(Clone, Copy, Debug)]
pub struct PoolOptions {
    /// Size of a chunk: a multiple of [`BLOCK_BYTES`]; 1 MiB serves well.
    pub chunk_bytes: usize,
    /// Bound of the memory in chunks that are taken.
    pub bytes_max: usize,
    /// Free chunks to keep ready (touched); more when an eighth of the taken ones is more. With 0
    /// nothing is prepared and no thread has a say (simulation).
    pub reserve_chunks: usize,
}

/// The pool of a shard; clones share it.
#[derive(Clone)]
pub struct ChunkPool {
    shared: Arc<Shared>,
    /// A pool belongs to one shard, though its memory may travel.
    _shard: std::marker::PhantomData<Rc<()>>,
}

impl ChunkPool {
    /// An empty pool whose reserve is being prepared by the helper thread.
    pub fn new(options: PoolOptions) -> Self {
        assert!(
            options.chunk_bytes > 0 && options.chunk_bytes.is_multiple_of(BLOCK_BYTES),
            "chunk size must be a multiple of the block size"
        );
        let shared = Arc::new(Shared {
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

    /// An empty chunk, or `None` when the bound is reached.
    pub fn take(&self) -> Option<Chunk> {
        self.chunk(self.shared.take_region(true))
    }

    /// An empty chunk whose memory has been touched before, or `None` when none is ready or the
    /// bound is reached. More are then on their way. For who has old chunks to let go of instead:
    /// reusing one is an order of magnitude faster than touching new memory. Without a reserve it
    /// is `take`.
    pub fn take_ready(&self) -> Option<Chunk> {
        let cold_too = self.shared.options.reserve_chunks == 0;
        self.chunk(self.shared.take_region(cold_too))
    }

    /// Memory of a chunk's size for reading into, touched before, or `None` as with
    /// [`ChunkPool::take_ready`]. What its last user left is in it.
    pub fn take_ready_buf(&self) -> Option<AlignedBuf> {
        let cold_too = self.shared.options.reserve_chunks == 0;
        self.buf(self.shared.take_region(cold_too))
    }

    /// The same, touched before or not; `None` when the bound is reached.
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

    /// Completes when a chunk has come back since the last call; may complete early. For waiting
    /// after a `None`.
    pub async fn freed(&self) {
        self.shared.freed.notified().await;
    }

    /// Size of a chunk.
    pub fn chunk_bytes(&self) -> usize {
        self.shared.options.chunk_bytes
    }

    /// Bytes in chunks that are taken, or that slices keep.
    pub fn used_bytes(&self) -> usize {
        self.shared.lock().taken * self.shared.options.chunk_bytes
    }

    /// Bytes that can still be taken.
    pub fn available_bytes(&self) -> usize {
        let used = self.used_bytes();
        self.shared.options.bytes_max.saturating_sub(used)
    }

    /// Bytes of memory made resident so far by this pool (taken or ready).
    pub fn resident_bytes(&self) -> usize {
        let state = self.shared.lock();
        (state.taken + state.warm.len()) * self.shared.options.chunk_bytes
    }
}

/// What the handles, the chunks and the helper thread share.
pub(super) struct Shared {
    options: PoolOptions,
    state: Mutex<State>,
    pub(super) tail_blocks: BufPool,
    freed: Notify,
}

#[derive(Default)]
struct State {
    warm: Vec<Region>,
    cold: Vec<Region>,
    taken: usize,
    /// The helper thread has been asked and has not finished.
    asked: bool,
}

impl Shared {
    /// Chunks are locked by their shard and, rarely and shortly, by the helper thread and by who
    /// drops a last slice.
    fn lock(&self) -> MutexGuard<'_, State> {
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

    fn cold_region(&self, state: &mut State) -> Option<Region> {
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

    /// Takes a region back. Called when the chunk and its last slice are gone, on any thread.
    pub(super) fn give_back(&self, region: Region) {
        let mut state = self.lock();
        state.taken -= 1;
        state.warm.push(region);
        drop(state);
        self.freed.notify_one();
    }

    fn reserve_is_short(&self, state: &State) -> bool {
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

    /// Warms regions until the reserve is full. Runs on the helper thread.
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
