//! Timer with a precision of about ten microseconds.
//!
//! The runtime's timers tick in milliseconds, which would be most of a fast broker's latency when
//! records are sent at a rate. Where a millisecond does not matter, use the runtime's timers.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A timerfd of its own.
#[derive(Debug)]
pub(super) struct Alarm(AsyncFd<OwnedFd>);

impl Alarm {
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        #[expect(
            deprecated,
            reason = "what replaces it is unsafe for descriptors that may be closed early; an owned one is not"
        )]
        let timer = AsyncFd::with_interest(timer, Interest::READABLE)?;
        Ok(Self(timer))
    }

    /// Waits for `time`.
    ///
    /// Dropping the future is safe: the next wait sets the timer again.
    pub(super) async fn wait(&self, time: Duration) -> io::Result<()> {
        if time.is_zero() {
            return Ok(());
        }
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let once = Itimerspec {
            it_interval: zero,
            it_value: Timespec {
                tv_sec: time.as_secs().cast_signed(),
                tv_nsec: time.subsec_nanos().into(),
            },
        };
        timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &once)?;
        loop {
            let mut ready = self.0.readable().await?;
            let read = ready.try_io(|timer| {
                let mut expirations = [0; 8];
                Ok(rustix::io::read(timer, &mut expirations)?)
            });
            match read {
                Ok(done) => return done.map(drop),
                // An earlier setting of the timer had expired.
                Err(_would_block) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[tokio::test]
    async fn it_rings_not_before_its_time_and_again() {
        let alarm = Alarm::new().unwrap();
        for micros in [300, 0, 2_000] {
            let (time, start) = (Duration::from_micros(micros), Instant::now());
            alarm.wait(time).await.unwrap();
            assert!(start.elapsed() >= time);
        }
    }
}
