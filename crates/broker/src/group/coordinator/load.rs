//! A partition of `__consumer_offsets` comes to this shard: its records are replayed, then its
//! groups are served; and goes.
//!
//! Records of a transaction take effect when its commit marker is replayed, in the place of the log
//! where they were written: an offset that was committed without a transaction after them stands.

use std::collections::BTreeMap;

use bytes::Bytes;
use platform::Platform;
use wire::types::{ErrorCode, LeaderEpoch, Offset, TimestampMs};

use super::{GroupCoordinator, OffsetsLog, OpenTransactions, Phase, Queue, Slot};
use crate::group::classic::Limits;
use crate::group::groups::{Groups, GroupsOptions};
use crate::group::records::GroupRecord;

impl<P: Platform, L: OffsetsLog> GroupCoordinator<P, L> {
    /// Begins to load a partition. Requests for its groups are told to come back.
    pub fn begin_load(&self, partition: i32) {
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
        };
        let slot = Slot {
            phase: Phase::Loading,
            groups: Groups::new(options),
            queue: Queue::default(),
            incarnation,
            positions: BTreeMap::new(),
        };
        self.slots.borrow_mut().insert(partition, slot);
    }

    /// Takes in one record of a partition that is being loaded: in the order of the log, save for
    /// those of transactions, which come when the transaction's commit marker does.
    pub fn replay(
        &self,
        partition: i32,
        key: &Bytes,
        value: Option<&Bytes>,
        offset: Offset,
        _timestamp: TimestampMs,
    ) {
        let now = self.now();
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.get_mut(&partition) else {
            return;
        };
        debug_assert!(
            slot.phase != Phase::Active,
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
                tracing::warn!(partition, %offset, "a record of an unknown type is left alone");
            }
            Err(error) => {
                // Serving groups from some of their records would move them back.
                tracing::error!(partition, %offset, %error, "a group record cannot be read");
                slot.phase = Phase::Failed;
            }
        }
    }

    /// Takes over what transactions have written that had not ended where the log ends. Before [`Self::finish_load`].
    pub fn keep_open(&self, partition: i32, open: OpenTransactions) {
        if let Some(slot) = self.slots.borrow_mut().get_mut(&partition) {
            slot.groups.open = open.without_older(&slot.positions);
        }
    }

    /// Ends loading: the groups are served from now on.
    pub fn finish_load(&self, partition: i32, leader_epoch: LeaderEpoch) {
        let now = self.now();
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.get_mut(&partition) else {
            return;
        };
        if slot.phase == Phase::Failed {
            tracing::error!(partition, %leader_epoch, "unreadable groups are not served");
            return;
        }
        slot.phase = Phase::Active;
        slot.positions.clear();
        let outcome = slot.groups.finish_load(now, &self.log.cluster());
        drop(slots);
        self.carry_out(partition, outcome);
    }

    /// The partition is not here any more: everybody who waits is told.
    pub fn unload(&self, partition: i32) {
        let slot = self.slots.borrow_mut().remove(&partition);
        if let Some(mut slot) = slot {
            // Queued appends go with the slot, and their senders with them, which is an answer.
            let outcome = slot.groups.abandon(ErrorCode::NotCoordinator);
            self.carry_out(partition, outcome);
        }
    }
}
