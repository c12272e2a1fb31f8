//! Ends a segment where it is written: the unwritten bytes become the beginning of another segment.

use bytes::Bytes;
use platform::Platform;
use platform::buf::Chunk;
use wire::types::Offset;

use super::stage::Stage;
use super::tail::Tail;
use super::{HAS_INDEXES, Segment};

impl<P: Platform> Segment<P> {
    /// Moves the unwritten bytes, `parts`, to an empty segment that begins there; the caller
    /// provides enough chunks.
    pub(crate) fn split_at_written(&self, new: &Self, parts: &[Bytes], chunks: Vec<Chunk>) {
        let (stage, next) = (self.stage(), self.next());
        new.fill(parts, chunks);
        self.give_aborted(new);
        if stage == Stage::Rolled {
            new.roll(next);
        }
        self.end_where_written(new.base);
        assert_eq!(new.next(), next, "together they are what it was");
    }

    /// Appends contiguous batches.
    fn fill(&self, parts: &[Bytes], chunks: Vec<Chunk>) {
        let len: usize = parts.iter().map(Bytes::len).sum(); // Bounded: lengths of bytes in memory.
        let mut chunks = chunks.into_iter();
        for part in parts {
            self.tail.borrow_mut().append(part, &mut chunks);
        }
        while let Some(header) = self.resident_header(self.size()) {
            self.note(&header);
        }
        let is_all = self.size() == len as u64;
        assert!(is_all, "what was appended is whole batches");
    }

    /// Moves the aborted transactions whose marker is past the boundary to the new segment.
    fn give_aborted(&self, new: &Self) {
        let (mut from, mut to) = (self.loaded.borrow_mut(), new.loaded.borrow_mut());
        let from = from.as_mut().expect(HAS_INDEXES);
        let to = to.as_mut().expect(HAS_INDEXES);
        for txn in from.aborted.entries() {
            if txn.last_offset >= new.base {
                to.aborted.append(*txn);
            }
        }
        from.aborted.truncate_to(new.base);
    }

    /// Ends the segment where it is written; the batch at `boundary` would begin there.
    fn end_where_written(&self, boundary: Offset) {
        assert!(self.base <= boundary, "it ends behind its base");
        let position = self.written();
        let mut loaded = self.loaded.borrow_mut();
        let indexes = &mut loaded.as_mut().expect(HAS_INDEXES).indexes;
        indexes.truncate_to(boundary);
        // The time index must cover the batches after its last entry, which were just written and
        // are resident.
        let mut at = u64::from(indexes.observe_from());
        while at < position
            && let Some(header) = self.resident_header(at)
        {
            indexes.observe(&header);
            at += header.size_bytes as u64;
        }
        self.largest.set(indexes.largest_timestamp().into());
        drop(loaded);
        self.lengths.end_where_written();
        *self.tail.borrow_mut() = Tail::absent(position);
        self.roll(boundary);
    }
}
