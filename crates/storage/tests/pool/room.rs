//! A pool takes its share and makes way: nothing is refused, spilled or kept for the sake of files
//! that hold nothing.

use std::path::Path;

use platform::disk::Disk;
use storage::{FailureKind, LogOptions};

use super::scene::*;
use crate::world::*;

fn with_bulk() -> Setting {
    Setting {
        bulk: true,
        ..Setting::default()
    }
}

/// Leaves the first tier's file system room for this number of files.
fn bound(scene: &Scene, files: u64) {
    let room = Some(files * SEGMENT_BYTES);
    scene.disk().set_capacity_of(Path::new(DIR), room);
}

async fn free(scene: &Scene) -> u64 {
    scene.disk().space(Path::new(DIR)).await.unwrap().free
}

fn spilled(scene: &Scene) -> bool {
    scene.tiers.paths()[1].segments() > 0
}

#[test]
fn a_full_tier_gives_up_its_pool_before_it_spills() {
    simulate(async {
        let scene = Scene::new(with_bulk());
        bound(&scene, 11);
        scene.start_pool();
        assert_eq!(scene.pooled().await.len(), 8);
        // Segments that have no use for the pool's files.
        let log = scene
            .open(LogOptions {
                segment_bytes: u32::try_from(SEGMENT_BYTES / 4).unwrap(),
                ..log_options()
            })
            .await;
        while !spilled(&scene) {
            produce(&log, 1, 4500).await;
        }
        assert_eq!(scene.path().pooled_bytes(), 0);
        let free = free(&scene).await;
        assert!(
            free < 2 * SEGMENT_BYTES,
            "{free} bytes free when it spilled"
        );
        assert_holds(&log, 0, log.log_end_offset().0).await;
    });
}

#[test]
fn a_full_disk_gives_up_its_pool_before_appends_are_refused() {
    simulate(async {
        let scene = Scene::new(Setting::default());
        bound(&scene, 11);
        scene.start_pool();
        assert_eq!(scene.pooled().await.len(), 8);
        let log = scene.open(log_options()).await;
        let refused = loop {
            let first = log.log_end_offset().0;
            match log.append(&batch(first, 1, 4500), EPOCH, NOW_MS) {
                Ok(_) => drop(
                    platform::task::timeout(std::time::Duration::from_millis(100), log.flush())
                        .await,
                ),
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind(), FailureKind::Full);
        assert_eq!(scene.path().pooled_bytes(), 0);
        let free = free(&scene).await;
        assert!(
            free < 2 * SEGMENT_BYTES,
            "{free} bytes free when it refused"
        );
    });
}

#[test]
fn what_deleted_segments_give_back_becomes_files_of_the_pool() {
    simulate(async {
        let scene = Scene::new(with_bulk());
        let log = scene.open(log_options()).await;
        for _ in 0..9 {
            write_a_segment(&log).await;
        }
        log.set_high_watermark(log.durable_offset());
        log.save().await.unwrap();
        scene.start_pool();
        assert!(scene.pooled().await.is_empty(), "segments have it all");
        log.set_options(LogOptions {
            retention_bytes: Some(2 * SEGMENT_BYTES),
            ..log_options()
        });
        log.retain(NOW_MS).await.unwrap();
        let made = scene.pooled().await.len();
        assert!((4..8).contains(&made), "{made}");
        let together = scene.path().used_bytes() + scene.path().pooled_bytes();
        assert!(together <= 8 * SEGMENT_BYTES, "{together}");
    });
}

#[test]
fn room_in_the_pool_is_room_for_the_policy() {
    simulate(async {
        let scene = Scene::new(with_bulk());
        bound(&scene, 11);
        scene.start_pool();
        scene.pooled().await;
        let space = scene.disk().space(Path::new(DIR)).await.unwrap();
        let path = scene.path();
        path.note_space(space.free, space.total);
        assert!(
            path.free_bytes() > 10 * SEGMENT_BYTES,
            "{}",
            path.free_bytes()
        );
        assert_eq!(path.used_bytes(), 0, "they are nobody's yet");
    });
}

#[test]
fn a_path_that_is_drained_keeps_no_pool() {
    simulate(async {
        let scene = Scene::new(with_bulk());
        scene.start_pool();
        assert_eq!(scene.pooled().await.len(), 8);
        scene.path().set_draining(true);
        assert!(scene.pooled().await.is_empty());
        scene.path().set_draining(false);
        assert_eq!(scene.pooled().await.len(), 8);
    });
}
