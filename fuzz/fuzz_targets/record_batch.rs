//! Record batches as a client may send them: framing, validation, records, in every compression.
//!
//! The first byte chooses settings of the topic. Its top bit asks for a right CRC, size and magic,
//! without which nearly every input would be refused at the door.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use wire::batch::iter::{Batches, validate_stored};
use wire::batch::record::records_within;
use wire::batch::validate::{ValidateLimits, validate_produced};
use wire::batch::{BatchHeader, CRC_START, HEADER_BYTES, LENGTH_END, WholeBatch, crc_of};

const DECOMPRESSED_BYTES_MAX: usize = 1 << 20;
const NOW_MS: i64 = 1_800_000_000_000;

fuzz_target!(|input: &[u8]| {
    let Some((&choice, bytes)) = input.split_first() else {
        return;
    };
    let mut bytes = bytes.to_vec();
    if choice & 0x80 != 0 {
        repair(&mut bytes);
    }
    let bytes = Bytes::from(bytes);
    walk(&bytes);
    let limits = ValidateLimits {
        max_batch_bytes: 1 << 20,
        decompressed_bytes_max: DECOMPRESSED_BYTES_MAX,
        now_ms: NOW_MS,
        timestamp_before_max_ms: if choice & 1 == 0 { i64::MAX } else { 1000 },
        timestamp_after_max_ms: if choice & 2 == 0 { i64::MAX } else { 1000 },
        compacted: choice & 4 != 0,
        log_append_time: choice & 8 != 0,
    };
    let batch = WholeBatch::of_produced(&bytes, choice & 16 == 0);
    match batch.and_then(|batch| validate_produced(&batch, &limits)) {
        Ok(produced) => check_accepted(produced.batch.header(), produced.batch.bytes()),
        Err(error) => {
            let _ = (error.error_code(), error.to_string());
        }
    }
});

/// Gives the bytes the length, magic and CRC of one whole batch.
fn repair(bytes: &mut [u8]) {
    if bytes.len() < HEADER_BYTES {
        return;
    }
    let length = i32::try_from(bytes.len() - LENGTH_END).expect("inputs are small");
    bytes[8..12].copy_from_slice(&length.to_be_bytes());
    bytes[16] = 2;
    let crc = crc_of(bytes);
    bytes[17..CRC_START].copy_from_slice(&crc.to_be_bytes());
}

/// Batches of a segment: any bytes. Those that are taken for stored batches have records that can
/// be walked to an end.
fn walk(bytes: &Bytes) {
    let mut position = 0;
    for item in Batches::new(bytes) {
        let Ok((header, batch)) = item else { break };
        assert_eq!(header.size_bytes, batch.len());
        let stored = validate_stored(&header, batch).is_ok();
        let whole = bytes.slice(position..position + batch.len());
        position += batch.len();
        if stored && let Ok(records) = records_within(&whole, DECOMPRESSED_BYTES_MAX) {
            records.take_while(Result::is_ok).for_each(drop);
        }
    }
    assert_eq!(position, Batches::new(bytes).complete_len());
}

/// What was accepted can be read: as many records as announced, offsets without holes.
fn check_accepted(header: &BatchHeader, batch: &Bytes) {
    assert_eq!(header.size_bytes, batch.len());
    assert!(validate_stored(header, batch).is_ok());
    let mut next = header.base_offset;
    for record in records_within(batch, DECOMPRESSED_BYTES_MAX).expect("accepted batches open") {
        assert_eq!(
            record.expect("accepted records are well formed").offset,
            next
        );
        next = next.plus(1);
    }
    assert_eq!(next, header.next_offset());
    assert_eq!(
        next.since(header.base_offset),
        i64::from(header.record_count)
    );
}
