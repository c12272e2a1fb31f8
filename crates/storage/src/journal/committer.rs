//! The commit loop: takes parts from many callers, writes them into the ring, a commit at a time,
//! and answers each caller when its commit is durable.
//!
//! A caller waits until its bytes are admitted (`admission`), then for its commit; commits wait for
//! room in the ring (`queue`), in order. Tasks write what is due and end when nothing is
//! (`writing`); landing makes room (`landing`).
//! Invariants: an acknowledged submission is on the disk; what is handed in is committed even if
//! its caller stops waiting, and a caller that is dropped before has handed in nothing; after the
//! first failed write nothing is written, and every caller gets that error, now and later.
//! It does not know what a part means, land logs, or decide what a log does without its journal.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use platform::buf::BufPool;
use platform::disk::DiskFile;
use platform::sync::oneshot::error::TryRecvError;
use platform::sync::{Notify, oneshot, watch};

use super::commit::{FRONT_BYTES, PART_BYTES};
use super::error::{JournalError, Result};
use super::file::{OpenRing, RingFile};
use super::queue::Queue;
use super::submission::{OwnedChange, OwnedPart, Submission};
use super::{COMMIT_BYTES_MAX, LogId, RingSize, Sequence};
use crate::num::index;
use admission::Admission;

pub use landing::{HeldLanding, Lander};

mod admission;
mod landing;
mod writing;

/// Memory for commits that is kept for the next ones: a buffer of each size.
const BUFFERS_KEPT_BYTES_MAX: u64 = 2 * COMMIT_BYTES_MAX;

/// Writes the commits of one ring; clones share it.
///
/// It is used inside a shard.
#[derive(Clone)]
pub struct Committer<F: DiskFile> {
    shared: Rc<SharedCommitter<F>>,
}

/// Limits of a [`Committer`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommitterOptions {
    /// How many bytes may be handed in and not landed; at least those of one commit are.
    pub unlanded_bytes_max: u64,
}

/// What a committer has written.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CommitCounts {
    /// Commits that are durable.
    pub commits: u64,
    /// The parts in them.
    pub parts: u64,
    /// Their blocks and those of skip marks, in bytes.
    pub bytes: u64,
}

/// Whether a journal takes commits.
#[derive(Clone, Debug)]
pub enum Condition {
    /// It does.
    Working,
    /// A write failed, and it takes none until the next start. What is not landed is still in the
    /// logs' memory.
    Failed(JournalError),
}

/// Completes with the commit that took a submission, when that commit is durable.
#[derive(Debug)]
pub struct Acknowledgement(oneshot::Receiver<Result<Sequence>>);

/// The caller that waits for a commit.
type Waiter = oneshot::Sender<Result<Sequence>>;

struct SharedCommitter<F> {
    file: RingFile<F>,
    size: RingSize,
    queue: RefCell<Queue<Waiter>>,
    admission: Admission,
    buffers: BufPool,
    is_committing: Cell<bool>,
    is_heading: Cell<bool>,
    counts: Cell<CommitCounts>,
    condition: watch::Sender<Condition>,
    /// Told when room was made, is wanted, or will never be there.
    changed: Notify,
}

impl<F: DiskFile> Committer<F> {
    /// Starts with a ring that takes commits.
    pub fn new(open: OpenRing<F>, options: CommitterOptions) -> Self {
        let queue = Queue::new(open.ring);
        let size = queue.size();
        let bytes_max = options.unlanded_bytes_max.max(size.commit_bytes_max());
        let (condition, _) = watch::channel(Condition::Working);
        let shared = Rc::new(SharedCommitter {
            file: open.file,
            size,
            queue: RefCell::new(queue),
            admission: Admission::new(bytes_max),
            buffers: BufPool::new(index(BUFFERS_KEPT_BYTES_MAX)),
            is_committing: Cell::new(false),
            is_heading: Cell::new(false),
            counts: Cell::default(),
            condition,
            changed: Notify::new(),
        });
        Self { shared }
    }

    /// Commits parts together, and completes with their commit when it is durable.
    ///
    /// The parts of a log are handed in in the order in which they happened; so one caller does
    /// that, one at a time. A truncation is not handed in here, but with [`Committer::cut`]; only
    /// copies of cuts that are durable are (to carry a log on).
    pub async fn commit(&self, parts: Vec<OwnedPart>) -> Result<Sequence> {
        self.hand_in(parts).await?.await
    }

    /// Does the same, and completes when the parts are handed in; what it returns completes when
    /// their commit is durable.
    pub async fn hand_in(&self, parts: Vec<OwnedPart>) -> Result<Acknowledgement> {
        let shared = &self.shared;
        let submission = Submission::new(parts, shared.size)?;
        let tell = || shared.changed.notify_waiters();
        let is_admitted = shared.admission.admit(submission.bytes(), tell).await;
        if !is_admitted {
            // Without a failure it was closed.
            return Err(shared.failure().unwrap_or(JournalError::Closed));
        }
        // From here to the end of the step nothing waits: what is admitted is handed in.
        shared.hand_in(submission)
    }

    /// Commits that a log was truncated, in the step that truncates it.
    ///
    /// Returns `None` if there is no room now: then the log is not truncated, and the caller waits
    /// for [`Committer::room_for_cut`]. Nothing that the log had handed in is waiting, and it is
    /// not landing; from now on it does not land until the cut is durable.
    pub fn cut(&self, cut: OwnedPart) -> Result<Option<Acknowledgement>> {
        if !matches!(cut.change, OwnedChange::Cut { .. }) {
            let reason = "bytes as a cut";
            return Err(JournalError::Unfit { reason });
        }
        let cut = Submission::new(vec![cut], self.shared.size)?;
        self.shared.give_cut(cut)
    }

    /// Completes when a cut has room, as long as no other takes it.
    pub async fn room_for_cut(&self) -> Result<()> {
        let shared = &self.shared;
        let _waiting = shared.cut_waits();
        shared.go_on();
        loop {
            if let Some(error) = shared.failure() {
                return Err(error);
            }
            if shared.queue.borrow().has_room_for_cut() {
                return Ok(());
            }
            shared.changed.notified().await;
        }
    }

    /// Returns what tells whether the journal works.
    pub fn condition(&self) -> watch::Receiver<Condition> {
        self.shared.condition.subscribe()
    }

    /// Returns the bytes in commits that are not in their segments.
    pub fn unlanded_bytes(&self) -> u64 {
        self.shared.queue.borrow().unlanded_bytes()
    }

    /// Returns those of one log.
    pub fn unlanded_bytes_of(&self, log: LogId) -> u64 {
        self.shared.queue.borrow().unlanded_bytes_of(log)
    }

    /// Returns the error that every caller gets, if the journal takes no commits.
    pub fn failure(&self) -> Option<JournalError> {
        self.shared.failure()
    }

    /// Returns the commit below which everything is durable.
    pub fn durable(&self) -> Sequence {
        self.shared.queue.borrow().durable()
    }

    /// Returns the bytes that the longest submission may have, with one part.
    pub fn submission_bytes_max(&self) -> u64 {
        let overhead = (FRONT_BYTES as u64).saturating_add(PART_BYTES as u64);
        self.shared.size.commit_bytes_max().saturating_sub(overhead)
    }

    /// Returns what was written in this use of the ring.
    pub fn counts(&self) -> CommitCounts {
        self.shared.counts.get()
    }

    /// Returns the newest generation that a header in the file can have.
    pub fn generation_max(&self) -> u64 {
        self.shared.queue.borrow().generation_max()
    }

    /// Withdraws what waits of a log that is deleted: its callers get [`JournalError::Closed`].
    ///
    /// What has its room is written all the same.
    pub fn withdraw(&self, log: LogId) {
        let withdrawn = self.shared.queue.borrow_mut().withdraw(log);
        self.give_back(withdrawn, &JournalError::Closed);
    }

    /// Gives back what waits for room in the ring, because none is made: its callers get
    /// [`JournalError::Stuck`], and it is not committed.
    pub fn give_back_waiting(&self) {
        let withdrawn = self.shared.queue.borrow_mut().withdraw_stuck();
        self.give_back(withdrawn, &JournalError::Stuck);
    }

    fn give_back(&self, (waiters, bytes): (Vec<Waiter>, u64), error: &JournalError) {
        for waiter in waiters {
            // The caller may not wait any more.
            drop(waiter.send(Err(error.clone())));
        }
        self.shared.admission.give_back(bytes);
        self.shared.go_on();
    }

    /// Returns true while a caller waits for room in the ring, or to hand in.
    pub fn is_waited_for(&self) -> bool {
        let shared = &self.shared;
        shared.queue.borrow().is_stuck() || shared.admission.is_waited_for()
    }

    /// Ends the use of the ring for a reason outside of it: no commit is written any more.
    pub fn abandon(&self, reason: &str) {
        if self.failure().is_none() {
            let reason = reason.into();
            self.shared.fail(&JournalError::Failed { reason }, None);
        }
    }
}

impl Acknowledgement {
    /// Returns the answer if it is there: whether the commit is durable, as of now.
    ///
    /// Afterwards there is nothing to wait for.
    pub fn now(&mut self) -> Option<Result<Sequence>> {
        match self.0.try_recv() {
            Ok(answer) => Some(answer),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Closed) => Some(Err(JournalError::Closed)),
        }
    }
}

impl Future for Acknowledgement {
    type Output = Result<Sequence>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = Pin::new(&mut self.get_mut().0).poll(context);
        // The committer is gone.
        answer.map(|answer| answer.unwrap_or(Err(JournalError::Closed)))
    }
}
