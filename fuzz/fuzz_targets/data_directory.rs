//! A directory with small files of any bytes, and segments that are whole: a broker opens it or
//! names a file, and what undamaged segments hold is kept.
#![no_main]
#![allow(dead_code, reason = "the harness is shared with others")]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use platform::sim::SimDisk;

use harness::{Setup, life, try_life};

#[path = "../../crates/broker/tests/harness/cluster.rs"]
mod harness;

const VALUES: [&str; 3] = ["one", "two", "three"];
/// What may be damaged: of the directory, of a partition.
const FILES: [&str; 27] = [
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
    ".kafka_cleanshutdown",
    "t-0/leader-epoch-checkpoint",
    "t-0/00000000000000000000.index",
    "t-0/00000000000000000000.timeindex",
    "t-0/00000000000000000000.txnindex",
    "t-0/00000000000000000003.snapshot",
    "t-0/00000000000000000999.snapshot",
    "t-0/aborted-segments",
    "t-0/00000000000000000000.log.swap",
    "t-0/00000000000000000001.log.swap",
    "t-0/00000000000000000003.log.swap",
    "t-0/00000000000000000000.index.swap",
    "t-0/00000000000000000000.timeindex.swap",
    "t-0/00000000000000000000.txnindex.swap",
    "t-0/00000000000000000000.log.cleaned",
    "t-0/00000000000000000000.log.deleted",
    "t-0/00000000000000000000.log.moving",
    "t-0/00000000000000000000.away",
    "t-0/00000000000000000000.owed",
    "t-0/moved.metadata",
    "t-0/partition.metadata",
    "stray-0/partition.metadata",
    "t-00/partition.metadata",
];

fuzz_target!(|bytes: &[u8]| {
    let Some((&[clean, ..], mut rest)) = bytes.split_first_chunk::<1>() else {
        return;
    };
    let (disk, setup) = (SimDisk::new(0), Setup::shards(1));
    disk.set_traced(false);
    life(&disk, &setup, async |cluster| {
        for topic in ["t", "whole"] {
            cluster.create(topic, 1).await;
            cluster.produce(topic, 0, &VALUES).await;
        }
        if clean & 1 == 1 {
            cluster.stop().await;
        }
    });
    let disk = disk.kill(0);
    let mut touched = Vec::new();
    while let Some((&[which, length], tail)) = rest.split_first_chunk() {
        let (content, tail) = tail.split_at(usize::from(length).min(tail.len()));
        rest = tail;
        let name = FILES[usize::from(which) % FILES.len()];
        disk.put(&Path::new("/logs").join(name), content)
            .expect("a healthy disk");
        touched.push(name);
    }
    let started = try_life(&disk, &setup, async |cluster| {
        assert_eq!(
            cluster.values("whole", 0).await,
            VALUES,
            "nobody touched it"
        );
        // A log start that says so deletes records, an id of another topic makes it another's
        // folder, and what a note says is elsewhere is not served from here.
        let told = |name: &&str| {
            let moves = ["partition.metadata", "moved.metadata", ".away"];
            moves.iter().any(|end| name.ends_with(end)) || name.starts_with("log-start")
        };
        if !touched.iter().any(|name| told(name)) {
            match cluster.try_fetch("t", 0, 0).await {
                Ok(found) => assert_eq!(found.len(), VALUES.len(), "{found:?}"),
                Err(code) => panic!("{code:?} after {touched:?}"),
            }
        }
    });
    if let Err(reason) = started {
        assert!(reason.contains("/logs"), "which file? {reason}");
    }
});
