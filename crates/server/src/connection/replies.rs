//! Replies to bytes of a socket, many parts at a time.
//!
//! Invariant: replies leave in the order in which they were pushed, whole. Parts are never copied.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::net::TcpStream;

/// Parts handed to the system in one call.
const SLICES_MAX: usize = 64;

/// The writing half of a connection.
#[derive(Default)]
pub(super) struct ReplyWriter {
    parts: VecDeque<Bytes>,
    pending_bytes: usize,
    /// Bytes written to the socket, ever.
    pub(super) written_bytes: u64,
}

impl ReplyWriter {
    /// Queues one reply.
    pub(super) fn push(&mut self, reply: Vec<Bytes>) {
        self.pending_bytes += reply.iter().map(Bytes::len).sum::<usize>(); // Bounded: lengths of bytes in memory.
        self.parts
            .extend(reply.into_iter().filter(|part| !part.is_empty()));
    }

    /// Bytes queued and not yet written.
    pub(super) fn pending_bytes(&self) -> usize {
        self.pending_bytes
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
            match socket.try_write_vectored(&slices[..count]) {
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
        self.written_bytes += written as u64;
        let mut left = written;
        while let Some(part) = self.parts.front_mut().filter(|part| left >= part.len()) {
            left -= part.len();
            self.parts.pop_front();
        }
        if let Some(part) = self.parts.front_mut() {
            part.advance(left);
        }
    }
}
