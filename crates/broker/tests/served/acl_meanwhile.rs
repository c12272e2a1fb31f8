//! What a client may not do any more that could when its request began: it has waited for a disk,
//! for a turn or for others, and does not get what it has lost meanwhile.

use std::path::{Path, PathBuf};
use std::task::{Context, Waker};

use bytes::Bytes;
use platform::Platform;
use platform::sim::SimDisk;
use platform::task::{JoinHandle, spawn, yield_now};
use wire::acl::{Operation, ResourceType};
use wire::kafka::NewestVersion;
use wire::messages::alter_replica_log_dirs_request::{AlterReplicaLogDir, AlterReplicaLogDirTopic};
use wire::messages::join_group_request::JoinGroupRequestProtocol;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::messages::sync_group_request::SyncGroupRequestAssignment;
use wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use wire::messages::{
    AddOffsetsToTxnRequest, AlterReplicaLogDirsRequest, DeleteGroupsRequest, DescribeGroupsRequest,
    DescribeLogDirsRequest, FindCoordinatorRequest, GroupId, InitProducerIdRequest,
    JoinGroupRequest, OffsetCommitRequest, OffsetFetchRequest, ProduceRequest, SyncGroupRequest,
    TransactionalId, TxnOffsetCommitRequest,
};
use wire::protocol::Request;
use wire::types::ErrorCode;

use crate::hanging_disks::two_directories;
use crate::harness::asks::{error, list_offsets, produce, text, topic_name};
use crate::harness::batches::{batch, transactional_in};
use crate::harness::client::{decode, frame};
use crate::harness::setup::DIR;
use crate::harness::transactor::Transactor;
use crate::harness::users::{CLUSTER, Resource, User, topic};
use crate::harness::{Cluster, Setup, life};

pub(crate) const TOPIC: Option<ErrorCode> = Some(ErrorCode::TopicAuthorizationFailed);
pub(crate) const GROUP: Option<ErrorCode> = Some(ErrorCode::GroupAuthorizationFailed);
pub(crate) const ID: Option<ErrorCode> = Some(ErrorCode::TransactionalIdAuthorizationFailed);

pub(crate) fn with_users(shards: usize, story: impl AsyncFnOnce(&Cluster)) {
    life(&SimDisk::new(1), &Setup::shards(shards).with_users(), story);
}

pub(crate) const fn group(name: &str) -> Resource<'_> {
    (ResourceType::Group, name)
}

/// Lets the logs of a topic hang, or answer again.
pub(crate) fn hang(cluster: &Cluster, topic: &str, hangs: bool) {
    for partition in 0..3 {
        let folder: PathBuf = Path::new(DIR).join(format!("{topic}-{partition}"));
        cluster.disk().set_hanging(&folder, hangs);
    }
}

/// Has `user` lose a right while its request waits for a topic's logs.
pub(crate) async fn lose<T>(
    cluster: &Cluster,
    waiting: JoinHandle<T>,
    (operation, resource): (Operation, Resource<'_>),
    logs: &str,
) -> T {
    cluster.pass_ms(10).await;
    assert!(!waiting.is_finished(), "it waits for {logs}");
    cluster.deny("ada", operation, resource).await;
    hang(cluster, logs, false);
    waiting.await.unwrap()
}

#[test]
fn offsets_of_a_log_that_was_slow_to_settle_are_not_told() {
    for shards in [1, 2] {
        with_users(shards, async |cluster| {
            cluster.create("t", 1).await;
            cluster.allow("ada", Operation::Describe, topic("t")).await;
            let ada = User::login(cluster, "ada").await;
            hang(cluster, "t", true);
            let unsafe_yet = produce("t", 0, &[(0, batch(&["a"]))]);
            cluster.reply(0, &frame(9, &unsafe_yet)).await;
            let waiting = spawn(ada.asking(4, &list_offsets("t", 0, -1)));
            let lost = (Operation::Describe, topic("t"));
            let told = lose(cluster, waiting, lost, "t").await;
            let told = &told.topics[0].partitions[0];
            assert_eq!((error(told.error_code), told.offset), (TOPIC, -1));
        });
    }
}

/// A batch that is judged on another thread, which takes its time.
fn heavy() -> Bytes {
    let mut seed = 1_u32;
    let letter = |_| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b'a' + (seed >> 24) as u8 % 26)
    };
    let value: String = (0..200_000).map(letter).collect();
    batch(&[&value])
}

#[test]
fn a_batch_that_was_judged_for_long_is_not_appended() {
    const CONNECTIONS: u16 = 16;
    with_users(1, async |cluster| {
        let recoded = [
            ("compression.type", "gzip"),
            ("compression.gzip.level", "9"),
        ];
        cluster.create_with("t", 1, &recoded).await;
        cluster.allow("ada", Operation::Write, topic("t")).await;
        let ada = User::login(cluster, "ada").await;
        let request = frame(9, &produce("t", -1, &[(0, heavy())]));
        let ports = 40_000..40_000 + CONNECTIONS;
        let begun: Vec<_> = ports
            .map(|port| spawn(ada.reply_at(port, &request)))
            .collect();
        // All have been judged by their rights; all but one wait for another.
        for _ in 0..4 {
            yield_now().await;
        }
        cluster.deny("ada", Operation::Write, topic("t")).await;
        let mut appended = 0;
        for (at, reply) in begun.into_iter().enumerate() {
            let told = decode::<ProduceRequest>(9, reply.await.unwrap());
            let code = error(told.responses[0].partition_responses[0].error_code);
            if at + 1 == usize::from(CONNECTIONS) {
                assert_eq!(code, TOPIC, "the last one");
            }
            assert!([None, TOPIC].contains(&code), "{code:?}");
            appended += i64::from(code.is_none());
        }
        assert_eq!(cluster.offset("t", 0, -1).await, appended);
    });
}

#[test]
fn a_batch_that_waited_for_the_coordinator_is_not_appended() {
    let id = (ResourceType::TransactionalId, "x");
    for (lost, code) in [(topic("t"), TOPIC), (id, ID)] {
        with_users(2, async |cluster| {
            cluster.create("t", 1).await;
            cluster.allow("ada", Operation::Write, topic("t")).await;
            cluster.allow("ada", Operation::Write, id).await;
            let owner = Transactor::begin(cluster, "x", true).await;
            let ada = User::login(cluster, "ada").await;
            hang(cluster, "__transaction_state", true);
            let records = transactional_in(owner.producer(), 0, &["a"]);
            let request = produce("t", -1, &[(0, records)]);
            let request = request.with_transactional_id(Some(owner.id.clone()));
            let waiting = spawn(ada.asking(12, &request));
            let lost = (Operation::Write, lost);
            let told = lose(cluster, waiting, lost, "__transaction_state").await;
            let told = &told.responses[0].partition_responses[0];
            assert_eq!(error(told.error_code), code);
            assert_eq!(cluster.offset("t", 0, -1).await, 0);
        });
    }
}

#[test]
fn offsets_that_waited_for_the_coordinator_do_not_join_the_transaction() {
    let id = (ResourceType::TransactionalId, "x");
    for (operation, lost, code) in [
        (Operation::Read, topic("t"), TOPIC),
        (Operation::Read, group("g"), GROUP),
        (Operation::Write, id, ID),
    ] {
        with_users(2, async |cluster| {
            cluster.create("t", 1).await;
            cluster.commit("g", "t", 0, 1).await;
            for (operation, resource) in [
                (Operation::Read, topic("t")),
                (Operation::Read, group("g")),
                (Operation::Write, id),
            ] {
                cluster.allow("ada", operation, resource).await;
            }
            let mut owner = Transactor::begin(cluster, "x", true).await;
            let ada = User::login(cluster, "ada").await;
            hang(cluster, "__transaction_state", true);
            let partition = TxnOffsetCommitRequestPartition::default().with_committed_offset(5);
            let named = TxnOffsetCommitRequestTopic::default()
                .with_name(topic_name("t"))
                .with_partitions(vec![partition]);
            let request = TxnOffsetCommitRequest::default()
                .with_transactional_id(owner.id.clone())
                .with_group_id(GroupId(text("g")))
                .with_producer_id(owner.producer.0.into())
                .with_producer_epoch(owner.producer.1)
                .with_generation_id(-1)
                .with_topics(vec![named]);
            let waiting = spawn(ada.asking(5, &request));
            let lost = (operation, lost);
            let told = lose(cluster, waiting, lost, "__transaction_state").await;
            assert_eq!(error(told.topics[0].partitions[0].error_code), code);
            owner.end(true).await.unwrap();
            assert_eq!(cluster.committed("g", "t", 0).await, 1);
        });
    }
}

/// A commit of position 9 in partition 0 of `t`, after this number of partitions that are not
/// there.
fn long_commit(missing: i32) -> OffsetCommitRequest {
    let partitions = (0..=missing).rev().map(|at| {
        let index = if at == 0 { 0 } else { at + 100 };
        OffsetCommitRequestPartition::default()
            .with_partition_index(index)
            .with_committed_offset(9)
    });
    let named = OffsetCommitRequestTopic::default()
        .with_name(topic_name("t"))
        .with_partitions(partitions.collect());
    OffsetCommitRequest::default()
        .with_group_id(GroupId(text("g")))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![named])
}

#[test]
fn a_commit_that_is_checked_in_pieces_commits_nothing_that_was_denied_meanwhile() {
    for (lost, code) in [(topic("t"), TOPIC), (group("g"), GROUP)] {
        with_users(1, async |cluster| {
            cluster.create("t", 1).await;
            cluster.commit("g", "t", 0, 7).await;
            cluster.allow("ada", Operation::Read, topic("t")).await;
            cluster.allow("ada", Operation::Read, group("g")).await;
            let ada = User::login(cluster, "ada").await;
            let request = NewestVersion::from(long_commit(2_000));
            let mut asked = Box::pin(ada.asking(8, &request));
            let mut once = Context::from_waker(Waker::noop());
            assert!(asked.as_mut().poll(&mut once).is_pending(), "it rests");
            cluster.deny("ada", Operation::Read, lost).await;
            let told = asked.await;
            let last = told.topics[0].partitions.last().unwrap();
            assert_eq!((last.partition_index, error(last.error_code)), (0, code));
            assert_eq!(cluster.committed("g", "t", 0).await, 7);
        });
    }
}

/// A join of a new member; others have three seconds to come.
fn joining() -> JoinGroupRequest {
    let protocol = JoinGroupRequestProtocol::default().with_name(text("range"));
    JoinGroupRequest::default()
        .with_group_id(GroupId(text("g")))
        .with_session_timeout_ms(30_000)
        .with_rebalance_timeout_ms(30_000)
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![protocol])
}

/// A client that may read the group `g`.
async fn reader(cluster: &Cluster) -> User<'_> {
    cluster.create("t", 1).await;
    cluster.commit("g", "t", 0, 7).await;
    cluster.allow("ada", Operation::Read, group("g")).await;
    User::login(cluster, "ada").await
}

#[test]
fn who_may_not_read_a_group_any_more_when_all_have_joined_is_told_of_nobody() {
    with_users(2, async |cluster| {
        let ada = reader(cluster).await;
        let waiting = spawn(ada.asking(3, &joining()));
        let lost = (Operation::Read, group("g"));
        let told = lose(cluster, waiting, lost, "none").await;
        assert_eq!(error(told.error_code), GROUP);
        assert_eq!((told.generation_id, told.members.len()), (-1, 0));
        assert_eq!(told.member_id.as_str(), "");
    });
}

#[test]
fn who_may_not_read_a_group_any_more_when_it_is_given_out_gets_no_part() {
    with_users(2, async |cluster| {
        let ada = reader(cluster).await;
        let [one, other] = [0, 1].map(|_| spawn(ada.asking(3, &joining())));
        let (one, other) = (one.await.unwrap(), other.await.unwrap());
        assert_eq!((one.error_code, other.error_code), (0, 0));
        let follows = if one.member_id == one.leader {
            other
        } else {
            one
        };
        let request = SyncGroupRequest::default()
            .with_group_id(GroupId(text("g")))
            .with_generation_id(follows.generation_id)
            .with_member_id(follows.member_id.clone());
        let waiting = spawn(ada.asking(3, &request));
        cluster.pass_ms(10).await;
        assert!(!waiting.is_finished(), "it waits for the leader");
        cluster.deny("ada", Operation::Read, group("g")).await;
        let part = SyncGroupRequestAssignment::default()
            .with_member_id(follows.member_id)
            .with_assignment(Bytes::from_static(b"all"));
        let leads = request
            .with_member_id(follows.leader)
            .with_assignments(vec![part]);
        assert_eq!(error(cluster.ask(3, &leads).await.error_code), None);
        let told = waiting.await.unwrap();
        assert_eq!((error(told.error_code), told.assignment.len()), (GROUP, 0));
    });
}

fn positions(names: bool) -> NewestVersion<OffsetFetchRequest> {
    let named = OffsetFetchRequestTopics::default()
        .with_name(topic_name("t"))
        .with_partition_indexes(vec![0]);
    let asked = OffsetFetchRequestGroup::default()
        .with_group_id(GroupId(text("g")))
        .with_topics(names.then(|| vec![named]));
    let request = OffsetFetchRequest::default().with_groups(vec![asked]);
    NewestVersion::from(request.with_require_stable(true))
}

#[test]
fn positions_that_waited_for_the_log_are_not_told() {
    for (lost, names) in [
        (topic("t"), true),
        (topic("t"), false),
        (group("g"), true),
        (group("g"), false),
    ] {
        with_users(2, async |cluster| {
            cluster.create("t", 1).await;
            cluster.commit("g", "t", 0, 7).await;
            cluster.allow("ada", Operation::Describe, topic("t")).await;
            cluster.allow("ada", Operation::Describe, group("g")).await;
            let ada = User::login(cluster, "ada").await;
            hang(cluster, "__consumer_offsets", true);
            let commit = spawn(cluster.asking(0, 8, &long_commit(0)));
            cluster.pass_ms(10).await;
            let waiting = spawn(ada.asking(8, &positions(names)));
            let lost_right = (Operation::Describe, lost);
            let told = lose(cluster, waiting, lost_right, "__consumer_offsets").await;
            let told = &told.groups[0];
            let what = format!("{lost:?} {names}");
            if lost == group("g") {
                assert_eq!(error(told.error_code), GROUP, "{what}");
                assert!(told.topics.is_empty(), "{what}");
            } else if names {
                let one = &told.topics[0].partitions[0];
                let expected = (TOPIC, -1);
                assert_eq!((error(one.error_code), one.committed_offset), expected);
            } else {
                assert_eq!(error(told.error_code), None, "{what}");
                assert!(told.topics.is_empty(), "{what}");
            }
            commit.await.unwrap();
        });
    }
}

#[test]
fn a_log_that_waited_for_checkpoints_is_not_moved() {
    let setup = two_directories().with_users();
    life(&SimDisk::new(1), &setup, async |cluster| {
        cluster.create("t", 1).await;
        cluster.produce("t", 0, &["a"]).await;
        cluster.allow("ada", Operation::Alter, CLUSTER).await;
        let ada = User::login(cluster, "ada").await;
        let topic = AlterReplicaLogDirTopic::default()
            .with_name(topic_name("t"))
            .with_partitions(vec![0]);
        let dirs = ["/a", "/b"].map(|path| {
            AlterReplicaLogDir::default()
                .with_path(text(path))
                .with_topics(vec![topic.clone()])
        });
        for dir in dirs {
            let request = AlterReplicaLogDirsRequest::default().with_dirs(vec![dir]);
            cluster.disk().set_hanging(Path::new("/b"), true);
            let waiting = spawn(ada.asking(2, &request));
            cluster.pass_ms(10).await;
            assert!(!waiting.is_finished(), "it waits for the checkpoints");
            cluster.deny("ada", Operation::Alter, CLUSTER).await;
            cluster.disk().set_hanging(Path::new("/b"), false);
            let told = waiting.await.unwrap();
            let code = error(told.results[0].partitions[0].error_code);
            assert_eq!(code, Some(ErrorCode::ClusterAuthorizationFailed));
            cluster.remove_acls("ada", CLUSTER).await;
            cluster.allow("ada", Operation::Alter, CLUSTER).await;
        }
    });
}

#[test]
fn directories_whose_disks_were_slow_are_not_described() {
    let setup = two_directories().with_users();
    life(&SimDisk::new(1), &setup, async |cluster| {
        cluster.allow("ada", Operation::Describe, CLUSTER).await;
        let ada = User::login(cluster, "ada").await;
        cluster.disk().set_hanging(Path::new("/b"), true);
        let request = DescribeLogDirsRequest::default().with_topics(None);
        let waiting = spawn(ada.asking(4, &request));
        cluster.pass_ms(10).await;
        assert!(!waiting.is_finished(), "it waits for a disk");
        cluster.deny("ada", Operation::Describe, CLUSTER).await;
        cluster.disk().set_hanging(Path::new("/b"), false);
        let told = waiting.await.unwrap();
        let code = error(told.error_code);
        assert_eq!(code, Some(ErrorCode::ClusterAuthorizationFailed));
        assert!(told.results.is_empty());
    });
}

/// Has `ada` lose a right in the turn of the controller before the one that its request waits for.
pub(crate) async fn lose_before<R: Request>(
    cluster: &Cluster,
    (version, request): (i16, &R),
    (operation, lost): (Operation, Resource<'_>),
) -> R::Response
where
    R::Response: 'static,
{
    let ada = User::login(cluster, "ada").await;
    hang(cluster, "__cluster_metadata", true);
    let denied = spawn(cluster.denying("ada", operation, lost));
    cluster.pass_ms(10).await;
    let waiting = spawn(ada.asking(version, request));
    cluster.pass_ms(10).await;
    assert!(!waiting.is_finished(), "it waits for the controller");
    hang(cluster, "__cluster_metadata", false);
    denied.await.unwrap();
    waiting.await.unwrap()
}

#[test]
fn offsets_that_waited_for_their_topic_do_not_join_the_transaction() {
    let id = (ResourceType::TransactionalId, "x");
    for (operation, lost, code) in [
        (Operation::Read, group("g"), GROUP),
        (Operation::Write, id, ID),
    ] {
        with_users(2, async |cluster| {
            cluster.allow("ada", Operation::Read, group("g")).await;
            cluster.allow("ada", Operation::Write, id).await;
            let owner = Transactor::begin(cluster, "x", true).await;
            let request = AddOffsetsToTxnRequest::default()
                .with_transactional_id(owner.id.clone())
                .with_producer_id(owner.producer.0.into())
                .with_producer_epoch(owner.producer.1)
                .with_group_id(GroupId(text("g")));
            let told = lose_before(cluster, (3, &request), (operation, lost)).await;
            assert_eq!(error(told.error_code), code);
        });
    }
}

#[test]
fn who_may_not_write_in_a_transaction_when_its_producer_id_comes_does_not_get_it() {
    let id = (ResourceType::TransactionalId, "x");
    with_users(1, async |cluster| {
        cluster.allow("ada", Operation::Write, id).await;
        // Its coordinator is there.
        for _ in 0..20 {
            let request = FindCoordinatorRequest::default()
                .with_key_type(1)
                .with_coordinator_keys(vec![text("x")]);
            cluster.ask(4, &request).await;
            cluster.pass_ms(100).await;
        }
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(TransactionalId(text("x"))))
            .with_transaction_timeout_ms(1000)
            .with_producer_id((-1).into())
            .with_producer_epoch(-1);
        let lost = (Operation::Write, id);
        let told = lose_before(cluster, (4, &request), lost).await;
        assert_eq!((error(told.error_code), told.producer_id.0), (ID, -1));
    });
}

/// Takes both places for requests about many things, until the log is given up.
async fn crowd(cluster: &Cluster) -> Vec<JoinHandle<()>> {
    hang(cluster, "__consumer_offsets", true);
    let both = [[10, 1, 0, 1], [10, 2, 0, 1]].map(|peer| {
        let commit = cluster.asking_from(peer.into(), 8, &long_commit(10_000));
        spawn(async move { drop(commit.await) })
    });
    cluster.pass_ms(100).await;
    assert!(both.iter().all(|one| !one.is_finished()), "they wait");
    both.into()
}

#[test]
fn a_request_about_many_groups_is_judged_when_it_has_its_place() {
    // More than 64 KiB.
    let names: Vec<_> = (0..2_000)
        .map(|at| GroupId(text(&format!("{at:040}"))))
        .collect();
    for operation in [Operation::Describe, Operation::Delete] {
        with_users(1, async |cluster| {
            cluster.create("t", 1).await;
            cluster.commit("g", "t", 0, 7).await;
            cluster.allow("ada", operation, group("g")).await;
            let ada = User::login(cluster, "ada").await;
            let crowd = crowd(cluster).await;
            let mut names = names.clone();
            names.push(GroupId(text("g")));
            let began = cluster.platform.clock().now();
            let told = if operation == Operation::Delete {
                let request = DeleteGroupsRequest::default().with_groups_names(names);
                let waiting = spawn(ada.asking(2, &request));
                let lost = (operation, group("g"));
                let told = lose(cluster, waiting, lost, "none").await.results;
                let told = told.iter().find(|it| it.group_id.as_str() == "g");
                told.unwrap().error_code
            } else {
                let request = DescribeGroupsRequest::default().with_groups(names);
                let waiting = spawn(ada.asking(5, &request));
                let lost = (operation, group("g"));
                let told = lose(cluster, waiting, lost, "none").await.groups;
                let told = told.iter().find(|it| it.group_id.as_str() == "g");
                told.unwrap().error_code
            };
            assert_eq!(error(told), GROUP);
            assert!(cluster.platform.clock().now() > began, "it has waited");
            hang(cluster, "__consumer_offsets", false);
            for one in crowd {
                one.await.unwrap();
            }
            cluster.pass_ms(1_000).await;
            assert!(cluster.committed("g", "t", 0).await > 0, "it is there");
        });
    }
}
