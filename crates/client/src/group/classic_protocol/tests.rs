//! Members against a coordinator in miniature, and single answers against one member.

mod coordinator;

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use wire::messages::{HeartbeatResponse, JoinGroupResponse, SyncGroupResponse};
use wire::types::{ErrorCode, TopicPartition};

use super::*;
// The name is also that of a trait of proptest.
use super::Strategy;
use crate::error::{ClientError, Refusal};
use crate::group::GroupFailure;
use crate::group::exchange::GroupAnswer;
use crate::pauses::Pauses;
use coordinator::Coordinator;

pub(super) fn settings(strategies: &[Strategy]) -> MemberSettings {
    MemberSettings {
        group: "g".to_owned(),
        instance_id: None,
        rack: None,
        topics: BTreeSet::from(["t".into()]),
        assignor: None,
        strategies: strategies.to_vec(),
        session_timeout: Duration::from_secs(45),
        heartbeat_interval: Duration::from_secs(3),
        rebalance_timeout: Duration::from_mins(5),
        metadata_max_age: Duration::from_mins(5),
        pauses: Pauses::new(Duration::from_millis(100), Duration::from_secs(1)),
    }
}

fn place(partition: i32) -> TopicPartition {
    TopicPartition {
        topic: "t".into(),
        partition,
    }
}

/// A member with its application.
struct Player {
    member: ClassicMember,
    has: Places,
    /// What the application was told to let go of.
    letting_go: Option<Places>,
    waits_until: Option<Instant>,
    has_left: bool,
}

/// Some members, their coordinator, and a topic.
struct World {
    players: BTreeMap<usize, Player>,
    coordinator: Coordinator,
    strategies: Vec<Strategy>,
    size: i32,
    now: Instant,
    next: usize,
}

impl World {
    fn new(strategies: &[Strategy]) -> Self {
        Self {
            players: BTreeMap::new(),
            coordinator: Coordinator::default(),
            strategies: strategies.to_vec(),
            size: 5,
            now: Instant::now(),
            next: 0,
        }
    }

    fn enter(&mut self) {
        let player = Player {
            member: ClassicMember::new(settings(&self.strategies), self.now),
            has: Places::new(),
            letting_go: None,
            waits_until: None,
            has_left: false,
        };
        self.players.insert(self.next, player);
        self.next += 1;
    }

    fn nth(&self, index: usize) -> Option<usize> {
        let index = index.checked_rem(self.players.len())?;
        self.players.keys().nth(index).copied()
    }

    /// Does the next thing of one member; false if it waits.
    fn act(&mut self, number: usize) -> bool {
        self.deliver();
        let now = self.now;
        let Some(player) = self.players.get_mut(&number) else {
            return false;
        };
        match player.member.step(now) {
            Step::Ask(request) => self.coordinator.take(number, request),
            Step::Revoke(gone) => {
                assert!(gone.is_subset(&player.has));
                player.letting_go = Some(gone);
            }
            Step::Assign(new) => self.assign(number, new),
            Step::Lost(lost) => player.has.retain(|place| !lost.contains(place)),
            Step::Look(topics) => {
                assert!(topics.contains("t"));
                let sizes = BTreeMap::from([("t".into(), self.size)]);
                let seen = TopicsSeen {
                    sizes,
                    ..TopicsSeen::default()
                };
                player.member.looked(&seen, now);
            }
            Step::Wait(until) => {
                player.waits_until = until;
                if let Some(gone) = player.letting_go.take() {
                    player.has.retain(|place| !gone.contains(place));
                    player.member.revoked(now);
                    return true;
                }
                return false;
            }
            Step::Failed(failure) => panic!("{failure:?}"),
            Step::Left => player.has_left = true,
        }
        if self.players[&number].has_left {
            self.players.remove(&number);
        }
        true
    }

    /// Hands a member its partitions; no other member has them.
    fn assign(&mut self, number: usize, new: Places) {
        for (other, player) in &self.players {
            let both: Vec<_> = player.has.intersection(&new).collect();
            assert!(both.is_empty(), "{number} gets {both:?}, which {other} has");
        }
        let player = self.players.get_mut(&number).unwrap();
        player.has.extend(new);
    }

    fn deliver(&mut self) {
        for (number, answer) in self.coordinator.answers() {
            if let Some(player) = self.players.get_mut(&number) {
                player.member.answered(Ok(answer), self.now);
            }
        }
    }

    /// Lets everything happen that can, over some minutes.
    fn settle(&mut self) {
        for _ in 0..400 {
            let numbers: Vec<_> = self.players.keys().copied().collect();
            let mut acted = false;
            for number in numbers {
                acted |= self.act(number);
            }
            if !acted {
                self.now += Duration::from_secs(3);
            }
        }
        let mut all = Vec::new();
        for player in self.players.values() {
            all.extend(player.has.iter().cloned());
            assert_eq!(player.has, player.member.owned);
        }
        all.sort();
        let expected = if self.players.is_empty() {
            0
        } else {
            self.size
        };
        assert_eq!(all, (0..expected).map(place).collect::<Vec<_>>());
    }
}

#[derive(Clone, Copy, Debug)]
enum Happens {
    Enter,
    Leave(usize),
    Act(usize),
    Grow,
    Later,
}

fn happens() -> impl proptest::strategy::Strategy<Value = Happens> {
    use proptest::strategy::Strategy as _;
    prop_oneof![
        1 => Just(Happens::Enter),
        1 => (0usize..8).prop_map(Happens::Leave),
        20 => (0usize..8).prop_map(Happens::Act),
        1 => Just(Happens::Grow),
        3 => Just(Happens::Later),
    ]
}

proptest! {
    /// No partition is two members' at any moment, and in the end each is one's.
    #[test]
    fn each_partition_is_one_members(
        strategy in prop::sample::select(vec![
            vec![Strategy::Range],
            vec![Strategy::RoundRobin, Strategy::Range],
            vec![Strategy::CooperativeSticky],
            vec![Strategy::Range, Strategy::CooperativeSticky],
        ]),
        all in proptest::collection::vec(happens(), 0..150),
    ) {
        let mut world = World::new(&strategy);
        world.enter();
        for one in all {
            match one {
                Happens::Enter if world.players.len() < 5 => world.enter(),
                Happens::Enter => {}
                Happens::Leave(index) => {
                    if let Some(number) = world.nth(index) {
                        let player = world.players.get_mut(&number).unwrap();
                        // It lets go of everything first.
                        player.has.clear();
                        player.letting_go = None;
                        player.member.leave(world.now);
                    }
                }
                Happens::Act(index) => {
                    if let Some(number) = world.nth(index) {
                        world.act(number);
                    }
                }
                Happens::Grow => world.size = (world.size + 1).min(9),
                Happens::Later => world.now += Duration::from_millis(1700),
            }
        }
        // Longer than the leader takes to see that the topic has grown.
        for _ in 0..2 {
            world.now += Duration::from_mins(6);
            for _ in 0..60 {
                for index in 0..world.players.len() {
                    if let Some(number) = world.nth(index) {
                        world.act(number);
                    }
                }
            }
        }
        world.settle();
    }
}

/// A member without a group around it, and the answers that it gets.
struct LoneMember {
    member: ClassicMember,
    now: Instant,
}

impl LoneMember {
    fn new(settings: MemberSettings) -> Self {
        let now = Instant::now();
        Self {
            member: ClassicMember::new(settings, now),
            now,
        }
    }

    /// A follower that has joined and has this.
    fn with(settings: MemberSettings, partitions: &[i32]) -> Self {
        let strategy = settings.strategies[0].name();
        let mut alone = Self::new(settings);
        assert!(matches!(alone.step(), Step::Ask(GroupRequest::Join(_))));
        alone.answer(GroupAnswer::Join(
            JoinGroupResponse::default()
                .with_generation_id(1)
                .with_protocol_name(Some(wire::StrBytes::from_static_str(strategy)))
                .with_leader(wire::StrBytes::from_static_str("other"))
                .with_member_id(wire::StrBytes::from_static_str("me")),
        ));
        assert!(matches!(alone.step(), Step::Ask(GroupRequest::Sync { .. })));
        alone.synced(partitions);
        assert_eq!(
            alone.step(),
            Step::Assign(partitions.iter().copied().map(place).collect())
        );
        alone
    }

    fn step(&mut self) -> Step {
        self.member.step(self.now)
    }

    fn answer(&mut self, answer: GroupAnswer) {
        self.member.answered(Ok(answer), self.now);
    }

    fn synced(&mut self, partitions: &[i32]) {
        let places = partitions.iter().copied().map(place).collect();
        let answer = SyncGroupResponse::default().with_assignment(encode_assignment(&places));
        self.answer(GroupAnswer::Sync(answer));
    }

    /// Waits for the next heartbeat, and answers it.
    fn beat(&mut self, code: i16) {
        self.now += Duration::from_secs(3);
        assert!(matches!(
            self.step(),
            Step::Ask(GroupRequest::Heartbeat { .. })
        ));
        let answer = HeartbeatResponse::default().with_error_code(code);
        self.answer(GroupAnswer::Heartbeat(answer));
    }
}

fn places(partitions: &[i32]) -> Places {
    partitions.iter().copied().map(place).collect()
}

#[test]
fn heartbeats_go_on_while_the_application_lets_go() {
    let mut alone = LoneMember::with(settings(&[Strategy::Range]), &[0, 1]);
    alone.beat(0);
    alone.beat(27);
    assert_eq!(alone.step(), Step::Revoke(places(&[0, 1])));
    alone.beat(27);
    alone.beat(27);
    assert!(alone.member.identity().is_some(), "it can still commit");
    alone.member.revoked(alone.now);
    let Step::Ask(GroupRequest::Join(join)) = alone.step() else {
        panic!("it joins again");
    };
    assert_eq!(join.member_id, "me");
    let subscription = Subscription::decode(&join.strategies[0].1).unwrap();
    assert_eq!(subscription.owned, Places::new());
}

#[test]
fn a_cooperative_member_keeps_what_it_has_and_gives_up_what_it_loses() {
    let mut alone = LoneMember::with(settings(&[Strategy::CooperativeSticky]), &[0, 1, 2]);
    alone.beat(27);
    let Step::Ask(GroupRequest::Join(join)) = alone.step() else {
        panic!("it joins at once");
    };
    let subscription = Subscription::decode(&join.strategies[0].1).unwrap();
    assert_eq!(
        (subscription.owned, subscription.generation),
        (places(&[0, 1, 2]), 1)
    );
    alone.answer(GroupAnswer::Join(
        JoinGroupResponse::default()
            .with_generation_id(2)
            .with_protocol_name(Some(wire::StrBytes::from_static_str("cooperative-sticky")))
            .with_member_id(wire::StrBytes::from_static_str("me")),
    ));
    assert!(matches!(alone.step(), Step::Ask(GroupRequest::Sync { .. })));
    alone.synced(&[1, 2]);
    assert_eq!(alone.step(), Step::Revoke(places(&[0])));
    alone.beat(0);
    alone.member.revoked(alone.now);
    assert_eq!(alone.step(), Step::Assign(places(&[])));
    assert!(
        matches!(alone.step(), Step::Ask(GroupRequest::Join(_))),
        "so that another gets it"
    );
}

#[test]
fn who_is_unknown_has_lost_everything_and_joins_under_another_id() {
    for (code, id) in [(25, ""), (22, "me")] {
        let mut alone = LoneMember::with(settings(&[Strategy::CooperativeSticky]), &[0, 1]);
        alone.beat(code);
        assert_eq!(alone.step(), Step::Lost(places(&[0, 1])));
        assert_eq!(alone.member.identity(), None);
        let Step::Ask(GroupRequest::Join(join)) = alone.step() else {
            panic!("it joins again");
        };
        assert_eq!(join.member_id, id);
        let subscription = Subscription::decode(&join.strategies[0].1).unwrap();
        assert_eq!(subscription.owned, Places::new());
    }
}

#[test]
fn what_is_lost_while_it_is_let_go_is_lost() {
    let mut alone = LoneMember::with(settings(&[Strategy::Range]), &[0]);
    alone.beat(27);
    assert_eq!(alone.step(), Step::Revoke(places(&[0])));
    alone.beat(25);
    assert_eq!(alone.step(), Step::Lost(places(&[0])));
    alone.member.revoked(alone.now);
    assert!(matches!(alone.step(), Step::Ask(GroupRequest::Join(_))));
}

#[test]
fn a_fenced_instance_and_a_refused_member_fail() {
    for code in [82, 23, 30, 81, 26] {
        let mut alone = LoneMember::new(settings(&[Strategy::Range]));
        alone.step();
        let answer = JoinGroupResponse::default().with_error_code(code);
        alone.answer(GroupAnswer::Join(answer));
        let code = ErrorCode::try_from_code(code).unwrap();
        let error = ClientError::Refused(Refusal::from(code));
        assert_eq!(alone.step(), Step::Failed(GroupFailure::Other(error)));
        assert_eq!(alone.step(), Step::Wait(None));
        alone.member.leave(alone.now);
        assert_eq!(alone.step(), Step::Left);
    }
}

#[test]
fn a_coordinator_that_cannot_be_reached_is_asked_again_with_pauses() {
    let mut alone = LoneMember::new(settings(&[Strategy::Range]));
    for pause_ms in [100, 200, 400, 800, 1000] {
        assert!(matches!(alone.step(), Step::Ask(GroupRequest::Join(_))));
        let error = ClientError::timed_out("a:1", "JoinGroup");
        alone.member.answered(Err(error), alone.now);
        let due = alone.now + Duration::from_millis(pause_ms);
        assert_eq!(alone.step(), Step::Wait(Some(due)));
        alone.now = due;
    }
    // The same of a coordinator that never knows the id that it has given.
    let required = JoinGroupResponse::default()
        .with_error_code(79)
        .with_member_id(wire::StrBytes::from_static_str("m"));
    let mut asked = 0;
    while matches!(alone.step(), Step::Ask(GroupRequest::Join(_))) {
        alone.answer(GroupAnswer::Join(required.clone()));
        asked += 1;
        assert!(asked < 5);
    }
}

#[test]
fn a_coordinator_that_lets_members_in_and_refuses_them_at_once_is_asked_with_pauses() {
    let mut alone = LoneMember::new(settings(&[Strategy::Range]));
    for round in 0..4 {
        assert!(matches!(alone.step(), Step::Ask(GroupRequest::Join(_))));
        alone.answer(GroupAnswer::Join(
            JoinGroupResponse::default()
                .with_generation_id(1)
                .with_protocol_name(Some(wire::StrBytes::from_static_str("range")))
                .with_leader(wire::StrBytes::from_static_str("other"))
                .with_member_id(wire::StrBytes::from_static_str("me")),
        ));
        assert!(matches!(alone.step(), Step::Ask(GroupRequest::Sync { .. })));
        let begins_again = SyncGroupResponse::default().with_error_code(27);
        alone.answer(GroupAnswer::Sync(begins_again));
        if round > 0 {
            let Step::Wait(Some(until)) = alone.step() else {
                panic!("it joins again without a pause");
            };
            assert!(until > alone.now);
            alone.now = until;
        }
    }
}

#[test]
fn who_leaves_says_so_unless_it_is_static() {
    let mut alone = LoneMember::with(settings(&[Strategy::Range]), &[0]);
    alone.member.leave(alone.now);
    let leave = GroupRequest::Leave {
        member_id: "me".to_owned(),
    };
    assert_eq!(alone.step(), Step::Ask(leave));
    assert_eq!(alone.step(), Step::Wait(None));
    let gone = wire::messages::LeaveGroupResponse::default();
    alone.answer(GroupAnswer::Leave(gone));
    assert_eq!(alone.step(), Step::Left);

    let mut settings = settings(&[Strategy::Range]);
    settings.instance_id = Some("i".to_owned());
    let mut alone = LoneMember::with(settings, &[0]);
    alone.member.leave(alone.now);
    assert_eq!(alone.step(), Step::Left);
}

#[test]
fn who_leaves_while_it_joins_is_not_left_behind() {
    let mut alone = LoneMember::new(settings(&[Strategy::Range]));
    alone.step();
    alone.member.leave(alone.now);
    assert_eq!(alone.step(), Step::Wait(None));
    let required = JoinGroupResponse::default()
        .with_error_code(79)
        .with_member_id(wire::StrBytes::from_static_str("m"));
    alone.answer(GroupAnswer::Join(required));
    assert!(matches!(
        alone.step(),
        Step::Ask(GroupRequest::Leave { .. })
    ));
}

#[test]
fn an_application_that_does_not_look_costs_the_membership_and_comes_back() {
    let mut alone = LoneMember::with(settings(&[Strategy::Range]), &[0]);
    alone.member.stalled(alone.now);
    assert_eq!(alone.step(), Step::Lost(places(&[0])));
    assert!(matches!(
        alone.step(),
        Step::Ask(GroupRequest::Leave { .. })
    ));
    alone.member.polled(alone.now);
    assert_eq!(alone.step(), Step::Wait(None));
    alone.answer(GroupAnswer::Leave(
        wire::messages::LeaveGroupResponse::default(),
    ));
    assert_eq!(alone.step(), Step::Wait(None));
    alone.member.polled(alone.now);
    assert!(matches!(alone.step(), Step::Ask(GroupRequest::Join(_))));
}
