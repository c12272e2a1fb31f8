//! Range: each topic is cut into as many runs of neighbouring partitions as it has subscribers.
//!
//! Static members come first, by their names, then the others by their ids; the first members get
//! the longer runs. So topics with the same subscribers and the same number of partitions are cut
//! alike, and what belongs together by key stays together.

use std::collections::BTreeMap;

use wire::protocol::StrBytes;
use wire::types::Uuid;

use super::{Partitions, Question};

pub(super) fn assign(question: &Question) -> BTreeMap<StrBytes, Partitions> {
    let mut order: Vec<_> = question.members.iter().collect();
    order.sort_by_key(|(id, member)| (member.instance_id.is_none(), &member.instance_id, *id));
    let mut runs: BTreeMap<Uuid, Runs> = BTreeMap::new();
    for topic in order.iter().flat_map(|(_, member)| &member.topics) {
        let count = question.topics.get(topic).copied().unwrap_or(0);
        let runs = runs.entry(*topic).or_insert(Runs {
            left: count.max(0),
            subscribers: 0,
            next: 0,
        });
        runs.subscribers += 1;
    }
    let answers = order.into_iter().map(|(id, member)| {
        let mut mine = Partitions::new();
        for topic in &member.topics {
            let run = runs.get_mut(topic).map(Runs::cut);
            if let Some(run) = run.filter(|run| !run.is_empty()) {
                mine.insert(*topic, run.collect());
            }
        }
        (id.clone(), mine)
    });
    answers.collect()
}

/// What is left of a topic.
struct Runs {
    left: i32,
    /// Subscribers that have not got theirs.
    subscribers: i32,
    next: i32,
}

impl Runs {
    /// The next subscriber's run: its share of what is left, rounded up.
    fn cut(&mut self) -> std::ops::Range<i32> {
        let subscribers = self.subscribers.max(1);
        let length = self.left / subscribers + i32::from(self.left % subscribers > 0);
        let run = self.next..self.next + length;
        self.next = run.end;
        self.left -= length;
        self.subscribers -= 1;
        run
    }
}
