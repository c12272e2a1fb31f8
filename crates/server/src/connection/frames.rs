//! Splits the bytes of a connection into frames: four bytes of length, then that many bytes.
//!
//! Small frames are cut out of the read-ahead buffer, several per read. A large frame is read
//! straight into a buffer of its own, which is taken when the bytes have arrived. Until then they
//! stay in the socket, which wakes the task once for all of them. So a buffer is filled, used and
//! returned while it is in the processor's cache, and the next frame gets the same one.
//!
//! Invariants: memory for bytes is taken from the budget after they have arrived and before they
//! are read, never for an announced length (only the small read-ahead is not counted); a length is
//! checked before it causes any work; polling can stop anywhere.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use wire::error::FrameError;
use wire::kafka::frame::{PREFIX_BYTES, frame_length};

use super::budget::{Account, BytesWait, TakenBytes};
use super::buffers::{Buffer, Buffers};
use super::transport::Transport;

/// Size of the read-ahead, and the largest frame that is cut out of it.
const AHEAD_BYTES: usize = 16 << 10;

/// Bytes of large frames that are read before other tasks get a turn. A peer on this machine sends
/// as fast as this task reads.
const TURN_BYTES: usize = 2 << 20;

/// A request as it was read, with the memory granted for it.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) bytes: Bytes,
    pub(super) taken: TakenBytes,
}

/// Why a connection delivers no further frames.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The length is not acceptable.
    #[error(transparent)]
    BadLength(#[from] FrameError),
    /// The peer closed the connection within a frame.
    #[error("connection ended within a frame, {missing} bytes missing")]
    Truncated {
        /// Bytes that did not arrive.
        missing: usize,
    },
    /// The peer sent something that TLS does not allow.
    #[error("TLS: {0}")]
    Tls(rustls::Error),
    /// The socket failed.
    #[error("reading: {0}")]
    Socket(io::Error),
}

impl ReadError {
    fn of(error: io::Error) -> Self {
        let inner = error.get_ref();
        let tls = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match tls.cloned() {
            Some(tls) => Self::Tls(tls),
            None => Self::Socket(error),
        }
    }
}

/// The reading half of a connection.
pub(super) struct FrameReader {
    account: Rc<Account>,
    buffers: Buffers,
    frame_bytes_max: usize,
    ahead: BytesMut,
    state: FrameState,
    /// Number of bytes at which the socket wakes the task.
    wakes_at: usize,
    /// Bytes of large frames read since other tasks had a turn.
    since_turn: usize,
    /// Bytes read from the socket since the connection began.
    pub(super) read_bytes: u64,
}

/// How far the reader is with the present frame.
enum FrameState {
    Length,
    /// Invariant: `len <= AHEAD_BYTES`.
    Small {
        len: usize,
    },
    /// A complete small frame, in the read-ahead, that waits for its memory.
    Whole {
        len: usize,
        waiting: BytesWait,
    },
    /// A large frame whose first bytes have not arrived yet.
    Coming {
        len: usize,
    },
    /// A large frame that waits for memory for its next bytes; `body` holds the ones before them.
    Granting {
        len: usize,
        body: Option<Buffer>,
        waiting: BytesWait,
    },
    /// Invariant: the buffer has room for `len` bytes, and holds at most as many as `taken` counts.
    Large {
        len: usize,
        taken: TakenBytes,
        body: Buffer,
    },
}

impl FrameReader {
    pub(super) fn new(account: Rc<Account>, buffers: Buffers, frame_bytes_max: usize) -> Self {
        Self {
            account,
            buffers,
            frame_bytes_max,
            ahead: BytesMut::new(),
            state: FrameState::Length,
            wakes_at: 1,
            since_turn: 0,
            read_bytes: 0,
        }
    }

    /// Sets the largest length of the frames whose length is not read yet.
    pub(super) fn bound(&mut self, frame_bytes_max: usize) {
        self.frame_bytes_max = frame_bytes_max;
    }

    /// Returns true when a frame has begun and the peer has to send more of it.
    pub(super) fn is_within_frame(&self, socket: &Transport) -> bool {
        match self.state {
            FrameState::Length => !self.ahead.is_empty() || socket.is_within_record(),
            FrameState::Whole { .. } | FrameState::Granting { .. } => false,
            FrameState::Small { .. } | FrameState::Coming { .. } | FrameState::Large { .. } => true,
        }
    }

    /// Returns the length of the frame that has begun; 0 until it is known.
    pub(super) fn frame_bytes(&self) -> usize {
        match self.state {
            FrameState::Length => 0,
            FrameState::Small { len }
            | FrameState::Whole { len, .. }
            | FrameState::Coming { len }
            | FrameState::Granting { len, .. }
            | FrameState::Large { len, .. } => len,
        }
    }

    /// Returns the bytes read from the socket since the connection began, and those of the present
    /// frame that wait in the socket.
    ///
    /// The number never decreases, even when the frame begins to wait for memory.
    pub(super) fn come_bytes(&self, socket: &Transport) -> u64 {
        let missing = match &self.state {
            FrameState::Coming { len }
            | FrameState::Granting {
                len, body: None, ..
            } => len.saturating_sub(self.ahead.len()),
            FrameState::Large { len, body, .. }
            | FrameState::Granting {
                len,
                body: Some(body),
                ..
            } => len.saturating_sub(body.bytes.len()),
            FrameState::Length | FrameState::Small { .. } | FrameState::Whole { .. } => 0,
        };
        socket.come_bytes(self.read_bytes, missing)
    }

    /// Returns the next frame; `None` when the peer has ended the connection between two frames.
    pub(super) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
        socket: &mut Transport,
    ) -> Poll<Result<Option<Frame>, ReadError>> {
        loop {
            match std::mem::replace(&mut self.state, FrameState::Length) {
                FrameState::Length => {
                    if let Some(prefix) = self.ahead.first_chunk::<PREFIX_BYTES>() {
                        let len = frame_length(*prefix, self.frame_bytes_max)?;
                        self.ahead.advance(PREFIX_BYTES);
                        self.state = self.begin(socket, len);
                    } else if ready!(self.poll_ahead(cx, socket, PREFIX_BYTES))? == 0 {
                        let missing = PREFIX_BYTES - self.ahead.len();
                        let clean = self.ahead.is_empty().then_some(None);
                        return Poll::Ready(clean.ok_or(ReadError::Truncated { missing }));
                    }
                }
                FrameState::Small { len } => {
                    if self.ahead.len() >= len {
                        if let Some(taken) = self.account.try_take(len) {
                            return Poll::Ready(Ok(Some(self.cut(len, taken))));
                        }
                        let waiting = self.account.take(len);
                        self.state = FrameState::Whole { len, waiting };
                        continue;
                    }
                    self.state = FrameState::Small { len };
                    if ready!(self.poll_ahead(cx, socket, len))? == 0 {
                        let missing = len - self.ahead.len();
                        return Poll::Ready(Err(ReadError::Truncated { missing }));
                    }
                }
                FrameState::Whole { len, mut waiting } => match waiting.as_mut().poll(cx) {
                    Poll::Ready(taken) => return Poll::Ready(Ok(Some(self.cut(len, taken)))),
                    Poll::Pending => {
                        self.state = FrameState::Whole { len, waiting };
                        return Poll::Pending;
                    }
                },
                FrameState::Coming { len } => {
                    self.state = FrameState::Coming { len };
                    let missing = len.saturating_sub(self.ahead.len());
                    // The read-ahead may have got more room than it asked for, and have all of it.
                    if missing > 0 {
                        ready!(socket.poll_come(cx, missing)).map_err(ReadError::of)?;
                    }
                    self.state = self.first_piece(len);
                }
                FrameState::Granting {
                    len,
                    body,
                    mut waiting,
                } => match waiting.as_mut().poll(cx) {
                    Poll::Ready(taken) => self.state = self.fill(len, body, taken),
                    Poll::Pending => {
                        self.state = FrameState::Granting { len, body, waiting };
                        return Poll::Pending;
                    }
                },
                FrameState::Large { len, taken, body } => {
                    if body.bytes.len() == len {
                        let bytes = body.freeze();
                        return Poll::Ready(Ok(Some(Frame { bytes, taken })));
                    }
                    ready!(self.poll_large(cx, socket, len, taken, body))?;
                }
            }
        }
    }

    /// Begins a body.
    fn begin(&mut self, socket: &Transport, len: usize) -> FrameState {
        if len <= AHEAD_BYTES {
            return FrameState::Small { len };
        }
        let missing = len.saturating_sub(self.ahead.len());
        socket.collect(missing, &mut self.wakes_at);
        FrameState::Coming { len }
    }

    /// Cuts a complete frame out of the read-ahead.
    fn cut(&mut self, len: usize, taken: TakenBytes) -> Frame {
        // Bounded: the read-ahead holds all of it.
        let bytes = self.ahead.split_to(len).freeze();
        Frame { bytes, taken }
    }

    /// Takes memory for the first bytes of a large frame, which have arrived, or a place in the
    /// line for it.
    fn first_piece(&mut self, len: usize) -> FrameState {
        let piece = self.account.piece(len);
        if let Some(taken) = self.account.try_take(piece) {
            return self.fill(len, None, taken);
        }
        FrameState::Granting {
            len,
            body: None,
            waiting: self.account.take(piece),
        }
    }

    /// Continues a large frame for which memory is granted.
    ///
    /// The buffer is taken only now, and gets the part of the frame in the read-ahead.
    fn fill(&mut self, len: usize, body: Option<Buffer>, mut taken: TakenBytes) -> FrameState {
        let body = body.unwrap_or_else(|| {
            let mut body = self.buffer(len, &mut taken);
            let have = self.ahead.len().min(len);
            // Bounded: at most what is there.
            let (here, _) = self.ahead.split_at(have);
            body.bytes.extend_from_slice(here);
            self.ahead.advance(have);
            body
        });
        FrameState::Large { len, taken, body }
    }

    /// Returns a buffer for a large frame.
    ///
    /// The memory of a used buffer is resident, so all of it is taken from the budget; a fresh
    /// buffer becomes resident as it is filled.
    fn buffer(&self, len: usize, taken: &mut TakenBytes) -> Buffer {
        let granted = taken.bytes();
        if granted >= len {
            return self.buffers.take(len);
        }
        let kept = self.buffers.take_kept(len);
        match kept {
            Some(kept) if taken.try_more(len - granted) => kept,
            _ => self.buffers.fresh(len),
        }
    }

    /// Reads the available bytes of a large frame within the granted memory, and takes more when
    /// that is used up.
    fn poll_large(
        &mut self,
        cx: &mut Context<'_>,
        socket: &mut Transport,
        len: usize,
        mut taken: TakenBytes,
        mut body: Buffer,
    ) -> Poll<Result<(), ReadError>> {
        if self.since_turn >= TURN_BYTES {
            self.since_turn = 0;
            self.state = FrameState::Large { len, taken, body };
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let (have, granted) = (body.bytes.len(), taken.bytes().min(len));
        let missing = len - have;
        if have < granted {
            let room = &mut (&mut body.bytes).limit(granted - have);
            let read = socket.poll_read(cx, room, missing, &mut self.wakes_at);
            self.state = FrameState::Large { len, taken, body };
            return match ready!(read).map_err(ReadError::of)? {
                0 => Poll::Ready(Err(ReadError::Truncated { missing })),
                read => {
                    self.read_bytes += read as u64;
                    self.since_turn = self.since_turn.saturating_add(read);
                    Poll::Ready(Ok(()))
                }
            };
        }
        // The granted memory is full: take more once further bytes have arrived.
        match socket.poll_read_ready(cx) {
            Poll::Ready(ready) => ready.map_err(ReadError::of)?,
            Poll::Pending => {
                self.state = FrameState::Large { len, taken, body };
                return Poll::Pending;
            }
        }
        let piece = self.account.piece(missing);
        self.state = if taken.try_more(piece) {
            FrameState::Large { len, taken, body }
        } else {
            FrameState::Granting {
                len,
                body: Some(body),
                waiting: taken.more(piece, missing),
            }
        };
        Poll::Ready(Ok(()))
    }

    /// Reads what is available into the read-ahead, which gets room for `need` bytes.
    fn poll_ahead(
        &mut self,
        cx: &mut Context<'_>,
        socket: &mut Transport,
        need: usize,
    ) -> Poll<Result<usize, ReadError>> {
        let room = self.ahead.capacity() - self.ahead.len();
        if room < (need - self.ahead.len()).max(AHEAD_BYTES / 8) {
            // Reuses the old memory once the frames cut out of it are dropped.
            self.ahead.reserve(AHEAD_BYTES - self.ahead.len());
        }
        let read = socket.poll_read(cx, &mut self.ahead, 1, &mut self.wakes_at);
        let read = ready!(read).map_err(ReadError::of)?;
        self.read_bytes += read as u64;
        Poll::Ready(Ok(read))
    }
}

#[cfg(test)]
mod tests;
