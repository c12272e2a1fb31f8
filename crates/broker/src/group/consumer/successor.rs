//! What both ways between the protocols need: who takes whose place, and assignments as classic members read them.
//!
//! Invariant: a partition whose topic is gone has no name, and is left out. It does not: decide.

use bytes::Bytes;
use wire::protocol::StrBytes;

use super::member::Member;
use crate::group::assignor::Partitions;
use crate::group::cluster::Cluster;
use crate::group::embedded::encode_assignment;

/// A member that takes the place of another while the group goes back.
pub struct Successor<'a> {
    /// The new member.
    pub id: &'a StrBytes,
    /// What it says of itself.
    pub member: &'a Member,
    /// The one whose place it takes.
    pub replaces: &'a StrBytes,
}

/// An assignment as members with the classic protocol read it.
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
