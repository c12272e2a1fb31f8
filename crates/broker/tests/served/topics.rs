//! Topics come and go: seen at once on every shard, and nothing of the old one in the new.

use std::time::Duration;

use platform::Platform;
use platform::sim::SimDisk;
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::{
    CreatePartitionsRequest, MetadataRequest, create_partitions_request::CreatePartitionsTopic,
};
use wire::types::ErrorCode;

use crate::harness::asks::{error, fetch, outcome, partitions, produce, topic_name};
use crate::harness::batches::{batch, produced};
use crate::harness::{Cluster, Setup, life};
use crate::offsets::delete_before;

fn on(shards: usize, story: impl AsyncFnOnce(&Cluster)) {
    life(&SimDisk::new(1), &Setup::shards(shards), story);
}

#[test]
fn a_new_topic_is_there_on_every_shard() {
    on(2, async |cluster| {
        cluster.create("t", 4).await;
        for shard in 0..2 {
            let each: Vec<_> = (0..4).map(|partition| (partition, batch(&["a"]))).collect();
            let answer = cluster.ask_at(shard, 9, &produce("t", -1, &each)).await;
            for partition in &answer.responses[0].partition_responses {
                let expected = i64::try_from(shard).unwrap();
                assert_eq!(outcome(partition), Ok(expected));
            }
        }
        assert_eq!(cluster.metrics.leaders.get(), 4);
    });
}

#[test]
fn partitions_are_added() {
    on(2, async |cluster| {
        cluster.create("t", 1).await;
        assert_eq!(cluster.produce("t", 0, &["a"]).await, 0);
        let topic = CreatePartitionsTopic::default()
            .with_name(topic_name("t"))
            .with_count(3)
            .with_assignments(None);
        let request = CreatePartitionsRequest::default().with_topics(vec![topic]);
        assert_eq!(
            error(cluster.ask(3, &request).await.results[0].error_code),
            None
        );
        for partition in 1..3 {
            assert_eq!(cluster.produce("t", partition, &["b"]).await, 0);
        }
        assert_eq!(cluster.values("t", 0).await, ["a"]);
    });
}

#[test]
fn a_topic_of_the_same_name_begins_afresh() {
    for shards in [1, 2] {
        on(shards, async |cluster| {
            for round in 0..3 {
                cluster.create("t", 2).await;
                for partition in 0..2 {
                    let records = produced(7, 0, 0, &["a"]);
                    let answer = cluster.try_produce("t", partition, records).await;
                    assert_eq!(answer, Ok(0), "round {round}");
                }
                assert_eq!(cluster.delete("t").await, None);
                let code = cluster.try_produce("t", 0, batch(&["x"])).await;
                assert_eq!(code, Err(ErrorCode::UnknownTopicOrPartition));
            }
            assert_eq!(cluster.metrics.leaders.get(), 0);
        });
    }
}

#[test]
fn the_old_topics_log_start_is_not_the_new_ones() {
    let (disk, setup) = (SimDisk::new(1), Setup::shards(1));
    life(&disk, &setup, async |cluster| {
        cluster.create("t", 1).await;
        cluster.produce("t", 0, &["a", "b", "c"]).await;
        assert_eq!(delete_before(cluster, "t", 3).await, Ok(3));
        cluster.stop().await;
    });
    let disk = life(&disk, &setup.next(), async |cluster| {
        assert_eq!(cluster.offset("t", 0, -2).await, 3);
        cluster.delete("t").await;
        cluster.create("t", 1).await;
        assert_eq!(cluster.offset("t", 0, -2).await, 0);
        assert_eq!(cluster.produce("t", 0, &["d"]).await, 0);
        cluster.disk().crash(3)
    });
    life(&disk, &setup.next().next(), async |cluster| {
        assert_eq!(cluster.values("t", 0).await, ["d"]);
    });
}

#[test]
fn ids_tell_a_topic_from_its_successor() {
    on(2, async |cluster| {
        cluster.create("t", 1).await;
        let old = cluster.topic_id("t");
        cluster.delete("t").await;
        cluster.create("t", 1).await;
        let mut request = fetch("", &[(0, 0)]);
        request.topics[0].topic_id = old.0;
        let answer = cluster.ask(13, &request).await;
        let code = error(partitions(&answer)[0].error_code);
        assert_eq!(code, Some(ErrorCode::UnknownTopicId));
    });
}

#[test]
fn topics_that_take_long_to_make_are_not_known_yet_and_come_behind_the_answer() {
    let disk = SimDisk::new(1);
    let mut setup = Setup::shards(2);
    setup.options.auto_create_topics = true;
    life(&disk, &setup, async |cluster| {
        let names: Vec<_> = (0..40).map(|number| format!("t{number}")).collect();
        let named =
            |name: &String| MetadataRequestTopic::default().with_name(Some(topic_name(name)));
        let request = MetadataRequest::default()
            .with_topics(Some(names.iter().map(named).collect()))
            .with_allow_auto_topic_creation(true);
        let codes = async || {
            let answer = cluster.ask(9, &request).await;
            let codes = answer.topics.iter().map(|topic| error(topic.error_code));
            codes.collect::<Vec<_>>()
        };
        disk.set_latency(Duration::from_secs(1), Duration::from_secs(1));
        let begun = cluster.platform.clock().now();
        let not_yet = Some(ErrorCode::UnknownTopicOrPartition);
        assert_eq!(codes().await, vec![not_yet; names.len()]);
        let took = cluster
            .platform
            .clock()
            .now()
            .saturating_duration_since(begun);
        assert!(took < Duration::from_secs(1), "{took:?}");
        disk.set_latency(Duration::ZERO, Duration::ZERO);
        cluster.pass_ms(60_000).await;
        assert_eq!(codes().await, vec![None; names.len()]);
    });
}
