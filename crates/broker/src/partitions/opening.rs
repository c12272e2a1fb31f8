//! Opens and deletes logs in separate tasks: an image does not wait for a directory that hangs.
//!
//! A log in a directory that hangs is opened, or deleted, as soon as the disk answers; until then
//! its partition is offline (`KAFKA_STORAGE_ERROR`). Invariants: a late log is checked against the
//! current image, which may be another one by then: if its partition is gone, the log is deleted;
//! while the log of one topic is being opened or deleted, no log of the same name is opened.

use std::path::Path;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use platform::sync::Semaphore;
use platform::{Platform, task};
use storage::Log;
use wire::types::{ErrorCode, LeaderEpoch, TopicId, TopicPartition};

use super::deleting::delete_for_good;
use super::{DELETING_MAX, MissingPartition, OPENING_MAX, RemovedPartition};
use crate::Broker;
use crate::broker::AssignedPartition;
use crate::hanging::DirOutcome;
use crate::log_dirs::Claim;
use crate::partition::Partition;
use crate::queues::turn_at;
use crate::topic_config::TopicConfigs;
use crate::unopened::UnopenedLog;

/// Pause before a log that could not be opened is tried again, and its maximum.
const OPEN_AGAIN: Duration = Duration::from_secs(1);
const OPEN_AGAIN_MAX: Duration = Duration::from_mins(1);

const _: () = assert!(
    OPEN_AGAIN.as_millis() < OPEN_AGAIN_MAX.as_millis(),
    "a pause grows"
);

/// A log with the claim to its name, which no other log can take before this one is led.
pub(crate) type OpenedLog<P> = storage::Result<(Rc<Log<P>>, Claim)>;

/// Retries a log that could not be opened for lack of space or descriptors, until it can.
async fn open_later<P: Platform>(broker: Weak<Broker<P>>, topic_id: TopicId, name: TopicPartition) {
    let mut pause = OPEN_AGAIN;
    loop {
        let Some(clock) = broker.upgrade().map(|it| it.platform.clock().clone()) else {
            return;
        };
        clock.sleep(pause).await;
        pause = (pause * 2).min(OPEN_AGAIN_MAX);
        match broker.upgrade() {
            Some(broker) if !broker.open_again(topic_id, &name).await => {}
            _ => return,
        }
    }
}

/// Limits how many logs of a directory are opened, and deleted, at the same time: many may have
/// waited for a disk when it answers again.
#[derive(Debug)]
pub(crate) struct Turns {
    opening: Semaphore,
    deleting: Semaphore,
}

impl Turns {
    fn new() -> Self {
        Self {
            opening: Semaphore::new(OPENING_MAX),
            deleting: Semaphore::new(DELETING_MAX),
        }
    }
}

impl<P: Platform> Broker<P> {
    fn turns_in(&self, dir: &Path) -> Rc<Turns> {
        let mut all = self.log_turns.borrow_mut();
        let turns = all.entry(dir.to_owned());
        Rc::clone(turns.or_insert_with(|| Rc::new(Turns::new())))
    }

    pub(super) async fn delete_partition(&self, (key, partition): &RemovedPartition<P>) {
        let Some(partition) = partition else { return };
        self.resign(partition, key.1);
        let claim = self.log_dirs.claims.hold(&partition.name);
        // Now, because a new topic may have the name once the deletion is done.
        self.metrics.forget(&partition.name.topic);
        let turns = self.turns_in(partition.log.dir());
        let (platform, store) = (self.platform.clone(), self.store.clone());
        let (log, name) = (Rc::clone(&partition.log), partition.name.clone());
        let deletion = async move {
            let _turn = turn_at(&turns.deleting).await;
            delete_for_good(platform, store, log, name, claim).await;
        };
        if let DirOutcome::Hangs(_) = self.begin_in(partition.log.dir(), deletion).await {
            let dir = self.waits_for(partition.log.dir());
            tracing::warn!(partition = %partition.name, dir = %dir.display(),
                "the disk does not answer: the log is deleted as soon as it does");
        }
    }

    /// Opens the log of a partition, or creates it.
    ///
    /// Does nothing while the broker stops, because no code would close the log; the next start
    /// opens or creates it.
    pub(super) async fn open_partition(self: &Rc<Self>, missing: MissingPartition) {
        if self.stopping_since.get().is_some() {
            return;
        }
        let name = &missing.name;
        let key = (missing.topic_id, name.partition);
        let directories = &missing.directories;
        if self.log_dirs.is_elsewhere(key.0, name, directories) {
            tracing::error!(partition = %name, ?directories,
                "the log is in a directory that is not among log.dirs; the partition is offline");
            self.install(key.0, key.1, Err(ErrorCode::KafkaStorageError));
            self.recovery.opened();
            return;
        }
        let at = self.place_of_log(&missing).await;
        let Some(claim) = self.log_dirs.claims.claim(name) else {
            tracing::warn!(partition = %name,
                "a log of this name has not been deleted yet: the partition is offline until it has");
            self.keep_unopened(key, at);
            task::spawn(open_later(Rc::downgrade(self), key.0, missing.name));
            self.recovery.opened();
            return;
        };
        let opening = Rc::clone(self).open_as(missing.clone(), at.clone(), claim);
        match self.begin_in(&at.dir, opening).await {
            DirOutcome::Done(Ok((log, _claim))) if self.stopping_since.get().is_some() => {
                // The stop collected the logs that it closes before this one was opened.
                if let Err(error) = log.close().await {
                    tracing::error!(partition = %name, %error, "cannot close the log");
                }
            }
            DirOutcome::Done(Ok((log, _claim))) => {
                let led = self.lead(&missing, log);
                self.install(key.0, key.1, Ok(led));
            }
            DirOutcome::Done(Err(error)) => {
                let code = self.cannot_open(key.0, at, &error);
                self.install(key.0, key.1, Err(code));
            }
            DirOutcome::Stopping => {}
            DirOutcome::Hangs(opening) => {
                let dir = self.waits_for(&at.dir);
                tracing::error!(partition = %name, dir = %dir.display(),
                    "the disk does not answer: the partition is offline until the log could be opened");
                self.keep_unopened(key, at);
                let me = Rc::clone(self);
                task::spawn(async move {
                    let Ok(opened) = opening.await else { return };
                    me.lead_or_retry(key.0, missing.name, opened).await;
                });
            }
        }
        self.recovery.opened();
    }

    /// Marks a partition as offline, and keeps the state of its log.
    pub(crate) fn keep_unopened(self: &Rc<Self>, key: (TopicId, i32), at: UnopenedLog) {
        self.unopened.borrow_mut().insert(key, at);
        self.install(key.0, key.1, Err(ErrorCode::KafkaStorageError));
    }

    /// Logs that a log cannot be opened, keeps its state, and schedules a retry if that may help.
    pub(crate) fn cannot_open(
        self: &Rc<Self>,
        topic_id: TopicId,
        at: UnopenedLog,
        error: &storage::Error,
    ) -> ErrorCode {
        let name = at.name.clone();
        tracing::error!(partition = %name, %error, "cannot open the log; the partition is offline");
        let key = (topic_id, name.partition);
        self.unopened.borrow_mut().insert(key, at);
        if error.is_passing() {
            task::spawn(open_later(Rc::downgrade(self), topic_id, name));
        }
        ErrorCode::KafkaStorageError
    }

    async fn open_as(
        self: Rc<Self>,
        missing: MissingPartition,
        at: UnopenedLog,
        claim: Claim,
    ) -> OpenedLog<P> {
        let turns = self.turns_in(&at.dir);
        let _turn = turn_at(&turns.opening).await;
        let opened = self.open_log(missing.topic_id, &at, &missing.config).await;
        opened.map(|log| (log, claim))
    }

    fn lead(&self, missing: &MissingPartition, log: Rc<Log<P>>) -> Rc<Partition<P>> {
        let MissingPartition {
            topic_id,
            name,
            epoch,
            config,
            ..
        } = missing;
        let (name, config) = (name.clone(), Arc::clone(config));
        let counts = (&self.metrics, self.shards.changes());
        Partition::lead(*topic_id, name, log, *epoch, config, counts)
    }

    /// Tries to open a log again; returns true if there is nothing left to try.
    async fn open_again(self: &Rc<Self>, topic_id: TopicId, name: &TopicPartition) -> bool {
        let key = (topic_id, name.partition);
        let at = self.unopened.borrow().get(&key).cloned();
        let (Some(missing), Some(at)) = (self.missing_now(key, name).await, at) else {
            return true;
        };
        let Some(claim) = self.log_dirs.claims.claim(name) else {
            return false;
        };
        let opened = Rc::clone(self).open_as(missing.clone(), at, claim).await;
        self.lead_late(topic_id, name, opened).await
    }

    /// Returns an offline partition according to the current image; `None` if it is no longer
    /// offline, or gone.
    fn still_missing(
        &self,
        key: (TopicId, i32),
        name: &TopicPartition,
    ) -> Option<MissingPartition> {
        let is_offline = |slot: &AssignedPartition<P>| slot.is_err();
        let known = self.partitions.borrow().get(&key).is_some_and(is_offline);
        let image = self.image();
        let state = image.topic_by_id(key.0)?.partitions.get(&key.1)?;
        known.then(|| MissingPartition {
            topic_id: key.0,
            name: name.clone(),
            epoch: LeaderEpoch(state.leader_epoch),
            config: TopicConfigs::new(&image, &self.options).of(&name.topic),
            directories: state.directories.clone(),
        })
    }

    /// Returns an offline partition once no image is being applied: before that, the image that has
    /// the partition may not be published.
    pub(super) async fn missing_now(
        &self,
        key: (TopicId, i32),
        name: &TopicPartition,
    ) -> Option<MissingPartition> {
        let _turn = turn_at(&self.image_turn).await;
        self.still_missing(key, name)
    }

    /// Leads a partition whose log was opened late, or schedules a retry.
    pub(crate) async fn lead_or_retry(
        self: &Rc<Self>,
        topic_id: TopicId,
        name: TopicPartition,
        opened: OpenedLog<P>,
    ) {
        if !self.lead_late(topic_id, &name, opened).await {
            task::spawn(open_later(Rc::downgrade(self), topic_id, name));
        }
    }

    /// Leads a partition whose log was opened late, according to the current image; deletes the log
    /// of a partition that is gone.
    ///
    /// Returns true if there is nothing left to try.
    async fn lead_late(
        self: &Rc<Self>,
        topic_id: TopicId,
        name: &TopicPartition,
        opened: OpenedLog<P>,
    ) -> bool {
        let (log, claim) = match opened {
            Ok(opened) => opened,
            Err(error) if error.is_passing() => return false,
            Err(error) => {
                tracing::error!(partition = %name, %error, "cannot open the log; the partition is offline");
                return true;
            }
        };
        let key = (topic_id, name.partition);
        self.raise_behind(key, name, &log).await;
        if self.stopping_since.get().is_some() {
            // The directory is left without its clean shutdown marker: the next start recovers the
            // log.
            return true;
        }
        // While the turn is held, no image is applied, so the partition does not change.
        let turn = turn_at(&self.image_turn).await;
        if let Some(now) = self.still_missing(key, name) {
            log.set_options(now.config.log_options());
            let led = self.lead(&now, log);
            tracing::info!(partition = %name, "the log could be opened now; the partition is served");
            self.install(key.0, key.1, Ok(led));
            self.count_partitions();
            return true;
        }
        drop(turn);
        delete_for_good(
            self.platform.clone(),
            self.store.clone(),
            log,
            name.clone(),
            claim,
        )
        .await;
        true
    }
}
