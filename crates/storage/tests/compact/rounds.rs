//! One thing at a time: what a round reads and writes, what it gives way to, what it refuses.

use std::path::Path;

use platform::Platform;
use platform::disk::{Disk, DiskFile, Open};
use platform::task;
use storage::{CompactOptions, CompactPolicy, FailureKind, LogOptions};
use wire::types::Offset;

use crate::history::*;
use crate::world::*;

async fn filled(log: &SimLog, history: &mut History, batches: u8) {
    for at in 0..batches {
        let draft = Draft {
            codec: at,
            records: (0..8).map(|key| (key + at % 3, Some(100))).collect(),
            ..Draft::default()
        };
        history.append(log, &draft, NOW_MS);
    }
    settle(log).await;
}

#[test]
fn many_small_segments_become_few_and_the_dirty_part_none() {
    simulate(async {
        let world = World::new();
        let log = world.open(compacted_options()).await;
        let mut history = History::default();
        filled(&log, &mut history, 60).await;
        log.roll().await.unwrap();
        log.save().await.unwrap();
        let dirt = log.compaction().dirt(&POLICY, NOW_MS).await.unwrap();
        assert!(dirt.is_due(&POLICY) && (dirt.ratio() - 1.0).abs() < 1e-9);
        let (segments, bytes) = (log.segment_count(), log.size_bytes());
        assert!(segments > 5, "{segments}");
        let to = compact(&log, &mut history, NOW_MS).await;
        assert_eq!(to, log.log_end_offset().0);
        assert!(log.size_bytes() < bytes / 3);
        history.check(&log, to, NOW_MS).await;
        // They are small now, and become one when there is a reason to look at them again.
        filled(&log, &mut history, 1).await;
        log.roll().await.unwrap();
        let to = compact(&log, &mut history, NOW_MS).await;
        assert!(log.segment_count() <= 3, "{}", log.segment_count());
        history.check(&log, to, NOW_MS).await;
        let dirt = log.compaction().dirt(&POLICY, NOW_MS).await.unwrap();
        assert_eq!((dirt.dirty_bytes, dirt.is_due(&POLICY)), (0, false));
    });
}

#[test]
fn a_segment_that_loses_nothing_is_not_written_again() {
    simulate(async {
        let world = World::new();
        let whole = LogOptions {
            segment_bytes: 32 << 10,
            ..compacted_options()
        };
        let log = world.open(whole).await;
        let mut history = History::default();
        for key in 0..200 {
            let records = vec![(key, Some(200))];
            let draft = Draft {
                records,
                ..Draft::default()
            };
            history.append(&log, &draft, NOW_MS);
        }
        settle(&log).await;
        log.roll().await.unwrap();
        log.save().await.unwrap();
        log.compaction().begin_compacting();
        let round = log.compact(&POLICY, &ROUND).await.unwrap().unwrap();
        assert_eq!((round.bytes_written, round.to), (0, log.log_end_offset()));
        assert_eq!(round.bytes_before, round.bytes_after);
    });
}

#[test]
fn what_is_young_or_undecided_is_not_compacted() {
    simulate(async {
        let world = World::new();
        let log = world.open(compacted_options()).await;
        let mut history = History::default();
        filled(&log, &mut history, 20).await;
        log.roll().await.unwrap();
        log.save().await.unwrap();
        let old = CompactPolicy {
            min_lag_ms: 60_000,
            ..POLICY
        };
        assert!(log.compact(&old, &ROUND).await.unwrap().is_none());
        world.platform.clock().jump_ms(100_000);
        let open = Draft {
            records: vec![(1, Some(1))],
            producer: Some(10),
            transactional: true,
            ..Draft::default()
        };
        let open_from = log.log_end_offset();
        history.append(&log, &open, NOW_MS);
        filled(&log, &mut history, 20).await;
        log.roll().await.unwrap();
        log.save().await.unwrap();
        let round = log.compact(&old, &ROUND).await.unwrap().unwrap();
        assert_eq!(round.to, open_from, "the transaction is not decided");
        history.note_round(round.to.0, NOW_MS);
        history.check(&log, round.to.0, NOW_MS).await;
    });
}

#[test]
fn readers_of_the_old_segments_read_on() {
    simulate(async {
        let uncached = storage::StoreOptions {
            cache_bytes_max: 0,
            ..store_options()
        };
        let world = World::on(platform::sim::SimPlatform::new(3), uncached);
        let log = world.open(compacted_options()).await;
        let mut history = History::default();
        filled(&log, &mut history, 60).await;
        log.roll().await.unwrap();
        log.save().await.unwrap();
        let end = log.log_end_offset().0;
        let reader = std::rc::Rc::clone(&log);
        let reading = task::spawn(async move {
            let mut passes = Vec::new();
            for _ in 0..40 {
                let mut at = 0;
                let mut offsets = Vec::new();
                while at < end {
                    let read = reader.read(Offset(at), Offset(end), 700, true).await;
                    let bytes: bytes::Bytes = read.unwrap().concat().into();
                    task::yield_now().await;
                    for (header, _) in wire::batch::Batches::new(&bytes).map(Result::unwrap) {
                        assert!(header.next_offset().0 > at);
                        at = header.next_offset().0;
                        offsets.push(at);
                    }
                }
                passes.push(offsets.len());
            }
            passes
        });
        let now_ms = NOW_MS;
        compact(&log, &mut history, now_ms).await;
        let passes = reading.await.unwrap();
        assert!(passes.first() > passes.last(), "{passes:?}");
        history.check(&log, end, now_ms).await;
    });
}

#[test]
fn damage_is_named_and_nothing_is_lost_by_it() {
    simulate(async {
        let world = World::new();
        let log = world.open(compacted_options()).await;
        let mut history = History::default();
        filled(&log, &mut history, 40).await;
        log.roll().await.unwrap();
        log.save().await.unwrap();
        let path = Path::new(FOLDER).join("00000000000000000000.log");
        let file = world.disk().open(&path, Open::Write).await.unwrap();
        let mut damaged = file.read_at(0, 4096).await.unwrap().to_vec();
        damaged[700] ^= 1;
        let mut block = platform::buf::AlignedBuf::zeroed(4096);
        block[..damaged.len()].copy_from_slice(&damaged);
        file.write_at(0, vec![block.freeze()]).await.unwrap();
        file.set_len(damaged.len() as u64).await.unwrap();
        log.compaction().begin_compacting();
        let error = log.compact(&POLICY, &ROUND).await.unwrap_err();
        assert_eq!(error.kind(), FailureKind::Corrupt);
        assert!(
            error.to_string().contains("00000000000000000000.log"),
            "{error}"
        );
        assert!(log.compaction().is_uncleanable());
        assert!(log.compact(&POLICY, &ROUND).await.unwrap().is_none());
        assert!(log.failed().is_none(), "it goes on taking records");
        let left = world.disk().contents(&path).unwrap();
        assert_eq!(
            left[..damaged.len()],
            damaged[..],
            "the damaged file is as it was"
        );
        let cleaned = Path::new(FOLDER).join("00000000000000000000.log.cleaned");
        assert!(world.disk().contents(&cleaned).is_err());
    });
}

#[test]
fn a_round_gives_way_to_the_end_of_the_log() {
    simulate(async {
        let world = World::new();
        let log = world.open(compacted_options()).await;
        let mut history = History::default();
        filled(&log, &mut history, 60).await;
        log.roll().await.unwrap();
        log.save().await.unwrap();
        log.compaction().begin_compacting();
        let slow = CompactOptions {
            bytes_per_second_max: 1000.0,
            buffer_bytes: 0,
            ..ROUND
        };
        let compacting = std::rc::Rc::clone(&log);
        let round = task::spawn(async move { compacting.compact(&POLICY, &slow).await });
        world
            .platform
            .clock()
            .sleep(std::time::Duration::from_millis(50))
            .await;
        assert!(!round.is_finished());
        log.close().await.unwrap();
        assert!(round.await.unwrap().unwrap().is_none());
        let end = log.log_end_offset().0;
        let next = world.successor(world.disk().crash(1));
        let log = next
            .try_open(compacted_options(), true, end, 0)
            .await
            .unwrap();
        log.set_high_watermark(Offset(end));
        history.check(&log, 0, NOW_MS).await;
    });
}

#[test]
fn a_base_offset_that_has_rotted_upwards_is_not_written_for_good() {
    simulate(async {
        let world = World::new();
        let log = world.open(compacted_options()).await;
        let mut history = History::default();
        filled(&log, &mut history, 60).await;
        log.roll().await.unwrap();
        log.save().await.unwrap();
        let second = log.tiers().sealed_segments()[1];
        let file = Path::new(FOLDER).join(format!("{:020}.log", second.0));
        let bytes = world.disk().contents(&file).unwrap();
        let (mut at, mut last) = (0, 0);
        while let Some(header) = wire::batch::BatchHeader::parse(&bytes[at..]) {
            last = at;
            at += header.size_bytes;
        }
        // No CRC is over it.
        let rotten = u64::try_from(last).unwrap() + 4;
        world.disk().flip(&file, rotten, 6).unwrap();
        let before: Vec<_> = log.tiers().sealed_segments();
        log.compaction().begin_compacting();
        let refused = log.compact(&POLICY, &ROUND).await;
        assert!(
            matches!(refused, Err(storage::Error::Corrupt { .. })),
            "{refused:?}"
        );
        assert_eq!(log.tiers().sealed_segments(), before, "it is left as it is");
    });
}
