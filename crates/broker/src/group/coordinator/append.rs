//! From decisions to the log: one queue per partition, with one append in flight while the next one
//! is gathered.

use std::collections::{BTreeSet, VecDeque};
use std::pin::pin;
use std::rc::Rc;

use platform::Platform;
use platform::sync::oneshot;
use platform::task::timeout_at;
use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::{GroupAppendError, GroupCoordinator, GroupSlot, OffsetsLog};
use crate::group::groups::Append;
use crate::group::records::{GroupRecord, RawRecord};

/// Most bytes of records gathered into one append; a larger decision is appended alone.
const GATHERED_BYTES_MAX: usize = 256 << 10;

type Sender = oneshot::Sender<Result<(), ErrorCode>>;

/// The receiver of an entry's outcome.
pub(super) enum AppendReceiver {
    /// No receiver.
    Nobody,
    /// A client, which gets an error to retry when the append takes too long.
    Client(Sender),
    /// A task that continues when every entry before it is settled, however long that takes.
    Settled(Sender),
}

impl AppendReceiver {
    fn tell(self, outcome: Result<(), ErrorCode>) {
        match self {
            // A closed receiver belongs to a client that no longer waits.
            Self::Client(sender) | Self::Settled(sender) => drop(sender.send(outcome)),
            Self::Nobody => {}
        }
    }
}

/// The entries to append to one partition.
#[derive(Default)]
pub(super) struct Queue {
    // Bounded: changes are refused after the log is behind for `offsets.commit.timeout.ms`
    // (`stall`), and until then belong to requests in flight, `queued.max.request.bytes`.
    entries: VecDeque<Entry>,
    next_sequence: u64,
    /// True while a task appends; it continues with new entries.
    writing: bool,
}

struct Entry {
    sequence: u64,
    append: Append,
    /// Least bytes of its records.
    bytes: usize,
    done: AppendReceiver,
}

impl Entry {
    /// Returns true when the receiver relies on the entry's place behind what is in flight.
    fn keeps_its_place(&self) -> bool {
        matches!(self.done, AppendReceiver::Settled(_))
    }

    /// Returns the groups whose state its records change, and whether a record is of a consumer
    /// group.
    fn groups(&self) -> impl Iterator<Item = (&StrBytes, bool)> {
        let states = self.append.records.iter();
        let states = states.filter(|record| record.is_of_state());
        states.map(|record| {
            let is_consumer = matches!(record, GroupRecord::Consumer { .. });
            (record.group(), is_consumer)
        })
    }
}

impl Queue {
    pub(super) fn push(&mut self, append: Append, done: AppendReceiver) -> u64 {
        self.next_sequence += 1;
        let records = append.records.iter();
        let bytes = records.fold(0, |all: usize, record| all.saturating_add(record.size()));
        let last = self.entries.back();
        assert!(
            last.is_none_or(|last| last.sequence < self.next_sequence),
            "entries are queued in the order of their numbers"
        );
        self.entries.push_back(Entry {
            sequence: self.next_sequence,
            append,
            bytes,
            done,
        });
        self.next_sequence
    }

    pub(super) fn last(&self) -> Option<&Append> {
        self.entries.back().map(|entry| &entry.append)
    }

    /// Returns true when no task was writing; the caller then is the writer.
    pub(super) fn begin_writing(&mut self) -> bool {
        !std::mem::replace(&mut self.writing, true)
    }

    /// Removes the entries that were decided on the basis of `failed` ones.
    ///
    /// The state of a consumer group is in many records, and a later one is valid only after the
    /// earlier ones. A group of one protocol may begin only after the one of the other protocol
    /// with the same name has ended. The record of a classic group is its whole state, which is
    /// valid after any earlier one.
    fn take_dependent(&mut self, failed: &[Entry]) -> Vec<Entry> {
        let lost: BTreeSet<(&StrBytes, bool)> = failed.iter().flat_map(Entry::groups).collect();
        if lost.is_empty() {
            return Vec::new();
        }
        let depends = |entry: &Entry| {
            let mut groups = entry.groups();
            groups.any(|(group, is_consumer)| {
                lost.contains(&(group, true)) || is_consumer && lost.contains(&(group, false))
            })
        };
        let (taken, kept): (Vec<Entry>, Vec<Entry>) = self.entries.drain(..).partition(depends);
        self.entries = kept.into();
        taken
    }

    /// Removes the entries that are not being appended, except those that keep their place.
    fn take_unsent(&mut self) -> Vec<Entry> {
        let all = self.entries.drain(..);
        let (kept, taken): (Vec<Entry>, Vec<Entry>) = all.partition(Entry::keeps_its_place);
        self.entries = kept.into();
        taken
    }

    /// Returns the next entries to append, of at most `bytes_max` bytes, with their records.
    ///
    /// An entry that is larger than that is returned alone and without its records: the log would
    /// refuse them, so they are not encoded.
    fn gather(&mut self, bytes_max: usize) -> (Vec<Entry>, Vec<RawRecord>) {
        let mut entries = Vec::new();
        let mut records: Vec<RawRecord> = Vec::new();
        let mut bytes = 0;
        while let Some(next) = self.entries.front() {
            if next.bytes > bytes_max {
                if entries.is_empty() {
                    entries.extend(self.entries.pop_front());
                }
                break;
            }
            if bytes > 0 && next.bytes.saturating_add(bytes) > GATHERED_BYTES_MAX {
                break;
            }
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
        assert!(
            records.is_empty() || !entries.is_empty(),
            "each record is of an entry"
        );
        (entries, records)
    }
}

fn size((key, value): &RawRecord) -> usize {
    key.len() + value.as_ref().map_or(0, bytes::Bytes::len)
}

impl<P: Platform, L: OffsetsLog> GroupCoordinator<P, L> {
    /// Appends records and waits until they are committed; without records, until everything in
    /// flight is.
    pub(super) async fn append(
        &self,
        partition: i32,
        records: Vec<GroupRecord>,
    ) -> Result<(), ErrorCode> {
        let queued = self.begin_append(partition, records);
        queued.await.unwrap_or(Err(ErrorCode::NotCoordinator))
    }

    /// Queues records; the receiver gets the outcome when it is known.
    pub(super) fn begin_append(
        &self,
        partition: i32,
        records: Vec<GroupRecord>,
    ) -> oneshot::Receiver<Result<(), ErrorCode>> {
        let (sender, receiver) = oneshot::channel();
        self.enqueue(
            partition,
            Append::of(records),
            AppendReceiver::Client(sender),
        );
        receiver
    }

    /// Waits until everything in flight is settled; returns false when the slot is removed
    /// meanwhile.
    pub(super) async fn settled(&self, partition: i32) -> bool {
        if !self.has_queue(partition) {
            return true;
        }
        let (sender, receiver) = oneshot::channel();
        self.enqueue(
            partition,
            Append::of(Vec::new()),
            AppendReceiver::Settled(sender),
        );
        receiver.await.is_ok()
    }

    pub(super) fn has_queue(&self, partition: i32) -> bool {
        self.slots
            .borrow()
            .get(&partition)
            .is_some_and(|slot| slot.queue.writing)
    }

    /// Appends until the queue is empty or the slot is removed.
    pub(super) async fn write_queue(self: Rc<Self>, partition: i32, incarnation: u64) {
        loop {
            let bytes_max = self.log.batch_bytes_max(partition);
            let gathered = self.slot(partition, incarnation, |slot| {
                let gathered = slot.queue.gather(bytes_max);
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
            let (mut entries, written) = self
                .write_out((partition, incarnation), entries, records)
                .await;
            if let Some((mark, keys)) = marked.filter(|_| written.is_ok()) {
                self.slot(partition, incarnation, |slot| {
                    for key in &keys {
                        slot.groups.open.supersede(key, mark);
                    }
                });
            }
            match written {
                Ok(()) => {}
                Err(GroupAppendError::Refused(error)) => {
                    let now = self.platform.clock().now();
                    if let Some(unsaid) = self.unwritten.turn(now) {
                        tracing::warn!(partition, %error, unsaid, "group records were not written");
                    }
                    let dependent = self.slot(partition, incarnation, |slot| {
                        slot.queue.take_dependent(&entries)
                    });
                    entries.extend(dependent.into_iter().flatten());
                }
                Err(GroupAppendError::Unknown) => {
                    tracing::error!(
                        partition,
                        "nobody knows whether group records are in the log: groups are not served"
                    );
                    return self.fail(partition, incarnation);
                }
            }
            for entry in entries {
                self.settle(partition, incarnation, entry, written);
            }
        }
    }

    /// Appends and returns when the outcome is known.
    ///
    /// If that takes longer than clients wait, they get an error, and the slot stalls until the
    /// outcome is known.
    async fn write_out(
        &self,
        (partition, incarnation): (i32, u64),
        mut entries: Vec<Entry>,
        records: Vec<RawRecord>,
    ) -> (Vec<Entry>, Result<(), GroupAppendError>) {
        if records.is_empty() {
            let too_large = entries.iter().any(|entry| entry.bytes > 0);
            let refused = GroupAppendError::Refused(ErrorCode::MessageTooLarge);
            return (entries, if too_large { Err(refused) } else { Ok(()) });
        }
        let clock = self.platform.clock();
        let deadline = clock.now() + self.options.offset_commit_timeout;
        let mut fate = pin!(self.log.append(partition, records, clock.wall_ms()));
        if let Ok(known) = timeout_at(deadline, &mut fate).await {
            return (entries, known);
        }
        tracing::warn!(
            partition,
            "the log is slow to commit: groups change nothing"
        );
        self.stall(partition, incarnation, &mut entries);
        let known = fate.await;
        self.go_on(partition, incarnation);
        (entries, known)
    }

    /// Answers the waiting requests with an error and drops the entries that are not being
    /// appended.
    fn stall(&self, partition: i32, incarnation: u64, in_flight: &mut [Entry]) {
        let error = ErrorCode::CoordinatorNotAvailable;
        let now = self.now();
        let stalled = self.slot(partition, incarnation, |slot| {
            self.metrics.stalled_partitions.inc();
            slot.stalled = true;
            let unsent = slot.queue.take_unsent();
            let told = in_flight
                .iter_mut()
                .map(|entry| slot.groups.stop_waiting(&mut entry.append, error, now));
            (unsent, told.collect::<Vec<_>>())
        });
        let Some((unsent, told)) = stalled else {
            return;
        };
        for entry in in_flight
            .iter_mut()
            .filter(|entry| !entry.keeps_its_place())
        {
            std::mem::replace(&mut entry.done, AppendReceiver::Nobody).tell(Err(error));
        }
        for outcome in told {
            self.carry_out(partition, outcome);
        }
        for entry in unsent {
            self.settle(
                partition,
                incarnation,
                entry,
                Err(GroupAppendError::Refused(error)),
            );
        }
    }

    /// Ends a stall: members get a whole session, because their heartbeats were not handled
    /// meanwhile.
    fn go_on(&self, partition: i32, incarnation: u64) {
        let now = self.now();
        self.slot(partition, incarnation, |slot| {
            self.metrics.stalled_partitions.dec();
            slot.stalled = false;
            slot.groups.resume(now);
        });
        tracing::info!(partition, "the log has committed: groups go on");
        self.rearm();
    }

    fn settle(
        &self,
        partition: i32,
        incarnation: u64,
        entry: Entry,
        written: Result<(), GroupAppendError>,
    ) {
        let now = self.now();
        let appended = written.is_ok();
        let outcome = written.map_err(|unwritten| match unwritten {
            GroupAppendError::Refused(error) => client_error(error),
            GroupAppendError::Unknown => ErrorCode::NotCoordinator,
        });
        let Entry {
            sequence,
            append,
            done,
            ..
        } = entry;
        let told = self.slot(partition, incarnation, |slot| {
            let told = slot.groups.settle(sequence, append, appended, outcome, now);
            (told, slot.groups.take_rebalances())
        });
        done.tell(outcome);
        if let Some((told, rebalances)) = told {
            self.metrics.rebalanced(rebalances);
            self.carry_out(partition, told);
        }
    }

    pub(super) fn slot<R>(
        &self,
        partition: i32,
        incarnation: u64,
        work: impl FnOnce(&mut GroupSlot) -> R,
    ) -> Option<R> {
        let mut slots = self.slots.borrow_mut();
        let slot = slots
            .get_mut(&partition)
            .filter(|slot| slot.incarnation == incarnation)?;
        Some(work(slot))
    }
}

/// Returns the error for a client after a failed append: one that makes it retry or look up the
/// coordinator.
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
