//! Batches against those of the `kafka-protocol` crate's encoder.

use bytes::{Bytes, BytesMut};
use kafka_protocol::records::{
    Compression, Record, RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};
use proptest::prelude::*;

use super::*;

mod mutated;

/// Timestamp, key, value.
pub(crate) type TestRecord<'a> = (i64, Option<&'a [u8]>, Option<&'a [u8]>);

/// A batch that the other encoder made.
pub(crate) fn their_batch(records: &[TestRecord<'_>]) -> Bytes {
    let records: Vec<Record> = (0..)
        .zip(records)
        .map(|(index, (timestamp, key, value))| Record {
            transactional: false,
            control: false,
            delete_horizon: false,
            partition_leader_epoch: -1,
            producer_id: -1,
            producer_epoch: -1,
            timestamp_type: TimestampType::Creation,
            offset: i64::from(index),
            // That encoder starts a new batch where sequences and offsets do not advance together.
            sequence: index - 1,
            timestamp: *timestamp,
            key: key.map(Bytes::copy_from_slice),
            value: value.map(Bytes::copy_from_slice),
            headers: kafka_protocol::indexmap::IndexMap::default(),
        })
        .collect();
    let mut batch = BytesMut::new();
    let options = RecordEncodeOptions {
        version: 2,
        compression: Compression::None,
    };
    RecordBatchEncoder::encode(&mut batch, &records, &options).unwrap();
    batch.freeze()
}

#[test]
fn a_batch_with_another_producer_is_the_one_that_was_built_with_it() {
    let build = |id, epoch, sequence| {
        let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch(-1));
        builder = builder.producer(ProducerId(id), epoch, sequence);
        for number in 0..100 {
            builder.add(TimestampMs(number), None, Some(b"value"), &[]);
        }
        builder.finish().unwrap()
    };
    let mut batch = build(-1, -1, -1).to_vec();
    for (id, epoch, sequence) in [(7, 0, 5), (i64::MAX, i16::MAX, i32::MAX), (-1, -1, -1)] {
        let fixed = batch.first_chunk_mut().unwrap();
        stamp_producer(fixed, ProducerId(id), epoch, sequence);
        assert_eq!(batch, build(id, epoch, sequence));
    }
    let mut none = [0; HEADER_BYTES];
    stamp_producer(&mut none, ProducerId(7), 0, 5);
    assert_eq!(none, [0; HEADER_BYTES], "not a batch");
}

#[test]
fn the_fixed_part_reads_as_it_was_written() {
    let batch = their_batch(&[(100, None, Some(b"a")), (130, Some(b"k"), None)]);
    let header = BatchHeader::parse(&batch).unwrap();
    assert_eq!(header.size_bytes, batch.len());
    assert_eq!(header.magic, 2);
    assert_eq!((header.record_count, header.last_offset_delta), (2, 1));
    assert_eq!(header.base_timestamp, TimestampMs(100));
    assert_eq!(header.max_timestamp, TimestampMs(130));
    assert_eq!(header.next_offset(), Offset(2));
    assert_eq!(header.last_sequence(), -1);
    validate_stored(&header, &batch).unwrap();
}

#[test]
fn stamping_keeps_the_crc() {
    let mut batch = their_batch(&[(100, None, Some(b"a"))]).to_vec();
    let start = batch.first_chunk_mut().unwrap();
    stamp(start, Offset(1 << 35), LeaderEpoch(7));
    let header = BatchHeader::parse(&batch).unwrap();
    assert_eq!(
        (header.base_offset, header.leader_epoch),
        (Offset(1 << 35), LeaderEpoch(7))
    );
    validate_stored(&header, &batch).unwrap();
}

#[test]
fn append_time_is_stamped_without_reading_records() {
    for value in [&b""[..], &[7; 5000]] {
        let mut batch = their_batch(&[(100, None, Some(value))]).to_vec();
        let before = BatchHeader::parse(&batch).unwrap();
        let stamped = stamp_as_leader(
            batch.first_chunk_mut().unwrap(),
            &before,
            (Offset(5), LeaderEpoch(6)),
            Some(TimestampMs(1_700_000_000_000)),
        );
        let header = BatchHeader::parse(&batch).unwrap();
        assert_eq!(header, stamped);
        assert_eq!(
            (header.base_offset, header.leader_epoch),
            (Offset(5), LeaderEpoch(6))
        );
        assert!(header.is_log_append_time());
        assert_eq!(header.max_timestamp, TimestampMs(1_700_000_000_000));
        validate_stored(&header, &batch).unwrap();
    }
}

#[test]
fn runs_of_batches_are_walked_up_to_the_partial_one() {
    let one = their_batch(&[(1, None, Some(b"one"))]);
    let two = their_batch(&[(2, None, Some(b"two")), (3, None, None)]);
    let mut bytes = [&one[..], &two[..]].concat();
    let sizes: Vec<usize> = Batches::new(&bytes)
        .map(|batch| batch.unwrap().1.len())
        .collect();
    assert_eq!(sizes, [one.len(), two.len()]);
    bytes.extend_from_slice(&one[..one.len() - 1]);
    assert_eq!(Batches::new(&bytes).complete_len(), one.len() + two.len());
    let last = Batches::new(&bytes).last().unwrap();
    assert_eq!(
        last,
        Err(BatchError::Incomplete {
            have: one.len() - 1,
            need: one.len()
        })
    );
    assert_eq!(
        Batches::new(&[0; 100]).next(),
        Some(Err(BatchError::Length { length: 0 }))
    );
}

#[test]
#[should_panic(expected = "a batch has its fixed part")]
fn less_than_a_batch_has_no_crc() {
    crc_of(&[0; HEADER_BYTES - 1]);
}

#[test]
fn a_flipped_bit_is_found() {
    let batch = their_batch(&[(1, Some(b"key"), Some(b"value"))]);
    for bit in CRC_START * 8..batch.len() * 8 {
        let mut bytes = batch.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let header = BatchHeader::parse(&bytes).unwrap();
        assert!(validate_stored(&header, &bytes).is_err(), "bit {bit}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_walked_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        assert!(Batches::new(&bytes).count() <= bytes.len() / HEADER_BYTES + 1);
        assert!(Batches::new(&bytes).complete_len() <= bytes.len());
    }
}
