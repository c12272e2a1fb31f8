//! One run of a verification, as the generator uses it: assigns numbers, and takes acknowledgements
//! and the records read.
//!
//! Invariant: an acknowledgement is written to the ledger with the first one of the same producer
//! that comes [`WRITE_EVERY`] or more after the last write, and at the latest when the producer
//! ends. A failure to write the ledger does not end the load, but the verification fails.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::check::{Checker, Stream, missing};
use super::first_of;
use super::ledger::{AcknowledgedRange, Ledger};
use super::numbers::Numbers;
use super::stamp::{STAMP_BYTES, Stamp};
use crate::load::PartitionPlace;
use crate::load::hook::{ConsumerCheck, Numbering, Verification};
use crate::outcome::RecordCheckResult;

/// Longest time that acknowledgements are collected before they are written.
const WRITE_EVERY: Duration = Duration::from_millis(200);
/// Limit on the ranges of lost numbers that are described.
const LOST_FINDINGS_MAX: usize = 20;

/// One run of a verification.
pub struct Session {
    id: u64,
    run: u64,
    state: Arc<Mutex<VerifyState>>,
}

/// The state that all producers and consumers of the run share.
#[derive(Default)]
struct VerifyState {
    ledger: Option<Ledger>,
    /// The acknowledged numbers of all runs.
    acknowledged: BTreeMap<Stream, Numbers>,
    /// The numbers acknowledged in this run, for the caller of many hosts.
    fresh: BTreeMap<Stream, Numbers>,
    groups: BTreeMap<u32, Checker>,
    /// Why the ledger is incomplete.
    failure: Option<String>,
}

fn lock(state: &Mutex<VerifyState>) -> MutexGuard<'_, VerifyState> {
    // The state consists of sums and sets, which stay valid after a panic.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The result of a verification, with examples.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Findings {
    /// The counts.
    pub verified: RecordCheckResult,
    /// Descriptions of faults, and the number of records of each.
    pub examples: BTreeMap<String, u64>,
}

impl Session {
    /// Creates a run without a ledger.
    pub fn of(id: u64, run: u64) -> Self {
        Self {
            id,
            run,
            state: Arc::default(),
        }
    }

    /// Begins the next run of a ledger.
    pub fn next(mut ledger: Ledger, started_ms: i64) -> anyhow::Result<Self> {
        let run = ledger.begin_run(started_ms)?;
        Ok(Self::continued(ledger, run))
    }

    /// Opens a ledger to check its acknowledgements, without a new run.
    pub fn closed(ledger: Ledger) -> Self {
        Self::continued(ledger, 0)
    }

    fn continued(mut ledger: Ledger, run: u64) -> Self {
        let acknowledged = ledger.take_acknowledged();
        Self {
            id: ledger.subject().id,
            run,
            state: Arc::new(Mutex::new(VerifyState {
                ledger: Some(ledger),
                acknowledged,
                ..VerifyState::default()
            })),
        }
    }

    /// Returns the id and run, for numbering on other hosts.
    pub fn identity(&self) -> (u64, u64) {
        (self.id, self.run)
    }

    /// Adds the acknowledgements of other hosts.
    pub fn acknowledged_elsewhere(&self, pieces: &[AcknowledgedRange]) {
        lock(&self.state).acknowledge(pieces);
    }

    /// Returns the acknowledgements of this run.
    pub fn acknowledged_here(&self) -> Vec<AcknowledgedRange> {
        let state = lock(&self.state);
        let pieces = state.fresh.iter().flat_map(|(stream, numbers)| {
            let stream = *stream;
            numbers
                .ranges()
                .map(move |(first, last)| AcknowledgedRange {
                    stream,
                    first,
                    last,
                })
        });
        pieces.collect()
    }

    /// Returns the faults that the consumers of the load found.
    ///
    /// They may have begun late and ended early, so only records missed in between are lost. With
    /// several groups faults add up, and `read` is that of the group that read most.
    pub fn live(&self) -> Findings {
        let state = lock(&self.state);
        let mut found = Findings::default();
        for checker in state.groups.values() {
            found.add(checker, &state.acknowledged, true);
        }
        found.verified.acknowledged = state.count();
        found
    }

    /// Returns the faults that one reader of everything found.
    pub fn whole(&self, reader: &Checker) -> Findings {
        let state = lock(&self.state);
        let mut found = Findings::default();
        found.add(reader, &state.acknowledged, false);
        found.verified.acknowledged = state.count();
        found
    }

    /// Returns a checker of this verification.
    pub fn checker(&self) -> Checker {
        Checker::of(self.id)
    }

    /// Returns why the ledger is incomplete.
    pub fn failure(&self) -> Option<String> {
        lock(&self.state).failure.clone()
    }
}

impl VerifyState {
    fn acknowledge(&mut self, pieces: &[AcknowledgedRange]) {
        for piece in pieces {
            for set in [&mut self.acknowledged, &mut self.fresh] {
                set.entry(piece.stream)
                    .or_default()
                    .insert_range(piece.first, piece.last);
            }
        }
        let written = self
            .ledger
            .as_mut()
            .map_or(Ok(()), |ledger| ledger.write(pieces));
        if let Err(error) = written {
            self.failure.get_or_insert(format!("{error:#}"));
        }
    }

    fn count(&self) -> u64 {
        self.acknowledged.values().map(Numbers::count).sum()
    }
}

impl Findings {
    fn add(&mut self, reader: &Checker, acknowledged: &BTreeMap<Stream, Numbers>, window: bool) {
        let verified = &mut self.verified;
        verified.read = verified.read.max(reader.count());
        verified.duplicated += reader.duplicated;
        verified.disordered += reader.disordered;
        verified.damaged += reader.damaged;
        for finding in &reader.findings {
            *self.examples.entry(finding.clone()).or_default() += 1;
        }
        for (index, (stream, first, last)) in
            missing(acknowledged, reader.streams(), window).enumerate()
        {
            self.verified.lost += last - first + 1;
            if index < LOST_FINDINGS_MAX {
                let Stream { place, producer } = stream;
                let what = format!("lost: {place}, producer {producer} numbers {first} to {last}");
                self.examples.insert(what, last - first + 1);
            }
        }
    }

    /// Combines the findings of two readers of one log, counting a common fault once.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        let (ours, theirs) = (&mut self.verified, &other.verified);
        ours.acknowledged = ours.acknowledged.max(theirs.acknowledged);
        ours.read = ours.read.max(theirs.read);
        ours.lost = ours.lost.max(theirs.lost);
        ours.duplicated = ours.duplicated.max(theirs.duplicated);
        ours.disordered = ours.disordered.max(theirs.disordered);
        ours.damaged = ours.damaged.max(theirs.damaged);
        self.examples.extend(other.examples);
        self
    }
}

impl Verification for Session {
    fn value_bytes_min(&self) -> usize {
        STAMP_BYTES
    }

    fn numbering(&self, producer: u32) -> Box<dyn Numbering> {
        Box::new(Writer {
            id: self.id,
            run: self.run,
            producer,
            pending: Vec::new(),
            written: Instant::now(),
            state: Arc::clone(&self.state),
        })
    }

    fn checking(&self, group: u32, _consumer: u32) -> Box<dyn ConsumerCheck> {
        Box::new(Reader {
            group,
            checker: self.checker(),
            state: Arc::clone(&self.state),
        })
    }

    fn verified(&self) -> RecordCheckResult {
        self.live().verified
    }
}

/// The numbering of one producer.
struct Writer {
    id: u64,
    run: u64,
    producer: u32,
    pending: Vec<AcknowledgedRange>,
    written: Instant,
    state: Arc<Mutex<VerifyState>>,
}

impl Writer {
    fn write(&mut self) {
        lock(&self.state).acknowledge(&self.pending);
        self.pending.clear();
        self.written = Instant::now();
    }
}

impl Numbering for Writer {
    fn first_number(&mut self, _place: PartitionPlace) -> u64 {
        first_of(self.run)
    }

    fn number(&mut self, place: PartitionPlace, number: u64, value: &mut [u8]) {
        let stamp = Stamp {
            id: self.id,
            producer: self.producer,
            place,
            number,
        };
        stamp.write(value);
    }

    fn acknowledged(&mut self, place: PartitionPlace, first: u64, count: u32, _base_offset: i64) {
        let Some(last) = count.checked_sub(1).map(|more| first + u64::from(more)) else {
            return;
        };
        let stream = Stream {
            place,
            producer: self.producer,
        };
        let before = self
            .pending
            .iter_mut()
            .rev()
            .find(|piece| piece.stream == stream);
        match before {
            Some(piece) if piece.last + 1 == first => piece.last = last,
            _ => self.pending.push(AcknowledgedRange {
                stream,
                first,
                last,
            }),
        }
        if self.written.elapsed() >= WRITE_EVERY {
            self.write();
        }
    }

    fn given_up(&mut self, _place: PartitionPlace, _first: u64, _count: u32) {
        // Stored or not is no fault, and the numbers are not used again.
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.write();
    }
}

/// The check of one consumer.
struct Reader {
    group: u32,
    checker: Checker,
    state: Arc<Mutex<VerifyState>>,
}

impl ConsumerCheck for Reader {
    fn read(
        &mut self,
        place: PartitionPlace,
        offset: i64,
        _key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) {
        self.checker.read(place, offset, value);
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        let group = state.groups.entry(self.group).or_default();
        group.absorb(&self.checker);
    }
}

#[cfg(test)]
mod tests;
