//! The time limits of one connection: how long it has been idle, and whether a transfer makes
//! progress.
//!
//! A transfer (a frame that has begun, replies not yet written) is checked in windows of
//! `stall_max`. In each window a [`WINDOWS_MAX`]th of the transfer must move, and at least
//! [`PROGRESS_BYTES_MIN`] or one complete frame; so no transfer holds memory for longer than
//! [`WINDOWS_MAX`] windows of its own time. While unread responses exceed their bound, a connection
//! that holds some of them is checked after every [`STEPS`]th of a window, by the same amount: the
//! slowest end within seconds. Time spent on requests does not count, nor does time in which other
//! connections write. The timer is set to the nearest deadline and checked when it fires, so that a
//! busy connection needs no timer.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep};

use super::{End, Limits};

/// Bytes that must move within `stall_max`; a completed frame counts as this many.
pub(super) const PROGRESS_BYTES_MIN: u64 = 4096;

/// Maximum number of windows of a transfer, whatever its size.
const WINDOWS_MAX: u64 = 20;

/// Parts of a window; a transfer may be checked after each part.
const STEPS: u32 = 10;

/// Progress of the transfers of a connection.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Progress {
    /// Bytes that have moved so far.
    pub(super) moved: u64,
    /// Size of the transfer that the peer has to continue.
    pub(super) size: u64,
    /// True if the memory that the transfer holds is needed.
    pub(super) pressed: bool,
}

/// What a connection does at present; the limit on its time follows from that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ConnectionActivity {
    /// Bytes must move, and the peer has to act.
    Transfer,
    /// A request is in progress.
    Work,
    /// A request waits for an event; it can be given up.
    Wait,
    /// Idle.
    Nothing,
}

/// The timer of one connection.
pub(super) struct Watch {
    limits: Limits,
    timer: Option<Pin<Box<Sleep>>>,
    doing: ConnectionActivity,
    /// Start of the present window, or of being idle.
    since: Instant,
    moved_at_since: u64,
    /// Bytes that must move in the present window.
    due: u64,
    /// Completed steps of the present window.
    steps: u32,
    /// Since when the broker holds the transfer up.
    held_up: Option<Instant>,
}

impl Watch {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            limits: limits.clone(),
            timer: None,
            doing: ConnectionActivity::Nothing,
            since: Instant::now(),
            moved_at_since: 0,
            due: PROGRESS_BYTES_MIN,
            steps: 0,
            held_up: None,
        }
    }

    /// Notes whether the broker holds the transfer up; that time does not count.
    pub(super) fn set_held_up(&mut self, is_held_up: bool) {
        if !is_held_up {
            if let Some(from) = self.held_up.take() {
                // The window may have begun meanwhile.
                self.since += from.max(self.since).elapsed();
            }
        } else if self.held_up.is_none() {
            self.held_up = Some(Instant::now());
        }
    }

    /// Completes when the connection has to end; `progress` is called only when it matters.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        doing: ConnectionActivity,
        progress: impl Fn() -> Progress,
    ) -> Poll<End> {
        if doing != self.doing
            || (doing == ConnectionActivity::Nothing && progress().moved != self.moved_at_since)
        {
            self.restart(doing, progress());
        }
        loop {
            let Some(deadline) = self.deadline() else {
                return Poll::Pending;
            };
            if !self.fired(cx, deadline) {
                return Poll::Pending;
            }
            match doing {
                ConnectionActivity::Nothing | ConnectionActivity::Wait => {
                    return Poll::Ready(End::Idle);
                }
                ConnectionActivity::Transfer => {
                    self.steps += 1;
                    let progress = progress();
                    if self.steps < STEPS && !progress.pressed {
                        continue;
                    }
                    // The system reports the bytes that have arrived unread; the peer may influence
                    // that number.
                    let moved = progress.moved.saturating_sub(self.moved_at_since);
                    if moved < self.due.min(due(progress.size)) {
                        return Poll::Ready(End::Stalled);
                    }
                    self.restart(doing, progress);
                }
                ConnectionActivity::Work => self.restart(doing, progress()),
            }
        }
    }

    fn restart(&mut self, doing: ConnectionActivity, progress: Progress) {
        self.doing = doing;
        self.since = Instant::now();
        self.steps = 0;
        self.moved_at_since = progress.moved;
        self.due = due(progress.size);
    }

    fn deadline(&self) -> Option<Instant> {
        match self.doing {
            ConnectionActivity::Nothing | ConnectionActivity::Wait => {
                self.limits.idle_max.map(|idle| self.since + idle)
            }
            ConnectionActivity::Transfer if self.held_up.is_some() => None,
            ConnectionActivity::Transfer => {
                Some(self.since + self.limits.stall_max * (self.steps + 1) / STEPS)
            }
            ConnectionActivity::Work => None,
        }
    }

    /// Returns true if `deadline` has passed; else the task is woken then.
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

/// Returns the bytes of a transfer of `size` that must move in a window.
fn due(size: u64) -> u64 {
    (size / WINDOWS_MAX).max(PROGRESS_BYTES_MIN)
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

    /// Returns how long a connection lasts that stays at `doing`, with `size` to transfer, and
    /// moves `bytes` every second.
    async fn lasts(doing: ConnectionActivity, size: u64, bytes: u64) -> (End, u64) {
        lasts_pressed(doing, size, bytes, u64::MAX).await
    }

    /// The same, but pressed after `calm` seconds.
    async fn lasts_pressed(
        doing: ConnectionActivity,
        size: u64,
        bytes: u64,
        calm: u64,
    ) -> (End, u64) {
        let mut watch = Watch::new(&limits());
        let begin = Instant::now();
        loop {
            let moved = begin.elapsed().as_secs() * bytes;
            let pressed = begin.elapsed().as_secs() >= calm;
            let progress = || Progress {
                moved,
                size,
                pressed,
            };
            let poll = poll_fn(|cx| watch.poll(cx, doing, progress));
            if let Ok(end) = tokio::time::timeout(Duration::from_secs(1), poll).await {
                return (end, begin.elapsed().as_secs());
            }
            if begin.elapsed() > Duration::from_hours(1) {
                return (End::Closed, 0);
            }
        }
    }

    async fn check(doing: ConnectionActivity, size: u64, bytes: u64, expected: (&str, u64)) {
        let (end, seconds) = lasts(doing, size, bytes).await;
        assert_eq!((end.label(), seconds), expected, "{doing:?} {size} {bytes}");
    }

    #[tokio::test(start_paused = true)]
    async fn doing_nothing_ends_after_the_idle_time() {
        check(ConnectionActivity::Nothing, 0, 0, ("idle", 600)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_for_what_may_never_come_ends_after_the_idle_time() {
        check(ConnectionActivity::Wait, 0, 0, ("idle", 600)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_transfer_that_does_not_move_ends() {
        check(ConnectionActivity::Transfer, 1000, 0, ("stalled", 30)).await;
        check(ConnectionActivity::Transfer, 1000, 10, ("stalled", 30)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_transfer_must_move_at_a_rate_that_brings_it_to_its_end() {
        let large = 100 << 20;
        check(ConnectionActivity::Transfer, large, 1000, ("stalled", 30)).await;
        check(
            ConnectionActivity::Transfer,
            large,
            large / 700,
            ("stalled", 30),
        )
        .await;
        check(
            ConnectionActivity::Transfer,
            large,
            large / 500,
            ("closed", 0),
        )
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn while_memory_is_wanted_back_the_slow_end_within_seconds_and_the_fast_go_on() {
        let large = 100 << 20;
        let pressed = async |bytes, calm| {
            let (end, seconds) =
                lasts_pressed(ConnectionActivity::Transfer, large, bytes, calm).await;
            (end.label(), seconds)
        };
        assert_eq!(pressed(0, 0).await, ("stalled", 3));
        assert_eq!(pressed(large / 100, 0).await, ("stalled", 3));
        assert_eq!(pressed(0, 11).await, ("stalled", 12));
        assert_eq!(pressed(large / 20, 0).await, ("closed", 0));
    }

    /// Returns how a transfer ends whose moved bytes and size are `before` at first, and `after`
    /// from half a window on.
    async fn ends(before: (u64, u64), after: (u64, u64)) -> (&'static str, u64) {
        let mut watch = Watch::new(&limits());
        let begin = Instant::now();
        loop {
            let is_late = begin.elapsed() >= Duration::from_secs(15);
            let (moved, size) = if is_late { after } else { before };
            let progress = || Progress {
                moved,
                size,
                pressed: false,
            };
            let poll = poll_fn(|cx| watch.poll(cx, ConnectionActivity::Transfer, progress));
            if let Ok(end) = tokio::time::timeout(Duration::from_secs(1), poll).await {
                return (end.label(), begin.elapsed().as_secs());
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_seems_to_have_gone_back_has_not_moved() {
        assert_eq!(ends((10_000, 0), (5000, 0)).await, ("stalled", 30));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_more_to_be_transferred_is_not_waited_for() {
        let large = 100 << 20;
        // Enough in the first window for the remaining size, and nothing in the second.
        assert_eq!(ends((0, large), (5000, 0)).await, ("stalled", 60));
        assert_eq!(ends((0, large), (5000, large)).await, ("stalled", 30));
    }

    #[tokio::test(start_paused = true)]
    async fn time_in_which_other_connections_write_does_not_count() {
        let mut watch = Watch::new(&limits());
        let progress = || Progress {
            moved: 0,
            size: 100 << 20,
            pressed: true,
        };
        let second = Duration::from_secs(1);
        for _ in 0..1000 {
            // Two seconds in which the peer may act, of the three that it has.
            for held_up in [true, false] {
                for _ in 0..if held_up { 10 } else { 2 } {
                    watch.set_held_up(held_up);
                    let poll = poll_fn(|cx| watch.poll(cx, ConnectionActivity::Transfer, progress));
                    let ended = tokio::time::timeout(second, poll).await;
                    assert!(ended.is_err() || !held_up, "the broker holds it up");
                    if ended.is_ok() {
                        return;
                    }
                }
            }
        }
        panic!("it never moves, so it ends");
    }

    #[tokio::test(start_paused = true)]
    async fn what_moves_or_is_worked_on_goes_on() {
        check(ConnectionActivity::Transfer, 1000, 1000, ("closed", 0)).await;
        check(ConnectionActivity::Work, 0, 0, ("closed", 0)).await;
        check(ConnectionActivity::Nothing, 0, 1, ("closed", 0)).await;
    }
}
