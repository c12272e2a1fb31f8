//! Compacts a log of more keys than there is memory for, on a real disk, and says what it took;
//! fails when memory grew beyond its bound, or a key is not there exactly once. `compact_keys DIR
//! [keys] [map_megabytes]`
//!
//! The log has every key once and a tenth of them a second time; key and value have 8 and 10 bytes.

#![allow(clippy::disallowed_methods, reason = "a tool on the real disk")]
#![allow(clippy::print_stdout, reason = "a tool prints")]
#![allow(clippy::unwrap_used, reason = "a tool may stop at the first error")]

use std::path::{Path, PathBuf};
use std::rc::Rc;

use bytes::Bytes;
use platform::Platform;
use platform::os::{EngineChoice, System};
use storage::{
    CompactOptions, CompactPolicy, Durability, Log, LogOptions, Metrics, OpenAs, Stamp, Store,
    StoreOptions,
};
use wire::batch::BatchHeader;
use wire::batch::builder::BatchBuilder;
use wire::types::{LeaderEpoch, Offset, TimestampMs, TopicId, TopicPartition, Uuid};

const NOW_MS: i64 = 1_767_225_600_000;
const KEYS_OF_A_BATCH: u64 = 10_000;
/// What reading and writing may take beside the map.
const OTHER_BYTES_MAX: u64 = 48 << 20;

fn argument<T: std::str::FromStr>(at: usize, default: T) -> T {
    let given = std::env::args().nth(at).and_then(|text| text.parse().ok());
    given.unwrap_or(default)
}

fn main() {
    let dir = PathBuf::from(argument(1, String::from("compact_keys_data")));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    let dir = dir.canonicalize().unwrap();
    platform::runtime::run_shard(None, run(&dir)).unwrap();
    let _ = std::fs::remove_dir_all(&dir);
}

/// Peak of this process's memory, in bytes.
fn memory_peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let number = line.unwrap().split_whitespace().nth(1).unwrap();
    number.parse::<u64>().unwrap() * 1024
}

async fn run(dir: &Path) {
    let keys: u64 = argument(2, 10_000_000);
    let map_bytes_max = argument(3, 128_usize) << 20;
    let system = System::start(EngineChoice::Auto).unwrap();
    let store = Store::new(system.clone(), store_options(), Metrics::unregistered());
    let log = filled(&store, dir, keys).await;
    let (memory_before, bytes_before) = (memory_peak(), log.size_bytes());
    let started = system.clock().now();
    let policy = CompactPolicy {
        min_lag_ms: 0,
        max_lag_ms: i64::MAX,
        delete_retention_ms: 86_400_000,
        dirty_ratio_min_ppm: 0,
    };
    let options = CompactOptions {
        map_bytes_max,
        map_load_factor: 0.9,
        buffer_bytes: 512 << 10,
        bytes_per_second_max: f64::MAX,
    };
    log.compaction().begin_compacting();
    let (mut rounds, mut read, mut written) = (0, 0, 0);
    while let Some(round) = log.compact(&policy, &options).await.unwrap() {
        assert!(round.map_bytes <= map_bytes_max);
        rounds += 1;
        read += round.bytes_read;
        written += round.bytes_written;
    }
    let (seconds, memory_after) = (started.elapsed().as_secs_f64(), memory_peak());
    println!(
        "{keys} keys: {} MB of log became {} MB in {rounds} rounds and {seconds:.1} s, {} MB read, {} MB \
         written; peak of memory {} MB before, {} MB after",
        bytes_before >> 20,
        log.size_bytes() >> 20,
        read >> 20,
        written >> 20,
        memory_before >> 20,
        memory_after >> 20,
    );
    assert!(memory_after < memory_before + map_bytes_max as u64 + OTHER_BYTES_MAX);
    assert_eq!(records_of(&log).await, keys, "each key once");
}

async fn filled(store: &Store<System>, dir: &Path, keys: u64) -> Rc<Log<System>> {
    let how = OpenAs {
        clean: false,
        recovery_point: Offset(0),
        log_start: Offset(0),
        compacted: None,
    };
    let partition = TopicPartition {
        topic: "keys".into(),
        partition: 0,
    };
    let id = TopicId(Uuid::from_u128(1));
    let opened = store.open_log(dir, partition, id, log_options(), how).await;
    let log = opened.unwrap();
    let stamp = Stamp {
        leader_epoch: LeaderEpoch(0),
        log_append_time: None,
    };
    for first in (0..keys + keys / 10).step_by(usize::try_from(KEYS_OF_A_BATCH).unwrap()) {
        let batch = batch_of(first, keys);
        log.append(&batch, stamp, NOW_MS).unwrap();
        log.flush().await.unwrap();
    }
    log.set_high_watermark(log.log_end_offset());
    log.roll().await.unwrap();
    log.save().await.unwrap();
    log
}

fn batch_of(first: u64, keys: u64) -> Bytes {
    let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch(-1));
    for key in first..(first + KEYS_OF_A_BATCH).min(keys + keys / 10) {
        // A multiplication by an odd number: as many different keys, in no order.
        let key = (key % keys)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .to_be_bytes();
        builder.add(TimestampMs(NOW_MS), Some(&key), Some(&[7; 10]), &[]);
    }
    builder.finish().unwrap()
}

async fn records_of(log: &Log<System>) -> u64 {
    let (mut at, mut count) = (Offset(0), 0);
    while at < log.log_end_offset() {
        let slices = log.read(at, log.log_end_offset(), 4 << 20, true).await;
        let bytes = slices.unwrap().concat();
        let mut rest = bytes.as_slice();
        while let Some(header) = BatchHeader::parse(rest) {
            at = header.next_offset();
            count += u64::try_from(header.record_count).unwrap();
            rest = rest.get(header.size_bytes..).unwrap_or_default();
        }
    }
    count
}

fn store_options() -> StoreOptions {
    StoreOptions {
        cache_bytes_max: 16 << 20,
        cache_bytes_start: 16 << 20,
        unwritten_bytes_max: 32 << 20,
        chunk_bytes: 1 << 20,
        reserve_chunks: 0,
        allocate_step_bytes: 64 << 20,
        save_interval_bytes: 64 << 20,
        read_ahead_bytes_max: 4 << 20,
        open_segments_max: 64,
    }
}

fn log_options() -> LogOptions {
    LogOptions {
        segment_bytes: 256 << 20,
        segment_ms: None,
        segment_jitter_ms: 0,
        index_interval_bytes: 4096,
        index_bytes_max: 10 << 20,
        retention_ms: None,
        retention_bytes: None,
        flush_messages: u64::MAX,
        flush_ms: u64::MAX,
        max_batch_bytes: 1 << 20,
        delete: false,
        compact: true,
        durability: Durability::Synced,
        preallocate: false,
        reserve_bytes: 0,
        file_delete_delay_ms: 0,
        producer_id_expiration_ms: 86_400_000,
        tier_pins: None,
    }
}
