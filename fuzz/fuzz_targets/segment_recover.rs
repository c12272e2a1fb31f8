//! Files of a log directory with any bytes in them: read without a panic, and never taken for more than they are.
//!
//! The first byte says which file the rest is.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use storage::checkpoint::{
    clean_shutdown, leader_epochs, meta_properties, offsets, partition_metadata,
};
use storage::log::epoch_cache::EpochCache;
use storage::log::offset_index::OffsetIndex;
use storage::log::producer_state::{ProducerStates, snapshot};
use storage::log::time_index::TimeIndex;
use storage::log::txn_index::TxnIndex;
use wire::types::{Offset, TimestampMs};

const BASE: Offset = Offset(1000);
const INDEX_BYTES_MAX: u32 = 1 << 20;

fuzz_target!(|input: &[u8]| {
    let Some((&which, bytes)) = input.split_first() else {
        return;
    };
    match which % 4 {
        0 => index(bytes),
        1 => producers(bytes),
        _ => checkpoints(which, bytes),
    }
});

fn index(bytes: &[u8]) {
    if let Ok(mut index) = OffsetIndex::parse(BASE, INDEX_BYTES_MAX, bytes) {
        assert!(bytes.starts_with(&index.encode()));
        let last = index.last();
        assert_eq!(index.lookup(last.offset), last);
        index.truncate_to(last.offset);
        assert!(index.last().offset <= last.offset);
    }
    if let Ok(mut index) = TimeIndex::parse(BASE, INDEX_BYTES_MAX, bytes) {
        assert!(bytes.starts_with(&index.encode()));
        let last = index.last();
        assert_eq!(index.lookup(last.timestamp), last);
        index.truncate_to(last.offset);
        assert!(index.last().timestamp <= last.timestamp);
    }
    if let Ok(mut index) = TxnIndex::parse(BASE, bytes) {
        assert_eq!(index.encode(), bytes);
        index.collect(BASE, Offset(i64::MAX), &mut Vec::new());
        index.truncate_to(BASE);
        assert!(index.is_empty());
    }
}

fn producers(bytes: &[u8]) {
    // With a right CRC, so that the entries are looked at too.
    let mut repaired = bytes.to_vec();
    if let Some((head, rest)) = repaired.split_at_mut_checked(6) {
        head[..2].copy_from_slice(&1_i16.to_be_bytes());
        head[2..].copy_from_slice(&crc32c::crc32c(rest).to_be_bytes());
    }
    for bytes in [bytes, &repaired] {
        let Ok(snapshots) = snapshot::parse(bytes) else {
            continue;
        };
        assert_eq!(snapshot::encode(&snapshots).len(), bytes.len());
        let states = ProducerStates::restore(BASE, &snapshots, i64::MAX, i64::MAX);
        assert!(states.snapshot().len() <= snapshots.len());
        let _ = (states.first_unstable_offset(), states.oldest_open_last_timestamp());
    }
}

fn checkpoints(which: u8, bytes: &[u8]) {
    let file = Path::new("fuzzed");
    match which / 4 % 5 {
        0 => {
            if let Ok(parsed) = offsets::parse(file, bytes) {
                assert_eq!(offsets::parse(file, &offsets::encode(&parsed)), Ok(parsed));
            }
        }
        1 => {
            if let Ok(parsed) = leader_epochs::parse(file, bytes) {
                assert_eq!(EpochCache::new(&parsed).entries(), parsed);
                assert_eq!(leader_epochs::parse(file, &leader_epochs::encode(&parsed)), Ok(parsed));
            }
        }
        2 => {
            if let Ok(parsed) = meta_properties::parse(file, bytes) {
                let encoded = meta_properties::encode(&parsed, TimestampMs(0));
                assert_eq!(meta_properties::parse(file, &encoded), Ok(parsed));
            }
        }
        3 => {
            if let Ok(id) = partition_metadata::parse(file, bytes) {
                assert_eq!(partition_metadata::parse(file, &partition_metadata::encode(id)), Ok(id));
            }
        }
        _ => {
            if let Ok(epoch) = clean_shutdown::parse(file, bytes) {
                assert_eq!(clean_shutdown::parse(file, &clean_shutdown::encode(epoch)), Ok(epoch));
            }
        }
    }
}
