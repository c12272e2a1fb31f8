//! The journal on a real file system, with both engines.

use std::path::Path;

use platform::Platform;
use platform::os::{EngineChoice, System};
use platform::runtime::run_shard;
use platform::task;

use super::committing::one;
use super::*;
use crate::journal::committer::{Committer, CommitterOptions};
use crate::journal::error::JournalError;
use crate::journal::file;

const OPTIONS: CommitterOptions = CommitterOptions {
    unlanded_bytes_max: 1 << 20,
};

async fn use_and_read(system: System, path: &Path) {
    let disk = system.disk();
    let size = RingSize::new(2 << 20).unwrap();
    let made = file::create(disk, path, ring_id(), size, system.random_u64()).await;
    let committer = Committer::new(made.unwrap(), OPTIONS);
    let exists = file::create(disk, path, ring_id(), size, 1).await.err();
    assert!(matches!(exists, Some(JournalError::Exists { .. })));
    let callers: Vec<_> = (1..=50)
        .map(|number| {
            let committer = committer.clone();
            task::spawn(async move {
                let mut sequences = Vec::new();
                for position in 0..4 {
                    let commit = committer.commit(one(number, position * 2000, 2000));
                    sequences.push(commit.await.unwrap());
                }
                sequences
            })
        })
        .collect();
    let mut acknowledged = Vec::new();
    for (caller, number) in callers.into_iter().zip(1_u128..) {
        for (sequence, position) in caller.await.unwrap().into_iter().zip(0_u32..) {
            acknowledged.push((sequence, number, position * 2000));
        }
    }
    let mut found = Vec::new();
    let ring = file::open(disk, path, "the cluster", Uuid::from_u128(1)).await;
    let visit = |commit: Commit<'_>| {
        for part in commit.parts() {
            assert_eq!(part.bytes().len(), 2000);
            let number = part.log.topic_id.0.as_u128();
            found.push((commit.stamp.sequence, number, part.position));
        }
    };
    let read = ring.unwrap().scan(visit).await.unwrap();
    acknowledged.sort();
    found.sort();
    assert_eq!(found, acknowledged);
    let open = read.begin(system.random_u64()).await.unwrap();
    let next = Committer::new(open, OPTIONS).commit(one(1, 8000, 5)).await;
    assert!(next.unwrap() > acknowledged.last().unwrap().0);
    file::remove(disk, path).await.unwrap();
    let gone = file::open(disk, path, "the cluster", Uuid::from_u128(1)).await;
    assert!(gone.is_err());
}

#[test]
fn what_was_acknowledged_is_read_back_on_a_real_disk() {
    for choice in [EngineChoice::Auto, EngineChoice::Threads] {
        let dir = tempfile::tempdir().unwrap();
        let ran = run_shard(None, async {
            let system = System::start(choice).unwrap();
            use_and_read(system, &dir.path().join("a.ring")).await;
        });
        ran.unwrap();
    }
}
