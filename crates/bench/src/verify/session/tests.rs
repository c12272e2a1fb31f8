//! A run through the interfaces that the generator uses.

use super::*;

const PLACE: PartitionPlace = PartitionPlace {
    topic: 0,
    partition: 2,
};

/// Numbers `count` records, all acknowledged, and returns their values.
fn produced(session: &Session, producer: u32, count: u32) -> Vec<Vec<u8>> {
    let mut numbering = session.numbering(producer);
    let first = numbering.first_number(PLACE);
    let mut values = vec![vec![1; 50]; count as usize];
    for (number, value) in (first..).zip(&mut values) {
        numbering.number(PLACE, number, value);
    }
    for batch in (0..count).step_by(10) {
        let size = 10.min(count - batch);
        numbering.acknowledged(PLACE, first + u64::from(batch), size, -1);
    }
    values
}

fn consumed<'a>(session: &Session, group: u32, values: impl Iterator<Item = &'a Vec<u8>>) {
    let mut checking = session.checking(group, 0);
    for (offset, value) in (0..).zip(values) {
        checking.read(PLACE, offset, None, Some(value));
    }
}

#[test]
fn every_group_must_read_everything_in_order() {
    let session = Session::of(9, 1);
    let values = produced(&session, 0, 95);
    consumed(&session, 0, values.iter());
    let sound = RecordCheckResult {
        acknowledged: 95,
        read: 95,
        ..RecordCheckResult::default()
    };
    assert_eq!(session.verified(), sound);
    consumed(&session, 1, values.iter().take(50).chain(&values[51..]));
    assert_eq!(session.verified(), RecordCheckResult { lost: 1, ..sound });
    let lost = session.live().examples;
    assert_eq!(lost.len(), 1);
    let number = first_of(1) + 50;
    assert_eq!(
        lost[&format!("lost: topic 0 partition 2, producer 0 numbers {number} to {number}")],
        1
    );
}

#[test]
fn the_next_run_of_a_ledger_misses_what_the_first_was_promised() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger");
    let topics = crate::spec::Topics {
        prefix: "t".to_owned(),
        count: 1,
        partitions: 3,
        replication: 1,
        configs: BTreeMap::new(),
        existing: false,
    };
    let open = || Ledger::open(&path, &topics, 5).unwrap();
    let session = Session::next(open(), 0).unwrap();
    let first = produced(&session, 0, 30);
    drop(session);
    let session = Session::next(open(), 0).unwrap();
    let second = produced(&session, 0, 20);
    let mut reader = session.checker();
    for (offset, value) in (0..).zip(first.iter().skip(4).chain(&second)) {
        reader.read(PLACE, offset, Some(value));
    }
    let found = session.whole(&reader).verified;
    let expected = RecordCheckResult {
        acknowledged: 50,
        read: 46,
        lost: 4,
        ..RecordCheckResult::default()
    };
    assert_eq!(found, expected);
    assert_eq!(session.failure(), None);
    drop(session);
    let session = Session::closed(Ledger::existing(&path).unwrap());
    assert_eq!(session.whole(&reader).verified, expected);
}

#[test]
fn what_two_readers_saw_of_one_fault_is_one_fault() {
    let seen = |lost, damaged| Findings {
        verified: RecordCheckResult {
            lost,
            damaged,
            ..RecordCheckResult::default()
        },
        examples: BTreeMap::from([("damaged: here".to_owned(), damaged)]),
    };
    let both = seen(3, 1).and(seen(1, 1));
    assert_eq!(both, seen(3, 1));
}

#[test]
fn hosts_tell_what_was_acknowledged_there() {
    let (here, there) = (Session::of(9, 1), Session::of(9, 1));
    let values = produced(&there, 4, 25);
    here.acknowledged_elsewhere(&there.acknowledged_here());
    consumed(&here, 0, values.iter());
    assert_eq!(
        (here.verified().acknowledged, here.verified().read),
        (25, 25)
    );
}
