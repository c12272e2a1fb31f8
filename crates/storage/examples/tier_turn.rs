//! What it costs to look at every segment of a shard, which the mover does when the numbers of the
//! tiers call for it, and what a roll costs, placing included: `cargo run --release -p
//! forebay-storage --example tier_turn`.

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

use platform::Platform;
use platform::sim::SimPlatform;
use storage::tier::policy::PolicySettings;
use storage::tier::{Capacity, Medium, PathOptions, Safety, TierOptions, TierTable};
use storage::{Durability, Log, LogOptions, Metrics, OpenAs, Stamp, Store, StoreOptions};
use wire::batch::builder::BatchBuilder;
use wire::types::{LeaderEpoch, Offset, TimestampMs, TopicId, TopicPartition, Uuid};

const PARTITIONS: i32 = 200;
const SEGMENTS: u32 = 20;

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
        reserve_bytes: 0,
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
    platform.disk().set_traced(false);
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
        ..calm
    };
    // Gathered, and decided on as a turn does and once more to say why each stays.
    for (what, settings) in [("steady", calm), ("above its threshold", pressed)] {
        let mut looks = Vec::new();
        for _ in 0..100 {
            let started = Instant::now();
            drop(store.tier_segments(&settings, |_| false).await);
            looks.push(started.elapsed().as_secs_f64());
        }
        looks.sort_by(f64::total_cmp);
        let each = looks[looks.len() / 4] * 1e6;
        println!("{what}: a look at every segment takes {each:.0} us");
    }
    let log = logs.first().unwrap();
    let mut places = Vec::new();
    for _ in 0..20 {
        let started = Instant::now();
        fill(log).await;
        places.push(started.elapsed().as_secs_f64() / f64::from(SEGMENTS));
    }
    places.sort_by(f64::total_cmp);
    println!(
        "append, flush and roll on the simulated disk: {:.1} us",
        places[places.len() / 2] * 1e6
    );
}
