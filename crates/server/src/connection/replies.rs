//! Writes replies to a connection, many parts per call.
//!
//! Invariant: replies are sent whole, in the order in which they were pushed. Parts are not copied
//! here. Queued bytes above `FLOOR_BYTES` count as memory of responses until they are written, and
//! so do sealed ones that the socket has not taken.

use std::collections::VecDeque;
use std::future::Future as _;
use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use broker::answers::{Account, FLOOR_BYTES};
use bytes::{Buf, Bytes};
use platform::task::yield_now;
use tokio::time::Instant;

use super::transport::Transport;
use super::turns::WritePlace;

/// Parts per system call.
const SLICES_MAX: usize = 64;

/// Bytes that are written before other tasks get a turn, while connections wait for theirs. The
/// system takes megabytes at a time from a connection whose client does not read.
const CROWDED_TURN_BYTES: usize = 256 << 10;

/// Most bytes that are written before other tasks get a turn. With less, reading from memory costs
/// a tenth more processor time (ADR 0036).
const TURN_BYTES: usize = 1 << 20;

/// Bytes that are always written in one turn, and by which a call is long enough to be measured.
const TURN_BYTES_MIN: usize = 64 << 10;

/// A turn that took longer makes the next one smaller: a socket whose memory is new takes bytes ten
/// times more slowly than others.
const TURN_TIME: Duration = Duration::from_micros(250);

/// Unwritten bytes above which connections take turns.
const LARGE_BYTES: usize = 1 << 20;

/// The writing half of a connection.
pub(super) struct ReplyWriter {
    answers: Account,
    /// Queued bytes that are counted in `answers`.
    held_bytes: usize,
    // Bounded: a request begins only while at most `conversation::UNWRITTEN_BYTES_MAX` are
    // unwritten; fetches read only what `queued.max.response.bytes` has left.
    parts: VecDeque<Bytes>,
    pending_bytes: usize,
    /// Largest `pending_bytes` since the queue was empty.
    peak_bytes: usize,
    /// Bytes that the transport holds until its socket takes them.
    unsent_bytes: usize,
    place: WritePlace,
    /// Bytes of the next turn.
    turn_bytes: usize,
    /// Bytes written to the socket since the connection began.
    pub(super) written_bytes: u64,
}

impl ReplyWriter {
    /// Creates an empty queue, whose bytes are counted in `answers`.
    pub(super) fn new(answers: Account, place: WritePlace) -> Self {
        Self {
            answers,
            held_bytes: 0,
            parts: VecDeque::new(),
            pending_bytes: 0,
            peak_bytes: 0,
            unsent_bytes: 0,
            place,
            turn_bytes: CROWDED_TURN_BYTES,
            written_bytes: 0,
        }
    }

    /// Lets others write: this connection writes no more.
    pub(super) fn leave(&mut self) {
        self.place.leave();
    }

    /// Returns true while the broker does not write because other connections do.
    pub(super) fn waits_for_others(&self) -> bool {
        self.place.is_waiting()
    }

    /// Counts the queued bytes above the floor.
    fn count(&mut self) {
        let all = self.pending_bytes.saturating_add(self.unsent_bytes);
        let held = all.saturating_sub(FLOOR_BYTES);
        if held > self.held_bytes {
            self.answers.hold(held - self.held_bytes);
        } else if held < self.held_bytes {
            self.answers.release(self.held_bytes - held);
        }
        self.held_bytes = held;
    }

    /// Returns true if this holds counted bytes while all connections, or those of its address,
    /// exceed their bound.
    pub(super) fn is_pressed(&self) -> bool {
        self.held_bytes > 0 && self.answers.is_over()
    }

    /// Queues one reply.
    pub(super) fn push(&mut self, reply: Vec<Bytes>) {
        let bytes = reply.iter().fold(0, |sum, part| sum + part.len());
        self.pending_bytes += bytes;
        self.peak_bytes = self.peak_bytes.max(self.pending_bytes);
        self.count();
        self.parts
            .extend(reply.into_iter().filter(|part| !part.is_empty()));
    }

    /// Returns the bytes queued and not yet written.
    pub(super) fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    /// Returns what the connection will have written when all that is queued is, in bytes.
    pub(super) fn end(&self) -> u64 {
        self.written_bytes + self.pending_bytes as u64
    }

    /// Returns the largest number of pending bytes since the queue was empty.
    pub(super) fn peak_bytes(&self) -> usize {
        self.peak_bytes
    }

    /// Writes until everything is written; asks for another poll after a piece.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        socket: &mut Transport,
    ) -> Poll<io::Result<()>> {
        self.place.pass_on();
        self.place.look(cx);
        let written = self.poll_piece(cx, socket);
        if written.is_ready() {
            self.place.leave();
        }
        written
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>, socket: &mut Transport) -> Poll<io::Result<()>> {
        let mut left = if self.place.is_crowded() {
            self.turn_bytes.min(CROWDED_TURN_BYTES)
        } else {
            self.turn_bytes
        };
        while !self.parts.is_empty() {
            if left == 0 {
                // This task runs again behind those that sockets and disks wake meanwhile.
                let mut turn = std::pin::pin!(yield_now());
                return turn.as_mut().poll(cx).map(Ok);
            }
            let Poll::Ready(ready) = socket.poll_write_ready(cx) else {
                self.place.pass_on();
                return Poll::Pending;
            };
            ready?;
            if self.pending_bytes > LARGE_BYTES {
                ready!(self.place.poll_turn(cx));
            }
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let mut count = 0;
            let mut room = left;
            for (slice, part) in slices.iter_mut().zip(&self.parts) {
                // Bounded: at most all of the part.
                let (now, later) = part.split_at(part.len().min(room));
                *slice = IoSlice::new(now);
                count += 1;
                room -= now.len();
                if room == 0 || !later.is_empty() {
                    break;
                }
            }
            let since = (left - room >= TURN_BYTES_MIN).then(Instant::now);
            // Bounded: at most as many as there are.
            let written = socket.try_write_vectored(slices.split_at(count).0);
            let unsent = socket.unsent_bytes();
            if unsent != self.unsent_bytes {
                self.unsent_bytes = unsent;
                self.count();
            }
            match written {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(written) => {
                    if let Some(since) = since {
                        self.measure(written, since.elapsed());
                    }
                    left = left.saturating_sub(written);
                    self.advance(written);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Sets the bytes of the next turn by the time that a call took.
    fn measure(&mut self, written: usize, time: Duration) {
        if time > TURN_TIME {
            self.turn_bytes = (self.turn_bytes / 2).max(TURN_BYTES_MIN);
        } else if written >= self.turn_bytes / 2 && time < TURN_TIME / 2 {
            self.turn_bytes = (self.turn_bytes * 2).min(TURN_BYTES);
        }
    }

    fn advance(&mut self, written: usize) {
        self.pending_bytes -= written;
        if self.pending_bytes == 0 {
            self.peak_bytes = 0;
        }
        self.count();
        self.written_bytes += written as u64;
        let mut left = written;
        while let Some(part) = self.parts.front_mut().filter(|part| left >= part.len()) {
            left -= part.len();
            self.parts.pop_front();
        }
        match self.parts.front_mut() {
            Some(part) => part.advance(left),
            None => assert_eq!(left, 0, "what was written was to be"),
        }
    }
}

impl Drop for ReplyWriter {
    fn drop(&mut self) {
        self.answers.release(self.held_bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use broker::answers::Answers;

    use super::*;
    use crate::connection::WriteTurns;

    #[test]
    fn a_turn_is_as_long_as_its_time_allows_within_bounds() {
        let account = Answers::new(1 << 20).account(Ipv4Addr::LOCALHOST.into());
        let mut writer = ReplyWriter::new(account, WriteTurns::default().place());
        let (slow, fast) = (TURN_TIME * 2, TURN_TIME / 4);
        for _ in 0..10 {
            writer.measure(writer.turn_bytes, slow);
        }
        assert_eq!(writer.turn_bytes, TURN_BYTES_MIN);
        // What the socket took says little when it took little.
        writer.measure(100, fast);
        assert_eq!(writer.turn_bytes, TURN_BYTES_MIN);
        for _ in 0..10 {
            writer.measure(writer.turn_bytes, fast);
        }
        assert_eq!(writer.turn_bytes, TURN_BYTES);
    }
}
