//! Behaviour of one group as its clients see it.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use platform::Clock;
use wire::messages::{JoinGroupResponse, SyncGroupResponse};
use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::{
    ClassicGroup, ClassicGroupState, Effects, Join, Leaver, Limits, Reply, Store, Sync, Token,
};
use crate::group::ClockReading;

mod static_members;

/// One group, its clock, and the answers so far. Appends succeed at once unless held.
pub(super) struct Bench {
    pub(super) group: ClassicGroup,
    pub(super) now: ClockReading,
    pub(super) replies: BTreeMap<u64, Reply>,
    pub(super) held: Option<Vec<Store>>,
    tokens: u64,
}

pub(super) fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

impl Bench {
    pub(super) fn new(delay_ms: u64, members_max: usize) -> Self {
        let initial_rebalance_delay = Duration::from_millis(delay_ms);
        Self {
            group: ClassicGroup::new(Limits {
                initial_rebalance_delay,
                members_max,
            }),
            now: ClockReading {
                at: Clock::system().now(),
                wall_ms: 1_000,
                step_ms: 0,
            },
            replies: BTreeMap::new(),
            held: None,
            tokens: 0,
        }
    }

    pub(super) fn take(&mut self, effects: Effects) {
        for (token, reply) in effects.replies {
            assert!(
                self.replies.insert(token.0, reply).is_none(),
                "answered twice: {token:?}"
            );
        }
        for store in effects.stores {
            match &mut self.held {
                Some(held) => held.push(store),
                None => self.stored(store, Ok(())),
            }
        }
    }

    pub(super) fn stored(&mut self, store: Store, outcome: Result<(), ErrorCode>) {
        let effects = self.group.stored(store.then, outcome, self.now);
        self.take(effects);
    }

    fn token(&mut self) -> Token {
        self.tokens += 1;
        Token(self.tokens)
    }

    pub(super) fn join(&mut self, join: Join) -> u64 {
        let token = self.token();
        let effects = self.group.join(join, false, token, self.now);
        self.take(effects);
        token.0
    }

    pub(super) fn sync(&mut self, id: &str, generation: i32, assignments: &[(&str, &str)]) -> u64 {
        let token = self.token();
        let assignments = assignments
            .iter()
            .map(|(id, what)| (text(id), Bytes::copy_from_slice(what.as_bytes())));
        let sync = Sync {
            member_id: text(id),
            instance_id: None,
            generation,
            protocol_type: None,
            protocol: None,
            assignments: assignments.collect(),
        };
        let effects = self.group.sync(sync, token, self.now);
        self.take(effects);
        token.0
    }

    /// Lets time pass, deadline by deadline.
    pub(super) fn pass(&mut self, ms: u64) {
        let end = self.now.at + Duration::from_millis(ms);
        while let Some(at) = self.group.next_deadline().filter(|at| *at <= end) {
            self.now.at = at.max(self.now.at);
            let effects = self.group.expire(self.now);
            self.take(effects);
            self.check_that_time_goes_on();
        }
        self.now.at = end;
        self.now.wall_ms += i64::try_from(ms).unwrap();
    }

    /// Checks that the count of offered protocols matches the members.
    pub(super) fn check_offers(&self) {
        let mut counted: BTreeMap<StrBytes, usize> = BTreeMap::new();
        for member in self.group.members.values() {
            for name in member.offers() {
                *counted.entry(name.clone()).or_default() += 1;
            }
        }
        assert_eq!(self.group.offered, counted);
        let bytes = self.group.members.iter().map(|(id, one)| {
            let instance = one.instance_id.as_ref().map_or(0, |text| text.len());
            let texts = id.len() + one.client_id.len() + one.client_host.len() + instance;
            super::member::BYTES + texts + super::member::bytes_of(&one.protocols)
        });
        assert_eq!(self.group.bytes, bytes.sum::<usize>());
        let pending = self.group.pending_joins.keys();
        let pending = pending.map(|id| super::PENDING_BYTES + id.len());
        assert_eq!(self.group.pending_bytes, pending.sum::<usize>());
        let assigned = self.group.members.values().map(|one| one.assignment.len());
        assert!(self.group.assigned_bytes >= assigned.sum::<usize>());
    }

    /// Checks that handled work is not due again at the same time, which would loop forever.
    fn check_that_time_goes_on(&self) {
        let next = self.group.next_deadline();
        assert!(
            next.is_none_or(|next| next > self.now.at),
            "due again at the time that was dealt with"
        );
    }

    pub(super) fn leave(&mut self, id: &str, instance: Option<&str>) -> Option<ErrorCode> {
        let leaver = Leaver {
            member_id: text(id),
            instance_id: instance.map(text),
        };
        let (departed, effects) = self.group.leave(&[leaver], self.now);
        self.take(effects);
        departed[0].error
    }

    pub(super) fn joined(&self, token: u64) -> &JoinGroupResponse {
        match self.replies.get(&token) {
            Some(Reply::Join(response)) => response,
            other => panic!("no join answer for {token}: {other:?}"),
        }
    }

    pub(super) fn synced(&self, token: u64) -> &SyncGroupResponse {
        match self.replies.get(&token) {
            Some(Reply::Sync(response)) => response,
            other => panic!("no sync answer for {token}: {other:?}"),
        }
    }

    fn beat(&mut self, id: &str, generation: i32) -> Result<(), ErrorCode> {
        self.group.heartbeat(&text(id), None, generation, self.now)
    }

    /// Makes `ids` a stable group, which the first of them leads.
    fn stable(ids: &[&str]) -> Self {
        let mut bench = Self::new(0, 100);
        let joins: Vec<u64> = ids.iter().map(|id| bench.join(old_client(id))).collect();
        bench.pass(0);
        for token in joins {
            assert_eq!(bench.joined(token).error_code, 0);
        }
        let generation = bench.group.generation();
        let assignments: Vec<(&str, &str)> = ids.iter().map(|id| (*id, *id)).collect();
        let leader = bench.group.leader.clone().unwrap();
        for id in ids {
            let assignments = if leader.as_str() == *id {
                &assignments[..]
            } else {
                &[]
            };
            bench.sync(id, generation, assignments);
        }
        assert_eq!(bench.group.state(), ClassicGroupState::Stable);
        bench
    }
}

/// Returns the join of a client that gets `id` without a round trip.
pub(super) fn old_client(id: &str) -> Join {
    Join {
        member_id: StrBytes::default(),
        instance_id: None,
        client_id: text("client"),
        client_host: text("/127.0.0.1"),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 60_000,
        protocol_type: text("consumer"),
        protocols: vec![(text("range"), Bytes::from_static(b"\0\0\0\0\0\x01\0\x01t"))],
        fresh_id: text(id),
        id_required: false,
        can_skip_assignment: false,
    }
}

/// Returns the join of a member that has its id.
pub(super) fn again(id: &str) -> Join {
    Join {
        member_id: text(id),
        ..old_client("unused")
    }
}

fn fixed(id: &str, instance: &str) -> Join {
    Join {
        instance_id: Some(text(instance)),
        id_required: true,
        ..old_client(id)
    }
}

fn code(error: ErrorCode) -> i16 {
    error.code()
}

#[test]
fn a_new_client_is_sent_back_with_an_id_and_then_leads() {
    let mut bench = Bench::new(3_000, 100);
    let first = bench.join(Join {
        id_required: true,
        ..old_client("a")
    });
    assert_eq!(
        bench.joined(first).error_code,
        code(ErrorCode::MemberIdRequired)
    );
    assert_eq!(bench.joined(first).member_id.as_str(), "a");
    let second = bench.join(again("a"));
    bench.pass(2_999);
    assert!(!bench.replies.contains_key(&second));
    bench.pass(1);
    let answer = bench.joined(second);
    assert_eq!((answer.error_code, answer.generation_id), (0, 1));
    assert_eq!((answer.leader.as_str(), answer.members.len()), ("a", 1));
    assert_eq!(answer.protocol_name.as_deref(), Some("range"));
}

#[test]
fn an_id_that_is_not_used_lapses() {
    let mut bench = Bench::new(0, 100);
    bench.join(Join {
        id_required: true,
        ..old_client("a")
    });
    bench.pass(10_000);
    assert!(bench.group.is_idle());
    let late = bench.join(again("a"));
    assert_eq!(
        bench.joined(late).error_code,
        code(ErrorCode::UnknownMemberId)
    );
}

#[test]
fn the_first_rebalance_is_put_off_while_members_come_but_not_for_ever() {
    let mut bench = Bench::new(3_000, 100);
    let a = bench.join(Join {
        rebalance_timeout_ms: 7_000,
        ..old_client("a")
    });
    for (id, ms) in [("b", 2_000), ("c", 3_000), ("d", 1_900)] {
        bench.pass(ms);
        bench.join(Join {
            rebalance_timeout_ms: 7_000,
            ..old_client(id)
        });
        assert!(!bench.replies.contains_key(&a), "{id}");
    }
    // 3000 + 3000, then the rest of the 7000.
    bench.pass(100);
    assert_eq!(bench.joined(a).generation_id, 1);
    assert_eq!(bench.joined(a).members.len(), 4);
}

#[test]
fn followers_wait_for_the_leaders_assignment_and_for_the_log() {
    let mut bench = Bench::new(0, 100);
    bench.join(old_client("a"));
    bench.join(old_client("b"));
    bench.pass(0);
    bench.held = Some(Vec::new());
    let b = bench.sync("b", 1, &[]);
    let a = bench.sync("a", 1, &[("a", "0"), ("b", "1")]);
    assert!(!bench.replies.contains_key(&a) && !bench.replies.contains_key(&b));
    assert_eq!(bench.beat("a", 1), Ok(()));
    let store = bench.held.take().unwrap().remove(0);
    assert_eq!(store.metadata.members.len(), 2);
    assert_eq!(store.metadata.leader.as_deref(), Some("a"));
    assert_eq!(store.metadata.members[1].assignment.as_ref(), b"1");
    bench.stored(store, Ok(()));
    assert_eq!(bench.synced(a).assignment.as_ref(), b"0");
    assert_eq!(bench.synced(b).assignment.as_ref(), b"1");
    // A repeated request gets the same answer.
    let again = bench.sync("b", 1, &[]);
    assert_eq!(bench.synced(again).assignment.as_ref(), b"1");
}

#[test]
fn an_assignment_that_cannot_be_written_is_nobodys() {
    let mut bench = Bench::new(0, 100);
    bench.join(old_client("a"));
    bench.join(old_client("b"));
    bench.pass(0);
    bench.held = Some(Vec::new());
    let b = bench.sync("b", 1, &[]);
    let a = bench.sync("a", 1, &[("a", "0"), ("b", "1")]);
    let store = bench.held.take().unwrap().remove(0);
    bench.stored(store, Err(ErrorCode::NotCoordinator));
    for token in [a, b] {
        assert_eq!(
            bench.synced(token).error_code,
            code(ErrorCode::NotCoordinator)
        );
        assert!(bench.synced(token).assignment.is_empty());
    }
    assert_eq!(bench.group.state(), ClassicGroupState::PreparingRebalance);
    assert!(
        bench
            .group
            .members()
            .all(|(_, member)| member.assignment.is_empty())
    );
}

/// Comparing the protocols of all members with each other would take too long.
#[test]
fn members_with_many_protocols_join_and_agree_without_comparing_all_with_all() {
    let mut bench = Bench::new(0, 1_000);
    let offer = |own: usize| {
        let names = (0..1_000).map(|at| format!("protocol-{own}-{at}"));
        let names = names.chain(["common".to_owned()]);
        names
            .map(|name| (text(&name), Bytes::new()))
            .collect::<Vec<_>>()
    };
    for member in 0..200 {
        bench.join(Join {
            protocols: offer(member),
            ..old_client(&format!("m{member}"))
        });
    }
    bench.pass(0);
    assert_eq!(bench.group.state(), ClassicGroupState::CompletingRebalance);
    assert_eq!(bench.group.protocol().map(StrBytes::as_str), Some("common"));
    let stranger = bench.join(Join {
        protocols: offer(1_000).split_off(500)[..500].to_vec(),
        ..old_client("x")
    });
    assert_eq!(
        bench.joined(stranger).error_code,
        code(ErrorCode::InconsistentGroupProtocol)
    );
}

#[test]
fn a_group_whose_record_names_no_times_does_not_stop_the_clock() {
    for timeout in [i32::MIN, -1, 0, 1] {
        let mut bench = Bench::stable(&["a"]);
        let mut value = bench.group.value();
        for member in &mut value.members {
            member.group_instance_id = Some("A".to_owned());
            member.rebalance_timeout = timeout;
            member.session_timeout = timeout;
        }
        bench.group = ClassicGroup::load(bench.group.limits, &value, bench.now);
        let effects = bench.group.rebalance(bench.now);
        bench.take(effects);
        bench.pass(60_000);
        assert_eq!(bench.group.state(), ClassicGroupState::Empty);
    }
}

#[test]
fn a_leader_that_asks_twice_does_not_change_what_is_being_written() {
    let mut bench = Bench::new(0, 100);
    bench.join(old_client("a"));
    bench.pass(0);
    bench.held = Some(Vec::new());
    let first = bench.sync("a", 1, &[("a", "old")]);
    let second = bench.sync("a", 1, &[("a", "new")]);
    assert_eq!(
        bench.synced(first).error_code,
        code(ErrorCode::RebalanceInProgress)
    );
    let mut held = bench.held.take().unwrap();
    assert_eq!(held.len(), 1);
    bench.stored(held.remove(0), Ok(()));
    assert_eq!(bench.synced(second).assignment.as_ref(), b"old");
}

#[test]
fn members_learn_of_a_rebalance_by_heartbeat_and_rejoin() {
    let mut bench = Bench::stable(&["a", "b"]);
    let c = bench.join(old_client("c"));
    assert_eq!(bench.beat("a", 1), Err(ErrorCode::RebalanceInProgress));
    let late = bench.sync("a", 1, &[]);
    assert_eq!(
        bench.synced(late).error_code,
        code(ErrorCode::RebalanceInProgress)
    );
    let a = bench.join(again("a"));
    assert!(!bench.replies.contains_key(&c));
    let b = bench.join(again("b"));
    for token in [a, b, c] {
        assert_eq!(bench.joined(token).generation_id, 2);
    }
    assert_eq!(bench.beat("a", 1), Err(ErrorCode::IllegalGeneration));
    assert_eq!(bench.beat("x", 2), Err(ErrorCode::UnknownMemberId));
    let stale = bench.sync("b", 1, &[]);
    assert_eq!(
        bench.synced(stale).error_code,
        code(ErrorCode::IllegalGeneration)
    );
}

#[test]
fn who_does_not_rejoin_in_time_is_out_and_another_leads() {
    let mut bench = Bench::stable(&["a", "b"]);
    bench.join(old_client("c"));
    let b = bench.join(again("b"));
    for _ in 0..12 {
        let _ = bench.beat("a", 1);
        bench.pass(5_000);
    }
    let answer = bench.joined(b);
    assert_eq!((answer.generation_id, answer.leader.as_str()), (2, "b"));
    assert_eq!(answer.members.len(), 2);
    assert_eq!(bench.beat("a", 1), Err(ErrorCode::UnknownMemberId));
}

#[test]
fn a_silent_member_is_removed_and_the_rest_rebalance() {
    let mut bench = Bench::stable(&["a", "b"]);
    bench.pass(6_000);
    assert_eq!(bench.beat("b", 1), Ok(()));
    bench.pass(4_000);
    assert_eq!(bench.beat("a", 1), Err(ErrorCode::UnknownMemberId));
    assert_eq!(bench.beat("b", 1), Err(ErrorCode::RebalanceInProgress));
    let b = bench.join(again("b"));
    assert_eq!(
        (
            bench.joined(b).generation_id,
            bench.joined(b).leader.as_str()
        ),
        (2, "b")
    );
}

#[test]
fn a_member_that_does_not_sync_is_removed() {
    let mut bench = Bench::new(0, 100);
    bench.join(old_client("a"));
    bench.join(old_client("b"));
    bench.pass(0);
    bench.sync("a", 1, &[("a", "0"), ("b", "1")]);
    for _ in 0..12 {
        let _ = (bench.beat("a", 1), bench.beat("b", 1));
        bench.pass(5_000);
    }
    assert_eq!(bench.group.state(), ClassicGroupState::PreparingRebalance);
    assert_eq!(bench.beat("b", 1), Err(ErrorCode::UnknownMemberId));
    assert_eq!(bench.beat("a", 1), Err(ErrorCode::RebalanceInProgress));
}

#[test]
fn the_last_to_leave_empties_the_group_and_that_is_written() {
    let mut bench = Bench::stable(&["a"]);
    bench.held = Some(Vec::new());
    assert_eq!(bench.leave("x", None), Some(ErrorCode::UnknownMemberId));
    assert_eq!(bench.leave("a", None), None);
    assert_eq!(
        (bench.group.state(), bench.group.generation()),
        (ClassicGroupState::Empty, 2)
    );
    let stored = bench.held.take().unwrap().remove(0).metadata;
    assert_eq!((stored.generation, stored.members.len()), (2, 0));
    assert_eq!((stored.protocol, stored.leader), (None, None));
    assert_eq!(stored.protocol_type, "consumer");
}

#[test]
fn a_member_that_leaves_while_it_waits_is_told() {
    let mut bench = Bench::stable(&["a", "b"]);
    bench.join(old_client("c"));
    let b = bench.join(again("b"));
    assert_eq!(bench.leave("b", None), None);
    assert_eq!(bench.joined(b).error_code, code(ErrorCode::UnknownMemberId));
}

#[test]
fn protocols_have_to_agree() {
    let mut bench = Bench::stable(&["a"]);
    let alien = Join {
        protocol_type: text("connect"),
        ..old_client("b")
    };
    let other = Join {
        protocols: vec![(text("sticky"), Bytes::new())],
        ..old_client("b")
    };
    for join in [alien, other] {
        let token = bench.join(join);
        assert_eq!(
            bench.joined(token).error_code,
            code(ErrorCode::InconsistentGroupProtocol)
        );
    }
    let none = Join {
        protocols: Vec::new(),
        ..old_client("b")
    };
    let mut empty = Bench::new(0, 100);
    let token = empty.join(none);
    assert_eq!(
        empty.joined(token).error_code,
        code(ErrorCode::InconsistentGroupProtocol)
    );
}

#[test]
fn members_vote_for_the_first_protocol_that_all_offer() {
    let offers = |names: &[&str]| {
        names
            .iter()
            .map(|name| (text(name), Bytes::new()))
            .collect()
    };
    let mut bench = Bench::new(0, 100);
    let a = bench.join(Join {
        protocols: offers(&["sticky", "range", "rr"]),
        ..old_client("a")
    });
    bench.join(Join {
        protocols: offers(&["rr", "range"]),
        ..old_client("b")
    });
    bench.join(Join {
        protocols: offers(&["range", "rr"]),
        ..old_client("c")
    });
    bench.pass(0);
    assert_eq!(bench.joined(a).protocol_name.as_deref(), Some("range"));
}

#[test]
fn a_follower_that_rejoins_unchanged_is_told_where_the_group_is_a_leader_rebalances() {
    let mut bench = Bench::stable(&["a", "b"]);
    let b = bench.join(again("b"));
    assert_eq!(
        (bench.joined(b).error_code, bench.joined(b).generation_id),
        (0, 1)
    );
    assert_eq!(bench.group.state(), ClassicGroupState::Stable);
    bench.join(again("a"));
    assert_eq!(bench.group.state(), ClassicGroupState::PreparingRebalance);
}

#[test]
fn a_full_group_takes_nobody_else() {
    let mut bench = Bench::new(0, 2);
    bench.join(old_client("a"));
    bench.join(old_client("b"));
    let c = bench.join(old_client("c"));
    assert_eq!(
        bench.joined(c).error_code,
        code(ErrorCode::GroupMaxSizeReached)
    );
    bench.pass(0);
    assert_eq!(bench.group.members().count(), 2);
}

#[test]
fn what_is_read_from_the_log_is_what_was_written() {
    let mut bench = Bench::new(0, 100);
    bench.join(old_client("a"));
    bench.join(fixed("i-1", "i"));
    bench.pass(0);
    bench.held = Some(Vec::new());
    bench.sync("a", 1, &[("a", "0"), ("i-1", "1")]);
    let store = bench.held.take().unwrap().remove(0);
    let value = store.metadata.clone();
    bench.stored(store, Ok(()));
    let mut loaded = ClassicGroup::load(bench.group.limits, &value, bench.now);
    assert_eq!(
        (loaded.state(), loaded.generation()),
        (ClassicGroupState::Stable, 1)
    );
    assert_eq!(loaded.leader, bench.group.leader);
    assert!(loaded.is_subscribed_to("t") && !loaded.is_subscribed_to("u"));
    for ((id, member), (other, before)) in loaded.members().zip(bench.group.members()) {
        assert_eq!((id, &member.assignment), (other, &before.assignment));
        assert_eq!(member.protocols, before.protocols);
    }
    assert_eq!(
        loaded.heartbeat(&text("i-1"), Some(&text("i")), 1, bench.now),
        Ok(())
    );
    assert_eq!(
        loaded.next_deadline(),
        Some(bench.now.at + Duration::from_secs(10))
    );
}
