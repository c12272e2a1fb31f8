//! How large the cache of the logs' ends is: as large as what is written and its readers need it,
//! and no larger than it may be.

use std::time::Duration;

use crate::world::*;
use platform::sim::SimPlatform;
use storage::{LogOptions, StoreOptions};
use wire::types::Offset;

const BATCH_BYTES: usize = 10_000;

fn one_segment() -> LogOptions {
    LogOptions {
        segment_bytes: 64 << 20,
        ..options()
    }
}

fn world(cache_bytes_max: usize) -> World {
    let store = StoreOptions {
        cache_bytes_max,
        cache_bytes_start: 64 << 10,
        chunk_bytes: 16 << 10,
        ..store_options()
    };
    World::on(SimPlatform::new(5), store)
}

/// Long enough for what was read ahead to be forgotten.
async fn forget() {
    platform::task::timeout(Duration::from_secs(20), std::future::pending::<()>())
        .await
        .unwrap_err();
}

/// Appends this number of batches, then reads them all; returns the disk operations of the reader.
async fn lag(world: &World, log: &SimLog, batches: i64) -> u64 {
    forget().await;
    let from = log.log_end_offset();
    for _ in 0..batches {
        produce(log, 1, BATCH_BYTES).await;
    }
    forget().await;
    let before = world.disk().operations();
    assert_holds(log, from.0, log.log_end_offset().0).await;
    world.disk().operations() - before
}

#[test]
fn a_reader_that_lags_is_served_from_memory_once_it_has_shown_that_it_does() {
    simulate(async {
        let world = world(1 << 20);
        let log = world.open(one_segment()).await;
        assert_eq!(lag(&world, &log, 5).await, 0, "near the end");
        assert!(lag(&world, &log, 50).await > 0, "the cache began small");
        let mut rounds = 0;
        while lag(&world, &log, 50).await > 0 {
            rounds += 1;
            assert!(rounds < 30, "it does not grow");
        }
        assert_eq!(
            log.read(Offset(0), Offset(1), 1, true).await.unwrap().len(),
            1
        );
    });
}

#[test]
fn readers_of_what_no_cache_would_hold_do_not_make_it_grow() {
    simulate(async {
        let world = world(1 << 20);
        let log = world.open(one_segment()).await;
        for _ in 0..250 {
            produce(&log, 1, BATCH_BYTES).await;
        }
        for _ in 0..20 {
            assert_holds(&log, 0, 100).await;
        }
        // The written bytes have given a third of the bound, and reading ahead may have taken a
        // quarter.
        assert!(lag(&world, &log, 90).await > 0);
    });
}

#[test]
fn the_first_reader_of_what_was_written_under_load_is_served_from_memory() {
    simulate(async {
        let world = world(1 << 20);
        let log = world.open(one_segment()).await;
        assert!(lag(&world, &log, 50).await > 0, "the cache began small");
        for _ in 0..500 {
            produce(&log, 1, BATCH_BYTES).await;
        }
        assert_eq!(lag(&world, &log, 50).await, 0);
    });
}
