//! Writes replies to a socket, many parts per call.
//!
//! Invariant: replies are sent whole, in the order in which they were pushed. Parts are never
//! copied. Queued bytes above `FLOOR_BYTES` count as memory of responses until they are written.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use broker::answers::{Account, FLOOR_BYTES};
use bytes::{Buf, Bytes};
use tokio::net::TcpStream;

/// Parts per system call.
const SLICES_MAX: usize = 64;

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
    /// Bytes written to the socket since the connection began.
    pub(super) written_bytes: u64,
}

impl ReplyWriter {
    /// Creates an empty queue, whose bytes are counted in `answers`.
    pub(super) fn new(answers: Account) -> Self {
        Self {
            answers,
            held_bytes: 0,
            parts: VecDeque::new(),
            pending_bytes: 0,
            peak_bytes: 0,
            written_bytes: 0,
        }
    }

    /// Counts the queued bytes above the floor.
    fn count(&mut self) {
        let held = self.pending_bytes.saturating_sub(FLOOR_BYTES);
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

    /// Writes until everything is written.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        socket: &TcpStream,
    ) -> Poll<io::Result<()>> {
        while !self.parts.is_empty() {
            ready!(socket.poll_write_ready(cx))?;
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = self.parts.len().min(SLICES_MAX);
            for (slice, part) in slices.iter_mut().zip(&self.parts) {
                *slice = IoSlice::new(part);
            }
            // Bounded: at most as many as there are.
            match socket.try_write_vectored(slices.split_at(count).0) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(written) => self.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
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
