//! A wall clock that is set, by hours and by years, forwards and back: what has been moved stays
//! for its time and no longer, nothing goes to and fro, nothing is held for as long as the clock
//! was set back, and no record is lost.

use std::time::Duration;

use storage::LogOptions;
use storage::tier::Mover;
use storage::tier::policy::PolicySettings;
use wire::types::Offset;

use super::scene::*;
use crate::world::*;

const GB: u64 = 1 << 30;
const HOUR_MS: i64 = 3_600_000;
const STEPS_MS: [i64; 6] = [
    -2 * 365 * 24 * HOUR_MS,
    -5 * HOUR_MS,
    -HOUR_MS / 2,
    HOUR_MS / 2,
    5 * HOUR_MS,
    2 * 365 * 24 * HOUR_MS,
];

fn small() -> LogOptions {
    LogOptions {
        preallocate: false,
        reserve_bytes: 0,
        ..options()
    }
}

/// The first tier has room for everything, and what came down comes up after a minute.
fn upwards() -> PolicySettings {
    PolicySettings {
        threshold: Some(0.9),
        hysteresis: 0.1,
        residency_ms: 60_000,
        heat_ms: 60_000,
        ..eager()
    }
}

#[test]
fn what_came_to_its_tier_before_the_clock_was_set_leaves_it_when_its_time_is_over() {
    for step_ms in STEPS_MS {
        simulate(async move {
            let scene = Scene::new(GB, GB);
            let log = scene.open(small()).await;
            fill(&log, 3).await;
            scene.clock().sleep(Duration::from_secs(1)).await;
            log.tiers().ask_for_tier(Offset(0), 1);
            assert_eq!(scene.settle(still()).await, 1);
            scene.clock().jump_ms(step_ms);
            scene.clock().sleep(Duration::from_mins(2)).await;
            assert_eq!(scene.settle(upwards()).await, 1, "set by {step_ms} ms");
            assert!(scene.bases_on(BULK_FOLDER).is_empty());
            assert_holds(&log, 0, log.log_end_offset().0).await;
        });
    }
}

#[test]
fn nothing_goes_to_and_fro_and_nothing_is_lost_while_the_clock_is_set_again_and_again() {
    for step_ms in STEPS_MS {
        simulate(async move {
            let scene = Scene::new(256 << 10, GB);
            let log = scene.open(small()).await;
            fill(&log, 6).await;
            let settings = PolicySettings {
                threads: 1,
                ..PolicySettings::DEFAULTS
            };
            let mut mover = Mover::new(&scene.world.store, settings).unwrap();
            let mut moves = 0;
            for second in 0..300 {
                if second % 60 == 30 {
                    // There, and back again.
                    let back = if second % 120 == 30 { 1 } else { -1 };
                    scene.clock().jump_ms(back * step_ms);
                }
                scene.clock().sleep(Duration::from_secs(1)).await;
                for moved in mover.turn(&scene.world.store).await {
                    moves += 1;
                    moved.await.unwrap();
                }
            }
            let segments = log.segment_count();
            assert!(
                moves <= 2 * segments,
                "{moves} moves of {segments} segments, set by {step_ms} ms"
            );
            let end = log.log_end_offset().0;
            assert_holds(&log, 0, end).await;
            let next = scene.successor(scene.disk().crash(3), store_options());
            let log = next.try_open(small(), false, 0, 0).await.unwrap();
            assert_eq!(log.log_end_offset().0, end);
            assert_holds(&log, 0, end).await;
        });
    }
}

#[test]
fn a_burst_is_over_when_it_is_over_also_where_the_clock_was_set_back() {
    for step_ms in STEPS_MS {
        simulate(async move {
            let scene = Scene::new(1 << 20, GB);
            let log = scene.open(small()).await;
            let settings = PolicySettings {
                threshold: Some(0.9),
                hysteresis: 0.5,
                ..eager()
            };
            let mut mover = Mover::new(&scene.world.store, settings).unwrap();
            assert!(mover.turn(&scene.world.store).await.is_empty());
            scene.clock().sleep(Duration::from_secs(1)).await;
            let until = async |bytes: u64| {
                while scene.path(0).used_bytes() < bytes {
                    produce(&log, 3, 3000).await;
                }
                log.set_high_watermark(log.durable_offset());
                log.save().await.unwrap();
            };
            until(840 << 10).await;
            let mut pressed = 0;
            for _ in 0..20 {
                for moved in mover.turn(&scene.world.store).await {
                    pressed += 1;
                    moved.await.unwrap();
                }
            }
            assert!(
                pressed > 0,
                "a tier that fills in a second begins to move earlier"
            );
            scene.clock().jump_ms(step_ms);
            until(840 << 10).await;
            scene.clock().sleep(Duration::from_mins(2)).await;
            for _ in 0..20 {
                let begun = mover.turn(&scene.world.store).await;
                assert!(begun.is_empty(), "the burst goes on, set by {step_ms} ms");
            }
        });
    }
}
