//! Idempotent and transactional producers that have been silent for long are forgotten on time, by
//! either version of the protocol; one with an open transaction is not.

use platform::sim::SimDisk;

use crate::harness::batches::produced;
use crate::harness::transactor::Transactor;
use crate::harness::{Cluster, Setup, life};

const DAY_MS: u64 = 86_400_000;

async fn known(cluster: &Cluster) -> usize {
    let request = wire::messages::DescribeProducersRequest::default().with_topics(vec![
        wire::messages::describe_producers_request::TopicRequest::default()
            .with_name(crate::harness::asks::topic_name("t"))
            .with_partition_indexes(vec![0]),
    ]);
    let mut answer = cluster.ask(0, &request).await;
    let partition = answer.topics.remove(0).partitions.remove(0);
    assert_eq!(partition.error_code, 0);
    partition.active_producers.len()
}

#[test]
fn silent_producers_are_forgotten_on_time() {
    for newer in [false, true] {
        life(&SimDisk::new(1), &Setup::shards(1), async |cluster| {
            cluster.create("t", 1).await;
            let records = produced(4711, 0, 0, &["x"]);
            cluster.try_produce("t", 0, records).await.unwrap();
            let mut done = Transactor::begin(cluster, "done", newer).await;
            done.write(0, &["a"]).await;
            done.end(true).await.unwrap();
            cluster.settled_values(0).await;
            assert_eq!(known(cluster).await, 2);
            cluster.pass_ms(DAY_MS - 3_600_000).await;
            assert_eq!(known(cluster).await, 2, "not yet");
            // Their time, and at most one interval of looking for them.
            cluster.pass_ms(3_600_000 + 601_000).await;
            assert_eq!(known(cluster).await, 0, "newer {newer}");
        });
    }
}
