//! Ctrl-C and SIGTERM end a command that reads without end.
//!
//! The command checks [`Stop`] and ends cleanly.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};

/// Set once a signal asks the command to end.
#[derive(Clone, Debug)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Begins to listen for the signals.
    pub(crate) fn on_signal() -> anyhow::Result<Self> {
        let stop = Self(Arc::new(AtomicBool::new(false)));
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
            runtime.block_on(async {
                tokio::select! {
                    _ = interrupted.recv() => {}
                    _ = terminated.recv() => {}
                }
            });
            seen.0.store(true, Ordering::Relaxed);
        });
        Ok(stop)
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
