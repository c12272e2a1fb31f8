//! Uniform: equal numbers of partitions, and as few moves as that takes.
//!
//! First every member keeps what it had and may still have. Then what nobody has goes to whoever
//! has least of those that may have it. Then, as long as a member has at least two partitions more
//! than another that may have one of them, the fullest such member gives one to the emptiest. Each
//! gift makes the numbers more equal, so this ends; when all members subscribe to the same topics,
//! nobody has more than one partition more than anybody else. Topics with the same subscribers are
//! one class: within it partitions are interchangeable.

use std::collections::{BTreeMap, BTreeSet};

use wire::protocol::StrBytes;
use wire::types::Uuid;

use super::{Partitions, Question};

pub(super) fn assign(question: &Question) -> BTreeMap<StrBytes, Partitions> {
    let mut plan = Plan::new(question);
    plan.keep(question);
    plan.fill(question);
    plan.level();
    plan.answer(question)
}

/// A member, by its place in the order of ids.
type Index = usize;

struct Plan {
    classes: Vec<Class>,
    // Bounded: lives while one assignment is made, of a group of at most `groups::weight::GROUP_BYTES_MAX`.
    class_of: BTreeMap<Uuid, usize>,
    members: Vec<Holder>,
    /// Every member with its load.
    // Bounded: as its classes, `groups::weight::GROUP_BYTES_MAX`.
    by_load: BTreeSet<(usize, Index)>,
    // Bounded: lives while one assignment is made, of a group of at most `groups::weight::GROUP_BYTES_MAX`.
    taken: BTreeSet<(Uuid, i32)>,
}

/// Topics with the same subscribers.
struct Class {
    topics: Vec<Uuid>,
    /// The subscribers with their loads.
    // Bounded: as its classes, `groups::weight::GROUP_BYTES_MAX`.
    by_load: BTreeSet<(usize, Index)>,
}

#[derive(Default)]
struct Holder {
    load: usize,
    /// The classes that it may have partitions of.
    classes: Vec<usize>,
    /// What it has, by class.
    // Bounded: lives while one assignment is made, of a group of at most `groups::weight::GROUP_BYTES_MAX`.
    holds: BTreeMap<usize, Vec<(Uuid, i32)>>,
}

impl Plan {
    fn new(question: &Question) -> Self {
        let mut subscribers: BTreeMap<Uuid, Vec<Index>> = BTreeMap::new();
        for (index, member) in question.members.values().enumerate() {
            for topic in &member.topics {
                subscribers.entry(*topic).or_default().push(index);
            }
        }
        let mut alike: BTreeMap<Vec<Index>, Vec<Uuid>> = BTreeMap::new();
        for (topic, subscribers) in subscribers {
            alike.entry(subscribers).or_default().push(topic);
        }
        // Those with few subscribers first: they have least choice.
        let mut alike: Vec<_> = alike.into_iter().collect();
        alike.sort_by_key(|(subscribers, _)| subscribers.len());
        let mut members: Vec<Holder> = Vec::new();
        members.resize_with(question.members.len(), Holder::default);
        let mut class_of = BTreeMap::new();
        let mut classes = Vec::with_capacity(alike.len());
        for (number, (subscribers, topics)) in alike.into_iter().enumerate() {
            class_of.extend(topics.iter().map(|topic| (*topic, number)));
            for index in &subscribers {
                if let Some(member) = members.get_mut(*index) {
                    member.classes.push(number);
                }
            }
            classes.push(Class {
                topics,
                by_load: subscribers.into_iter().map(|index| (0, index)).collect(),
            });
        }
        Self {
            classes,
            class_of,
            by_load: (0..members.len()).map(|index| (0, index)).collect(),
            members,
            taken: BTreeSet::new(),
        }
    }

    fn keep(&mut self, question: &Question) {
        for (index, member) in question.members.values().enumerate() {
            for (topic, partitions) in &member.previous {
                let count = question.topics.get(topic).copied().unwrap_or(0);
                if !member.topics.contains(topic) {
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

    /// Who gives a partition of which class to whom.
    fn next_gift(&self) -> Option<(Index, usize, Index)> {
        self.by_load
            .iter()
            .rev()
            .take_while(|(load, _)| *load >= 2)
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
        self.classes.get(class)?.by_load.first().copied()
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
        for class in &member.classes {
            if let Some(class) = self.classes.get_mut(*class) {
                class.by_load.remove(&before);
                class.by_load.insert(after);
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
