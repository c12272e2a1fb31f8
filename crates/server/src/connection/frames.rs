//! Bytes of a socket to frames: four bytes of length, then that many bytes.
//!
//! Small frames are cut out of the read-ahead buffer, several per read; a large one is read
//! straight into a buffer of its own. Invariants: memory for a body is taken from the budget before
//! the body is read (only the read-ahead, which is small, is not counted); a length is checked
//! before anything is taken for it; polling can stop anywhere.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::net::TcpStream;
use wire::error::FrameError;
use wire::kafka::frame::{PREFIX_BYTES, frame_length};

use super::budget::{Budget, Taken, Waiting};
use super::buffers::{Buffer, Buffers};

/// Read-ahead, and the largest frame that is cut out of it.
const AHEAD_BYTES: usize = 16 << 10;

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
            read_bytes: 0,
        }
    }

    /// True when a frame has begun and the next step is the peer's.
    pub(super) fn is_within_frame(&self) -> bool {
        match self.state {
            State::Length => !self.ahead.is_empty(),
            State::Granting { .. } => false,
            State::Small { .. } | State::Large { .. } => true,
        }
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
                        self.state = self.grant(len);
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
                    Poll::Ready(taken) => self.state = self.begin(len, taken),
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
                    let read = poll_read(cx, socket, &mut (&mut body.bytes).limit(missing));
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
    fn grant(&mut self, len: usize) -> State {
        let bytes = u32::try_from(len).expect("a checked length fits 31 bits");
        match self.budget.try_take(bytes) {
            Some(taken) => self.begin(len, taken),
            None => State::Granting {
                len,
                waiting: self.budget.take(bytes),
            },
        }
    }

    /// Begins a body with what of it is in the read-ahead.
    fn begin(&mut self, len: usize, taken: Taken) -> State {
        if len <= AHEAD_BYTES {
            return State::Small { len, taken };
        }
        let mut body = self.buffers.take(len);
        let have = self.ahead.len().min(len);
        body.bytes.extend_from_slice(&self.ahead[..have]);
        self.ahead.advance(have);
        State::Large { len, taken, body }
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
        let read = ready!(poll_read(cx, socket, &mut self.ahead)).map_err(ReadError::Socket)?;
        self.read_bytes += read as u64;
        Poll::Ready(Ok(read))
    }
}

fn poll_read(
    cx: &mut Context<'_>,
    socket: &TcpStream,
    into: &mut impl BufMut,
) -> Poll<io::Result<usize>> {
    loop {
        ready!(socket.poll_read_ready(cx))?;
        match socket.try_read_buf(into) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => return Poll::Ready(read),
        }
    }
}
