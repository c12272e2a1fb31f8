//! A log on one mapped tier, `/logs`, or with a slower one, `/bulk`, below it; with a pool on the
//! first.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use platform::Platform;
use platform::disk::{Disk, Entry};
use platform::sim::{SimDisk, SimPlatform};
use storage::tier::{
    Capacity, Medium, PathOptions, PoolOptions, Safety, TierOptions, TierPath, TierTable,
};
use storage::{LogOptions, Metrics, Result, Store, StoreOptions};

use wire::types::Uuid;

use crate::world::*;

pub(crate) const BULK: &str = "/bulk";
pub(crate) const SEGMENT_BYTES: u64 = 64 << 10;

/// How the scene differs from one mapped tier with room for 16 segments; half may be made in
/// advance.
#[derive(Clone)]
pub(crate) struct Setting {
    pub(crate) ratio: f64,
    /// Of a file of the pool.
    pub(crate) file_bytes: u64,
    /// Files' worth of the first tier.
    pub(crate) capacity_files: u64,
    /// There is a slower tier.
    pub(crate) bulk: bool,
    pub(crate) store: StoreOptions,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            ratio: 0.5,
            file_bytes: SEGMENT_BYTES,
            capacity_files: 16,
            bulk: false,
            store: store_options(),
        }
    }
}

pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) tiers: Arc<TierTable>,
    pub(crate) setting: Setting,
}

impl Scene {
    pub(crate) fn new(setting: Setting) -> Self {
        let platform = SimPlatform::new(11);
        platform.disk().use_dax(Path::new(DIR));
        // The log directory is there before the pool is, as at a broker's start.
        let note = Path::new(DIR).join("meta.properties");
        platform.disk().put(&note, &[]).unwrap();
        Self::on(platform, setting)
    }

    fn on(platform: SimPlatform, setting: Setting) -> Self {
        let capacity = setting.capacity_files * setting.file_bytes;
        let mut tiers = vec![tier("pmem", DIR, Medium::Dax, capacity)];
        if setting.bulk {
            tiers.push(tier("bulk", BULK, Medium::File, 1 << 30));
        }
        let options = PoolOptions {
            ratio: setting.ratio,
            file_bytes: setting.file_bytes,
        };
        let tiers = TierTable::with_pools(tiers, options);
        for path in tiers.paths() {
            path.note_space(1 << 40, 1 << 40);
            // A start finds out which directory it is.
            path.set_identity(Uuid::from_u128(1000 + u128::from(path.id.0)));
        }
        let (metrics, table) = (Metrics::unregistered(), Some(Arc::clone(&tiers)));
        let store = Store::with_tiers(platform.clone(), setting.store.clone(), metrics, table);
        Self {
            world: World { platform, store },
            tiers,
            setting,
        }
    }

    /// A process that starts on `disk`.
    pub(crate) fn successor(&self, disk: SimDisk) -> Self {
        let clock = self.world.platform.clock().clone();
        Self::on(SimPlatform::on(disk, clock, 7), self.setting.clone())
    }

    /// Another shard of the same process.
    pub(crate) fn another_shard(&self) -> Self {
        let World { platform, .. } = &self.world;
        let (metrics, table) = (Metrics::unregistered(), Some(Arc::clone(&self.tiers)));
        let options = self.setting.store.clone();
        Self {
            world: World {
                platform: platform.clone(),
                store: Store::with_tiers(platform.clone(), options, metrics, table),
            },
            tiers: Arc::clone(&self.tiers),
            setting: self.setting.clone(),
        }
    }

    pub(crate) fn start_pool(&self) {
        self.world.store.spawn_pools([Path::new(DIR)].into_iter());
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
        let opened = self
            .world
            .try_open(options, clean, recovery_point, log_start);
        opened.await
    }

    pub(crate) fn disk(&self) -> &SimDisk {
        self.world.disk()
    }

    pub(crate) fn path(&self) -> &TierPath {
        &self.tiers.paths()[0]
    }

    /// The files of the pool when everything that was started has come to rest; each whole and
    /// empty, as the count says.
    pub(crate) async fn pooled(&self) -> Vec<Entry> {
        let clock = self.world.platform.clock();
        clock.sleep(Duration::from_secs(2)).await;
        let mut entries = self.disk().list(Path::new(DIR)).await.unwrap();
        entries.retain(|entry| entry.name.contains(".pooled"));
        for entry in &entries {
            assert!(entry.name.ends_with(".pooled"), "{entry:?}");
            assert_eq!(entry.len, self.setting.file_bytes, "{entry:?}");
            let bytes = self.disk().contents(&Path::new(DIR).join(&entry.name));
            assert!(bytes.unwrap().iter().all(|byte| *byte == 0), "{entry:?}");
        }
        let bytes: u64 = entries.iter().map(|entry| entry.len).sum();
        assert_eq!(self.path().pooled_bytes(), bytes);
        entries
    }
}

fn tier(name: &str, dir: &str, medium: Medium, capacity: u64) -> TierOptions {
    let path = PathOptions {
        dir: dir.into(),
        capacity: Capacity::Bytes(capacity),
    };
    TierOptions {
        name: name.into(),
        paths: vec![path],
        medium,
        safety: Safety::Durable,
        read_bytes_per_second: None,
        write_bytes_per_second: None,
    }
}

pub(crate) fn log_options() -> LogOptions {
    LogOptions {
        file_delete_delay_ms: 1,
        ..options()
    }
}

/// Appends until the log has rolled once more; looks after each append whether something lies
/// prepared.
pub(crate) async fn write_a_segment(log: &SimLog) {
    let before = log.segment_count();
    while log.segment_count() == before {
        produce(log, 1, 4500).await;
    }
}
