//! Detects faults in the records read: duplicated, disordered, damaged, missing.
//!
//! A [`Checker`] reads the records of some partitions once, from wherever its reader starts.
//! Invariant: a fault in the log is counted once per record, whatever the reader does: a record
//! that is read again at an already read offset (after a reconnect) is neither duplicated nor
//! disordered.
//!
//! Order is checked among the records of one producer, partition and run: unacknowledged records of
//! an earlier run may still arrive after the next one has begun.

use std::collections::BTreeMap;

use super::numbers::Numbers;
use super::run_of;
use super::stamp::Stamp;
use crate::load::PartitionPlace;

/// Limit on the faults that are described; the rest are only counted.
const FINDINGS_MAX: usize = 20;

/// The numbered sequence that a producer writes to a partition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Stream {
    /// The partition.
    pub place: PartitionPlace,
    /// Index of the producer.
    pub producer: u32,
}

/// The records that were read of a stream.
#[derive(Clone, Debug, Default)]
pub struct StreamReads {
    /// The numbers read.
    pub numbers: Numbers,
    /// The first number read, where the reader began.
    pub first: u64,
    /// The largest number so far.
    highest: u64,
}

/// Checks the records read.
#[derive(Clone, Debug, Default)]
pub struct Checker {
    id: u64,
    streams: BTreeMap<Stream, StreamReads>,
    /// First unread offset of each partition.
    next: BTreeMap<PartitionPlace, i64>,
    /// Read more than once.
    pub duplicated: u64,
    /// Read after a later one.
    pub disordered: u64,
    /// Read with other bytes than written, or in another partition.
    pub damaged: u64,
    /// Descriptions of the first faults.
    pub findings: Vec<String>,
}

impl Checker {
    /// Creates a checker for the verification with this id; it ignores records of others.
    pub fn of(id: u64) -> Self {
        Self {
            id,
            ..Self::default()
        }
    }

    /// Checks a record.
    pub fn read(&mut self, place: PartitionPlace, offset: i64, value: Option<&[u8]>) {
        let next = self.next.entry(place).or_insert(i64::MIN);
        let again = offset < *next;
        *next = (*next).max(offset.saturating_add(1));
        let Some(stamp) = value.and_then(Stamp::read) else {
            self.damaged += u64::from(!again);
            return self.note(again, || format!("damaged: {place} offset {offset}"));
        };
        if stamp.id != self.id {
            return;
        }
        if stamp.place != place {
            self.damaged += u64::from(!again);
            let there = stamp.place;
            return self.note(again, || {
                format!("damaged: {place} offset {offset} is a record of {there}")
            });
        }
        self.judge(&stamp, offset, again);
    }

    fn judge(&mut self, stamp: &Stamp, offset: i64, again: bool) {
        let (producer, place, number) = (stamp.producer, stamp.place, stamp.number);
        let seen = self
            .streams
            .entry(Stream { place, producer })
            .or_insert_with(|| StreamReads {
                first: number,
                ..StreamReads::default()
            });
        let is_new = seen.numbers.insert(number);
        let behind = number < seen.highest && run_of(number) == run_of(seen.highest);
        seen.highest = seen.highest.max(number);
        if again {
            return;
        }
        let what = match (is_new, behind) {
            (false, _) => {
                self.duplicated += 1;
                "duplicated"
            }
            (true, true) => {
                self.disordered += 1;
                "disordered"
            }
            (true, false) => return,
        };
        self.note(false, || {
            format!("{what}: {place} offset {offset}, producer {producer} number {number}")
        });
    }

    fn note(&mut self, again: bool, what: impl FnOnce() -> String) {
        if !again && self.findings.len() < FINDINGS_MAX {
            self.findings.push(what());
        }
    }

    /// Returns the records read of each stream.
    pub fn streams(&self) -> &BTreeMap<Stream, StreamReads> {
        &self.streams
    }

    /// Returns the number of distinct records read.
    pub fn count(&self) -> u64 {
        self.streams.values().map(|seen| seen.numbers.count()).sum()
    }

    /// Adds the result of another reader of the same group; a record that both read is a duplicate.
    pub fn absorb(&mut self, other: &Self) {
        self.id = other.id;
        for (stream, theirs) in &other.streams {
            let ours = self.streams.entry(*stream).or_insert_with(|| StreamReads {
                first: theirs.first,
                ..StreamReads::default()
            });
            self.duplicated += ours.numbers.absorb(&theirs.numbers);
            ours.first = ours.first.min(theirs.first);
            ours.highest = ours.highest.max(theirs.highest);
        }
        self.duplicated += other.duplicated;
        self.disordered += other.disordered;
        self.damaged += other.damaged;
        let room = FINDINGS_MAX.saturating_sub(self.findings.len());
        self.findings
            .extend(other.findings.iter().take(room).cloned());
    }
}

/// Returns the acknowledged numbers that were not read, as (stream, first, last).
///
/// With `window`, only those between the first and the last number read of a stream: a reader that
/// began late or ended early has not lost the records outside.
pub fn missing<'a>(
    acknowledged: &'a BTreeMap<Stream, Numbers>,
    seen: &'a BTreeMap<Stream, StreamReads>,
    window: bool,
) -> impl Iterator<Item = (Stream, u64, u64)> + 'a {
    static NOTHING: Numbers = Numbers::none();
    acknowledged.iter().flat_map(move |(stream, numbers)| {
        let read = seen.get(stream);
        let (from, to) = match read {
            _ if !window => (0, u64::MAX),
            Some(read) => (read.first, read.numbers.last().unwrap_or(0)),
            None => (1, 0),
        };
        numbers
            .without(read.map_or(&NOTHING, |read| &read.numbers))
            .map(move |(first, last)| (*stream, first.max(from), last.min(to)))
            .filter(|(_, first, last)| first <= last)
    })
}

#[cfg(test)]
mod tests;
