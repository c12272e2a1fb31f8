//! From decisions to the log: a queue per partition, one append in flight, the next one gathering.

use std::collections::{BTreeSet, VecDeque};
use std::pin::pin;
use std::rc::Rc;

use platform::Platform;
use platform::sync::oneshot;
use platform::task::timeout_at;
use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::{GroupCoordinator, OffsetsLog, Slot, Unwritten};
use crate::group::groups::Append;
use crate::group::records::{GroupRecord, RawRecord};

/// Bytes of records gathered into one append. A larger decision is appended alone.
const GATHERED_BYTES_MAX: usize = 256 << 10;

type Sender = oneshot::Sender<Result<(), ErrorCode>>;

/// Who is told what became of an entry.
pub(super) enum Done {
    /// Nobody.
    Nobody,
    /// A client, who is told to come back when it takes too long.
    Client(Sender),
    /// Somebody who goes on when all before it is settled, whenever that is.
    Settled(Sender),
}

impl Done {
    fn tell(self, outcome: Result<(), ErrorCode>) {
        match self {
            // Whoever has hung up does not want the answer.
            Self::Client(sender) | Self::Settled(sender) => drop(sender.send(outcome)),
            Self::Nobody => {}
        }
    }
}

/// What waits to be appended to one partition.
#[derive(Default)]
pub(super) struct Queue {
    // Bounded: changes are refused once the log is behind for `offsets.commit.timeout.ms` (`stall`), and until then are requests in
    // flight, `queued.max.request.bytes`.
    entries: VecDeque<Entry>,
    next_sequence: u64,
    /// A task is appending and will come back for more.
    writing: bool,
}

struct Entry {
    sequence: u64,
    append: Append,
    /// What its records take at least.
    bytes: usize,
    done: Done,
}

impl Entry {
    /// True when somebody counts on its place behind what is in flight.
    fn keeps_its_place(&self) -> bool {
        matches!(self.done, Done::Settled(_))
    }

    fn consumer_groups(&self) -> impl Iterator<Item = StrBytes> {
        let consumer = |record: &&GroupRecord| matches!(record, GroupRecord::Consumer { .. });
        let records = self.append.records.iter().filter(consumer);
        records.map(|record| record.group().clone())
    }
}

impl Queue {
    pub(super) fn push(&mut self, append: Append, done: Done) -> u64 {
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

    /// True when nobody was writing: now the caller is.
    pub(super) fn begin_writing(&mut self) -> bool {
        !std::mem::replace(&mut self.writing, true)
    }

    /// Takes out what was decided on the strength of `failed`: the state of a consumer group is in
    /// many records, and later ones mean something only after the earlier ones.
    fn take_dependent(&mut self, failed: &[Entry]) -> Vec<Entry> {
        let lost: BTreeSet<StrBytes> = failed.iter().flat_map(Entry::consumer_groups).collect();
        if lost.is_empty() {
            return Vec::new();
        }
        let depends = |entry: &Entry| entry.consumer_groups().any(|group| lost.contains(&group));
        let (taken, kept): (Vec<Entry>, Vec<Entry>) = self.entries.drain(..).partition(depends);
        self.entries = kept.into();
        taken
    }

    /// Takes out what has not been appended, save for who waits for his place.
    fn take_unsent(&mut self) -> Vec<Entry> {
        let all = self.entries.drain(..);
        let (kept, taken): (Vec<Entry>, Vec<Entry>) = all.partition(Entry::keeps_its_place);
        self.entries = kept.into();
        taken
    }

    /// What is appended next, at most `bytes_max` of it. A decision that is larger than that by itself comes alone and
    /// without its records: they are not worth making, and the log would refuse them.
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
        self.enqueue(partition, Append::of(records), Done::Client(sender));
        receiver
    }

    /// Waits until all that is on its way is in the log, or is known not to be; false when the slot goes meanwhile.
    pub(super) async fn settled(&self, partition: i32) -> bool {
        if !self.has_queue(partition) {
            return true;
        }
        let (sender, receiver) = oneshot::channel();
        self.enqueue(partition, Append::of(Vec::new()), Done::Settled(sender));
        receiver.await.is_ok()
    }

    pub(super) fn has_queue(&self, partition: i32) -> bool {
        self.slots
            .borrow()
            .get(&partition)
            .is_some_and(|slot| slot.queue.writing)
    }

    /// Appends until the queue is empty or the slot is gone.
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
                Err(Unwritten::Refused(error)) => {
                    let now = self.platform.clock().now();
                    if let Some(unsaid) = self.unwritten.turn(now) {
                        tracing::warn!(partition, %error, unsaid, "group records were not written");
                    }
                    let dependent = self.slot(partition, incarnation, |slot| {
                        slot.queue.take_dependent(&entries)
                    });
                    entries.extend(dependent.into_iter().flatten());
                }
                Err(Unwritten::Unknown) => {
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

    /// Appends, and comes back when it is known what became of it. When that takes longer than clients wait, they are
    /// told so, and the slot stands still until it is known.
    async fn write_out(
        &self,
        (partition, incarnation): (i32, u64),
        mut entries: Vec<Entry>,
        records: Vec<RawRecord>,
    ) -> (Vec<Entry>, Result<(), Unwritten>) {
        if records.is_empty() {
            let too_large = entries.iter().any(|entry| entry.bytes > 0);
            let refused = Unwritten::Refused(ErrorCode::MessageTooLarge);
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

    /// Who waits is told; what is not in the log is forgotten.
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
            std::mem::replace(&mut entry.done, Done::Nobody).tell(Err(error));
        }
        for outcome in told {
            self.carry_out(partition, outcome);
        }
        for entry in unsent {
            self.settle(
                partition,
                incarnation,
                entry,
                Err(Unwritten::Refused(error)),
            );
        }
    }

    /// It is known what became of the records: members have a whole session to be heard of, for nobody listened.
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
        written: Result<(), Unwritten>,
    ) {
        let now = self.now();
        let appended = written.is_ok();
        let outcome = written.map_err(|unwritten| match unwritten {
            Unwritten::Refused(error) => client_error(error),
            Unwritten::Unknown => ErrorCode::NotCoordinator,
        });
        let Entry {
            sequence,
            append,
            done,
            ..
        } = entry;
        let told = self.slot(partition, incarnation, |slot| {
            slot.groups.settle(sequence, append, appended, outcome, now)
        });
        done.tell(outcome);
        if let Some(told) = told {
            self.carry_out(partition, told);
        }
    }

    pub(super) fn slot<R>(
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
