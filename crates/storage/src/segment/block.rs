//! One block: a piece of a data file that was read in one go, and which batches in it were found undamaged.
//!
//! States: *loading* -> *loaded* | *failed*. Invariants: bytes of a loaded block never change; a batch is in the list only
//! after its CRC was found right; the memory goes back when the block and the last slice of it are gone, on any thread.

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
    state: RefCell<State>,
    settled: Notify,
    /// By position; no two overlap.
    checked: RefCell<Vec<Checked>>,
    /// Readers have had everything before this.
    served_upto: Cell<u64>,
    /// When it was asked for or read from last.
    pub(crate) touched: Cell<Instant>,
}

enum State {
    Loading,
    Loaded(Arc<Loaded>),
    Failed,
}

/// The bytes of a block.
pub(crate) struct Loaded {
    buf: AlignedBuf,
    /// What the blocks of the shard take; this one's part is given back when it goes.
    taken_bytes: Arc<AtomicUsize>,
    memory_bytes: usize,
}

/// A batch that was found undamaged.
#[derive(Clone, Copy)]
pub(crate) struct Checked {
    /// Its position in the file.
    pub(crate) position: u64,
    pub(crate) bytes: u32,
    /// The offset after it.
    pub(crate) next: Offset,
}

impl Checked {
    pub(crate) fn end(&self) -> u64 {
        self.position + u64::from(self.bytes)
    }
}

impl Loaded {
    /// Counts `memory_bytes` as taken, as long as any of the bytes are used.
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

    /// A view without a copy.
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

impl Drop for Loaded {
    fn drop(&mut self) {
        let taken = self
            .taken_bytes
            .fetch_sub(self.memory_bytes, Ordering::Relaxed);
        assert!(taken >= self.memory_bytes, "it was counted before");
    }
}

struct View {
    loaded: Arc<Loaded>,
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
            state: RefCell::new(State::Loading),
            settled: Notify::new(),
            checked: RefCell::default(),
            served_upto: Cell::new(start),
            touched: Cell::new(now),
        }
    }

    pub(crate) fn is_loading(&self) -> bool {
        matches!(&*self.state.borrow(), State::Loading)
    }

    /// Nobody will get it from here; whoever needs it reads for himself and learns why.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(&*self.state.borrow(), State::Failed)
    }

    /// Completes when it is loaded or has failed.
    pub(crate) async fn settled(&self) {
        // Registered before the question is asked, so that the answer does not fall between the two.
        let settled = self.settled.notified();
        if self.is_loading() {
            settled.await;
        }
    }

    /// Ends the loading: the bytes, or none.
    pub(crate) fn settle(&self, loaded: Option<Loaded>) {
        assert!(self.is_loading(), "a block is settled once");
        *self.state.borrow_mut() = match loaded {
            Some(loaded) => State::Loaded(Arc::new(loaded)),
            None => State::Failed,
        };
        self.settled.notify_waiters();
    }

    pub(crate) fn loaded(&self) -> Option<Arc<Loaded>> {
        match &*self.state.borrow() {
            State::Loaded(loaded) => Some(Arc::clone(loaded)),
            State::Loading | State::Failed => None,
        }
    }

    /// Bytes that it has.
    pub(crate) fn len(&self) -> usize {
        match &*self.state.borrow() {
            State::Loaded(loaded) => loaded.bytes().len(),
            State::Loading | State::Failed => 0,
        }
    }

    /// Slices of it are under way to readers, so letting go of it would free nothing.
    pub(crate) fn is_in_use(&self) -> bool {
        match &*self.state.borrow() {
            State::Loaded(loaded) => Arc::strong_count(loaded) > 1,
            State::Loading | State::Failed => true,
        }
    }

    pub(crate) fn add_checked(&self, batch: Checked) {
        let mut checked = self.checked.borrow_mut();
        let at = checked.partition_point(|other| other.position < batch.position);
        if checked
            .get(at)
            .is_none_or(|other| other.position != batch.position)
        {
            checked.insert(at, batch);
        }
    }

    /// Forgets the batch that reaches beyond `start`; true when there is another one before it.
    pub(crate) fn forget_batches_into(&self, start: u64) -> bool {
        let mut checked = self.checked.borrow_mut();
        if checked.last().is_some_and(|batch| batch.end() > start) {
            checked.pop();
        }
        !checked.is_empty()
    }

    /// The first of the undamaged batches from `position` on that ends past `offset`.
    pub(crate) fn checked_past(&self, position: u64, offset: Offset) -> Option<Checked> {
        let checked = self.checked.borrow();
        let at = checked.partition_point(|batch| batch.position < position || batch.next <= offset);
        checked.get(at).copied()
    }

    /// Shows the undamaged batches from `position` on, one behind the other, until `visit` wants no more.
    pub(crate) fn follow(&self, mut position: u64, mut visit: impl FnMut(Checked) -> bool) {
        let checked = self.checked.borrow();
        let at = checked.partition_point(|batch| batch.position < position);
        // Bounded: a position in it.
        for batch in checked.split_at(at).1 {
            if batch.position != position || !visit(*batch) {
                return;
            }
            position = batch.end();
        }
    }

    /// Takes note that readers have had everything before `position`.
    pub(crate) fn note_served(&self, upto: u64, now: Instant) {
        self.served_upto.set(self.served_upto.get().max(upto));
        self.touched.set(now);
    }

    /// A reader has had its end, so nobody who reads on needs it.
    pub(crate) fn is_used_up(&self) -> bool {
        self.served_upto.get() >= self.start + self.len() as u64
    }

    /// Bytes that no reader has taken.
    pub(crate) fn unused_bytes(&self) -> u64 {
        (self.start + self.len() as u64).saturating_sub(self.served_upto.get())
    }
}
