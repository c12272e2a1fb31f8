//! Files that Kafka 4.3 wrote, read and written again byte for byte, and rebuilt from the records
//! beside them.
//!
//! The files are a whole data directory after two runs of the broker, each ended by SIGTERM: topics
//! without and with idempotence and every compression, transactions (committed, aborted, one left
//! open by each run), a compacted topic, and one trimmed by `DeleteRecords`.
//! `index.interval.bytes=0`, so that nearly every batch is indexed.

#![allow(
    clippy::unwrap_used,
    reason = "a golden file that cannot be read fails the test"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "golden files are on the real disk, and read without a runtime"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use storage::checkpoint::{
    clean_shutdown, leader_epochs, meta_properties, offsets, partition_metadata,
};
use storage::log::epoch_cache::EpochCache;
use storage::log::indexes::{IndexOptions, Indexes};
use storage::log::offset_index::OffsetIndex;
use storage::log::producer_state::{EndMarker, ProducerStates, snapshot};
use storage::log::time_index::TimeIndex;
use storage::log::txn_index::TxnIndex;
use wire::batch::{BatchHeader, HEADER_BYTES};
use wire::types::{Offset, TimestampMs};

const INDEX_BYTES_MAX: u32 = 10 << 20;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/kafka-4.3")
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every file with this ending, with the offset that its name begins with.
fn files(ending: &str) -> Vec<(PathBuf, Offset)> {
    let mut found = Vec::new();
    for dir in std::fs::read_dir(root())
        .unwrap()
        .map(|dir| dir.unwrap().path())
    {
        if !dir.is_dir() {
            continue;
        }
        for file in std::fs::read_dir(dir)
            .unwrap()
            .map(|file| file.unwrap().path())
        {
            let name = file.file_name().unwrap().to_str().unwrap();
            if let Some(offset) = name.strip_suffix(ending) {
                found.push((file.clone(), Offset(offset.parse().unwrap_or(-1))));
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "no {ending}");
    found
}

#[test]
fn indexes_are_written_as_they_were_read() {
    for (file, base) in files(".index") {
        let bytes = read(&file);
        let index = OffsetIndex::parse(base, INDEX_BYTES_MAX, &bytes).unwrap();
        assert_eq!(index.encode(), bytes, "{}", file.display());
    }
    for (file, base) in files(".timeindex") {
        let bytes = read(&file);
        let index = TimeIndex::parse(base, INDEX_BYTES_MAX, &bytes).unwrap();
        assert_eq!(index.encode(), bytes, "{}", file.display());
    }
    for (file, base) in files(".txnindex") {
        let bytes = read(&file);
        let index = TxnIndex::parse(base, &bytes).unwrap();
        assert_eq!(index.encode(), bytes, "{}", file.display());
    }
}

#[test]
fn snapshots_are_written_as_they_were_read() {
    for (file, _) in files(".snapshot") {
        let bytes = read(&file);
        let producers = snapshot::parse(&bytes).unwrap();
        assert_eq!(snapshot::encode(&producers), bytes, "{}", file.display());
    }
}

#[test]
fn checkpoints_are_written_as_they_were_read() {
    for name in [
        offsets::RECOVERY_POINTS,
        offsets::LOG_STARTS,
        offsets::HIGH_WATERMARKS,
        "cleaner-offset-checkpoint",
    ] {
        let bytes = read(&root().join(name));
        let parsed = offsets::parse(Path::new(name), &bytes).unwrap();
        assert_eq!(offsets::encode(&parsed), bytes, "{name}");
    }
    for (file, _) in files(leader_epochs::FILE) {
        let bytes = read(&file);
        let epochs = leader_epochs::parse(&file, &bytes).unwrap();
        assert_eq!(leader_epochs::encode(&epochs), bytes, "{}", file.display());
        assert_eq!(EpochCache::new(&epochs).entries(), epochs);
    }
    for (file, _) in files(partition_metadata::FILE) {
        let bytes = read(&file);
        let id = partition_metadata::parse(&file, &bytes).unwrap();
        assert_eq!(partition_metadata::encode(id), bytes, "{}", file.display());
    }
}

#[test]
fn the_files_of_the_directory_are_written_as_they_were_read() {
    let file = root().join(clean_shutdown::FILE);
    let bytes = read(&file);
    let epoch = clean_shutdown::parse(&file, &bytes).unwrap();
    assert_eq!(clean_shutdown::encode(epoch), bytes);

    let file = root().join(meta_properties::FILE);
    let bytes = read(&file);
    let meta = meta_properties::parse(&file, &bytes).unwrap();
    let formatted = TimestampMs(1_795_253_139_000); // Sat Nov 21 09:25:39 UTC 2026
    assert_eq!(meta_properties::encode(&meta, formatted), bytes);
}

/// The batches of a segment file with their positions.
fn batches(bytes: &[u8]) -> Vec<(u64, BatchHeader, &[u8])> {
    let mut batches = Vec::new();
    let mut position = 0;
    while let Some(header) = BatchHeader::parse(&bytes[position..]) {
        let end = position + header.size_bytes;
        batches.push((position as u64, header, &bytes[position..end]));
        position = end;
    }
    assert_eq!(position, bytes.len());
    batches
}

/// The only record of a marker's batch has lengths below 64, so that each number before key and
/// value is one byte.
fn marker(header: &BatchHeader, batch: &[u8]) -> Option<EndMarker> {
    if !header.is_control() {
        return None;
    }
    let record = &batch[HEADER_BYTES..];
    let (key, value) = (&record[5..9], &record[10..]);
    EndMarker::parse(key, value)
}

#[test]
fn indexes_rebuilt_from_a_segment_are_those_that_kafka_wrote() {
    let options = IndexOptions {
        interval_bytes: 0,
        bytes_max: INDEX_BYTES_MAX,
    };
    for (file, base) in files(".log") {
        if !file.to_str().unwrap().contains("plain-0") && !file.to_str().unwrap().contains("txn-0")
        {
            continue;
        }
        let mut indexes = Indexes::new(base, options);
        let bytes = read(&file);
        for (position, header, _) in batches(&bytes) {
            indexes.append(&header, position);
        }
        indexes.seal();
        let name = file.display();
        assert_eq!(
            indexes.offsets.encode(),
            read(&file.with_extension("index")),
            "{name}"
        );
        assert_eq!(
            indexes.times.encode(),
            read(&file.with_extension("timeindex")),
            "{name}"
        );
    }
}

/// Replays a log and compares with every snapshot and transaction index on the way. Returns how
/// many there were.
fn replay(log: &str) -> (usize, usize) {
    let mut segments: BTreeMap<Offset, PathBuf> = BTreeMap::new();
    for (file, base) in files(".log") {
        if file.to_str().unwrap().contains(log) {
            segments.insert(base, file);
        }
    }
    let mut states = ProducerStates::new(Offset::ZERO);
    let (mut snapshots, mut indexes) = (0, 0);
    for (base, file) in &segments {
        let bytes = read(file);
        let mut aborted = TxnIndex::new();
        for (_, header, batch) in batches(&bytes) {
            if let Some(txn) = states.replay(&header, marker(&header, batch)) {
                assert!(aborted.append(txn));
            }
        }
        if !aborted.is_empty() {
            assert_eq!(
                aborted.encode(),
                read(&file.with_extension("txnindex")),
                "{log} {base}"
            );
            indexes += 1;
        }
        let name = format!("{:020}.snapshot", states.end().0);
        let snapshot_file = file.with_file_name(&name);
        if !snapshot_file.exists() {
            continue;
        }
        // Kafka writes producers in the order of its hash table.
        let mut expect = snapshot::parse(&read(&snapshot_file)).unwrap();
        expect.sort_by_key(|producer| producer.producer_id);
        assert_eq!(states.snapshot(), expect, "{log} {name}");
        snapshots += 1;
    }
    (snapshots, indexes)
}

#[test]
fn producers_rebuilt_from_a_log_are_those_that_kafka_wrote() {
    assert_eq!(replay("plain-0"), (6, 0));
    assert_eq!(replay("txn-0"), (8, 6));
    assert_eq!(replay("compacted-0"), (2, 0));
}

#[test]
fn open_transactions_are_found_in_a_snapshot() {
    let file = root().join("txn-0/00000000000000000070.snapshot");
    let producers = snapshot::parse(&read(&file)).unwrap();
    let states = ProducerStates::restore(Offset(70), &producers, 0, i64::MAX);
    assert_eq!(states.first_unstable_offset(), Some(Offset(33)));
    let open = producers
        .iter()
        .filter_map(|producer| producer.transaction_start);
    assert_eq!(open.collect::<Vec<_>>(), [Offset(33), Offset(68)]);
}
