//! The keys and certificates that listeners serve with, and how they change while they serve.
//!
//! Their files are looked at every `ssl.reload.interval.ms`, and read again when one of them is
//! another than before, when the operator asks for it (SIGHUP), or when a client has changed their
//! settings or others of the broker. What is read is one set: it is
//! taken whole if it fits together and may follow the one before, and else that stays in force,
//! which is logged and counted. What could not be read is tried again at each look: a file may be
//! half-written.
//!
//! Invariants: a listener has a whole set at every moment; a handshake uses the set that is in
//! force when its client speaks, and connections live on. Not here: what fits together
//! ([`ServerTls`]), what may follow what ([`reload`]), and when the signal means this (`signals`).

mod changes;
mod expiry;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use broker::listener_stores::StoreValues;
use tls::reload::{self, ReloadVerdict};
use tls::watch::{FileStamp, StoreWatch};
use tls::{Opened, ServerTls, ServerTlsSettings, StoreSettings, TlsProblem, TlsWarning};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::admission::NodeConfigWatch;
use crate::metrics::TlsMetrics;
use crate::wall::milliseconds;
pub(crate) use changes::StoreChanges;
use changes::{CheckedListener, with_values};
use expiry::ExpiryWarnings;

/// Time after which the log says that a look has not ended.
const LONG_LOOK: Duration = Duration::from_secs(30);

/// The sets of all listeners that speak TLS.
#[derive(Debug)]
pub(crate) struct Certificates {
    /// Since when times are counted.
    since: Instant,
    /// Time between two looks; `None` for never.
    interval: Option<Duration>,
    // Bounded: one for each of `listeners`.
    listeners: Vec<OfListener>,
    /// What checks the values that clients want to set.
    changes: StoreChanges,
    /// Receives when clients have changed settings of the broker.
    again: mpsc::Receiver<()>,
}

#[derive(Debug)]
struct OfListener {
    name: Arc<str>,
    /// The settings of the start.
    given: ServerTlsSettings,
    /// These with what clients have set.
    settings: ServerTlsSettings,
    in_force: watch::Sender<Arc<ServerTls>>,
    files: StoreWatch,
    /// Why the last set was not taken.
    failed: Option<String>,
    warnings: ExpiryWarnings,
}

/// Why there is a look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Look {
    /// The time has come: what has not changed is left alone.
    Timely,
    /// The operator asks: everything is read.
    Asked,
    /// A client has changed settings of the broker: everything is read.
    Set,
}

/// The time of a look, in milliseconds: since the beginning, and of the wall clock.
#[derive(Clone, Copy, Debug)]
struct Times {
    up_ms: i64,
    wall_ms: i64,
}

impl Certificates {
    /// Opens the sets of all listeners, and logs what there is to say about them. Reads files, so
    /// it blocks.
    pub(crate) fn open(
        listeners: BTreeMap<String, ServerTlsSettings>,
        interval: Duration,
    ) -> Result<Self, TlsProblem> {
        let since = Instant::now();
        let interval = Some(interval).filter(|interval| !interval.is_zero());
        let open = |(name, settings): (String, ServerTlsSettings)| {
            // A change from here on is one that the next look finds.
            let seen = stamps(&settings.stores);
            let Opened { tls, warnings } = ServerTls::open(&settings)?;
            say(&name, &warnings);
            let every_ms = interval.map_or(0, milliseconds);
            let files = StoreWatch::new(every_ms, seen, 0, Times::now(since).wall_ms);
            Ok(OfListener {
                name: name.into(),
                given: settings.clone(),
                settings,
                in_force: watch::Sender::new(Arc::new(tls)),
                files,
                failed: None,
                warnings: ExpiryWarnings::default(),
            })
        };
        let listeners = listeners.into_iter().map(open);
        let listeners = listeners.collect::<Result<Vec<_>, TlsProblem>>()?;
        let checked = |one: &OfListener| CheckedListener {
            lower: one.name.to_ascii_lowercase(),
            given: one.given.clone(),
            in_force: one.in_force.subscribe(),
        };
        let (changes, again) = StoreChanges::of(listeners.iter().map(checked).collect());
        Ok(Self {
            since,
            interval,
            listeners,
            changes,
            again,
        })
    }

    /// Returns what checks the values that clients want to set.
    pub(crate) fn changes(&self) -> StoreChanges {
        self.changes.clone()
    }

    /// Returns the set of each listener, as it will be.
    pub(crate) fn in_force(&self) -> BTreeMap<String, watch::Receiver<Arc<ServerTls>>> {
        let of = |listener: &OfListener| (listener.name.to_string(), listener.in_force.subscribe());
        self.listeners.iter().map(of).collect()
    }

    /// Looks each time it is due, on each message of `asked`, and when clients have changed
    /// settings of `node`, until all senders of `asked` are gone. Tells `heeded` when the first
    /// settings of clients are in force.
    pub(crate) async fn keep(
        mut self,
        mut asked: mpsc::Receiver<()>,
        mut node: Option<NodeConfigWatch>,
        heeded: watch::Sender<bool>,
        metrics: TlsMetrics,
    ) {
        self.show(&metrics);
        heeded.send_replace(node.is_none());
        // What clients have set, once that is known.
        let mut known = None;
        let mut looked = Instant::now();
        loop {
            let interval = self.interval;
            let due = async {
                match interval {
                    Some(interval) => tokio::time::sleep_until(looked + interval).await,
                    None => std::future::pending().await,
                }
            };
            let look = tokio::select! {
                () = due => Some(Look::Timely),
                asked = asked.recv() => match asked {
                    Some(()) => Some(Look::Asked),
                    None => return,
                },
                Some(()) = self.again.recv() => Some(Look::Set),
                () = changed(&mut node) => None,
            };
            let newest = node
                .as_mut()
                .and_then(|node| node.borrow_and_update().clone());
            let set = newest.map(|newest| newest.stores.clone());
            let is_new = set != known;
            let Some(look) = look.or(is_new.then_some(Look::Set)) else {
                continue;
            };
            if let Some(set) = set.filter(|_| is_new) {
                self.learn(&set);
                known = Some(set);
            }
            let counts = metrics.clone();
            let looking = tokio::task::spawn_blocking(move || {
                self.look(look, Times::now(self.since), &counts);
                self
            });
            match in_time_or_said(looking).await {
                Ok(back) => {
                    self = back;
                    looked = Instant::now();
                    if known.is_some() {
                        heeded.send_replace(true);
                    }
                }
                // The process is ending.
                Err(_) => return,
            }
        }
    }

    /// Puts what clients have set in the place of what they had set before.
    fn learn(&mut self, set: &BTreeMap<String, StoreValues>) {
        let none = StoreValues::new();
        for listener in &mut self.listeners {
            let lower = listener.name.to_ascii_lowercase();
            let values = set.get(&lower).unwrap_or(&none);
            listener.settings = with_values(&listener.given, &lower, values);
        }
    }

    /// Shows when certificates expire, and warns of those that do soon.
    fn show(&mut self, metrics: &TlsMetrics) {
        let now = Times::now(self.since);
        for listener in &mut self.listeners {
            listener.show(now, metrics);
        }
    }

    fn look(&mut self, look: Look, now: Times, metrics: &TlsMetrics) {
        for listener in &mut self.listeners {
            listener.look(look, now, metrics);
            listener.show(now, metrics);
        }
    }
}

/// Waits until settings of the node have changed.
async fn changed(node: &mut Option<NodeConfigWatch>) {
    let is_over = match node {
        Some(node) => node.changed().await.is_err(),
        None => true,
    };
    if is_over {
        std::future::pending::<()>().await;
    }
}

/// Waits for `looking`, and logs each [`LONG_LOOK`] that it has not come to its end: files on a
/// disk that hangs keep renewed ones away, too.
async fn in_time_or_said<T>(looking: impl Future<Output = T>) -> T {
    let mut looking = std::pin::pin!(looking);
    loop {
        tokio::select! {
            biased;
            looked = &mut looking => return looked,
            () = tokio::time::sleep(LONG_LOOK) => tracing::warn!(
                "the files of keys and certificates have not been read yet: their disk may hang, \
                 and no renewed key is taken until it answers"
            ),
        }
    }
}

impl OfListener {
    fn look(&mut self, look: Look, now: Times, metrics: &TlsMetrics) {
        let stamps = stamps(&self.settings.stores);
        let is_due = self.files.look(stamps, now.up_ms, now.wall_ms);
        if !is_due && look == Look::Timely {
            return;
        }
        match ServerTls::open(&self.settings) {
            Ok(Opened { tls, warnings }) => self.decide(tls, &warnings, look, metrics),
            Err(problem) => {
                self.files.note_failure();
                self.refuse(problem.to_string(), look, metrics);
            }
        }
    }

    fn decide(
        &mut self,
        tls: ServerTls,
        warnings: &[TlsWarning],
        look: Look,
        metrics: &TlsMetrics,
    ) {
        let before = self.in_force.borrow().clone();
        match reload::decide(&before, &tls, self.settings.allowed_changes) {
            ReloadVerdict::Same => {
                self.failed = None;
                if look == Look::Asked {
                    let listener = &*self.name;
                    tracing::info!(listener, "keys and certificates are those in force already");
                }
            }
            ReloadVerdict::Take => {
                say(&self.name, warnings);
                self.in_force.send_replace(Arc::new(tls));
                self.failed = None;
                self.warnings = ExpiryWarnings::default();
                metrics.reloaded(&self.name, true);
                let listener = &*self.name;
                tracing::info!(listener, "new keys and certificates are in force");
            }
            ReloadVerdict::Keep(why) => self.refuse(why, look, metrics),
        }
    }

    /// Leaves the set before in force. The log has the reason once, and again for an operator or a
    /// client who asks.
    fn refuse(&mut self, why: String, look: Look, metrics: &TlsMetrics) {
        metrics.reloaded(&self.name, false);
        if look != Look::Timely || self.failed.as_ref() != Some(&why) {
            let listener = &*self.name;
            tracing::error!(listener, reason = %why,
                "new keys and certificates are not taken: those before stay in force");
        }
        self.failed = Some(why);
    }

    fn show(&mut self, now: Times, metrics: &TlsMetrics) {
        let Some(expiry) = self.in_force.borrow().expiry() else {
            return;
        };
        metrics.expires(&self.name, expiry.not_after);
        let (listener, subject) = (&*self.name, &*expiry.subject);
        match self.warnings.due(expiry.not_after, now.wall_ms / 1000) {
            Some(0) => {
                tracing::error!(
                    listener,
                    subject,
                    "a certificate has expired: clients refuse it"
                );
            }
            Some(days) => {
                tracing::warn!(
                    listener,
                    subject,
                    days,
                    "a certificate expires within so many days"
                );
            }
            None => {}
        }
    }
}

impl Times {
    fn now(since: Instant) -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            up_ms: milliseconds(since.elapsed()),
            wall_ms: milliseconds(wall.unwrap_or_default()),
        }
    }
}

fn stamps(stores: &StoreSettings) -> Vec<Option<FileStamp>> {
    stores.files().iter().map(|it| FileStamp::of(it)).collect()
}

fn say(listener: &str, warnings: &[TlsWarning]) {
    for warning in warnings {
        tracing::warn!(listener, %warning, "keys and certificates");
    }
}

#[cfg(test)]
mod tests;
