//! Any commits of any rings over any segments, as a start finds them: replayed without a panic,
//! never to a hole or a file that is longer than what it was told, and the same again.
//!
//! The input is a list of commands, five bytes each (what, which log, where, how much, which byte):
//! some put bytes into segments before the start, the others are parts of commits, in a ring that
//! is whole. Afterwards the first replay is repeated with the same ring, as after a crash before it
//! had ended, and the logs are opened.
#![no_main]

use std::path::{Path, PathBuf};

use libfuzzer_sys::fuzz_target;
use platform::Platform;
use platform::disk::Disk;
use platform::runtime::run_simulated;
use platform::sim::{SimDisk, SimPlatform};
use storage::checkpoint::partition_metadata;
use storage::journal::commit::{self, Change, Part, Stamp};
use storage::journal::header::{Header, RingId};
use storage::journal::names::ring_path;
use storage::journal::replay::{LogDirectory, ReplayReport, replay};
use storage::journal::{BLOCK, Head, Incarnation, LogId, Position, RingSize, Sequence};
use wire::types::{LeaderEpoch, Offset, TopicId, Uuid};

const DIR: &str = "/data";

/// No segment becomes longer.
const SEGMENT_BYTES_MAX: usize = 16 << 10;

const LOGS: u8 = 3;

const SEGMENTS: u8 = 4;

/// One command.
struct Command {
    what: u8,
    log: u8,
    segment: Offset,
    position: u32,
    length: usize,
    fill: u8,
}

fuzz_target!(|input: &[u8]| {
    let commands: Vec<_> = input.chunks_exact(6).take(200).map(command).collect();
    let disk = SimDisk::new(0);
    lay_out(&disk, &commands);
    run_simulated(replay_twice(disk)).expect("a simulated shard starts");
});

fn command(bytes: &[u8]) -> Command {
    let at = |index: usize| bytes.get(index).copied().unwrap_or_default();
    Command {
        what: at(0) % 8,
        log: at(1) % LOGS,
        segment: Offset(i64::from(at(2) % SEGMENTS) * 100),
        position: u32::from(at(3)) * 29,
        length: 1 + usize::from(at(4)) * 13,
        fill: at(5),
    }
}

fn log_id(log: u8) -> LogId {
    LogId {
        topic_id: TopicId(Uuid::from_u128(100 + u128::from(log))),
        partition: 0,
    }
}

fn folder(log: u8) -> PathBuf {
    Path::new(DIR).join(format!("t{log}-0"))
}

fn segment_path(log: u8, segment: Offset) -> PathBuf {
    folder(log).join(format!("{:020}.log", segment.0))
}

fn ring_id() -> RingId {
    RingId {
        cluster_id: "fuzz".to_owned(),
        directory_id: Uuid::from_u128(1),
        shard: 0,
    }
}

/// Makes the folders, the segments and the ring that a start finds.
fn lay_out(disk: &SimDisk, commands: &[Command]) {
    for log in 0..LOGS {
        let owner = folder(log).join(partition_metadata::FILE);
        let bytes = partition_metadata::encode(log_id(log).topic_id);
        disk.put(&owner, &bytes).expect("a new disk takes any file");
        disk.put(&segment_path(log, Offset(0)), b"")
            .expect("a new disk takes any file");
    }
    let size = RingSize::new(RingSize::MIN).expect("it is one");
    let header = Header {
        id: ring_id(),
        size,
        generation: 2,
        incarnation: Incarnation::new(7, None),
        head: Head {
            position: Position(0),
            sequence: Sequence(5),
        },
        reserved: Position(size.bytes()),
    };
    let len = usize::try_from(size.file_bytes()).expect("small");
    let mut file = vec![0; len];
    for generation in [2, 1] {
        let place = usize::try_from(Header::place_of(generation)).expect("small");
        let block = &mut file[place..place + BLOCK as usize];
        Header {
            generation,
            ..header.clone()
        }
        .encode_into(block);
    }
    let mut head = header.head;
    for command in commands {
        match command.what {
            0 => put_bytes(disk, command),
            _ => write_commit(&mut file, &header, &mut head, command),
        }
    }
    let ring = ring_path(Path::new(DIR), header.id.directory_id, 0);
    disk.put(&ring, &file).expect("a new disk takes any file");
}

/// Has a segment have bytes before the start.
fn put_bytes(disk: &SimDisk, command: &Command) {
    let path = segment_path(command.log, command.segment);
    let mut bytes = disk.contents(&path).unwrap_or_default();
    let from = usize::try_from(command.position)
        .expect("small")
        .min(bytes.len());
    bytes.truncate(from);
    bytes.resize(from + command.length, command.fill);
    disk.put(&path, &bytes).expect("the disk takes any file");
}

/// Writes a commit of one part, if the ring has room for it in this lap.
fn write_commit(file: &mut [u8], header: &Header, head: &mut Head, command: &Command) {
    let bytes = vec![command.fill; command.length];
    let change = match command.what {
        1 => Change::Cut {
            offset: Offset(command.segment.0 + 50),
        },
        _ => Change::Bytes {
            leader_epoch: LeaderEpoch(1),
            bytes: &bytes,
        },
    };
    let parts = [Part {
        log: log_id(command.log),
        segment: command.segment,
        position: command.position,
        change,
    }];
    let Some(size) = commit::size_of(&parts) else {
        return;
    };
    if size > header.size.commit_bytes_max() || head.position.0 + size > header.size.bytes() {
        return;
    }
    let stamp = Stamp {
        incarnation: header.incarnation,
        sequence: head.sequence,
        position: head.position,
        synced_below: head.sequence,
    };
    let at = usize::try_from(header.size.place(head.position)).expect("small");
    let len = usize::try_from(size).expect("small");
    commit::encode_into(stamp, &parts, &mut file[at..at + len]);
    *head = Head {
        position: head.position.plus(size),
        sequence: head.sequence.next(),
    };
}

async fn replay_twice(disk: SimDisk) {
    let ring = ring_path(Path::new(DIR), ring_id().directory_id, 0);
    let before = disk.contents(&ring).expect("it was put there");
    let report = replayed(&disk).await;
    let once = segments(&disk);
    check(&report, &once);
    // The segments are durable before the ring's headers are written.
    disk.put(&ring, &before).expect("the disk takes any file");
    let again = replayed(&disk).await;
    assert_eq!(segments(&disk), once, "a replay is repeated without harm");
    assert_eq!(again.refused.len(), report.refused.len());
    let none = replayed(&disk).await;
    assert!(none.logs.is_empty() && none.refused.is_empty());
    assert_eq!(segments(&disk), once);
}

async fn replayed(disk: &SimDisk) -> ReplayReport {
    let platform = SimPlatform::on(disk.clone(), platform::Clock::starting_at(0), 0);
    assert!(platform.disk().list(Path::new(DIR)).await.is_ok());
    let directory = LogDirectory {
        path: Path::new(DIR),
        cluster_id: "fuzz",
        directory_id: ring_id().directory_id,
        left_clean: false,
    };
    let id = ring_id();
    let ring = ring_path(Path::new(DIR), id.directory_id, id.shard);
    let replayed = replay(&platform, &directory, &[ring]).await;
    let replayed = replayed.map(|replayed| replayed.report);
    replayed.expect("a ring that is whole is replayed")
}

/// Returns the bytes of all segments.
fn segments(disk: &SimDisk) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for log in 0..LOGS {
        for segment in 0..SEGMENTS {
            let path = segment_path(log, Offset(i64::from(segment) * 100));
            if let Ok(bytes) = disk.contents(&path) {
                all.push((path, bytes));
            }
        }
    }
    all
}

fn check(report: &ReplayReport, segments: &[(PathBuf, Vec<u8>)]) {
    assert_eq!(report.rings.len(), 1);
    assert!(report.unknown.is_empty(), "every log has a folder");
    assert!(report.logs.len() + report.refused.len() <= usize::from(LOGS));
    for (path, bytes) in segments {
        assert!(bytes.len() <= SEGMENT_BYTES_MAX, "{}", path.display());
    }
}
