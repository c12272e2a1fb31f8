//! Loading and unloading of a partition of `__consumer_offsets`: replays its records, then serves
//! its groups.
//!
//! Records of a transaction take effect when its commit marker is replayed, but keep their place in
//! the log: an offset that was committed later without a transaction stands.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use platform::{Platform, task};
use wire::types::{ErrorCode, LeaderEpoch, Offset, TimestampMs};

use super::open::say_if_skipped;
use super::{ClockReading, Cluster, VISITED_AT_ONCE};
use super::{
    GroupCoordinator, GroupOutcome, GroupSlot, GroupSlotPhase, OffsetsLog, OpenTransactions, Queue,
};
use crate::group::classic::Limits;
use crate::group::groups::{Groups, GroupsOptions};
use crate::group::records::GroupRecord;

/// Entries of `positions` that are dropped at a time.
const POSITIONS_AT_ONCE: usize = 4096;

impl GroupSlot {
    /// Builds at most `count` more groups from their records.
    fn make(&mut self, count: usize, now: (ClockReading, &dyn Cluster)) {
        let (outcome, after) = self.groups.finish_load(self.made.0.as_ref(), count, now);
        self.made.0 = after;
        self.made.1.extend(outcome);
    }
}

impl<P: Platform, L: OffsetsLog> GroupCoordinator<P, L> {
    /// Begins to load a partition; returns the incarnation of this load.
    ///
    /// Until it ends, requests for the partition's groups get an error to retry.
    pub fn begin_load(&self, partition: i32) -> u64 {
        self.unload(partition);
        let incarnation = self.next_incarnation.get();
        self.next_incarnation.set(incarnation + 1);
        let millis =
            |duration: std::time::Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        let options = GroupsOptions {
            classic: Limits {
                initial_rebalance_delay: self.options.initial_rebalance_delay,
                members_max: self.options.members_max,
            },
            offset_metadata_max: self.options.offset_metadata_bytes_max,
            offsets_retention_ms: millis(self.options.offsets_retention),
            consumer: self.options.consumer,
            state_bytes_max: self.options.state_bytes_max,
        };
        let mut groups = Groups::new(options);
        groups.shares = Rc::clone(&self.shares);
        let slot = GroupSlot {
            phase: GroupSlotPhase::Loading,
            stalled: false,
            groups,
            queue: Queue::default(),
            incarnation,
            foreign: 0,
            positions: BTreeMap::new(),
            made: (None, GroupOutcome::default()),
        };
        let before = self.slots.borrow_mut().insert(partition, slot);
        assert!(before.is_none(), "a partition comes when it has gone");
        incarnation
    }

    /// Returns false when the partition was unloaded or loaded again since this load began.
    pub fn is_here(&self, partition: i32, incarnation: u64) -> bool {
        self.slot(partition, incarnation, |_| ()).is_some()
    }

    /// Builds some groups from their records, after all records are replayed; returns false when
    /// none is left.
    ///
    /// It spares [`Self::finish_load`] from building them all without a pause.
    pub fn load_some(&self, partition: i32, incarnation: u64) -> bool {
        let now = self.now();
        let more = self.slot(partition, incarnation, |slot| {
            if slot.phase != GroupSlotPhase::Loading {
                return false;
            }
            if !slot.positions.is_empty() {
                (0..POSITIONS_AT_ONCE).for_each(|_| drop(slot.positions.pop_first()));
                return true;
            }
            slot.make(VISITED_AT_ONCE, (now, &self.log.cluster()));
            slot.made.0.is_some()
        });
        more.unwrap_or(false)
    }

    /// Takes in one record of a partition that is being loaded.
    ///
    /// Records come in the order of the log, except those of transactions, which come with the
    /// transaction's commit marker. A record of an earlier load, before the partition was unloaded
    /// or loaded again, is ignored.
    pub fn replay(
        &self,
        (partition, incarnation): (i32, u64),
        key: &Bytes,
        value: Option<&Bytes>,
        offset: Offset,
        _timestamp: TimestampMs,
    ) {
        let now = self.now();
        let mut slots = self.slots.borrow_mut();
        let slot = slots.get_mut(&partition);
        let Some(slot) = slot.filter(|slot| slot.incarnation == incarnation) else {
            return;
        };
        assert!(
            slot.phase != GroupSlotPhase::Active,
            "records are replayed before groups are served"
        );
        match GroupRecord::decode(key, value.map(AsRef::as_ref)) {
            Ok(Some(record)) => {
                let last = slot
                    .positions
                    .entry(Bytes::copy_from_slice(key))
                    .or_insert(offset);
                if *last <= offset {
                    *last = offset;
                    slot.groups.load(&record, now);
                }
            }
            Ok(None) => {
                slot.foreign += 1;
            }
            Err(error) => {
                // Groups with only some of their records would fall back to older state.
                tracing::error!(partition, %offset, %error, "a group record cannot be read");
                self.note_failed(slot);
            }
        }
    }

    /// Takes in the records of transactions that are open at the end of the log; called before
    /// [`Self::finish_load`].
    pub fn keep_open(&self, (partition, incarnation): (i32, u64), open: OpenTransactions) {
        self.slot(partition, incarnation, |slot| {
            slot.groups.open = open.without_older(&slot.positions);
        });
    }

    /// Ends a load: the groups are served from now on.
    pub fn finish_load(&self, (partition, incarnation): (i32, u64), leader_epoch: LeaderEpoch) {
        let now = self.now();
        let mut slots = self.slots.borrow_mut();
        let slot = slots.get_mut(&partition);
        let Some(slot) = slot.filter(|slot| slot.incarnation == incarnation) else {
            return;
        };
        if slot.phase == GroupSlotPhase::Failed {
            tracing::error!(partition, %leader_epoch, "unreadable groups are not served");
            drop(slots);
            return self.serve_again(partition);
        }
        assert!(
            slot.phase == GroupSlotPhase::Loading,
            "a partition is loaded once"
        );
        self.failures.borrow_mut().remove(&partition);
        slot.phase = GroupSlotPhase::Active;
        slot.positions.clear();
        if slot.foreign > 0 {
            // Logged once per partition: a cluster with share groups has millions of such records.
            tracing::warn!(
                partition,
                records = slot.foreign,
                "records of types that are not known here are left alone"
            );
        }
        say_if_skipped(partition, slot.groups.open.take_skipped());
        slot.make(usize::MAX, (now, &self.log.cluster()));
        let (_, outcome) = std::mem::take(&mut slot.made);
        drop(slots);
        self.carry_out(partition, outcome);
    }

    /// Handles an unreadable partition: its groups are not served until it can be read.
    pub fn fail_load(&self, (partition, incarnation): (i32, u64)) {
        self.fail(partition, incarnation);
    }

    /// Stops serving a slot whose state may differ from the log.
    ///
    /// Every waiting request is answered, and the partition is reloaded as soon as possible.
    pub(super) fn fail(&self, partition: i32, incarnation: u64) {
        let told = self.slot(partition, incarnation, |slot| {
            self.note_failed(slot);
            slot.queue = Queue::default();
            slot.groups.take()
        });
        if let Some(groups) = told {
            self.abandon(groups);
            self.rearm();
            self.serve_again(partition);
        }
    }

    fn note_failed(&self, slot: &mut GroupSlot) {
        if std::mem::replace(&mut slot.phase, GroupSlotPhase::Failed) != GroupSlotPhase::Failed {
            self.metrics.failed_partitions.inc();
        }
    }

    fn serve_again(&self, partition: i32) {
        let mut failures = self.failures.borrow_mut();
        let attempt = failures.entry(partition).or_default();
        *attempt = attempt.saturating_add(1);
        let attempt = *attempt;
        drop(failures);
        self.log.serve_again(partition, attempt);
    }

    /// Returns true when a partition is on this shard but its groups are not served.
    pub fn is_failed(&self, partition: i32) -> bool {
        let slots = self.slots.borrow();
        slots
            .get(&partition)
            .is_some_and(|slot| slot.phase == GroupSlotPhase::Failed)
    }

    /// Returns the number of partitions on this shard whose groups are not served.
    pub fn failed_slots(&self) -> usize {
        let slots = self.slots.borrow();
        let failed = slots
            .values()
            .filter(|slot| slot.phase == GroupSlotPhase::Failed);
        failed.count()
    }

    /// Removes a partition from this shard and answers every request that waits in it.
    pub fn unload(&self, partition: i32) {
        let slot = self.slots.borrow_mut().remove(&partition);
        if let Some(mut slot) = slot {
            if slot.phase == GroupSlotPhase::Failed {
                self.metrics.failed_partitions.dec();
            }
            if slot.stalled {
                self.metrics.stalled_partitions.dec();
            }
            // Queued appends are dropped with the slot, and their receivers get an error.
            let mut positions = std::mem::take(&mut slot.positions);
            if !positions.is_empty() {
                task::spawn(async move {
                    while (0..POSITIONS_AT_ONCE).all(|_| positions.pop_first().is_some()) {
                        task::yield_now().await;
                    }
                });
            }
            self.abandon(slot.groups.take());
            self.rearm();
        }
    }

    /// Answers the requests that wait in removed groups, some at a time: there may be a million
    /// groups.
    fn abandon(&self, mut groups: Groups) {
        let Some(me) = self.me.upgrade() else { return };
        task::spawn(async move {
            while let Some(replies) = groups.abandon(VISITED_AT_ONCE, ErrorCode::NotCoordinator) {
                me.tell(replies);
                task::yield_now().await;
            }
        });
    }
}
