//! The partitions of one connection: those that its broker leads, in the order of their turns.
//!
//! It does not know what is written to them.

use super::hook::PartitionPlace;

/// The partitions of a lane; never empty.
#[derive(Clone, Debug)]
pub(super) struct Places {
    in_turn: Vec<PartitionPlace>,
    sorted: Vec<PartitionPlace>,
}

impl Places {
    /// Keeps the partitions in this order.
    pub(super) fn new(in_turn: Vec<PartitionPlace>) -> Self {
        let mut sorted = in_turn.clone();
        sorted.sort_unstable();
        Self { in_turn, sorted }
    }

    /// Returns whether a partition is among them.
    pub(super) fn contains(&self, place: PartitionPlace) -> bool {
        self.sorted.binary_search(&place).is_ok()
    }

    /// Returns the partition whose turn it is.
    pub(super) fn at(&self, turn: usize) -> PartitionPlace {
        self.in_turn[turn % self.in_turn.len()]
    }
}
