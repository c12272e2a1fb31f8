//! One life of the log directory: opens and checks the logs, runs the actors, ends; also the state
//! that a run keeps between lives.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use broker::log_dirs::OperatorConsent;
use platform::disk::Disk;
use platform::runtime::run_simulated;
use platform::sim::{Effect, Fault, Rng, SimDisk};
use platform::task::{self, JoinHandle};
use storage::{FailureKind, Metrics, Observer, Store, folder_name};
use wire::types::{LeaderEpoch, TopicPartition};

use crate::actor::{Actor, Progress};
use crate::checker::lookups;
use crate::checker::places::Places;
use crate::checker::recovered::{self, PastLife};
use crate::directory::{self, DIR, LogsOnDisk, topic_of};
use crate::ledger::LogLedger;
use crate::plan::{End, LifePlan, LogPlan, Plan, Spell, Trouble};
use crate::producer::{self, Identity};
use crate::report::{Journal, Report, Violation};
use crate::world::{PlantedBug, World};
use crate::{dirs, journaled, owner, planted, reader, tiers};

/// The longest time that a stop may take, in simulated time.
const STOP_MAX: Duration = Duration::from_mins(10);
/// The longest time that a life may take, in simulated time.
const LIFE_MAX: Duration = Duration::from_hours(1);
/// The wall clock at the first life: 2026-01-01 00:00:00 UTC.
const WALL_MS_AT_START: i64 = 1_767_225_600_000;
/// The most leader epochs that a life may use.
const EPOCHS_OF_A_LIFE: i32 = 1000;

/// A run in progress.
pub(crate) struct Run {
    seed: u64,
    pub(crate) plan: Plan,
    logs: Vec<KeptLog>,
    journal: Journal,
    plants: planted::Plants,
    /// The directories have been formatted.
    formatted: Cell<bool>,
    wall_ms: i64,
}

/// The state of a log that is kept between lives.
struct KeptLog {
    home: &'static Path,
    partition: TopicPartition,
    plan: Rc<LogPlan>,
    ledger: Rc<RefCell<LogLedger>>,
    producers: Vec<Rc<RefCell<Identity>>>,
    before: Cell<PastLife>,
    /// The places of all segments before the log was opened, in runs with two slow paths.
    places: RefCell<Option<Rc<Places>>>,
}

impl Run {
    pub(crate) fn new(seed: u64, plan: Plan) -> Self {
        let all = &plan;
        let ids = Rc::new(Cell::new(1));
        let mut rng = Rng::new(seed);
        let kept = |(number, plan): (usize, &LogPlan)| {
            let topic = Arc::from(format!("log{number}"));
            let partition = TopicPartition {
                topic,
                partition: 0,
            };
            let ledger = LogLedger::new(partition.to_string(), plan.options.durability);
            let producers = 0..plan.idempotent_producers;
            let dirs = all.dirs.as_ref();
            KeptLog {
                home: dirs.map_or(Path::new(DIR), |dirs| dirs.home(number)),
                partition,
                plan: Rc::new(plan.clone()),
                ledger: Rc::new(RefCell::new(ledger)),
                producers: producers
                    .map(|_| Rc::new(RefCell::new(Identity::fresh(&ids, &mut rng))))
                    .collect(),
                before: Cell::new(PastLife::Nothing),
                places: RefCell::default(),
            }
        };
        Self {
            seed,
            logs: plan.logs.iter().enumerate().map(kept).collect(),
            plan,
            journal: Journal::default(),
            plants: planted::Plants::default(),
            formatted: Cell::new(false),
            wall_ms: WALL_MS_AT_START,
        }
    }

    pub(crate) fn into_report(self) -> Report {
        self.journal.report()
    }

    /// Runs one life on `disk` and returns the disk of the next one.
    pub(crate) fn live<W: World>(
        &mut self,
        number: usize,
        disk: &SimDisk,
        rng: &mut Rng,
    ) -> Result<SimDisk, Violation> {
        let lived = run_simulated(async {
            let world = W::boot(disk.clone(), self.wall_ms, rng.next_u64());
            let tiers = self.plan.tiers.as_ref();
            let dirs = self.plan.dirs.as_ref();
            let life = Life {
                run: self,
                plan: self.plan.lives[number].clone(),
                number,
                dirs: dirs.map_or_else(|| vec![DIR.into()], |dirs| dirs.paths(number)),
                missing: tiers.is_some_and(|tiers| tiers.is_missing(number)),
                read_only: tiers.is_some_and(|tiers| tiers.is_read_only(number)),
                store: Store::with_tiers(
                    world.clone(),
                    self.plan.store.clone(),
                    Metrics::unregistered(),
                    tiers.map(|tiers| tiers.table(number)),
                ),
                disk,
                world,
            };
            let lived = task::timeout(LIFE_MAX, life.live(rng)).await;
            let next = lived.unwrap_or_else(|_| {
                self.journal
                    .violated(|| "a log does not open, or does not close".to_owned());
                disk.kill(0)
            });
            (next, life.world.clock().wall_ms())
        });
        let (next, wall_ms) = lived.expect("a simulated shard always starts");
        self.wall_ms = wall_ms + 1000;
        self.journal
            .note(&[5, disk.trace_hash().cast_signed(), wall_ms]);
        match self.journal.violation() {
            None => Ok(next),
            Some(what) => {
                let lives = &self.plan.lives[..=number];
                Err(Violation {
                    seed: self.seed,
                    life: number,
                    what: format!(
                        "{what}\n    {lives:?} {:?} {:?}",
                        self.plan.tiers, self.plan.dirs
                    ),
                })
            }
        }
    }
}

/// A life in progress.
struct Life<'a, W: World> {
    run: &'a Run,
    plan: LifePlan,
    number: usize,
    /// The log directories.
    dirs: Vec<PathBuf>,
    /// A tier path is missing or read-only from the start.
    missing: bool,
    /// A tier path is read-only at some time.
    read_only: bool,
    disk: &'a SimDisk,
    world: W,
    store: Store<W>,
}

impl<W: World> Life<'_, W> {
    fn tiers(&self) -> Option<&tiers::Tiers> {
        self.run.plan.tiers.as_ref()
    }

    async fn live(&self, rng: &mut Rng) -> SimDisk {
        let (min, max) = self.plan.latency;
        let told = self.start_without().await;
        let first = &self.run.logs[0].partition;
        let missing = match self.tiers() {
            Some(tiers) => {
                tiers.begin(self.number, self.disk);
                tiers.missing_dirs(self.number)
            }
            None => Vec::new(),
        };
        self.run
            .plants
            .begin(self.run.plan.planted, self.disk, first, &missing)
            .await;
        if let Trouble::Rot { bits } = self.plan.trouble {
            self.rot(bits, rng).await;
        }
        self.look_for_places().await;
        self.disk.set_latency(min, max);
        if self.plan.trouble_at_open {
            self.make_trouble(rng).await;
        }
        let Some(actors) = self.open_all(told, rng).await else {
            // The logs did not open. What survives only a kill need not survive this end.
            for kept in &self.run.logs {
                if self.plan.end != End::Kill && kept.before.get() == PastLife::Ended(End::Kill) {
                    kept.before.set(PastLife::Ended(self.plan.end));
                }
            }
            return self.end_abruptly(&[], rng);
        };
        if !self.plan.trouble_at_open {
            self.make_trouble(rng).await;
        }
        let flusher = self.store.spawn_flusher();
        let policy = self.tiers().map(|tiers| tiers.policy(self.number));
        let mover = policy.and_then(|policy| self.store.spawn_mover(policy));
        let mut tasks = self.spawn(&actors, rng);
        let turns = self.plan.trouble.turns();
        for turn in 0..turns {
            if turn > 0 {
                self.turn(turn).await;
            }
            self.world.clock().sleep(self.plan.duration / turns).await;
        }
        for actor in &actors {
            // A read-only file system does not recover.
            let over = actor.is_over() && self.plan.trouble.passes() && !self.read_only;
            actor.check(!over, || {
                let (trouble, failed) = (self.plan.trouble, actor.log.failed());
                format!("does not get over what has passed: {trouble:?}, {failed:?}")
            });
            if actor.is_over() {
                self.run.journal.count(|counts| counts.failed += 1);
            }
        }
        self.look_for_panics(&mut tasks).await;
        let next = if self.plan.end == End::Stop {
            self.stop(&actors, tasks, rng).await
        } else {
            self.end_abruptly(&actors, rng)
        };
        self.count_moves();
        flusher.abort();
        if let Some(mover) = mover {
            mover.abort();
        }
        next
    }

    /// Records the places of all segments, in runs with two slow paths.
    async fn look_for_places(&self) {
        let paths = self.tiers().map(|tiers| tiers.slow_paths(self.number));
        let paths = paths.unwrap_or_default();
        for kept in self.run.logs.iter().filter(|_| !paths.is_empty()) {
            let home = kept.home.join(folder_name(&kept.partition));
            let found = Places::look(self.disk, &home, &paths).await;
            kept.places.replace(Some(Rc::new(found)));
        }
    }

    /// Returns true when a tier path has already failed, as it may while the logs are opened.
    fn has_failed_path(&self) -> bool {
        let table = self.store.tiers();
        table.is_some_and(|table| table.paths().iter().any(|path| path.failed().is_some()))
    }

    fn count_moves(&self) {
        let tables = self.store.tiers().filter(|table| table.paths().len() > 2);
        for path in tables.iter().flat_map(|table| table.paths()).skip(1) {
            let moved = path.came_down().0 + path.came_up().0;
            self.run.journal.count(|counts| counts.moved += moved);
        }
    }

    /// Tries a start without one of the log directories, and returns the instructions for the next
    /// start.
    async fn start_without(&self) -> OperatorConsent {
        let told = OperatorConsent::default();
        let Some(dirs) = self.run.plan.dirs.as_ref() else {
            return told;
        };
        if !self.run.formatted.get() {
            return told;
        }
        if self.run.plan.planted == Some(PlantedBug::MissingIsNew) {
            let taken = dirs.unmount(self.number, self.disk);
            return OperatorConsent {
                format_new: taken,
                forget_missing: taken,
                ..told
            };
        }
        let journal = &self.run.journal;
        let tried = dirs.start_without(self.number, &self.world, self.disk);
        match tried.await {
            Ok(refused) => journal.count(|counts| counts.absent += u64::from(refused)),
            Err(what) => journal.violated(|| what),
        }
        told
    }

    async fn find(&self, told: OperatorConsent) -> std::io::Result<LogsOnDisk> {
        if self.run.plan.dirs.is_none() {
            self.begin_journal().await?;
            return directory::load(&self.world).await;
        }
        let found = directory::load_all(&self.world, &self.dirs, told).await?;
        dirs::name_metadata(self.disk);
        self.run.formatted.set(true);
        Ok(found)
    }

    /// Replays the journal, if the run has one, and has the logs use it.
    async fn begin_journal(&self) -> std::io::Result<()> {
        let Some(journaled) = &self.run.plan.journaled else {
            return Ok(());
        };
        journaled.set_broken(self.number, self.disk, false);
        let report = journaled.settle(&self.world).await?;
        let is_rotten = |folder: &Path| {
            let of_log = |kept: &&KeptLog| folder == kept.home.join(folder_name(&kept.partition));
            let kept = self.run.logs.iter().find(of_log);
            kept.is_some_and(|kept| kept.ledger.borrow().rotten)
        };
        journaled::check(&report, &self.run.journal, is_rotten);
        journaled.begin(&self.world, &self.store).await;
        Ok(())
    }

    /// Opens and checks all logs; returns `None` when the disk prevented it.
    async fn open_all(&self, told: OperatorConsent, rng: &mut Rng) -> Option<Vec<Actor<W>>> {
        let found = match self.find(told).await {
            Ok(found) => found,
            Err(error) => {
                let excused = self.plan.trouble_at_open && self.plan.trouble.fails_operations();
                self.run
                    .journal
                    .check(excused, || format!("checkpoints cannot be read: {error}"));
                return None;
            }
        };
        let mut actors = Vec::new();
        for kept in &self.run.logs {
            if !kept.ledger.borrow().dead {
                actors.push(self.open(kept, &found, rng).await?);
            }
        }
        for kept in &self.run.logs {
            kept.before.set(PastLife::Ended(self.plan.end));
        }
        Some(actors)
    }

    async fn open(&self, kept: &KeptLog, found: &LogsOnDisk, rng: &mut Rng) -> Option<Actor<W>> {
        let how = found.open_as(kept.home, &kept.partition);
        let options = kept.plan.options.clone();
        let topic = topic_of(&kept.partition);
        let opened = self
            .store
            .open_log(kept.home, kept.partition.clone(), topic, options, how)
            .await;
        let log = match opened {
            Ok(log) => log,
            Err(error) => {
                let mut ledger = kept.ledger.borrow_mut();
                let rot = ledger.rotten;
                ledger.dead = rot;
                let excused = self.plan.trouble_at_open && self.plan.trouble.fails_operations();
                let name = &ledger.name;
                let journal = &self.run.journal;
                let places = kept.places.borrow();
                let away = places.as_ref().is_none_or(|places| places.may_be_offline());
                let missing = self.missing && away && error.kind() == FailureKind::Retry;
                journal.check(excused || rot || missing, || {
                    format!("{name} does not open: {error}")
                });
                return None;
            }
        };
        planted::end_at_checkpoint(self.run.plan.planted, &log, how).await;
        log.set_high_watermark(found.high_watermark(&kept.partition));
        let progress = Rc::new(Progress::default());
        let weak = Rc::downgrade(&progress);
        log.observe(weak as std::rc::Weak<dyn Observer>);
        let number = i32::try_from(self.number).unwrap_or(i32::MAX / EPOCHS_OF_A_LIFE);
        let actor = Actor {
            world: self.world.clone(),
            log,
            ledger: Rc::clone(&kept.ledger),
            journal: self.run.journal.clone(),
            plan: Rc::clone(&kept.plan),
            trouble: self.plan.trouble,
            missing: self.missing,
            has_failed_path: self.has_failed_path(),
            places: kept.places.borrow().clone(),
            read_only: self.read_only,
            planted: self.run.plan.planted,
            epoch: Rc::new(Cell::new(number * EPOCHS_OF_A_LIFE)),
            progress,
            stopping: Rc::default(),
        };
        let healthy = !self.plan.trouble_at_open;
        recovered::check(&actor, kept.before.get(), healthy).await;
        lookups::check(&actor, rng).await;
        actor.log.start_epoch(LeaderEpoch(actor.epoch.get()));
        Some(actor)
    }

    fn spawn(&self, actors: &[Actor<W>], rng: &mut Rng) -> Vec<JoinHandle<()>> {
        let mut tasks = Vec::new();
        for actor in actors {
            let mut rng = || Rng::new(rng.next_u64());
            tasks.push(task::spawn(owner::watch(actor.clone())));
            tasks.push(task::spawn(owner::run(actor.clone(), rng())));
            tasks.push(task::spawn(planted::run(actor.clone(), rng())));
            tasks.push(task::spawn(reader::run(actor.clone(), rng())));
            for _ in 0..actor.plan.plain_producers {
                tasks.push(task::spawn(producer::plain(actor.clone(), rng())));
            }
            let name = actor.log.topic_partition();
            let kept = self.run.logs.iter().find(|kept| kept.partition == *name);
            for identity in kept.iter().flat_map(|kept| &kept.producers) {
                identity.borrow_mut().restart();
                let identity = Rc::clone(identity);
                tasks.push(task::spawn(producer::idempotent(
                    actor.clone(),
                    identity,
                    rng(),
                )));
            }
        }
        let dirs = self.dirs.clone();
        let saving = save_points(
            self.world.clone(),
            self.store.clone(),
            dirs,
            actors.to_vec(),
        );
        tasks.push(task::spawn(saving));
        tasks
    }

    async fn look_for_panics(&self, tasks: &mut Vec<JoinHandle<()>>) {
        for task in tasks.extract_if(.., |task| task.is_finished()) {
            let ended = task.await;
            self.run
                .journal
                .check(ended.is_ok(), || "an actor panicked".to_owned());
        }
    }

    /// Begins the next part of the life.
    async fn turn(&self, turn: u32) {
        if let Trouble::Spells { of, .. } = self.plan.trouble {
            match turn % 2 {
                0 => self.begin(of).await,
                _ => self.end_spell(),
            }
        }
        if let Trouble::Full { .. } = self.plan.trouble {
            self.disk.set_capacity_bytes(None);
        }
        if self.plan.trouble == Trouble::ReadOnly {
            self.disk.set_read_only(true);
        }
        if let (Some(journaled), 1) = (&self.run.plan.journaled, turn) {
            journaled.set_broken(self.number, self.disk, true);
        }
        if let (Some(tiers), Some(table), 1) = (self.tiers(), self.store.tiers(), turn) {
            tiers.turn(self.number, self.disk, table);
        }
        let there = if turn.is_multiple_of(2) { -1 } else { 1 };
        self.world.clock().jump_ms(there * self.plan.clock_jump_ms);
    }

    async fn begin(&self, spell: Spell) {
        match spell {
            Spell::Room { bytes } => self.leave_room(bytes).await,
            Spell::Descriptors { errno } => self.disk.set_exhausted(Some(errno)),
        }
    }

    fn end_spell(&self) {
        self.disk.set_capacity_bytes(None);
        self.disk.set_exhausted(None);
    }

    /// Leaves `bytes` of room on the disk.
    async fn leave_room(&self, bytes: u64) {
        if let Ok(space) = self.disk.space(Path::new("/")).await {
            let used = space.total - space.free;
            self.disk.set_capacity_bytes(Some(used + bytes));
        }
    }

    async fn make_trouble(&self, _rng: &mut Rng) {
        match self.plan.trouble {
            Trouble::Fails { skip, kind, error } => self.disk.inject(Fault {
                of: kind,
                ..Fault::at(skip, Effect::Fail(error))
            }),
            Trouble::PowerOff { skip } => self.disk.inject(Fault::at(skip, Effect::PowerOff)),
            Trouble::Full { room_bytes } => self.leave_room(room_bytes).await,
            Trouble::Spells { of, .. } => self.begin(of).await,
            Trouble::None | Trouble::ReadOnly | Trouble::Rot { .. } => {}
        }
    }

    /// Flips bits in the files of one log.
    async fn rot(&self, bits: u64, rng: &mut Rng) {
        let at = usize::try_from(rng.below(self.run.logs.len() as u64)).unwrap_or(0);
        let Some(kept) = self.run.logs.get(at) else {
            return;
        };
        let folder = kept.home.join(folder_name(&kept.partition));
        let Ok(entries) = self.disk.list(&folder).await else {
            return;
        };
        let entries: Vec<_> = entries.into_iter().filter(|entry| entry.len > 0).collect();
        for _ in 0..bits {
            let at = usize::try_from(rng.below(entries.len() as u64)).unwrap_or(0);
            let Some(entry) = entries.get(at) else { return };
            let bit = u8::try_from(rng.below(8)).unwrap_or(0);
            let flipped = self
                .disk
                .flip(&folder.join(&entry.name), rng.below(entry.len), bit);
            flipped.expect("the file was just listed");
            kept.ledger.borrow_mut().rotten = true;
        }
    }

    /// Stops the logs in order.
    ///
    /// The disk of the next life has lost power, which must not matter after a clean stop.
    async fn stop(
        &self,
        actors: &[Actor<W>],
        tasks: Vec<JoinHandle<()>>,
        rng: &mut Rng,
    ) -> SimDisk {
        for actor in actors {
            actor.stopping.set(true);
            actor.progress.wake();
        }
        let all = async {
            for task in tasks {
                let ended = task.await;
                self.run
                    .journal
                    .check(ended.is_ok(), || "an actor panicked".to_owned());
            }
        };
        if task::timeout(STOP_MAX, all).await.is_err() {
            self.run
                .journal
                .violated(|| "something does not come to its end".to_owned());
            return self.end_abruptly(actors, rng);
        }
        let mut clean = directory::save(&self.world, &self.store, &self.dirs)
            .await
            .is_ok();
        for actor in actors {
            if let Err(error) = actor.log.close().await {
                actor.check_error("close", &error);
                clean = false;
            }
        }
        if let Some(journaled) = &self.run.plan.journaled
            && let Err(error) = journaled.end(&self.world, &self.store).await
        {
            if let Some(actor) = actors.first() {
                actor.check_error("close the journal", &error);
            }
            clean = false;
        }
        clean = clean && directory::mark_clean(&self.world, &self.dirs).await.is_ok();
        self.run
            .journal
            .count(|counts| counts.stops += u64::from(clean));
        let next = self.end_abruptly(actors, rng);
        if clean {
            for kept in &self.run.logs {
                kept.before.set(PastLife::Closed);
            }
        }
        next
    }

    /// Records the offsets that the logs report, then kills the process or cuts the power.
    fn end_abruptly(&self, actors: &[Actor<W>], rng: &mut Rng) -> SimDisk {
        for actor in actors {
            let mut ledger = actor.ledger.borrow_mut();
            if ledger.truncating.is_none() {
                ledger.kill_safe = ledger.kill_safe.max(actor.log.written_offset());
                ledger.power_safe = ledger.power_safe.max(actor.log.durable_offset());
                ledger.starts_at(actor.log.log_start_offset());
            }
        }
        let next = if self.plan.end == End::Kill {
            self.run.journal.count(|counts| counts.kills += 1);
            self.disk.kill(rng.next_u64())
        } else {
            self.run.journal.count(|counts| counts.crashes += 1);
            self.disk.crash(rng.next_u64())
        };
        next.set_capacity_bytes(None);
        next.set_exhausted(None);
        next
    }
}

/// Saves the checkpoint files at intervals, as the only owner of the directory.
async fn save_points<W: World>(
    world: W,
    store: Store<W>,
    dirs: Vec<PathBuf>,
    actors: Vec<Actor<W>>,
) {
    let stopping = || actors.iter().any(Actor::is_stopping);
    while !actors.is_empty() && !stopping() {
        world.clock().sleep(Duration::from_millis(300)).await;
        let generations: Vec<u64> = actors
            .iter()
            .map(|a| a.ledger.borrow().generation)
            .collect();
        let Ok(starts) = directory::save(&world, &store, &dirs).await else {
            continue;
        };
        for (actor, generation) in actors.iter().zip(generations) {
            let start = starts
                .iter()
                .find(|(tp, _)| tp == actor.log.topic_partition());
            let mut ledger = actor.ledger.borrow_mut();
            let valid = ledger.generation == generation && ledger.truncating.is_none();
            if let Some((_, start)) = start
                && valid
            {
                ledger.start_saved(*start);
            }
        }
    }
}
