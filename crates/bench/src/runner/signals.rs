//! SIGINT and SIGTERM: the first one ends the run with its cleanup, the second one at once.

use std::sync::{Arc, OnceLock};

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};

use crate::load::Stop;

/// The first signal received.
#[derive(Clone, Debug)]
pub(super) struct Signals {
    first: Arc<OnceLock<ReceivedSignal>>,
    stop: Stop,
}

#[derive(Clone, Copy, Debug)]
struct ReceivedSignal {
    name: &'static str,
    /// The exit code that a shell reports for a program ended by this signal.
    code: u8,
}

impl Signals {
    /// Listens for signals from now on.
    pub(super) fn listen() -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (mut interrupt, mut terminate) = {
            let _inside = runtime.enter();
            let listen = |kind| signal(kind).context("listening for signals");
            (
                listen(SignalKind::interrupt())?,
                listen(SignalKind::terminate())?,
            )
        };
        let signals = Self {
            first: Arc::default(),
            stop: Stop::default(),
        };
        let seen = signals.clone();
        let listen = async move {
            loop {
                let received = tokio::select! {
                    _ = interrupt.recv() => ReceivedSignal { name: "SIGINT", code: 130 },
                    _ = terminate.recv() => ReceivedSignal { name: "SIGTERM", code: 143 },
                };
                if seen.first.set(received).is_err() {
                    eprintln!("\nended at once; the next run removes what is left");
                    std::process::exit(i32::from(received.code));
                }
                eprintln!("\n{}: ending; once more ends at once", received.name);
                seen.stop.now();
            }
        };
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || runtime.block_on(listen))
            .context("starting the thread for signals")?;
        Ok(signals)
    }

    /// Returns the handle that ends a load.
    pub(super) fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Returns the name of the received signal.
    pub(super) fn name(&self) -> Option<&'static str> {
        self.first.get().map(|received| received.name)
    }

    /// Returns the exit code for the received signal.
    pub(super) fn code(&self) -> Option<u8> {
        self.first.get().map(|received| received.code)
    }
}
