//! What is taken from answers, and what is not.

use proptest::prelude::*;
use wire::batch::Compression;
use wire::types::{Offset, ProducerId};

use super::*;
use crate::fetch::samples::{batch, compressed, marker, transactional};

const COMMITTED: Checks = Checks {
    crc: true,
    committed: true,
};
const EVERYTHING: Checks = Checks {
    crc: true,
    committed: false,
};

/// Returns the offsets that a reader gets.
fn offsets(taken: &TakenBatches) -> Vec<i64> {
    let batches = taken
        .batches
        .iter()
        .map(|batch| batch.open(1 << 20).unwrap());
    let offsets = batches.flat_map(|open| {
        let records = open.records().map(|record| {
            let record = record.unwrap();
            let value = record
                .value
                .map(|value| str::from_utf8(value).unwrap().to_owned());
            assert_eq!(value, Some(record.offset.to_string()));
            assert_eq!(record.timestamp, 1000 + record.offset);
            assert_eq!(record.headers().count(), 2);
            record.offset
        });
        records.collect::<Vec<_>>()
    });
    offsets.collect()
}

fn aborted(producer: i64, first: i64) -> AbortedTransaction {
    AbortedTransaction {
        producer_id: ProducerId(producer),
        first_offset: Offset(first),
    }
}

fn together(batches: &[Bytes]) -> Bytes {
    batches.concat().into()
}

#[test]
fn records_before_the_position_are_passed_over() {
    for codec in [
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ] {
        let records = together(&[compressed(10, 5, 3, codec), batch(15, 2, 4)]);
        let taken = take(&records, Vec::new(), 13, COMMITTED);
        assert_eq!(offsets(&taken), [13, 14, 15, 16]);
        assert_eq!((taken.next, taken.epoch, taken.damage), (17, Some(4), None));
    }
}

#[test]
fn the_last_batch_may_be_cut_and_the_first_may_not() {
    let whole = together(&[batch(0, 2, 0), batch(2, 2, 0)]);
    let first_bytes = batch(0, 2, 0).len();
    for length in 0..whole.len() {
        let taken = take(&whole.slice(..length), Vec::new(), 0, COMMITTED);
        if length < first_bytes {
            assert_eq!((taken.next, taken.damage.is_some()), (0, length > 0));
        } else {
            assert_eq!((offsets(&taken), taken.next), (vec![0, 1], 2));
        }
    }
}

#[test]
fn a_batch_with_a_wrong_crc_ends_the_answer_and_is_told_when_it_comes_first() {
    let (good, mut bad) = (batch(0, 2, 0), batch(2, 2, 0).to_vec());
    let last = bad.len() - 1;
    bad[last] ^= 1;
    let bad = Bytes::from(bad);
    let taken = take(&together(&[good, bad.clone()]), Vec::new(), 0, COMMITTED);
    assert_eq!(
        (offsets(&taken), taken.next, taken.damage),
        (vec![0, 1], 2, None)
    );
    let taken = take(&bad, Vec::new(), 2, COMMITTED);
    assert!(
        matches!(taken.damage, Some(BatchError::Crc { .. })),
        "{taken:?}"
    );
    let unchecked = Checks {
        crc: false,
        ..COMMITTED
    };
    assert_eq!(take(&bad, Vec::new(), 2, unchecked).next, 4);
}

#[test]
fn batches_that_overlap_are_damage() {
    let records = together(&[batch(0, 5, 0), batch(3, 5, 0)]);
    let taken = take(&records, Vec::new(), 0, COMMITTED);
    assert_eq!((taken.next, offsets(&taken).len()), (5, 5));
    let old = take(&batch(0, 5, 0), Vec::new(), 5, COMMITTED);
    assert_eq!((old.next, old.damage.is_some()), (5, true));
}

#[test]
fn aborted_records_and_markers_are_not_delivered_but_passed() {
    let records = together(&[
        transactional(0, 2, 7),
        transactional(2, 2, 8),
        batch(4, 1, 0),
        marker(5, 7, false),
        transactional(6, 2, 7),
        marker(8, 8, true),
        marker(9, 7, true),
    ]);
    let list = vec![aborted(7, 0)];
    let taken = take(&records, list, 0, COMMITTED);
    assert_eq!(offsets(&taken), [2, 3, 4, 6, 7]);
    assert_eq!(taken.next, 10);
    let all = take(&records, Vec::new(), 0, EVERYTHING);
    assert_eq!(offsets(&all), [0, 1, 2, 3, 4, 6, 7]);
    assert_eq!(all.next, 10);
    // Only markers: nothing to deliver, and the position moves.
    let markers = take(&marker(5, 7, false), Vec::new(), 5, COMMITTED);
    assert_eq!(
        (offsets(&markers), markers.next, markers.damage),
        (vec![], 6, None)
    );
}

#[test]
fn the_second_aborted_transaction_of_a_producer_is_hidden_too() {
    let records = together(&[
        transactional(0, 1, 7),
        marker(1, 7, false),
        transactional(2, 1, 7),
        marker(3, 7, true),
        transactional(4, 1, 7),
        marker(5, 7, false),
    ]);
    let list = vec![aborted(7, 4), aborted(7, 0)];
    assert_eq!(offsets(&take(&records, list, 0, COMMITTED)), [2]);
}

proptest! {
    /// Whatever bytes come, the position does not go back, and offsets ascend from it on.
    #[test]
    fn damaged_answers_never_move_the_position_back(
        position in 0i64..12, at: prop::sample::Index, byte: u8, cut: prop::sample::Index,
        crc: bool, committed: bool,
    ) {
        let mut bytes = [
            batch(0, 3, 1), transactional(3, 3, 7), marker(6, 7, false), batch(7, 3, 2),
        ].concat();
        let length = bytes.len();
        bytes[at.index(length)] = byte;
        bytes.truncate(length - cut.index(length));
        let checks = Checks { crc, committed };
        let taken = take(&bytes.into(), vec![aborted(7, 3)], position, checks);
        prop_assert!(taken.next >= position);
        prop_assert!(taken.damage.is_none() || taken.next == position);
        let mut before = position - 1;
        for batch in &taken.batches {
            prop_assert!(batch.next_offset() <= taken.next);
            let Ok(open) = batch.open(1 << 20) else { continue };
            for record in open.records().map_while(Result::ok) {
                prop_assert!(record.offset > before && record.offset < taken.next);
                before = record.offset;
            }
        }
    }

    #[test]
    fn any_bytes_are_taken_or_not(
        bytes in proptest::collection::vec(any::<u8>(), 0..300), position in 0i64..100,
    ) {
        let checks = Checks { crc: false, committed: true };
        let taken = take(&bytes.into(), Vec::new(), position, checks);
        prop_assert!(taken.next >= position);
    }
}
