//! The coordinator of a shard: waiting requests, ordered appends, loads, unloads, timeouts.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use platform::runtime::run_simulated;
use platform::sim::SimPlatform;
use platform::task;
use platform::{Platform, sync::oneshot};
use storage::log::producer_state::TransactionOutcome;
use wire::acl::{Operation, ResourceType};
use wire::messages::join_group_request::JoinGroupRequestProtocol;
use wire::messages::leave_group_request::MemberIdentity;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use wire::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::messages::sync_group_request::SyncGroupRequestAssignment;
use wire::messages::{
    GroupId, HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest,
    ListGroupsRequest, OffsetCommitRequest, OffsetCommitResponse, OffsetDeleteRequest,
    SyncGroupRequest, SyncGroupResponse, TopicName,
};
use wire::protocol::StrBytes;
use wire::records::offsets::{GroupMetadataValue, OffsetCommitValue};
use wire::types::{ErrorCode, LeaderEpoch, Offset, ProducerId, TimestampMs, TopicId, Uuid};

use super::{
    GoneTopics, GroupAppendError, GroupCoordinator, LoggedRecord, OffsetsLog, OpenTransactions,
    VISITED_AT_ONCE,
};
use crate::access::Access;
use crate::access::given::limited_to;
use crate::answers::Answers;
use crate::group::cluster::fake::FakeCluster;
use crate::group::groups::Groups;
use crate::group::metrics::Metrics;
use crate::group::records::{GroupRecord, RawRecord};
use crate::group::{Client, Topics, is_long, partition_for};
use crate::handler;
use crate::options::GroupOptions;
use crate::room::Room;

mod protocols;

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

#[test]
fn commits_are_answered_when_they_are_in_the_log_and_gathered_meanwhile() {
    simulate(async {
        let log = TestLog::default();
        let coordinator = coordinator(&log);
        log.0.held.set(true);
        let spawn = |offset| {
            let coordinator = Rc::clone(&coordinator);
            task::spawn(async move { commit(&coordinator, "g", offset).await })
        };
        let first = spawn(1);
        settle().await;
        let others = [spawn(2), spawn(3)];
        settle().await;
        assert_eq!(fetched(&coordinator, "g", false).await, None);
        let stable = {
            let coordinator = Rc::clone(&coordinator);
            task::spawn(async move { fetched(&coordinator, "g", true).await })
        };
        settle().await;
        assert_eq!(log.end(Ok(())).await, 1);
        assert_eq!(first.await.unwrap(), 0);
        assert_eq!(fetched(&coordinator, "g", false).await, Some(1));
        assert!(!stable.is_finished());
        assert_eq!(log.end(Ok(())).await, 2);
        for other in others {
            assert_eq!(other.await.unwrap(), 0);
        }
        assert_eq!(stable.await.unwrap(), Some(3));
    });
}

#[test]
fn a_position_that_the_log_refuses_is_not_told_as_stable() {
    simulate(async {
        let log = TestLog::default();
        let coordinator = coordinator(&log);
        commit(&coordinator, "g", 1).await;
        log.0.held.set(true);
        let (count, visited) = (5, i32::try_from(VISITED_AT_ONCE).unwrap());
        for (partitions, rests) in [(1, 0), (count * visited, 2)] {
            let committing = {
                let coordinator = Rc::clone(&coordinator);
                let request = many("g", partitions, 9);
                task::spawn(async move { commit_all(&coordinator, &request).await })
            };
            while log.0.pending.borrow().is_empty() {
                settle().await;
            }
            let asked = {
                let coordinator = Rc::clone(&coordinator);
                task::spawn(async move {
                    let request = OffsetFetchRequestGroup::default()
                        .with_group_id(group("g"))
                        .with_topics(None);
                    let room = Room::some();
                    handler::offset_fetch::handle_group(&coordinator, &request, true, &room).await
                })
            };
            // With `rests` some of the answer is built already; otherwise it waits for the append
            // in flight.
            for _ in 0..=rests {
                task::yield_now().await;
            }
            let refused = Err(GroupAppendError::Refused(ErrorCode::NotEnoughReplicas));
            log.end(refused).await;
            let answer = asked.await.unwrap();
            let told = answer.topics.iter().flat_map(|topic| &topic.partitions);
            let told: Vec<i64> = told.map(|one| one.committed_offset).collect();
            let comes_again = answer.error_code == code(ErrorCode::CoordinatorLoadInProgress);
            assert!(comes_again || told == [1], "{} {told:?}", answer.error_code);
            committing.await.unwrap();
        }
        log.0.held.set(false);
        assert_eq!(fetched(&coordinator, "g", true).await, Some(1));
    });
}

#[test]
fn of_an_address_that_holds_too_much_positions_are_not_told_to_their_end() {
    simulate(async {
        let coordinator = coordinator(&TestLog::default());
        let mut request = many("g", 2000, 1);
        for partition in &mut request.topics[0].partitions {
            partition.committed_metadata = Some(StrBytes::from_string("n".repeat(200)));
        }
        commit_all(&coordinator, &request).await;
        let asked = OffsetFetchRequestGroup::default()
            .with_group_id(group("g"))
            .with_topics(None);
        let answers = Answers::new(32 << 20);
        let ip = std::net::IpAddr::from([10, 0, 0, 1]);
        let slow = answers.account(ip);
        let room = Room::of(&answers, ip);
        let fetch = handler::offset_fetch::handle_group(&coordinator, &asked, false, &room);
        let (_, told) = turns_beside(fetch).await;
        assert_eq!(
            (told.error_code, told.topics[0].partitions.len()),
            (0, 2000)
        );
        assert!(answers.used_bytes() > 400_000, "{}", answers.used_bytes());
        drop(room);
        // Memory that the address takes while the answer is built counts, too.
        let room = Room::of(&answers, ip);
        slow.hold(20 << 20);
        let told = handler::offset_fetch::handle_group(&coordinator, &asked, false, &room).await;
        assert_eq!(told.error_code, code(ErrorCode::CoordinatorLoadInProgress));
        assert!(answers.used_bytes() < (20 << 20) + 300_000);
        slow.release(20 << 20);
    });
}

/// Every record has the group id: a request of half a megabyte would become three gigabytes of
/// records.
#[test]
fn a_commit_of_more_than_a_batch_can_hold_is_refused_before_it_is_made() {
    simulate(async {
        let log = TestLog::default();
        let coordinator = coordinator(&log);
        let partitions = (0..30_000).map(|index| {
            OffsetCommitRequestPartition::default()
                .with_partition_index(index)
                .with_committed_offset(1)
        });
        let topic = OffsetCommitRequestTopic::default()
            .with_name(TopicName(text("t")))
            .with_partitions(partitions.collect());
        let request = OffsetCommitRequest::default()
            .with_group_id(group(&"g".repeat(30_000)))
            .with_generation_id_or_member_epoch(-1)
            .with_topics(vec![topic]);
        let answer = commit_all(&coordinator, &request).await;
        let codes = answer.topics[0].partitions.iter().map(|one| one.error_code);
        assert_eq!(codes.clone().count(), 30_000);
        assert!(
            codes
                .into_iter()
                .all(|one| one == code(ErrorCode::UnknownServerError))
        );
        assert!(log.0.records.borrow().is_empty());
        // Later requests are served.
        assert_eq!(commit(&coordinator, "g", 1).await, 0);
    });
}

/// Returns a commit of `count` offsets of `t`, to its partitions in turn.
fn many(name: &str, count: i32, offset: i64) -> OffsetCommitRequest {
    let partitions = (0..count).map(|index| {
        OffsetCommitRequestPartition::default()
            .with_partition_index(index)
            .with_committed_offset(offset)
    });
    let topic = OffsetCommitRequestTopic::default()
        .with_name(TopicName(text("t")))
        .with_partitions(partitions.collect());
    OffsetCommitRequest::default()
        .with_group_id(group(name))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![topic])
}

#[test]
fn a_commit_does_not_overtake_a_large_one_that_came_before_it() {
    simulate(async {
        let log = TestLog::default();
        let coordinator = coordinator(&log);
        let asked = [(20_000, 1), (1, 2), (20_000, 3), (1, 4)];
        let asked: Vec<_> = asked
            .into_iter()
            .map(|(count, offset)| {
                let coordinator = Rc::clone(&coordinator);
                let request = many("g", count, offset);
                task::spawn(async move { commit_all(&coordinator, &request).await })
            })
            .collect();
        // Commits to other groups do not wait.
        settle().await;
        assert_eq!(commit(&coordinator, "h", 1).await, 0);
        assert!(!asked[0].is_finished());
        for asked in asked {
            let answer = asked.await.unwrap();
            assert!(
                answer.topics[0]
                    .partitions
                    .iter()
                    .all(|one| one.error_code == 0)
            );
        }
        let of_first = log
            .0
            .records
            .borrow()
            .iter()
            .filter_map(|(key, value)| {
                match GroupRecord::decode(key, value.as_deref()).unwrap()? {
                    GroupRecord::Offset {
                        group,
                        partition: 0,
                        value,
                        ..
                    } if group.as_str() == "g" => Some(value?.offset),
                    _ => None,
                }
            })
            .collect::<Vec<_>>();
        assert_eq!(of_first, [1, 2, 3, 4]);
        assert!(
            coordinator
                .in_line(&text("g"), &text("/h"), false)
                .is_none()
        );
    });
}

#[test]
fn a_strangers_long_commit_to_a_group_does_not_hold_up_those_of_its_members() {
    simulate(async {
        let coordinator = coordinator(&TestLog::default());
        let spawn = |host: &'static str, count, offset| {
            let coordinator = Rc::clone(&coordinator);
            let request = many("g", count, offset);
            task::spawn(async move { commit_from(&coordinator, host, &request).await })
        };
        let strangers = spawn("/2001:db8::1", 20_000, 1);
        let of_its_network = spawn("/2001:db8::2", 1, 2);
        let members = spawn("/10.0.0.1", 1, 3);
        let answer = members.await.unwrap();
        assert_eq!(answer.topics[0].partitions[0].error_code, 0);
        assert!(!strangers.is_finished() && !of_its_network.is_finished());
        strangers.await.unwrap();
        of_its_network.await.unwrap();
        assert_eq!(fetched(&coordinator, "g", false).await, Some(2));
    });
}

/// A decision is not interrupted, and it checks the whole commit again when topics were added or
/// deleted.
#[test]
fn a_commit_that_no_batch_holds_is_not_looked_at_again_and_however_large_batches_are_there_is_a_bound()
 {
    simulate(async {
        let log = TestLog::default();
        log.0.more_bytes.set(64 << 20);
        let coordinator = coordinator(&log);
        let host = text("/h");
        let commit = async |count| {
            let request = many("g", count, 1);
            let asked = std::cell::Cell::new(false);
            let now = || {
                asked.set(true);
                (Arc::new(AnyTopic), None)
            };
            let place = coordinator.in_line(&request.group_id, &host, true);
            let topics = (Arc::new(AnyTopic), now);
            let place = (&host, place);
            let done =
                handler::offset_commit::handle(&coordinator, &request, 8, place, topics, &FREE);
            let answer = done.await;
            (answer.topics[0].partitions[0].error_code, asked.get())
        };
        let refused = code(ErrorCode::UnknownServerError);
        assert_eq!(commit(150_000).await, (refused, false));
        assert_eq!(commit(20_000).await, (0, true));
    });
}

#[test]
fn a_commit_is_judged_by_the_rights_of_its_turn_even_if_no_topic_has_changed() {
    simulate(async {
        let coordinator = coordinator(&TestLog::default());
        let topic = (ResourceType::Topic, "t", Operation::Read);
        let group = (ResourceType::Group, "g", Operation::Read);
        for (left, lost) in [
            (group, ErrorCode::TopicAuthorizationFailed),
            (topic, ErrorCode::GroupAuthorizationFailed),
        ] {
            let (request, host) = (many("g", 1, 7), text("/h"));
            let place = coordinator.in_line(&request.group_id, &host, false);
            let seen = Arc::new(AnyTopic);
            let now = || (Arc::clone(&seen), Some(limited_to(&[left])));
            let (topics, before) = ((Arc::clone(&seen), now), limited_to(&[topic, group]));
            let place = (&host, place);
            let done =
                handler::offset_commit::handle(&coordinator, &request, 8, place, topics, &before);
            let answer = done.await;
            assert_eq!(answer.topics[0].partitions[0].error_code, code(lost));
        }
        assert_ne!(fetched(&coordinator, "g", false).await, Some(7));
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

#[test]
fn others_have_their_turn_while_many_positions_are_committed_read_and_deleted() {
    simulate(async {
        let coordinator = coordinator(&TestLog::default());
        let (turns, answer) = turns_beside(commit_all(&coordinator, &many("g", 10_240, 1))).await;
        assert_eq!(answer.topics[0].partitions[0].error_code, 0);
        assert!(turns >= 19, "{turns} turns");
        let asked = |topics| {
            OffsetFetchRequestGroup::default()
                .with_group_id(group("g"))
                .with_topics(topics)
        };
        let topic = OffsetFetchRequestTopics::default()
            .with_name(TopicName(text("t")))
            .with_partition_indexes((0..10_240).collect());
        let room = Room::some();
        for topics in [None, Some(vec![topic])] {
            let asked = asked(topics);
            let fetch = handler::offset_fetch::handle_group(&coordinator, &asked, true, &room);
            let (turns, answer) = turns_beside(fetch).await;
            let indexes = answer.topics[0]
                .partitions
                .iter()
                .map(|one| one.partition_index);
            assert!(indexes.eq(0..10_240));
            assert!(turns >= 19, "{turns} turns");
        }
        let gone = (0..10_240)
            .map(|index| OffsetDeleteRequestPartition::default().with_partition_index(index));
        let topic = OffsetDeleteRequestTopic::default()
            .with_name(TopicName(text("t")))
            .with_partitions(gone.collect());
        let request = OffsetDeleteRequest::default()
            .with_group_id(group("g"))
            .with_topics(vec![topic]);
        let topics = || (Arc::new(AnyTopic), None);
        let delete = handler::offset_delete::handle(&coordinator, &request, topics, &FREE);
        let (turns, answer) = turns_beside(delete).await;
        assert_eq!(answer.topics[0].partitions.len(), 10_240);
        assert!(turns >= 19, "{turns} turns");
        assert_eq!(fetched(&coordinator, "g", false).await, None);
    });
}

/// Each entry has a few bytes in the request and four thousand in the answer.
#[test]
fn an_answer_does_not_grow_by_naming_a_partition_again_and_again() {
    simulate(async {
        let coordinator = coordinator(&TestLog::default());
        let mut request = many("g", 1, 1);
        let note = StrBytes::from_string("n".repeat(4096));
        request.topics[0].partitions[0].committed_metadata = Some(note);
        commit_all(&coordinator, &request).await;
        let fetch = async |times| {
            let topic = OffsetFetchRequestTopics::default()
                .with_name(TopicName(text("t")))
                .with_partition_indexes(vec![0; times]);
            let request = OffsetFetchRequestGroup::default()
                .with_group_id(group("g"))
                .with_topics(Some(vec![topic]));
            handler::offset_fetch::handle_group(&coordinator, &request, false, &Room::some())
                .await
                .error_code
        };
        assert_eq!(fetch(100).await, 0);
        assert_eq!(fetch(200_000).await, code(ErrorCode::PolicyViolation));
    });
}

#[test]
fn a_failed_append_is_told_in_words_that_clients_understand() {
    simulate(async {
        let log = TestLog::default();
        let coordinator = coordinator(&log);
        commit(&coordinator, "g", 1).await;
        log.0.held.set(true);
        for (error, told, after) in [
            (ErrorCode::KafkaStorageError, ErrorCode::NotCoordinator, 1),
            (ErrorCode::MessageTooLarge, ErrorCode::UnknownServerError, 1),
        ] {
            let asked = {
                let coordinator = Rc::clone(&coordinator);
                task::spawn(async move { commit(&coordinator, "g", 9).await })
            };
            settle().await;
            log.end(Err(GroupAppendError::Refused(error))).await;
            assert_eq!(asked.await.unwrap(), code(told));
            assert_eq!(fetched(&coordinator, "g", false).await, Some(after));
        }
    });
}

/// A disk without room writes accepted records when there is room again.
#[test]
fn while_the_fate_of_a_commit_is_not_known_nobody_acts_on_it_and_then_it_counts() {
    simulate(async {
        let log = TestLog::default();
        let coordinator = coordinator(&log);
        let clock = coordinator.platform.clock().clone();
        let spawn = |offset| {
            let coordinator = Rc::clone(&coordinator);
            task::spawn(async move { commit(&coordinator, "h", offset).await })
        };
        log.0.held.set(true);
        let first = spawn(7);
        settle().await;
        let behind = spawn(8);
        settle().await;
        clock.sleep(Duration::from_secs(6)).await;
        settle().await;
        let come_back = code(ErrorCode::CoordinatorNotAvailable);
        assert_eq!(first.await.unwrap(), come_back);
        assert_eq!(behind.await.unwrap(), come_back);
        // Changes are refused, also later; committed offsets can be read, others cannot.
        clock.sleep(Duration::from_hours(1)).await;
        assert_eq!(commit(&coordinator, "h", 9).await, come_back);
        assert_eq!(join(&coordinator, "h", "", 3).await.error_code, come_back);
        assert_eq!(fetched(&coordinator, "h", false).await, None);
        assert_eq!(coordinator.metrics.stalled_partitions.get(), 1);
        // There is room: the offset is in the log and in memory, and the slot serves again.
        log.0.held.set(false);
        assert_eq!(log.end(Ok(())).await, 1);
        assert_eq!(fetched(&coordinator, "h", false).await, Some(7));
        assert_eq!(coordinator.metrics.stalled_partitions.get(), 0);
        assert_eq!(commit(&coordinator, "h", 10).await, 0);
        assert_eq!(fetched(&coordinator, "h", true).await, Some(10));
    });
}

/// The session timeout is ten seconds, and for an hour no heartbeat was handled.
#[test]
fn no_member_is_given_up_for_a_time_in_which_the_log_took_nothing() {
    simulate(async {
        let log = TestLog::default();
        let coordinator = coordinator(&log);
        let clock = coordinator.platform.clock().clone();
        let member = join(&coordinator, "g", "", 3).await;
        assert_eq!(sync(&coordinator, "g", &member).await.error_code, 0);
        log.0.held.set(true);
        // A commit of another group in the partition, which the log does not accept.
        let mut names = (0..).map(|at| format!("n{at}"));
        let beside = names.find(|name| partition_for(name, 4) == partition_for("g", 4));
        let asked = {
            let coordinator = Rc::clone(&coordinator);
            task::spawn(async move { commit(&coordinator, &beside.unwrap(), 1).await })
        };
        clock.sleep(Duration::from_secs(7)).await;
        assert_eq!(beat(&coordinator, "g", &member), 0);
        clock.sleep(Duration::from_hours(1)).await;
        asked.await.unwrap();
        log.0.held.set(false);
        log.end(Ok(())).await;
        clock.sleep(Duration::from_secs(9)).await;
        assert_eq!(beat(&coordinator, "g", &member), 0);
        clock.sleep(Duration::from_secs(11)).await;
        assert_eq!(
            beat(&coordinator, "g", &member),
            code(ErrorCode::UnknownMemberId)
        );
    });
}

#[test]
fn groups_of_which_nobody_knows_what_the_log_has_are_loaded_again() {
    simulate(async {
        let log = TestLog::default();
        let coordinator = coordinator(&log);
        let partition = partition_for("g", 4);
        for attempt in 1..3 {
            log.0.held.set(true);
            let asked = {
                let coordinator = Rc::clone(&coordinator);
                task::spawn(async move { commit(&coordinator, "g", 1).await })
            };
            settle().await;
            log.end(Err(GroupAppendError::Unknown)).await;
            log.0.held.set(false);
            let not_here = code(ErrorCode::NotCoordinator);
            assert_eq!(asked.await.unwrap(), not_here);
            assert_eq!(commit(&coordinator, "g", 2).await, not_here);
            assert_eq!(coordinator.failed_slots(), 1);
            assert_eq!(coordinator.metrics.failed_partitions.get(), 1);
            assert_eq!(log.0.again.borrow_mut().pop(), Some((partition, attempt)));
            let mut loading = coordinator.begin_load(partition);
            if attempt == 1 {
                // The first reload fails, too.
                coordinator.fail_load((partition, loading));
                assert_eq!(log.0.again.borrow_mut().pop(), Some((partition, 2)));
                loading = coordinator.begin_load(partition);
            }
            coordinator.finish_load((partition, loading), LeaderEpoch(1));
            assert_eq!(commit(&coordinator, "g", 3).await, 0);
            assert_eq!(coordinator.failed_slots(), 0);
            assert_eq!(coordinator.metrics.failed_partitions.get(), 0);
            if attempt == 1 {
                // A load that succeeds resets the count.
                assert!(coordinator.failures.borrow().is_empty());
                break;
            }
        }
    });
}

#[test]
fn a_partition_that_is_loaded_or_elsewhere_says_so() {
    simulate(async {
        let log = TestLog::default();
        let coordinator = coordinator(&log);
        let partition = partition_for("g", 4);
        coordinator.begin_load(partition);
        let loading = code(ErrorCode::CoordinatorLoadInProgress);
        assert_eq!(commit(&coordinator, "g", 1).await, loading);
        assert_eq!(join(&coordinator, "g", "", 9).await.error_code, loading);
        // A loading partition answers heartbeats without an error, so that members stay.
        assert_eq!(beat(&coordinator, "g", &JoinGroupResponse::default()), 0);
        let list = handler::list_groups::handle(
            &coordinator,
            &ListGroupsRequest::default(),
            &Room::some(),
            &FREE,
        )
        .await;
        assert_eq!(list.error_code, loading);
        coordinator.unload(partition);
        assert_eq!(
            commit(&coordinator, "g", 1).await,
            code(ErrorCode::NotCoordinator)
        );
        load_nothing(&coordinator, partition, LeaderEpoch(1));
        assert_eq!(commit(&coordinator, "g", 1).await, 0);
        log.0.gone.set(true);
        assert_eq!(
            commit(&coordinator, "g", 1).await,
            code(ErrorCode::NotCoordinator)
        );
    });
}

#[test]
fn who_waits_when_the_partition_goes_is_told() {
    simulate(async {
        let log = TestLog::default();
        let coordinator = coordinator(&log);
        log.0.held.set(true);
        let waiting = {
            let coordinator = Rc::clone(&coordinator);
            task::spawn(async move { join(&coordinator, "g", "", 3).await.error_code })
        };
        let queued = {
            let coordinator = Rc::clone(&coordinator);
            task::spawn(async move {
                settle().await;
                commit(&coordinator, "h", 1).await
            })
        };
        settle().await;
        for partition in 0..4 {
            coordinator.unload(partition);
        }
        let mut pending = log.0.pending.borrow_mut().split_off(0);
        pending.drain(..).for_each(|(_, sender)| drop(sender));
        let not_here = code(ErrorCode::NotCoordinator);
        assert_eq!(waiting.await.unwrap(), not_here);
        assert_eq!(queued.await.unwrap(), not_here);
    });
}

#[test]
fn a_restart_finds_groups_and_offsets_and_members_have_a_session_to_be_heard() {
    simulate(async {
        let log = TestLog::default();
        let before = coordinator(&log);
        let joined = join(&before, "g", "", 3).await;
        sync(&before, "g", &joined).await;
        commit(&before, "simple", 42).await;
        let after = GroupCoordinator::new(
            SimPlatform::new(2),
            options(),
            log.clone(),
            Metrics::default(),
        );
        let loads: Vec<_> = (0..4)
            .map(|partition| after.begin_load(partition))
            .collect();
        for (at, (key, value)) in log.0.records.borrow().iter().enumerate() {
            let group = GroupRecord::decode(key, value.as_deref()).unwrap().unwrap();
            let partition = partition_for(group.group(), 4);
            let offset = Offset(i64::try_from(at).unwrap());
            let load = loads[usize::try_from(partition).unwrap()];
            after.replay(
                (partition, load),
                key,
                value.as_ref(),
                offset,
                TimestampMs(0),
            );
        }
        for (partition, load) in (0..4).zip(loads) {
            after.finish_load((partition, load), LeaderEpoch(1));
        }
        assert_eq!(fetched(&after, "simple", false).await, Some(42));
        assert_eq!(beat(&after, "g", &joined), 0);
        assert_eq!(
            sync(&after, "g", &joined).await.assignment,
            joined.member_id.as_bytes()
        );
        after.platform.clock().sleep(Duration::from_secs(11)).await;
        assert_eq!(beat(&after, "g", &joined), code(ErrorCode::UnknownMemberId));
    });
}

#[test]
fn a_log_that_cannot_be_read_is_not_served() {
    simulate(async {
        let coordinator = coordinator(&TestLog::default());
        let partition = partition_for("g", 4);
        let replay = |load: u64, key: &'static [u8]| {
            let key = Bytes::from_static(key);
            coordinator.replay((partition, load), &key, None, Offset(0), TimestampMs(0));
        };
        let load = coordinator.begin_load(partition);
        // A record of an unknown type is ignored.
        replay(load, b"\x00\x63");
        coordinator.finish_load((partition, load), LeaderEpoch(0));
        assert_eq!(commit(&coordinator, "g", 1).await, 0);
        let load = coordinator.begin_load(partition);
        replay(load, b"\x00\x01\x00\x05");
        coordinator.finish_load((partition, load), LeaderEpoch(0));
        assert_eq!(
            commit(&coordinator, "g", 1).await,
            code(ErrorCode::NotCoordinator)
        );
    });
}

#[test]
fn what_a_loading_reads_that_is_over_moves_no_position_of_the_next_one() {
    simulate(async {
        let log = TestLog::default();
        let coordinator = coordinator(&log);
        let partition = partition_for("g", 4);
        for offset in [1, 2] {
            assert_eq!(commit(&coordinator, "g", offset).await, 0);
        }
        let records = log.0.records.borrow().clone();
        let written = |index: usize| LoggedRecord {
            key: records[index].0.clone(),
            value: records[index].1.clone(),
            offset: Offset(i64::try_from(index).unwrap()),
            timestamp: TimestampMs(0),
        };
        let replay = |load: u64, one: &LoggedRecord| {
            let value = one.value.as_ref();
            coordinator.replay(
                (partition, load),
                &one.key,
                value,
                one.offset,
                one.timestamp,
            );
        };
        let old = coordinator.begin_load(partition);
        let new = coordinator.begin_load(partition);
        assert!(!coordinator.is_here(partition, old));
        // A slow disk delivers the records of the first load, and its end, only now.
        replay(old, &written(0));
        let mut open = OpenTransactions::default();
        open.add(ProducerId(5), written(0));
        coordinator.keep_open((partition, old), open);
        coordinator.finish_load((partition, old), LeaderEpoch(1));
        let loading = code(ErrorCode::CoordinatorLoadInProgress);
        assert_eq!(
            commit(&coordinator, "g", 3).await,
            loading,
            "half a log is not served"
        );
        coordinator.fail_load((partition, old));
        assert_eq!(coordinator.failed_slots(), 0);
        replay(new, &written(1));
        coordinator.finish_load((partition, new), LeaderEpoch(1));
        assert_eq!(
            fetched(&coordinator, "g", true).await,
            Some(2),
            "nothing of it is open"
        );
        replay(old, &written(0));
        assert_eq!(fetched(&coordinator, "g", false).await, Some(2));
    });
}

#[test]
fn offsets_of_a_transaction_do_not_hide_later_ones() {
    simulate(async {
        let log = TestLog::default();
        let writer = coordinator(&log);
        for offset in [1, 2] {
            commit(&writer, "g", offset).await;
        }
        let records = log.0.records.borrow().clone();
        let written = |index: usize| LoggedRecord {
            key: records[index].0.clone(),
            value: records[index].1.clone(),
            offset: Offset(i64::try_from(index).unwrap()),
            timestamp: TimestampMs(0),
        };
        let reader = coordinator(&TestLog::default());
        let partition = partition_for("g", 4);
        let load = reader.begin_load(partition);
        let replay = |one: &LoggedRecord| {
            reader.replay(
                (partition, load),
                &one.key,
                one.value.as_ref(),
                one.offset,
                one.timestamp,
            );
        };
        let mut open = OpenTransactions::default();
        open.add(ProducerId(5), written(0));
        replay(&written(1));
        let mut ended = || open.end(ProducerId(5), TransactionOutcome::Commit);
        ended().iter().for_each(replay);
        assert!(ended().is_empty());
        reader.finish_load((partition, load), LeaderEpoch(0));
        assert_eq!(fetched(&reader, "g", false).await, Some(2));
    });
}

/// Returns a record that a transaction of producer 5 writes for a group and partition 0 of `t`.
fn written(name: &str, offset: i64) -> LoggedRecord {
    let record = GroupRecord::Offset {
        group: text(name),
        topic: text("t"),
        partition: 0,
        value: Some(OffsetCommitValue {
            offset,
            leader_epoch: -1,
            metadata: String::new(),
            commit_timestamp: i64::MAX,
            expire_timestamp: -1,
            topic_id: Uuid::nil(),
        }),
    };
    let (key, value) = record.encode();
    LoggedRecord {
        key,
        value,
        offset: Offset(100),
        timestamp: TimestampMs(0),
    }
}

async fn delete(coordinator: &Coordinator, name: &str) -> i16 {
    handler::delete_groups::handle_group(coordinator, &group(name))
        .await
        .error_code
}

#[test]
fn an_offset_that_a_transaction_is_about_to_move_does_not_expire_meanwhile() {
    simulate(async {
        let log = TestLog::default();
        let coordinator = coordinator(&log);
        let partition = partition_for("g", 4);
        commit(&coordinator, "g", 1).await;
        let clock = coordinator.platform.clock().clone();
        clock.sleep(Duration::from_mins(55)).await;
        coordinator.opened(partition, ProducerId(5), vec![written("g", 7)]);
        clock.sleep(Duration::from_mins(20)).await;
        assert_eq!(fetched(&coordinator, "g", false).await, Some(1));
        let ended =
            coordinator.end_transaction(partition, ProducerId(5), TransactionOutcome::Commit);
        ended.await;
        assert_eq!(fetched(&coordinator, "g", false).await, Some(7));
    });
}

/// The marker is committed, a commit of another group is in flight, and the offset has not taken
/// effect: the old offset, returned as stable, would make the client read the transaction's input
/// again.
#[test]
fn whoever_wants_stable_positions_is_not_told_the_old_one_while_a_transaction_is_taken_in() {
    simulate(async {
        let log = TestLog::default();
        let coordinator = coordinator(&log);
        let partition = partition_for("g", 4);
        commit(&coordinator, "g", 1).await;
        coordinator.opened(partition, ProducerId(5), vec![written("g", 7)]);
        log.0.held.set(true);
        let beside = {
            let coordinator = Rc::clone(&coordinator);
            let mut others = (0..).map(|at| format!("other-{at}"));
            let beside = others
                .find(|name| partition_for(name, 4) == partition)
                .unwrap();
            task::spawn(async move { commit(&coordinator, &beside, 2).await })
        };
        settle().await;
        let ended = {
            let coordinator = Rc::clone(&coordinator);
            task::spawn(async move {
                let ended = coordinator.end_transaction(
                    partition,
                    ProducerId(5),
                    TransactionOutcome::Commit,
                );
                ended.await;
            })
        };
        settle().await;
        // The producer's next transaction has begun and does not take effect with this one.
        coordinator.opened(partition, ProducerId(5), vec![written("g", 9)]);
        let asked = {
            let coordinator = Rc::clone(&coordinator);
            task::spawn(async move { stable(&coordinator, "g").await })
        };
        settle().await;
        log.0.held.set(false);
        log.end(Ok(())).await;
        assert_eq!(beside.await.unwrap(), 0);
        ended.await.unwrap();
        let unstable = ErrorCode::UnstableOffsetCommit.code();
        assert_eq!(asked.await.unwrap(), (-1, unstable));
        assert_eq!(fetched(&coordinator, "g", false).await, Some(7));
        assert_eq!(stable(&coordinator, "g").await, (-1, unstable));
        let ended =
            coordinator.end_transaction(partition, ProducerId(5), TransactionOutcome::Commit);
        ended.await;
        assert_eq!(stable(&coordinator, "g").await, (9, 0));
    });
}

/// A tool has written it: no coordinator does so in a transaction. The next start must not make a
/// group of it that was not there at run time.
#[test]
fn of_a_transaction_only_offsets_count_at_run_time_and_at_a_start_alike() {
    simulate(async {
        let partition = partition_for("g", 4);
        let mut names = (0..).map(|at| format!("other-{at}"));
        let other = names.find(|name| partition_for(name, 4) == partition);
        let other = other.unwrap();
        let record = GroupRecord::Metadata {
            group: text(&other),
            value: Some(GroupMetadataValue::default()),
        };
        let (key, value) = record.encode();
        let of_a_tool = LoggedRecord {
            key,
            value,
            ..written("g", 7)
        };
        let writes = [written("g", 7), of_a_tool];

        let served = coordinator(&TestLog::default());
        served.opened(partition, ProducerId(5), writes.to_vec());
        let ended = served.end_transaction(partition, ProducerId(5), TransactionOutcome::Commit);
        ended.await;

        let started = coordinator(&TestLog::default());
        let load = started.begin_load(partition);
        let mut open = OpenTransactions::default();
        for write in writes {
            open.add(ProducerId(5), write);
        }
        for one in open.end(ProducerId(5), TransactionOutcome::Commit) {
            let (value, at) = (one.value.as_ref(), one.offset);
            started.replay((partition, load), &one.key, value, at, one.timestamp);
        }
        assert_eq!(open.take_skipped(), 1);
        assert_eq!(open.take_skipped(), 0, "each is told of once");
        started.keep_open((partition, load), open);
        started.finish_load((partition, load), LeaderEpoch(1));

        for coordinator in [served, started] {
            assert_eq!(fetched(&coordinator, "g", false).await, Some(7));
            let found = coordinator.read(&other, |groups| groups.get(&text(&other)).is_some());
            assert_eq!(found, Ok(false));
        }
    });
}

#[test]
fn a_deleted_group_does_not_come_back_with_the_end_of_a_transaction() {
    simulate(async {
        let coordinator = coordinator(&TestLog::default());
        for name in ["committed before", "only in the transaction"] {
            let partition = partition_for(name, 4);
            if name == "committed before" {
                commit(&coordinator, name, 1).await;
            }
            coordinator.opened(partition, ProducerId(5), vec![written(name, 7)]);
            assert_eq!(delete(&coordinator, name).await, 0, "{name}");
            let ended =
                coordinator.end_transaction(partition, ProducerId(5), TransactionOutcome::Commit);
            ended.await;
            assert_eq!(fetched(&coordinator, name, false).await, None, "{name}");
            let gone = code(ErrorCode::GroupIdNotFound);
            assert_eq!(delete(&coordinator, name).await, gone, "{name}");
        }
    });
}

#[test]
fn what_a_transaction_has_written_of_a_deleted_topic_does_not_count_at_its_end() {
    simulate(async {
        let coordinator = coordinator(&TestLog::default());
        let partition = partition_for("g", 4);
        coordinator.opened(partition, ProducerId(5), vec![written("g", 7)]);
        let other = TopicId(Uuid::from_u128(8));
        coordinator.topics_deleted(GoneTopics::of([(text("other"), other)]));
        settle().await;
        assert_eq!(fetched(&coordinator, "g", true).await, None);
        let is_open = |groups: &Groups| groups.open.all_of(&text("g")).is_some();
        assert!(coordinator.read("g", is_open).unwrap());
        coordinator.topics_deleted(GoneTopics::of([(text("t"), other)]));
        settle().await;
        let ended =
            coordinator.end_transaction(partition, ProducerId(5), TransactionOutcome::Commit);
        ended.await;
        assert_eq!(fetched(&coordinator, "g", false).await, None);
    });
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
fn many_groups_are_loaded_and_listed_some_at_a_time() {
    simulate(async {
        let log = TestLog::default();
        let coordinator = coordinator(&log);
        let partition = partition_for("g", 4);
        let loading = coordinator.begin_load(partition);
        let names = (0..).map(|number| format!("g-{number}"));
        let names = names.filter(|name| partition_for(name, 4) == partition);
        let names: std::collections::BTreeSet<String> = names.take(3000).collect();
        for (at, name) in names.iter().enumerate() {
            let record = GroupRecord::Metadata {
                group: StrBytes::from_string(name.clone()),
                value: Some(GroupMetadataValue {
                    protocol_type: "consumer".to_owned(),
                    ..GroupMetadataValue::default()
                }),
            };
            let (key, value) = record.encode();
            let offset = Offset(i64::try_from(at).unwrap());
            coordinator.replay(
                (partition, loading),
                &key,
                value.as_ref(),
                offset,
                TimestampMs(0),
            );
        }
        let mut rounds = 0;
        while coordinator.load_some(partition, loading) {
            rounds += 1;
            let busy = code(ErrorCode::CoordinatorLoadInProgress);
            let name = names.first().unwrap();
            assert_eq!(commit(&coordinator, name, 1).await, busy);
        }
        assert!(rounds >= 3000 / VISITED_AT_ONCE, "{rounds} rounds");
        coordinator.finish_load((partition, loading), LeaderEpoch(1));
        let request = ListGroupsRequest::default();
        let room = Room::some();
        let mut listing = Box::pin(handler::list_groups::handle(
            &coordinator,
            &request,
            &room,
            &FREE,
        ));
        let mut rests = 0;
        let list = std::future::poll_fn(|context| {
            let listed = listing.as_mut().poll(context);
            rests += usize::from(listed.is_pending());
            listed
        })
        .await;
        assert!(rests >= 3000 / VISITED_AT_ONCE, "{rests} rests");
        let listed = list.groups.iter().map(|group| group.group_id.to_string());
        assert!(listed.eq(names));
        // Filtered groups take no room: a client can filter when an answer would be too large.
        let listed = async |request: ListGroupsRequest| {
            let answers = Answers::new(256 << 10);
            let room = Room::of_list(&answers, std::net::Ipv4Addr::LOCALHOST.into());
            let list = handler::list_groups::handle(&coordinator, &request, &room, &FREE).await;
            (list.error_code, list.groups.len())
        };
        let all = ListGroupsRequest::default;
        let refused = code(ErrorCode::PolicyViolation);
        assert_eq!(listed(all()).await, (refused, 0));
        let by_state = all().with_states_filter(vec![text("Stable")]);
        assert_eq!(listed(by_state).await, (0, 0));
        let by_type = all().with_types_filter(vec![text("consumer")]);
        assert_eq!(listed(by_type).await, (0, 0));
        // An ended load does not affect the next one.
        let next = coordinator.begin_load(partition);
        assert!(!coordinator.load_some(partition, loading));
        assert!(!coordinator.is_here(partition, loading) && coordinator.is_here(partition, next));
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
