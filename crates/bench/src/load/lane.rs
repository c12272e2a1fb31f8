//! One producing connection: sends frames as fast as the socket takes them and matches responses.
//!
//! One task without queues: it reads responses, makes frames while fewer than `in_flight_max` are
//! in flight, and writes to the socket; it waits only if none of this makes progress. Invariants:
//! at most `in_flight_max` requests are unanswered; frames leave in the order in which they were
//! made, and have one batch of a partition at most; the records of a batch are passed to the kernel
//! without a copy.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::task::Poll;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use super::alarm::Alarm;
use super::client::Client;
use super::hook::PartitionPlace;
use super::places::Places;
use super::produce_wire::{self, Heading, Outgoing, put_request, read_answers};
use super::producer::{Consequence, Pending, Producer, Step};
use super::transport::Transport;
use super::worker::Worker;
use crate::spec::Requests;

/// Frames per write, unless `BYTES_AT_ONCE` is reached first.
const FRAMES_AT_ONCE: usize = 16;
const BYTES_AT_ONCE: usize = 512 << 10;
/// Parts of frames per write: the kernel takes no more.
const PARTS_AT_ONCE: usize = 1024;
/// Bytes of frames made ahead, so that the socket never runs dry.
const AHEAD_BYTES: usize = 1 << 20;
/// Longest accepted response: of each batch of a request it names the partition.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Bytes of responses read at once.
const READ_BYTES: usize = 4096;
/// Interval at which a lane checks for a stopping sibling and for the end.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Frames after which the lane yields to other tasks.
const FRAMES_PER_TURN: u32 = 64;
/// Longest wait for responses once nothing more is sent.
const DRAIN_SECONDS: f64 = 30.0;

/// A frame without a response yet.
#[derive(Default)]
struct InFlight {
    correlation_id: i32,
    /// All but the records.
    fields: Vec<u8>,
    /// Where the records of each batch belong in it.
    gaps: Vec<usize>,
    /// Its batches, by partition.
    batches: Vec<Pending>,
    bytes: usize,
}

impl InFlight {
    /// Calls `each` with the parts of the frame in order, while it returns true.
    fn parts<'a>(&'a self, mut each: impl FnMut(&'a [u8]) -> bool) {
        let mut from = 0;
        for (gap, pending) in self.gaps.iter().zip(&self.batches) {
            let (fields, records) = (&self.fields[from..*gap], pending.batch.body.bytes());
            if !each(fields) || !each(records) {
                return;
            }
            from = *gap;
        }
        each(&self.fields[from..]);
    }

    /// Returns the position of the batch that an answer is about, mostly the one at `next`.
    fn position(
        &self,
        next: usize,
        topics: &[String],
        topic: &[u8],
        partition: u32,
    ) -> Option<usize> {
        let is_it = |pending: &Pending| {
            let place = pending.place;
            place.partition == partition && topics[place.topic as usize].as_bytes() == topic
        };
        if self.batches.get(next).is_some_and(is_it) {
            return Some(next);
        }
        self.batches.iter().position(is_it)
    }

    /// Empties it for the next frame.
    fn reused(mut self) -> Self {
        self.fields.clear();
        self.gaps.clear();
        self.batches.clear();
        self.bytes = 0;
        self
    }
}

/// A producing connection.
pub(super) struct Lane {
    socket: Transport,
    version: i16,
    places: Places,
    turn: usize,
    acks: i16,
    requests: Requests,
    in_flight_max: usize,
    in_flight: VecDeque<InFlight>,
    /// Number of frames at the end of `in_flight` that are not fully written; `written` bytes of
    /// the first of them are.
    unsent: usize,
    unsent_bytes: usize,
    written: usize,
    /// Received bytes that are not parsed yet, at the start of the buffer.
    answers: Vec<u8>,
    answers_bytes: usize,
    next_id: i32,
    spare: Vec<InFlight>,
    /// The answers of one frame, by the position of their batch.
    answered: Vec<Option<(i16, i64)>>,
    alarm: Alarm,
    look: Interval,
    /// Set if records must be sent again; no new ones are sent then.
    stopping: bool,
    /// When the lane stops waiting for responses.
    drain_until: f64,
}

impl Lane {
    /// Takes over a connection to the leader of `places`.
    pub(super) fn new(
        client: Client,
        places: Vec<PartitionPlace>,
        worker: &Worker,
    ) -> anyhow::Result<Self> {
        let (oldest, newest) = produce_wire::VERSIONS;
        let version = client.version_of(produce_wire::KEY, oldest, newest)?;
        let produce = worker
            .load
            .produce
            .as_ref()
            .context("nothing is to be written")?;
        let mut look = interval_at(Instant::now() + LOOK_EVERY, LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            socket: client.into_transport(),
            version,
            places: Places::new(places),
            turn: 0,
            acks: produce.acks,
            requests: produce.requests,
            in_flight_max: produce.in_flight_max as usize,
            in_flight: VecDeque::new(),
            unsent: 0,
            unsent_bytes: 0,
            written: 0,
            answers: vec![0; READ_BYTES],
            answers_bytes: 0,
            next_id: 0,
            spare: Vec::new(),
            answered: Vec::new(),
            alarm: Alarm::new()?,
            look,
            stopping: false,
            drain_until: f64::INFINITY,
        })
    }

    /// Sends until nothing is left or records must be sent again.
    ///
    /// A lane of the same producer that must start over sets `siblings`.
    pub(super) async fn run(
        mut self,
        producer: &RefCell<Producer>,
        worker: &Worker,
        siblings: &Cell<bool>,
    ) {
        let end = self.go_on(producer, worker, siblings).await;
        let mut producer = producer.borrow_mut();
        if let Err(error) = &end {
            let error = format!("produce: {error:#}");
            worker.tally.borrow_mut().error(error);
        }
        let sent = self.in_flight.len() - self.unsent + usize::from(self.written > 0);
        for (index, frame) in self.in_flight.drain(..).enumerate() {
            for pending in frame.batches {
                producer.unanswered(pending, index < sent);
            }
        }
        if self.stopping || end.is_err() {
            siblings.set(true);
        }
    }

    async fn go_on(
        &mut self,
        producer: &RefCell<Producer>,
        worker: &Worker,
        siblings: &Cell<bool>,
    ) -> anyhow::Result<()> {
        let mut frames = 0;
        loop {
            let now = worker.now();
            self.read_answers(now, &mut producer.borrow_mut(), worker)?;
            self.stopping |= siblings.get();
            let wake = self.fill(now, &mut producer.borrow_mut(), worker)?;
            if self.in_flight.is_empty() && (self.stopping || producer.borrow().is_done()) {
                return Ok(());
            }
            if worker.is_over() {
                return Ok(());
            }
            if now > self.drain_until {
                bail!("no answer {DRAIN_SECONDS} seconds after the end");
            }
            // Sealed bytes of frames that count as written may be left.
            let before = self.unsent + usize::from(self.socket.has_unsent());
            if self.write()? && before > 0 {
                frames += before as u32;
                self.settle_unanswered(worker.now(), &mut producer.borrow_mut(), worker);
                if frames >= FRAMES_PER_TURN {
                    frames = 0;
                    tokio::task::yield_now().await;
                }
                continue;
            }
            self.wait(wake, worker).await?;
        }
    }

    /// Makes frames while there is room for them; returns when the next one is due.
    fn fill(
        &mut self,
        now: f64,
        producer: &mut Producer,
        worker: &Worker,
    ) -> anyhow::Result<Option<f64>> {
        if producer.ends_by(now, worker) {
            self.drain_until = self.drain_until.min(now + DRAIN_SECONDS);
        }
        while !self.stopping
            && self.in_flight.len() < self.in_flight_max
            && self.unsent_bytes < AHEAD_BYTES
        {
            match producer.step(now, &self.places, &mut self.turn, worker)? {
                Step::Send(pending) => {
                    let mut frame = self.spare.pop().unwrap_or_default();
                    frame.batches.push(*pending);
                    if self.requests == Requests::Packed {
                        let (places, turn) = (&self.places, &mut self.turn);
                        producer.take_along(now, places, turn, worker, &mut frame.batches)?;
                    }
                    self.push(frame, worker);
                }
                Step::Wait(time) => return Ok(Some(time)),
                Step::End => return Ok(None),
            }
        }
        Ok(None)
    }

    fn push(&mut self, mut frame: InFlight, worker: &Worker) {
        frame.batches.sort_unstable_by_key(|pending| pending.place);
        self.next_id = self.next_id.wrapping_add(1);
        frame.correlation_id = self.next_id;
        let heading = Heading {
            version: self.version,
            correlation_id: self.next_id,
            acks: self.acks,
        };
        let batches = frame.batches.iter().map(|pending| Outgoing {
            topic: &worker.cluster.topics[pending.place.topic as usize],
            partition: pending.place.partition,
            header: &pending.header,
            records_bytes: pending.batch.body.bytes().len(),
        });
        let batches: Vec<_> = batches.collect();
        put_request(&mut frame.fields, &mut frame.gaps, heading, &batches);
        let records: usize = batches.iter().map(|batch| batch.records_bytes).sum();
        frame.bytes = frame.fields.len() + records;
        self.unsent += 1;
        self.unsent_bytes += frame.bytes;
        self.in_flight.push_back(frame);
    }

    /// Writes as much as the socket takes; returns true if everything is written.
    fn write(&mut self) -> io::Result<bool> {
        while self.unsent > 0 {
            let first = self.in_flight.len() - self.unsent;
            let mut slices = Vec::with_capacity(3 * FRAMES_AT_ONCE);
            let (mut skipped, mut bytes) = (self.written, 0);
            for frame in self.in_flight.range(first..).take(FRAMES_AT_ONCE) {
                if bytes >= BYTES_AT_ONCE || slices.len() >= PARTS_AT_ONCE {
                    break;
                }
                frame.parts(|part| {
                    let fresh = part.get(skipped..).unwrap_or_default();
                    skipped = skipped.saturating_sub(part.len());
                    if !fresh.is_empty() {
                        bytes += fresh.len();
                        slices.push(IoSlice::new(fresh));
                    }
                    slices.len() < PARTS_AT_ONCE
                });
            }
            match self.socket.try_write_vectored(&slices) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(bytes) => self.advance(bytes),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        self.socket.try_flush()
    }

    fn advance(&mut self, bytes: usize) {
        self.written += bytes;
        self.unsent_bytes -= bytes;
        while self.unsent > 0 {
            let first = &self.in_flight[self.in_flight.len() - self.unsent];
            if self.written < first.bytes {
                break;
            }
            self.written -= first.bytes;
            self.unsent -= 1;
        }
    }

    /// With acks=0 no response follows, so a written frame counts as answered.
    fn settle_unanswered(&mut self, now: f64, producer: &mut Producer, worker: &Worker) {
        while self.acks == 0 && self.in_flight.len() > self.unsent {
            if let Some(frame) = self.in_flight.pop_front() {
                self.settle(now, frame, |_| (0, -1), producer, worker);
            }
        }
    }

    /// Tells the producer what became of each batch of a frame.
    fn settle(
        &mut self,
        now: f64,
        mut frame: InFlight,
        answer_of: impl Fn(usize) -> (i16, i64),
        producer: &mut Producer,
        worker: &Worker,
    ) {
        let mut is_stored = false;
        for (at, pending) in frame.batches.drain(..).enumerate() {
            let (error, base_offset) = answer_of(at);
            match producer.answered(now, pending, error, base_offset, worker) {
                Consequence::Stored => is_stored = true,
                Consequence::GoOn => {}
                Consequence::StartOver => self.stopping = true,
            }
        }
        if is_stored {
            worker.tally.borrow_mut().requested(now);
        }
        self.spare.push(frame.reused());
    }

    fn read_answers(
        &mut self,
        now: f64,
        producer: &mut Producer,
        worker: &Worker,
    ) -> anyhow::Result<()> {
        loop {
            if self.answers.len() - self.answers_bytes < READ_BYTES {
                self.answers.resize(self.answers_bytes + READ_BYTES, 0);
            }
            let room = &mut self.answers[self.answers_bytes..];
            match self.socket.try_read(room) {
                Ok(0) => bail!("the broker closed the connection"),
                Ok(bytes) => self.answers_bytes += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        let mut done = 0;
        while let Some((prefix, rest)) = self.answers[done..self.answers_bytes].split_first_chunk()
        {
            let length = u32::from_be_bytes(*prefix) as usize;
            if length > ANSWER_BYTES_MAX {
                bail!("an answer of {length} bytes");
            }
            let Some(frame) = rest.get(..length) else {
                break;
            };
            done += 4 + length;
            let Some(sent) = self.in_flight.front() else {
                bail!("an answer to no request");
            };
            let mut answered = std::mem::take(&mut self.answered);
            answered.clear();
            answered.resize(sent.batches.len(), None);
            let (mut next, mut is_foreign) = (0, false);
            let topics = &worker.cluster.topics;
            let id = read_answers(frame, self.version, |answer| {
                match sent.position(next, topics, answer.topic, answer.partition) {
                    Some(at) => {
                        answered[at] = Some((answer.error, answer.base_offset));
                        next = at + 1;
                    }
                    None => is_foreign = true,
                }
            })?;
            if id != sent.correlation_id {
                bail!("an answer to another request");
            }
            if is_foreign || answered.contains(&None) {
                bail!("an answer that is not about the batches of its request");
            }
            if let Some(sent) = self.in_flight.pop_front() {
                let answer_of = |at: usize| answered[at].unwrap_or((0, -1));
                self.settle(now, sent, answer_of, producer, worker);
            }
            self.answered = answered;
        }
        if done > 0 {
            self.answers.copy_within(done..self.answers_bytes, 0);
            self.answers_bytes -= done;
        }
        Ok(())
    }

    /// Waits until the socket is ready for pending work, until `wake`, or for [`LOOK_EVERY`].
    async fn wait(&mut self, wake: Option<f64>, worker: &Worker) -> io::Result<()> {
        let writes = self.unsent > 0 || self.socket.has_unsent();
        let (socket, look) = (&self.socket, &mut self.look);
        let ready = poll_fn(|context| {
            if let Poll::Ready(ready) = socket.poll_read_ready(context) {
                return Poll::Ready(ready);
            }
            if writes && let Poll::Ready(ready) = socket.poll_write_ready(context) {
                return Poll::Ready(ready);
            }
            look.poll_tick(context).map(|_| Ok(()))
        });
        let Some(wake) = wake else {
            return ready.await;
        };
        tokio::select! {
            biased;
            ready = ready => ready,
            woken = self.alarm.wait(worker.clock.get().until(wake)) => woken,
        }
    }
}
