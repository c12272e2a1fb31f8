//! The signals that a server heeds.
//!
//! SIGTERM and SIGINT stop it cleanly, and so does SIGHUP, which a closing terminal sends. Where a
//! listener speaks TLS or there are tokens, and where a service manager started the process, SIGHUP
//! is a reload, as daemons have it: keys, certificates and tokens are read again. If the terminal
//! of the process is gone, it is a stop even so. A process that was started with SIGHUP ignored
//! (nohup) keeps ignoring it. Not here: what a stop and a reload do.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

/// The signals of this process from now on.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Option<Signal>,
    /// True if there are files that a reload reads.
    reloads: bool,
    /// True if a service manager started the process.
    is_supervised: bool,
    /// True if the process was started from a terminal.
    has_terminal: bool,
}

impl Signals {
    /// Listens. `reloads`: there is something to be read again.
    pub(crate) fn new(reloads: bool, is_supervised: bool) -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("listening for signals");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hangup: (!platform::process::ignores_hangup())
                .then(|| listen(SignalKind::hangup()))
                .transpose()?,
            reloads,
            is_supervised,
            has_terminal: platform::process::has_terminal(),
        })
    }

    /// Returns the name of the next signal that stops the server; passes on what asks for a reload.
    pub(crate) async fn stop(&mut self, reload: &mpsc::Sender<()>) -> &'static str {
        loop {
            let hung_up = async {
                match &mut self.hangup {
                    Some(hangup) => hangup.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = self.terminate.recv() => return "SIGTERM",
                _ = self.interrupt.recv() => return "SIGINT",
                _ = hung_up => {}
            }
            if self.is_stop() {
                return "SIGHUP";
            }
            if self.reloads {
                tracing::info!(signal = "SIGHUP", "keys and certificates are read again");
            } else {
                tracing::info!(
                    signal = "SIGHUP",
                    "there are no keys, certificates or tokens to be read again; \
                     `forebay cluster config` and a restart change settings"
                );
            }
            // One that waits already stands for this one, too.
            let _ = reload.try_send(());
        }
    }

    /// Returns true if a SIGHUP that has come is a stop.
    fn is_stop(&self) -> bool {
        let is_reload = self.reloads || self.is_supervised;
        !is_reload || (self.has_terminal && !platform::process::has_terminal())
    }

    /// Returns the name of the next signal of an operator who does not want to wait: not SIGHUP.
    pub(crate) async fn urgent(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
