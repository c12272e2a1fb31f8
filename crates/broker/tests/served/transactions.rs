//! Readers of a log that has transactions in it, as a cluster that serves them would have left it.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use platform::Clock;
use platform::sim::{SimDisk, SimPlatform};
use storage::{Durability, LogOptions, Metrics, OpenAs, Store};
use wire::types::{LeaderEpoch, Offset, TopicId, TopicPartition};

use crate::harness::asks::{fetch, list_offsets, partitions};
use crate::harness::batches::{batch, marker, read, transactional};
use crate::harness::{NOW_MS, Setup, life};

/// Puts batches at the end of partition 0 of `t`, offsets and all, while no broker runs.
fn write(disk: &SimDisk, setup: &Setup, topic_id: TopicId, batches: &[Bytes]) {
    let work = async {
        let platform = SimPlatform::on(disk.clone(), Clock::starting_at(NOW_MS), 3);
        let store = Store::new(platform, setup.store.clone(), Metrics::unregistered());
        let how = OpenAs {
            clean: false,
            recovery_point: Offset(0),
            log_start: Offset(0),
            compacted: None,
        };
        let name = TopicPartition {
            topic: Arc::from("t"),
            partition: 0,
        };
        let log = store.open_log(Path::new("/logs"), name, topic_id, options(), how);
        let log: Rc<_> = log.await.unwrap();
        for batch in batches {
            let numbered = numbered(batch, log.log_end_offset());
            log.append_as_is(&numbered, NOW_MS).unwrap();
        }
        log.close().await.unwrap();
    };
    platform::runtime::run_simulated(work).unwrap();
}

/// The batch with its place in the log, which lies outside of its CRC.
fn numbered(batch: &Bytes, offset: Offset) -> Bytes {
    let mut bytes = BytesMut::from(&batch[..]);
    bytes[..8].copy_from_slice(&offset.0.to_be_bytes());
    bytes[12..16].copy_from_slice(&LeaderEpoch(0).0.to_be_bytes());
    bytes.freeze()
}

fn options() -> LogOptions {
    LogOptions {
        segment_bytes: 8 << 10,
        segment_ms: None,
        segment_jitter_ms: 0,
        index_interval_bytes: 4096,
        index_bytes_max: 1 << 20,
        retention_ms: None,
        retention_bytes: None,
        flush_messages: u64::MAX,
        flush_ms: u64::MAX,
        max_batch_bytes: 1 << 20,
        delete: true,
        compact: false,
        durability: Durability::Synced,
        preallocate: true,
        reserve_bytes: 0,
        file_delete_delay_ms: 60_000,
        producer_id_expiration_ms: 86_400_000,
        tier_pins: None,
    }
}

#[test]
fn read_committed_stops_at_open_transactions_and_names_aborted_ones() {
    let (disk, setup) = (SimDisk::new(1), Setup::shards(2));
    let topic_id = life(&disk, &setup, async |cluster| {
        cluster.create("t", 1).await;
        cluster.stop().await;
        cluster.topic_id("t")
    });
    let batches = [
        transactional(1, 0, &["aborted"]),
        batch(&["plain"]),
        transactional(2, 0, &["committed"]),
        marker(1, false),
        marker(2, true),
        transactional(3, 0, &["open"]),
        batch(&["after"]),
    ];
    write(&disk, &setup, topic_id, &batches);
    life(&disk, &setup.next(), async |cluster| {
        let answer = cluster.ask(12, &fetch("t", &[(0, 0)])).await;
        let all = partitions(&answer)[0];
        assert_eq!((all.high_watermark, all.last_stable_offset), (7, 5));
        assert!(all.aborted_transactions.as_ref().is_none_or(Vec::is_empty));
        assert_eq!(read(all.records.as_ref().unwrap()).len(), 7);

        let mut next = 0;
        while next < 5 {
            let request = fetch("t", &[(0, next)]).with_isolation_level(1);
            let answer = cluster.ask(12, &request).await;
            let committed = partitions(&answer)[0];
            if next == 0 {
                let aborted = committed.aborted_transactions.as_ref().unwrap();
                assert_eq!(aborted.len(), 1);
                assert_eq!((aborted[0].producer_id.0, aborted[0].first_offset), (1, 0));
            }
            let records = read(committed.records.as_ref().unwrap());
            next = records.last().expect("records below the end").0 + 1;
        }
        assert_eq!(next, 5, "nothing of the open transaction");

        // Past what is committed there is nothing yet, and that is no error.
        let beyond = fetch("t", &[(0, 5)])
            .with_isolation_level(1)
            .with_max_wait_ms(10);
        let answer = cluster.ask(12, &beyond).await;
        let beyond = partitions(&answer)[0];
        assert_eq!(beyond.error_code, 0);
        assert!(beyond.records.as_ref().is_none_or(Bytes::is_empty));

        for (isolation, end) in [(0, 7), (1, 5)] {
            let request = list_offsets("t", 0, -1).with_isolation_level(isolation);
            let answer = cluster.ask(10, &request).await;
            assert_eq!(answer.topics[0].partitions[0].offset, end);
        }
    });
}

#[test]
fn an_answer_names_the_aborted_transactions_of_its_own_records_and_no_others() {
    let (disk, setup) = (SimDisk::new(1), Setup::shards(2));
    let topic_id = life(&disk, &setup, async |cluster| {
        cluster.create("t", 1).await;
        cluster.stop().await;
        cluster.topic_id("t")
    });
    // One transaction that ends some segments later than it begins, and many short ones in between.
    let mut batches = vec![transactional(1000, 0, &["long"])];
    for producer in 0..300 {
        batches.push(transactional(producer, 0, &["short"]));
        batches.push(marker(producer, false));
    }
    batches.push(marker(1000, false));
    write(&disk, &setup, topic_id, &batches);
    life(&disk, &setup.next(), async |cluster| {
        let mut next = 0;
        for _ in 0..3 {
            let mut request = fetch("t", &[(0, next)]).with_isolation_level(1);
            request.topics[0].partitions[0].partition_max_bytes = 1000;
            let answer = cluster.ask(12, &request).await;
            let told = partitions(&answer)[0];
            let records = read(told.records.as_ref().unwrap());
            let (first, last) = (records[0].0, records.last().unwrap().0);
            let aborted = told.aborted_transactions.as_ref().unwrap();
            // Each short one is a record and its marker; the long one begins with the first record.
            let shorts = aborted.iter().filter(|txn| txn.producer_id.0 != 1000);
            for txn in shorts.clone() {
                let ends = txn.first_offset + 1;
                assert!(ends >= first && txn.first_offset <= last, "{txn:?}");
            }
            let within = (first..=last).filter(|offset| offset % 2 == 1).count();
            assert!(shorts.count() >= within);
            assert!(aborted.iter().any(|txn| txn.producer_id.0 == 1000));
            next = last + 1;
        }
    });
}
