//! Members against a coordinator in miniature, and single answers against one member.

mod coordinator;

use proptest::prelude::*;
use wire::messages::consumer_group_heartbeat_response::{
    Assignment, TopicPartitions as AssignedPartitions,
};

use super::*;
use crate::error::Refusal;
use crate::pauses::Pauses;
use coordinator::Coordinator;

fn settings() -> MemberSettings {
    MemberSettings {
        group: "g".to_owned(),
        instance_id: None,
        rack: None,
        topics: BTreeSet::from(["t".into()]),
        assignor: None,
        strategies: Vec::new(),
        session_timeout: Duration::from_secs(45),
        heartbeat_interval: Duration::from_secs(3),
        rebalance_timeout: Duration::from_mins(5),
        metadata_max_age: Duration::from_mins(5),
        pauses: Pauses::new(Duration::from_millis(100), Duration::from_secs(1)),
    }
}

fn topic_id() -> TopicId {
    TopicId(Uuid::from_u128(9))
}

fn seen() -> TopicsSeen {
    TopicsSeen {
        names: BTreeMap::from([(topic_id(), "t".into())]),
        ..TopicsSeen::default()
    }
}

fn places(partitions: impl IntoIterator<Item = i32>) -> Places {
    let places = partitions.into_iter().map(|partition| TopicPartition {
        topic: "t".into(),
        partition,
    });
    places.collect()
}

/// A member with its application.
struct Player {
    member: ConsumerMember,
    has: Places,
    letting_go: Option<Places>,
}

struct World {
    players: BTreeMap<usize, Player>,
    coordinator: Coordinator,
    now: Instant,
    next: u128,
}

/// What becomes of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Answered,
    Lost,
    AnswerLost,
}

impl World {
    fn new() -> Self {
        Self {
            players: BTreeMap::new(),
            coordinator: Coordinator::new(5),
            now: Instant::now(),
            next: 1,
        }
    }

    fn enter(&mut self) {
        let id = Uuid::from_u128(self.next);
        let player = Player {
            member: ConsumerMember::new(settings(), id, self.now),
            has: Places::new(),
            letting_go: None,
        };
        let number = usize::try_from(self.next).unwrap();
        self.players.insert(number, player);
        self.next += 1;
    }

    fn nth(&self, index: usize) -> Option<usize> {
        let index = index.checked_rem(self.players.len())?;
        self.players.keys().nth(index).copied()
    }

    /// Does the next thing of one member; false if it waits.
    fn act(&mut self, number: usize, fate: Fate) -> bool {
        let now = self.now;
        let Some(player) = self.players.get_mut(&number) else {
            return false;
        };
        match player.member.step(now) {
            Step::Ask(GroupRequest::Beat(request)) => {
                let lost = || Err(ClientError::timed_out("a:1", "a heartbeat"));
                let answer = match fate {
                    Fate::Lost => lost(),
                    Fate::Answered => Ok(GroupAnswer::Beat(self.coordinator.take(&request))),
                    Fate::AnswerLost => {
                        self.coordinator.take(&request);
                        lost()
                    }
                };
                player.member.answered(answer, now);
            }
            Step::Ask(other) => panic!("{other:?}"),
            Step::Revoke(gone) => {
                assert!(gone.is_subset(&player.has));
                player.letting_go = Some(gone);
            }
            Step::Assign(new) => {
                for (other, player) in &self.players {
                    let both: Vec<_> = player.has.intersection(&new).collect();
                    assert!(both.is_empty(), "{number} gets {both:?}, which {other} has");
                }
                self.players.get_mut(&number).unwrap().has.extend(new);
            }
            Step::Lost(lost) => player.has.retain(|place| !lost.contains(place)),
            Step::Look(_) => player.member.looked(&seen(), now),
            Step::Wait(_) => {
                let Some(gone) = player.letting_go.take() else {
                    return false;
                };
                player.has.retain(|place| !gone.contains(place));
                player.member.revoked(now);
            }
            Step::Failed(failure) => panic!("{failure:?}"),
            Step::Left => drop(self.players.remove(&number)),
        }
        true
    }

    fn settle(&mut self) {
        for _ in 0..300 {
            let numbers: Vec<_> = self.players.keys().copied().collect();
            let mut acted = false;
            for number in numbers {
                acted |= self.act(number, Fate::Answered);
            }
            if !acted {
                self.now += Duration::from_secs(2);
            }
        }
        let mut all = Vec::new();
        for player in self.players.values() {
            all.extend(player.has.iter().cloned());
        }
        all.sort();
        let expected = if self.players.is_empty() { 0 } else { 5 };
        assert_eq!(all, places(0..expected).into_iter().collect::<Vec<_>>());
    }
}

#[derive(Clone, Copy, Debug)]
enum Happens {
    Enter,
    Leave(usize),
    Act(usize, Fate),
    Later,
}

fn happens() -> impl Strategy<Value = Happens> {
    let fates = vec![
        Fate::Answered,
        Fate::Answered,
        Fate::Answered,
        Fate::Lost,
        Fate::AnswerLost,
    ];
    prop_oneof![
        1 => Just(Happens::Enter),
        1 => (0usize..8).prop_map(Happens::Leave),
        20 => (0usize..8, prop::sample::select(fates))
            .prop_map(|(index, fate)| Happens::Act(index, fate)),
        4 => Just(Happens::Later),
    ]
}

proptest! {
    /// Whatever gets lost, no partition is two members' at any moment, and in the end each is
    /// one's.
    #[test]
    fn each_partition_is_one_members(all in proptest::collection::vec(happens(), 0..200)) {
        let mut world = World::new();
        world.enter();
        for one in all {
            match one {
                Happens::Enter if world.players.len() < 5 => world.enter(),
                Happens::Enter => {}
                Happens::Leave(index) => {
                    if let Some(number) = world.nth(index) {
                        let player = world.players.get_mut(&number).unwrap();
                        player.has.clear();
                        player.letting_go = None;
                        player.member.leave(world.now);
                        // A farewell that gets lost is made up for by the session's timeout.
                        for _ in 0..4 {
                            world.act(number, Fate::Answered);
                        }
                        prop_assert!(!world.players.contains_key(&number));
                    }
                }
                Happens::Act(index, fate) => {
                    if let Some(number) = world.nth(index) {
                        world.act(number, fate);
                    }
                }
                Happens::Later => world.now += Duration::from_millis(700),
            }
        }
        world.settle();
    }
}

/// A member without a group around it, and the answers that it gets.
struct LoneMember {
    member: ConsumerMember,
    now: Instant,
}

impl LoneMember {
    fn new(settings: MemberSettings) -> Self {
        let now = Instant::now();
        Self {
            member: ConsumerMember::new(settings, Uuid::from_u128(1), now),
            now,
        }
    }

    /// A member that has joined and has this.
    fn with(settings: MemberSettings, partitions: &[i32]) -> Self {
        let mut alone = Self::new(settings);
        alone.beat();
        alone.answer(1, Some(partitions));
        assert!(matches!(alone.step(), Step::Look(_)));
        alone.member.looked(&seen(), alone.now);
        assert_eq!(
            alone.step(),
            Step::Assign(places(partitions.iter().copied()))
        );
        let told = alone.beat();
        assert_eq!(told.topic_partitions.unwrap()[0].partitions, partitions);
        alone.answer(1, None);
        alone
    }

    fn step(&mut self) -> Step {
        self.member.step(self.now)
    }

    fn beat(&mut self) -> ConsumerGroupHeartbeatRequest {
        match self.step() {
            Step::Ask(GroupRequest::Beat(beat)) => *beat,
            other => panic!("no heartbeat but {other:?}"),
        }
    }

    fn answer(&mut self, epoch: i32, assigned: Option<&[i32]>) {
        let assigned = assigned.map(|partitions| {
            let topic = AssignedPartitions::default()
                .with_topic_id(topic_id().0)
                .with_partitions(partitions.to_vec());
            Assignment::default().with_topic_partitions(vec![topic])
        });
        let answer = ConsumerGroupHeartbeatResponse::default()
            .with_member_epoch(epoch)
            .with_heartbeat_interval_ms(5000)
            .with_assignment(assigned);
        self.member
            .answered(Ok(GroupAnswer::Beat(answer)), self.now);
    }

    fn refuse(&mut self, code: i16) {
        let answer = ConsumerGroupHeartbeatResponse::default().with_error_code(code);
        self.member
            .answered(Ok(GroupAnswer::Beat(answer)), self.now);
    }
}

#[test]
fn a_heartbeat_says_only_what_changed() {
    let mut alone = LoneMember::new(settings());
    let first = alone.beat();
    assert_eq!(
        (first.member_epoch, first.rebalance_timeout_ms),
        (0, 300_000)
    );
    assert_eq!(
        first.subscribed_topic_names.map(|names| names.len()),
        Some(1)
    );
    assert_eq!(first.topic_partitions, Some(Vec::new()));
    let mut alone = LoneMember::with(settings(), &[0, 1]);
    assert!(matches!(alone.step(), Step::Wait(Some(_))));
    alone.now += Duration::from_secs(5);
    let next = alone.beat();
    assert_eq!((next.member_epoch, next.rebalance_timeout_ms), (1, -1));
    assert_eq!(
        (next.subscribed_topic_names, next.topic_partitions),
        (None, None)
    );
}

#[test]
fn what_is_given_up_is_told_once_it_is_let_go() {
    let mut alone = LoneMember::with(settings(), &[0, 1]);
    alone.now += Duration::from_secs(5);
    alone.beat();
    alone.answer(1, Some(&[1]));
    assert_eq!(alone.step(), Step::Revoke(places([0])));
    assert!(matches!(alone.step(), Step::Wait(Some(_))));
    alone.now += Duration::from_secs(5);
    assert_eq!(alone.beat().topic_partitions, None, "it still has it");
    alone.answer(1, None);
    alone.member.revoked(alone.now);
    let told = alone.beat().topic_partitions.unwrap();
    assert_eq!(told[0].partitions, [1]);
}

#[test]
fn after_an_answer_that_never_came_everything_is_said() {
    let mut alone = LoneMember::with(settings(), &[0]);
    alone.now += Duration::from_secs(5);
    alone.beat();
    let error = ClientError::timed_out("a:1", "a heartbeat");
    alone.member.answered(Err(error), alone.now);
    assert!(matches!(alone.step(), Step::Wait(Some(_))));
    alone.now += Duration::from_millis(100);
    let full = alone.beat();
    assert_eq!((full.member_epoch, full.rebalance_timeout_ms), (1, 300_000));
    assert_eq!(full.topic_partitions.unwrap()[0].partitions, [0]);
}

#[test]
fn who_is_fenced_has_lost_everything_and_joins_again() {
    for code in [110, 25, 69] {
        let mut alone = LoneMember::with(settings(), &[0, 1]);
        alone.now += Duration::from_secs(5);
        alone.beat();
        alone.refuse(code);
        assert_eq!(alone.step(), Step::Lost(places([0, 1])));
        assert_eq!(alone.member.identity(), None);
        let again = alone.beat();
        assert_eq!(
            (again.member_epoch, again.topic_partitions),
            (0, Some(Vec::new()))
        );
        // The second time it waits.
        alone.refuse(25);
        assert!(matches!(alone.step(), Step::Wait(Some(_))));
    }
}

#[test]
fn a_coordinator_that_lets_members_in_and_refuses_them_at_once_is_asked_with_pauses() {
    let mut alone = LoneMember::new(settings());
    for round in 0..4 {
        assert_eq!(alone.beat().member_epoch, 0);
        alone.answer(1, None);
        alone.now += Duration::from_secs(5);
        assert_eq!(alone.beat().member_epoch, 1);
        alone.refuse(110);
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
fn what_is_lost_while_it_is_let_go_is_lost() {
    let mut alone = LoneMember::with(settings(), &[0, 1]);
    alone.now += Duration::from_secs(5);
    alone.beat();
    alone.answer(1, Some(&[]));
    assert_eq!(alone.step(), Step::Revoke(places([0, 1])));
    alone.now += Duration::from_secs(5);
    alone.beat();
    alone.refuse(110);
    assert_eq!(alone.step(), Step::Lost(places([0, 1])));
    alone.member.revoked(alone.now);
    assert_eq!(alone.beat().member_epoch, 0);
}

#[test]
fn a_broker_without_the_protocol_is_told_from_other_refusals() {
    for (code, not_served) in [(35, true), (112, false), (30, false), (111, false)] {
        let mut alone = LoneMember::new(settings());
        alone.beat();
        alone.refuse(code);
        let code = ErrorCode::try_from_code(code).unwrap();
        let error = ClientError::Refused(Refusal::from(code));
        let failure = if not_served {
            GroupFailure::NotServed(error)
        } else {
            GroupFailure::Other(error)
        };
        assert_eq!(alone.step(), Step::Failed(failure));
    }
    let mut alone = LoneMember::new(settings());
    alone.beat();
    let error = ClientError::Unsupported {
        broker: "a:1".to_owned(),
        api: "ConsumerGroupHeartbeat".to_owned(),
        theirs: None,
        ours: (0, 1),
    };
    alone.member.answered(Err(error.clone()), alone.now);
    assert_eq!(alone.step(), Step::Failed(GroupFailure::NotServed(error)));
}

#[test]
fn a_coordinator_that_is_not_ready_is_asked_again() {
    let mut alone = LoneMember::new(settings());
    for code in [14, 15, 16] {
        alone.beat();
        alone.refuse(code);
        assert!(matches!(alone.step(), Step::Wait(Some(_))));
        alone.now += Duration::from_secs(1);
    }
    assert_eq!(alone.beat().member_epoch, 0);
}

#[test]
fn who_leaves_says_so() {
    let mut alone = LoneMember::with(settings(), &[0]);
    alone.member.leave(alone.now);
    assert_eq!(alone.beat().member_epoch, -1);
    alone.answer(-1, None);
    assert_eq!(alone.step(), Step::Left);
    // Who never joined has nothing to say, and who has just joined says it after the answer.
    let mut alone = LoneMember::new(settings());
    alone.member.leave(alone.now);
    assert_eq!(alone.step(), Step::Left);
    let mut alone = LoneMember::new(settings());
    alone.beat();
    alone.member.leave(alone.now);
    assert_eq!(alone.step(), Step::Wait(None));
    alone.answer(1, Some(&[0]));
    assert_eq!(alone.beat().member_epoch, -1);
    // A static member will be back.
    let mut settings = settings();
    settings.instance_id = Some("i".to_owned());
    let mut alone = LoneMember::with(settings, &[0]);
    alone.member.leave(alone.now);
    assert_eq!(alone.beat().member_epoch, -2);
}

#[test]
fn an_application_that_does_not_look_costs_the_membership_and_comes_back() {
    let mut alone = LoneMember::with(settings(), &[0]);
    alone.member.stalled(alone.now);
    assert_eq!(alone.step(), Step::Lost(places([0])));
    assert_eq!(alone.beat().member_epoch, -1);
    alone.answer(-1, None);
    assert_eq!(alone.step(), Step::Wait(None));
    alone.member.polled(alone.now);
    assert_eq!(alone.beat().member_epoch, 0);
}
