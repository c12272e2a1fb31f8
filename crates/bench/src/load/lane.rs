//! One producing connection: sends frames as fast as the socket takes them and matches responses.
//!
//! One task without queues: it reads responses, makes frames while fewer than `in_flight_max` are
//! in flight, and writes to the socket; it waits only if none of this makes progress. Invariants:
//! at most `in_flight_max` requests are unanswered; frames leave in the order in which they were
//! made; the records of a batch are passed to the kernel without a copy. A request has at most one
//! batch of a partition, and of how many partitions it has one, the load says.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::task::Poll;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use wire::batch::HEADER_BYTES;

use super::alarm::Alarm;
use super::client::Client;
use super::hook::PartitionPlace;
use super::produce_wire::{
    self, BatchAnswer, Heading, end_frame, put_front, put_partition, put_topic, read_answer,
};
use super::producer::{Pending, Producer, Step};
use super::transport::Transport;
use super::worker::Worker;
use crate::spec::Requests;

/// Pieces per write, unless `BYTES_AT_ONCE` is reached first: a batch has two.
const PIECES_AT_ONCE: usize = 64;
/// Bytes of batches in one request, unless one batch is larger: as Kafka's producer has it.
const REQUEST_BYTES_MAX: usize = 1 << 20;
const BYTES_AT_ONCE: usize = 512 << 10;
/// Bytes of frames made ahead, so that the socket never runs dry.
const AHEAD_BYTES: usize = 1 << 20;
/// Longest accepted response; responses are small.
const ANSWER_BYTES_MAX: usize = 1 << 20;
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
    /// The bytes before each batch, one after the other.
    head: Vec<u8>,
    /// Where those before each batch end.
    ends: Vec<usize>,
    /// The batches, of different partitions.
    batches: Vec<Pending>,
    tail: &'static [u8],
    len: usize,
}

impl InFlight {
    /// Returns the bytes in the order in which they leave.
    fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let head = &self.head[..];
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        let heads = begins
            .zip(&self.ends)
            .map(move |(from, to)| &head[from..*to]);
        let bodies = self.batches.iter().map(|one| one.batch.body.bytes());
        let pieces = heads.zip(bodies).flat_map(|(head, body)| [head, body]);
        pieces.chain([self.tail])
    }

    /// Makes it empty, for another frame.
    fn clear(&mut self) {
        self.head.clear();
        self.ends.clear();
        self.batches.clear();
    }
}

/// A producing connection.
pub(super) struct Lane {
    socket: Transport,
    version: i16,
    places: Vec<PartitionPlace>,
    turn: usize,
    acks: i16,
    /// Largest batch, unless a record is larger.
    batch_bytes: usize,
    /// Requests have batches of several partitions.
    is_packing: bool,
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
    /// Empty frames, for the next ones.
    spare: Vec<InFlight>,
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
            turn: 0,
            acks: produce.acks,
            batch_bytes: produce.batch_bytes as usize,
            is_packing: produce.requests == Requests::Packed && places.len() > 1,
            in_flight_max: produce.in_flight_max as usize,
            places,
            in_flight: VecDeque::new(),
            unsent: 0,
            unsent_bytes: 0,
            written: 0,
            answers: vec![0; READ_BYTES],
            answers_bytes: 0,
            next_id: 0,
            spare: Vec::new(),
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
                Step::Send(first) => {
                    let mut frame = self.spare.pop().unwrap_or_default();
                    frame.batches.push(*first);
                    self.add_others(&mut frame.batches, now, producer, worker)?;
                    self.push(frame, worker);
                }
                Step::Wait(time) => return Ok(Some(time)),
                Step::End => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Adds the batches of other partitions that go along in one request.
    fn add_others(
        &mut self,
        batches: &mut Vec<Pending>,
        now: f64,
        producer: &mut Producer,
        worker: &Worker,
    ) -> anyhow::Result<()> {
        if !self.is_packing {
            return Ok(());
        }
        let mut taken: BTreeSet<_> = batches.iter().map(|pending| pending.place).collect();
        let mut bytes: usize = batches.iter().map(|it| it.batch.wire_bytes()).sum();
        while bytes + self.batch_bytes <= REQUEST_BYTES_MAX {
            let of = (&self.places[..], &taken);
            let Some(pending) = producer.along(now, of, &mut self.turn, worker)? else {
                break;
            };
            bytes += pending.batch.wire_bytes();
            taken.insert(pending.place);
            batches.push(pending);
        }
        // Those of a topic one after the other.
        batches.sort_unstable_by_key(|pending| pending.place);
        Ok(())
    }

    /// Makes a request of the batches of a frame.
    fn push(&mut self, mut frame: InFlight, worker: &Worker) {
        self.next_id = self.next_id.wrapping_add(1);
        let (version, head) = (self.version, &mut frame.head);
        let heading = Heading {
            version,
            correlation_id: self.next_id,
            acks: self.acks,
        };
        let of_topics = || {
            frame
                .batches
                .chunk_by(|one, next| one.place.topic == next.place.topic)
        };
        put_front(head, heading, of_topics().count());
        let mut bodies = 0;
        for (at, batches) in of_topics().enumerate() {
            let name = worker.cluster.topics[batches[0].place.topic as usize].as_str();
            put_topic(head, version, (name, batches.len()), at == 0);
            for (at, pending) in batches.iter().enumerate() {
                let of = (pending.place.partition, pending.batch.wire_bytes());
                put_partition(head, version, of, at == 0);
                head.extend_from_slice(&pending.header[..HEADER_BYTES]);
                frame.ends.push(head.len());
                bodies += pending.batch.body.bytes().len();
            }
        }
        frame.tail = end_frame(head, version, bodies);
        frame.len = head.len() + bodies + frame.tail.len();
        frame.correlation_id = self.next_id;
        self.unsent += 1;
        self.unsent_bytes += frame.len;
        self.in_flight.push_back(frame);
    }

    /// Writes as much as the socket takes; returns true if everything is written.
    fn write(&mut self) -> io::Result<bool> {
        while self.unsent > 0 {
            let first = self.in_flight.len() - self.unsent;
            let mut slices = [IoSlice::new(&[]); PIECES_AT_ONCE];
            let (mut used, mut bytes, mut skipped) = (0, 0, self.written);
            let pieces = self.in_flight.range(first..).flat_map(InFlight::pieces);
            for piece in pieces {
                if skipped >= piece.len() {
                    skipped -= piece.len();
                    continue;
                }
                let piece = &piece[std::mem::take(&mut skipped)..];
                slices[used] = IoSlice::new(piece);
                (used, bytes) = (used + 1, bytes + piece.len());
                if used == PIECES_AT_ONCE || bytes >= BYTES_AT_ONCE {
                    break;
                }
            }
            match self.socket.try_write_vectored(&slices[..used]) {
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
            if self.written < first.len {
                break;
            }
            self.written -= first.len;
            self.unsent -= 1;
        }
    }

    /// With acks=0 no response follows, so a written frame counts as answered.
    fn settle_unanswered(&mut self, now: f64, producer: &mut Producer, worker: &Worker) {
        while self.acks == 0 && self.in_flight.len() > self.unsent {
            if let Some(mut frame) = self.in_flight.pop_front() {
                for pending in frame.batches.drain(..) {
                    producer.answered(now, pending, 0, -1, worker);
                }
                frame.clear();
                self.spare.push(frame);
            }
        }
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
        let answers = std::mem::take(&mut self.answers);
        let done = self.settle(&answers[..self.answers_bytes], now, producer, worker);
        self.answers = answers;
        let done = done?;
        if done > 0 {
            self.answers.copy_within(done..self.answers_bytes, 0);
            self.answers_bytes -= done;
        }
        Ok(())
    }

    /// Settles the frames that are answered; returns how many bytes their answers have.
    fn settle(
        &mut self,
        answers: &[u8],
        now: f64,
        producer: &mut Producer,
        worker: &Worker,
    ) -> anyhow::Result<usize> {
        let mut done = 0;
        while let Some((prefix, rest)) = answers[done..].split_first_chunk() {
            let length = u32::from_be_bytes(*prefix) as usize;
            if length > ANSWER_BYTES_MAX {
                bail!("an answer of {length} bytes");
            }
            let Some(answer) = rest.get(..length) else {
                break;
            };
            done += 4 + length;
            let (correlation_id, mut of_batches) = read_answer(answer, self.version)?;
            let Some(mut frame) = self.in_flight.pop_front() else {
                bail!("an answer to no request");
            };
            if frame.correlation_id != correlation_id {
                bail!("an answer to another request");
            }
            put_in_order(&mut frame.batches, &mut of_batches, worker)?;
            for (pending, answer) in frame.batches.drain(..).zip(of_batches) {
                let BatchAnswer {
                    error, base_offset, ..
                } = answer;
                self.stopping |= producer.answered(now, pending, error, base_offset, worker);
            }
            frame.clear();
            self.spare.push(frame);
        }
        Ok(done)
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

/// Puts batches and what the broker says of each into one order: Kafka answers in an order of its
/// own.
fn put_in_order(
    batches: &mut [Pending],
    answers: &mut [BatchAnswer<'_>],
    worker: &Worker,
) -> anyhow::Result<()> {
    let topics = &worker.cluster.topics;
    let key = |pending: &Pending| {
        let topic = topics[pending.place.topic as usize].as_bytes();
        (topic, pending.place.partition)
    };
    let is_in_order = |batches: &[Pending], answers: &[BatchAnswer<'_>]| {
        let mut both = batches.iter().zip(answers);
        batches.len() == answers.len()
            && both.all(|(pending, answer)| key(pending) == (answer.topic, answer.partition))
    };
    if !is_in_order(batches, answers) {
        answers.sort_unstable_by_key(|answer| (answer.topic, answer.partition));
        batches.sort_unstable_by(|one, other| key(one).cmp(&key(other)));
        ensure!(
            is_in_order(batches, answers),
            "an answer to other batches than those of the request"
        );
    }
    Ok(())
}
