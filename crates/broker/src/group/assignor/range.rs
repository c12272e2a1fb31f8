//! Range: cuts each topic into as many runs of neighbouring partitions as it has subscribers.
//!
//! Static members come first, ordered by instance id, then the others, ordered by member id; the
//! first members get the longer runs. Topics with the same subscribers and the same partition count
//! are therefore cut alike, so partitions with the same keys stay with one member.

use std::collections::BTreeMap;

use wire::protocol::StrBytes;
use wire::types::Uuid;

use super::{ListIndex, Partitions, Question};

/// A member's index in the order in which topics are cut.
type Rank = usize;

pub(super) fn assign(question: &Question) -> BTreeMap<StrBytes, Partitions> {
    let mut order: Vec<_> = question.members.iter().collect();
    order.sort_by_key(|(id, member)| (member.instance_id.is_none(), &member.instance_id, *id));
    let mut subscribers: Vec<Vec<Rank>> = vec![Vec::new(); question.lists.len()];
    for (rank, (_, member)) in order.iter().enumerate() {
        for list in &member.lists {
            if let Some(ranks) = subscribers.get_mut(*list) {
                ranks.push(rank);
            }
        }
    }
    let mut given = vec![Partitions::new(); order.len()];
    for (lists, topics) in question.classes() {
        let ranks = of_any(&lists, &subscribers);
        for topic in topics {
            let count = question.topics.get(&topic).copied().unwrap_or(0);
            cut(topic, count, &ranks, &mut given);
        }
    }
    let ids = order.into_iter().map(|(id, _)| id.clone());
    ids.zip(given).collect()
}

/// Returns the members that subscribe by any of the lists, in order.
fn of_any(lists: &[ListIndex], subscribers: &[Vec<Rank>]) -> Vec<Rank> {
    let ranks = lists.iter().filter_map(|list| subscribers.get(*list));
    let mut ranks: Vec<Rank> = ranks.flatten().copied().collect();
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}

/// Gives each subscriber in turn its share of the remaining partitions, rounded up.
fn cut(topic: Uuid, count: i32, ranks: &[Rank], given: &mut [Partitions]) {
    let (mut next, mut left) = (0_i32, count.max(0));
    let mut subscribers = i32::try_from(ranks.len()).unwrap_or(i32::MAX);
    for rank in ranks {
        if left == 0 {
            return;
        }
        let sharing = subscribers.max(1);
        let length = left / sharing + i32::from(left % sharing > 0);
        let run = next..next.saturating_add(length);
        (next, left) = (run.end, left.saturating_sub(length));
        subscribers = subscribers.saturating_sub(1);
        if let Some(mine) = given.get_mut(*rank) {
            mine.insert(topic, run.collect());
        }
    }
}
