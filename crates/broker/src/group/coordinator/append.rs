//! From decisions to the log: a queue per partition, one append in flight, the next one gathering.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use platform::Platform;
use platform::sync::oneshot;
use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::{GroupCoordinator, OffsetsLog, Phase, Slot};
use crate::group::Now;
use crate::group::groups::{Append, Groups};
use crate::group::records::{GroupRecord, RawRecord};

/// Bytes of records gathered into one append. A larger decision is appended alone.
const GATHERED_BYTES_MAX: usize = 256 << 10;

type Done = oneshot::Sender<Result<(), ErrorCode>>;

/// What waits to be appended to one partition.
#[derive(Default)]
pub(super) struct Queue {
    entries: VecDeque<Entry>,
    next_sequence: u64,
    /// A task is appending and will come back for more.
    writing: bool,
}

struct Entry {
    sequence: u64,
    append: Append,
    done: Option<Done>,
}

impl Entry {
    fn consumer_groups(&self) -> impl Iterator<Item = StrBytes> {
        let consumer = |record: &&GroupRecord| matches!(record, GroupRecord::Consumer { .. });
        let records = self.append.records.iter().filter(consumer);
        records.map(|record| record.group().clone())
    }
}

impl Queue {
    pub(super) fn push(&mut self, append: Append, done: Option<Done>) -> u64 {
        self.next_sequence += 1;
        self.entries.push_back(Entry {
            sequence: self.next_sequence,
            append,
            done,
        });
        self.next_sequence
    }

    pub(super) fn last(&self) -> Option<&Append> {
        self.entries.back().map(|entry| &entry.append)
    }

    /// True when nobody was writing: now the caller is.
    pub(super) fn begin_writing(&mut self) -> bool {
        !std::mem::replace(&mut self.writing, true)
    }

    /// Takes out what was decided on the strength of `failed`: the state of a consumer group is in
    /// many records, and later ones mean something only after the earlier ones.
    fn take_dependent(&mut self, failed: &[Entry]) -> Vec<Entry> {
        let lost: BTreeSet<StrBytes> = failed.iter().flat_map(Entry::consumer_groups).collect();
        let depends = |entry: &Entry| entry.consumer_groups().any(|group| lost.contains(&group));
        let (taken, kept): (Vec<Entry>, Vec<Entry>) = self.entries.drain(..).partition(depends);
        self.entries = kept.into();
        taken
    }

    fn gather(&mut self) -> (Vec<Entry>, Vec<RawRecord>) {
        let mut entries = Vec::new();
        let mut records: Vec<RawRecord> = Vec::new();
        let mut bytes = 0;
        while let Some(next) = self.entries.front() {
            let raw: Vec<RawRecord> = next
                .append
                .records
                .iter()
                .map(GroupRecord::encode)
                .collect();
            bytes += raw.iter().map(size).sum::<usize>(); // Bounded: lengths of bytes in memory.
            if !records.is_empty() && bytes > GATHERED_BYTES_MAX {
                break;
            }
            records.extend(raw);
            entries.extend(self.entries.pop_front());
        }
        (entries, records)
    }
}

fn size((key, value): &RawRecord) -> usize {
    key.len() + value.as_ref().map_or(0, bytes::Bytes::len)
}

impl<P: Platform, L: OffsetsLog> GroupCoordinator<P, L> {
    /// Appends records and waits until they are committed. Without records: until what is on its
    /// way is.
    pub(super) async fn append(
        &self,
        partition: i32,
        records: Vec<GroupRecord>,
    ) -> Result<(), ErrorCode> {
        let queued = self.begin_append(partition, records);
        queued.await.unwrap_or(Err(ErrorCode::NotCoordinator))
    }

    /// Queues records; the result comes when they are committed.
    pub(super) fn begin_append(
        &self,
        partition: i32,
        records: Vec<GroupRecord>,
    ) -> oneshot::Receiver<Result<(), ErrorCode>> {
        let (sender, receiver) = oneshot::channel();
        self.enqueue(partition, Append::of(records), Some(sender));
        receiver
    }

    pub(super) fn has_queue(&self, partition: i32) -> bool {
        self.slots
            .borrow()
            .get(&partition)
            .is_some_and(|slot| slot.queue.writing)
    }

    /// Queues what `decide` says for each partition that is here, and does not wait.
    pub(super) fn write_behind(&self, decide: impl Fn(&mut Groups, Now) -> Vec<Vec<GroupRecord>>) {
        let now = self.now();
        let mut slots = self.slots.borrow_mut();
        let active = slots
            .iter_mut()
            .filter(|(_, slot)| slot.phase == Phase::Active);
        let decided: Vec<_> = active
            .map(|(index, slot)| (*index, decide(&mut slot.groups, now)))
            .collect();
        drop(slots);
        for (partition, groups) in decided {
            for records in groups {
                self.enqueue(partition, Append::of(records), None);
            }
        }
    }

    /// Appends until the queue is empty or the slot is gone.
    pub(super) async fn write_queue(self: Rc<Self>, partition: i32, incarnation: u64) {
        loop {
            let gathered = self.slot(partition, incarnation, |slot| {
                let gathered = slot.queue.gather();
                slot.queue.writing = !gathered.0.is_empty();
                gathered
            });
            let Some((entries, records)) = gathered.filter(|(entries, _)| !entries.is_empty())
            else {
                return;
            };
            let marked = self.slot(partition, incarnation, |slot| {
                let plain = !slot.groups.open.is_empty();
                let keys = records.iter().filter(|_| plain).map(|(key, _)| key.clone());
                (slot.groups.open.mark(), keys.collect::<Vec<_>>())
            });
            let result = if records.is_empty() {
                Ok(())
            } else {
                self.log
                    .append(partition, records, self.platform.clock().wall_ms())
                    .await
            };
            if let Some((mark, keys)) = marked.filter(|_| is_in_log(result)) {
                self.slot(partition, incarnation, |slot| {
                    for key in &keys {
                        slot.groups.open.supersede(key, mark);
                    }
                });
            }
            if let Err(error) = result {
                tracing::warn!(partition, %error, "group records were not committed");
            }
            let mut entries = entries;
            if !is_in_log(result) {
                let dependent = self.slot(partition, incarnation, |slot| {
                    slot.queue.take_dependent(&entries)
                });
                entries.extend(dependent.into_iter().flatten());
            }
            for entry in entries {
                self.settle(partition, incarnation, entry, result);
            }
        }
    }

    fn settle(
        &self,
        partition: i32,
        incarnation: u64,
        entry: Entry,
        result: Result<(), ErrorCode>,
    ) {
        let now = self.now();
        let appended = is_in_log(result);
        let outcome = result.map_err(client_error);
        let Entry {
            sequence,
            append,
            done,
        } = entry;
        let told = self.slot(partition, incarnation, |slot| {
            slot.groups.settle(sequence, append, appended, outcome, now)
        });
        // Whoever has hung up does not want the answer.
        let _ = done.map(|done| done.send(outcome));
        if let Some(told) = told {
            self.carry_out(partition, told);
        }
    }

    fn slot<R>(
        &self,
        partition: i32,
        incarnation: u64,
        work: impl FnOnce(&mut Slot) -> R,
    ) -> Option<R> {
        let mut slots = self.slots.borrow_mut();
        let slot = slots
            .get_mut(&partition)
            .filter(|slot| slot.incarnation == incarnation)?;
        Some(work(slot))
    }
}

fn is_in_log(result: Result<(), ErrorCode>) -> bool {
    matches!(result, Ok(()) | Err(ErrorCode::RequestTimedOut))
}

/// What a client is told of a failed append: errors that its coordinator lookup and retries
/// understand.
fn client_error(error: ErrorCode) -> ErrorCode {
    match error {
        ErrorCode::UnknownTopicOrPartition
        | ErrorCode::NotEnoughReplicas
        | ErrorCode::RequestTimedOut => ErrorCode::CoordinatorNotAvailable,
        ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError => ErrorCode::NotCoordinator,
        ErrorCode::MessageTooLarge
        | ErrorCode::RecordListTooLarge
        | ErrorCode::InvalidFetchSize => ErrorCode::UnknownServerError,
        other => other,
    }
}
