//! Fetches of partitions in which nothing happens: they cost no message between shards, and what
//! happens after all is answered as soon and as exactly as to a client that asks for the first
//! time.

use std::rc::Rc;

use broker::session::Session;
use platform::Platform;
use platform::sim::{Rng, SimDisk};
use platform::task::spawn;
use wire::messages::FetchResponse;
use wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use wire::messages::{DeleteRecordsRequest, FetchRequest};
use wire::types::ErrorCode;

use crate::harness::asks::{error, fetch, partitions, records_of, topic_name};
use crate::harness::transactor::Transactor;
use crate::harness::{Cluster, Setup, life};

const PARTITIONS: i32 = 4;

fn on(shards: usize, story: impl AsyncFnOnce(&Cluster)) {
    life(&SimDisk::new(1), &Setup::shards(shards), story);
}

fn of_all(from: [i64; 4]) -> FetchRequest {
    beginning_at(0, from)
}

/// The same partitions in another order, as clients ask so that none starves.
fn beginning_at(first: usize, from: [i64; 4]) -> FetchRequest {
    let mut all: Vec<_> = (0..PARTITIONS).zip(from).collect();
    all.rotate_left(first);
    fetch("t", &all)
}

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
fn the_same_fetch_again_asks_no_shard_and_is_woken_by_each_of_its_partitions() {
    for shards in [1, 2, 4] {
        on(shards, async |cluster| {
            cluster.create("t", PARTITIONS).await;
            let connection = Rc::new(Session::default());
            let ask = |request: &FetchRequest| cluster.asking_in(&connection, (0, 12), request);
            let mut from = [0; 4];
            for partition in 0..PARTITIONS {
                let place = usize::try_from(partition).unwrap();
                ask(&of_all(from)).await;
                for first in 0..3 {
                    let (tasks, fetches) = (sent(cluster), counted(cluster));
                    let begun = cluster.platform.clock().now();
                    let answer = ask(&beginning_at(first, from)).await;
                    assert_eq!(begun.elapsed().as_millis(), 500);
                    let order = partitions(&answer).into_iter();
                    let order: Vec<_> = order.map(|it| it.partition_index).collect();
                    let first = i32::try_from(first).unwrap();
                    assert_eq!(order, [0, 1, 2, 3].map(|it| (it + first) % 4));
                    assert_eq!(sent(cluster), tasks, "{shards} shards");
                    assert_eq!(counted(cluster) - fetches, 4, "one for each partition");
                    assert!(
                        partitions(&answer)
                            .iter()
                            .all(|it| records_of(it).is_empty())
                    );
                }
                let waiting = spawn(ask(&of_all(from)));
                cluster.pass_ms(100).await;
                assert!(!waiting.is_finished());
                let begun = cluster.platform.clock().now();
                cluster.produce("t", partition, &["a"]).await;
                let answer = waiting.await.unwrap();
                assert!(begun.elapsed().as_millis() < 10, "{shards} shards");
                let found = records_of(partitions(&answer)[place]);
                assert_eq!(found, [(0, "a".to_owned())]);
                from[place] = 1;
            }
            ask(&of_all(from)).await;
            let remembered = || cluster.metric("forebay_fetch_remembered_partitions");
            assert_eq!(remembered().as_deref(), Some("4"));
            drop(connection);
            assert_eq!(remembered().as_deref(), Some("0"), "with its connection");
        });
    }
}

#[test]
fn a_fetch_that_waits_for_more_bytes_than_come_is_answered_at_its_deadline_with_what_is_there() {
    on(2, async |cluster| {
        cluster.create("t", PARTITIONS).await;
        let connection = Rc::new(Session::default());
        let ask = |request: &FetchRequest| cluster.asking_in(&connection, (0, 12), request);
        let request = of_all([0; 4]).with_min_bytes(1 << 20);
        for _ in 0..2 {
            ask(&request).await;
        }
        let begun = cluster.platform.clock().now();
        let waiting = spawn(ask(&request));
        for partition in 0..2 {
            cluster.pass_ms(100).await;
            cluster.produce("t", partition, &["a"]).await;
        }
        let answer = waiting.await.unwrap();
        assert_eq!(begun.elapsed().as_millis(), 500);
        let found = partitions(&answer)
            .into_iter()
            .map(|it| records_of(it).len());
        assert_eq!(found.collect::<Vec<_>>(), [1, 1, 0, 0]);
    });
}

#[test]
fn the_deletion_of_a_topic_is_answered_at_once() {
    for shards in [1, 2] {
        on(shards, async |cluster| {
            cluster.create("t", PARTITIONS).await;
            let connection = Rc::new(Session::default());
            let request = of_all([0; 4]).with_max_wait_ms(60_000);
            let ask = || cluster.asking_in(&connection, (0, 12), &request);
            ask().await;
            let waiting = spawn(ask());
            cluster.pass_ms(1000).await;
            assert!(!waiting.is_finished());
            let begun = cluster.platform.clock().now();
            assert_eq!(cluster.delete("t").await, None);
            let answer = waiting.await.unwrap();
            assert!(begun.elapsed().as_millis() < 100);
            let told = partitions(&answer).into_iter();
            let told = told.map(|it| error(it.error_code));
            for code in told {
                assert!(matches!(
                    code,
                    Some(ErrorCode::NotLeaderOrFollower | ErrorCode::UnknownTopicOrPartition)
                ));
            }
            // Another topic of that name is another one.
            cluster.create("t", PARTITIONS).await;
            cluster.produce("t", 0, &["a"]).await;
            let answer = ask().await;
            assert_eq!(records_of(partitions(&answer)[0]).len(), 1);
        });
    }
}

async fn delete_records(cluster: &Cluster, partition: i32, offset: i64) {
    let one = DeleteRecordsPartition::default()
        .with_partition_index(partition)
        .with_offset(offset);
    let topic = DeleteRecordsTopic::default()
        .with_name(topic_name("t"))
        .with_partitions(vec![one]);
    let request = DeleteRecordsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(1000);
    let answer = cluster.ask(2, &request).await;
    assert_eq!(error(answer.topics[0].partitions[0].error_code), None);
}

/// The answers of the partitions.
fn told(answer: &FetchResponse) -> Vec<String> {
    let told = partitions(answer).into_iter();
    told.map(|it| format!("{it:?}")).collect()
}

#[test]
fn what_happens_is_answered_as_to_a_client_that_asks_for_the_first_time() {
    for seed in 0..60 {
        let shards = 1 + usize::try_from(seed % 3).unwrap();
        on(shards, async |cluster| {
            cluster.create("t", PARTITIONS).await;
            let mut random = Rng::new(seed);
            let mut below = |bound: u64| usize::try_from(random.below(bound)).unwrap();
            let connection = Rc::new(Session::default());
            let mut transactor = Transactor::begin(cluster, "writer", seed % 2 == 0).await;
            let level = i8::try_from(seed / 3 % 2).unwrap();
            let (mut from, mut is_open) = ([0_i64; 4], false);
            for step in 0..25 {
                let wait = [0, 30, 500][below(3)];
                let request = of_all(from).with_isolation_level(level);
                let waiting = spawn(cluster.asking_in(
                    &connection,
                    (0, 12),
                    &request.clone().with_max_wait_ms(wait),
                ));
                cluster.pass_ms(10).await;
                let place = below(4);
                let partition = i32::try_from(place).unwrap();
                match below(6) {
                    0 => drop(cluster.produce("t", partition, &["a", "b"]).await),
                    1 => {
                        transactor.write(partition, &["c"]).await;
                        is_open = true;
                    }
                    2 if is_open => {
                        transactor.end(below(2) == 0).await.unwrap();
                        is_open = false;
                    }
                    3 => delete_records(cluster, partition, -1).await,
                    _ => {}
                }
                waiting.await.unwrap();
                cluster.pass_ms(200).await;
                let request = beginning_at(below(4), from)
                    .with_isolation_level(level)
                    .with_max_wait_ms(30);
                let again = cluster.asking_in(&connection, (0, 12), &request).await;
                let anew = Rc::new(Session::default());
                let first = cluster.asking_in(&anew, (0, 12), &request).await;
                assert_eq!(told(&again), told(&first), "seed {seed}, step {step}");
                for found in partitions(&first) {
                    let from = &mut from[usize::try_from(found.partition_index).unwrap()];
                    if error(found.error_code) == Some(ErrorCode::OffsetOutOfRange) {
                        *from = cluster.offset("t", found.partition_index, -2).await;
                    } else if let Some((last, _)) = records_of(found).last() {
                        *from = last + 1;
                    }
                }
            }
        });
    }
}
