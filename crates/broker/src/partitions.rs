//! From the metadata image to open logs: applies a new image to the partitions of this shard.
//!
//! Invariants: a partition is opened by topic id, never by name only; images are applied one after
//! the other; the logs of a deleted topic no longer have their names in the directory before the
//! image counts as applied, unless the directory hangs (`partitions/opening.rs`). A log that cannot
//! be opened makes its partition offline (`KAFKA_STORAGE_ERROR`), not the broker.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use platform::Platform;
use storage::tier::{PathUse, TierPath};
use wire::StrBytes;
use wire::types::{LeaderEpoch, TopicId, TopicPartition};

use crate::Broker;
use crate::broker::AssignedPartition;
use crate::group::GoneTopics;
use crate::image::{Image, PartitionImage, TopicImage};
use crate::join::join_all;
use crate::log_dirs;
use crate::names::{OFFSETS_TOPIC, TRANSACTIONS_TOPIC};
use crate::partition::Partition;
use crate::queues::turn_at;
use crate::rests::{DECISION, Rests};
use crate::topic_config::{TopicConfig, TopicConfigs};
use crate::unopened::UnopenedLog;

mod behind;
mod deleting;
mod opening;

pub(crate) use opening::Turns;

/// Logs that one shard opens at the same time.
const OPENING_MAX: usize = 16;

/// Logs that one shard deletes at the same time: many of them share one sync of their directory.
const DELETING_MAX: usize = 128;

/// How far beyond the maximum timeout an open transaction counts as late, as in Kafka.
const LATE_AFTER: Duration = Duration::from_mins(5);

/// A partition that this shard should lead but does not yet.
#[derive(Clone)]
struct MissingPartition {
    topic_id: TopicId,
    name: TopicPartition,
    epoch: LeaderEpoch,
    config: Arc<TopicConfig>,
    /// The directories of its log according to the metadata.
    directories: Vec<wire::types::Uuid>,
}

/// A partition of this shard that the image no longer has.
type RemovedPartition<P> = ((TopicId, i32), Option<Rc<Partition<P>>>);

impl<P: Platform> Broker<P> {
    /// Updates this shard's partitions to `image`, then publishes `image` to the handlers. Returns
    /// true if logs were deleted.
    pub async fn apply_image(self: &Rc<Self>, image: Arc<Image>) -> bool {
        // One image at a time; one that is older than the current image changes nothing.
        let _turn = turn_at(&self.image_turn).await;
        if image.last_applied_offset() < self.image().last_applied_offset() {
            return false;
        }
        let gone = self.forget_removed(&image);
        let deleted = !gone.is_empty();
        // Handlers must see that a topic is gone before its logs are deleted, and a topic's
        // partitions before its name.
        for some in gone.chunks(DELETING_MAX) {
            let deleted = some.iter().map(|gone| self.delete_partition(gone));
            join_all(deleted).await;
        }
        let missing = self.update_led(&image).await;
        self.tell_of_empty(&missing);
        let mut missing = missing.into_iter().map(|it| self.open_partition(it));
        while missing.len() > 0 {
            join_all(missing.by_ref().take(OPENING_MAX)).await;
        }
        let before = self.image();
        self.publish(image);
        self.forget_offsets_of_removed(&before);
        self.count_partitions();
        deleted
    }

    /// Logs, at the start, existing partitions without a log: they start again, empty.
    ///
    /// Their directory is there, so it is another disk or an older copy of it; or the last process
    /// ended before it had created the logs.
    fn tell_of_empty(&self, missing: &[MissingPartition]) {
        if self.recovery.is_ready() {
            return;
        }
        let mut empty = missing.iter().filter(|missing| {
            let (id, name) = (missing.topic_id, &missing.name);
            let dirs = &self.log_dirs;
            !dirs.has(id, name) && !dirs.is_elsewhere(id, name, &missing.directories)
        });
        if let Some(one) = empty.next() {
            let partitions = empty.count().saturating_add(1);
            tracing::warn!(partitions, example = %one.name,
                "there are no logs of partitions that there were, and they begin anew, empty: the last life ended right after \
                 it had made them, or a log directory was restored from a backup");
        }
    }

    /// Removes the groups' offsets of deleted topics.
    fn forget_offsets_of_removed(&self, before: &Image) {
        let image = self.image();
        let removed = before
            .topics()
            .filter(|topic| image.topic_by_id(topic.id).is_none());
        let removed: Vec<_> = removed
            .map(|topic| (StrBytes::from_string(topic.name.to_string()), topic.id))
            .collect();
        if !removed.is_empty() {
            self.groups.topics_deleted(GoneTopics::of(removed));
        }
    }

    fn forget_removed(&self, image: &Image) -> Vec<RemovedPartition<P>> {
        let mut partitions = self.partitions.borrow_mut();
        let is_gone = |(id, index): &(TopicId, i32)| {
            image
                .topic_by_id(*id)
                .is_none_or(|topic| !topic.partitions.contains_key(index))
        };
        let gone: Vec<_> = partitions
            .keys()
            .filter(|key| is_gone(key))
            .copied()
            .collect();
        let mut unopened = self.unopened.borrow_mut();
        unopened.retain(|key, _| !is_gone(key));
        gone.into_iter()
            .map(|key| (key, partitions.remove(&key).and_then(Result::ok)))
            .collect()
    }

    /// Ends the leadership of a partition; its coordinator, if it has one, drops its state.
    pub(crate) fn resign(&self, partition: &Partition<P>, index: i32) {
        partition.resign();
        if partition.name.topic.as_ref() == OFFSETS_TOPIC {
            self.groups.unload(index);
        }
        if partition.name.topic.as_ref() == TRANSACTIONS_TOPIC {
            self.transactions.unload(index);
        }
    }

    /// Updates led partitions, and returns those that must be opened.
    ///
    /// The turn for images keeps other code from adding or removing partitions meanwhile.
    async fn update_led(&self, image: &Image) -> Vec<MissingPartition> {
        let mut missing = Vec::new();
        let mut rests = Rests::new();
        let configs = TopicConfigs::new(image, &self.options);
        for topic in image.topics() {
            let mut config = None;
            for (index, state) in self.owned(topic) {
                let config = config.get_or_insert_with(|| configs.of(&topic.name));
                let epoch = LeaderEpoch(state.leader_epoch);
                let led = self.partitions.borrow().get(&(topic.id, index)).cloned();
                match led {
                    Some(Ok(partition)) => {
                        if *partition.config() != **config {
                            partition.reconfigure(Arc::clone(config));
                        }
                        partition.advance_epoch(epoch);
                    }
                    Some(Err(_)) => {}
                    None => missing.push(MissingPartition {
                        topic_id: topic.id,
                        name: TopicPartition {
                            topic: Arc::clone(&topic.name),
                            partition: index,
                        },
                        epoch,
                        config: Arc::clone(config),
                        directories: state.directories.clone(),
                    }),
                }
                rests.item().await;
            }
            // Resolving a topic's own settings parses text.
            let own = config.is_some_and(|config| !configs.is_default(&config));
            rests.items(if own { DECISION } else { 1 }).await;
        }
        missing
    }

    /// Returns the partitions of a topic that this shard owns.
    fn owned<'a>(
        &'a self,
        topic: &'a TopicImage,
    ) -> impl Iterator<Item = (i32, &'a PartitionImage)> {
        let mine = |index: i32| self.shards.owner(topic.id, index) == self.shards.me();
        let here = |state: &PartitionImage| state.leader == self.options.node_id.0;
        let each = topic
            .partitions
            .iter()
            .map(|(index, state)| (*index, state));
        each.filter(move |(index, state)| mine(*index) && here(state))
    }

    /// Adds a partition to this shard; its coordinator, if it has one, loads it.
    pub(crate) fn install(
        self: &Rc<Self>,
        topic_id: TopicId,
        index: i32,
        slot: AssignedPartition<P>,
    ) {
        let opened = slot.as_ref().ok().cloned();
        if opened.is_some() {
            self.unopened.borrow_mut().remove(&(topic_id, index));
        }
        self.partitions.borrow_mut().insert((topic_id, index), slot);
        let Some(partition) = opened else { return };
        match partition.name.topic.as_ref() {
            OFFSETS_TOPIC => crate::offsets_log::begin_load(self, &partition),
            TRANSACTIONS_TOPIC => self.transactions.begin_load(&partition),
            _ => {}
        }
    }

    /// Returns where the log of a partition is, or will be, and its checkpoints.
    async fn place_of_log(&self, missing: &MissingPartition) -> UnopenedLog {
        let (id, name) = (missing.topic_id, &missing.name);
        let is_closed = |dir: &Path| self.is_closed_to_new(dir) || self.hangs(dir);
        let dirs = &self.log_dirs;
        let dir = dirs.place(&self.platform, id, name, is_closed).await;
        // An image is not published before the logs of its new topics are opened, so a published
        // image without the topic means that the topic is new. The first image has the topics of
        // all earlier runs.
        let is_new = self.recovery.is_ready() && self.image().topic_by_id(id).is_none();
        UnopenedLog {
            name: name.clone(),
            dir: dir.path.clone(),
            how: dirs.open_as(dir, id, name),
            is_new: is_new && !dirs.has(id, name),
        }
    }

    async fn open_log(
        &self,
        topic_id: TopicId,
        at: &UnopenedLog,
        config: &TopicConfig,
    ) -> storage::Result<Rc<storage::Log<P>>> {
        let UnopenedLog {
            name,
            dir,
            how,
            is_new,
        } = at;
        let open = async || {
            let (store, options) = (&self.store, config.log_options());
            let name = name.clone();
            if *is_new {
                store.begin_log(dir, name, topic_id, options, *how).await
            } else {
                store.open_log(dir, name, topic_id, options, *how).await
            }
        };
        loop {
            match open().await {
                // A crash left the log of a deleted topic, or an operator put it there: it is
                // renamed and kept. With tiers there can be one on every path.
                Err(storage::Error::OtherTopic { path, found, .. }) => {
                    let Some(at) = path.parent() else {
                        unreachable!("a log's folder lies in a directory")
                    };
                    let aside = log_dirs::set_aside(&self.platform, at, name).await?;
                    tracing::warn!(log = %path.display(), topic_id = %found, aside = %aside.display(),
                        "a log of a topic that is no more has been set aside");
                }
                opened => return opened,
            }
        }
    }

    /// Returns true for a directory that takes no new partitions: it is cordoned, or it has failed.
    fn is_closed_to_new(&self, dir: &Path) -> bool {
        let path = self.tier_path(dir);
        self.is_cordoned(dir) || path.is_some_and(|path| path.failed().is_some())
    }

    /// Returns true for a directory that is cordoned by setting or by an operator who drains it.
    pub(crate) fn is_cordoned(&self, dir: &Path) -> bool {
        let path = self.tier_path(dir);
        self.node.is_cordoned(dir) || path.is_some_and(|path| path.using() != PathUse::Open)
    }

    fn tier_path(&self, dir: &Path) -> Option<&TierPath> {
        let mut paths = self.store.tiers()?.paths().iter();
        paths.find(|path| path.dir() == dir).map(AsRef::as_ref)
    }

    /// Counts the partitions whose last stable offset has not moved for longer than a transaction
    /// may take.
    pub(crate) fn count_late_transactions(&self) {
        let now = self.platform.clock().now();
        let longest = self.options.transaction.timeout_max + LATE_AFTER;
        let led = self.led_partitions();
        let late = led
            .iter()
            .filter(|it| it.has_late_transaction(now, longest));
        let late = i64::try_from(late.count()).unwrap_or(i64::MAX);
        let before = self.counted_late.replace(late);
        self.metrics.late_transactions.inc_by(late - before);
    }

    pub(crate) fn count_partitions(&self) {
        let partitions = self.partitions.borrow();
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let all = count(partitions.len());
        let led = count(partitions.values().filter(|slot| slot.is_ok()).count());
        let (all_before, led_before) = self.counted.replace((all, led));
        self.metrics.partitions.inc_by(all - all_before);
        self.metrics.leaders.inc_by(led - led_before);
        self.metrics
            .offline_partitions
            .inc_by((all - led) - (all_before - led_before));
    }
}
