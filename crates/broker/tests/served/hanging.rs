//! A transaction that ends while its first batch in a partition is on its way: the batch is not
//! appended behind the marker, where it would open a transaction without an end.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use platform::sim::SimDisk;
use wire::messages::{EndTxnRequest, ProduceRequest};
use wire::types::ErrorCode;

use crate::harness::asks::{outcome, produce};
use crate::harness::batches::transactional_in;
use crate::harness::client::{called, decode, frame};
use crate::harness::transactor::Transactor;
use crate::harness::{Cluster, Setup, life};

/// Sends one batch to partition 0 and more behind it; the transaction is aborted after the request
/// has been looked at `polls` times.
async fn abort_meanwhile(cluster: &Cluster, newer: bool, polls: usize) -> bool {
    cluster.create("t", 4).await;
    let mut writer = Transactor::begin(cluster, "id", newer).await;
    writer.write(3, &["first"]).await;
    for partition in 0..3 {
        writer.add(partition).await.unwrap();
    }
    let records = |_| transactional_in(writer.producer, 0, &["late"]);
    let each: Vec<_> = (0..3)
        .map(|partition| (partition, records(partition)))
        .collect();
    let request = produce("t", -1, &each).with_transactional_id(Some(writer.id.clone()));
    let version = if newer { 12 } else { 11 };
    let mut call = called(&cluster.brokers[0], &frame(version, &request)).reply;
    let mut waiting = Context::from_waker(Waker::noop());
    let mut early = None;
    for _ in 0..polls {
        if let Poll::Ready(reply) = call.as_mut().poll(&mut waiting) {
            early = Some(reply);
            break;
        }
        platform::task::yield_now().await;
    }
    let was_under_way = early.is_none();
    writer.end(false).await.unwrap();
    cluster.pass_ms(1000).await;
    let reply = match early {
        Some(reply) => reply,
        None => call.await,
    };
    let answer = decode::<ProduceRequest>(version, reply);
    let all = &answer.responses[0].partition_responses;
    let taken = all.iter().filter(|it| outcome(it).is_ok()).count();
    cluster.pass_ms(1000).await;
    for partition in 0..4 {
        // Panics where a transaction stays open.
        let found = cluster.settled_values(partition).await;
        assert!(found.is_empty(), "aborted: {found:?}, {taken} were taken");
    }
    let mut next = Transactor::begin(cluster, "id", newer).await;
    next.write(0, &["next"]).await;
    next.end(true).await.unwrap();
    assert_eq!(cluster.settled_values(0).await, ["next"]);
    was_under_way
}

#[test]
fn a_batch_that_is_verified_before_an_abort_is_not_appended_after_it() {
    for newer in [false, true] {
        let mut under_way = 0;
        for shards in [2, 3] {
            for polls in 0..12 {
                life(&SimDisk::new(1), &Setup::shards(shards), async |cluster| {
                    under_way += usize::from(abort_meanwhile(cluster, newer, polls).await);
                });
            }
        }
        assert!(under_way > 6, "the abort came too late to matter");
    }
}

#[test]
fn a_transaction_right_after_another_is_not_refused_for_the_marker_of_that_one() {
    for newer in [false, true] {
        life(&SimDisk::new(1), &Setup::shards(2), async |cluster| {
            cluster.create("t", 3).await;
            let mut writer = Transactor::begin(cluster, "id", newer).await;
            let mut all = Vec::new();
            for round in 0..40 {
                let value = format!("{round}");
                writer.write(0, &[&value]).await;
                all.push(value);
                // Nothing is waited for: the marker may still be on its way.
                writer.end(true).await.unwrap();
            }
            assert_eq!(cluster.settled_values(0).await, all);
        });
    }
}

/// Commits, and sends the next transaction's batches some milliseconds later: before its markers
/// are in the partitions. A producer learns its next epoch from the answer; that it comes sooner
/// here stands for a slow marker.
async fn write_behind(cluster: &Cluster, millis: usize) -> bool {
    cluster.create("t", 4).await;
    let mut writer = Transactor::begin(cluster, "id", true).await;
    for partition in 0..4 {
        writer.write(partition, &["first"]).await;
    }
    let end = EndTxnRequest::default()
        .with_transactional_id(writer.id.clone())
        .with_producer_id(writer.producer.0.into())
        .with_producer_epoch(writer.producer.1)
        .with_committed(true);
    let mut ending = called(&cluster.brokers[0], &frame(5, &end)).reply;
    let mut waiting = Context::from_waker(Waker::noop());
    let mut early = None;
    for _ in 0..millis {
        if let Poll::Ready(reply) = ending.as_mut().poll(&mut waiting) {
            early = Some(reply);
            break;
        }
        cluster.pass_ms(1).await;
    }
    let next = (writer.producer.0, writer.producer.1 + 1);
    let records = transactional_in(next, 0, &["next"]);
    let each = [0, 1, 2, 3].map(|partition| (partition, records.clone()));
    let request = produce("t", -1, &each).with_transactional_id(Some(writer.id.clone()));
    let mut sent = called(&cluster.brokers[0], &frame(12, &request)).reply;
    let mut answer = None;
    std::future::poll_fn(|cx| {
        for (call, reply) in [(&mut ending, &mut early), (&mut sent, &mut answer)] {
            if reply.is_none()
                && let Poll::Ready(it) = call.as_mut().poll(cx)
            {
                *reply = Some(it);
            }
        }
        let both = early.is_some() && answer.is_some();
        if both { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    let ended = decode::<EndTxnRequest>(5, early.unwrap());
    let answer = decode::<ProduceRequest>(12, answer.unwrap());
    assert_eq!((ended.producer_id.0, ended.producer_epoch), next);
    let all = &answer.responses[0].partition_responses;
    let outcomes: Vec<_> = all.iter().map(outcome).collect();
    // Before the commit is decided there is no such epoch.
    // Before the commit is decided there is no such epoch; nothing else is a reason to refuse.
    let early = |it: &Result<_, _>| *it == Err(ErrorCode::InvalidProducerEpoch);
    let refused = outcomes.iter().any(|it| it.is_err() && !early(it));
    assert!(!refused, "{millis} ms behind: {outcomes:?}");
    outcomes.iter().all(Result::is_ok)
}

#[test]
fn batches_right_behind_a_commit_are_taken_wherever_its_markers_are() {
    let mut taken = 0;
    for shards in [1, 2, 3] {
        for millis in 0..20 {
            let disk = SimDisk::new(1);
            disk.set_latency(Duration::from_millis(2), Duration::from_millis(8));
            life(&disk, &Setup::shards(shards), async |cluster| {
                taken += usize::from(write_behind(cluster, millis).await);
            });
        }
    }
    assert!(taken > 6, "the batches came too early to matter");
}
