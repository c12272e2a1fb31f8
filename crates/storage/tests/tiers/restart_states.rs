//! Every state of names that a crash can leave of a move, set up by hand, and what a start makes of
//! it.

use std::path::{Path, PathBuf};

use wire::types::{TopicId, Uuid};

use super::scene::*;
use crate::world::*;

const GB: u64 = 1 << 30;
const SUFFIXES: [&str; 3] = ["log", "index", "timeindex"];

/// A log with four segments at home, clean, and the base of its second.
async fn still_at_home() -> (Scene, i64, i64) {
    let scene = Scene::new(GB, GB);
    let log = scene.open(options()).await;
    fill(&log, 3).await;
    let end = log.log_end_offset().0;
    log.close().await.unwrap();
    let base = scene.bases_on(FOLDER)[1];
    let next = scene.successor(scene.disk().crash(1), store_options());
    (next, base, end)
}

fn file(folder: &str, base: i64, suffix: &str) -> PathBuf {
    Path::new(folder).join(format!("{base:020}.{suffix}"))
}

fn copy(scene: &Scene, from: &Path, to: &Path) {
    let bytes = scene.disk().contents(from).unwrap();
    scene.disk().put(to, &bytes).unwrap();
}

#[test]
fn a_copy_that_is_not_whole_is_removed() {
    for parts in 0..=SUFFIXES.len() {
        simulate(async {
            let (scene, base, end) = still_at_home().await;
            // The first have their names already, the data file never.
            for (at, suffix) in SUFFIXES.iter().rev().enumerate() {
                let from = file(FOLDER, base, suffix);
                let named = at < parts && *suffix != "log";
                let to = if named {
                    (*suffix).to_owned()
                } else {
                    format!("{suffix}.moving")
                };
                copy(&scene, &from, &file(BULK_FOLDER, base, &to));
            }
            let log = scene.try_open(options(), true, end, 0).await.unwrap();
            assert_holds(&log, 0, end).await;
            for suffix in SUFFIXES {
                assert!(!scene.has(BULK_FOLDER, &format!("{base:020}.{suffix}")));
                assert!(!scene.has(BULK_FOLDER, &format!("{base:020}.{suffix}.moving")));
            }
        });
    }
}

#[test]
fn of_two_whole_copies_the_faster_stays() {
    for clean in [true, false] {
        simulate(async {
            let (scene, base, end) = still_at_home().await;
            for suffix in SUFFIXES {
                copy(
                    &scene,
                    &file(FOLDER, base, suffix),
                    &file(BULK_FOLDER, base, suffix),
                );
            }
            let log = scene.try_open(options(), clean, end, 0).await.unwrap();
            assert_holds(&log, 0, end).await;
            assert!(scene.bases_on(BULK_FOLDER).is_empty());
            assert_eq!(scene.bases_on(FOLDER).len(), 4);
        });
    }
}

#[test]
fn a_faster_copy_that_is_short_or_damaged_goes_and_the_slower_stays() {
    for damage in [0, 1] {
        simulate(async {
            let (scene, base, end) = still_at_home().await;
            for suffix in SUFFIXES {
                copy(
                    &scene,
                    &file(FOLDER, base, suffix),
                    &file(BULK_FOLDER, base, suffix),
                );
            }
            let data = file(FOLDER, base, "log");
            if damage == 0 {
                let bytes = scene.disk().contents(&data).unwrap();
                scene.disk().put(&data, &bytes[..bytes.len() / 2]).unwrap();
            } else {
                scene.disk().flip(&data, 9000, 1).unwrap();
            }
            let log = scene.try_open(options(), true, end, 0).await.unwrap();
            assert_holds(&log, 0, end).await;
            assert_eq!(scene.bases_on(BULK_FOLDER), [base]);
            assert!(!scene.bases_on(FOLDER).contains(&base));
        });
    }
}

#[test]
fn a_source_that_has_lost_its_data_file_only_is_swept() {
    simulate(async {
        let (scene, base, end) = still_at_home().await;
        for suffix in SUFFIXES {
            copy(
                &scene,
                &file(FOLDER, base, suffix),
                &file(BULK_FOLDER, base, suffix),
            );
        }
        let disk = scene.disk().clone();
        platform::Disk::rename(
            &disk,
            &file(FOLDER, base, "log"),
            &file(FOLDER, base, "log.deleted"),
        )
        .await
        .unwrap();
        let log = scene.try_open(options(), true, end, 0).await.unwrap();
        assert_holds(&log, 0, end).await;
        assert_eq!(scene.bases_on(BULK_FOLDER), [base]);
        assert!(!scene.has(FOLDER, &format!("{base:020}.index")));
        assert!(scene.has(FOLDER, &format!("{base:020}.away")), "noted anew");
    });
}

#[test]
fn segments_of_another_topic_of_the_same_name_are_not_taken() {
    simulate(async {
        let (scene, base, end) = still_at_home().await;
        let other = TopicId(Uuid::from_u128(7));
        let metadata = format!("version: 0\ntopic_id: {other}");
        let path = Path::new(BULK_FOLDER).join("tier.metadata");
        scene.disk().put(&path, metadata.as_bytes()).unwrap();
        copy(
            &scene,
            &file(FOLDER, base, "log"),
            &file(BULK_FOLDER, 9999, "log"),
        );
        let log = scene.try_open(options(), true, end, 0).await.unwrap();
        assert_holds(&log, 0, end).await;
        assert_eq!(log.log_end_offset().0, end);
        assert!(scene.bases_on(BULK_FOLDER).is_empty());
        let kept = platform::Disk::list(scene.disk(), Path::new(BULK)).await;
        let mut kept = kept.unwrap().into_iter();
        assert!(kept.any(|entry| entry.name.ends_with("-stray")));
    });
}
