//! The members of a group and the topics, as the leader sees them that divides.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wire::types::TopicPartition;

use crate::group::embedded::Subscription;

/// What each member gets.
pub(crate) type Assignments = BTreeMap<String, BTreeSet<TopicPartition>>;
/// How many partitions each topic has; a topic that does not exist is not in it.
pub(crate) type TopicSizes = BTreeMap<Arc<str>, i32>;

/// A member, as its leader knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct GroupMember {
    pub(crate) id: String,
    pub(crate) instance_id: Option<String>,
    pub(crate) subscription: Subscription,
}

/// Returns members in the order that Kafka's clients give them: static ones by instance, then the
/// others by their ids.
pub(super) fn in_order(members: &[GroupMember]) -> Vec<&GroupMember> {
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

/// Returns members with nothing.
pub(super) fn nothing(members: &[GroupMember]) -> Assignments {
    let members = members.iter();
    members
        .map(|member| (member.id.clone(), BTreeSet::new()))
        .collect()
}
