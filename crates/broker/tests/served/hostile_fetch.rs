//! Fetches of hostile clients: a partition named without end, waits that cannot end, clients that
//! are gone.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use broker::answers::FLOOR_BYTES;
use platform::Platform;
use platform::sim::SimDisk;
use platform::task::spawn;
use wire::messages::{FetchRequest, FetchResponse};

use crate::harness::asks::{fetch, partitions, records_of, wanted};
use crate::harness::batches::large;
use crate::harness::{Cluster, Setup, life};

fn on(shards: usize, story: impl AsyncFnOnce(&Cluster)) {
    life(&SimDisk::new(1), &Setup::shards(shards), story);
}

/// The future, and how often it is polled.
pub(crate) fn counted<F: Future>(future: F) -> (impl Future<Output = F::Output>, Rc<Cell<u64>>) {
    let polls = Rc::new(Cell::new(0));
    let counter = Rc::clone(&polls);
    let counted = async move {
        let mut future = pin!(future);
        std::future::poll_fn(|context| {
            counter.set(counter.get() + 1);
            future.as_mut().poll(context)
        })
        .await
    };
    (counted, polls)
}

fn waiting(cluster: &Cluster) -> usize {
    let led = cluster
        .brokers
        .iter()
        .flat_map(|broker| broker.led_partitions());
    led.map(|partition| partition.waiting_fetches()).sum()
}

/// A fetch that asks for more than there will be.
fn insatiable(from: &[(i32, i64)]) -> FetchRequest {
    fetch("t", from)
        .with_max_wait_ms(i32::MAX)
        .with_min_bytes(1 << 20)
}

#[test]
fn a_diverging_partition_that_is_named_seventy_thousand_times_is_told_of_once() {
    for shards in [1, 2] {
        let (disk, setup) = (SimDisk::new(1), Setup::shards(shards));
        life(&disk, &setup, async |cluster| {
            cluster.create("t", 1).await;
            cluster.produce("t", 0, &["a"]).await;
            cluster.stop().await;
        });
        life(&disk, &setup.next(), async |cluster| {
            cluster.produce("t", 0, &["b"]).await;
            let mut request = fetch("t", &[(0, 2)]);
            request.topics[0].partitions[0].last_fetched_epoch = 0;
            let one = request.topics[0].partitions[0].clone();
            request.topics[0].partitions = vec![one; 70_000];
            let answer = cluster.ask(12, &request).await;
            let [told] = partitions(&answer)[..] else {
                panic!("{} parts", partitions(&answer).len());
            };
            assert_eq!(told.diverging_epoch.end_offset, 1, "{told:?}");
            assert_eq!(cluster.values("t", 0).await, ["a", "b"]);
        });
    }
}

#[test]
fn a_partition_that_diverges_takes_no_room_from_those_after_it() {
    let (disk, setup) = (SimDisk::new(1), Setup::shards(1));
    life(&disk, &setup, async |cluster| {
        cluster.create("t", 2).await;
        cluster.produce("t", 0, &["a"]).await;
        cluster.stop().await;
    });
    life(&disk, &setup.next(), async |cluster| {
        cluster.produce("t", 0, &["b"]).await;
        cluster.produce("t", 1, &["c"]).await;
        let mut request = fetch("t", &[(0, 2), (1, 0)]).with_max_bytes(1 << 20);
        request.topics[0].partitions[0].last_fetched_epoch = 0;
        let answer = cluster.ask(12, &request).await;
        let all = partitions(&answer);
        assert_eq!(all[0].diverging_epoch.end_offset, 1);
        assert_eq!(records_of(all[1]), [(0, "c".to_owned())]);
    });
}

#[test]
fn a_partition_that_is_named_again_is_read_once_as_it_was_named_last() {
    for count in [3, 60] {
        on(2, async |cluster| {
            cluster.create("t", 2).await;
            for partition in 0..2 {
                cluster.produce("t", partition, &["a"]).await;
                cluster.produce("t", partition, &["b"]).await;
            }
            for session_epoch in [-1, 0] {
                let mut request = fetch("t", &[(1, 0), (0, 0)]).with_session_epoch(session_epoch);
                let again = (0..count).map(|_| wanted(1, 1));
                request.topics.push(fetch("t", &[]).topics.remove(0));
                request.topics[1].partitions.extend(again);
                let answer = cluster.ask(12, &request).await;
                let told: Vec<_> = partitions(&answer)
                    .into_iter()
                    .map(|partition| (partition.partition_index, records_of(partition)))
                    .collect();
                let (a, b) = ((0, "a".to_owned()), (1, "b".to_owned()));
                assert_eq!(told, [(1, vec![b.clone()]), (0, vec![a, b])]);
            }
        });
    }
}

#[test]
fn appends_do_not_wake_ten_thousand_fetches_that_cannot_have_enough() {
    on(1, async |cluster| {
        cluster.create("t", 1).await;
        let mut all_polls = Vec::new();
        for _ in 0..10_000 {
            let (fetched, polls) = counted(cluster.asking(0, 12, &insatiable(&[(0, 0)])));
            spawn(fetched);
            all_polls.push(polls);
        }
        cluster.pass_ms(1).await;
        assert_eq!(waiting(cluster), 10_000);
        let polls = || all_polls.iter().map(|polls| polls.get()).sum::<u64>();
        let before = polls();
        for _ in 0..100 {
            cluster.produce("t", 0, &["a"]).await;
        }
        assert_eq!(polls(), before, "100 appends of some bytes are no megabyte");
    });
}

#[test]
fn a_fetch_of_many_partitions_is_woken_seldom_and_as_soon_as_it_has_enough() {
    for shards in [1, 2] {
        on(shards, async |cluster| {
            cluster.create("t", 20).await;
            let all: Vec<_> = (0..20).map(|partition| (partition, 0)).collect();
            let one = large(1000).len();
            let bytes = i32::try_from(one * 200).unwrap();
            let request = fetch("t", &all)
                .with_max_wait_ms(i32::MAX)
                .with_min_bytes(bytes);
            let (fetched, polls) = counted(cluster.asking(0, 12, &request));
            let fetched = spawn(fetched);
            for round in 0..200 {
                cluster.pass_ms(1).await;
                assert!(!fetched.is_finished(), "{round} of 200");
                // Most of it goes to one partition.
                let partition = if round % 4 == 0 { round / 4 % 20 } else { 7 };
                cluster
                    .try_produce("t", partition, large(1000))
                    .await
                    .unwrap();
            }
            cluster.pass_ms(1).await;
            assert!(fetched.is_finished());
            assert!(polls.get() < 150, "{} polls", polls.get());
        });
    }
}

#[test]
fn no_fetch_waits_for_longer_than_five_minutes() {
    on(2, async |cluster| {
        cluster.create("t", 2).await;
        let before = cluster.platform.clock().now();
        cluster.ask(12, &insatiable(&[(0, 0), (1, 0)])).await;
        assert_eq!(before.elapsed().as_secs(), 300);
        assert_eq!(waiting(cluster), 0);
    });
}

#[test]
fn a_fetch_that_is_dropped_leaves_nothing_behind_on_any_shard() {
    for shards in [1, 2, 3] {
        for asked in 0..shards {
            on(shards, async |cluster| {
                cluster.create("t", 6).await;
                for partitions in [vec![0], vec![0, 1, 2, 3, 4, 5]] {
                    let all: Vec<_> = partitions.iter().map(|index| (*index, 0)).collect();
                    let fetched = spawn(cluster.asking(asked, 12, &insatiable(&all)));
                    cluster.pass_ms(10).await;
                    assert!(waiting(cluster) > 0);
                    fetched.abort();
                    cluster.pass_ms(10).await;
                    assert_eq!(waiting(cluster), 0, "{shards} shards, {partitions:?}");
                }
            });
        }
    }
}

/// One topic that is there, with records in its four partitions, and very many partitions that are
/// not.
fn nearly_all_absent(count: i32, session: (i32, i32)) -> FetchRequest {
    let from: Vec<_> = (0..count).map(|partition| (partition, 0)).collect();
    let mut request = fetch("t", &from)
        .with_session_id(session.0)
        .with_session_epoch(session.1);
    request.topics.extend(fetch("u", &from).topics);
    request
}

#[test]
fn a_fetch_of_many_partitions_answers_each_as_a_fetch_of_few_does() {
    for shards in [1, 2] {
        on(shards, async |cluster| {
            cluster.create("t", 4).await;
            for partition in 0..4 {
                cluster.produce("t", partition, &["a", "b"]).await;
            }
            let told = |answer: &FetchResponse| -> Vec<_> {
                let all = partitions(answer).into_iter();
                all.map(|told| (told.partition_index, told.error_code, records_of(told)))
                    .collect()
            };
            let few = cluster.ask(11, &nearly_all_absent(5, (0, -1))).await;
            let few = told(&few);
            for epoch in [-1, 0] {
                let many = cluster.ask(11, &nearly_all_absent(4000, (0, epoch))).await;
                let all = told(&many);
                assert_eq!(all.len(), 8000);
                assert_eq!(all[..5], few[..5]);
                assert_eq!(all[4000..4005], few[5..]);
                assert!(all[4..].iter().all(|(_, code, _)| *code == 3));
                let order = all.iter().map(|(index, ..)| *index);
                assert!(order.eq((0..4000).chain(0..4000)));
                if epoch == 0 {
                    let next = fetch("t", &[])
                        .with_session_id(many.session_id)
                        .with_session_epoch(1);
                    let again = cluster.ask(11, &next).await;
                    assert_eq!(
                        told(&again).len(),
                        8000,
                        "errors and records are told again"
                    );
                }
            }
        });
    }
}

#[test]
fn a_fetch_of_many_partitions_lets_others_have_their_turn_every_five_hundred() {
    on(1, async |cluster| {
        cluster.create("t", 1).await;
        let (ordinary, few) = counted(cluster.asking(0, 11, &nearly_all_absent(100, (0, 0))));
        ordinary.await;
        assert!(few.get() < 10, "{} turns of an ordinary fetch", few.get());
        let (fetched, polls) = counted(cluster.asking(0, 11, &nearly_all_absent(20_000, (0, 0))));
        fetched.await;
        // Named, once each, remembered, looked up, estimated, shared out, told of, gathered,
        // encoded.
        let least = 9 * 40_000 / 512;
        assert!(polls.get() > least, "{} turns, not {least}", polls.get());
    });
}

#[test]
fn a_fetch_that_waits_at_many_partitions_lies_down_in_turns_and_misses_nothing() {
    const PARTITIONS: i32 = 1_100;
    on(1, async |cluster| {
        cluster.create("t", PARTITIONS).await;
        let from: Vec<_> = (0..PARTITIONS).map(|partition| (partition, 0)).collect();
        let request = fetch("t", &from).with_max_wait_ms(0);
        let (fetched, at_once) = counted(cluster.asking(0, 11, &request));
        fetched.await;
        let one = large(1000).len();
        let request = request
            .with_max_wait_ms(600_000)
            .with_min_bytes(i32::try_from(one).unwrap());
        let (fetched, polls) = counted(cluster.asking(0, 11, &request));
        let told = Rc::new(Cell::new(None));
        let kept = Rc::clone(&told);
        spawn(async move { kept.set(Some(fetched.await)) });
        while waiting(cluster) == 0 {
            platform::task::yield_now().await;
        }
        // It is among some of the waiters, and not yet among those of the last.
        let lies_down = waiting(cluster);
        assert!(lies_down < usize::try_from(PARTITIONS).unwrap());
        let last = PARTITIONS - 1;
        let value = "x".repeat(2 * one);
        cluster.produce("t", last, &[&value]).await;
        cluster.pass_ms(10).await;
        let answer: FetchResponse = told.take().expect("what came meanwhile was enough");
        let found = partitions(&answer).into_iter();
        let found = found.filter(|told| !records_of(told).is_empty());
        assert!(found.map(|told| told.partition_index).eq([last]));
        // Looked up, asked, written down.
        let more = polls.get().saturating_sub(at_once.get());
        let least = u64::try_from(3 * PARTITIONS / 512).unwrap();
        assert!(more >= least, "{more} turns more, not {least}");
    });
}

#[test]
fn large_fetches_that_wait_keep_no_others_from_their_turn() {
    on(2, async |cluster| {
        cluster.create("t", 1).await;
        let large = |wait_ms| {
            let mut request = insatiable(&[(0, 0)]).with_max_wait_ms(wait_ms);
            let one = request.topics[0].partitions[0].clone();
            request.topics[0].partitions = vec![one; 5000];
            request
        };
        let all: Vec<_> = (0..5)
            .map(|_| spawn(cluster.asking(0, 11, &large(i32::MAX))))
            .collect();
        while waiting(cluster) < all.len() {
            cluster.pass_ms(1).await;
        }
        let before = cluster.platform.clock().now();
        cluster.asking(0, 11, &large(0)).await;
        assert!(
            before.elapsed().as_secs() < 60,
            "it waited for those that wait"
        );
        for one in all {
            one.abort();
        }
        cluster.pass_ms(10).await;
        assert_eq!(waiting(cluster), 0);
    });
}

#[test]
fn what_fetches_have_read_counts_while_they_are_in_line_for_a_place() {
    const FETCHES: i32 = 30;
    const BYTES: usize = 128 << 10;
    let (disk, setup) = (SimDisk::new(1), Setup::shards(1));
    life(&disk, &setup, async |cluster| {
        cluster.create("t", FETCHES).await;
        for partition in 0..FETCHES {
            let produced = cluster.try_produce("t", partition, large(BYTES)).await;
            assert!(produced.is_ok(), "{produced:?}");
        }
        cluster.stop().await;
    });
    life(&disk.kill(2), &setup.next(), async |cluster| {
        let slow = Duration::from_millis(150);
        cluster.disk().set_latency(slow, slow);
        let absent: Vec<_> = (0..2100).map(|partition| (partition, 0)).collect();
        let all: Vec<_> = (0..FETCHES)
            .map(|partition| {
                let mut request = fetch("t", &[(partition, 0)]);
                request.topics.extend(fetch("u", &absent).topics);
                spawn(cluster.asking(0, 11, &request))
            })
            .collect();
        let mut most = 0;
        while all.iter().any(|one| !one.is_finished()) {
            cluster.pass_ms(5).await;
            most = cluster.answers.used_bytes().max(most);
        }
        // Only some of them read at a time, and none has a place again before all have read.
        assert!(most >= 20 * (BYTES - FLOOR_BYTES), "{most}");
        for (partition, one) in (0..).zip(all) {
            let answer = one.await.unwrap();
            let read = partitions(&answer)[0];
            assert_eq!(read.partition_index, partition);
            assert_eq!(records_of(read).len(), 1, "{partition}");
        }
    });
}
