//! A disk that fails, fills up or rots under a running broker: the errors that clients get, and
//! what goes on.

use std::path::Path;

use platform::sim::{Effect, Fault, OpKind, SimDisk};
use wire::messages::MetadataRequest;
use wire::types::ErrorCode;

use crate::harness::asks::{error, fetch, partitions, records_of};
use crate::harness::batches::{batch, large};
use crate::harness::journal::lines_of;
use crate::harness::{Cluster, Setup, life};
use crate::offsets::delete_before;

fn on(shards: usize, story: impl AsyncFnOnce(&Cluster)) {
    life(&SimDisk::new(1), &Setup::shards(shards), story);
}

fn fails(of: OpKind, path: &str) -> Fault {
    Fault {
        path_contains: Some(path.to_owned()),
        ..Fault::at_kind(0, of, Effect::Fail(std::io::ErrorKind::Other))
    }
}

const STORAGE: Result<i64, ErrorCode> = Err(ErrorCode::KafkaStorageError);

#[test]
fn after_a_failed_sync_readers_go_on_and_producers_are_told() {
    on(1, async |cluster| {
        cluster.create("t", 1).await;
        cluster.produce("t", 0, &["a"]).await;
        assert_eq!(cluster.metrics.offline_partitions.get(), 0);
        cluster.disk().inject(fails(OpKind::Sync, "/t-0/"));
        assert_eq!(cluster.try_produce("t", 0, batch(&["b"])).await, STORAGE);
        assert_eq!(
            cluster.try_produce("t", 0, batch(&["c"])).await,
            STORAGE,
            "it is for good"
        );
        assert!(cluster.metrics.offline_partitions.get() >= 1);
        assert_eq!(cluster.values("t", 0).await, ["a"]);
        let answer = cluster
            .ask(12, &MetadataRequest::default().with_topics(None))
            .await;
        assert_eq!(answer.topics.len(), 1);
    });
}

#[test]
fn a_restart_mends_what_a_failed_sync_latched() {
    let (disk, setup) = (SimDisk::new(1), Setup::shards(1));
    let disk = life(&disk, &setup, async |cluster| {
        cluster.create("t", 1).await;
        cluster.produce("t", 0, &["a"]).await;
        cluster.disk().inject(fails(OpKind::Sync, "/t-0/"));
        assert_eq!(cluster.try_produce("t", 0, batch(&["b"])).await, STORAGE);
        assert!(
            cluster.brokers[0].stop().await.is_err(),
            "the metadata log lies there too"
        );
        assert!(
            cluster
                .disk()
                .contents(Path::new("/logs/.kafka_cleanshutdown"))
                .is_err(),
            "not a clean stop"
        );
        cluster.disk().crash(1)
    });
    life(&disk, &setup.next(), async |cluster| {
        assert_eq!(cluster.values("t", 0).await[0], "a");
        assert!(cluster.try_produce("t", 0, batch(&["c"])).await.is_ok());
        assert_eq!(cluster.metrics.offline_partitions.get(), 0);
    });
}

#[test]
fn a_failed_partition_can_be_deleted_and_made_again() {
    on(2, async |cluster| {
        cluster.create("t", 2).await;
        // One that does not share its fate with the metadata log, which lives on the first shard.
        let id = cluster.topic_id("t");
        let elsewhere = |partition: &i32| cluster.brokers[0].shards.owner(id, *partition) == 1;
        let failing = (0..2).find(elsewhere).unwrap();
        let path = format!("/t-{failing}/");
        cluster.disk().inject(fails(OpKind::Write, &path));
        assert_eq!(
            cluster.try_produce("t", failing, batch(&["b"])).await,
            STORAGE
        );
        assert_eq!(cluster.metrics.offline_partitions.get(), 1);
        assert_eq!(cluster.produce("t", 1 - failing, &["a"]).await, 0);
        assert_eq!(cluster.delete("t").await, None);
        let code = cluster.try_fetch("t", 0, 0).await;
        assert_eq!(code, Err(ErrorCode::UnknownTopicOrPartition));
        assert_eq!(cluster.metrics.leaders.get(), 0);
        assert_eq!(cluster.metrics.offline_partitions.get(), 0);
        cluster.create("t", 2).await;
        assert!(cluster.all("t", failing).await.is_empty());
        let id = cluster.topic_id("t");
        let sound = (0..2).find(|partition| cluster.brokers[0].shards.owner(id, *partition) == 0);
        assert_eq!(cluster.produce("t", sound.unwrap(), &["new"]).await, 0);
    });
}

#[test]
fn a_full_disk_refuses_until_there_is_room() {
    on(2, async |cluster| {
        cluster.create("t", 1).await;
        cluster.create("u", 1).await;
        cluster.produce("t", 0, &["a"]).await;
        // What a new log notes of its epoch is written, too.
        cluster.pass_ms(2_000).await;
        cluster.disk().set_capacity_bytes(Some(1));
        let refused = cluster.try_produce("t", 0, large(200_000)).await;
        assert_eq!(refused, STORAGE);
        assert_eq!(cluster.try_produce("t", 0, batch(&["c"])).await, STORAGE);
        assert_eq!(cluster.metrics.offline_partitions.get(), 1);
        assert_eq!(cluster.values("t", 0).await[0], "a");
        cluster.disk().set_capacity_bytes(None);
        cluster.pass_ms(30_000).await;
        let offset = cluster.try_produce("t", 0, batch(&["d"])).await.unwrap();
        assert_eq!(cluster.metrics.offline_partitions.get(), 0);
        let all = cluster.all("t", 0).await;
        assert_eq!(all.last(), Some(&(offset, "d".to_owned())));
    });
}

#[test]
fn a_disk_that_turns_read_only_is_still_read() {
    on(2, async |cluster| {
        cluster.create("t", 1).await;
        cluster.produce("t", 0, &["a"]).await;
        cluster.disk().set_read_only(true);
        assert_eq!(cluster.try_produce("t", 0, batch(&["b"])).await, STORAGE);
        assert_eq!(cluster.values("t", 0).await, ["a"]);
        assert_ne!(cluster.try_create("u", 1, &[]).await, None);
    });
}

#[test]
fn a_log_that_cannot_be_opened_is_offline_and_the_others_are_served() {
    let (disk, setup) = (SimDisk::new(1), Setup::shards(2));
    life(&disk, &setup, async |cluster| {
        cluster.create("t", 1).await;
        cluster.create("u", 1).await;
        cluster.produce("t", 0, &["a"]).await;
        cluster.produce("u", 0, &["b"]).await;
        cluster.stop().await;
    });
    disk.inject(fails(OpKind::List, "/t-0"));
    life(&disk, &setup.next(), async |cluster| {
        assert_eq!(cluster.metrics.offline_partitions.get(), 1);
        assert_eq!(cluster.try_produce("t", 0, batch(&["c"])).await, STORAGE);
        let refused = cluster.try_fetch("t", 0, 0).await;
        assert_eq!(refused, Err(ErrorCode::KafkaStorageError));
        assert_eq!(cluster.values("u", 0).await, ["b"]);
        cluster.stop().await;
    });
    // Nothing was wrong with it but the disk's answer.
    life(&disk, &setup.next().next(), async |cluster| {
        assert_eq!(cluster.values("t", 0).await, ["a"]);
    });
}

#[test]
fn deleted_records_stay_deleted_while_their_log_cannot_be_opened() {
    for clean in [true, false] {
        let (disk, setup) = (SimDisk::new(1), Setup::shards(2));
        life(&disk, &setup, async |cluster| {
            cluster.create("t", 1).await;
            for value in ["a", "b", "c"] {
                cluster.produce("t", 0, &[value]).await;
            }
            assert_eq!(delete_before(cluster, "t", 2).await, Ok(2));
            cluster.stop().await;
        });
        let folder = Path::new("/logs/t-0");
        disk.set_broken(folder, Some(std::io::ErrorKind::Other));
        let disk = life(&disk, &setup.next(), async |cluster| {
            assert_eq!(cluster.metrics.offline_partitions.get(), 1);
            // Checkpoints are written, without it.
            cluster.pass_ms(130_000).await;
            if clean {
                cluster.stop().await;
            }
            cluster.disk().set_broken(folder, None);
            cluster.disk().kill(1)
        });
        life(&disk, &setup.next().next(), async |cluster| {
            assert_eq!(cluster.offset("t", 0, -2).await, 2, "clean: {clean}");
            assert_eq!(cluster.values("t", 0).await, ["c"], "clean: {clean}");
        });
    }
}

#[test]
fn a_directory_is_not_clean_while_a_log_in_it_was_not_recovered() {
    let (disk, setup) = (SimDisk::new(1), Setup::shards(2));
    let disk = life(&disk, &setup, async |cluster| {
        cluster.create("t", 1).await;
        cluster.produce("t", 0, &["a"]).await;
        cluster.disk().kill(1)
    });
    let folder = Path::new("/logs/t-0");
    let marker = Path::new("/logs/.kafka_cleanshutdown");
    disk.set_broken(folder, Some(std::io::ErrorKind::Other));
    life(&disk, &setup.next(), async |cluster| cluster.stop().await);
    assert!(disk.contents(marker).is_err(), "nobody has looked at it");
    disk.set_broken(folder, None);
    life(&disk, &setup.next().next(), async |cluster| {
        assert_eq!(cluster.values("t", 0).await, ["a"]);
        cluster.stop().await;
    });
    assert!(disk.contents(marker).is_ok());
}

#[test]
fn rot_is_told_to_those_who_read_it_and_to_nobody_else() {
    let (disk, setup) = (SimDisk::new(1), Setup::shards(1));
    life(&disk, &setup, async |cluster| {
        cluster
            .create_with("t", 1, &[("segment.bytes", "1048576")])
            .await;
        cluster.create("u", 1).await;
        for _ in 0..4 {
            cluster.try_produce("t", 0, large(600_000)).await.unwrap();
        }
        cluster.produce("u", 0, &["b"]).await;
        cluster.stop().await;
    });
    let segment = Path::new("/logs/t-0/00000000000000000001.log");
    disk.flip(segment, 300_000, 3).unwrap();
    life(&disk, &setup.next(), async |cluster| {
        assert_eq!(
            cluster.try_fetch("t", 0, 1).await,
            Err(ErrorCode::CorruptMessage)
        );
        assert_eq!(cluster.try_fetch("t", 0, 0).await.unwrap()[0].0, 0);
        assert_eq!(cluster.try_fetch("t", 0, 2).await.unwrap()[0].0, 2);
        let mut both = fetch("t", &[(0, 1)]).with_max_wait_ms(10);
        both.topics[0].partitions[0].partition_max_bytes = 700_000;
        both.topics.extend(fetch("u", &[(0, 0)]).topics);
        let answer = cluster.ask(12, &both).await;
        let [rotten, sound] = partitions(&answer)[..] else {
            panic!("{answer:?}");
        };
        assert_eq!(error(rotten.error_code), Some(ErrorCode::CorruptMessage));
        assert_eq!(records_of(sound), [(0, "b".to_owned())]);
        assert_eq!(cluster.try_produce("t", 0, batch(&["c"])).await, Ok(4));
    });
}

#[test]
fn a_bad_block_of_mapped_memory_takes_down_the_reads_of_its_segment_only() {
    let (disk, setup) = (SimDisk::new(1), Setup::shards(1));
    disk.use_dax(Path::new("/logs"));
    life(&disk, &setup, async |cluster| {
        cluster
            .create_with("t", 1, &[("segment.bytes", "1048576")])
            .await;
        for _ in 0..4 {
            cluster.try_produce("t", 0, large(600_000)).await.unwrap();
        }
        cluster.stop().await;
    });
    life(&disk, &setup.next(), async |cluster| {
        let bad = "/t-0/00000000000000000001.log";
        for again in 0..2 {
            cluster.disk().inject(fails(OpKind::Read, bad));
            let read = cluster.try_fetch("t", 0, 1).await;
            assert_eq!(read, Err(ErrorCode::KafkaStorageError), "{again}");
        }
        assert_eq!(cluster.try_fetch("t", 0, 0).await.unwrap()[0].0, 0);
        assert_eq!(cluster.try_fetch("t", 0, 2).await.unwrap()[0].0, 2);
        assert_eq!(cluster.try_produce("t", 0, batch(&["c"])).await, Ok(4));
        // The log goes on; so does the segment, where the medium does.
        assert_eq!(cluster.try_fetch("t", 0, 1).await.unwrap()[0].0, 1);
    });
}

#[test]
fn a_file_in_a_log_directory_is_named_if_it_is_nothing_of_ours() {
    let disk = SimDisk::new(1);
    for name in ["00000000000000000007.pooled", "7.pooled"] {
        disk.put(&Path::new("/logs").join(name), &[]).unwrap();
    }
    let lines = lines_of(|| life(&disk, &Setup::shards(1), async |_| ()));
    let mut foreign = lines.iter().filter(|line| line.contains("foreign file"));
    assert!(
        foreign
            .next()
            .is_some_and(|line| line.contains("/logs/7.pooled"))
    );
    assert_eq!(foreign.next(), None);
}

#[test]
fn the_log_says_once_what_failed_and_where() {
    let lines = lines_of(|| {
        on(1, async |cluster| {
            cluster.create("t", 1).await;
            cluster.disk().inject(fails(OpKind::Sync, "/t-0/"));
            for _ in 0..3 {
                assert_eq!(cluster.try_produce("t", 0, batch(&["b"])).await, STORAGE);
            }
        });
    });
    let says = |line: &&String| line.contains("t-0") && line.contains("simulated fault");
    assert_eq!(lines.iter().filter(says).count(), 1, "{lines:#?}");
}
