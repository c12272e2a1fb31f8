//! Transactions write offsets, which count when their commit marker is there ([`OpenTransactions`]).

use platform::Platform;
use storage::log::producer_state::Outcome;
use wire::protocol::StrBytes;
use wire::types::{ErrorCode, ProducerId};

use super::{GroupCoordinator, OffsetsLog, Written};
use crate::group::Unstable;
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
        let ended = {
            let mut slots = self.slots.borrow_mut();
            let slot = slots.get_mut(&partition);
            slot.map(|slot| (slot.incarnation, slot.groups.open.end(producer)))
        };
        let Some((incarnation, records)) = ended.filter(|(_, records)| !records.is_empty()) else {
            return;
        };
        if outcome == Outcome::Abort {
            return;
        }
        // Plain commits from before the marker settle first, so that this one, which is later, stands.
        if !self.settled(partition).await {
            return;
        }
        let now = self.now();
        let mut slots = self.slots.borrow_mut();
        let slot = slots.get_mut(&partition);
        let Some(slot) = slot.filter(|slot| slot.incarnation == incarnation) else {
            return;
        };
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

    /// The partitions of a group whose offsets are not stable: a transaction that wrote them is open.
    pub fn unstable_offsets(&self, group: &StrBytes) -> Result<Unstable, ErrorCode> {
        let partition = self.partition_of(group)?;
        let slots = self.slots.borrow();
        let slot = slots.get(&partition);
        Ok(slot.map_or_else(Unstable::new, |slot| slot.groups.open.of_group(group)))
    }
}
