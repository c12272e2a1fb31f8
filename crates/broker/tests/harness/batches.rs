//! Batches that clients send, and what they read from the answers.

use bytes::Bytes;
use wire::batch::BatchHeader;
use wire::batch::builder::BatchBuilder;
use wire::batch::record::records;
use wire::types::{LeaderEpoch, Offset, ProducerId, TimestampMs};

use super::NOW_MS;

pub(crate) fn builder() -> BatchBuilder {
    BatchBuilder::new(Offset(0), LeaderEpoch(-1))
}

/// A batch of records with these values.
pub(crate) fn batch(values: &[&str]) -> Bytes {
    batch_at(NOW_MS, values)
}

/// A batch of records with these values, all of one time.
pub(crate) fn batch_at(timestamp: i64, values: &[&str]) -> Bytes {
    filled(builder(), timestamp, values)
}

/// A batch of an idempotent producer.
pub(crate) fn produced(id: i64, epoch: i16, sequence: i32, values: &[&str]) -> Bytes {
    filled(
        builder().producer(ProducerId(id), epoch, sequence),
        NOW_MS,
        values,
    )
}

/// A batch of a transaction.
pub(crate) fn transactional(id: i64, sequence: i32, values: &[&str]) -> Bytes {
    let builder = builder().producer(ProducerId(id), 0, sequence);
    filled(builder.transactional(true), NOW_MS, values)
}

/// A batch of a transaction in some epoch.
pub(crate) fn transactional_in((id, epoch): (i64, i16), sequence: i32, values: &[&str]) -> Bytes {
    let builder = builder().producer(ProducerId(id), epoch, sequence);
    filled(builder.transactional(true), NOW_MS, values)
}

/// The marker that ends a transaction.
pub(crate) fn marker(id: i64, commit: bool) -> Bytes {
    let builder = builder().producer(ProducerId(id), 0, -1);
    let mut builder = builder.transactional(true).control(true);
    let key = [0, 0, 0, u8::from(commit)];
    builder.add(TimestampMs(NOW_MS), Some(&key), Some(&[0; 6]), &[]);
    builder.finish().unwrap()
}

/// A batch of one record.
pub(crate) fn keyed(key: &[u8], value: Option<&[u8]>) -> Bytes {
    let mut builder = builder();
    builder.add(TimestampMs(NOW_MS), Some(key), value, &[]);
    builder.finish().unwrap()
}

/// A batch of one record of this size.
pub(crate) fn large(bytes: usize) -> Bytes {
    batch(&["x".repeat(bytes).as_str()])
}

pub(crate) fn filled(mut builder: BatchBuilder, timestamp: i64, values: &[&str]) -> Bytes {
    for value in values {
        builder.add(
            TimestampMs(timestamp),
            Some(b"k"),
            Some(value.as_bytes()),
            &[],
        );
    }
    builder.finish().unwrap()
}

/// Offsets and values of the records in a run of whole batches (an incomplete one at the end is
/// passed over).
pub(crate) fn read(bytes: &Bytes) -> Vec<(i64, String)> {
    let mut found = Vec::new();
    for batch in whole(bytes) {
        assert_eq!(
            wire::batch::crc_of(&batch),
            BatchHeader::parse(&batch).unwrap().crc
        );
        for record in records(&batch).unwrap() {
            let record = record.unwrap();
            let value = record.value.unwrap_or_default();
            found.push((
                record.offset.0,
                String::from_utf8_lossy(&value).into_owned(),
            ));
        }
    }
    found
}

/// The whole batches at the start of `bytes`.
pub(crate) fn whole(bytes: &Bytes) -> Vec<Bytes> {
    let mut batches = Vec::new();
    let mut rest = bytes.clone();
    while let Some(header) = BatchHeader::parse(&rest) {
        if header.size_bytes > rest.len() {
            break;
        }
        batches.push(rest.split_to(header.size_bytes));
    }
    batches
}
