//! Requests that overlap on a connection keep their order in every partition, whichever shards they
//! go through.

use std::cell::Cell;
use std::rc::Rc;
use std::task::{Context, Waker};

use broker::dispatch::Reply;
use bytes::Bytes;
use platform::sim::SimDisk;
use platform::task::{spawn, yield_now};
use wire::batch::compression::Compression;
use wire::messages::ProduceRequest;

use crate::harness::asks::{outcome, produce};
use crate::harness::batches::{batch, builder, filled, produced};
use crate::harness::client::{called, decode, frame};
use crate::harness::{Cluster, NOW_MS, Setup, life};

const REQUESTS: usize = 40;

#[test]
fn overlapping_produces_keep_their_order() {
    for (shards, connection) in [(1, 0), (2, 0), (2, 1)] {
        life(&SimDisk::new(1), &Setup::shards(shards), async |cluster| {
            cluster.create("t", 4).await;
            let name = |at: usize| format!("{at:03}");
            let mut calls = Vec::new();
            for at in 0..REQUESTS {
                let records = batch(&[name(at).as_str()]);
                // The order of the partitions differs from request to request.
                let mut each: Vec<_> = (0..4).map(|p| (p, records.clone())).collect();
                each.rotate_left(at % 4);
                let acks = if at % 2 == 0 { -1 } else { 1 };
                let frame = frame(9, &produce("t", acks, &each));
                let mut call = called(&cluster.brokers[connection], &frame);
                assert!(call.overlaps);
                // As a connection does: polled once when it arrives, the rest later.
                let mut waiting = Context::from_waker(Waker::noop());
                assert!(call.reply.as_mut().poll(&mut waiting).is_pending());
                calls.push(call.reply);
            }
            for reply in calls {
                let answer = decode::<ProduceRequest>(9, reply.await);
                for partition in &answer.responses[0].partition_responses {
                    outcome(partition).unwrap();
                }
            }
            let expected: Vec<_> = (0..REQUESTS).map(name).collect();
            for partition in 0..4 {
                assert_eq!(cluster.values("t", partition).await, expected);
            }
        });
    }
}

#[test]
fn requests_behind_one_that_begins_in_pieces_keep_their_order() {
    const MANY: usize = 3000;
    for (shards, connection) in [(1, 0), (2, 0), (2, 1)] {
        life(&SimDisk::new(1), &Setup::shards(shards), async |cluster| {
            cluster.create("t", 4).await;
            let name = |request: usize, at: usize| format!("{request}-{at:04}");
            let named = |request: usize, count: usize| {
                let entries = (0..count).flat_map(|at| {
                    let records = batch(&[name(request, at).as_str()]);
                    (0..4).map(move |partition| (partition, records.clone()))
                });
                produce("t", -1, &entries.collect::<Vec<_>>())
            };
            let counts = [1, MANY, 1, MANY, 2];
            let mut calls = Vec::new();
            for (request, count) in counts.into_iter().enumerate() {
                let frame = frame(9, &named(request, count));
                let mut call = called(&cluster.brokers[connection], &frame);
                let mut waiting = Context::from_waker(Waker::noop());
                assert!(call.reply.as_mut().poll(&mut waiting).is_pending());
                calls.push(call.reply);
            }
            // The last first: no request may rely on the others being polled.
            for reply in calls.into_iter().map(spawn).rev().collect::<Vec<_>>() {
                let answer = decode::<ProduceRequest>(9, reply.await.unwrap());
                for partition in &answer.responses[0].partition_responses {
                    outcome(partition).unwrap();
                }
            }
            let all = counts.into_iter().enumerate();
            let expected: Vec<_> = all
                .flat_map(|(request, count)| (0..count).map(move |at| name(request, at)))
                .collect();
            for partition in 0..4 {
                assert!(cluster.values("t", partition).await == expected);
            }
        });
    }
}

#[test]
fn requests_behind_a_batch_that_takes_long_to_judge_keep_their_order() {
    for (shards, connection) in [(1, 0), (2, 0), (2, 1)] {
        life(&SimDisk::new(1), &Setup::shards(shards), async |cluster| {
            cluster.create("t", 2).await;
            let heavy = |name: &str| {
                let value = name.repeat(5 << 20);
                let heavy = filled(builder().compression(Compression::Zstd), NOW_MS, &[&value]);
                vec![(0, heavy), (1, batch(&[name])), (0, batch(&[name]))]
            };
            let light = |name: &str| vec![(0, batch(&[name])), (1, batch(&[name]))];
            let all = [heavy("a"), light("b"), heavy("c"), light("d")];
            let mut calls = Vec::new();
            for entries in all {
                let frame = frame(9, &produce("t", -1, &entries));
                let mut call = called(&cluster.brokers[connection], &frame);
                let mut waiting = Context::from_waker(Waker::noop());
                assert!(call.reply.as_mut().poll(&mut waiting).is_pending());
                calls.push(call.reply);
            }
            for reply in calls.into_iter().map(spawn).rev().collect::<Vec<_>>() {
                let answer = decode::<ProduceRequest>(9, reply.await.unwrap());
                for partition in &answer.responses[0].partition_responses {
                    outcome(partition).unwrap();
                }
            }
            for (partition, expected) in [(0, "aabccd"), (1, "abcd")] {
                let values = cluster.values("t", partition).await;
                let names: String = values.iter().map(|value| &value[..1]).collect();
                assert_eq!(names, expected);
            }
        });
    }
}

/// How often another task has its turn until the answer is there.
async fn turns_of_others(cluster: &Cluster, entries: &[(i32, Bytes)]) -> usize {
    let turns = Rc::new(Cell::new(0));
    let counter = Rc::clone(&turns);
    let other = spawn(async move {
        loop {
            counter.set(counter.get() + 1);
            yield_now().await;
        }
    });
    let call = called(&cluster.brokers[0], &frame(9, &produce("t", 0, entries)));
    assert!(matches!(call.reply.await, Reply::Nothing));
    other.abort();
    turns.get()
}

#[test]
fn others_have_their_turn_while_a_request_appends_much() {
    life(&SimDisk::new(1), &Setup::shards(1), async |cluster| {
        cluster.create("t", 1).await;
        let few = vec![(0, batch(&["a"])); 100];
        assert!(turns_of_others(cluster, &few).await < 3);
        let many = vec![(0, batch(&["a"])); 10_000];
        let turns = turns_of_others(cluster, &many).await;
        assert!(turns >= 19, "{turns} turns");
        // A few thousand bytes each, and four megabytes when decompressed.
        let value = "x".repeat(4 << 20);
        let zeros = filled(builder().compression(Compression::Zstd), NOW_MS, &[&value]);
        assert!(zeros.len() < 10_000);
        let turns = turns_of_others(cluster, &vec![(0, zeros); 40]).await;
        assert!(turns >= 19, "{turns} turns");
    });
}

#[test]
fn an_idempotent_producer_may_have_five_requests_under_way() {
    life(&SimDisk::new(1), &Setup::shards(2), async |cluster| {
        cluster.create("t", 2).await;
        let mut calls = Vec::new();
        for sequence in 0..5 {
            let each = [0, 1].map(|p| (p, produced(9, 0, sequence, &["a"])));
            let mut call = called(&cluster.brokers[0], &frame(9, &produce("t", -1, &each)));
            let mut waiting = Context::from_waker(Waker::noop());
            assert!(call.reply.as_mut().poll(&mut waiting).is_pending());
            calls.push((i64::from(sequence), call.reply));
        }
        for (offset, reply) in calls {
            let answer = decode::<ProduceRequest>(9, reply.await);
            for partition in &answer.responses[0].partition_responses {
                assert_eq!(outcome(partition), Ok(offset));
            }
        }
    });
}
