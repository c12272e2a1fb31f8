//! Server-side assignors: who of a consumer group is to have which partition.
//!
//! An assignor sees the members with the topics that each subscribes to, what each was to have so
//! far, and how many partitions the topics have; it answers for every member. Invariants: every
//! partition of a topic that anybody subscribes to has exactly one owner, and the owner subscribes
//! to the topic; the same question gets the same answer. What members say alike is there once
//! ([`Question::lists`]), and no assignor looks at each topic of each member: a thousand members that read ten thousand
//! topics by one expression are one list. Not here: when and where an assignment is made, and how members get there
//! ([`super::consumer`]).

mod range;
mod uniform;

use std::collections::{BTreeMap, BTreeSet};

use wire::protocol::StrBytes;
use wire::types::Uuid;

/// Partitions by topic.
pub type Partitions = BTreeMap<Uuid, BTreeSet<i32>>;

/// What is answered at once: some milliseconds' worth, by [`Question::weight`].
const LITTLE_WEIGHT: usize = 20_000;

/// Place of a list in [`Question::lists`].
pub type ListIndex = usize;

/// One member, as an assignor sees it.
#[derive(Clone, Debug, Default)]
pub struct Subscriber {
    /// Name of a static member.
    pub instance_id: Option<StrBytes>,
    /// What it subscribes to: all that is in any of these lists.
    pub lists: Vec<ListIndex>,
    /// What it was to have before.
    pub previous: Partitions,
}

/// What there is to assign, and to whom.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// Members by id.
    // Bounded: lives while one assignment is made, of a group of at most `groups::weight::GROUP_BYTES_MAX`.
    pub members: BTreeMap<StrBytes, Subscriber>,
    /// Topics that exist and are subscribed to together: by the same names, or by the same expression.
    // Bounded: lives while one assignment is made, of a group of at most `groups::weight::GROUP_BYTES_MAX`.
    pub lists: Vec<BTreeSet<Uuid>>,
    /// How many partitions each topic has that anybody subscribes to.
    // Bounded: lives while one assignment is made, of a group of at most `groups::weight::GROUP_BYTES_MAX`.
    pub topics: BTreeMap<Uuid, i32>,
}

impl Question {
    /// True when the member subscribes to the topic.
    fn reads(&self, member: &Subscriber, topic: &Uuid) -> bool {
        let mut lists = member.lists.iter().filter_map(|list| self.lists.get(*list));
        lists.any(|list| list.contains(topic))
    }

    /// Topics that are in the same lists, by those.
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

    /// What it takes to answer, about: members, subscriptions and partitions.
    pub fn weight(&self) -> usize {
        let lists = self.lists.iter().map(BTreeSet::len);
        let partitions = self.topics.values();
        let partitions = partitions.map(|count| usize::try_from(*count).unwrap_or(0));
        let all = lists.chain(partitions);
        all.fold(self.members.len(), usize::saturating_add)
    }
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

    /// As [`Self::assign`], if that takes some milliseconds at most: a shard waits for it.
    pub fn assign_at_once(self, question: &Question) -> Option<BTreeMap<StrBytes, Partitions>> {
        if question.weight() > LITTLE_WEIGHT {
            return None;
        }
        match self {
            Self::Uniform => uniform::assign_at_once(question),
            Self::Range => Some(range::assign(question)),
        }
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
