//! One transactional id: every decision of the coordinator about it.
//!
//! A decision takes what the log has ([`Entry`]) and gives what it shall have next; nothing changes before that is in
//! the log ([`Transaction::settle`]). While a change is on its way, everybody else is told to come back.
//!
//! ```text
//! Empty -> Ongoing -> PrepareCommit -> CompleteCommit -> Ongoing ..
//!                  -> PrepareAbort  -> CompleteAbort
//! ```
//! A producer that begins anew, from any state but a prepared one, gets the next epoch in state Empty; one that begins
//! while a transaction is going on has that aborted first, with an epoch that only its predecessor may still be told. From version 2 of the
//! protocol on, ending a transaction raises the epoch by itself, so that nothing of it can arrive late.
//! Not here: the log, markers, who waits.

use platform::clock::Reading;
use wire::types::{ErrorCode, ProducerId};

use super::state::{EPOCH_BUMPS, EPOCH_MAX, Entry, PartitionName, State};

/// A transactional id as the coordinator knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Transaction {
    entry: Entry,
    /// A change of it is on its way to the log.
    pending: bool,
    /// Not in the log yet.
    unwritten: bool,
    /// The log refused the epoch that fences a producer: nobody knows it, so it is not raised again.
    fence_failed: bool,
    /// When the open transaction has taken too long, by a clock that nobody sets; known from the first look on.
    due_up_ms: Option<i64>,
    /// When it was first seen that its last change is dated in the future.
    ahead_seen_ms: Option<i64>,
}

/// What a producer that begins gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Begin {
    /// This, once it is in the log.
    Store(Entry),
    /// Its predecessor's transaction is aborted first, and it has to come back.
    Abort(Entry),
}

/// What adding partitions leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Add {
    /// They are in it.
    Already,
    /// They are, once this is in the log.
    Store(Entry),
}

/// What ending a transaction leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// It has ended so: the request was sent again.
    Already {
        /// The producer id to go on with.
        producer_id: ProducerId,
        /// The epoch to go on with.
        epoch: i16,
    },
    /// It is decided, once this is in the log.
    Store(Entry),
}

/// A request to end a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndRequest {
    /// Who.
    pub(crate) producer_id: ProducerId,
    /// Its epoch.
    pub(crate) epoch: i16,
    /// Commit, or abort.
    pub(crate) commit: bool,
    /// Version of the protocol that the client uses.
    pub(crate) client_version: i16,
    /// An id to go on with, should the epochs of this one be used up.
    pub(crate) fresh: Option<ProducerId>,
}

type Decision<T> = Result<T, ErrorCode>;

impl Transaction {
    /// A transactional id that is not in the log yet.
    pub(crate) fn unused(producer_id: ProducerId, timeout_ms: i32, now_ms: i64) -> Self {
        Self {
            unwritten: true,
            ..Self::loaded(Entry::unused(producer_id, timeout_ms, now_ms))
        }
    }

    /// A transactional id as the log has it.
    pub(crate) fn loaded(entry: Entry) -> Self {
        Self {
            entry,
            pending: false,
            unwritten: false,
            fence_failed: false,
            due_up_ms: None,
            ahead_seen_ms: None,
        }
    }

    /// What the log has.
    pub(crate) fn entry(&self) -> &Entry {
        &self.entry
    }

    /// True when the log has nothing of it.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.unwritten
    }

    /// Ends a change: it is in the log, or it is not.
    pub(crate) fn settle(&mut self, stored: Option<Entry>) {
        self.pending = false;
        if let Some(entry) = stored {
            if !matches!(entry.state, State::PrepareAbort | State::PrepareCommit) {
                self.fence_failed = false;
            }
            if entry.state != State::Ongoing {
                self.due_up_ms = None;
                self.ahead_seen_ms = None;
            }
            self.entry = entry;
            self.unwritten = false;
        }
    }

    /// The log refused to take an epoch that fences a producer.
    pub(crate) fn fencing_failed(&mut self, epoch: i16) {
        self.fence_failed = true;
        self.entry.epoch = self.entry.epoch.max(epoch);
    }

    fn change(&mut self, entry: Entry) -> Entry {
        assert!(!self.pending, "an id has one change on its way at a time");
        self.pending = true;
        entry
    }

    /// A producer begins. `expected` is what it had before, when it goes on after an error; `fresh` a new producer id
    /// where [`Entry::is_exhausted`] said that one may be needed.
    pub(crate) fn begin(
        &mut self,
        timeout_ms: i32,
        expected: Option<(ProducerId, i16)>,
        fresh: Option<ProducerId>,
        now_ms: i64,
    ) -> Decision<Begin> {
        if self.pending {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        let entry = &self.entry;
        let is_mine = |(id, epoch): (ProducerId, i16)| {
            entry.epoch == -1
                || id == entry.producer_id
                || (id == entry.previous_producer_id && epoch >= i16::MAX - 1)
        };
        if expected.is_some_and(|expected| !is_mine(expected)) {
            return Err(ErrorCode::ProducerFenced);
        }
        match entry.state {
            State::PrepareAbort | State::PrepareCommit => Err(ErrorCode::ConcurrentTransactions),
            State::Ongoing => {
                let fenced = self.fenced(now_ms);
                Ok(Begin::Abort(self.change(fenced)))
            }
            State::Empty | State::CompleteAbort | State::CompleteCommit => {
                let next = entry.next_begin(timeout_ms, expected, fresh, now_ms)?;
                Ok(Begin::Store(self.change(next)))
            }
        }
    }

    /// The transaction aborted with an epoch that shuts its producer out, until that takes note of it: by beginning
    /// with the epoch that it had, or by aborting, from version 2 of the protocol on, it gets this one.
    fn fenced(&self, now_ms: i64) -> Entry {
        assert!(
            self.entry.state == State::Ongoing,
            "what is open is aborted"
        );
        let had = self.entry.epoch;
        let (epoch, last_epoch) = match had {
            _ if self.fence_failed => (had, -1),
            // The last epoch there is: it is nobody's, the next to begin gets another producer id.
            EPOCH_MAX.. => (i16::MAX, -1),
            _ => (had + 1, had),
        };
        Entry {
            state: State::PrepareAbort,
            epoch,
            last_epoch,
            updated_ms: now_ms,
            ..self.entry.clone()
        }
    }

    /// Takes partitions into the transaction, which begins with the first.
    pub(crate) fn add(
        &mut self,
        producer: (ProducerId, i16),
        partitions: &[PartitionName],
        client_version: i16,
        now_ms: i64,
    ) -> Decision<Add> {
        self.check_producer(producer)?;
        if self.pending || self.entry.state.is_prepared() {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        let entry = &self.entry;
        let ongoing = entry.state == State::Ongoing;
        if ongoing && partitions.iter().all(|it| entry.partitions.contains(it)) {
            return Ok(Add::Already);
        }
        let mut next = Entry {
            state: State::Ongoing,
            updated_ms: now_ms,
            client_version,
            ..entry.clone()
        };
        if !ongoing {
            next.partitions.clear();
            next.start_ms = now_ms;
        }
        next.partitions.extend(partitions.iter().cloned());
        Ok(Add::Store(self.change(next)))
    }

    /// Says whether partitions are in the transaction; what is on its way does not count.
    pub(crate) fn verify(
        &self,
        producer: (ProducerId, i16),
        partition: &PartitionName,
    ) -> Decision<()> {
        self.check_producer(producer)?;
        if self.entry.state.is_prepared() {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        if self.entry.state == State::Ongoing && self.entry.partitions.contains(partition) {
            Ok(())
        } else {
            Err(ErrorCode::TransactionAbortable)
        }
    }

    fn check_producer(&self, (id, epoch): (ProducerId, i16)) -> Decision<()> {
        if id != self.entry.producer_id {
            Err(ErrorCode::InvalidProducerIdMapping)
        } else if epoch != self.entry.epoch {
            Err(ErrorCode::ProducerFenced)
        } else {
            Ok(())
        }
    }

    /// Commits or aborts.
    pub(crate) fn end(&mut self, request: EndRequest, now_ms: i64) -> Decision<End> {
        let entry = &self.entry;
        let again = entry.is_sent_again(request);
        let overflowed = entry.client_version >= EPOCH_BUMPS
            && entry.previous_producer_id == request.producer_id
            && request.epoch == i16::MAX - 1
            && entry.epoch == 0;
        if request.producer_id != entry.producer_id && !overflowed {
            return Err(ErrorCode::InvalidProducerIdMapping);
        }
        let complete = matches!(entry.state, State::CompleteAbort | State::CompleteCommit);
        let valid = if entry.client_version >= EPOCH_BUMPS {
            match entry.state {
                State::Ongoing | State::Empty => request.epoch == entry.epoch,
                State::PrepareAbort | State::PrepareCommit => again,
                State::CompleteAbort | State::CompleteCommit => {
                    again || overflowed || request.epoch == entry.epoch
                }
            }
        } else {
            request.epoch == entry.epoch
        };
        if !valid {
            return Err(ErrorCode::ProducerFenced);
        }
        if self.pending {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        let bumps = request.client_version >= EPOCH_BUMPS;
        let same = matches!(
            (entry.state, request.commit),
            (State::PrepareCommit | State::CompleteCommit, true)
                | (State::PrepareAbort | State::CompleteAbort, false)
        );
        if entry.state.is_prepared() {
            return Err(if same {
                ErrorCode::ConcurrentTransactions
            } else {
                ErrorCode::InvalidTxnState
            });
        }
        if complete && same && (!bumps || again || overflowed) {
            return Ok(End::Already {
                producer_id: entry.producer_id,
                epoch: entry.epoch,
            });
        }
        // From version 2 on a producer may abort a transaction of which nothing has arrived: that, too, raises its epoch.
        let empty_abort = bumps && !request.commit && !again && !overflowed;
        if entry.state != State::Ongoing && !empty_abort {
            return Err(ErrorCode::InvalidTxnState);
        }
        let next = entry.prepared(request, now_ms)?;
        Ok(End::Store(self.change(next)))
    }

    /// The end of a transaction that has taken too long, if it has. The wall clock (`now_ms`) is asked once, how much time
    /// is left, which is never more than there was; from then on the clock that runs since the start (`up_ms`) counts:
    /// setting the clock neither ends a transaction early nor keeps it open.
    pub(crate) fn time_out(&mut self, now_ms: i64, up_ms: i64) -> Option<Entry> {
        let entry = &self.entry;
        if entry.state != State::Ongoing {
            return None;
        }
        let timeout_ms = i64::from(entry.timeout_ms).max(0);
        let end_ms = entry.start_ms.saturating_add(timeout_ms);
        let left_ms = end_ms.saturating_sub(now_ms).clamp(-1, timeout_ms);
        let due_up_ms = *self.due_up_ms.get_or_insert(up_ms.saturating_add(left_ms));
        if self.pending || due_up_ms >= up_ms {
            return None;
        }
        let fenced = self.fenced(now_ms);
        Some(self.change(fenced))
    }

    /// All markers are written; `None` when that is not what is waited for.
    pub(crate) fn complete(&mut self, now_ms: i64) -> Option<Entry> {
        let entry = &self.entry;
        if self.pending || !entry.state.is_prepared() {
            return None;
        }
        let renamed = entry.next_producer_id != ProducerId::NONE;
        let (producer_id, epoch) = if renamed {
            (entry.next_producer_id, 0)
        } else {
            (entry.producer_id, entry.epoch)
        };
        let state = if entry.state == State::PrepareCommit {
            State::CompleteCommit
        } else {
            State::CompleteAbort
        };
        let next = Entry {
            state,
            producer_id,
            previous_producer_id: entry.producer_id,
            next_producer_id: ProducerId::NONE,
            epoch,
            partitions: std::collections::BTreeSet::new(),
            updated_ms: now_ms,
            ..entry.clone()
        };
        Some(self.change(next))
    }

    /// True when nobody has used it for so long that it may go; it is then on its way.
    pub(crate) fn expire(&mut self, expiration_ms: i64, now: impl Into<Reading>) -> bool {
        let entry = &self.entry;
        let idle = matches!(
            entry.state,
            State::Empty | State::CompleteAbort | State::CompleteCommit
        );
        let now = now.into();
        let mut age_ms = now.age_ms(entry.updated_ms);
        if age_ms < 0 {
            // Of a clock that was set back since: its time begins now, or it would never end.
            age_ms = now.age_ms(*self.ahead_seen_ms.get_or_insert(now.wall_ms));
        }
        let old = age_ms >= expiration_ms;
        let goes = idle && old && !self.pending;
        self.pending |= goes;
        goes
    }
}

impl Entry {
    /// The same request to end a transaction, whose answer was lost: its epoch is the one before.
    fn is_sent_again(&self, request: EndRequest) -> bool {
        self.client_version >= EPOCH_BUMPS
            && request.producer_id == self.producer_id
            && (self.state.is_prepared() || self.epoch <= EPOCH_MAX)
            && i32::from(self.epoch) == i32::from(request.epoch) + 1
    }

    fn next_begin(
        &self,
        timeout_ms: i32,
        expected: Option<(ProducerId, i16)>,
        fresh: Option<ProducerId>,
        now_ms: i64,
    ) -> Decision<Self> {
        let next = Self {
            state: State::Empty,
            next_producer_id: ProducerId::NONE,
            timeout_ms,
            partitions: std::collections::BTreeSet::new(),
            start_ms: -1,
            updated_ms: now_ms,
            client_version: 0,
            previous_producer_id: self.producer_id,
            ..self.clone()
        };
        let at_end = expected.is_none_or(|(_, epoch)| epoch == self.epoch);
        if self.is_exhausted() && at_end {
            let producer_id = fresh.ok_or(ErrorCode::ConcurrentTransactions)?;
            return Ok(Self {
                producer_id,
                epoch: 0,
                last_epoch: if expected.is_some() { self.epoch } else { -1 },
                ..next
            });
        }
        let (epoch, last_epoch) = match expected {
            None => (self.epoch + 1, -1),
            Some((_, epoch)) if self.epoch == -1 || epoch == self.epoch => {
                (self.epoch + 1, self.epoch)
            }
            // It has been given this epoch, and did not hear of it.
            Some((_, epoch)) if epoch == self.last_epoch => (self.epoch, self.last_epoch),
            Some(_) => return Err(ErrorCode::ProducerFenced),
        };
        Ok(Self {
            epoch,
            last_epoch,
            ..next
        })
    }

    fn prepared(&self, request: EndRequest, now_ms: i64) -> Decision<Self> {
        let state = if request.commit {
            State::PrepareCommit
        } else {
            State::PrepareAbort
        };
        let mut next = Self {
            state,
            client_version: request.client_version,
            updated_ms: now_ms,
            ..self.clone()
        };
        if self.state != State::Ongoing {
            next.start_ms = now_ms;
            next.partitions.clear();
        }
        if request.client_version >= EPOCH_BUMPS {
            if self.is_exhausted() {
                next.next_producer_id = request.fresh.ok_or(ErrorCode::ConcurrentTransactions)?;
            }
            next.last_epoch = self.epoch;
            next.epoch = self.epoch.saturating_add(1);
        }
        Ok(next)
    }
}

#[cfg(test)]
mod tests;
