//! Offsets that transactions write; they count when their commit marker is committed.

use platform::Platform;
use storage::log::producer_state::TransactionOutcome;
use wire::types::ProducerId;

use super::{GroupCoordinator, LoggedRecord, OffsetsLog};
use crate::group::records::GroupRecord;

impl<P: Platform, L: OffsetsLog> GroupCoordinator<P, L> {
    /// Notes records that a transaction has just appended.
    pub(crate) fn opened(&self, partition: i32, producer: ProducerId, records: Vec<LoggedRecord>) {
        if let Some(slot) = self.slots.borrow_mut().get_mut(&partition) {
            for record in records {
                slot.groups.open.add(producer, record);
            }
        }
    }

    /// Ends a transaction whose marker is committed: its offsets take effect, or are dropped.
    pub(crate) async fn end_transaction(
        &self,
        partition: i32,
        producer: ProducerId,
        outcome: TransactionOutcome,
    ) {
        let closed = {
            let mut slots = self.slots.borrow_mut();
            let Some(slot) = slots.get_mut(&partition) else {
                return;
            };
            if outcome == TransactionOutcome::Abort {
                slot.groups.open.end(producer, outcome);
                return;
            }
            let closed = slot.groups.open.close(producer);
            closed.map(|closed| (slot.incarnation, closed))
        };
        let Some((incarnation, closed)) = closed else {
            return;
        };
        // Plain commits from before the marker settle first, so that this later one stands. Until
        // then the transaction counts as open: a reader of stable offsets must not get the old
        // ones.
        if !self.settled(partition).await {
            return;
        }
        let now = self.now();
        let mut slots = self.slots.borrow_mut();
        let slot = slots.get_mut(&partition);
        let Some(slot) = slot.filter(|slot| slot.incarnation == incarnation) else {
            return;
        };
        let records = slot.groups.open.take_closed(closed);
        let mut failed = false;
        for LoggedRecord { key, value, .. } in records {
            match GroupRecord::decode(&key, value.as_deref()) {
                Ok(Some(record)) => slot.groups.commit_record(&record, now),
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(partition, %error, "an offset of a transaction cannot be read");
                    failed = true;
                }
            }
        }
        let skipped = slot.groups.open.take_skipped();
        drop(slots);
        say_if_skipped(partition, skipped);
        if failed {
            self.fail(partition, incarnation);
        }
    }
}

/// Says that transactions had records that did not count.
pub(super) fn say_if_skipped(partition: i32, records: u64) {
    if records > 0 {
        tracing::warn!(
            partition,
            records,
            "transactions have records of groups that are no offsets: skipped"
        );
    }
}
