//! The loop of one connection: read a frame, call the service, write replies, watch the clock.
//!
//! Requests are worked on one after the other, as Kafka does, save that those which overlap may
//! begin while earlier ones of the same sort wait. One more request is read ahead, so that a peer
//! that has gone is noticed. A client whose quota is used up is left alone for a while: nothing of
//! it is read or begun, what was begun is finished. Invariants: a request that does not overlap begins only when
//! everything before it is answered and written; a future that was polled is polled until it is
//! ready, peer or no peer (bounded by `abandoned_max`), unless it only reads: a fetch does not outlive its client. A peer may
//! end its half of the connection and still read answers; those that come within a moment it gets.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use platform::socket::peer_has_ended;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep};

use super::frames::{Frame, FrameReader, ReadError};
use super::inflight::{Answered, Inflight, Request};
use super::replies::ReplyWriter;
use super::service::{Reply, RequestContext, Service};
use super::watch::{Doing, PROGRESS_BYTES_MIN, Progress, Watch};
use super::{End, Environment, Limits};

/// How long after the peer's end an answer is waited for that changes nothing.
const GONE_MAX: Duration = Duration::from_secs(1);

/// How often to look whether the peer has ended the connection, while a request that it sent ahead keeps us from reading.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Replies not yet written beyond which no more overlapping requests begin.
const UNWRITTEN_BYTES_MAX: usize = 64 << 10;

/// Serves one connection until it ends, and says why it did.
pub(super) async fn hold<S: Service>(
    socket: TcpStream,
    service: &S,
    context: &RequestContext,
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
            budget.account(context.peer.ip()),
            buffers.clone(),
            limits.frame_bytes_max,
        ),
        writer: ReplyWriter::new(answers.account(context.peer.ip())),
        inflight: Inflight::new(),
        held: None,
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
            let (bytes, since) = (frame.bytes.len(), Instant::now());
            let called = service.call(context, frame.bytes);
            Request {
                called,
                kind,
                bytes,
                taken: frame.taken,
                since,
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
    // The peer learns of the end now, not when its last request is done.
    drop(socket);
    let finish = poll_fn(|cx| talk.poll_rest(cx));
    // What is left then is dropped: nobody waits for it.
    let _ = tokio::time::timeout(limits.abandoned_max, finish).await;
    end
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A sender that is gone is a process that is stopping.
    let _ = stop.wait_for(|stop| *stop).await;
}

struct Conversation<'a, F> {
    limits: &'a Limits,
    reader: FrameReader,
    writer: ReplyWriter,
    inflight: Inflight<F>,
    /// Read and called, not begun.
    held: Option<Request<F>>,
    /// Frames read, ever.
    frames: u64,
    /// Why nothing more is read; what was begun is still answered.
    end: Option<End>,
    /// Nothing is read or begun before this.
    pause: Option<Pin<Box<Sleep>>>,
    /// The peer was seen to have ended the connection: until when what it waits for is worked on.
    gone: Option<Gone>,
    /// When to look for the peer's end.
    look: Option<Pin<Box<Sleep>>>,
    watch: Watch,
}

/// A peer that has ended the connection.
struct Gone {
    since: Instant,
    /// Frames read by then; another one is a sign of life.
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
                Some(request) if !matches!(self.end, Some(End::Stopping | End::Service(_))) => {
                    self.inflight.begin(cx, request);
                }
                _ => break,
            }
        }
        let is_over = self.end.is_some() && self.held.is_none() && self.is_quiet();
        if let Some(end) = self.end.take_if(|_| is_over) {
            return Poll::Ready(end);
        }
        if self.poll_gone(cx, socket).is_ready() {
            return Poll::Ready(self.end.take().unwrap_or(End::Closed));
        }
        self.poll_watch(cx, socket)
    }

    /// Ready when the peer has ended the connection and what is under way has had its time.
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

    /// True when the peer has ended the connection, though what it sent before is not all read.
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

    /// Polls what was begun, without reading or writing.
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

    /// Moves replies whose turn it is to the writer.
    fn collect(&mut self) {
        while let Some(Answered { reply, kind, since }) = self.inflight.next_answered() {
            kind.answered(since);
            match reply {
                _ if matches!(self.end, Some(End::Service(_))) => {}
                Reply::Send(parts) => self.writer.push(parts),
                Reply::Pause(parts, pause) => {
                    self.writer.push(parts);
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

    /// A quota is used up; the longer of two pauses holds.
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

    /// Nothing is under way and nothing waits to be written.
    fn is_quiet(&self) -> bool {
        self.inflight.is_empty() && self.writer.pending_bytes() == 0
    }

    /// Ends the connection when it is idle or stalled for too long.
    fn poll_watch(&mut self, cx: &mut Context<'_>, socket: &TcpStream) -> Poll<End> {
        let (reader, written_bytes) = (&self.reader, self.writer.written_bytes);
        let completed = self.frames.saturating_mul(PROGRESS_BYTES_MIN);
        let reading = self.held.is_none() && self.pause.is_none() && self.reader.is_within_frame();
        // The peer can do nothing for a frame that waits for memory.
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
