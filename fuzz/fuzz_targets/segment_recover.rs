//! Files of a log directory with any bytes in them: read without a panic, and never taken for more
//! than they are.
//!
//! The first byte says what the rest is: an index, a producer snapshot, a checkpoint, or a
//! partition's folder, which is opened as a log on a simulated disk.
#![no_main]

use std::path::Path;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use platform::Platform;
use platform::runtime::run_simulated;
use platform::sim::{SimDisk, SimPlatform};
use storage::checkpoint::{
    clean_shutdown, leader_epochs, meta_properties, offsets, partition_metadata,
};
use storage::log::epoch_cache::EpochCache;
use storage::log::offset_index::OffsetIndex;
use storage::log::producer_state::{ProducerStates, snapshot};
use storage::log::time_index::TimeIndex;
use storage::log::txn_index::TxnIndex;
use storage::{Durability, LogOptions, Metrics, OpenAs, Store, StoreOptions};
use wire::batch::{BatchHeader, Batches, CRC_START, LENGTH_END, crc_of, validate_stored};
use wire::types::{Offset, TimestampMs, TopicId, TopicPartition, Uuid};

const BASE: Offset = Offset(1000);
const INDEX_BYTES_MAX: u32 = 1 << 20;

fuzz_target!(|input: &[u8]| {
    let Some((&which, bytes)) = input.split_first() else {
        return;
    };
    match which % 4 {
        0 => index(bytes),
        1 => producers(bytes),
        2 => checkpoints(which, bytes),
        _ => recover(which, bytes),
    }
});

fn index(bytes: &[u8]) {
    if let Ok(mut index) = OffsetIndex::parse(BASE, INDEX_BYTES_MAX, bytes) {
        assert!(bytes.starts_with(&index.encode()));
        let last = index.last();
        assert_eq!(index.lookup(last.offset), last);
        index.truncate_to(last.offset);
        assert!(index.last().offset <= last.offset);
    }
    if let Ok(mut index) = TimeIndex::parse(BASE, INDEX_BYTES_MAX, bytes) {
        assert!(bytes.starts_with(&index.encode()));
        let last = index.last();
        assert_eq!(index.lookup(last.timestamp), last);
        index.truncate_to(last.offset);
        assert!(index.last().timestamp <= last.timestamp);
    }
    if let Ok(mut index) = TxnIndex::parse(BASE, bytes) {
        assert_eq!(index.encode(), bytes);
        index.collect(BASE, Offset(i64::MAX), &mut Vec::new());
        index.truncate_to(BASE);
        assert!(index.is_empty());
    }
}

fn producers(bytes: &[u8]) {
    // With a right CRC, so that the entries are looked at too.
    let mut repaired = bytes.to_vec();
    if let Some((head, rest)) = repaired.split_at_mut_checked(6) {
        head[..2].copy_from_slice(&1_i16.to_be_bytes());
        head[2..].copy_from_slice(&crc32c::crc32c(rest).to_be_bytes());
    }
    for bytes in [bytes, &repaired] {
        let Ok(snapshots) = snapshot::parse(bytes) else {
            continue;
        };
        assert_eq!(snapshot::encode(&snapshots).len(), bytes.len());
        let states = ProducerStates::restore(BASE, &snapshots, i64::MAX, i64::MAX);
        assert!(states.snapshot().len() <= snapshots.len());
        let _ = (
            states.first_unstable_offset(),
            states.oldest_open_last_timestamp(),
        );
    }
}

fn checkpoints(which: u8, bytes: &[u8]) {
    let file = Path::new("fuzzed");
    match which / 4 % 5 {
        0 => {
            if let Ok(parsed) = offsets::parse(file, bytes) {
                assert_eq!(offsets::parse(file, &offsets::encode(&parsed)), Ok(parsed));
            }
        }
        1 => {
            if let Ok(parsed) = leader_epochs::parse(file, bytes) {
                assert_eq!(EpochCache::new(&parsed).entries(), parsed);
                assert_eq!(
                    leader_epochs::parse(file, &leader_epochs::encode(&parsed)),
                    Ok(parsed)
                );
            }
        }
        2 => {
            if let Ok(parsed) = meta_properties::parse(file, bytes) {
                let encoded = meta_properties::encode(&parsed, TimestampMs(0));
                assert_eq!(meta_properties::parse(file, &encoded), Ok(parsed));
            }
        }
        3 => {
            if let Ok(id) = partition_metadata::parse(file, bytes) {
                assert_eq!(
                    partition_metadata::parse(file, &partition_metadata::encode(id)),
                    Ok(id)
                );
            }
        }
        _ => {
            if let Ok(epoch) = clean_shutdown::parse(file, bytes) {
                assert_eq!(
                    clean_shutdown::parse(file, &clean_shutdown::encode(epoch)),
                    Ok(epoch)
                );
            }
        }
    }
}

/// Opens a folder: one segment of the bytes; by the bits of `which` with an index of the same
/// bytes, with CRCs made right, after a clean stop, as if part of it had been durable.
fn recover(which: u8, bytes: &[u8]) {
    let mut segment = bytes.to_vec();
    if which & 0x80 != 0 {
        repair(&mut segment);
    }
    let disk = SimDisk::new(0);
    let put = |name: &str, bytes: &[u8]| {
        let path = Path::new("/data/t-0").join(name);
        disk.put(&path, bytes).expect("a new disk takes any file");
    };
    put("00000000000000000000.log", &segment);
    if which & 0x40 != 0 {
        put("00000000000000000000.index", bytes);
        put("00000000000000000000.timeindex", bytes);
    }
    let how = OpenAs {
        clean: which & 0x20 != 0,
        recovery_point: Offset(i64::from(which & 0x10)),
        log_start: Offset(i64::from(which & 0x08)),
        compacted: None,
    };
    run_simulated(open_and_read(disk, how)).expect("a simulated shard starts");
}

/// Gives every stretch of bytes that could be a batch the magic and CRC of one.
fn repair(segment: &mut [u8]) {
    let mut at = 0;
    while let Some(header) = segment.get(at..).and_then(BatchHeader::parse) {
        let left = segment.len() - at;
        if header.size_bytes > left {
            let length = i32::try_from(left - LENGTH_END).expect("inputs are small");
            segment[at + 8..at + LENGTH_END].copy_from_slice(&length.to_be_bytes());
        }
        let end = at + header.size_bytes.min(left);
        segment[at + 16] = 2;
        let crc = crc_of(&segment[at..end]);
        segment[at + 17..at + CRC_START].copy_from_slice(&crc.to_be_bytes());
        at = end;
    }
}

/// Whatever the log says it has can be read, in order, in whole batches with right CRCs.
async fn open_and_read(disk: SimDisk, how: OpenAs) {
    let platform = SimPlatform::on(disk, platform::Clock::starting_at(0), 0);
    let now_ms = platform.clock().wall_ms();
    let store = Store::new(platform, store_options(), Metrics::unregistered());
    let partition = TopicPartition {
        topic: Arc::from("t"),
        partition: 0,
    };
    let topic_id = TopicId(Uuid::from_u128(7));
    let opened = store
        .open_log(Path::new("/data"), partition, topic_id, log_options(), how)
        .await;
    let Ok(log) = opened else { return };
    let (mut from, end) = (log.log_start_offset(), log.log_end_offset());
    while from < end {
        // Damage in what is trusted shows when it is read.
        let Ok(parts) = log.read(from, end, 1 << 20, true).await else {
            return;
        };
        let joined = parts.concat();
        let before = from;
        for item in Batches::new(&joined) {
            let (header, batch) = item.expect("whole batches");
            assert!(validate_stored(&header, batch).is_ok());
            assert!(header.next_offset() > from);
            from = header.next_offset();
        }
        if from == before {
            assert!(how.clean, "nothing at {from}, below the end {end}");
            return;
        }
    }
    let _ = log.offset_for_timestamp(TimestampMs(now_ms), end).await;
    let _ = log.retain(now_ms).await;
    log.close().await.expect("nothing fails on this disk");
}

fn log_options() -> LogOptions {
    LogOptions {
        segment_bytes: 1 << 20,
        segment_ms: None,
        segment_jitter_ms: 0,
        index_interval_bytes: 100,
        index_bytes_max: 1 << 10,
        retention_ms: None,
        retention_bytes: Some(1000),
        flush_messages: u64::MAX,
        flush_ms: u64::MAX,
        max_batch_bytes: 1 << 20,
        delete: true,
        compact: false,
        durability: Durability::Synced,
        preallocate: false,
        reserve_bytes: 0,
        file_delete_delay_ms: 0,
        producer_id_expiration_ms: 86_400_000,
        tier_pins: None,
    }
}

fn store_options() -> StoreOptions {
    StoreOptions {
        cache_bytes_max: 0,
        cache_bytes_start: 0,
        unwritten_bytes_max: 1 << 20,
        chunk_bytes: 64 << 10,
        reserve_chunks: 0,
        allocate_step_bytes: 64 << 10,
        save_interval_bytes: 1 << 20,
        read_ahead_bytes_max: 0,
        open_segments_max: 4,
    }
}
