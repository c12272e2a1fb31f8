//! Tests of the journal: the codecs, garbage, and a model of logs, segments and a disk that loses
//! what was not synced.

use wire::types::{LeaderEpoch, Offset, TopicId, Uuid};

use super::commit::{Change, Commit, Part, Stamp, encode_into, encode_skip_into, size_of};
use super::header::{Header, RingId};
use super::ring::{Refusal, ReservedRoom, Ring};
use super::scan::{Scan, Step, StopReason};
use super::*;

mod account;
mod changes;
mod codec;
mod commit_crash;
mod commit_story;
mod committing;
mod crash;
mod damage;
mod device;
mod file;
mod garbage;
mod logs;
mod model;
mod planted;
mod pressed;
mod real_disk;
mod replay_foreign;
mod replay_image;
mod replay_story;
mod replay_world;
mod ring_file;
mod torn;
mod world;

pub(super) use planted::PlantedBug;

/// A part that owns its bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
struct WrittenPart {
    log: LogId,
    segment: Offset,
    position: u32,
    what: PartContent,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum PartContent {
    Bytes(LeaderEpoch, Vec<u8>),
    Cut(Offset),
}

impl WrittenPart {
    fn bytes(log: LogId, position: u32, bytes: Vec<u8>) -> Self {
        Self {
            log,
            segment: Offset(1000),
            position,
            what: PartContent::Bytes(LeaderEpoch(3), bytes),
        }
    }

    fn cut(log: LogId, position: u32) -> Self {
        Self {
            log,
            segment: Offset(1000),
            position,
            what: PartContent::Cut(Offset(1000)),
        }
    }

    fn of(part: &Part<'_>) -> Self {
        let what = match part.change {
            Change::Bytes {
                leader_epoch,
                bytes,
            } => PartContent::Bytes(leader_epoch, bytes.to_vec()),
            Change::Cut { offset } => PartContent::Cut(offset),
        };
        Self {
            log: part.log,
            segment: part.segment,
            position: part.position,
            what,
        }
    }

    fn part(&self) -> Part<'_> {
        let change = match &self.what {
            PartContent::Bytes(leader_epoch, bytes) => Change::Bytes {
                leader_epoch: *leader_epoch,
                bytes,
            },
            PartContent::Cut(offset) => Change::Cut { offset: *offset },
        };
        Part {
            log: self.log,
            segment: self.segment,
            position: self.position,
            change,
        }
    }
}

fn log(number: u128) -> LogId {
    LogId {
        topic_id: TopicId(Uuid::from_u128(number)),
        partition: 0,
    }
}

fn ring_id() -> RingId {
    RingId {
        cluster_id: "the cluster".to_owned(),
        directory_id: Uuid::from_u128(1),
        shard: 0,
    }
}

fn incarnation(number: u64) -> Incarnation {
    Incarnation::new(number, None)
}

fn small() -> RingSize {
    RingSize::new(RingSize::MIN).unwrap()
}

/// Returns the blocks of a commit.
fn blocks(stamp: Stamp, written: &[WrittenPart]) -> Vec<u8> {
    let parts: Vec<_> = written.iter().map(WrittenPart::part).collect();
    let mut blocks = vec![0xee; index_of(size_of(&parts).unwrap())];
    encode_into(stamp, &parts, &mut blocks);
    blocks
}

fn skip_block(stamp: Stamp, skipped: u64) -> Vec<u8> {
    let mut block = vec![0xee; index_of(BLOCK)];
    encode_skip_into(stamp, skipped, &mut block);
    block
}

fn header_block(header: &Header) -> Vec<u8> {
    let mut block = vec![0xee; index_of(BLOCK)];
    header.encode_into(&mut block);
    block
}

fn index_of(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

fn owned(commit: &Commit<'_>) -> Vec<WrittenPart> {
    commit.parts().map(|part| WrittenPart::of(&part)).collect()
}

/// Returns a header as a scan may have begun with it.
fn found(size: RingSize, head: Head, generation: u64) -> Header {
    Header {
        id: ring_id(),
        size,
        generation,
        incarnation: incarnation(6),
        head,
        reserved: head.position.plus(size.bytes()),
    }
}

/// Returns a ring whose header blocks are both synced, and what they hold.
fn opened(end: Head) -> (Ring, [Header; 2]) {
    opened_reserving(end, small().bytes())
}

/// Returns the same of a ring whose headers reserve so much.
fn opened_reserving(end: Head, bytes: u64) -> (Ring, [Header; 2]) {
    let mut ring = Ring::after(&found(small(), end, 0), 7, end).unwrap();
    ring.reserve_at_most(bytes);
    let mut headers = Vec::new();
    while let Some(header) = ring.begin_header() {
        headers.push(header);
        ring.header_synced();
    }
    let headers = headers.try_into().expect("both blocks are written");
    (ring, headers)
}

/// Reserves room for these parts.
fn reserve(ring: &mut Ring, written: &[WrittenPart]) -> Result<ReservedRoom, Refusal> {
    let parts: Vec<_> = written.iter().map(WrittenPart::part).collect();
    ring.reserve(&parts)
}

/// What a scan of a whole file gave.
struct ReadBack {
    commits: Vec<(Sequence, Option<Vec<WrittenPart>>)>,
    stopped: StopReason,
    scan: Scan,
}

/// Reads a file as a start does; skip marks have no parts.
fn read_back(file: &[u8], header: &Header) -> ReadBack {
    let mut scan = Scan::new(header);
    let mut commits = Vec::new();
    let mut looks = 0;
    while let Some(wanted) = scan.wanted() {
        looks += 1;
        assert!(
            looks <= 2 + 2 * header.size.bytes() / BLOCK,
            "it goes round once"
        );
        assert!(wanted.bytes as u64 <= header.size.commit_bytes_max());
        assert!(wanted.place >= RING_START && wanted.place.is_multiple_of(BLOCK));
        assert!(wanted.place + wanted.bytes as u64 <= header.size.file_bytes());
        let rest = file.get(index_of(wanted.place)..).unwrap_or_default();
        assert_eq!(scan.end(), None, "it has not ended");
        let sequence = scan.at().sequence;
        match scan.take(&rest[..rest.len().min(wanted.bytes)]) {
            Step::More | Step::Stop(_) => {}
            Step::Commit(commit) => {
                assert_eq!(commit.stamp.sequence, sequence);
                commits.push((sequence, Some(owned(&commit))));
            }
            Step::Skip => commits.push((sequence, None)),
        }
    }
    ReadBack {
        commits,
        stopped: scan.stopped().expect("nothing is wanted after the end"),
        scan,
    }
}

/// Returns true if a block of the file proves that the end of a scan is damage, of those at which
/// a start looks.
fn proves_loss(file: &[u8], scan: &mut Scan) -> bool {
    let suspects = suspects(file, scan);
    prove_loss(file, scan, suspects)
}

/// Returns true if any block of the ring does, at which a start looks or not.
fn any_proves_loss(file: &[u8], scan: &mut Scan) -> bool {
    let places = (RING_START..small().file_bytes()).step_by(index_of(BLOCK));
    prove_loss(file, scan, places.collect())
}

/// Returns the places of the blocks at which a start looks, as far as the file has them.
fn suspects(file: &[u8], scan: &Scan) -> Vec<u64> {
    let len = file.len() as u64;
    let places = scan.suspect_places().into_iter();
    let places =
        places.flat_map(|range| (range.start..range.end.min(len)).step_by(index_of(BLOCK)));
    places.collect()
}

fn prove_loss(file: &[u8], scan: &mut Scan, places: Vec<u64>) -> bool {
    places.into_iter().any(|place| {
        assert!(place >= RING_START && place.is_multiple_of(BLOCK));
        let rest = file.get(index_of(place)..).unwrap_or_default();
        scan.proves_loss(place, &rest[..rest.len().min(index_of(BLOCK))])
    })
}
