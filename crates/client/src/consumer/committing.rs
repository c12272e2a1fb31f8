//! Commits what the application has stored: by itself from time to time, when it asks for it,
//! before partitions are given up, and at the end.
//!
//! A consumer that commits by itself commits its position in every partition that it has, as
//! Kafka's does: where the policy had it begin, while it has read nothing there. A group that has
//! read only some partitions then continues in the others, too, instead of beginning by the policy
//! again.
//!
//! One commit is under way at a time; those who come meanwhile wait for the next one, which has
//! what was stored by then. A commit that is refused for a moment is sent again until its deadline.
//!
//! Invariant: only partitions that the member has are committed, under its newest epoch.

use std::collections::BTreeMap;
use std::time::Duration;

use platform::clock::Instant;
use tokio::sync::oneshot;
use wire::types::{ErrorCode, TopicPartition};

use super::driver::Driver;
use super::tasks;
use crate::error::{ClientError, Refusal};
use crate::fetch::Position;
use crate::group::{Places, is_of_another_coordinator};
use crate::offsets::PartitionResults;
use crate::offsets::commit::Committer;
use crate::pauses::later;

/// What waits for a commit.
enum Waiter {
    /// The application.
    Application(oneshot::Sender<Result<(), ClientError>>),
    /// The revocation with this number.
    Revocation(u64),
    /// The end of the consumer.
    End,
    /// No caller: the commit interval has passed.
    Nobody,
}

/// The commits of a consumer.
pub(super) struct Commits {
    every: Option<Duration>,
    due: Instant,
    /// The newest positions that were committed.
    committed: BTreeMap<TopicPartition, Position>,
    under_way: Option<UnderWay>,
    /// Those who wait for the commit after the one under way.
    waiting: Vec<(Waiter, Instant)>,
}

/// A commit under way, or between two tries.
struct UnderWay {
    waiters: Vec<Waiter>,
    deadline: Instant,
    positions: BTreeMap<TopicPartition, Position>,
    is_asked: bool,
    not_before: Option<Instant>,
    failures: u32,
}

impl Commits {
    pub(super) fn new(every: Option<Duration>, now: Instant) -> Self {
        Self {
            every,
            due: every.map_or(now, |every| later(now, every)),
            committed: BTreeMap::new(),
            under_way: None,
            waiting: Vec::new(),
        }
    }

    /// Forgets partitions that are the member's no longer.
    pub(super) fn forget(&mut self, gone: &Places) {
        self.committed.retain(|place, _| !gone.contains(place));
        if let Some(under_way) = &mut self.under_way {
            under_way.positions.retain(|place, _| !gone.contains(place));
        }
    }
}

impl Driver {
    /// Commits for the application.
    pub(super) fn commit_for(
        &mut self,
        deadline: Instant,
        done: oneshot::Sender<Result<(), ClientError>>,
        now: Instant,
    ) {
        self.commit(Waiter::Application(done), deadline, now);
    }

    /// Commits before partitions are given up, if the consumer commits by itself.
    pub(super) fn commit_to_revoke(&mut self, number: u64, places: &Places, now: Instant) {
        let stored = self.positions(places);
        let is_news = |(place, position): (&TopicPartition, &Position)| {
            self.commits.committed.get(place) != Some(position)
        };
        if self.options.auto_commit.is_none() || !stored.iter().any(is_news) {
            return self.give_up(number, now);
        }
        let deadline = self.patience(now).reach;
        self.commit(Waiter::Revocation(number), deadline, now);
    }

    /// Commits for the last time.
    pub(super) fn commit_to_close(&mut self, deadline: Instant, now: Instant) {
        self.commit(Waiter::End, deadline, now);
    }

    fn commit(&mut self, waiter: Waiter, deadline: Instant, now: Instant) {
        self.commits.waiting.push((waiter, deadline));
        self.begin_commit(now);
    }

    /// Goes on with commits, and returns when something will be due.
    pub(super) fn go_on_committing(&mut self, now: Instant) -> Option<Instant> {
        let is_member = self.membership.is_some() && self.closing.is_none();
        let every = self.commits.every.filter(|_| is_member);
        if let Some(every) = every
            && now >= self.commits.due
        {
            self.commits.due = later(now, every);
            if self.commits.under_way.is_none() {
                let deadline = self.patience(now).reach;
                self.commit(Waiter::Nobody, deadline, now);
            }
        }
        self.begin_commit(now);
        self.ask_to_commit(now);
        let again = self.commits.under_way.as_ref();
        let again = again.and_then(|under_way| under_way.not_before);
        let due = every.map(|_| self.commits.due);
        [again, due].into_iter().flatten().min()
    }

    /// Returns the positions in these partitions that are to be committed.
    fn positions(&self, of: &Places) -> BTreeMap<TopicPartition, Position> {
        let membership = self.membership.as_ref();
        let membership = membership.filter(|_| self.options.auto_commit.is_some());
        let begun = membership.map(|membership| membership.beginnings(of));
        let mut positions = begun.unwrap_or_default();
        positions.extend(self.mailbox.stored(of));
        positions
    }

    /// Makes a commit of what is stored now, for all who wait, unless one is under way.
    fn begin_commit(&mut self, now: Instant) {
        if self.commits.under_way.is_some() || self.commits.waiting.is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut self.commits.waiting);
        let deadline = waiting.iter().map(|(_, deadline)| *deadline).min();
        let waiters = waiting.into_iter().map(|(waiter, _)| waiter).collect();
        let positions = match &self.membership {
            Some(membership) => self.positions(&membership.owned),
            None => BTreeMap::new(),
        };
        let positions = positions.into_iter().filter(|(place, position)| {
            let before = self.commits.committed.get(place);
            before != Some(position)
        });
        let under_way = UnderWay {
            waiters,
            deadline: deadline.unwrap_or(now),
            positions: positions.collect(),
            is_asked: false,
            not_before: None,
            failures: 0,
        };
        if under_way.positions.is_empty() {
            return self.end_commit(under_way.waiters, &Ok(()), now);
        }
        self.commits.under_way = Some(under_way);
        self.ask_to_commit(now);
    }

    /// Sends the commit under way, if it is due.
    fn ask_to_commit(&mut self, now: Instant) {
        let (Some(membership), Some(under_way)) = (&self.membership, &mut self.commits.under_way)
        else {
            return;
        };
        if under_way.is_asked || under_way.not_before.is_some_and(|at| now < at) {
            return;
        }
        if under_way.positions.is_empty() {
            // All of it was lost meanwhile.
            return self.finish_commit(&Ok(()), now);
        }
        let Some(identity) = membership.identity() else {
            let reason = "the consumer is not a member of its group any more".to_owned();
            return self.finish_commit(&Err(ClientError::Fatal { reason }), now);
        };
        under_way.is_asked = true;
        under_way.not_before = None;
        let committer = Committer {
            group: membership.settings.group.clone(),
            instance_id: membership.settings.instance_id.clone(),
            identity: Some(identity),
        };
        let positions = under_way.positions.clone();
        let deadline = under_way.deadline;
        let mut patience = self.patience(now);
        patience.reach = patience.reach.min(deadline);
        let commit = tasks::commit_all(self.control.clone(), committer, positions, patience);
        self.tasks.spawn_local(commit);
    }

    pub(super) fn committed(
        &mut self,
        stored: Result<PartitionResults<()>, ClientError>,
        now: Instant,
    ) {
        let Some(under_way) = &mut self.commits.under_way else {
            return;
        };
        under_way.is_asked = false;
        let error = match stored {
            Ok(stored) => {
                let mut first = None;
                for (place, result) in stored {
                    match result {
                        Ok(()) => {
                            if let Some(position) = under_way.positions.remove(&place) {
                                self.commits.committed.insert(place, position);
                            }
                        }
                        Err(refusal) => first = first.or(Some(ClientError::Refused(refusal))),
                    }
                }
                first
            }
            Err(error) => Some(error),
        };
        let Some(error) = error else {
            return self.finish_commit(&Ok(()), now);
        };
        let code = error.code();
        let is_lost = code.is_none_or(is_of_another_coordinator);
        let passes = match &error {
            ClientError::Refused(refusal) => passes(refusal),
            error => error.is_retriable(),
        };
        under_way.failures = under_way.failures.saturating_add(1);
        let again = self.pauses.next(under_way.failures, now);
        if passes && again < under_way.deadline {
            under_way.not_before = Some(again);
        } else {
            self.finish_commit(&Err(error), now);
        }
        if is_lost {
            self.forget_coordinator();
        }
    }

    fn finish_commit(&mut self, result: &Result<(), ClientError>, now: Instant) {
        if let Err(error) = result {
            tracing::debug!(%error, "a commit failed");
        }
        if let Some(under_way) = self.commits.under_way.take() {
            self.end_commit(under_way.waiters, result, now);
        }
        self.begin_commit(now);
    }

    fn end_commit(&mut self, waiters: Vec<Waiter>, result: &Result<(), ClientError>, now: Instant) {
        for waiter in waiters {
            match waiter {
                // It may have stopped waiting.
                Waiter::Application(done) => drop(done.send(result.clone())),
                Waiter::Revocation(number) => self.give_up(number, now),
                Waiter::End => self.close_committed(result.clone(), now),
                Waiter::Nobody => {}
            }
        }
    }
}

/// Returns true if the same commit may succeed in a moment.
fn passes(refusal: &Refusal) -> bool {
    refusal.is_retriable() || refusal.code == ErrorCode::StaleMemberEpoch
}
