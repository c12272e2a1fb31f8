//! The clock of one connection: how long it has been idle, and whether a transfer moves.
//!
//! A transfer (a frame that has begun, replies not yet written) is looked at in windows of
//! `stall_max`; in each at least [`PROGRESS_BYTES_MIN`] must move or a frame be completed. Time
//! spent on requests counts for nothing. The timer is armed for the nearest deadline and looked at
//! again when it fires, so that a busy connection costs none.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep};

use super::{End, Limits};

/// Bytes that must move within `stall_max`; a completed frame counts as as many.
pub(super) const PROGRESS_BYTES_MIN: u64 = 4096;

/// What a connection is at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Doing {
    /// Bytes must move, and the next step is the peer's.
    Transfer,
    /// A request is worked on.
    Work,
    /// Nothing.
    Nothing,
}

/// See the module.
pub(super) struct Watch {
    limits: Limits,
    timer: Option<Pin<Box<Sleep>>>,
    doing: Doing,
    /// Beginning of the present window, or of doing nothing.
    since: Instant,
    moved_at_since: u64,
}

impl Watch {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            limits: limits.clone(),
            timer: None,
            doing: Doing::Nothing,
            since: Instant::now(),
            moved_at_since: 0,
        }
    }

    /// Ready when the connection has to end; `moved` is the sum of all progress so far,
    /// asked for only when it matters.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        doing: Doing,
        moved: impl Fn() -> u64,
    ) -> Poll<End> {
        if doing != self.doing || (doing == Doing::Nothing && moved() != self.moved_at_since) {
            self.restart(doing, moved());
        }
        loop {
            let Some(deadline) = self.deadline() else {
                return Poll::Pending;
            };
            if !self.fired(cx, deadline) {
                return Poll::Pending;
            }
            match doing {
                Doing::Nothing => return Poll::Ready(End::Idle),
                Doing::Transfer if moved() - self.moved_at_since < PROGRESS_BYTES_MIN => {
                    return Poll::Ready(End::Stalled);
                }
                Doing::Transfer | Doing::Work => self.restart(doing, moved()),
            }
        }
    }

    fn restart(&mut self, doing: Doing, moved: u64) {
        self.doing = doing;
        self.since = Instant::now();
        self.moved_at_since = moved;
    }

    fn deadline(&self) -> Option<Instant> {
        match self.doing {
            Doing::Nothing => self.limits.idle_max.map(|idle| self.since + idle),
            Doing::Transfer => Some(self.since + self.limits.stall_max),
            Doing::Work => None,
        }
    }

    /// True when `deadline` has passed; else the task is woken then.
    fn fired(&mut self, cx: &mut Context<'_>, deadline: Instant) -> bool {
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if timer.deadline() > deadline {
            timer.as_mut().reset(deadline);
        }
        while timer.as_mut().poll(cx).is_ready() {
            if timer.deadline() >= deadline {
                return true;
            }
            timer.as_mut().reset(deadline);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use super::*;

    fn limits() -> Limits {
        Limits {
            frame_bytes_max: 1000,
            idle_max: Some(Duration::from_mins(10)),
            stall_max: Duration::from_secs(30),
            overlapped_max: 5,
            overlapped_bytes_max: 1000,
            abandoned_max: Duration::from_secs(1),
        }
    }

    /// How long a connection lasts that is always at `doing` and moves `bytes` every second.
    async fn lasts(doing: Doing, bytes: u64) -> (End, u64) {
        let mut watch = Watch::new(&limits());
        let begin = Instant::now();
        loop {
            let moved = begin.elapsed().as_secs() * bytes;
            let poll = poll_fn(|cx| watch.poll(cx, doing, || moved));
            if let Ok(end) = tokio::time::timeout(Duration::from_secs(1), poll).await {
                return (end, begin.elapsed().as_secs());
            }
            if begin.elapsed() > Duration::from_hours(1) {
                return (End::Closed, 0);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn doing_nothing_ends_after_the_idle_time() {
        assert!(matches!(lasts(Doing::Nothing, 0).await, (End::Idle, 600)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_transfer_that_does_not_move_ends() {
        assert!(matches!(
            lasts(Doing::Transfer, 0).await,
            (End::Stalled, 30)
        ));
        assert!(matches!(
            lasts(Doing::Transfer, 10).await,
            (End::Stalled, 30)
        ));
    }

    #[tokio::test(start_paused = true)]
    async fn what_moves_or_is_worked_on_goes_on() {
        assert!(matches!(
            lasts(Doing::Transfer, 1000).await,
            (End::Closed, 0)
        ));
        assert!(matches!(lasts(Doing::Work, 0).await, (End::Closed, 0)));
        assert!(matches!(lasts(Doing::Nothing, 1).await, (End::Closed, 0)));
    }
}
