//! What lies in the place of a log's folder on another path and is not the log's: its old home, and
//! what does not say whose it is. It is the log's own trouble: its segments go elsewhere, nothing
//! of the folder is touched, and to others the path is what it was.

use std::future::poll_fn;
use std::path::Path;
use std::task::Poll;
use std::time::Duration;

use platform::Disk;
use platform::sim::SimPlatform;
use storage::checkpoint::partition_metadata;
use storage::{LogOptions, OpenAs};
use wire::types::{Offset, TopicPartition};

use super::scene::*;
use crate::world::*;

const GB: u64 = 1 << 30;
const OTHER: &str = "/other";
const OTHER_FOLDER: &str = "/other/orders-0";
const OLD: &[u8] = b"of another time";
const DAMAGED: &[u8] = b"???";

fn small() -> LogOptions {
    LogOptions {
        preallocate: false,
        reserve_bytes: 0,
        file_delete_delay_ms: 1,
        ..options()
    }
}

fn in_other(name: &str) -> String {
    format!("{OTHER_FOLDER}/{name}")
}

/// A fast tier with little room in the one directory and much in the other, where a folder of the
/// log's name is.
fn crowded(file: &str, bytes: &[u8]) -> Scene {
    let tiers = vec![
        tier("fast", &[(DIR, 200 << 10), (OTHER, GB)]),
        tier("bulk", &[(BULK, GB)]),
    ];
    let scene = Scene::of(SimPlatform::new(11), store_options(), tiers);
    for dir in [DIR, OTHER, BULK] {
        let identity = Path::new(dir).join("meta.properties");
        scene.disk().put(&identity, b"version=1\n").unwrap();
    }
    let put = |name: &str, bytes: &[u8]| {
        let file = in_other(name);
        scene.disk().put(Path::new(&file), bytes).unwrap();
    };
    put(file, bytes);
    put("00000000000000000000.log", OLD);
    scene
}

fn assert_is_untouched(scene: &Scene) {
    let old = in_other("00000000000000000000.log");
    assert_eq!(scene.disk().contents(Path::new(&old)).unwrap(), OLD);
    assert_eq!(scene.bases_on(OTHER_FOLDER), [0]);
}

/// A log of another topic, at home where the folder is.
async fn neighbour(scene: &Scene) -> SimLog {
    let name = TopicPartition {
        topic: std::sync::Arc::from("payments"),
        partition: 0,
    };
    let how = OpenAs {
        clean: false,
        recovery_point: Offset::ZERO,
        log_start: Offset::ZERO,
        compacted: None,
    };
    let id = wire::types::TopicId(wire::types::Uuid::from_u128(77));
    let opened = scene
        .world
        .store
        .open_log(Path::new(OTHER), name, id, small(), how);
    opened.await.unwrap()
}

async fn passes_over(file: &str, bytes: &[u8], is_old_home: bool) {
    let scene = crowded(file, bytes);
    let log = scene.open(small()).await;
    let beside = neighbour(&scene).await;
    let is_open = |what: &str| {
        let path = &scene.tiers.paths()[1];
        assert!(path.failed().is_none(), "{what}: {:?}", path.failed());
        assert!(path.free_bytes() > 0, "{what}");
    };
    for _ in 0..60 {
        produce(&log, 3, 3000).await;
        is_open("as others are written to");
        produce(&beside, 2, 3000).await;
    }
    assert!(!scene.bases_on(BULK_FOLDER).is_empty());
    assert!(scene.bases_on("/bulk/payments-0").is_empty());
    assert_is_untouched(&scene);
    log.set_high_watermark(log.durable_offset());
    log.save().await.unwrap();
    beside.save().await.unwrap();
    // What leaves a path goes past the folder, too.
    scene.tiers.paths()[0].set_draining(true);
    assert!(scene.settle(still()).await > 0);
    is_open("when a path is drained");
    assert!(scene.bases_on(FOLDER).is_empty());
    assert_is_untouched(&scene);
    assert_holds(&log, 0, 180).await;
    assert_holds(&beside, 0, 120).await;
    scene.tiers.paths()[0].set_draining(false);
    let mut end = 180;
    if is_old_home {
        // As it is retired.
        let gone = Path::new("/other/orders-0.1-delete");
        let renamed = scene.disk().rename(Path::new(OTHER_FOLDER), gone).await;
        renamed.unwrap();
        scene.clock().sleep(Duration::from_secs(61)).await;
        for _ in 0..60 {
            produce(&log, 3, 3000).await;
        }
        assert!(!scene.bases_on(OTHER_FOLDER).is_empty());
        end += 180;
        assert_holds(&log, 0, end).await;
    }
    let next = scene.successor(scene.disk().crash(2), store_options());
    let again = next.try_open(small(), false, 0, 0).await.unwrap();
    assert_holds(&again, 0, end).await;
    if !is_old_home {
        assert_is_untouched(&next);
    }
}

#[test]
fn an_old_home_of_a_log_takes_its_directory_from_no_other_log() {
    let owner = partition_metadata::encode(topic_id());
    simulate(passes_over("partition.metadata", &owner, true));
}

#[test]
fn a_folder_that_does_not_say_whose_it_is_takes_its_directory_from_no_log() {
    for file in ["partition.metadata", "tier.metadata"] {
        simulate(passes_over(file, DAMAGED, false));
    }
}

#[test]
fn with_nothing_but_a_folder_that_is_not_its_own_a_log_refuses_appends_until_it_is_gone() {
    simulate(async {
        let owner = partition_metadata::encode(topic_id());
        let scene = crowded("partition.metadata", &owner);
        scene.tiers.paths()[2].set_cordoned(true);
        let log = scene.open(small()).await;
        let mut last = None;
        for _ in 0..60 {
            let first = log.log_end_offset().0;
            let flushed = match log.append(&batch(first, 3, 3000), EPOCH, NOW_MS) {
                Ok(_) => log.flush().await,
                Err(error) => Err(error),
            };
            if let Err(error) = flushed {
                last = Some(error);
                break;
            }
        }
        let refused = last.expect("there is no room");
        assert_eq!(refused.kind(), storage::FailureKind::Full, "{refused}");
        assert!(scene.tiers.paths()[1].failed().is_none());
        let end = log.log_end_offset().0;
        let gone = Path::new("/other/orders-0.1-delete");
        let renamed = scene.disk().rename(Path::new(OTHER_FOLDER), gone).await;
        renamed.unwrap();
        scene.clock().sleep(Duration::from_secs(61)).await;
        produce(&log, 3, 3000).await;
        assert_holds(&log, 0, end + 3).await;
        assert!(!scene.bases_on(OTHER_FOLDER).is_empty());
    });
}

#[test]
fn an_old_home_that_is_retired_while_it_is_looked_at_is_nobodys_failure() {
    let owner = partition_metadata::encode(topic_id());
    let mut met = 0;
    for k in 1..60 {
        simulate(async {
            let scene = crowded("partition.metadata", &owner);
            let log = scene.open(small()).await;
            // The next batch is the first that goes elsewhere.
            for _ in 0..21 {
                produce(&log, 3, 3000).await;
            }
            assert_eq!(log.segment_count(), 3);
            let last = scene.disk().operations() + k;
            append(&log, 3, 3000);
            assert_eq!(log.segment_count(), 4);
            let mut flush = Box::pin(log.flush());
            let is_done = poll_fn(|context| {
                context.waker().wake_by_ref();
                if let Poll::Ready(flushed) = flush.as_mut().poll(context) {
                    flushed.unwrap();
                    return Poll::Ready(true);
                }
                if scene.disk().operations() >= last {
                    return Poll::Ready(false);
                }
                Poll::Pending
            })
            .await;
            if is_done {
                return;
            }
            met += 1;
            let gone = Path::new("/other/orders-0.1-delete");
            let renamed = scene.disk().rename(Path::new(OTHER_FOLDER), gone).await;
            renamed.unwrap();
            flush.await.unwrap();
            assert_eq!(scene.tiers.paths()[1].failed(), None, "after {k}");
            produce(&log, 3, 3000).await;
            assert_holds(&log, 0, log.log_end_offset().0).await;
        });
    }
    assert!(met > 5, "{met}");
}

#[test]
fn a_folder_that_cannot_say_whose_it_is_outlives_the_deletion_of_a_topic_of_its_name() {
    for file in ["partition.metadata", "tier.metadata"] {
        simulate(async {
            let scene = crowded(file, DAMAGED);
            let log = scene.open(small()).await;
            produce(&log, 3, 3000).await;
            log.delete().await.unwrap();
            scene.clock().sleep(Duration::from_mins(2)).await;
            assert_is_untouched(&scene);
        });
    }
}
