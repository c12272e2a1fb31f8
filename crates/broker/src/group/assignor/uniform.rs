//! Uniform: balances partition counts with as few moves as possible.
//!
//! 1. Every member keeps each partition that it had and still subscribes to.
//! 2. Each unowned partition goes to the subscriber with the fewest partitions.
//! 3. While a member has at least two partitions more than another that may own one of them, the
//!    fullest such member gives one to the emptiest.
//!
//! Each gift makes the counts more equal, so step 3 ends; if all members subscribe to the same
//! topics, their counts differ by at most one. Topics in the same lists have the same subscribers
//! and form one class, within which partitions are interchangeable. If lists overlap in too many
//! ways for step 3, it stops early: the assignment is then valid but less balanced.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use wire::protocol::StrBytes;
use wire::types::Uuid;

use super::{ListIndex, Partitions, Question};

/// Budget of lookups for a receiver in one assignment: seconds of work.
const LOOKS_MAX: usize = 20_000_000;

/// The same budget for an assignment that the shard waits for: some milliseconds of work.
const LOOKS_AT_ONCE: usize = 200_000;

const _: () = assert!(
    LOOKS_AT_ONCE < LOOKS_MAX,
    "elsewhere more is looked at than a shard waits for"
);

pub(super) fn assign(question: &Question) -> BTreeMap<StrBytes, Partitions> {
    made(question, LOOKS_MAX).answer(question)
}

/// Computes the same assignment, or returns `None` if it needs more than `LOOKS_AT_ONCE` lookups.
pub(super) fn assign_at_once(question: &Question) -> Option<BTreeMap<StrBytes, Partitions>> {
    let plan = made(question, LOOKS_AT_ONCE);
    (plan.looks.get() > 0).then(|| plan.answer(question))
}

fn made(question: &Question, looks: usize) -> Plan {
    let mut plan = Plan::new(question, looks);
    plan.keep(question);
    plan.fill(question);
    plan.level();
    plan
}

/// A member's index in the order of member ids.
type Index = usize;

struct Plan {
    classes: Vec<Class>,
    // Bounded: lives during one assignment of a group of at most `groups::weight::GROUP_BYTES_MAX`.
    class_of: BTreeMap<Uuid, usize>,
    members: Vec<Holder>,
    /// For each list, its subscribers with their loads.
    lists: Vec<Loads>,
    /// Every member with its load.
    by_load: Loads,
    // Bounded: lives during one assignment of a group of at most `groups::weight::GROUP_BYTES_MAX`.
    taken: BTreeSet<(Uuid, i32)>,
    /// Lookups for a receiver that are left.
    looks: Cell<usize>,
}

/// Members with their loads.
// Bounded: lives during one assignment of a group of at most `groups::weight::GROUP_BYTES_MAX`.
type Loads = BTreeSet<(usize, Index)>;

/// Topics that are in the same lists.
struct Class {
    topics: Vec<Uuid>,
    lists: Vec<ListIndex>,
}

#[derive(Default)]
struct Holder {
    load: usize,
    /// The lists that it subscribes by.
    lists: Vec<ListIndex>,
    /// The partitions that it owns, by class.
    // Bounded: lives during one assignment of a group of at most `groups::weight::GROUP_BYTES_MAX`.
    holds: BTreeMap<usize, Vec<(Uuid, i32)>>,
}

impl Plan {
    fn new(question: &Question, looks: usize) -> Self {
        let mut lists = vec![Loads::new(); question.lists.len()];
        let mut members = Vec::with_capacity(question.members.len());
        for (index, member) in question.members.values().enumerate() {
            for list in &member.lists {
                if let Some(list) = lists.get_mut(*list) {
                    list.insert((0, index));
                }
            }
            members.push(Holder {
                lists: member.lists.clone(),
                ..Holder::default()
            });
        }
        // Classes with few subscribers go first: they have the least choice.
        let mut alike: Vec<_> = question.classes().into_iter().collect();
        alike.sort_by_cached_key(|(within, _)| {
            let sizes = within.iter().filter_map(|list| lists.get(*list));
            sizes.map(BTreeSet::len).fold(0, usize::saturating_add)
        });
        let mut class_of = BTreeMap::new();
        let mut classes = Vec::with_capacity(alike.len());
        for (number, (lists, topics)) in alike.into_iter().enumerate() {
            class_of.extend(topics.iter().map(|topic| (*topic, number)));
            classes.push(Class { topics, lists });
        }
        Self {
            classes,
            class_of,
            by_load: (0..members.len()).map(|index| (0, index)).collect(),
            members,
            lists,
            taken: BTreeSet::new(),
            looks: Cell::new(looks),
        }
    }

    fn keep(&mut self, question: &Question) {
        for (index, member) in question.members.values().enumerate() {
            for (topic, partitions) in &member.previous {
                let count = question.topics.get(topic).copied().unwrap_or(0);
                if !question.reads(member, topic) {
                    continue;
                }
                for partition in partitions.range(..count) {
                    if self.taken.insert((*topic, *partition)) {
                        self.give(index, (*topic, *partition));
                    }
                }
            }
        }
    }

    fn fill(&mut self, question: &Question) {
        for number in 0..self.classes.len() {
            let topics = self.classes.get(number).map(|class| class.topics.clone());
            for topic in topics.into_iter().flatten() {
                let count = question.topics.get(&topic).copied().unwrap_or(0);
                for partition in 0..count {
                    if self.taken.insert((topic, partition))
                        && let Some((_, emptiest)) = self.emptiest(number)
                    {
                        self.give(emptiest, (topic, partition));
                    }
                }
            }
        }
    }

    fn level(&mut self) {
        while let Some((from, class, to)) = self.next_gift() {
            let held = self
                .members
                .get_mut(from)
                .and_then(|member| member.holds.get_mut(&class)?.pop());
            let Some(partition) = held else { return };
            self.weigh(from, |load| load.saturating_sub(1));
            self.give(to, partition);
        }
    }

    /// Returns the giver, the class of the partition and the receiver of the next move.
    fn next_gift(&self) -> Option<(Index, usize, Index)> {
        self.by_load
            .iter()
            .rev()
            .take_while(|(load, _)| *load >= 2 && self.looks.get() > 0)
            .find_map(|(load, from)| {
                let holds = self.members.get(*from)?.holds.iter();
                let targets = holds
                    .filter(|(_, held)| !held.is_empty())
                    .filter_map(|(class, _)| Some((self.emptiest(*class)?, *class)));
                let ((least, to), class) = targets.min()?;
                (least + 2 <= *load).then_some((*from, class, to))
            })
    }

    fn emptiest(&self, class: usize) -> Option<(usize, Index)> {
        let lists = &self.classes.get(class)?.lists;
        self.looks.set(self.looks.get().saturating_sub(lists.len()));
        let lists = lists.iter().filter_map(|list| self.lists.get(*list));
        lists.filter_map(|loads| loads.first().copied()).min()
    }

    fn give(&mut self, to: Index, partition: (Uuid, i32)) {
        let Some(class) = self.class_of.get(&partition.0) else {
            return;
        };
        if let Some(member) = self.members.get_mut(to) {
            member.holds.entry(*class).or_default().push(partition);
        }
        self.weigh(to, |load| load + 1);
    }

    fn weigh(&mut self, index: Index, change: impl Fn(usize) -> usize) {
        let Some(member) = self.members.get_mut(index) else {
            return;
        };
        let before = (member.load, index);
        member.load = change(member.load);
        let after = (member.load, index);
        self.by_load.remove(&before);
        self.by_load.insert(after);
        for list in &member.lists {
            if let Some(loads) = self.lists.get_mut(*list) {
                loads.remove(&before);
                loads.insert(after);
            }
        }
    }

    fn answer(self, question: &Question) -> BTreeMap<StrBytes, Partitions> {
        let ids = question.members.keys().cloned();
        let answers = self.members.into_iter().map(|member| {
            let mut mine = Partitions::new();
            for (topic, partition) in member.holds.into_values().flatten() {
                mine.entry(topic).or_default().insert(partition);
            }
            mine
        });
        ids.zip(answers).collect()
    }
}
