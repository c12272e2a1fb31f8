//! One block: a piece of a data file that was read at once, and the list of its batches that were
//! found undamaged.
//!
//! States: *loading* -> *loaded* | *failed*.
//! Invariants: bytes of a loaded block never change; a batch is in the list only after its CRC was
//! verified; the memory is released when the block and its last slice are dropped, on any thread.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use platform::buf::AlignedBuf;
use platform::clock::Instant;
use platform::sync::Notify;
use wire::types::Offset;

/// A piece of a data file.
pub(crate) struct Block {
    /// Its position in the file.
    pub(crate) start: u64,
    state: RefCell<BlockState>,
    settled: Notify,
    /// Ordered by position, without overlaps.
    checked: RefCell<Vec<CheckedBatch>>,
    /// Readers have read everything before this position.
    served_upto: Cell<u64>,
    /// When a reader last asked for it or read from it.
    pub(crate) touched: Cell<Instant>,
}

enum BlockState {
    Loading,
    Loaded(Arc<BlockBytes>),
    Failed,
}

/// The bytes of a block.
pub(crate) struct BlockBytes {
    buf: AlignedBuf,
    /// The memory used by the blocks of the shard; this block's part is subtracted when it is
    /// dropped.
    taken_bytes: Arc<AtomicUsize>,
    memory_bytes: usize,
}

/// A batch that was found undamaged.
#[derive(Clone, Copy)]
pub(crate) struct CheckedBatch {
    /// Its position in the file.
    pub(crate) position: u64,
    pub(crate) bytes: u32,
    /// The offset after the batch.
    pub(crate) next: Offset,
}

impl CheckedBatch {
    pub(crate) fn end(&self) -> u64 {
        self.position + u64::from(self.bytes)
    }
}

impl BlockBytes {
    /// Counts `memory_bytes` as used while any of the bytes are in use.
    pub(crate) fn new(
        buf: AlignedBuf,
        taken_bytes: &Arc<AtomicUsize>,
        memory_bytes: usize,
    ) -> Self {
        Self {
            buf,
            taken_bytes: Arc::clone(taken_bytes),
            memory_bytes,
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buf
    }

    /// Returns a slice without a copy.
    pub(crate) fn slice(self: &Arc<Self>, range: Range<usize>) -> Bytes {
        assert!(
            range.start <= range.end && range.end <= self.bytes().len(),
            "a view is of what was loaded"
        );
        Bytes::from_owner(View {
            loaded: Arc::clone(self),
            range,
        })
    }
}

impl Drop for BlockBytes {
    fn drop(&mut self) {
        let taken = self
            .taken_bytes
            .fetch_sub(self.memory_bytes, Ordering::Relaxed);
        assert!(taken >= self.memory_bytes, "it was counted before");
    }
}

struct View {
    loaded: Arc<BlockBytes>,
    range: Range<usize>,
}

impl AsRef<[u8]> for View {
    fn as_ref(&self) -> &[u8] {
        let view = self.loaded.bytes().get(self.range.clone());
        view.expect("a view is of what was loaded")
    }
}

impl Block {
    pub(crate) fn loading(start: u64, now: Instant) -> Self {
        Self {
            start,
            state: RefCell::new(BlockState::Loading),
            settled: Notify::new(),
            checked: RefCell::default(),
            served_upto: Cell::new(start),
            touched: Cell::new(now),
        }
    }

    pub(crate) fn is_loading(&self) -> bool {
        matches!(&*self.state.borrow(), BlockState::Loading)
    }

    /// Returns true when the load failed; a reader that needs the bytes reads them itself and gets
    /// the error.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(&*self.state.borrow(), BlockState::Failed)
    }

    /// Waits until the block is loaded or has failed.
    pub(crate) async fn settled(&self) {
        // Register before the check, so that no notification is lost between the two.
        let settled = self.settled.notified();
        if self.is_loading() {
            settled.await;
        }
    }

    /// Ends the loading with the bytes, or with none.
    pub(crate) fn settle(&self, loaded: Option<BlockBytes>) {
        assert!(self.is_loading(), "a block is settled once");
        *self.state.borrow_mut() = match loaded {
            Some(loaded) => BlockState::Loaded(Arc::new(loaded)),
            None => BlockState::Failed,
        };
        self.settled.notify_waiters();
    }

    pub(crate) fn loaded(&self) -> Option<Arc<BlockBytes>> {
        match &*self.state.borrow() {
            BlockState::Loaded(loaded) => Some(Arc::clone(loaded)),
            BlockState::Loading | BlockState::Failed => None,
        }
    }

    /// Returns the number of loaded bytes.
    pub(crate) fn len(&self) -> usize {
        match &*self.state.borrow() {
            BlockState::Loaded(loaded) => loaded.bytes().len(),
            BlockState::Loading | BlockState::Failed => 0,
        }
    }

    /// Returns true while readers hold slices of it, so that releasing it would free nothing.
    pub(crate) fn is_in_use(&self) -> bool {
        match &*self.state.borrow() {
            BlockState::Loaded(loaded) => Arc::strong_count(loaded) > 1,
            BlockState::Loading | BlockState::Failed => true,
        }
    }

    pub(crate) fn add_checked(&self, batch: CheckedBatch) {
        let mut checked = self.checked.borrow_mut();
        let at = checked.partition_point(|other| other.position < batch.position);
        if checked
            .get(at)
            .is_none_or(|other| other.position != batch.position)
        {
            checked.insert(at, batch);
        }
    }

    /// Drops the batch that reaches beyond `start`; returns true when there is another one before
    /// it.
    pub(crate) fn forget_batches_into(&self, start: u64) -> bool {
        let mut checked = self.checked.borrow_mut();
        if checked.last().is_some_and(|batch| batch.end() > start) {
            checked.pop();
        }
        !checked.is_empty()
    }

    /// Returns the first undamaged batch from `position` on that ends past `offset`.
    pub(crate) fn checked_past(&self, position: u64, offset: Offset) -> Option<CheckedBatch> {
        let checked = self.checked.borrow();
        let at = checked.partition_point(|batch| batch.position < position || batch.next <= offset);
        checked.get(at).copied()
    }

    /// Visits the contiguous undamaged batches from `position` on until `visit` returns false.
    pub(crate) fn follow(&self, mut position: u64, mut visit: impl FnMut(CheckedBatch) -> bool) {
        let checked = self.checked.borrow();
        let at = checked.partition_point(|batch| batch.position < position);
        // Bounded: a position in the list.
        for batch in checked.split_at(at).1 {
            if batch.position != position || !visit(*batch) {
                return;
            }
            position = batch.end();
        }
    }

    /// Notes that readers have read everything before `upto`.
    pub(crate) fn note_served(&self, upto: u64, now: Instant) {
        self.served_upto.set(self.served_upto.get().max(upto));
        self.touched.set(now);
    }

    /// Returns true when a reader has read to its end, so no sequential reader needs it.
    pub(crate) fn is_used_up(&self) -> bool {
        self.served_upto.get() >= self.start + self.len() as u64
    }

    /// Returns the bytes that no reader has read.
    pub(crate) fn unused_bytes(&self) -> u64 {
        (self.start + self.len() as u64).saturating_sub(self.served_upto.get())
    }
}
