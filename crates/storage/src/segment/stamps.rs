//! The two fields of a batch that the broker stamps and no CRC covers: base offset and leader
//! epoch.
//!
//! Their bits can flip like all others, so they are compared with other sources: the base offset
//! with the batch before it and, behind a gap left by compaction, with the batch after it; the
//! epoch with the log's leader epochs. An offset that moved within a gap is not detected.
//! It does not read files, or check what the CRC covers.

use wire::batch::BatchHeader;
use wire::types::Offset;

use crate::log::epoch_cache::{EpochCache, EpochRun};

/// Why a batch with a wrong base offset is not served.
pub(crate) const WRONG_OFFSET: &str = "another offset was expected";

/// Why a batch with a wrong leader epoch is not served; the known epochs may be wrong rather than
/// the batch.
pub(crate) const WRONG_EPOCH: &str = "another leader epoch was expected";

/// The end of a segment's file.
#[derive(Clone, Copy)]
pub(crate) struct FileEnd {
    /// Its length.
    pub(crate) position: u64,
    /// The offset after its last batch; `None` when more of the segment is in memory.
    pub(crate) next: Option<Offset>,
    /// The offset beyond which no batch of the segment ends.
    pub(crate) bound: Offset,
}

/// Whether a batch is at its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BatchPlace {
    Right,
    Wrong,
    /// The batch is behind a gap, and the batch after it is not known.
    Unsure,
}

/// Judges whether a batch is at its place.
///
/// `lowest` is the end of the batch before it, so the batch cannot begin earlier. `following` is
/// the base offset of the batch after it, or the end of the segment.
pub(crate) fn place_of(
    header: &BatchHeader,
    lowest: Offset,
    following: impl FnOnce() -> Option<Offset>,
) -> BatchPlace {
    if header.base_offset == lowest {
        return BatchPlace::Right;
    }
    if header.base_offset < lowest {
        return BatchPlace::Wrong;
    }
    match following() {
        Some(following) if header.next_offset() > following => BatchPlace::Wrong,
        Some(_) => BatchPlace::Right,
        None => BatchPlace::Unsure,
    }
}

/// Returns the base offset at the start of a batch.
pub(crate) fn base_offset_of(bytes: &[u8]) -> Option<Offset> {
    let bytes = bytes.first_chunk::<8>()?;
    Some(Offset(i64::from_be_bytes(*bytes)))
}

/// The epochs of consecutive batches, with one lookup for each run of the same epoch.
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

    /// Returns true when a batch with this header may have its epoch.
    pub(crate) fn allow(&mut self, header: &BatchHeader) -> bool {
        // A log may start within a batch, but an epoch begins with one.
        let last = header.last_offset();
        if !self.run.holds(last) {
            self.run = self.known.run_at(last);
        }
        self.run.allows(header.leader_epoch)
    }
}
