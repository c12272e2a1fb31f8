//! The two fields of a batch that the broker stamps and no CRC covers: base offset and leader epoch.
//!
//! Their bits rot like any others, so they are held against what is known from elsewhere: the offset against the batch
//! before it, and behind a gap, which compaction leaves, against the one after it; the epoch against the log's epochs.
//! Not found: an offset that has moved within a gap. It does not: read, or judge what the CRC covers.

use wire::batch::BatchHeader;
use wire::types::Offset;

use crate::log::epoch_cache::{EpochCache, EpochRun};

/// Why a batch with a wrong base offset is not served.
pub(crate) const WRONG_OFFSET: &str = "another offset was expected";

/// Why a batch with a wrong leader epoch is not served; the epochs as they are known may be wrong rather than the batch.
pub(crate) const WRONG_EPOCH: &str = "another leader epoch was expected";

/// Where a segment's file ends.
#[derive(Clone, Copy)]
pub(crate) struct FileEnd {
    /// Its length.
    pub(crate) position: u64,
    /// The offset after its last batch; `None` when more of the segment is in memory.
    pub(crate) next: Option<Offset>,
    /// The offset that no batch of the segment goes beyond.
    pub(crate) bound: Offset,
}

/// Where a batch stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Right,
    Wrong,
    /// Behind a gap, and nobody knows what follows.
    Unsure,
}

/// Judges where a batch stands that cannot begin before `lowest`, the end of the one before it; `following` is the base
/// offset of the batch after it, or where the segment ends.
pub(crate) fn place_of(
    header: &BatchHeader,
    lowest: Offset,
    following: impl FnOnce() -> Option<Offset>,
) -> Place {
    if header.base_offset == lowest {
        return Place::Right;
    }
    if header.base_offset < lowest {
        return Place::Wrong;
    }
    match following() {
        Some(following) if header.next_offset() > following => Place::Wrong,
        Some(_) => Place::Right,
        None => Place::Unsure,
    }
}

/// The base offset that bytes of a batch begin with.
pub(crate) fn base_offset_of(bytes: &[u8]) -> Option<Offset> {
    let bytes = bytes.first_chunk::<8>()?;
    Some(Offset(i64::from_be_bytes(*bytes)))
}

/// The epochs of batches that follow each other: one lookup for as long as the epoch stays.
pub(crate) struct Epochs<'a> {
    known: &'a EpochCache,
    run: EpochRun,
}

impl<'a> Epochs<'a> {
    pub(crate) fn new(known: &'a EpochCache) -> Self {
        Self {
            known,
            run: EpochRun::NOWHERE,
        }
    }

    /// True when a batch with this header may have its epoch.
    pub(crate) fn allow(&mut self, header: &BatchHeader) -> bool {
        // A log may start within a batch, but an epoch begins with one.
        let last = header.last_offset();
        if !self.run.holds(last) {
            self.run = self.known.run_at(last);
        }
        self.run.allows(header.leader_epoch)
    }
}
