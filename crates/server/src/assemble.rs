//! Assembles the broker that the shards serve: one [`broker::Broker`] on each, over the real disk.
//!
//! The first shard reads the log directories and runs the controller; the other shards wait for its
//! result. When the server stops, the first shard closes the logs of all shards.

mod shown;

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use broker::answers::Answers;
use broker::hanging::{self, HangingDirs};
use broker::journals::{self, OpenedMark, OpenedRings};
use broker::listener_stores::ListenerStores;
use broker::log_dirs::{LogDirs, RefusedLogs};
use broker::node_config::NodeConfigs;
use broker::options::BrokerOptions;
use broker::recovery::Recovery;
use broker::shards::{Seat, seats};
use broker::{Broker, CONTROLLER_SHARD, ProcessState, housekeeping};
use platform::lock::DirLock;
use platform::os::{EngineChoice, System};
use platform::task::elsewhere;
use platform::{Disk as _, Platform as _};
use storage::tier::TierTable;
use storage::{Store, StoreOptions};
use tokio::sync::watch;
use wire::types::NodeId;

use crate::admission::NodeConfigWatch;
use crate::audit::AuditLog;
use crate::config::{DiskEngine, Settings};
use crate::health::Reason;
use crate::media;
use crate::metrics::{
    DirMetrics, GroupMetrics, IdleMetrics, LogMetrics, RoomMetrics, SHOWN_BYTES_MAX,
};
use crate::rights::RightsImage;
use crate::rings_lock;
use crate::serve::AssemblyInputs;
use crate::shards::{Assembly, GaugeUpdate, PendingAnswer};
use crate::tiers;
use crate::tiers::ask::Ask;
use crate::tiers::metrics::TierMetrics;
use crate::tiers::watch::Watch;
use crate::trouble::{self, StableOffsets};

/// Bytes of a chunk of a busy log's tail.
const CHUNK_BYTES: usize = 1 << 20;
/// Size of a shard's cache before readers have asked for more.
const CACHE_BYTES_START: usize = 16 << 20;
/// Chunks kept ready, per shard.
const RESERVE_CHUNKS: usize = 2;
/// Step in which disk space is reserved ahead of the appends.
const ALLOCATE_STEP_BYTES: u64 = 64 << 20;
/// Appended bytes after which a log saves its recovery point.
const SAVE_INTERVAL_BYTES: u64 = 64 << 20;
/// Largest read-ahead of a sequential reader.
const READ_AHEAD_BYTES_MAX: usize = 8 << 20;
/// Sealed segments kept open, per shard.
const OPEN_SEGMENTS_MAX: usize = 1024;

/// Least number of descriptors that a broker needs besides its logs.
const OPEN_FILES_BESIDE_LOGS: usize = 128;

/// Makes the broker on each shard.
pub struct BrokerAssembly {
    settings: Settings,
    ports: Vec<u16>,
    // Bounded: one for each shard, `num.shards`.
    seats: Mutex<Vec<Option<Seat<System>>>>,
    metrics: broker::metrics::Metrics,
    storage_metrics: storage::Metrics,
    log_metrics: LogMetrics,
    dir_metrics: DirMetrics,
    room_metrics: RoomMetrics,
    group_metrics: GroupMetrics,
    idle_metrics: IdleMetrics,
    recovery: Recovery,
    compacting: broker::compaction::Turns,
    node: NodeConfigs,
    answers: Answers,
    hanging: HangingDirs,
    /// The tiers, if there are any; all shards share the table.
    tiers: Option<Arc<TierTable>>,
    watch: Option<Watch>,
    audit: Option<AuditLog>,
    stores: Option<Arc<dyn ListenerStores>>,
    /// What the first shard found; the other shards wait for it.
    shared: watch::Sender<Option<ProcessState>>,
    rings: RingAgreement,
    /// Locks of the rings that do not lie in the log directories, held until the process ends.
    // Bounded: one for each of `log.dirs`.
    ring_locks: Mutex<Vec<DirLock>>,
}

/// How the shards agree on the rings that are used: the first shard waits for what all have opened,
/// and the others for what it has marked.
#[derive(Default)]
struct RingAgreement {
    // Bounded: one for each shard and log directory.
    opened: watch::Sender<(usize, Vec<OpenedMark>)>,
    marked: watch::Sender<Option<Vec<bool>>>,
}

impl BrokerAssembly {
    /// Registers metrics and connects the shards.
    pub fn new(prepared: &AssemblyInputs) -> Self {
        let settings = prepared.settings.clone();
        let tiers = media::tier_table(&settings);
        let policy = settings.tiers.as_ref().map(|tiers| tiers.policy);
        let watch = tiers
            .clone()
            .zip(policy)
            .map(|(tiers, policy)| Watch::new(tiers, policy));
        if let Some(watch) = &watch {
            let metrics = Box::new(TierMetrics(watch.clone()));
            prepared
                .metrics
                .register(|registry| registry.register_collector(metrics));
        }
        let log_metrics = prepared.metrics.register(LogMetrics::register);
        let logs = log_metrics.clone();
        let group_metrics = prepared
            .metrics
            .register(|registry| GroupMetrics::register(registry, logs));
        Self {
            seats: Mutex::new(seats(settings.shards).into_iter().map(Some).collect()),
            ports: prepared.ports.clone(),
            metrics: prepared
                .metrics
                .register(broker::metrics::Metrics::register),
            storage_metrics: prepared.metrics.register(storage::Metrics::new),
            log_metrics,
            dir_metrics: prepared.metrics.register(DirMetrics::register),
            room_metrics: prepared.metrics.register(RoomMetrics::register),
            group_metrics,
            idle_metrics: prepared.metrics.register(IdleMetrics::register),
            recovery: Recovery::default(),
            compacting: broker::compaction::Turns::default(),
            node: NodeConfigs::default(),
            hanging: HangingDirs::default(),
            answers: Answers::new(settings.network.answers_bytes_max),
            tiers,
            watch,
            audit: prepared.audit.clone(),
            stores: prepared.stores.clone(),
            settings,
            shared: watch::Sender::new(None),
            rings: RingAgreement::default(),
            ring_locks: Mutex::default(),
        }
    }

    /// Reads the log directories, on the first shard.
    async fn found(&self, platform: &System) -> anyhow::Result<ProcessState> {
        let settings = &self.settings;
        let node_id = settings.node_id.map(NodeId);
        let cluster_id = settings.cluster_id.as_deref();
        let (paths, told) = (&settings.log_dirs, settings.told);
        let lower: Vec<_> = settings.lower_dirs().map(Path::to_path_buf).collect();
        LogDirs::check_places(platform, paths, &lower, told).await?;
        let (ids, journals) = ((node_id, cluster_id), settings.journals());
        let log_dirs = LogDirs::open_with_rings(platform, paths, journals, ids, told).await?;
        self.lock_rings(platform, &log_dirs).await?;
        say_if_files_are_few(log_dirs.found().count());
        for dir in &settings.log_dirs {
            say_how_files_are_written(platform, dir).await?;
        }
        if let Some(tiers) = &self.tiers {
            log_dirs.open_lower_tiers(platform, tiers).await?;
            media::say(platform, tiers).await;
        }
        media::warn_of_memory(platform, &settings.log_dirs, self.tiers.as_deref()).await;
        let options = settings.broker_options(log_dirs.node_id, &self.ports);
        let audit = self.audit.as_ref().map(AuditLog::audit);
        Ok(ProcessState {
            options: Arc::new(BrokerOptions {
                audit: audit.unwrap_or_default(),
                stores: self.stores.clone(),
                ..options
            }),
            log_dirs: Arc::new(log_dirs),
            metrics: self.metrics.clone(),
            recovery: self.recovery.clone(),
            compacting: self.compacting.clone(),
            node: self.node.clone(),
            answers: self.answers.clone(),
        })
    }

    /// Locks the rings that are not in their log directories: a copy of a log directory, used at
    /// the same time, would write to the same ones.
    async fn lock_rings(&self, platform: &System, log_dirs: &LogDirs) -> anyhow::Result<()> {
        let Some(journals) = self.settings.journals() else {
            return Ok(());
        };
        for (index, dir) in log_dirs.dirs.iter().enumerate() {
            let Some(rings_dir) = journals.own_dir(index).map(Path::to_path_buf) else {
                continue;
            };
            if let Err(error) = platform.disk().create_dir(&rings_dir).await {
                tracing::warn!(dir = %rings_dir.display(), %error, "the directory of journals cannot be made");
                continue;
            }
            let id = dir.id;
            let locked = elsewhere(move || rings_lock::acquire(&rings_dir, id)).await;
            let locked = locked.context("the process ends")?.with_context(|| {
                let dir = dir.path.display();
                format!("locking the journals of {dir}: is it a copy of another log directory?")
            })?;
            let locks = self.ring_locks.lock();
            let mut locks = locks.unwrap_or_else(PoisonError::into_inner);
            locks.extend(locked);
        }
        Ok(())
    }

    fn store_options(&self) -> StoreOptions {
        let shards = self.settings.shards.max(1);
        let share = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX) / shards;
        StoreOptions {
            cache_bytes_max: share(self.settings.log_cache_bytes).max(4 * CHUNK_BYTES),
            cache_bytes_start: CACHE_BYTES_START,
            unwritten_bytes_max: self.settings.network.unwritten_bytes_max(),
            chunk_bytes: CHUNK_BYTES,
            reserve_chunks: RESERVE_CHUNKS,
            allocate_step_bytes: ALLOCATE_STEP_BYTES,
            save_interval_bytes: SAVE_INTERVAL_BYTES,
            read_ahead_bytes_max: READ_AHEAD_BYTES_MAX,
            open_segments_max: OPEN_SEGMENTS_MAX,
        }
    }

    /// Opens the rings of a shard and has its logs use them, when the log directories are marked.
    ///
    /// The first shard opens logs after that, and the others when it tells them to.
    async fn begin_journals(
        &self,
        shard: usize,
        (platform, store): (&System, &Store<System>),
        shared: &ProcessState,
    ) -> anyhow::Result<()> {
        if shared.options.journal.is_none() {
            return Ok(());
        }
        let shards = self.settings.shards.max(1);
        let rings = OpenedRings::open(platform, shared, shard, shards).await;
        self.rings.opened.send_modify(|(count, marks)| {
            *count = count.saturating_add(1);
            marks.extend(rings.marks());
        });
        if shard == CONTROLLER_SHARD {
            let mut opened = self.rings.opened.subscribe();
            let all = opened.wait_for(|(count, _)| *count >= shards);
            let marks = all.await?.1.clone();
            let marked = journals::mark(platform, shared, &marks).await;
            self.rings.marked.send_replace(Some(marked));
        }
        let mut marked = self.rings.marked.subscribe();
        let marked = marked.wait_for(Option::is_some).await?.clone();
        rings.use_in(store, shared, &marked.unwrap_or_default());
        Ok(())
    }

    fn seat(&self, shard: usize) -> anyhow::Result<Seat<System>> {
        let mut seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        seats
            .get_mut(shard)
            .and_then(Option::take)
            .context("a shard starts once")
    }
}

impl Assembly for BrokerAssembly {
    type Service = BrokerService;
    type Requests = Rc<Broker<System>>;

    fn requests(service: &BrokerService) -> &Rc<Broker<System>> {
        &service.broker
    }

    async fn start(&self, shard: usize) -> anyhow::Result<Rc<BrokerService>> {
        let platform = System::start(engine(self.settings.disk_engine))?;
        let dirs = self.settings.log_dirs.iter().cloned();
        let lower = self.settings.lower_dirs().map(Path::to_path_buf);
        let rings = self.settings.ring_dirs();
        let dirs: Vec<_> = dirs.chain(lower).chain(rings).collect();
        platform.disk().keep_apart(dirs.clone());
        // Starts before the first disk operation: a start may wait for a disk, too.
        let watching = hanging::watch(platform.clone(), shard, dirs, self.hanging.clone());
        tokio::task::spawn_local(watching);
        if let Some(tiers) = &self.tiers {
            media::declare(&platform, tiers).await?;
        }
        let shared = if shard == CONTROLLER_SHARD {
            let shared = self.found(&platform).await?;
            self.shared.send_replace(Some(shared.clone()));
            shared
        } else {
            let mut found = self.shared.subscribe();
            let shared = found.wait_for(Option::is_some).await?.clone();
            shared.context("the first shard has not started")?
        };
        let store = Store::with_tiers(
            platform.clone(),
            self.store_options(),
            self.storage_metrics.clone(),
            self.tiers.clone(),
        );
        store.spawn_flusher();
        self.begin_journals(shard, (&platform, &store), &shared)
            .await
            .context("opening the journals")?;
        let (broker, inbox) = Broker::seated(platform, self.seat(shard)?, store.clone(), shared);
        tokio::task::spawn_local(inbox.serve(Rc::clone(&broker)));
        if shard == CONTROLLER_SHARD {
            broker.start().await.context("starting the broker")?;
            let home = self.settings.log_dirs.iter().map(PathBuf::as_path);
            store.spawn_pools(home.chain(self.settings.lower_dirs()));
        }
        if let Some(tiers) = &self.settings.tiers {
            store.spawn_mover(tiers.policy);
        }
        housekeeping::start(&broker);
        Ok(Rc::new(BrokerService {
            broker,
            store,
            stable: StableOffsets::default(),
        }))
    }

    async fn close(&self, shard: usize, service: Rc<BrokerService>) -> anyhow::Result<()> {
        if shard == CONTROLLER_SHARD {
            service.broker.stop().await.context("stopping the broker")?;
        }
        Ok(())
    }

    fn before_scrape(&self, shard: usize, service: &Rc<BrokerService>) -> GaugeUpdate {
        let broker = Rc::clone(&service.broker);
        broker.show_counts();
        service.store.show_journals();
        let unreadable = service.store.unreadable_segments();
        let dirs = shown::dirs(&self.settings, self.tiers.as_deref());
        let states = shown::states(dirs.clone(), &broker.platform, &service.store);
        self.dir_metrics.replace(shard, states, unreadable);
        self.idle_metrics.look(shard);
        let (room, groups) = (self.room_metrics.clone(), self.group_metrics.clone());
        let (logs, idle) = (self.log_metrics.clone(), self.idle_metrics.clone());
        let bytes_max = SHOWN_BYTES_MAX / self.settings.shards.max(1);
        Box::pin(async move {
            let surveyed = async {
                logs.replace(shard, shown::logs(&broker).await);
                let old = groups.replace(shard, broker.survey_groups(bytes_max).await);
                elsewhere(move || drop(old)).await;
            };
            let asked = async {
                // All shards have the same directories.
                if shard == CONTROLLER_SHARD {
                    let space = |dir: PathBuf| {
                        let broker = Rc::clone(&broker);
                        async move { broker.platform.disk().space(&dir).await }
                    };
                    room.look(dirs, space).await;
                }
            };
            // The disks have time to answer while logs and groups are visited.
            tokio::join!(asked, surveyed);
            idle.look(shard);
        })
    }

    fn reasons(&self, shard: usize, service: &Rc<BrokerService>) -> Vec<Reason> {
        let broker = &service.broker;
        let led = broker.led_partitions();
        let mut reasons = Vec::new();
        trouble::of_logs(&led, &mut reasons);
        trouble::of_absences(broker.unopened_partitions(), &service.store, &mut reasons);
        let now = broker.platform.clock().now();
        let longest = broker.options.transaction.timeout_max;
        let stuck = service.stable.stuck(&led, longest, now);
        let example = stuck.first().map(ToString::to_string).unwrap_or_default();
        reasons.extend(Reason::degraded(
            "stuck_stable_offsets",
            stuck.len(),
            example,
        ));
        trouble::of_log_dirs(&self.settings.log_dirs, &service.store, &mut reasons);
        trouble::of_journals(&self.settings.log_dirs, &service.store, &mut reasons);
        if shard == CONTROLLER_SHARD {
            reasons.extend(trouble::of_hanging(&self.hanging));
            if let Some(RefusedLogs { count, example }) = broker.log_dirs.refused_logs() {
                reasons.extend(Reason::degraded("journal_refused_logs", count, example));
            }
            reasons.extend(broker.held_step().and_then(trouble::of_clock));
            reasons.extend(trouble::of_token_keys(&self.settings.token_keys.sources));
            trouble::of_coordinators(&self.metrics, &mut reasons);
            reasons.extend(self.audit.as_ref().and_then(AuditLog::reason));
            if let Some(tiers) = self.tiers.as_deref() {
                trouble::of_tiers(tiers, &mut reasons);
            }
        }
        reasons
    }

    fn ask(&self, _shard: usize, service: &Rc<BrokerService>, ask: Ask) -> PendingAnswer {
        let store = service.store.clone();
        let policy = self.settings.tiers.as_ref().map(|tiers| tiers.policy);
        Box::pin(async move { Some(tiers::ask::answer(&store, &policy?, ask).await) })
    }

    fn rights(&self, service: &Rc<BrokerService>) -> Option<RightsImage> {
        Some(RightsImage::of(&service.broker.image()))
    }

    fn answers(&self) -> Answers {
        self.answers.clone()
    }

    fn changing(&self) -> Option<NodeConfigWatch> {
        Some(self.node.subscribe())
    }

    fn tiers(&self) -> Option<Watch> {
        self.watch.clone()
    }

    fn logs(&self) -> usize {
        let led = usize::try_from(self.metrics.partitions.get()).unwrap_or(0);
        led.max(usize::try_from(self.recovery().1).unwrap_or(usize::MAX))
    }

    fn recovery(&self) -> (u64, u64) {
        self.recovery.progress()
    }

    fn traffic(&self) -> (u64, u64) {
        self.metrics.traffic()
    }
}

/// Logs an error if the limit of open files is too low for the logs.
///
/// A log may need a descriptor at any moment; connections leave one for each log, and some more.
fn say_if_files_are_few(logs: usize) {
    let needed = logs.saturating_add(OPEN_FILES_BESIDE_LOGS);
    if let Some(limit) = platform::process::open_files_max().filter(|limit| *limit < needed) {
        tracing::error!(
            logs,
            open_files_max = limit,
            needed,
            "too few open files for the logs there are: raise the limit (ulimit -n, LimitNOFILE= of systemd)"
        );
    }
}

fn engine(setting: DiskEngine) -> EngineChoice {
    match setting {
        DiskEngine::Auto => EngineChoice::Auto,
        DiskEngine::IoUring => EngineChoice::IoUring,
        DiskEngine::Threads => EngineChoice::Threads,
    }
}

/// Logs how files are read and written.
///
/// Finding out about direct I/O needs a free block. A full disk is no reason to refuse the start:
/// the broker serves what is there, and deleting topics makes room.
async fn say_how_files_are_written(platform: &System, dir: &Path) -> anyhow::Result<()> {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    let engine = platform.engine_name();
    let direct = match platform.disk().direct(dir).await {
        Ok(direct) => direct,
        Err(error) if matches!(error.kind(), StorageFull | QuotaExceeded) => {
            // Assume direct I/O; the first write will show whether it works.
            tracing::warn!(dir = %dir.display(), %error, "no room is left on the disk, not even to find out whether direct i/o works: it is tried");
            true
        }
        Err(error) => {
            return Err(error).with_context(|| format!("trying direct i/o in {}", dir.display()));
        }
    };
    if let Some(reason) = platform.engine_fallback_reason() {
        tracing::warn!(
            reason,
            "io_uring is not to be had here: files are read and written by threads"
        );
    }
    tracing::info!(dir = %dir.display(), engine, direct, "disk");
    Ok(())
}

/// The broker of a shard, and what its health is read from.
pub struct BrokerService {
    broker: Rc<Broker<System>>,
    store: Store<System>,
    stable: StableOffsets,
}
