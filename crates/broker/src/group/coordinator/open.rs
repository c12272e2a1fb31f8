//! Offsets that transactions have written and that do not count yet.
//!
//! They take effect when the transaction's commit marker is there, in the place of the log where they were written: an
//! offset that was committed without a transaction after them stands. Until then a reader that asks for stable offsets
//! is told to come back.

use std::collections::BTreeMap;

use bytes::Bytes;
use platform::Platform;
use storage::log::producer_state::Outcome;
use wire::protocol::StrBytes;
use wire::types::{ErrorCode, Offset, ProducerId, TimestampMs};

use super::{GroupCoordinator, OffsetsLog, Phase};
use crate::group::records::GroupRecord;

/// A record as it lies in the log.
#[derive(Clone, Debug)]
pub struct Written {
    /// Its key.
    pub key: Bytes,
    /// Its value; none for a tombstone.
    pub value: Option<Bytes>,
    /// Where it is.
    pub offset: Offset,
    /// Its time.
    pub timestamp: TimestampMs,
}

/// Records of transactions that are open in one partition, by producer.
#[derive(Default, Debug)]
pub struct OpenTransactions {
    by_producer: BTreeMap<i64, Vec<(u64, Written)>>,
    next: u64,
}

impl OpenTransactions {
    /// Keeps a record until its transaction ends.
    pub fn add(&mut self, producer: ProducerId, record: Written) {
        let records = self.by_producer.entry(producer.0).or_default();
        records.push((self.next, record));
        self.next += 1;
    }

    /// The records of a transaction that ended; to be replayed if it was committed.
    pub fn end(&mut self, producer: ProducerId) -> Vec<Written> {
        let ended = self.by_producer.remove(&producer.0).unwrap_or_default();
        ended.into_iter().map(|(_, record)| record).collect()
    }

    /// Everything that is added from now on comes after what has been added so far.
    pub(super) fn mark(&self) -> u64 {
        self.next
    }

    /// Forgets what was written under a key before the mark: something newer stands.
    pub(super) fn supersede(&mut self, key: &[u8], mark: u64) {
        self.retain(|serial, record| serial >= mark || record.key != key);
    }

    fn retain(&mut self, keep: impl Fn(u64, &Written) -> bool) {
        for records in self.by_producer.values_mut() {
            records.retain(|(serial, record)| keep(*serial, record));
        }
        self.by_producer.retain(|_, records| !records.is_empty());
    }

    /// Forgets what is older than the last plain record of its key.
    pub(super) fn without_older(mut self, positions: &BTreeMap<Bytes, Offset>) -> Self {
        self.retain(|_, record| {
            let plain = positions.get(&record.key);
            plain.is_none_or(|plain| *plain < record.offset)
        });
        self
    }

    fn records(&self) -> impl Iterator<Item = &Written> {
        self.by_producer
            .values()
            .flatten()
            .map(|(_, record)| record)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_producer.is_empty()
    }
}

impl<P: Platform, L: OffsetsLog> GroupCoordinator<P, L> {
    /// Takes note of records that a transaction has just appended.
    pub(crate) fn opened(&self, partition: i32, producer: ProducerId, records: Vec<Written>) {
        if let Some(slot) = self.slots.borrow_mut().get_mut(&partition) {
            for record in records {
                slot.open.add(producer, record);
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
            slot.map(|slot| (slot.incarnation, slot.open.end(producer)))
        };
        let Some((incarnation, records)) = ended.filter(|(_, records)| !records.is_empty()) else {
            return;
        };
        if outcome == Outcome::Abort {
            return;
        }
        // Plain commits from before the marker settle first, so that this one, which is later, stands.
        if self.has_queue(partition) && self.append(partition, Vec::new()).await.is_err() {
            return;
        }
        let now = self.now();
        let mut slots = self.slots.borrow_mut();
        let slot = slots.get_mut(&partition);
        let Some(slot) = slot.filter(|slot| slot.incarnation == incarnation) else {
            return;
        };
        for Written { key, value, .. } in records {
            match GroupRecord::decode(&key, value.as_deref()) {
                Ok(Some(record)) => slot.groups.commit_record(&record, now),
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(partition, %error, "an offset of a transaction cannot be read");
                    slot.phase = Phase::Failed;
                }
            }
        }
    }

    /// The partitions of a group whose offsets are not stable: a transaction that wrote them is open.
    pub fn unstable_offsets(&self, group: &str) -> Result<Vec<(StrBytes, i32)>, ErrorCode> {
        let partition = self.partition_of(group)?;
        let slots = self.slots.borrow();
        let Some(slot) = slots.get(&partition).filter(|slot| !slot.open.is_empty()) else {
            return Ok(Vec::new());
        };
        let records = slot
            .open
            .records()
            .filter_map(|written| GroupRecord::decode(&written.key, written.value.as_deref()).ok());
        let offsets = records.flatten().filter_map(|record| match record {
            GroupRecord::Offset {
                group: of,
                topic,
                partition,
                ..
            } if of.as_str() == group => Some((topic, partition)),
            _ => None,
        });
        Ok(offsets.collect())
    }
}
