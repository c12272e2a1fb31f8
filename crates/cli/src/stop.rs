//! Ctrl-C and SIGTERM end a command that reads or watches without end.
//!
//! The command checks [`Stop`], or waits for it, and ends cleanly. A second signal ends it at once,
//! also while it waits for a broker.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{process, thread};

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};

/// The exit code after a second signal, as a shell reports SIGINT.
const INTERRUPTED: i32 = 130;

/// Set once a signal asks the command to end.
#[derive(Clone, Default, Debug)]
pub(crate) struct Stop(Arc<StopFlag>);

#[derive(Default, Debug)]
struct StopFlag {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// Begins to listen for the signals.
    pub(crate) fn on_signal() -> anyhow::Result<Self> {
        let stop = Self::default();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .context("listening for signals")?;
        let (mut interrupted, mut terminated) = {
            let _inside = runtime.enter();
            (
                signal(SignalKind::interrupt())?,
                signal(SignalKind::terminate())?,
            )
        };
        let seen = stop.clone();
        thread::spawn(move || {
            let next = || {
                runtime.block_on(async {
                    tokio::select! {
                        _ = interrupted.recv() => {}
                        _ = terminated.recv() => {}
                    }
                });
            };
            obey(&seen, next, || process::exit(INTERRUPTED));
        });
        Ok(stop)
    }

    fn set(&self) {
        *self.held() = true;
        self.0.changed.notify_all();
    }

    pub(crate) fn is_set(&self) -> bool {
        *self.held()
    }

    /// Waits until a signal asks the command to end, or so long; returns whether one did.
    pub(crate) fn wait(&self, up_to: Duration) -> bool {
        let waited = self
            .0
            .changed
            .wait_timeout_while(self.held(), up_to, |is_set| !*is_set);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Returns the value. A panic of another holder would leave it whole.
    fn held(&self) -> MutexGuard<'_, bool> {
        self.0.is_set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sets `stop` at the first signal, and ends the command at the second.
fn obey(stop: &Stop, mut next: impl FnMut(), end: impl FnOnce()) {
    next();
    stop.set();
    next();
    end();
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn who_waits_is_told_at_once() {
        let stop = Stop::default();
        assert!(!stop.is_set());
        assert!(!stop.wait(Duration::ZERO));
        let other = stop.clone();
        let waiting = thread::spawn(move || other.wait(Duration::from_hours(1)));
        stop.set();
        assert!(waiting.join().unwrap());
        assert!(stop.is_set() && stop.wait(Duration::from_hours(1)));
    }

    #[test]
    fn the_first_signal_asks_and_the_second_ends() {
        let (stop, signals, ended) = (Stop::default(), Cell::new(0), Cell::new(false));
        let next = || {
            assert_eq!(stop.is_set(), signals.get() > 0);
            signals.set(signals.get() + 1);
        };
        obey(&stop, next, || ended.set(true));
        assert!(stop.is_set() && ended.get());
        assert_eq!(signals.get(), 2);
    }
}
