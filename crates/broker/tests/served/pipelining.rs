//! Requests that overlap on a connection keep their order in every partition, whichever shards they go through.

use std::task::{Context, Waker};

use platform::sim::SimDisk;
use wire::messages::ProduceRequest;

use crate::harness::asks::{outcome, produce};
use crate::harness::batches::{batch, produced};
use crate::harness::client::{called, decode, frame};
use crate::harness::{Setup, life};

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
