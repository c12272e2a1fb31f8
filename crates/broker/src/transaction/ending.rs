//! The end of a transaction, as a partition gets it.
//!
//! Invariant: the producer id and the epoch belong together. Not here: the decision (`machine.rs`)
//! and the marker (`markers.rs`).

use storage::log::producer_state::EndMarker;
use wire::types::ProducerId;

/// The end of one producer's transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    /// The producer id.
    pub(crate) producer_id: ProducerId,
    /// The producer epoch.
    pub(crate) epoch: i16,
    /// The outcome and the coordinator epoch.
    pub(crate) marker: EndMarker,
    /// True if its epoch must be above that of the transaction that it ends; one in the same epoch
    /// is then refused.
    pub(crate) raises_epoch: bool,
}
