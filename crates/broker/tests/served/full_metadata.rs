//! The disk of the metadata log refuses, fills up or fails at any moment of a change: what the
//! broker serves is what a restart finds, and a start succeeds.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use broker::image::{Image, ResourceType};
use platform::sim::{Effect, Fault, OpKind, SimDisk};
use wire::types::{ErrorCode, TopicId};

use crate::harness::{Cluster, Setup, life, try_life};

const LOG: &str = "__cluster_metadata-0";
const TOO_MANY_OPEN_FILES: i32 = 24;

/// What clients see of the metadata.
type SeenTopics = BTreeMap<String, (TopicId, usize, BTreeMap<String, String>)>;

fn seen(image: &Image) -> SeenTopics {
    let topics = image.topics().map(|topic| {
        let settings = image.settings(ResourceType::TOPIC, &topic.name);
        let settings = settings.cloned().unwrap_or_default();
        let seen = (topic.id, topic.partitions.len(), settings);
        (topic.name.to_string(), seen)
    });
    topics.collect()
}

/// Changes that clients ask for, each until it is done; false when the log takes no more.
async fn change(cluster: &Cluster) -> bool {
    let config = [("retention.ms", "5000")];
    for (topic, partitions) in [("a", 2), ("b", 1), ("c", 3)] {
        let made = async || cluster.try_create(topic, partitions, &config).await;
        if !until(cluster, made, ErrorCode::TopicAlreadyExists).await {
            return false;
        }
    }
    for topic in ["a", "c"] {
        let gone = async || cluster.delete(topic).await;
        if !until(cluster, gone, ErrorCode::UnknownTopicOrPartition).await {
            return false;
        }
    }
    let made = async || cluster.try_create("a", 1, &[]).await;
    until(cluster, made, ErrorCode::TopicAlreadyExists).await
}

async fn until(
    cluster: &Cluster,
    ask: impl AsyncFn() -> Option<ErrorCode>,
    done: ErrorCode,
) -> bool {
    for _ in 0..6 {
        match ask().await {
            None => return true,
            Some(code) if code == done => return true,
            Some(ErrorCode::KafkaStorageError | ErrorCode::RequestTimedOut) => {}
            Some(other) => panic!("{other:?}"),
        }
        cluster.pass_ms(2000).await;
    }
    false
}

fn faults(of: OpKind, nth: u64, effect: Effect, count: usize) -> Vec<Fault> {
    let fault = Fault {
        path_contains: Some(LOG.to_owned()),
        ..Fault::at_kind(nth, of, effect)
    };
    // Those after the first one strike at the tries that follow.
    vec![fault; count]
}

/// One life with faults, and the one after it. True when all changes came through.
fn lives(faults: Vec<Fault>, what: &str) -> bool {
    let (disk, setup) = (SimDisk::new(1), Setup::shards(1));
    let (done, before, disk) = life(&disk, &setup, async |cluster| {
        for fault in faults {
            cluster.disk().inject(fault);
        }
        let done = change(cluster).await;
        cluster.disk().clear_faults();
        cluster.pass_ms(10_000).await;
        let before = seen(&cluster.brokers[0].image());
        (done, before, cluster.disk().kill(1))
    });
    let after = try_life(&disk, &setup.next(), async |cluster| {
        seen(&cluster.brokers[0].image())
    });
    let after = after.unwrap_or_else(|error| panic!("{what}: no start: {error}"));
    if done {
        assert_eq!(after, before, "{what}");
    } else {
        // The log failed under one change, and its client got an error: all others stand.
        let names = before.keys().chain(after.keys());
        let differ = names.filter(|name| before.get(*name) != after.get(*name));
        let differ: std::collections::BTreeSet<_> = differ.collect();
        assert!(differ.len() <= 1, "{what}: {before:?} became {after:?}");
    }
    done
}

#[test]
fn without_room_at_any_write_of_the_metadata_log_nothing_is_lost_or_comes_back() {
    for of in [OpKind::Write, OpKind::Create, OpKind::Allocate] {
        for nth in 0..12 {
            for count in [1, 3] {
                let what = format!("{of:?} {nth} x {count}");
                let effect = Effect::Fail(ErrorKind::StorageFull);
                let faults = faults(of, nth, effect, count);
                assert!(
                    lives(faults, &what),
                    "{what}: not served when there is room"
                );
            }
        }
    }
}

#[test]
fn without_a_descriptor_for_the_metadata_log_nothing_is_lost_or_comes_back() {
    let of = [
        OpKind::Write,
        OpKind::Sync,
        OpKind::Create,
        OpKind::Open,
        OpKind::Allocate,
        OpKind::SyncDir,
        OpKind::Rename,
        OpKind::SetLen,
    ];
    for of in of {
        for nth in 0..8 {
            for count in [1, 3] {
                let what = format!("{of:?} {nth} x {count}");
                let effect = Effect::Errno(TOO_MANY_OPEN_FILES);
                let done = lives(faults(of, nth, effect, count), &what);
                // Whether a sync that failed has synced is not known.
                assert!(done || of == OpKind::Sync, "{what}: not served afterwards");
            }
        }
    }
}

#[test]
fn whatever_fails_under_the_metadata_log_a_restart_finds_what_was_served() {
    let of = [
        OpKind::Write,
        OpKind::Sync,
        OpKind::Create,
        OpKind::Allocate,
        OpKind::SyncDir,
        OpKind::Rename,
        OpKind::SetLen,
    ];
    for of in of {
        for nth in 0..8 {
            for kind in [ErrorKind::Other, ErrorKind::ReadOnlyFilesystem] {
                let what = format!("{of:?} {nth} {kind:?}");
                lives(faults(of, nth, Effect::Fail(kind), 1), &what);
            }
        }
    }
}

#[test]
fn topics_deleted_on_a_full_disk_are_gone_once_there_is_room_and_the_broker_starts() {
    let (disk, setup) = (SimDisk::new(1), Setup::shards(2));
    let disk = life(&disk, &setup, async |cluster| {
        let names: Vec<String> = (0..300).map(|at| format!("topic-{at}")).collect();
        for name in &names {
            cluster.create(name, 1).await;
        }
        cluster.disk().set_capacity_bytes(Some(1));
        for name in &names {
            let code = cluster.delete(name).await;
            assert!(
                matches!(
                    code,
                    None | Some(ErrorCode::KafkaStorageError | ErrorCode::RequestTimedOut)
                ),
                "{code:?}"
            );
            // An operator who has seen enough of them.
            if code == Some(ErrorCode::KafkaStorageError) {
                break;
            }
        }
        cluster.disk().set_capacity_bytes(None);
        cluster.pass_ms(5000).await;
        for name in &names {
            let code = cluster.delete(name).await;
            assert!(
                matches!(code, None | Some(ErrorCode::UnknownTopicOrPartition)),
                "{name}: {code:?}"
            );
        }
        assert!(seen(&cluster.brokers[0].image()).is_empty());
        cluster.disk().kill(1)
    });
    life(&disk, &setup.next(), async |cluster| {
        assert!(seen(&cluster.brokers[0].image()).is_empty());
    });
}

#[test]
fn a_change_whose_client_is_gone_is_made_all_the_same() {
    let (disk, setup) = (SimDisk::new(1), Setup::shards(2));
    let (before, disk) = life(&disk, &setup, async |cluster| {
        cluster.create("a", 1).await;
        cluster.disk().set_latency(
            std::time::Duration::from_millis(50),
            std::time::Duration::from_millis(50),
        );
        let asked = platform::task::timeout(
            std::time::Duration::from_millis(20),
            cluster.try_create("b", 1, &[]),
        );
        assert!(asked.await.is_err(), "the disk is too fast for the test");
        cluster.pass_ms(10_000).await;
        let before = seen(&cluster.brokers[0].image());
        assert!(before.contains_key("b"), "appended, and not replayed");
        (before, cluster.disk().kill(1))
    });
    life(&disk, &setup.next(), async |cluster| {
        assert_eq!(seen(&cluster.brokers[0].image()), before);
    });
}
