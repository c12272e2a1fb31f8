//! The end of a transaction, as a partition is told of it.
//!
//! Invariant: whose it is and in which epoch go together. It does not: decide (`machine.rs`) or write (`markers.rs`).

use storage::log::producer_state::EndMarker;
use wire::types::ProducerId;

/// The end of one producer's transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    /// Whose.
    pub(crate) producer_id: ProducerId,
    /// Its epoch.
    pub(crate) epoch: i16,
    /// How it ends, by which coordinator.
    pub(crate) marker: EndMarker,
    /// Its epoch is above that of the transaction that it ends; one in the same epoch is refused.
    pub(crate) raises_epoch: bool,
}
