//! A folder as each step of a swap leaves it, opened again: by the names alone the start knows what
//! to finish and what to throw away. The states are Kafka's, also those that only Kafka leaves.

use std::path::{Path, PathBuf};

use platform::Platform;
use platform::disk::Disk;
use platform::sim::SimDisk;
use wire::types::Offset;

use crate::history::*;
use crate::world::*;

const SUFFIXES: [&str; 4] = ["index", "log", "timeindex", "txnindex"];

fn path(base: i64, suffix: &str) -> PathBuf {
    Path::new(FOLDER).join(format!("{base:020}.{suffix}"))
}

/// The files of a log before a round and after it.
struct Folders {
    history: History,
    end: i64,
    before: Vec<(PathBuf, Vec<u8>)>,
    after: Vec<(PathBuf, Vec<u8>)>,
    now_ms: i64,
}

async fn files(disk: &SimDisk) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in disk.list(Path::new(FOLDER)).await.unwrap() {
        let path = Path::new(FOLDER).join(&entry.name);
        files.push((path.clone(), disk.read_file(&path).await.unwrap()));
    }
    files
}

/// One group of three segments, with an aborted transaction in it.
async fn folders() -> Folders {
    let world = World::new();
    let options = storage::LogOptions {
        segment_bytes: 1 << 20,
        ..compacted_options()
    };
    let log = world.open(options).await;
    let mut history = History::default();
    for at in 0..3 {
        for producer in [None, Some(10 + at)] {
            let records = (0..5).map(|key| (key, (key != 3).then_some(50))).collect();
            let draft = Draft {
                records,
                producer,
                transactional: producer.is_some(),
                ..Draft::default()
            };
            history.append(&log, &draft, NOW_MS);
        }
        history.end(&log, 10 + at, at == 1, NOW_MS);
        settle(&log).await;
        log.roll().await.unwrap();
    }
    log.save().await.unwrap();
    let before = files(world.disk()).await;
    let end = compact(&log, &mut history, NOW_MS).await;
    assert_eq!(log.segment_count(), 2);
    world
        .platform
        .clock()
        .sleep(std::time::Duration::from_secs(1))
        .await;
    let after = files(world.disk()).await;
    let now_ms = NOW_MS + 1000;
    history.check(&log, end, now_ms).await;
    Folders {
        history,
        end,
        before,
        after,
        now_ms,
    }
}

/// What lies in the folder: `true` for the files of before the round, with the names of the new
/// ones given.
async fn open(
    folders: &Folders,
    name: &str,
    old: &dyn Fn(i64, &str) -> Option<&'static str>,
    new: &dyn Fn(&str) -> Option<&'static str>,
) {
    let world = World::new();
    let disk = world.disk();
    disk.create_dir(Path::new(FOLDER)).await.unwrap();
    let base_of = |path: &Path| -> Option<(i64, String)> {
        let name = path.file_name()?.to_str()?;
        let (digits, suffix) = name.split_once('.')?;
        Some((digits.parse().ok()?, suffix.to_owned()))
    };
    let segments = |(path, _): &&(PathBuf, Vec<u8>)| {
        base_of(path)
            .is_some_and(|(base, suffix)| base < folders.end && SUFFIXES.contains(&&*suffix))
    };
    // What is neither is as it was after.
    for (path, bytes) in folders.after.iter().filter(|file| !segments(file)) {
        disk.replace_file(path, bytes).await.unwrap();
    }
    for (from, bytes) in folders.before.iter().filter(segments) {
        let (base, suffix) = base_of(from).unwrap();
        if let Some(more) = old(base, &suffix) {
            disk.replace_file(&path(base, &format!("{suffix}{more}")), bytes)
                .await
                .unwrap();
        }
    }
    for (from, bytes) in folders.after.iter().filter(segments) {
        let (base, suffix) = base_of(from).unwrap();
        if let Some(more) = new(&suffix) {
            disk.replace_file(&path(base, &format!("{suffix}{more}")), bytes)
                .await
                .unwrap();
        }
    }
    let log = world
        .try_open(compacted_options(), false, folders.end, 0)
        .await
        .unwrap();
    assert_eq!(log.log_end_offset().0, folders.end, "{name}");
    log.set_high_watermark(Offset(folders.end));
    folders
        .history
        .check(&log, folders.end, folders.now_ms)
        .await;
    log.save().await.unwrap();
    for entry in disk.list(Path::new(FOLDER)).await.unwrap() {
        let known = [".swap", ".cleaned", ".deleted", ".tmp"];
        assert!(
            !known.iter().any(|end| entry.name.ends_with(end)),
            "{name}: {}",
            entry.name
        );
    }
}

#[test]
fn every_state_of_a_swap_is_one_log_or_the_other() {
    simulate(async {
        let folders = folders().await;
        let keep = |_: i64, _: &str| Some("");
        open(&folders, "being made", &keep, &|_| Some(".cleaned")).await;
        open(
            &folders,
            "half a swap, as Kafka renames",
            &keep,
            &|suffix| Some(if suffix == "log" { ".swap" } else { ".cleaned" }),
        )
        .await;
        open(&folders, "half a swap, as we rename", &keep, &|suffix| {
            Some(if suffix == "log" { ".cleaned" } else { ".swap" })
        })
        .await;
        open(&folders, "a swap", &keep, &|_| Some(".swap")).await;
        for gone in 0..3 {
            let bases = folders
                .before
                .iter()
                .filter(|(path, _)| path.extension().is_some_and(|end| end == "log"));
            let bases: Vec<i64> = bases
                .map(|(path, _)| path.file_stem().unwrap().to_str().unwrap().parse().unwrap())
                .collect();
            let last = bases[gone];
            let deleted = |base: i64, _: &str| Some(if base <= last { ".deleted" } else { "" });
            open(
                &folders,
                "some old ones on their way out",
                &deleted,
                &|_| Some(".swap"),
            )
            .await;
            let only_data = |base: i64, suffix: &str| {
                Some(if base <= last && suffix == "log" {
                    ".deleted"
                } else {
                    ""
                })
            };
            open(
                &folders,
                "old data without old indexes",
                &only_data,
                &|_| Some(".swap"),
            )
            .await;
        }
        let none = |_: i64, _: &str| None;
        open(&folders, "only the swap", &none, &|_| Some(".swap")).await;
        for done in SUFFIXES {
            open(&folders, "some with their names", &none, &|suffix| {
                Some(if suffix <= done { "" } else { ".swap" })
            })
            .await;
        }
        open(
            &folders,
            "indexes with their names, the data last",
            &none,
            &|suffix| Some(if suffix == "log" { ".swap" } else { "" }),
        )
        .await;
        open(&folders, "done", &none, &|_| Some("")).await;
        open(
            &folders,
            "done, the old ones not removed",
            &|_, _| Some(".deleted"),
            &|_| Some(""),
        )
        .await;
    });
}
