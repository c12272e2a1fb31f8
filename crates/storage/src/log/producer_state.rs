//! What one partition knows of its producers: enough to refuse gaps, answer duplicates with the
//! offsets of the first try, fence old epochs, and report which transactions are still open.
//!
//! Life of a producer: unknown (any first sequence is taken, since its state may have been deleted
//! with its records) -> known (each batch has to follow the last) -> expired after
//! `producer.id.expiration.ms` without a batch. A new epoch begins with sequence 0; an older one is
//! refused. Ids are not checked against those that were issued, because data of other clusters is
//! adopted with its producers. So their number is bounded, and those that have been idle longest
//! go.
//! Life of a transaction: open from its first record -> decided by the marker -> stable once the
//! high watermark passed the marker.
//! Invariants: the same bytes replayed give the same state, but for who goes beyond the bound,
//! which also depends on when looks were taken; [`ProducerStates::append`], `end_transaction` (both
//! through [`ProducerStates::replay`] in recovery), `expire`, `advance_*` and `restore` are the
//! only mutators.
//! It does not: read or write snapshot files (`producer_state/snapshot.rs` codes them), check CRCs,
//! know the clock.

#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        reason = "numbers of disks reach this: an index out of bounds ends the broker"
    )
)]

mod batches;
mod entry;
mod error;
mod idle;
mod marker;
pub mod snapshot;
mod taking;
mod transactions;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;

use platform::clock::Reading;
use wire::batch::BatchHeader;
use wire::types::{Offset, ProducerId, TimestampMs};

pub use batches::{AppendedBatch, BATCHES_KEPT_MAX};
pub use entry::Producer;
pub use error::ProducerError;
use idle::IdleProducers;
pub use marker::{EndMarker, TransactionOutcome};
pub use snapshot::ProducerSnapshot;
pub use taking::SnapshotProgress;
use taking::SnapshotTaking;
use transactions::Transactions;

use super::txn_index::AbortedTxn;

/// Most producers of a partition that are remembered, some 20 MB of them.
///
/// Beyond that, a new one takes the place of the one that wrote longest ago and has no transaction
/// open.
pub const PRODUCERS_MAX: usize = 1 << 16;

/// How many producers are looked at to make room for one, so that no batch waits for all of them.
const LOOKS_MAX: usize = 64;

/// From this number on, one goes that is not known to be the one that has been idle longest.
const PRODUCERS_CEILING: usize = PRODUCERS_MAX + PRODUCERS_MAX / LOOKS_MAX;

/// Memory of one producer, about: itself, its id and its note, in nodes that are two thirds full.
const PRODUCER_BYTES: usize =
    (size_of::<Producer>() + size_of::<ProducerId>() + size_of::<(Offset, ProducerId)>()) / 2 * 3;

/// Who appends, which decides how much is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A producer: epoch and sequence.
    Client,
    /// A group coordinator's transactional offset commit: epoch only, there are no sequences.
    Coordinator,
}

/// What to do with a batch that may be appended as far as its producer is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProducerCheck {
    /// Append it.
    New,
    /// It was appended before: answer with these offsets and append nothing.
    Duplicate(AppendedBatch),
}

/// The producers of one partition.
#[derive(Clone, Debug)]
pub struct ProducerStates {
    /// In order of the ids, so that snapshots are reproducible.
    // Bounded: `PRODUCERS_CEILING`, and those with open transactions.
    producers: BTreeMap<ProducerId, Producer>,
    idle: IdleProducers,
    transactions: Transactions,
    /// Everything below this offset is accounted for.
    end: Offset,
    /// The snapshot that is being taken.
    taking: Option<Box<SnapshotTaking>>,
}

impl ProducerStates {
    /// Starts without producers, for a log that starts (or is replayed from) `start`.
    pub fn new(start: Offset) -> Self {
        Self {
            producers: BTreeMap::new(),
            idle: IdleProducers::default(),
            transactions: Transactions::default(),
            end: start,
            taking: None,
        }
    }

    /// Restores the state of a snapshot taken at `end`, without the producers that have expired
    /// since.
    pub fn restore(
        end: Offset,
        snapshots: &[ProducerSnapshot],
        now: impl Into<Reading>,
        expiration_ms: i64,
    ) -> Self {
        let now = now.into();
        let mut states = Self::new(end);
        for snapshot in snapshots {
            let producer = Producer::restore(snapshot, end);
            if producer.is_expired(now, expiration_ms) {
                continue;
            }
            if let Some(first) = producer.transaction_start() {
                states.transactions.open(first, snapshot.producer_id);
            }
            states.producers.insert(snapshot.producer_id, producer);
        }
        states.idle = states.notes();
        states
    }

    /// Judges a batch of records before it gets offsets; a batch without a producer id is always
    /// new.
    pub fn check(
        &self,
        header: &BatchHeader,
        origin: Origin,
    ) -> Result<ProducerCheck, ProducerError> {
        let Some(producer) = self.producers.get(&header.producer_id) else {
            return Ok(ProducerCheck::New);
        };
        if origin == Origin::Client
            && let Some(batch) = producer.duplicate_of(header)
        {
            return Ok(ProducerCheck::Duplicate(batch));
        }
        producer.check_epoch(header)?;
        if origin == Origin::Client {
            producer.check_sequence(header)?;
        }
        producer.check_transaction(header)?;
        Ok(ProducerCheck::New)
    }

    /// Judges a transaction marker before it gets an offset.
    pub fn check_marker(
        &self,
        header: &BatchHeader,
        marker: EndMarker,
    ) -> Result<(), ProducerError> {
        match self.producers.get(&header.producer_id) {
            None => Ok(()),
            Some(producer) => producer.check_marker(header, marker),
        }
    }

    /// Returns true when the producer has a transaction open here, in this epoch.
    pub fn is_in_transaction(&self, producer_id: ProducerId, epoch: i16) -> bool {
        let producer = self.producers.get(&producer_id);
        producer.is_some_and(|producer| producer.is_in_transaction(epoch))
    }

    /// Returns true when something is known of the producer.
    pub fn knows(&self, producer_id: ProducerId) -> bool {
        self.producers.contains_key(&producer_id)
    }

    /// Notes a batch of records with its final offsets, without judging it again.
    pub fn append(&mut self, header: &BatchHeader) {
        self.end = header.next_offset();
        if header.producer_id.0 < 0 {
            return;
        }
        if self.producer(header).append(header) {
            self.transactions
                .open(header.base_offset, header.producer_id);
        }
    }

    /// Notes a transaction marker with its final offset.
    ///
    /// Returns what belongs into the transaction index when the marker aborted a transaction that
    /// had records here.
    pub fn end_transaction(
        &mut self,
        header: &BatchHeader,
        marker: EndMarker,
    ) -> Option<AbortedTxn> {
        self.end = header.next_offset();
        let first_offset = self.producer(header).end_transaction(header, marker)?;
        let last_offset = header.base_offset;
        let last_stable_offset = self
            .transactions
            .first_open_of_others(header.producer_id)
            .unwrap_or_else(|| last_offset.plus(1));
        self.transactions.decide(first_offset, last_offset);
        (marker.outcome == TransactionOutcome::Abort).then_some(AbortedTxn {
            producer_id: header.producer_id,
            first_offset,
            last_offset,
            last_stable_offset,
        })
    }

    /// Notes any batch found in the log (in recovery, or copied from a leader).
    ///
    /// `marker` is the first record of a control batch, when it has one and it is a transaction
    /// marker. Returns what belongs into the transaction index.
    pub fn replay(
        &mut self,
        header: &BatchHeader,
        marker: Option<EndMarker>,
    ) -> Option<AbortedTxn> {
        match marker {
            _ if header.producer_id.0 < 0 => {}
            Some(marker) if header.is_control() => return self.end_transaction(header, marker),
            // The records of this control batch were compacted away: its transaction is gone.
            None if header.is_control() => {}
            _ => self.append(header),
        }
        self.end = header.next_offset();
        None
    }

    /// Returns the first offset that is not decided for every reader.
    ///
    /// It is that of an open transaction, or of one decided by a marker at or past the high
    /// watermark. Readers at `read_committed` stop before it.
    pub fn first_unstable_offset(&self) -> Option<Offset> {
        self.transactions.first_unstable()
    }

    /// Returns the first offset of the oldest open transaction.
    pub fn first_open_offset(&self) -> Option<Offset> {
        self.transactions.first_open()
    }

    /// Makes decided transactions stable whose marker lies below the high watermark.
    pub fn advance_high_watermark(&mut self, high_watermark: Offset) {
        self.transactions.forget_decided_below(high_watermark);
    }

    /// Notes that the log now starts at `start`.
    pub fn advance_log_start(&mut self, start: Offset) {
        self.transactions.forget_decided_below(start);
        self.end = self.end.max(start);
    }

    /// Forgets producers without an open transaction and without a batch for `expiration_ms`.
    ///
    /// Returns how many.
    pub fn expire(&mut self, now: impl Into<Reading>, expiration_ms: i64) -> usize {
        let now = now.into();
        let before = self.producers.len();
        let taking = &mut self.taking;
        self.producers.retain(|&id, producer| {
            let is_expired = producer.is_expired(now, expiration_ms);
            if is_expired && let Some(taking) = taking {
                taking.before_change(id, Some(producer));
            }
            !is_expired
        });
        let expired = before - self.producers.len();
        if expired > 0 {
            self.idle = self.notes();
        }
        expired
    }

    /// Returns the producer of a batch, which is new here or known.
    fn producer(&mut self, header: &BatchHeader) -> &mut Producer {
        let id = header.producer_id;
        if self.producers.len() >= PRODUCERS_MAX && !self.producers.contains_key(&id) {
            self.make_room();
        }
        self.before_change(id);
        match self.producers.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                self.idle.note(header.last_offset(), id);
                new.insert(Producer::unknown())
            }
        }
    }

    /// Forgets the producer that has been idle longest, so that one more fits.
    ///
    /// It may not find it where many have written, or have a transaction open, since they were
    /// noted. Then there is one more, or that one goes of those it saw.
    fn make_room(&mut self) {
        let mut longest: Option<(Offset, ProducerId)> = None;
        for _ in 0..LOOKS_MAX {
            if self.producers.len() < PRODUCERS_MAX {
                break;
            }
            let Some((noted, id)) = self.idle.pop() else {
                break;
            };
            let Some(producer) = self.producers.get(&id) else {
                continue;
            };
            if producer.transaction_start().is_some() {
                self.idle.note(self.end, id);
            } else if producer.seen() <= noted {
                self.forget(id);
            } else {
                let this = (producer.seen(), id);
                let kept = longest.map_or(this, |other| other.min(this));
                if let Some((seen, id)) = longest.map(|other| other.max(this)) {
                    self.idle.note(seen, id);
                }
                longest = Some(kept);
            }
        }
        if let Some((seen, id)) = longest {
            if self.producers.len() < PRODUCERS_CEILING {
                self.idle.note(seen, id);
            } else {
                self.forget(id);
            }
        }
        assert!(
            self.idle.len() == self.producers.len(),
            "each producer has a note"
        );
    }

    fn forget(&mut self, id: ProducerId) {
        self.before_change(id);
        self.producers.remove(&id);
    }

    /// Keeps a producer for the snapshot that is being taken.
    fn before_change(&mut self, id: ProducerId) {
        if let Some(taking) = &mut self.taking {
            taking.before_change(id, self.producers.get(&id));
            if taking.keeps_too_much() {
                taking.copy(&self.producers, usize::MAX);
            }
        }
    }

    fn notes(&self) -> IdleProducers {
        let notes = self.producers.iter();
        IdleProducers::of(notes.map(|(&id, producer)| (producer.seen(), id)))
    }

    /// Returns what a snapshot file at [`ProducerStates::end`] holds.
    pub fn snapshot(&self) -> Vec<ProducerSnapshot> {
        self.snapshots_after(None, usize::MAX)
    }

    /// Returns `most` producers after `after`, in the order of their ids.
    pub fn snapshots_after(&self, after: Option<ProducerId>, most: usize) -> Vec<ProducerSnapshot> {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let some = self.producers.range((after, Bound::Unbounded)).take(most);
        some.map(|(&id, producer)| producer.snapshot(id)).collect()
    }

    /// Begins a snapshot as of [`ProducerStates::end`], which is called `at`; returns false while
    /// another one is being taken.
    pub fn begin_snapshot(&mut self, at: Offset) -> bool {
        if self.taking.is_some() {
            return false;
        }
        let producers = self.producers.len();
        self.taking = Some(Box::new(SnapshotTaking::begin(at, producers)));
        true
    }

    /// Copies `most` producers, or a few more, into the snapshot that is being taken.
    pub fn take_snapshot(&mut self, most: usize) -> SnapshotProgress {
        let Some(mut taking) = self.taking.take() else {
            return SnapshotProgress::None;
        };
        if taking.copy(&self.producers, most) {
            self.taking = Some(taking);
            return SnapshotProgress::More;
        }
        taking.finish()
    }

    /// Returns the offset below which everything is accounted for; it names the snapshot file.
    pub fn end(&self) -> Offset {
        self.end
    }

    /// Returns the largest producer id below `limit`.
    pub fn largest_below(&self, limit: ProducerId) -> Option<ProducerId> {
        let below = self.producers.range(..limit);
        below.map(|(id, _)| *id).next_back()
    }

    /// Returns the number of known producers.
    pub fn producer_count(&self) -> usize {
        self.producers.len()
    }

    /// Returns the memory of the known producers, about.
    pub fn bytes(&self) -> usize {
        self.producers.len().saturating_mul(PRODUCER_BYTES)
    }

    /// Returns when the oldest open transaction last had a record or marker.
    ///
    /// It serves to find transactions that hang.
    pub fn oldest_open_last_timestamp(&self) -> Option<TimestampMs> {
        let id = self.transactions.first_open_producer()?;
        self.producers.get(&id).map(Producer::last_timestamp)
    }
}

/// Returns the snapshot files of a log that have no use any more.
///
/// These are the ones without a segment that starts at their offset, except the newest one past
/// every segment (the one a clean stop leaves).
pub fn stray_snapshots(snapshots: &[Offset], segment_bases: &[Offset]) -> Vec<Offset> {
    let newest_segment = segment_bases.iter().max();
    let newest_stray = snapshots
        .iter()
        .filter(|offset| !segment_bases.contains(offset))
        .filter(|offset| newest_segment.is_none_or(|base| *offset >= base))
        .max();
    snapshots
        .iter()
        .filter(|offset| !segment_bases.contains(offset) && Some(*offset) != newest_stray)
        .copied()
        .collect()
}

#[cfg(test)]
mod tests;
