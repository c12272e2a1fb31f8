//! Bytes of a socket to frames: four bytes of length, then that many bytes.
//!
//! Small frames are cut out of the read-ahead buffer, several per read; a large one is read
//! straight into a buffer of its own, which is taken when the bytes are there: until then they stay
//! in the socket, which wakes us once for all of them. So a buffer is filled, used and given back
//! while it is in the processor's cache, and the next frame gets the same one. Invariants: memory for a body is taken from the budget before
//! the body is read (only the read-ahead, which is small, is not counted); a length is checked
//! before anything is taken for it; polling can stop anywhere.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use platform::socket::{unread_bytes, wake_reader_at};
use tokio::io::Interest;
use tokio::net::TcpStream;
use wire::error::FrameError;
use wire::kafka::frame::{PREFIX_BYTES, frame_length};

use super::budget::{Budget, Taken, Waiting};
use super::buffers::{Buffer, Buffers};

/// Read-ahead, and the largest frame that is cut out of it.
const AHEAD_BYTES: usize = 16 << 10;

/// Bytes of a frame that the socket is asked to collect before it wakes us; the system may give up
/// earlier. Missing fewer than [`COLLECTED_BYTES_MIN`], it is not asked.
const COLLECTED_BYTES_MAX: usize = 2 << 20;
const COLLECTED_BYTES_MIN: usize = 16 << 10;

/// A request as it came, with the memory it was granted.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) bytes: Bytes,
    pub(super) taken: Taken,
}

/// Why no more frames come.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The length is not one we accept.
    #[error(transparent)]
    BadLength(#[from] FrameError),
    /// The peer closed within a frame.
    #[error("connection ended within a frame, {missing} bytes missing")]
    Truncated {
        /// Bytes that never came.
        missing: usize,
    },
    /// The socket failed.
    #[error("reading: {0}")]
    Socket(io::Error),
}

/// The reading half of a connection.
pub(super) struct FrameReader {
    budget: Budget,
    buffers: Buffers,
    frame_bytes_max: usize,
    ahead: BytesMut,
    state: State,
    /// Bytes at which the socket wakes us.
    wakes_at: usize,
    /// Bytes read from the socket, ever.
    pub(super) read_bytes: u64,
}

enum State {
    Length,
    Granting {
        len: usize,
        waiting: Waiting,
    },
    /// Invariant: `len <= AHEAD_BYTES`.
    Small {
        len: usize,
        taken: Taken,
    },
    /// A large one whose bytes are still on their way.
    Coming {
        len: usize,
        taken: Taken,
    },
    /// Invariant: the buffer has room for `len` bytes and holds fewer.
    Large {
        len: usize,
        taken: Taken,
        body: Buffer,
    },
}

impl FrameReader {
    pub(super) fn new(budget: Budget, buffers: Buffers, frame_bytes_max: usize) -> Self {
        Self {
            budget,
            buffers,
            frame_bytes_max,
            ahead: BytesMut::new(),
            state: State::Length,
            wakes_at: 1,
            read_bytes: 0,
        }
    }

    /// True when a frame has begun and the next step is the peer's.
    pub(super) fn is_within_frame(&self) -> bool {
        match self.state {
            State::Length => !self.ahead.is_empty(),
            State::Granting { .. } => false,
            State::Small { .. } | State::Coming { .. } | State::Large { .. } => true,
        }
    }

    /// Bytes read from the socket, ever, and those of the present frame that it has collected.
    pub(super) fn come_bytes(&self, socket: &TcpStream) -> u64 {
        let missing = match &self.state {
            State::Coming { len, .. } => len.saturating_sub(self.ahead.len()),
            State::Large { len, body, .. } => len - body.bytes.len(),
            _ => return self.read_bytes,
        };
        self.read_bytes + unread_bytes(socket).min(missing) as u64
    }

    /// The next frame; `None` when the peer has ended the connection between two frames.
    pub(super) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
        socket: &TcpStream,
    ) -> Poll<Result<Option<Frame>, ReadError>> {
        loop {
            match std::mem::replace(&mut self.state, State::Length) {
                State::Length => {
                    if let Some(prefix) = self.ahead.first_chunk::<PREFIX_BYTES>() {
                        let len = frame_length(*prefix, self.frame_bytes_max)?;
                        self.ahead.advance(PREFIX_BYTES);
                        self.state = self.grant(socket, len);
                    } else if ready!(self.poll_ahead(cx, socket, PREFIX_BYTES))? == 0 {
                        let missing = PREFIX_BYTES - self.ahead.len();
                        let clean = self.ahead.is_empty();
                        let end = if clean {
                            Ok(None)
                        } else {
                            Err(ReadError::Truncated { missing })
                        };
                        return Poll::Ready(end);
                    }
                }
                State::Granting { len, mut waiting } => match waiting.as_mut().poll(cx) {
                    Poll::Ready(taken) => self.state = self.begin(socket, len, taken),
                    Poll::Pending => {
                        self.state = State::Granting { len, waiting };
                        return Poll::Pending;
                    }
                },
                State::Small { len, taken } => {
                    if self.ahead.len() >= len {
                        let bytes = self.ahead.split_to(len).freeze();
                        return Poll::Ready(Ok(Some(Frame { bytes, taken })));
                    }
                    self.state = State::Small { len, taken };
                    if ready!(self.poll_ahead(cx, socket, len))? == 0 {
                        let missing = len - self.ahead.len();
                        return Poll::Ready(Err(ReadError::Truncated { missing }));
                    }
                }
                State::Coming { len, taken } => {
                    self.state = State::Coming { len, taken };
                    ready!(socket.poll_read_ready(cx)).map_err(ReadError::Socket)?;
                    self.fill();
                }
                State::Large {
                    len,
                    taken,
                    mut body,
                } => {
                    let missing = len - body.bytes.len();
                    if missing == 0 {
                        let bytes = body.freeze();
                        return Poll::Ready(Ok(Some(Frame { bytes, taken })));
                    }
                    let wake_at = wake_at(missing);
                    let room = &mut (&mut body.bytes).limit(missing);
                    let read = poll_read(cx, socket, room, wake_at, &mut self.wakes_at);
                    self.state = State::Large { len, taken, body };
                    match ready!(read).map_err(ReadError::Socket)? {
                        0 => return Poll::Ready(Err(ReadError::Truncated { missing })),
                        read => self.read_bytes += read as u64,
                    }
                }
            }
        }
    }

    /// Takes the memory for a body, or a place in the line for it.
    fn grant(&mut self, socket: &TcpStream, len: usize) -> State {
        let bytes = u32::try_from(len).expect("a checked length fits 31 bits");
        match self.budget.try_take(bytes) {
            Some(taken) => self.begin(socket, len, taken),
            None => State::Granting {
                len,
                waiting: self.budget.take(bytes),
            },
        }
    }

    /// Begins a body.
    fn begin(&mut self, socket: &TcpStream, len: usize, taken: Taken) -> State {
        if len <= AHEAD_BYTES {
            return State::Small { len, taken };
        }
        self.collect(socket, len.saturating_sub(self.ahead.len()));
        State::Coming { len, taken }
    }

    /// Asks the socket to wake us when what is missing has come, unless it has.
    fn collect(&mut self, socket: &TcpStream, missing: usize) {
        let wanted = wake_at(missing);
        if wanted == 1 {
            return;
        }
        // Says again that it can be read if it can, also for the peer's end: so nothing is lost when
        // what it said before is forgotten here.
        wake_reader_at(socket, wanted);
        self.wakes_at = wanted;
        if unread_bytes(socket) < wanted {
            // Nothing is tried; this is how to forget.
            let _ = socket.try_io(Interest::READABLE, || {
                Err::<(), _>(io::ErrorKind::WouldBlock.into())
            });
        }
    }

    /// Takes the buffer of a large frame and begins it with what of it is in the read-ahead.
    fn fill(&mut self) {
        if let State::Coming { len, taken, .. } = std::mem::replace(&mut self.state, State::Length)
        {
            let mut body = self.buffers.take(len);
            let have = self.ahead.len().min(len);
            body.bytes.extend_from_slice(&self.ahead[..have]);
            self.ahead.advance(have);
            self.state = State::Large { len, taken, body };
        }
    }

    /// Reads what there is, so that the read-ahead may come to hold `need` bytes.
    fn poll_ahead(
        &mut self,
        cx: &mut Context<'_>,
        socket: &TcpStream,
        need: usize,
    ) -> Poll<Result<usize, ReadError>> {
        let room = self.ahead.capacity() - self.ahead.len();
        if room < (need - self.ahead.len()).max(AHEAD_BYTES / 8) {
            // Takes the old memory again when the frames cut out of it are gone.
            self.ahead.reserve(AHEAD_BYTES - self.ahead.len());
        }
        let read = poll_read(cx, socket, &mut self.ahead, 1, &mut self.wakes_at);
        let read = ready!(read).map_err(ReadError::Socket)?;
        self.read_bytes += read as u64;
        Poll::Ready(Ok(read))
    }
}

/// At how many bytes to be woken when `missing` are missing.
fn wake_at(missing: usize) -> usize {
    if missing < COLLECTED_BYTES_MIN {
        1
    } else {
        missing.min(COLLECTED_BYTES_MAX)
    }
}

/// Reads what there is. When there is nothing, it is woken at `wake_at` bytes; `wakes_at` is what
/// the socket was told last.
fn poll_read(
    cx: &mut Context<'_>,
    socket: &TcpStream,
    into: &mut impl BufMut,
    wake_at: usize,
    wakes_at: &mut usize,
) -> Poll<io::Result<usize>> {
    loop {
        let Poll::Ready(readable) = socket.poll_read_ready(cx) else {
            if *wakes_at != wake_at {
                wake_reader_at(socket, wake_at);
                *wakes_at = wake_at;
            }
            return Poll::Pending;
        };
        readable?;
        match socket.try_read_buf(into) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => return Poll::Ready(read),
        }
    }
}

#[cfg(test)]
mod tests;
