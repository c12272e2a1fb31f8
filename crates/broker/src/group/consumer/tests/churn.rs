//! Members that join, leave, die, change subscriptions and lose answers, in any order: members that
//! follow the protocol never read the same partition, and in the end all partitions are assigned.

use proptest::prelude::*;

use super::*;

/// A member as its client sees it; it reads its last assignment until it has given it up.
#[derive(Clone, Debug, Default)]
struct Reader {
    epoch: i32,
    reads: Partitions,
    topics: Vec<&'static str>,
}

#[derive(Clone, Debug)]
enum Event {
    /// Joins or sends a heartbeat.
    Beat(usize),
    /// Sends a heartbeat whose answer is lost.
    Deaf(usize),
    /// Changes its subscription.
    Change(usize, usize),
    Leave(usize),
    /// Stops, and times out.
    Die(usize),
    /// A topic gets more partitions.
    Grow(usize),
    /// The wall clock jumps.
    Jump(i64),
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const TOPICS: [&str; 3] = ["t", "u", "v"];
const CHOICES: [&[&str]; 4] = [&["t"], &["t", "u"], &["u", "v"], &["t", "u", "v"]];

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (0..4usize).prop_map(Event::Beat),
        2 => (0..4usize).prop_map(Event::Deaf),
        1 => (0..4usize, 0..4usize).prop_map(|(who, what)| Event::Change(who, what)),
        1 => (0..4usize).prop_map(Event::Leave),
        1 => (0..4usize).prop_map(Event::Die),
        1 => (0..3usize).prop_map(Event::Grow),
        1 => (-20_000..20_000i64).prop_map(Event::Jump),
    ]
}

struct World {
    bench: Bench,
    readers: BTreeMap<&'static str, Reader>,
}

impl World {
    fn beat(&mut self, name: &'static str, heard: bool) {
        let reader = self.readers.entry(name).or_default();
        if reader.topics.is_empty() {
            reader.topics = vec!["t", "u"];
        }
        let request = if reader.epoch == JOIN {
            joining(name, &reader.topics)
        } else {
            Heartbeat {
                topics: Some(reader.topics.iter().map(|topic| text(topic)).collect()),
                rebalance_timeout_ms: Some(10_000),
                ..owning(name, reader.epoch, &reader.reads)
            }
        };
        let answer = self.bench.beat(&request);
        if !heard {
            return;
        }
        let Ok(answer) = answer else {
            // It was fenced or removed: it drops all partitions and joins again.
            reader.epoch = JOIN;
            reader.reads.clear();
            return;
        };
        reader.epoch = answer.epoch;
        if let Some(told) = answer.assignment {
            reader.reads = told;
        }
    }

    fn apply(&mut self, event: &Event) {
        match *event {
            Event::Beat(who) => self.beat(NAMES[who], true),
            Event::Deaf(who) => {
                // A member whose join was not answered reads nothing yet.
                self.beat(NAMES[who], false);
            }
            Event::Change(who, what) => {
                let reader = self.readers.entry(NAMES[who]).or_default();
                reader.topics = CHOICES[what].to_vec();
            }
            Event::Leave(who) | Event::Die(who) => {
                self.readers.remove(NAMES[who]);
                if self.bench.group.member(&text(NAMES[who])).is_some() {
                    self.bench.fence(&[NAMES[who]]);
                }
            }
            Event::Grow(which) => {
                let count = self.bench.cluster.topics.entry(TOPICS[which].into());
                let count = count.or_default();
                *count = (*count + 1).min(6);
                self.bench.cluster.version += 1;
            }
            Event::Jump(by) => self.bench.now.wall_ms += by,
        }
    }

    fn readers_of_one_partition(&self) -> Vec<(&'static str, &'static str)> {
        let mut both = Vec::new();
        for (name, reader) in &self.readers {
            for (other, second) in self.readers.range(*name..).skip(1) {
                let shared = reader.reads.iter().any(|(topic, mine)| {
                    second
                        .reads
                        .get(topic)
                        .is_some_and(|theirs| !mine.is_disjoint(theirs))
                });
                if shared {
                    both.push((*name, *other));
                }
            }
        }
        both
    }
}

proptest! {
    #[test]
    fn nobody_reads_what_another_reads(
        events in proptest::collection::vec(event(), 1..120), interval in prop_oneof![Just(0), Just(1_000)],
    ) {
        let mut bench = Bench::new(&[("t", 3), ("u", 2), ("v", 1)]);
        bench.options.assignment_interval_ms.value = interval;
        let mut world = World { bench, readers: BTreeMap::new() };
        for event in &events {
            world.apply(event);
            prop_assert_eq!(world.readers_of_one_partition(), vec![], "after {:?}", event);
            let held: usize = world.bench.group.members()
                .map(|(id, _)| world.bench.group.progress(id).held().count())
                .sum();
            prop_assert_eq!(held, world.bench.group.index.holders.len(), "one holder each");
        }
        // Without further events every member reaches its target, and all partitions are assigned.
        for _ in 0..12 {
            world.bench.now.wall_ms += 100_000;
            for name in world.readers.keys().copied().collect::<Vec<_>>() {
                world.beat(name, true);
            }
        }
        if world.readers.is_empty() {
            return Ok(());
        }
        prop_assert_eq!(world.readers_of_one_partition(), vec![]);
        prop_assert_eq!(world.bench.group.state(), ConsumerGroupState::Stable);
        let read: BTreeSet<&str> = world.readers.values().flat_map(|one| one.topics.clone()).collect();
        let wanted: i32 = read.iter().map(|topic| world.bench.cluster.topics[*topic]).sum();
        let has: usize = world.readers.values()
            .flat_map(|one| one.reads.values().map(BTreeSet::len))
            .sum();
        prop_assert_eq!(has, usize::try_from(wanted).unwrap());
    }
}
