//! Where partitions begin and end: offsets by time and by name, by epoch, raised by `DeleteRecords`
//! and by retention.

use platform::sim::SimDisk;
use wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use wire::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use wire::messages::{DeleteRecordsRequest, OffsetForLeaderEpochRequest};
use wire::types::ErrorCode;

use crate::harness::asks::{error, list_offsets, produce, topic_name};
use crate::harness::batches::{batch_at, large};
use crate::harness::client::frame;
use crate::harness::{Cluster, NOW_MS, Setup, life};

fn on(shards: usize, story: impl AsyncFnOnce(&Cluster)) {
    life(&SimDisk::new(1), &Setup::shards(shards), story);
}

/// The low watermark after a `DeleteRecords`.
pub(crate) async fn delete_before(
    cluster: &Cluster,
    topic: &str,
    offset: i64,
) -> Result<i64, ErrorCode> {
    let partition = DeleteRecordsPartition::default().with_offset(offset);
    let topic = DeleteRecordsTopic::default()
        .with_name(topic_name(topic))
        .with_partitions(vec![partition]);
    let request = DeleteRecordsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(1000);
    let answer = cluster.ask(2, &request).await;
    let partition = &answer.topics[0].partitions[0];
    error(partition.error_code).map_or(Ok(partition.low_watermark), Err)
}

#[test]
fn offsets_are_found_by_time() {
    on(2, async |cluster| {
        cluster.create("t", 1).await;
        for special in [-1, -2, -4] {
            assert_eq!(cluster.offset("t", 0, special).await, 0);
        }
        for none in [-3, -5, 0] {
            assert_eq!(cluster.offset("t", 0, none).await, -1);
        }
        for at in [10, 30, 20] {
            let records = batch_at(NOW_MS + at, &["a", "b"]);
            cluster.try_produce("t", 0, records).await.unwrap();
        }
        for (timestamp, offset) in [
            (-1, 6),
            (-2, 0),
            (-3, 2),
            (-4, 0),
            (-5, -1),
            (0, 0),
            (NOW_MS + 10, 0),
            (NOW_MS + 11, 2),
            (NOW_MS + 30, 2),
            (NOW_MS + 31, -1),
        ] {
            assert_eq!(
                cluster.offset("t", 0, timestamp).await,
                offset,
                "{timestamp}"
            );
        }
    });
}

#[test]
fn what_was_acknowledged_before_is_counted() {
    // acks=1 is answered before the record is as safe as readers want it, and acks=0 not at all.
    for acks in [0, 1] {
        for shards in [1, 2] {
            on(shards, async |cluster| {
                cluster.create("t", 1).await;
                for end in 1..=5 {
                    let records = batch_at(NOW_MS + end, &["a"]);
                    let sent = frame(9, &produce("t", acks, &[(0, records)]));
                    cluster.reply(0, &sent).await;
                    let last = cluster.offset("t", 0, NOW_MS + end).await;
                    assert_eq!(last, end - 1, "acks={acks}, by time");
                    assert_eq!(cluster.offset("t", 0, -1).await, end, "acks={acks}");
                }
            });
        }
    }
}

#[test]
fn what_was_acknowledged_before_can_be_deleted() {
    for (asked, acks) in [(1, 0), (1, 1), (-1, 0), (-1, 1)] {
        on(2, async |cluster| {
            cluster.create("t", 1).await;
            let sent = frame(9, &produce("t", acks, &[(0, batch_at(NOW_MS, &["a"]))]));
            cluster.reply(0, &sent).await;
            assert_eq!(delete_before(cluster, "t", asked).await, Ok(1));
        });
    }
}

#[test]
fn names_of_offsets_that_a_version_lacks_are_refused() {
    on(1, async |cluster| {
        cluster.create("t", 1).await;
        for (timestamp, first) in [(-3, 7), (-4, 8), (-5, 9), (-6, 11), (-9, 11)] {
            for version in 1..=10 {
                let answer = cluster.ask(version, &list_offsets("t", 0, timestamp)).await;
                let code = error(answer.topics[0].partitions[0].error_code);
                let expected = (version < first).then_some(ErrorCode::UnsupportedVersion);
                assert_eq!(code, expected, "{timestamp} in {version}");
            }
        }
    });
}

#[test]
fn a_partition_that_is_named_twice_is_no_question() {
    on(1, async |cluster| {
        cluster.create("t", 2).await;
        let mut request = list_offsets("t", 0, -1);
        request.topics[0]
            .partitions
            .extend(list_offsets("t", 0, -2).topics[0].partitions.clone());
        request.topics[0]
            .partitions
            .extend(list_offsets("t", 1, -2).topics[0].partitions.clone());
        let answer = cluster.ask(10, &request).await;
        let codes = answer.topics[0]
            .partitions
            .iter()
            .map(|p| error(p.error_code));
        let invalid = Some(ErrorCode::InvalidRequest);
        assert_eq!(codes.collect::<Vec<_>>(), [invalid, None], "refused once");
    });
}

#[test]
fn epochs_end_where_the_log_does() {
    on(2, async |cluster| {
        cluster.create("t", 1).await;
        cluster.produce("t", 0, &["a", "b"]).await;
        for (epoch, claimed, expected) in [
            (0, 0, Ok((0, 2))),
            (5, -1, Ok((-1, -1))),
            (0, 3, Err(ErrorCode::UnknownLeaderEpoch)),
        ] {
            let partition = OffsetForLeaderPartition::default()
                .with_leader_epoch(epoch)
                .with_current_leader_epoch(claimed);
            let topic = OffsetForLeaderTopic::default()
                .with_topic(topic_name("t"))
                .with_partitions(vec![partition]);
            let request = OffsetForLeaderEpochRequest::default().with_topics(vec![topic]);
            let answer = cluster.ask(4, &request).await;
            let end = &answer.topics[0].partitions[0];
            let found = (end.leader_epoch, end.end_offset);
            assert_eq!(error(end.error_code).map_or(Ok(found), Err), expected);
        }
    });
}

#[test]
fn records_are_deleted_up_to_an_offset_and_stay_deleted() {
    let disk = SimDisk::new(1);
    let setup = Setup::shards(2);
    let disk = life(&disk, &setup, async |cluster| {
        cluster.create("t", 1).await;
        for value in ["a", "b", "c", "d"] {
            cluster.produce("t", 0, &[value]).await;
        }
        assert_eq!(delete_before(cluster, "t", 2).await, Ok(2));
        assert_eq!(
            delete_before(cluster, "t", 1).await,
            Ok(2),
            "it never goes back"
        );
        assert_eq!(
            delete_before(cluster, "t", 5).await,
            Err(ErrorCode::OffsetOutOfRange)
        );
        assert_eq!(
            delete_before(cluster, "t", -2).await,
            Err(ErrorCode::OffsetOutOfRange)
        );
        assert_eq!(cluster.values("t", 0).await, ["c", "d"]);
        let early = cluster.try_fetch("t", 0, 1).await;
        assert_eq!(early, Err(ErrorCode::OffsetOutOfRange));
        cluster.disk().crash(5)
    });
    life(&disk, &setup.next(), async |cluster| {
        assert_eq!(cluster.values("t", 0).await, ["c", "d"]);
        assert_eq!(delete_before(cluster, "t", -1).await, Ok(4));
        assert_eq!(cluster.offset("t", 0, -2).await, 4);
        assert_eq!(cluster.produce("t", 0, &["e"]).await, 4);
    });
}

#[test]
fn internal_and_compacted_topics_are_not_cut_short() {
    on(1, async |cluster| {
        cluster
            .create_with("t", 1, &[("cleanup.policy", "compact")])
            .await;
        assert_eq!(
            delete_before(cluster, "t", -1).await,
            Err(ErrorCode::PolicyViolation)
        );
        cluster.commit("g", "t", 0, 1).await;
        let refused = delete_before(cluster, "__consumer_offsets", -1).await;
        assert_eq!(refused, Err(ErrorCode::InvalidTopicException));
    });
}

#[test]
fn retention_by_time_and_size_deletes_old_segments() {
    on(2, async |cluster| {
        let small = ("segment.bytes", "1048576");
        cluster
            .create_with("old", 1, &[small, ("retention.ms", "600000")])
            .await;
        cluster
            .create_with("big", 1, &[small, ("retention.bytes", "1500000")])
            .await;
        for topic in ["old", "big"] {
            for _ in 0..5 {
                cluster.try_produce(topic, 0, large(700_000)).await.unwrap();
            }
        }
        cluster.pass_ms(301_000).await;
        assert_eq!(cluster.offset("old", 0, -2).await, 0);
        assert!((1..5).contains(&cluster.offset("big", 0, -2).await));
        cluster.pass_ms(650_000).await;
        assert_eq!(
            cluster.offset("old", 0, -2).await,
            5,
            "also the active segment"
        );
        assert_eq!(cluster.produce("old", 0, &["a"]).await, 5);
        let start = cluster.offset("big", 0, -2).await;
        assert_eq!(cluster.all("big", 0).await[0].0, start);
    });
}
