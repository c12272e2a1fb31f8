//! Server-side assignors: decide which member of a consumer group gets which partition.
//!
//! An assignor takes the members with their subscriptions and previous targets, and the partition
//! counts of the topics; it returns an assignment for every member. Invariants: every partition of
//! a subscribed topic has exactly one owner, and the owner subscribes to the topic; the same
//! question gets the same answer. Equal subscriptions are stored once ([`Question::lists`]), and no
//! assignor looks at each topic of each member: a thousand members that read ten thousand topics by
//! one expression are one list. Not here: when and where an assignment is computed, and how members
//! reach it ([`super::consumer`]).

mod range;
mod uniform;

use std::collections::{BTreeMap, BTreeSet};

use wire::protocol::StrBytes;
use wire::types::Uuid;

/// Partitions by topic.
pub type Partitions = BTreeMap<Uuid, BTreeSet<i32>>;

/// The largest [`Question::weight`] that is answered on the shard itself: some milliseconds of
/// work.
const LITTLE_WEIGHT: usize = 20_000;

/// Index of a list in [`Question::lists`].
pub type ListIndex = usize;

/// One member, as an assignor sees it.
#[derive(Clone, Debug, Default)]
pub struct Subscriber {
    /// The `group.instance.id` of a static member.
    pub instance_id: Option<StrBytes>,
    /// The member subscribes to every topic in any of these lists.
    pub lists: Vec<ListIndex>,
    /// The member's previous target assignment.
    pub previous: Partitions,
}

/// The input of an assignor: the partitions to assign, and the members.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// Members by id.
    // Bounded: lives during one assignment of a group of at most `groups::weight::GROUP_BYTES_MAX`.
    pub members: BTreeMap<StrBytes, Subscriber>,
    /// Sets of existing topics with one subscription: the same names, or the same expression.
    // Bounded: lives during one assignment of a group of at most `groups::weight::GROUP_BYTES_MAX`.
    pub lists: Vec<BTreeSet<Uuid>>,
    /// The partition count of each topic that any member subscribes to.
    // Bounded: lives during one assignment of a group of at most `groups::weight::GROUP_BYTES_MAX`.
    pub topics: BTreeMap<Uuid, i32>,
}

impl Question {
    /// Returns true when the member subscribes to the topic.
    fn reads(&self, member: &Subscriber, topic: &Uuid) -> bool {
        let mut lists = member.lists.iter().filter_map(|list| self.lists.get(*list));
        lists.any(|list| list.contains(topic))
    }

    /// Returns the topics grouped by the lists that contain them.
    fn classes(&self) -> BTreeMap<Vec<ListIndex>, Vec<Uuid>> {
        let mut within: BTreeMap<Uuid, Vec<ListIndex>> = BTreeMap::new();
        for (index, list) in self.lists.iter().enumerate() {
            for topic in list {
                within.entry(*topic).or_default().push(index);
            }
        }
        let mut alike: BTreeMap<Vec<ListIndex>, Vec<Uuid>> = BTreeMap::new();
        for (topic, lists) in within {
            alike.entry(lists).or_default().push(topic);
        }
        alike
    }

    /// Returns the approximate work to answer: the number of members, subscriptions and partitions.
    pub fn weight(&self) -> usize {
        let lists = self.lists.iter().map(BTreeSet::len);
        let partitions = self.topics.values();
        let partitions = partitions.map(|count| usize::try_from(*count).unwrap_or(0));
        let all = lists.chain(partitions);
        all.fold(self.members.len(), usize::saturating_add)
    }
}

/// An assignment strategy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Assignor {
    /// Balances partition counts as far as subscriptions allow; members keep what they have.
    Uniform,
    /// Gives each member a run of neighbouring partitions of each topic, in the order of the
    /// members.
    Range,
}

impl Assignor {
    /// All assignors.
    pub const ALL: [Self; 2] = [Self::Uniform, Self::Range];

    /// Returns the name that clients and settings use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Range => "range",
        }
    }

    /// Returns the assignor with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Assigns as [`Self::assign`] does, or returns `None` if that takes more than some
    /// milliseconds.
    ///
    /// The shard waits for the result.
    pub fn assign_at_once(self, question: &Question) -> Option<BTreeMap<StrBytes, Partitions>> {
        if question.weight() > LITTLE_WEIGHT {
            return None;
        }
        match self {
            Self::Uniform => uniform::assign_at_once(question),
            Self::Range => Some(range::assign(question)),
        }
    }

    /// Computes the assignment; every member is in it, possibly without partitions.
    pub fn assign(self, question: &Question) -> BTreeMap<StrBytes, Partitions> {
        match self {
            Self::Uniform => uniform::assign(question),
            Self::Range => range::assign(question),
        }
    }
}

#[cfg(test)]
mod tests;
