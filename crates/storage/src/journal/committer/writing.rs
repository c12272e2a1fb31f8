//! The two tasks of a committer: one writes commits, one writes headers, each while some are due.
//!
//! Invariants: one commit is written at a time, and one header; a task ends in the step in which it
//! finds nothing to do, so nothing that comes later is missed; the first failure of either stops
//! both.
//! It does not decide what is due (`queue`, `pressure`).

use std::rc::Rc;

use platform::buf::AlignedBuf;
use platform::disk::DiskFile;
use platform::sync::oneshot;
use platform::task;

use super::{Acknowledgement, Condition, SharedCommitter, Waiter};
use crate::journal::BLOCK;
use crate::journal::commit::{Stamp, encode_into, encode_skip_into};
use crate::journal::error::{JournalError, Result};
use crate::journal::header::Header;
use crate::journal::pressure::Load;
use crate::journal::queue::GivenCommit;
use crate::journal::submission::Submission;
use crate::num::index;

impl<F: DiskFile> SharedCommitter<F> {
    /// Returns the error that every caller gets, after a failure.
    pub(super) fn failure(&self) -> Option<JournalError> {
        match &*self.condition.borrow() {
            Condition::Working => None,
            Condition::Failed(error) => Some(error.clone()),
        }
    }

    /// Takes what was admitted.
    pub(super) fn hand_in(self: &Rc<Self>, submission: Submission) -> Result<Acknowledgement> {
        self.take(|shared, waiter| shared.queue.borrow_mut().hand_in(submission, waiter))
    }

    /// Takes a cut, if it has room.
    pub(super) fn give_cut(self: &Rc<Self>, cut: Submission) -> Result<Option<Acknowledgement>> {
        if self.failure().is_none() && !self.queue.borrow().has_room_for_cut() {
            return Ok(None);
        }
        let given = self.take(|shared, waiter| shared.queue.borrow_mut().give_cut(cut, waiter));
        given.map(Some)
    }

    fn take(self: &Rc<Self>, give: impl FnOnce(&Self, Waiter)) -> Result<Acknowledgement> {
        if let Some(error) = self.failure() {
            return Err(error);
        }
        let (waiter, answer) = oneshot::channel();
        give(self, waiter);
        self.go_on();
        Ok(Acknowledgement(answer))
    }

    /// Returns what is used of the ring and of the memory.
    pub(super) fn load(&self) -> Load {
        let admission = &self.admission;
        let (taken, max) = (admission.taken(), admission.bytes_max());
        let queue = self.queue.borrow();
        queue.load(taken, max, admission.is_waited_for())
    }

    /// Starts the tasks that have something to do, and tells who can make or use room.
    pub(super) fn go_on(self: &Rc<Self>) {
        if self.failure().is_some() {
            // What is durable lands all the same.
            return self.changed.notify_waiters();
        }
        if self.queue.borrow().has_next() && !self.is_committing.replace(true) {
            task::spawn(Rc::clone(self).write_commits());
        }
        let load = self.load();
        if load.is_header_due() && !self.is_heading.replace(true) {
            task::spawn(Rc::clone(self).write_headers());
        }
        if load.is_landing_due() {
            self.changed.notify_waiters();
        }
    }

    async fn write_commits(self: Rc<Self>) {
        while let Some(commit) = self.next_commit() {
            match self.write(&commit).await {
                Ok(()) => self.committed(commit),
                Err(error) => self.fail(&error, Some(commit)),
            }
        }
        assert!(self.is_committing.replace(false), "one task writes commits");
    }

    fn next_commit(&self) -> Option<GivenCommit<Waiter>> {
        if self.failure().is_some() {
            return None;
        }
        self.queue.borrow_mut().next_commit()
    }

    /// Writes a commit, after its skip mark; returns when both are durable.
    async fn write(&self, commit: &GivenCommit<Waiter>) -> Result<()> {
        if let Some((stamp, skipped)) = commit.skip() {
            let mut block = self.buffers.take(index(BLOCK));
            encode_skip_into(stamp, skipped, &mut block);
            self.write_at(stamp, block).await?;
            self.queue.borrow_mut().written(stamp.sequence);
        }
        let mut blocks = self.buffers.take(index(commit.bytes()));
        encode_into(commit.stamp(), &commit.parts(), &mut blocks);
        self.write_at(commit.stamp(), blocks).await
    }

    async fn write_at(&self, stamp: Stamp, blocks: AlignedBuf) -> Result<()> {
        let place = self.size.place(stamp.position);
        self.file.write(place, blocks.freeze()).await
    }

    /// Answers those whose commit is durable.
    fn committed(self: &Rc<Self>, commit: GivenCommit<Waiter>) {
        let sequence = commit.stamp().sequence;
        let durable = self.queue.borrow_mut().written(sequence);
        assert!(sequence < durable, "commits are durable in their order");
        self.count(&commit);
        for waiter in commit.into_waiters() {
            drop(waiter.send(Ok(sequence))); // Nobody may be waiting any more.
        }
        self.go_on();
    }

    fn count(&self, commit: &GivenCommit<Waiter>) {
        let mut counts = self.counts.get();
        let skipped = commit.skip().map_or(0, |_| BLOCK);
        counts.commits = counts.commits.saturating_add(1);
        counts.parts = counts.parts.saturating_add(commit.part_count());
        counts.bytes = counts
            .bytes
            .saturating_add(commit.bytes())
            .saturating_add(skipped);
        self.counts.set(counts);
    }

    async fn write_headers(self: Rc<Self>) {
        while let Some(header) = self.next_header() {
            match self.file.write_header(&header).await {
                Ok(()) => {
                    self.queue.borrow_mut().header_synced();
                    self.changed.notify_waiters();
                    self.go_on();
                }
                Err(error) => self.fail(&error, None),
            }
        }
        assert!(self.is_heading.replace(false), "one task writes headers");
    }

    fn next_header(&self) -> Option<Header> {
        if self.failure().is_some() || !self.load().is_header_due() {
            return None;
        }
        self.queue.borrow_mut().begin_header()
    }

    /// Ends the use of the ring, and answers all waiters: what failed is never written again.
    pub(super) fn fail(&self, error: &JournalError, commit: Option<GivenCommit<Waiter>>) {
        let error = self.failure().unwrap_or_else(|| error.latched());
        self.condition
            .send_replace(Condition::Failed(error.clone()));
        self.admission.close();
        let others = self.queue.borrow_mut().give_up();
        let waiters = commit.into_iter().flat_map(GivenCommit::into_waiters);
        for waiter in waiters.chain(others) {
            drop(waiter.send(Err(error.clone()))); // Nobody may be waiting any more.
        }
        self.changed.notify_waiters();
    }
}
