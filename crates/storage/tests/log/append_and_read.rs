//! What is appended is read back, from memory and from the file, wherever a reader starts and
//! however much it takes.

use std::cell::Cell;
use std::rc::Rc;

use crate::world::*;
use platform::task;
use storage::{Durability, FailureKind, LogOptions, StoreOptions};
use wire::types::{LeaderEpoch, Offset};

#[test]
fn batches_get_the_next_offsets_and_are_durable_after_the_flush() {
    simulate(async {
        let world = World::new();
        let log = world.open(options()).await;
        let first = append(&log, 3, 100);
        let second = append(&log, 2, 100);
        assert_eq!(
            (first.base_offset, first.last_offset),
            (Offset(0), Offset(2))
        );
        assert_eq!(
            (second.base_offset, second.last_offset),
            (Offset(3), Offset(4))
        );
        assert_eq!(log.durable_offset(), Offset(0));
        log.flush().await.unwrap();
        assert_eq!(log.written_offset(), Offset(5));
        assert_eq!(log.durable_offset(), Offset(5));
        assert_holds(&log, 0, 5).await;
        assert_eq!(log.latest_epoch(), Some(LeaderEpoch(1)));
    });
}

#[test]
fn every_offset_is_found_in_memory_and_on_disk_with_any_size_of_read() {
    simulate(async {
        for cache_bytes_max in [1 << 20, 0] {
            let store = StoreOptions {
                cache_bytes_max,
                ..store_options()
            };
            let world = World::on(platform::sim::SimPlatform::new(3), store);
            let log = world.open(options()).await;
            for round in 0..60 {
                produce(&log, 1 + round % 7, 500).await;
            }
            let end = log.log_end_offset().0;
            assert!(log.segment_count() > 1, "several segments");
            for max in [1, 700, 5000, 1 << 20] {
                for from in (0..end).step_by(13) {
                    let found = names_between(&log, from, end, max).await;
                    let expected: Vec<_> = (from..end).map(|at| (at, at)).collect();
                    assert_eq!(found, expected, "from {from}, {max} bytes a read");
                }
            }
        }
    });
}

#[test]
fn a_read_ends_below_the_bound_and_at_its_size() {
    simulate(async {
        let world = World::new();
        let log = world.open(options()).await;
        for _ in 0..10 {
            produce(&log, 2, 1000).await;
        }
        let read = async |from, below, max, one| {
            let slices = log
                .read(Offset(from), Offset(below), max, one)
                .await
                .unwrap();
            decode(&slices.concat().into())
                .iter()
                .map(|(offset, _)| *offset)
                .collect::<Vec<_>>()
        };
        assert_eq!(read(0, 4, 1 << 20, true).await, [0, 1, 2, 3]);
        assert_eq!(
            read(1, 2, 1 << 20, true).await,
            [0, 1],
            "the whole batch that holds it"
        );
        assert_eq!(read(4, 4, 1 << 20, true).await, [0_i64; 0]);
        assert_eq!(
            read(0, 20, 10, true).await,
            [0, 1],
            "the first batch whatever its size"
        );
        assert_eq!(read(0, 20, 10, false).await, [0_i64; 0]);
        assert_eq!(read(0, 20, 5000, false).await, [0, 1, 2, 3]);
        assert_eq!(read(20, 99, 5000, true).await, [0_i64; 0]);
    });
}

#[test]
fn a_batch_that_fits_is_read_wherever_it_begins_in_its_block() {
    simulate(async {
        for cache_bytes_max in [1 << 20, 0] {
            let store = StoreOptions {
                cache_bytes_max,
                ..store_options()
            };
            let world = World::on(platform::sim::SimPlatform::new(3), store);
            let log = world.open(options()).await;
            // Small ones between, so that the large ones begin at many places of a block.
            for bytes in [
                300, 13_000, 1700, 16_200, 3300, 32_000, 900, 60_000, 2500, 15_000,
            ] {
                produce(&log, 1, bytes).await;
            }
            let end = log.log_end_offset();
            for from in 0..end.0 {
                let whole = log.read(Offset(from), Offset(from + 1), 1, true).await;
                let size = whole.unwrap().concat().len();
                let powers = (12..18).map(|power| 1 << power);
                for max in [1, size - 1, size, size + 1, size + 100]
                    .into_iter()
                    .chain(powers)
                {
                    let read = log.read(Offset(from), end, max, false).await;
                    let read =
                        read.unwrap_or_else(|error| panic!("{max} bytes from {from}: {error}"));
                    let read = read.concat().len();
                    assert_eq!(
                        read >= size,
                        max >= size,
                        "{max} bytes from {from}: {read} of {size}"
                    );
                    assert!(read <= max, "{max} bytes from {from}: {read}");
                }
            }
        }
    });
}

#[test]
fn offsets_outside_of_the_log_are_refused() {
    simulate(async {
        let world = World::new();
        let log = world.open(options()).await;
        produce(&log, 5, 10).await;
        let error = log.read(Offset(6), Offset(9), 100, true).await.unwrap_err();
        assert_eq!(error.kind(), FailureKind::Invalid);
        assert!(log.read(Offset(-1), Offset(9), 100, true).await.is_err());
        assert!(
            log.read(Offset(5), Offset(9), 100, true)
                .await
                .unwrap()
                .is_empty()
        );
    });
}

#[test]
fn available_bytes_are_those_that_a_read_finds() {
    simulate(async {
        let world = World::new();
        let log = world.open(options()).await;
        for _ in 0..100 {
            produce(&log, 1, 900).await;
        }
        let size = batch(90, 1, 900).len();
        let available = |from, below| log.available_bytes(Offset(from), Offset(below), 1 << 30);
        assert_eq!([available(5, 5), available(100, 200)], [0, 0]);
        assert_eq!(available(99, 100), size);
        assert_eq!(available(90, 100), 10 * size);
        assert_eq!(log.available_bytes(Offset(0), Offset(100), 5000), 5000);
        let all = usize::try_from(log.size_bytes()).unwrap();
        assert!(available(0, 100).abs_diff(all) < all / 100);
    });
}

#[test]
fn a_replicated_log_writes_at_once_and_syncs_when_told() {
    simulate(async {
        let world = World::new();
        let replicated = LogOptions {
            durability: Durability::Replicated,
            flush_messages: 10,
            flush_ms: 5000,
            ..options()
        };
        let log = world.open(replicated).await;
        let _flusher = world.store.spawn_flusher();
        let settle = async || {
            task::timeout(
                std::time::Duration::from_millis(10),
                std::future::pending::<()>(),
            )
            .await
        };
        append(&log, 4, 10);
        let _ = settle().await;
        assert_eq!(
            (log.written_offset(), log.durable_offset()),
            (Offset(4), Offset(0))
        );
        assert_eq!(log.committed_offset(), Offset(4));
        append(&log, 6, 10);
        let _ = settle().await;
        assert_eq!(log.durable_offset(), Offset(10), "flush.messages");
        append(&log, 1, 10);
        let _ = settle().await;
        assert_eq!(log.durable_offset(), Offset(10));
        let pass = async |seconds| {
            let while_time_passes = std::future::pending::<()>();
            let _ = task::timeout(std::time::Duration::from_secs(seconds), while_time_passes).await;
        };
        pass(7).await;
        assert_eq!(log.durable_offset(), Offset(11), "flush.ms");
        // It is at rest, and its file is closed; what comes now is synced as soon.
        for seconds in [0, 100] {
            let end = log.log_end_offset().0;
            pass(seconds).await;
            append(&log, 1, 10);
            let _ = settle().await;
            assert_eq!(log.durable_offset(), Offset(end));
            pass(7).await;
            assert_eq!(log.durable_offset(), Offset(end + 1), "after {seconds} s");
        }
    });
}

#[test]
fn damaged_bytes_are_never_served() {
    simulate(async {
        let store = StoreOptions {
            cache_bytes_max: 0,
            ..store_options()
        };
        let world = World::on(platform::sim::SimPlatform::new(3), store);
        let log = world.open(options()).await;
        for _ in 0..30 {
            produce(&log, 1, 4000).await;
        }
        let path = std::path::Path::new(FOLDER).join("00000000000000000000.log");
        let size = batch(0, 1, 4000).len() as u64;
        world.disk().flip(&path, 3 * size + 500, 2).unwrap();
        assert_holds(&log, 0, 3).await;
        let slices = log
            .read(Offset(1), Offset(30), 1 << 20, true)
            .await
            .unwrap();
        assert_eq!(
            decode(&slices.concat().into()).len(),
            2,
            "what comes before is served"
        );
        let error = log
            .read(Offset(3), Offset(30), 1 << 20, true)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), FailureKind::Corrupt);
        let text = error.to_string();
        assert!(text.contains("00000000000000000000.log"), "{text}");
        assert!(text.contains(&(3 * size).to_string()), "{text}");
        assert_holds(&log, 4, 30).await;
    });
}

#[test]
fn bytes_that_are_no_batches_are_refused_as_a_whole() {
    simulate(async {
        let world = World::new();
        let log = world.open(options()).await;
        let good = batch(0, 2, 100);
        let mut two = good.to_vec();
        two.extend_from_slice(&good[..good.len() - 1]);
        for bad in [vec![], vec![0; 100], good[..60].to_vec(), two] {
            assert_eq!(
                log.append(&bytes::Bytes::from(bad), EPOCH, NOW_MS)
                    .unwrap_err()
                    .kind(),
                FailureKind::Invalid
            );
        }
        assert_eq!(log.log_end_offset(), Offset(0));
    });
}

#[test]
fn the_append_time_becomes_the_timestamp_and_the_crc_stays_right() {
    simulate(async {
        let world = World::new();
        let log = world.open(options()).await;
        let stamp = storage::Stamp {
            log_append_time: Some(wire::types::TimestampMs(12_345)),
            ..EPOCH
        };
        log.append(&batch(0, 2, 100), stamp, NOW_MS).unwrap();
        log.flush().await.unwrap();
        assert_holds(&log, 0, 2).await;
        let found = log.max_timestamp(Offset(2)).await.unwrap().unwrap();
        assert_eq!((found.offset, found.timestamp.0), (Offset(0), 12_345));
    });
}

/// Returns the turns of other tasks while this number of bytes was read from a file at once.
fn turns_while_read(bytes_max: usize) -> usize {
    let turns = Rc::new(Cell::new(0));
    let counted = Rc::clone(&turns);
    simulate(async move {
        let store = StoreOptions {
            cache_bytes_max: 0,
            ..store_options()
        };
        let world = World::on(platform::sim::SimPlatform::new(3), store);
        let large = LogOptions {
            segment_bytes: 32 << 20,
            ..options()
        };
        let log = world.open(large).await;
        for _ in 0..40 {
            produce(&log, 1, 256 << 10).await;
        }
        log.roll().await.unwrap();
        log.save().await.unwrap();
        let end = log.log_end_offset();
        let ticker = task::spawn(async move {
            loop {
                counted.set(counted.get() + 1);
                task::yield_now().await;
            }
        });
        let read = log.read(Offset(0), end, bytes_max, true).await.unwrap();
        ticker.abort();
        let bytes = read.iter().map(bytes::Bytes::len).sum::<usize>();
        assert!(bytes > bytes_max - (300 << 10), "{bytes} bytes in one read");
    });
    turns.get()
}

#[test]
fn others_have_their_turn_while_much_is_judged() {
    let (little, much) = (turns_while_read(1 << 20), turns_while_read(9 << 20));
    assert!(much >= little + 7, "{little} turns, then {much}");
}
