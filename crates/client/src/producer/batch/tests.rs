//! Batches hold what was added, however they are stamped and divided.

use std::cell::RefCell;
use std::rc::Rc;

use wire::batch::{BatchHeader, records, validate_stored};

use super::*;
use crate::producer::record::{Receipt, Report};

fn record(value: &str) -> Record {
    let mut record = Record::new("t".into(), Some(Bytes::copy_from_slice(value.as_bytes())));
    record.headers = vec![("h".to_owned(), None)];
    record
}

fn batch(values: &[&str], compression: Compression) -> Batch {
    let mut batch = Batch::new(1, compression, false, (Instant::now(), 0));
    for (timestamp, value) in (100..).zip(values) {
        batch.add(&record(value), timestamp, Box::new(|_| {}), None);
    }
    batch
}

fn stamp(sequence: i32) -> Stamp {
    Stamp {
        id: 9,
        epoch: 2,
        sequence,
    }
}

/// The values, the first timestamp and the first sequence of a batch that is whole.
fn read(bytes: &Bytes) -> (Vec<String>, i64, i32) {
    let header = BatchHeader::parse(bytes).unwrap();
    validate_stored(&header, bytes).unwrap();
    let all: Vec<_> = records(bytes).unwrap().map(Result::unwrap).collect();
    let text = |value: &Option<Bytes>| String::from_utf8(value.clone().unwrap().to_vec()).unwrap();
    let values = all.iter().map(|record| text(&record.value)).collect();
    assert!(all.iter().all(|record| record.headers.len() == 1));
    (values, all[0].timestamp.0, header.base_sequence)
}

#[test]
fn a_batch_is_closed_once_and_stamped_as_often_as_needed() {
    for compression in [Compression::None, Compression::Zstd] {
        let mut batch = batch(&["a", "b"], compression);
        assert!(batch.is_open());
        let values = || vec!["a".to_owned(), "b".to_owned()];
        let bytes = batch.stamped(Some(stamp(7))).unwrap();
        assert_eq!(read(&bytes), (values(), 100, 7));
        assert!(!batch.is_open());
        assert_eq!(batch.stamped(Some(stamp(7))).unwrap(), bytes);
        drop(bytes);
        assert_eq!(
            read(&batch.stamped(Some(stamp(8))).unwrap()),
            (values(), 100, 8)
        );
        assert_eq!(batch.stamp, Some(stamp(8)));
    }
}

#[test]
fn the_halves_of_a_batch_keep_records_reports_and_sequences() {
    let told = Rc::new(RefCell::new(Vec::new()));
    let mut whole = batch(&["a", "b", "c"], Compression::Lz4);
    whole.dones.clear();
    for number in 0..3 {
        let told = Rc::clone(&told);
        let done = move |report: Report| told.borrow_mut().push((number, report.partition));
        whole.dones.push(Box::new(done));
    }
    whole.stamped(Some(stamp(i32::MAX))).unwrap();
    let mut rest = whole.split(2).unwrap();
    let first = read(&whole.stamped(whole.stamp).unwrap());
    assert_eq!(first, (vec!["a".to_owned()], 100, i32::MAX));
    let second = read(&rest.stamped(rest.stamp).unwrap());
    // Sequences wrap to 0.
    assert_eq!(second, (vec!["b".to_owned(), "c".to_owned()], 101, 0));
    let receipt = Receipt {
        offset: None,
        append_time: None,
    };
    for (partition, batch) in [(1, whole), (2, rest)] {
        for done in batch.into_dones() {
            done(Report {
                partition,
                result: Ok(receipt),
            });
        }
    }
    assert_eq!(*told.borrow(), [(0, 1), (1, 2), (2, 2)]);
}
