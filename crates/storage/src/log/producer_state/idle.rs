//! Which producer of a partition has been idle longest, found without looking at all of them.
//!
//! A note holds an offset before which a producer was not idle yet. A note is not moved when its
//! producer writes: it is late, and put right when it is the oldest. So a batch of a known producer
//! costs nothing here, and a new producer the logarithm of their number.
//! Invariant: each known producer has exactly one note.
//! It does not know the producers: its owner says what has become of them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use wire::types::{Offset, ProducerId};

/// A note for each known producer, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct IdleProducers {
    // Bounded: one for each producer, `producer_state::PRODUCERS_MAX`.
    notes: BinaryHeap<Reverse<(Offset, ProducerId)>>,
}

impl IdleProducers {
    /// Returns notes of these producers and no others.
    pub(super) fn of(producers: impl Iterator<Item = (Offset, ProducerId)>) -> Self {
        let notes = producers.map(Reverse).collect();
        Self { notes }
    }

    pub(super) fn note(&mut self, at: Offset, id: ProducerId) {
        self.notes.push(Reverse((at, id)));
    }

    /// Takes out the oldest note.
    pub(super) fn pop(&mut self) -> Option<(Offset, ProducerId)> {
        self.notes.pop().map(|Reverse(note)| note)
    }

    pub(super) fn len(&self) -> usize {
        self.notes.len()
    }
}
