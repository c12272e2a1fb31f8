//! Transactions write offsets, which count when their commit marker is there ([`OpenTransactions`]).

use platform::Platform;
use storage::log::producer_state::Outcome;
use wire::types::ProducerId;

use super::{GroupCoordinator, OffsetsLog, Written};
use crate::group::records::GroupRecord;

impl<P: Platform, L: OffsetsLog> GroupCoordinator<P, L> {
    /// Takes note of records that a transaction has just appended.
    pub(crate) fn opened(&self, partition: i32, producer: ProducerId, records: Vec<Written>) {
        if let Some(slot) = self.slots.borrow_mut().get_mut(&partition) {
            for record in records {
                slot.groups.open.add(producer, record);
            }
        }
    }

    /// A transaction's marker is committed: what it wrote counts, or never did.
    pub(crate) async fn end_transaction(
        &self,
        partition: i32,
        producer: ProducerId,
        outcome: Outcome,
    ) {
        let closed = {
            let mut slots = self.slots.borrow_mut();
            let Some(slot) = slots.get_mut(&partition) else {
                return;
            };
            if outcome == Outcome::Abort {
                slot.groups.open.end(producer);
                return;
            }
            let closed = slot.groups.open.close(producer);
            closed.map(|closed| (slot.incarnation, closed))
        };
        let Some((incarnation, closed)) = closed else {
            return;
        };
        // Plain commits from before the marker settle first, so that this one, which is later, stands. Until then it counts
        // as open: whoever asks for stable positions must not be told the old ones.
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
        for Written { key, value, .. } in records {
            match GroupRecord::decode(&key, value.as_deref()) {
                Ok(Some(record)) => slot.groups.commit_record(&record, now),
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(partition, %error, "an offset of a transaction cannot be read");
                    failed = true;
                }
            }
        }
        drop(slots);
        if failed {
            self.fail(partition, incarnation);
        }
    }
}
