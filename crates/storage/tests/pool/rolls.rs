//! What rolls find in the pool, and what a start does.

use std::path::Path;

use platform::disk::Disk;
use storage::LogOptions;
use wire::types::Offset;

use super::scene::*;
use crate::world::*;

fn names(entries: &[platform::disk::Entry]) -> Vec<String> {
    entries.iter().map(|entry| entry.name.clone()).collect()
}

#[test]
fn a_roll_takes_a_file_of_the_pool_and_another_is_made() {
    simulate(async {
        let scene = Scene::new(Setting::default());
        scene.start_pool();
        let first = scene.pooled().await;
        assert_eq!(first.len(), 8, "half of the path");
        let log = scene.open(log_options()).await;
        for _ in 0..3 {
            write_a_segment(&log).await;
        }
        let later = scene.pooled().await;
        assert!(later.len() < 8, "segments count, too: {later:?}");
        let gone = names(&first)
            .iter()
            .filter(|name| !names(&later).contains(name))
            .count();
        assert!(gone >= 3, "{later:?}");
        // The active segment has all of its room from the start, and no more than it needs when it
        // is sealed.
        let files = scene.disk().list(Path::new(FOLDER)).await.unwrap();
        let lens = files.iter().filter(|file| file.name.ends_with(".log"));
        let lens: Vec<_> = lens.map(|file| file.len).collect();
        assert_eq!(lens.len(), 4);
        assert_eq!(lens[3], SEGMENT_BYTES);
        assert!(lens[..3].iter().all(|len| *len < SEGMENT_BYTES), "{lens:?}");
        log.save().await.unwrap();
        assert_holds(&log, 0, log.log_end_offset().0).await;
    });
}

#[test]
fn shards_share_a_pool() {
    simulate(async {
        let scene = Scene::new(Setting {
            capacity_files: 40,
            ..Setting::default()
        });
        scene.start_pool();
        let before = scene.pooled().await;
        let other = scene.another_shard();
        let one = scene.open(log_options()).await;
        let how = storage::OpenAs {
            clean: false,
            recovery_point: Offset(0),
            log_start: Offset(0),
            compacted: None,
        };
        let partition = wire::types::TopicPartition {
            topic: "orders".into(),
            partition: 1,
        };
        let (store, dir) = (&other.world.store, Path::new(DIR));
        let two = store.open_log(dir, partition, topic_id(), log_options(), how);
        let two = two.await.unwrap();
        for _ in 0..4 {
            write_a_segment(&one).await;
            write_a_segment(&two).await;
        }
        let after = scene.pooled().await;
        let taken = names(&before)
            .into_iter()
            .filter(|name| !names(&after).contains(name));
        assert!(taken.count() >= 8, "four for each: {after:?}");
        assert_holds(&one, 0, one.log_end_offset().0).await;
        assert_holds(&two, 0, two.log_end_offset().0).await;
    });
}

#[test]
fn a_log_of_short_segments_has_no_use_for_long_files() {
    simulate(async {
        let scene = Scene::new(Setting::default());
        scene.start_pool();
        let before = scene.pooled().await;
        let log = scene
            .open(LogOptions {
                segment_bytes: u32::try_from(SEGMENT_BYTES / 4).unwrap(),
                ..log_options()
            })
            .await;
        for _ in 0..3 {
            write_a_segment(&log).await;
        }
        let after = scene.pooled().await;
        assert!(
            names(&after)
                .iter()
                .all(|name| names(&before).contains(name))
        );
    });
}

#[test]
fn a_start_takes_over_what_is_whole_and_empty_and_removes_the_rest() {
    simulate(async {
        let scene = Scene::new(Setting::default());
        scene.start_pool();
        assert_eq!(scene.pooled().await.len(), 8);
        let next = scene.successor(scene.disk().kill(1));
        let at = |number: u64, suffix: &str| Path::new(DIR).join(format!("{number:020}.{suffix}"));
        let put = |path: &Path, bytes: &[u8]| next.disk().put(path, bytes).unwrap();
        // Short, half made, and with something in it; and what is not of the pool.
        put(&at(2, "pooled"), &[0; 4096]);
        put(&at(100, "pooled.part"), &[0; 4096]);
        let mut written = vec![0; usize::try_from(SEGMENT_BYTES).unwrap()];
        written[17] = 1;
        put(&at(5, "pooled"), &written);
        put(&Path::new(DIR).join("mine.pooled"), b"a user's");
        let operations = next.disk().operations();
        next.start_pool();
        let clock = platform::Platform::clock(&next.world.platform).clone();
        clock.sleep(std::time::Duration::from_millis(100)).await;
        let made = next.disk().operations() - operations;
        next.disk()
            .remove_file(&Path::new(DIR).join("mine.pooled"))
            .await
            .unwrap();
        assert_eq!(next.pooled().await.len(), 8);
        assert!(made < 80, "only two were made: {made} operations");
        // They can be used.
        let log = next.open(log_options()).await;
        for _ in 0..4 {
            write_a_segment(&log).await;
        }
        next.pooled().await;
        let end = log.log_end_offset().0;
        let last = next.successor(next.disk().crash(3));
        last.start_pool();
        let log = last.try_open(log_options(), false, 0, 0).await.unwrap();
        assert_eq!(log.log_end_offset(), Offset(end));
        assert_holds(&log, 0, end).await;
        last.pooled().await;
    });
}

#[test]
fn with_the_share_set_to_nothing_what_is_left_goes() {
    simulate(async {
        let scene = Scene::new(Setting::default());
        scene.start_pool();
        assert_eq!(scene.pooled().await.len(), 8);
        let mut next = scene.successor(scene.disk().kill(1));
        next.setting.ratio = 0.0;
        let next = next.successor(next.disk().kill(1));
        next.start_pool();
        assert!(next.pooled().await.is_empty());
    });
}
