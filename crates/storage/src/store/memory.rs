//! The chunk memory of a shard's logs: which chunk size a log gets, and which log gives up a chunk
//! when the cache is full.
//!
//! A log that is seldom written to gets small chunks, a busy one large chunks, so that many idle
//! partitions need little memory and a busy one changes chunks seldom. Eviction takes the front
//! chunk of the log that took a chunk longest ago.
//! Invariant: a chunk with unwritten bytes is never evicted.
//!
//! The first touch of memory is an order of magnitude slower than its reuse, so the cache is no
//! larger than necessary: it starts small and grows towards its bound with appends and with reads
//! of bytes that it has just evicted. It grows into memory that was touched in the background;
//! without such memory it evicts an old chunk instead.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use platform::Platform;
use platform::buf::{AlignedBuf, Chunk, ChunkPool, PoolOptions};
use platform::disk::BLOCK_BYTES;

use crate::options::StoreOptions;
use crate::segment::Segment;

mod queue;

use queue::{Eviction, Queue};

/// Bytes of a chunk of a log that is seldom written to.
const SMALL_CHUNK_BYTES: usize = 64 << 10;
/// Bytes that readers miss for each byte that the cache grows: touching a new byte costs about as
/// much as this many misses.
const MISSES_PER_BYTE: usize = 8;
/// Bytes that are written for each byte that the cache grows: touching a new byte costs little
/// compared to writing this many.
const APPENDED_PER_BYTE: usize = 8;
/// The most that a reader gets at once while memory is short; a first batch may be larger.
const COPIED_BYTES_MAX: usize = 1 << 20;
/// How many chunks are evicted to get a reusable one before new memory is touched.
const REUSE_TRIES: usize = 4;

/// The chunk memory of a store.
pub(crate) struct Memory<P: Platform> {
    large: ChunkPool,
    small: ChunkPool,
    cache_bytes_max: usize,
    /// Below this size the cache takes new memory at once.
    cache_bytes_start: usize,
    /// The current size limit of the cache.
    cache_bytes: Cell<usize>,
    /// True when written, unwritten and lent bytes together come close to the bound.
    short: Cell<bool>,
    short_from: usize,
    /// One entry for each chunk taken, in that order; it stands for the front chunk of its segment.
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
            // Small chunks may take a quarter. Each pool has room for a few chunks even with very
            // little memory.
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

    /// Returns chunks for `len` more bytes of `segment`; `None` when memory is short even after all
    /// possible evictions.
    pub(crate) fn take(&self, segment: &Rc<Segment<P>>, len: usize) -> Option<Vec<Chunk>> {
        let mut chunks = Vec::new();
        let mut room = 0;
        loop {
            // Making room may evict a chunk that still had room, so the lacking bytes are computed
            // in each round.
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

    /// Notes that a reader got `bytes` from the disk that a larger cache would still have held.
    pub(crate) fn note_missed(&self, bytes: usize) {
        self.grow(bytes / MISSES_PER_BYTE);
    }

    /// Returns true when slow readers must not keep chunks.
    ///
    /// Memory is short when half of `unwritten_bytes_max` is used. An evicted chunk stays used as
    /// long as a reader holds a slice of it.
    pub(crate) fn is_short(&self) -> bool {
        self.short.get()
    }

    /// Returns the most that a reader that asks for `bytes` gets: little while the bytes have to be
    /// copied.
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

    /// Returns the bound up to which the cache may grow.
    pub(crate) fn cache_bytes_max(&self) -> usize {
        self.cache_bytes_max
    }

    /// Returns memory of a large chunk's size to read into.
    ///
    /// The memory was touched before, unless the block is `wanted` now. The cache grows to its
    /// bound before a block evicts chunks of the logs.
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
        // The pool of this size is exhausted, so evict beyond the bound of the cache.
        while self.evict_one() {
            if let Some(chunk) = wanted.take() {
                return Some(chunk);
            }
        }
        let other = if small { &self.large } else { &self.small };
        other.take()
    }

    /// Evicts until `more` bytes fit into the current limit of the cache, or nothing can be
    /// evicted.
    fn make_room(&self, more: usize) {
        while self.used_bytes() + more > self.cache_bytes.get() && self.evict_one() {}
    }

    /// Tries to evict the oldest entry; returns false when nothing can be evicted before the next
    /// write.
    fn evict_one(&self) -> bool {
        self.taken.borrow_mut().look(|oldest| {
            let Some(segment) = oldest.upgrade() else {
                return Eviction::Gone;
            };
            if segment.evict_front() {
                Eviction::GivenUp
            } else if segment.tail().is_warm() {
                Eviction::Stays
            } else {
                Eviction::Gone
            }
        })
    }

    /// Notes that a segment was written, so that its chunks may be evicted.
    pub(crate) fn note_written(&self) {
        self.taken.borrow_mut().note_written();
    }

    /// Returns the bytes in chunks of logs, and in chunks whose slices readers still hold.
    pub(crate) fn used_bytes(&self) -> usize {
        self.large.used_bytes() + self.small.used_bytes()
    }
}
