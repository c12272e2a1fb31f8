//! Paths of tiers that are away for one start or several, or go under way, while retention and
//! compaction go on: what was deleted stays deleted, all else is there when they are back. And
//! starts under which any disk operation fails: they succeed or say what they could not do, and the
//! next one finds everything.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use platform::Disk;
use platform::sim::{Effect, Fault, SimDisk};
use storage::tier::Mover;
use storage::tier::policy::PolicySettings;
use storage::{CompactOptions, CompactPolicy, LogOptions};
use wire::batch::BatchHeader;
use wire::batch::builder::BatchBuilder;
use wire::batch::record::records;
use wire::types::{LeaderEpoch, Offset, TimestampMs};

use crate::harness::NOW_MS;
use crate::wrong_starts::*;

/// Moves of directories before a start, and the settings of it.
type Step = (&'static [(&'static str, &'static str)], Tiers);

fn bulk(paths: &[&'static str]) -> Tiers {
    vec![
        ("fast", vec!["/a"]),
        ("bulk", paths.to_vec()),
        ("cold", vec!["/d"]),
    ]
}

/// Wrong starts one after the other; the last one is right.
fn sequences() -> Vec<(&'static str, Vec<Step>)> {
    let reordered = vec![
        ("fast", vec!["/a"]),
        ("cold", vec!["/d"]),
        ("bulk", vec!["/c", "/b"]),
    ];
    vec![
        (
            "renamed, then absent",
            vec![
                (&[("/c", "/e")], bulk(&["/b", "/e"])),
                (&[("/e", "/x")], bulk(&["/b", "/e"])),
                (&[("/e", "/y"), ("/x", "/e")], bulk(&["/b", "/e"])),
            ],
        ),
        (
            "not mounted for several starts",
            vec![
                (&[("/c", "/x")], right()),
                (&[], right()),
                (&[], right()),
                (&[("/c", "/y"), ("/x", "/c")], right()),
            ],
        ),
        (
            "left out, misspelt, not mounted",
            vec![
                (&[], bulk(&["/b"])),
                (&[], bulk(&["/b", "/cc"])),
                (&[("/c", "/x")], right()),
                (&[("/c", "/y"), ("/x", "/c")], right()),
            ],
        ),
        (
            "two swapped, then one absent, then back",
            vec![
                (&[("/b", "/x"), ("/c", "/b"), ("/x", "/c")], right()),
                (&[("/c", "/x")], right()),
                (&[("/c", "/y"), ("/b", "/c"), ("/x", "/b")], right()),
            ],
        ),
        (
            "order changed, a tier left out, order back",
            vec![
                (&[], reordered),
                (&[], vec![("fast", vec!["/a"]), ("bulk", vec!["/b", "/c"])]),
                (&[], right()),
            ],
        ),
        (
            "renamed to the place of one that is absent",
            vec![
                (&[("/b", "/x"), ("/c", "/b")], bulk(&["/b", "/c"])),
                (&[("/c", "/y"), ("/b", "/c"), ("/x", "/b")], right()),
            ],
        ),
    ]
}

#[test]
fn after_any_number_of_wrong_starts_every_record_is_as_before() {
    for clean in [true, false] {
        let (template, before) = once(lived(clean));
        for (name, steps) in sequences() {
            run(async {
                let what = format!("{name}, clean: {clean}");
                let mut disk = template.kill(1);
                let (first, last) = (before.last().unwrap().0 + 1, steps.len() - 1);
                for (at, (renames, tiers)) in steps.into_iter().enumerate() {
                    let end = first + i64::try_from(at).unwrap();
                    rename_all(&disk, renames).await;
                    let life = Life::start(&disk, &tiers).await;
                    let log = life.open(how(clean, end)).await.unwrap();
                    assert_eq!(log.log_start_offset(), Offset::ZERO, "{what}: start {at}");
                    assert_eq!(log.log_end_offset(), Offset(end), "{what}: start {at}");
                    if at == last {
                        let mut after = everything(&log).await;
                        after.truncate(before.len());
                        assert!(after == before, "{what}: {} records", after.len());
                    }
                    append(&log).await;
                    assert_eq!(log.retain(NOW_MS + 1).await.unwrap(), 0, "{what}");
                    if clean {
                        log.close().await.unwrap();
                    }
                    disk = disk.kill(2);
                }
            });
        }
    }
}

#[test]
fn retention_goes_on_through_wrong_starts_and_nothing_deleted_comes_back() {
    for clean in [true, false] {
        let (template, before) = once(lived(clean));
        for wrong in wrong_starts() {
            run(async {
                let what = format!("{}, clean: {clean}", wrong.name);
                let end = before.last().unwrap().0 + 1;
                let disk = template.kill(1);
                rename_all(&disk, wrong.before).await;
                let life = Life::start(&disk, &wrong.tiers).await;
                let log = life.open(how(clean, end)).await.unwrap();
                log.set_high_watermark(log.durable_offset());
                let sealed = log.tiers().sealed_bases();
                log.set_options(LogOptions {
                    // The newest three segments, about: what is before lies on every path.
                    retention_bytes: Some(12 << 10),
                    segment_bytes: 8 << 10,
                    ..broker_log_options()
                });
                let gone = log.retain(NOW_MS + 1).await.unwrap();
                let start = log.log_start_offset();
                assert!(gone > 4 && start > sealed[4], "{what}: {gone}, {start:?}");
                append(&log).await;
                if clean {
                    log.close().await.unwrap();
                }
                let disk = disk.kill(10);
                rename_all(&disk, wrong.after).await;
                // What the checkpoint says of the start of the log is older than that.
                let life = Life::start(&disk, &wrong.then).await;
                let log = life.open(how(clean, end)).await.unwrap();
                assert_eq!(log.log_start_offset(), start, "{what}");
                let mut after = everything(&log).await;
                assert_eq!(after.pop().map(|(offset, _)| offset), Some(end), "{what}");
                let left = before.iter().filter(|(offset, _)| *offset >= start.0);
                assert!(after.iter().eq(left), "{what}");
                log.save().await.unwrap();
                for dir in ["/a", "/b", "/c", "/d", "/e"] {
                    for base in sealed.iter().filter(|base| **base < start) {
                        let file = format!("{dir}/t-0/{:020}.log", base.0);
                        let there = disk.contents(Path::new(&file)).is_ok();
                        assert!(!there, "{what}: {file} is left");
                    }
                }
            });
        }
    }
}

type Model = BTreeMap<String, Option<String>>;

fn compacted() -> LogOptions {
    LogOptions {
        segment_bytes: 8 << 10,
        delete: false,
        compact: true,
        ..broker_log_options()
    }
}

/// Puts a value, or deletes, for each of twenty keys.
async fn put_all(log: &SimLog, model: &mut Model, version: u32) {
    let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch(-1));
    for key in 0..20_u32 {
        let value =
            (!(key + version).is_multiple_of(4)).then(|| format!("{version}{}", "x".repeat(300)));
        let name = format!("k{key}");
        let bytes = value.as_ref().map(String::as_bytes);
        builder.add(TimestampMs(NOW_MS), Some(name.as_bytes()), bytes, &[]);
        model.insert(name, value);
    }
    append_batch(log, &builder.finish().unwrap()).await;
}

/// What a reader of the whole log ends up with.
async fn replayed(log: &SimLog) -> Model {
    let (mut at, end) = (log.log_start_offset(), log.log_end_offset());
    let mut model = Model::new();
    while at < end {
        let bytes = log.read(at, end, 1 << 20, true).await.unwrap().concat();
        if bytes.is_empty() {
            break;
        }
        let mut rest = bytes::Bytes::from(bytes);
        while let Some(header) = BatchHeader::parse(&rest) {
            let batch = rest.split_to(header.size_bytes);
            at = header.next_offset();
            for record in records(&batch).unwrap() {
                let record = record.unwrap();
                let text = |bytes: bytes::Bytes| String::from_utf8(bytes.to_vec()).unwrap();
                model.insert(text(record.key.unwrap()), record.value.map(text));
            }
        }
    }
    model
}

fn living(model: &Model) -> Model {
    let living = model.iter().filter(|(_, value)| value.is_some());
    living
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

async fn compact(log: &SimLog) {
    let policy = CompactPolicy {
        min_lag_ms: 0,
        max_lag_ms: i64::MAX,
        delete_retention_ms: 0,
        dirty_ratio_min_ppm: 0,
    };
    let options = CompactOptions {
        map_bytes_max: 1 << 20,
        map_load_factor: 0.9,
        buffer_bytes: 64 << 10,
        bytes_per_second_max: f64::MAX,
    };
    for _ in 0..2 {
        log.roll().await.unwrap();
        log.save().await.unwrap();
        log.compact(&policy, &options).await.unwrap();
    }
}

async fn spread(life: &Life, log: &SimLog) {
    for (at, base) in log.tiers().sealed_bases().into_iter().enumerate() {
        log.tiers().ask_for_tier(base, 1 + at % 2);
    }
    let still = PolicySettings {
        threshold: None,
        threads: 1,
        ..PolicySettings::DEFAULTS
    };
    let Some(mut mover) = Mover::new(&life.store, still) else {
        return;
    };
    for _ in 0..12 {
        for moved in mover.turn(&life.store).await {
            moved.await.unwrap();
        }
    }
}

/// A compacted log with segments on the paths, and what is in it.
async fn lived_compacted(clean: bool) -> (SimDisk, Model, i64) {
    let disk = SimDisk::new(5);
    let metadata = Path::new("/a/__cluster_metadata-0/quorum-state");
    disk.put(metadata, b"{}").unwrap();
    let life = Life::start(&disk, &right()).await;
    let how = how_compacted(false, 0);
    let log = life.open_with(how, compacted()).await.unwrap();
    let mut model = Model::new();
    for version in 0..9 {
        put_all(&log, &mut model, version).await;
    }
    log.roll().await.unwrap();
    log.save().await.unwrap();
    spread(&life, &log).await;
    let away = life
        .tiers
        .paths()
        .iter()
        .filter(|path| path.tier > 0 && path.segments() > 0);
    assert_eq!(away.count(), 3);
    // The end of the log is at home: it could not be opened without the path that has it.
    put_all(&log, &mut model, 9).await;
    let end = log.log_end_offset().0;
    if clean {
        log.close().await.unwrap();
    }
    (disk.kill(9), model, end)
}

fn how_compacted(clean: bool, end: i64) -> storage::OpenAs {
    storage::OpenAs {
        compacted: Some(Offset::ZERO),
        ..how(clean, end)
    }
}

#[test]
fn compaction_goes_on_through_wrong_starts_and_no_deleted_key_comes_back() {
    for clean in [true, false] {
        let (template, before, end) = once(lived_compacted(clean));
        for wrong in wrong_starts() {
            run(async {
                let what = format!("{}, clean: {clean}", wrong.name);
                let (disk, mut model) = (template.kill(1), before.clone());
                rename_all(&disk, wrong.before).await;
                let life = Life::start(&disk, &wrong.tiers).await;
                let log = life
                    .open_with(how_compacted(clean, end), compacted())
                    .await
                    .unwrap();
                log.set_high_watermark(log.durable_offset());
                for version in 10..14 {
                    put_all(&log, &mut model, version).await;
                    compact(&log).await;
                }
                // What is put on a path that is not one afterwards would be missed, and rightly.
                let stays = |dir| wrong.then.iter().any(|(_, dirs)| dirs.contains(dir));
                if wrong.tiers.iter().all(|(_, dirs)| dirs.iter().all(stays)) {
                    spread(&life, &log).await;
                }
                let end = log.log_end_offset().0;
                if clean {
                    log.close().await.unwrap();
                }
                let disk = disk.kill(10);
                rename_all(&disk, wrong.after).await;
                let life = Life::start(&disk, &wrong.then).await;
                let log = life
                    .open_with(how_compacted(clean, end), compacted())
                    .await
                    .unwrap();
                log.set_high_watermark(log.durable_offset());
                assert_eq!(living(&replayed(&log).await), living(&model), "{what}");
                compact(&log).await;
                compact(&log).await;
                assert_eq!(living(&replayed(&log).await), living(&model), "{what}");
            });
        }
    }
}

/// How a path goes while it is used: it answers nothing any more, or something else is mounted in
/// its place.
#[derive(Clone, Copy, Debug)]
enum PathLoss {
    Breaks,
    Unmounted,
}

#[test]
fn a_path_that_goes_under_way_and_returns_has_lost_nothing_and_nothing_deleted_is_back() {
    for (clean, goes) in [
        (true, PathLoss::Breaks),
        (false, PathLoss::Breaks),
        (true, PathLoss::Unmounted),
        (false, PathLoss::Unmounted),
    ] {
        run(async {
            let what = format!("{goes:?}, clean: {clean}");
            let (template, before, end) = lived_compacted(clean).await;
            let (disk, mut model) = (template.kill(1), before);
            let life = Life::start(&disk, &right()).await;
            let log = life
                .open_with(how_compacted(clean, end), compacted())
                .await
                .unwrap();
            log.set_high_watermark(log.durable_offset());
            put_all(&log, &mut model, 20).await;
            match goes {
                PathLoss::Breaks => disk.set_broken(Path::new("/c"), Some(ErrorKind::Other)),
                PathLoss::Unmounted => {
                    rename_all(&disk, &[("/c", "/x")]).await;
                    disk.create_dir(Path::new("/c")).await.unwrap();
                }
            }
            for version in 21..24 {
                put_all(&log, &mut model, version).await;
                log.roll().await.unwrap();
                log.save().await.unwrap();
                spread(&life, &log).await;
                try_compact(&log).await;
                assert!(log.failed().is_none(), "{what}");
            }
            match goes {
                PathLoss::Breaks => disk.set_broken(Path::new("/c"), None),
                PathLoss::Unmounted => rename_all(&disk, &[("/c", "/y"), ("/x", "/c")]).await,
            }
            // It is back: nothing has to be done for what is elsewhere.
            put_all(&log, &mut model, 24).await;
            try_compact(&log).await;
            assert!(log.failed().is_none(), "{what}");
            let end = log.log_end_offset().0;
            if clean {
                log.close().await.unwrap();
            }
            let disk = disk.kill(3);
            let life = Life::start(&disk, &right()).await;
            let log = life
                .open_with(how_compacted(clean, end), compacted())
                .await
                .unwrap();
            log.set_high_watermark(log.durable_offset());
            assert_eq!(log.log_start_offset(), Offset::ZERO, "{what}");
            assert_eq!(living(&replayed(&log).await), living(&model), "{what}");
            compact(&log).await;
            assert_eq!(living(&replayed(&log).await), living(&model), "{what}");
        });
    }
}

async fn try_compact(log: &SimLog) {
    let policy = CompactPolicy {
        min_lag_ms: 0,
        max_lag_ms: i64::MAX,
        delete_retention_ms: 0,
        dirty_ratio_min_ppm: 0,
    };
    let options = CompactOptions {
        map_bytes_max: 1 << 20,
        map_load_factor: 0.9,
        buffer_bytes: 64 << 10,
        bytes_per_second_max: f64::MAX,
    };
    for _ in 0..2 {
        // A round over what cannot be read or written comes to nothing.
        let _ = log.compact(&policy, &options).await;
    }
}

/// A start, its log opened, an append, and a stop; what was acknowledged.
async fn started(disk: &SimDisk, clean: bool, end: i64) -> Result<(), String> {
    let life = Life::try_start(disk, &right()).await?;
    let log = life
        .open(how(clean, end))
        .await
        .map_err(|error| error.to_string())?;
    log.set_high_watermark(log.durable_offset());
    log.close().await.map_err(|error| error.to_string())
}

#[test]
fn a_start_under_any_failure_of_the_disk_says_what_it_is_and_the_next_one_finds_everything() {
    const TOO_MANY_OPEN_FILES: i32 = 24;
    let effects = [
        Effect::Fail(ErrorKind::StorageFull),
        Effect::Errno(TOO_MANY_OPEN_FILES),
        Effect::Fail(ErrorKind::Other),
        Effect::Fail(ErrorKind::ReadOnlyFilesystem),
    ];
    for clean in [true, false] {
        let (template, before) = once(lived(clean));
        let end = before.last().unwrap().0 + 1;
        let operations = {
            let disk = template.kill(1);
            once(started(&disk, clean, end)).unwrap();
            disk.operations()
        };
        assert!(operations > 30, "{operations}");
        for at in 0..operations {
            let effect = effects[usize::try_from(at).unwrap() % effects.len()];
            let second = effects[(usize::try_from(at).unwrap() + 2) % effects.len()];
            for effect in [effect, second] {
                run(async {
                    let what = format!("{effect:?} at {at}, clean: {clean}");
                    let disk = template.kill(1);
                    disk.inject(Fault::at(at, effect));
                    if let Err(said) = started(&disk, clean, end).await {
                        assert!(said.contains('/'), "{what}: no file is named in: {said}");
                    }
                    disk.clear_faults();
                    let disk = disk.kill(2);
                    let life = Life::start(&disk, &right()).await;
                    for path in life.tiers.paths() {
                        assert_eq!(path.failed(), None, "{what}: {}", path.dir().display());
                    }
                    // A stop that came through says so; one that did not leaves what a crash
                    // leaves.
                    let log = life.open(how(false, 0)).await.unwrap();
                    assert_eq!(log.log_start_offset(), Offset::ZERO, "{what}");
                    assert!(everything(&log).await == before, "{what}");
                    append(&log).await;
                });
            }
        }
    }
}

#[test]
fn one_folder_that_is_missing_on_a_path_is_not_the_path() {
    for clean in [true, false] {
        let (template, before) = once(lived(clean));
        run(async {
            let end = before.last().unwrap().0 + 1;
            let disk = template.kill(1);
            rename_all(&disk, &[("/c/t-0", "/kept")]).await;
            let life = Life::start(&disk, &right()).await;
            let log = life.open(how(clean, end)).await.unwrap();
            for path in life.tiers.paths() {
                let others = "the logs of others are on it";
                assert_eq!(path.failed(), None, "{}: {others}", path.dir().display());
            }
            assert_eq!(log.log_start_offset(), Offset::ZERO);
            assert_eq!(log.log_end_offset(), Offset(end));
            drop(log);
            let disk = disk.kill(2);
            rename_all(&disk, &[("/kept", "/c/t-0")]).await;
            let life = Life::start(&disk, &right()).await;
            let log = life.open(how(clean, end)).await.unwrap();
            assert!(everything(&log).await == before, "clean: {clean}");
        });
    }
}

/// A log whose last records are on a path that is not there for two starts. `is_named`: the segment
/// behind them has its file, and it is empty.
fn miss_the_last_records(is_named: bool) {
    run(async {
        let disk = SimDisk::new(5);
        let metadata = Path::new("/a/__cluster_metadata-0/quorum-state");
        disk.put(metadata, b"{}").unwrap();
        let life = Life::start(&disk, &right()).await;
        let log = life.open(how(false, 0)).await.unwrap();
        while log.segment_count() < 4 {
            append(&log).await;
        }
        log.roll().await.unwrap();
        log.save().await.unwrap();
        let before = everything(&log).await;
        let newest = *log.tiers().sealed_bases().last().unwrap();
        spread(&life, &log).await;
        let end = log.log_end_offset().0;
        assert!(newest.0 < end);
        let disk = disk.kill(2);
        let there = format!("t-0/{:020}.log", newest.0);
        let of = |dir: &str| disk.contents(&Path::new(dir).join(&there)).is_ok();
        let dir = ["/b", "/c", "/d"].into_iter().find(|dir| of(dir)).unwrap();
        rename_all(&disk, &[(dir, "/x")]).await;
        if !is_named {
            let empty = format!("/a/t-0/{end:020}.log");
            disk.remove_file(Path::new(&empty)).await.unwrap();
            disk.sync_dir(Path::new("/a/t-0")).await.unwrap();
        }
        for _ in 0..2 {
            let life = Life::start(&disk, &right()).await;
            let opened = life.open(how(false, end)).await;
            if is_named {
                let log = opened.unwrap();
                assert_eq!(log.log_end_offset().0, end, "all before it was durable");
                continue;
            }
            // Where the segment ends is not known for certain: nothing may be put behind it.
            let said = opened.err().unwrap().to_string();
            assert!(said.contains(dir) && said.contains("not there"), "{said}");
        }
        rename_all(&disk, &[(dir, "/y"), ("/x", dir)]).await;
        let life = Life::start(&disk, &right()).await;
        let log = life.open(how(false, end)).await.unwrap();
        assert!(everything(&log).await == before);
        append(&log).await;
    });
}

#[test]
fn a_log_whose_last_records_are_on_an_absent_path_is_refused_by_name_and_loses_nothing() {
    miss_the_last_records(false);
}

#[test]
fn a_log_goes_on_in_the_segment_behind_what_is_on_an_absent_path() {
    miss_the_last_records(true);
}
