//! How the leader of a classic group divides partitions among its members.
//!
//! `range` and `roundrobin` are those of Kafka's clients, so members of other clients may lead or
//! follow. `cooperative-sticky` keeps what members have as far as the balance allows ([`sticky`]);
//! a partition that changes hands is left out once, so that its owner gives it up before another
//! gets it. Pure. Not here: the coordinator's assignors, racks.

mod sticky;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wire::types::TopicPartition;

use super::embedded::Subscription;

/// What each member gets.
pub(super) type Assignments = BTreeMap<String, BTreeSet<TopicPartition>>;
/// How many partitions each topic has; a topic that does not exist is not in it.
pub(crate) type TopicSizes = BTreeMap<Arc<str>, i32>;

/// A way to divide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Strategy {
    /// Each topic in ranges.
    Range,
    /// All partitions in turn.
    RoundRobin,
    /// As little as possible changes hands, and only what changes hands is given up.
    CooperativeSticky,
}

impl Strategy {
    /// Returns the strategy with this name, as `partition.assignment.strategy` has it: Kafka's
    /// short name, or the last part of the name of Java's class.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let short = name.rsplit('.').next().unwrap_or(name);
        Some(match short {
            "range" | "RangeAssignor" => Self::Range,
            "roundrobin" | "RoundRobinAssignor" => Self::RoundRobin,
            "cooperative-sticky" | "CooperativeStickyAssignor" => Self::CooperativeSticky,
            _ => return None,
        })
    }

    /// Returns the name that members agree on.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::RoundRobin => "roundrobin",
            Self::CooperativeSticky => "cooperative-sticky",
        }
    }

    /// Returns true if members keep their partitions while they join again.
    pub(super) const fn is_cooperative(self) -> bool {
        matches!(self, Self::CooperativeSticky)
    }

    /// Divides the partitions of the topics among their subscribers.
    pub(super) fn assign(self, members: &[GroupMember], sizes: &TopicSizes) -> Assignments {
        match self {
            Self::Range => range(members, sizes),
            Self::RoundRobin => round_robin(members, sizes),
            Self::CooperativeSticky => sticky::assign(members, sizes),
        }
    }
}

/// A member, as its leader knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct GroupMember {
    pub(super) id: String,
    pub(super) instance_id: Option<String>,
    pub(super) subscription: Subscription,
}

/// Returns members in the order that Kafka's clients give them: static ones by instance, then the
/// others by their ids.
fn in_order(members: &[GroupMember]) -> Vec<&GroupMember> {
    let mut members: Vec<_> = members.iter().collect();
    members.sort_by(|one, other| {
        let by_instance = match (&one.instance_id, &other.instance_id) {
            (Some(one), Some(other)) => one.cmp(other),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => std::cmp::Ordering::Equal,
        };
        by_instance.then_with(|| one.id.cmp(&other.id))
    });
    members
}

fn nothing(members: &[GroupMember]) -> Assignments {
    let members = members.iter();
    members
        .map(|member| (member.id.clone(), BTreeSet::new()))
        .collect()
}

fn give(to: &mut Assignments, member: &GroupMember, topic: &Arc<str>, partition: i32) {
    let place = TopicPartition {
        topic: Arc::clone(topic),
        partition,
    };
    to.entry(member.id.clone()).or_default().insert(place);
}

fn range(members: &[GroupMember], sizes: &TopicSizes) -> Assignments {
    let mut all = nothing(members);
    let members = in_order(members);
    for (topic, size) in sizes {
        let subscribers = members.iter();
        let subscribers: Vec<_> = subscribers
            .filter(|member| member.subscription.topics.contains(topic))
            .collect();
        let count = i32::try_from(subscribers.len()).unwrap_or(i32::MAX);
        let (Some(each), Some(more)) = (size.checked_div(count), size.checked_rem(count)) else {
            continue;
        };
        let mut next = 0_i32;
        for (index, member) in (0..).zip(subscribers) {
            let end = next
                .saturating_add(each)
                .saturating_add(i32::from(index < more));
            (next..end).for_each(|partition| give(&mut all, member, topic, partition));
            next = end;
        }
    }
    all
}

fn round_robin(members: &[GroupMember], sizes: &TopicSizes) -> Assignments {
    let mut all = nothing(members);
    let members = in_order(members);
    let mut turn = members.iter().cycle();
    for (topic, size) in sizes {
        for partition in 0..*size {
            let mut asked = turn.by_ref().take(members.len());
            let next = asked.find(|member| member.subscription.topics.contains(topic));
            if let Some(member) = next {
                give(&mut all, member, topic, partition);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests;
