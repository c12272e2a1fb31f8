//! A log on two tiers of a simulated disk, `/logs` and `/bulk`, and the mover that a shard would
//! run.

use std::path::Path;
use std::sync::Arc;

use platform::sim::{SimDisk, SimPlatform};
use storage::tier::policy::PolicySettings;
use storage::tier::{
    Capacity, Medium, Mover, PathOptions, Safety, TierOptions, TierPath, TierTable,
};
use storage::{LogOptions, Metrics, OpenAs, Result, Store, StoreOptions};
use wire::types::{Offset, Uuid};

use crate::world::*;

pub(crate) const BULK: &str = "/bulk";
pub(crate) const BULK_FOLDER: &str = "/bulk/orders-0";

/// Moves whatever is sealed as soon as it is.
pub(crate) fn eager() -> PolicySettings {
    PolicySettings {
        threshold: Some(0.0),
        hysteresis: 0.0,
        reserve: 0.0,
        threads: 1,
        bytes_per_second: None,
        residency_ms: 0,
        heat_ms: 0,
        ..PolicySettings::DEFAULTS
    }
}

/// Only what is asked for moves.
pub(crate) fn still() -> PolicySettings {
    PolicySettings {
        threshold: None,
        ..eager()
    }
}

pub(crate) fn tier(name: &str, dirs: &[(&str, u64)]) -> TierOptions {
    let paths = dirs.iter().map(|(dir, bytes)| PathOptions {
        dir: dir.into(),
        capacity: Capacity::Bytes(*bytes),
    });
    TierOptions {
        name: name.into(),
        paths: paths.collect(),
        medium: Medium::File,
        safety: Safety::Durable,
        read_bytes_per_second: None,
        write_bytes_per_second: None,
    }
}

/// A shard with a fast tier of `fast` bytes and a slow one of `bulk`.
pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) tiers: Arc<TierTable>,
    pub(crate) metrics: Metrics,
}

impl Scene {
    pub(crate) fn new(fast: u64, bulk: u64) -> Self {
        Self::on(SimPlatform::new(11), store_options(), fast, bulk)
    }

    pub(crate) fn on(platform: SimPlatform, options: StoreOptions, fast: u64, bulk: u64) -> Self {
        let tiers = vec![tier("fast", &[(DIR, fast)]), tier("bulk", &[(BULK, bulk)])];
        Self::of(platform, options, tiers)
    }

    pub(crate) fn of(
        platform: SimPlatform,
        options: StoreOptions,
        tiers: Vec<TierOptions>,
    ) -> Self {
        let scene = Self::unidentified(platform, options, tiers);
        for path in scene.tiers.paths() {
            // A start finds out which directory it is.
            path.set_identity(Uuid::from_u128(1000 + u128::from(path.id.0)));
        }
        scene
    }

    /// With directories without an identity: a note of them needs bytes, not a name only.
    pub(crate) fn unidentified(
        platform: SimPlatform,
        options: StoreOptions,
        tiers: Vec<TierOptions>,
    ) -> Self {
        let tiers = TierTable::new(tiers);
        for path in tiers.paths() {
            path.note_space(1 << 40, 1 << 40);
        }
        let metrics = Metrics::unregistered();
        let table = Some(Arc::clone(&tiers));
        let store = Store::with_tiers(platform.clone(), options, metrics.clone(), table);
        Self {
            world: World { platform, store },
            tiers,
            metrics,
        }
    }

    /// A process that starts on `disk`, with the same tiers.
    pub(crate) fn successor(&self, disk: SimDisk, options: StoreOptions) -> Self {
        let platform = SimPlatform::on(disk, self.clock(), 7);
        Self::of(platform, options, self.tiers.tiers().to_vec())
    }

    pub(crate) fn disk(&self) -> &SimDisk {
        self.world.disk()
    }

    pub(crate) fn path(&self, tier: usize) -> &TierPath {
        self.tiers.paths_of(tier).next().unwrap()
    }

    pub(crate) async fn open(&self, options: LogOptions) -> SimLog {
        self.try_open(options, false, 0, 0).await.unwrap()
    }

    pub(crate) async fn try_open(
        &self,
        options: LogOptions,
        clean: bool,
        recovery_point: i64,
        log_start: i64,
    ) -> Result<SimLog> {
        let how = OpenAs {
            clean,
            recovery_point: Offset(recovery_point),
            log_start: Offset(log_start),
            compacted: options.compact.then_some(Offset::ZERO),
        };
        let store = &self.world.store;
        store
            .open_log(Path::new(DIR), partition(), topic_id(), options, how)
            .await
    }

    /// Turns of the mover until one begins nothing; says how many moves that were.
    pub(crate) async fn settle(&self, settings: PolicySettings) -> usize {
        let mut mover = Mover::new(&self.world.store, settings).unwrap();
        let mut moves = 0;
        loop {
            let begun = mover.turn(&self.world.store).await;
            if begun.is_empty() {
                return moves;
            }
            moves += begun.len();
            for moved in begun {
                moved.await.unwrap();
            }
        }
    }

    pub(crate) fn clock(&self) -> platform::Clock {
        platform::Platform::clock(&self.world.platform).clone()
    }

    /// The segments' data files on a tier, by base offset.
    pub(crate) fn bases_on(&self, folder: &str) -> Vec<i64> {
        let there = |base: &i64| self.has(folder, &format!("{base:020}.log"));
        (0..400).filter(there).collect()
    }

    pub(crate) fn has(&self, folder: &str, name: &str) -> bool {
        self.disk().contents(&Path::new(folder).join(name)).is_ok()
    }
}

/// Appends until there are `count` sealed segments, and the active one.
pub(crate) async fn fill(log: &SimLog, count: usize) {
    while log.segment_count() <= count {
        produce(log, 3, 3000).await;
    }
    log.set_high_watermark(log.durable_offset());
    log.save().await.unwrap();
}
