//! The last batches of a producer in its epoch.
//!
//! They lie within the producer, so that a look through all the producers of a partition follows
//! no pointer for each.
//! Invariant: oldest first, at most [`BATCHES_KEPT_MAX`].

use wire::batch::sequence_plus;
use wire::types::{Offset, TimestampMs};

/// How many batches of a producer are remembered; a client has at most this many in flight.
pub const BATCHES_KEPT_MAX: usize = 5;

/// A batch that was appended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AppendedBatch {
    /// Sequence of its last record.
    pub last_sequence: i32,
    /// Offset of its last record.
    pub last_offset: Offset,
    /// Last offset minus first offset.
    pub offset_delta: i32,
    /// Its largest timestamp.
    pub timestamp: TimestampMs,
}

impl AppendedBatch {
    const NONE: Self = Self {
        last_sequence: -1,
        last_offset: Offset(-1),
        offset_delta: 0,
        timestamp: TimestampMs::NONE,
    };

    /// Returns the offset of its first record.
    pub fn base_offset(&self) -> Offset {
        self.last_offset.plus(-i64::from(self.offset_delta))
    }

    /// Returns the sequence of its first record.
    pub fn base_sequence(&self) -> i32 {
        sequence_plus(self.last_sequence, self.offset_delta.wrapping_neg())
    }
}

/// The batches that are remembered.
#[derive(Clone, Debug)]
pub(super) struct Batches {
    kept: [AppendedBatch; BATCHES_KEPT_MAX],
    count: usize,
}

impl Batches {
    pub(super) fn none() -> Self {
        Self {
            kept: [AppendedBatch::NONE; BATCHES_KEPT_MAX],
            count: 0,
        }
    }

    /// Adds the newest one; the oldest goes if there are too many.
    pub(super) fn push(&mut self, batch: AppendedBatch) {
        if self.count == BATCHES_KEPT_MAX {
            self.kept.rotate_left(1);
            self.count -= 1;
        }
        let Some(place) = self.kept.get_mut(self.count) else {
            unreachable!("one has gone");
        };
        *place = batch;
        self.count += 1;
        assert!(self.count <= BATCHES_KEPT_MAX, "the oldest goes");
    }

    pub(super) fn clear(&mut self) {
        self.count = 0;
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &AppendedBatch> {
        self.kept.iter().take(self.count)
    }

    /// Returns the newest one.
    pub(super) fn last(&self) -> Option<&AppendedBatch> {
        self.kept.get(self.count.checked_sub(1)?)
    }
}
