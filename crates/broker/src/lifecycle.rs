//! Start and stop of a broker: a start reads the metadata and opens every log; a stop closes every
//! log and writes the markers of a clean stop.
//!
//! Both run on the controller's shard and reach the others by messages. Order at the stop: the logs
//! are closed (flushed, truncated to their length), then the metadata log, then the journals; then
//! the checkpoints are written, and last the marker of a clean stop, only into directories whose
//! logs all closed without an error. A crash anywhere in between is a crash like any other. A stop
//! does not wait forever for a disk that hangs: acknowledged records are durable without it.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use platform::{Disk, Platform};
use storage::FailureKind;
use storage::checkpoint::clean_shutdown;
use wire::text::cut;
use wire::types::ProducerId;

use crate::Broker;
use crate::authorizer::Administrators;
use crate::controller::{Controller, Home, MetadataLogError, Publish};
use crate::image::Image;
use crate::join::join_all;
use crate::names::{METADATA_TOPIC, metadata_log};
use crate::partition::Partition;
use crate::topic_config::BrokerSettings;
use crate::unread_settings::{UnreadSetting, unread_settings};
use crate::unserved::unserved;

/// The part of a file system, or of a tier path's capacity, that the room for metadata changes may
/// take.
const RESERVE_SHARE: u64 = 32;

/// Characters of an unreadable setting that the log shows.
const UNREAD_SHOWN_MAX: usize = 100;

/// Administrators that a start names.
const ADMINISTRATORS_SHOWN_MAX: usize = 10;
/// Bytes of a principal that the log shows.
const PRINCIPAL_SHOWN_MAX: usize = 100;

/// The most by which a start raises the next producer id: no cluster assigns that many ids between
/// two backups.
pub(crate) const PRODUCER_IDS_RAISED_MAX: i64 = 1 << 40;

/// Why a broker cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The metadata log cannot be opened.
    #[error(transparent)]
    Metadata(#[from] MetadataLogError),
    /// The leftovers of deleted topics cannot be removed.
    #[error(transparent)]
    Storage(#[from] storage::Error),
    /// The controller did not unfence this broker.
    #[error("the broker cannot be unfenced: {code:?}: {reason}")]
    Fenced {
        /// The controller's error code.
        code: wire::types::ErrorCode,
        /// What is wrong with the directory of the metadata log, or which directory that is.
        reason: String,
    },
}

impl<P: Platform> Broker<P> {
    /// Reads the metadata, opens the logs on all shards, and reports this broker as ready.
    pub async fn start(self: &Rc<Self>) -> Result<(), StartError> {
        self.begin_clock().await;
        for dir in &self.log_dirs.dirs {
            self.store.remove_leftovers(&dir.path).await?;
        }
        for path in self
            .store
            .tiers()
            .into_iter()
            .flat_map(|tiers| tiers.paths())
        {
            if path.tier > 0
                && path.failed().is_none()
                && let Err(error) = self.store.remove_leftovers(path.dir()).await
            {
                tracing::warn!(dir = %path.dir().display(), %error, "what deleted topics left there stays");
            }
        }
        let me = Rc::downgrade(self);
        let publish: Publish = Rc::new(move |image: Arc<Image>| {
            let me = me.clone();
            Box::pin(async move {
                if let Some(broker) = me.upgrade() {
                    broker.publish_everywhere(image).await;
                }
            })
        });
        let options = Arc::clone(&self.options);
        let mut home = self.metadata_home();
        home.reserve_bytes = home.reserve_bytes.min(self.reserve_max(&home.dir).await);
        let controller =
            Controller::start(self.platform.clone(), &self.store, options, home, publish).await?;
        let image = controller.image();
        let here = |partitions: usize| u64::try_from(partitions).unwrap_or(0);
        self.recovery.expect(
            image
                .topics()
                .map(|topic| here(topic.partitions.len()))
                .sum(), // Bounded: counts of what is in memory.
        );
        self.warn_of_strays(&image);
        self.warn_of_unread_settings(&image);
        self.warn_of_unserved(&image);
        self.say_who_administers(&image);
        if let Some(tiers) = self.store.tiers() {
            let is_topic = |id| image.topic_by_id(id).is_some();
            let (dirs, platform) = (&self.log_dirs, &self.platform);
            let until = controller.known_until();
            dirs.remove_orphans(platform, tiers, is_topic, until).await;
        }
        self.control(Rc::clone(&controller));
        self.metrics.controllers.set(1);
        self.publish_everywhere(image).await;
        self.raise_epochs(&controller).await?;
        self.raise_producer_ids(&controller).await?;
        let unfenced = controller.unfence().await;
        unfenced.map_err(|code| self.refused(code))?;
        if self.checkpoint().await {
            self.log_dirs.forget_arrivals(&self.platform).await;
        }
        self.resume_moves().await;
        self.store.tell_of_recovery();
        self.recovery.set_ready(true);
        Ok(())
    }

    /// Closes the logs of all shards and marks the directories as cleanly stopped.
    ///
    /// A failure does not keep the rest from being closed; a failure of the metadata log is
    /// returned at the end.
    pub async fn stop(self: &Rc<Self>) -> Result<(), MetadataLogError> {
        self.recovery.set_ready(false);
        if let Ok(controller) = self.controller() {
            controller.stop_begins();
        }
        let home = self.with_rings([self.metadata_home().dir]);
        self.unless_hung_in(&home, self.note_clock()).await;
        let closed = self
            .shards
            .call_all(|broker| async move { broker.close_partitions().await });
        let mut unclean: BTreeSet<PathBuf> = closed.await.into_iter().flatten().collect();
        let mut metadata_closed = match self.controller() {
            Ok(controller) => {
                let home = self.metadata_home().dir;
                let dirs = self.with_rings([home.clone()]);
                let stopped = self.unless_hung_in(&dirs, controller.stop()).await;
                if stopped.is_none() {
                    unclean.insert(home);
                }
                stopped.unwrap_or(Ok(()))
            }
            Err(_) => Ok(()),
        };
        self.metrics.controllers.set(0);
        if let Err(error) = &metadata_closed {
            unclean.insert(self.metadata_home().dir);
            if matches!(error, MetadataLogError::Storage(error) if error.kind() == FailureKind::Full)
            {
                tracing::warn!(%error, "there is no room to leave the metadata log in order: all of it is on the disk, and the next start reads its end");
                metadata_closed = Ok(());
            }
        }
        self.leave_journals(&mut unclean).await;
        // The checkpoints of a hanging directory are skipped, so this waits for lower tiers only.
        let checkpoints = self.unless_lower_hung(self.checkpoint_all()).await;
        match checkpoints {
            Some(unwritten) => unclean.extend(unwritten),
            None => unclean.extend(self.log_dirs.dirs.iter().map(|dir| dir.path.clone())),
        }
        let epoch = self
            .image()
            .broker(self.options.node_id)
            .map_or(-1, |broker| broker.epoch);
        for dir in self
            .log_dirs
            .dirs
            .iter()
            .filter(|dir| !unclean.contains(&dir.path))
        {
            let file = dir.path.join(clean_shutdown::FILE);
            let marker = clean_shutdown::encode(epoch);
            let marking = self.platform.disk().replace_file(&file, &marker);
            let dirs = [dir.path.clone()];
            if let Some(Err(error)) = self.unless_hung_in(&dirs, marking).await {
                tracing::warn!(file = %file.display(), %error, "cannot mark the clean stop; the next start recovers");
            }
        }
        metadata_closed
    }

    async fn publish_everywhere(&self, image: Arc<Image>) {
        self.metrics.count_metadata(&self.image(), &image);
        let options = &self.options;
        self.node.learn(&image, options, self.store.tiers());
        let apply = move |broker: Rc<Self>| {
            let image = Arc::clone(&image);
            async move { broker.apply_image(image).await }
        };
        let deleted = self.shards.call_all(apply).await;
        if deleted.contains(&true) {
            // A new topic of the same name must not begin at the checkpoints of the deleted one.
            self.checkpoint().await;
        }
    }

    /// Returns the error of a start whose record the metadata log does not take.
    fn refused(&self, code: wire::types::ErrorCode) -> StartError {
        let dir = self.metadata_home().dir;
        let failure = self.store.dir_failure(&dir);
        let reason = failure
            .unwrap_or_else(|| format!("the metadata log in {} takes no records", dir.display()));
        StartError::Fenced { code, reason }
    }

    /// Raises leader epochs above those that the logs know.
    ///
    /// Metadata older than the logs (from a backup) have lower epochs. A batch with a lower epoch
    /// than its predecessors is not accepted, and recovery would truncate it.
    async fn raise_epochs(&self, controller: &Controller<P>) -> Result<(), StartError> {
        let behind = |broker: Rc<Self>| async move {
            let led = broker.led_partitions();
            let each = led.iter().filter_map(|partition| partition.epochs_behind());
            each.collect::<Vec<_>>()
        };
        let behind = self.shards.call_all(behind).await;
        let behind: Vec<_> = behind.into_iter().flatten().collect();
        let Some((partition, by)) = behind.first() else {
            return Ok(());
        };
        tracing::error!(partitions = behind.len(), example = %partition, by,
            "logs know of later leader epochs than the metadata: were those restored from a backup? The epochs are raised");
        let raised = controller.raise_epochs(&behind).await;
        raised.map_err(|code| self.refused(code))
    }

    /// Raises the next producer id above those that the logs know.
    ///
    /// Metadata older than the logs (from a backup) would assign ids twice: the batches of a new
    /// producer would be taken for duplicates of another producer's.
    async fn raise_producer_ids(&self, controller: &Controller<P>) -> Result<(), StartError> {
        let next = controller.image().next_producer_id();
        // An id that a client made up must not use up the real ones.
        let limit = ProducerId(next.saturating_add(PRODUCER_IDS_RAISED_MAX));
        let largest = move |broker: Rc<Self>| async move {
            let led = broker.led_partitions();
            let each = led.iter().filter_map(|partition| {
                partition
                    .log
                    .producer_states()
                    .largest_producer_below(limit)
            });
            each.max()
        };
        let known = self.shards.call_all(largest).await;
        let known = known.into_iter().flatten().max();
        let Some(known) = known.filter(|known| known.0 >= next) else {
            return Ok(());
        };
        tracing::warn!(
            known = known.0,
            next,
            "logs know of producer ids that the metadata have not given out: the next one is raised above them"
        );
        let raised = controller.raise_producer_ids(known).await;
        raised.map_err(|code| self.refused(code))
    }

    /// Returns the most that is kept free for the metadata log in a directory: a fixed part of the
    /// disk, so little of a small one.
    async fn reserve_max(&self, dir: &Path) -> u64 {
        // If the size of the disk is unknown, the settings decide.
        let space = self.platform.disk().space(dir).await;
        let total = space.map_or(u64::MAX, |space| space.total);
        let of_tier = self.store.tiers().and_then(|tiers| tiers.holding(dir));
        let capacity = of_tier.map_or(u64::MAX, |path| path.capacity_bytes());
        total.min(capacity) / RESERVE_SHARE
    }

    /// Returns where the metadata log lies: where it was found, otherwise in the first directory.
    pub(crate) fn metadata_home(&self) -> Home {
        let name = metadata_log();
        let dir = self.log_dirs.holding(&name);
        Home {
            node: self.options.node_id,
            dir: dir.path.clone(),
            open_as: dir.open_as(&name),
            directories: self.log_dirs.dirs.iter().map(|dir| dir.id).collect(),
            snapshot_bytes: self.options.metadata_snapshot_bytes,
            has_logs: self.log_dirs.has_logs(),
            reserve_bytes: self.options.metadata_reserve_bytes,
        }
    }

    /// Logs, once in the life of the process, that some settings are ignored because they cannot be
    /// read.
    fn warn_of_unread_settings(&self, image: &Image) {
        let options = &self.options;
        let unread = unread_settings(&BrokerSettings { image, options });
        if let Some(UnreadSetting {
            of,
            resource,
            name,
            text,
        }) = unread.first()
        {
            let others = unread.len().saturating_sub(1);
            // A value may be of 32 KiB, and of a stranger's making.
            let text: String = text.chars().take(UNREAD_SHOWN_MAX).collect();
            tracing::warn!(
                of,
                resource,
                name,
                text,
                others,
                "a setting in the metadata cannot be read: it is passed over, as if it were not set"
            );
        }
    }

    /// Logs, once in the life of the process, what the metadata hold and this broker neither serves
    /// nor enforces.
    fn warn_of_unserved(&self, image: &Image) {
        let (node, enforced) = (self.options.node_id, self.options.enforced_metadata());
        for one in unserved(image, node, enforced) {
            tracing::warn!(kind = one.kind, count = one.count, example = %one.example, advice = one.advice, "{}", one.what);
        }
    }

    /// Logs who may change ACLs, for an operator who may have locked everybody out.
    fn say_who_administers(&self, image: &Image) {
        let Some(authorizer) = &self.options.authorizer else {
            return;
        };
        let (acls, mode) = (image.acls().len(), authorizer.mode);
        match authorizer.administrators(image.acls()) {
            Administrators::Everybody => tracing::warn!(
                acls,
                ?mode,
                "every client may change ACLs: none is about the cluster, and allow.everyone.if.no.acl.found is set"
            ),
            Administrators::These(who) if who.is_empty() => tracing::warn!(
                acls,
                ?mode,
                advice = "start once with super.users (docs/security-now.md)",
                "nobody may change ACLs: there is no super user, and no ACL permits it"
            ),
            Administrators::These(who) => {
                let named = who.iter().take(ADMINISTRATORS_SHOWN_MAX);
                let named: Vec<&str> = named.map(|one| cut(one, PRINCIPAL_SHOWN_MAX)).collect();
                let others = who.len().saturating_sub(named.len());
                tracing::info!(
                    acls,
                    ?mode,
                    who = named.join(", "),
                    others,
                    "who may change ACLs"
                );
            }
        }
    }

    /// Logs the names of logs that belong to no topic.
    ///
    /// They may be an operator's data, so they stay where they are.
    fn warn_of_strays(&self, image: &Image) {
        for (name, id) in self.log_dirs.found() {
            let known = image.topic_by_name(&name.topic).is_some_and(|topic| {
                topic.partitions.contains_key(&name.partition) && id.is_none_or(|id| id == topic.id)
            });
            if !known && name.topic.as_ref() != METADATA_TOPIC {
                tracing::warn!(log = %name, "a log that belongs to no topic of this cluster: left alone");
            }
        }
    }

    /// Closes this shard's logs.
    ///
    /// Returns the directories of the logs that did not close without an error, or that wait for a
    /// disk that hangs.
    async fn close_partitions(self: Rc<Self>) -> Vec<PathBuf> {
        self.stop_begins();
        let partitions = self.led_partitions();
        let each: Vec<_> = partitions
            .iter()
            .map(|partition| (partition, Cell::new(false)))
            .collect();
        // Logs in other directories neither wait for a hanging one nor are given up with it.
        let mut by_dirs = BTreeMap::<Vec<PathBuf>, Vec<_>>::new();
        for (partition, is_well) in &each {
            let dirs = self.with_rings(self.dirs_of(&partition.log));
            let closing = close_partition(partition, is_well);
            by_dirs.entry(dirs).or_default().push(closing);
        }
        let mut unclean = self.unrecovered_dirs();
        let closing = by_dirs.into_iter();
        let me = &self;
        let closing =
            closing.map(|(dirs, all)| async move { me.unless_hung_in(&dirs, join_all(all)).await });
        join_all(closing).await;
        let others = each.iter().filter(|(_, is_well)| !is_well.get());
        unclean.extend(others.map(|(partition, _)| partition.log.dir().to_owned()));
        unclean
    }
}

async fn close_partition<P: Platform>(partition: &Partition<P>, is_well: &Cell<bool>) {
    partition.resign();
    let closed = partition.log.close().await;
    is_well.set(closed.is_ok());
    let Err(error) = closed else { return };
    let partition = &partition.name;
    if error.kind() == FailureKind::Full {
        tracing::warn!(%partition, %error,
                    "there is no room to leave the log in order: the next start checks its end, and cuts off only what nobody was told of");
    } else {
        tracing::error!(%partition, %error, "cannot close the log");
    }
}
