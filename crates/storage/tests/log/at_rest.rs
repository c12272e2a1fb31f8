//! Logs that nothing is done to: neither a start nor a stop writes their files.

use std::time::Duration;

use platform::Platform;
use wire::types::{LeaderEpoch, Offset};

use crate::world::*;

/// A log with some records that was closed, before a start in whose directory another was opened.
async fn left_with(records: i64) -> World {
    let world = World::new();
    let log = world.open(options()).await;
    if records > 0 {
        produce(&log, records, 100).await;
    }
    log.close().await.unwrap();
    let next = world.successor(world.disk().crash(1));
    next.open_another().await;
    next
}

#[test]
fn neither_a_start_nor_a_stop_writes_a_log_at_rest() {
    for records in [0, 7] {
        simulate(async {
            let world = left_with(records).await;
            let before = world.disk().changes();
            let log = world.try_open(options(), true, records, 0).await.unwrap();
            log.start_epoch(LeaderEpoch(5));
            world.platform.clock().sleep(Duration::from_secs(3)).await;
            log.close().await.unwrap();
            assert_eq!(world.disk().changes(), before, "{records} records");

            let next = world.successor(world.disk().crash(2));
            let log = next.try_open(options(), true, records, 0).await.unwrap();
            assert_holds(&log, 0, records).await;
            produce(&log, 2, 100).await;
            log.close().await.unwrap();
            let last = next.successor(next.disk().crash(3));
            let log = last.try_open(options(), true, records + 2, 0).await;
            assert_holds(&log.unwrap(), 0, records + 2).await;
        });
    }
}

#[test]
fn after_a_kill_a_log_at_rest_is_synced_by_its_first_flush() {
    for records in [0, 7] {
        simulate(async {
            let world = left_with(records).await;
            let log = world.try_open(options(), true, records, 0).await.unwrap();
            assert_holds(&log, 0, records).await;
            let next = world.successor(world.disk().kill(2));
            next.open_another().await;
            let before = next.disk().changes();
            let log = next.try_open(options(), false, records, 0).await.unwrap();
            next.platform.clock().sleep(Duration::from_secs(3)).await;
            assert_eq!(next.disk().changes(), before, "{records} records");
            produce(&log, 2, 100).await;
            let last = next.successor(next.disk().crash(3));
            let log = last.try_open(options(), false, records, 0).await.unwrap();
            assert_holds(&log, 0, records + 2).await;
        });
    }
}

#[test]
fn a_log_that_was_cut_or_rolled_is_written_by_the_stop() {
    for is_cut in [false, true] {
        simulate(async {
            let world = left_with(7).await;
            let log = world.try_open(options(), true, 7, 0).await.unwrap();
            if is_cut {
                produce(&log, 2, 100).await;
                log.truncate_to(Offset(7)).await.unwrap();
            } else {
                log.roll().await.unwrap();
            }
            let before = world.disk().changes();
            log.close().await.unwrap();
            assert!(world.disk().changes() > before);
            let next = world.successor(world.disk().crash(2));
            let log = next.try_open(options(), true, 7, 0).await.unwrap();
            assert_holds(&log, 0, 7).await;
        });
    }
}
