//! Requests begun and not yet answered, in their order.
//!
//! Invariants: each future has been polled at least once, in the order of the requests; replies
//! come out in that order; several requests are here together only if all of them overlap.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use broker::dispatch::{ParsedRequest, Reply};

use super::bell::Bell;
use super::budget::Taken;
use crate::metrics::{RequestKind, Timing};

/// A request that was read and called but whose future was not polled yet.
pub(super) struct Request<F> {
    pub(super) called: ParsedRequest<F>,
    pub(super) kind: RequestKind,
    pub(super) bytes: usize,
    pub(super) taken: Taken,
    pub(super) timing: Timing,
}

/// The next reply in order.
pub(super) struct Answered {
    pub(super) reply: Reply,
    pub(super) kind: RequestKind,
    pub(super) timing: Timing,
}

/// The requests in progress.
pub(super) struct Inflight<F> {
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
    _taken: Taken,
}

enum Work<F> {
    Running(Pin<Box<F>>),
    Done(Reply),
}

impl<F: Future<Output = Reply>> Inflight<F> {
    pub(super) fn new() -> Self {
        Self {
            slots: VecDeque::new(),
            bytes: 0,
            bell: Bell::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns true while a request that only reads has no reply yet; mostly a waiting fetch.
    pub(super) fn is_reading(&self) -> bool {
        let reads = |slot: &Slot<F>| slot.only_reads && matches!(slot.work, Work::Running(_));
        self.slots.iter().any(reads)
    }

    /// Drops the requests that only read: their client is gone.
    pub(super) fn drop_reads(&mut self) {
        self.slots.retain(|slot| !slot.only_reads);
        self.bytes = self.slots.iter().fold(0, |sum, slot| sum + slot.bytes);
    }

    /// Returns true if `request` may begin beside those in progress.
    pub(super) fn admits(&self, request: &Request<F>, count_max: usize, bytes_max: usize) -> bool {
        self.slots.back().is_none_or(|last| {
            last.overlaps
                && request.called.overlaps
                && self.slots.len() < count_max
                && self.bytes + request.bytes <= bytes_max
        })
    }

    /// Begins a request, with the first poll of its future.
    pub(super) fn begin(&mut self, cx: &Context<'_>, request: Request<F>) {
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
    pub(super) fn poll(&mut self, cx: &Context<'_>) {
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
    pub(super) fn next_answered(&mut self) -> Option<Answered> {
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
            Work::Done(reply) => Some(Answered {
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
