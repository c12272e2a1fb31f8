//! The commit loop towards its callers: what shares a commit, who is refused, what a failure says,
//! and what is left of those who stop waiting.

use std::io::ErrorKind;
use std::time::Duration;

use platform::disk::{Disk, DiskFile, Open};
use platform::sim::{Effect, Fault, OpKind, Rng, SimDisk, SimFile};
use platform::task;

use super::commit_story::{SharedLedger, owned_part, rest, start};
use super::ring_file::{PATH, new_disk, read, simulate};
use super::*;
use crate::journal::committer::{Committer, Condition};
use crate::journal::error::JournalError;
use crate::journal::submission::OwnedPart;

/// Returns a submission of one part of a log.
pub(super) fn one(number: u128, position: u32, len: usize) -> Vec<OwnedPart> {
    let bytes = vec![u8::try_from(number).unwrap(); len];
    vec![owned_part(&WrittenPart::bytes(
        log(number),
        position,
        bytes,
    ))]
}

pub(super) fn cut_of(number: u128) -> OwnedPart {
    owned_part(&WrittenPart::cut(log(number), 0))
}

pub(super) async fn started(disk: &SimDisk) -> Committer<SimFile> {
    let known = SharedLedger::default();
    start(disk, &known, &mut Rng::new(1)).await.unwrap()
}

/// Begins to commit, in a task.
pub(super) fn begin(
    committer: &Committer<SimFile>,
    parts: Vec<OwnedPart>,
) -> task::JoinHandle<Result<Sequence, JournalError>> {
    let committer = committer.clone();
    task::spawn(async move { committer.commit(parts).await })
}

/// Lets all tasks run until they wait for time or for each other.
pub(super) async fn settle() {
    rest(Duration::from_millis(20)).await;
}

#[test]
fn callers_of_the_same_moment_share_a_commit_and_later_ones_the_next() {
    simulate(async {
        let disk = new_disk(1).await;
        let committer = started(&disk).await;
        let at_once: Vec<_> = (1..=20)
            .map(|number| begin(&committer, one(number, 0, 100)))
            .collect();
        let mut sequences = Vec::new();
        for commit in at_once {
            sequences.push(commit.await.unwrap().unwrap());
        }
        assert_eq!(sequences, [Sequence(1); 20]);
        let two = begin(&committer, one(1, 100, 9));
        assert_eq!(two.await.unwrap().unwrap(), Sequence(2));
        let (_, _, commits) = read(&disk.crash(1)).await.unwrap();
        let logs: Vec<_> = commits[0].1.iter().map(|part| part.log).collect();
        assert_eq!(logs, (1..=20).map(log).collect::<Vec<_>>());
        assert_eq!((commits.len(), commits[1].1.len()), (2, 1));
    });
}

#[test]
fn a_submission_is_whole_in_one_commit_and_the_rest_follows_in_order() {
    simulate(async {
        let disk = new_disk(1).await;
        let committer = started(&disk).await;
        // Two of these fit into the longest commit of this ring, 16 KiB.
        let all: Vec<_> = (1..=5)
            .map(|number| begin(&committer, one(number, 0, 7000)))
            .collect();
        let mut sequences = Vec::new();
        for commit in all {
            sequences.push(commit.await.unwrap().unwrap().0);
        }
        assert_eq!(sequences, [1, 1, 2, 2, 3]);
    });
}

#[test]
fn what_no_commit_takes_is_refused_and_nothing_else_is() {
    simulate(async {
        let disk = new_disk(1).await;
        let committer = started(&disk).await;
        let too_long = committer.commit(one(1, 0, 16_384)).await.unwrap_err();
        let expected = "a commit of 20480 bytes, where the ring takes 16384";
        assert_eq!(too_long.to_string(), expected);
        let mut beyond = one(1, u32::MAX, 5);
        for parts in [Vec::new(), one(1, 0, 0), beyond.clone()] {
            let error = committer.commit(parts).await.unwrap_err();
            assert!(matches!(error, JournalError::Unfit { .. }), "{error}");
        }
        assert!(committer.cut(beyond.remove(0)).is_err());
        let fits = committer.commit(one(1, 0, 16_384 - 96)).await;
        assert_eq!(fits.unwrap(), Sequence(1));
        assert!(matches!(
            *committer.condition().borrow(),
            Condition::Working
        ));
    });
}

#[test]
fn a_caller_that_stops_waiting_is_committed_and_changes_nothing_for_others() {
    simulate(async {
        let disk = new_disk(1).await;
        disk.set_latency(Duration::from_millis(5), Duration::from_millis(5));
        let committer = started(&disk).await;
        let first = begin(&committer, one(1, 0, 50));
        settle_one().await;
        let dropped = begin(&committer, one(2, 0, 60));
        let last = begin(&committer, one(3, 0, 70));
        settle_one().await;
        dropped.abort();
        assert_eq!(first.await.unwrap().unwrap(), Sequence(1));
        assert_eq!(last.await.unwrap().unwrap(), Sequence(2));
        let (_, _, commits) = read(&disk.crash(1)).await.unwrap();
        let logs: Vec<_> = commits[1].1.iter().map(|part| part.log).collect();
        assert_eq!(logs, [log(2), log(3)]);
    });
}

/// Lets the tasks that are ready run, in less time than a write takes.
async fn settle_one() {
    rest(Duration::from_millis(1)).await;
}

#[test]
fn a_failed_write_is_told_to_all_who_wait_and_to_all_who_come_and_is_never_repeated() {
    for (kind, skip) in [(ErrorKind::Other, 0), (ErrorKind::StorageFull, 1)] {
        simulate(async {
            let disk = new_disk(1).await;
            disk.set_latency(Duration::from_millis(5), Duration::from_millis(5));
            let committer = started(&disk).await;
            let mut condition = committer.condition();
            let fault = Fault::at_kind(skip, OpKind::WriteDurably, Effect::Fail(kind));
            disk.inject(fault);
            // In a commit, in the queue, and before the bound of the unlanded bytes.
            let all: Vec<_> = (1..=9)
                .map(|number| begin(&committer, one(number, 0, 9000)))
                .collect();
            settle_one().await;
            let (mut fine, mut failed) = (0, 0);
            for commit in all {
                match commit.await.unwrap() {
                    Ok(_) => fine += 1,
                    Err(JournalError::Failed { reason }) => {
                        assert!(reason.contains(PATH), "{reason}");
                        failed += 1;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            assert_eq!((fine, failed), (skip, 9 - skip));
            condition.changed().await.unwrap();
            assert!(matches!(*condition.borrow(), Condition::Failed(_)));
            let operations = disk.operations();
            let later = committer.commit(one(1, 9000, 5)).await;
            assert!(matches!(later, Err(JournalError::Failed { .. })));
            assert!(committer.cut(cut_of(1)).is_err());
            assert!(committer.room_for_cut().await.is_err());
            assert!(committer.released(Sequence(9)).await.is_err());
            settle().await;
            assert_eq!(disk.operations(), operations, "nothing is tried again");
            let durable = read(&disk.crash(1)).await.unwrap().2.len() as u64;
            assert!(durable == skip || durable == skip + 1, "{durable}");
        });
    }
}

#[test]
fn what_was_acknowledged_needs_no_sync() {
    simulate(async {
        let disk = new_disk(1).await;
        let committer = started(&disk).await;
        let before = disk.operations();
        committer.commit(one(1, 0, 5000)).await.unwrap();
        assert_eq!(disk.operations(), before + 1, "one write, and nothing else");
        let file = disk.open(PATH.as_ref(), Open::Read).await.unwrap();
        let len = file.len().await.unwrap();
        let durable = disk.durable_contents(PATH.as_ref()).unwrap();
        assert_eq!(durable.len() as u64, len);
        assert_eq!(durable, disk.contents(PATH.as_ref()).unwrap());
    });
}
