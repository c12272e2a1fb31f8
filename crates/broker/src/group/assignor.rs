//! Server-side assignors: who of a consumer group is to have which partition.
//!
//! An assignor sees the members with the topics that each subscribes to, what each was to have so
//! far, and how many partitions the topics have; it answers for every member. Invariants: every
//! partition of a topic that anybody subscribes to has exactly one owner, and the owner subscribes
//! to the topic; the same question gets the same answer. Not here: when an assignment is made, and
//! how members get there ([`super::consumer`]).

mod range;
mod uniform;

use std::collections::{BTreeMap, BTreeSet};

use wire::protocol::StrBytes;
use wire::types::Uuid;

/// Partitions by topic.
pub type Partitions = BTreeMap<Uuid, BTreeSet<i32>>;

/// One member, as an assignor sees it.
#[derive(Clone, Debug, Default)]
pub struct Subscriber {
    /// Name of a static member.
    pub instance_id: Option<StrBytes>,
    /// The topics that it subscribes to, of those that exist.
    // Bounded: lives while one assignment is made, of a group of at most `groups::weight::GROUP_BYTES_MAX`.
    pub topics: BTreeSet<Uuid>,
    /// What it was to have before.
    pub previous: Partitions,
}

/// What there is to assign, and to whom.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// Members by id.
    // Bounded: lives while one assignment is made, of a group of at most `groups::weight::GROUP_BYTES_MAX`.
    pub members: BTreeMap<StrBytes, Subscriber>,
    /// How many partitions each topic has that anybody subscribes to.
    // Bounded: lives while one assignment is made, of a group of at most `groups::weight::GROUP_BYTES_MAX`.
    pub topics: BTreeMap<Uuid, i32>,
}

/// A way to assign.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Assignor {
    /// Members have as equal numbers of partitions as subscriptions allow, and keep what they have.
    Uniform,
    /// Of each topic, members have neighbouring partitions, in the order of the members.
    Range,
}

impl Assignor {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Uniform, Self::Range];

    /// The name that clients and settings use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Range => "range",
        }
    }

    /// The assignor of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Assigns. Every member is in the answer, if only with nothing.
    pub fn assign(self, question: &Question) -> BTreeMap<StrBytes, Partitions> {
        match self {
            Self::Uniform => uniform::assign(question),
            Self::Range => range::assign(question),
        }
    }
}

#[cfg(test)]
mod tests;
