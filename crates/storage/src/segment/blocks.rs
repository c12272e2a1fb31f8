//! The blocks of one segment: takes runs of batches for readers, and checks each batch before its
//! first reader takes it.
//!
//! A batch is checked when a reader takes it, not when its block arrives: the check loads its bytes
//! into the processor's cache, where the copy into the socket, which follows immediately, finds
//! them. Each batch is checked once, regardless of the number of readers.
//! Invariant: a reader gets only whole batches that were found undamaged.
//! It does not load blocks, decide which are loaded, or report damaged bytes: a reader that needs
//! them reads them itself and gets the error with file and position.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use platform::clock::Instant;
use wire::batch::{BatchHeader, CRC_START, HEADER_BYTES};
use wire::crc;
use wire::types::Offset;

use super::block::{Block, CheckedBatch};
use crate::log::epoch_cache::EpochCache;
use crate::num::index;
use crate::segment::scan::MAGIC;
use crate::segment::stamps::{BatchPlace, Epochs, FileEnd, base_offset_of, place_of};

/// The blocks of one segment.
#[derive(Default)]
pub(crate) struct Blocks {
    by_start: BTreeMap<u64, Rc<Block>>,
}

/// The start of a batch, and the offset past which it must end.
#[derive(Clone, Copy)]
struct Front {
    position: u64,
    expected: Offset,
}

/// The limits of what a reader takes.
#[derive(Clone, Copy)]
pub(crate) struct Limits<'a> {
    pub(crate) below: Offset,
    pub(crate) bytes_max: usize,
    pub(crate) at_least_one: bool,
    /// The length of the longest valid batch.
    pub(crate) batch_max: u64,
    /// The leader epochs of the log.
    pub(crate) epochs: &'a EpochCache,
    pub(crate) end: FileEnd,
}

/// A run of batches.
pub(crate) struct Run {
    pub(crate) slices: Vec<Bytes>,
    /// The position after it.
    pub(crate) end: u64,
    /// The offset after it.
    pub(crate) next: Offset,
}

/// The result of taking batches for a reader.
pub(crate) enum TakeOutcome {
    Run(Run),
    /// The first batch is not taken: it is too large, or not yet visible to the reader.
    Nothing,
    /// The bytes at this position must be loaded first.
    Lacks(u64),
    /// Blocks do not serve these bytes.
    Refused,
}

impl Blocks {
    pub(crate) fn at(&self, start: u64) -> Option<&Rc<Block>> {
        self.by_start.get(&start)
    }

    /// Returns the block that holds `position`, loaded or not.
    pub(crate) fn block_of(&self, position: u64, block_bytes: u64) -> Option<Rc<Block>> {
        self.at(position - position % block_bytes).cloned()
    }

    /// Inserts a block and replaces an older one at the same place.
    pub(crate) fn insert(&mut self, block: Rc<Block>) {
        assert!(block.is_loading(), "a new block has no bytes yet");
        self.forget_batches_into(block.start);
        self.by_start.insert(block.start, block);
    }

    /// Removes a block if it is still the one at its place.
    pub(crate) fn remove(&mut self, block: &Rc<Block>) {
        if self.holds(block) {
            self.forget_batches_into(block.start);
            self.by_start.remove(&block.start);
        }
    }

    /// Drops the batch that reaches beyond `start`: it must be checked again after the bytes there
    /// were read again.
    fn forget_batches_into(&self, start: u64) {
        for (_, earlier) in self.by_start.range(..start).rev() {
            if earlier.forget_batches_into(start) {
                break;
            }
        }
    }

    pub(crate) fn holds(&self, block: &Rc<Block>) -> bool {
        self.at(block.start)
            .is_some_and(|held| Rc::ptr_eq(held, block))
    }

    /// Drops all blocks because positions have become invalid.
    ///
    /// Loads in progress end without effect.
    pub(crate) fn clear(&mut self) {
        self.by_start.clear();
    }

    /// Returns the loaded block that holds `position`.
    fn around(&self, position: u64) -> Option<&Rc<Block>> {
        let (_, block) = self.by_start.range(..=position).next_back()?;
        (position - block.start < block.len() as u64).then_some(block)
    }

    /// Returns the position of the undamaged batch that holds `offset`, which lies at `floor` or
    /// later.
    pub(crate) fn find(&self, floor: u64, offset: Offset) -> Option<u64> {
        let block = self.around(floor)?;
        let found = block.checked_past(floor, offset)?;
        let mut header = [0; HEADER_BYTES];
        self.copy_at(found.position, &mut header).then_some(())?;
        let base = BatchHeader::parse(&header)?.base_offset;
        (base <= offset).then_some(found.position)
    }

    /// Checks one batch.
    fn judge(
        &self,
        front: Front,
        limits: Limits<'_>,
        epochs: &mut Epochs<'_>,
    ) -> Result<CheckedBatch, TakeOutcome> {
        let Front { position, expected } = front;
        let mut fixed = [0; HEADER_BYTES];
        if !self.copy_at(position, &mut fixed) {
            return Err(self.lacking(position, HEADER_BYTES as u64));
        }
        let header = BatchHeader::parse(&fixed).ok_or(TakeOutcome::Refused)?;
        let sound = header.magic == MAGIC
            && header.last_offset_delta >= 0
            && header.next_offset() > expected
            && header.size_bytes as u64 <= limits.batch_max;
        if !sound {
            return Err(TakeOutcome::Refused);
        }
        let end = position + header.size_bytes as u64;
        let following = || {
            let last = end >= limits.end.position;
            let mut base = [0; 8];
            let known = last.then_some(limits.end.next);
            known.unwrap_or_else(|| {
                self.copy_at(end, &mut base)
                    .then(|| base_offset_of(&base))?
            })
        };
        match place_of(&header, expected, following) {
            BatchPlace::Right => {}
            BatchPlace::Unsure if end < limits.end.position => return Err(self.lacking(end, 8)),
            BatchPlace::Wrong | BatchPlace::Unsure => return Err(TakeOutcome::Refused),
        }
        let mut crc = 0;
        let mut at = position + CRC_START as u64;
        while at < end {
            let Some(loaded) = self
                .around(at)
                .and_then(|block| Some((block.start, block.loaded()?)))
            else {
                return Err(self.lacking(position, header.size_bytes as u64));
            };
            let (start, loaded) = loaded;
            let bytes = piece(loaded.bytes(), start, at, end);
            // Wait for the whole batch, because the CRC of a part would be computed again.
            if at == position + CRC_START as u64 && !self.has(position, end) {
                return Err(self.lacking(position, header.size_bytes as u64));
            }
            crc = crc::crc32c_append(crc, bytes);
            at += bytes.len() as u64;
        }
        if crc != header.crc || !epochs.allow(&header) {
            return Err(TakeOutcome::Refused);
        }
        Ok(CheckedBatch {
            position,
            bytes: u32::try_from(header.size_bytes).map_err(|_| TakeOutcome::Refused)?,
            next: header.next_offset(),
        })
    }

    /// Returns true when all bytes between the two positions are loaded.
    fn has(&self, mut position: u64, end: u64) -> bool {
        while position < end {
            match self.around(position) {
                Some(block) => position = block.start + block.len() as u64,
                None => return false,
            }
        }
        true
    }

    /// Returns the first position that is not loaded among the `len` bytes from `position` on.
    fn lacking(&self, position: u64, len: u64) -> TakeOutcome {
        let mut at = position;
        while at < position + len {
            match self.around(at) {
                Some(block) => at = block.start + block.len() as u64,
                None => return TakeOutcome::Lacks(at),
            }
        }
        TakeOutcome::Refused
    }

    fn copy_at(&self, position: u64, target: &mut [u8]) -> bool {
        let end = position + target.len() as u64;
        let mut rest = target;
        let mut at = position;
        while !rest.is_empty() {
            let Some(block) = self.around(at) else {
                return false;
            };
            let Some(loaded) = block.loaded() else {
                return false;
            };
            let bytes = piece(loaded.bytes(), block.start, at, end);
            // Bounded: the lesser of both.
            let (now, later) = rest.split_at_mut(bytes.len().min(rest.len()));
            now.copy_from_slice(bytes.split_at(now.len()).0); // Bounded: the lesser of both.
            at += now.len() as u64;
            rest = later;
        }
        true
    }

    /// Takes undamaged batches from `position` on, where a batch begins that ends past `expected`.
    ///
    /// It takes as many as the limits allow and the blocks hold, and checks those that no reader
    /// has taken before.
    pub(crate) fn take(
        &self,
        position: u64,
        expected: Offset,
        limits: Limits<'_>,
        now: Instant,
    ) -> TakeOutcome {
        let mut epochs = Epochs::new(limits.epochs);
        let mut front = Front { position, expected };
        let outcome = loop {
            if self.follow(&mut front, position, limits) {
                break TakeOutcome::Nothing;
            }
            match self.judge(front, limits, &mut epochs) {
                Ok(batch) => match self.around(front.position) {
                    Some(block) => block.add_checked(batch),
                    None => break TakeOutcome::Lacks(front.position),
                },
                Err(outcome) => break outcome,
            }
        };
        if front.position == position {
            return outcome;
        }
        TakeOutcome::Run(Run {
            slices: self.slices(position, front.position, now),
            end: front.position,
            next: front.expected,
        })
    }

    /// Advances over checked batches within the limits; returns true when the next batch exceeds
    /// them.
    fn follow(&self, front: &mut Front, position: u64, limits: Limits<'_>) -> bool {
        let mut enough = false;
        while let (Some(block), false) = (self.around(front.position), enough) {
            let before = front.position;
            block.follow(before, |batch| {
                let too_much = batch.end() - position > limits.bytes_max as u64;
                let excused = batch.position == position && limits.at_least_one;
                enough = batch.next > limits.below || (too_much && !excused);
                if !enough {
                    (front.position, front.expected) = (batch.end(), batch.next);
                }
                !enough
            });
            if front.position == before {
                break;
            }
        }
        enough
    }

    fn slices(&self, position: u64, end: u64, now: Instant) -> Vec<Bytes> {
        let mut slices = Vec::new();
        let mut at = position;
        while at < end {
            let Some((block, loaded)) = self
                .around(at)
                .and_then(|block| Some((block, block.loaded()?)))
            else {
                break;
            };
            let from = index(at - block.start);
            let to = index(end - block.start).min(loaded.bytes().len());
            slices.push(loaded.slice(from..to));
            at = block.start + to as u64;
            block.note_served(at, now);
        }
        debug_assert_eq!(at, end, "the bytes of checked batches stay");
        slices
    }
}

/// Returns the bytes from `at` to `end`, as far as they are in a block that begins at `start`.
fn piece(bytes: &[u8], start: u64, at: u64, end: u64) -> &[u8] {
    let to = index(end - start).min(bytes.len());
    let piece = bytes.get(index(at - start)..to);
    let piece = piece.expect("the block holds the position");
    assert!(
        !piece.is_empty(),
        "a block that holds a position has a byte there"
    );
    piece
}
