//! What the controller knows of the quorum that holds the metadata log.
//!
//! Invariant: this node is its only member. It does not: answer requests (`handler/describe_quorum.rs`).

use wire::types::{LeaderEpoch, NodeId, Offset, Uuid};

/// The quorum as its only member sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quorum {
    /// That member.
    pub(crate) node: NodeId,
    /// Its log directory, as far as the log names it.
    pub(crate) directory: Uuid,
    /// The epoch in which it leads.
    pub(crate) epoch: LeaderEpoch,
    /// What is committed: all below.
    pub(crate) high_watermark: Offset,
    /// The end of its log.
    pub(crate) end: Offset,
    /// The time of day.
    pub(crate) now_ms: i64,
}
