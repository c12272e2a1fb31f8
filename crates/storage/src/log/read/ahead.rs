//! A sequential reader's way through the blocks that are read ahead of it.
//!
//! A reader is sequential when it comes back where it stopped, when it begins with a segment, or
//! when the bytes it asks for are already in blocks, because others read them. Its window doubles
//! with each read. What blocks cannot serve (damage, batches too large, no memory, a failed read)
//! the caller reads from the file, as for any other reader.

use std::rc::Rc;

use bytes::Bytes;
use platform::Platform;
use platform::disk::{Disk, Medium};
use wire::types::Offset;

use super::cursor::Cursor;
use super::resident::ReadRange;
use crate::log::views::LogReader;
use crate::num::index;
use crate::segment::Segment;
use crate::segment::blocks::{Limits, Run, TakeOutcome};

/// How often a reader waits for blocks before it reads from the file; blocks may be evicted
/// meanwhile.
const WAITS_MAX: usize = 16;

/// The place of a reader.
pub(super) struct Reader<'a, P: Platform> {
    pub(super) segment: &'a Rc<Segment<P>>,
    /// Position at or before the batch.
    pub(super) position: u64,
    /// Where its last read ended, if that is exactly this position.
    pub(super) cursor: Option<Cursor>,
}

impl<P: Platform> Reader<'_, P> {
    /// Returns where exactly the batch that holds `from` begins, if the reader is sequential.
    fn batch_position(&self, from: Offset) -> Option<u64> {
        if self.cursor.is_some() {
            return Some(self.position);
        }
        let found = self.segment.blocks.borrow().find(self.position, from);
        found.or_else(|| (from == self.segment.base).then_some(0))
    }
}

impl<P: Platform> LogReader<'_, P> {
    /// Forgets readers and what was read ahead of them: positions have lost their meaning.
    pub(in crate::log) fn forget_readers(self) {
        self.readers.forget();
        for segment in self.segments.all().iter() {
            segment.blocks.borrow_mut().clear();
        }
    }

    /// Returns what is wanted from blocks; `None` when the reader has to read from the file.
    pub(super) async fn read_blocks(
        self,
        wanted: ReadRange,
        reader: &Reader<'_, P>,
    ) -> Option<Vec<Bytes>> {
        let store = &self.store;
        let ahead = &store.shared.read_ahead;
        if store.shared.options.read_ahead_bytes_max == 0 || !ahead.is_possible() {
            return None;
        }
        let segment = reader.segment;
        if store.disk().medium(&segment.folder) != Medium::File {
            // It is memory already, and read without a copy.
            return None;
        }
        let position = reader.batch_position(wanted.from)?;
        let generation = self.readers.generation.get();
        let mut waited = 0;
        loop {
            let now = store.clock().now();
            let taken = {
                let blocks = segment.blocks.borrow();
                let epochs = self.epochs.borrow();
                let limits = Limits {
                    below: wanted.below,
                    bytes_max: wanted.bytes_max,
                    at_least_one: wanted.at_least_one,
                    batch_max: ahead.batch_bytes_max(),
                    epochs: &epochs,
                    end: segment.file_end(segment.written()),
                };
                blocks.take(position, wanted.from, limits, now)
            };
            let lacks = match taken {
                TakeOutcome::Run(run) => {
                    let metrics = &store.shared.metrics;
                    if waited == 0 {
                        metrics.cache_hits.inc();
                    } else {
                        metrics.cache_misses.inc();
                    }
                    return Some(self.note_run(run, reader, position));
                }
                TakeOutcome::Nothing => return Some(Vec::new()),
                TakeOutcome::Refused => return None,
                TakeOutcome::Lacks(lacks) => lacks,
            };
            waited += 1;
            if waited > WAITS_MAX {
                return None;
            }
            let bytes = (wanted.bytes_max as u64).min(ahead.window_bytes_max());
            let end = (position + bytes).max(lacks + 1);
            store.read_ahead(segment, lacks..end, true);
            let block = segment
                .blocks
                .borrow()
                .block_of(lacks, ahead.block_bytes())?;
            block.settled().await;
            if block.has_failed() || generation != self.readers.generation.get() {
                return None;
            }
        }
    }

    /// Notes what a reader was given, and reads on ahead of it.
    fn note_run(self, run: Run, reader: &Reader<'_, P>, position: u64) -> Vec<Bytes> {
        let store = &self.store;
        let ahead = &store.shared.read_ahead;
        let segment = reader.segment;
        assert!(position < run.end, "a run has a batch");
        let given = run.end - position;
        let before = reader.cursor.map_or(0, |cursor| cursor.window);
        let most = store.shared.options.read_ahead_bytes_max as u64;
        let most = most.min(ahead.window_bytes_max()).max(ahead.block_bytes());
        let window = (2 * before).max(given).clamp(ahead.block_bytes(), most);
        self.readers.put(Cursor {
            next: run.next,
            base: segment.base,
            position: run.end,
            window,
        });
        let end = run.end + window;
        store.read_ahead(segment, run.end..end, false);
        self.note_missed(segment, position, given);
        let size = segment.size();
        if end > size
            && !segment.is_active()
            && let Some(next) = self.segments.holding(segment.next())
            && next.base >= segment.next()
        {
            store.read_ahead(&next, 0..end - size, false);
        }
        run.slices
    }

    /// Notes that a reader was given `bytes` at `position` from the disk.
    ///
    /// If a larger cache would have had them, so near to the log's end, the cache grows.
    pub(super) fn note_missed(self, segment: &Segment<P>, position: u64, bytes: u64) {
        let memory = &self.store.shared.memory;
        let most = memory.cache_bytes_max() as u64;
        let segments = self.segments.all();
        let first = segments.partition_point(|other| other.base < segment.base);
        let mut behind = 0_u64;
        for later in segments.range(first..) {
            behind += later.size();
            if behind.saturating_sub(position) > most {
                return;
            }
        }
        memory.note_missed(index(bytes));
    }
}
