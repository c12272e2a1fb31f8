//! Offsets that transactions have written and that do not count yet.
//!
//! They take effect when the transaction's commit marker is there, in the place of the log where they were written: an
//! offset that was committed without a transaction after them stands. Until then a reader that asks for stable offsets
//! is told to come back, and neither the offset nor its group expires.

use std::collections::BTreeMap;

use bytes::Bytes;
use wire::protocol::StrBytes;
use wire::types::{Offset, ProducerId, TimestampMs, Uuid};

use super::records::GroupRecord;

/// Partitions, by their topic's name, and the id that the topic had.
pub(crate) type Unstable = BTreeMap<(StrBytes, i32), Uuid>;

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

    /// What of each group is open.
    pub(super) fn by_group(&self) -> BTreeMap<StrBytes, Unstable> {
        let mut all: BTreeMap<StrBytes, Unstable> = BTreeMap::new();
        for (_, written) in self.by_producer.values().flatten() {
            let record = GroupRecord::decode(&written.key, written.value.as_deref());
            if let Ok(Some(GroupRecord::Offset {
                group,
                topic,
                partition,
                value,
            })) = record
            {
                let id = value.map_or(Uuid::nil(), |value| value.topic_id);
                let mine = all.entry(group).or_default();
                mine.insert((topic, partition), id);
            }
        }
        all
    }

    /// What of one group is open.
    pub(super) fn of_group(&self, group: &str) -> Unstable {
        if self.is_empty() {
            return Unstable::new();
        }
        let all = self.by_group().into_iter();
        let mut mine = all.filter(|(id, _)| id.as_str() == group);
        mine.next()
            .map(|(_, unstable)| unstable)
            .unwrap_or_default()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_producer.is_empty()
    }
}
