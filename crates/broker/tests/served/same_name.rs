//! A topic is made again under the name of one that was deleted, while something of the old one's
//! log is still there.

use std::path::Path;
use std::time::Duration;

use platform::sim::{Effect, Fault, OpKind, SimDisk};
use wire::messages::IncrementalAlterConfigsRequest;
use wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use wire::types::ErrorCode;

use crate::harness::asks::text;
use crate::harness::batches::{batch, large};
use crate::harness::{Cluster, Setup, life};
use crate::moving::{alter, home, names, other, two_directories};
use crate::moving_tiers::tiers;
use crate::offsets::delete_before;

/// "No space left on device".
const ENOSPC: i32 = 28;

/// New partitions are made in the other directory.
fn not_in(dir: &str) -> Setup {
    two_directories().with("cordoned.log.dirs", dir)
}

/// A disk with the log of a deleted topic in `/b`, the larger one, and that of another topic "t" in
/// `/a` with the records 5 to 9.
fn with_a_stray() -> SimDisk {
    let (disk, setup) = (SimDisk::new(1), not_in("/a"));
    life(&disk, &setup, async |cluster| {
        cluster.create("t", 1).await;
        for _ in 0..30 {
            assert!(cluster.try_produce("t", 0, large(1000)).await.is_ok());
        }
        cluster.pass_ms(120_000).await;
        disk.set_hanging(Path::new("/b"), true);
        assert_eq!(cluster.delete("t").await, None);
    });
    let disk = disk.kill(2);
    disk.set_hanging(Path::new("/b"), false);
    life(&disk, &not_in("/b").next(), async |cluster| {
        cluster.create("t", 1).await;
        for value in 0..10 {
            cluster.produce("t", 0, &[&value.to_string()]).await;
        }
        assert_eq!(delete_before(cluster, "t", 5).await, Ok(5));
        cluster.pass_ms(120_000).await;
    });
    for dir in ["/a", "/b"] {
        let file = format!("{dir}/t-0/partition.metadata");
        assert!(disk.contents(Path::new(&file)).is_ok(), "{dir}");
    }
    disk
}

#[test]
fn a_larger_log_of_a_deleted_topic_does_not_take_the_place_of_the_new_topics() {
    for closed in ["/a", "/b"] {
        let disk = with_a_stray().kill(3);
        life(&disk, &not_in(closed).next().next(), async |cluster| {
            assert_eq!(cluster.values("t", 0).await, ["5", "6", "7", "8", "9"]);
            assert_eq!(cluster.offset("t", 0, -2).await, 5, "{closed}");
            assert_eq!(cluster.produce("t", 0, &["10"]).await, 10);
        });
    }
}

/// Records go to the new topic as soon as there can be one.
async fn is_served(cluster: &Cluster) {
    for _ in 0..300 {
        match cluster.try_produce("t", 0, batch(&["new"])).await {
            Ok(offset) => {
                assert_eq!(offset, 0);
                return;
            }
            Err(code) => assert_eq!(code, ErrorCode::KafkaStorageError),
        }
        cluster.pass_ms(1000).await;
    }
    panic!("the new topic is not served");
}

#[test]
fn a_deletion_that_fails_is_made_up_for_before_the_name_is_anothers() {
    let (disk, setup) = (SimDisk::new(1), two_directories());
    life(&disk, &setup, async |cluster| {
        cluster.create("t", 1).await;
        cluster.produce("t", 0, &["old"]).await;
        for _ in 0..3 {
            disk.inject(Fault {
                path_contains: Some("/t-0".into()),
                ..Fault::at_kind(0, OpKind::Rename, Effect::Fail(std::io::ErrorKind::Other))
            });
        }
        assert_eq!(cluster.delete("t").await, None);
        cluster.create("t", 1).await;
        let early = cluster.try_produce("t", 0, batch(&["early"])).await;
        assert_eq!(early, Err(ErrorCode::KafkaStorageError));
        is_served(cluster).await;
        assert_eq!(disk.faults_left(), 0);
        cluster.pass_ms(120_000).await;
        let mut folders = names(cluster, "/a").await;
        folders.extend(names(cluster, "/b").await);
        folders.retain(|name| name.starts_with("t-0"));
        assert_eq!(folders, ["t-0"]);
        assert_eq!(cluster.values("t", 0).await, ["new"]);
    });
}

/// Nothing new is made in the directory.
pub(crate) async fn cordon(cluster: &Cluster, dir: &str) {
    let entry = AlterableConfig::default()
        .with_name(text("cordoned.log.dirs"))
        .with_value(Some(text(dir)));
    let resource = AlterConfigsResource::default()
        .with_resource_type(4)
        .with_resource_name(text("1"))
        .with_configs(vec![entry]);
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    let answer = cluster.ask(1, &request).await;
    assert_eq!(answer.responses[0].error_code, 0, "{answer:?}");
}

/// Moves a log and leaves its old folder there: `times` renames of it find no room.
pub(crate) async fn moved_without_room_behind(
    cluster: &Cluster,
    disk: &SimDisk,
    to: &str,
    times: usize,
) {
    let slow = Duration::from_millis(5);
    disk.set_latency(slow, slow);
    assert_eq!(alter(cluster, "t", to).await, None);
    let arrived = format!("{to}/t-0/partition.metadata");
    let arrived = Path::new(&arrived);
    for _ in 0..100_000 {
        if disk.contents(arrived).is_ok() {
            break;
        }
        cluster.pass_ms(1).await;
    }
    assert!(disk.contents(arrived).is_ok(), "it does not move");
    for _ in 0..times {
        disk.inject(Fault {
            path_contains: Some(format!("{}/t-0", other(to))),
            ..Fault::at_kind(0, OpKind::Rename, Effect::Errno(ENOSPC))
        });
    }
    for _ in 0..100_000 {
        if disk.faults_left() < times {
            break;
        }
        cluster.pass_ms(1).await;
    }
    assert_eq!(disk.faults_left(), times - 1, "the old folder went");
    disk.set_latency(Duration::ZERO, Duration::ZERO);
}

#[test]
fn the_old_folder_of_a_move_that_is_another_topics_by_now_is_not_removed() {
    let (disk, setup) = (SimDisk::new(1), two_directories());
    life(&disk, &setup, async |cluster| {
        cluster.create("t", 1).await;
        cluster.produce("t", 0, &["old"]).await;
        let from = home(&disk, "t");
        moved_without_room_behind(cluster, &disk, other(from), 2).await;
        cordon(cluster, other(from)).await;
        assert_eq!(cluster.delete("t").await, None);
        // It fails once more, when nothing has the name.
        for _ in 0..60 {
            if disk.faults_left() == 0 {
                break;
            }
            cluster.pass_ms(100).await;
        }
        assert_eq!(disk.faults_left(), 0);
        cluster.create("t", 1).await;
        is_served(cluster).await;
        assert_eq!(home(&disk, "t"), from);
        cluster.pass_ms(10 * 60_000).await;
        assert_eq!(cluster.values("t", 0).await, ["new"]);
        cluster.stop().await;
    });
    life(&disk, &setup.next(), async |cluster| {
        assert_eq!(cluster.values("t", 0).await, ["new"]);
    });
}

#[test]
fn a_move_of_a_deleted_topic_does_not_take_what_the_new_one_has_in_the_same_directory_of_its_tier()
{
    let (disk, setup) = (SimDisk::new(1), tiers());
    disk.put(Path::new("/c/x"), b"").unwrap();
    let mut values = Vec::new();
    life(&disk, &setup, async |cluster| {
        cluster.create("t", 1).await;
        cluster.produce("t", 0, &["old"]).await;
        let from = home(&disk, "t");
        moved_without_room_behind(cluster, &disk, other(from), 1).await;
        // Before it is tried again the name is another topic's, whose home is elsewhere and whose
        // segments come here.
        cordon(cluster, from).await;
        assert_eq!(cluster.delete("t").await, None);
        cluster.create("t", 1).await;
        is_served(cluster).await;
        values.push("new".to_owned());
        assert_eq!(home(&disk, "t"), other(from));
        cordon(cluster, other(from)).await;
        for number in 0..7 {
            let value = format!("{number}{}", "x".repeat(6000));
            cluster.produce("t", 0, &[&value]).await;
            values.push(value);
        }
        let part = format!("{from}/t-0/tier.metadata");
        assert!(disk.contents(Path::new(&part)).is_ok(), "nothing came here");
        cluster.pass_ms(10 * 60_000).await;
        assert!(disk.contents(Path::new(&part)).is_ok(), "it was taken");
        assert!(cluster.values("t", 0).await == values);
        cluster.stop().await;
    });
    life(&disk, &setup.next(), async |cluster| {
        assert!(cluster.values("t", 0).await == values);
    });
}

#[test]
fn a_log_that_a_deleted_topic_left_in_another_directory_of_a_tier_is_no_part_of_the_new_topics() {
    let not_in = |dir: &str| tiers().with("cordoned.log.dirs", dir);
    let disk = SimDisk::new(1);
    disk.put(Path::new("/c/x"), b"").unwrap();
    life(&disk, &not_in("/a"), async |cluster| {
        cluster.create("t", 1).await;
        for value in 0..20 {
            cluster.produce("t", 0, &[&format!("old {value}")]).await;
        }
        cluster.pass_ms(120_000).await;
        disk.set_hanging(Path::new("/b"), true);
        assert_eq!(cluster.delete("t").await, None);
    });
    let disk = disk.kill(2);
    disk.set_hanging(Path::new("/b"), false);
    life(&disk, &not_in("/b").next(), async |cluster| {
        cluster.create("t", 1).await;
        for value in 0..10 {
            let offset = cluster.produce("t", 0, &[&value.to_string()]).await;
            assert_eq!(offset, value);
        }
        assert_eq!(cluster.values("t", 0).await.len(), 10);
        cluster.pass_ms(120_000).await;
    });
    let disk = disk.kill(3);
    life(&disk, &not_in("/b").next().next(), async |cluster| {
        assert_eq!(cluster.values("t", 0).await.len(), 10);
        assert_eq!(cluster.produce("t", 0, &["10"]).await, 10);
    });
}
