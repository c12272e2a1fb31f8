//! The journal of a log directory, as the logs of one shard use it: what each log has in it, when
//! logs land, and what becomes of them without it.
//!
//! States: *working* <-> *stuck* (the ring is full, and the log that holds its head cannot land:
//! logs are written past it) -> *failed* (a write to the ring failed: every log lands what it has
//! in memory, and is flushed without a journal from then on) -> *void* (that is done, and a mark in
//! the log directory says so: a start does not read the ring). A log directory that fails ends its
//! journal; what is in the ring stays for the next start.
//! Invariants: a log that has parts in the ring is in `marks` until no scan reads them; a change
//! that a replay would contradict waits for that, or for the void mark.
//! It does not: write parts or segments (`journal::committer`, `log/flush/journaled.rs`).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::time::Duration;

use platform::Platform;
use platform::sync::Notify;
use platform::task;
use wire::types::Offset;

use crate::error::{Error, FailureKind, Result};
use crate::journal::committer::{CommitCounts, Committer, CommitterOptions, Condition};
use crate::journal::file::OpenRing;
use crate::journal::submission::OwnedPart;
use crate::journal::unlanded::{Key, key};
use crate::journal::{JournalError, LogId, Sequence, void};
use crate::log::Log;
use crate::log::views::Journaling;
use crate::metrics::JournalMetrics;
use crate::segment::File;
use crate::store::Store;

mod lander;

/// How long a wait lasts before it looks again whether its log goes on.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// How long the landing waits after a failure that may pass.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// When appends go through a journal, and when they land.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JournalOptions {
    /// Appends of this many bytes, in one flush of one log, are written to the segment at once.
    pub bypass_bytes: u64,
    /// A log lands when it has this many bytes that are not in its segments.
    pub land_bytes: u64,
    /// A log lands when bytes have been in the journal only for about this long.
    pub land_after: Duration,
    /// `journal.unlanded.bytes.max`: bytes of all logs that may be in the journal only.
    pub unlanded_bytes_max: u64,
}

/// What a log has in the ring that a start may read.
#[derive(Debug, Default)]
struct LogMarks {
    /// The commit of the last part of each segment. Bounded: the segments with parts in the ring.
    parts: BTreeMap<Offset, Sequence>,
    /// The commit of the last cut.
    cut: Option<Sequence>,
}

impl LogMarks {
    fn last(&self) -> Option<Sequence> {
        self.parts.values().copied().chain(self.cut).max()
    }
}

/// The journal of one log directory and shard.
pub(crate) struct DirJournal<P: Platform> {
    pub(crate) committer: Committer<File<P>>,
    pub(crate) options: JournalOptions,
    /// The log directory.
    dir: PathBuf,
    /// The file that says that no start reads the ring.
    void_mark: PathBuf,
    /// Bounded: the open logs of the directory and shard.
    logs: RefCell<BTreeMap<Key, Weak<Log<P>>>>,
    /// Bounded: the logs with parts in the ring.
    marks: RefCell<BTreeMap<Key, LogMarks>>,
    /// Logs that were closed while bytes of theirs were in the journal only. Bounded: logs.
    stranded: RefCell<BTreeSet<Key>>,
    /// Logs with many unlanded bytes. Bounded: the logs of the shard.
    large: RefCell<BTreeSet<Key>>,
    /// An append found no memory.
    is_pressed: Cell<bool>,
    /// Callers waited for room or memory, and no log landed.
    is_stuck: Cell<bool>,
    is_void: Cell<bool>,
    /// Why the logs of a failed journal have not landed, or the mark that says so is not there, as
    /// of the last attempt.
    void_error: RefCell<Option<Error>>,
    /// Notified of large logs, of the void mark, and of the end of the directory.
    changed: Notify,
    metrics: JournalMetrics,
    /// What the metrics have of it.
    shown: Cell<ShownJournal>,
}

/// What the metrics have of a journal, which all journals of the process share.
#[derive(Clone, Copy, Default)]
struct ShownJournal {
    counts: CommitCounts,
    unlanded_bytes: i64,
    degraded: i64,
}

impl<P: Platform> Store<P> {
    /// Has the small appends of the logs in `dir` go through a journal.
    ///
    /// No log of the directory is open yet, and all rings of the directory were replayed. Logs of a
    /// store with tiers do not use it.
    pub fn use_journal(
        &self,
        dir: &Path,
        ring: OpenRing<File<P>>,
        options: JournalOptions,
    ) -> Result<()> {
        assert!(
            self.tiers().is_none(),
            "a spill would leave the ring behind"
        );
        let is_open = self.logs().iter().any(|log| log.dir() == dir);
        assert!(!is_open, "a log finds its journal when it is opened");
        let void_mark = void::path_in(dir, ring.path()).ok_or(Error::Invalid {
            reason: "a ring without a name",
        })?;
        let committer = CommitterOptions {
            unlanded_bytes_max: options.unlanded_bytes_max,
        };
        let journal = Rc::new(DirJournal {
            committer: Committer::new(ring, committer),
            options,
            dir: dir.to_path_buf(),
            void_mark,
            logs: RefCell::default(),
            marks: RefCell::default(),
            stranded: RefCell::default(),
            large: RefCell::default(),
            is_pressed: Cell::new(false),
            is_stuck: Cell::new(false),
            is_void: Cell::new(false),
            void_error: RefCell::default(),
            changed: Notify::new(),
            metrics: self.shared.metrics.journal.clone(),
            shown: Cell::default(),
        });
        let mut journals = self.shared.journals.borrow_mut();
        let before = journals.insert(dir.to_path_buf(), Rc::clone(&journal));
        assert!(before.is_none(), "a directory has one journal");
        drop(journals);
        task::spawn(lander::run(Rc::downgrade(&self.shared), journal));
        Ok(())
    }

    /// Ends the use of a directory's journal after its logs were closed.
    ///
    /// Succeeds when no start has anything to read from the ring: only then the directory may say
    /// that it was left cleanly.
    pub async fn close_journal(&self, dir: &Path) -> Result<()> {
        let Some(journal) = self.journal_of(dir) else {
            return Ok(());
        };
        let closed = journal.close(self).await;
        journal.show();
        self.shared.journals.borrow_mut().remove(dir);
        journal.committer.abandon("it was closed");
        journal.changed.notify_waiters();
        closed
    }

    /// Returns the state of a directory's journal: `None` without one, and why it is not used any
    /// more.
    pub fn journal_condition(&self, dir: &Path) -> Option<Condition> {
        let journals = self.shared.journals.borrow();
        let journal = journals.get(dir)?;
        Some(journal.committer.condition().borrow().clone())
    }

    /// Notes that the logs of a directory should use a journal and have none: they are flushed
    /// without.
    pub fn go_without_journal(&self, dir: &Path, reason: String) {
        tracing::error!(dir = %dir.display(), reason,
            "there is no journal: the logs are flushed without one until the next start");
        let mut without = self.shared.without_journal.borrow_mut();
        if without.insert(dir.to_path_buf(), reason).is_none() {
            self.shared.metrics.journal.degraded.inc();
        }
    }

    /// Returns why the logs of a directory do not use the journal that they should.
    pub fn journal_trouble(&self, dir: &Path) -> Option<String> {
        let reason = self.shared.without_journal.borrow().get(dir).cloned();
        let full = || "it is full, and no log lands".to_owned();
        reason.or_else(|| match self.journal_condition(dir)? {
            Condition::Failed(error) => Some(error.to_string()),
            Condition::Working => self.is_journal_stuck(dir).then(full),
        })
    }

    /// Returns the bytes of a directory's logs that are in its journal only.
    pub fn unlanded_bytes(&self, dir: &Path) -> u64 {
        let journals = self.shared.journals.borrow();
        let journal = journals.get(dir);
        journal.map_or(0, |journal| journal.committer.unlanded_bytes())
    }

    /// Returns true while a directory's journal is full and no log lands: its logs are written past
    /// it.
    fn is_journal_stuck(&self, dir: &Path) -> bool {
        let journals = self.shared.journals.borrow();
        journals.get(dir).is_some_and(|journal| journal.is_stuck())
    }

    /// Brings the metrics of this shard's journals up to date.
    pub fn show_journals(&self) {
        let journals = self.shared.journals.borrow();
        journals.values().for_each(|journal| journal.show());
    }

    pub(crate) fn journal_of(&self, dir: &Path) -> Option<Rc<DirJournal<P>>> {
        self.shared.journals.borrow().get(dir).map(Rc::clone)
    }
}

impl<P: Platform> DirJournal<P> {
    /// Returns true while commits can be handed in.
    pub(crate) fn is_working(&self) -> bool {
        self.committer.failure().is_none()
    }

    /// Adds to the metrics what has changed since the last time.
    fn show(&self) {
        let unlanded_bytes = self.committer.unlanded_bytes();
        let now = ShownJournal {
            counts: self.committer.counts(),
            unlanded_bytes: i64::try_from(unlanded_bytes).unwrap_or(i64::MAX),
            degraded: i64::from(!self.takes_commits()),
        };
        let before = self.shown.replace(now);
        let (metrics, counts) = (&self.metrics, &now.counts);
        let since = |now: u64, before: u64| now.saturating_sub(before);
        metrics
            .commits
            .inc_by(since(counts.commits, before.counts.commits));
        metrics
            .parts
            .inc_by(since(counts.parts, before.counts.parts));
        let more_bytes = since(counts.bytes, before.counts.bytes);
        metrics.written_bytes.inc_by(more_bytes);
        let more_unlanded = now.unlanded_bytes.saturating_sub(before.unlanded_bytes);
        metrics.unlanded_bytes.inc_by(more_unlanded);
        metrics
            .degraded
            .inc_by(now.degraded.saturating_sub(before.degraded));
    }

    /// Returns true while it is of use to hand commits in.
    pub(crate) fn takes_commits(&self) -> bool {
        self.is_working() && !self.is_stuck()
    }

    /// Returns true while the ring or the memory is full and no log lands: logs are written past
    /// the journal.
    pub(crate) fn is_stuck(&self) -> bool {
        self.is_stuck.get() && self.is_working()
    }

    /// Returns false while commits are not released: logs that hold the ring's head, or its void
    /// mark, cannot land.
    pub(crate) fn releases(&self) -> bool {
        !self.is_stuck() && self.void_error.borrow().is_none()
    }

    /// Fails while a wait for a release may have no end.
    pub(crate) fn refuse_stuck(&self) -> Result<()> {
        if self.releases() {
            return Ok(());
        }
        Err(Error::Exhausted {
            action: "wait for the journal of",
            path: self.dir.clone(),
            source: io::Error::other("other logs cannot land").into(),
        })
    }

    /// Notes whether logs were to land in vain, several times in a row; what waits for room then is
    /// given back.
    fn note_landings(&self, are_in_vain: bool) {
        if !are_in_vain {
            if self.is_stuck.replace(false) {
                tracing::info!(dir = %self.dir.display(), "logs land again, and use the journal");
            }
        } else if self.committer.is_waited_for() && !self.is_stuck.replace(true) {
            tracing::warn!(dir = %self.dir.display(),
                "the journal is full and no log lands: logs are written past it");
        }
        if self.is_stuck() {
            self.committer.give_back_waiting();
        }
    }

    /// Waits until a log may be opened: an earlier one of the same id has nothing in the ring.
    pub(crate) async fn before_opening(&self, log: LogId, store: &Store<P>) -> Result<()> {
        if self.stranded.borrow().contains(&key(log)) {
            let reason = "bytes of it are in the journal only until the next start".into();
            return Err(Error::Failed { reason });
        }
        let goes_on = || {
            store.dir_error(&self.dir).map_or(Ok(()), Err)?;
            self.refuse_stuck()
        };
        self.settled(self.last_mark(log), goes_on).await
    }

    pub(crate) fn note_open(&self, log: LogId, weak: Weak<Log<P>>) {
        self.logs.borrow_mut().insert(key(log), weak);
    }

    /// Notes that a log is closed; `has_all` says that its segments have everything.
    pub(crate) fn note_closed(&self, log: LogId, has_all: bool) {
        self.logs.borrow_mut().remove(&key(log));
        if !has_all {
            self.stranded.borrow_mut().insert(key(log));
        }
    }

    /// Notes the commit of parts of a log.
    pub(crate) fn note_parts(&self, log: LogId, bases: &[Offset], commit: Sequence) {
        let mut marks = self.marks.borrow_mut();
        let of_log = marks.entry(key(log)).or_default();
        for base in bases {
            let last = of_log.parts.entry(*base).or_insert(commit);
            assert!(*last <= commit, "the parts of a log are committed in order");
            *last = commit;
        }
    }

    /// Notes that a start may read parts of a log that were not acknowledged: their commit failed,
    /// and may be in the ring all the same.
    pub(crate) fn note_doubt(&self, log: LogId, bases: &[Offset]) {
        // Not released any more: only the void mark ends it.
        self.note_parts(log, bases, self.committer.durable());
    }

    /// Notes the commit of a cut of a log.
    pub(crate) fn note_cut(&self, log: LogId, commit: Sequence) {
        let mut marks = self.marks.borrow_mut();
        marks.entry(key(log)).or_default().cut = Some(commit);
    }

    /// Returns the commit of the last part or cut of a log that a start may read.
    pub(crate) fn last_mark(&self, log: LogId) -> Option<Sequence> {
        self.forget_released(log);
        let marks = self.marks.borrow();
        marks.get(&key(log)).and_then(LogMarks::last)
    }

    /// Returns the commit of the last cut of a log that a start may read.
    pub(crate) fn cut_mark(&self, log: LogId) -> Option<Sequence> {
        self.forget_released(log);
        self.marks.borrow().get(&key(log))?.cut
    }

    /// Returns the last commit with a part of these segments, or with a cut of their log.
    pub(crate) fn mark_of(&self, log: LogId, bases: &[Offset]) -> Option<Sequence> {
        self.forget_released(log);
        let marks = self.marks.borrow();
        let of_log = marks.get(&key(log))?;
        let parts = bases.iter().filter_map(|base| of_log.parts.get(base));
        parts.copied().chain(of_log.cut).max()
    }

    fn forget_released(&self, log: LogId) {
        let mut marks = self.marks.borrow_mut();
        let Some(of_log) = marks.get_mut(&key(log)) else {
            return;
        };
        let is_read = |commit: Sequence| !self.is_void.get() && !self.committer.is_released(commit);
        of_log.parts.retain(|_, commit| is_read(*commit));
        of_log.cut = of_log.cut.filter(|commit| is_read(*commit));
        if of_log.last().is_none() {
            marks.remove(&key(log));
        }
    }

    /// Forgets the marks of all logs that no start reads any more.
    fn forget_all_released(&self) {
        let all: Vec<_> = self.marks.borrow().keys().copied().collect();
        for key in all {
            self.forget_released(crate::journal::unlanded::log_of(key));
        }
    }

    /// Waits until no start reads a commit, as long as `goes_on` does not fail.
    pub(crate) async fn settled(
        &self,
        commit: Option<Sequence>,
        goes_on: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let Some(commit) = commit else {
            return Ok(());
        };
        while !self.is_void.get() && !self.committer.is_released(commit) {
            goes_on()?;
            if self.is_working() {
                // It fails with the journal, and the next look finds that.
                let released = task::timeout(LOOK_INTERVAL, self.committer.released(commit));
                drop(released.await);
            } else {
                let changed = task::timeout(LOOK_INTERVAL, self.changed.notified());
                drop(changed.await);
            }
        }
        Ok(())
    }

    /// Hands parts in, as long as `goes_on` does not fail; returns their commit when it is durable.
    ///
    /// `None` means that they are written past it: the journal has failed, and whether a start
    /// reads the parts is not known; or it is full and no log lands, and it does not have them.
    pub(crate) async fn commit(
        &self,
        parts: Vec<OwnedPart>,
        goes_on: impl Fn() -> Result<()>,
    ) -> Result<Option<Sequence>> {
        let mut handing = pin!(self.committer.hand_in(parts));
        let handed_in = loop {
            match task::timeout(LOOK_INTERVAL, handing.as_mut()).await {
                Ok(handed_in) => break handed_in,
                // Nothing was handed in.
                Err(_) if self.is_stuck() => return Ok(None),
                Err(_) => goes_on()?,
            }
        };
        let committed = match handed_in {
            Ok(answer) => answer.await,
            Err(error) => Err(error),
        };
        match committed {
            Ok(commit) => Ok(Some(commit)),
            // A log that is deleted has withdrawn them.
            Err(JournalError::Closed) => goes_on().map(|()| None),
            Err(_) => Ok(None),
        }
    }

    /// Notes that a log has many unlanded bytes.
    pub(crate) fn note_large(&self, log: LogId) {
        if self.large.borrow_mut().insert(key(log)) {
            self.changed.notify_waiters();
        }
    }

    /// Has all logs land, because memory is short.
    pub(crate) fn press(&self) {
        if !self.is_pressed.replace(true) {
            self.changed.notify_waiters();
        }
    }

    /// Notes that the log directory failed: nothing can land, and nothing will be released.
    pub(crate) fn dir_failed(&self, error: &Error) {
        self.committer.abandon(&error.to_string());
        self.changed.notify_waiters();
    }

    /// Drops the parts of a deleted log; nothing of it is being committed.
    pub(crate) fn forget(&self, log: LogId) {
        self.committer.forget(log);
        self.logs.borrow_mut().remove(&key(log));
        self.large.borrow_mut().remove(&key(log));
        self.stranded.borrow_mut().remove(&key(log));
    }

    fn open_logs(&self) -> Vec<Rc<Log<P>>> {
        let logs = self.logs.borrow();
        logs.values().filter_map(Weak::upgrade).collect()
    }

    /// Releases everything, so that the ring has no commits.
    async fn close(&self, store: &Store<P>) -> Result<()> {
        let open = self.open_logs();
        let is_unlanded = |log: &&Rc<Log<P>>| !Journaling(log).is_landed();
        if open.iter().any(|log| is_unlanded(&log)) || !self.stranded.borrow().is_empty() {
            let reason = "a log was not closed: bytes of it are in the journal only".into();
            return Err(Error::Failed { reason });
        }
        let last = {
            let marks = self.marks.borrow();
            marks.values().filter_map(LogMarks::last).max()
        };
        let goes_on = || {
            let error = store.dir_error(&self.dir);
            let error = error.or_else(|| self.void_error.borrow().clone());
            error.map_or(Ok(()), Err)
        };
        // The next attempt may succeed: all logs have landed now.
        *self.void_error.borrow_mut() = None;
        // After a failure a commit that was not acknowledged may be in the ring: only the mark says
        // that it does not count.
        let last = if self.is_working() {
            last
        } else {
            Some(self.committer.durable())
        };
        let settled = self.settled(last, goes_on).await;
        if let Err(error) = &settled
            && error.kind() == FailureKind::Full
            && !self.is_working()
        {
            // All logs have landed: that the directory is unmarked says it as well as the mark that
            // has no room.
            return Ok(());
        }
        settled?;
        assert!(
            self.is_void.get() || self.committer.unlanded_bytes() == 0,
            "what is released has landed"
        );
        Ok(())
    }
}
