//! One direction of a simulated stream: bytes in the order they were written, each with the time
//! when it arrives.
//!
//! Invariant: it holds at most [`WINDOW_BYTES`]; a writer waits for room.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use tokio::io::ReadBuf;
use tokio::time::{Sleep, sleep_until};

use crate::clock::Instant;

/// Bytes on their way, at most.
const WINDOW_BYTES: usize = 256 << 10;

/// How slowly bytes arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// Maximum number of bytes that arrive at once.
    pub bytes: usize,
    /// Time between two arrivals.
    pub every: Duration,
}

/// Which ends of a pipe are closed.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct PipeEnds {
    writer: bool,
    reader: bool,
    /// The stream broke.
    both: bool,
}

/// One direction.
pub(super) struct Pipe(RefCell<PipeState>);

struct PipeState {
    delay: Duration,
    chunks: VecDeque<(Instant, Bytes)>,
    bytes: usize,
    is_stalled: bool,
    pace: Option<Pace>,
    /// When the pace allows the next bytes.
    next_at: Option<Instant>,
    ended: PipeEnds,
    reader: Option<Waker>,
    writer: Option<Waker>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Pipe {
    pub(super) fn new(delay: Duration) -> Self {
        Self(RefCell::new(PipeState {
            delay,
            chunks: VecDeque::new(),
            bytes: 0,
            is_stalled: false,
            pace: None,
            next_at: None,
            ended: PipeEnds::default(),
            reader: None,
            writer: None,
            timer: None,
        }))
    }

    pub(super) fn is_open(&self) -> bool {
        let state = self.0.borrow();
        state.ended == PipeEnds::default()
    }

    pub(super) fn stall(&self, is_stalled: bool) {
        let mut state = self.0.borrow_mut();
        state.is_stalled = is_stalled;
        state.wake();
    }

    pub(super) fn pace(&self, pace: Option<Pace>) {
        let mut state = self.0.borrow_mut();
        state.pace = pace;
        state.next_at = None;
        state.wake();
    }

    pub(super) fn reset(&self) {
        let mut state = self.0.borrow_mut();
        state.ended.both = true;
        state.chunks.clear();
        state.bytes = 0;
        state.wake();
    }

    /// The writer will write no more; the reader gets what is there, then the end.
    pub(super) fn end_writing(&self) {
        let mut state = self.0.borrow_mut();
        state.ended.writer = true;
        state.wake();
    }

    /// Closes the end of the reader: it takes no more bytes.
    pub(super) fn end_reading(&self) {
        let mut state = self.0.borrow_mut();
        state.ended.reader = true;
        state.wake();
    }

    pub(super) fn poll_read(
        &self,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.0.borrow_mut();
        if state.ended.both {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        state.reader = Some(context.waker().clone());
        if state.is_stalled {
            return Poll::Pending;
        }
        let Some((arrives, _)) = state.chunks.front() else {
            return if state.ended.writer {
                Poll::Ready(Ok(()))
            } else {
                Poll::Pending
            };
        };
        let arrives = *arrives;
        let due = state.next_at.map_or(arrives, |next| next.max(arrives));
        let now = Instant::now();
        if now < due {
            let mut timer = Box::pin(sleep_until(due));
            // The clock of tokio counts whole milliseconds, so it may be due already.
            if timer.as_mut().poll(context).is_pending() {
                state.timer = Some(timer);
                return Poll::Pending;
            }
        }
        state.timer = None;
        state.deliver(now.max(due), into);
        if let Some(writer) = state.writer.take() {
            writer.wake();
        }
        Poll::Ready(Ok(()))
    }

    pub(super) fn poll_write(
        &self,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.0.borrow_mut();
        if state.ended.both {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if state.ended.reader || state.ended.writer {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let room = WINDOW_BYTES.saturating_sub(state.bytes).min(from.len());
        if room == 0 && !from.is_empty() {
            state.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        let (taken, _) = from.split_at(room);
        let arrives = Instant::now() + state.delay;
        state
            .chunks
            .push_back((arrives, Bytes::copy_from_slice(taken)));
        state.bytes += room;
        if let Some(reader) = state.reader.take() {
            reader.wake();
        }
        Poll::Ready(Ok(room))
    }
}

impl PipeState {
    /// Hands out what has arrived, as the pace allows.
    fn deliver(&mut self, now: Instant, into: &mut ReadBuf<'_>) {
        let mut left = self.pace.map_or(usize::MAX, |pace| pace.bytes);
        while let Some((arrives, chunk)) = self.chunks.front_mut() {
            let count = chunk.len().min(into.remaining()).min(left);
            if *arrives > now || (count == 0 && !chunk.is_empty()) {
                break;
            }
            let (taken, _) = chunk.split_at(count);
            into.put_slice(taken);
            chunk.advance(count);
            left -= count;
            self.bytes -= count;
            if chunk.is_empty() {
                self.chunks.pop_front();
            }
        }
        self.next_at = self.pace.map(|pace| now + pace.every);
    }

    fn wake(&mut self) {
        let wakers = [self.reader.take(), self.writer.take()];
        wakers.into_iter().flatten().for_each(Waker::wake);
    }
}
