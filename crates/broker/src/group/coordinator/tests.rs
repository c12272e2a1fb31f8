//! The coordinator of a shard: waiting requests, ordered appends, loads, unloads, timeouts.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use platform::Platform;
use platform::runtime::run_simulated;
use platform::sim::SimPlatform;
use platform::sync::oneshot;
use platform::task;
use wire::messages::join_group_request::JoinGroupRequestProtocol;
use wire::messages::leave_group_request::MemberIdentity;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::messages::sync_group_request::SyncGroupRequestAssignment;
use wire::messages::{
    GroupId, HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest,
    ListGroupsRequest, OffsetCommitRequest, OffsetCommitResponse, SyncGroupRequest,
    SyncGroupResponse, TopicName,
};
use wire::protocol::StrBytes;
use wire::types::{ErrorCode, LeaderEpoch, TopicId, Uuid};

use super::{GroupAppendError, GroupCoordinator, OffsetsLog, VISITED_AT_ONCE};
use crate::access::Access;
use crate::group::cluster::fake::FakeCluster;
use crate::group::metrics::Metrics;
use crate::group::records::RawRecord;
use crate::group::{Client, Topics, is_long};
use crate::handler;
use crate::options::GroupOptions;
use crate::room::Room;

mod commits;
mod loading;
mod protocols;
mod transactional;

use commits::many;

type Pending = (
    Vec<RawRecord>,
    oneshot::Sender<Result<(), GroupAppendError>>,
);

/// A log whose appends end when the test ends them.
#[derive(Default)]
struct Ledger {
    records: RefCell<Vec<RawRecord>>,
    pending: RefCell<Vec<Pending>>,
    held: std::cell::Cell<bool>,
    gone: std::cell::Cell<bool>,
    /// Partitions to reload, and the attempt.
    again: RefCell<Vec<(i32, u32)>>,
    /// Bytes of a batch beyond 1 MiB.
    more_bytes: std::cell::Cell<usize>,
    cluster: RefCell<FakeCluster>,
}

#[derive(Clone, Default)]
struct TestLog(Rc<Ledger>);

impl OffsetsLog for TestLog {
    type View = FakeCluster;

    fn cluster(&self) -> FakeCluster {
        self.0.cluster.borrow().clone()
    }

    fn partition_count(&self) -> Option<i32> {
        Some(4)
    }

    fn batch_bytes_max(&self, _: i32) -> usize {
        (1 << 20) + self.0.more_bytes.get()
    }

    fn owns(&self, _: i32) -> bool {
        !self.0.gone.get()
    }

    fn serve_again(&self, partition: i32, attempt: u32) {
        self.0.again.borrow_mut().push((partition, attempt));
    }

    async fn append(
        &self,
        _: i32,
        records: Vec<RawRecord>,
        _: i64,
    ) -> Result<(), GroupAppendError> {
        if !self.0.held.get() {
            self.0.records.borrow_mut().extend(records);
            return Ok(());
        }
        let (sender, receiver) = oneshot::channel();
        self.0.pending.borrow_mut().push((records, sender));
        receiver.await.unwrap_or(Err(GroupAppendError::Unknown))
    }
}

impl TestLog {
    /// Ends the only append in flight and returns how many records it had.
    async fn end(&self, result: Result<(), GroupAppendError>) -> usize {
        let mut pending = self.0.pending.borrow_mut().split_off(0);
        assert_eq!(pending.len(), 1, "one append in flight");
        let (records, sender) = pending.remove(0);
        let count = records.len();
        if result.is_ok() {
            self.0.records.borrow_mut().extend(records);
        }
        sender.send(result).unwrap();
        settle().await;
        count
    }
}

/// Lets every task run as far as it can.
async fn settle() {
    for _ in 0..20 {
        task::yield_now().await;
    }
}

struct AnyTopic;

impl Topics for AnyTopic {
    fn topic_id(&self, _: &str) -> Option<TopicId> {
        Some(TopicId(Uuid::from_u128(7)))
    }

    fn has_partition(&self, _: &str, _: i32) -> bool {
        true
    }
}

type Coordinator = Rc<GroupCoordinator<SimPlatform, TestLog>>;

fn options() -> GroupOptions {
    GroupOptions {
        offsets_partitions: 4,
        offsets_segment_bytes: 1 << 20,
        offset_metadata_bytes_max: 4096,
        offsets_retention: Duration::from_hours(1),
        offsets_retention_check: Duration::from_mins(10),
        offset_commit_timeout: Duration::from_secs(5),
        session_timeout_min: Duration::from_secs(6),
        session_timeout_max: Duration::from_mins(30),
        initial_rebalance_delay: Duration::from_secs(3),
        members_max: 100,
        consumer_protocol: true,
        consumer: crate::group::consumer::ConsumerOptions::kafka(),
        state_bytes_max: 64 << 20,
    }
}

/// Returns a coordinator with all partitions loaded from an empty log.
fn coordinator(log: &TestLog) -> Coordinator {
    let coordinator = GroupCoordinator::new(
        SimPlatform::new(1),
        options(),
        log.clone(),
        Metrics::default(),
    );
    for partition in 0..4 {
        load_nothing(&coordinator, partition, LeaderEpoch(0));
    }
    coordinator
}

fn load_nothing(coordinator: &Coordinator, partition: i32, leader_epoch: LeaderEpoch) {
    let loading = coordinator.begin_load(partition);
    coordinator.finish_load((partition, loading), leader_epoch);
}

fn simulate<F: Future<Output = ()>>(test: F) {
    run_simulated(test).unwrap();
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

/// What a client may do: everything.
static FREE: Access = Access::unlimited();

fn group(name: &str) -> GroupId {
    GroupId(text(name))
}

async fn join(coordinator: &Coordinator, name: &str, id: &str, version: i16) -> JoinGroupResponse {
    let protocol = JoinGroupRequestProtocol::default()
        .with_name(text("range"))
        .with_metadata(Bytes::from_static(b"\0\0\0\0\0\0"));
    let request = JoinGroupRequest::default()
        .with_group_id(group(name))
        .with_session_timeout_ms(10_000)
        .with_rebalance_timeout_ms(30_000)
        .with_member_id(text(id))
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![protocol]);
    let client = Client {
        id: text("client"),
        host: text("/127.0.0.1"),
    };
    handler::join_group::handle(coordinator, request, version, &client, &FREE).await
}

async fn sync(
    coordinator: &Coordinator,
    name: &str,
    joined: &JoinGroupResponse,
) -> SyncGroupResponse {
    let assignments = joined.members.iter().map(|member| {
        SyncGroupRequestAssignment::default()
            .with_member_id(member.member_id.clone())
            .with_assignment(Bytes::from(member.member_id.to_string()))
    });
    let request = SyncGroupRequest::default()
        .with_group_id(group(name))
        .with_generation_id(joined.generation_id)
        .with_member_id(joined.member_id.clone())
        .with_assignments(assignments.collect());
    handler::sync_group::handle(coordinator, request, 3).await
}

fn beat(coordinator: &Coordinator, name: &str, joined: &JoinGroupResponse) -> i16 {
    let request = HeartbeatRequest::default()
        .with_group_id(group(name))
        .with_generation_id(joined.generation_id)
        .with_member_id(joined.member_id.clone());
    handler::heartbeat::handle(coordinator, &request).error_code
}

async fn commit_all(
    coordinator: &Coordinator,
    request: &OffsetCommitRequest,
) -> OffsetCommitResponse {
    commit_from(coordinator, "/h", request).await
}

async fn commit_from(
    coordinator: &Coordinator,
    host: &str,
    request: &OffsetCommitRequest,
) -> OffsetCommitResponse {
    let topics = request.topics.iter();
    let notes = topics.map(|topic| topic.partitions.iter().map(|it| &it.committed_metadata));
    let host = text(host);
    let place = coordinator.in_line(&request.group_id, &host, is_long(notes));
    let topics = (Arc::new(AnyTopic), || (Arc::new(AnyTopic), None));
    handler::offset_commit::handle(coordinator, request, 8, (&host, place), topics, &FREE).await
}

async fn commit(coordinator: &Coordinator, name: &str, offset: i64) -> i16 {
    let partition = OffsetCommitRequestPartition::default().with_committed_offset(offset);
    let topic = OffsetCommitRequestTopic::default()
        .with_name(TopicName(text("t")))
        .with_partitions(vec![partition]);
    let request = OffsetCommitRequest::default()
        .with_group_id(group(name))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![topic]);
    let answer = commit_all(coordinator, &request).await;
    answer.topics[0].partitions[0].error_code
}

async fn fetched(coordinator: &Coordinator, name: &str, stable: bool) -> Option<i64> {
    let request = OffsetFetchRequestGroup::default()
        .with_group_id(group(name))
        .with_topics(None);
    let answer =
        handler::offset_fetch::handle_group(coordinator, &request, stable, &Room::some()).await;
    assert_eq!(answer.error_code, 0);
    let topic = answer.topics.first()?;
    Some(topic.partitions[0].committed_offset)
}

/// Returns the stable offset of partition 0 of `t`, and the error.
async fn stable(coordinator: &Coordinator, name: &str) -> (i64, i16) {
    let topic = OffsetFetchRequestTopics::default()
        .with_name(TopicName(text("t")))
        .with_partition_indexes(vec![0]);
    let request = OffsetFetchRequestGroup::default()
        .with_group_id(group(name))
        .with_topics(Some(vec![topic]));
    let answer =
        handler::offset_fetch::handle_group(coordinator, &request, true, &Room::some()).await;
    assert_eq!(answer.error_code, 0);
    let told = &answer.topics[0].partitions[0];
    (told.committed_offset, told.error_code)
}

fn code(error: ErrorCode) -> i16 {
    error.code()
}

#[test]
fn two_members_join_share_and_one_dies() {
    simulate(async {
        let coordinator = coordinator(&TestLog::default());
        let first = join(&coordinator, "g", "", 9).await;
        assert_eq!(first.error_code, code(ErrorCode::MemberIdRequired));
        let id = first.member_id.to_string();
        assert!(id.starts_with("client-") && id.len() == 43, "{id}");
        let other = {
            let coordinator = Rc::clone(&coordinator);
            task::spawn(async move { join(&coordinator, "g", "", 3).await })
        };
        let leader = join(&coordinator, "g", &id, 9).await;
        let follower = other.await.unwrap();
        assert_eq!((leader.error_code, follower.error_code), (0, 0));
        let (leader, follower) = if leader.members.is_empty() {
            (follower, leader)
        } else {
            (leader, follower)
        };
        assert_eq!(leader.members.len(), 2);
        let waiting = {
            let (coordinator, follower) = (Rc::clone(&coordinator), follower.clone());
            task::spawn(async move { sync(&coordinator, "g", &follower).await })
        };
        let mine = sync(&coordinator, "g", &leader).await;
        assert_eq!(mine.assignment, leader.member_id.as_bytes());
        assert_eq!(
            waiting.await.unwrap().assignment,
            follower.member_id.as_bytes()
        );
        // The follower sends no heartbeats.
        for _ in 0..4 {
            coordinator
                .platform
                .clock()
                .sleep(Duration::from_secs(4))
                .await;
            let _ = beat(&coordinator, "g", &leader);
        }
        assert_eq!(
            beat(&coordinator, "g", &leader),
            code(ErrorCode::RebalanceInProgress)
        );
        assert_eq!(
            beat(&coordinator, "g", &follower),
            code(ErrorCode::UnknownMemberId)
        );
        let alone = join(&coordinator, "g", &leader.member_id, 9).await;
        assert_eq!(
            (alone.error_code, alone.generation_id, alone.members.len()),
            (0, 2, 1)
        );
    });
}

#[test]
fn requests_are_checked_before_a_group_is_asked() {
    simulate(async {
        let coordinator = coordinator(&TestLog::default());
        assert_eq!(
            join(&coordinator, "", "", 9).await.error_code,
            code(ErrorCode::InvalidGroupId)
        );
        let client = Client {
            id: text("c"),
            host: text("/::1"),
        };
        let request = JoinGroupRequest::default()
            .with_group_id(group("g"))
            .with_session_timeout_ms(5_999);
        let answer = handler::join_group::handle(&coordinator, request, 5, &client, &FREE).await;
        assert_eq!(answer.error_code, code(ErrorCode::InvalidSessionTimeout));
        let many = (0..1_001)
            .map(|at| JoinGroupRequestProtocol::default().with_name(text(&format!("p{at}"))));
        let request = JoinGroupRequest::default()
            .with_group_id(group("g"))
            .with_session_timeout_ms(10_000)
            .with_protocol_type(text("consumer"))
            .with_protocols(many.collect());
        let refused = handler::join_group::handle(&coordinator, request, 5, &client, &FREE).await;
        assert_eq!(refused.error_code, code(ErrorCode::InvalidRequest));
        // Old clients cannot read a null name.
        assert_eq!(answer.protocol_name.as_deref(), Some(""));
        let leave = LeaveGroupRequest::default()
            .with_group_id(group("g"))
            .with_members(vec![MemberIdentity::default().with_member_id(text("x"))]);
        let answer = handler::leave_group::handle(&coordinator, &leave, 3).await;
        assert_eq!(
            answer.members[0].error_code,
            code(ErrorCode::UnknownMemberId)
        );
        let answer = handler::leave_group::handle(&coordinator, &leave, 2).await;
        assert_eq!(answer.error_code, code(ErrorCode::UnknownMemberId));
        assert!(answer.members.is_empty());
    });
}

/// Counts how often another task has its turn while `work` runs.
async fn turns_beside<R>(work: impl Future<Output = R>) -> (usize, R) {
    let turns = Rc::new(std::cell::Cell::new(0));
    let counter = Rc::clone(&turns);
    let other = task::spawn(async move {
        loop {
            counter.set(counter.get() + 1);
            task::yield_now().await;
        }
    });
    let done = work.await;
    other.abort();
    (turns.get(), done)
}

async fn delete(coordinator: &Coordinator, name: &str) -> i16 {
    handler::delete_groups::handle_group(coordinator, &group(name))
        .await
        .error_code
}

#[test]
fn forgotten_groups_go_after_their_retention() {
    for jump_hours in [-24 * 365, -2, 0, 2, 24 * 365] {
        forgotten_after_retention(jump_hours * 3_600_000);
    }
}

fn forgotten_after_retention(jump_ms: i64) {
    simulate(async {
        let log = TestLog::default();
        let coordinator = coordinator(&log);
        commit(&coordinator, "g", 1).await;
        let clock = coordinator.platform.clock().clone();
        clock.jump_ms(jump_ms);
        clock.sleep(Duration::from_mins(55)).await;
        assert_eq!(fetched(&coordinator, "g", false).await, Some(1));
        clock.sleep(Duration::from_mins(20)).await;
        assert_eq!(fetched(&coordinator, "g", false).await, None);
        let list = handler::list_groups::handle(
            &coordinator,
            &ListGroupsRequest::default(),
            &Room::some(),
            &FREE,
        )
        .await;
        assert!(list.groups.is_empty());
        let tombstones = log
            .0
            .records
            .borrow()
            .iter()
            .filter(|(_, value)| value.is_none())
            .count();
        assert_eq!(tombstones, 2);
    });
}

#[test]
fn others_have_their_turn_during_a_survey_after_so_many_groups_and_offsets_of_all_partitions() {
    simulate(async {
        let coordinator = coordinator(&TestLog::default());
        let (turns, _) = turns_beside(coordinator.survey(1 << 20)).await;
        assert!(turns <= 1, "{turns} turns for nothing");
        // Each partition has fewer groups than are visited at once.
        for number in 0..VISITED_AT_ONCE + VISITED_AT_ONCE / 2 {
            assert_eq!(commit(&coordinator, &format!("g-{number}"), 1).await, 0);
        }
        // Less would do for the groups alone.
        let (turns, narrow) = turns_beside(coordinator.survey(1)).await;
        assert!(narrow.groups.is_empty() && turns >= 1, "{turns} turns");
        let count = i32::try_from(2 * VISITED_AT_ONCE).unwrap();
        for name in ["a", "b", "c"] {
            commit_all(&coordinator, &many(name, count, 1)).await;
        }
        let (turns, survey) = turns_beside(coordinator.survey(8 << 20)).await;
        assert_eq!(survey.left_out, 0);
        assert!(turns >= 5, "{turns} turns");
    });
}

#[test]
fn a_target_of_many_partitions_is_made_beside_the_shard_and_found_by_a_heartbeat() {
    simulate(async {
        let log = TestLog::default();
        *log.0.cluster.borrow_mut() = FakeCluster::of(&[("much", 30_000)]);
        let coordinator = coordinator(&log);
        let client = Client {
            id: text("client"),
            host: text("/127.0.0.1"),
        };
        let member = || {
            wire::messages::ConsumerGroupHeartbeatRequest::default()
                .with_group_id(group("g"))
                .with_member_id(text("a"))
        };
        let join = member()
            .with_rebalance_timeout_ms(10_000)
            .with_subscribed_topic_names(Some(vec![TopicName(text("much"))]))
            .with_topic_partitions(Some(Vec::new()));
        let beat = handler::consumer_group_heartbeat::handle;
        let joined = beat(&coordinator, &join, 1, &client, true, &FREE).await;
        assert_eq!(joined.error_code, 0);
        assert!(
            joined
                .assignment
                .is_none_or(|all| all.topic_partitions.is_empty())
        );
        let epoch = joined.member_epoch;
        loop {
            // Simulated time does not pass while another thread works.
            task::yield_now().await;
            let next = member().with_member_epoch(epoch);
            let next = beat(&coordinator, &next, 1, &client, true, &FREE).await;
            assert_eq!(next.error_code, 0);
            if next.member_epoch > epoch {
                let all = next.assignment.unwrap().topic_partitions;
                assert_eq!(all[0].partitions.len(), 30_000);
                break;
            }
        }
    });
}
