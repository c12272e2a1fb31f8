//! Opening and deleting logs, by tasks of their own: an image does not wait for a directory that hangs.
//!
//! A log in a directory that hangs is opened, or deleted, as soon as the disk answers; until then its partition is offline
//! (`KAFKA_STORAGE_ERROR`). Invariants: what comes late is looked at anew, for the image may be another one by then: a log whose
//! partition is no more is deleted; while the log of one topic is on its way, none of the same name is opened.

use std::path::Path;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use platform::sync::Semaphore;
use platform::{Platform, task};
use storage::Log;
use wire::types::{ErrorCode, LeaderEpoch, TopicId, TopicPartition};

use super::deleting::delete_for_good;
use super::{DELETING_MAX, Gone, Missing, OPENING_MAX};
use crate::Broker;
use crate::broker::Slot;
use crate::hanging::Begun;
use crate::log_dirs::Claim;
use crate::partition::Partition;
use crate::queues::turn_at;
use crate::topic_config::TopicConfigs;
use crate::unopened::Unopened;

/// How long after a log could not be opened it is tried again, and how long at most between two tries.
const OPEN_AGAIN: Duration = Duration::from_secs(1);
const OPEN_AGAIN_MAX: Duration = Duration::from_mins(1);

const _: () = assert!(
    OPEN_AGAIN.as_millis() < OPEN_AGAIN_MAX.as_millis(),
    "a pause grows"
);

/// A log, and its name, which nobody else takes before the log is led.
pub(crate) type Opened<P> = storage::Result<(Rc<Log<P>>, Claim)>;

/// Opens a log that there was no room for, or no descriptor, as soon as there is.
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

/// How many logs of a directory are opened, and deleted, at once: many may have waited for it when a disk answers again.
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

    pub(super) async fn delete_partition(&self, (key, partition): &Gone<P>) {
        let Some(partition) = partition else { return };
        self.resign(partition, key.1);
        let claim = self.log_dirs.claims.hold(&partition.name);
        // At once: when it is through, a new topic may have the name.
        self.metrics.forget(&partition.name.topic);
        let turns = self.turns_in(partition.log.dir());
        let (platform, store) = (self.platform.clone(), self.store.clone());
        let (log, name) = (Rc::clone(&partition.log), partition.name.clone());
        let deletion = async move {
            let _turn = turn_at(&turns.deleting).await;
            delete_for_good(platform, store, log, name, claim).await;
        };
        if let Begun::Hangs(_) = self.begin_in(partition.log.dir(), deletion).await {
            let dir = self.waits_for(partition.log.dir());
            tracing::warn!(partition = %partition.name, dir = %dir.display(),
                "the disk does not answer: the log is deleted as soon as it does");
        }
    }

    /// Opens the log of a partition, or makes it. While the broker stops it does not: nobody would close it, and the next start opens
    /// it, or makes it.
    pub(super) async fn open_partition(self: &Rc<Self>, missing: Missing) {
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
            Begun::Done(Ok((log, _claim))) if self.stopping_since.get().is_some() => {
                // The logs that the stop closes were looked up before.
                if let Err(error) = log.close().await {
                    tracing::error!(partition = %name, %error, "cannot close the log");
                }
            }
            Begun::Done(Ok((log, _claim))) => {
                let led = self.lead(&missing, log);
                self.install(key.0, key.1, Ok(led));
            }
            Begun::Done(Err(error)) => {
                let code = self.cannot_open(key.0, at, &error);
                self.install(key.0, key.1, Err(code));
            }
            Begun::Stopping => {}
            Begun::Hangs(opening) => {
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

    /// Has a partition offline, and keeps what is known of its log.
    pub(crate) fn keep_unopened(self: &Rc<Self>, key: (TopicId, i32), at: Unopened) {
        self.unopened.borrow_mut().insert(key, at);
        self.install(key.0, key.1, Err(ErrorCode::KafkaStorageError));
    }

    /// Says that a log cannot be opened where it is, keeps what is known of it, and has it tried again if that may help.
    pub(crate) fn cannot_open(
        self: &Rc<Self>,
        topic_id: TopicId,
        at: Unopened,
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

    async fn open_as(self: Rc<Self>, missing: Missing, at: Unopened, claim: Claim) -> Opened<P> {
        let turns = self.turns_in(&at.dir);
        let _turn = turn_at(&turns.opening).await;
        let opened = self.open_log(missing.topic_id, &at, &missing.config).await;
        opened.map(|log| (log, claim))
    }

    fn lead(&self, missing: &Missing, log: Rc<Log<P>>) -> Rc<Partition<P>> {
        let Missing {
            topic_id,
            name,
            epoch,
            config,
            ..
        } = missing;
        let (name, config) = (name.clone(), Arc::clone(config));
        Partition::lead(*topic_id, name, log, *epoch, config, &self.metrics)
    }

    /// Tries once more to open a log that could not be opened; true when there is nothing left to try.
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

    /// What is to be known of a partition that is offline, as the image has it now; none if it is not offline any more, or gone.
    fn still_missing(&self, key: (TopicId, i32), name: &TopicPartition) -> Option<Missing> {
        let is_offline = |slot: &Slot<P>| slot.is_err();
        let known = self.partitions.borrow().get(&key).is_some_and(is_offline);
        let image = self.image();
        let state = image.topic_by_id(key.0)?.partitions.get(&key.1)?;
        known.then(|| Missing {
            topic_id: key.0,
            name: name.clone(),
            epoch: LeaderEpoch(state.leader_epoch),
            config: TopicConfigs::new(&image, &self.options).of(&name.topic),
            directories: state.directories.clone(),
        })
    }

    /// The same once no image is being applied: before, the one that has the partition may not be there yet.
    pub(super) async fn missing_now(
        &self,
        key: (TopicId, i32),
        name: &TopicPartition,
    ) -> Option<Missing> {
        let _turn = turn_at(&self.image_turn).await;
        self.still_missing(key, name)
    }

    /// The same, as often as it takes.
    pub(crate) async fn lead_or_retry(
        self: &Rc<Self>,
        topic_id: TopicId,
        name: TopicPartition,
        opened: Opened<P>,
    ) {
        if !self.lead_late(topic_id, &name, opened).await {
            task::spawn(open_later(Rc::downgrade(self), topic_id, name));
        }
    }

    /// Leads a partition whose log has come late, as the image has it by now; deletes the log of one that is gone. True when
    /// there is nothing left to try.
    async fn lead_late(
        self: &Rc<Self>,
        topic_id: TopicId,
        name: &TopicPartition,
        opened: Opened<P>,
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
            // Its directory is left unclean: the next start looks at the log.
            return true;
        }
        // No image is applied meanwhile: the partition stays what it is.
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
