//! The timers of a conversation: a pause that a quota imposes, a peer that is gone, a client that
//! does not log in, and a connection that is idle or stalled.
//!
//! A peer that ends its half of the connection still gets the replies that are ready within
//! `GONE_MAX` (reads) or `abandoned_max`. It reads and writes nothing, and begins no request.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use broker::dispatch::Reply;
use broker::session::Session;
use tokio::time::{Instant, Sleep};

use super::Conversation;
use crate::admission::Stranger;
use crate::connection::End;
use crate::connection::frames::ReadError;
use crate::connection::transport::Transport;
use crate::connection::watch::{ConnectionActivity, PROGRESS_BYTES_MIN, Progress};

/// How long a request that only reads continues after the peer has ended the connection.
const GONE_MAX: Duration = Duration::from_secs(1);

/// Interval of checks whether the peer has ended the connection, while a request that it sent ahead
/// blocks the reading.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// What ends the connection of a client that has to log in, until it is.
pub(in crate::connection) struct Login {
    timer: Pin<Box<Sleep>>,
    stranger: Option<Stranger>,
}

impl Login {
    /// Returns that of a session that began at `since`; `None` if its client need not log in.
    pub(in crate::connection) fn of(
        session: &Session,
        since: Instant,
        stranger: Option<Stranger>,
    ) -> Option<Self> {
        let limits = session.login_limits()?;
        Some(Self {
            timer: Box::pin(tokio::time::sleep_until(since + limits.time_max)),
            stranger,
        })
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        if self.timer.as_mut().poll(cx).is_ready() {
            return Poll::Ready(End::NotLoggedIn);
        }
        match &mut self.stranger {
            Some(stranger) => stranger.poll_end(cx).map(|()| End::Crowded),
            None => Poll::Pending,
        }
    }
}

/// A peer that has ended the connection.
pub(super) struct ClosedPeer {
    since: Instant,
    /// Frames read by then; a further one shows that the peer is alive.
    frames: u64,
    timer: Pin<Box<Sleep>>,
}

impl<F: Future<Output = Reply>> Conversation<'_, F> {
    /// Pauses the connection because a quota is used up; the longer of two pauses holds.
    pub(super) fn pause_for(&mut self, pause: Duration) {
        let until = Instant::now() + pause;
        if self
            .pause
            .as_ref()
            .is_none_or(|before| before.deadline() < until)
        {
            self.pause = Some(Box::pin(tokio::time::sleep_until(until)));
        }
    }

    /// Returns true while the connection is paused.
    pub(super) fn is_paused(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(pause) = &mut self.pause else {
            return false;
        };
        if pause.as_mut().poll(cx).is_ready() {
            self.pause = None;
        }
        self.pause.is_some()
    }

    /// Returns true if another frame may be read. The frames of a login come one at a time, and
    /// have a bound of their own.
    pub(super) fn may_read(&mut self) -> bool {
        let login = self.session.login_limits();
        let bytes_max = self.limits.frame_bytes_max;
        let of_login = login.map_or(bytes_max, |login| login.frame_bytes_max);
        self.reader.bound(of_login.min(bytes_max));
        login.is_none() || self.inflight.is_empty()
    }

    /// Completes when the client has not logged in in time, or has to make room for others.
    pub(super) fn poll_login(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        if self.login.is_some() && self.session.login_limits().is_none() {
            self.login = None;
        }
        match &mut self.login {
            Some(login) => login.poll(cx),
            None => Poll::Pending,
        }
    }

    /// Completes when the peer has ended the connection and the time for its requests is over.
    pub(super) fn poll_gone(&mut self, cx: &mut Context<'_>, socket: &Transport) -> Poll<()> {
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
        let gone = self.gone.get_or_insert_with(|| ClosedPeer {
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
    fn sees_end(&mut self, cx: &mut Context<'_>, socket: &Transport) -> bool {
        let timer = || Box::pin(tokio::time::sleep(LOOK_INTERVAL));
        let look = self.look.get_or_insert_with(timer);
        while look.as_mut().poll(cx).is_ready() {
            if socket.peer_has_ended() {
                return true;
            }
            look.as_mut().reset(Instant::now() + LOOK_INTERVAL);
        }
        false
    }

    /// Ends the connection when it is idle or stalled for too long.
    pub(super) fn poll_watch(&mut self, cx: &mut Context<'_>, socket: &Transport) -> Poll<End> {
        let (reader, written_bytes) = (&self.reader, self.writer.written_bytes);
        let completed = self.frames.saturating_mul(PROGRESS_BYTES_MIN);
        let is_open = self.held.is_none() && self.pause.is_none();
        let reading = is_open && self.reader.is_within_frame(socket);
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
            ConnectionActivity::Transfer
        } else if self.inflight.is_reading() {
            ConnectionActivity::Wait
        } else if self.inflight.is_empty() && (self.held.is_none() || self.pause.is_some()) {
            ConnectionActivity::Nothing
        } else {
            ConnectionActivity::Work
        };
        // The peer of a connection that waits for others does nothing wrong.
        self.watch
            .set_held_up(self.writer.waits_for_others() && !reading);
        self.watch.poll(cx, state, progress)
    }
}
