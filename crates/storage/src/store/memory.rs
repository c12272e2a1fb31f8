//! The chunks of a shard's logs: how big a one a log gets, and which log gives one up when the cache is full.
//!
//! A log that is written to now and then gets small chunks, a busy one large ones, so that many idle partitions cost
//! little and a busy one does not change chunks often. What is evicted: the front of the log that took a chunk longest
//! ago. Invariant: chunks whose bytes are not written yet are never given up.
//!
//! Touching memory for the first time is an order of magnitude slower than using it again, so the cache is no larger than
//! it has to be: it begins small, and grows towards its bound with what is written, and when readers come for what it has
//! just let go of. It grows with memory that was touched in the background; while there is none, an old chunk goes instead.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use platform::Platform;
use platform::buf::{AlignedBuf, Chunk, ChunkPool, PoolOptions};
use platform::disk::BLOCK_BYTES;

use crate::options::StoreOptions;
use crate::segment::Segment;

mod queue;

use queue::{Look, Queue};

/// Bytes of the chunks of a log that is seldom written to.
const SMALL_CHUNK_BYTES: usize = 64 << 10;
/// Bytes that readers miss before the cache grows by one: touching a new one costs about as much as so many misses.
const MISSES_PER_BYTE: usize = 8;
/// Bytes that are written before the cache grows by one: touching a new one then costs little beside writing so many.
const APPENDED_PER_BYTE: usize = 8;
/// Most that a reader is given at once while memory is short, a first batch apart.
const COPIED_BYTES_MAX: usize = 1 << 20;
/// Chunks given up in the hope for one that can be used again, before new memory is touched.
const REUSE_TRIES: usize = 4;

/// The chunk memory of a store.
pub(crate) struct Memory<P: Platform> {
    large: ChunkPool,
    small: ChunkPool,
    cache_bytes_max: usize,
    /// Below this, new memory is touched at once.
    cache_bytes_start: usize,
    /// What the cache may take by now.
    cache_bytes: Cell<usize>,
    /// What is written and what is not, and what readers hold, come near to all there may be.
    short: Cell<bool>,
    short_from: usize,
    /// One entry for each chunk taken, in that order; the front chunk of the segment named is the one meant.
    taken: RefCell<Queue<Weak<Segment<P>>>>,
}

impl<P: Platform> Memory<P> {
    pub(crate) fn new(options: &StoreOptions) -> Self {
        let bytes_max = options.cache_bytes_max + options.unwritten_bytes_max;
        let small_bytes = SMALL_CHUNK_BYTES.min(options.chunk_bytes).max(BLOCK_BYTES);
        assert!(
            small_bytes.is_multiple_of(BLOCK_BYTES)
                && options.chunk_bytes.is_multiple_of(BLOCK_BYTES),
            "chunks are whole blocks"
        );
        let pool = |chunk_bytes, bytes_max, reserve_chunks| {
            ChunkPool::new(PoolOptions {
                chunk_bytes,
                bytes_max,
                reserve_chunks,
            })
        };
        Self {
            // Small chunks may take a quarter; each pool keeps room for a few chunks however little memory there is.
            small: pool(small_bytes, (bytes_max / 4).max(4 * small_bytes), 0),
            large: pool(
                options.chunk_bytes,
                (bytes_max - bytes_max / 4).max(4 * options.chunk_bytes),
                options.reserve_chunks,
            ),
            cache_bytes_max: options.cache_bytes_max,
            cache_bytes_start: options.cache_bytes_start.min(options.cache_bytes_max),
            cache_bytes: Cell::new(options.cache_bytes_start.min(options.cache_bytes_max)),
            short: Cell::new(false),
            short_from: options.cache_bytes_max + options.unwritten_bytes_max / 2,
            taken: RefCell::default(),
        }
    }

    /// Chunks for `len` more bytes of `segment`; `None` when memory is short even after evicting all that can be.
    pub(crate) fn take(&self, segment: &Rc<Segment<P>>, len: usize) -> Option<Vec<Chunk>> {
        let mut chunks = Vec::new();
        let mut room = 0;
        loop {
            // Making room may evict the very chunk that had some, so what is lacking is asked each time.
            let (lacking, warm) = {
                let tail = segment.tail();
                (tail.lacking(len), tail.is_warm())
            };
            if room >= lacking {
                break;
            }
            let chunk = self.take_one(!warm && lacking - room <= self.small.chunk_bytes() / 2)?;
            assert!(
                chunk.capacity() >= BLOCK_BYTES,
                "a partial block fits a chunk"
            );
            room += chunk.capacity();
            chunks.push(chunk);
        }
        if chunks.is_empty() {
            return Some(chunks);
        }
        self.grow(room / APPENDED_PER_BYTE);
        self.short.set(self.used_bytes() > self.short_from);
        let mut taken = self.taken.borrow_mut();
        taken.extend(chunks.iter().map(|_| Rc::downgrade(segment)));
        Some(chunks)
    }

    /// A reader had to be given `bytes` from the disk that a larger cache would still have had.
    pub(crate) fn note_missed(&self, bytes: usize) {
        self.grow(bytes / MISSES_PER_BYTE);
    }

    /// True when readers that are slow must not keep chunks: half of what is set apart for bytes that are not written yet is
    /// taken. What was evicted is still taken as long as a reader holds a slice of it.
    pub(crate) fn is_short(&self) -> bool {
        self.short.get()
    }

    /// What a reader that asks for `bytes` is given at most: little while it has to be copied.
    pub(crate) fn lends_at_most(&self, bytes: usize) -> usize {
        if self.is_short() {
            bytes.min(COPIED_BYTES_MAX)
        } else {
            bytes
        }
    }

    fn grow(&self, bytes: usize) {
        let grown = self.cache_bytes.get().saturating_add(bytes);
        self.cache_bytes.set(grown.min(self.cache_bytes_max));
    }

    /// The bound of the cache, up to which it may grow.
    pub(crate) fn cache_bytes_max(&self) -> usize {
        self.cache_bytes_max
    }

    /// Memory of a large chunk's size to read into; only such that was touched before, unless it is `wanted` now. What is
    /// read takes nothing from the logs' ends before the cache has grown to its bound.
    pub(crate) fn take_block(&self, wanted: bool) -> Option<AlignedBuf> {
        let needed = self.used_bytes() + self.large.chunk_bytes();
        if needed > self.short_from {
            return None;
        }
        let grown = needed.min(self.cache_bytes_max).max(self.cache_bytes.get());
        self.cache_bytes.set(grown);
        self.make_room(self.large.chunk_bytes());
        let ready = self.large.take_ready_buf();
        ready.or_else(|| wanted.then(|| self.large.take_buf()).flatten())
    }

    fn take_one(&self, small: bool) -> Option<Chunk> {
        let wanted = if small { &self.small } else { &self.large };
        self.make_room(wanted.chunk_bytes());
        if self.used_bytes() + wanted.chunk_bytes() > self.cache_bytes_start {
            for _ in 0..REUSE_TRIES {
                if let Some(chunk) = wanted.take_ready() {
                    return Some(chunk);
                }
                if !self.evict_one() {
                    break;
                }
            }
        }
        if let Some(chunk) = wanted.take() {
            return Some(chunk);
        }
        // The pool of this size is exhausted, so evict beyond what the bound of the cache asks for.
        while self.evict_one() {
            if let Some(chunk) = wanted.take() {
                return Some(chunk);
            }
        }
        let other = if small { &self.large } else { &self.small };
        other.take()
    }

    /// Evicts until `more` bytes fit into what the cache may take by now, or nothing can be evicted.
    fn make_room(&self, more: usize) {
        while self.used_bytes() + more > self.cache_bytes.get() && self.evict_one() {}
    }

    /// Looks whether the oldest can go. False when nothing can before something is written.
    fn evict_one(&self) -> bool {
        self.taken.borrow_mut().look(|oldest| {
            let Some(segment) = oldest.upgrade() else {
                return Look::Gone;
            };
            if segment.evict_front() {
                Look::GivenUp
            } else if segment.tail().is_warm() {
                Look::Stays
            } else {
                Look::Gone
            }
        })
    }

    /// A segment was written: its chunks may be given up from now on.
    pub(crate) fn note_written(&self) {
        self.taken.borrow_mut().note_written();
    }

    /// Bytes in chunks, of logs and of readers that still hold slices.
    pub(crate) fn used_bytes(&self) -> usize {
        self.large.used_bytes() + self.small.used_bytes()
    }
}
