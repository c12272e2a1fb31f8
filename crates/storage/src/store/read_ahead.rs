//! Read-ahead for sequential readers: blocks of data files that are read before a reader asks for
//! them, checked once, and served to any number of readers from memory.
//!
//! Blocks are as large as chunks and use the same memory, at most a quarter of the cache. Each
//! segment has its own [`crate::segment::blocks::Blocks`]. This file has what the blocks of a shard
//! share: the line of blocks to be read, the number of reads in progress, and the eviction order
//! when memory is short: first blocks that their readers have used up, then blocks that no reader
//! has touched for `STALE_AFTER`, never a block that is being sent to a reader. Reads ahead have
//! the lowest priority: they slow down while a log of the shard is flushed. A block that cannot be
//! read is not reported: a reader that needs the bytes reads them itself and gets the error. It
//! does not know readers, or how far ahead they want to be ([`crate::log`] does).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use platform::Platform;
use platform::buf::{AlignedBuf, block_ceil};
use platform::disk::{BLOCK_BYTES, DiskFile};
use platform::task;

use crate::num::index;
use crate::segment::Segment;
use crate::segment::block::{self, Block};
use crate::store::Store;

/// The divisor that gives the share of the cache that blocks may use.
const BUDGET_PART: usize = 4;
/// With fewer blocks than this there is no read-ahead.
const BLOCKS_MIN: usize = 2;
/// With this many blocks or more, used-up blocks make room for others.
const BLOCKS_SHARED: usize = 32;
/// The most reads in progress of a shard when nothing is flushed.
const READS_MAX: usize = 8;
/// The most reads in progress while something is flushed.
const READS_BESIDE_FLUSH_MAX: usize = 2;
/// A block that was not touched for this long is released.
const STALE_AFTER: Duration = Duration::from_secs(5);

/// The blocks of a shard.
pub(crate) struct ReadAhead<P: Platform> {
    block_bytes: usize,
    budget_bytes: usize,
    /// Bytes of memory in blocks, and in slices of blocks that readers still hold.
    taken_bytes: Arc<AtomicUsize>,
    /// Blocks to be read; those that a reader waits for are in front.
    line: RefCell<VecDeque<BlockLoad<P>>>,
    reads: Cell<usize>,
    /// Loaded blocks, the oldest first.
    loaded: RefCell<VecDeque<LoadedBlock<P>>>,
    sweeping: Cell<bool>,
}

/// A loaded block with its segment.
type LoadedBlock<P> = (Weak<Segment<P>>, Weak<Block>);

struct BlockLoad<P: Platform> {
    segment: Weak<Segment<P>>,
    block: Rc<Block>,
    /// A reader waits for the block.
    wanted: bool,
}

impl<P: Platform> ReadAhead<P> {
    /// Creates the read-ahead with blocks of `block_bytes`, for a shard whose cache has
    /// `cache_bytes`.
    pub(crate) fn new(block_bytes: usize, cache_bytes: usize) -> Self {
        assert!(
            block_bytes > 0 && block_bytes.is_multiple_of(BLOCK_BYTES),
            "blocks are read from disks as they are"
        );
        Self {
            block_bytes,
            budget_bytes: cache_bytes / BUDGET_PART,
            taken_bytes: Arc::default(),
            line: RefCell::default(),
            reads: Cell::new(0),
            loaded: RefCell::default(),
            sweeping: Cell::new(false),
        }
    }

    /// Returns true when there is enough memory for read-ahead.
    pub(crate) fn is_possible(&self) -> bool {
        self.budget_bytes / self.block_bytes >= BLOCKS_MIN
    }

    /// Returns the size of a block; blocks begin at multiples of it.
    pub(crate) fn block_bytes(&self) -> u64 {
        self.block_bytes as u64
    }

    /// Returns the largest batch that is served from blocks.
    pub(crate) fn batch_bytes_max(&self) -> u64 {
        (self.budget_bytes / 2)
            .saturating_sub(self.block_bytes)
            .max(self.block_bytes) as u64
    }

    /// Returns how far one reader may be ahead: a quarter of the memory, so that several readers
    /// fit.
    pub(crate) fn window_bytes_max(&self) -> u64 {
        (self.budget_bytes / 4).max(self.block_bytes) as u64
    }

    fn next_loading(&self, reads_max: usize) -> Option<(Rc<Segment<P>>, BlockLoad<P>)> {
        while self.reads.get() < reads_max {
            let loading = self.line.borrow_mut().pop_front()?;
            let segment = loading.segment.upgrade();
            // A block that was dropped meanwhile need not be read.
            let segment = segment.filter(|segment| segment.blocks.borrow().holds(&loading.block));
            if let Some(segment) = segment {
                return Some((segment, loading));
            }
            loading.block.settle(None);
        }
        None
    }

    /// Releases blocks until one more fits; returns false if that is impossible.
    fn make_room(&self, store: &Store<P>) -> bool {
        let fits =
            || self.taken_bytes.load(Ordering::Relaxed) + self.block_bytes <= self.budget_bytes;
        fits()
            || {
                self.let_go(store, Block::is_used_up, fits);
                fits()
            }
            || {
                self.let_go_stale(store, fits);
                fits()
            }
    }

    fn let_go_stale(&self, store: &Store<P>, until: impl Fn() -> bool) {
        let now = store.clock().now();
        let is_stale =
            |block: &Block| now.saturating_duration_since(block.touched.get()) >= STALE_AFTER;
        self.let_go(store, is_stale, until);
    }

    /// Releases blocks that are not being sent to a reader, the oldest first.
    fn let_go(&self, store: &Store<P>, which: impl Fn(&Block) -> bool, until: impl Fn() -> bool) {
        let mut loaded = self.loaded.borrow_mut();
        loaded.retain(|(segment, block)| {
            let (Some(segment), Some(block)) = (segment.upgrade(), block.upgrade()) else {
                return false;
            };
            if until() || block.is_in_use() || !which(&block) {
                return true;
            }
            let unused = block.unused_bytes();
            store.shared.metrics.read_ahead_unused_bytes.inc_by(unused);
            segment.blocks.borrow_mut().remove(&block);
            false
        });
    }
}

impl<P: Platform> Store<P> {
    /// Queues reads of the blocks that hold `range` of a segment, if there is memory; those
    /// `wanted` now go first.
    ///
    /// It reads only bytes that are written and not in memory otherwise.
    pub(crate) fn read_ahead(&self, segment: &Rc<Segment<P>>, range: Range<u64>, wanted: bool) {
        let ahead = &self.shared.read_ahead;
        let block_bytes = ahead.block_bytes();
        let resident_from = segment.tail().resident_from();
        let end = range.end.min(segment.written()).min(resident_from);
        let mut start = range.start - range.start % block_bytes;
        let mut before_others = 0;
        while start < end {
            let known = segment.blocks.borrow().at(start).cloned();
            let short = |block: &Block| {
                !block.is_loading() && start + (block.len() as u64) < end.min(start + block_bytes)
            };
            match known {
                Some(block) if !short(&block) => {
                    if wanted && block.is_loading() {
                        ahead.hurry(&block, before_others);
                        before_others += 1;
                    }
                }
                _ => {
                    let block = Rc::new(Block::loading(start, self.clock().now()));
                    segment.blocks.borrow_mut().insert(Rc::clone(&block));
                    let loading = BlockLoad {
                        segment: Rc::downgrade(segment),
                        block,
                        wanted,
                    };
                    let mut line = ahead.line.borrow_mut();
                    if wanted {
                        let at = before_others.min(line.len());
                        line.insert(at, loading);
                        before_others += 1;
                    } else {
                        line.push_back(loading);
                    }
                }
            }
            start += block_bytes;
        }
        self.start_reads();
    }

    /// Starts reads up to the bound.
    fn start_reads(&self) {
        let ahead = &self.shared.read_ahead;
        let reads_max = if self.shared.flushing.get() > 0 {
            READS_BESIDE_FLUSH_MAX
        } else {
            READS_MAX
        };
        while let Some((segment, loading)) = ahead.next_loading(reads_max) {
            let BlockLoad { block, wanted, .. } = loading;
            let Some(buf) = self.block_memory(wanted) else {
                segment.blocks.borrow_mut().remove(&block);
                block.settle(None);
                continue;
            };
            ahead.reads.set(ahead.reads.get() + 1);
            let store = self.clone();
            task::spawn(async move { store.load_block(segment, block, buf).await });
        }
        self.keep_sweeping();
    }

    /// Returns memory for a block; if no reader waits for it, only memory that was touched before,
    /// because touching is slow.
    fn block_memory(&self, wanted: bool) -> Option<AlignedBuf> {
        let ahead = &self.shared.read_ahead;
        if !ahead.make_room(self) {
            return None;
        }
        // Used-up blocks are reused before new memory, except for a few that other readers may
        // still read.
        let enough =
            || ahead.taken_bytes.load(Ordering::Relaxed) < BLOCKS_SHARED * ahead.block_bytes;
        if !enough() {
            ahead.let_go(self, Block::is_used_up, enough);
        }
        let buf = self.shared.memory.take_block(wanted)?;
        ahead
            .taken_bytes
            .fetch_add(ahead.block_bytes, Ordering::Relaxed);
        Some(buf)
    }

    async fn load_block(&self, segment: Rc<Segment<P>>, block: Rc<Block>, mut buf: AlignedBuf) {
        let ahead = &self.shared.read_ahead;
        // The file may hold anything behind the written bytes.
        let end = segment.written().min(block.start + ahead.block_bytes());
        // A truncation may have removed the whole block: it is read as empty and discarded.
        let len = index(end.saturating_sub(block.start));
        buf.truncate(block_ceil(len));
        let result = async {
            let unloaded = segment.open_file().is_none();
            let file = segment.file(self.disk()).await.ok()?;
            if unloaded && segment.is_sealed() {
                self.note_loaded(&segment);
            }
            self.note_read(&segment);
            let read = file.read_into(block.start, buf).await;
            let mut buf = read
                .inspect_err(|error| {
                    tracing::debug!(position = block.start, %error, "reading ahead failed");
                })
                .ok()?;
            buf.truncate(len);
            self.note_read_bytes(&segment, buf.len());
            Some(buf)
        };
        let buf = result.await;
        assert!(ahead.reads.get() > 0, "this one was counted");
        ahead.reads.set(ahead.reads.get() - 1);
        let loaded = buf.map(|buf| {
            self.shared
                .metrics
                .read_ahead_bytes
                .inc_by(buf.len() as u64);
            block::BlockBytes::new(buf, &ahead.taken_bytes, ahead.block_bytes)
        });
        let failed = loaded
            .as_ref()
            .is_none_or(|loaded| loaded.bytes().len() < len);
        if failed {
            if loaded.is_none() {
                ahead
                    .taken_bytes
                    .fetch_sub(ahead.block_bytes, Ordering::Relaxed);
            }
            segment.blocks.borrow_mut().remove(&block);
            block.settle(None);
        } else {
            block.settle(loaded);
            let mut loaded = ahead.loaded.borrow_mut();
            loaded.push_back((Rc::downgrade(&segment), Rc::downgrade(&block)));
        }
        self.start_reads();
    }

    /// Ensures that blocks are released when no reader reads any more.
    fn keep_sweeping(&self) {
        if self.shared.read_ahead.sweeping.replace(true) {
            return;
        }
        let (shared, clock) = (Rc::downgrade(&self.shared), self.clock().clone());
        task::spawn(async move {
            loop {
                clock.sleep(STALE_AFTER).await;
                let Some(shared) = shared.upgrade() else {
                    return;
                };
                let store = Self { shared };
                let ahead = &store.shared.read_ahead;
                ahead.let_go_stale(&store, || false);
                if ahead.loaded.borrow().is_empty() && ahead.reads.get() == 0 {
                    ahead.sweeping.set(false);
                    return;
                }
            }
        });
    }
}

impl<P: Platform> ReadAhead<P> {
    /// Moves a waiting block to the place `at` of the line.
    fn hurry(&self, block: &Rc<Block>, at: usize) {
        let mut line = self.line.borrow_mut();
        let found = line
            .iter()
            .position(|loading| Rc::ptr_eq(&loading.block, block));
        if let Some(mut loading) = found.and_then(|found| line.remove(found)) {
            loading.wanted = true;
            let at = at.min(line.len());
            line.insert(at, loading);
        }
    }
}
