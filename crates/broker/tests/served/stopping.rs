//! Requests that wait when the broker stops, or when what they wait for goes away, are answered.

use std::time::Duration;

use platform::sim::SimDisk;
use platform::task::spawn;
use wire::types::ErrorCode;

use crate::harness::asks::{error, fetch, outcome, partitions, produce};
use crate::harness::batches::batch;
use crate::harness::{Setup, life};

const GONE: [ErrorCode; 2] = [
    ErrorCode::UnknownTopicOrPartition,
    ErrorCode::NotLeaderOrFollower,
];

#[test]
fn a_stop_answers_those_who_wait_and_keeps_what_they_sent() {
    let (disk, setup) = (SimDisk::new(1), Setup::shards(2));
    life(&disk, &setup, async |cluster| {
        cluster.create("t", 2).await;
        let waiting = fetch("t", &[(0, 0), (1, 0)]).with_max_wait_ms(60_000);
        let fetched = spawn(cluster.asking(0, 12, &waiting));
        let slow = Duration::from_millis(20);
        cluster.disk().set_latency(slow, slow);
        let each = [0, 1].map(|partition| (partition, batch(&["a"])));
        let produced = spawn(cluster.asking(1, 9, &produce("t", -1, &each)));
        cluster.pass_ms(1).await;
        cluster.stop().await;
        assert!(fetched.is_finished() && produced.is_finished());
        for partition in &produced.await.unwrap().responses[0].partition_responses {
            let told = outcome(partition);
            assert!(
                told == Ok(0) || told == Err(ErrorCode::NotLeaderOrFollower),
                "{told:?}"
            );
        }
        let late = cluster.try_produce("t", 0, batch(&["b"])).await;
        assert_eq!(late, Err(ErrorCode::NotLeaderOrFollower));
    });
    disk.set_latency(Duration::ZERO, Duration::ZERO);
    life(&disk, &setup.next(), async |cluster| {
        for partition in 0..2 {
            assert_eq!(cluster.values("t", partition).await, ["a"]);
        }
    });
}

#[test]
fn a_producer_that_waits_for_a_deleted_topic_is_told() {
    life(&SimDisk::new(1), &Setup::shards(2), async |cluster| {
        cluster.create("t", 2).await;
        let slow = Duration::from_millis(200);
        cluster.disk().set_latency(slow, slow);
        let each = [0, 1].map(|partition| (partition, batch(&["a"])));
        let produced = spawn(cluster.asking(0, 9, &produce("t", -1, &each)));
        cluster.pass_ms(1).await;
        assert_eq!(cluster.delete("t").await, None);
        let answer = produced.await.unwrap();
        for partition in &answer.responses[0].partition_responses {
            let told = outcome(partition);
            assert!(told == Ok(0) || GONE.map(Err).contains(&told), "{told:?}");
        }
        let answer = cluster.ask(12, &fetch("t", &[(0, 0)])).await;
        let code = error(partitions(&answer)[0].error_code);
        assert_eq!(code, Some(ErrorCode::UnknownTopicOrPartition));
    });
}
