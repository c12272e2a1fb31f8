//! The transactions of one partition that readers at `read_committed` still have to wait for.
//!
//! Open: no marker yet. Decided: the marker is written, but the high watermark has not passed it.
//! Both are by first offset.

use std::collections::BTreeMap;

use wire::types::{Offset, ProducerId};

/// Open and decided transactions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Transactions {
    // Bounded: one for each producer, `producer_state::PRODUCERS_MAX`, and ids that a coordinator
    // knows.
    open: BTreeMap<Offset, ProducerId>,
    /// First offset to the offset of the marker.
    // Bounded: `forget_decided_below` the high watermark, which follows what is written.
    decided: BTreeMap<Offset, Offset>,
}

impl Transactions {
    pub(super) fn open(&mut self, first: Offset, producer_id: ProducerId) {
        self.open.insert(first, producer_id);
    }

    pub(super) fn decide(&mut self, first: Offset, marker: Offset) {
        self.open.remove(&first);
        self.decided.insert(first, marker);
    }

    pub(super) fn forget_decided_below(&mut self, offset: Offset) {
        self.decided.retain(|_, marker| *marker >= offset);
    }

    pub(super) fn first_open(&self) -> Option<Offset> {
        self.open.first_key_value().map(|(&first, _)| first)
    }

    pub(super) fn first_open_producer(&self) -> Option<ProducerId> {
        self.open.first_key_value().map(|(_, &id)| id)
    }

    pub(super) fn first_open_of_others(&self, than: ProducerId) -> Option<Offset> {
        let mut others = self.open.iter().filter(|(_, id)| **id != than);
        others.next().map(|(&first, _)| first)
    }

    pub(super) fn first_unstable(&self) -> Option<Offset> {
        let decided = self.decided.first_key_value().map(|(&first, _)| first);
        decided.into_iter().chain(self.first_open()).min()
    }
}
