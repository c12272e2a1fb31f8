//! The header of the ring's file: whose ring it is, its incarnation, and where reading begins.
//!
//! It is there twice, in the first two blocks. A header of generation `g` is in block `g % 2`, so a
//! write never touches the newer of the two, and a torn one leaves it alone.
//! Invariants: magic, version and CRC have the same place in every version, so a block is either
//! damaged or names its version; the ring of an unknown version, or of another cluster or
//! directory, is refused and never taken for an empty one.
//! It does not say where the commits end, only up to where they may: `scan` finds that. It does not
//! decide when a header is written (`ring`).

use bytes::BufMut;
use thiserror::Error;
use wire::crc;
use wire::types::{TopicId, Uuid};

use super::{
    BLOCK, Head, Incarnation, NUMBER_MAX, Position, RingSize, Sequence, take, take_number,
    take_u32, take_u64,
};
use crate::checkpoint::journal_mark::RingMark;
use crate::num::index;

/// The version that is written.
pub const VERSION: u32 = 2;

/// The version before, which is read, too: it does not say how far commits may reach.
const VERSION_WITHOUT_RESERVE: u32 = 1;

/// Length of the longest id of a cluster that a header takes.
pub const CLUSTER_ID_BYTES_MAX: usize = 1024;

const MAGIC: [u8; 8] = *b"FOREBAYJ";

/// Bytes before the CRC: magic and version.
const BEFORE_CRC: usize = 12;

/// Bytes before the content: the CRC, too.
const BEFORE_CONTENT: usize = 16;

/// Whose ring it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RingId {
    /// The cluster, as in `meta.properties`.
    pub cluster_id: String,
    /// The log directory whose logs write to the ring, wherever the ring's file is.
    pub directory_id: Uuid,
    /// The shard that writes to it. A start reads the rings of all shards, also of former ones.
    pub shard: u32,
}

impl RingId {
    /// Returns true when a header has room for it.
    pub fn is_possible(&self) -> bool {
        is_cluster_id(self.cluster_id.len())
    }
}

/// One header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// Whose ring it is.
    pub id: RingId,
    /// The size of the ring.
    pub size: RingSize,
    /// Grows by one with each header.
    pub generation: u64,
    /// The commits that count.
    pub incarnation: Incarnation,
    /// The first commit that may not be in the segments.
    pub head: Head,
    /// No commit or skip mark that counts reaches beyond; a ring after the head at most.
    pub reserved: Position,
}

/// Why a ring is not read.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// Other software wrote the file, or nothing did.
    #[error("it does not begin as a journal does")]
    NotAJournal,
    /// A later Forebay wrote it.
    #[error("its version is {0}, of which only {VERSION_WITHOUT_RESERVE} and {VERSION} are known")]
    Version(u32),
    /// The bytes are not those that were written: torn, or rotten.
    #[error("its header has a wrong CRC")]
    Damaged,
    /// The bytes are as they were written, and make no sense.
    #[error("its header is impossible: {0}")]
    Impossible(&'static str),
    /// It is of another cluster.
    #[error("it belongs to cluster {found:?}, not {expected:?}")]
    OtherCluster {
        /// The cluster in the header.
        found: String,
        /// The cluster of this node.
        expected: String,
    },
    /// It is of another log directory.
    #[error("it belongs to the log directory {}, not {}", TopicId(*.found), TopicId(*.expected))]
    OtherDirectory {
        /// The directory in the header.
        found: Uuid,
        /// The directory that was looked into.
        expected: Uuid,
    },
}

/// The header that counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice {
    /// The newer one that is whole.
    pub header: Header,
    /// What is wrong with the other block, if anything is. After a crash that is ordinary.
    pub other: Option<HeaderError>,
}

impl Header {
    /// Returns the position in the file of the block that a header of this generation is in.
    pub const fn place_of(generation: u64) -> u64 {
        if generation.is_multiple_of(2) {
            0
        } else {
            BLOCK
        }
    }

    /// Returns true for a header of the use of a ring that a mark names.
    pub fn is_of(&self, mark: &RingMark) -> bool {
        self.id.shard == mark.shard
            && self.generation >= mark.generation
            && self.incarnation.fingerprint() == mark.fingerprint
    }

    /// Writes the header into a block.
    pub fn encode_into(&self, block: &mut [u8]) {
        let cluster_id = self.id.cluster_id.as_bytes();
        assert_eq!(block.len() as u64, BLOCK, "a header fills a block");
        assert!(
            is_cluster_id(cluster_id.len()) && self.generation <= NUMBER_MAX,
            "a header takes only what is read back"
        );
        block.fill(0);
        let mut rest = &mut *block;
        rest.put_slice(&MAGIC);
        rest.put_u32(VERSION);
        rest.put_u32(0);
        rest.put_u64(self.generation);
        rest.put_u64(self.incarnation.0);
        rest.put_u64(self.head.position.0);
        rest.put_u64(self.head.sequence.0);
        rest.put_u64(self.reserved.0);
        rest.put_u64(self.size.bytes());
        rest.put_slice(self.id.directory_id.as_bytes());
        rest.put_u32(self.id.shard);
        let len = u32::try_from(cluster_id.len()).expect("a bounded length fits");
        rest.put_u32(len);
        rest.put_slice(cluster_id);
        let crc = crc_of(block).expect("a block is longer than its header");
        let field = block.get_mut(BEFORE_CRC..BEFORE_CONTENT);
        let field = field.expect("a block is longer than its header");
        field.copy_from_slice(&crc.to_be_bytes());
    }

    /// Reads the header in a block.
    pub fn decode(block: &[u8]) -> Result<Self, HeaderError> {
        let block = block.get(..index(BLOCK)).ok_or(HeaderError::NotAJournal)?;
        let (magic, rest) = take::<8>(block).ok_or(HeaderError::NotAJournal)?;
        if magic != MAGIC {
            return Err(HeaderError::NotAJournal);
        }
        let (version, rest) = take_u32(rest).ok_or(HeaderError::Damaged)?;
        let (stored, content) = take_u32(rest).ok_or(HeaderError::Damaged)?;
        if crc_of(block) != Some(stored) {
            return Err(HeaderError::Damaged);
        }
        match version {
            VERSION => decode_content(content, Reserve::Stored),
            VERSION_WITHOUT_RESERVE => decode_content(content, Reserve::WholeRing),
            _ => Err(HeaderError::Version(version)),
        }
    }

    /// Fails unless the ring belongs to this directory of this cluster, whichever shard wrote it.
    pub fn check_owner(&self, cluster_id: &str, directory_id: Uuid) -> Result<(), HeaderError> {
        if self.id.cluster_id != cluster_id {
            return Err(HeaderError::OtherCluster {
                found: self.id.cluster_id.clone(),
                expected: cluster_id.to_owned(),
            });
        }
        if self.id.directory_id != directory_id {
            return Err(HeaderError::OtherDirectory {
                found: self.id.directory_id,
                expected: directory_id,
            });
        }
        Ok(())
    }
}

/// Returns the newer of the two headers that is whole.
///
/// Refuses the ring if a block with a right CRC is of an unknown version or impossible: no tear
/// makes a right CRC. Refuses it if the two contradict each other, or if both are damaged: the file
/// got its name when both were durable.
pub fn choose(blocks: [&[u8]; 2]) -> Result<Choice, HeaderError> {
    let [first, second] = blocks;
    let decoded = [decode_at(first, 0), decode_at(second, BLOCK)];
    for block in &decoded {
        if let Err(error @ (HeaderError::Version(_) | HeaderError::Impossible(_))) = block {
            return Err(error.clone());
        }
    }
    match decoded.into() {
        (Ok(first), Ok(second)) => {
            let header = newer(first, second)?;
            Ok(Choice {
                header,
                other: None,
            })
        }
        (Ok(header), Err(error)) | (Err(error), Ok(header)) => Ok(Choice {
            header,
            other: Some(error),
        }),
        (Err(HeaderError::NotAJournal), Err(error)) | (Err(error), Err(_)) => Err(error),
    }
}

/// Returns the newer of two whole headers.
///
/// Each header is written over the older one, so a pair is always of two neighbours: anything else
/// shows that a write was lost. A head is at most a ring after the one before it.
fn newer(first: Header, second: Header) -> Result<Header, HeaderError> {
    if first.id != second.id || first.size != second.size {
        return Err(HeaderError::Impossible("its two headers are of two rings"));
    }
    let (older, newer) = if first.generation < second.generation {
        (first, second)
    } else {
        (second, first)
    };
    if older.generation.checked_add(1) != Some(newer.generation) {
        return Err(HeaderError::Impossible("a header between its two is lost"));
    }
    let bytes = newer.head.position.since(older.head.position);
    let commits = newer.head.sequence.0.checked_sub(older.head.sequence.0);
    let (Some(bytes), Some(commits)) = (bytes, commits) else {
        return Err(HeaderError::Impossible("its head went back"));
    };
    // Each commit or skip mark takes a block or more.
    let is_possible = commits <= bytes / BLOCK && (commits > 0 || bytes == 0);
    if !is_possible || bytes > newer.size.bytes() {
        return Err(HeaderError::Impossible("its head moved as none does"));
    }
    if newer.incarnation == older.incarnation && newer.reserved < older.reserved {
        return Err(HeaderError::Impossible("its reserve went back"));
    }
    Ok(newer)
}

fn decode_at(block: &[u8], place: u64) -> Result<Header, HeaderError> {
    let header = Header::decode(block)?;
    if Header::place_of(header.generation) != place {
        return Err(HeaderError::Impossible("it is in the other's block"));
    }
    Ok(header)
}

/// How far commits may reach, by the version of a header.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reserve {
    /// As far as the header says.
    Stored,
    /// As far as the ring has room.
    WholeRing,
}

fn decode_content(bytes: &[u8], reserve: Reserve) -> Result<Header, HeaderError> {
    let wrong = HeaderError::Impossible;
    let (generation, bytes) = take_number(bytes).ok_or(wrong("generation"))?;
    let (incarnation, bytes) = take_u64(bytes).ok_or(wrong("incarnation"))?;
    let incarnation = Incarnation::from_file(incarnation).ok_or(wrong("incarnation"))?;
    let (position, bytes) = take_number(bytes).ok_or(wrong("head position"))?;
    let (sequence, bytes) = take_number(bytes).ok_or(wrong("head sequence"))?;
    let (stored, bytes) = match reserve {
        Reserve::Stored => take_u64(bytes).ok_or(wrong("reserve"))?,
        Reserve::WholeRing => (0, bytes),
    };
    let (size, bytes) = take_u64(bytes).ok_or(wrong("size"))?;
    let size = RingSize::new(size).ok_or(wrong("size"))?;
    let (directory_id, bytes) = take::<16>(bytes).ok_or(wrong("directory id"))?;
    let (shard, bytes) = take_u32(bytes).ok_or(wrong("shard"))?;
    let (len, bytes) = take_u32(bytes).ok_or(wrong("cluster id"))?;
    let cluster_id = bytes.get(..index(u64::from(len)));
    let cluster_id = cluster_id.filter(|bytes| is_cluster_id(bytes.len()));
    let cluster_id = cluster_id.and_then(|bytes| str::from_utf8(bytes).ok());
    if !position.is_multiple_of(BLOCK) {
        return Err(wrong("head position"));
    }
    let head = Head {
        position: Position(position),
        sequence: Sequence(sequence),
    };
    let limit = head.position.plus(size.bytes());
    let reserved = match reserve {
        Reserve::Stored => Position(stored),
        Reserve::WholeRing => limit,
    };
    let is_possible = head.position <= reserved && reserved <= limit;
    if !is_possible || !reserved.0.is_multiple_of(BLOCK) {
        return Err(wrong("reserve"));
    }
    Ok(Header {
        id: RingId {
            cluster_id: cluster_id.ok_or(wrong("cluster id"))?.to_owned(),
            directory_id: Uuid::from_bytes(directory_id),
            shard,
        },
        size,
        generation,
        incarnation,
        head,
        reserved,
    })
}

/// Returns true when a header takes a cluster id of this length.
fn is_cluster_id(len: usize) -> bool {
    (1..=CLUSTER_ID_BYTES_MAX).contains(&len)
}

/// Returns the CRC of a block without the CRC in it.
fn crc_of(block: &[u8]) -> Option<u32> {
    let before = block.get(..BEFORE_CRC)?;
    Some(crc::crc32c_append(
        crc::crc32c(before),
        block.get(BEFORE_CONTENT..)?,
    ))
}
