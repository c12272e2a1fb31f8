//! A compacted log on three paths, which is written, moved down and up and compacted all the time,
//! and for every k: the k-th disk operation, or some from it on, find no room, no descriptor, a
//! failing or a read-only disk. What passes is tried again and succeeds in the same life; what
//! fails elsewhere is in no task's way; no key loses its newest record, and none that was deleted
//! comes back, then or after a start.

use std::io::ErrorKind;
use std::path::Path;
use std::task::Poll;
use std::time::Duration;

use platform::sim::{Effect, Fault, OpKind, SimPlatform};
use storage::tier::Mover;
use storage::tier::policy::PolicySettings;
use storage::{FailureKind, LogOptions, OpenAs, Result, StoreOptions};
use wire::batch::builder::BatchBuilder;
use wire::types::{LeaderEpoch, Offset, TimestampMs};

use super::failing::*;
use super::scene::*;
use crate::world::*;

const GB: u64 = 1 << 30;
const KEYS: u32 = 6;
const TRIES: usize = 6;
const TOO_MANY_OPEN_FILES: i32 = 24;

fn small_options() -> LogOptions {
    LogOptions {
        segment_bytes: 5 << 10,
        ..compacted()
    }
}

fn small_store() -> StoreOptions {
    StoreOptions {
        cache_bytes_max: 16 << 10,
        chunk_bytes: 8 << 10,
        allocate_step_bytes: 8 << 10,
        save_interval_bytes: 1 << 20,
        open_segments_max: 2,
        ..store_options()
    }
}

fn fresh() -> Scene {
    let tiers = vec![
        tier("fast", &[(DIR, GB)]),
        tier("bulk", &[(BULK, GB), (SECOND, GB)]),
    ];
    let scene = Scene::of(SimPlatform::new(11), small_store(), tiers);
    identify(&scene);
    for dir in [DIR, BULK, SECOND] {
        // A start has found them, with what says whose they are.
        let file = Path::new(dir).join("meta.properties");
        scene.disk().put(&file, b"").unwrap();
    }
    scene
}

/// What was put and acknowledged, and what was refused and may be there.
#[derive(Clone, Default)]
struct Book {
    model: Model,
    doubtful: Model,
    compacted: Option<Offset>,
    clean: bool,
    end: i64,
}

impl Book {
    /// Each key has its newest value, or that of the batch without an answer.
    async fn check(&self, log: &SimLog, what: &str) {
        let there = living(&replayed(log).await);
        let expected = living(&self.model);
        for key in (0..KEYS).map(|key| format!("k{key}")) {
            let value_in = |model: &Model| model.get(&key).cloned().flatten();
            let (found, known) = (value_in(&there), value_in(&expected));
            let doubted = self.doubtful.contains_key(&key) && found == value_in(&self.doubtful);
            let short = |value: &Option<String>| {
                let value = value.as_ref();
                value.map(|value| value.trim_start_matches('0').to_owned())
            };
            assert!(
                found == known || doubted,
                "{what}: {key} is {:?} and was {:?}",
                short(&found),
                short(&known)
            );
        }
    }
}

/// Puts all keys in one batch; those that `version` divides are deleted.
async fn put_all(log: &SimLog, book: &mut Book, version: u32) -> Result<()> {
    if let Some(error) = log.failed() {
        return Err(error);
    }
    let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch(-1));
    let mut put = Model::new();
    for key in 0..KEYS {
        let value =
            (!(key + version).is_multiple_of(3)).then(|| format!("{:0600}", 100 * version + key));
        let name = format!("k{key}");
        builder.add(
            TimestampMs(NOW_MS),
            Some(name.as_bytes()),
            value.as_ref().map(String::as_bytes),
            &[],
        );
        put.insert(name, value);
    }
    log.append(&builder.finish().unwrap(), EPOCH, NOW_MS)?;
    book.doubtful.clone_from(&put);
    log.flush().await?;
    log.set_high_watermark(log.durable_offset());
    book.model.extend(put);
    book.doubtful.clear();
    book.end = log.log_end_offset().0;
    Ok(())
}

/// What can be tried again is, with a pause.
async fn insist(scene: &Scene, mut attempt: impl AsyncFnMut() -> Result<()>) -> Result<()> {
    for _ in 1..TRIES {
        match attempt().await {
            Err(error) if error.is_passing() => {
                scene.clock().sleep(Duration::from_secs(1)).await;
            }
            result => return result,
        }
    }
    attempt().await
}

async fn sealed(scene: &Scene, log: &SimLog) -> Result<()> {
    insist(scene, async || log.roll().await).await?;
    insist(scene, async || log.save().await).await
}

async fn moved(scene: &Scene, settings: PolicySettings) {
    let mut mover = Mover::new(&scene.world.store, settings).unwrap();
    for _ in 0..4 {
        for moved in mover.turn(&scene.world.store).await {
            moved.await.unwrap();
        }
    }
}

async fn compact(scene: &Scene, log: &SimLog, book: &mut Book) -> Result<()> {
    let done = insist(scene, async || {
        log.compact(&policy(), &rounds()).await.map(drop)
    });
    let done = done.await;
    book.compacted = log.compaction().compacted_offset();
    done
}

/// A failure that is not the log's: on another path, and the rest does not depend on it.
fn unless_elsewhere(log: &SimLog, result: Result<()>) -> Result<()> {
    match result {
        Err(_) if log.failed().is_none() => Ok(()),
        result => result,
    }
}

async fn live(scene: &Scene, book: &mut Book, lenient: bool) -> Result<()> {
    let mut opened = scene.try_open(small_options(), false, 0, 0).await;
    for _ in 0..TRIES {
        if !opened.as_ref().is_err_and(storage::Error::is_passing) {
            break;
        }
        scene.clock().sleep(Duration::from_secs(1)).await;
        opened = scene.try_open(small_options(), false, 0, 0).await;
    }
    let log = opened?;
    let mut version = 0;
    for part in 0..3 {
        for _ in 0..2 {
            put_patiently(scene, &log, book, version).await?;
            version += 1;
        }
        sealed(scene, &log).await?;
        if part != 1 {
            moved(scene, eager()).await;
        }
        let done = compact(scene, &log, book).await;
        if lenient {
            unless_elsewhere(&log, done)?;
        } else {
            done?;
        }
    }
    for base in log.tiers().sealed_bases().into_iter().take(1) {
        log.tiers().ask_for_tier(base, 0);
    }
    moved(scene, still()).await;
    put_patiently(scene, &log, book, version).await?;
    insist(scene, async || log.close().await).await?;
    book.clean = true;
    Ok(())
}

/// A batch that was taken while there was no room is in the log: only its flush is waited for.
async fn put_patiently(scene: &Scene, log: &SimLog, book: &mut Book, version: u32) -> Result<()> {
    let mut result = put_all(log, book, version).await;
    for _ in 0..TRIES {
        if !result.as_ref().is_err_and(storage::Error::is_passing) {
            break;
        }
        scene.clock().sleep(Duration::from_secs(1)).await;
        result = put_all(log, book, version).await;
    }
    result
}

async fn reopen(scene: &Scene, book: &Book) -> SimLog {
    let how = OpenAs {
        clean: book.clean,
        recovery_point: Offset(if book.clean { book.end } else { 0 }),
        log_start: Offset::ZERO,
        compacted: Some(book.compacted.unwrap_or(Offset::ZERO)),
    };
    let store = &scene.world.store;
    let opened = store.open_log(
        Path::new(DIR),
        partition(),
        topic_id(),
        small_options(),
        how,
    );
    opened.await.unwrap()
}

/// The next start, with all paths: as before, each segment once, and it goes on.
async fn check(scene: &Scene, mut book: Book, what: &str) {
    let log = reopen(scene, &book).await;
    log.set_high_watermark(log.durable_offset());
    book.check(&log, what).await;
    sealed(scene, &log).await.unwrap();
    compact(scene, &log, &mut book).await.unwrap();
    moved(scene, eager()).await;
    book.check(&log, what).await;
    put_all(&log, &mut book, 50).await.unwrap();
    sealed(scene, &log).await.unwrap();
    compact(scene, &log, &mut book).await.unwrap();
    book.check(&log, what).await;
    let mut all = Vec::new();
    for folder in [FOLDER, BULK_FOLDER, SECOND_FOLDER] {
        all.extend(scene.bases_on(folder));
        let listed = platform::Disk::list(scene.disk(), Path::new(folder)).await;
        for entry in listed.unwrap_or_default() {
            let unfinished = [".swap", ".cleaned", ".moving", ".tmp", ".owed"];
            let left = unfinished.iter().any(|end| entry.name.ends_with(end));
            assert!(!left, "{what}: {folder}/{} is left", entry.name);
        }
    }
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count, "{what}: a segment has two copies");
    log.close().await.unwrap();
    book.clean = true;
    let next = scene.successor(scene.disk().crash(9), small_store());
    identify(&next);
    let log = reopen(&next, &book).await;
    book.check(&log, what).await;
}

/// A sync that fails is never tried again, unless it has not begun for want of a descriptor.
fn is_final(scene: &Scene, effect: Effect) -> bool {
    let mut struck = scene.disk().struck().into_iter();
    struck.any(|(of, _)| match of {
        OpKind::Sync => true,
        OpKind::SyncDir => !matches!(effect, Effect::Errno(_)),
        _ => false,
    })
}

async fn disturbed(faults: Vec<Fault>, effect: Effect, passes: bool, what: &str) {
    let scene = fresh();
    let mut book = Book::default();
    for fault in faults {
        scene.disk().inject(fault);
    }
    let result = live(&scene, &mut book, !passes).await;
    let struck = scene.disk().struck();
    let elsewhere = struck
        .iter()
        .all(|(_, path)| path.starts_with(BULK) || path.starts_with(SECOND));
    let what = format!("{what}: {:?}", struck.first());
    if elsewhere || (passes && !is_final(&scene, effect)) {
        result.unwrap_or_else(|error| panic!("{what}: {error}"));
    } else if let Err(error) = &result {
        let told = matches!(
            error.kind(),
            FailureKind::Full | FailureKind::Failed | FailureKind::Retry
        );
        assert!(told, "{what}: {error}");
    }
    // What is on a path that is gone cannot be read before it is back.
    if let Some(log) = scene.world.store.logs().first()
        && scene.disk().faults_left() == 0
    {
        book.check(log, &what).await;
    }
    scene.disk().clear_faults();
    let next = scene.successor(scene.disk().crash(1), small_store());
    identify(&next);
    check(&next, book, &what).await;
}

fn operations_of_a_life() -> u64 {
    simulate(async {
        let scene = fresh();
        let mut book = Book::default();
        live(&scene, &mut book, false).await.unwrap();
        let moves: u64 = scene
            .tiers
            .paths()
            .iter()
            .map(|path| path.came_down().0)
            .sum();
        assert!(moves >= 3, "{moves} moves");
        assert!(book.compacted.unwrap() > Offset(30), "{:?}", book.compacted);
        scene.disk().operations()
    })
}

/// Every third operation, from `first` on: most are appends, which are alike, and each kind of
/// trouble begins elsewhere.
fn each(effect: Effect, passes: bool, first: u64) {
    for k in (first..operations_of_a_life()).step_by(3) {
        let what = format!("{effect:?} at {k}");
        simulate(disturbed(vec![Fault::at(k, effect)], effect, passes, &what));
    }
}

/// The life up to the `k`-th disk operation, where it is dropped; returns the recovery point then.
async fn live_until(scene: &Scene, book: &mut Book, k: u64) -> i64 {
    let mut point = 0;
    let mut life = Box::pin(live(scene, book, false));
    std::future::poll_fn(|context| {
        context.waker().wake_by_ref();
        let over = life.as_mut().poll(context).is_ready();
        let points = scene.world.store.points(Path::new(DIR));
        point = points.first().map_or(point, |log| log.recovery_point.0);
        if over || scene.disk().operations() >= k {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    point
}

#[test]
fn what_a_kill_leaves_while_moved_segments_are_compacted_is_no_damage() {
    for k in 0..operations_of_a_life() {
        simulate(async {
            let scene = fresh();
            let mut book = Book::default();
            let point = live_until(&scene, &mut book, k).await;
            let image = scene.disk().kill(k);
            let put = |name: String, text: &str| {
                image.put(Path::new(&name), text.as_bytes()).unwrap();
            };
            for dir in [DIR, BULK, SECOND] {
                let identity = "version=1\nnode.id=1\ncluster.id=c\n";
                put(format!("{dir}/meta.properties"), identity);
            }
            // The latest that a checkpoint can say: what was durable.
            let points = format!("0\n1\norders 0 {point}\n");
            put(format!("{DIR}/recovery-point-offset-checkpoint"), &points);
            put(
                format!("{DIR}/cleaner-offset-checkpoint"),
                "0\n1\norders 0 0\n",
            );
            if book.clean {
                let mark = "{\"version\":0,\"brokerEpoch\":1}";
                put(format!("{DIR}/.kafka_cleanshutdown"), mark);
            }
            let dirs = [DIR.into(), BULK.into(), SECOND.into()];
            let report = storage::check::check(&image, &dirs).await.unwrap();
            // A write that is torn anywhere is damage, which a kill of a process does not leave.
            let damage = report.findings.iter().filter(|one| {
                let of_moves = ["the same segment is in", "in none of the directories"];
                let is_damage = one.severity == storage::check::Severity::Damage;
                is_damage && of_moves.iter().any(|what| one.what.contains(what))
            });
            let damage: Vec<_> = damage.collect();
            assert!(damage.is_empty(), "at {k}: {damage:?}");
        });
    }
}

#[test]
fn no_room_at_any_operation_of_moves_and_compaction_passes_by_itself() {
    each(Effect::Fail(ErrorKind::StorageFull), true, 0);
}

#[test]
fn without_room_for_a_new_name_at_home_no_copy_that_has_moved_comes_back() {
    let effect = Effect::Fail(ErrorKind::StorageFull);
    for skip in 0..64 {
        let fault = Fault {
            path_contains: Some(FOLDER.into()),
            ..Fault::at_kind(skip, OpKind::Rename, effect)
        };
        let what = format!("rename {skip}");
        simulate(disturbed(vec![fault], effect, true, &what));
    }
}

#[test]
fn no_descriptor_at_any_operation_of_moves_and_compaction_passes_by_itself() {
    each(Effect::Errno(TOO_MANY_OPEN_FILES), true, 1);
}

#[test]
fn a_failure_of_any_operation_of_moves_and_compaction_loses_no_key() {
    each(Effect::Fail(ErrorKind::Other), false, 2);
}

#[test]
fn a_read_only_moment_at_any_operation_of_moves_and_compaction_loses_no_key() {
    each(Effect::Fail(ErrorKind::ReadOnlyFilesystem), false, 0);
}

#[test]
fn a_path_that_dies_at_any_operation_is_in_nobodys_way_and_comes_back_whole() {
    for kind in [ErrorKind::Other, ErrorKind::StorageFull] {
        for k in (0..240).step_by(5) {
            let effect = Effect::Fail(kind);
            let fault = Fault {
                path_contains: Some("/bulk".into()),
                ..Fault::at(k, effect)
            };
            let what = format!("{kind:?} from operation {k} of the slow paths on");
            simulate(disturbed(vec![fault; 300], effect, false, &what));
        }
    }
}
