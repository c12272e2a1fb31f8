//! A log of the model: its bytes in memory, at each commit, and as its segment has them.

use std::collections::BTreeMap;

use platform::sim::Rng;

use super::device::{SECTOR, tear};
use super::*;
use crate::journal::ring::Landing;

/// One log, which may be deleted and made again.
pub(super) struct Log {
    pub(super) id: LogId,
    pub(super) is_there: bool,
    pub(super) bytes: Vec<u8>,
    /// Its bytes as of each commit with a part of it, since it was made.
    pub(super) at: BTreeMap<Sequence, Vec<u8>>,
    pub(super) segment: Vec<u8>,
    pub(super) landing: Option<(Landing, Vec<u8>)>,
    /// The first commit whose part the segment may not have.
    pub(super) landed_below: Sequence,
    /// The last commit with a part of it, or of the one before it.
    pub(super) last_part: Sequence,
    pub(super) last_cut: Sequence,
    /// The commit with the cut that makes it.
    pub(super) made_by: Option<Sequence>,
    /// A landing that ends when the copies of its parts are durable: below this commit.
    pub(super) carried: Option<(Landing, Sequence)>,
}

impl Log {
    pub(super) fn new(id: LogId) -> Self {
        Self {
            id,
            is_there: true,
            bytes: Vec::new(),
            at: BTreeMap::new(),
            segment: Vec::new(),
            landing: None,
            landed_below: Sequence::FIRST,
            last_part: Sequence(0),
            last_cut: Sequence(0),
            made_by: None,
            carried: None,
        }
    }

    /// Returns its bytes when this commit was the last one.
    pub(super) fn as_of(&self, last: Sequence) -> Vec<u8> {
        let found = self.at.range(..=last).next_back();
        found.map(|(_, bytes)| bytes.clone()).unwrap_or_default()
    }

    /// Notes a commit with a part of it, after which it has these bytes.
    pub(super) fn note(&mut self, sequence: Sequence, bytes: Vec<u8>, has_cut: bool) {
        self.at.insert(sequence, bytes.clone());
        self.bytes = bytes;
        self.last_part = sequence;
        if has_cut {
            self.last_cut = sequence;
        }
    }

    /// Appends to the segment, past the journal, when nothing of it is unlanded.
    pub(super) fn append_directly(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.segment.clone_from(&self.bytes);
        let last = self.at.keys().next_back().copied();
        let last = last.unwrap_or(Sequence(0));
        self.at.insert(last, self.bytes.clone());
    }

    pub(super) fn is_landed(&self) -> bool {
        self.is_there && self.landing.is_none() && self.last_part < self.landed_below
    }

    /// Deletes it, durably.
    pub(super) fn delete(&mut self) {
        *self = Self {
            is_there: false,
            last_part: self.last_part,
            last_cut: self.last_cut,
            ..Self::new(self.id)
        };
    }

    /// Makes it again, empty.
    pub(super) fn make(&mut self) {
        self.is_there = true;
        self.landed_below = self.made_by.take().unwrap_or(self.last_part.next());
    }

    /// Returns the segment after a crash: sectors and length are the old or the new ones.
    pub(super) fn crashed(&self, rng: &mut Rng) -> Vec<u8> {
        let mut segment = self.segment.clone();
        if let Some((_, new)) = &self.landing {
            let len = if rng.chance(50) {
                new.len()
            } else {
                segment.len()
            };
            segment.resize(len.max(new.len()).next_multiple_of(SECTOR), 0);
            tear(&mut segment, new, rng);
            segment.truncate(len);
        }
        segment
    }

    /// Goes on after a start that has put all parts below `end` into the segment.
    pub(super) fn restart(&mut self, end: Sequence, segment: Vec<u8>) {
        if self.is_there {
            self.at.split_off(&end);
            self.bytes.clone_from(&segment);
            self.segment = segment;
        } else {
            self.delete();
        }
        let last = Sequence(end.0 - 1);
        self.last_part = self.last_part.min(last);
        self.last_cut = self.last_cut.min(last);
        self.landed_below = end;
        (self.landing, self.carried) = (None, None);
    }
}

/// Does what a start does with a part.
pub(super) fn apply(written: &WrittenPart, id: LogId, segment: &mut Vec<u8>) {
    if written.log != id {
        return;
    }
    let from = written.position as usize;
    match &written.what {
        PartContent::Cut(_) => segment.truncate(from),
        PartContent::Bytes(_, bytes) => {
            let to = from + bytes.len();
            segment.resize(segment.len().max(to), 0);
            segment[from..to].copy_from_slice(bytes);
        }
    }
}
