//! The wall clock is set, by hours and by years, both ways: nothing is deleted early, and what is
//! dated afterwards ages.

use std::time::Duration;

use platform::Platform;
use platform::sim::SimDisk;
use wire::messages::describe_producers_request::TopicRequest;
use wire::messages::{DescribeProducersRequest, DescribeTransactionsRequest, TransactionalId};
use wire::types::ErrorCode;

use crate::harness::asks::{error, text, topic_name};
use crate::harness::batches::{batch_at, produced};
use crate::harness::transactor::Transactor;
use crate::harness::{Cluster, Setup, life};

pub(crate) const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
const HOLD_MS: i64 = 6 * HOUR_MS;
/// What clocks are set by.
pub(crate) const STEPS_MS: [i64; 6] = [
    2 * HOUR_MS,
    30 * DAY_MS,
    3650 * DAY_MS,
    -2 * HOUR_MS,
    -30 * DAY_MS,
    -3650 * DAY_MS,
];

/// Records are taken whatever the broker's clock shows.
pub(crate) const TAKES_ALL: [(&str, &str); 2] = [
    ("message.timestamp.before.max.ms", "9223372036854775807"),
    ("message.timestamp.after.max.ms", "9223372036854775807"),
];

/// A step is not believed for six hours; what is idle goes after two days.
pub(crate) fn setup() -> Setup {
    let mut setup = Setup::shards(2);
    setup.options.clock.hold_ms = HOLD_MS;
    setup.options.transaction.id_expiration = Duration::from_hours(48);
    setup.options.group.offsets_retention = Duration::from_hours(48);
    setup
}

pub(crate) async fn pass(cluster: &Cluster, ms: i64) {
    cluster.pass_ms(u64::try_from(ms).unwrap()).await;
}

pub(crate) fn set(cluster: &Cluster, by_ms: i64) {
    cluster.platform.clock().jump_ms(by_ms);
}

/// A record, a producer, a transactional id and a position: each kept for days.
async fn furnish(cluster: &Cluster) {
    cluster.create_with("t", 2, &TAKES_ALL).await;
    let records = produced(4711, 0, 0, &["a"]);
    cluster.try_produce("t", 0, records).await.unwrap();
    let mut done = Transactor::begin(cluster, "done", false).await;
    done.write(0, &["b"]).await;
    done.end(true).await.unwrap();
    cluster.settled_values(0).await;
    cluster.commit("g", "t", 0, 1).await;
}

/// How many producers of the partition are known.
async fn producers(cluster: &Cluster) -> usize {
    let topic = TopicRequest::default()
        .with_name(topic_name("t"))
        .with_partition_indexes(vec![0]);
    let request = DescribeProducersRequest::default().with_topics(vec![topic]);
    let mut answer = cluster.ask(0, &request).await;
    let partition = answer.topics.remove(0).partitions.remove(0);
    assert_eq!(partition.error_code, 0);
    partition.active_producers.len()
}

async fn knows_id(cluster: &Cluster) -> bool {
    let request = DescribeTransactionsRequest::default()
        .with_transactional_ids(vec![TransactionalId(text("done"))]);
    let answer = cluster.ask(0, &request).await;
    match error(answer.transaction_states[0].error_code) {
        None => true,
        Some(ErrorCode::TransactionalIdNotFound) => false,
        Some(code) => panic!("{code:?}"),
    }
}

async fn all_is_there(cluster: &Cluster, what: &str) {
    let values = cluster.values("t", 0).await;
    assert_eq!(values[..2], ["a", "b"], "{what}: records");
    assert_eq!(producers(cluster).await, 2, "{what}: producers");
    assert!(knows_id(cluster).await, "{what}: the transactional id");
    assert_eq!(cluster.committed("g", "t", 0).await, 1, "{what}: position");
}

#[test]
fn a_clock_that_is_set_deletes_nothing() {
    for by_ms in STEPS_MS {
        life(&SimDisk::new(1), &setup(), async |cluster| {
            furnish(cluster).await;
            pass(cluster, HOUR_MS).await;
            set(cluster, by_ms);
            // A look of everything that deletes.
            pass(cluster, HOUR_MS + 600_000).await;
            all_is_there(cluster, &format!("set by {by_ms}")).await;
            assert_eq!(cluster.metrics.clock_step.get(), by_ms);
            assert_eq!(cluster.metrics.clock_steps.get(), 1);
            let held = cluster.brokers[0].held_step().unwrap();
            assert_eq!(held.by_ms, by_ms);
            assert!(held.left_ms > 4 * HOUR_MS && held.left_ms < 5 * HOUR_MS);
            // Set right again.
            set(cluster, -by_ms);
            pass(cluster, 21_000).await;
            assert_eq!(cluster.brokers[0].held_step(), None);
            pass(cluster, HOUR_MS + 600_000).await;
            all_is_there(cluster, &format!("set back by {by_ms}")).await;
        });
    }
}

#[test]
fn what_is_written_after_a_step_ages_as_ever() {
    for by_ms in STEPS_MS {
        let setup = setup();
        life(&SimDisk::new(1), &setup, async |cluster| {
            set(cluster, by_ms);
            pass(cluster, 60_000).await;
            let config = [("retention.ms", "1800000")];
            cluster.create_with("short", 1, &config).await;
            let now_ms = cluster.platform.clock().wall_ms();
            let records = batch_at(now_ms, &["new"]);
            cluster.try_produce("short", 0, records).await.unwrap();
            pass(cluster, 1_500_000).await;
            assert_eq!(cluster.values("short", 0).await, ["new"], "{by_ms}");
            pass(cluster, 1_200_000).await;
            assert!(cluster.values("short", 0).await.is_empty(), "{by_ms}");
            assert!(cluster.brokers[0].held_step().is_some());
        });
    }
}

#[test]
fn a_step_that_stays_is_believed_after_its_time() {
    life(&SimDisk::new(1), &setup(), async |cluster| {
        furnish(cluster).await;
        set(cluster, 30 * DAY_MS);
        pass(cluster, HOLD_MS - HOUR_MS).await;
        all_is_there(cluster, "before its time").await;
        pass(cluster, 3 * HOUR_MS).await;
        assert_eq!(cluster.brokers[0].held_step(), None);
        assert_eq!(cluster.metrics.clock_step.get(), 0);
        assert!(cluster.values("t", 0).await.is_empty());
        assert_eq!(producers(cluster).await, 0);
        assert!(!knows_id(cluster).await);
        let position = cluster.committed("g", "t", 0).await;
        assert_eq!(position, 1, "positions go by the time that passes");
    });
}

#[test]
fn a_step_is_believed_at_once_where_the_settings_say_so() {
    let setup = Setup::shards(1).with("clock.step.hold.ms", "0");
    life(&SimDisk::new(1), &setup, async |cluster| {
        furnish(cluster).await;
        set(cluster, 30 * DAY_MS);
        pass(cluster, 311_000).await;
        assert!(cluster.values("t", 0).await.is_empty());
    });
}

#[test]
fn a_start_with_a_clock_years_off_deletes_nothing_and_a_restart_changes_nothing_of_that() {
    for by_ms in [3650 * DAY_MS, -3650 * DAY_MS] {
        let (disk, mut setup) = (SimDisk::new(1), setup());
        let mut disk = life(&disk, &setup, async |cluster| {
            furnish(cluster).await;
            pass(cluster, HOUR_MS).await;
            cluster.disk().kill(1)
        });
        setup.wall_ms += by_ms;
        for start in 0..3 {
            // An hour that the next start does not notice.
            setup.wall_ms += 2 * HOUR_MS;
            setup = setup.next();
            disk = life(&disk, &setup, async |cluster| {
                assert!(cluster.brokers[0].held_step().is_some(), "start {start}");
                pass(cluster, HOUR_MS + 600_000).await;
                all_is_there(cluster, &format!("start {start}, {by_ms} off")).await;
                if start == 1 {
                    cluster.stop().await;
                }
                cluster.disk().kill(1)
            });
        }
        setup.wall_ms += 2 * HOUR_MS;
        life(&disk, &setup.next(), async |cluster| {
            pass(cluster, 4 * HOUR_MS).await;
            assert_eq!(
                cluster.brokers[0].held_step(),
                None,
                "held anew at each start"
            );
            if by_ms > 0 {
                assert!(cluster.values("t", 0).await.is_empty());
            }
        });
    }
}

#[test]
fn a_stop_of_some_hours_is_no_step_and_what_became_too_old_meanwhile_goes() {
    let (disk, mut setup) = (SimDisk::new(1), Setup::shards(1));
    let disk = life(&disk, &setup, async |cluster| {
        let config = [("retention.ms", "7200000")];
        cluster.create_with("short", 1, &config).await;
        cluster.produce("short", 0, &["old"]).await;
        cluster.stop().await;
        cluster.disk().kill(1)
    });
    setup.wall_ms += 22 * HOUR_MS;
    life(&disk, &setup.next(), async |cluster| {
        assert_eq!(cluster.brokers[0].held_step(), None);
        pass(cluster, 311_000).await;
        assert!(cluster.values("short", 0).await.is_empty());
    });
}

#[test]
fn transactional_ids_go_on_time_whatever_the_clock_did() {
    for by_ms in [0, -2 * HOUR_MS, -3650 * DAY_MS] {
        life(&SimDisk::new(1), &setup(), async |cluster| {
            furnish(cluster).await;
            pass(cluster, HOUR_MS).await;
            set(cluster, by_ms);
            pass(cluster, 2 * DAY_MS - 2 * HOUR_MS).await;
            assert!(knows_id(cluster).await, "set by {by_ms}: early");
            // A date in the future counts from the first look that believes the clock.
            pass(cluster, HOLD_MS + 4 * HOUR_MS).await;
            assert!(!knows_id(cluster).await, "set by {by_ms}: never");
            assert_eq!(
                cluster.committed("g", "t", 0).await,
                -1,
                "its time has passed"
            );
        });
    }
}

#[test]
fn a_transaction_is_neither_ended_early_nor_kept_open_by_a_clock_that_is_set() {
    for by_ms in STEPS_MS {
        life(&SimDisk::new(1), &setup(), async |cluster| {
            cluster.create_with("t", 1, &TAKES_ALL).await;
            let mut open = Transactor::begin(cluster, "open", false).await;
            open.write(0, &["a"]).await;
            pass(cluster, 20_000).await;
            set(cluster, by_ms);
            pass(cluster, 30_000).await;
            open.write(0, &["b"]).await;
            pass(cluster, 50_000).await;
            assert!(open.end(true).await.is_err(), "set by {by_ms}: kept open");
            assert!(cluster.settled_values(0).await.is_empty());
        });
    }
}
