//! Judges what is read: seen before, behind a later one, damaged, missing.
//!
//! One [`Checker`] sees the records of some partitions once, from wherever its reader starts. Invariant: a
//! fault in the log is counted once per record, whatever the reader does: a record that is read again at an
//! offset that was read already (after a reconnect) is neither a duplicate nor disordered.
//!
//! Order is judged among the records of one producer, partition and run: of an earlier run, what was never
//! acknowledged may still have been on its way when the next one began.

use std::collections::BTreeMap;

use super::numbers::Numbers;
use super::run_of;
use super::stamp::Stamp;
use crate::load::Place;

/// Faults that are described one by one; the rest is only counted.
const FINDINGS_MAX: usize = 20;

/// The numbered sequence that a producer writes to a partition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Stream {
    /// Where.
    pub place: Place,
    /// Index of the producer.
    pub producer: u32,
}

/// What was read of a stream.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The numbers.
    pub numbers: Numbers,
    /// The first that was read, where its reader began.
    pub first: u64,
    /// The largest so far.
    highest: u64,
}

/// Judges what is read.
#[derive(Clone, Debug, Default)]
pub struct Checker {
    id: u64,
    streams: BTreeMap<Stream, Seen>,
    /// First offset of each partition that was not read yet.
    next: BTreeMap<Place, i64>,
    /// Read more than once.
    pub duplicated: u64,
    /// Read behind a later one.
    pub disordered: u64,
    /// Read with other bytes than written, or in another partition.
    pub damaged: u64,
    /// What the first faults were, in words.
    pub findings: Vec<String>,
}

impl Checker {
    /// Checks the records of the verification with this id; those of others are none of its business.
    pub fn of(id: u64) -> Self {
        Self {
            id,
            ..Self::default()
        }
    }

    /// A record was read.
    pub fn read(&mut self, place: Place, offset: i64, value: Option<&[u8]>) {
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
            .or_insert_with(|| Seen {
                first: number,
                ..Seen::default()
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

    /// What was read of each stream.
    pub fn streams(&self) -> &BTreeMap<Stream, Seen> {
        &self.streams
    }

    /// Different records that were read.
    pub fn count(&self) -> u64 {
        self.streams.values().map(|seen| seen.numbers.count()).sum()
    }

    /// Adds what another reader of the same group saw. Of records that both saw one is a duplicate.
    pub fn absorb(&mut self, other: &Self) {
        self.id = other.id;
        for (stream, theirs) in &other.streams {
            let ours = self.streams.entry(*stream).or_insert_with(|| Seen {
                first: theirs.first,
                ..Seen::default()
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

/// What of `acknowledged` is missing in what was read, as (stream, first, last). With `window`, only what lies
/// between the first and the last that was read of a stream: a reader that began late or ended early has not
/// lost what it never asked for.
pub fn missing<'a>(
    acknowledged: &'a BTreeMap<Stream, Numbers>,
    seen: &'a BTreeMap<Stream, Seen>,
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
