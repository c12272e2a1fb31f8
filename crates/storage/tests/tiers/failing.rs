//! A path that takes no changes any more, or is away, while its log is moved, compacted, cut down
//! and deleted from: what is elsewhere goes on, nothing that was deleted comes back, and nothing
//! acknowledged is out of sight.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use platform::sim::{Effect, Fault, OpKind};
use storage::{CompactOptions, CompactPolicy, LogOptions};
use wire::batch::builder::BatchBuilder;
use wire::batch::record::records;
use wire::types::{LeaderEpoch, Offset, TimestampMs};

use super::scene::*;
use crate::world::*;

const GB: u64 = 1 << 30;
pub(crate) const SECOND: &str = "/bulk2";
pub(crate) const SECOND_FOLDER: &str = "/bulk2/orders-0";

pub(crate) type Model = BTreeMap<String, Option<String>>;

pub(crate) fn compacted() -> LogOptions {
    LogOptions {
        segment_bytes: 8 << 10,
        delete: false,
        compact: true,
        file_delete_delay_ms: 1,
        ..options()
    }
}

pub(crate) fn policy() -> CompactPolicy {
    CompactPolicy {
        min_lag_ms: 0,
        max_lag_ms: i64::MAX,
        delete_retention_ms: 0,
        dirty_ratio_min_ppm: 0,
    }
}

pub(crate) fn rounds() -> CompactOptions {
    CompactOptions {
        map_bytes_max: 1 << 20,
        map_load_factor: 0.9,
        buffer_bytes: 128 << 10,
        bytes_per_second_max: f64::MAX,
    }
}

pub(crate) fn two_slow() -> Scene {
    let tiers = vec![
        tier("fast", &[(DIR, GB)]),
        tier("bulk", &[(BULK, GB), (SECOND, GB)]),
    ];
    Scene::of(platform::sim::SimPlatform::new(11), store_options(), tiers)
}

/// Puts a key, or deletes it.
async fn put(log: &SimLog, model: &mut Model, key: u32, value: Option<u32>) {
    let (key, value) = (
        format!("k{key}"),
        value.map(|value| format!("{value:0600}")),
    );
    let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch(-1));
    builder.add(
        TimestampMs(NOW_MS),
        Some(key.as_bytes()),
        value.as_ref().map(String::as_bytes),
        &[],
    );
    log.append(&builder.finish().unwrap(), EPOCH, NOW_MS)
        .unwrap();
    log.flush().await.unwrap();
    log.set_high_watermark(log.durable_offset());
    model.insert(key, value);
}

/// What a reader of all of the log ends up with.
pub(crate) async fn replayed(log: &SimLog) -> Model {
    let (mut at, end) = (log.log_start_offset(), log.log_end_offset());
    let mut model = Model::new();
    while at < end {
        let bytes = log.read(at, end, 1 << 20, true).await.unwrap().concat();
        if bytes.is_empty() {
            break;
        }
        let mut rest = bytes::Bytes::from(bytes);
        while let Some(header) = wire::batch::BatchHeader::parse(&rest) {
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

pub(crate) fn living(model: &Model) -> Model {
    let living = model.iter().filter(|(_, value)| value.is_some());
    living
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

async fn compact(log: &SimLog) {
    for _ in 0..3 {
        log.roll().await.unwrap();
        log.save().await.unwrap();
        let _ = log.compact(&policy(), &rounds()).await;
    }
}

/// Keys over some segments, moved to the first slow path.
async fn keyed(scene: &Scene, log: &SimLog, model: &mut Model) {
    for round in 0..3 {
        for key in 0..20 {
            put(log, model, key, Some(100 * round + key)).await;
        }
    }
    log.roll().await.unwrap();
    log.save().await.unwrap();
    scene.settle(eager()).await;
}

/// Gives each path an identity, as a start does.
pub(crate) fn identify(scene: &Scene) {
    for path in scene.tiers.paths() {
        path.set_identity(wire::types::Uuid::from_u128(1000 + u128::from(path.id.0)));
    }
}

#[test]
fn of_two_copies_the_one_that_was_moved_to_counts_whatever_became_of_it() {
    for fault in [OpKind::Rename, OpKind::SyncDir] {
        simulate(async {
            let scene = two_slow();
            let mut model = Model::new();
            let log = scene.try_open(compacted(), false, 0, 0).await.unwrap();
            keyed(&scene, &log, &mut model).await;
            let first = scene.bases_on(BULK_FOLDER);
            let from = if first.is_empty() {
                SECOND_FOLDER
            } else {
                BULK_FOLDER
            };
            let source = scene.tiers.paths()[if first.is_empty() { 2 } else { 1 }].clone();
            assert!(!scene.bases_on(from).is_empty());
            // Copies are made and switched to; the old ones keep their names, as on a path that has
            // turned read-only.
            let moved: Vec<_> = scene.bases_on(from);
            for base in &moved {
                for _ in 0..4 {
                    scene.disk().inject(Fault {
                        path_contains: Some(if fault == OpKind::Rename {
                            format!("{from}/{base:020}.log")
                        } else {
                            from.to_owned()
                        }),
                        ..Fault::at_kind(0, fault, Effect::Fail(ErrorKind::ReadOnlyFilesystem))
                    });
                }
            }
            source.set_draining(true);
            scene.settle(still()).await;
            assert!(source.failed().is_some(), "the path is told");
            assert!(log.failed().is_none(), "the log goes on");
            put(&log, &mut model, 0, None).await;
            for key in 1..20 {
                put(&log, &mut model, key, Some(9000 + key)).await;
            }
            compact(&log).await;
            assert_eq!(living(&replayed(&log).await), living(&model));
            let (end, start) = (log.log_end_offset().0, log.log_start_offset().0);
            log.close().await.unwrap();
            scene.disk().clear_faults();
            let next = scene.successor(scene.disk().kill(3), store_options());
            let log = next.try_open(compacted(), true, end, start).await.unwrap();
            assert_eq!(living(&replayed(&log).await), living(&model), "{fault:?}");
            compact(&log).await;
            assert_eq!(living(&replayed(&log).await), living(&model));
            // Each segment is in one place again.
            let mut all = next.bases_on(BULK_FOLDER);
            all.extend(next.bases_on(SECOND_FOLDER));
            all.extend(next.bases_on(FOLDER));
            let count = all.len();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), count);
        });
    }
}

#[test]
fn a_read_only_path_latches_no_log_that_writes_elsewhere() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        let mut model = Model::new();
        let log = scene.try_open(compacted(), false, 0, 0).await.unwrap();
        keyed(&scene, &log, &mut model).await;
        scene.disk().set_read_only_below(Path::new(BULK), true);
        for key in 0..20 {
            put(&log, &mut model, key, (key % 3 > 0).then_some(7000 + key)).await;
        }
        compact(&log).await;
        assert!(log.failed().is_none());
        assert!(
            scene.path(1).failed().is_some(),
            "the path says that it failed"
        );
        assert_eq!(living(&replayed(&log).await), living(&model));
        for key in 0..20 {
            put(&log, &mut model, key, Some(8000 + key)).await;
        }
        log.set_options(LogOptions {
            delete: true,
            retention_bytes: Some(16 << 10),
            ..compacted()
        });
        assert!(log.retain(NOW_MS).await.unwrap() > 0, "retention goes on");
        let start = log.log_start_offset();
        assert!(start > Offset::ZERO);
        put(&log, &mut model, 1, Some(1)).await;
        let end = log.log_end_offset();
        let before = replayed(&log).await;
        log.close().await.unwrap();
        // Written to again: what was deleted goes, and does not come back.
        let disk = scene.disk().kill(5);
        disk.set_read_only_below(Path::new(BULK), false);
        let next = scene.successor(disk, store_options());
        let log = next.try_open(compacted(), true, end.0, 0).await.unwrap();
        assert_eq!((log.log_start_offset(), log.log_end_offset()), (start, end));
        assert_eq!(replayed(&log).await, before);
        let stale = next
            .bases_on(BULK_FOLDER)
            .into_iter()
            .filter(|base| *base < start.0);
        assert_eq!(stale.count(), 0);
    });
}

#[test]
fn a_path_that_is_still_read_only_takes_nothing_at_home_out_of_sight() {
    for (clean, upto) in [(true, true), (false, true), (false, false)] {
        simulate(async {
            let scene = Scene::new(GB, GB);
            let log = scene.open(options()).await;
            fill(&log, 4).await;
            scene.settle(eager()).await;
            let end = log.log_end_offset().0;
            scene.disk().set_read_only_below(Path::new(BULK), true);
            let last = *scene.bases_on(BULK_FOLDER).last().unwrap();
            log.tiers().ask_for_tier(Offset(last), 0);
            scene.settle(still()).await;
            assert!(scene.bases_on(FOLDER).contains(&last), "it came home");
            assert!(scene.bases_on(BULK_FOLDER).contains(&last), "and stays");
            let disk = scene.disk().kill(1);
            let next = scene.successor(disk, store_options());
            let point = if upto { end } else { last + 3 };
            let log = next.try_open(options(), clean, point, 0).await.unwrap();
            assert_eq!((log.log_start_offset().0, log.log_end_offset().0), (0, end));
            assert_holds(&log, last, end).await;
        });
    }
}

#[test]
fn what_was_deleted_stays_so_while_its_path_is_still_read_only() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        let log = scene.open(options()).await;
        fill(&log, 4).await;
        scene.settle(eager()).await;
        scene.disk().set_read_only_below(Path::new(BULK), true);
        log.set_high_watermark(log.log_end_offset());
        log.set_options(LogOptions {
            retention_bytes: Some(0),
            ..options()
        });
        assert!(log.retain(NOW_MS).await.unwrap() > 0);
        let (start, end) = (log.log_start_offset().0, log.log_end_offset().0);
        assert!(start > 0 && scene.bases_on(BULK_FOLDER).len() == 4);
        // No checkpoint has the start of the log.
        let next = scene.successor(scene.disk().kill(1), store_options());
        let log = next.try_open(options(), false, end, 0).await.unwrap();
        assert_eq!(
            (log.log_start_offset().0, log.log_end_offset().0),
            (start, end)
        );
    });
}

#[test]
fn what_a_read_only_path_cannot_let_go_of_takes_nothing_else_of_it_out_of_sight() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        let log = scene.open(options()).await;
        fill(&log, 4).await;
        scene.settle(eager()).await;
        let bases = scene.bases_on(BULK_FOLDER);
        scene.disk().set_read_only_below(Path::new(BULK), true);
        log.set_high_watermark(log.log_end_offset());
        let file = |base: &i64| Path::new(BULK_FOLDER).join(format!("{base:020}.log"));
        let len = |base: &i64| scene.disk().contents(&file(base)).unwrap().len() as u64;
        let deleted: u64 = bases[..2].iter().map(len).sum();
        log.set_options(LogOptions {
            retention_bytes: Some(log.size_bytes() - deleted),
            ..options()
        });
        assert_eq!(log.retain(NOW_MS).await.unwrap(), 2);
        let (start, end) = (log.log_start_offset().0, log.log_end_offset().0);
        assert_eq!(start, bases[2]);
        assert_eq!(scene.bases_on(BULK_FOLDER), bases, "all are there");
        let next = scene.successor(scene.disk().kill(1), store_options());
        let log = next.try_open(options(), false, end, 0).await.unwrap();
        let found = (log.log_start_offset().0, log.log_end_offset().0);
        assert_eq!(found, (start, end));
        assert_holds(&log, start, end).await;
        assert!(
            next.path(1).failed().is_some(),
            "the path says that it failed"
        );
        // Written to again: what is owed is paid.
        let disk = next.disk().kill(2);
        disk.set_read_only_below(Path::new(BULK), false);
        let again = next.successor(disk, store_options());
        let log = again.try_open(options(), false, end, 0).await.unwrap();
        assert_holds(&log, start, end).await;
        assert_eq!(again.bases_on(BULK_FOLDER), bases[2..]);
    });
}

#[test]
fn retention_goes_on_while_a_path_is_away_and_what_it_deleted_stays_so() {
    for by_time in [false, true] {
        simulate(async {
            let scene = Scene::new(GB, GB);
            let log = scene.open(options()).await;
            fill(&log, 6).await;
            scene.settle(eager()).await;
            let end = log.log_end_offset().0;
            log.close().await.unwrap();
            let next = scene.successor(scene.disk().crash(1), store_options());
            next.path(1).fail("it is not mounted");
            let log = next.try_open(options(), true, end, 0).await.unwrap();
            log.set_high_watermark(log.durable_offset());
            fill(&log, 9).await;
            let now_ms = NOW_MS + 1_000_000;
            log.set_options(LogOptions {
                retention_bytes: (!by_time).then_some(100 << 10),
                retention_ms: by_time.then_some(1_000),
                ..options()
            });
            assert!(log.retain(now_ms).await.unwrap() >= 6);
            let (start, end) = (log.log_start_offset().0, log.log_end_offset().0);
            assert!(start > 0);
            assert_holds(&log, start, end).await;
            log.close().await.unwrap();
            // The start of the log is not in the checkpoint yet, and the path is there again.
            let again = next.successor(next.disk().crash(2), store_options());
            let log = again.try_open(options(), true, end, 0).await.unwrap();
            assert_eq!(
                (log.log_start_offset().0, log.log_end_offset().0),
                (start, end)
            );
            assert_holds(&log, start, end).await;
            assert!(
                again.bases_on(BULK_FOLDER).is_empty(),
                "what was deleted is gone"
            );
            for base in 0..start {
                assert!(!again.has(FOLDER, &format!("{base:020}.owed")));
                assert!(!again.has(FOLDER, &format!("{base:020}.away")));
            }
        });
    }
}

#[test]
fn compaction_goes_on_after_an_absent_path_and_no_tombstone_goes_before_it_is_back() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        let mut model = Model::new();
        let log = scene.try_open(compacted(), false, 0, 0).await.unwrap();
        for key in 0..40 {
            put(&log, &mut model, key, Some(key)).await;
        }
        compact(&log).await;
        scene.settle(eager()).await;
        let (end, clean_to) = (
            log.log_end_offset().0,
            log.compaction().compacted_offset().unwrap(),
        );
        log.close().await.unwrap();
        let open = async |scene: &Scene, end: i64| {
            let how = storage::OpenAs {
                clean: true,
                recovery_point: Offset(end),
                log_start: Offset::ZERO,
                compacted: Some(clean_to),
            };
            let store = &scene.world.store;
            let opened = store.open_log(Path::new(DIR), partition(), topic_id(), compacted(), how);
            opened.await.unwrap()
        };
        let next = scene.successor(scene.disk().crash(1), store_options());
        next.path(1).fail("it is not mounted");
        let log = open(&next, end).await;
        log.set_high_watermark(log.durable_offset());
        for round in 0..3 {
            for key in 0..20 {
                put(&log, &mut model, key, Some(1000 * round + key)).await;
            }
        }
        for key in 0..10 {
            put(&log, &mut model, key, None).await;
        }
        let before = log.size_bytes();
        compact(&log).await;
        assert!(
            log.size_bytes() < before / 2,
            "{} of {before}",
            log.size_bytes()
        );
        compact(&log).await;
        let end = log.log_end_offset().0;
        log.close().await.unwrap();
        let again = next.successor(next.disk().crash(2), store_options());
        let log = open(&again, end).await;
        log.set_high_watermark(log.durable_offset());
        assert_eq!(living(&replayed(&log).await), living(&model));
        compact(&log).await;
        compact(&log).await;
        assert_eq!(living(&replayed(&log).await), living(&model));
    });
}

#[test]
fn a_home_without_a_byte_left_is_relieved() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        identify(&scene);
        let log = scene.open(options()).await;
        fill(&log, 4).await;
        let end = log.log_end_offset().0;
        scene.disk().set_capacity_of(Path::new(DIR), None);
        let home = platform::Disk::space(scene.disk(), Path::new(DIR))
            .await
            .unwrap();
        scene
            .disk()
            .set_capacity_of(Path::new(DIR), Some(home.total - home.free));
        assert_eq!(scene.settle(eager()).await, 4);
        assert_eq!(scene.bases_on(BULK_FOLDER).len(), 4);
        // Also after a loss of power, and without the path.
        let next = scene.successor(scene.disk().crash(3), store_options());
        identify(&next);
        next.path(1).fail("it is not mounted");
        let log = next.try_open(options(), false, end, 0).await.unwrap();
        assert_eq!(log.log_start_offset().0, 0);
        let again = next.successor(next.disk().crash(4), store_options());
        identify(&again);
        let log = again.try_open(options(), false, end, 0).await.unwrap();
        assert_holds(&log, 0, end).await;
    });
}

/// A compacted log on a slow path that `tries` times does not give a segment the name that is all
/// it lacks.
async fn unfinished(scene: &Scene, model: &mut Model, tries: usize, errno: i32) -> SimLog {
    let log = scene.try_open(compacted(), false, 0, 0).await.unwrap();
    for key in 100..104 {
        put(&log, model, key, Some(key)).await;
    }
    keyed(scene, &log, model).await;
    for key in 0..20 {
        put(&log, model, key, (key % 3 > 0).then_some(7000 + key)).await;
    }
    log.roll().await.unwrap();
    log.save().await.unwrap();
    for _ in 0..tries {
        scene.disk().inject(Fault {
            path_contains: Some(format!("{BULK_FOLDER}/{:020}.log.swap", 0)),
            ..Fault::at_kind(0, OpKind::Rename, Effect::Errno(errno))
        });
    }
    let compacted = log.compact(&policy(), &rounds()).await;
    assert_eq!(scene.disk().faults_left(), 0, "it was refused");
    assert!(compacted.is_err());
    log
}

#[test]
fn what_a_compaction_could_not_name_is_kept_until_a_start_does() {
    simulate(async {
        let scene = Scene::new(GB, GB);
        let mut model = Model::new();
        // No room, for longer than it waits.
        let log = unfinished(&scene, &mut model, 40, 28).await;
        compact(&log).await;
        let end = log.log_end_offset().0;
        let next = scene.successor(scene.disk().kill(1), store_options());
        let log = next.try_open(compacted(), false, end, 0).await.unwrap();
        assert!(living(&replayed(&log).await) == living(&model));
    });
}

#[test]
fn what_a_compaction_could_not_name_does_not_come_back_when_it_has_been_deleted() {
    for tries in [1, 2] {
        simulate(async {
            let scene = Scene::new(GB, GB);
            let mut model = Model::new();
            let log = unfinished(&scene, &mut model, 1, 5).await;
            let end = log.log_end_offset();
            if tries > 1 {
                // Nor does its path let go of it.
                scene.disk().set_read_only_below(Path::new(BULK), true);
            }
            log.set_log_start(end).unwrap();
            while log.retain(NOW_MS).await.unwrap() > 0 {}
            let disk = scene.disk().kill(1);
            disk.set_read_only_below(Path::new(BULK), false);
            let next = scene.successor(disk, store_options());
            let log = next.try_open(compacted(), false, end.0, 0).await.unwrap();
            assert_eq!((log.log_start_offset(), log.log_end_offset()), (end, end));
            let names = ["log", "log.swap", "log.aside", "log.swap.aside"];
            let left = names.map(|name| next.has(BULK_FOLDER, &format!("{:020}.{name}", 0)));
            assert_eq!(left, [false; 4], "{tries}");
        });
    }
}
