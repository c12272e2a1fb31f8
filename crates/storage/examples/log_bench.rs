//! Appends to logs on a real disk as fast as they become durable, then reads everything back; says
//! GB/s and CPU-seconds a GB. `log_bench DIR [batch_bytes] [logs] [gigabytes] [in_flight_bytes]
//! [replicated]`
//!
//! Pipelining is that of a broker: appends go on until `in_flight_bytes` wait for durability.

#![allow(clippy::disallowed_methods, reason = "a tool on the real disk")]
#![allow(clippy::print_stdout, reason = "a tool prints")]
#![allow(clippy::unwrap_used, reason = "a tool may stop at the first error")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use platform::Platform;
use platform::clock::Instant;
use platform::os::{EngineChoice, System};
use platform::sync::Notify;
use storage::{Durability, Log, LogOptions, Metrics, Observer, OpenAs, Stamp, Store, StoreOptions};
use wire::batch::builder::BatchBuilder;
use wire::types::{LeaderEpoch, Offset, TimestampMs, TopicId, TopicPartition, Uuid};

struct Wake(Notify);

impl Observer for Wake {
    fn progressed(&self) {
        self.0.notify_one();
    }
}

fn argument<T: std::str::FromStr>(at: usize, default: T) -> T {
    std::env::args()
        .nth(at)
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

fn main() {
    let dir = PathBuf::from(argument(1, String::from("log_bench_data")));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    let dir = dir.canonicalize().unwrap();
    platform::runtime::run_shard(Some(0), run(dir.clone())).unwrap();
    let _ = std::fs::remove_dir_all(&dir);
}

async fn run(dir: PathBuf) {
    let batch_bytes: usize = argument(2, 240_000);
    let log_count: usize = argument(3, 4);
    let gigabytes: u64 = argument(4, 8);
    let in_flight_max: usize = argument(5, 64 << 20);
    let durability = match argument(6, String::from("synced")).as_str() {
        "replicated" => Durability::Replicated,
        _ => Durability::Synced,
    };
    let system = System::start(EngineChoice::Auto).unwrap();
    println!("disk engine {}", system.engine_name());
    let store = Store::new(system, store_options(), Metrics::unregistered());
    let mut logs = Vec::new();
    for index in 0..log_count {
        let partition = TopicPartition {
            topic: "bench".into(),
            partition: i32::try_from(index).unwrap(),
        };
        let how = OpenAs {
            clean: false,
            recovery_point: Offset(0),
            log_start: Offset(0),
            compacted: None,
        };
        let id = TopicId(Uuid::from_u128(1));
        logs.push(
            store
                .open_log(&dir, partition, id, log_options(durability), how)
                .await
                .unwrap(),
        );
    }
    // Let the reserve of touched memory fill.
    store_clock(&store).sleep(Duration::from_millis(500)).await;
    let batch = batch_of(batch_bytes);
    let total = gigabytes * 1_000_000_000;
    let report = |what: &str, bytes: u64, started: Instant, cpu: f64| {
        let (seconds, gb) = (started.elapsed().as_secs_f64(), bytes as f64 / 1e9);
        let cpu = (cpu_seconds() - cpu) / gb;
        println!(
            "{what}: {gb:.1} GB in {seconds:.2} s, {:.2} GB/s, {cpu:.3} CPU s/GB",
            gb / seconds
        );
    };
    let (started, cpu) = (Instant::now(), cpu_seconds());
    let bytes = append_all(&logs, &batch, total, in_flight_max).await;
    report("append", bytes, started, cpu);
    for log in &logs {
        log.flush().await.unwrap();
    }
    let (started, cpu) = (Instant::now(), cpu_seconds());
    let mut bytes = 0;
    for log in &logs {
        bytes += read_all(log).await;
    }
    report("read", bytes, started, cpu);
    for log in &logs {
        log.close().await.unwrap();
    }
}

/// Appends round robin; waits while too much is not safe yet.
async fn append_all<P: Platform>(
    logs: &[Rc<Log<P>>],
    batch: &Bytes,
    total: u64,
    in_flight_max: usize,
) -> u64 {
    let wake = Rc::new(Wake(Notify::new()));
    let observer: Rc<dyn Observer> = wake.clone();
    for log in logs {
        log.observe(Rc::downgrade(&observer));
    }
    let stamp = Stamp {
        leader_epoch: LeaderEpoch(0),
        log_append_time: None,
    };
    let records = i64::from(
        wire::batch::BatchHeader::parse(batch)
            .unwrap()
            .last_offset_delta,
    ) + 1;
    let (mut appended, mut next) = (0_u64, 0);
    let mut wait_ms = Vec::new();
    while appended < total {
        let unsafe_batches: i64 = logs
            .iter()
            .map(|log| log.log_end_offset().since(log.committed_offset()) / records)
            .sum();
        if usize::try_from(unsafe_batches).unwrap() * batch.len() >= in_flight_max {
            let started = Instant::now();
            wake.0.notified().await;
            wait_ms.push(started.elapsed().as_secs_f64() * 1e3);
            continue;
        }
        logs[next].append(batch, stamp, 0).unwrap();
        appended += batch.len() as u64;
        next = (next + 1) % logs.len();
        if next == 0 {
            platform::task::yield_now().await;
        }
    }
    wait_ms.sort_by(f64::total_cmp);
    if let (Some(median), Some(max)) = (wait_ms.get(wait_ms.len() / 2), wait_ms.last()) {
        println!(
            "waits: {}, median {median:.2} ms, max {max:.2} ms",
            wait_ms.len()
        );
    }
    appended
}

async fn read_all<P: Platform>(log: &Log<P>) -> u64 {
    let (mut at, end) = (log.log_start_offset(), log.log_end_offset());
    let mut bytes = 0;
    while at < end {
        let slices = log.read(at, end, 1 << 20, true).await.unwrap();
        for slice in &slices {
            bytes += slice.len() as u64;
        }
        // The last batch's header says where to go on; batches are alike here, so it lies at a
        // known distance.
        let read: usize = slices.iter().map(Bytes::len).sum();
        let first = wire::batch::BatchHeader::parse(&slices[0]).unwrap();
        let batches = i64::try_from(read / first.size_bytes).unwrap();
        at = at.plus(batches * (i64::from(first.last_offset_delta) + 1));
    }
    bytes
}

fn store_clock<P: Platform>(_store: &Store<P>) -> platform::Clock {
    platform::Clock::system()
}

fn batch_of(bytes: usize) -> Bytes {
    let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch(-1));
    let record = 1000.min(bytes);
    let value = vec![7; record - 10];
    for _ in 0..(bytes / record).max(1) {
        builder.add(TimestampMs(1), None, Some(&value), &[]);
    }
    builder.finish().unwrap()
}

fn log_options(durability: Durability) -> LogOptions {
    LogOptions {
        segment_bytes: 1 << 30,
        segment_ms: None,
        segment_jitter_ms: 0,
        index_interval_bytes: 4096,
        index_bytes_max: 10 << 20,
        retention_ms: None,
        retention_bytes: None,
        flush_messages: u64::MAX,
        flush_ms: u64::MAX,
        max_batch_bytes: 1 << 20,
        delete: true,
        compact: false,
        durability,
        preallocate: true,
        reserve_bytes: 0,
        file_delete_delay_ms: 1000,
        producer_id_expiration_ms: 86_400_000,
        tier_pins: None,
    }
}

fn store_options() -> StoreOptions {
    StoreOptions {
        cache_bytes_max: 512 << 20,
        cache_bytes_start: 512 << 20,
        unwritten_bytes_max: 256 << 20,
        chunk_bytes: 1 << 20,
        reserve_chunks: 128,
        allocate_step_bytes: 64 << 20,
        save_interval_bytes: 64 << 20,
        read_ahead_bytes_max: 4 << 20,
        open_segments_max: 256,
    }
}

/// User and system time of this process.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = after_name.split_whitespace().skip(11).take(2);
    ticks
        .filter_map(|field| field.parse::<f64>().ok())
        .sum::<f64>()
        / 100.0
}
