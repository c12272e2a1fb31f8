//! What a turn of the mover costs with many partitions, in the steady state and while a tier is above its threshold, and
//! what placing a new segment costs: `cargo run --release -p forebay-storage --example tier_turn`.

#![allow(
    clippy::disallowed_types,
    reason = "it measures time, simulated time stands still"
)]
#![allow(clippy::print_stdout, reason = "a tool prints")]
#![allow(clippy::unwrap_used, reason = "a tool may stop at the first error")]

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use platform::sim::SimPlatform;
use storage::tier::policy::PolicySettings;
use storage::tier::{Capacity, Medium, Mover, PathOptions, Safety, TierOptions, TierTable};
use storage::{Durability, Log, LogOptions, Metrics, OpenAs, Stamp, Store, StoreOptions};
use wire::batch::builder::BatchBuilder;
use wire::types::{LeaderEpoch, Offset, TimestampMs, TopicId, TopicPartition, Uuid};

const PARTITIONS: i32 = 1000;
const SEGMENTS: usize = 20;
const TURNS: u32 = 300;

fn main() {
    platform::runtime::run_simulated(measure()).unwrap();
}

fn tier(name: &str, dir: &str) -> TierOptions {
    TierOptions {
        name: name.into(),
        paths: vec![PathOptions {
            dir: dir.into(),
            capacity: Capacity::Bytes(1 << 40),
        }],
        medium: Medium::File,
        safety: Safety::Durable,
        read_bytes_per_second: None,
        write_bytes_per_second: None,
    }
}

fn log_options() -> LogOptions {
    LogOptions {
        segment_bytes: 1 << 20,
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
        preallocate: false,
        file_delete_delay_ms: 1000,
        producer_id_expiration_ms: 86_400_000,
        tier_pins: None,
    }
}

async fn fill(log: &Rc<Log<SimPlatform>>) {
    let stamp = Stamp {
        leader_epoch: LeaderEpoch(0),
        log_append_time: None,
    };
    for at in 0..SEGMENTS {
        let mut batch = BatchBuilder::new(Offset(0), LeaderEpoch(-1));
        batch.add(TimestampMs(1), None, Some(&[0; 100]), &[]);
        log.append(&batch.finish().unwrap(), stamp, 1).unwrap();
        log.flush().await.unwrap();
        if at + 1 < SEGMENTS {
            log.roll().await.unwrap();
        }
    }
    log.save().await.unwrap();
}

async fn measure() {
    let platform = SimPlatform::new(1);
    let tiers = TierTable::new(vec![tier("fast", "/logs"), tier("bulk", "/bulk")]);
    let options = StoreOptions {
        cache_bytes_max: 1 << 30,
        cache_bytes_start: 1 << 20,
        unwritten_bytes_max: 64 << 20,
        chunk_bytes: 8 << 10,
        reserve_chunks: 0,
        allocate_step_bytes: 1 << 20,
        save_interval_bytes: 1 << 30,
        read_ahead_bytes_max: 64 << 10,
        open_segments_max: 1024,
    };
    let metrics = Metrics::unregistered();
    let store = Store::with_tiers(platform, options, metrics, Some(Arc::clone(&tiers)));
    let mut logs = Vec::new();
    for path in tiers.paths() {
        path.note_space(1 << 40, 1 << 40);
    }
    for partition in 0..PARTITIONS {
        let name = TopicPartition {
            topic: "t".into(),
            partition,
        };
        let how = OpenAs {
            clean: false,
            recovery_point: Offset(0),
            log_start: Offset(0),
            compacted: None,
        };
        let id = TopicId(Uuid::from_u128(7));
        let opened = store.open_log(Path::new("/logs"), name, id, log_options(), how);
        logs.push(opened.await.unwrap());
        fill(logs.last().unwrap()).await;
    }
    let segments: usize = logs.iter().map(|log| log.segment_count()).sum();
    println!("{} partitions, {segments} segments", logs.len());
    let calm = PolicySettings::DEFAULTS;
    let pressed = PolicySettings {
        threshold: Some(0.0),
        hysteresis: 0.0,
        reserve: 0.0,
        threads: 0,
        ..calm
    };
    let stuck = PolicySettings {
        threads: 1,
        bytes_per_second: Some(1),
        ..pressed
    };
    for (what, settings) in [
        ("steady", calm),
        ("above, no slot", pressed),
        ("above, one slow move", stuck),
    ] {
        let mut mover = Mover::new(&store, settings).unwrap();
        let started = Instant::now();
        let mut handles = Vec::new();
        for _ in 0..TURNS {
            handles.extend(mover.turn(&store).await);
        }
        let each = started.elapsed().as_secs_f64() / f64::from(TURNS);
        // A turn comes ten times a second.
        println!(
            "{what}: {:.1} us a turn, {:.2} % of a core",
            each * 1e6,
            each * 10.0 * 100.0
        );
        for handle in handles {
            handle.abort();
        }
    }
    let mut mover = Mover::new(&store, calm).unwrap();
    let started = Instant::now();
    let looks = 50;
    for _ in 0..looks {
        drop(store.tier_segments(&calm, |_| false).await);
    }
    let each = started.elapsed().as_secs_f64() / f64::from(looks);
    println!("a whole look, with reasons: {:.1} us", each * 1e6);
    drop(mover.turn(&store).await);
    let log = logs.first().unwrap();
    let started = Instant::now();
    for _ in 0..100 {
        fill(log).await;
    }
    let each = started.elapsed().as_secs_f64() / (100.0 * 20.0);
    println!(
        "append, flush and roll on the simulated disk: {:.1} us",
        each * 1e6
    );
}
