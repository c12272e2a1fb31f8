//! The transaction index of one segment: aborted transactions whose marker lies in it. Kafka's
//! `.txnindex` file.
//!
//! A reader at `read_committed` gets, beside the records, the aborted transactions that overlap
//! them and drops their records itself. On disk: 34 bytes an entry: version (i16, 0), producer id,
//! first offset, last offset (that of the abort marker) and the last stable offset when the marker
//! was written (i64 each), big endian. The file exists only when there is an entry.
//! Invariant: last offsets grow strictly.
//! It does not: decide what is aborted (`producer_state.rs` does), or read or write files.

use wire::types::{Offset, ProducerId};

use super::indexes::IndexError;

/// Bytes of one entry on disk.
pub const ENTRY_BYTES: usize = 34;

/// One aborted transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AbortedTxn {
    /// The producer.
    pub producer_id: ProducerId,
    /// Offset of its first record in this partition.
    pub first_offset: Offset,
    /// Offset of its abort marker.
    pub last_offset: Offset,
    /// Offset below which everything was decided once the marker was written.
    pub last_stable_offset: Offset,
}

/// The aborted transactions of one segment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TxnIndex {
    /// By last offset, growing strictly.
    entries: Vec<AbortedTxn>,
}

impl TxnIndex {
    /// Makes an index without entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the bytes of an index file of the segment that starts at `base`.
    pub fn parse(base: Offset, bytes: &[u8]) -> Result<Self, IndexError> {
        let (entries, rest) = bytes.as_chunks::<ENTRY_BYTES>();
        if !rest.is_empty() {
            return Err(IndexError::Length {
                bytes: bytes.len(),
                entry_bytes: ENTRY_BYTES,
            });
        }
        let mut index = Self::new();
        for (slot, entry) in entries.iter().enumerate() {
            // Bounded: of an entry of fixed length.
            let (version, fields) = entry.split_at(2);
            let (fields, _) = fields.as_chunks::<8>();
            let &[producer_id, first, last, stable] = fields else {
                return Err(IndexError::Entry { slot });
            };
            let txn = AbortedTxn {
                producer_id: ProducerId(i64::from_be_bytes(producer_id)),
                first_offset: Offset(i64::from_be_bytes(first)),
                last_offset: Offset(i64::from_be_bytes(last)),
                last_stable_offset: Offset(i64::from_be_bytes(stable)),
            };
            let orderly = txn.last_offset >= base && txn.first_offset <= txn.last_offset;
            if version != [0, 0] || !orderly || !index.append(txn) {
                return Err(IndexError::Entry { slot });
            }
        }
        Ok(index)
    }

    /// Returns the bytes of the index file.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.entries.len() * ENTRY_BYTES);
        for txn in &self.entries {
            bytes.extend_from_slice(&0_i16.to_be_bytes());
            bytes.extend_from_slice(&txn.producer_id.0.to_be_bytes());
            bytes.extend_from_slice(&txn.first_offset.0.to_be_bytes());
            bytes.extend_from_slice(&txn.last_offset.0.to_be_bytes());
            bytes.extend_from_slice(&txn.last_stable_offset.0.to_be_bytes());
        }
        assert_eq!(bytes.len(), self.entries.len() * ENTRY_BYTES);
        bytes
    }

    /// Adds an aborted transaction.
    ///
    /// Returns false, and adds nothing, when its marker does not follow the last one.
    pub fn append(&mut self, txn: AbortedTxn) -> bool {
        let follows = self
            .entries
            .last()
            .is_none_or(|last| txn.last_offset > last.last_offset);
        if follows {
            self.entries.push(txn);
        }
        follows
    }

    /// Collects into `aborted` the transactions with records in `from..below`, oldest marker first.
    ///
    /// Returns true when later segments cannot hold any more of them, false when the next segment
    /// has to be searched, too.
    pub fn collect(&self, from: Offset, below: Offset, aborted: &mut Vec<AbortedTxn>) -> bool {
        for txn in &self.entries {
            if txn.last_offset >= from && txn.first_offset < below {
                aborted.push(*txn);
            }
            if txn.last_stable_offset >= below {
                return true;
            }
        }
        false
    }

    /// Returns the first record of any of the transactions; past every offset when there is none.
    pub fn first_offset(&self) -> Offset {
        let firsts = self.entries.iter().map(|txn| txn.first_offset);
        firsts.min().unwrap_or(Offset(i64::MAX))
    }

    /// Drops the transactions whose marker is at or past `offset`; returns true when there were
    /// any.
    pub fn truncate_to(&mut self, offset: Offset) -> bool {
        let keep = self.entries.partition_point(|txn| txn.last_offset < offset);
        let drops = keep < self.entries.len();
        self.entries.truncate(keep);
        drops
    }

    /// Returns true when there is no entry, and so no file.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns all entries, oldest marker first.
    pub fn entries(&self) -> &[AbortedTxn] {
        &self.entries
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn txn(producer: i64, first: i64, last: i64, stable: i64) -> AbortedTxn {
        AbortedTxn {
            producer_id: ProducerId(producer),
            first_offset: Offset(first),
            last_offset: Offset(last),
            last_stable_offset: Offset(stable),
        }
    }

    fn index() -> TxnIndex {
        let mut index = TxnIndex::new();
        for entry in [txn(1, 0, 10, 11), txn(2, 5, 15, 16), txn(3, 18, 20, 21)] {
            assert!(index.append(entry));
        }
        index
    }

    #[test]
    fn only_transactions_that_overlap_the_range_are_collected() {
        let collect = |from, below| {
            let mut aborted = Vec::new();
            let complete = index().collect(Offset(from), Offset(below), &mut aborted);
            let ids: Vec<i64> = aborted.iter().map(|txn| txn.producer_id.0).collect();
            (ids, complete)
        };
        assert_eq!(collect(0, 100), (vec![1, 2, 3], false));
        assert_eq!(
            collect(0, 11),
            (vec![1], true),
            "2 is decided after the range, its marker in it was seen later"
        );
        assert_eq!(collect(11, 18), (vec![2], true));
        assert_eq!(collect(16, 17), (vec![], true));
    }

    #[test]
    fn truncation_drops_markers_at_and_past_the_offset() {
        let mut index = index();
        index.truncate_to(Offset(15));
        assert_eq!(index.entries(), [txn(1, 0, 10, 11)]);
        assert!(!index.append(txn(9, 0, 10, 11)), "markers grow strictly");
    }

    #[test]
    fn damaged_files_are_refused() {
        let good = index().encode();
        assert_eq!(TxnIndex::parse(Offset(0), &good), Ok(index()));
        assert!(
            TxnIndex::parse(Offset(11), &good).is_err(),
            "marker before the segment"
        );
        assert!(TxnIndex::parse(Offset(0), &good[..33]).is_err());
        let mut unknown = good;
        unknown[1] = 1;
        assert_eq!(
            TxnIndex::parse(Offset(0), &unknown),
            Err(IndexError::Entry { slot: 0 })
        );
    }

    proptest! {
        #[test]
        fn any_bytes_parse_or_fail_and_what_parses_encodes_back(bytes: Vec<u8>) {
            if let Ok(index) = TxnIndex::parse(Offset(0), &bytes) {
                prop_assert_eq!(index.encode(), bytes);
            }
        }
    }
}
