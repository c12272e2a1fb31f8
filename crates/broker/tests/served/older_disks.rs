//! A start with an older first tier (a backup, yesterday's disk) beside the lower tiers of today,
//! and then the right one: what the older one does not know of is set aside, and is there again for
//! the one that does.

use std::path::{Path, PathBuf};

use platform::Disk;
use platform::sim::SimDisk;
use storage::OpenAs;
use storage::tier::Mover;
use storage::tier::policy::PolicySettings;
use wire::types::Offset;

use crate::wrong_starts::{Life, SimLog, append, everything, how, rename_all, right, run};

async fn copy_tree(disk: &SimDisk, from: &str, to: &str) {
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let path = Path::new(from).join(&folder);
        for entry in disk.list(&path).await.unwrap() {
            let name = folder.join(&entry.name);
            if entry.is_dir {
                folders.push(name);
                continue;
            }
            let bytes = disk.contents(&Path::new(from).join(&name)).unwrap();
            let copy = Path::new(to).join(&name);
            disk.put(&copy, &bytes).unwrap();
            disk.set_modified(&copy, entry.modified_ms).await.unwrap();
        }
    }
}

/// Moves the sealed segments at these places down, to the first and the second lower tier in turn.
async fn move_down(life: &Life, log: &SimLog, places: std::ops::Range<usize>) {
    let sealed = log.tiers().sealed_bases();
    for at in places.clone() {
        log.tiers().ask_for_tier(sealed[at], 1 + at % 2);
    }
    let still = PolicySettings {
        threshold: None,
        threads: 1,
        ..PolicySettings::DEFAULTS
    };
    for _ in 0..=places.len() {
        let mut mover = Mover::new(&life.store, still).unwrap();
        for moved in mover.turn(&life.store).await {
            moved.await.unwrap();
        }
    }
}

async fn fill(log: &SimLog, segments: usize) {
    while log.segment_count() < segments {
        append(log).await;
    }
    log.save().await.unwrap();
}

async fn end(log: &SimLog, disk: &SimDisk, clean: bool, seed: u64) -> SimDisk {
    if clean {
        log.close().await.unwrap();
    }
    disk.kill(seed)
}

/// Segments of the log on the lower tiers when the older first tier was copied, and after that.
struct Story {
    clean: bool,
    before: usize,
    after: usize,
    /// Records that the wrong start is given.
    written: usize,
}

/// The disk of today in `/a`, the one of yesterday in `/old`.
async fn two_days(story: &Story) -> (SimDisk, Offset, Vec<(i64, u32)>) {
    let disk = SimDisk::new(5);
    let metadata = Path::new("/a/__cluster_metadata-0/quorum-state");
    disk.put(metadata, b"{}").unwrap();
    let life = Life::start(&disk, &right()).await;
    let log = life.open(how(false, 0)).await.unwrap();
    fill(&log, 8).await;
    append(&log).await;
    move_down(&life, &log, 0..story.before).await;
    let yesterday = log.log_end_offset();
    let disk = end(&log, &disk, story.clean, 9).await;
    copy_tree(&disk, "/a", "/old").await;
    let life = Life::start(&disk, &right()).await;
    let log = life.open(how(story.clean, yesterday.0)).await.unwrap();
    fill(&log, 12).await;
    move_down(&life, &log, story.before..story.after).await;
    let all = everything(&log).await;
    let disk = end(&log, &disk, story.clean, 10).await;
    (disk, yesterday, all)
}

async fn opened(disk: &SimDisk, as_of: OpenAs) -> (Life, SimLog) {
    let life = Life::start(disk, &right()).await;
    let log = life.open(as_of).await.unwrap();
    (life, log)
}

#[test]
fn after_a_start_with_yesterdays_first_tier_the_one_of_today_has_every_record() {
    for clean in [true, false] {
        for (before, after) in [(2, 2), (2, 5), (0, 6), (3, 9), (2, 11)] {
            for written in [0, 1, 30] {
                let story = Story {
                    clean,
                    before,
                    after,
                    written,
                };
                run(async {
                    let (mut disk, yesterday, all) = two_days(&story).await;
                    let name = format!("{clean} {before} {after} {written}");
                    for round in 0..2 {
                        rename_all(&disk, &[("/a", "/new"), ("/old", "/a")]).await;
                        let (_life, log) = opened(&disk, how(clean, yesterday.0)).await;
                        assert_eq!(log.log_start_offset(), Offset::ZERO, "{name}");
                        let known = everything(&log).await;
                        let shared = all.iter().take_while(|(at, _)| *at < yesterday.0);
                        assert!(
                            known.starts_with(&shared.copied().collect::<Vec<_>>()),
                            "{name}, {round}"
                        );
                        for _ in 0..story.written {
                            append(&log).await;
                        }
                        disk = end(&log, &disk, clean, 11).await;
                        rename_all(&disk, &[("/a", "/old"), ("/new", "/a")]).await;
                        let end_of_all = all.last().unwrap().0 + 1;
                        let (_life, log) = opened(&disk, how(clean, end_of_all)).await;
                        assert_eq!(log.log_start_offset(), Offset::ZERO, "{name}");
                        let found = everything(&log).await;
                        assert!(
                            found == all,
                            "{name}, {round}: {} of {}",
                            found.len(),
                            all.len()
                        );
                        disk = end(&log, &disk, clean, 12).await;
                    }
                });
            }
        }
    }
}
