//! The loop of one connection: read a frame, call the service, write replies, enforce the time
//! limits.
//!
//! Requests are handled one after the other, as in Kafka, except that a request that overlaps may
//! begin while earlier ones of the same kind wait. One further request is read ahead, so that the
//! end of the connection is noticed. While a client is throttled, no request of it is read or
//! begun, and those that have begun are finished. A peer that ends its half of the connection still
//! gets the replies that are ready within `GONE_MAX` (reads) or `abandoned_max`.
//!
//! Invariants: a request that does not overlap begins only when everything before it is answered
//! and written; a future that was polled is polled until it is ready, even without a peer (bounded
//! by `abandoned_max`), unless it only reads: a fetch does not outlive its client.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use broker::dispatch::{Reply, Service};
use broker::handler;
use bytes::Bytes;
use platform::socket::peer_has_ended;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep};
use wire::kafka::Response;

use super::frames::{Frame, FrameReader, ReadError};
use super::inflight::{Answered, Inflight, Request};
use super::replies::ReplyWriter;
use super::watch::{Doing, PROGRESS_BYTES_MIN, Progress, Watch};
use super::{End, Environment, Limits};
use crate::metrics::{RequestKind, Timing};

/// How long a request that only reads continues after the peer has ended the connection.
const GONE_MAX: Duration = Duration::from_secs(1);

/// Interval of checks whether the peer has ended the connection, while a request that it sent ahead
/// blocks the reading.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Unwritten bytes of replies above which no further overlapping requests begin.
const UNWRITTEN_BYTES_MAX: usize = 64 << 10;

/// Serves one connection until it ends, and returns why it ended.
pub(super) async fn hold<S: Service>(
    socket: TcpStream,
    service: &S,
    client: &handler::Context,
    environment: &Environment,
) -> End {
    let Environment {
        limits,
        budget,
        answers,
        buffers,
        meter,
        stop,
    } = environment;
    let mut stop = stop.clone();
    let mut talk = Conversation {
        limits,
        reader: FrameReader::new(
            budget.account(client.peer.ip()),
            buffers.clone(),
            limits.frame_bytes_max,
        ),
        writer: ReplyWriter::new(answers.account(client.peer.ip())),
        inflight: Inflight::new(),
        unsent: Vec::new(),
        held: None,
        is_late: false,
        frames: 0,
        end: None,
        pause: None,
        gone: None,
        look: None,
        watch: Watch::new(limits),
    };
    let mut stopping = std::pin::pin!(stopped(&mut stop));
    let mut counted = (0, 0);
    let end = poll_fn(|cx| {
        if talk.end.is_none() && stopping.as_mut().poll(cx).is_ready() {
            talk.end = Some(End::Stopping);
        }
        let call = |frame: Frame| {
            let kind = meter.taken(&frame.bytes);
            let (bytes, timing) = (frame.bytes.len(), Timing::new());
            let called = service.call(client.clone(), frame.bytes);
            Request {
                called,
                kind,
                bytes,
                taken: frame.taken,
                timing,
            }
        };
        let polled = talk.poll(cx, &socket, call);
        meter.moved(
            &mut counted,
            (talk.reader.read_bytes, talk.writer.written_bytes),
        );
        polled
    })
    .await;
    // Close now, so that the peer learns of the end before its last request is done.
    drop(socket);
    let finish = poll_fn(|cx| talk.poll_rest(cx));
    // The rest is dropped after that time: no peer waits for it.
    let _ = tokio::time::timeout(limits.abandoned_max, finish).await;
    end
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // The sender is gone only if the process is stopping.
    let _ = stop.wait_for(|stop| *stop).await;
}

struct Conversation<'a, F> {
    limits: &'a Limits,
    reader: FrameReader,
    writer: ReplyWriter,
    inflight: Inflight<F>,
    /// The answers that are not written, with the times when they were ready.
    // Bounded: a request begins only while at most `UNWRITTEN_BYTES_MAX` are unwritten.
    unsent: Vec<(RequestKind, Instant)>,
    /// Read and called, but not begun.
    held: Option<Request<F>>,
    /// True if the held request could not begin when it was read.
    is_late: bool,
    /// Frames read since the connection began.
    frames: u64,
    /// Why nothing further is read; requests that have begun are still answered.
    end: Option<End>,
    /// Until when nothing is read or begun.
    pause: Option<Pin<Box<Sleep>>>,
    /// Set once the peer has ended the connection: until when its requests continue.
    gone: Option<Gone>,
    /// When to check whether the peer has ended the connection.
    look: Option<Pin<Box<Sleep>>>,
    watch: Watch,
}

/// A peer that has ended the connection.
struct Gone {
    since: Instant,
    /// Frames read by then; a further one shows that the peer is alive.
    frames: u64,
    timer: Pin<Box<Sleep>>,
}

impl<F: Future<Output = Reply>> Conversation<'_, F> {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        socket: &TcpStream,
        call: impl Fn(Frame) -> Request<F>,
    ) -> Poll<End> {
        self.inflight.poll(cx);
        loop {
            self.collect();
            if let Poll::Ready(Err(error)) = self.writer.poll_write(cx, socket) {
                return Poll::Ready(End::Broken(error));
            }
            self.count_sent();
            let paused = self.end.is_none() && self.is_paused(cx);
            if self.end.is_none() && self.held.is_none() && !paused {
                match self.reader.poll_frame(cx, socket) {
                    Poll::Ready(Ok(Some(frame))) => {
                        self.frames += 1;
                        self.held = Some(call(frame));
                    }
                    Poll::Ready(Ok(None)) => self.end = Some(End::Closed),
                    Poll::Ready(Err(ReadError::Socket(error))) => {
                        return Poll::Ready(End::Broken(error));
                    }
                    Poll::Ready(Err(error)) => self.end = Some(End::BadFrame(error)),
                    Poll::Pending => {}
                }
            }
            if paused {
                break;
            }
            match self
                .held
                .take_if(|request| may_begin(&self.inflight, &self.writer, request, self.limits))
            {
                Some(mut request) if !matches!(self.end, Some(End::Stopping | End::Service(_))) => {
                    if std::mem::take(&mut self.is_late) {
                        request.timing.begins_late();
                    }
                    self.inflight.begin(cx, request);
                }
                _ => break,
            }
        }
        self.is_late = self.held.is_some();
        let is_over = self.end.is_some() && self.held.is_none() && self.is_quiet();
        if let Some(end) = self.end.take_if(|_| is_over) {
            return Poll::Ready(end);
        }
        if self.poll_gone(cx, socket).is_ready() {
            return Poll::Ready(self.end.take().unwrap_or(End::Closed));
        }
        self.poll_watch(cx, socket)
    }

    /// Completes when the peer has ended the connection and the time for its requests is over.
    fn poll_gone(&mut self, cx: &mut Context<'_>, socket: &TcpStream) -> Poll<()> {
        let ended = match &self.end {
            Some(End::Closed | End::BadFrame(ReadError::Truncated { .. })) => true,
            None => self.gone.is_some() || (self.held.is_some() && self.sees_end(cx, socket)),
            Some(_) => false,
        };
        if !ended {
            return Poll::Pending;
        }
        let grace = if self.inflight.is_reading() {
            GONE_MAX
        } else {
            self.limits.abandoned_max
        };
        let (now, frames) = (Instant::now(), self.frames);
        let gone = self.gone.get_or_insert_with(|| Gone {
            since: now,
            frames,
            timer: Box::pin(tokio::time::sleep_until(now + grace)),
        });
        if gone.frames != frames {
            (gone.since, gone.frames) = (now, frames);
        }
        if gone.timer.deadline() != gone.since + grace {
            gone.timer.as_mut().reset(gone.since + grace);
        }
        gone.timer.as_mut().poll(cx)
    }

    /// Returns true if the peer has ended the connection, even if earlier bytes are not all read.
    fn sees_end(&mut self, cx: &mut Context<'_>, socket: &TcpStream) -> bool {
        let timer = || Box::pin(tokio::time::sleep(LOOK_INTERVAL));
        let look = self.look.get_or_insert_with(timer);
        while look.as_mut().poll(cx).is_ready() {
            if peer_has_ended(socket) {
                return true;
            }
            look.as_mut().reset(Instant::now() + LOOK_INTERVAL);
        }
        false
    }

    /// Polls the requests that have begun, without reading or writing.
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.held = None;
        self.inflight.drop_reads();
        self.inflight.poll(cx);
        while self.inflight.next_answered().is_some() {}
        if self.inflight.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// Moves replies to the writer, in order.
    fn collect(&mut self) {
        while let Some(Answered {
            reply,
            kind,
            timing,
        }) = self.inflight.next_answered()
        {
            let throttle = match &reply {
                Reply::Pause(_, pause) => *pause,
                _ => Duration::ZERO,
            };
            let ready = kind.answered(&timing, throttle);
            match reply {
                _ if matches!(self.end, Some(End::Service(_))) => {}
                Reply::Send(response) => self.send(response.into_segments(), kind, ready),
                Reply::Pause(response, pause) => {
                    let parts = response.map(Response::into_segments);
                    self.send(parts.unwrap_or_default(), kind, ready);
                    self.pause_for(pause);
                }
                Reply::Nothing => {}
                Reply::Close(reason) => {
                    self.held = None;
                    self.end = Some(End::Service(reason));
                }
            }
        }
    }

    fn send(&mut self, parts: Vec<Bytes>, kind: RequestKind, ready: Instant) {
        self.writer.push(parts);
        if self.writer.pending_bytes() > 0 {
            self.unsent.push((kind, ready));
        }
    }

    /// Counts the time of answers that are written.
    fn count_sent(&mut self) {
        if self.unsent.is_empty() || self.writer.pending_bytes() > 0 {
            return;
        }
        let now = Instant::now();
        for (kind, ready) in self.unsent.drain(..) {
            kind.sent(now.saturating_duration_since(ready));
        }
    }

    /// Pauses the connection because a quota is used up; the longer of two pauses holds.
    fn pause_for(&mut self, pause: Duration) {
        let until = Instant::now() + pause;
        if self
            .pause
            .as_ref()
            .is_none_or(|before| before.deadline() < until)
        {
            self.pause = Some(Box::pin(tokio::time::sleep_until(until)));
        }
    }

    fn is_paused(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(pause) = &mut self.pause else {
            return false;
        };
        if pause.as_mut().poll(cx).is_ready() {
            self.pause = None;
        }
        self.pause.is_some()
    }

    /// Returns true if no request is in progress and no reply is unwritten.
    fn is_quiet(&self) -> bool {
        self.inflight.is_empty() && self.writer.pending_bytes() == 0
    }

    /// Ends the connection when it is idle or stalled for too long.
    fn poll_watch(&mut self, cx: &mut Context<'_>, socket: &TcpStream) -> Poll<End> {
        let (reader, written_bytes) = (&self.reader, self.writer.written_bytes);
        let completed = self.frames.saturating_mul(PROGRESS_BYTES_MIN);
        let reading = self.held.is_none() && self.pause.is_none() && self.reader.is_within_frame();
        // The peer cannot speed up a frame that waits for memory.
        let frame_bytes = if reading { reader.frame_bytes() } else { 0 };
        let size = frame_bytes.max(self.writer.peak_bytes());
        let pressed = self.writer.is_pressed();
        let progress = || Progress {
            moved: reader
                .come_bytes(socket)
                .saturating_add(written_bytes)
                .saturating_add(completed),
            size: size as u64,
            pressed,
        };
        let state = if reading || self.writer.pending_bytes() > 0 {
            Doing::Transfer
        } else if self.inflight.is_reading() {
            Doing::Wait
        } else if self.inflight.is_empty() && (self.held.is_none() || self.pause.is_some()) {
            Doing::Nothing
        } else {
            Doing::Work
        };
        self.watch.poll(cx, state, progress)
    }
}

fn may_begin<F: Future<Output = Reply>>(
    inflight: &Inflight<F>,
    writer: &ReplyWriter,
    request: &Request<F>,
    limits: &Limits,
) -> bool {
    let unwritten = writer.pending_bytes();
    if inflight.is_empty() && unwritten == 0 {
        return true;
    }
    request.called.overlaps
        && unwritten <= UNWRITTEN_BYTES_MAX
        && inflight.admits(request, limits.overlapped_max, limits.overlapped_bytes_max)
}
