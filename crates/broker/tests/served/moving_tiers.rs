//! A log that moves to another log directory while its segments move between tiers, and any disk
//! operation meanwhile fails: nothing acknowledged is missing, then or after a restart, it is in
//! one place, and what was made is what there is.

use std::io::ErrorKind;
use std::time::Duration;

use platform::Platform;
use platform::sim::{Effect, Fault, OpKind, SimDisk};
use storage::FailureKind;
use storage::tier::policy::PolicySettings;
use storage::tier::{Capacity, Medium, PathOptions, Safety, TierOptions};

use crate::harness::batches::batch;
use crate::harness::{Cluster, Setup, life, try_life};
use crate::moving::{alter, home, listed, names, other};

const PARTITION: i32 = 0;
const RECORDS: usize = 7;
/// So that three of them fill a segment.
const VALUE_BYTES: usize = 6000;
const TOO_MANY_OPEN_FILES: i32 = 24;
const SLOW: Duration = Duration::from_millis(20);

pub(crate) fn tiers() -> Setup {
    let tier = |name: &str, dirs: &[&str]| TierOptions {
        name: name.into(),
        paths: dirs
            .iter()
            .map(|dir| PathOptions {
                dir: dir.into(),
                capacity: Capacity::Bytes(1 << 30),
            })
            .collect(),
        medium: Medium::File,
        safety: Safety::Durable,
        read_bytes_per_second: None,
        write_bytes_per_second: None,
    };
    // Only what is asked for moves.
    let still = PolicySettings {
        threshold: None,
        threads: 1,
        ..PolicySettings::DEFAULTS
    };
    Setup::shards(1)
        .with("log.segment.bytes", "16384")
        .with("log.segment.delete.delay.ms", "100")
        .with_tiers(
            vec![tier("fast", &["/a", "/b"]), tier("bulk", &["/c"])],
            still,
        )
}

/// Seven records in three segments; from now on the first one moves down, and the log moves to the
/// other directory.
async fn both_moves(cluster: &Cluster, disk: &SimDisk, fault: Option<Fault>) {
    cluster.create("t", 1).await;
    for number in 0..RECORDS {
        cluster.produce("t", PARTITION, &[&value(number)]).await;
    }
    cluster.pass_ms(1000).await;
    let to = other(home(disk, "t"));
    if let Some(fault) = fault {
        disk.inject(fault);
    }
    // Slow enough for one to meet the other.
    disk.set_latency(SLOW, SLOW);
    alter(cluster, "t", to).await;
    alter(cluster, "t", "/c").await;
    cluster.pass_ms(6000).await;
    disk.set_latency(Duration::ZERO, Duration::ZERO);
    cluster.pass_ms(2000).await;
}

fn value(number: usize) -> String {
    format!("{number}{}", "x".repeat(VALUE_BYTES))
}

fn expected() -> Vec<String> {
    (0..RECORDS).map(value).collect()
}

/// Whether the log has a folder in one of the log directories, and no copy of it is on its way.
async fn is_settled(cluster: &Cluster) -> bool {
    let places = listed(cluster, "t").await;
    let homes = places.iter().filter(|(dir, _)| dir != "/c");
    homes.count() == 1 && places.iter().all(|(_, future)| !future)
}

async fn check_next(cluster: &Cluster, what: &str, appended: usize) {
    for _ in 0..1000 {
        if is_settled(cluster).await {
            break;
        }
        cluster.pass_ms(10).await;
    }
    assert!(
        is_settled(cluster).await,
        "{what}: {:?}",
        listed(cluster, "t").await
    );
    let mut all = expected();
    all.extend((0..appended).map(|_| "alive".to_owned()));
    assert_eq!(
        cluster.values("t", PARTITION).await.len(),
        all.len(),
        "{what}"
    );
    assert!(cluster.values("t", PARTITION).await == all, "{what}");
    assert_eq!(cluster.offset("t", PARTITION, -2).await, 0, "{what}");
    cluster.produce("t", PARTITION, &["after"]).await;
    cluster.pass_ms(1000).await;
    let mut folders = names(cluster, "/a").await;
    folders.extend(names(cluster, "/b").await);
    let ours: Vec<_> = folders
        .iter()
        .filter(|name| name.starts_with("t-0"))
        .collect();
    assert_eq!(ours, ["t-0"], "{what}");
}

#[test]
fn a_log_that_moves_among_tiers_and_directories_outlives_any_failure_of_a_disk() {
    let setup = tiers();
    let whole = SimDisk::new(1);
    life(&whole, &setup, async |cluster| {
        both_moves(cluster, &whole, None).await;
        let places = listed(cluster, "t").await;
        assert_eq!(places.len(), 2, "a home and a lower tier: {places:?}");
        assert!(is_settled(cluster).await, "{places:?}");
    });
    let effects = [
        Effect::Fail(ErrorKind::StorageFull),
        Effect::Fail(ErrorKind::Other),
        Effect::Errno(TOO_MANY_OPEN_FILES),
        Effect::Fail(ErrorKind::ReadOnlyFilesystem),
        Effect::PowerOff,
    ];
    // Each effect at every place would take minutes: they take turns, at every other one.
    let mut at = 0;
    while outlives(&setup, at, effects[at % effects.len()]) {
        at += 2;
    }
    assert!(at > 60, "{at}");
}

/// False when no operation was the `at`-th.
fn outlives(setup: &Setup, at: usize, effect: Effect) -> bool {
    let what = format!("{effect:?} at {at}");
    let passes = matches!(
        effect,
        Effect::Fail(ErrorKind::StorageFull) | Effect::Errno(_)
    );
    let fault = Fault {
        path_contains: Some("/t-0".into()),
        ..Fault::at(at as u64, effect)
    };
    let disk = SimDisk::new(1);
    let appended = life(&disk, setup, async |cluster| {
        both_moves(cluster, &disk, Some(fault)).await;
        if disk.faults_left() > 0 {
            return None;
        }
        cluster.pass_ms(5000).await;
        let answer = cluster.try_produce("t", PARTITION, batch(&["alive"])).await;
        if passes && !is_unsynced(cluster) && !is_without_a_path(cluster) {
            assert_eq!(answer, Ok(7), "{what}: it passes");
            assert_eq!(cluster.values("t", PARTITION).await.len(), 8, "{what}");
        }
        Some(usize::from(answer.is_ok()))
    });
    let Some(appended) = appended else {
        return false;
    };
    let next = if matches!(effect, Effect::PowerOff) {
        disk.crash(at as u64)
    } else {
        disk.kill(at as u64)
    };
    let again = try_life(&next, &setup.next(), async |cluster| {
        check_next(cluster, &what, appended).await;
    });
    again.unwrap_or_else(|error| panic!("{what}: {error}"));
    true
}

/// A path that could not be listed when the log was opened in its new home is out of use until the
/// next start.
fn is_without_a_path(cluster: &Cluster) -> bool {
    let tiers = cluster.brokers[0].store.tiers();
    tiers.is_some_and(|tiers| tiers.paths().iter().any(|path| path.failed().is_some()))
}

/// A failed sync is final, whatever the reason: the broker cannot know what of it is on the disk.
fn is_unsynced(cluster: &Cluster) -> bool {
    let led = cluster.brokers[0].led_partitions();
    let mut failures = led.iter().filter_map(|partition| partition.log.failed());
    failures.any(|error| {
        error.kind() == FailureKind::Failed && error.to_string().contains("cannot sync")
    })
}

/// Seven records in three segments; from now on the log moves to the other directory, which is
/// given.
async fn moves(cluster: &Cluster, disk: &SimDisk) -> &'static str {
    cluster.create("t", 1).await;
    for number in 0..RECORDS {
        cluster.produce("t", PARTITION, &[&value(number)]).await;
    }
    let to = other(home(disk, "t"));
    let slow = Duration::from_millis(5);
    disk.set_latency(slow, slow);
    assert_eq!(alter(cluster, "t", to).await, None);
    to
}

async fn until(cluster: &Cluster, is_so: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if is_so() {
            return;
        }
        cluster.pass_ms(1).await;
    }
    panic!("it does not move");
}

#[test]
fn a_clock_that_is_set_back_while_a_log_is_switched_to_another_directory_costs_no_record() {
    let (disk, setup) = (SimDisk::new(1), tiers());
    life(&disk, &setup, async |cluster| {
        let to = moves(cluster, &disk).await;
        // Closing has cut the file.
        disk.inject(Fault {
            of: Some(OpKind::SyncDir),
            path_contains: Some(format!("{}/t-0", other(to))),
            ..Fault::at(0, Effect::Slow(Duration::from_secs(2)))
        });
        until(cluster, || disk.faults_left() == 0).await;
        cluster.platform.clock().jump_ms(-3_600_000);
        disk.set_latency(Duration::ZERO, Duration::ZERO);
        cluster.pass_ms(120_000).await;
        assert!(cluster.values("t", PARTITION).await == expected());
    });
    life(&disk.kill(2), &setup.next(), async |cluster| {
        assert!(cluster.values("t", PARTITION).await == expected());
        let offset = cluster.produce("t", PARTITION, &["after"]).await;
        assert_eq!(usize::try_from(offset), Ok(RECORDS));
    });
}
