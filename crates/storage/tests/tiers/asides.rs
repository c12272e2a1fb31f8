//! What was set aside on a path never takes the place of a segment that was deleted, cut off or
//! compacted there, nor of one that is only begun: at every operation the process is killed, or the
//! power goes.

use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::task::Poll;

use platform::disk::Disk;
use storage::{CompactOptions, CompactPolicy, LogOptions, Result};
use wire::types::Offset;

use super::scene::*;
use crate::world::*;

const GB: u64 = 1 << 30;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Change {
    Retain,
    Cut,
    StartAnew,
    Compact,
    Begin,
}

fn small() -> LogOptions {
    LogOptions {
        segment_bytes: 8 << 10,
        ..options()
    }
}

fn options_of(change: Change) -> LogOptions {
    let compact = change == Change::Compact;
    LogOptions {
        retention_bytes: (change == Change::Retain).then_some(1),
        segment_bytes: if compact { 1 << 20 } else { 8 << 10 },
        delete: !compact,
        compact,
        ..small()
    }
}

/// Good batches of a segment of that base, of another history.
fn other_batches(base: i64) -> Vec<u8> {
    let mut bytes = batch(base + 1000, 2, 500).to_vec();
    bytes[..8].copy_from_slice(&base.to_be_bytes());
    bytes[12..16].copy_from_slice(&1_i32.to_be_bytes());
    bytes
}

/// A log with most of its segments on the second tier, with something set aside beside each, and
/// beside the next.
async fn left(change: Change) -> (Scene, i64) {
    // Without room on the first tier the next segment begins on the second.
    let fast = if change == Change::Begin { 1 } else { GB };
    let scene = Scene::new(fast, GB);
    let identity = Path::new("/bulk/meta.properties");
    scene.disk().put(identity, b"version=1\n").unwrap();
    let log = scene.open(small()).await;
    fill(&log, 4).await;
    scene.settle(eager()).await;
    let end = log.log_end_offset().0;
    log.close().await.unwrap();
    let mut bases = scene.bases_on(BULK_FOLDER);
    assert!(bases.len() >= 4, "{bases:?}");
    bases.push(end);
    for base in bases {
        for suffix in ["aside", "77.aside"] {
            let file = PathBuf::from(format!("{BULK_FOLDER}/{base:020}.log.{suffix}"));
            scene.disk().put(&file, &other_batches(base)).unwrap();
        }
    }
    let disk = scene.disk().kill(1);
    (scene.successor(disk, store_options()), end)
}

async fn asides(scene: &Scene) -> usize {
    let entries = scene.disk().list(Path::new(BULK_FOLDER)).await.unwrap();
    let is_aside = |entry: &&platform::disk::Entry| entry.name.ends_with(".aside");
    entries.iter().filter(is_aside).count()
}

async fn make(log: &SimLog, change: Change) -> Result<()> {
    match change {
        Change::Retain => log.retain(NOW_MS).await.map(drop),
        Change::Cut => log.truncate_to(Offset(2)).await,
        Change::StartAnew => log.truncate_fully_and_start_at(Offset(500)).await,
        Change::Compact => {
            log.compaction().begin_compacting();
            let policy = CompactPolicy {
                min_lag_ms: 0,
                max_lag_ms: i64::MAX,
                delete_retention_ms: i64::MAX / 4,
                dirty_ratio_min_ppm: 0,
            };
            let options = CompactOptions {
                map_bytes_max: 1 << 20,
                map_load_factor: 0.9,
                buffer_bytes: 64 << 10,
                bytes_per_second_max: f64::MAX,
            };
            log.compact(&policy, &options).await.map(drop)
        }
        Change::Begin => {
            log.roll().await?;
            append(log, 2, 500);
            log.flush().await
        }
    }
}

/// Has the change made up to the `k`-th operation; true when it is done before.
async fn make_until(scene: &Scene, log: &SimLog, change: Change, k: u64) -> bool {
    let last = scene.disk().operations() + k;
    let mut made = Box::pin(make(log, change));
    poll_fn(|context| {
        context.waker().wake_by_ref();
        if made.as_mut().poll(context).map(Result::unwrap).is_ready() {
            return Poll::Ready(true);
        }
        if scene.disk().operations() >= last {
            return Poll::Ready(false);
        }
        Poll::Pending
    })
    .await
}

fn at_every_operation(change: Change) {
    simulate(async {
        for k in 1.. {
            let (scene, end) = left(change).await;
            let there = asides(&scene).await;
            let options = options_of(change);
            let log = scene.open(options.clone()).await;
            log.set_high_watermark(log.durable_offset());
            log.save().await.unwrap();
            assert_eq!((log.log_start_offset().0, log.log_end_offset().0), (0, end));
            let is_done = make_until(&scene, &log, change, k).await;
            for disk in [scene.disk().kill(k), scene.disk().crash(k)] {
                let next = scene.successor(disk, store_options());
                let log = next.open(options.clone()).await;
                let (start, end) = (log.log_start_offset().0, log.log_end_offset().0);
                assert_holds(&log, start, end).await;
                assert_eq!(asides(&next).await, there, "{change:?} {k}");
                log.close().await.unwrap();
            }
            if is_done {
                assert!(k > 4, "{change:?} has asked nothing of the disk");
                break;
            }
        }
    });
}

#[test]
fn segments_that_have_expired_do_not_come_back() {
    at_every_operation(Change::Retain);
}

#[test]
fn segments_that_were_cut_off_do_not_come_back() {
    at_every_operation(Change::Cut);
}

#[test]
fn segments_of_a_log_that_begins_anew_do_not_come_back() {
    at_every_operation(Change::StartAnew);
}

#[test]
fn segments_that_were_compacted_into_another_do_not_come_back() {
    at_every_operation(Change::Compact);
}

#[test]
fn a_segment_that_is_only_begun_has_no_records_of_another_history() {
    at_every_operation(Change::Begin);
}
