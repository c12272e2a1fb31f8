//! Requests that need something of the controller while the disk of its log does not answer: each
//! is answered in time, and what was begun goes on.

use std::path::Path;
use std::time::Duration;

use platform::clock::Clock;
use platform::runtime::run_simulated;
use platform::sim::SimDisk;
use platform::task::{spawn, timeout, yield_now};
use wire::messages::create_topics_request::CreatableTopic;
use wire::messages::{
    AddOffsetsToTxnRequest, CreateTopicsRequest, FindCoordinatorRequest, GroupId,
    InitProducerIdRequest, TransactionalId,
};
use wire::types::ErrorCode;

use crate::harness::asks::{error, text, topic_name};
use crate::harness::setup::DIR;
use crate::harness::transactor::Transactor;
use crate::harness::{Cluster, Setup, life};

const NOT_AVAILABLE: Option<ErrorCode> = Some(ErrorCode::CoordinatorNotAvailable);
const LOADING: Option<ErrorCode> = Some(ErrorCode::CoordinatorLoadInProgress);

fn on(shards: usize, story: impl AsyncFnOnce(&Cluster)) {
    life(&SimDisk::new(1), &Setup::shards(shards), story);
}

/// Lets the controller's log hang, or answer again.
fn hang(cluster: &Cluster, hangs: bool) {
    let log = Path::new(DIR).join("__cluster_metadata-0");
    cluster.disk().set_hanging(&log, hangs);
}

async fn soon<R>(answer: impl Future<Output = R>) -> R {
    let answer = timeout(Duration::from_secs(1), answer).await;
    answer.expect("answered within a second")
}

async fn found(cluster: &Cluster, shard: usize, kind: i8) -> Option<ErrorCode> {
    let request = FindCoordinatorRequest::default()
        .with_key_type(kind)
        .with_coordinator_keys(vec![text("x")]);
    let told = soon(cluster.asking(shard, 4, &request)).await;
    error(told.coordinators[0].error_code)
}

fn has_topic(cluster: &Cluster, name: &str) -> bool {
    cluster.brokers[0].image().topic_by_name(name).is_some()
}

#[test]
fn a_coordinator_whose_topic_is_slow_to_come_is_not_there_yet() {
    for shard in 0..2 {
        on(2, async |cluster| {
            hang(cluster, true);
            for _ in 0..3 {
                for kind in [0, 1] {
                    assert_eq!(found(cluster, shard, kind).await, NOT_AVAILABLE);
                }
            }
            let old = FindCoordinatorRequest::default().with_key(text("x"));
            for version in 0..4 {
                let told = soon(cluster.asking(shard, version, &old)).await;
                assert_eq!(error(told.error_code), NOT_AVAILABLE);
                assert_eq!((told.node_id.0, told.port), (-1, -1));
            }
            hang(cluster, false);
            // No client has to ask for it again.
            cluster.pass_ms(20_000).await;
            assert!(has_topic(cluster, "__consumer_offsets"));
            assert_eq!(found(cluster, shard, 0).await, None);
            for _ in 0..20 {
                if found(cluster, shard, 1).await.is_none() {
                    break;
                }
                cluster.pass_ms(100).await;
            }
            assert!(has_topic(cluster, "__transaction_state"));
        });
    }
}

#[test]
fn however_many_look_for_a_coordinator_each_is_answered_soon_and_nobody_keeps_the_turn() {
    on(2, async |cluster| {
        hang(cluster, true);
        let asked = (0..50).map(|number| {
            let key = text(&format!("g{number}"));
            let request = FindCoordinatorRequest::default().with_coordinator_keys(vec![key]);
            spawn(soon(cluster.asking(number % 2, 4, &request)))
        });
        for told in asked.collect::<Vec<_>>() {
            let told = told.await.unwrap();
            assert_eq!(error(told.coordinators[0].error_code), NOT_AVAILABLE);
        }
        hang(cluster, false);
        cluster.pass_ms(20_000).await;
        assert!(has_topic(cluster, "__consumer_offsets"));
        assert_eq!(creating(cluster, 1, "next").await, None);
    });
}

#[test]
fn a_coordinators_topic_comes_behind_a_change_that_hangs_though_its_client_has_gone() {
    for shard in 0..2 {
        on(2, async |cluster| {
            hang(cluster, true);
            let first = spawn(creating(cluster, 0, "first"));
            cluster.pass_ms(10).await;
            assert_eq!(found(cluster, shard, 0).await, NOT_AVAILABLE);
            hang(cluster, false);
            cluster.pass_ms(20_000).await;
            assert_eq!(first.await.unwrap(), None);
            assert!(has_topic(cluster, "__consumer_offsets"));
        });
    }
}

#[test]
fn offsets_join_a_transaction_once_their_topic_is_there() {
    for newer in [false, true] {
        on(2, async |cluster| {
            cluster.create("t", 1).await;
            let writer = Transactor::begin(cluster, "id", newer).await;
            let request = AddOffsetsToTxnRequest::default()
                .with_transactional_id(writer.id.clone())
                .with_producer_id(writer.producer.0.into())
                .with_producer_epoch(writer.producer.1)
                .with_group_id(GroupId(text("g")));
            let added = async || {
                let told = soon(cluster.asking(0, 3, &request)).await;
                error(told.error_code)
            };
            hang(cluster, true);
            assert_eq!(added().await, NOT_AVAILABLE);
            hang(cluster, false);
            cluster.pass_ms(20_000).await;
            assert!(has_topic(cluster, "__consumer_offsets"));
            assert_eq!(added().await, None);
        });
    }
}

#[test]
fn a_producer_without_an_id_asks_again_and_the_block_that_comes_late_is_used() {
    for transactional in [false, true] {
        on(1, async |cluster| {
            // Its coordinator is there.
            for _ in 0..20 {
                if found(cluster, 0, 1).await.is_none() {
                    break;
                }
                cluster.pass_ms(100).await;
            }
            cluster.pass_ms(1_000).await;
            let begun = async || {
                let id = transactional.then(|| TransactionalId(text("id")));
                let request = InitProducerIdRequest::default()
                    .with_transactional_id(id)
                    .with_transaction_timeout_ms(1000)
                    .with_producer_id((-1).into())
                    .with_producer_epoch(-1);
                let told = soon(cluster.ask(4, &request)).await;
                (error(told.error_code), told.producer_id.0)
            };
            hang(cluster, true);
            for _ in 0..5 {
                assert_eq!(begun().await, (LOADING, -1));
            }
            hang(cluster, false);
            cluster.pass_ms(20_000).await;
            // The first of the first block: the questions have taken one block.
            assert_eq!(begun().await, (None, 0));
        });
    }
}

fn creating(
    cluster: &Cluster,
    shard: usize,
    name: &str,
) -> impl Future<Output = Option<ErrorCode>> + use<> {
    let topic = CreatableTopic::default()
        .with_name(topic_name(name))
        .with_num_partitions(1)
        .with_replication_factor(1);
    let request = CreateTopicsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(60_000);
    let told = cluster.asking(shard, 7, &request);
    async move { error(told.await.topics[0].error_code) }
}

#[test]
fn a_change_of_the_metadata_is_given_up_when_the_disk_hangs_and_done_if_it_was_begun() {
    for shard in 0..2 {
        on(2, async |cluster| {
            hang(cluster, true);
            let begun = spawn(creating(cluster, shard, "begun"));
            cluster.pass_ms(10).await;
            let waits = spawn(creating(cluster, shard, "waits"));
            let late = Some(ErrorCode::RequestTimedOut);
            for told in [begun, waits] {
                let told = timeout(Duration::from_secs(20), told).await;
                assert_eq!(told.expect("before clients give up").unwrap(), late);
            }
            // Who comes now does not wait until it hangs: it does.
            let told = timeout(Duration::from_secs(6), creating(cluster, shard, "last")).await;
            assert_eq!(told.expect("in time"), late);
            hang(cluster, false);
            cluster.pass_ms(20_000).await;
            let there = ["begun", "waits", "last"].map(|name| has_topic(cluster, name));
            assert_eq!(there, [true, false, false]);
            assert_eq!(creating(cluster, shard, "waits").await, None);
        });
    }
}

#[test]
fn a_start_waits_for_the_disk_however_long_it_hangs() {
    // It hangs from each of many moments of a start on.
    for begins in 0..120 {
        run_simulated(async {
            let disk = SimDisk::new(1);
            let here = disk.clone();
            let starting = spawn(async move { Cluster::start(here, &Setup::shards(1)).await });
            for _ in 0..begins {
                yield_now().await;
            }
            let log = Path::new(DIR).join("__cluster_metadata-0");
            disk.set_hanging(&log, true);
            Clock::starting_at(0).sleep(Duration::from_mins(1)).await;
            disk.set_hanging(&log, false);
            assert!(starting.await.unwrap().is_ok(), "{begins}");
        })
        .unwrap();
    }
}
