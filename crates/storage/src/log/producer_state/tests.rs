//! Tests of the producer state.
//!
//! They cover the rules of sequences, epochs and transactions, and that the state survives a
//! snapshot.

use std::collections::VecDeque;

use wire::types::LeaderEpoch;

use super::*;

const TRANSACTIONAL: i16 = 0x10;
const CONTROL: i16 = 0x20;

#[derive(Clone, Copy)]
struct Batch {
    epoch: i16,
    sequence: i32,
    records: i32,
    attributes: i16,
}

fn batch(epoch: i16, sequence: i32, records: i32) -> Batch {
    Batch {
        epoch,
        sequence,
        records,
        attributes: 0,
    }
}

fn txn(epoch: i16, sequence: i32, records: i32) -> Batch {
    Batch {
        attributes: TRANSACTIONAL,
        ..batch(epoch, sequence, records)
    }
}

fn header(id: i64, at: Offset, batch: Batch) -> BatchHeader {
    BatchHeader {
        base_offset: at,
        size_bytes: 100,
        leader_epoch: LeaderEpoch(0),
        magic: 2,
        crc: 0,
        attributes: batch.attributes,
        last_offset_delta: batch.records - 1,
        base_timestamp: TimestampMs(1000),
        max_timestamp: TimestampMs(1000 + at.0),
        producer_id: ProducerId(id),
        producer_epoch: batch.epoch,
        base_sequence: batch.sequence,
        record_count: batch.records,
    }
}

/// A partition that appends every batch it may.
struct Partition(ProducerStates);

impl Partition {
    fn new() -> Self {
        Self(ProducerStates::new(Offset::ZERO))
    }

    fn check(&self, id: i64, batch: Batch) -> Result<ProducerCheck, ProducerError> {
        self.0
            .check(&header(id, self.0.end(), batch), Origin::Client)
    }

    /// Returns "new", the offsets of a duplicate, or the error's code.
    fn produce(&mut self, id: i64, batch: Batch) -> String {
        match self.check(id, batch) {
            Ok(ProducerCheck::New) => {
                self.0.append(&header(id, self.0.end(), batch));
                "new".to_owned()
            }
            Ok(ProducerCheck::Duplicate(first)) => {
                format!("duplicate {}..={}", first.base_offset(), first.last_offset)
            }
            Err(error) => format!("{:?}", error.error_code()),
        }
    }

    fn end(&mut self, id: i64, epoch: i16, outcome: TransactionOutcome) -> Option<AbortedTxn> {
        let marker = EndMarker {
            outcome,
            coordinator_epoch: 0,
        };
        let control = Batch {
            attributes: TRANSACTIONAL | CONTROL,
            ..batch(epoch, -1, 1)
        };
        self.0
            .replay(&header(id, self.0.end(), control), Some(marker))
    }
}

#[test]
fn a_known_producer_goes_on_where_it_was() {
    let mut partition = Partition::new();
    assert_eq!(partition.produce(1, batch(0, 0, 10)), "new");
    assert_eq!(partition.produce(1, batch(0, 10, 5)), "new");
    assert_eq!(
        partition.produce(1, batch(0, 16, 1)),
        "OutOfOrderSequenceNumber"
    );
    assert_eq!(partition.produce(1, batch(0, 15, 1)), "new");
}

#[test]
fn an_unknown_producer_may_begin_anywhere() {
    let mut partition = Partition::new();
    assert_eq!(partition.produce(1, batch(3, 77, 2)), "new");
    assert_eq!(partition.produce(1, batch(3, 79, 2)), "new");
}

#[test]
fn a_batch_sent_again_gets_its_first_offsets() {
    let mut partition = Partition::new();
    for i in 0..6 {
        assert_eq!(partition.produce(1, batch(0, i * 10, 10)), "new");
    }
    assert_eq!(partition.produce(1, batch(0, 50, 10)), "duplicate 50..=59");
    assert_eq!(partition.produce(1, batch(0, 10, 10)), "duplicate 10..=19");
    assert_eq!(
        partition.produce(1, batch(0, 0, 10)),
        "OutOfOrderSequenceNumber",
        "the sixth last"
    );
    assert_eq!(
        partition.produce(1, batch(0, 50, 9)),
        "OutOfOrderSequenceNumber",
        "other records"
    );
    assert_eq!(
        partition.produce(1, batch(0, 60, 1)),
        "new",
        "a duplicate changes nothing"
    );
}

#[test]
fn sequences_wrap_to_zero() {
    let mut partition = Partition::new();
    let near = i32::MAX - 2;
    assert_eq!(partition.produce(1, batch(0, near, 5)), "new");
    assert_eq!(partition.produce(1, batch(0, near, 5)), "duplicate 0..=4");
    assert_eq!(
        partition.produce(1, batch(0, 3, 1)),
        "OutOfOrderSequenceNumber"
    );
    assert_eq!(partition.produce(1, batch(0, 2, 1)), "new");
    assert_eq!(partition.produce(2, batch(0, i32::MAX, 1)), "new");
    assert_eq!(partition.produce(2, batch(0, 0, 1)), "new");
}

#[test]
fn a_new_epoch_begins_with_zero_and_fences_the_old_one() {
    let mut partition = Partition::new();
    assert_eq!(partition.produce(1, batch(4, 0, 10)), "new");
    assert_eq!(
        partition.produce(1, batch(5, 10, 1)),
        "OutOfOrderSequenceNumber"
    );
    assert_eq!(
        partition.produce(1, batch(5, 0, 10)),
        "new",
        "not a duplicate: another epoch"
    );
    assert_eq!(
        partition.produce(1, batch(4, 10, 1)),
        "InvalidProducerEpoch"
    );
    assert_eq!(
        partition.produce(1, batch(4, 0, 10)),
        "InvalidProducerEpoch",
        "nor a duplicate"
    );
}

#[test]
fn a_coordinators_batches_have_no_sequences() {
    let mut partition = Partition::new();
    assert_eq!(partition.produce(1, txn(4, -1, 1)), "new");
    let again = header(1, partition.0.end(), txn(4, -1, 1));
    assert_eq!(
        partition.0.check(&again, Origin::Coordinator),
        Ok(ProducerCheck::New)
    );
    let old = header(1, partition.0.end(), txn(3, -1, 1));
    assert!(partition.0.check(&old, Origin::Coordinator).is_err());
}

#[test]
fn batches_without_a_producer_leave_no_trace() {
    let mut partition = Partition::new();
    assert_eq!(partition.produce(-1, batch(-1, -1, 10)), "new");
    assert_eq!(partition.0.producer_count(), 0);
    assert_eq!(partition.0.end(), Offset(10));
}

#[test]
fn readers_wait_before_the_oldest_open_transaction() {
    let mut partition = Partition::new();
    assert_eq!(partition.produce(9, batch(0, 0, 10)), "new");
    assert_eq!(partition.0.first_unstable_offset(), None);
    partition.produce(1, txn(0, 0, 5));
    partition.produce(2, txn(0, 0, 5));
    partition.produce(1, txn(0, 5, 5));
    assert_eq!(partition.0.first_unstable_offset(), Some(Offset(10)));
    assert_eq!(partition.produce(1, batch(0, 10, 1)), "InvalidTxnState");

    assert_eq!(partition.end(1, 0, TransactionOutcome::Commit), None);
    assert_eq!(partition.0.first_open_offset(), Some(Offset(15)));
    assert_eq!(
        partition.0.first_unstable_offset(),
        Some(Offset(10)),
        "the marker may yet be lost"
    );
    partition.0.advance_high_watermark(Offset(25));
    assert_eq!(
        partition.0.first_unstable_offset(),
        Some(Offset(10)),
        "the marker lies at 25"
    );
    partition.0.advance_high_watermark(Offset(26));
    assert_eq!(partition.0.first_unstable_offset(), Some(Offset(15)));

    let aborted = partition.end(2, 0, TransactionOutcome::Abort);
    let expect = AbortedTxn {
        producer_id: ProducerId(2),
        first_offset: Offset(15),
        last_offset: Offset(26),
        last_stable_offset: Offset(27),
    };
    assert_eq!(aborted, Some(expect));
    assert_eq!(
        partition.end(2, 0, TransactionOutcome::Abort),
        None,
        "a transaction without records here"
    );
    partition.0.advance_high_watermark(Offset(28));
    assert_eq!(partition.0.first_unstable_offset(), None);
    assert_eq!(
        partition.produce(1, txn(0, 10, 1)),
        "new",
        "the sequence goes on after the marker"
    );
}

#[test]
fn an_aborted_transaction_is_stable_up_to_the_next_open_one() {
    let mut partition = Partition::new();
    partition.produce(1, txn(0, 0, 5));
    partition.produce(2, txn(0, 0, 5));
    let aborted = partition.end(1, 0, TransactionOutcome::Abort);
    assert_eq!(aborted.map(|txn| txn.last_stable_offset), Some(Offset(5)));
}

#[test]
fn a_marker_that_raises_the_epoch_begins_sequences_anew() {
    let mut partition = Partition::new();
    partition.produce(1, txn(0, 0, 5));
    partition.end(1, 1, TransactionOutcome::Commit);
    assert_eq!(partition.produce(1, txn(0, 5, 1)), "InvalidProducerEpoch");
    assert_eq!(
        partition.produce(1, txn(1, 5, 1)),
        "OutOfOrderSequenceNumber"
    );
    assert_eq!(partition.produce(1, txn(1, 0, 1)), "new");
}

#[test]
fn a_replaced_coordinator_cannot_end_a_transaction() {
    let mut partition = Partition::new();
    partition.produce(1, txn(0, 0, 5));
    partition.end(1, 0, TransactionOutcome::Commit);
    let marker = |coordinator_epoch| {
        let marker = EndMarker {
            outcome: TransactionOutcome::Commit,
            coordinator_epoch,
        };
        let header = header(1, partition.0.end(), txn(0, -1, 1));
        partition.0.check_marker(&header, marker)
    };
    let code = |result: Result<(), ProducerError>| result.map_err(|error| error.error_code());
    assert_eq!(
        code(marker(-1)),
        Err(wire::types::ErrorCode::TransactionCoordinatorFenced)
    );
    assert_eq!([marker(0), marker(1)], [Ok(()), Ok(())]);
}

#[test]
fn idle_producers_expire_unless_a_transaction_is_open() {
    let mut partition = Partition::new();
    partition.produce(1, batch(0, 0, 10));
    partition.produce(2, txn(0, 0, 10));
    partition.produce(3, batch(0, 0, 10));
    // Last timestamps: 1000, 1010, 1020.
    assert_eq!(partition.0.expire(1519, 500), 1);
    assert_eq!(partition.0.expire(1520, 500), 1);
    assert_eq!(partition.0.expire(i64::MAX, 500), 0);
    assert_eq!(
        partition.produce(1, batch(0, 99, 1)),
        "new",
        "unknown again"
    );
}

#[test]
fn a_snapshot_keeps_the_last_batch_and_the_open_transaction() {
    let mut partition = Partition::new();
    for i in 0..7 {
        partition.produce(1, batch(2, i * 10, 10));
    }
    partition.produce(2, txn(0, 0, 5));
    partition.produce(3, txn(0, 0, 5));
    partition.end(3, 1, TransactionOutcome::Commit);
    let bytes = snapshot::encode(&partition.0.snapshot());
    let read = snapshot::parse(&bytes).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(read, partition.0.snapshot());

    let mut restored = Partition(ProducerStates::restore(
        partition.0.end(),
        &read,
        2000,
        1000,
    ));
    assert_eq!(restored.0.snapshot(), read);
    assert_eq!(restored.0.first_unstable_offset(), Some(Offset(70)));
    assert_eq!(restored.produce(1, batch(2, 60, 10)), "duplicate 60..=69");
    assert_eq!(
        restored.produce(1, batch(2, 50, 10)),
        "OutOfOrderSequenceNumber"
    );
    assert_eq!(restored.produce(1, batch(2, 70, 1)), "new");
    assert_eq!(
        restored.produce(3, txn(1, 1, 1)),
        "OutOfOrderSequenceNumber"
    );
    assert_eq!(restored.produce(3, txn(1, 0, 1)), "new");

    let later = ProducerStates::restore(Offset(99), &read, 3000, 1000);
    assert_eq!(
        later.producer_count(),
        1,
        "only the open transaction has not expired"
    );
}

#[test]
fn damaged_snapshots_are_refused() {
    let mut partition = Partition::new();
    partition.produce(1, batch(0, 0, 10));
    let good = snapshot::encode(&partition.0.snapshot());
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        assert!(snapshot::parse(&bad).is_err(), "byte {at}");
        assert!(snapshot::parse(&good[..at]).is_err(), "first {at} bytes");
    }
    assert!(snapshot::parse(&[good.as_slice(), &[0]].concat()).is_err());
}

#[test]
fn only_snapshots_of_segments_and_the_newest_past_them_are_kept() {
    let check = |snapshots: &[i64], segments: &[i64], expect: &[i64]| {
        let offsets = |of: &[i64]| of.iter().map(|&offset| Offset(offset)).collect::<Vec<_>>();
        let stray = stray_snapshots(&offsets(snapshots), &offsets(segments));
        assert_eq!(stray, offsets(expect));
    };
    check(&[10, 20, 30], &[0, 10, 20], &[]);
    check(&[5, 10, 15, 30, 40], &[0, 10, 20], &[5, 15, 30]);
    check(&[5, 10], &[0, 10, 20], &[5]);
    check(&[5, 7], &[], &[5]);
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_a_snapshot_or_are_refused(bytes: Vec<u8>) {
        if let Ok(producers) = snapshot::parse(&bytes) {
            proptest::prop_assert_eq!(snapshot::encode(&producers), bytes);
        }
    }
}

#[test]
fn of_more_producers_than_are_remembered_those_that_are_idle_longest_go() {
    let mut states = ProducerStates::new(Offset::ZERO);
    let id = |at: usize| i64::try_from(at).unwrap();
    states.append(&header(id(5_000_000), Offset(0), txn(0, 0, 1)));
    for at in 1..=3 * PRODUCERS_MAX {
        states.append(&header(id(at), Offset(id(at)), batch(0, 0, 1)));
        assert!(states.producer_count() <= PRODUCERS_MAX);
    }
    assert_eq!(
        states.producer_count(),
        PRODUCERS_MAX,
        "no more go than have to"
    );
    assert!((15 << 20..30 << 20).contains(&states.bytes()), "some 20 MB");
    assert!(states.knows(ProducerId(id(3 * PRODUCERS_MAX))));
    assert!(!states.knows(ProducerId(1)));
    assert!(
        states.knows(ProducerId(5_000_000)),
        "its transaction is open"
    );
}

#[test]
fn producers_that_go_on_writing_are_remembered_whatever_else_comes() {
    let mut states = ProducerStates::new(Offset::ZERO);
    let id = |at: usize| i64::try_from(at).unwrap();
    let mut offset = 0;
    let mut write = |states: &mut ProducerStates, id: i64, sequence: i32| {
        states.append(&header(id, Offset(offset), batch(0, sequence, 1)));
        offset += 1;
    };
    let busy = 100_i64;
    for round in 0..100 {
        for at in 0..busy {
            write(&mut states, at, round);
        }
        for at in 0..PRODUCERS_MAX / 25 {
            write(
                &mut states,
                1_000_000 + id(at) + 10_000 * i64::from(round),
                0,
            );
        }
        assert!((0..busy).all(|at| states.knows(ProducerId(at))));
        assert!(states.producer_count() <= PRODUCERS_CEILING);
    }
    assert!(!states.knows(ProducerId(1_000_000)), "it wrote once");
}

#[test]
fn after_idle_producers_have_expired_the_others_still_make_room_in_order() {
    let mut states = ProducerStates::new(Offset::ZERO);
    let all = i64::try_from(PRODUCERS_MAX).unwrap();
    for at in 0..all {
        let mut header = header(at, Offset(at), batch(0, 0, 1));
        header.max_timestamp = TimestampMs(if at % 2 == 0 { 1 } else { 1_000_000 });
        states.append(&header);
    }
    assert_eq!(states.expire(1_000_000, 500_000), PRODUCERS_MAX / 2);
    for at in all..all * 2 {
        states.append(&header(at, Offset(at), batch(0, 0, 1)));
    }
    assert_eq!(states.producer_count(), PRODUCERS_MAX);
    assert!((all..all * 2).all(|at| states.knows(ProducerId(at))));
}

#[test]
fn a_restored_partition_forgets_in_the_same_order() {
    let mut states = ProducerStates::new(Offset::ZERO);
    let all = i64::try_from(PRODUCERS_MAX).unwrap();
    for at in 0..all {
        states.append(&header(all - at, Offset(at), batch(0, 0, 1)));
    }
    let mut restored = ProducerStates::restore(states.end(), &states.snapshot(), 0, i64::MAX);
    for states in [&mut states, &mut restored] {
        for at in 0..1000 {
            states.append(&header(2 * all + at, Offset(all + at), batch(0, 0, 1)));
        }
        assert!(!states.knows(ProducerId(all - 999)));
        assert!(states.knows(ProducerId(all - 1000)));
    }
    assert_eq!(states.snapshot(), restored.snapshot());
}

#[test]
fn nobody_raises_the_number_of_producers_by_writing_in_the_order_of_the_looks() {
    let mut states = ProducerStates::new(Offset::ZERO);
    let all = i64::try_from(PRODUCERS_MAX).unwrap();
    let mut ids: VecDeque<_> = (0..all).collect();
    let mut offset = 0;
    let mut write = |states: &mut ProducerStates, id| {
        states.append(&header(id, Offset(offset), batch(0, 0, 2)));
        offset += 2;
    };
    for id in ids.clone() {
        write(&mut states, id);
    }
    for new in all..all + 3000 {
        for _ in 0..LOOKS_MAX {
            let id = ids.pop_front().unwrap();
            write(&mut states, id);
            ids.push_back(id);
        }
        write(&mut states, new);
        ids.push_back(new);
        assert!(states.knows(ProducerId(new)));
        assert!(states.producer_count() <= PRODUCERS_CEILING);
    }
}

#[test]
fn a_producer_between_two_transactions_of_raised_epochs_is_not_idle() {
    let mut states = ProducerStates::new(Offset::ZERO);
    let all = i64::try_from(PRODUCERS_MAX).unwrap();
    let mut partition = Partition(states.clone());
    partition.produce(7_000_000, txn(0, 0, 1));
    states = partition.0;
    for at in 1..all {
        states.append(&header(at, Offset(at), batch(0, 0, 1)));
    }
    let mut partition = Partition(states);
    partition.end(7_000_000, 1, TransactionOutcome::Commit);
    states = partition.0;
    for at in all..all + 1000 {
        states.append(&header(at, Offset(at + 1), batch(0, 0, 1)));
    }
    assert!(states.knows(ProducerId(7_000_000)), "it has just written");
    assert!(!states.knows(ProducerId(1)));
    let restored = ProducerStates::restore(states.end(), &states.snapshot(), 0, i64::MAX);
    let mut states = restored;
    for at in 0..1000 {
        states.append(&header(3 * all + at, Offset(2 * all + at), batch(0, 0, 1)));
    }
    assert!(states.knows(ProducerId(7_000_000)), "nor after a restart");
}

#[test]
fn a_snapshot_that_has_a_producer_or_a_transaction_twice_is_refused() {
    let of = |id, start| ProducerSnapshot {
        producer_id: ProducerId(id),
        epoch: 0,
        last_sequence: 0,
        last_offset: Offset(9),
        offset_delta: 0,
        last_timestamp: TimestampMs(1),
        coordinator_epoch: 0,
        transaction_start: start,
    };
    let parsed = |all: &[_]| snapshot::parse_at(Offset(10), &snapshot::encode(all));
    let (one, other) = (of(1, Some(Offset(3))), of(2, Some(Offset(3))));
    assert!(parsed(&[one, of(2, Some(Offset(4))), of(3, None), of(4, None)]).is_ok());
    for all in [[one, other], [one, of(1, None)]] {
        let refused = parsed(&all).unwrap_err();
        assert!(
            matches!(refused, snapshot::SnapshotError::Twice(_)),
            "{refused}"
        );
    }
}

/// The snapshot that was begun, taken in pieces of `most` while `meanwhile` writes.
fn taken_while(
    states: &mut ProducerStates,
    most: usize,
    mut meanwhile: impl FnMut(&mut ProducerStates, usize),
) -> Option<Vec<u8>> {
    for piece in 0.. {
        match states.take_snapshot(most) {
            SnapshotProgress::None => return None,
            SnapshotProgress::More => meanwhile(states, piece),
            SnapshotProgress::Taken(_, bytes) => return Some(bytes),
        }
    }
    unreachable!("the pieces end")
}

proptest::proptest! {
    #[test]
    fn a_snapshot_in_pieces_is_of_the_moment_in_which_it_was_begun(
        known in proptest::collection::btree_set(0_i64..60, 0..50),
        most in 1_usize..8,
        after in proptest::collection::vec((0_i64..60, proptest::bool::ANY), 0..60),
    ) {
        let mut states = ProducerStates::new(Offset::ZERO);
        for (at, id) in (0..).zip(&known) {
            let mut header = header(*id, Offset(at), batch(0, 0, 1));
            header.max_timestamp = TimestampMs(if id % 7 == 0 { 1 } else { 1_000_000 });
            states.append(&header);
        }
        let at = states.end();
        let expected = snapshot::encode(&states.snapshot());
        proptest::prop_assert!(states.begin_snapshot(at));
        proptest::prop_assert!(!states.begin_snapshot(at), "one at a time");
        let mut after = after.into_iter();
        let taken = taken_while(&mut states, most, |states, piece| {
            if piece == 2 {
                states.expire(1_000_000, 500_000);
            }
            for (id, begins) in after.by_ref().take(5) {
                let end = states.end();
                let batch = if begins { txn(1, 0, 1) } else { batch(1, 0, 1) };
                states.append(&header(id, end, batch));
            }
        });
        proptest::prop_assert_eq!(taken, Some(expected));
    }
}

fn write(states: &mut ProducerStates, id: i64) {
    let end = states.end();
    states.append(&header(id, end, batch(0, 0, 1)));
}

#[test]
fn a_snapshot_for_which_too_much_would_be_kept_is_taken_at_once() {
    let mut states = ProducerStates::new(Offset::ZERO);
    (0..1000).for_each(|id| write(&mut states, id));
    let expected = (states.end(), snapshot::encode(&states.snapshot()));
    assert!(states.begin_snapshot(states.end()));
    assert_eq!(states.take_snapshot(10), SnapshotProgress::More);
    let beyond = i64::try_from(PRODUCERS_CEILING).unwrap() + 1;
    (5000..=5000 + beyond).for_each(|id| write(&mut states, id));
    let taken = SnapshotProgress::Taken(expected.0, expected.1);
    assert_eq!(states.take_snapshot(10), taken);
    assert!(states.begin_snapshot(states.end()), "the next one");
}

#[test]
fn a_snapshot_ends_however_many_producers_come_before_its_next_piece() {
    for last_known in [99, i64::MAX] {
        let mut states = ProducerStates::new(Offset::ZERO);
        (0..99).for_each(|id| write(&mut states, id));
        write(&mut states, last_known);
        let expected = snapshot::encode(&states.snapshot());
        assert!(states.begin_snapshot(states.end()));
        let mut pieces = 0;
        let taken = taken_while(&mut states, 10, |states, piece| {
            pieces = piece + 1;
            assert!(pieces < 100, "as many come as a piece has");
            let piece = i64::try_from(piece).unwrap();
            let new = 1000 + piece * 20..1020 + piece * 20;
            new.for_each(|id| write(states, id));
        });
        assert_eq!(taken, Some(expected), "{last_known}");
    }
}
