//! Metadata records in batches: what goes into the log, and what comes out of it.
//!
//! A batch holds either metadata records or control records; a batch is applied as a whole. Of the
//! control records only the level of the Raft protocol and the voters are kept: a snapshot has to
//! repeat them.

use bytes::Bytes;
use wire::batch::{BatchBuilder, BatchError, BatchHeader, Batches, records};
use wire::records::DecodeError;
use wire::records::control::{ControlRecord, KRaftVersion, Voters};
use wire::records::metadata::{MetadataRecord, MetadataVersion};
use wire::types::{LeaderEpoch, Offset, TimestampMs};

use crate::image::{Applied, ReplayError, Replayer};

/// No log gets as far as this offset: one that says so was not written by a broker.
pub(crate) const OFFSET_MAX: i64 = 1 << 62;
/// Records passed over that get a line each; those that follow are only counted.
const LINES_MAX: u64 = 20;

const _: () = assert!(
    OFFSET_MAX < i64::MAX,
    "an offset below the greatest has a next one"
);

/// Why the bytes of a metadata log or snapshot cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BadBatch {
    /// Not a batch.
    #[error("the batch at offset {0} is damaged: {1}")]
    Batch(Offset, BatchError),
    /// Not a record that is known.
    #[error("the batch at offset {0} cannot be understood: {1}")]
    Record(Offset, DecodeError),
    /// A record without a value.
    #[error("the batch at offset {0} has a record without a value")]
    Empty(Offset),
    /// Offsets or an epoch that no log of ours can have.
    #[error("the batch at offset {0} has an impossible offset or epoch")]
    Absurd(Offset),
    /// A batch of these records is longer than it may be.
    #[error("a batch of metadata of more than {0} bytes is not made")]
    TooLarge(usize),
    /// A batch cannot be made of these records.
    #[error("a batch of metadata cannot be made: {0}")]
    Encode(std::sync::Arc<std::io::Error>),
}

/// What the log says about its own quorum.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct QuorumRecords {
    pub(crate) kraft_version: Option<KRaftVersion>,
    pub(crate) voters: Option<Voters>,
}

/// One batch of metadata records, of so many bytes at most. Offset and epoch are stamped when it is appended.
pub(crate) fn encode(
    records: &[MetadataRecord],
    level: MetadataVersion,
    at: (Offset, LeaderEpoch),
    now: TimestampMs,
    bytes_max: usize,
) -> Result<Bytes, BadBatch> {
    let mut batch = BatchBuilder::new(at.0, at.1);
    for record in records {
        batch.add(now, None, Some(&record.encode(level)), &[]);
        if batch.size_bytes() > bytes_max {
            return Err(BadBatch::TooLarge(bytes_max));
        }
    }
    batch
        .finish()
        .map_err(|error| BadBatch::Encode(error.into()))
}

/// One batch of control records.
pub(crate) fn encode_control(
    records: &[ControlRecord],
    at: (Offset, LeaderEpoch),
    now: TimestampMs,
) -> Result<Bytes, BadBatch> {
    let mut batch = BatchBuilder::new(at.0, at.1).control(true);
    for record in records {
        let (key, value) = record.encode();
        batch.add(now, Some(&key), Some(&value), &[]);
    }
    batch
        .finish()
        .map_err(|error| BadBatch::Encode(error.into()))
}

/// What a batch holds.
#[derive(Debug)]
pub(crate) enum Content {
    Metadata(Vec<MetadataRecord>),
    Control(Vec<ControlRecord>),
}

/// Takes the batches of `bytes` apart, one after the other, after checking each one's CRC.
pub(crate) fn decode(
    bytes: &Bytes,
    mut each: impl FnMut(&BatchHeader, Content) -> Result<(), BadBatch>,
) -> Result<(), BadBatch> {
    let mut at = Offset::ZERO;
    for batch in Batches::new(bytes) {
        let (header, batch) = batch.map_err(|error| BadBatch::Batch(at, error))?;
        at = header.base_offset;
        if !is_possible(&header) {
            return Err(BadBatch::Absurd(at));
        }
        wire::batch::iter::check_crc(&header, batch).map_err(|error| BadBatch::Batch(at, error))?;
        let content = contents(&header, &bytes.slice_ref(batch))?;
        each(&header, content)?;
        at = header.next_offset();
    }
    Ok(())
}

/// True for a header whose offsets can be counted on.
pub(crate) fn is_possible(header: &BatchHeader) -> bool {
    (0..OFFSET_MAX).contains(&header.base_offset.0)
        && header.last_offset_delta >= 0
        && header.leader_epoch.0 < i32::MAX
}

/// Records that did not fit what was before them, and were passed over.
#[derive(Debug, Default)]
pub(crate) struct Unfit {
    count: u64,
}

impl Unfit {
    /// Notes one, at this offset of the log or place in a snapshot.
    pub(crate) fn note(&mut self, at: Offset, error: &ReplayError) {
        self.count = self.count.saturating_add(1);
        if self.count <= LINES_MAX {
            tracing::error!(offset = at.0, %error, "a metadata record does not fit, the start goes on without it");
        }
    }

    /// Says how many there were, and what shows them.
    pub(crate) fn say(&self, dir: &std::path::Path) {
        if self.count > 0 {
            tracing::error!(
                records = self.count,
                "metadata records were passed over; `forebay metadata check {}` lists them",
                dir.display()
            );
        }
    }
}

fn contents(header: &BatchHeader, batch: &Bytes) -> Result<Content, BadBatch> {
    let at = header.base_offset;
    let damaged = |error| BadBatch::Batch(at, error);
    let unknown = |error| BadBatch::Record(at, error);
    let mut metadata = Vec::new();
    let mut control = Vec::new();
    for record in records(batch).map_err(damaged)? {
        let record = record.map_err(damaged)?;
        let value = record.value.ok_or(BadBatch::Empty(at))?;
        if header.is_control() {
            let key = record.key.ok_or(BadBatch::Empty(at))?;
            control.push(ControlRecord::decode(&key, &value).map_err(unknown)?);
        } else {
            metadata.push(MetadataRecord::decode(&value).map_err(unknown)?);
        }
    }
    let content = if header.is_control() {
        Content::Control(control)
    } else {
        Content::Metadata(metadata)
    };
    Ok(content)
}

/// Replays batches of the log that begin at or past `from`.
pub(crate) fn replay(
    bytes: &Bytes,
    from: Offset,
    image: &mut Replayer,
    quorum: &mut QuorumRecords,
    unfit: &mut Unfit,
) -> Result<(), BadBatch> {
    decode(bytes, |header, content| {
        if header.base_offset < from {
            return Ok(());
        }
        let applied = Applied {
            offset: header.last_offset(),
            epoch: header.leader_epoch,
            timestamp: header.max_timestamp,
        };
        let records = match content {
            Content::Metadata(records) => records,
            Content::Control(records) => {
                quorum.note(records);
                Vec::new()
            }
        };
        image.replay(records, applied, |place, error| {
            let place = i64::try_from(place).unwrap_or(i64::MAX);
            unfit.note(Offset(header.base_offset.0.saturating_add(place)), &error);
        });
        Ok(())
    })
}

impl QuorumRecords {
    /// Keeps the latest of each.
    pub(crate) fn note(&mut self, records: Vec<ControlRecord>) {
        for record in records {
            match record {
                ControlRecord::KRaftVersion(version) => self.kraft_version = Some(version),
                ControlRecord::Voters(voters) => self.voters = Some(voters),
                _ => {}
            }
        }
    }
}
