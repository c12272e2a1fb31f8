//! A whole broker on a simulated disk: some shards on one simulated executor, and a client that
//! speaks in frames.
//!
//! A [`life`] is one process: it starts on a disk, serves, and is gone with everything it spawned
//! when its story ends. The disk outlives it: the next life begins on what [`SimDisk::kill`] or
//! [`SimDisk::crash`] left. Nothing sleeps in real time. Not here: sockets and configuration files
//! (`server`).

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod asks;
pub(crate) mod batches;
pub(crate) mod client;
mod groups;
pub(crate) mod journal;
pub(crate) mod setup;
pub(crate) mod transactor;
pub(crate) mod users;

use std::rc::Rc;
use std::sync::Arc;

use broker::answers::Answers;
use broker::journals::{self, OpenedRings};
use broker::log_dirs::LogDirs;
use broker::metrics::Metrics;
use broker::recovery::Recovery;
use broker::shards::seats;
use broker::{Broker, ProcessState, housekeeping};
use platform::sim::{SimDisk, SimPlatform};
use platform::{Clock, Platform};
use prometheus_client::registry::Registry;
use storage::Store;
use storage::tier::{TierOptions, TierTable};

pub(crate) use setup::{NOW_MS, Setup};

pub(crate) type SimBroker = Rc<Broker<SimPlatform>>;

/// A process that serves.
pub(crate) struct Cluster {
    /// One broker for each shard.
    pub(crate) brokers: Vec<SimBroker>,
    pub(crate) platform: SimPlatform,
    pub(crate) metrics: Metrics,
    /// What clients have not taken yet: there are no sockets here that would count it.
    pub(crate) answers: Answers,
    /// Of each shard.
    storage: Vec<storage::Metrics>,
    registry: Registry,
}

/// Runs one process on `disk` from its start to the end of `story`; without [`Cluster::stop`] it
/// just ends there.
pub(crate) fn life<R>(disk: &SimDisk, setup: &Setup, story: impl AsyncFnOnce(&Cluster) -> R) -> R {
    try_life(disk, setup, story).expect("the broker starts")
}

/// The same on a disk that may not let it start.
pub(crate) fn try_life<R>(
    disk: &SimDisk,
    setup: &Setup,
    story: impl AsyncFnOnce(&Cluster) -> R,
) -> Result<R, String> {
    journal::listen();
    let run = async {
        let cluster = Cluster::start(disk.clone(), setup).await?;
        Ok(story(&cluster).await)
    };
    platform::runtime::run_simulated(run).expect("an executor")
}

async fn lower_tiers(
    platform: &SimPlatform,
    log_dirs: &LogDirs,
    tiers: Vec<TierOptions>,
) -> Result<Arc<TierTable>, String> {
    let table = TierTable::new(tiers);
    for path in table.paths() {
        path.note_space(1 << 40, 1 << 40);
    }
    let opened = log_dirs.open_lower_tiers(platform, &table).await;
    opened.map_err(|error| error.to_string())?;
    Ok(table)
}

/// Has the logs use journals, if there are any.
async fn begin_journals(
    platform: &SimPlatform,
    shared: &ProcessState,
    stores: &[Store<SimPlatform>],
) {
    if shared.options.journal.is_none() {
        return;
    }
    let (mut rings, mut marks) = (Vec::new(), Vec::new());
    for shard in 0..stores.len() {
        let opened = OpenedRings::open(platform, shared, shard, stores.len()).await;
        marks.extend(opened.marks());
        rings.push(opened);
    }
    let marked = journals::mark(platform, shared, &marks).await;
    for (rings, store) in rings.into_iter().zip(stores) {
        rings.use_in(store, shared, &marked);
    }
}

impl Cluster {
    pub(crate) async fn start(disk: SimDisk, setup: &Setup) -> Result<Self, String> {
        client::begin_sessions();
        let clock = Clock::starting_at(setup.wall_ms);
        let platform = SimPlatform::on(disk, clock, setup.seed);
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let (homes, lower) = (&setup.options.log_dirs, &setup.options.lower_dirs);
        LogDirs::check_places(&platform, homes, lower, setup.told)
            .await
            .map_err(|error| error.to_string())?;
        let log_dirs = LogDirs::open_with_rings(
            &platform,
            homes,
            setup.options.journal.as_ref(),
            (None, None),
            setup.told,
        )
        .await
        .map_err(|error| error.to_string())?;
        let answers = Answers::new(setup.answers_bytes_max);
        let tiers = match &setup.tiers {
            Some((tiers, _)) => Some(lower_tiers(&platform, &log_dirs, tiers.clone()).await?),
            None => None,
        };
        let shared = ProcessState {
            options: Arc::new(setup.options.clone()),
            log_dirs: Arc::new(log_dirs),
            metrics: metrics.clone(),
            recovery: Recovery::default(),
            compacting: broker::compaction::Turns::default(),
            node: broker::node_config::NodeConfigs::default(),
            answers: answers.clone(),
        };
        let (mut stores, mut counted) = (Vec::new(), Vec::new());
        for _ in 0..setup.shards {
            let storage = storage::Metrics::unregistered();
            counted.push(storage.clone());
            let store = Store::with_tiers(
                platform.clone(),
                setup.store.clone(),
                storage,
                tiers.clone(),
            );
            store.spawn_flusher();
            if let Some((_, policy)) = &setup.tiers {
                store.spawn_mover(*policy);
            }
            stores.push(store);
        }
        begin_journals(&platform, &shared, &stores).await;
        let mut brokers = Vec::new();
        for (seat, store) in seats(setup.shards).into_iter().zip(stores) {
            let (broker, inbox) = Broker::seated(platform.clone(), seat, store, shared.clone());
            platform::task::spawn(inbox.serve(Rc::clone(&broker)));
            brokers.push(broker);
        }
        brokers[0]
            .start()
            .await
            .map_err(|error| error.to_string())?;
        brokers.iter().for_each(housekeeping::start);
        Ok(Self {
            brokers,
            platform,
            metrics,
            answers,
            storage: counted,
            registry,
        })
    }

    /// Stops cleanly.
    pub(crate) async fn stop(&self) {
        self.brokers[0].stop().await.expect("a clean stop");
    }

    /// Logs that the start had to recover.
    pub(crate) fn recovered_logs(&self) -> u64 {
        let each = self.storage.iter();
        each.map(|storage| storage.recovered_logs.get()).sum()
    }

    /// The metrics of a shard's logs.
    pub(crate) fn storage_metrics(&self, shard: usize) -> &storage::Metrics {
        &self.storage[shard]
    }

    /// What a monitoring system would read.
    pub(crate) fn shown_metrics(&self) -> String {
        let mut shown = String::new();
        prometheus_client::encoding::text::encode(&mut shown, &self.registry).expect("text");
        shown
    }

    /// What a monitoring system would read of a series, after all shards have shown their part.
    pub(crate) fn metric(&self, series: &str) -> Option<String> {
        self.brokers.iter().for_each(|broker| broker.show_counts());
        let shown = self.shown_metrics();
        let mut lines = shown.lines();
        let value = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map(str::to_owned)
    }

    pub(crate) fn disk(&self) -> &SimDisk {
        self.platform.disk()
    }

    pub(crate) async fn pass_ms(&self, ms: u64) {
        let time = std::time::Duration::from_millis(ms);
        self.platform.clock().sleep(time).await;
    }
}
