//! The transactions that a compaction has met, front to back: whose records were aborted and go,
//! and which markers have no records left before them.
//!
//! A marker may go only after a compaction that met no batch of its transaction; until then readers
//! need it, and with it the transaction's entry in the index of aborted ones. Pure: it is shown
//! each batch once, in order.

use std::collections::{BTreeMap, BTreeSet};

use wire::batch::BatchHeader;
use wire::types::ProducerId;

use crate::log::producer_state::{EndMarker, TransactionOutcome};
use crate::log::txn_index::AbortedTxn;

/// The transactions met so far.
#[derive(Debug, Default)]
pub(super) struct Transactions {
    /// Aborted transactions that have not begun yet, the next one last.
    ahead: Vec<AbortedTxn>,
    /// Aborted transactions that have begun and not ended, and whether one of their batches was
    /// met.
    aborted: BTreeMap<ProducerId, (AbortedTxn, bool)>,
    /// Producers with a batch of a transaction that was not aborted and has not ended.
    committed: BTreeSet<ProducerId>,
}

/// What a control batch means to readers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct MarkerMeaning {
    /// No batch of its transaction was met: it is kept only until its delete horizon.
    pub(super) is_spent: bool,
    /// The aborted transaction that it ends.
    pub(super) ended: Option<AbortedTxn>,
}

impl Transactions {
    /// Takes all aborted transactions that have records in the range to come.
    pub(super) fn new(mut aborted: Vec<AbortedTxn>) -> Self {
        aborted.sort_by_key(|txn| std::cmp::Reverse((txn.first_offset, txn.last_offset)));
        aborted.dedup();
        Self {
            ahead: aborted,
            ..Self::default()
        }
    }

    /// Notes a batch of records; returns true when its transaction was aborted.
    pub(super) fn meet_records(&mut self, header: &BatchHeader) -> bool {
        self.begin(header);
        if !header.is_transactional() {
            return false;
        }
        if let Some((_, met)) = self.aborted.get_mut(&header.producer_id) {
            *met = true;
            return true;
        }
        self.committed.insert(header.producer_id);
        false
    }

    /// Notes a control batch; `marker` is set when its record ends a transaction.
    pub(super) fn meet_control(
        &mut self,
        header: &BatchHeader,
        marker: Option<EndMarker>,
    ) -> MarkerMeaning {
        self.begin(header);
        let (is_spent, ended) = match marker.map(|marker| marker.outcome) {
            Some(TransactionOutcome::Abort) => match self.aborted.remove(&header.producer_id) {
                Some((txn, met)) => (!met, Some(txn)),
                None => (true, None),
            },
            Some(TransactionOutcome::Commit) => (!self.committed.remove(&header.producer_id), None),
            // An empty control batch is left of a transaction that went before; other control
            // records are never deleted.
            None => (header.record_count == 0, None),
        };
        MarkerMeaning { is_spent, ended }
    }

    fn begin(&mut self, header: &BatchHeader) {
        while let Some(txn) = self
            .ahead
            .pop_if(|txn| txn.first_offset <= header.last_offset())
        {
            self.aborted.entry(txn.producer_id).or_insert((txn, false));
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::types::{LeaderEpoch, Offset, TimestampMs};

    use super::*;

    fn batch(producer: i64, offset: i64) -> BatchHeader {
        BatchHeader {
            base_offset: Offset(offset),
            size_bytes: 100,
            leader_epoch: LeaderEpoch(0),
            magic: 2,
            crc: 0,
            attributes: 0x10,
            last_offset_delta: 0,
            base_timestamp: TimestampMs(0),
            max_timestamp: TimestampMs(0),
            producer_id: ProducerId(producer),
            producer_epoch: 0,
            base_sequence: 0,
            record_count: 1,
        }
    }

    fn aborted(producer: i64, first: i64, last: i64) -> AbortedTxn {
        AbortedTxn {
            producer_id: ProducerId(producer),
            first_offset: Offset(first),
            last_offset: Offset(last),
            last_stable_offset: Offset(last + 1),
        }
    }

    const fn end(outcome: TransactionOutcome) -> EndMarker {
        EndMarker {
            outcome,
            coordinator_epoch: 0,
        }
    }

    #[test]
    fn records_of_aborted_transactions_are_told_from_others_of_the_same_producer() {
        let mut met = Transactions::new(vec![aborted(1, 10, 12), aborted(1, 20, 22)]);
        assert!(!met.meet_records(&batch(1, 5)));
        let marker = met.meet_control(&batch(1, 6), Some(end(TransactionOutcome::Commit)));
        assert_eq!((marker.is_spent, marker.ended), (false, None));
        assert!(met.meet_records(&batch(1, 10)));
        assert!(!met.meet_records(&batch(2, 11)));
        let marker = met.meet_control(&batch(1, 12), Some(end(TransactionOutcome::Abort)));
        assert_eq!(
            (marker.is_spent, marker.ended),
            (false, Some(aborted(1, 10, 12)))
        );
        assert!(!met.meet_records(&batch(1, 15)), "a later one, committed");
        assert!(met.meet_records(&batch(1, 21)));
    }

    #[test]
    fn a_marker_with_nothing_before_it_is_spent() {
        let mut met = Transactions::new(vec![aborted(1, 10, 12)]);
        assert!(
            met.meet_control(&batch(1, 12), Some(end(TransactionOutcome::Abort)))
                .is_spent
        );
        assert!(
            met.meet_control(&batch(2, 13), Some(end(TransactionOutcome::Commit)))
                .is_spent
        );
        assert!(!met.meet_control(&batch(2, 14), None).is_spent);
        let empty = BatchHeader {
            record_count: 0,
            ..batch(2, 15)
        };
        assert!(met.meet_control(&empty, None).is_spent);
    }
}
