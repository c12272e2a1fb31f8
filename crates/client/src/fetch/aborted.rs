//! Which batches belong to aborted transactions, for readers of committed records.
//!
//! An answer lists the aborted transactions that begin before its end: producer and first offset.
//! From its first offset on a producer's transactional batches are hidden, up to the marker that
//! ends the transaction. Pure; it lives as long as one partition of one answer.

use std::collections::BTreeSet;

use wire::batch::BatchHeader;
use wire::kafka::fetch::AbortedTransaction;

/// The type of a transaction's marker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Marker {
    /// The transaction before it was aborted.
    Abort,
    /// It was committed.
    Commit,
    /// No marker of transactions.
    Other,
}

impl Marker {
    /// Reads the key of a control record: a version and a type; `None` if it is too short.
    pub(super) fn of_key(key: &[u8]) -> Option<Self> {
        let (_version, rest) = key.split_first_chunk::<2>()?;
        Some(match i16::from_be_bytes(*rest.first_chunk()?) {
            0 => Self::Abort,
            1 => Self::Commit,
            _ => Self::Other,
        })
    }
}

/// The aborted transactions of an answer.
#[derive(Debug)]
pub(super) struct AbortedTransactions {
    /// Those that have not begun, the next one last.
    ahead: Vec<AbortedTransaction>,
    /// Producers with one under way.
    open: BTreeSet<i64>,
}

impl AbortedTransactions {
    pub(super) fn new(mut all: Vec<AbortedTransaction>) -> Self {
        all.sort_unstable_by_key(|one| std::cmp::Reverse(one.first_offset));
        Self {
            ahead: all,
            open: BTreeSet::new(),
        }
    }

    /// Takes the next batch, and returns true if it is hidden.
    ///
    /// `marker` is that of a control batch. Batches must be taken in the order of their offsets.
    pub(super) fn hides(&mut self, header: &BatchHeader, marker: Option<Marker>) -> bool {
        let last = header.last_offset();
        while let Some(next) = self.ahead.pop_if(|next| next.first_offset <= last) {
            self.open.insert(next.producer_id.0);
        }
        match marker {
            Some(Marker::Abort) => {
                self.open.remove(&header.producer_id.0);
                true
            }
            Some(_) => true,
            None => header.is_transactional() && self.open.contains(&header.producer_id.0),
        }
    }
}
