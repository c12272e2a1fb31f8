//! The blocks of one segment: checking batches as blocks arrive, and taking runs of them for readers.
//!
//! Checking follows the file's order, from where a reader said that a batch begins (a *front*), so a batch that lies across
//! blocks is checked when the last of them is there. Each batch is checked once, however many readers take it.
//! Invariant: what is taken is whole batches that were found undamaged.
//! It does not: load, decide what is loaded, or say what is wrong with damaged bytes: the reader who needs them reads them
//! himself, and gets the error with file and position.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use bytes::Bytes;
use platform::clock::Instant;
use wire::batch::{BatchHeader, CRC_START, HEADER_BYTES};
use wire::crc;
use wire::types::Offset;

use super::block::{Block, Checked};
use crate::segment::scan::MAGIC;

/// Places at which checking will go on; the oldest is forgotten first.
const FRONTS_MAX: usize = 16;

/// The blocks of one segment.
#[derive(Default)]
pub(crate) struct Blocks {
    by_start: BTreeMap<u64, Rc<Block>>,
    fronts: VecDeque<Front>,
}

/// Where checking goes on, and the offset before which nothing may follow there.
#[derive(Clone, Copy)]
struct Front {
    position: u64,
    expected: Offset,
}

/// What checking from a position has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// The first batch there is undamaged.
    Checked,
    /// The bytes at this position are needed first.
    Lacks(u64),
    /// These bytes will not be served from here.
    Refused,
}

/// What a reader takes.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) below: Offset,
    pub(crate) bytes_max: usize,
    pub(crate) at_least_one: bool,
}

/// A run of batches.
pub(crate) struct Run {
    pub(crate) slices: Vec<Bytes>,
    /// The position after it.
    pub(crate) end: u64,
    /// The offset after it.
    pub(crate) next: Offset,
}

/// What there is for a reader.
pub(crate) enum Taken {
    Run(Run),
    /// The first batch is not wanted: it is too large, or not to be seen yet.
    Nothing,
    /// The first batch was not checked.
    Unchecked,
}

impl Blocks {
    pub(super) fn at(&self, start: u64) -> Option<&Rc<Block>> {
        self.by_start.get(&start)
    }

    /// The block that holds `position`, loaded or not.
    pub(crate) fn block_of(&self, position: u64, block_bytes: u64) -> Option<Rc<Block>> {
        self.at(position - position % block_bytes).cloned()
    }

    /// Puts a block in its place, or in that of an older one.
    pub(super) fn insert(&mut self, block: Rc<Block>) {
        self.forget_batches_into(block.start);
        self.by_start.insert(block.start, block);
    }

    /// Lets go of a block if it is this one.
    pub(super) fn remove(&mut self, block: &Rc<Block>) {
        if self.holds(block) {
            self.forget_batches_into(block.start);
            self.by_start.remove(&block.start);
        }
    }

    /// A batch that reaches beyond `start` is checked anew when the bytes there have been read anew.
    fn forget_batches_into(&self, start: u64) {
        for (_, earlier) in self.by_start.range(..start).rev() {
            if earlier.forget_batches_into(start) {
                break;
            }
        }
    }

    pub(super) fn holds(&self, block: &Rc<Block>) -> bool {
        self.at(block.start)
            .is_some_and(|held| Rc::ptr_eq(held, block))
    }

    /// Forgets everything: positions have lost their meaning. Loads under way end without effect.
    pub(crate) fn clear(&mut self) {
        self.by_start.clear();
        self.fronts.clear();
    }

    /// The block that holds `position`.
    fn around(&self, position: u64) -> Option<&Rc<Block>> {
        let (_, block) = self.by_start.range(..=position).next_back()?;
        (position - block.start < block.len() as u64).then_some(block)
    }

    /// The position of the undamaged batch that holds `offset`, which lies at `floor` or later.
    pub(crate) fn find(&self, floor: u64, offset: Offset) -> Option<u64> {
        let block = self.around(floor)?;
        let found = block.checked_past(floor, offset)?;
        let mut header = [0; HEADER_BYTES];
        self.copy_at(found.position, &mut header).then_some(())?;
        let base = BatchHeader::parse(&header)?.base_offset;
        (base <= offset).then_some(found.position)
    }

    /// Checks from `position` on, where a batch begins that ends past `expected`, as far as there are bytes; remembers to go
    /// on from there.
    pub(crate) fn check_from(
        &mut self,
        position: u64,
        expected: Offset,
        batch_max: u64,
    ) -> Progress {
        let front = Front { position, expected };
        let (after, outcome) = self.checked_on(front, batch_max);
        if !matches!(outcome, Progress::Refused) {
            self.keep(after);
        }
        if after.position > position {
            Progress::Checked
        } else {
            outcome
        }
    }

    /// Goes on checking with what has been loaded meanwhile.
    pub(super) fn check_on(&mut self, batch_max: u64) {
        for front in std::mem::take(&mut self.fronts) {
            let (after, outcome) = self.checked_on(front, batch_max);
            if !matches!(outcome, Progress::Refused) {
                self.keep(after);
            }
        }
    }

    fn keep(&mut self, front: Front) {
        if self
            .fronts
            .iter()
            .any(|other| other.position == front.position)
        {
            return;
        }
        if self.fronts.len() >= FRONTS_MAX {
            self.fronts.pop_front();
        }
        self.fronts.push_back(front);
    }

    fn checked_on(&self, mut front: Front, batch_max: u64) -> (Front, Progress) {
        loop {
            let Some(block) = self.around(front.position) else {
                return (front, Progress::Lacks(front.position));
            };
            let batch = match block.checked_at(front.position) {
                Some(batch) => batch,
                None => match self.judge(front, batch_max) {
                    Ok(batch) => {
                        block.add_checked(batch);
                        batch
                    }
                    Err(outcome) => return (front, outcome),
                },
            };
            front = Front {
                position: batch.end(),
                expected: batch.next,
            };
        }
    }

    /// Looks at one batch.
    fn judge(&self, front: Front, batch_max: u64) -> Result<Checked, Progress> {
        let Front { position, expected } = front;
        let mut fixed = [0; HEADER_BYTES];
        if !self.copy_at(position, &mut fixed) {
            return Err(self.lacking(position, HEADER_BYTES as u64));
        }
        let header = BatchHeader::parse(&fixed).ok_or(Progress::Refused)?;
        let sound = header.magic == MAGIC
            && header.last_offset_delta >= 0
            && header.next_offset() > expected
            && header.size_bytes as u64 <= batch_max;
        if !sound {
            return Err(Progress::Refused);
        }
        let end = position + header.size_bytes as u64;
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
            // All of the batch first: half a CRC would be computed again.
            if at == position + CRC_START as u64 && !self.has(position, end) {
                return Err(self.lacking(position, header.size_bytes as u64));
            }
            crc = crc::crc32c_append(crc, bytes);
            at += bytes.len() as u64;
        }
        if crc != header.crc {
            return Err(Progress::Refused);
        }
        Ok(Checked {
            position,
            bytes: u32::try_from(header.size_bytes).map_err(|_| Progress::Refused)?,
            next: header.next_offset(),
        })
    }

    /// True when all bytes between the two positions are loaded.
    fn has(&self, mut position: u64, end: u64) -> bool {
        while position < end {
            match self.around(position) {
                Some(block) => position = block.start + block.len() as u64,
                None => return false,
            }
        }
        true
    }

    /// The first position from `position` on, up to `len` bytes, that is not loaded.
    fn lacking(&self, position: u64, len: u64) -> Progress {
        let mut at = position;
        while at < position + len {
            match self.around(at) {
                Some(block) => at = block.start + block.len() as u64,
                None => return Progress::Lacks(at),
            }
        }
        Progress::Refused
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
            let (now, later) = rest.split_at_mut(bytes.len().min(rest.len()));
            now.copy_from_slice(bytes.get(..now.len()).unwrap_or_default());
            at += now.len() as u64;
            rest = later;
        }
        true
    }

    /// Takes undamaged batches from `position` on, as many as are wanted and here.
    pub(crate) fn take(&self, position: u64, limits: Limits, now: Instant) -> Taken {
        let mut end = position;
        let mut next = Offset::ZERO;
        let mut enough = false;
        while let (Some(block), false) = (self.around(end), enough) {
            let before = end;
            block.follow(end, |batch| {
                let too_much = batch.end() - position > limits.bytes_max as u64;
                let excused = end == position && limits.at_least_one;
                enough = batch.next > limits.below || (too_much && !excused);
                if !enough {
                    (end, next) = (batch.end(), batch.next);
                }
                !enough
            });
            if end == before {
                break;
            }
        }
        if end == position && enough {
            return Taken::Nothing;
        }
        if end == position {
            return Taken::Unchecked;
        }
        Taken::Run(Run {
            slices: self.slices(position, end, now),
            end,
            next,
        })
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

/// The bytes from `at` to `end`, as far as they are in a block that begins at `start`.
fn piece(bytes: &[u8], start: u64, at: u64, end: u64) -> &[u8] {
    let to = index(end - start).min(bytes.len());
    bytes.get(index(at - start)..to).unwrap_or_default()
}

fn index(distance: u64) -> usize {
    usize::try_from(distance).unwrap_or(usize::MAX)
}
