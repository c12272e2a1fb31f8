//! One producer: its pace, its batches, their sequences, and the batches to send again.
//!
//! This module only decides; `lane.rs` sends and waits. A producer has one lane per broker that
//! leads any of its partitions; all lanes take from the same pace. Batches to send again are kept
//! in the order in which they were sent, and precede all new ones.

use std::collections::{BTreeSet, HashMap, VecDeque};

use wire::batch::HEADER_BYTES;
use wire::types::ErrorCode;

use super::batch::{Batch, Identity};
use super::by_key::ByKey;
use super::encode::Encoder;
use super::hook::PartitionPlace;
use super::pace::{Pace, ProducerStep, Take};
use super::places::Places;
use super::worker::{SharedBudgets, Worker};

/// How long after the end a producer still sends records that were due before it.
pub(super) const LATE_SECONDS: f64 = 10.0;
/// Most bytes of a request with several batches: `max.request.size` of Kafka's producer.
const REQUEST_BYTES_MAX: u64 = 1 << 20;
/// Pause of a lane that cannot gather more because the buffer is full of records for other lanes.
const FULL_SECONDS: f64 = 0.01;

/// A batch on its way to the broker.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) place: PartitionPlace,
    pub(super) batch: Batch,
    pub(super) header: [u8; HEADER_BYTES],
    /// Number of the first record.
    number: u64,
    /// When its first and its last record were due.
    pub(super) due: (f64, f64),
}

/// The next step of a lane.
#[derive(Debug)]
pub(super) enum Step {
    /// Send this batch.
    Send(Box<Pending>),
    /// Send nothing before this time.
    Wait(f64),
    /// Send nothing more.
    End,
}

/// The meaning of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Stored,
    /// Not stored, or recognized as a duplicate when sent again.
    Again,
    /// Possibly stored, and not to be sent again.
    GivenUp,
    /// The broker has lost the producer's state.
    Lost,
}

/// What follows from a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Consequence {
    /// The batch counts.
    Stored,
    /// It does not, and the lane goes on.
    GoOn,
    /// The lane stops and starts over.
    StartOver,
}

/// One producer.
pub(super) struct Producer {
    pub(super) pace: Pace,
    pub(super) encoder: Encoder,
    pub(super) identity: Option<Identity>,
    idempotent: bool,
    sequences: HashMap<PartitionPlace, i32>,
    numbers: HashMap<PartitionPlace, u64>,
    again: VecDeque<Pending>,
    /// Set if records have keys.
    by_key: Option<ByKey>,
    /// No more records become due.
    exhausted: bool,
    /// Only batches to send again are left.
    ended: bool,
}

impl Producer {
    pub(super) fn new(
        pace: Pace,
        encoder: Encoder,
        by_key: Option<ByKey>,
        idempotent: bool,
    ) -> Self {
        Self {
            pace,
            encoder,
            identity: None,
            idempotent,
            sequences: HashMap::new(),
            numbers: HashMap::new(),
            again: VecDeque::new(),
            by_key,
            exhausted: false,
            ended: false,
        }
    }

    /// Returns whether it needs a producer id before it can send.
    pub(super) fn needs_identity(&self) -> bool {
        self.idempotent && self.identity.is_none()
    }

    /// Returns whether nothing is left to send.
    pub(super) fn is_done(&self) -> bool {
        self.ended && self.again.is_empty()
    }

    /// Ends the producer if its time is over, and counts the records that were due and not sent.
    ///
    /// Returns true once it has ended.
    pub(super) fn ends_by(&mut self, now: f64, worker: &Worker) -> bool {
        let late = if self.pace.is_open() {
            LATE_SECONDS
        } else {
            0.0
        };
        if worker.is_produced() {
            // The load was stopped.
            self.ended = true;
        } else if !self.ended && now >= worker.end() + late {
            self.ended = true;
            say_overdue(self.overdue(now), worker);
        }
        self.ended
    }

    /// Returns what one lane sends next.
    ///
    /// `places` are the partitions led by the lane's broker; `turn` counts the lane's batches.
    pub(super) fn step(
        &mut self,
        now: f64,
        places: &Places,
        turn: &mut usize,
        worker: &Worker,
    ) -> anyhow::Result<Step> {
        let mine = |pending: &Pending| places.contains(pending.place);
        if let Some(at) = self.again.iter().position(mine) {
            let pending = self.again.remove(at).map(Box::new);
            return Ok(pending.map_or(Step::End, Step::Send));
        }
        if self.ended {
            return Ok(Step::End);
        }
        if self.by_key.is_some() {
            return self.step_by_key(now, places, worker);
        }
        let take = match self.take(now, worker) {
            ProducerStep::Now(take) => take,
            ProducerStep::At(time) => return Ok(Step::Wait(time)),
            ProducerStep::Never => {
                self.ended = true;
                return Ok(Step::End);
            }
        };
        let place = places.at(*turn);
        *turn += 1;
        self.pending(place, &take, worker)
    }

    /// Adds to a request with one batch what it may take along: one batch of each other partition
    /// of `places`, those to send again first.
    pub(super) fn take_along(
        &mut self,
        now: f64,
        places: &Places,
        turn: &mut usize,
        worker: &Worker,
        request: &mut Vec<Pending>,
    ) -> anyhow::Result<()> {
        let bytes = |pending: &Pending| pending.batch.wire_bytes() as u64;
        let mut taken: BTreeSet<_> = request.iter().map(|pending| pending.place).collect();
        let mut room = REQUEST_BYTES_MAX.saturating_sub(request.iter().map(bytes).sum());
        let mut at = 0;
        let mut is_any_left = false;
        while let Some(pending) = self.again.get(at) {
            let is_mine = places.contains(pending.place);
            // A partition whose batch does not fit waits: its later ones may not overtake it.
            if !is_mine || !taken.insert(pending.place) || bytes(pending) > room {
                is_any_left |= is_mine;
                at += 1;
            } else if let Some(pending) = self.again.remove(at) {
                room -= bytes(&pending);
                request.push(pending);
            }
        }
        if is_any_left || self.ended {
            // New batches go when none is to be sent again.
            return Ok(());
        }
        if let Some(by_key) = &mut self.by_key {
            for (place, take) in by_key.beside(now, places, &taken, room) {
                request.push(self.encoded(place, &take, worker)?);
            }
            return Ok(());
        }
        let full = worker.load.produce.as_ref().map_or(0, |it| it.batch_bytes);
        // A record that is longer than a full batch is one of its own, and others may be, too.
        let longest = request.iter().map(bytes).max().unwrap_or(0);
        let most = longest.max(full.into());
        while room >= most && taken.insert(places.at(*turn)) {
            match self.take(now, worker) {
                ProducerStep::Now(take) => {
                    let pending = self.encoded(places.at(*turn), &take, worker)?;
                    *turn += 1;
                    room = room.saturating_sub(bytes(&pending));
                    request.push(pending);
                }
                ProducerStep::At(_) => break,
                ProducerStep::Never => {
                    self.ended = true;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Takes records that are due, as far as the budget allows.
    fn take(&mut self, now: f64, worker: &Worker) -> ProducerStep {
        match self.pace.next(now) {
            ProducerStep::Now(mut take) => {
                if claim(&worker.shared, &mut take) {
                    ProducerStep::Now(take)
                } else {
                    ProducerStep::Never
                }
            }
            other => other,
        }
    }

    /// Does the same for records with keys: gathers due records by partition until a batch is
    /// ready.
    fn step_by_key(&mut self, now: f64, places: &Places, worker: &Worker) -> anyhow::Result<Step> {
        loop {
            let Some(by_key) = &mut self.by_key else {
                return Ok(Step::End);
            };
            if let Some((place, take)) = by_key.ready(now, places, self.exhausted) {
                return self.pending(place, &take, worker);
            }
            if self.exhausted {
                self.ended = by_key.is_empty();
                return Ok(Step::End);
            }
            if by_key.is_full() {
                return Ok(Step::Wait(now + FULL_SECONDS));
            }
            let next_ready = by_key.next_ready(places);
            match self.take(now, worker) {
                ProducerStep::Now(take) => {
                    if let Some(by_key) = &mut self.by_key {
                        by_key.gather(&take, self.encoder.fixed);
                    }
                }
                ProducerStep::At(time) => {
                    let ready = next_ready.unwrap_or(f64::INFINITY);
                    return Ok(Step::Wait(time.min(ready)));
                }
                ProducerStep::Never => self.exhausted = true,
            }
        }
    }

    /// Returns the step of sending a batch of these records.
    fn pending(
        &mut self,
        place: PartitionPlace,
        take: &Take,
        worker: &Worker,
    ) -> anyhow::Result<Step> {
        let pending = self.encoded(place, take, worker)?;
        Ok(Step::Send(Box::new(pending)))
    }

    /// Returns a batch of these records, ready to be sent.
    fn encoded(
        &mut self,
        place: PartitionPlace,
        take: &Take,
        worker: &Worker,
    ) -> anyhow::Result<Pending> {
        let number = self.number(place);
        let batch = self.encoder.batch(take, place, number)?;
        if self.encoder.numbering.is_some() {
            self.numbers.insert(place, number + u64::from(take.count));
        }
        let identity = self.identity.unwrap_or(Identity::NONE);
        let sequence = if self.idempotent {
            let next = self.sequences.entry(place).or_insert(0);
            let sequence = *next;
            *next = wire::batch::sequence_plus(sequence, take.count.cast_signed());
            sequence
        } else {
            -1
        };
        let timestamp_ms = worker.clock.get().wall_ms(take.first_due) as i64;
        Ok(Pending {
            place,
            header: batch.header(identity, sequence, timestamp_ms),
            batch,
            number,
            due: (take.first_due, take.last_due),
        })
    }

    /// Returns the number of records that were due and will not be sent.
    fn overdue(&mut self, now: f64) -> u64 {
        let gathered = self.by_key.as_mut().map_or(0, ByKey::give_up);
        let to_come = if self.exhausted {
            0
        } else {
            self.pace.overdue(now)
        };
        gathered + to_come
    }

    fn number(&mut self, place: PartitionPlace) -> u64 {
        let Some(numbering) = &mut self.encoder.numbering else {
            return 0;
        };
        let known = self.numbers.get(&place);
        known.map_or_else(|| numbering.first_number(place), |number| *number)
    }

    /// Handles the response on a batch.
    pub(super) fn answered(
        &mut self,
        now: f64,
        pending: Pending,
        error: i16,
        base_offset: i64,
        worker: &Worker,
    ) -> Consequence {
        let mut tally = worker.tally.borrow_mut();
        let error = ErrorCode::try_from_code(error);
        if let Some(error) = error {
            tally.error(format!("produce: {error:?}"));
        }
        match self.verdict(error) {
            Verdict::Stored => {
                let arrived = super::tally::ArrivedRecords {
                    records: pending.batch.count.into(),
                    bytes: pending.batch.payload_bytes,
                    wire_bytes: pending.batch.wire_bytes() as u64,
                };
                tally.acknowledged(now, pending.batch.count, arrived, pending.due);
                if let Some(numbering) = &mut self.encoder.numbering {
                    let count = pending.batch.count;
                    numbering.acknowledged(pending.place, pending.number, count, base_offset);
                }
                self.encoder.done_with(pending.batch);
                Consequence::Stored
            }
            Verdict::Again => {
                self.again.push_back(pending);
                Consequence::StartOver
            }
            Verdict::GivenUp => {
                self.give_up(pending);
                Consequence::GoOn
            }
            Verdict::Lost => {
                self.give_up(pending);
                self.identity = None;
                self.sequences.clear();
                Consequence::StartOver
            }
        }
    }

    fn verdict(&self, error: Option<ErrorCode>) -> Verdict {
        use ErrorCode as E;
        match error {
            None | Some(E::DuplicateSequenceNumber) => Verdict::Stored,
            Some(
                E::NotLeaderOrFollower
                | E::LeaderNotAvailable
                | E::UnknownTopicOrPartition
                | E::NotEnoughReplicas
                | E::FencedLeaderEpoch
                | E::UnknownLeaderEpoch
                | E::KafkaStorageError,
            ) => Verdict::Again,
            Some(E::RequestTimedOut | E::NotEnoughReplicasAfterAppend) if self.idempotent => {
                Verdict::Again
            }
            // An earlier batch failed; sent again in order, this one has the expected sequence.
            Some(E::OutOfOrderSequenceNumber) if !self.again.is_empty() => Verdict::Again,
            Some(E::OutOfOrderSequenceNumber | E::UnknownProducerId | E::InvalidProducerEpoch) => {
                Verdict::Lost
            }
            Some(_) => Verdict::GivenUp,
        }
    }

    /// Handles a batch whose connection broke before a response; `sent` means that the broker may
    /// have it.
    pub(super) fn unanswered(&mut self, pending: Pending, sent: bool) {
        if sent && !self.idempotent {
            self.give_up(pending);
        } else {
            self.again.push_back(pending);
        }
    }

    /// Gives up the batches that wait to be sent again, and returns their number of records.
    pub(super) fn give_up_all(&mut self) -> u64 {
        let mut records = 0;
        while let Some(pending) = self.again.pop_front() {
            records += u64::from(pending.batch.count);
            self.give_up(pending);
        }
        records
    }

    /// Takes a new identity; batches that were sent under another one cannot be sent again.
    pub(super) fn identify(&mut self, identity: Identity) -> u64 {
        self.identity = Some(identity);
        self.sequences.clear();
        self.give_up_all()
    }

    fn give_up(&mut self, pending: Pending) {
        if let Some(numbering) = &mut self.encoder.numbering {
            numbering.given_up(pending.place, pending.number, pending.batch.count);
        }
        self.encoder.done_with(pending.batch);
    }
}

/// Counts records that were due and never sent, which have no latency.
pub(super) fn say_overdue(records: u64, worker: &Worker) {
    if records > 0 {
        let mut tally = worker.tally.borrow_mut();
        tally.errors("produce: records due and not sent", records);
    }
}

/// Takes the records from the budget of all producers, fewer if it does not suffice; returns false
/// if none is left.
pub(super) fn claim(shared: &SharedBudgets, take: &mut Take) -> bool {
    if take.sizes.is_empty() {
        let each = take.payload_bytes / u64::from(take.count);
        take.count = shared.claim(take.count, each);
        take.payload_bytes = each * u64::from(take.count);
        return take.count > 0;
    }
    // A take with records of different sizes is claimed as a whole.
    shared.claim(1, take.payload_bytes) == 1
}
