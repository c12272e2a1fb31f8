//! One transactional id: every decision of the coordinator about it.
//!
//! A decision takes the entry in the log ([`Entry`]) and returns the next one; nothing changes
//! until that is in the log ([`Transaction::settle`]). While a change is in flight, other requests
//! get an error to retry.
//!
//! ```text
//! Empty -> Ongoing -> PrepareCommit -> CompleteCommit -> Ongoing ..
//!                  -> PrepareAbort  -> CompleteAbort
//! ```
//!
//! `InitProducerId` raises the epoch and sets the state to Empty, from any state but a prepared
//! one. If a transaction is open, it is aborted first, with an epoch that only the previous
//! producer may still get. From version 2 of the protocol on, every end of a transaction raises the
//! epoch, so that no late batch of it is accepted. Not here: the log, markers, waiting requests.

use platform::clock::Reading;
use wire::types::{ErrorCode, ProducerId};

use super::state::{EPOCH_BUMPS, EPOCH_MAX, Entry, PartitionName, TransactionState};

/// A transactional id as the coordinator knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Transaction {
    entry: Entry,
    /// True while a change is being appended.
    pending: bool,
    /// True until the id is in the log.
    unwritten: bool,
    /// The log refused an epoch that fences a producer: no producer has it, so the next attempt
    /// does not raise it again.
    fence_failed: bool,
    /// When the open transaction exceeds its timeout, by the uptime; known from the first check on.
    due_up_ms: Option<i64>,
    /// When the last change was first seen to be dated in the future.
    ahead_seen_ms: Option<i64>,
}

/// The result of `InitProducerId`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Begin {
    /// The producer gets this entry's identity when it is in the log.
    Store(Entry),
    /// The previous producer's transaction is aborted first, and the producer has to retry.
    Abort(Entry),
}

/// The result of adding partitions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Add {
    /// They are already in the transaction.
    Already,
    /// They are in the transaction when this entry is in the log.
    Store(Entry),
}

/// The result of ending a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// It has already ended so: the request was repeated.
    Already {
        /// The producer id for the next transaction.
        producer_id: ProducerId,
        /// The epoch for the next transaction.
        epoch: i16,
    },
    /// The transaction is decided when this entry is in the log.
    Store(Entry),
}

/// A request to end a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndRequest {
    /// The producer id.
    pub(crate) producer_id: ProducerId,
    /// The producer epoch.
    pub(crate) epoch: i16,
    /// True to commit, false to abort.
    pub(crate) commit: bool,
    /// The protocol version that the client uses.
    pub(crate) client_version: i16,
    /// A new producer id, in case the epochs of the current one are exhausted.
    pub(crate) fresh: Option<ProducerId>,
}

type Decision<T> = Result<T, ErrorCode>;

impl Transaction {
    /// Creates a transactional id that is not in the log yet.
    pub(crate) fn unused(producer_id: ProducerId, timeout_ms: i32, now_ms: i64) -> Self {
        Self {
            unwritten: true,
            ..Self::loaded(Entry::unused(producer_id, timeout_ms, now_ms))
        }
    }

    /// Creates a transactional id from its entry in the log.
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

    /// Returns the entry in the log.
    pub(crate) fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Returns true when the log has no entry of it.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.unwritten
    }

    /// Ends a change: `stored` is the entry if it is in the log.
    pub(crate) fn settle(&mut self, stored: Option<Entry>) {
        self.pending = false;
        if let Some(entry) = stored {
            if !matches!(
                entry.state,
                TransactionState::PrepareAbort | TransactionState::PrepareCommit
            ) {
                self.fence_failed = false;
            }
            if entry.state != TransactionState::Ongoing {
                self.due_up_ms = None;
                self.ahead_seen_ms = None;
            }
            self.entry = entry;
            self.unwritten = false;
        }
    }

    /// Notes that the log refused an epoch that fences a producer.
    pub(crate) fn fencing_failed(&mut self, epoch: i16) {
        self.fence_failed = true;
        self.entry.epoch = self.entry.epoch.max(epoch);
    }

    fn change(&mut self, entry: Entry) -> Entry {
        assert!(!self.pending, "an id has one change on its way at a time");
        self.pending = true;
        entry
    }

    /// Decides on `InitProducerId`.
    ///
    /// `expected` is the producer's previous identity, if it continues after an error; `fresh` is a
    /// new producer id, if [`Entry::is_exhausted`] requires one.
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
            TransactionState::PrepareAbort | TransactionState::PrepareCommit => {
                Err(ErrorCode::ConcurrentTransactions)
            }
            TransactionState::Ongoing => {
                let fenced = self.fenced(now_ms);
                Ok(Begin::Abort(self.change(fenced)))
            }
            TransactionState::Empty
            | TransactionState::CompleteAbort
            | TransactionState::CompleteCommit => {
                let next = entry.next_begin(timeout_ms, expected, fresh, now_ms)?;
                Ok(Begin::Store(self.change(next)))
            }
        }
    }

    /// Returns the entry that aborts the transaction with an epoch that fences its producer.
    ///
    /// The producer gets this epoch itself when it initializes with its previous epoch or, from
    /// version 2 of the protocol on, when it aborts.
    fn fenced(&self, now_ms: i64) -> Entry {
        assert!(
            self.entry.state == TransactionState::Ongoing,
            "what is open is aborted"
        );
        let had = self.entry.epoch;
        let (epoch, last_epoch) = match had {
            _ if self.fence_failed => (had, -1),
            // The last possible epoch goes to no producer: the next one to initialize gets another
            // producer id.
            EPOCH_MAX.. => (i16::MAX, -1),
            _ => (had + 1, had),
        };
        Entry {
            state: TransactionState::PrepareAbort,
            epoch,
            last_epoch,
            updated_ms: now_ms,
            ..self.entry.clone()
        }
    }

    /// Adds partitions to the transaction, which begins with the first ones.
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
        let ongoing = entry.state == TransactionState::Ongoing;
        if ongoing && partitions.iter().all(|it| entry.partitions.contains(it)) {
            return Ok(Add::Already);
        }
        let mut next = Entry {
            state: TransactionState::Ongoing,
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

    /// Returns whether a partition is in the transaction; one that is being added does not count.
    pub(crate) fn verify(
        &self,
        producer: (ProducerId, i16),
        partition: &PartitionName,
    ) -> Decision<()> {
        self.check_producer(producer)?;
        if self.entry.state.is_prepared() {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        if self.entry.state == TransactionState::Ongoing
            && self.entry.partitions.contains(partition)
        {
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

    /// Commits or aborts the transaction.
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
        let complete = matches!(
            entry.state,
            TransactionState::CompleteAbort | TransactionState::CompleteCommit
        );
        let valid = if entry.client_version >= EPOCH_BUMPS {
            match entry.state {
                TransactionState::Ongoing | TransactionState::Empty => request.epoch == entry.epoch,
                TransactionState::PrepareAbort | TransactionState::PrepareCommit => again,
                TransactionState::CompleteAbort | TransactionState::CompleteCommit => {
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
            (
                TransactionState::PrepareCommit | TransactionState::CompleteCommit,
                true
            ) | (
                TransactionState::PrepareAbort | TransactionState::CompleteAbort,
                false
            )
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
        // From version 2 on a producer may abort a transaction without partitions; that raises its
        // epoch, too.
        let empty_abort = bumps && !request.commit && !again && !overflowed;
        if entry.state != TransactionState::Ongoing && !empty_abort {
            return Err(ErrorCode::InvalidTxnState);
        }
        let next = entry.prepared(request, now_ms)?;
        Ok(End::Store(self.change(next)))
    }

    /// Returns the entry that aborts a transaction that exceeded its timeout.
    ///
    /// The wall clock (`now_ms`) is read once, for the remaining time, which is at most the whole
    /// timeout. From then on the uptime (`up_ms`) counts: setting the wall clock neither ends a
    /// transaction early nor keeps it open.
    pub(crate) fn time_out(&mut self, now_ms: i64, up_ms: i64) -> Option<Entry> {
        let entry = &self.entry;
        if entry.state != TransactionState::Ongoing {
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

    /// Returns the entry after all markers are written; `None` when no markers are due.
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
        let state = if entry.state == TransactionState::PrepareCommit {
            TransactionState::CompleteCommit
        } else {
            TransactionState::CompleteAbort
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

    /// Returns true when the id was not used for `expiration_ms`; its removal is then in flight.
    pub(crate) fn expire(&mut self, expiration_ms: i64, now: impl Into<Reading>) -> bool {
        let entry = &self.entry;
        let idle = matches!(
            entry.state,
            TransactionState::Empty
                | TransactionState::CompleteAbort
                | TransactionState::CompleteCommit
        );
        let now = now.into();
        let mut age_ms = now.age_ms(entry.updated_ms);
        if age_ms < 0 {
            // The wall clock was set back after the last change: the time counts from now on,
            // because it would never end otherwise.
            age_ms = now.age_ms(*self.ahead_seen_ms.get_or_insert(now.wall_ms));
        }
        let old = age_ms >= expiration_ms;
        let goes = idle && old && !self.pending;
        self.pending |= goes;
        goes
    }
}

impl Entry {
    /// Returns true for a repeated request to end a transaction, whose answer was lost: it has the
    /// previous epoch.
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
            state: TransactionState::Empty,
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
            // The producer was given this epoch, but the answer was lost.
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
            TransactionState::PrepareCommit
        } else {
            TransactionState::PrepareAbort
        };
        let mut next = Self {
            state,
            client_version: request.client_version,
            updated_ms: now_ms,
            ..self.clone()
        };
        if self.state != TransactionState::Ongoing {
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
