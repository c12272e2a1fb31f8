//! The batches of one partition, in order: those on their way, those that wait to be sent again,
//! those that were never sent. Pure: its caller passes the time and the answers.
//!
//! Invariants:
//! - Batches stay in the order of their records, and are sent in it. One that is sent again is the
//!   first of the partition that is not settled.
//! - A sequence belongs to a batch until the batch is settled, or until the partition begins again,
//!   which it does only while nothing is on its way. No batch then is in the log, or can get there:
//!   see `producer/verdict.rs`.
//! - After a sequenced batch has failed (its time was over, the broker refused it), no new sequence
//!   is given out before those given out after it are settled: one of them that is written shows
//!   that the failed one is in the log too; otherwise the partition begins again.
//! - At most `in_flight_max` batches have sequences that are not settled, and brokers remember
//!   five.

use std::collections::VecDeque;

use bytes::Bytes;
use platform::clock::Instant;
use wire::batch::sequence_plus;

use super::batch::{Batch, BatchStatus, Stamp};
use super::record::{Receipt, Report, ReportCallback};
use super::verdict::{BatchAnswer, Circumstances, Sequence, Verdict, verdict};
use crate::error::ClientError;
use crate::retry::Backoff;
use crate::settings::ProducerSettings;

/// A producer's identity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Identity {
    pub(super) id: i64,
    pub(super) epoch: i16,
}

impl Identity {
    /// Takes what a broker gave; numbers below 0 would be those of a producer without sequences.
    pub(super) fn given(id: i64, epoch: i16) -> Result<Self, ClientError> {
        if id < 0 || epoch < 0 {
            let reason = format!("no identity of a producer: id {id}, epoch {epoch}");
            return Err(ClientError::malformed("any", reason));
        }
        Ok(Self { id, epoch })
    }
}

/// When the next batch can be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Due {
    /// Now.
    Now,
    /// At this time, if nothing changes before.
    At(Instant),
    /// When something changes.
    Later,
}

/// Records whose fate is final, and what follows from it for the producer.
#[derive(Default)]
pub(super) struct SettledRecords {
    /// The reports to make, and where they go.
    pub(super) reports: Vec<(ReportCallback, Report)>,
    /// The partition may have another leader.
    pub(super) is_moved: bool,
    /// A batch failed: a transaction with it cannot be committed.
    pub(super) failed: Option<ClientError>,
    /// Nothing of this producer can be written any more.
    pub(super) fatal: Option<ClientError>,
    /// A producer id whose epochs are used up.
    pub(super) used_up: Option<i64>,
}

/// The batches of one partition.
pub(super) struct Queue {
    partition: i32,
    batches: VecDeque<Batch>,
    in_flight: usize,
    /// Who writes here; `None` before the first batch, and when the id is used up.
    identity: Option<Identity>,
    next_sequence: i32,
    /// The partition is to begin again.
    begins_anew: bool,
    /// The last sequenced batch that failed: the client cannot know whether it is in the log.
    gap: Option<i32>,
    next_number: u64,
    is_transactional: bool,
    /// The size of the batch that was sent last: the next one has room for as much, and need not
    /// grow into it.
    usual_bytes: usize,
}

/// A batch that the sender took to send it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct TakenBatch {
    pub(super) number: u64,
    pub(super) bytes: Bytes,
}

impl Queue {
    pub(super) fn new(partition: i32, is_transactional: bool) -> Self {
        Self {
            partition,
            is_transactional,
            batches: VecDeque::new(),
            in_flight: 0,
            identity: None,
            next_sequence: 0,
            begins_anew: false,
            gap: None,
            next_number: 0,
            usual_bytes: 0,
        }
    }

    /// Returns true if nothing is to be sent or on its way.
    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Returns the number of records that are not settled.
    pub(super) fn records(&self) -> usize {
        let records = self.batches.iter().map(Batch::records);
        records.fold(0, usize::saturating_add)
    }

    /// Returns the batch that takes another record of this size: the last one if it has room, else
    /// a new one.
    pub(super) fn open(
        &mut self,
        bytes: usize,
        settings: &ProducerSettings,
        now: Instant,
    ) -> &mut Batch {
        let has_room = self.batches.back().is_some_and(|last| {
            let would_be = last.size_bytes().saturating_add(bytes);
            last.is_open()
                && last.attempts == 0
                && would_be <= settings.batch_bytes
                && last.sequences() < settings.batch_records
        });
        if !has_room {
            let number = self.number();
            // A little more, as times and sizes differ.
            let usual = self.usual_bytes.saturating_add(self.usual_bytes / 8);
            let room = (now, usual.min(settings.batch_bytes));
            let batch = Batch::new(number, settings.compression, self.is_transactional, room);
            self.batches.push_back(batch);
        }
        match self.batches.back_mut() {
            Some(batch) => batch,
            None => unreachable!("a batch was pushed"),
        }
    }

    fn number(&mut self) -> u64 {
        self.next_number = self.next_number.wrapping_add(1);
        self.next_number
    }

    /// Returns when the next batch can be sent. `is_urgent`: without lingering.
    pub(super) fn due(&self, settings: &ProducerSettings, is_urgent: bool, now: Instant) -> Due {
        let waiting = |batch: &&Batch| matches!(batch.place, BatchStatus::Waiting(_));
        let Some(next) = self.batches.iter().find(waiting) else {
            return Due::Later;
        };
        let in_flight_max = if settings.idempotent || settings.acks == crate::settings::Acks::None {
            settings.in_flight_max
        } else {
            // Only so is order kept when a batch is sent again.
            1
        };
        let is_retried = next.attempts > 0 || next.stamp.is_some();
        let must_wait = if is_retried {
            self.in_flight > 0
        } else {
            self.in_flight >= in_flight_max || self.gap.is_some()
        };
        if must_wait || self.begins_anew {
            return Due::Later;
        }
        if let BatchStatus::Waiting(Some(until)) = next.place
            && until > now
        {
            return Due::At(until);
        }
        let is_last = self
            .batches
            .back()
            .is_some_and(|last| last.number == next.number);
        let is_full =
            next.size_bytes() >= settings.batch_bytes || next.sequences() >= settings.batch_records;
        if is_retried || !is_last || is_full || is_urgent || !next.is_open() {
            return Due::Now;
        }
        match next.since.checked_add(settings.linger) {
            Some(lingers) if lingers > now => Due::At(lingers),
            _ => Due::Now,
        }
    }

    /// Takes the next batch to send it; only when it is due. `current` is the identity of the
    /// producer, if it has one.
    pub(super) fn take(&mut self, current: Option<Identity>) -> Result<TakenBatch, ClientError> {
        let waiting = |batch: &&mut Batch| matches!(batch.place, BatchStatus::Waiting(_));
        let next = self.batches.iter_mut().find(waiting);
        let none = || ClientError::invalid("batch", "there is none to send");
        let next = next.ok_or_else(none)?;
        if self.identity.is_none() {
            self.identity = current;
            self.next_sequence = 0;
        }
        let stamp = match (next.stamp, self.identity) {
            (Some(stamp), _) => Some(stamp),
            (None, None) => None,
            (None, Some(Identity { id, epoch })) => {
                let sequence = self.next_sequence;
                self.next_sequence = sequence_plus(sequence, next.sequences());
                Some(Stamp {
                    id,
                    epoch,
                    sequence,
                })
            }
        };
        let bytes = next.stamped(stamp);
        let compressing = |error: std::io::Error| ClientError::invalid("batch", error.to_string());
        let bytes = bytes.map_err(compressing)?;
        self.usual_bytes = bytes.len();
        next.place = BatchStatus::InFlight;
        next.attempts = next.attempts.saturating_add(1);
        self.in_flight = self.in_flight.saturating_add(1);
        Ok(TakenBatch {
            number: next.number,
            bytes,
        })
    }

    /// Puts a batch back that was taken and not sent after all.
    pub(super) fn put_back(&mut self, number: u64, until: Option<Instant>) {
        let batch = self.batches.iter_mut().find(|batch| batch.number == number);
        if let Some(batch) = batch
            && batch.place == BatchStatus::InFlight
        {
            batch.place = BatchStatus::Waiting(until);
            batch.attempts = batch.attempts.saturating_sub(1);
            self.in_flight = self.in_flight.saturating_sub(1);
        }
    }

    /// Takes the answer to a batch.
    pub(super) fn answered(
        &mut self,
        number: u64,
        answered: BatchAnswer,
        settings: &ProducerSettings,
        backoff: Backoff,
        (now, random): (Instant, u64),
    ) -> SettledRecords {
        let mut settled = SettledRecords::default();
        let Some(at) = self.batches.iter().position(|batch| batch.number == number) else {
            return settled;
        };
        let Some(batch) = self.batches.get_mut(at) else {
            return settled;
        };
        if batch.place == BatchStatus::InFlight {
            self.in_flight = self.in_flight.saturating_sub(1);
        }
        let age = now.saturating_duration_since(batch.since);
        let circumstances = Circumstances {
            is_first: at == 0,
            sequence: match batch.stamp {
                None => Sequence::None,
                Some(_) if self.is_transactional => Sequence::Transactional,
                Some(_) => Sequence::Idempotent,
            },
            records: batch.records(),
            may_retry: batch.attempts <= settings.retries && age < settings.delivery_timeout,
        };
        let mut pauses = backoff;
        // The pause of the last try is the longest.
        let pause = (0..batch.attempts.clamp(1, 20))
            .map(|_| pauses.next(random))
            .last();
        let until = now.checked_add(pause.unwrap_or_default());
        if let BatchAnswer::Unknown(error) = &answered {
            batch.doubt = Some(error.clone());
        }
        match verdict(answered, circumstances) {
            Verdict::Written {
                offset,
                append_time,
            } => self.written(at, offset, append_time, &mut settled),
            Verdict::Again { is_moved, error } => {
                settled.is_moved = is_moved;
                batch.place = BatchStatus::Waiting(until);
                batch.last_error = Some(error);
            }
            Verdict::Anew(error) => {
                tracing::warn!(partition = self.partition, %error, "sequences begin again");
                batch.place = BatchStatus::Waiting(until);
                batch.last_error = Some(error);
                self.begins_anew = true;
            }
            Verdict::Split(error) => self.split(at, error, &mut settled),
            Verdict::Fails(error) => self.fail(at, &error, &mut settled),
            Verdict::Fatal(error) => {
                self.fail(at, &error, &mut settled);
                settled.fatal = Some(error);
            }
        }
        self.begin_anew(&mut settled);
        settled
    }

    fn written(
        &mut self,
        at: usize,
        offset: Option<i64>,
        append_time: Option<i64>,
        settled: &mut SettledRecords,
    ) {
        let Some(batch) = self.batches.remove(at) else {
            return;
        };
        if let (Some(stamp), Some(gap)) = (batch.stamp, self.gap)
            && is_later(stamp.sequence, gap)
        {
            // It followed the one that failed, which is there too, then.
            self.gap = None;
        }
        for (index, done) in (0..).zip(batch.into_dones()) {
            let receipt = Receipt {
                offset: offset.map(|first: i64| first.saturating_add(index)),
                append_time,
            };
            settled.reports.push((done, self.report(Ok(receipt))));
        }
    }

    fn fail(&mut self, at: usize, error: &ClientError, settled: &mut SettledRecords) {
        let Some(mut batch) = self.batches.remove(at) else {
            return;
        };
        // What passes says nothing of an earlier copy; what stays has refused it, too.
        let doubt = batch.doubt.take().filter(|_| is_of_this_try(error));
        let error = doubt.as_ref().unwrap_or(error);
        if let Some(Stamp { sequence, .. }) = batch.stamp
            && self.gap.is_none_or(|gap| is_later(sequence, gap))
        {
            self.gap = Some(sequence);
        }
        settled.failed.get_or_insert_with(|| error.clone());
        for done in batch.into_dones() {
            settled
                .reports
                .push((done, self.report(Err(error.clone()))));
        }
    }

    fn split(&mut self, at: usize, error: ClientError, settled: &mut SettledRecords) {
        let number = self.number();
        let Some(batch) = self.batches.get_mut(at) else {
            return;
        };
        batch.place = BatchStatus::Waiting(None);
        match batch.split(number) {
            Ok(rest) => {
                batch.last_error = Some(error);
                self.batches.insert(at.saturating_add(1), rest);
            }
            Err(error) => self.fail(at, &error, settled),
        }
    }

    fn report(&self, result: Result<Receipt, ClientError>) -> Report {
        Report {
            partition: self.partition,
            result,
        }
    }

    /// Fails the batches whose time is over and that are not on their way; `trouble` is why nothing
    /// is sent, if that is known.
    pub(super) fn expire(
        &mut self,
        settings: &ProducerSettings,
        trouble: Option<&ClientError>,
        now: Instant,
    ) -> SettledRecords {
        let mut settled = SettledRecords::default();
        let mut at = 0;
        while let Some(batch) = self.batches.get(at) {
            let age = now.saturating_duration_since(batch.since);
            if batch.place == BatchStatus::InFlight || age < settings.delivery_timeout {
                at += 1;
                continue;
            }
            let late = || ClientError::timed_out("any", "the record was not sent in time");
            let error = batch.doubt.as_ref().or(batch.last_error.as_ref());
            let error = error.or(trouble).cloned();
            self.fail(at, &error.unwrap_or_else(late), &mut settled);
        }
        self.begin_anew(&mut settled);
        settled
    }

    /// Returns when the next batch that waits is too old.
    pub(super) fn expires_at(&self, settings: &ProducerSettings) -> Option<Instant> {
        let waiting = self.batches.iter();
        let waiting = waiting.filter(|batch| batch.place != BatchStatus::InFlight);
        let ends = waiting.filter_map(|batch| batch.since.checked_add(settings.delivery_timeout));
        ends.min()
    }

    /// Fails everything that is not on its way.
    pub(super) fn fail_waiting(&mut self, error: &ClientError) -> SettledRecords {
        let mut settled = SettledRecords::default();
        let mut at = 0;
        while let Some(batch) = self.batches.get(at) {
            if batch.place == BatchStatus::InFlight {
                at += 1;
            } else {
                let doubt = batch.doubt.clone();
                self.fail(at, doubt.as_ref().unwrap_or(error), &mut settled);
            }
        }
        self.begin_anew(&mut settled);
        settled
    }

    /// Returns true if sequences cannot go on: the transaction's next one needs another epoch.
    pub(super) fn needs_identity(&self) -> bool {
        self.gap.is_some() || self.begins_anew
    }

    /// Forgets who writes here, so that the next batch has the producer's identity and sequence 0.
    /// Only while there are no batches.
    pub(super) fn forget_identity(&mut self) {
        self.identity = None;
        self.gap = None;
        self.begins_anew = false;
    }

    /// Begins again with the next epoch, if that is due and nothing is on its way. The epoch of a
    /// transaction is the coordinator's.
    fn begin_anew(&mut self, settled: &mut SettledRecords) {
        let is_sequenced = |batch: &Batch| batch.stamp.is_some();
        let gap_stays = self.gap.is_some() && !self.batches.iter().any(is_sequenced);
        let is_due = self.begins_anew || gap_stays;
        if self.in_flight > 0 || self.is_transactional || !is_due {
            return;
        }
        self.identity = match self.identity {
            Some(Identity { id, epoch }) if epoch < i16::MAX => Some(Identity {
                id,
                epoch: epoch + 1,
            }),
            used_up => {
                settled.used_up = used_up.map(|identity| identity.id);
                None
            }
        };
        self.next_sequence = 0;
        self.begins_anew = false;
        self.gap = None;
        for batch in &mut self.batches {
            // No copy of it is in the log.
            batch.stamp = None;
            batch.doubt = None;
        }
    }
}

/// Returns true for errors that tell why a batch is not sent again, but not what became of it.
fn is_of_this_try(error: &ClientError) -> bool {
    !error.is_unknown_outcome() && (error.code().is_none() || error.is_retriable())
}

/// Returns true if a sequence comes after another; both are of batches that are near each other.
fn is_later(one: i32, other: i32) -> bool {
    let by = one.wrapping_sub(other) & i32::MAX;
    by > 0 && by < i32::MAX / 2
}

#[cfg(test)]
mod tests;
