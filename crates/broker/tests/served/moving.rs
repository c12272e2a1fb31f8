//! Logs that move to another log directory while they are served, through failures and losses of
//! power.

use std::path::{Path, PathBuf};

use broker::log_dirs::OperatorConsent;
use platform::sim::{Effect, Fault, OpKind, SimDisk};
use platform::{Disk, Platform};
use wire::messages::alter_replica_log_dirs_request::{AlterReplicaLogDir, AlterReplicaLogDirTopic};
use wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use wire::messages::{
    AlterReplicaLogDirsRequest, DescribeLogDirsRequest, IncrementalAlterConfigsRequest,
};
use wire::types::ErrorCode;

use crate::directories::open_as;
use crate::harness::asks::{error, text, topic_name};
use crate::harness::batches::batch;
use crate::harness::{Cluster, Setup, life, try_life};
use crate::offsets::delete_before;
use crate::same_name::{cordon, moved_without_room_behind};

/// So that three of them fill a segment.
const VALUE_BYTES: usize = 400 << 10;
const PARTITION: i32 = 0;

pub(crate) fn two_directories() -> Setup {
    let mut setup = Setup::shards(2).with("log.segment.bytes", "1048576");
    setup.options.log_dirs = vec!["/a".into(), "/b".into()];
    setup
}

pub(crate) fn value(number: usize) -> String {
    format!("{number}{}", "x".repeat(VALUE_BYTES))
}

pub(crate) fn home(disk: &SimDisk, topic: &str) -> &'static str {
    let is_in = |dir: &&str| {
        let file = format!("{dir}/{topic}-{PARTITION}/partition.metadata");
        disk.contents(Path::new(&file)).is_ok()
    };
    ["/a", "/b"].into_iter().find(is_in).expect("it has a home")
}

pub(crate) fn other(dir: &str) -> &'static str {
    if dir == "/a" { "/b" } else { "/a" }
}

pub(crate) async fn alter(cluster: &Cluster, topic: &str, dir: &str) -> Option<ErrorCode> {
    let topic = AlterReplicaLogDirTopic::default()
        .with_name(topic_name(topic))
        .with_partitions(vec![PARTITION]);
    let dir = AlterReplicaLogDir::default()
        .with_path(text(dir))
        .with_topics(vec![topic]);
    let request = AlterReplicaLogDirsRequest::default().with_dirs(vec![dir]);
    let answer = cluster.ask(2, &request).await;
    error(answer.results[0].partitions[0].error_code)
}

/// Where the topic's only partition is listed: directory, and whether it is on its way there.
pub(crate) async fn listed(cluster: &Cluster, topic: &str) -> Vec<(String, bool)> {
    let request = DescribeLogDirsRequest::default().with_topics(None);
    let answer = cluster.ask(4, &request).await;
    let mut found = Vec::new();
    for dir in &answer.results {
        for known in dir
            .topics
            .iter()
            .filter(|known| known.name.as_str() == topic)
        {
            for partition in &known.partitions {
                found.push((dir.log_dir.to_string(), partition.is_future_key));
            }
        }
    }
    found
}

/// Passes time until the partition is in `dir` and nowhere else.
pub(crate) async fn until_in(cluster: &Cluster, topic: &str, dir: &str) {
    for _ in 0..10_000 {
        if listed(cluster, topic).await == [(dir.to_owned(), false)] {
            return;
        }
        cluster.pass_ms(10).await;
    }
    panic!("it stays in {:?}", listed(cluster, topic).await);
}

pub(crate) async fn names(cluster: &Cluster, dir: &str) -> Vec<String> {
    let entries = cluster.platform.disk().list(Path::new(dir)).await.unwrap();
    entries.into_iter().map(|entry| entry.name).collect()
}

#[test]
fn a_log_moves_while_it_is_written_and_nothing_acknowledged_is_missing() {
    let (disk, setup) = (SimDisk::new(1), two_directories());
    let acknowledged = life(&disk, &setup, async |cluster| {
        cluster.create("t", 1).await;
        let from = home(&disk, "t");
        let mut acknowledged = Vec::new();
        for number in 0..9 {
            cluster.produce("t", PARTITION, &[&value(number)]).await;
            acknowledged.push(value(number));
        }
        assert_eq!(alter(cluster, "t", other(from)).await, None);
        assert_eq!(alter(cluster, "t", other(from)).await, None, "asked twice");
        let both = listed(cluster, "t").await;
        assert!(both.contains(&(from.to_owned(), false)), "{both:?}");
        assert!(both.contains(&(other(from).to_owned(), true)), "{both:?}");
        let mut refused = 0;
        let mut number = 9;
        while listed(cluster, "t").await.len() > 1 {
            let records = batch(&[&value(number)]);
            match cluster.try_produce("t", PARTITION, records).await {
                Ok(_) => acknowledged.push(value(number)),
                Err(ErrorCode::NotLeaderOrFollower) => refused += 1,
                Err(code) => panic!("{code:?}"),
            }
            number += 1;
            cluster.pass_ms(20).await;
            assert!(number < 1000, "it never catches up");
        }
        assert!(acknowledged.len() > 9, "it served meanwhile");
        assert!(refused < 10, "{refused}");
        until_in(cluster, "t", other(from)).await;
        assert_eq!(cluster.values("t", PARTITION).await, acknowledged);
        cluster.produce("t", PARTITION, &["after"]).await;
        acknowledged.push("after".to_owned());
        // Checkpoints are written, and the old folder goes after its delay.
        cluster.pass_ms(120_000).await;
        let left = names(cluster, from).await;
        assert!(!left.iter().any(|name| name.starts_with("t-0")), "{left:?}");
        let moved = format!("{}/t-0/moved.metadata", other(from));
        assert!(disk.contents(Path::new(&moved)).is_err());
        cluster.stop().await;
        acknowledged
    });
    life(&disk, &setup.next(), async |cluster| {
        assert_eq!(cluster.values("t", PARTITION).await, acknowledged);
    });
}

/// Sets `replica.alter.log.dirs.io.max.bytes.per.second` of all brokers.
async fn pace(cluster: &Cluster, bytes_per_second: &str) {
    let entry = AlterableConfig::default()
        .with_name(text("replica.alter.log.dirs.io.max.bytes.per.second"))
        .with_value(Some(text(bytes_per_second)));
    let resource = AlterConfigsResource::default()
        .with_resource_type(4)
        .with_resource_name(text(""))
        .with_configs(vec![entry]);
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    let answer = cluster.ask(1, &request).await;
    assert_eq!(answer.responses[0].error_code, 0);
}

#[test]
fn a_move_goes_as_fast_as_the_setting_of_the_moment_lets_it() {
    let (disk, setup) = (SimDisk::new(1), two_directories());
    life(&disk, &setup, async |cluster| {
        cluster.create("t", 1).await;
        let from = home(&disk, "t");
        for number in 0..9 {
            cluster.produce("t", PARTITION, &[&value(number)]).await;
        }
        let moving = [(from.to_owned(), false), (other(from).to_owned(), true)];
        let still_moves = async || {
            let mut listed = listed(cluster, "t").await;
            listed.sort_by_key(|(_, future)| *future);
            listed == moving
        };
        pace(cluster, "0").await;
        assert_eq!(alter(cluster, "t", other(from)).await, None);
        cluster.pass_ms(3_600_000).await;
        assert!(still_moves().await, "at 0 it stands still");
        // More than 2 MB are to be copied so; the first step is free.
        pace(cluster, "10000").await;
        cluster.pass_ms(60_000).await;
        assert!(still_moves().await, "a minute is too short");
        pace(cluster, "1000000000").await;
        until_in(cluster, "t", other(from)).await;
        assert_eq!(cluster.values("t", PARTITION).await.len(), 9);
    });
}

#[test]
fn groups_and_their_positions_move_too() {
    let (disk, setup) = (SimDisk::new(1), two_directories());
    life(&disk, &setup, async |cluster| {
        cluster.create("t", 1).await;
        for group in ["g1", "g2", "g3", "g4", "g5"] {
            cluster.commit(group, "t", 0, 7).await;
        }
        let from = home(&disk, "__consumer_offsets");
        let to = other(from);
        assert_eq!(alter(cluster, "__consumer_offsets", to).await, None);
        until_in_first(cluster, to).await;
        for group in ["g1", "g2", "g3", "g4", "g5"] {
            assert_eq!(cluster.committed(group, "t", 0).await, 7, "{group}");
            cluster.commit(group, "t", 0, 8).await;
        }
    });
}

/// The same for the first partition of a topic with several.
async fn until_in_first(cluster: &Cluster, dir: &str) {
    let file = PathBuf::from(format!("{dir}/__consumer_offsets-0/partition.metadata"));
    for _ in 0..10_000 {
        if cluster.disk().contents(&file).is_ok() {
            // What was led in it is read again.
            cluster.pass_ms(1000).await;
            return;
        }
        cluster.pass_ms(10).await;
    }
    panic!("it does not move");
}

#[test]
fn moves_that_cannot_be_are_refused_with_kafkas_codes() {
    let (disk, mut setup) = (SimDisk::new(1), two_directories());
    setup.options.log_dirs.push("/c".into());
    let setup = setup.with("cordoned.log.dirs", "/c");
    let long = "x".repeat(249);
    life(&disk, &setup, async |cluster| {
        cluster.create("t", 1).await;
        cluster.create(&long, 1).await;
        let here = home(&disk, "t");
        for (topic, dir, expected) in [
            ("t", here, None),
            ("t", "/nowhere", Some(ErrorCode::LogDirNotFound)),
            ("t", "/c", Some(ErrorCode::InvalidReplicaAssignment)),
            ("missing", "/a", Some(ErrorCode::UnknownTopicOrPartition)),
            (&long, "/a", Some(ErrorCode::InvalidTopicException)),
        ] {
            assert_eq!(alter(cluster, topic, dir).await, expected, "{topic} {dir}");
        }
        assert_eq!(listed(cluster, "t").await, [(here.to_owned(), false)]);
        // Another directory fails: no log is moved to it, nor out of another while it is away.
        let mut elsewhere = (0..20).map(|number| format!("u{number}"));
        let there = loop {
            let topic = elsewhere.next().expect("topics are spread");
            cluster.create(&topic, 1).await;
            if home(&disk, &topic) != here {
                break topic;
            }
        };
        disk.inject(Fault {
            path_contains: Some(format!("{}/", other(here))),
            ..Fault::at_kind(0, OpKind::Sync, Effect::Fail(std::io::ErrorKind::Other))
        });
        let failed = cluster.try_produce(&there, PARTITION, batch(&["x"])).await;
        assert_eq!(failed, Err(ErrorCode::KafkaStorageError));
        let refused = alter(cluster, &there, here).await;
        assert_eq!(refused, Some(ErrorCode::KafkaStorageError));
    });
}

#[test]
fn the_directory_it_is_in_ends_a_move() {
    let (disk, setup) = (SimDisk::new(1), two_directories());
    life(&disk, &setup, async |cluster| {
        cluster.create("t", 1).await;
        for number in 0..9 {
            cluster.produce("t", PARTITION, &[&value(number)]).await;
        }
        let from = home(&disk, "t");
        disk.set_rate_of(Path::new(other(from)), Some(100_000));
        assert_eq!(alter(cluster, "t", other(from)).await, None);
        assert_eq!(alter(cluster, "t", from).await, None);
        until_in(cluster, "t", from).await;
        let left = names(cluster, other(from)).await;
        assert!(!left.iter().any(|name| name.starts_with("t-0")), "{left:?}");
        cluster.produce("t", PARTITION, &["alive"]).await;
    });
}

#[test]
fn a_copy_that_fails_leaves_the_log_where_it_was() {
    let (disk, setup) = (SimDisk::new(1), two_directories());
    life(&disk, &setup, async |cluster| {
        cluster.create("t", 1).await;
        for number in 0..4 {
            cluster.produce("t", PARTITION, &[&value(number)]).await;
        }
        let from = home(&disk, "t");
        disk.inject(Fault {
            path_contains: Some("-future/".into()),
            ..Fault::at_kind(1, OpKind::Write, Effect::Fail(std::io::ErrorKind::Other))
        });
        assert_eq!(alter(cluster, "t", other(from)).await, None);
        until_in(cluster, "t", from).await;
        assert_eq!(cluster.produce("t", PARTITION, &["alive"]).await, 4);
    });
}

/// What one life does before the power goes: three records, the deletion of the first one, then a
/// move. Two of them are in a sealed segment.
async fn until_the_power_goes(cluster: &Cluster, disk: &SimDisk, at: Option<u64>) -> u64 {
    cluster.create("t", 1).await;
    for number in 0..3 {
        cluster.produce("t", PARTITION, &[&value(number)]).await;
    }
    assert_eq!(delete_before(cluster, "t", 1).await, Ok(1));
    let from = home(disk, "t");
    if let Some(at) = at {
        disk.inject(Fault::at(at, Effect::PowerOff));
    }
    let before = disk.operations();
    alter(cluster, "t", other(from)).await;
    if at.is_none() {
        until_in(cluster, "t", other(from)).await;
    }
    cluster.pass_ms(2000).await;
    disk.operations() - before
}

#[test]
fn whenever_the_power_goes_the_log_is_whole_and_in_one_place() {
    let mut setup = two_directories().with("log.segment.delete.delay.ms", "100");
    setup.shards = 1;
    let whole = SimDisk::new(1);
    let operations = life(&whole, &setup, async |cluster| {
        until_the_power_goes(cluster, &whole, None).await
    });
    assert!(operations > 30, "{operations}");
    for at in 0..operations {
        let disk = SimDisk::new(1);
        life(&disk, &setup, async |cluster| {
            until_the_power_goes(cluster, &disk, Some(at)).await
        });
        // What a killed process leaves is what a crash may leave: now and then is enough.
        let killed = (at % 5 == 0).then(|| disk.kill(at));
        for next in [disk.crash(at)].into_iter().chain(killed) {
            let again = try_life(&next, &setup.next(), async |cluster| {
                let expected: Vec<_> = (1..3).map(value).collect();
                assert_eq!(cluster.offset("t", PARTITION, -2).await, 1, "at {at}");
                assert_eq!(cluster.values("t", PARTITION).await, expected, "at {at}");
                for _ in 0..10_000 {
                    if listed(cluster, "t").await.len() == 1 {
                        break;
                    }
                    cluster.pass_ms(10).await;
                }
                let places = listed(cluster, "t").await;
                assert!(matches!(places[..], [(_, false)]), "at {at}: {places:?}");
                cluster.pass_ms(1000).await;
                let mut folders = names(cluster, "/a").await;
                folders.extend(names(cluster, "/b").await);
                let ours = folders.iter().filter(|name| name.starts_with("t-0"));
                assert_eq!(ours.collect::<Vec<_>>(), ["t-0"], "at {at}");
                assert_eq!(cluster.produce("t", PARTITION, &["after"]).await, 3);
            });
            again.unwrap_or_else(|error| panic!("at {at}: {error}"));
        }
    }
}

#[test]
fn a_log_that_has_moved_is_served_from_there_when_the_directory_it_left_is_missing_for_one_start() {
    let disk = SimDisk::new(1);
    let setup = two_directories().with("cordoned.log.dirs", "/a");
    let values: Vec<_> = (0..9).map(value).collect();
    life(&disk, &setup, async |cluster| {
        cluster.create("t", 1).await;
        for value in &values {
            cluster.produce("t", PARTITION, &[value]).await;
        }
        cordon(cluster, "/b").await;
        moved_without_room_behind(cluster, &disk, "/a", 9).await;
    });
    let disk = disk.kill(2);
    let mut alone = two_directories().next();
    alone.options.log_dirs = vec!["/a".into()];
    let gone = OperatorConsent {
        forget_missing: true,
        ..OperatorConsent::default()
    };
    let opened = platform::runtime::run_simulated(open_as(&disk, &["/a"], gone));
    opened.unwrap().unwrap();
    let disk = [3, 4].into_iter().fold(disk, |disk, life_number| {
        // The second of them finds the note that the first has left.
        life(&disk, &alone, async |cluster| {
            assert_eq!(delete_before(cluster, "t", 6).await, Ok(6));
            cluster.pass_ms(120_000).await;
            assert!(cluster.values("t", PARTITION).await == values[6..]);
        });
        disk.kill(life_number)
    });
    let both = two_directories().next();
    life(&disk, &both, async |cluster| {
        assert!(cluster.values("t", PARTITION).await == values[6..]);
        cluster.pass_ms(120_000).await;
        let left = names(cluster, "/b").await;
        assert!(!left.iter().any(|name| name.starts_with("t-0")), "{left:?}");
        cluster.stop().await;
    });
    assert!(
        disk.contents(Path::new("/a/t-0/moved.metadata")).is_err(),
        "what it said is done"
    );
    life(&disk, &both.next(), async |cluster| {
        assert!(cluster.values("t", PARTITION).await == values[6..]);
    });
}
