//! Batches that are large: no other task of the shard waits while one is examined, and what is left
//! of it is right.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use platform::task;
use storage::{CompactOptions, LogOptions};
use wire::batch::Compression;
use wire::batch::builder::BatchBuilder;
use wire::types::{LeaderEpoch, Offset, TimestampMs};

use crate::history::{POLICY, ROUND, compacted_options, read_all};
use crate::world::*;

/// Records of a batch, and bytes of a record, about.
const RECORDS: u32 = 60_000;
const RECORD_BYTES: usize = 22;
/// Bytes of work after which others have their turn.
const STEP_BYTES: usize = 64 << 10;

fn batch_of(codec: Compression, keys: std::ops::Range<u32>) -> Bytes {
    let builder = BatchBuilder::new(Offset(0), LeaderEpoch(-1));
    let mut builder = builder.compression(codec);
    for key in keys {
        let key = key.to_be_bytes();
        builder.add(TimestampMs(NOW_MS), Some(&key), Some(&[7; 10]), &[]);
    }
    builder.finish().unwrap()
}

/// Compacts two batches; the second repeats half the keys of the first. Returns the turns of other
/// tasks meanwhile.
fn turns_while_compacted(codec: Compression) -> usize {
    let turns = Rc::new(Cell::new(0));
    let counted = Rc::clone(&turns);
    simulate(async move {
        let world = World::new();
        let log = world
            .open(LogOptions {
                segment_bytes: 8 << 20,
                ..compacted_options()
            })
            .await;
        for keys in [0..RECORDS, RECORDS / 2..RECORDS] {
            log.append(&batch_of(codec, keys), EPOCH, NOW_MS).unwrap();
            log.flush().await.unwrap();
        }
        log.set_high_watermark(log.log_end_offset());
        log.roll().await.unwrap();
        log.save().await.unwrap();
        log.compaction().begin_compacting();
        let ticker = {
            let counted = Rc::clone(&counted);
            task::spawn(async move {
                loop {
                    counted.set(counted.get() + 1);
                    task::yield_now().await;
                }
            })
        };
        let large = CompactOptions {
            map_bytes_max: 8 << 20,
            // Reads and writes are few, so that turns come from looking at records.
            buffer_bytes: 16 << 20,
            ..ROUND
        };
        let round = log.compact(&POLICY, &large).await.unwrap().unwrap();
        ticker.abort();
        assert_eq!(round.to, log.log_end_offset());
        let found = read_all(&log, 0, round.to.0).await;
        let offsets = found.iter().map(|record| record.offset.0);
        let half = i64::from(RECORDS / 2);
        let whole = i64::from(RECORDS);
        assert!(offsets.eq((0..half).chain(whole..whole + half)));
    });
    turns.get()
}

/// A million small records in a batch take a second to look at.
#[test]
fn others_have_their_turn_within_a_large_batch() {
    let turns = turns_while_compacted(Compression::None);
    // Each of the records is looked at twice, once for its key and once for whether it stays.
    let records = usize::try_from(RECORDS).unwrap() * 3 / 2;
    let looked_at = 2 * records * RECORD_BYTES;
    assert!(turns > looked_at / STEP_BYTES, "{turns}");
}

#[test]
fn a_batch_that_is_opened_beside_the_shard_is_compacted_as_any_other() {
    for codec in [Compression::Gzip, Compression::Lz4, Compression::Zstd] {
        assert!(turns_while_compacted(codec) > 0);
    }
}
