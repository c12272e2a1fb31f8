//! Encodes metadata records into batches of the log, and decodes them.
//!
//! A batch holds either metadata records or control records, and is applied as a whole. The broker
//! keeps two kinds of control records, the level of the Raft protocol and the voters, because a
//! snapshot has to repeat them.

use bytes::Bytes;
use wire::batch::{BatchBuilder, BatchError, BatchHeader, Batches, records};
use wire::records::DecodeError;
use wire::records::control::{ControlRecord, KRaftVersion, Voters};
use wire::records::metadata::{MetadataRecord, MetadataVersion};
use wire::types::{LeaderEpoch, Offset, TimestampMs};

use crate::image::{ImagePosition, ReplayError, Replayer};

/// No log of a broker reaches this offset: a batch that claims it was not written by a broker.
pub(crate) const OFFSET_MAX: i64 = 1 << 62;
/// Skipped records that get a log line each; later ones are only counted.
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
    /// Not a known record.
    #[error("the batch at offset {0} cannot be understood: {1}")]
    Record(Offset, DecodeError),
    /// A record without a value.
    #[error("the batch at offset {0} has a record without a value")]
    Empty(Offset),
    /// Offsets or an epoch that no log of this broker can have.
    #[error("the batch at offset {0} has an impossible offset or epoch")]
    Absurd(Offset),
    /// The batch of these records would exceed the size limit.
    #[error("a batch of metadata of more than {0} bytes is not made")]
    TooLarge(usize),
    /// These records cannot be encoded as a batch.
    #[error("a batch of metadata cannot be made: {0}")]
    Encode(std::sync::Arc<std::io::Error>),
}

/// What the log contains about its own quorum.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct QuorumRecords {
    pub(crate) kraft_version: Option<KRaftVersion>,
    pub(crate) voters: Option<Voters>,
}

/// Encodes metadata records as one batch of at most `bytes_max` bytes.
///
/// The append stamps offset and epoch.
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

/// Encodes control records as one batch.
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

/// The content of one batch.
#[derive(Debug)]
pub(crate) enum Content {
    Metadata(Vec<MetadataRecord>),
    Control(Vec<ControlRecord>),
}

/// Decodes the batches in `bytes` one after the other, after checking the CRC of each.
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

/// Returns true if the header's offsets and epoch are safe to compute with.
pub(crate) fn is_possible(header: &BatchHeader) -> bool {
    (0..OFFSET_MAX).contains(&header.base_offset.0)
        && header.last_offset_delta >= 0
        && header.leader_epoch.0 < i32::MAX
}

/// Records that did not fit the metadata before them, and were skipped.
#[derive(Debug, Default)]
pub(crate) struct UnfitRecords {
    count: u64,
}

impl UnfitRecords {
    /// Counts one such record, at this offset of the log or index in a snapshot, and logs the first
    /// ones.
    pub(crate) fn note(&mut self, at: Offset, error: &ReplayError) {
        self.count = self.count.saturating_add(1);
        if self.count <= LINES_MAX {
            tracing::error!(offset = at.0, %error, "a metadata record does not fit, the start goes on without it");
        }
    }

    /// Logs how many records were skipped, and the command that lists them.
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

/// Replays the batches that begin at or after `from`.
pub(crate) fn replay(
    bytes: &Bytes,
    from: Offset,
    image: &mut Replayer,
    quorum: &mut QuorumRecords,
    unfit: &mut UnfitRecords,
) -> Result<(), BadBatch> {
    decode(bytes, |header, content| {
        if header.base_offset < from {
            return Ok(());
        }
        let applied = ImagePosition {
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
    /// Keeps the latest record of each kind.
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
