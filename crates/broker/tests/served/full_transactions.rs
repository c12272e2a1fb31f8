//! A disk without room, or one that fails, under the transaction coordinator: every id works again
//! by itself, and readers of committed records are held back by nothing that is over.

use std::io::ErrorKind;

use crate::harness::journal::lines_of;
use crate::harness::transactor::Transactor;
use crate::harness::{Cluster, Setup, life};
use platform::sim::{Effect, Fault, OpKind, SimDisk};

const LOG: &str = "/__transaction_state-";

fn faults(of: OpKind, nth: u64, count: usize, kind: ErrorKind) -> Vec<Fault> {
    let fault = Fault {
        path_contains: Some(LOG.to_owned()),
        ..Fault::at_kind(nth, of, Effect::Fail(kind))
    };
    vec![fault; count]
}

/// A producer that comes back until it is let in.
async fn begun<'a>(cluster: &'a Cluster, id: &str, newer: bool, what: &str) -> Transactor<'a> {
    for _ in 0..20 {
        if let Some(begun) = Transactor::try_begin_patiently(cluster, id, newer).await {
            return begun;
        }
        cluster.pass_ms(1000).await;
    }
    panic!("{what}: {id} is not served any more");
}

/// Three producers; one leaves a transaction open. Returns what was committed for certain, and what
/// perhaps.
async fn write(cluster: &Cluster, newer: bool, what: &str) -> (Vec<String>, Vec<String>) {
    let (mut certain, mut perhaps) = (Vec::new(), Vec::new());
    for round in 0..3 {
        for id in ["a", "b", "c"] {
            let mut writer = begun(cluster, id, newer, what).await;
            let value = format!("{id}{round}");
            if writer.add(0).await.is_err() || writer.send(0, &[&value]).await.is_err() {
                continue;
            }
            if id == "c" {
                continue;
            }
            match writer.end(true).await {
                Ok(()) => certain.push(value),
                Err(_) => perhaps.push(value),
            }
        }
    }
    (certain, perhaps)
}

/// All of what is certain can be read, in its order, and nothing that cannot be.
pub(crate) fn judge(found: &[String], certain: &[String], perhaps: &[String], what: &str) {
    let counted: Vec<_> = found.iter().filter(|it| !perhaps.contains(it)).collect();
    assert_eq!(counted, certain.iter().collect::<Vec<_>>(), "{what}");
}

#[test]
fn a_moment_without_room_takes_no_transactional_id_out_of_service() {
    for newer in [false, true] {
        for nth in 0..16 {
            for count in [1, 4] {
                let what = format!("write {nth} x {count}, newer {newer}");
                let (disk, setup) = (SimDisk::new(1), Setup::shards(2));
                let (certain, perhaps, disk) = life(&disk, &setup, async |cluster| {
                    cluster.create("t", 1).await;
                    for fault in faults(OpKind::Write, nth, count, ErrorKind::StorageFull) {
                        cluster.disk().inject(fault);
                    }
                    let (certain, perhaps) = write(cluster, newer, &what).await;
                    for id in ["a", "b", "c"] {
                        begun(cluster, id, newer, &what).await;
                    }
                    let found = cluster.settled_values(0).await;
                    judge(&found, &certain, &perhaps, &what);
                    assert_eq!(cluster.metrics.failed_transaction_partitions.get(), 0);
                    (certain, perhaps, cluster.disk().kill(1))
                });
                life(&disk, &setup.next(), async |cluster| {
                    let found = cluster.settled_values(0).await;
                    judge(&found, &certain, &perhaps, &what);
                });
            }
        }
    }
}

#[test]
fn transactions_on_a_full_disk_end_when_there_is_room() {
    for newer in [false, true] {
        life(&SimDisk::new(1), &Setup::shards(2), async |cluster| {
            cluster.create("t", 3).await;
            let mut open = Vec::new();
            for id in ["a", "b", "c", "d"] {
                let mut writer = Transactor::begin(cluster, id, newer).await;
                writer.write(0, &["x"]).await;
                open.push(writer);
            }
            cluster.disk().set_capacity_bytes(Some(1));
            for index in 0..200 {
                let id = format!("other-{index}");
                let begun = Transactor::try_begin_patiently(cluster, &id, newer).await;
                if begun.is_none() {
                    break;
                }
            }
            let ended = open[0].end(true).await;
            assert!(ended.is_err(), "the disk was to be full");
            cluster.pass_ms(5000).await;
            cluster.disk().set_capacity_bytes(None);
            cluster.pass_ms(100_000).await;
            // Those whose producer did not come back were ended by their timeout.
            let settled = cluster.settled_values(0).await;
            assert!(settled.len() <= 1, "{settled:?}");
            for id in ["a", "b", "c", "d", "other-0"] {
                let mut again = begun(cluster, id, newer, "after").await;
                again.write(1, &["y"]).await;
                again.end(true).await.unwrap();
            }
            assert_eq!(cluster.settled_values(1).await.len(), 5);
        });
    }
}

#[test]
fn ids_that_could_not_be_read_are_read_again() {
    let (disk, mut setup) = (SimDisk::new(1), Setup::shards(1));
    setup.options.transaction.partitions = 1;
    (setup.store.cache_bytes_max, setup.store.cache_bytes_start) = (64 << 10, 64 << 10);
    setup.store.chunk_bytes = 16 << 10;
    life(&disk, &setup, async |cluster| {
        cluster.create("t", 1).await;
        // More than what is in memory once the log is opened.
        for _ in 0..120 {
            for id in ["a", "b", "c"] {
                let mut writer = Transactor::begin(cluster, id, true).await;
                writer.write(0, &[id]).await;
            }
        }
        cluster.stop().await;
    });
    let lines = lines_of(|| {
        for nth in 0..6 {
            let disk = disk.kill(nth);
            // Two in a row: a second reading fails as well.
            for fault in faults(OpKind::Read, nth, 2, ErrorKind::Other) {
                disk.inject(fault);
            }
            life(&disk, &setup.next(), async |cluster| {
                cluster.pass_ms(15_000).await;
                assert_eq!(cluster.metrics.failed_transaction_partitions.get(), 0);
                for id in ["a", "b", "c"] {
                    let mut writer = begun(cluster, id, true, "again").await;
                    writer.write(0, &["again"]).await;
                    writer.end(true).await.unwrap();
                }
                assert_eq!(cluster.settled_values(0).await, ["again"; 3]);
            });
        }
    });
    let failed = lines.iter().filter(|it| it.contains("log failed"));
    assert!(failed.count() > 0, "the faults have struck nobody");
}

#[test]
fn a_transaction_that_nobody_ends_is_counted() {
    let setup = Setup::shards(1);
    let mut unverified = setup.clone();
    unverified.options.transaction.verify_partitions = false;
    life(&SimDisk::new(1), &unverified, async |cluster| {
        cluster.create("t", 1).await;
        let mut writer = Transactor::begin(cluster, "id", false).await;
        writer.write(0, &["x"]).await;
        writer.end(true).await.unwrap();
        assert_eq!(cluster.settled_values(0).await, ["x"]);
        // Late, and unknown to the coordinator: it opens a transaction without an end.
        writer.send(0, &["late"]).await.unwrap();
        cluster.pass_ms(19 * 60_000).await;
        assert_eq!(cluster.metrics.late_transactions.get(), 0, "not yet");
        cluster.pass_ms(3 * 60_000).await;
        assert_eq!(cluster.metrics.late_transactions.get(), 1);
        let mut again = Transactor::begin(cluster, "id", false).await;
        again.write(0, &["y"]).await;
        again.end(true).await.unwrap();
        cluster.settled_values(0).await;
        cluster.pass_ms(40_000).await;
        assert_eq!(cluster.metrics.late_transactions.get(), 0);
    });
}
