//! No bytes trigger an assertion: randomly changed batches, and arbitrary bytes, pass through all
//! code that reads, validates and rewrites batches.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::super::*;
use crate::batch::record::records_within;
use crate::batch::retain::{OpenedBatch, emptied};

const BYTES_MAX: usize = 1 << 16;

/// A change to a batch.
#[derive(Clone, Debug)]
enum Change {
    /// A byte becomes another.
    Byte(Index, u8),
    /// A field of the fixed part gets an extreme value.
    Field(Index, i64),
    Cut(Index),
    Behind(Vec<u8>),
    /// Restores length, magic and CRC, as a sender can that knows the format.
    Repair,
}

fn change() -> impl Strategy<Value = Change> {
    let extreme = prop::sample::select(vec![0, 1, -1, i64::MAX, i64::MIN, 1 << 31, 0x7fff_ffff]);
    prop_oneof![
        4 => (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        4 => (any::<Index>(), extreme).prop_map(|(at, value)| Change::Field(at, value)),
        1 => any::<Index>().prop_map(Change::Cut),
        1 => vec(any::<u8>(), 1..80).prop_map(Change::Behind),
        4 => Just(Change::Repair),
    ]
}

const FIELDS: [(usize, usize); 12] = [
    (at::BASE_OFFSET, 8),
    (at::LENGTH, 4),
    (at::LEADER_EPOCH, 4),
    (at::MAGIC, 1),
    (at::ATTRIBUTES, 2),
    (at::LAST_OFFSET_DELTA, 4),
    (at::BASE_TIMESTAMP, 8),
    (at::MAX_TIMESTAMP, 8),
    (at::PRODUCER_ID, 8),
    (at::PRODUCER_EPOCH, 2),
    (at::BASE_SEQUENCE, 4),
    (at::RECORD_COUNT, 4),
];

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Byte(at, byte) if !bytes.is_empty() => {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        Change::Field(field, value) => {
            let (at, width) = FIELDS[field.index(FIELDS.len())];
            if let Some(field) = bytes.get_mut(at..at + width) {
                field.copy_from_slice(&value.to_be_bytes()[8 - width..]);
            }
        }
        Change::Cut(at) => bytes.truncate(at.index(bytes.len() + 1)),
        Change::Behind(more) => bytes.extend_from_slice(more),
        Change::Repair if bytes.len() >= HEADER_BYTES => {
            let length = i32::try_from(bytes.len() - LENGTH_END).unwrap();
            bytes[at::LENGTH..LENGTH_END].copy_from_slice(&length.to_be_bytes());
            bytes[at::MAGIC] = 2;
            let crc = crc_of(bytes);
            bytes[at::CRC..CRC_START].copy_from_slice(&crc.to_be_bytes());
        }
        Change::Byte(..) | Change::Repair => {}
    }
}

fn batch(codec: Compression, records: u8, append_time: bool, sequence: i32) -> Vec<u8> {
    let mut batch = BatchBuilder::new(Offset(0), LeaderEpoch(-1))
        .compression(codec)
        .log_append_time(append_time)
        .producer(ProducerId(i64::from(sequence)), 0, sequence);
    for at in 0..records {
        let value = vec![at; usize::from(at) * 3];
        let value = (at % 4 != 3).then_some(&value[..]);
        batch.add(TimestampMs(i64::from(at)), Some(&[at]), value, &[]);
    }
    batch.finish().unwrap().to_vec()
}

fn limits(choice: u8) -> ValidateLimits {
    let bound = |bit: u8| if choice & bit == 0 { i64::MAX } else { 5 };
    ValidateLimits {
        max_batch_bytes: if choice & 1 == 0 { BYTES_MAX } else { 100 },
        decompressed_bytes_max: BYTES_MAX,
        now_ms: if choice & 2 == 0 { 0 } else { i64::MAX },
        timestamp_before_max_ms: bound(4),
        timestamp_after_max_ms: bound(8),
        compacted: choice & 16 != 0,
        log_append_time: choice & 32 != 0,
    }
}

/// Treats the bytes as a producer's.
fn produce(bytes: &Bytes, zstd: bool, limits: &ValidateLimits) -> Result<(), TestCaseError> {
    let batch = WholeBatch::of_produced(bytes, zstd);
    let produced = match batch.and_then(|batch| validate_produced(&batch, limits)) {
        Ok(produced) => produced,
        Err(error) => {
            let _ = (error.error_code(), error.to_string());
            return Ok(());
        }
    };
    let is_sound = |produced: &ValidatedBatch| {
        validate_stored(produced.batch.header(), produced.batch.bytes())
    };
    prop_assert_eq!(is_sound(&produced), Ok(()));
    let mut stamped = produced.batch.bytes().to_vec();
    let fixed = stamped.first_chunk_mut().unwrap();
    let place = (Offset(i64::MAX), LeaderEpoch(i32::MIN));
    let header = stamp_as_leader(fixed, produced.batch.header(), place, Some(TimestampMs(9)));
    prop_assert_eq!(BatchHeader::parse(&stamped), Some(header));
    prop_assert_eq!(validate_stored(&header, &stamped), Ok(()));
    for code in 0..5 {
        let codec = Compression::from_code(code).unwrap();
        let recoded = recompress(produced.clone(), codec, None, BYTES_MAX);
        prop_assert_eq!(is_sound(&recoded.unwrap()), Ok(()));
    }
    Ok(())
}

/// Treats the bytes as those of a file, with any header, and compacts them.
fn compact(bytes: &Bytes, keep: bool, horizon: Option<TimestampMs>) -> Result<(), TestCaseError> {
    let mut rest = bytes.clone();
    while let Ok(whole) = WholeBatch::first_of(&rest) {
        let header = *whole.header();
        prop_assert_eq!(BatchHeader::parse(&rest), Some(header));
        let _ = validate_stored(&header, whole.bytes());
        let _ = iter::check_crc(&header, whole.bytes());
        let _ = (header.next_offset(), header.last_sequence());
        if let Ok(records) = records_within(whole.bytes(), BYTES_MAX) {
            records.for_each(drop);
        }
        let empty = emptied(&header).unwrap();
        let said = BatchHeader::parse(&empty).unwrap();
        prop_assert_eq!(said.last_offset(), header.last_offset());
        if let Ok(opened) = OpenedBatch::open(whole.bytes(), BYTES_MAX) {
            let readable = opened.records().take_while(Result::is_ok).count();
            let kept = opened.retain(&vec![keep; readable], horizon);
            prop_assert_eq!(kept.is_ok(), opened.records().all(|record| record.is_ok()));
            if let Ok(kept) = kept {
                let said = BatchHeader::parse(&kept).unwrap();
                prop_assert_eq!(said.size_bytes, kept.len());
                prop_assert_eq!(iter::check_crc(&said, &kept), Ok(()));
            }
        }
        rest = rest.split_off(header.size_bytes);
    }
    prop_assert_eq!(Batches::new(bytes).complete_len(), bytes.len() - rest.len());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_batch_changed_at_random_is_taken_or_refused(
        code in 0..5_i16, records in 0..12_u8, append_time: bool, sequence in -1..3,
        changes in vec(change(), 0..6), choice: u8, keep: bool, horizon in prop::option::of(any::<i64>()),
    ) {
        let codec = Compression::from_code(code).unwrap();
        let mut bytes = batch(codec, records, append_time, sequence);
        for change in &changes {
            apply(&mut bytes, change);
        }
        let bytes = Bytes::from(bytes);
        produce(&bytes, choice & 64 == 0, &limits(choice))?;
        compact(&bytes, keep, horizon.map(TimestampMs))?;
    }

    #[test]
    fn bytes_that_never_were_a_batch_are_taken_or_refused(
        bytes in vec(any::<u8>(), 0..300), repair: bool, choice: u8, keep: bool,
    ) {
        let mut bytes = bytes;
        if repair {
            apply(&mut bytes, &Change::Repair);
        }
        let bytes = Bytes::from(bytes);
        produce(&bytes, choice & 64 == 0, &limits(choice))?;
        compact(&bytes, keep, None)?;
    }
}
