//! The end of a segment in memory, where it grows: the target of appends, the source of writes, and
//! the cache of recent bytes.
//!
//! [`Segment::take`] appends a batch: its bytes to the tail, then its offsets to the indexes.
//! Appended bytes are copied once, into block-aligned chunks that are contiguous in file positions.
//! Written chunks stay until the cache evicts the oldest. Only the front is ever evicted, so the
//! resident bytes are one range that ends at the segment's end. When the last chunk is evicted, the
//! bytes of the last, partial block are kept, because the next flush writes the whole block again.
//! Bytes that came from the file and not from an append serve only for that: their CRC was not
//! checked, so they do not count as resident, and readers read the file.
//! It does not decide what is evicted, when a segment rolls, or know what has been written.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;
use platform::Platform;
use platform::buf::Chunk;
use platform::disk::BLOCK_BYTES;
use wire::batch::{BatchHeader, HEADER_BYTES};

use super::{HAS_INDEXES, POSITION_MAX, Segment};
use crate::num::index;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// The resident end of a segment.
pub(crate) struct Tail {
    /// Contiguous, each starting at a block boundary; all but the last are full.
    pieces: VecDeque<Piece>,
    /// The length of the segment.
    end: u64,
    /// The bytes of the last partial block, when no piece holds them.
    partial: Bytes,
    /// Bytes below this position came from the file.
    found: u64,
}

struct Piece {
    start: u64,
    chunk: Chunk,
}

impl Piece {
    fn end(&self) -> u64 {
        self.start + self.chunk.len() as u64
    }
}

/// Block-aligned bytes and their position.
#[derive(Debug)]
pub(crate) struct Blocks {
    /// The position, a multiple of the block size.
    pub(crate) position: u64,
    /// The bytes, each part a multiple of the block size long.
    pub(crate) parts: Vec<Bytes>,
}

impl Tail {
    /// Returns the tail of a segment of `end` bytes; `partial` has the bytes of its last partial
    /// block.
    pub(crate) fn at(end: u64, partial: Bytes) -> Self {
        assert_eq!(
            end % BLOCK,
            partial.len() as u64,
            "a tail begins with the bytes of its last partial block"
        );
        Self {
            pieces: VecDeque::new(),
            end,
            partial,
            found: end,
        }
    }

    /// Returns the tail of a segment of `end` bytes that takes no appends in this state.
    pub(crate) fn absent(end: u64) -> Self {
        Self {
            pieces: VecDeque::new(),
            end,
            partial: Bytes::new(),
            found: end,
        }
    }

    /// Returns the length of the segment.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Returns the position from which on everything is resident.
    pub(crate) fn resident_from(&self) -> u64 {
        let first = self.pieces.front();
        first.map_or(self.end, |piece| piece.start.max(self.found))
    }

    /// Returns how many bytes new chunks must hold before `len` more bytes can be appended.
    pub(crate) fn lacking(&self, len: usize) -> usize {
        match self.pieces.back() {
            Some(piece) => len.saturating_sub(piece.chunk.remaining()),
            None => len + self.partial.len(),
        }
    }

    /// Returns true when the tail has a chunk, so the segment was appended to recently.
    pub(crate) fn is_warm(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// Appends `bytes` and takes `fresh` chunks when the last one is full; the caller provides
    /// enough of them.
    pub(crate) fn append(&mut self, mut bytes: &[u8], fresh: &mut impl Iterator<Item = Chunk>) {
        let end = self.end + bytes.len() as u64;
        while !bytes.is_empty() {
            if self
                .pieces
                .back()
                .is_none_or(|piece| piece.chunk.remaining() == 0)
            {
                // `Memory::take` computes the lacking bytes again after each chunk, and nothing is
                // evicted in between.
                let chunk = fresh.next().expect("the caller has taken chunks enough");
                self.start_piece(chunk);
            }
            let piece = self.pieces.back_mut().expect("a piece was started");
            let copied = piece.chunk.append(bytes);
            self.end += copied as u64;
            (_, bytes) = bytes.split_at(copied); // Bounded: no more than there are.
        }
        assert_eq!(self.end, end, "all of the bytes are in memory");
    }

    fn start_piece(&mut self, mut chunk: Chunk) {
        let partial = std::mem::take(&mut self.partial);
        let start = self.end - partial.len() as u64;
        assert_eq!(start % BLOCK, 0, "a piece begins at a block");
        let before = self.pieces.back();
        assert!(
            before.is_none_or(|before| before.end() == start),
            "pieces lie one behind the other"
        );
        let copied = chunk.append(&partial);
        assert_eq!(copied, partial.len(), "a partial block fits a chunk");
        self.pieces.push_back(Piece { start, chunk });
    }

    /// Returns the whole blocks that hold everything from `written` on, the last one padded with
    /// zeros.
    ///
    /// It is `None` when there is nothing beyond `written`.
    pub(crate) fn blocks_from(&self, written: u64) -> Option<Blocks> {
        if written >= self.end {
            return None;
        }
        let position = written - written % BLOCK;
        let first = self.piece_at(position)?;
        let mut parts = Vec::with_capacity(self.pieces.len() - first + 1);
        for piece in self.pieces.range(first..) {
            // 0 for every piece but the first.
            let from = index(position.saturating_sub(piece.start));
            parts.push(piece.chunk.aligned_slice(from));
            parts.push(piece.chunk.tail_block());
        }
        parts.retain(|part| !part.is_empty());
        Some(Blocks { position, parts })
    }

    /// Returns the bytes of `range` without a copy; `None` when they are not all resident.
    pub(crate) fn slices(&self, range: Range<u64>) -> Option<Vec<Bytes>> {
        let first = self.piece_at(range.start)?;
        if range.start < self.found || range.end > self.end {
            return None;
        }
        let mut slices = Vec::with_capacity(2);
        for piece in self
            .pieces
            .range(first..)
            .take_while(|piece| piece.start < range.end)
        {
            let from = range.start.max(piece.start) - piece.start;
            let to = range.end.min(piece.end()) - piece.start;
            slices.push(piece.chunk.slice(index(from)..index(to)));
        }
        Some(slices)
    }

    /// Copies the bytes at `position` into `target`; returns false when they are not all resident.
    pub(crate) fn copy_at(&self, position: u64, target: &mut [u8]) -> bool {
        let (Some(mut at), true) = (
            self.piece_at(position),
            position >= self.found && position + target.len() as u64 <= self.end,
        ) else {
            return false;
        };
        let mut done = 0;
        while let (Some(piece), true) = (self.pieces.get(at), done < target.len()) {
            let from = index(position + done as u64 - piece.start);
            let (_, here) = piece.chunk.filled().split_at(from); // Bounded: this piece holds the position.
            let (_, wanted) = target.split_at_mut(done); // Bounded: by the loop.
            let count = here.len().min(wanted.len());
            // Bounded: the lesser of both.
            let (wanted, here) = (wanted.split_at_mut(count).0, here.split_at(count).0);
            wanted.copy_from_slice(here);
            done += count;
            at += 1;
        }
        assert_eq!(done, target.len(), "what is resident is one range");
        true
    }

    /// Evicts the oldest chunk if all of it is below `written`; returns whether it did.
    pub(crate) fn evict_front(&mut self, written: u64) -> bool {
        if self
            .pieces
            .front()
            .is_none_or(|piece| piece.end() > written)
        {
            return false;
        }
        let Some(piece) = self.pieces.pop_front() else {
            return false;
        };
        if self.pieces.is_empty() {
            let filled = piece.chunk.filled();
            let whole = filled.len() - filled.len() % BLOCK_BYTES;
            let (_, partial) = filled.split_at(whole); // Bounded: a remainder less.
            assert_eq!(
                self.end % BLOCK,
                partial.len() as u64,
                "the last piece ends where the segment does"
            );
            self.partial = Bytes::copy_from_slice(partial);
        }
        true
    }

    fn piece_at(&self, position: u64) -> Option<usize> {
        let at = self.pieces.partition_point(|piece| piece.end() <= position);
        let piece = self.pieces.get(at)?;
        (piece.start <= position).then_some(at)
    }
}

impl<P: Platform> Segment<P> {
    /// Appends a batch whose header describes the fixed part; the caller provides enough chunks.
    pub(crate) fn take(
        &self,
        header: &BatchHeader,
        (fixed, body): (&[u8; HEADER_BYTES], &[u8]),
        chunks: &mut impl Iterator<Item = Chunk>,
    ) {
        let mut tail = self.tail.borrow_mut();
        tail.append(fixed, chunks);
        tail.append(body, chunks);
        drop(tail);
        self.note(header);
    }

    /// Adds the batch behind the last one to the lengths and indexes; its bytes are in the tail.
    pub(super) fn note(&self, header: &BatchHeader) {
        let position = self.size();
        assert!(self.is_active(), "only the active segment grows");
        assert!(header.base_offset >= self.next(), "offsets ascend");
        assert!(
            position <= POSITION_MAX,
            "a segment is rolled before it outgrows what an index can say"
        );
        let mut loaded = self.loaded.borrow_mut();
        let indexes = &mut loaded.as_mut().expect(HAS_INDEXES).indexes;
        indexes.append(header, position);
        self.largest.set(indexes.largest_timestamp().into());
        drop(loaded);
        self.note_first_timestamp(header.max_timestamp.0);
        self.lengths.grow(header.size_bytes as u64);
        self.next.set(header.next_offset());
        assert!(
            self.size() <= self.tail().end(),
            "the bytes of a batch are in memory before it is noted"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::buf::{ChunkPool, PoolOptions};

    fn pool() -> ChunkPool {
        let chunk_bytes = 2 * BLOCK_BYTES;
        ChunkPool::new(PoolOptions {
            chunk_bytes,
            bytes_max: 64 * chunk_bytes,
            reserve_chunks: 0,
        })
    }

    fn filled(pool: &ChunkPool, tail: &mut Tail, bytes: &[u8]) {
        tail.append(bytes, &mut std::iter::from_fn(|| pool.take()));
    }

    fn pattern(len: usize) -> Vec<u8> {
        (0..=250_u8).cycle().take(len).collect()
    }

    fn joined(parts: &[Bytes]) -> Vec<u8> {
        parts.concat()
    }

    #[test]
    fn what_is_appended_is_read_and_written_from_the_same_memory() {
        let (pool, mut tail) = (pool(), Tail::at(0, Bytes::new()));
        let bytes = pattern(20_000);
        filled(&pool, &mut tail, &bytes[..5000]);
        filled(&pool, &mut tail, &bytes[5000..]);
        assert_eq!(tail.end(), 20_000);
        assert_eq!(
            joined(&tail.slices(100..19_000).unwrap()),
            &bytes[100..19_000]
        );
        let mut header = [0; 61];
        assert!(tail.copy_at(8170, &mut header));
        assert_eq!(header, bytes[8170..8231]);
        let blocks = tail.blocks_from(5000).unwrap();
        assert_eq!(blocks.position, 4096);
        let written = joined(&blocks.parts);
        assert_eq!(written.len(), 4 * BLOCK_BYTES);
        assert_eq!(written[..20_000 - 4096], bytes[4096..]);
        assert!(written[20_000 - 4096..].iter().all(|byte| *byte == 0));
        assert!(
            blocks
                .parts
                .iter()
                .all(|part| part.len() % BLOCK_BYTES == 0)
        );
        assert!(tail.blocks_from(20_000).is_none());
    }

    #[test]
    fn eviction_takes_the_oldest_written_chunk_and_appending_goes_on() {
        let (pool, mut tail) = (pool(), Tail::at(0, Bytes::new()));
        let bytes = pattern(30_000);
        filled(&pool, &mut tail, &bytes[..20_000]);
        assert!(!tail.evict_front(8191), "not all of it is written");
        assert!(tail.evict_front(20_000));
        assert_eq!(tail.resident_from(), 8192);
        assert!(tail.slices(8191..8193).is_none());
        assert!(tail.evict_front(20_000) && tail.evict_front(20_000));
        assert!(!tail.evict_front(20_000));
        assert_eq!((tail.resident_from(), pool.used_bytes()), (20_000, 0));
        filled(&pool, &mut tail, &bytes[20_000..]);
        assert_eq!(tail.resident_from(), 16_384);
        let blocks = tail.blocks_from(20_000).unwrap();
        assert_eq!(blocks.position, 16_384);
        assert_eq!(joined(&blocks.parts)[..30_000 - 16_384], bytes[16_384..]);
    }

    #[test]
    fn room_is_counted_with_the_partial_block() {
        let pool = pool();
        let mut tail = Tail::at(5000, Bytes::from(vec![1; 904]));
        assert_eq!(tail.lacking(10), 914);
        filled(&pool, &mut tail, &[2; 10]);
        assert_eq!(tail.lacking(8192 - 914), 0);
        assert_eq!(tail.lacking(8192), 914);
        assert_eq!(
            tail.resident_from(),
            5000,
            "what was found is not vouched for"
        );
    }
}
