//! The bytes of a connection: as they are in its socket, or sealed there by TLS.
//!
//! What reads frames and writes replies sees plaintext and does not know which it is. Without TLS
//! bytes go straight from the socket into the memory of their frame, and from the parts of replies
//! into the socket; each call here costs them one branch. With TLS they are opened and sealed in
//! memory that the connections of a shard share (`transport/scratch.rs`).
//!
//! Invariants: reading takes from the socket no more than the caller has memory for, and at most a
//! record or two beyond; records with hardly anything for the reader keep no shard from other
//! connections; a byte counts as written when the socket has all of its record. Not here:
//! handshakes, which are over when a connection gets here (`handshake.rs`).

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use bytes::BufMut;
use platform::socket::{peer_has_ended, unread_bytes, wake_reader_at};
use tokio::io::Interest;
use tokio::net::TcpStream;

mod opening;
mod outgoing;
mod scratch;
mod sealing;

pub(crate) use opening::control;
pub use opening::{Secured, TlsStream};
pub use scratch::Scratch;

/// Bytes that the socket collects before it wakes the task; the system may wake it earlier. Fewer
/// than [`COLLECTED_BYTES_MIN`] are not collected.
const COLLECTED_BYTES_MAX: usize = 2 << 20;
const COLLECTED_BYTES_MIN: usize = 16 << 10;

/// Both directions of one connection.
pub enum Transport {
    /// The socket has plaintext.
    Plain(TcpStream),
    /// The socket has records of TLS.
    Tls(Box<TlsStream>),
}

impl Transport {
    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls) => tls.socket(),
        }
    }

    /// Completes when something can be read, or the peer has ended its half.
    pub(super) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(socket) => socket.poll_read_ready(cx),
            Self::Tls(tls) if tls.has_more() => Poll::Ready(Ok(())),
            Self::Tls(tls) => tls.socket().poll_read_ready(cx),
        }
    }

    /// Completes when the next `missing` bytes have come, or as many of them as the socket has
    /// to collect ([`Transport::collect`]), or the peer has ended its half.
    pub(super) fn poll_come(&self, cx: &mut Context<'_>, missing: usize) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(socket) => socket.poll_read_ready(cx),
            // All of them may be here already; else the rest of their records comes.
            Self::Tls(tls) if tls.missing_records(missing) == 0 => Poll::Ready(Ok(())),
            Self::Tls(tls) => tls.socket().poll_read_ready(cx),
        }
    }

    /// Reads what is available, at most what `into` has room for; 0 at the end of the peer.
    ///
    /// Without data, the task is woken when `missing` bytes have come, or as many of them as the
    /// socket collects; `wakes_at` is the last value set on the socket.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut impl BufMut,
        missing: usize,
        wakes_at: &mut usize,
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(socket) => loop {
                ready!(poll_readable(cx, socket, missing, wakes_at))?;
                match socket.try_read_buf(into) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => return Poll::Ready(read),
                }
            },
            Self::Tls(tls) => loop {
                if tls.has_more() {
                    let read = tls.take(into)?;
                    if read > 0 || tls.has_ended() {
                        return Poll::Ready(Ok(read));
                    }
                }
                if tls.passes_turn() {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                let missing = tls.missing_records(missing);
                ready!(poll_readable(cx, tls.socket(), missing, wakes_at))?;
                match tls.receive(into) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    // Nothing of what came was for the reader, or no record is whole yet.
                    Ok(0) if !tls.has_ended() => {}
                    read => return Poll::Ready(read),
                }
            },
        }
    }

    /// Asks the socket to wake the task when `missing` bytes have arrived, unless they have.
    pub(super) fn collect(&self, missing: usize, wakes_at: &mut usize) {
        let wanted = wake_at(match self {
            Self::Plain(_) => missing,
            Self::Tls(tls) => tls.missing_records(missing),
        });
        if wanted == 1 {
            return;
        }
        let socket = self.socket();
        // This makes the socket report again if it is readable, also for the end of the peer; so
        // clearing the earlier readiness below loses nothing.
        wake_reader_at(socket, wanted);
        *wakes_at = wanted;
        if unread_bytes(socket) < wanted {
            // This tries no I/O; it is the way to clear the readiness.
            let _ = socket.try_io(Interest::READABLE, || {
                Err::<(), _>(io::ErrorKind::WouldBlock.into())
            });
        }
    }

    /// Returns what has come since the connection began: the `read` bytes that a reader has taken,
    /// and those of its next `missing` ones that wait. With TLS it counts bytes of records.
    ///
    /// The number never decreases as the reader goes on.
    pub(super) fn come_bytes(&self, read: u64, missing: usize) -> u64 {
        let (read, missing) = match self {
            Self::Plain(_) => (read, missing),
            Self::Tls(tls) => tls.come_bytes(missing),
        };
        if missing == 0 {
            return read;
        }
        let unread = unread_bytes(self.socket()).min(missing) as u64;
        read.saturating_add(unread)
    }

    /// Returns true if the peer has to send the rest of a record.
    pub(super) fn is_within_record(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(tls) => tls.is_within_record(),
        }
    }

    /// Returns true when the peer has ended the connection, or its half of it, even if bytes are
    /// unread.
    pub(super) fn peer_has_ended(&self) -> bool {
        let said = matches!(self, Self::Tls(tls) if tls.has_ended());
        said || peer_has_ended(self.socket())
    }

    /// Completes when something can be written.
    pub(super) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket().poll_write_ready(cx)
    }

    /// Writes the beginning of `parts`, and returns how many bytes count as written now.
    ///
    /// With TLS these may be of an earlier call whose records were not all taken: until a call
    /// fails or all are written, each call must begin with the first byte that is not.
    pub(super) fn try_write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.try_write_vectored(parts),
            Self::Tls(tls) => tls.try_write_vectored(parts),
        }
    }

    /// Returns the bytes that are held here until the socket takes them.
    pub(super) fn unsent_bytes(&self) -> usize {
        match self {
            Self::Plain(_) => 0,
            Self::Tls(tls) => tls.unsent_bytes(),
        }
    }

    /// Ends the connection; tells a peer of TLS that nothing was cut off.
    pub(super) fn close(self) {
        if let Self::Tls(tls) = self {
            tls.close();
        }
    }
}

/// Returns at how many bytes to wake the task when `missing` are missing.
fn wake_at(missing: usize) -> usize {
    if missing < COLLECTED_BYTES_MIN {
        1
    } else {
        missing.min(COLLECTED_BYTES_MAX)
    }
}

/// Completes when the socket is readable; else the task is woken when `missing` bytes have come.
fn poll_readable(
    cx: &mut Context<'_>,
    socket: &TcpStream,
    missing: usize,
    wakes_at: &mut usize,
) -> Poll<io::Result<()>> {
    let readable = socket.poll_read_ready(cx);
    if readable.is_pending() {
        let wanted = wake_at(missing);
        if *wakes_at != wanted {
            wake_reader_at(socket, wanted);
            *wakes_at = wanted;
        }
    }
    readable
}

#[cfg(test)]
pub(crate) mod harness;
#[cfg(test)]
mod tests;
