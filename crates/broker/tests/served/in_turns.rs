//! Requests that name very many things, and let others have their turn while they are worked on.
//! How long a turn takes is not looked at, only how many things come between two of them.

use std::cell::RefCell;
use std::future::Future;
use std::path::Path;
use std::rc::Rc;

use platform::sim::SimDisk;
use platform::task::{JoinHandle, spawn, yield_now};
use wire::messages::create_topics_request::CreatableTopic;
use wire::messages::{
    AlterReplicaLogDirsRequest, CreateTopicsRequest, FetchRequest, GroupId,
    IncrementalAlterConfigsRequest, OffsetCommitRequest, TxnOffsetCommitRequest,
    alter_replica_log_dirs_request as moves, incremental_alter_configs_request as change,
    offset_commit_request as commit, txn_offset_commit_request as commit_in_transaction,
};

use crate::harness::asks::{error, fetch, partitions, text, topic_name, wanted};
use crate::harness::{Setup, life};
use crate::hostile_fetch::counted;

const COUNT: usize = 20_000;

#[test]
fn moves_to_many_directories_are_refused_each() {
    life(&SimDisk::new(1), &Setup::shards(1), async |cluster| {
        let dirs = (0..COUNT).map(|number| {
            let topic = moves::AlterReplicaLogDirTopic::default()
                .with_name(topic_name(&format!("t{number:05}")))
                .with_partitions(vec![0]);
            moves::AlterReplicaLogDir::default()
                .with_path(text(&format!("/{number}")))
                .with_topics(vec![topic])
        });
        let request = AlterReplicaLogDirsRequest::default().with_dirs(dirs.collect());
        let (moved, polls) = counted(cluster.asking(0, 1, &request));
        let moved = moved.await;
        assert_eq!(moved.results.len(), COUNT);
        for (number, told) in moved.results.iter().enumerate() {
            assert_eq!(told.topic_name.as_str(), format!("t{number:05}"));
            assert_eq!(told.partitions[0].error_code, 57);
        }
        // Looked up, divided, gathered, said.
        let least = u64::try_from(3 * COUNT / 512).unwrap();
        assert!(polls.get() > least, "{} turns, not {least}", polls.get());
    });
}

#[test]
fn changes_of_many_resources_are_answered_each() {
    life(&SimDisk::new(1), &Setup::shards(2), async |cluster| {
        let resources = (0..COUNT).map(|number| {
            let setting = change::AlterableConfig::default()
                .with_name(text("retention.ms"))
                .with_value(Some(text("1")));
            change::AlterConfigsResource::default()
                .with_resource_type(2)
                .with_resource_name(text(&format!("{number:x}")))
                .with_configs(vec![setting])
        });
        let request = IncrementalAlterConfigsRequest::default().with_resources(resources.collect());
        let told = cluster.ask(1, &request).await;
        assert_eq!(told.responses.len(), COUNT);
        for (number, told) in told.responses.iter().enumerate() {
            assert_eq!(told.resource_name.as_str(), format!("{number:x}"));
            assert_ne!(told.error_code, 0);
        }
    });
}

#[test]
fn a_change_of_many_topics_is_decided_on_as_one_while_others_have_their_turn() {
    const TOPICS: usize = 600;
    life(&SimDisk::new(1), &Setup::shards(1), async |cluster| {
        let topics = (0..TOPICS).map(|number| {
            CreatableTopic::default()
                .with_name(topic_name(&format!("t{number:03}")))
                .with_num_partitions(1)
                .with_replication_factor(1)
        });
        let request = CreateTopicsRequest::default()
            .with_topics(topics.collect())
            .with_timeout_ms(60_000);
        let (created, polls) = counted(cluster.asking(0, 7, &request));
        let told = Rc::new(RefCell::new(None));
        let kept = Rc::clone(&told);
        spawn(async move {
            let created = created.await;
            *kept.borrow_mut() = Some(created);
        });
        // Comes while the others are decided on, and names the last of them.
        while polls.get() < 8 && told.borrow().is_none() {
            yield_now().await;
        }
        assert!(told.borrow().is_none(), "it is under way");
        let one = cluster.try_create("t599", 1, &[]).await;
        while told.borrow().is_none() {
            cluster.pass_ms(1).await;
        }
        let told = told.take().unwrap();
        assert_eq!(told.topics.len(), TOPICS);
        assert!(told.topics.iter().all(|topic| topic.error_code == 0));
        assert_eq!(one, Some(wire::types::ErrorCode::TopicAlreadyExists));
        // Each counts as sixteen; five hundred are done at once.
        let least = u64::try_from(TOPICS * 16 / 512).unwrap();
        assert!(polls.get() > least, "{} turns, not {least}", polls.get());
    });
}

/// Turns that the last of some requests has had when the first is answered.
async fn turns_of_the_last<F: Future<Output: 'static> + 'static>(
    all: impl IntoIterator<Item = F>,
) -> u64 {
    let (tasks, polls): (Vec<_>, Vec<_>) = all
        .into_iter()
        .map(|one| {
            let (one, polls) = counted(one);
            (spawn(one), polls)
        })
        .unzip();
    while !tasks.iter().any(JoinHandle::is_finished) {
        yield_now().await;
    }
    let last = polls.last().map(Rc::clone).unwrap();
    let turns = last.get();
    for task in tasks {
        task.await.unwrap();
    }
    turns
}

/// Each of their positions takes in memory many times of what it takes in the request.
#[test]
fn of_long_commits_to_a_group_only_some_are_looked_through_at_a_time() {
    life(&SimDisk::new(1), &Setup::shards(1), async |cluster| {
        cluster.create("t", 1).await;
        cluster.commit("g", "t", 0, 1).await;
        let topic = commit::OffsetCommitRequestTopic::default()
            .with_name(topic_name("t"))
            .with_partitions(vec![commit::OffsetCommitRequestPartition::default(); COUNT]);
        let request = OffsetCommitRequest::default()
            .with_group_id(GroupId(text("g")))
            .with_generation_id_or_member_epoch(-1)
            .with_topics(vec![topic]);
        let all = (0..6).map(|_| cluster.asking(0, 8, &request));
        let turns = turns_of_the_last(all).await;
        assert!(turns < 10, "{turns} turns");
        let topic = commit_in_transaction::TxnOffsetCommitRequestTopic::default()
            .with_name(topic_name("t"))
            .with_partitions(
                vec![commit_in_transaction::TxnOffsetCommitRequestPartition::default(); COUNT],
            );
        let request = TxnOffsetCommitRequest::default()
            .with_group_id(GroupId(text("g")))
            .with_topics(vec![topic]);
        let all = (0..6).map(|_| cluster.asking(0, 3, &request));
        let turns = turns_of_the_last(all).await;
        assert!(turns < 10, "{turns} turns in a transaction");
    });
}

/// Fifty bytes continue a session of thousands of partitions; each is listed.
#[test]
fn of_large_sessions_only_some_are_listed_at_a_time() {
    life(&SimDisk::new(1), &Setup::shards(1), async |cluster| {
        cluster.create("t", 1).await;
        let mut begun = Vec::new();
        for _ in 0..6 {
            let mut first = fetch("t", &[]).with_session_epoch(0);
            let absent = (1..=i32::try_from(COUNT).unwrap()).map(|index| wanted(index, 0));
            first.topics[0].partitions = absent.collect();
            let told = cluster.ask(11, &first).await;
            assert_eq!(error(told.error_code), None);
            assert_ne!(told.session_id, 0);
            begun.push(told.session_id);
        }
        let all = begun.into_iter().map(|id| {
            let next = FetchRequest::default().with_session_id(id);
            let next = next.with_session_epoch(1).with_max_bytes(1000);
            cluster.asking(0, 11, &next)
        });
        let turns = turns_of_the_last(all).await;
        assert!(turns < 10, "{turns} turns");
    });
}

/// What it wants is on a disk; what the other wants is nowhere.
#[test]
fn a_fetch_of_many_partitions_from_a_disk_that_hangs_does_not_hold_up_others() {
    let (disk, setup) = (SimDisk::new(1), Setup::shards(1));
    life(&disk, &setup, async |cluster| {
        cluster.create("t", 1).await;
        cluster.produce("t", 0, &["a"]).await;
        cluster.stop().await;
    });
    life(&disk, &setup.next(), async |cluster| {
        let many = |first: i32| {
            let mut request = fetch("t", &[]);
            request.topics[0].partitions = (first..4000).map(|index| wanted(index, 0)).collect();
            request
        };
        disk.set_rate_of(Path::new("/logs"), Some(1));
        let (hangs, polls) = counted(cluster.asking(0, 12, &many(0)));
        let hangs = spawn(hangs);
        while polls.get() == 0 {
            yield_now().await;
        }
        let told = cluster.ask(12, &many(1)).await;
        assert_eq!(partitions(&told).len(), 3999);
        assert!(!hangs.is_finished(), "the other waited for the disk");
        disk.set_rate_of(Path::new("/logs"), None);
        let told = hangs.await.unwrap();
        assert_eq!(partitions(&told).len(), 4000);
    });
}
