//! Requests that name very many things, and let others have their turn while they are worked on. How long a turn takes is not
//! looked at, only how many things come between two of them.

use std::cell::RefCell;
use std::rc::Rc;

use platform::sim::SimDisk;
use platform::task::spawn;
use wire::messages::create_topics_request::CreatableTopic;
use wire::messages::{
    AlterReplicaLogDirsRequest, CreateTopicsRequest, IncrementalAlterConfigsRequest,
    alter_replica_log_dirs_request as moves, incremental_alter_configs_request as change,
};

use crate::harness::asks::{text, topic_name};
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
            platform::task::yield_now().await;
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
        // Each is worth sixteen of those of which five hundred are done at once.
        let least = u64::try_from(TOPICS * 16 / 512).unwrap();
        assert!(polls.get() > least, "{} turns, not {least}", polls.get());
    });
}
