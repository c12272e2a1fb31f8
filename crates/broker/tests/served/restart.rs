//! Stops, kills and crashes: what was acknowledged is there afterwards, and work goes on where it
//! was.

use std::path::Path;

use broker::log_dirs::LogDirs;
use platform::sim::{Effect, Fault, SimDisk, SimPlatform};
use platform::{Clock, Disk, Platform};
use storage::checkpoint::offsets;
use wire::messages::DescribeProducersRequest;
use wire::messages::describe_producers_request::TopicRequest;

use crate::harness::asks::{outcome, topic_name};
use crate::harness::batches::{batch, produced};
use crate::harness::{Cluster, NOW_MS, Setup, life, try_life};

const CLEAN: &str = "/logs/.kafka_cleanshutdown";

/// Work whose every part is acknowledged.
pub(crate) async fn work(cluster: &Cluster) {
    cluster.create("t", 3).await;
    for partition in 0..3 {
        cluster.produce("t", partition, &["a", "b"]).await;
        let answer = cluster
            .try_produce("t", partition, produced(7, 0, 0, &["c"]))
            .await;
        assert_eq!(answer, Ok(2));
    }
    cluster.commit("g", "t", 1, 2).await;
}

/// The work is there, and goes on.
pub(crate) async fn went_on(cluster: &Cluster) {
    for partition in 0..3 {
        assert_eq!(cluster.values("t", partition).await, ["a", "b", "c"]);
        let again = cluster
            .try_produce("t", partition, produced(7, 0, 0, &["c"]))
            .await;
        assert_eq!(again, Ok(2), "the duplicate is recognised");
        let next = cluster
            .try_produce("t", partition, produced(7, 0, 1, &["d"]))
            .await;
        assert_eq!(next, Ok(3), "offsets go on");
    }
    assert_eq!(cluster.committed("g", "t", 1).await, 2);
    assert_eq!(cluster.committed("g", "t", 0).await, -1);
}

#[test]
fn a_clean_stop_is_marked_and_everything_is_served_after_it() {
    for shards in [1, 2] {
        let (disk, setup) = (SimDisk::new(1), Setup::shards(shards));
        life(&disk, &setup, async |cluster| {
            work(cluster).await;
            cluster.stop().await;
        });
        assert!(disk.contents(Path::new(CLEAN)).is_ok());
        life(&disk, &setup.next(), async |cluster| {
            assert!(cluster.brokers[0].log_dirs.clean_epoch().is_some());
            assert!(disk.contents(Path::new(CLEAN)).is_err(), "used up");
            went_on(cluster).await;
        });
    }
}

#[test]
fn a_stop_survives_a_loss_of_power_right_after_it() {
    let setup = Setup::shards(2);
    let disk = life(&SimDisk::new(1), &setup, async |cluster| {
        work(cluster).await;
        cluster.stop().await;
        cluster.disk().crash(4)
    });
    life(&disk, &setup.next(), async |cluster| {
        assert!(cluster.brokers[0].log_dirs.clean_epoch().is_some());
        went_on(cluster).await;
    });
}

#[test]
fn another_number_of_shards_serves_the_same_logs() {
    let (disk, setup) = (SimDisk::new(1), Setup::shards(2));
    life(&disk, &setup, async |cluster| {
        work(cluster).await;
        cluster.stop().await;
    });
    let one = Setup {
        shards: 1,
        ..setup.next()
    };
    life(&disk, &one, went_on);
}

#[test]
fn a_killed_broker_goes_on() {
    for seed in 0..5 {
        let setup = Setup::shards(2);
        let disk = life(&SimDisk::new(seed), &setup, async |cluster| {
            work(cluster).await;
            cluster.disk().kill(seed)
        });
        life(&disk, &setup.next(), went_on);
    }
}

/// What a start after a kill has to read does not depend on how much was written since the last
/// checkpoint was due.
#[test]
fn under_load_the_recovery_points_are_written_before_their_time() {
    const SAVE_BYTES: i64 = 8 << 10;
    let mut setup = Setup::shards(2);
    setup.store.save_interval_bytes = SAVE_BYTES.cast_unsigned();
    life(&SimDisk::new(3), &setup, async |cluster| {
        cluster.create("t", 1).await;
        let value = "v".repeat(1000);
        let started = cluster.platform.clock().now();
        for _ in 0..200 {
            cluster.produce("t", 0, &[&value]).await;
        }
        let passed = cluster.platform.clock().now().duration_since(started);
        assert!(passed < setup.options.checkpoint_interval / 2, "{passed:?}");
        let file = Path::new("/logs/recovery-point-offset-checkpoint");
        let rows = offsets::parse(file, &cluster.disk().contents(file).unwrap()).unwrap();
        let saved = rows.iter().find(|(name, _)| &*name.topic == "t").unwrap().1;
        // It may lack what was written since the last save, and a save that is under way.
        let unsaved_max = 7 * SAVE_BYTES / 1000;
        assert!(saved.0 > 200 - unsaved_max, "{saved}");
        // Of the snapshots of saves, only those remain that a recovery may begin with.
        let files = cluster.disk().list(Path::new("/logs/t-0")).await.unwrap();
        let snapshots = files.iter().filter(|file| file.name.ends_with(".snapshot"));
        assert!(snapshots.count() <= 7);
    });
}

#[test]
fn what_acks_one_answered_survives_a_kill() {
    for seed in 0..5 {
        let setup = Setup::shards(2);
        let disk = life(&SimDisk::new(seed), &setup, async |cluster| {
            cluster.create("t", 2).await;
            for partition in 0..2 {
                let answer = cluster
                    .produce_answer("t", 1, partition, batch(&["a"]))
                    .await;
                assert_eq!(outcome(&answer), Ok(0));
            }
            cluster.disk().kill(seed)
        });
        life(&disk, &setup.next(), async |cluster| {
            for partition in 0..2 {
                assert_eq!(cluster.values("t", partition).await, ["a"]);
            }
        });
    }
}

#[test]
fn a_broker_that_lost_power_goes_on() {
    for seed in 0..10 {
        let setup = Setup::shards(2);
        let disk = life(&SimDisk::new(seed), &setup, async |cluster| {
            work(cluster).await;
            cluster.disk().crash(seed)
        });
        life(&disk, &setup.next(), went_on);
    }
}

#[test]
fn the_leader_epoch_grows_and_clients_of_the_last_one_are_told() {
    let setup = Setup::shards(1);
    let disk = life(&SimDisk::new(1), &setup, async |cluster| {
        work(cluster).await;
        cluster.disk().crash(1)
    });
    life(&disk, &setup.next(), async |cluster| {
        let image = cluster.brokers[0].image();
        let topic = image.topic_by_name("t").unwrap();
        // Kafka keeps the epoch of a leader that comes back as the only replica or raises it; it
        // never falls.
        assert!(
            topic
                .partitions
                .values()
                .all(|partition| partition.leader_epoch >= 0)
        );
        let topic = TopicRequest::default()
            .with_name(topic_name("t"))
            .with_partition_indexes(vec![0]);
        let request = DescribeProducersRequest::default().with_topics(vec![topic]);
        let answer = cluster.ask(0, &request).await;
        let producers = &answer.topics[0].partitions[0].active_producers;
        assert_eq!(producers.len(), 1);
        assert_eq!(
            (producers[0].producer_id.0, producers[0].last_sequence),
            (7, 0)
        );
    });
}

/// What a workload that may be cut short was promised.
#[derive(Default)]
struct PromisedData {
    created: bool,
    /// By partition.
    values: [Vec<String>; 2],
    deleted: bool,
}

/// Some of everything, until something fails.
async fn until_it_fails(cluster: &Cluster, promised: &mut PromisedData) -> Option<()> {
    let granted = |code: Option<_>| code.is_none().then_some(());
    granted(cluster.try_create("doomed", 1, &[]).await)?;
    cluster.try_produce("doomed", 0, batch(&["x"])).await.ok()?;
    granted(cluster.try_create("t", 2, &[]).await)?;
    promised.created = true;
    for round in 0..3 {
        for partition in 0..2 {
            let value = format!("{round}-{partition}");
            let index = i32::try_from(partition).ok()?;
            let records = produced(5, 0, round, &[value.as_str()]);
            cluster.try_produce("t", index, records).await.ok()?;
            promised.values[partition].push(value);
        }
        if round == 1 {
            granted(cluster.delete("doomed").await)?;
            promised.deleted = true;
        }
    }
    Some(())
}

/// Everything that was promised is there; at most one thing that was not, is there too.
async fn holds(cluster: &Cluster, promised: &PromisedData) {
    let image = cluster.brokers[0].image();
    assert!(image.topic_by_name("t").is_some() || !promised.created);
    assert!(image.topic_by_name("doomed").is_none() || !promised.deleted);
    if promised.created {
        for (partition, expected) in (0..).zip(&promised.values) {
            let found = cluster.values("t", partition).await;
            assert!(found.starts_with(expected), "{found:?}, not {expected:?}");
            assert!(
                found.len() <= expected.len() + 1,
                "{found:?} after {expected:?}"
            );
            // The producer tries again what it does not know about, and then goes on.
            for (sequence, base) in (0..).zip(0..i64::try_from(expected.len()).unwrap()) {
                let again = produced(5, 0, sequence, &["again"]);
                let answer = cluster.produce_answer("t", -1, partition, again).await;
                let known = expected.len() - usize::try_from(sequence).unwrap() <= 1;
                assert!(outcome(&answer) == Ok(base) || !known, "{answer:?}");
            }
            let next = i64::try_from(found.len()).unwrap();
            assert_eq!(cluster.produce("t", partition, &["next"]).await, next);
        }
    }
    // Whatever is left of it, the name can be used.
    if image.topic_by_name("doomed").is_some() {
        assert_eq!(cluster.delete("doomed").await, None);
    }
    cluster.create("doomed", 1).await;
    assert_eq!(cluster.produce("doomed", 0, &["new"]).await, 0);
    assert_eq!(cluster.values("doomed", 0).await, ["new"]);
}

fn crash_at(k: u64, shards: usize) -> bool {
    let setup = Setup::shards(shards);
    let disk = SimDisk::new(k);
    // A broker that has served before, so that the crash is not that of the very first start.
    life(&disk, &setup, async |cluster| cluster.stop().await);
    disk.inject(Fault::at(k, Effect::PowerOff));
    let mut promised = PromisedData::default();
    let started = try_life(&disk, &setup.next(), async |cluster| {
        until_it_fails(cluster, &mut promised).await
    });
    let finished = matches!(started, Ok(Some(())));
    let after = disk.crash(k);
    life(&after, &setup.next().next(), async |cluster| {
        holds(cluster, &promised).await;
    });
    finished
}

#[test]
fn a_loss_of_power_at_any_operation_takes_back_nothing_that_was_promised() {
    let step = 2;
    for shards in [1, 2] {
        let mut k = u64::try_from(shards).unwrap();
        while !crash_at(k, shards) {
            k += step;
        }
        assert!(k > 100, "{k} operations are not much of a workload");
    }
}

#[test]
fn the_very_first_start_may_be_cut_short() {
    for k in (0..).step_by(2) {
        let (disk, setup) = (SimDisk::new(k), Setup::shards(1));
        disk.inject(Fault::at(k, Effect::PowerOff));
        let started = try_life(&disk, &setup, async |_| ()).is_ok();
        life(&disk.crash(k), &setup.next(), async |cluster| {
            cluster.create("t", 1).await;
            assert_eq!(cluster.produce("t", 0, &["a"]).await, 0);
        });
        if started && k > 60 {
            break;
        }
    }
}

#[test]
fn a_directory_of_another_cluster_is_refused() {
    let disk = SimDisk::new(1);
    life(&disk, &Setup::shards(1), async |cluster| {
        cluster.stop().await;
    });
    let opened = platform::runtime::run_simulated(async {
        let platform = SimPlatform::on(disk.clone(), Clock::starting_at(NOW_MS), 1);
        let node = Some(wire::types::NodeId(9));
        LogDirs::open(&platform, &["/logs".into()], node, None).await
    });
    let error = opened.unwrap().unwrap_err().to_string();
    assert!(error.contains("node 1, not 9"), "{error}");
}
