//! Random histories of a group: clients that join, sync, fall silent, rejoin, leave, repeat
//! requests; appends that fail.
//!
//! Checked: the generation never decreases; within one generation all members have assignments from
//! the same sync of the leader; no request is answered twice (in [`Bench::take`]), and every
//! request is answered once the appends are done and every timeout has passed. Not checked here:
//! the records in the log (see the tests of `groups`).

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use wire::types::ErrorCode;

use super::tests::{Bench, again, old_client, text};
use super::{ClassicGroupState, Join, Reply};

const CLIENTS: u8 = 5;
/// Rebalance timeouts that the broker does not validate.
const TIMES: [i32; 5] = [i32::MIN, -1, 0, 1, i32::MAX];

#[derive(Clone, Debug)]
enum Step {
    /// Joins with what the client knows of itself; `changed` offers other protocols than before.
    Join {
        client: u8,
        changed: bool,
        rebalance_ms: i32,
    },
    Sync {
        client: u8,
    },
    Beat {
        client: u8,
    },
    Leave {
        client: u8,
    },
    /// The client forgets its member id (a restart).
    Forget {
        client: u8,
    },
    Pass {
        ms: u64,
    },
    /// The oldest append ends.
    Settle {
        fails: bool,
    },
}

fn step(rebalance_ms: impl Strategy<Value = i32>) -> impl Strategy<Value = Step> {
    let client = 0..CLIENTS;
    prop_oneof![
        4 => (client.clone(), prop::bool::weighted(0.1), rebalance_ms)
            .prop_map(|(client, changed, rebalance_ms)| Step::Join { client, changed, rebalance_ms }),
        4 => client.clone().prop_map(|client| Step::Sync { client }),
        2 => client.clone().prop_map(|client| Step::Beat { client }),
        1 => client.clone().prop_map(|client| Step::Leave { client }),
        1 => client.prop_map(|client| Step::Forget { client }),
        3 => prop_oneof![Just(1), Just(3_000), Just(9_000), Just(61_000)]
            .prop_map(|ms| Step::Pass { ms }),
        4 => prop::bool::weighted(0.2).prop_map(|fails| Step::Settle { fails }),
    ]
}

#[derive(Default)]
struct Client {
    id: String,
    generation: i32,
    leads: Option<Vec<String>>,
}

struct World {
    bench: Bench,
    clients: Vec<Client>,
    /// The client of each token.
    asked: BTreeMap<u64, (u8, bool)>,
    seen: BTreeSet<u64>,
    /// The mark of the sync that made the assignments of a generation.
    marks: BTreeMap<i32, String>,
    next: u32,
}

impl World {
    fn new() -> Self {
        let mut bench = Bench::new(3_000, 4);
        bench.held = Some(Vec::new());
        Self {
            bench,
            clients: (0..CLIENTS).map(|_| Client::default()).collect(),
            asked: BTreeMap::new(),
            seen: BTreeSet::new(),
            marks: BTreeMap::new(),
            next: 0,
        }
    }

    fn run(&mut self, step: &Step) {
        let before = self.bench.group.generation();
        match step {
            Step::Join {
                client,
                changed,
                rebalance_ms,
            } => self.join(*client, *changed, *rebalance_ms),
            Step::Sync { client } => self.sync(*client),
            Step::Beat { client } => {
                let known = &self.clients[usize::from(*client)];
                let now = self.bench.now;
                let beat =
                    self.bench
                        .group
                        .heartbeat(&text(&known.id), None, known.generation, now);
                assert!(beat.is_err() || known.generation == before);
            }
            Step::Leave { client } => {
                let id = self.clients[usize::from(*client)].id.clone();
                if !id.is_empty() {
                    self.bench.leave(&id, None);
                }
            }
            Step::Forget { client } => self.clients[usize::from(*client)] = Client::default(),
            Step::Pass { ms } => self.bench.pass(*ms),
            Step::Settle { fails } => self.settle(*fails),
        }
        assert!(self.bench.group.generation() >= before);
        self.hear();
    }

    fn join(&mut self, client: u8, changed: bool, rebalance_ms: i32) {
        self.next += 1;
        let known = &self.clients[usize::from(client)];
        // Clients 0 and 3 are static members, clients 1 and 2 are old.
        let mut join = if known.id.is_empty() {
            old_client(&format!("{client}-{}", self.next))
        } else {
            again(&known.id)
        };
        join = Join {
            instance_id: (client.is_multiple_of(3)).then(|| text(&format!("fixed-{client}"))),
            rebalance_timeout_ms: rebalance_ms,
            id_required: client > 2,
            can_skip_assignment: self.next.is_multiple_of(2),
            ..join
        };
        if changed {
            join.protocols
                .push((text(&format!("p{}", self.next)), bytes::Bytes::new()));
            join.protocols[0].1 = bytes::Bytes::copy_from_slice(&self.next.to_be_bytes());
        }
        let token = self.bench.join(join);
        self.asked.insert(token, (client, true));
    }

    fn sync(&mut self, client: u8) {
        self.next += 1;
        let known = &self.clients[usize::from(client)];
        let mark = format!("{}/{}", known.generation, self.next);
        let assigned: Vec<(&str, &str)> = known
            .leads
            .iter()
            .flatten()
            .map(|id| (id.as_str(), mark.as_str()))
            .collect();
        let (id, generation) = (known.id.clone(), known.generation);
        let token = self.bench.sync(&id, generation, &assigned);
        self.asked.insert(token, (client, false));
    }

    fn settle(&mut self, fails: bool) {
        let held = self.bench.held.get_or_insert_default();
        if held.is_empty() {
            return;
        }
        let store = held.remove(0);
        let outcome = if fails {
            Err(ErrorCode::NotCoordinator)
        } else {
            Ok(())
        };
        self.bench.stored(store, outcome);
    }

    /// Delivers the answers to the clients.
    fn hear(&mut self) {
        let fresh: Vec<u64> = self.bench.replies.keys().copied().collect();
        for token in fresh.into_iter().filter(|token| self.seen.insert(*token)) {
            let (client, _) = self.asked[&token];
            match self.bench.replies[&token].clone() {
                Reply::Join(answer) => {
                    let client = &mut self.clients[usize::from(client)];
                    if answer.error_code == 0 {
                        client.generation = answer.generation_id;
                        let leads = answer.leader == answer.member_id;
                        let ids = answer.members.iter().map(|one| one.member_id.to_string());
                        client.leads = leads.then(|| ids.collect());
                    }
                    if !answer.member_id.is_empty() {
                        client.id = answer.member_id.to_string();
                    }
                }
                Reply::Sync(answer) if answer.error_code == 0 && !answer.assignment.is_empty() => {
                    let mark = String::from_utf8(answer.assignment.to_vec()).unwrap();
                    let generation = mark.split('/').next().unwrap().parse().unwrap();
                    let first = self.marks.entry(generation).or_insert_with(|| mark.clone());
                    assert_eq!(*first, mark, "two assignments in generation {generation}");
                }
                Reply::Sync(_) => {}
            }
        }
    }

    fn check(&self) {
        self.bench.check_offers();
        let group = &self.bench.group;
        assert!(
            group
                .leader
                .as_ref()
                .is_none_or(|id| group.members.contains_key(id))
        );
        assert_eq!(
            group.leader.is_none(),
            group.members.is_empty(),
            "led if not empty"
        );
        assert!(
            group
                .statics
                .values()
                .all(|id| group.members.contains_key(id))
        );
        assert!(
            group
                .pending_syncs
                .iter()
                .all(|id| group.members.contains_key(id))
        );
        assert!(
            group
                .pending_joins
                .keys()
                .all(|id| !group.members.contains_key(id))
        );
        let waits = |wait: fn(&super::Member) -> bool| group.members.values().any(wait);
        if group.state() != ClassicGroupState::CompletingRebalance {
            assert!(
                !waits(|member| member.awaiting_sync.is_some()),
                "a sync waits for nothing"
            );
        }
        if group.state() == ClassicGroupState::Empty {
            assert!(group.members.is_empty());
        }
    }

    /// Ends all appends and lets all timeouts pass.
    fn rest(&mut self) {
        for _ in 0..50 {
            while self
                .bench
                .held
                .as_ref()
                .is_some_and(|held| !held.is_empty())
            {
                self.settle(false);
            }
            self.bench.pass(61_000);
            self.hear();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn groups_keep_their_promises(steps in prop::collection::vec(step(Just(60_000)), 1..120)) {
        let mut world = World::new();
        for step in &steps {
            world.run(step);
            world.check();
        }
        world.rest();
        prop_assert_eq!(world.bench.group.state(), ClassicGroupState::Empty);
        for token in world.asked.keys() {
            prop_assert!(world.bench.replies.contains_key(token), "{} was never answered", token);
        }
    }

    /// The check is in [`Bench::pass`]: work that was done at a time is not due again at that time.
    #[test]
    fn whatever_times_members_name_time_goes_on(
        steps in prop::collection::vec(step(prop::sample::select(&TIMES[..])), 1..120),
    ) {
        let mut world = World::new();
        for step in &steps {
            world.run(step);
            world.check();
        }
    }
}
