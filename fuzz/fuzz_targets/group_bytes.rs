//! What members say in bytes of their own and what logs have of groups: subscriptions and
//! assignments of classic members as the broker looks into them, and the records of offsets, groups
//! and transactions, whose replay must never panic.
//!
//! The bytes arrive as they do in life: in requests to a broker on a simulated disk, and as batches
//! in the logs of the coordinators, on which the next broker starts.
#![no_main]
#![allow(dead_code, reason = "the harness is shared with others")]

use std::path::Path;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use platform::sim::SimDisk;
use wire::batch::BatchBuilder;
use wire::records::{control, metadata, offsets, transactions};
use wire::types::{LeaderEpoch, Offset, TimestampMs};

use harness::setup::NOW_MS;
use harness::transactor::Transactor;
use harness::{Setup, life};

#[path = "../../crates/broker/tests/harness/cluster.rs"]
mod harness;

fuzz_target!(|bytes: &[u8]| {
    let Some((&which, bytes)) = bytes.split_first() else {
        return;
    };
    if which % 4 < 2 {
        decode(bytes);
    } else {
        replay(which, bytes);
    }
});

/// Every decoder of records: a value or an error, and a value encodes to something that decodes to
/// it.
fn decode(bytes: &[u8]) {
    let half = bytes.len() / 2;
    let (key, value) = bytes.split_at(half);
    let _ = control::ControlRecord::decode(key, value);
    let _ = metadata::MetadataRecord::decode(bytes);
    let _ = offsets::Key::decode(bytes);
    if let Ok(value) = offsets::OffsetCommitValue::decode(bytes) {
        let again = offsets::OffsetCommitValue::decode(&value.encode());
        assert_eq!(again, Ok(value));
    }
    if let Ok(value) = offsets::GroupMetadataValue::decode(bytes) {
        let again = offsets::GroupMetadataValue::decode(&value.encode());
        assert_eq!(again, Ok(value));
    }
    let _ = transactions::TransactionLogKey::decode(bytes);
    let _ = transactions::TransactionLogValue::decode(bytes);
}

/// A coordinator's log with these records: the broker starts on it, answers, and starts again.
fn replay(which: u8, bytes: &[u8]) {
    let (disk, setup) = (SimDisk::new(0), Setup::shards(1));
    disk.set_traced(false);
    let topic = if which & 4 == 0 {
        "__consumer_offsets"
    } else {
        "__transaction_state"
    };
    life(&disk, &setup, async |cluster| {
        cluster.create("t", 1).await;
        cluster.commit("g", "t", 0, 1).await;
        Transactor::begin(cluster, "x", true).await;
        cluster.stop().await;
    });
    let mut records = BatchBuilder::new(Offset(0), LeaderEpoch(0));
    let mut rest = bytes;
    while let Some((&[key, value], tail)) = rest.split_first_chunk() {
        let (key, tail) = tail.split_at(usize::from(key).min(tail.len()));
        let (value, tail) = tail.split_at(usize::from(value).min(tail.len()));
        let value = Some(value).filter(|value| !value.is_empty());
        records.add(TimestampMs(NOW_MS), Some(key), value, &[]);
        rest = tail;
    }
    if records.record_count() == 0 {
        return;
    }
    let batch: Bytes = records.finish().expect("memory takes it");
    let disk = disk.kill(0);
    for partition in 0..3 {
        let folder = format!("/logs/{topic}-{partition}");
        let file = Path::new(&folder).join("00000000000000000000.log");
        if disk.contents(&file).is_ok() {
            disk.put(&file, &batch).expect("a healthy disk");
        }
    }
    let mut disk = disk;
    for _ in 0..2 {
        life(&disk, &setup, async |cluster| {
            for group in ["g", "h", "i"] {
                let _ = cluster.stable_position(group, "t").await;
                let _ = cluster.try_commit(group, "t", 0, 2).await;
            }
            cluster.pass_ms(60_000).await;
            let _ = Transactor::try_begin_patiently(cluster, "y", true).await;
            cluster.produce("t", 0, &["alive"]).await;
        });
        disk = disk.kill(0);
    }
}
