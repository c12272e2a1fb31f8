//! Logs on persistent memory that say what was acknowledged: what `tests/dax` kills a machine
//! under. `dax_ledger DIR`
//!
//! First everything that is there is read and checked: the bytes of a record follow from its
//! offset. Then the logs are appended to for ever, in segments that are rolled all the time and
//! taken from a pool. On standard output: `found LOG START END` once for each log, `pooled FILES`
//! (of the life before), then `acked LOG END` after each flush: every record below END is durable.

#![allow(clippy::disallowed_methods, reason = "a tool on the real disk")]
#![allow(clippy::print_stdout, reason = "a tool prints")]
#![allow(clippy::unwrap_used, reason = "a tool may stop at the first error")]

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use platform::Platform;
use platform::os::{EngineChoice, System};
use storage::tier::{Capacity, Medium, PathOptions, PoolOptions, Safety, TierOptions, TierTable};
use storage::{Durability, Log, LogOptions, Metrics, OpenAs, Stamp, Store, StoreOptions};
use wire::batch::BatchHeader;
use wire::batch::builder::BatchBuilder;
use wire::batch::record::records;
use wire::types::{LeaderEpoch, Offset, TimestampMs, TopicId, TopicPartition, Uuid};

const LOGS: i32 = 3;
const SEGMENT_BYTES: u32 = 1 << 20;
/// Segments and pool take half of it.
const CAPACITY_BYTES: u64 = 512 << 20;
/// Files that wait before the logs go on: rolls take them faster than a machine in software makes
/// them.
const POOLED_MIN: u64 = 6;
const VALUE_BYTES_MAX: u64 = 20_000;

fn main() {
    let dir = PathBuf::from(std::env::args().nth(1).expect("dax_ledger DIR"));
    std::fs::create_dir_all(&dir).unwrap();
    platform::runtime::run_shard(None, run(dir)).unwrap();
}

async fn run(dir: PathBuf) {
    let system = System::start(EngineChoice::Auto).unwrap();
    let medium = system.disk().use_dax(&dir, false).await;
    println!("medium {:?}", medium.unwrap());
    let (tiers, clock) = (Some(tiers(&dir)), system.clock().clone());
    let store = Store::with_tiers(system, store_options(), Metrics::unregistered(), tiers);
    let left = std::fs::read_dir(&dir).unwrap();
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
    let is_pooled = |name: &std::ffi::OsString| name.to_string_lossy().ends_with(".pooled");
    println!("pooled {}", left.map(name).filter(is_pooled).count());
    store.spawn_pools(std::iter::empty());
    let mut writers = Vec::new();
    for index in 0..LOGS {
        let log = open(&store, &dir, index).await;
        check(&log).await;
        let (start, end) = (log.log_start_offset().0, log.log_end_offset().0);
        println!("found {index} {start} {end}");
        writers.push(log);
    }
    while store.pooled_files(&dir) < POOLED_MIN {
        clock.sleep(Duration::from_millis(50)).await;
    }
    let mut running = Vec::new();
    for (log, index) in writers.into_iter().zip(0..) {
        running.push(platform::task::spawn(write(log, index)));
    }
    for writer in running {
        let _ = writer.await;
    }
}

async fn open(store: &Store<System>, dir: &Path, index: i32) -> Rc<Log<System>> {
    let partition = TopicPartition {
        topic: "ledger".into(),
        partition: index,
    };
    let how = OpenAs {
        clean: false,
        recovery_point: Offset(0),
        log_start: Offset(0),
        compacted: None,
    };
    let id = TopicId(Uuid::from_u128(1));
    let log = store.open_log(dir, partition, id, log_options(), how).await;
    log.unwrap()
}

/// Appends, flushes, says so; deletes what is old.
async fn write(log: Rc<Log<System>>, index: i32) {
    let stamp = Stamp {
        leader_epoch: LeaderEpoch(1),
        log_append_time: None,
    };
    loop {
        let end = log.log_end_offset().0;
        for _ in 0..=end % 4 {
            let batch = batch_of(log.log_end_offset().0);
            log.append(&batch, stamp, 0).unwrap();
        }
        log.flush().await.unwrap();
        let durable = log.durable_offset();
        println!("acked {index} {}", durable.0);
        log.set_high_watermark(durable);
        log.retain(0).await.unwrap();
    }
}

/// Reads everything and holds each record against what it must be.
async fn check(log: &Log<System>) {
    let (mut at, end) = (log.log_start_offset().0, log.log_end_offset().0);
    while at < end {
        let slices = log.read(Offset(at), Offset(end), 1 << 20, true).await;
        let mut rest = Bytes::from(slices.unwrap().concat());
        assert!(!rest.is_empty(), "nothing at {at} below {end}");
        while !rest.is_empty() {
            let header = BatchHeader::parse(&rest).expect("a whole batch");
            let batch = rest.split_to(header.size_bytes);
            assert_eq!(wire::batch::crc_of(&batch), header.crc, "at {at}");
            for record in records(&batch).unwrap() {
                let record = record.unwrap();
                assert_eq!(record.offset.0, at, "a record is missing or there twice");
                let value = record.value.map(|value| value.to_vec());
                assert!(value.unwrap() == value_of(at), "wrong bytes at {at}");
                at += 1;
            }
        }
    }
}

fn batch_of(offset: i64) -> Bytes {
    let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch(-1));
    builder.add(TimestampMs(1), None, Some(&value_of(offset)), &[]);
    builder.finish().unwrap()
}

/// The bytes of the record at an offset: their length and their content follow from it.
fn value_of(offset: i64) -> Vec<u8> {
    let mut state = offset.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let len = usize::try_from(next() % VALUE_BYTES_MAX).unwrap_or(0);
    (0..len.div_ceil(8))
        .flat_map(|_| next().to_le_bytes())
        .take(len)
        .collect()
}

/// One tier, with a pool of some dozens of files.
fn tiers(dir: &Path) -> Arc<TierTable> {
    let path = PathOptions {
        dir: dir.to_owned(),
        capacity: Capacity::Bytes(CAPACITY_BYTES),
    };
    let tier = TierOptions {
        name: "pmem".into(),
        paths: vec![path],
        medium: Medium::Dax,
        safety: Safety::Durable,
        read_bytes_per_second: None,
        write_bytes_per_second: None,
    };
    let options = PoolOptions {
        ratio: 0.5,
        file_bytes: u64::from(SEGMENT_BYTES),
    };
    TierTable::with_pools(vec![tier], options)
}

fn log_options() -> LogOptions {
    LogOptions {
        segment_bytes: SEGMENT_BYTES,
        segment_ms: None,
        segment_jitter_ms: 0,
        index_interval_bytes: 4096,
        index_bytes_max: 1 << 20,
        retention_ms: None,
        retention_bytes: Some(16 << 20),
        flush_messages: u64::MAX,
        flush_ms: u64::MAX,
        max_batch_bytes: 1 << 20,
        delete: true,
        compact: false,
        durability: Durability::Synced,
        preallocate: true,
        reserve_bytes: 0,
        file_delete_delay_ms: 100,
        producer_id_expiration_ms: 86_400_000,
        tier_pins: None,
    }
}

fn store_options() -> StoreOptions {
    StoreOptions {
        cache_bytes_max: 8 << 20,
        cache_bytes_start: 1 << 20,
        unwritten_bytes_max: 16 << 20,
        chunk_bytes: 256 << 10,
        reserve_chunks: 0,
        allocate_step_bytes: 256 << 10,
        save_interval_bytes: 1 << 20,
        read_ahead_bytes_max: 1 << 20,
        open_segments_max: 256,
    }
}
