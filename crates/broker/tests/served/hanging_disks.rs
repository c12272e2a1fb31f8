//! A disk that does not answer: it is named, what is on other disks is served, saved and kept, and
//! a stop does not wait for it for ever.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use broker::hanging::{HangingDirs, watch};
use platform::sim::{Effect, Fault, OpKind, SimDisk};
use platform::task::{spawn, timeout};
use platform::{Disk, Platform};
use storage::checkpoint::partition_metadata;
use wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use wire::messages::{
    DescribeLogDirsRequest, IncrementalAlterConfigsRequest, InitProducerIdRequest,
};
use wire::types::{ErrorCode, Offset, TopicId, Uuid};

use crate::harness::asks::{error, outcome, produce, text};
use crate::harness::batches::{batch, keyed, large};
use crate::harness::{Cluster, Setup, life};
use crate::moving::{alter, home, names, other};
use crate::moving_tiers::tiers;

pub(crate) fn two_directories() -> Setup {
    let mut setup = Setup::shards(2);
    setup.options.log_dirs = vec!["/a".into(), "/b".into()];
    setup
}

/// Makes a topic of four partitions with a record each; gives those that are on the second disk,
/// and the others.
pub(crate) async fn spread(cluster: &Cluster, disk: &SimDisk) -> (Vec<i32>, Vec<i32>) {
    cluster.create("t", 4).await;
    for partition in 0..4 {
        cluster.produce("t", partition, &["a"]).await;
    }
    let is_in_b = |partition: &i32| {
        let file = format!("/b/t-{partition}/partition.metadata");
        disk.contents(Path::new(&file)).is_ok()
    };
    (0..4).partition(is_in_b)
}

#[test]
fn a_disk_that_hangs_is_named_until_it_answers_and_the_others_are_served_and_saved() {
    let disk = SimDisk::new(1);
    life(&disk, &two_directories(), async |cluster| {
        let (in_b, in_a) = spread(cluster, &disk).await;
        assert!(!in_b.is_empty() && !in_a.is_empty());
        let hanging = HangingDirs::default();
        let dirs = vec!["/a".into(), "/b".into()];
        spawn(watch(cluster.platform.clone(), 0, dirs, hanging.clone()));
        cluster.pass_ms(60_000).await;
        assert!(hanging.now().is_empty());
        disk.set_hanging(Path::new("/b"), true);
        let waits = spawn(cluster.asking(0, 9, &produce("t", -1, &[(in_b[0], batch(&["b"]))])));
        cluster.pass_ms(5_000).await;
        assert!(hanging.now().is_empty(), "slow is not hanging");
        cluster.pass_ms(7_000).await;
        let told = hanging.now();
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0].0, Path::new("/b"));
        assert!(told[0].1 >= Duration::from_secs(10), "{told:?}");
        for partition in &in_a {
            assert_eq!(cluster.produce("t", *partition, &["b"]).await, 1);
            assert_eq!(cluster.values("t", *partition).await, ["a", "b"]);
        }
        let points = Path::new("/a/replication-offset-checkpoint");
        let before = disk.contents(points).ok();
        cluster.pass_ms(5 * 60_000).await;
        let after = disk.contents(points).ok();
        assert!(
            after.is_some() && after != before,
            "its checkpoints wait for another disk"
        );
        let answer = waits.await.unwrap();
        let told = outcome(&answer.responses[0].partition_responses[0]);
        assert_eq!(told, Err(ErrorCode::RequestTimedOut));
        disk.set_hanging(Path::new("/b"), false);
        cluster.pass_ms(3_000).await;
        assert!(hanging.now().is_empty());
        assert_eq!(cluster.produce("t", in_b[0], &["c"]).await, 2);
        assert_eq!(cluster.values("t", in_b[0]).await, ["a", "b", "c"]);
    });
}

#[test]
fn a_stop_gives_up_a_disk_that_hangs_and_leaves_the_others_in_order() {
    let (disk, setup) = (SimDisk::new(1), two_directories());
    let (mut in_b, mut in_a) = (Vec::new(), Vec::new());
    life(&disk, &setup, async |cluster| {
        (in_b, in_a) = spread(cluster, &disk).await;
        disk.set_hanging(Path::new("/b"), true);
        spawn(cluster.asking(
            0,
            9,
            &produce("t", -1, &[(in_b[0], batch(&["unacknowledged"]))]),
        ));
        cluster.pass_ms(1_000).await;
        let stopped = timeout(Duration::from_mins(2), cluster.stop());
        assert!(stopped.await.is_ok(), "it waits for ever");
    });
    let marked = |dir: &str| disk.contents(&Path::new(dir).join(".kafka_cleanshutdown"));
    assert!(marked("/a").is_ok());
    assert!(marked("/b").is_err());
    let after = disk.kill(2);
    after.set_hanging(Path::new("/b"), false);
    life(&after, &setup.next(), async |cluster| {
        for partition in in_a.iter().chain(&in_b) {
            assert_eq!(cluster.values("t", *partition).await[0], "a");
        }
    });
}

/// What has to be answered while a disk hangs.
async fn soon<R>(what: &str, answer: impl Future<Output = R>) -> R {
    let answer = timeout(Duration::from_secs(30), answer).await;
    answer.unwrap_or_else(|_| panic!("{what} waits for the disk"))
}

/// Folders of logs of a topic, those that are being removed as well.
async fn folders(cluster: &Cluster, dir: &str, topic: &str) -> Vec<String> {
    let mut names = names(cluster, dir).await;
    names.retain(|name| name.starts_with(&format!("{topic}-")));
    names
}

#[test]
fn topics_come_and_go_and_producers_get_ids_beside_a_disk_that_hangs() {
    let disk = SimDisk::new(1);
    life(&disk, &two_directories(), async |cluster| {
        let (in_b, _) = spread(cluster, &disk).await;
        assert!(!in_b.is_empty());
        disk.set_hanging(Path::new("/b"), true);
        spawn(cluster.asking(0, 9, &produce("t", -1, &[(in_b[0], batch(&["b"]))])));
        cluster.pass_ms(11_000).await;
        soon("a new topic", cluster.create("u", 4)).await;
        for partition in 0..4 {
            assert_eq!(cluster.produce("u", partition, &["a"]).await, 0);
        }
        assert_eq!(folders(cluster, "/a", "u").await.len(), 4);
        let deleted = soon("a deletion", cluster.delete("t")).await;
        assert_eq!(deleted, None);
        soon("what comes after a deletion", cluster.create("v", 1)).await;
        for _ in 0..2000 {
            let request = InitProducerIdRequest::default()
                .with_transactional_id(None)
                .with_transaction_timeout_ms(1000)
                .with_producer_id((-1).into())
                .with_producer_epoch(-1);
            let given = soon("a producer", cluster.ask(4, &request)).await;
            assert_eq!(given.error_code, 0);
        }
        soon("a topic of the same name", cluster.create("t", 4)).await;
        let refused = soon("a record", cluster.try_produce("t", in_b[0], batch(&["c"]))).await;
        assert_eq!(refused, Err(ErrorCode::KafkaStorageError));
        disk.set_hanging(Path::new("/b"), false);
        cluster.pass_ms(3 * 60_000).await;
        assert!(folders(cluster, "/b", "t").await.is_empty());
        for partition in 0..4 {
            assert_eq!(cluster.produce("t", partition, &["new"]).await, 0);
            assert_eq!(cluster.values("t", partition).await, ["new"]);
        }
    });
}

/// Makes a topic as the disk begins to hang, and has it answer again after a while in which
/// `meanwhile` is done.
async fn made_while_it_begins(cluster: &Cluster, disk: &SimDisk, meanwhile: impl AsyncFnOnce()) {
    disk.set_hanging(Path::new("/b"), true);
    soon("a new topic", cluster.create("t", 4)).await;
    for partition in 0..4 {
        let produced = cluster.try_produce("t", partition, batch(&["a"]));
        let produced = soon("a record", produced).await;
        assert_eq!(produced, Err(ErrorCode::KafkaStorageError));
    }
    meanwhile().await;
    disk.set_hanging(Path::new("/b"), false);
    cluster.pass_ms(3 * 60_000).await;
}

/// New partitions are made in the second directory.
fn second_directory() -> Setup {
    two_directories().with("cordoned.log.dirs", "/a")
}

#[test]
fn a_topic_whose_disk_hangs_as_it_is_made_is_served_as_it_is_by_then_when_the_disk_answers() {
    let disk = SimDisk::new(1);
    life(&disk, &second_directory(), async |cluster| {
        let smaller = async || {
            let config = IncrementalAlterConfigsRequest::default().with_resources(vec![
                AlterConfigsResource::default()
                    .with_resource_type(2)
                    .with_resource_name(text("t"))
                    .with_configs(vec![
                        AlterableConfig::default()
                            .with_name(text("max.message.bytes"))
                            .with_value(Some(text("200"))),
                    ]),
            ]);
            let changed = soon("a setting", cluster.ask(1, &config)).await;
            assert_eq!(changed.responses[0].error_code, 0);
        };
        made_while_it_begins(cluster, &disk, smaller).await;
        for partition in 0..4 {
            assert_eq!(cluster.produce("t", partition, &["a"]).await, 0);
            assert_eq!(cluster.values("t", partition).await, ["a"]);
            let large = cluster.try_produce("t", partition, large(300)).await;
            assert_eq!(large, Err(ErrorCode::MessageTooLarge));
        }
    });
}

#[test]
fn a_topic_that_is_deleted_before_its_disk_has_made_it_leaves_nothing_there() {
    let disk = SimDisk::new(1);
    life(&disk, &second_directory(), async |cluster| {
        let delete = async || {
            assert_eq!(soon("a deletion", cluster.delete("t")).await, None);
            soon("what comes after it", cluster.create("u", 1)).await;
        };
        made_while_it_begins(cluster, &disk, delete).await;
        assert!(folders(cluster, "/b", "t").await.is_empty());
    });
}

#[test]
fn a_partition_there_was_no_room_for_is_tried_again_after_an_image_that_takes_its_time() {
    let disk = SimDisk::new(1);
    life(&disk, &Setup::shards(1), async |cluster| {
        let slow = Duration::from_millis(200);
        disk.set_latency(slow, slow);
        let full = Effect::Fail(ErrorKind::StorageFull);
        disk.inject(Fault::at_kind(0, OpKind::CreateDir, full));
        cluster.create("t", 60).await;
        assert_eq!(disk.faults_left(), 0);
        disk.set_latency(Duration::ZERO, Duration::ZERO);
        cluster.pass_ms(2 * 60_000).await;
        for partition in 0..60 {
            assert_eq!(cluster.produce("t", partition, &["a"]).await, 0);
        }
    });
}

/// Three in a segment.
const VALUE_BYTES: usize = 6000;

/// Seven records of a key in three segments.
async fn three_segments(cluster: &Cluster, topic: &str) {
    let value = vec![b'x'; VALUE_BYTES];
    for _ in 0..7 {
        let produced = cluster
            .try_produce(topic, 0, keyed(b"k", Some(&value)))
            .await;
        assert!(produced.is_ok(), "{produced:?}");
    }
}

/// A topic whose sealed segments are on the lower tier.
pub(crate) async fn on_lower_tier(cluster: &Cluster, disk: &SimDisk, config: &[(&str, &str)]) {
    cluster.create_with("t", 1, config).await;
    three_segments(cluster, "t").await;
    cluster.pass_ms(1000).await;
    alter(cluster, "t", "/c").await;
    cluster.pass_ms(6000).await;
    let moved = disk.contents(Path::new("/c/t-0/00000000000000000000.log"));
    assert!(moved.is_ok(), "{moved:?}");
}

#[test]
fn retention_goes_on_beside_a_lower_tier_that_hangs() {
    let disk = SimDisk::new(1);
    life(&disk, &tiers(), async |cluster| {
        let config = [("retention.ms", "600000")];
        on_lower_tier(cluster, &disk, &config).await;
        cluster.create_with("u", 1, &config).await;
        disk.set_hanging(Path::new("/c"), true);
        for _ in 0..2 {
            let before = cluster.offset("u", 0, -2).await;
            three_segments(cluster, "u").await;
            cluster.pass_ms(21 * 60_000).await;
            assert!(cluster.offset("u", 0, -2).await > before + 2);
        }
        disk.set_hanging(Path::new("/c"), false);
        cluster.pass_ms(11 * 60_000).await;
        assert!(cluster.offset("t", 0, -2).await > 2);
    });
}

#[test]
fn compaction_goes_on_beside_a_lower_tier_that_hangs() {
    let disk = SimDisk::new(1);
    life(&disk, &tiers(), async |cluster| {
        let config = [
            ("cleanup.policy", "compact"),
            ("min.cleanable.dirty.ratio", "0.01"),
            ("min.compaction.lag.ms", "600000"),
        ];
        on_lower_tier(cluster, &disk, &config).await;
        cluster.create_with("u", 1, &config).await;
        disk.set_hanging(Path::new("/c"), true);
        cluster.pass_ms(21 * 60_000).await;
        three_segments(cluster, "u").await;
        cluster.pass_ms(21 * 60_000).await;
        assert!(cluster.all("u", 0).await.len() < 7);
        disk.set_hanging(Path::new("/c"), false);
        cluster.pass_ms(60_000).await;
        assert!(cluster.all("t", 0).await.len() < 7);
    });
}

/// Makes a directory hang while a task waits for it.
fn hang(cluster: &Cluster, dir: &'static str) {
    cluster.disk().set_hanging(Path::new(dir), true);
    let waits = cluster.disk().clone();
    spawn(async move { drop(waits.list(Path::new(dir)).await) });
}

#[test]
fn a_new_topic_is_served_beside_a_path_that_hangs_that_its_log_has_nothing_on() {
    for hangs in ["/b", "/c"] {
        let disk = SimDisk::new(1);
        life(&disk, &tiers(), async |cluster| {
            hang(cluster, hangs);
            // It is not known yet.
            for topic in ["early", "late"] {
                soon("a new topic", cluster.create(topic, 4)).await;
                for partition in 0..4 {
                    let produced = cluster.produce(topic, partition, &["a"]);
                    assert_eq!(soon("a record", produced).await, 0);
                }
                cluster.pass_ms(15_000).await;
            }
            disk.set_hanging(Path::new(hangs), false);
            cluster.pass_ms(60_000).await;
            for topic in ["early", "late"] {
                assert_eq!(cluster.values(topic, 3).await, ["a"]);
            }
        });
    }
}

#[test]
fn directories_are_described_beside_one_that_hangs_whose_room_nobody_knows() {
    let disk = SimDisk::new(1);
    life(&disk, &two_directories(), async |cluster| {
        let (in_b, in_a) = spread(cluster, &disk).await;
        hang(cluster, "/b");
        // It is not known yet, and then it is.
        for _ in 0..2 {
            let request = DescribeLogDirsRequest::default().with_topics(None);
            let told = soon("the directories", cluster.ask(4, &request)).await;
            let dirs = told.results.iter().map(|dir| {
                let partitions = dir.topics.iter().map(|topic| topic.partitions.len());
                let is_known = dir.total_bytes >= 0;
                let partitions: usize = partitions.sum();
                (
                    dir.log_dir.as_str(),
                    error(dir.error_code),
                    is_known,
                    partitions,
                )
            });
            let failed = Some(ErrorCode::KafkaStorageError);
            let expected = [
                ("/a", None, true, in_a.len()),
                ("/b", failed, false, in_b.len()),
            ];
            assert_eq!(dirs.collect::<Vec<_>>(), expected);
        }
        disk.set_hanging(Path::new("/b"), false);
    });
}

#[test]
fn disks_that_hang_are_waited_for_together() {
    let disk = SimDisk::new(1);
    let mut setup = two_directories();
    let more = ["/c", "/d", "/e"].map(Into::into);
    setup.options.log_dirs.extend(more);
    life(&disk, &setup, async |cluster| {
        let hanging = ["/b", "/c", "/d", "/e"].map(Path::new);
        for dir in hanging {
            disk.set_hanging(dir, true);
        }
        let request = DescribeLogDirsRequest::default().with_topics(None);
        let told = timeout(Duration::from_secs(15), cluster.ask(4, &request)).await;
        let told = told.expect("as soon as the first is known to hang").results;
        let unknown = told.iter().filter(|dir| dir.total_bytes == -1);
        assert_eq!((told.len(), unknown.count()), (5, hanging.len()));
        for dir in hanging {
            disk.set_hanging(dir, false);
        }
    });
}

/// Segments of a topic that is no more, on the lower tier.
fn stale_part(disk: &SimDisk, folder: &str) {
    let (folder, other) = (Path::new(folder), TopicId(Uuid::from_u128(7)));
    let owner = folder.join(partition_metadata::PART_FILE);
    disk.put(&owner, &partition_metadata::encode(other))
        .unwrap();
    let segment = folder.join("00000000000000000000.log");
    disk.put(&segment, b"what was").unwrap();
}

/// How often that is there, under whatever name.
async fn kept(cluster: &Cluster, topic: &str) -> usize {
    let mut kept = 0;
    for folder in folders(cluster, "/c", topic).await {
        let file = format!("/c/{folder}/00000000000000000000.log");
        let found = cluster.disk().contents(Path::new(&file));
        kept += usize::from(found.is_ok_and(|bytes| bytes == b"what was"));
    }
    kept
}

#[test]
fn what_an_older_topic_of_its_name_left_on_a_path_that_hung_is_neither_a_new_topics_nor_lost() {
    let disk = SimDisk::new(1);
    disk.put(Path::new("/c/x"), b"").unwrap();
    let setup = tiers();
    life(&disk, &setup, async |cluster| {
        for topic in ["t", "u", "v"] {
            stale_part(&disk, &format!("/c/{topic}-0"));
        }
        hang(cluster, "/c");
        cluster.pass_ms(11_000).await;
        for topic in ["t", "u", "v"] {
            soon("a new topic", cluster.create(topic, 1)).await;
            soon("a record", three_segments(cluster, topic)).await;
        }
        disk.set_hanging(Path::new("/c"), false);
        cluster.pass_ms(1000).await;
        alter(cluster, "t", "/c").await;
        cluster.pass_ms(6000).await;
        assert_eq!(cluster.delete("u").await, None);
        cluster.pass_ms(60_000).await;
        for topic in ["t", "u", "v"] {
            assert_eq!(kept(cluster, topic).await, 1, "{topic}");
        }
        for topic in ["t", "v"] {
            assert_eq!(cluster.all(topic, 0).await.len(), 7);
        }
        cluster.stop().await;
    });
    life(&disk, &setup.next(), async |cluster| {
        for topic in ["t", "v"] {
            assert_eq!(cluster.all(topic, 0).await.len(), 7);
        }
    });
}

#[test]
fn a_log_that_was_cut_and_waits_for_a_path_that_hangs_keeps_no_directory_from_its_checkpoints() {
    let (disk, mut setup) = (SimDisk::new(1), tiers());
    setup.options.retention_check = Duration::from_hours(1);
    life(&disk, &setup, async |cluster| {
        cluster.create("u", 8).await;
        on_lower_tier(cluster, &disk, &[("retention.ms", "60000")]).await;
        cluster.pass_ms(2 * 60_000).await;
        let logs = cluster.brokers[0].store.logs();
        let mut logs = logs.into_iter();
        let log = logs.find(|log| log.topic_partition().topic.as_ref() == "t");
        let log = log.unwrap();
        log.truncate_to(Offset(4)).await.unwrap();
        disk.set_hanging(Path::new("/c"), true);
        let now = cluster.platform.clock().reading();
        spawn(async move { drop(log.retain(now).await) });
        cluster.pass_ms(1000).await;
        let files = ["/a", "/b"].map(|dir| format!("{dir}/replication-offset-checkpoint"));
        let written = || {
            files
                .each_ref()
                .map(|file| disk.contents(Path::new(file)).unwrap())
        };
        for _ in 0..3 {
            let before = written();
            for partition in 0..8 {
                cluster.produce("u", partition, &["a"]).await;
            }
            cluster.pass_ms(3 * 60_000).await;
            for (before, after) in before.iter().zip(&written()) {
                assert_ne!(before, after, "its checkpoints wait for another disk");
            }
        }
        soon("a new topic", cluster.create("v", 1)).await;
        assert_eq!(soon("a deletion", cluster.delete("v")).await, None);
        soon("what comes after a deletion", cluster.create("w", 1)).await;
        let stopped = timeout(Duration::from_mins(2), cluster.stop());
        assert!(stopped.await.is_ok(), "it waits for ever");
    });
}

#[test]
fn no_log_is_compacted_before_a_checkpoint_says_that_it_is() {
    let disk = SimDisk::new(1);
    life(&disk, &tiers(), async |cluster| {
        let config = [
            ("cleanup.policy", "compact"),
            ("min.cleanable.dirty.ratio", "0.01"),
        ];
        cluster.create_with("u", 1, &config).await;
        for _ in 0..4 {
            disk.inject(Fault {
                path_contains: Some("cleaner-offset-checkpoint".into()),
                ..Fault::at(0, Effect::Fail(ErrorKind::PermissionDenied))
            });
        }
        three_segments(cluster, "u").await;
        let is_said = |dir: &str| {
            let said = disk.contents(Path::new(&format!("{dir}/cleaner-offset-checkpoint")));
            said.is_ok_and(|rows| String::from_utf8_lossy(&rows).contains("u 0 "))
        };
        let mut is_compacted = false;
        for _ in 0..5 * 60 {
            cluster.pass_ms(1000).await;
            is_compacted = cluster.all("u", 0).await.len() < 7;
            assert!(!is_compacted || is_said("/a") || is_said("/b"));
        }
        assert!(is_compacted && disk.faults_left() == 0);
    });
}

/// Has the lower tier hang, and three logs at home to be compacted, on a disk that takes its time;
/// gives how many rounds are under way at most, at once, and how many logs are compacted in the
/// end.
fn slow_rounds(backoff_ms: &str, millis: u64) -> (usize, usize) {
    let (disk, setup) = (
        SimDisk::new(1),
        tiers().with("log.cleaner.backoff.ms", backoff_ms),
    );
    life(&disk, &setup, async |cluster| {
        let config = [
            ("cleanup.policy", "compact"),
            ("min.cleanable.dirty.ratio", "0.01"),
            ("min.compaction.lag.ms", "60000"),
        ];
        let topics = ["u", "v", "w"];
        for topic in topics {
            cluster.create_with(topic, 1, &config).await;
            three_segments(cluster, topic).await;
        }
        hang(cluster, "/c");
        cluster.pass_ms(30_000).await;
        let slow = Duration::from_millis(400);
        disk.set_latency(slow, slow);
        let is_under_way = |topic: &&str| {
            let made = |dir| format!("{dir}/{topic}-0/00000000000000000000.log.cleaned");
            let is_there = |dir| disk.contents(Path::new(&made(dir))).is_ok();
            is_there("/a") || is_there("/b")
        };
        let mut at_once = 0;
        for _ in 0..millis / 200 {
            cluster.pass_ms(200).await;
            let now = topics.iter().copied().filter(|it| is_under_way(it));
            at_once = at_once.max(now.count());
        }
        disk.set_latency(Duration::ZERO, Duration::ZERO);
        let mut compacted = 0;
        for topic in topics {
            compacted += usize::from(cluster.all(topic, 0).await.len() < 7);
        }
        (at_once, compacted)
    })
}

#[test]
fn compactions_beside_a_lower_tier_that_hangs_have_their_turns_and_go_on_one_after_the_other() {
    assert_eq!(slow_rounds("1000", 10 * 60_000), (1, 3));
    // All that are due at one time.
    assert_eq!(slow_rounds("600000", 19 * 60_000), (1, 3));
}

#[test]
fn a_stop_beside_a_disk_that_has_hung_for_long_waits_for_the_slow_ones_to_be_in_order() {
    let (disk, setup) = (SimDisk::new(1), two_directories());
    life(&disk, &setup, async |cluster| {
        let (in_b, _) = spread(cluster, &disk).await;
        disk.set_hanging(Path::new("/b"), true);
        spawn(cluster.asking(0, 9, &produce("t", -1, &[(in_b[0], batch(&["b"]))])));
        cluster.pass_ms(60_000).await;
        // Each log has more than one thing to do before it is closed: more than a stop waits for a
        // disk that hangs.
        let slow = Duration::from_secs(8);
        disk.set_latency(slow, slow);
        let stopped = timeout(Duration::from_mins(30), cluster.stop());
        assert!(stopped.await.is_ok(), "it waits for ever");
    });
    let marked = |dir: &str| disk.contents(&Path::new(dir).join(".kafka_cleanshutdown"));
    assert!(marked("/a").is_ok());
    assert!(marked("/b").is_err());
}

#[test]
fn a_log_is_not_moved_to_a_disk_that_hangs_and_others_move_elsewhere() {
    let mut setup = two_directories();
    setup.options.log_dirs.push("/d".into());
    let disk = SimDisk::new(1);
    life(&disk, &setup, async |cluster| {
        let mut topic = String::new();
        for number in 0..20 {
            topic = format!("t{number}");
            cluster.create(&topic, 1).await;
            cluster.produce(&topic, 0, &["a"]).await;
            if !folders(cluster, "/a", &topic).await.is_empty() {
                break;
            }
        }
        disk.set_hanging(Path::new("/b"), true);
        for _ in 0..2 {
            let refused = soon("a move", alter(cluster, &topic, "/b")).await;
            assert_eq!(refused, Some(ErrorCode::KafkaStorageError));
        }
        assert_eq!(soon("a move", alter(cluster, &topic, "/d")).await, None);
        cluster.pass_ms(60_000).await;
        assert_eq!(folders(cluster, "/d", &topic).await.len(), 1);
        assert_eq!(cluster.produce(&topic, 0, &["b"]).await, 1);
        disk.set_hanging(Path::new("/b"), false);
        cluster.pass_ms(60_000).await;
        assert!(folders(cluster, "/b", &topic).await.is_empty());
        assert_eq!(cluster.values(&topic, 0).await, ["a", "b"]);
    });
}

/// A topic with a record, whose log is on its way from one directory to the other; its first
/// directory begins to hang in the switch.
async fn hung_in_its_switch(cluster: &Cluster, disk: &SimDisk, from: &str, hangs: &str) -> String {
    let to = if from == "/a" { "/b" } else { "/a" };
    let mut topic = String::new();
    for number in 0..20 {
        topic = format!("t{number}");
        cluster.create(&topic, 1).await;
        cluster.produce(&topic, 0, &["a"]).await;
        if !folders(cluster, from, &topic).await.is_empty() {
            break;
        }
    }
    // Closing cuts the file; switching leaves a note beside the copy.
    let (of, at) = if hangs == to {
        (OpKind::Rename, "-future/moved.metadata".to_owned())
    } else {
        (OpKind::SetLen, format!("{from}/{topic}-0/"))
    };
    disk.inject(Fault {
        of: Some(of),
        path_contains: Some(at),
        ..Fault::at(0, Effect::Slow(Duration::from_secs(2)))
    });
    assert_eq!(alter(cluster, &topic, to).await, None);
    for _ in 0..600 {
        if disk.faults_left() == 0 {
            break;
        }
        cluster.pass_ms(100).await;
    }
    assert_eq!(disk.faults_left(), 0, "there was no switch");
    disk.set_hanging(Path::new(hangs), true);
    topic
}

/// From where a log moves, and what hangs. The metadata are in the first directory.
const SWITCHES: [(&str, &str); 2] = [("/a", "/b"), ("/b", "/b")];

#[test]
fn a_disk_that_begins_to_hang_while_a_log_is_switched_keeps_only_that_log_waiting() {
    for (from, hangs) in SWITCHES {
        let disk = SimDisk::new(1);
        life(&disk, &two_directories(), async |cluster| {
            let topic = hung_in_its_switch(cluster, &disk, from, hangs).await;
            soon("a new topic", cluster.create("u", 4)).await;
            assert_eq!(soon("a deletion", cluster.delete("u")).await, None);
            let refused = soon("a record", cluster.try_produce(&topic, 0, batch(&["b"])));
            assert_eq!(refused.await, Err(ErrorCode::KafkaStorageError));
            cluster.pass_ms(60_000).await;
            disk.set_hanging(Path::new(hangs), false);
            cluster.pass_ms(60_000).await;
            assert_eq!(cluster.produce(&topic, 0, &["b"]).await, 1);
            assert_eq!(cluster.values(&topic, 0).await, ["a", "b"]);
            assert_eq!(
                folders(cluster, "/b", &topic).await.is_empty(),
                from == "/b"
            );
            assert_eq!(
                folders(cluster, "/a", &topic).await.is_empty(),
                from == "/a"
            );
        });
    }
}

#[test]
fn a_topic_that_is_deleted_while_the_switch_of_its_log_hangs_leaves_nothing() {
    for (from, hangs) in SWITCHES {
        let disk = SimDisk::new(1);
        life(&disk, &two_directories(), async |cluster| {
            let topic = hung_in_its_switch(cluster, &disk, from, hangs).await;
            cluster.pass_ms(15_000).await;
            assert_eq!(soon("a deletion", cluster.delete(&topic)).await, None);
            soon("a topic of the same name", cluster.create(&topic, 1)).await;
            disk.set_hanging(Path::new(hangs), false);
            cluster.pass_ms(3 * 60_000).await;
            assert_eq!(cluster.produce(&topic, 0, &["new"]).await, 0);
            let mut all = folders(cluster, "/a", &topic).await;
            all.extend(folders(cluster, "/b", &topic).await);
            assert_eq!(all.len(), 1, "{all:?}");
        });
    }
}

#[test]
fn a_stop_while_the_switch_of_a_log_hangs_ends_and_loses_nothing() {
    for (from, hangs) in SWITCHES {
        let (disk, setup) = (SimDisk::new(1), two_directories());
        let mut topic = String::new();
        life(&disk, &setup, async |cluster| {
            topic = hung_in_its_switch(cluster, &disk, from, hangs).await;
            cluster.pass_ms(1000).await;
            let stopped = timeout(Duration::from_mins(2), cluster.stop());
            assert!(stopped.await.is_ok(), "it waits for ever");
        });
        let marked = |dir: &str| disk.contents(&Path::new(dir).join(".kafka_cleanshutdown"));
        assert!(marked("/a").is_ok());
        assert!(marked("/b").is_err());
        for after in [disk.kill(2), disk.crash(2)] {
            after.set_hanging(Path::new("/b"), false);
            life(&after, &setup.next(), async |cluster| {
                // The move is made again.
                cluster.pass_ms(10_000).await;
                assert_eq!(cluster.values(&topic, 0).await, ["a"]);
                assert_eq!(cluster.produce(&topic, 0, &["b"]).await, 1);
            });
        }
    }
}

#[test]
fn a_log_that_moves_beside_a_lower_tier_that_hangs_is_switched_when_that_answers() {
    let disk = SimDisk::new(1);
    life(&disk, &tiers(), async |cluster| {
        cluster.create("t", 1).await;
        cluster.produce("t", 0, &["a"]).await;
        let from = home(&disk, "t");
        hang(cluster, "/c");
        cluster.pass_ms(11_000).await;
        assert_eq!(alter(cluster, "t", other(from)).await, None);
        cluster.pass_ms(5000).await;
        soon("a new topic", cluster.create("u", 4)).await;
        assert_eq!(soon("a record", cluster.produce("t", 0, &["b"])).await, 1);
        disk.set_hanging(Path::new("/c"), false);
        cluster.pass_ms(60_000).await;
        assert_eq!(home(&disk, "t"), other(from));
        assert_eq!(cluster.values("t", 0).await, ["a", "b"]);
    });
}
