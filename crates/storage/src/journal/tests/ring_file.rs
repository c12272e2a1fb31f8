//! A ring's file on a disk: made, opened, refused, removed; and the power fails at each step of it.

use std::io::ErrorKind;
use std::path::Path;

use platform::disk::{Disk, DiskFile, Open};
use platform::runtime::run_simulated;
use platform::sim::{Effect, Fault, SimDisk, SimFile};

use super::*;
use crate::journal::error::JournalError;
use crate::journal::file::{self, FoundRing, OpenRing, ReadRing};
use crate::journal::header::HeaderError;

pub(super) const DIR: &str = "/log";
pub(super) const PATH: &str = "/log/shard-0.ring";
const DRAFT: &str = "/log/shard-0.ring.tmp";

type Commits = Vec<(Sequence, Vec<WrittenPart>)>;

pub(super) fn simulate<F: Future>(future: F) -> F::Output {
    run_simulated(future).unwrap()
}

pub(super) async fn new_disk(seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed);
    disk.create_dir(Path::new(DIR)).await.unwrap();
    disk
}

/// A ring's id that makes a header of several sectors: a torn one is neither old nor new.
pub(super) fn wide_id() -> RingId {
    RingId {
        cluster_id: "the cluster".repeat(90),
        ..ring_id()
    }
}

pub(super) async fn create(disk: &SimDisk) -> Result<OpenRing<SimFile>, JournalError> {
    file::create(disk, Path::new(PATH), wide_id(), small(), 77).await
}

pub(super) async fn open(disk: &SimDisk) -> Result<FoundRing<SimFile>, JournalError> {
    let RingId {
        cluster_id,
        directory_id,
        ..
    } = wide_id();
    file::open(disk, Path::new(PATH), &cluster_id, directory_id).await
}

/// Opens a ring, and reads all of it.
pub(super) async fn read(
    disk: &SimDisk,
) -> Result<(Head, ReadRing<SimFile>, Commits), JournalError> {
    let found = open(disk).await?;
    let head = found.header().head;
    let mut commits = Vec::new();
    let visit = |commit: Commit<'_>| commits.push((commit.stamp.sequence, owned(&commit)));
    let read = found.scan(visit).await?;
    Ok((head, read, commits))
}

/// Commits one part of each of these numbers, past a committer.
async fn commit_to(mut open: OpenRing<SimFile>, numbers: std::ops::Range<u8>) -> Vec<WrittenPart> {
    let mut all = Vec::new();
    for number in numbers {
        let written = WrittenPart::bytes(log(1), u32::from(number), vec![number; 3000]);
        let reserved = reserve(&mut open.ring, std::slice::from_ref(&written)).unwrap();
        let bytes = blocks(reserved.stamp, std::slice::from_ref(&written));
        let mut aligned = platform::buf::AlignedBuf::zeroed(bytes.len());
        aligned.copy_from_slice(&bytes);
        let place = small().place(reserved.stamp.position);
        open.file.write(place, aligned.freeze()).await.unwrap();
        open.ring.synced(reserved.stamp.sequence);
        all.push(written);
    }
    all
}

async fn names(disk: &SimDisk) -> Vec<String> {
    let listed = disk.list(Path::new(DIR)).await.unwrap();
    listed.into_iter().map(|entry| entry.name).collect()
}

fn is_missing(error: &JournalError) -> bool {
    matches!(error, JournalError::Io { source, .. } if source.kind() == ErrorKind::NotFound)
}

#[test]
fn a_new_ring_is_of_its_whole_length_and_has_no_commits() {
    simulate(async {
        let disk = new_disk(1).await;
        drop(create(&disk).await.unwrap());
        assert_eq!(names(&disk).await, ["shard-0.ring"]);
        let disk = disk.crash(2);
        let bytes = disk.contents(Path::new(PATH)).unwrap();
        assert_eq!(bytes.len() as u64, small().file_bytes());
        assert!(bytes[8192..].iter().all(|byte| *byte == 0));
        let found = open(&disk).await.unwrap();
        assert_eq!(
            (found.header().size, &found.header().id),
            (small(), &wide_id())
        );
        assert_eq!(found.other_header(), None);
        let (_, read, commits) = read(&disk).await.unwrap();
        assert_eq!((read.end(), read.stopped()), (Head::START, StopReason::End));
        assert!(commits.is_empty());
    });
}

#[test]
fn a_ring_longer_than_a_piece_is_made_and_read() {
    simulate(async {
        let disk = new_disk(1).await;
        let size = RingSize::new((3 << 20) + BLOCK).unwrap();
        let made = file::create(&disk, Path::new(PATH), wide_id(), size, 5).await;
        drop(made.unwrap());
        let (_, read, _) = read(&disk.crash(1)).await.unwrap();
        assert_eq!(read.end(), Head::START);
    });
}

#[test]
fn a_file_that_is_there_is_never_replaced_and_a_draft_always() {
    simulate(async {
        let disk = new_disk(1).await;
        disk.put(Path::new(DRAFT), &[7; 5000]).unwrap();
        let written = commit_to(create(&disk).await.unwrap(), 0..3).await;
        let error = create(&disk).await.err().unwrap();
        assert_eq!(error.to_string(), format!("{PATH} is there already"));
        let (_, _, commits) = read(&disk).await.unwrap();
        let found: Vec<_> = commits.into_iter().flat_map(|(_, parts)| parts).collect();
        assert_eq!(found, written);
        assert_eq!(names(&disk).await, ["shard-0.ring"]);
    });
}

#[test]
fn a_file_system_that_is_too_small_is_named_with_what_is_needed() {
    simulate(async {
        let disk = new_disk(1).await;
        disk.set_capacity_bytes(Some(70_000));
        let error = create(&disk).await.err().unwrap();
        assert_eq!(
            error.to_string(),
            format!("no room for the 73728 bytes of {PATH}, of which 70000 are free")
        );
        assert_eq!(names(&disk).await, Vec::<String>::new());
        disk.set_capacity_bytes(Some(80_000));
        create(&disk).await.unwrap();
    });
}

#[test]
fn a_ring_that_cannot_be_is_not_made() {
    simulate(async {
        let disk = new_disk(1).await;
        for cluster_id in [String::new(), "x".repeat(1025)] {
            let id = RingId {
                cluster_id,
                ..ring_id()
            };
            let error = file::create(&disk, Path::new(PATH), id, small(), 7).await;
            assert!(matches!(error, Err(JournalError::Unfit { .. })));
        }
        disk.use_dax(Path::new(DIR));
        let error = create(&disk).await.err().unwrap();
        assert!(error.to_string().contains("whole sectors"), "{error}");
        assert_eq!(names(&disk).await, Vec::<String>::new());
    });
}

#[test]
fn each_failure_of_a_creation_names_its_file_leaves_no_draft_and_can_be_tried_again() {
    let (mut full, mut k) = (0, 0);
    loop {
        let struck = simulate(async {
            let mut struck = 0;
            for kind in [ErrorKind::StorageFull, ErrorKind::Other] {
                let disk = new_disk(k).await;
                disk.inject(Fault::at(k, Effect::Fail(kind)));
                let made = create(&disk).await;
                if disk.faults_left() > 0 {
                    made.unwrap();
                    continue;
                }
                struck += 1;
                // The fault may strike a look at what is there, or the removal of a draft.
                let error = made.err().unwrap();
                assert!(error.to_string().contains(DIR), "{error}");
                full += u32::from(matches!(error, JournalError::NoRoom { .. }));
                assert!(!names(&disk).await.contains(&"shard-0.ring.tmp".to_owned()));
                if let Err(error) = open(&disk).await {
                    assert!(is_missing(&error), "{error}");
                    create(&disk).await.unwrap();
                }
                read(&disk.crash(k)).await.unwrap();
            }
            struck
        });
        if struck == 0 {
            break;
        }
        k += 1;
    }
    assert!(k >= 10 && full >= 6, "{k} operations, {full} times full");
}

#[test]
fn a_power_cut_at_any_step_of_a_creation_leaves_no_ring_or_a_whole_one() {
    let (mut absent, mut there) = (0, 0);
    for k in 0.. {
        let mut struck = false;
        for seed in 0..12 {
            struck = simulate(async {
                let disk = new_disk(seed).await;
                disk.inject(Fault::at(k, Effect::PowerOff));
                let made = create(&disk).await;
                let struck = disk.faults_left() == 0;
                assert_eq!(made.is_err(), struck);
                let disk = if seed % 2 == 0 {
                    disk.crash(seed)
                } else {
                    disk.kill(seed)
                };
                let ring = match read(&disk).await {
                    Ok((_, read, commits)) => {
                        there += 1;
                        assert_eq!((read.end(), commits.len()), (Head::START, 0));
                        read.begin(5).await.unwrap()
                    }
                    Err(error) => {
                        absent += 1;
                        assert!(is_missing(&error), "{k}, {seed}: {error}");
                        assert!(struck, "it was made");
                        create(&disk).await.unwrap()
                    }
                };
                assert!(!names(&disk).await.contains(&"shard-0.ring.tmp".to_owned()));
                // What was a killed process's in a cache, the name too, is on the disk by now.
                let written = commit_to(ring, 0..2).await;
                let (_, _, commits) = read(&disk.crash(seed)).await.unwrap();
                let found = commits.into_iter().flat_map(|(_, parts)| parts);
                assert_eq!(found.collect::<Vec<_>>(), written);
                struck
            });
        }
        if !struck {
            break;
        }
    }
    assert!(absent > 50 && there > 10, "{absent} absent, {there} there");
}

#[test]
fn a_power_cut_at_any_step_of_the_next_use_leaves_all_commits_or_the_next_use() {
    for k in 0.. {
        let mut struck = false;
        for seed in 0..12 {
            struck = simulate(async {
                let disk = new_disk(seed).await;
                let written = commit_to(create(&disk).await.unwrap(), 0..6).await;
                let disk = disk.kill(seed);
                disk.inject(Fault::at(k, Effect::PowerOff));
                if let Ok((_, read, commits)) = read(&disk).await {
                    assert_eq!(commits.len(), 6);
                    let begun = read.begin(6).await;
                    assert_eq!(begun.is_err(), disk.faults_left() == 0);
                }
                let struck = disk.faults_left() == 0;
                let (_, read, commits) = read(&disk.crash(seed)).await.unwrap();
                let found: Vec<_> = commits.into_iter().flat_map(|(_, parts)| parts).collect();
                assert_eq!(read.end().sequence, Sequence(7));
                assert!(found == written || found.is_empty());
                assert!(struck || found.is_empty());
                struck
            });
        }
        if !struck {
            break;
        }
    }
}

#[test]
fn what_a_start_reads_is_on_the_disk() {
    for seed in 0..10 {
        simulate(async {
            let disk = new_disk(seed).await;
            commit_to(create(&disk).await.unwrap(), 0..3).await;
            // What another process had written and not synced, when it was killed.
            let newer = found(small(), Head::START, 3);
            let mut block = platform::buf::AlignedBuf::zeroed(index_of(BLOCK));
            Header {
                id: wide_id(),
                ..newer
            }
            .encode_into(&mut block);
            let file = disk.open(Path::new(PATH), Open::Write).await.unwrap();
            file.write_at(BLOCK, vec![block.freeze()]).await.unwrap();
            let disk = disk.kill(seed);
            assert_eq!(open(&disk).await.unwrap().header().generation, 3);
            let durable = disk.durable_contents(Path::new(PATH)).unwrap();
            assert!(durable == disk.contents(Path::new(PATH)).unwrap());
        });
    }
}

#[test]
fn a_removal_is_durable_and_takes_drafts_and_missing_files() {
    for k in 0.. {
        let mut struck = false;
        for seed in 0..10 {
            struck = simulate(async {
                let disk = new_disk(seed).await;
                drop(create(&disk).await.unwrap());
                disk.put(Path::new(DRAFT), b"left over").unwrap();
                disk.inject(Fault::at(k, Effect::PowerOff));
                let removed = file::remove(&disk, Path::new(PATH)).await;
                let struck = disk.faults_left() == 0;
                assert_eq!(removed.is_err(), struck);
                let disk = disk.crash(seed);
                match open(&disk).await {
                    Ok(_) => assert!(struck),
                    Err(error) => assert!(is_missing(&error), "{error}"),
                }
                file::remove(&disk, Path::new(PATH)).await.unwrap();
                assert_eq!(names(&disk.crash(seed)).await, Vec::<String>::new());
                struck
            });
        }
        if !struck {
            break;
        }
    }
}

#[test]
fn what_is_no_ring_of_this_directory_is_refused_by_its_path_and_kept() {
    simulate(async {
        let disk = new_disk(1).await;
        assert!(is_missing(&open(&disk).await.err().unwrap()));
        drop(create(&disk).await.unwrap());
        let whole = disk.contents(Path::new(PATH)).unwrap();
        let path = Path::new(PATH);
        let other = file::open(&disk, path, "another", Uuid::from_u128(1)).await;
        let other = other.err().unwrap().to_string();
        assert!(other.contains(PATH) && other.contains("another"), "{other}");
        let other = file::open(&disk, path, &wide_id().cluster_id, Uuid::from_u128(2)).await;
        assert!(matches!(
            other,
            Err(JournalError::Refused {
                reason: HeaderError::OtherDirectory { .. },
                ..
            })
        ));
        for len in [0, 100, 4096, 8192, whole.len() - 4096] {
            disk.put(path, &whole[..len]).unwrap();
            let error = open(&disk).await.err().unwrap();
            assert!(error.to_string().contains(PATH), "{error}");
            let is_damage = matches!(error, JournalError::Damaged { .. });
            assert_eq!(is_damage, len >= 4096, "{len}: {error}");
        }
        let garbage: Vec<u8> = whole.iter().map(|byte| byte ^ 0x55).collect();
        disk.put(path, &garbage).unwrap();
        let error = open(&disk).await.err().unwrap();
        assert!(error.to_string().contains("does not begin"), "{error}");
        assert_eq!(disk.contents(path).unwrap(), garbage);
    });
}

#[test]
fn commits_that_are_lost_refuse_the_ring_wherever_the_proof_is() {
    simulate(async {
        let disk = new_disk(1).await;
        commit_to(create(&disk).await.unwrap(), 0..9).await;
        // The third commit rots; the ninth says that it was durable.
        disk.flip(Path::new(PATH), RING_START + 2 * BLOCK + 500, 3)
            .unwrap();
        let error = read(&disk).await.err().unwrap();
        let JournalError::Damaged { at, reason, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!((at.sequence, *reason), (Sequence(3), StopReason::Lost));
        assert!(error.to_string().contains(PATH), "{error}");
    });
}

#[test]
fn a_ring_whose_numbers_end_is_read_and_not_used() {
    simulate(async {
        let disk = new_disk(1).await;
        let mut file = vec![0; index_of(small().file_bytes())];
        for generation in [(1 << 61) + 2, (1 << 61) + 3] {
            let header = Header {
                id: wide_id(),
                ..found(small(), Head::START, generation)
            };
            let place = index_of(Header::place_of(generation));
            file[place..place + index_of(BLOCK)].copy_from_slice(&header_block(&header));
        }
        disk.put(Path::new(PATH), &file).unwrap();
        let (_, read, _) = read(&disk).await.unwrap();
        let error = read.begin(3).await.err().unwrap();
        assert!(matches!(error, JournalError::WornOut { .. }), "{error}");
        assert_eq!(disk.contents(Path::new(PATH)).unwrap(), file);
    });
}
