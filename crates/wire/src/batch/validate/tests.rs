//! Each possible mistake of a producer, and the error code that it gets.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::batch::{BatchBuilder, builder::HeaderRef, records};
use crate::types::{ErrorCode, LeaderEpoch, Offset, ProducerId};

const NOW: i64 = 1_700_000_000_000;

fn limits() -> ValidateLimits {
    ValidateLimits {
        max_batch_bytes: 1 << 20,
        decompressed_bytes_max: 1 << 22,
        now_ms: NOW,
        timestamp_before_max_ms: i64::MAX,
        timestamp_after_max_ms: 3_600_000,
        compacted: false,
        log_append_time: false,
    }
}

fn builder() -> BatchBuilder {
    BatchBuilder::new(Offset(0), LeaderEpoch(-1))
}

fn filled(mut builder: BatchBuilder) -> Bytes {
    let headers: [HeaderRef<'_>; 2] = [("a", Some(b"1")), ("a", None)];
    builder.add(TimestampMs(NOW), Some(b"key"), Some(b"value"), &[]);
    builder.add(TimestampMs(NOW + 5), Some(b""), None, &headers);
    builder.add(TimestampMs(NOW - 5), Some(b"k"), Some(&[b'v'; 300]), &[]);
    builder.finish().unwrap()
}

/// Changes bytes of the header and updates the CRC.
fn with_header<const N: usize>(batch: &Bytes, at: usize, value: [u8; N]) -> Bytes {
    let mut bytes = batch.to_vec();
    bytes[at..at + N].copy_from_slice(&value);
    resummed(bytes)
}

fn resummed(mut bytes: Vec<u8>) -> Bytes {
    let crc = crate::batch::crc_of(&bytes);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    bytes.into()
}

/// Validates a record set like that of a partition in a request.
fn judged(bytes: &Bytes, limits: &ValidateLimits) -> Result<ValidatedBatch, BatchError> {
    let batch = WholeBatch::of_produced(bytes, true)?;
    validate_produced(&batch, limits)
}

fn code(bytes: &Bytes, limits: &ValidateLimits) -> ErrorCode {
    judged(bytes, limits).unwrap_err().error_code()
}

const CODECS: [Compression; 5] = [
    Compression::None,
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];

#[test]
fn sound_batches_pass_untouched_in_every_codec() {
    for codec in CODECS {
        let plain = filled(builder().compression(codec));
        let idempotent = filled(builder().compression(codec).producer(ProducerId(7), 0, 0));
        for batch in [plain, idempotent] {
            let produced = judged(&batch, &limits()).unwrap();
            assert_eq!(*produced.batch.bytes(), batch);
            assert_eq!(
                produced.batch.bytes().as_ptr(),
                batch.as_ptr(),
                "must not be copied"
            );
            assert_eq!(produced.batch.header().record_count, 3);
        }
    }
}

#[test]
fn records_read_back_as_they_were_added() {
    for codec in CODECS {
        let batch = filled(builder().compression(codec));
        let read: Vec<_> = records(&batch).unwrap().map(Result::unwrap).collect();
        assert_eq!(read.len(), 3);
        assert_eq!(read[0].key.as_deref(), Some(&b"key"[..]));
        assert_eq!(
            (read[1].offset, read[1].timestamp),
            (Offset(1), TimestampMs(NOW + 5))
        );
        assert_eq!(read[1].value, None);
        assert_eq!(read[1].headers.len(), 2);
        assert_eq!(read[1].headers[0].1.as_deref(), Some(&b"1"[..]));
        assert_eq!(read[1].headers[1].1, None);
        assert_eq!(read[2].value.as_ref().unwrap().len(), 300);
    }
}

#[test]
fn exactly_one_whole_batch_of_magic_two() {
    let batch = filled(builder());
    assert_eq!(code(&Bytes::new(), &limits()), ErrorCode::InvalidRecord);
    assert_eq!(
        code(&batch.slice(..batch.len() - 1), &limits()),
        ErrorCode::InvalidRecord
    );
    let twice = Bytes::from([&batch[..], &batch[..]].concat());
    assert_eq!(code(&twice, &limits()), ErrorCode::InvalidRecord);
    assert_eq!(
        code(&with_header(&batch, 16, [1]), &limits()),
        ErrorCode::InvalidRecord
    );
    assert_eq!(
        code(&with_header(&batch, 16, [3]), &limits()),
        ErrorCode::CorruptMessage
    );
    let short = with_header(&batch, 8, 20i32.to_be_bytes());
    assert_eq!(code(&short, &limits()), ErrorCode::CorruptMessage);
    let trailing = Bytes::from([&batch[..], &batch[..40]].concat());
    assert_eq!(*judged(&trailing, &limits()).unwrap().batch.bytes(), batch);
}

#[test]
fn headers_that_contradict_themselves_are_refused() {
    let batch = filled(builder().producer(ProducerId(7), 0, 0));
    for (what, bytes) in [
        ("base offset", with_header(&batch, 0, 5i64.to_be_bytes())),
        (
            "last offset delta",
            with_header(&batch, 23, 3i32.to_be_bytes()),
        ),
        (
            "negative delta",
            with_header(&batch, 23, (-1i32).to_be_bytes()),
        ),
        ("count", with_header(&batch, 57, 2i32.to_be_bytes())),
        ("no records", with_header(&batch, 57, 0i32.to_be_bytes())),
        ("control", with_header(&batch, 21, 0x20i16.to_be_bytes())),
        ("sequence", with_header(&batch, 53, (-1i32).to_be_bytes())),
    ] {
        assert_eq!(code(&bytes, &limits()), ErrorCode::InvalidRecord, "{what}");
    }
}

#[test]
fn size_crc_and_codec_have_codes_of_their_own() {
    let batch = filled(builder());
    let small = ValidateLimits {
        max_batch_bytes: batch.len() - 1,
        ..limits()
    };
    assert_eq!(code(&batch, &small), ErrorCode::MessageTooLarge);
    let exact = ValidateLimits {
        max_batch_bytes: batch.len(),
        ..limits()
    };
    judged(&batch, &exact).unwrap();

    let mut flipped = batch.to_vec();
    *flipped.last_mut().unwrap() ^= 1;
    assert_eq!(code(&flipped.into(), &limits()), ErrorCode::CorruptMessage);

    let unknown = with_header(&batch, 21, 5i16.to_be_bytes());
    assert_eq!(code(&unknown, &limits()), ErrorCode::UnknownServerError);
    let zstd = filled(builder().compression(Compression::Zstd));
    let refused = WholeBatch::of_produced(&zstd, false).unwrap_err();
    assert_eq!(refused.error_code(), ErrorCode::UnsupportedCompressionType);
    let not_gzip = with_header(&batch, 21, 1i16.to_be_bytes());
    assert_eq!(code(&not_gzip, &limits()), ErrorCode::UnknownServerError);
}

#[test]
fn a_small_batch_cannot_become_a_huge_one() {
    for codec in &CODECS[1..] {
        let mut bomb = builder().compression(*codec);
        bomb.add(TimestampMs(NOW), None, Some(&vec![0; 8 << 20]), &[]);
        let bomb = bomb.finish().unwrap();
        assert!(bomb.len() < 1 << 20);
        let error = judged(&bomb, &limits()).unwrap_err();
        assert!(
            matches!(error, BatchError::Decompress { .. }),
            "{codec:?}: {error}"
        );
        assert!(crate::batch::record::records_within(&bomb, 1 << 20).is_err());
    }
}

#[test]
fn timestamps_out_of_range_are_named_record_by_record() {
    let strict = ValidateLimits {
        timestamp_before_max_ms: 4,
        timestamp_after_max_ms: 4,
        ..limits()
    };
    let error = judged(&filled(builder()), &strict).unwrap_err();
    assert_eq!(error.error_code(), ErrorCode::InvalidTimestamp);
    let refused: Vec<i32> = error
        .record_errors()
        .iter()
        .map(|e| e.batch_index)
        .collect();
    assert_eq!(refused, [1, 2]);
    assert_eq!(
        error.record_errors()[0].message,
        "Timestamp 1700000000005 of message is out of range. The timestamp should be within \
         [1699999999996, 1700000000004]"
    );
    let append_time = ValidateLimits {
        log_append_time: true,
        ..strict
    };
    judged(&filled(builder()), &append_time).unwrap();
    let theirs = filled(builder().log_append_time(true));
    assert_eq!(code(&theirs, &append_time), ErrorCode::InvalidTimestamp);
    let mut none = builder();
    none.add(TimestampMs::NONE, None, None, &[]);
    judged(&none.finish().unwrap(), &strict).unwrap();
}

#[test]
fn compacted_topics_want_keys() {
    let mut batch = builder();
    batch.add(TimestampMs(NOW), Some(b"k"), None, &[]);
    batch.add(TimestampMs(NOW), None, Some(b"v"), &[]);
    let batch = batch.finish().unwrap();
    judged(&batch, &limits()).unwrap();
    let compacted = ValidateLimits {
        compacted: true,
        ..limits()
    };
    let error = judged(&batch, &compacted).unwrap_err();
    assert_eq!(error.error_code(), ErrorCode::InvalidRecord);
    assert_eq!(error.record_errors()[0].batch_index, 1);
}

#[test]
fn a_wrong_max_timestamp_is_mended() {
    let batch = filled(builder());
    let wrong = with_header(&batch, 35, 99i64.to_be_bytes());
    let produced = judged(&wrong, &limits()).unwrap();
    assert_eq!(*produced.batch.bytes(), batch);
    assert_eq!(produced.batch.header().max_timestamp, TimestampMs(NOW + 5));
}

#[test]
fn broken_framing_is_refused_wherever_it_is() {
    let batch = filled(builder());
    let mut cut = batch.to_vec();
    cut.pop();
    let length = i32::try_from(cut.len() - 12).unwrap();
    cut[8..12].copy_from_slice(&length.to_be_bytes());
    assert_eq!(code(&resummed(cut), &limits()), ErrorCode::InvalidRecord);

    let mut longer = batch.to_vec();
    longer.push(0);
    let length = i32::try_from(longer.len() - 12).unwrap();
    longer[8..12].copy_from_slice(&length.to_be_bytes());
    assert_eq!(code(&resummed(longer), &limits()), ErrorCode::InvalidRecord);

    // The first record's offset delta.
    let mut gap = batch.to_vec();
    assert_eq!(gap[64], 0);
    gap[64] = 2;
    let error = judged(&resummed(gap), &limits()).unwrap_err();
    assert_eq!(error.record_errors()[0].batch_index, 0);
}

#[test]
fn what_another_encoder_made_is_accepted_and_read() {
    let batch =
        crate::batch::tests::their_batch(&[(NOW, None, Some(b"a")), (NOW + 1, Some(b"k"), None)]);
    let produced = judged(&batch, &limits()).unwrap();
    assert_eq!(*produced.batch.bytes(), batch);
    let mut ours = builder();
    ours.add(TimestampMs(NOW), None, Some(b"a"), &[]);
    ours.add(TimestampMs(NOW + 1), Some(b"k"), None, &[]);
    assert_eq!(ours.finish().unwrap(), batch);
}

proptest! {
    #[test]
    fn any_bytes_give_a_batch_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let bytes = Bytes::from(bytes);
        let _ = judged(&bytes, &limits());
        if let Ok(records) = records(&bytes) {
            records.for_each(drop);
        }
    }

    #[test]
    fn damaged_records_give_a_batch_or_an_error_and_both_readers_agree(
        codec in 0usize..5, at in 0usize..400, byte: u8,
    ) {
        let mut bytes = filled(builder().compression(CODECS[codec])).to_vec();
        let records_bytes = bytes.len() - 61;
        bytes[61 + at % records_bytes] = byte;
        let bytes = resummed(bytes);
        if let Ok(produced) = judged(&bytes, &limits()) {
            let mut last = None;
            for record in records(produced.batch.bytes()).unwrap() {
                last = Some(record.unwrap().offset);
            }
            prop_assert_eq!(last, Some(produced.batch.header().last_offset()));
        }
    }
}
