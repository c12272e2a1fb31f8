//! More keys than there is memory for: the map fills, rounds end early and go on, and memory stays
//! what it was given.
//!
//! `examples/compact_keys.rs` does the same with millions of keys on a real disk.

use bytes::Bytes;
use storage::{CompactOptions, LogOptions};
use wire::batch::builder::BatchBuilder;
use wire::types::{LeaderEpoch, Offset, TimestampMs};

use crate::history::{POLICY, ROUND, compacted_options};
use crate::world::*;

fn batch_of(keys: impl Iterator<Item = u64>, generation: u8) -> Bytes {
    let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch(-1));
    for key in keys {
        let key = key.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        builder.add(
            TimestampMs(NOW_MS),
            Some(&key),
            Some(&[generation; 10]),
            &[],
        );
    }
    builder.finish().unwrap()
}

#[test]
fn rounds_that_fill_the_map_get_to_the_end() {
    simulate(async {
        let world = World::new();
        let options = LogOptions {
            segment_bytes: 32 << 10,
            ..compacted_options()
        };
        let log = world.open(options).await;
        for generation in 0..3 {
            for first in (0..3000).step_by(100) {
                log.append(&batch_of(first..first + 100, generation), EPOCH, NOW_MS)
                    .unwrap();
                log.flush().await.unwrap();
            }
        }
        log.set_high_watermark(log.log_end_offset());
        log.roll().await.unwrap();
        log.save().await.unwrap();
        log.compaction().begin_compacting();
        let small = CompactOptions {
            map_bytes_max: 1000 * 24,
            ..ROUND
        };
        let mut rounds = 0;
        while let Some(round) = log.compact(&POLICY, &small).await.unwrap() {
            assert!(round.map_bytes <= 24_000 && round.to > round.from);
            rounds += 1;
        }
        assert!((10..=12).contains(&rounds), "{rounds}");
        let found = crate::history::read_all(&log, 0, 9000).await;
        let offsets: Vec<i64> = found.iter().map(|record| record.offset.0).collect();
        assert_eq!(offsets, (6000..9000).collect::<Vec<_>>());
    });
}
