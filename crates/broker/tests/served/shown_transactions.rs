//! What metrics show of transactions and of the metadata log: what is open, how it ended, and how
//! long things took lately.

use std::io::ErrorKind;

use platform::sim::{Effect, Fault, OpKind, SimDisk};

use crate::harness::transactor::Transactor;
use crate::harness::{Cluster, Setup, life};

/// A metric of the coordinators.
fn of(cluster: &Cluster, name: &str) -> String {
    let series = format!("kafka_server_transaction_coordinator_metrics_{name}");
    cluster.metric(&series).expect(name)
}

/// How many transactional ids are in a state.
fn ids(cluster: &Cluster, state: &str) -> String {
    let series = format!("forebay_transactional_ids{{state=\"{state}\"}}");
    cluster.metric(&series).expect(state)
}

/// How many transactions have ended in this way.
fn ended(cluster: &Cluster, outcome: &str) -> String {
    let series = format!("forebay_transactions_ended_total{{outcome=\"{outcome}\"}}");
    cluster.metric(&series).expect(outcome)
}

fn number(text: &str) -> f64 {
    text.parse().unwrap()
}

#[test]
fn transactions_are_shown_while_they_are_open_and_counted_when_they_end() {
    for (shards, newer) in [(1, false), (3, true)] {
        life(&SimDisk::new(1), &Setup::shards(shards), async |cluster| {
            cluster.create("t", 1).await;
            let mut one = Transactor::begin(cluster, "one", newer).await;
            let mut two = Transactor::begin(cluster, "two", newer).await;
            assert_eq!(of(cluster, "transactional_id_count"), "2");
            assert_eq!(ids(cluster, "Empty"), "2");
            assert_eq!(of(cluster, "active_transaction_total_time_max"), "0");
            let latency = of(cluster, "prepare_commit_to_complete_commit_latency");
            assert_eq!(latency, "NaN", "nothing was committed");

            one.write(0, &["a"]).await;
            cluster.pass_ms(5_000).await;
            two.write(0, &["b"]).await;
            assert_eq!(ids(cluster, "Ongoing"), "2");
            let oldest = number(&of(cluster, "active_transaction_total_time_max"));
            assert!((5_000.0..6_000.0).contains(&oldest), "{oldest}");
            one.end(true).await.unwrap();
            let oldest = number(&of(cluster, "active_transaction_total_time_max"));
            assert!(oldest < 1_000.0, "{oldest}: the older one is decided");
            two.end(false).await.unwrap();
            cluster.settled_values(0).await;
            cluster.pass_ms(100).await;
            assert_eq!(ids(cluster, "CompleteCommit"), "1");
            assert_eq!(ids(cluster, "CompleteAbort"), "1");
            let outcomes = ["committed", "aborted", "fenced", "timed_out"];
            let counts = || outcomes.map(|outcome| ended(cluster, outcome));
            assert_eq!(counts(), ["1", "1", "0", "0"]);
            let latency = of(cluster, "prepare_commit_to_complete_commit_latency");
            assert!((0.0..100.0).contains(&number(&latency)), "{latency}");

            one.write(0, &["c"]).await;
            two.write(0, &["d"]).await;
            Transactor::begin(cluster, "one", newer).await;
            assert_eq!(counts(), ["1", "1", "1", "0"]);
            assert_eq!(of(cluster, "transaction_timeout_total"), "0");
            cluster.pass_ms(75_000).await;
            assert_eq!(counts(), ["1", "1", "1", "1"]);
            assert_eq!(of(cluster, "transaction_timeout_total"), "1");
            assert_eq!(of(cluster, "transaction_state_error_total"), "0");
            assert_eq!(ids(cluster, "Ongoing"), "0");
        });
    }
}

#[test]
fn how_long_loads_and_commits_of_metadata_took_is_shown_for_a_minute_at_most() {
    let disk = SimDisk::new(1);
    let setup = Setup::shards(2);
    life(&disk, &setup, async |cluster| {
        cluster.create("t", 1).await;
        let mut writer = Transactor::begin(cluster, "id", true).await;
        writer.write(0, &["a"]).await;
        writer.end(true).await.unwrap();
        cluster.settled_values(0).await;
        cluster.stop().await;
    });
    life(&disk, &setup.next(), async |cluster| {
        cluster.create("other", 1).await;
        cluster.pass_ms(5_000).await;
        let commits = "kafka_server_raftmetrics_commit_latency_avg";
        let commits = || cluster.metric(commits).unwrap();
        let longest = number(&of(cluster, "partition_load_time_max"));
        let mean = number(&of(cluster, "partition_load_time_avg"));
        assert!(0.0 <= mean && mean <= longest && longest < 5_000.0);
        assert!((0.0..1_000.0).contains(&number(&commits())));
        assert_eq!(of(cluster, "transactional_id_count"), "1", "it is loaded");
        cluster.pass_ms(60_000).await;
        for name in ["partition_load_time_max", "partition_load_time_avg"] {
            assert_eq!(of(cluster, name), "NaN");
        }
        assert_eq!(commits(), "NaN");
    });
}

#[test]
fn a_change_that_the_log_does_not_take_is_counted() {
    life(&SimDisk::new(1), &Setup::shards(1), async |cluster| {
        cluster.create("t", 1).await;
        let writer = Transactor::begin(cluster, "id", false).await;
        let fault = Fault {
            path_contains: Some("/__transaction_state-".to_owned()),
            ..Fault::at_kind(0, OpKind::Write, Effect::Fail(ErrorKind::Other))
        };
        cluster.disk().inject(fault);
        assert!(writer.add(0).await.is_err(), "its log has failed");
        assert_eq!(of(cluster, "transaction_state_error_total"), "1");
        assert_eq!(of(cluster, "transactional_id_count"), "0", "unknown now");
    });
}
