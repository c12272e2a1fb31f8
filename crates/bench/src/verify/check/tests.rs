//! Every kind of fault, planted anywhere, is found and counted once; a sound log has none.

use proptest::prelude::*;

use super::*;
use crate::outcome::RecordCheckResult;
use crate::verify::first_of;
use crate::verify::stamp::STAMP_BYTES;

const ID: u64 = 7;

fn place(partition: u32) -> PartitionPlace {
    PartitionPlace {
        topic: 0,
        partition,
    }
}

fn record(producer: u32, partition: u32, number: u64) -> Vec<u8> {
    let mut value = vec![b'x'; STAMP_BYTES + 10];
    Stamp {
        id: ID,
        producer,
        place: place(partition),
        number,
    }
    .write(&mut value);
    value
}

/// Returns the records of `producers` in one partition over two runs, in the order of `turns`.
fn log(turns: &[u32], producers: u32) -> (Vec<Vec<u8>>, BTreeMap<Stream, Numbers>) {
    let mut values = Vec::new();
    let mut acknowledged: BTreeMap<Stream, Numbers> = BTreeMap::new();
    for run in 0..2 {
        let mut next = vec![first_of(run); producers as usize];
        for turn in turns {
            let producer = turn % producers;
            let number = next[producer as usize];
            next[producer as usize] += 1;
            values.push(record(producer, 0, number));
            let place = place(0);
            acknowledged
                .entry(Stream { place, producer })
                .or_default()
                .insert(number);
        }
    }
    (values, acknowledged)
}

fn judged(
    values: &[Vec<u8>],
    acknowledged: &BTreeMap<Stream, Numbers>,
    window: bool,
) -> RecordCheckResult {
    let mut checker = Checker::of(ID);
    for (offset, value) in values.iter().enumerate() {
        checker.read(place(0), i64::try_from(offset).unwrap(), Some(value));
    }
    found(&checker, acknowledged, window)
}

fn found(
    checker: &Checker,
    acknowledged: &BTreeMap<Stream, Numbers>,
    window: bool,
) -> RecordCheckResult {
    RecordCheckResult {
        acknowledged: acknowledged.values().map(Numbers::count).sum(),
        read: checker.count(),
        lost: missing(acknowledged, checker.streams(), window)
            .map(|(_, first, last)| last - first + 1)
            .sum(),
        duplicated: checker.duplicated,
        disordered: checker.disordered,
        damaged: checker.damaged,
    }
}

proptest! {
    #[test]
    fn a_sound_log_has_no_faults(turns in prop::collection::vec(0_u32..3, 1..100)) {
        let (values, acknowledged) = log(&turns, 3);
        let count = values.len() as u64;
        let sound = RecordCheckResult { acknowledged: count, read: count, ..RecordCheckResult::default() };
        prop_assert_eq!(judged(&values, &acknowledged, false), sound);
    }

    #[test]
    fn a_dropped_record_is_lost(turns in prop::collection::vec(0_u32..3, 1..100), at: prop::sample::Index) {
        let (mut values, acknowledged) = log(&turns, 3);
        let count = values.len() as u64;
        values.remove(at.index(values.len()));
        let expected = RecordCheckResult { acknowledged: count, read: count - 1, lost: 1, ..RecordCheckResult::default() };
        prop_assert_eq!(judged(&values, &acknowledged, false), expected);
    }

    #[test]
    fn a_doubled_record_is_a_duplicate(
        turns in prop::collection::vec(0_u32..3, 1..100), at: prop::sample::Index, to: prop::sample::Index,
    ) {
        let (mut values, acknowledged) = log(&turns, 3);
        let count = values.len() as u64;
        let at = at.index(values.len());
        let again = values[at].clone();
        values.insert(at + 1 + to.index(values.len() - at), again);
        let expected = RecordCheckResult { acknowledged: count, read: count, duplicated: 1, ..RecordCheckResult::default() };
        prop_assert_eq!(judged(&values, &acknowledged, false), expected);
    }

    #[test]
    fn a_record_swapped_with_its_follower_is_disordered(count in 2_usize..100, at: prop::sample::Index) {
        let (mut values, acknowledged) = log(&vec![0; count], 1);
        // Within one run: order is not promised across runs.
        let at = at.index(count - 1);
        values.swap(at, at + 1);
        let all = values.len() as u64;
        let expected = RecordCheckResult { acknowledged: all, read: all, disordered: 1, ..RecordCheckResult::default() };
        prop_assert_eq!(judged(&values, &acknowledged, false), expected);
    }

    #[test]
    fn an_altered_record_is_damaged_and_its_number_lost(
        turns in prop::collection::vec(0_u32..3, 1..100), at: prop::sample::Index, byte: prop::sample::Index,
    ) {
        let (mut values, acknowledged) = log(&turns, 3);
        let count = values.len() as u64;
        let at = at.index(values.len());
        let byte = byte.index(values[at].len());
        values[at][byte] ^= 0x20;
        let expected = RecordCheckResult { acknowledged: count, read: count - 1, lost: 1, damaged: 1, ..RecordCheckResult::default() };
        prop_assert_eq!(judged(&values, &acknowledged, false), expected);
    }
}

#[test]
fn a_record_of_another_partition_is_damage_and_one_of_another_check_is_nothing() {
    let mut checker = Checker::of(ID);
    checker.read(place(0), 0, Some(&record(0, 1, 0)));
    assert_eq!(checker.damaged, 1);
    let mut foreign = record(0, 0, 0);
    Stamp {
        id: ID + 1,
        producer: 0,
        place: place(0),
        number: 0,
    }
    .write(&mut foreign);
    checker.read(place(0), 1, Some(&foreign));
    assert_eq!((checker.damaged, checker.count()), (1, 0));
    checker.read(place(0), 2, None);
    assert_eq!(checker.damaged, 2);
    assert_eq!(
        checker.findings[0],
        "damaged: topic 0 partition 0 offset 0 is a record of topic 0 partition 1"
    );
}

#[test]
fn reading_again_from_an_earlier_offset_is_no_fault_of_the_log() {
    let (values, acknowledged) = log(&[0; 10], 1);
    let mut checker = Checker::of(ID);
    for (offset, value) in values.iter().enumerate().take(8) {
        checker.read(place(0), i64::try_from(offset).unwrap(), Some(value));
    }
    for (offset, value) in values.iter().enumerate().skip(3) {
        checker.read(place(0), i64::try_from(offset).unwrap(), Some(value));
    }
    let sound = RecordCheckResult {
        acknowledged: 20,
        read: 20,
        ..RecordCheckResult::default()
    };
    assert_eq!(found(&checker, &acknowledged, false), sound);
}

#[test]
fn a_reader_that_begins_late_and_ends_early_has_lost_only_what_lies_between() {
    let (mut values, acknowledged) = log(&[0; 50], 1);
    values.truncate(40);
    values.drain(..10);
    assert_eq!(judged(&values, &acknowledged, true).lost, 0);
    values.drain(5..8);
    assert_eq!(judged(&values, &acknowledged, true).lost, 3);
    assert_eq!(judged(&[], &acknowledged, true).lost, 0);
    assert_eq!(judged(&[], &acknowledged, false).lost, 100);
}

#[test]
fn two_readers_of_a_group_add_up() {
    let (values, acknowledged) = log(&[0; 10], 1);
    let (mut one, mut two) = (Checker::of(ID), Checker::of(ID));
    for (offset, value) in values.iter().enumerate() {
        let reader = if offset < 12 { &mut one } else { &mut two };
        reader.read(place(0), i64::try_from(offset).unwrap(), Some(value));
    }
    two.read(place(0), 30, Some(&values[0]));
    one.absorb(&two);
    let seen = found(&one, &acknowledged, false);
    assert_eq!((seen.read, seen.duplicated, seen.lost), (20, 1, 0));
}

#[test]
fn the_first_faults_are_described_and_the_rest_counted() {
    let mut checker = Checker::of(ID);
    for offset in 0..1000 {
        checker.read(place(0), offset, Some(b"garbage"));
    }
    assert_eq!(
        (checker.damaged, checker.findings.len()),
        (1000, FINDINGS_MAX)
    );
}
