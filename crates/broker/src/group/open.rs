//! Offsets of transactions that have not taken effect yet.
//!
//! They take effect when the transaction's commit marker is committed, but keep their place in the
//! log: an offset that was committed later without a transaction stands. Until then a reader of
//! stable offsets gets an error to retry, and neither the offset nor its group expires.
//!
//! Only offsets take effect. No coordinator, neither Kafka's nor this one, writes any other record
//! of a group in a transaction. Such a record of a tool is skipped and counted, at run time and at
//! a start alike, because the group may have changed since.

use std::collections::BTreeMap;

use bytes::Bytes;
use storage::log::producer_state::TransactionOutcome;
use wire::protocol::StrBytes;
use wire::types::{Offset, ProducerId, TimestampMs, Uuid};

use super::records::GroupRecord;

/// Partitions by topic name and index, with the topic's id.
pub(crate) type UnstablePartitions = BTreeMap<(StrBytes, i32), Uuid>;

/// A record in the log.
#[derive(Clone, Debug)]
pub struct LoggedRecord {
    /// The key.
    pub key: Bytes,
    /// The value; `None` for a tombstone.
    pub value: Option<Bytes>,
    /// The offset in the log.
    pub offset: Offset,
    /// The timestamp.
    pub timestamp: TimestampMs,
}

/// Records of open transactions in one partition, by producer, with an index by group.
///
/// With the index, neither a question about one group nor a commit looks at records of other
/// groups.
#[derive(Default, Debug)]
pub struct OpenTransactions {
    // Bounded: `groups::weight::check_growth`, which counts its bytes.
    by_producer: BTreeMap<i64, BTreeMap<RecordSerial, LoggedRecord>>,
    /// Invariant: every entry is an offset record in `by_producer` or `closed`.
    // Bounded: `groups::weight::check_growth`, as the records.
    by_group: BTreeMap<StrBytes, OfGroup>,
    /// Records of committed transactions that are about to take effect, by transaction.
    // Bounded: `groups::weight::check_growth`, which counts its bytes.
    closed: BTreeMap<ClosedTransaction, BTreeMap<RecordSerial, LoggedRecord>>,
    next: RecordSerial,
    /// Bytes of keys and values.
    bytes: usize,
    /// Records of committed transactions that took no effect, since they were last asked for.
    skipped: u64,
}

/// Open records of one group, by topic and partition.
pub(super) type OfGroup = BTreeMap<(StrBytes, i32), BTreeMap<RecordSerial, Source>>;

/// Numbers records in the order in which they were added.
pub(super) type RecordSerial = u64;

/// A transaction that ended: its producer, and the next serial at that time.
pub(super) type ClosedTransaction = (i64, RecordSerial);

/// The origin of an open offset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    producer: i64,
    topic_id: Uuid,
}

/// The subject of a record: the group, the partition, and the topic's id.
type RecordSubject = (StrBytes, (StrBytes, i32), Uuid);

impl OpenTransactions {
    /// Keeps a record until its transaction ends.
    pub fn add(&mut self, producer: ProducerId, record: LoggedRecord) {
        let (producer, serial) = (producer.0, self.next);
        self.next += 1;
        self.bytes = self.bytes.saturating_add(size(&record));
        if let Some((group, partition, topic_id)) = about(&record.key, record.value.as_deref()) {
            let mine = self.by_group.entry(group).or_default();
            let source = Source { producer, topic_id };
            mine.entry(partition).or_default().insert(serial, source);
        }
        let records = self.by_producer.entry(producer).or_default();
        let taken = records.insert(serial, record);
        assert!(taken.is_none(), "a number is one record's");
    }

    /// Removes the records of a transaction that ended, and returns those that take effect.
    pub fn end(&mut self, producer: ProducerId, outcome: TransactionOutcome) -> Vec<LoggedRecord> {
        let ended = self.by_producer.remove(&producer.0).unwrap_or_default();
        let records = self.ended(ended);
        match outcome {
            TransactionOutcome::Commit => self.effective(records),
            TransactionOutcome::Abort => Vec::new(),
        }
    }

    fn ended(&mut self, records: BTreeMap<RecordSerial, LoggedRecord>) -> Vec<LoggedRecord> {
        for (serial, record) in &records {
            self.forget(*serial, record);
        }
        self.check();
        records.into_values().collect()
    }

    /// Returns what takes effect of a committed transaction.
    ///
    /// That includes what cannot be read: the caller finds that out and acts on it.
    fn effective(&mut self, mut records: Vec<LoggedRecord>) -> Vec<LoggedRecord> {
        let all = records.len();
        records.retain(|record| !is_no_offset(&record.key));
        let skipped = all.saturating_sub(records.len());
        self.skipped = self.skipped.saturating_add(skipped as u64);
        records
    }

    /// Returns how many records of committed transactions were skipped since the last call.
    pub(super) fn take_skipped(&mut self) -> u64 {
        std::mem::take(&mut self.skipped)
    }

    /// Asserts what holds between calls.
    fn check(&self) {
        if self.is_empty() {
            assert_eq!(self.bytes, 0, "the sum of the records that are open");
            assert!(
                self.by_group.is_empty(),
                "each entry is a record that is open"
            );
        }
    }

    /// Marks a transaction as committed and about to take effect.
    ///
    /// Its records stay until [`Self::take_closed`]; records that its producer adds later are not
    /// part of it.
    pub(super) fn close(&mut self, producer: ProducerId) -> Option<ClosedTransaction> {
        let records = self.by_producer.remove(&producer.0)?;
        let closed = (producer.0, self.next);
        // Two transactions that end without a record between them share one entry, and the first to
        // be taken has all records.
        self.closed.entry(closed).or_default().extend(records);
        Some(closed)
    }

    /// Removes the remaining records of a transaction that was closed, and returns those that take
    /// effect.
    pub(super) fn take_closed(&mut self, closed: ClosedTransaction) -> Vec<LoggedRecord> {
        let ended = self.closed.remove(&closed).unwrap_or_default();
        let records = self.ended(ended);
        self.effective(records)
    }

    /// Returns a mark: records added later are not before it.
    pub(super) fn mark(&self) -> RecordSerial {
        self.next
    }

    /// Drops the records of a key from before the mark, because a newer one stands.
    pub(super) fn supersede(&mut self, key: &[u8], mark: RecordSerial) {
        let Some((group, partition, _)) = about(key, None) else {
            return;
        };
        let mine = self.by_group.get(&group);
        let Some(written) = mine.and_then(|mine| mine.get(&partition)) else {
            return;
        };
        let older = written.range(..mark);
        let older: Vec<(i64, RecordSerial)> = older
            .map(|(serial, source)| (source.producer, *serial))
            .collect();
        for one in older {
            self.remove(one);
        }
    }

    /// Removes one record from an open or a closed transaction.
    fn remove(&mut self, (producer, serial): (i64, RecordSerial)) {
        let open = self.by_producer.get_mut(&producer);
        let mut record = open.and_then(|records| records.remove(&serial));
        if self
            .by_producer
            .get(&producer)
            .is_some_and(BTreeMap::is_empty)
        {
            self.by_producer.remove(&producer);
        }
        if record.is_none() {
            // The first transaction of the producer that ended after this record is the record's
            // own.
            let mut ended = self
                .closed
                .range_mut((producer, serial.saturating_add(1))..);
            record = ended
                .next()
                .and_then(|(_, records)| records.remove(&serial));
        }
        if let Some(record) = record {
            self.forget(serial, &record);
        }
        self.check();
    }

    /// Updates the index and the bytes for a record that was removed.
    fn forget(&mut self, serial: RecordSerial, record: &LoggedRecord) {
        assert!(self.bytes >= size(record), "it was weighed as it came");
        self.bytes = self.bytes.saturating_sub(size(record));
        let Some((group, partition, _)) = about(&record.key, None) else {
            return;
        };
        let Some(mine) = self.by_group.get_mut(&group) else {
            return;
        };
        if let Some(written) = mine.get_mut(&partition) {
            written.remove(&serial);
            if written.is_empty() {
                mine.remove(&partition);
            }
        }
        if mine.is_empty() {
            self.by_group.remove(&group);
        }
    }

    /// Drops records that are older than the last plain record of their key.
    pub(super) fn without_older(mut self, positions: &BTreeMap<Bytes, Offset>) -> Self {
        let is_older = |record: &LoggedRecord| {
            let plain = positions.get(&record.key);
            plain.is_some_and(|plain| *plain >= record.offset)
        };
        let all = self.by_producer.iter();
        let all = all.flat_map(|(producer, records)| {
            let older = records.iter().filter(|(_, record)| is_older(record));
            older.map(|(serial, _)| (*producer, *serial))
        });
        let older: Vec<(i64, RecordSerial)> = all.collect();
        for one in older {
            self.remove(one);
        }
        self
    }

    /// Returns the groups with open offsets, and these offsets.
    pub(super) fn by_group(&self) -> impl Iterator<Item = (&StrBytes, UnstablePartitions)> {
        let all = self.by_group.iter();
        all.map(|(group, mine)| (group, unstable(mine)))
    }

    /// Returns a copy of the open offsets of one group.
    pub(super) fn of_group(&self, group: &StrBytes) -> UnstablePartitions {
        self.by_group.get(group).map(unstable).unwrap_or_default()
    }

    /// Returns the open offsets of one group without a copy.
    pub(super) fn all_of(&self, group: &StrBytes) -> Option<&OfGroup> {
        self.by_group.get(group)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_producer.is_empty() && self.closed.is_empty()
    }

    /// Returns the bytes of the records.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

fn size(record: &LoggedRecord) -> usize {
    let value = record.value.as_ref().map_or(0, Bytes::len);
    record.key.len().saturating_add(value)
}

/// Returns true for a key of a group's record that is not the key of an offset.
fn is_no_offset(key: &[u8]) -> bool {
    matches!(
        GroupRecord::decode(key, None),
        Ok(Some(
            GroupRecord::Metadata { .. } | GroupRecord::Consumer { .. }
        ))
    )
}

fn unstable(mine: &OfGroup) -> UnstablePartitions {
    let last = mine.iter().filter_map(|(partition, written)| {
        let (_, source) = written.last_key_value()?;
        Some((partition.clone(), source.topic_id))
    });
    last.collect()
}

fn about(key: &[u8], value: Option<&[u8]>) -> Option<RecordSubject> {
    match GroupRecord::decode(key, value) {
        Ok(Some(GroupRecord::Offset {
            group,
            topic,
            partition,
            value,
        })) => {
            let id = value.map_or(Uuid::nil(), |value| value.topic_id);
            Some((group, (topic, partition), id))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset(group: &str, partition: i32, at: i64) -> LoggedRecord {
        let text = |text: &str| StrBytes::from_string(text.to_owned());
        let record = GroupRecord::Offset {
            group: text(group),
            topic: text("t"),
            partition,
            value: None,
        };
        let (key, value) = record.encode();
        LoggedRecord {
            key,
            value,
            offset: Offset(at),
            timestamp: TimestampMs(0),
        }
    }

    /// Queries and supersedes each of fifty thousand groups: a scan of all others for each one
    /// would take more than an hour.
    #[test]
    fn what_is_open_of_one_group_is_found_without_looking_at_the_others() {
        let mut open = OpenTransactions::default();
        let groups: Vec<String> = (0..50_000).map(|at| format!("g{at}")).collect();
        for (at, group) in groups.iter().enumerate() {
            let producer = ProducerId(i64::try_from(at % 7).unwrap());
            open.add(producer, offset(group, 0, 1));
        }
        let mark = open.mark();
        open.add(ProducerId(0), offset("g0", 0, 2));
        for group in &groups {
            let id = StrBytes::from_string(group.clone());
            assert_eq!(open.of_group(&id).len(), 1);
            open.supersede(&offset(group, 0, 0).key, mark);
            let left = usize::from(group == "g0");
            assert_eq!(open.of_group(&id).len(), left, "{group}");
        }
        assert_eq!(open.by_group().count(), 1);
        assert!(open.bytes() > 0);
        let ended = open.end(ProducerId(0), TransactionOutcome::Commit);
        assert_eq!(ended.len(), 1);
        assert!(open.is_empty() && open.by_group().next().is_none() && open.bytes() == 0);
    }
}
