//! The audit file: who logged in or failed to, what was denied, and what administrators changed, as
//! lines of JSON.
//!
//! ```text
//! shards, admin port ---put---> pending: joined, bounded ---take, each second---> writer thread
//!                                                                 line -> file (rotated)
//! ```
//!
//! Invariants: a shard never waits for the file, only for a lock that is held while an event is put
//! into a map; a file that cannot be written, or a disk that hangs, ends nothing and holds up
//! nothing but the writer. What finds no room meanwhile is counted by its class, in metrics and in
//! the file. With `audit.required=true` changes of the metadata are refused while the file cannot
//! be written. Not here: what an event is (`broker::audit`).

mod disk;
mod file;
mod line;
mod pending;
mod writer;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use broker::audit::{Audit, AuditClasses, AuditEvent, AuditSink};

use crate::health::Reason;
use crate::metrics::AuditMetrics;
use crate::wall::wall_ms;
use disk::SystemDisk;
use file::{AuditFile, FileLimits};
use pending::{Pending, PendingLimits, TakenEvents};
use writer::Writer;

/// How long the writer waits for further events before it writes what there is.
const TICK: Duration = Duration::from_secs(1);

/// A write that takes longer hangs.
const HANGS_AFTER: Duration = Duration::from_secs(5);

/// How long the end of the process waits for the last events to be written.
const END_MAX: Duration = Duration::from_secs(2);

/// What is written down, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditSettings {
    /// The classes that the operator wants.
    pub classes: AuditClasses,
    /// The file; `None`: the log of the process.
    pub path: Option<PathBuf>,
    /// Size at which a file is put aside.
    pub file_bytes: u64,
    /// Files that are kept, the one that is written included.
    pub files: usize,
    /// Mode of the file.
    pub mode: u32,
    /// New lines of each class in a second.
    pub per_second: usize,
    /// How often a right that is asked for again and again has a line.
    pub repeat: Duration,
    /// Whether changes of the metadata are refused while they cannot be written down.
    pub required: bool,
}

/// The audit file of the process; clones share it.
#[derive(Clone)]
pub struct AuditLog(Arc<AuditState>);

/// What shards and the writer share.
struct AuditState {
    classes: AuditClasses,
    required: bool,
    pending: Mutex<Pending>,
    wake: Condvar,
    is_ending: AtomicBool,
    failing: Mutex<Option<String>>,
    is_failing: AtomicBool,
    /// True if it was said that a write hangs.
    said_hanging: AtomicBool,
    /// When the write began that is under way, in milliseconds since `begin`, plus one; 0 if none
    /// is.
    busy_since: AtomicU64,
    begin: Instant,
    metrics: AuditMetrics,
}

/// The thread of the writer; waits for it to end.
pub struct AuditEnd {
    log: AuditLog,
    ended: mpsc::Receiver<()>,
}

impl AuditLog {
    /// Opens the file and starts its writer.
    ///
    /// A path that must not be written to (a link, a pipe, a file of another user) is an error. A
    /// disk that fails is one only if the file is required; else the file is tried again and again.
    pub fn start(
        settings: &AuditSettings,
        metrics: AuditMetrics,
    ) -> anyhow::Result<(Self, AuditEnd)> {
        let log = Self::new(settings, metrics);
        let file = match &settings.path {
            None => None,
            Some(path) => {
                let limits = FileLimits {
                    mode: settings.mode,
                    bytes_max: settings.file_bytes,
                    files: settings.files,
                };
                let mut file = AuditFile::new(SystemDisk, path.clone(), limits);
                let first = settings.required.then(|| line::of_start(wall_ms()));
                if let Err(error) = file.open_with(first) {
                    let named = || format!("audit.path={}", path.display());
                    if error.is_unsafe() || settings.required {
                        return Err(anyhow::Error::new(error)).with_context(named);
                    }
                    log.fails(&error.to_string());
                }
                Some(file)
            }
        };
        let (end, ended) = mpsc::channel();
        let writer = Writer::new(log.clone(), file);
        let run = move || {
            writer.run();
            // The other end may be gone.
            let _ = end.send(());
        };
        let thread = thread::Builder::new().name("audit".into());
        thread.spawn(run).context("starting the audit writer")?;
        let of_end = log.clone();
        Ok((log, AuditEnd { log: of_end, ended }))
    }

    fn new(settings: &AuditSettings, metrics: AuditMetrics) -> Self {
        let limits = PendingLimits {
            per_second: settings.per_second,
            repeat: settings.repeat,
        };
        Self(Arc::new(AuditState {
            classes: settings.classes,
            required: settings.required,
            pending: Mutex::new(Pending::new(limits, Instant::now())),
            wake: Condvar::new(),
            is_ending: AtomicBool::new(false),
            failing: Mutex::default(),
            is_failing: AtomicBool::new(false),
            said_hanging: AtomicBool::new(false),
            busy_since: AtomicU64::new(0),
            begin: Instant::now(),
            metrics,
        }))
    }

    /// Returns where events go.
    pub fn audit(&self) -> Audit {
        Audit::to(Arc::new(self.clone()))
    }

    /// Returns why the file is not written, for `/readyz`.
    pub fn reason(&self) -> Option<Reason> {
        let failing = self.0.failing.lock();
        let failing = failing.unwrap_or_else(PoisonError::into_inner).clone();
        self.notice_hanging();
        let hangs = || self.hangs().then(|| "its disk does not answer".to_owned());
        let example = failing.or_else(hangs)?;
        Reason::degraded("audit_file", 1, example)
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        let pending = self.0.pending.lock();
        pending.unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for events; returns those that are due, and whether the process ends.
    fn wait(&self) -> (TakenEvents, bool) {
        let is_ending = || self.0.is_ending.load(Ordering::Acquire);
        let idle = |pending: &mut Pending| !pending.has_changes() && !is_ending();
        let waited = self.0.wake.wait_timeout_while(self.pending(), TICK, idle);
        let (mut pending, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let is_ending = is_ending();
        (pending.take(Instant::now(), is_ending), is_ending)
    }

    /// Waits until the file may be tried again; returns whether the process ends.
    fn pause(&self) -> bool {
        let is_ending = || self.0.is_ending.load(Ordering::Acquire);
        let idle = |_: &mut Pending| !is_ending();
        let waited = self.0.wake.wait_timeout_while(self.pending(), TICK, idle);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        is_ending()
    }

    /// Notes that the file cannot be written; says so once.
    fn fails(&self, error: &str) {
        let failing = self.0.failing.lock();
        let before = failing
            .unwrap_or_else(PoisonError::into_inner)
            .replace(error.to_owned());
        self.0.is_failing.store(true, Ordering::Release);
        self.0.metrics.failing.set(1);
        if before.is_none() {
            let required = self.0.required;
            tracing::error!(
                error,
                required,
                "the audit file cannot be written: events wait, as many as find room, and it is \
                 tried again each second"
            );
        }
    }

    /// Notes that the file is written.
    fn works(&self) {
        if self.0.is_failing.load(Ordering::Acquire) {
            let failing = self.0.failing.lock();
            failing.unwrap_or_else(PoisonError::into_inner).take();
            self.0.is_failing.store(false, Ordering::Release);
            self.0.metrics.failing.set(0);
            tracing::info!("the audit file is written again");
        }
    }

    /// Runs what may take as long as a disk takes.
    fn timed<T>(&self, work: impl FnOnce() -> T) -> T {
        let now = u64::try_from(self.0.begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        let busy = now.saturating_add(1);
        self.0.busy_since.store(busy, Ordering::Release);
        let done = work();
        self.0.busy_since.store(0, Ordering::Release);
        if self.0.said_hanging.swap(false, Ordering::AcqRel) {
            let is_failing = self.0.is_failing.load(Ordering::Acquire);
            self.0.metrics.failing.set(is_failing.into());
            tracing::info!("the disk of the audit file answers again");
        }
        done
    }

    /// Says once that a write hangs: the writer itself cannot.
    fn notice_hanging(&self) {
        if self.hangs() && !self.0.said_hanging.swap(true, Ordering::AcqRel) {
            self.0.metrics.failing.set(1);
            let required = self.0.required;
            tracing::error!(
                required,
                "the disk of the audit file does not answer: events wait, as many as find room"
            );
        }
    }

    fn hangs(&self) -> bool {
        let busy = self.0.busy_since.load(Ordering::Acquire);
        let since = self.0.begin + Duration::from_millis(busy);
        busy > 0 && since.elapsed() > HANGS_AFTER
    }
}

impl AuditSink for AuditLog {
    fn classes(&self) -> AuditClasses {
        self.0.classes
    }

    fn put(&self, event: AuditEvent) {
        let class = event.class;
        let (now, wall_ms) = (Instant::now(), wall_ms());
        let mut pending = self.pending();
        let is_kept = pending.put(event, now, wall_ms);
        let is_due = pending.has_changes();
        drop(pending);
        if !is_kept {
            self.0.metrics.dropped(class);
        }
        if is_due && !self.0.is_failing.load(Ordering::Acquire) {
            self.0.wake.notify_one();
        }
        self.notice_hanging();
    }

    fn takes_changes(&self) -> bool {
        let works = || {
            let is_failing = self.0.is_failing.load(Ordering::Acquire);
            !is_failing && !self.hangs() && self.pending().has_room_for_changes()
        };
        !self.0.required || works()
    }
}

impl AuditEnd {
    /// Has the last events written, unless the disk takes too long.
    pub fn wait(self) {
        self.log.0.is_ending.store(true, Ordering::Release);
        self.log.0.wake.notify_one();
        if self.ended.recv_timeout(END_MAX).is_err() {
            tracing::error!("the last events of the audit file are not written");
        }
    }
}
