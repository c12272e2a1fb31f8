//! `check` finds planted damage of every kind, names the file, and finds nothing in what a stop
//! leaves.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod world;

use std::path::{Path, PathBuf};

use bytes::Bytes;
use platform::disk::Disk;
use platform::sim::SimDisk;
use storage::LogOptions;
use storage::check::{Report, Severity, check};
use wire::batch::builder::BatchBuilder;
use wire::types::{LeaderEpoch, Offset, ProducerId, TimestampMs};
use world::*;

const META: &[u8] = b"version=1\nnode.id=1\ncluster.id=c\n";

fn draft(id: i64, sequence: i32) -> BatchBuilder {
    BatchBuilder::new(Offset(0), LeaderEpoch(-1))
        .transactional(true)
        .producer(ProducerId(id), 0, sequence)
}

fn aborted(id: i64) -> Bytes {
    let mut marker = draft(id, -1).control(true);
    marker.add(TimestampMs(NOW_MS), Some(&[0; 4]), Some(&[0; 6]), &[]);
    marker.finish().unwrap()
}

/// Four segments with an aborted transaction in the first, left by a clean stop.
async fn left() -> SimDisk {
    let world = World::new();
    let small = LogOptions {
        index_interval_bytes: 1,
        ..options()
    };
    let log = world.open(small).await;
    let records = filled(draft(7, 0), 0, 2, 500, NOW_MS);
    log.append(&records, EPOCH, NOW_MS).unwrap();
    log.append(&aborted(7), EPOCH, NOW_MS).unwrap();
    for _ in 0..4 {
        for _ in 0..5 {
            produce(&log, 2, 700).await;
        }
        log.roll().await.unwrap();
    }
    produce(&log, 2, 700).await;
    log.close().await.unwrap();
    let disk = world.disk().kill(1);
    let put = |name: &str, bytes: &[u8]| disk.put(&Path::new(DIR).join(name), bytes).unwrap();
    put("meta.properties", META);
    put(".kafka_cleanshutdown", b"{\"version\":0,\"brokerEpoch\":1}");
    put("recovery-point-offset-checkpoint", b"0\n1\norders 0 45\n");
    put("cleaner-offset-checkpoint", b"");
    disk
}

async fn report(disk: &SimDisk) -> Report {
    let before = disk.trace_hash();
    let report = check(disk, &[PathBuf::from(DIR)]).await.unwrap();
    assert_ne!(before, disk.trace_hash());
    report
}

fn file(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}

async fn names(disk: &SimDisk, suffix: &str) -> Vec<PathBuf> {
    let listed = disk.list(Path::new(FOLDER)).await.unwrap();
    let names = listed.into_iter().map(|entry| entry.name);
    let found = names.filter(|name| name.ends_with(suffix));
    found.map(|name| file(&name)).collect()
}

/// Asserts that the worst of the findings is of this severity and about this file.
async fn expect(disk: &SimDisk, severity: Severity, path: &Path, what: &str) {
    let report = about(disk, severity, path, what).await;
    assert_eq!(report.is_sound(), severity == Severity::Note);
}

/// Asserts that a finding of this severity is about this file, and the first one.
async fn about(disk: &SimDisk, severity: Severity, path: &Path, what: &str) -> Report {
    let report = report(disk).await;
    let about = report.findings.iter().find(|finding| finding.path == path);
    let about = about.unwrap_or_else(|| panic!("nothing about {}: {report:#?}", path.display()));
    assert_eq!(about.severity, severity, "{about:?}");
    assert!(about.what.contains(what), "{about:?}");
    report
}

#[test]
fn what_a_clean_stop_leaves_is_sound() {
    simulate(async {
        let disk = left().await;
        let report = report(&disk).await;
        assert_eq!(report.findings, []);
        assert_eq!((report.logs, report.segments, report.batches), (1, 5, 23));
    });
}

#[test]
fn damaged_records_are_found_wherever_the_bit_is() {
    simulate(async {
        let disk = left().await;
        for path in names(&disk, ".log").await {
            let len = disk.contents(&path).unwrap().len() as u64;
            for at in (0..len).step_by(97) {
                disk.flip(&path, at, 3).unwrap();
                let report = report(&disk).await;
                // Only the epoch of a batch is under no checksum and, if it grows, under no rule
                // but the hint's.
                assert!(!report.is_sound(), "{} {at}", path.display());
                disk.flip(&path, at, 3).unwrap();
            }
        }
    });
}

#[test]
fn missing_doubled_and_padded_segments_are_found() {
    simulate(async {
        let disk = left().await;
        let logs = names(&disk, ".log").await;
        disk.remove_file(&logs[2]).await.unwrap();
        expect(&disk, Severity::Damage, &logs[3], "are missing before it").await;

        let disk = left().await;
        let bytes = disk.contents(&logs[1]).unwrap();
        disk.put(&logs[1], &bytes[..bytes.len() - 10]).unwrap();
        expect(&disk, Severity::Damage, &logs[1], "no batch begins here").await;

        let disk = left().await;
        let bytes = [bytes.as_slice(), &[0; 4096]].concat();
        disk.put(&logs[1], &bytes).unwrap();
        expect(&disk, Severity::Damage, &logs[1], "zeros").await;

        let disk = left().await;
        let bytes = disk.contents(&logs[4]).unwrap();
        disk.put(&logs[4], &[bytes.as_slice(), &[0; 4096]].concat())
            .unwrap();
        expect(&disk, Severity::Note, &logs[4], "4096 bytes of padding").await;

        let disk = left().await;
        let bytes = disk.contents(&logs[1]).unwrap();
        disk.put(&file("00000000000000000003.log"), &bytes).unwrap();
        expect(&disk, Severity::Damage, &logs[1], "begins within").await;
    });
}

/// The same directory as a killed process leaves it, with this recovery point.
async fn killed(point: i64) -> SimDisk {
    let disk = left().await;
    let mark = Path::new(DIR).join(".kafka_cleanshutdown");
    disk.remove_file(&mark).await.unwrap();
    let points = Path::new(DIR).join("recovery-point-offset-checkpoint");
    let text = format!("0\n1\norders 0 {point}\n");
    disk.put(&points, text.as_bytes()).unwrap();
    disk
}

#[test]
fn what_a_kill_leaves_behind_the_recovery_point_is_no_damage() {
    simulate(async {
        let logs = names(&left().await, ".log").await;
        let bases: Vec<_> = [0, 13, 23, 33, 43]
            .map(|base| file(&format!("{base:020}.log")))
            .into();
        assert_eq!(logs, bases);
        // A segment begins before the end of the one before it was written.
        for (point, severity, what) in [
            (33, Severity::Hint, "takes this segment out"),
            (34, Severity::Damage, "are missing before it"),
        ] {
            let disk = killed(point).await;
            disk.remove_file(&logs[3]).await.unwrap();
            about(&disk, severity, &logs[4], what).await;
        }
        // One that waits to be sealed has room behind its batches.
        for (point, severity, what) in [
            (23, Severity::Note, "4096 bytes of padding"),
            (24, Severity::Damage, "zeros"),
        ] {
            let disk = killed(point).await;
            let bytes = disk.contents(&logs[1]).unwrap();
            disk.put(&logs[1], &[bytes.as_slice(), &[0; 4096]].concat())
                .unwrap();
            about(&disk, severity, &logs[1], what).await;
        }
        // The beginning of a batch; with a whole one behind it it is more than that.
        let bytes = disk_bytes(&logs[4]).await;
        let half = &bytes[..bytes.len() - 10];
        for (rest, severity, what) in [
            (
                vec![half],
                Severity::Note,
                "being written when the process ended",
            ),
            (vec![half, &bytes], Severity::Damage, "the CRC is wrong"),
        ] {
            let disk = killed(43).await;
            disk.put(&logs[4], &rest.concat()).unwrap();
            about(&disk, severity, &logs[4], what).await;
        }
    });
}

async fn disk_bytes(path: &Path) -> Vec<u8> {
    left().await.contents(path).unwrap()
}

#[test]
fn damaged_indexes_and_hints_are_found() {
    simulate(async {
        for suffix in [".index", ".timeindex", ".txnindex", ".snapshot"] {
            let disk = left().await;
            let path = names(&disk, suffix).await[0].clone();
            disk.put(&path, b"odd").unwrap();
            expect(&disk, Severity::Hint, &path, "").await;
        }
        let disk = left().await;
        let path = names(&disk, ".index").await[1].clone();
        disk.flip(&path, 7, 0).unwrap();
        expect(&disk, Severity::Hint, &path, "not where its batch is").await;

        let disk = left().await;
        let path = names(&disk, ".timeindex").await[1].clone();
        disk.flip(&path, 1, 6).unwrap();
        expect(&disk, Severity::Hint, &path, "").await;

        let disk = left().await;
        let path = names(&disk, ".txnindex").await[0].clone();
        disk.remove_file(&path).await.unwrap();
        expect(&disk, Severity::Damage, &path, "read_committed").await;

        for (name, bytes, what) in [
            (
                "leader-epoch-checkpoint",
                &b"0\n1\n9 0\n"[..],
                "other leader epochs",
            ),
            ("leader-epoch-checkpoint", b"", "version"),
        ] {
            let disk = left().await;
            disk.put(&file(name), bytes).unwrap();
            expect(&disk, Severity::Hint, &file(name), what).await;
        }
        let disk = left().await;
        disk.put(&file("partition.metadata"), b"").unwrap();
        expect(
            &disk,
            Severity::Damage,
            &file("partition.metadata"),
            "version",
        )
        .await;
        for (name, severity) in [
            ("meta.properties", Severity::Damage),
            ("recovery-point-offset-checkpoint", Severity::Hint),
            (".kafka_cleanshutdown", Severity::Hint),
        ] {
            let disk = left().await;
            let path = Path::new(DIR).join(name);
            disk.put(&path, b"0\nodd\n").unwrap();
            expect(&disk, severity, &path, "").await;
        }
        let disk = left().await;
        let long = file("leader-epoch-checkpoint");
        disk.put(&long, &vec![b'0'; 17 << 20]).unwrap();
        expect(&disk, Severity::Hint, &long, "bytes long").await;
    });
}

#[test]
fn files_of_nobody_are_notes_and_a_segment_elsewhere_is_looked_for() {
    simulate(async {
        let disk = left().await;
        disk.put(&file("notes.txt"), b"x").unwrap();
        disk.put(&file("00000000000000000000.log.1.aside"), b"x")
            .unwrap();
        expect(&disk, Severity::Note, &file("notes.txt"), "not a file").await;

        let note = file("00000000000000000099.away");
        disk.put(&note, b"/bulk\n").unwrap();
        expect(&disk, Severity::Damage, &note, "in none of the directories").await;
        let missing = check(&disk, &[PathBuf::from("/nowhere")]).await;
        assert!(missing.is_err());
    });
}

#[test]
fn a_file_that_the_disk_does_not_give_is_damage_and_the_others_are_looked_at() {
    simulate(async {
        let disk = left().await;
        let all = report(&disk).await.batches;
        let log = names(&disk, ".log").await[1].clone();
        disk.set_broken(&log, Some(std::io::ErrorKind::Other));
        expect(&disk, Severity::Damage, &log, "cannot be read").await;
        let found = report(&disk).await;
        assert!(found.batches > all / 2, "{found:?}");
        assert_eq!(found.counts[2], 1, "{found:?}");
    });
}
