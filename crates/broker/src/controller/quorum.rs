//! The controller's view of the quorum that holds the metadata log.
//!
//! Invariant: this node is its only member. It does not answer requests
//! (`handler/describe_quorum.rs`).

use wire::types::{LeaderEpoch, NodeId, Offset, Uuid};

/// The quorum as its only member sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quorum {
    /// The only member.
    pub(crate) node: NodeId,
    /// The log directory that the log names for this member; nil if it names none.
    pub(crate) directory: Uuid,
    /// The epoch in which it leads.
    pub(crate) epoch: LeaderEpoch,
    /// High watermark: all below it is committed.
    pub(crate) high_watermark: Offset,
    /// Log end offset.
    pub(crate) end: Offset,
    /// Wall-clock time.
    pub(crate) now_ms: i64,
}
