//! One shard's broker: everything a request handler can reach without leaving the shard.
//!
//! Invariants: the image only moves forward; a partition is in `partitions` on exactly one shard;
//! handlers never hold a borrow across an await.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use platform::clock::Instant;
use platform::sync::Semaphore;
use platform::{Platform, task};
use storage::store::Store;
use wire::types::{ErrorCode, TopicId};

use crate::answers::Answers;
use crate::bulk::Bulk;
use crate::checkpoints::CheckpointFiles;
use crate::compaction;
use crate::controller::Controller;
use crate::fetch_session::FetchSessions;
use crate::group::GroupCoordinator;
use crate::group::survey::Survey;
use crate::image::Image;
use crate::lines::Lines;
use crate::log_dirs::LogDirs;
use crate::making::{SOON, TopicCreations};
use crate::many;
use crate::metrics::Metrics;
use crate::names::{CONTROLLER_SHARD, metadata_log};
use crate::node_config::NodeConfigs;
use crate::offsets_log::PartitionOffsetsLog;
use crate::options::BrokerOptions;
use crate::partition::Partition;
use crate::partitions::Turns;
use crate::producer_ids::ProducerIds;
use crate::queues::Queues;
use crate::quota::Quotas;
use crate::recovery::Recovery;
use crate::relocation::Moves;
use crate::rests::Rests;
use crate::seldom::SeldomLine;
use crate::session::Users;
use crate::shards::{Inbox, Seat, Shards};
use crate::telemetry::Telemetry;
use crate::transaction::TransactionCoordinator;
use crate::unopened::UnopenedLog;
use crate::wall_clock::WallClock;

/// A partition assigned to this shard: led, or offline because its log could not be opened.
pub(crate) type AssignedPartition<P> = Result<Rc<Partition<P>>, ErrorCode>;

/// The groups of one shard.
pub(crate) type Groups<P> = GroupCoordinator<P, PartitionOffsetsLog<P>>;

/// What all shards of a process share.
#[derive(Clone)]
pub struct ProcessState {
    /// The options given at start.
    pub options: Arc<BrokerOptions>,
    /// Log directories and what was found in them at start.
    pub log_dirs: Arc<LogDirs>,
    /// The metrics of the broker.
    pub metrics: Metrics,
    /// Progress of the start.
    pub recovery: Recovery,
    /// Logs that are being compacted, on all shards.
    pub compacting: compaction::Turns,
    /// Settings that can change at run time and are enforced for the whole process.
    pub node: NodeConfigs,
    /// Memory of answers that are being sent.
    pub answers: Answers,
}

/// One shard's broker.
pub struct Broker<P: Platform> {
    /// The platform: clock, disks, tasks.
    pub platform: P,
    /// The options given at start.
    pub options: Arc<BrokerOptions>,
    /// Access to the other shards.
    pub shards: Shards<P>,
    /// The logs' shared parts: buffers, cache, flusher.
    pub store: Store<P>,
    /// The metrics of the broker.
    pub metrics: Metrics,
    /// Log directories and what was found in them at start.
    pub log_dirs: Arc<LogDirs>,
    /// Progress of the start.
    pub recovery: Recovery,
    pub(crate) compacting: compaction::Turns,
    pub(crate) node: NodeConfigs,
    pub(crate) answers: Answers,
    /// The groups whose offsets partitions this shard leads.
    pub(crate) groups: Rc<Groups<P>>,
    /// The transactional ids whose partition this shard leads.
    pub(crate) transactions: Rc<TransactionCoordinator<P>>,
    pub(crate) sessions: RefCell<FetchSessions>,
    // Unbounded: one for each partition that was created; each has a folder on a disk and a record
    // in the metadata.
    pub(crate) partitions: RefCell<BTreeMap<(TopicId, i32), AssignedPartition<P>>>,
    /// What is known of the logs that could not be opened.
    // Unbounded: a subset of `partitions`; `forget_removed` removes from it whatever it removes
    // from there.
    pub(crate) unopened: RefCell<BTreeMap<(TopicId, i32), UnopenedLog>>,
    pub(crate) producer_ids: ProducerIds,
    /// Logs that are being moved to another directory.
    pub(crate) moves: Moves<P>,
    pub(crate) making: TopicCreations,
    pub(crate) quotas: Quotas,
    /// The users whom this shard recognises.
    pub(crate) users: Users,
    /// The clients whose metrics this shard receives.
    pub(crate) telemetry: Telemetry,
    /// The order of appends of connections whose requests begin in pieces.
    pub(crate) lines: Lines,
    /// Held by the one job that this shard may run on another thread: more jobs would take the
    /// processors from everything else.
    pub(crate) elsewhere: Queues<IpAddr>,
    /// The queue for judging a batch on another thread, which may take a second.
    pub(crate) judging: Queues<IpAddr>,
    /// The share of the thread that large requests have.
    pub(crate) bulk: Bulk,
    /// Held by requests about very many items.
    pub(crate) many: Queues<IpAddr>,
    /// Held while the checkpoint files of a log directory are written.
    // Unbounded: the log directories of the settings.
    pub(crate) checkpoint_turns: BTreeMap<PathBuf, Semaphore>,
    /// What this process knows of the checkpoint files.
    pub(crate) checkpoint_files: CheckpointFiles,
    /// When it was last logged that a client asked for the free space of a directory, and the disk
    /// did not report it.
    pub(crate) roomless: SeldomLine,
    pub(crate) wall_clock: WallClock,
    /// Turns for opening and deleting logs, of each log directory.
    // Unbounded: the log directories of the settings.
    pub(crate) log_turns: RefCell<BTreeMap<PathBuf, Rc<Turns>>>,
    /// When a stop began to wait for disks.
    pub(crate) stopping_since: Cell<Option<Instant>>,
    /// Held while an image is applied.
    pub(crate) image_turn: Semaphore,
    /// What is counted of fetch sessions: the evictions, and the sessions and the bytes that this
    /// shard last added to their gauges.
    counted_sessions: Cell<(u64, i64, i64)>,
    /// What this shard last added to the gauge of late transactions.
    pub(crate) counted_late: Cell<i64>,
    /// What this shard last added to the partition gauges: its partitions, and those of them that
    /// it leads.
    pub(crate) counted: Cell<(i64, i64)>,
    image: RefCell<Arc<Image>>,
    controller: OnceCell<Rc<Controller<P>>>,
}

/// Returns one turn for each log directory.
fn checkpoint_turns(log_dirs: &LogDirs) -> BTreeMap<PathBuf, Semaphore> {
    let dirs = log_dirs.dirs.iter();
    dirs.map(|dir| (dir.path.clone(), Semaphore::new(1)))
        .collect()
}

impl<P: Platform> Broker<P> {
    /// Creates the broker of a shard.
    ///
    /// It leads nothing until it is given an image.
    pub fn seated(
        platform: P,
        seat: Seat<P>,
        store: Store<P>,
        shared: ProcessState,
    ) -> (Rc<Self>, Inbox<P>) {
        let ProcessState {
            options,
            log_dirs,
            metrics,
            recovery,
            compacting,
            node,
            answers,
        } = shared;
        let (shards, inbox) = seat.take();
        let home = log_dirs.holding(&metadata_log()).id;
        let users = Users::new(options.logins.iter(), home, || platform.random_u64());
        let broker = Rc::new_cyclic(|me| Self {
            sessions: RefCell::new(FetchSessions::new(
                options.fetch_sessions_max,
                shards.me(),
                shards.count(),
            )),
            groups: GroupCoordinator::new(
                platform.clone(),
                options.group.clone(),
                PartitionOffsetsLog::new(me.clone()),
                metrics.groups.clone(),
            ),
            transactions: TransactionCoordinator::new(me.clone()),
            partitions: RefCell::default(),
            unopened: RefCell::default(),
            producer_ids: ProducerIds::default(),
            moves: Moves::default(),
            making: TopicCreations::default(),
            quotas: Quotas::new(shards.count()),
            users,
            telemetry: Telemetry::new(shards.count(), metrics.telemetry.clone()),
            lines: Lines::default(),
            elsewhere: Queues::new(1),
            judging: Queues::new(1),
            bulk: Bulk::new(metrics.bulk_waits.clone()),
            many: Queues::new(many::AT_ONCE),
            checkpoint_turns: checkpoint_turns(&log_dirs),
            checkpoint_files: CheckpointFiles::default(),
            roomless: SeldomLine::default(),
            wall_clock: WallClock::default(),
            log_turns: RefCell::default(),
            stopping_since: Cell::default(),
            image_turn: Semaphore::new(1),
            counted: Cell::default(),
            counted_sessions: Cell::default(),
            counted_late: Cell::default(),
            image: RefCell::new(Arc::new(Image::empty())),
            controller: OnceCell::new(),
            platform,
            options,
            shards,
            store,
            metrics,
            log_dirs,
            recovery,
            compacting,
            node,
            answers,
        });
        broker.shards.seat(Rc::downgrade(&broker));
        (broker, inbox)
    }

    /// Returns the metadata as this shard knows it.
    pub fn image(&self) -> Arc<Image> {
        Arc::clone(&self.image.borrow())
    }

    pub(crate) fn publish(&self, image: Arc<Image>) {
        let (before, now) = (
            self.image().last_applied_offset(),
            image.last_applied_offset(),
        );
        assert!(before <= now, "the image only moves forward");
        self.quotas.learn(&image);
        *self.image.borrow_mut() = image;
    }

    /// Returns the controller, on the shard that runs it.
    pub(crate) fn controller(&self) -> Result<Rc<Controller<P>>, ErrorCode> {
        self.controller
            .get()
            .cloned()
            .ok_or(ErrorCode::NotController)
    }

    /// Updates the metrics that nothing else keeps up to date: what this shard's fetch sessions
    /// have come to, what its transactional ids are doing, what the clients that it counts use, and
    /// on the shard that runs the controller the state of the metadata log.
    pub fn show_counts(&self) {
        self.show_sessions();
        self.transactions.show();
        let now = self.platform.clock().now();
        let usage = self.quotas.usage(self.options.quota.rates, now);
        self.metrics.quotas.show(self.shards.me(), usage);
        if let Ok(controller) = self.controller() {
            let commits = controller.commits();
            self.metrics
                .cluster
                .show_quorum(&controller.quorum(), commits);
            let bytes = i64::try_from(controller.reserved_bytes()).unwrap_or(i64::MAX);
            self.metrics.metadata_reserve.set(bytes);
        }
    }

    /// Adds to the metrics of fetch sessions, which all shards share, what has changed on this one.
    fn show_sessions(&self) {
        let now = {
            let sessions = self.sessions.borrow();
            // They have bounds far below; a gauge that shows too little is no reason to stop.
            let signed = |count| i64::try_from(count).unwrap_or(i64::MAX);
            let (count, bytes) = (signed(sessions.count()), signed(sessions.bytes()));
            (sessions.evictions(), count, bytes)
        };
        let (evictions, count, bytes) = self.counted_sessions.replace(now);
        let metrics = &self.metrics;
        let evicted = now.0.saturating_sub(evictions);
        metrics.fetch_session_evictions.inc_by(evicted);
        metrics.fetch_sessions.inc_by(now.1.saturating_sub(count));
        let more_bytes = now.2.saturating_sub(bytes);
        metrics.fetch_session_bytes.inc_by(more_bytes);
    }

    /// Makes this shard the one that runs the controller.
    pub(crate) fn control(&self, controller: Rc<Controller<P>>) {
        assert!(
            self.controller.set(controller).is_ok(),
            "a broker has one controller"
        );
    }

    /// Creates missing topics that a client asked for.
    ///
    /// Topics that take longer than the answer waits ([`SOON`]) are created after it, and the
    /// answer does not contain them (Kafka never waits).
    pub(crate) async fn create_asked(self: &Rc<Self>, peer: IpAddr, names: Vec<String>) {
        let asked = Box::pin(async {
            let place = self.making.place(peer).await;
            // Another request may have created them while this one waited for a place.
            let (image, mut missing) = (self.image(), Vec::with_capacity(names.len()));
            let mut rests = Rests::new();
            for name in names {
                if image.topic_by_name(&name).is_none() {
                    missing.push(name);
                }
                rests.item().await;
            }
            if missing.is_empty() {
                return;
            }
            let me = Rc::clone(self);
            let creation = task::spawn(async move {
                // The creation continues, and keeps its place, after the caller has stopped
                // waiting.
                let _place = place;
                me.create_missing(missing).await;
            });
            drop(creation.await);
        });
        // The caller looks at the newest image, whether or not the creation has ended.
        drop(task::timeout(SOON, asked).await);
    }

    /// Creates a topic that the broker itself needs, if it is missing; returns whether it is there.
    ///
    /// A creation that takes longer than the answer waits ([`SOON`]) goes on after it, for the next
    /// client that asks.
    pub(crate) async fn create_own(self: &Rc<Self>, topic: &'static str) -> bool {
        let is_there = || self.image().topic_by_name(topic).is_some();
        if is_there() {
            return true;
        }
        let created = Box::pin(async {
            let turn = self.making.own_turn().await;
            // Another request may have created it while this one waited for its turn.
            if is_there() {
                return;
            }
            let me = Rc::clone(self);
            let creation = task::spawn(async move {
                let _turn = turn;
                me.create_missing(vec![topic.to_owned()]).await;
            });
            drop(creation.await);
        });
        drop(task::timeout(SOON, created).await);
        is_there()
    }

    /// Creates missing topics that a client asked for or that the broker needs.
    async fn create_missing(&self, names: Vec<String>) {
        let create =
            |broker: Rc<Self>| async move { broker.controller()?.create_missing(&names).await };
        let created = self.shards.call_abandoned(CONTROLLER_SHARD, create);
        if let Some(Err(code)) = created.await {
            let now = self.platform.clock().now();
            self.making.warn_failed(code, now);
        }
    }

    /// Returns the number of partitions of this shard whose logs could not be opened, and the name
    /// of one.
    pub fn unopened_partitions(&self) -> (usize, String) {
        let partitions = self.partitions.borrow();
        let mut unopened = partitions.iter().filter(|(_, slot)| slot.is_err());
        let Some(((id, index), _)) = unopened.next() else {
            return (0, String::new());
        };
        let image = self.image();
        let topic = image.topic_by_id(*id);
        let name = topic.map_or_else(|| id.to_string(), |topic| topic.name.to_string());
        (1 + unopened.count(), format!("{name}-{index}"))
    }

    /// Returns what metrics show of this shard's groups, in at most `bytes_max` bytes.
    pub async fn survey_groups(&self, bytes_max: usize) -> Survey {
        self.groups.survey(bytes_max).await
    }

    /// Returns the partitions that this shard leads now.
    pub fn led_partitions(&self) -> Vec<Rc<Partition<P>>> {
        self.partitions
            .borrow()
            .values()
            .flatten()
            .cloned()
            .collect()
    }
}
