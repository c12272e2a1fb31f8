//! One shard's broker: everything a request handler can reach without leaving the shard.
//!
//! Invariants: the image only moves forward; a partition is in `partitions` on exactly one shard; handlers never hold
//! a borrow across an await.

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
use crate::compaction;
use crate::controller::Controller;
use crate::fetch_session::FetchSessions;
use crate::group::GroupCoordinator;
use crate::image::Image;
use crate::lines::Lines;
use crate::log_dirs::LogDirs;
use crate::making::{Making, SOON};
use crate::many;
use crate::metrics::Metrics;
use crate::names::CONTROLLER_SHARD;
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
use crate::seldom::Seldom;
use crate::shards::{Inbox, Seat, Shards};
use crate::telemetry::Telemetry;
use crate::transaction::TransactionCoordinator;
use crate::unopened::Unopened;
use crate::wall_clock::WallClock;

/// A partition that this shard should lead: led, or offline because its log could not be opened.
pub(crate) type Slot<P> = Result<Rc<Partition<P>>, ErrorCode>;

/// The groups of one shard.
pub(crate) type Groups<P> = GroupCoordinator<P, PartitionOffsetsLog<P>>;

/// What every shard of a process is given alike.
#[derive(Clone)]
pub struct Shared {
    /// What the broker is told.
    pub options: Arc<BrokerOptions>,
    /// Log directories and what was found in them at start.
    pub log_dirs: Arc<LogDirs>,
    /// What it counts.
    pub metrics: Metrics,
    /// How far the start has come.
    pub recovery: Recovery,
    /// Logs that are being compacted, on all shards.
    pub compacting: compaction::Turns,
    /// Settings that change while it runs and are enforced all over the process.
    pub node: NodeConfigs,
    /// Memory of answers on their way out.
    pub answers: Answers,
}

/// One shard's broker.
pub struct Broker<P: Platform> {
    /// The outside world.
    pub platform: P,
    /// What it was told at start.
    pub options: Arc<BrokerOptions>,
    /// The way to the other shards.
    pub shards: Shards<P>,
    /// The logs' shared parts: buffers, cache, flusher.
    pub store: Store<P>,
    /// What it counts.
    pub metrics: Metrics,
    /// Log directories and what was found in them at start.
    pub log_dirs: Arc<LogDirs>,
    /// How far the start has come.
    pub recovery: Recovery,
    pub(crate) compacting: compaction::Turns,
    pub(crate) node: NodeConfigs,
    pub(crate) answers: Answers,
    /// The groups whose offsets partitions this shard leads.
    pub(crate) groups: Rc<Groups<P>>,
    /// The transactional ids whose partition this shard leads.
    pub(crate) transactions: Rc<TransactionCoordinator<P>>,
    pub(crate) sessions: RefCell<FetchSessions>,
    // Unbounded: as many partitions as were made; each has a folder on a disk and a record in the metadata.
    pub(crate) partitions: RefCell<BTreeMap<(TopicId, i32), Slot<P>>>,
    /// What is known of the logs that could not be opened.
    // Unbounded: some of `partitions`; what goes from there goes from here (`forget_removed`).
    pub(crate) unopened: RefCell<BTreeMap<(TopicId, i32), Unopened>>,
    pub(crate) producer_ids: ProducerIds,
    /// Logs on their way to another directory.
    pub(crate) moves: Moves<P>,
    pub(crate) making: Making,
    pub(crate) quotas: Quotas,
    /// The clients whose metrics come here.
    pub(crate) telemetry: Telemetry,
    /// Appends of connections that begin in pieces.
    pub(crate) lines: Lines,
    /// Held by the one piece of work that this shard has done elsewhere: more would take the processors from everybody.
    pub(crate) elsewhere: Queues<IpAddr>,
    /// Who waits for a batch to be judged elsewhere: that may take a second.
    pub(crate) judging: Queues<IpAddr>,
    /// Held by requests about very many things.
    pub(crate) many: Queues<IpAddr>,
    /// Held while the checkpoint files of a log directory are written.
    // Unbounded: the log directories of the settings.
    pub(crate) checkpoint_turns: BTreeMap<PathBuf, Semaphore>,
    /// Checkpoint files that could not be written, and directories whose files do not hold for a log yet, and when that was said.
    // Unbounded: the checkpoint files there are, a few for each log directory of the settings.
    pub(crate) unwritten: RefCell<BTreeMap<PathBuf, Seldom>>,
    /// Directories that say nothing of their room, and clients that ask for it.
    pub(crate) roomless: Seldom,
    pub(crate) wall_clock: WallClock,
    /// Turns at opening and deleting logs, of each log directory.
    // Unbounded: the log directories of the settings.
    pub(crate) log_turns: RefCell<BTreeMap<PathBuf, Rc<Turns>>>,
    /// When a stop began to wait for disks.
    pub(crate) stopping_since: Cell<Option<Instant>>,
    /// Held while an image is applied.
    pub(crate) image_turn: Semaphore,
    /// What this shard last added to the gauge of late transactions.
    pub(crate) counted_late: Cell<i64>,
    /// What this shard last added to the partition gauges: partitions, of them led.
    pub(crate) counted: Cell<(i64, i64)>,
    image: RefCell<Arc<Image>>,
    controller: OnceCell<Rc<Controller<P>>>,
}

impl<P: Platform> Broker<P> {
    /// Takes a seat among the shards. The broker leads nothing until it is given an image.
    pub fn seated(
        platform: P,
        seat: Seat<P>,
        store: Store<P>,
        shared: Shared,
    ) -> (Rc<Self>, Inbox<P>) {
        let Shared {
            options,
            log_dirs,
            metrics,
            recovery,
            compacting,
            node,
            answers,
        } = shared;
        let (shards, inbox) = seat.take();
        let dirs = log_dirs.dirs.iter();
        let checkpoint_turns = dirs.map(|dir| (dir.path.clone(), Semaphore::new(1)));
        let checkpoint_turns: BTreeMap<_, _> = checkpoint_turns.collect();
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
            making: Making::default(),
            quotas: Quotas::new(),
            telemetry: Telemetry::new(shards.count(), metrics.telemetry.clone()),
            lines: Lines::default(),
            elsewhere: Queues::new(1),
            judging: Queues::new(1),
            many: Queues::new(many::AT_ONCE),
            checkpoint_turns,
            unwritten: RefCell::default(),
            roomless: Seldom::default(),
            wall_clock: WallClock::default(),
            log_turns: RefCell::default(),
            stopping_since: Cell::default(),
            image_turn: Semaphore::new(1),
            counted: Cell::default(),
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

    /// The metadata as this shard knows it.
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

    /// The controller, on the shard that runs it.
    pub(crate) fn controller(&self) -> Result<Rc<Controller<P>>, ErrorCode> {
        self.controller
            .get()
            .cloned()
            .ok_or(ErrorCode::NotController)
    }

    /// Shows what is left of the room that the metadata log keeps, on the shard that runs the controller.
    pub fn show_metadata_reserve(&self) {
        if let Ok(controller) = self.controller() {
            let bytes = i64::try_from(controller.reserved_bytes()).unwrap_or(i64::MAX);
            self.metrics.metadata_reserve.set(bytes);
        }
    }

    /// Makes this shard the one that runs the controller.
    pub(crate) fn control(&self, controller: Rc<Controller<P>>) {
        assert!(
            self.controller.set(controller).is_ok(),
            "a broker has one controller"
        );
    }

    /// Creates topics that a client asked for and that are missing. Those that take longer than the answer waits come behind it,
    /// which does not know them yet (Kafka never waits).
    pub(crate) async fn create_asked(self: &Rc<Self>, peer: IpAddr, names: Vec<String>) {
        let asked = Box::pin(async {
            let place = self.making.place(peer).await;
            // Somebody may have had them made, while it was waited for a place.
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
                // It goes on, with its place, when nobody waits for it any more.
                let _place = place;
                me.create_missing(missing).await;
            });
            drop(creation.await);
        });
        // Whether it is through or not, the newest image says.
        drop(task::timeout(SOON, asked).await);
    }

    /// Creates topics that a client asked for, or that the broker needs, and that are missing.
    pub(crate) async fn create_missing(&self, names: Vec<String>) {
        let create =
            |broker: Rc<Self>| async move { broker.controller()?.create_missing(&names).await };
        let created = self.shards.call_abandoned(CONTROLLER_SHARD, create);
        if let Some(Err(code)) = created.await {
            let now = self.platform.clock().now();
            self.making.warn_failed(code, now);
        }
    }

    /// Partitions of this shard whose logs could not be opened: how many, and the name of one.
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

    /// The partitions this shard leads now.
    pub fn led_partitions(&self) -> Vec<Rc<Partition<P>>> {
        self.partitions
            .borrow()
            .values()
            .flatten()
            .cloned()
            .collect()
    }
}
