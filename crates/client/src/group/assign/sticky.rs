//! Divides partitions so that members keep what they have, as far as the balance allows.
//!
//! First each member keeps what it owned. Of two members that claim a partition the one with the
//! newer generation keeps it, and neither of them if both are as new. Then what is left goes to the
//! subscriber that has fewest. Then partitions move from a member that has more to a subscriber
//! that has at least two fewer, until no move makes it more even. Last, what another member still
//! owns is left out: that member gives it up in this round, and the next round assigns it.
//!
//! Invariant: each move makes the sum of squares of the numbers smaller, so it ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wire::types::TopicPartition;

use super::{Assignments, GroupMember, TopicSizes, in_order, nothing};

/// The members, their numbers of partitions, and who has what.
struct Division<'a> {
    members: Vec<&'a GroupMember>,
    /// Indexes of members, by topic.
    subscribers: BTreeMap<Arc<str>, Vec<usize>>,
    counts: Vec<usize>,
    holders: BTreeMap<TopicPartition, usize>,
}

pub(super) fn assign(members: &[GroupMember], sizes: &TopicSizes) -> Assignments {
    let mut division = Division::new(in_order(members), sizes);
    let owners = owners(&division, sizes);
    for (place, owner) in &owners {
        if let Some(member) = owner {
            division.give(place, *member);
        }
    }
    division.give_the_rest(sizes);
    division.even_out();
    let mut all = nothing(members);
    for (place, member) in &division.holders {
        let owner = owners.get(place);
        let is_owned_elsewhere = owner.is_some_and(|owner| *owner != Some(*member));
        if let Some(member) = division.members.get(*member)
            && !is_owned_elsewhere
        {
            all.entry(member.id.clone())
                .or_default()
                .insert(place.clone());
        }
    }
    all
}

/// Returns who may keep what: the claims that are the newest, and only of subscribers; `None` where
/// two claims are as new.
fn owners(division: &Division<'_>, sizes: &TopicSizes) -> BTreeMap<TopicPartition, Option<usize>> {
    let mut claims: BTreeMap<&TopicPartition, (i32, Option<usize>)> = BTreeMap::new();
    for (index, member) in division.members.iter().enumerate() {
        let subscription = &member.subscription;
        for place in &subscription.owned {
            let size = sizes.get(&place.topic).copied().unwrap_or(0);
            let is_there = (0..size).contains(&place.partition);
            if !is_there || !subscription.topics.contains(&place.topic) {
                continue;
            }
            let generation = subscription.generation;
            let claim = claims.entry(place).or_insert((generation, Some(index)));
            if claim.1 != Some(index) {
                if generation > claim.0 {
                    *claim = (generation, Some(index));
                } else if generation == claim.0 {
                    claim.1 = None;
                }
            }
        }
    }
    let kept = claims.into_iter();
    kept.map(|(place, (_, member))| (place.clone(), member))
        .collect()
}

impl<'a> Division<'a> {
    fn new(members: Vec<&'a GroupMember>, sizes: &TopicSizes) -> Self {
        let subscribers = sizes.keys().map(|topic| {
            let all = members.iter().enumerate();
            let some = all.filter(|(_, member)| member.subscription.topics.contains(topic));
            (Arc::clone(topic), some.map(|(index, _)| index).collect())
        });
        Self {
            subscribers: subscribers.collect(),
            counts: vec![0; members.len()],
            members,
            holders: BTreeMap::new(),
        }
    }

    fn count(&self, member: usize) -> usize {
        self.counts.get(member).copied().unwrap_or(0)
    }

    fn give(&mut self, place: &TopicPartition, member: usize) {
        if let Some(before) = self.holders.insert(place.clone(), member)
            && let Some(count) = self.counts.get_mut(before)
        {
            *count = count.saturating_sub(1);
        }
        if let Some(count) = self.counts.get_mut(member) {
            *count = count.saturating_add(1);
        }
    }

    /// Returns the subscriber of a topic that has fewest.
    fn poorest(&self, topic: &Arc<str>) -> Option<usize> {
        let subscribers = self.subscribers.get(topic)?.iter();
        subscribers
            .copied()
            .min_by_key(|member| self.count(*member))
    }

    /// Assigns the partitions that no member has; topics with the fewest subscribers first, whose
    /// partitions have the least choice.
    fn give_the_rest(&mut self, sizes: &TopicSizes) {
        let mut topics: Vec<_> = sizes.iter().collect();
        topics.sort_by_key(|(topic, _)| self.subscribers.get(*topic).map_or(0, Vec::len));
        for (topic, size) in topics {
            for partition in 0..*size {
                let place = TopicPartition {
                    topic: Arc::clone(topic),
                    partition,
                };
                if self.holders.contains_key(&place) {
                    continue;
                }
                if let Some(member) = self.poorest(topic) {
                    self.give(&place, member);
                }
            }
        }
    }

    fn even_out(&mut self) {
        let places: BTreeSet<_> = self.holders.keys().cloned().collect();
        let mut moved = true;
        while moved {
            moved = false;
            for place in &places {
                let Some(holder) = self.holders.get(place).copied() else {
                    continue;
                };
                let Some(poorest) = self.poorest(&place.topic) else {
                    continue;
                };
                if self.count(holder) > self.count(poorest).saturating_add(1) {
                    self.give(place, poorest);
                    moved = true;
                }
            }
        }
    }
}
