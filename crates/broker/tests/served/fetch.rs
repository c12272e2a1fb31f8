//! Fetch: what is due, when it is worth waiting, and the errors that a reader gets instead of
//! records.

use bytes::Bytes;
use platform::Platform;
use platform::sim::SimDisk;
use platform::task::spawn;
use wire::messages::FetchRequest;
use wire::messages::fetch_response::PartitionData;
use wire::types::ErrorCode;

use crate::harness::asks::{error, fetch, partitions, records_of};
use crate::harness::batches::{batch, large, whole};
use crate::harness::{Cluster, Setup, life};

fn on(shards: usize, story: impl AsyncFnOnce(&Cluster)) {
    life(&SimDisk::new(1), &Setup::shards(shards), story);
}

fn size(partition: &PartitionData) -> usize {
    partition.records.as_ref().map_or(0, Bytes::len)
}

/// Asks, and says how many milliseconds it took.
async fn timed(cluster: &Cluster, request: &FetchRequest) -> (u128, wire::messages::FetchResponse) {
    let before = cluster.platform.clock().now();
    let answer = cluster.ask(12, request).await;
    (before.elapsed().as_millis(), answer)
}

#[test]
fn an_empty_partition_is_answered_at_the_deadline() {
    on(2, async |cluster| {
        cluster.create("t", 2).await;
        let request = fetch("t", &[(0, 0), (1, 0)]).with_max_wait_ms(1234);
        let (waited, answer) = timed(cluster, &request).await;
        assert_eq!(waited, 1234);
        for partition in partitions(&answer) {
            assert_eq!((partition.error_code, partition.high_watermark), (0, 0));
            assert_eq!(size(partition), 0);
        }
    });
}

#[test]
fn records_wake_a_fetch_that_waits() {
    for shards in [1, 2] {
        for partition in 0..2 {
            on(shards, async |cluster| {
                cluster.create("t", 2).await;
                let request = fetch("t", &[(0, 0), (1, 0)]).with_max_wait_ms(60_000);
                let fetched = spawn(cluster.asking(0, 12, &request));
                cluster.pass_ms(1000).await;
                assert!(!fetched.is_finished());
                let before = cluster.platform.clock().now();
                cluster.produce("t", partition, &["a"]).await;
                let answer = fetched.await.unwrap();
                assert!(before.elapsed().as_millis() < 10);
                let index = usize::try_from(partition).unwrap();
                let found = records_of(partitions(&answer)[index]);
                assert_eq!(found, [(0, "a".to_owned())]);
            });
        }
    }
}

/// Tasks that shards sent to each other.
fn sent(cluster: &Cluster) -> u64 {
    let each = cluster.brokers.iter();
    each.map(|broker| broker.shards.sent()).sum()
}

fn counted(cluster: &Cluster) -> u64 {
    let series = "kafka_server_brokertopicmetrics_totalfetchrequests_total{topic=\"t\"}";
    let shown = cluster.metric(series);
    shown.map_or(0, |count| count.parse().unwrap())
}

#[test]
fn a_fetch_asks_another_shard_once_and_once_more_for_records() {
    on(2, async |cluster| {
        cluster.create("t", 2).await;
        let request = fetch("t", &[(0, 0), (1, 0)]);
        for (records, most) in [(0, 1), (1, 2), (2, 2)] {
            if records > 0 {
                cluster.produce("t", records - 1, &["a"]).await;
            }
            cluster.pass_ms(1000).await;
            let (tasks, requests) = (sent(cluster), counted(cluster));
            let answer = cluster.ask(12, &request).await;
            assert!(sent(cluster) - tasks <= most, "{records} with records");
            assert_eq!(counted(cluster) - requests, 2, "{records} with records");
            let found = partitions(&answer);
            let found = found.iter().filter(|partition| size(partition) > 0);
            assert_eq!(found.count(), usize::try_from(records).unwrap());
        }
    });
}

#[test]
fn records_that_came_during_the_wait_are_in_the_answer_of_its_deadline() {
    for shards in [1, 2, 4] {
        on(shards, async |cluster| {
            cluster.create("t", 4).await;
            let all = [(0, 0), (1, 0), (2, 0), (3, 0)];
            let request = fetch("t", &all).with_max_wait_ms(1000);
            let fetched = spawn(cluster.asking(0, 12, &request.with_min_bytes(1 << 20)));
            cluster.pass_ms(100).await;
            for partition in 0..2 {
                cluster.produce("t", partition, &["a"]).await;
            }
            cluster.pass_ms(100).await;
            assert!(!fetched.is_finished(), "there are too few bytes");
            let answer = fetched.await.unwrap();
            let sizes = partitions(&answer).into_iter().map(size);
            let (with, without): (Vec<_>, Vec<_>) = sizes.partition(|size| *size > 0);
            assert_eq!((with.len(), without.len()), (2, 2));
            assert_eq!(counted(cluster), 4);
        });
    }
}

#[test]
fn min_bytes_are_counted_over_all_partitions() {
    for shards in [1, 2] {
        on(shards, async |cluster| {
            cluster.create("t", 4).await;
            let all = [(0, 0), (1, 0), (2, 0), (3, 0)];
            let bytes = i32::try_from(batch(&["a"]).len()).unwrap();
            let request = fetch("t", &all).with_max_wait_ms(60_000);
            let request = request.with_min_bytes(4 * bytes);
            let fetched = spawn(cluster.asking(0, 12, &request));
            for partition in 0..4 {
                assert!(!fetched.is_finished(), "{partition} of 4");
                cluster.produce("t", partition, &["a"]).await;
                cluster.pass_ms(10).await;
            }
            assert!(fetched.is_finished());
            let answer = fetched.await.unwrap();
            for partition in partitions(&answer) {
                assert_eq!(records_of(partition).len(), 1);
            }
        });
    }
}

#[test]
fn max_bytes_are_shared_out_in_order() {
    for shards in [1, 2] {
        on(shards, async |cluster| {
            cluster.create("t", 3).await;
            for partition in 0..3 {
                for _ in 0..4 {
                    cluster
                        .try_produce("t", partition, large(1000))
                        .await
                        .unwrap();
                }
            }
            let one = large(1000).len();
            let max = i32::try_from(one * 6).unwrap();
            for order in [[0, 1, 2], [2, 0, 1]] {
                let from = order.map(|partition| (partition, 0));
                let answer = cluster
                    .ask(12, &fetch("t", &from).with_max_bytes(max))
                    .await;
                let sizes: Vec<_> = partitions(&answer).iter().map(|p| size(p)).collect();
                assert_eq!(sizes, [4 * one, 2 * one, 0], "{order:?}");
            }
        });
    }
}

#[test]
fn the_first_batch_is_whole_however_large_it_is() {
    on(2, async |cluster| {
        cluster.create("t", 2).await;
        for partition in 0..2 {
            cluster
                .try_produce("t", partition, large(5000))
                .await
                .unwrap();
        }
        let mut request = fetch("t", &[(0, 0), (1, 0)]).with_max_bytes(10);
        for partition in &mut request.topics[0].partitions {
            partition.partition_max_bytes = 10;
        }
        let answer = cluster.ask(12, &request).await;
        let [first, second] = partitions(&answer)[..] else {
            panic!("{answer:?}");
        };
        assert_eq!(whole(first.records.as_ref().unwrap()).len(), 1);
        assert_eq!(size(second), 0);
    });
}

#[test]
fn a_fetch_from_within_a_batch_begins_with_that_batch() {
    on(1, async |cluster| {
        cluster.create("t", 1).await;
        cluster.produce("t", 0, &["a", "b", "c"]).await;
        cluster.produce("t", 0, &["d"]).await;
        let answer = cluster.ask(12, &fetch("t", &[(0, 2)])).await;
        assert_eq!(records_of(partitions(&answer)[0]).len(), 4);
        let answer = cluster.ask(12, &fetch("t", &[(0, 3)])).await;
        assert_eq!(records_of(partitions(&answer)[0]), [(3, "d".to_owned())]);
    });
}

#[test]
fn offsets_outside_the_log_and_strange_epochs_are_refused_at_once() {
    on(2, async |cluster| {
        cluster.create("t", 1).await;
        cluster.produce("t", 0, &["a"]).await;
        for (from, epoch, code) in [
            (2, -1, Some(ErrorCode::OffsetOutOfRange)),
            (-1, -1, Some(ErrorCode::OffsetOutOfRange)),
            (0, 1, Some(ErrorCode::UnknownLeaderEpoch)),
            (0, 0, None),
        ] {
            let mut request = fetch("t", &[(0, from)]);
            request.topics[0].partitions[0].current_leader_epoch = epoch;
            let (waited, answer) = timed(cluster, &request).await;
            assert!(waited < 10, "{from}: {waited}");
            assert_eq!(error(partitions(&answer)[0].error_code), code);
        }
    });
}

#[test]
fn unknown_topics_and_partitions_do_not_keep_the_others_from_answering() {
    on(2, async |cluster| {
        cluster.create("t", 1).await;
        cluster.produce("t", 0, &["a"]).await;
        let mut request = fetch("t", &[(0, 0), (7, 0)]);
        request.topics.extend(fetch("x", &[(0, 0)]).topics);
        let answer = cluster.ask(12, &request).await;
        let codes = partitions(&answer).into_iter().map(|p| error(p.error_code));
        let unknown = Some(ErrorCode::UnknownTopicOrPartition);
        assert_eq!(codes.collect::<Vec<_>>(), [None, unknown, unknown]);
        assert_eq!(records_of(partitions(&answer)[0]).len(), 1);

        let mut request = fetch("", &[(0, 0)]);
        request.topics[0].topic_id = wire::types::Uuid::from_u128(404);
        let answer = cluster.ask(13, &request).await;
        let code = error(partitions(&answer)[0].error_code);
        assert_eq!(code, Some(ErrorCode::UnknownTopicId));
    });
}

#[test]
fn deleting_a_topic_wakes_the_fetches_that_wait_for_it() {
    for shards in [1, 2] {
        on(shards, async |cluster| {
            cluster.create("t", 2).await;
            let request = fetch("t", &[(0, 0), (1, 0)]).with_max_wait_ms(60_000);
            let fetched = spawn(cluster.asking(0, 12, &request));
            cluster.pass_ms(10).await;
            assert_eq!(cluster.delete("t").await, None);
            cluster.pass_ms(10).await;
            assert!(fetched.is_finished());
            for partition in partitions(&fetched.await.unwrap()) {
                let code = error(partition.error_code);
                let gone = [
                    ErrorCode::UnknownTopicOrPartition,
                    ErrorCode::NotLeaderOrFollower,
                ];
                assert!(gone.map(Some).contains(&code), "{code:?}");
            }
            let code = cluster.try_fetch("t", 0, 0).await;
            assert_eq!(code, Err(ErrorCode::UnknownTopicOrPartition));
        });
    }
}

#[test]
fn followers_are_refused() {
    on(1, async |cluster| {
        cluster.create("t", 1).await;
        let request = fetch("t", &[(0, 0)]).with_replica_id(2.into());
        let answer = cluster.ask(12, &request).await;
        let code = error(partitions(&answer)[0].error_code);
        assert_eq!(code, Some(ErrorCode::NotLeaderOrFollower));
    });
}
