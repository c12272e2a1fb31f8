//! Requests that name very many things, and let others have their turn while they are worked on. How long a turn takes is not
//! looked at, only how many things come between two of them.

use platform::sim::SimDisk;
use wire::messages::{
    AlterReplicaLogDirsRequest, IncrementalAlterConfigsRequest,
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
