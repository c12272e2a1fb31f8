//! The task that owns a connection's stream: writes what is queued, reads answers, keeps deadlines.
//!
//! Invariants:
//! - The answers of a connection belong to its requests in their order; any other answer, and any
//!   deadline that passes, loses the connection.
//! - An answer is read as it comes: memory grows with what has arrived, up to twice the longest
//!   answer that is accepted.
//! - When the connection ends, every caller that waits gets the reason.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::rc::Rc;

use bytes::{Buf as _, Bytes, BytesMut};
use platform::clock::Instant;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::{sleep_until, timeout_at};
use wire::kafka::frame::{PREFIX_BYTES, next_frame};

use super::LostReason;
use super::opening::{ended, with_meaning};
use crate::ask;
use crate::error::ClientError;
use crate::transport::Transport;

/// Room for what is read at once, at least and at most.
const READ_BYTES_MIN: usize = 8 << 10;
const READ_BYTES_MAX: usize = 256 << 10;

/// Reads after a deadline, while there is something to read: the process may have slept, and the
/// answer be here.
const LATE_READS_MAX: u32 = 64;

/// A request to be sent.
pub(super) struct Outgoing {
    /// What of it is not written.
    frame: Bytes,
    id: i32,
    api: i16,
    deadline: Instant,
    to: Return,
    /// Held until the answer is here.
    _room: OwnedSemaphorePermit,
}

impl Outgoing {
    pub(super) fn new(
        (id, frame): (i32, Bytes),
        api: i16,
        deadline: Instant,
        to: Return,
        room: OwnedSemaphorePermit,
    ) -> Self {
        Self {
            frame,
            id,
            api,
            deadline,
            to,
            _room: room,
        }
    }
}

/// Where the result of a request goes.
pub(super) enum Return {
    /// With the frame of the answer.
    Answer(oneshot::Sender<Result<Bytes, ClientError>>),
    /// When the request was written; it has no answer.
    Written(oneshot::Sender<Result<(), ClientError>>),
}

impl Return {
    /// Reports that there is no answer. The caller may have gone.
    fn fail(self, reason: ClientError) {
        match self {
            Self::Answer(to) => drop(to.send(Err(reason))),
            Self::Written(to) => drop(to.send(Err(reason))),
        }
    }
}

/// The task.
pub(super) struct Driver {
    reader: ReadHalf<Transport>,
    writer: WriteHalf<Transport>,
    address: Rc<str>,
    queue: mpsc::UnboundedReceiver<Outgoing>,
    /// Not written, or not whole.
    // Bounded: by the permits that requests hold
    unwritten: VecDeque<Outgoing>,
    /// Written, but perhaps still in a buffer of the transport.
    needs_flush: bool,
    /// Written, and not answered.
    // Bounded: by the permits that requests hold
    unanswered: VecDeque<Outgoing>,
    input: BytesMut,
    answer_bytes_max: usize,
    /// Reads since a deadline passed.
    late_reads: u32,
    lost: Rc<LostReason>,
    /// What it may mean if the broker ends the connection instead of answering; `None` once it has
    /// answered.
    ended_means: Option<&'static str>,
}

/// What happened in a turn.
enum Happened {
    DeadlinePassed,
    Wrote(std::io::Result<usize>),
    Flushed(std::io::Result<()>),
    Queued(Option<Outgoing>),
    Read(std::io::Result<usize>),
}

impl Driver {
    pub(super) fn new(
        stream: Transport,
        address: Rc<str>,
        queue: mpsc::UnboundedReceiver<Outgoing>,
        answer_bytes_max: usize,
        lost: Rc<LostReason>,
        ended_means: Option<&'static str>,
    ) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Self {
            reader,
            writer,
            address,
            queue,
            unwritten: VecDeque::new(),
            needs_flush: false,
            unanswered: VecDeque::new(),
            input: BytesMut::new(),
            answer_bytes_max,
            late_reads: 0,
            lost,
            ended_means,
        }
    }

    /// Drives the connection until it is lost, or until its last handle has gone.
    pub(super) async fn drive(mut self) {
        let reason = loop {
            let happened = self.next().await;
            if let Err(reason) = self.apply(happened) {
                break reason;
            }
        };
        tracing::debug!(broker = &*self.address, %reason, "connection ended");
        self.end(&reason);
    }

    /// Waits for what happens next. Deadlines come first, so that a peer that keeps sending cannot
    /// outlast them; but what is here already is read.
    async fn next(&mut self) -> Happened {
        let deadline = self.deadline();
        let until = deadline.unwrap_or_else(Instant::now);
        let first = self.unwritten.front().map(|first| first.frame.clone());
        let sends = first.is_some() || self.needs_flush;
        self.make_room();
        let writer = &mut self.writer;
        let sending = async {
            match &first {
                Some(frame) => Happened::Wrote(writer.write(frame).await),
                None => Happened::Flushed(writer.flush().await),
            }
        };
        let happened = tokio::select! {
            biased;
            () = sleep_until(until), if deadline.is_some() => Happened::DeadlinePassed,
            sent = sending, if sends => sent,
            queued = self.queue.recv() => Happened::Queued(queued),
            read = self.reader.read_buf(&mut self.input) => Happened::Read(read),
        };
        if !matches!(happened, Happened::DeadlinePassed) {
            self.late_reads = 0;
        } else if self.late_reads < LATE_READS_MAX {
            self.late_reads += 1;
            let reading = self.reader.read_buf(&mut self.input);
            if let Ok(read) = timeout_at(until, reading).await {
                return Happened::Read(read);
            }
        }
        happened
    }

    fn apply(&mut self, happened: Happened) -> Result<(), ClientError> {
        match happened {
            Happened::DeadlinePassed => return Err(self.late()),
            Happened::Wrote(Ok(0)) | Happened::Read(Ok(0)) => return Err(self.ended()),
            Happened::Wrote(Ok(count)) => self.wrote(count),
            Happened::Flushed(Ok(())) => self.needs_flush = false,
            Happened::Wrote(Err(error)) | Happened::Flushed(Err(error)) => {
                return Err(ClientError::broken(&self.address, "sending", &error));
            }
            Happened::Queued(Some(outgoing)) => self.unwritten.push_back(outgoing),
            Happened::Queued(None) => return Err(ClientError::Closed),
            Happened::Read(Ok(_)) => self.deliver()?,
            // TLS has not ended before the stream has.
            Happened::Read(Err(error)) if error.kind() == ErrorKind::UnexpectedEof => {
                return Err(self.ended());
            }
            Happened::Read(Err(error)) => {
                return Err(ClientError::broken(&self.address, "receiving", &error));
            }
        }
        Ok(())
    }

    /// Returns the error of a broker that has ended the connection, with what it means if it has
    /// answered nothing.
    fn ended(&self) -> ClientError {
        let means = self.ended_means.filter(|_| !self.unanswered.is_empty());
        with_meaning(ended(&self.address), means)
    }

    fn deadline(&self) -> Option<Instant> {
        let all = self.unanswered.iter().chain(&self.unwritten);
        all.map(|one| one.deadline).min()
    }

    /// Makes room for what is read next: for the rest of the answer, in steps, so that a length
    /// alone reserves little.
    fn make_room(&mut self) {
        let wanted = match self.input.first_chunk::<PREFIX_BYTES>() {
            None => READ_BYTES_MIN,
            Some(prefix) => {
                let length = usize::try_from(i32::from_be_bytes(*prefix)).unwrap_or(0);
                let whole = length.saturating_add(PREFIX_BYTES);
                let left = whole.saturating_sub(self.input.len());
                left.clamp(READ_BYTES_MIN, READ_BYTES_MAX)
            }
        };
        let spare = self.input.capacity().saturating_sub(self.input.len());
        if spare < wanted {
            self.input.reserve(wanted);
        }
    }

    /// Takes account of bytes of the first request that were written.
    fn wrote(&mut self, count: usize) {
        let Some(first) = self.unwritten.front_mut() else {
            return;
        };
        first.frame.advance(count.min(first.frame.len()));
        self.needs_flush = true;
        if !first.frame.is_empty() {
            return;
        }
        let Some(whole) = self.unwritten.pop_front() else {
            return;
        };
        match whole.to {
            // The writer may have gone.
            Return::Written(to) => drop(to.send(Ok(()))),
            Return::Answer(_) => self.unanswered.push_back(whole),
        }
    }

    /// Hands out the answers that are whole.
    fn deliver(&mut self) -> Result<(), ClientError> {
        loop {
            let next = next_frame(&mut self.input, self.answer_bytes_max);
            let malformed = |reason: String| ClientError::malformed(&self.address, reason);
            let Some(frame) = next.map_err(|error| malformed(error.to_string()))? else {
                return Ok(());
            };
            let Some(asked) = self.unanswered.pop_front() else {
                return Err(malformed("an answer that nobody asked for".to_owned()));
            };
            if ask::correlation_id(&frame) != Some(asked.id) {
                let reason = malformed("an answer to another request".to_owned());
                asked.to.fail(reason.clone());
                return Err(reason);
            }
            self.ended_means = None;
            if let Return::Answer(to) = asked.to {
                // The caller may have stopped waiting.
                drop(to.send(Ok(frame)));
            }
        }
    }

    /// Returns the error of the request whose deadline has passed.
    fn late(&self) -> ClientError {
        let all = self.unanswered.iter().chain(&self.unwritten);
        let first = all.min_by_key(|one| one.deadline);
        let what = first.map_or_else(String::new, |one| ask::name_of(one.api));
        ClientError::timed_out(&self.address, what)
    }

    /// Tells everybody why the connection has ended.
    fn end(mut self, reason: &ClientError) {
        self.lost.set(reason);
        self.queue.close();
        let waiting = self.unanswered.drain(..).chain(self.unwritten.drain(..));
        waiting.for_each(|one| one.to.fail(reason.clone()));
        while let Ok(queued) = self.queue.try_recv() {
            queued.to.fail(reason.clone());
        }
    }
}
