//! Moves logs between log directories while they are served.
//!
//! Most of a log is copied while it takes appends. The rest is copied in the switch, during which
//! the log takes no appends: they are refused as by a broker that does not lead the partition, and
//! clients retry them. Invariants: no acknowledged record is missing after the switch; the
//! partition is led from one directory at every moment; a failed move leaves the log where it was.
//! A restart begins an unfinished move again. Not here: copying and renaming
//! (`storage::Relocation`), what a start finds (`log_dirs/moved.rs`).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use platform::sync::{Semaphore, SemaphorePermit};
use platform::{Disk, Platform, task};
use storage::tier::TierPath;
use storage::{LogPoints, OpenAs, Relocation};
use wire::types::{ErrorCode, TopicId, Uuid};

use crate::Broker;
use crate::hanging::DirOutcome;
use crate::log_dirs::{self, Claim};
use crate::names::CONTROLLER_SHARD;
use crate::partition::Partition;
use crate::queues::turn_at;
use crate::unopened::UnopenedLog;

/// Bytes that may be left for the switch: the first rounds of copying and rolling, `ROUNDS_FOR_FEW`
/// of them, aim for this few.
const FEW_BYTES: u64 = 1 << 20;
const ROUNDS_FOR_FEW: usize = 8;
/// Bytes that may be left for the switch after those rounds.
///
/// A log that grows faster than it is copied is never switched, as in Kafka.
const SWITCH_BYTES_MAX: u64 = 64 << 20;
/// How many times the removal of what a move leaves is tried while the disk has no room for it or
/// the name is in use, and the pause between two tries.
const RETIRE_TRIES: usize = 60;
const RETIRE_AGAIN: Duration = Duration::from_secs(5);

/// Pause between two looks whether a directory answers again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

type ByPartition<P> = BTreeMap<(TopicId, i32), Rc<Relocation<P>>>;

/// The moves of one shard.
pub(crate) struct Moves<P: Platform> {
    under_way: RefCell<ByPartition<P>>,
    /// Held while a move begins.
    beginning: Semaphore,
}

/// The outcome of the switch of a closed log.
struct SwitchOutcome<P: Platform> {
    moved: storage::Result<()>,
    at: UnopenedLog,
    /// `None` if only the next start can tell where the log is.
    opened: Option<storage::Result<Rc<storage::Log<P>>>>,
}

impl<P: Platform> Default for Moves<P> {
    fn default() -> Self {
        Self {
            under_way: RefCell::default(),
            beginning: Semaphore::new(1),
        }
    }
}

impl<P: Platform> Moves<P> {
    /// Returns the move of a partition's log, if there is one.
    pub(crate) fn of(&self, partition: &Partition<P>) -> Option<Rc<Relocation<P>>> {
        let key = (partition.topic_id, partition.name.partition);
        self.under_way.borrow().get(&key).cloned()
    }

    fn end(&self, partition: &Partition<P>, ended: &Rc<Relocation<P>>) {
        let key = (partition.topic_id, partition.name.partition);
        let mut under_way = self.under_way.borrow_mut();
        if under_way
            .get(&key)
            .is_some_and(|now| Rc::ptr_eq(now, ended))
        {
            under_way.remove(&key);
        }
    }
}

impl<P: Platform> Broker<P> {
    /// Writes the checkpoints before logs begin to move.
    ///
    /// Returns false if that fails in a directory that does not hang.
    pub(crate) async fn may_move_logs(&self) -> bool {
        let write = |broker: Rc<Self>| async move {
            let unwritten = Rc::clone(&broker).write_checkpoints().await;
            unwritten.iter().all(|dir| broker.hangs(dir))
        };
        let written = self.shards.call(CONTROLLER_SHARD, write).await;
        // `None`: the shard ends.
        written.unwrap_or(false)
    }

    /// Moves the log of a partition of this shard to a directory, and cancels a move to another
    /// one.
    ///
    /// Begins no move unless `may` is set.
    pub(crate) async fn move_log(
        self: &Rc<Self>,
        partition: &Rc<Partition<P>>,
        dir: &Path,
        may: bool,
    ) -> Result<(), ErrorCode> {
        let _turn = turn_at(&self.moves.beginning).await;
        if let Some(under_way) = self.moves.of(partition) {
            if under_way.dir() == dir && !under_way.is_cancelled() {
                return Ok(());
            }
            under_way.cancel();
        }
        if partition.log.dir() == dir {
            return Ok(());
        }
        let failed = |dir: &PathBuf| self.store.dir_failed(dir);
        let dirs = &self.log_dirs.dirs;
        // A missing directory could hold another copy of the log.
        if !may || dirs.iter().any(|dir| failed(&dir.path)) || self.hangs(dir) {
            return Err(ErrorCode::KafkaStorageError);
        }
        if partition.is_closed() {
            return Err(ErrorCode::ReplicaNotAvailable);
        }
        let begun = self.begin_move(partition, dir).await?;
        let relocation = Rc::new(begun.map_err(|error| {
            tracing::warn!(partition = %partition.name, to = %dir.display(), %error, "the log is not moved");
            ErrorCode::KafkaStorageError
        })?);
        let key = (partition.topic_id, partition.name.partition);
        let mut under_way = self.moves.under_way.borrow_mut();
        under_way.insert(key, Rc::clone(&relocation));
        let (broker, partition) = (Rc::clone(self), Rc::clone(partition));
        task::spawn(async move { broker.run_move(&partition, &relocation).await });
        Ok(())
    }

    /// Begins a copy, unless its directory hangs meanwhile: then the copy is removed once it
    /// answers.
    async fn begin_move(
        &self,
        partition: &Partition<P>,
        dir: &Path,
    ) -> Result<storage::Result<Relocation<P>>, ErrorCode> {
        let (log, to) = (Rc::clone(&partition.log), dir.to_owned());
        let rate = Arc::clone(&self.node.moves);
        let begin = async move { Relocation::begin(&log, &to, rate).await };
        match self.begin_in(dir, begin).await {
            DirOutcome::Done(begun) => Ok(begun),
            DirOutcome::Stopping => Err(ErrorCode::KafkaStorageError),
            DirOutcome::Hangs(late) => {
                task::spawn(async move {
                    if let Ok(Ok(relocation)) = late.await {
                        relocation.abandon().await;
                    }
                });
                Err(ErrorCode::KafkaStorageError)
            }
        }
    }

    /// Asks for a log's sealed segments to be moved to the tier of a path.
    pub(crate) fn ask_for_tier(partition: &Partition<P>, path: &TierPath) {
        for base in partition.log.tiers().sealed_bases() {
            partition.log.tiers().ask_for_tier(base, path.tier);
        }
    }

    /// Begins again the moves that the last stop interrupted.
    pub(crate) async fn resume_moves(self: &Rc<Self>) {
        let all = self.log_dirs.unfinished().to_vec();
        let may_move = !all.is_empty() && self.may_move_logs().await;
        for unfinished in all {
            if let Err(error) = self.platform.disk().remove_dir(&unfinished.folder).await {
                tracing::warn!(folder = %unfinished.folder.display(), %error, "an unfinished copy stays");
                continue;
            }
            let image = self.image();
            let topic = unfinished.topic_id.and_then(|id| image.topic_by_id(id));
            let (Some(topic), Some(dir)) = (topic, self.log_dirs.dirs.get(unfinished.index)) else {
                continue;
            };
            let (key, dir) = ((topic.id, unfinished.name.partition), dir.path.clone());
            let owner = self.shards.owner(key.0, key.1);
            let resumed = self.shards.call(owner, move |broker| async move {
                let partition = broker.led(key)?;
                broker.move_log(&partition, &dir, may_move).await
            });
            if let Some(Err(code)) = resumed.await {
                tracing::warn!(partition = %unfinished.name, ?code, "a move between directories does not go on");
            }
        }
    }

    async fn run_move(
        self: Rc<Self>,
        partition: &Rc<Partition<P>>,
        relocation: &Rc<Relocation<P>>,
    ) {
        let (from, to) = (partition.log.dir().display(), relocation.dir().display());
        let outcome = self.carry(partition, relocation).await;
        match outcome {
            Ok(()) => {
                tracing::info!(partition = %partition.name, %from, %to, "a log has moved");
            }
            Err(error) => {
                relocation.abandon().await;
                tracing::warn!(partition = %partition.name, %from, %to, %error, "a log has not moved");
            }
        }
        self.moves.end(partition, relocation);
    }

    async fn carry(
        self: &Rc<Self>,
        partition: &Rc<Partition<P>>,
        relocation: &Rc<Relocation<P>>,
    ) -> storage::Result<()> {
        for round in 0.. {
            let few = round < ROUNDS_FOR_FEW;
            let left = relocation.catch_up().await?;
            if left <= if few { FEW_BYTES } else { SWITCH_BYTES_MAX } {
                break;
            }
            partition.log.roll().await?;
            partition.log.save().await?;
        }
        self.switch(partition, relocation).await?;
        // From here on the log has moved, whatever happens; the next start does what is left.
        let retired = self.retire(partition, relocation).await;
        let settled = match retired {
            Ok(()) if self.checkpoint().await => self.settle(partition, relocation).await,
            other => other,
        };
        if let Err(error) = settled {
            tracing::warn!(partition = %partition.name, %error, "the old folder of a log that has moved stays");
        }
        Ok(())
    }

    /// Removes the note of a move while no other task can put one there.
    async fn settle(
        &self,
        partition: &Partition<P>,
        relocation: &Relocation<P>,
    ) -> storage::Result<()> {
        for _ in 0..RETIRE_TRIES {
            if let Some(_claim) = self.log_dirs.claims.claim(&partition.name) {
                return relocation.settle().await;
            }
            self.platform.clock().sleep(RETIRE_AGAIN).await;
        }
        // The next start removes it.
        Err(storage::Error::Busy)
    }

    /// Removes the old folder as soon as there is room for the removal.
    async fn retire(
        &self,
        partition: &Partition<P>,
        relocation: &Relocation<P>,
    ) -> storage::Result<()> {
        for _ in 1..RETIRE_TRIES {
            match self.try_to_retire(partition, relocation).await {
                Some(Err(error)) if error.kind() == storage::FailureKind::Full => {}
                Some(result) => return result,
                None => {}
            }
            self.platform.clock().sleep(RETIRE_AGAIN).await;
        }
        let last = self.try_to_retire(partition, relocation).await;
        // The last try could not begin: the next start removes the folder.
        last.unwrap_or(Err(storage::Error::Busy))
    }

    /// Tries once to remove the old folder.
    ///
    /// `None`: not now, because a log of the name is being opened or deleted, or the owner of the
    /// folder cannot be read. The topic may have been deleted meanwhile, and the folder may belong
    /// to another topic of the name.
    async fn try_to_retire(
        &self,
        partition: &Partition<P>,
        relocation: &Relocation<P>,
    ) -> Option<storage::Result<()>> {
        let _claim = self.log_dirs.claims.claim(&partition.name)?;
        let folder = partition.log.dir().join(partition.name.to_string());
        let owner = log_dirs::topic_of(&self.platform, &folder).await.ok()?;
        // The home folder of a log always names its topic. A folder without the name is a part of
        // another log, or missing.
        if owner != Some(partition.topic_id) && !relocation.is_unnamed() {
            return Some(Ok(()));
        }
        Some(relocation.retire().await)
    }

    /// Waits for the turn of images and the claim on the log's name, so that partitions neither
    /// come nor go during the switch.
    ///
    /// Images wait for a switch, so it does not begin while a directory hangs.
    async fn begin_switch(
        &self,
        partition: &Rc<Partition<P>>,
        relocation: &Relocation<P>,
    ) -> storage::Result<(SemaphorePermit<'_>, Claim)> {
        loop {
            let turn = turn_at(&self.image_turn).await;
            let key = (partition.topic_id, partition.name.partition);
            let is_led = || {
                let led = self.led(key);
                led.is_ok_and(|led| Rc::ptr_eq(&led, partition))
            };
            if relocation.is_cancelled() || !is_led() {
                return Err(storage::Error::Closed);
            }
            if !self.switch_waits(partition, relocation)
                && let Some(claim) = self.log_dirs.claims.claim(&partition.name)
            {
                return Ok((turn, claim));
            }
            drop(turn);
            self.platform.clock().sleep(LOOK_AGAIN).await;
        }
    }

    /// Returns whether a switch would wait for a disk that hangs.
    ///
    /// After the switch, opening the log looks at all paths of tiers.
    fn switch_waits(&self, partition: &Partition<P>, relocation: &Relocation<P>) -> bool {
        let dirs = [partition.log.dir(), relocation.dir()];
        dirs.iter().any(|dir| self.hangs(dir)) || self.tier_hangs()
    }

    /// Closes the log, completes its copy, and leads the partition from where the log is then.
    ///
    /// If a directory begins to hang meanwhile, the partition is offline, but nothing else waits.
    async fn switch(
        self: &Rc<Self>,
        partition: &Rc<Partition<P>>,
        relocation: &Rc<Relocation<P>>,
    ) -> storage::Result<()> {
        let (turn, claim) = self.begin_switch(partition, relocation).await?;
        let key = (partition.topic_id, partition.name.partition);
        // Accepted batches are acknowledged before the producers are refused.
        partition.leave();
        let is_clean = Rc::new(Cell::new(false));
        let (me, its, to) = (Rc::clone(self), Rc::clone(partition), Rc::clone(relocation));
        let its_clean = Rc::clone(&is_clean);
        let work = async move {
            // A log without room, whose journal took what its segments lack, stays where it is:
            // closed, it could not be opened before the next start.
            its.log.land().await?;
            Ok(me.close_and_switch(&its, Ok(&to), &its_clean).await)
        };
        let hangs = || self.switch_waits(partition, relocation);
        match self.wait_unless(hangs, task::spawn(work)).await {
            DirOutcome::Done(Ok(switched)) => self.lead_switched(partition, switched),
            DirOutcome::Done(Err(error)) => {
                partition.stay();
                Err(error)
            }
            DirOutcome::Stopping => Err(storage::Error::Closed),
            DirOutcome::Hangs(work) => {
                let from = partition.log.dir();
                let is_from = self.hangs(from);
                let dir = self.waits_for(if is_from { from } else { relocation.dir() });
                tracing::error!(partition = %partition.name, dir = %dir.display(),
                    "a disk does not answer while a log is switched to another directory: the partition is offline until it does");
                self.resign(partition, key.1);
                let points = partition.log.points();
                let at = unopened(partition, partition.log.dir(), is_clean.get(), &points);
                self.keep_unopened(key, at);
                self.count_partitions();
                drop(turn);
                let switched = match work.await {
                    Ok(Ok(switched)) => switched,
                    // The partition is led no more, so its log is opened again where it was.
                    Ok(Err(error)) => {
                        self.close_and_switch(partition, Err(error), &is_clean)
                            .await
                    }
                    Err(_) => return Err(storage::Error::Closed),
                };
                self.lead_switched_late(partition, switched, claim).await
            }
        }
    }

    /// Closes the log, completes its copy unless `to` is an error, and opens the log where it is
    /// then.
    async fn close_and_switch(
        self: &Rc<Self>,
        partition: &Partition<P>,
        to: storage::Result<&Rc<Relocation<P>>>,
        is_clean: &Cell<bool>,
    ) -> SwitchOutcome<P> {
        if !partition.is_closed() {
            self.resign(partition, partition.name.partition);
        }
        let closed = partition.log.close().await;
        is_clean.set(closed.is_ok());
        let from = partition.log.dir();
        let (moved, is_undecided, new) = match (closed, to) {
            (Ok(()), Ok(to)) => {
                let moved = to.switch(self.directory_id(from)).await;
                (moved, to.is_undecided(), to.dir())
            }
            (Err(error), Ok(_)) | (_, Err(error)) => (Err(error), false, from),
        };
        let at = match &moved {
            Ok(points) => unopened(partition, new, is_clean.get(), points),
            Err(_) => unopened(partition, from, is_clean.get(), &partition.log.points()),
        };
        let opened = if is_undecided {
            None
        } else {
            Some(self.reopen(partition, &at).await)
        };
        SwitchOutcome {
            moved: moved.map(|_| ()),
            at,
            opened,
        }
    }

    /// Opens a log where it is now.
    async fn reopen(
        &self,
        before: &Partition<P>,
        at: &UnopenedLog,
    ) -> storage::Result<Rc<storage::Log<P>>> {
        let (name, options) = (at.name.clone(), before.config().log_options());
        let opening = self
            .store
            .open_log(&at.dir, name, before.topic_id, options, at.how);
        let log = opening.await?;
        log.tiers().take_over_asks(&before.log);
        Ok(log)
    }

    /// Leads a partition from where its log is now; the caller holds the turn of images.
    fn lead_switched(
        self: &Rc<Self>,
        before: &Partition<P>,
        switched: SwitchOutcome<P>,
    ) -> storage::Result<()> {
        let SwitchOutcome { moved, at, opened } = switched;
        let (id, name) = (before.topic_id, before.name.clone());
        let index = name.partition;
        let slot = match opened {
            Some(Ok(log)) => {
                let (epoch, config) = (before.leader_epoch(), before.config());
                let counts = (&self.metrics, self.shards.changes());
                Ok(Partition::lead(id, name, log, epoch, config, counts))
            }
            Some(Err(error)) => Err(self.cannot_open(id, at, &error)),
            None => {
                self.unopened.borrow_mut().insert((id, index), at);
                Err(ErrorCode::KafkaStorageError)
            }
        };
        self.install(id, index, slot);
        self.count_partitions();
        moved
    }

    /// Does the same without the turn of images: the image may be another one by now.
    async fn lead_switched_late(
        self: &Rc<Self>,
        before: &Partition<P>,
        switched: SwitchOutcome<P>,
        claim: Claim,
    ) -> storage::Result<()> {
        let (id, name) = (before.topic_id, &before.name);
        // There is no entry if the topic was deleted.
        if let Some(known) = self.unopened.borrow_mut().get_mut(&(id, name.partition)) {
            *known = switched.at;
        }
        if let Some(opened) = switched.opened {
            let opened = opened.map(|log| (log, claim));
            self.lead_or_retry(id, name.clone(), opened).await;
        }
        switched.moved
    }

    fn directory_id(&self, dir: &Path) -> Uuid {
        let mut dirs = self.log_dirs.dirs.iter();
        dirs.find(|known| known.path == dir)
            .map_or_else(Uuid::nil, |known| known.id)
    }
}

/// Describes where the log of a partition is, and how to open it there.
fn unopened<P: Platform>(
    partition: &Partition<P>,
    dir: &Path,
    clean: bool,
    points: &LogPoints,
) -> UnopenedLog {
    UnopenedLog {
        name: partition.name.clone(),
        dir: dir.to_owned(),
        how: OpenAs {
            clean,
            recovery_point: points.recovery_point,
            log_start: points.log_start,
            compacted: points.compacted,
        },
        is_new: false,
    }
}
