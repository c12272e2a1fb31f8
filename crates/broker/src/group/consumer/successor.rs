//! Parts of both protocol conversions: a member that replaces another, and the encoding of
//! assignments for classic members.
//!
//! Invariant: a partition of a deleted topic has no name and is left out. Not here: the decision to
//! convert (`convert.rs`).

use bytes::Bytes;
use wire::protocol::StrBytes;

use super::member::Member;
use crate::group::assignor::Partitions;
use crate::group::cluster::Cluster;
use crate::group::embedded::encode_assignment;

/// A member that replaces another while the group is downgraded.
pub struct Successor<'a> {
    /// The new member.
    pub id: &'a StrBytes,
    /// The new member's data.
    pub member: &'a Member,
    /// The member that it replaces.
    pub replaces: &'a StrBytes,
}

/// Encodes an assignment for members with the classic protocol.
pub(super) fn assigned_bytes(
    version: i16,
    partitions: &Partitions,
    cluster: &dyn Cluster,
) -> Bytes {
    let named = partitions.iter().filter_map(|(topic, partitions)| {
        let name = cluster.name_of(*topic)?;
        Some((name.to_string(), partitions.iter().copied().collect()))
    });
    encode_assignment(version, &named.collect())
}
