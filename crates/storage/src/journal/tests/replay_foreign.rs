//! What a start meets that this broker did not leave: batches of another program, copies of
//! folders; and how much of a ring it reads.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use platform::Clock;
use platform::disk::Disk;
use platform::sim::{Effect, Fault, OpKind, SimDisk, SimFile, SimPlatform};
use wire::batch::builder::BatchBuilder;
use wire::types::TimestampMs;

use super::replay_world::DIR;
use super::ring_file::simulate;
use super::*;
use crate::checkpoint::partition_metadata;
use crate::journal::committer::{Committer, CommitterOptions};
use crate::journal::error::JournalError;
use crate::journal::file;
use crate::journal::names::ring_path;
use crate::journal::replay::{LogDirectory, RefusalReason, Replayed, replay};
use crate::journal::start::renew_ring;
use crate::journal::submission::{OwnedChange, OwnedPart};

const RING_BYTES: u64 = 16 << 20;

/// Bytes of one part: not as long as a batch.
const PART_BYTES: usize = 65_000;

fn directory() -> LogDirectory<'static> {
    LogDirectory {
        path: Path::new(DIR),
        cluster_id: "the cluster",
        directory_id: Uuid::from_u128(1),
        left_clean: false,
    }
}

fn ring() -> PathBuf {
    ring_path(Path::new(DIR), Uuid::from_u128(1), 0)
}

fn size() -> RingSize {
    RingSize::new(RING_BYTES).unwrap()
}

fn platform_on(disk: &SimDisk) -> SimPlatform {
    SimPlatform::on(disk.clone(), Clock::starting_at(1_000), 5)
}

fn batch(offset: i64, bytes: usize, fill: u8) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Offset(offset), LeaderEpoch(3));
    builder.add(TimestampMs(7), None, Some(&vec![fill; bytes]), &[]);
    builder.finish().unwrap().to_vec()
}

/// Makes a folder of the log 1 whose first segment has these bytes.
fn put_folder(disk: &SimDisk, name: &str, segment: &[u8]) -> PathBuf {
    let folder = Path::new(DIR).join(name);
    let owner = partition_metadata::encode(log(1).topic_id);
    let data = folder.join("00000000000000000000.log");
    disk.put(&folder.join(partition_metadata::FILE), &owner)
        .unwrap();
    disk.put(&data, segment).unwrap();
    data
}

/// Makes a ring that has these bytes of the log 1 in parts, from the start of its first segment.
async fn commit_all(disk: &SimDisk, bytes: &[u8]) {
    let made = file::create(disk, &ring(), ring_id(), size(), 7).await;
    let options = CommitterOptions {
        unlanded_bytes_max: RING_BYTES,
    };
    let committer = Committer::new(made.unwrap(), options);
    let mut position = 0;
    for part in bytes.chunks(PART_BYTES) {
        let length = u32::try_from(part.len()).unwrap();
        let part = OwnedPart {
            log: log(1),
            segment: Offset(0),
            position,
            change: OwnedChange::Bytes {
                leader_epoch: LeaderEpoch(3),
                bytes: part.to_vec().into(),
            },
        };
        committer.commit(vec![part]).await.unwrap();
        position += length;
    }
}

async fn start(disk: &SimDisk) -> Result<Replayed<SimFile>, JournalError> {
    replay(&platform_on(disk), &directory(), &[ring()]).await
}

#[test]
fn a_batch_of_another_program_is_kept_wherever_the_rings_bytes_are_split() {
    simulate(async {
        let ours: Vec<_> = (0..6).map(|at| batch(at, 300_000, 1)).collect();
        // The start compares a mebibyte at a time: the fifth batch is the first that begins behind.
        for foreign_at in 1..6 {
            let disk = SimDisk::new(1);
            let mut segment = ours[..foreign_at].concat();
            let begins = segment.len() as u64;
            segment.extend(batch(i64::try_from(foreign_at).unwrap(), 200_000, 2));
            let data = put_folder(&disk, "orders-0", &segment);
            commit_all(&disk, &ours.concat()).await;
            let report = start(&disk).await.unwrap().report;
            let reasons: Vec<_> = report.refused.iter().map(|log| log.reason).collect();
            let expected = RefusalReason::Other {
                segment: Offset(0),
                position: begins,
            };
            assert_eq!(reasons, [expected], "behind {foreign_at} batches");
            assert_eq!(disk.contents(&data).unwrap(), segment, "it stays");
        }
    });
}

#[test]
fn a_batch_that_a_crash_has_torn_gets_its_bytes_wherever_it_is() {
    simulate(async {
        let ours: Vec<_> = (0..6).map(|at| batch(at, 300_000, 1)).collect();
        let all = ours.concat();
        for torn_at in (100_000..all.len()).step_by(333_333) {
            let disk = SimDisk::new(1);
            let mut segment = all.clone();
            segment[torn_at..].fill(0);
            let data = put_folder(&disk, "orders-0", &segment);
            commit_all(&disk, &all).await;
            let report = start(&disk).await.unwrap().report;
            assert!(report.is_whole(), "{report:?}");
            assert_eq!(disk.contents(&data).unwrap(), all);
        }
    });
}

#[test]
fn starts_that_are_interrupted_keep_the_bytes_of_a_refused_log_once() {
    simulate(async {
        let disk = SimDisk::new(1);
        let ours: Vec<_> = (0..3).map(|at| batch(at, 50_000, 1)).collect();
        let data = put_folder(&disk, "orders-0", &batch(0, 900, 2));
        commit_all(&disk, &ours.concat()).await;
        let mut disk = disk.kill(0);
        for seed in 0..3 {
            // The last step: the names of what is kept.
            let fails = Effect::Fail(ErrorKind::Other);
            disk.inject(Fault::at_kind(2, OpKind::SyncDir, fails));
            assert!(start(&disk).await.is_err());
            assert_eq!(disk.faults_left(), 0);
            disk = disk.kill(seed);
        }
        let report = start(&disk).await.unwrap().report;
        let kept: Vec<_> = report.refused.iter().flat_map(|log| &log.kept).collect();
        assert_eq!(kept.len(), 1);
        assert_eq!(disk.contents(kept[0]).unwrap(), ours.concat());
        let all = disk.list(data.parent().unwrap()).await.unwrap();
        let asides = all.iter().filter(|entry| entry.name.contains(".aside"));
        assert_eq!(asides.count(), 1, "{all:?}");
    });
}

#[test]
fn a_log_with_two_folders_and_bytes_in_the_ring_refuses_the_start_and_changes_nothing() {
    simulate(async {
        let disk = SimDisk::new(1);
        let all = batch(0, 500, 1);
        put_folder(&disk, "orders-0", &[]);
        put_folder(&disk, "orders-copy-0", &[]);
        commit_all(&disk, &all).await;
        let before = disk.contents(&ring()).unwrap();
        let refused = start(&disk).await.err();
        let text = refused.as_ref().map(ToString::to_string).unwrap();
        assert!(
            matches!(refused, Some(JournalError::TwoFolders { .. }))
                && text.contains("/orders-0")
                && text.contains("/orders-copy-0"),
            "{text}"
        );
        assert_eq!(disk.contents(&ring()).unwrap(), before);
        // When the operator has removed the copy, the log gets what is its own.
        let copy = Path::new(DIR).join("orders-copy-0");
        disk.remove_dir_in_pieces(&copy).await.unwrap();
        assert!(start(&disk).await.unwrap().report.is_whole());
        let data = Path::new(DIR).join("orders-0/00000000000000000000.log");
        assert_eq!(disk.contents(&data).unwrap(), all);
    });
}

#[test]
fn a_ring_without_commits_is_not_read_to_its_end() {
    simulate(async {
        let disk = SimDisk::new(1);
        let meta = Path::new(DIR).join("meta.properties");
        disk.put(&meta, b"x").unwrap();
        commit_all(&disk, &[]).await;
        let before = disk.operations();
        let clean = LogDirectory {
            left_clean: true,
            ..directory()
        };
        let replayed = replay(&platform_on(&disk), &clean, &[ring()]).await;
        drop(replayed.unwrap());
        let dir = Path::new(DIR);
        let opened = renew_ring(&platform_on(&disk), ring_id(), dir, size()).await;
        drop(opened.unwrap());
        let operations = disk.operations() - before;
        assert!(operations < 30, "{operations}");
    });
}
