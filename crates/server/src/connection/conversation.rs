//! The loop of one connection: read a frame, call the service, begin its requests in their order,
//! write the replies in that order.
//!
//! Requests are handled one after the other, as in Kafka, except that a request that overlaps may
//! begin while earlier ones of the same kind wait. One further request is read ahead, so that the
//! end of the connection is noticed. While a client is throttled, no request of it is read or
//! begun, and those that have begun are finished. Until a client is logged in, frames have a lower
//! bound, and nothing is read ahead. Pauses and time limits: `conversation/timers.rs`.
//!
//! Invariants: a request that does not overlap begins only when everything before it is answered
//! and written; a future that was polled is polled until it is ready, even without a peer (bounded
//! by `abandoned_max`), unless it only reads: a fetch does not outlive its client.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use broker::dispatch::{ParsedRequest, Reply, Service};
use broker::handler;
use broker::session::Session;
use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep};

use super::bell::Bell;
use super::budget::TakenBytes;
use super::frames::{Frame, FrameReader, ReadError};
use super::replies::ReplyWriter;
use super::transport::Transport;
use super::unsent::UnsentAnswers;
use super::watch::Watch;
use super::{End, Environment, Limits};
use crate::metrics::{RequestKind, Timing};
use timers::ClosedPeer;
pub(super) use timers::Login;

mod timers;

/// Unwritten bytes of replies above which no further overlapping requests begin.
const UNWRITTEN_BYTES_MAX: usize = 64 << 10;

/// Serves one connection until it ends, and returns why it ended.
pub(super) async fn hold<S: Service>(
    mut socket: Transport,
    service: &S,
    (client, login): (&handler::Context, Option<Login>),
    environment: &Environment,
) -> End {
    let Environment {
        limits,
        budget,
        answers,
        buffers,
        write_turns,
        meter,
        stop,
        ..
    } = environment;
    let mut stop = stop.clone();
    let ip = client.peer.ip();
    let mut talk = Conversation {
        limits,
        reader: FrameReader::new(budget.account(ip), buffers.clone(), limits.frame_bytes_max),
        writer: ReplyWriter::new(answers.account(ip), write_turns.place()),
        inflight: Inflight::new(),
        unsent: UnsentAnswers::new(),
        held: None,
        is_late: false,
        frames: 0,
        end: None,
        pause: None,
        gone: None,
        look: None,
        login,
        session: &client.session,
        watch: Watch::new(limits),
    };
    let mut stopping = std::pin::pin!(stopped(&mut stop));
    let mut counted = (0, 0);
    let end = poll_fn(|cx| {
        if talk.end.is_none() && stopping.as_mut().poll(cx).is_ready() {
            talk.end = Some(End::Stopping);
        }
        let call = |frame: Frame| {
            let (kind, timing) = (meter.taken(&frame.bytes), Timing::new());
            let bytes = frame.bytes.len();
            let called = service.call(client.clone(), frame.bytes);
            Request {
                called,
                kind,
                bytes,
                taken: frame.taken,
                timing,
            }
        };
        let polled = talk.poll(cx, &mut socket, call);
        meter.moved(
            &mut counted,
            (talk.reader.read_bytes, talk.writer.written_bytes),
        );
        polled
    })
    .await;
    // Close now, so that the peer learns of the end before its last request is done.
    socket.close();
    talk.writer.leave();
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
    unsent: UnsentAnswers,
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
    gone: Option<ClosedPeer>,
    /// When to check whether the peer has ended the connection.
    look: Option<Pin<Box<Sleep>>>,
    session: &'a Session,
    /// What ends the connection until the client is logged in; `None` once it is.
    login: Option<Login>,
    watch: Watch,
}

impl<F: Future<Output = Reply>> Conversation<'_, F> {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        socket: &mut Transport,
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
            if self.end.is_none() && self.held.is_none() && !paused && self.may_read() {
                match self.reader.poll_frame(cx, socket) {
                    Poll::Ready(Ok(Some(frame))) => {
                        self.frames += 1;
                        self.held = Some(call(frame));
                    }
                    Poll::Ready(Ok(None)) => self.end = Some(End::Closed),
                    Poll::Ready(Err(ReadError::Socket(error))) => {
                        return Poll::Ready(End::Broken(error));
                    }
                    // Nothing can be written any more, either.
                    Poll::Ready(Err(error @ ReadError::Tls(_))) => {
                        return Poll::Ready(End::BadFrame(error));
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
        if let Poll::Ready(end) = self.poll_login(cx) {
            return Poll::Ready(end);
        }
        self.poll_watch(cx, socket)
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
        while let Some(NextReply {
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
                    if let Some(response) = response {
                        self.send(response.into_segments(), kind, ready);
                    }
                    self.pause_for(pause);
                }
                Reply::Nothing => {}
                Reply::Last(response, reason) => {
                    self.send(response.into_segments(), kind, ready);
                    self.held = None;
                    self.end = Some(End::Service(*reason));
                }
                Reply::Close(reason) => {
                    self.held = None;
                    self.end = Some(End::Service(*reason));
                }
            }
        }
    }

    fn send(&mut self, parts: Vec<Bytes>, kind: RequestKind, ready: Instant) {
        self.writer.push(parts);
        self.unsent.push(kind, ready, self.writer.end());
    }

    /// Counts the time of answers that are written.
    fn count_sent(&mut self) {
        let mut now = None;
        while let Some((kind, ready)) = self.unsent.next_sent(self.writer.written_bytes) {
            let now = *now.get_or_insert_with(Instant::now);
            kind.sent(now.saturating_duration_since(ready));
        }
    }

    /// Returns true if no request is in progress and no reply is unwritten.
    fn is_quiet(&self) -> bool {
        self.inflight.is_empty() && self.writer.pending_bytes() == 0
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

/// A request that was read and called but whose future was not polled yet.
struct Request<F> {
    called: ParsedRequest<F>,
    kind: RequestKind,
    bytes: usize,
    taken: TakenBytes,
    timing: Timing,
}

/// The reply to the oldest request that is not yet answered.
struct NextReply {
    reply: Reply,
    kind: RequestKind,
    timing: Timing,
}

/// The requests begun and not yet answered, in their order.
///
/// Invariants: each future has been polled at least once, in the order of the requests; replies
/// come out in that order; several requests are here together only if all of them overlap.
struct Inflight<F> {
    // Bounded: `shards::OVERLAPPED_MAX`.
    slots: VecDeque<Slot<F>>,
    bytes: usize,
    bell: Bell,
}

struct Slot<F> {
    work: Work<F>,
    overlaps: bool,
    only_reads: bool,
    kind: RequestKind,
    bytes: usize,
    timing: Timing,
    _taken: TakenBytes,
}

enum Work<F> {
    Running(Pin<Box<F>>),
    Done(Reply),
}

impl<F: Future<Output = Reply>> Inflight<F> {
    fn new() -> Self {
        Self {
            slots: VecDeque::new(),
            bytes: 0,
            bell: Bell::new(),
        }
    }

    fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns true while a request that only reads has no reply yet; mostly a waiting fetch.
    fn is_reading(&self) -> bool {
        let reads = |slot: &Slot<F>| slot.only_reads && matches!(slot.work, Work::Running(_));
        self.slots.iter().any(reads)
    }

    /// Drops the requests that only read: their client is gone.
    fn drop_reads(&mut self) {
        self.slots.retain(|slot| !slot.only_reads);
        self.bytes = self.slots.iter().fold(0, |sum, slot| sum + slot.bytes);
    }

    /// Returns true if `request` may begin beside those in progress.
    fn admits(&self, request: &Request<F>, count_max: usize, bytes_max: usize) -> bool {
        self.slots.back().is_none_or(|last| {
            last.overlaps
                && request.called.overlaps
                && self.slots.len() < count_max
                && self.bytes + request.bytes <= bytes_max
        })
    }

    /// Begins a request, with the first poll of its future.
    fn begin(&mut self, cx: &Context<'_>, request: Request<F>) {
        let last = self.slots.back();
        assert!(
            last.is_none_or(|last| last.overlaps && request.called.overlaps),
            "only requests that overlap are under way together"
        );
        let Request {
            called,
            kind,
            bytes,
            taken,
            mut timing,
        } = request;
        let mut work = Work::Running(Box::pin(called.reply));
        self.bell.hang(cx);
        work.poll(&mut Context::from_waker(self.bell.waker()));
        if matches!(work, Work::Running(_)) {
            timing.waits();
        }
        self.bytes += bytes;
        let (overlaps, only_reads) = (called.overlaps, called.only_reads);
        self.slots.push_back(Slot {
            work,
            overlaps,
            only_reads,
            kind,
            bytes,
            timing,
            _taken: taken,
        });
    }

    /// Polls the running futures, if one of them asked for it.
    fn poll(&mut self, cx: &Context<'_>) {
        self.bell.hang(cx);
        if !self.bell.was_rung() {
            return;
        }
        let mut cx = Context::from_waker(self.bell.waker());
        for slot in &mut self.slots {
            slot.work.poll(&mut cx);
        }
    }

    /// Returns the reply to the first request when it is ready, and frees the memory of the
    /// request.
    fn next_answered(&mut self) -> Option<NextReply> {
        if matches!(self.slots.front()?.work, Work::Running(_)) {
            return None;
        }
        let slot = self.slots.pop_front()?;
        self.bytes -= slot.bytes;
        assert!(
            !self.slots.is_empty() || self.bytes == 0,
            "the sum of those that are under way"
        );
        match slot.work {
            Work::Running(_) => unreachable!("it was done just now"),
            Work::Done(reply) => Some(NextReply {
                reply,
                kind: slot.kind,
                timing: slot.timing,
            }),
        }
    }
}

impl<F: Future<Output = Reply>> Work<F> {
    fn poll(&mut self, cx: &mut Context<'_>) {
        if let Self::Running(future) = self
            && let Poll::Ready(reply) = future.as_mut().poll(cx)
        {
            *self = Self::Done(reply);
        }
    }
}
