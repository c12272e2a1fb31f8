//! Snapshots of the metadata: `<end offset>-<epoch>.checkpoint`, and `bootstrap.checkpoint`.
//!
//! A snapshot is a header (control batch), the image as records, and a footer; a file without the
//! footer was not finished and is not used. Offsets inside begin at 0 and have no meaning: the name
//! has the end offset and the epoch. This file handles bytes only; `controller/metadata_log.rs`
//! reads, writes and deletes the files.

use bytes::Bytes;
use wire::records::control::{ControlRecord, SnapshotFooter, SnapshotHeader};
use wire::records::metadata::{MetadataRecord, MetadataVersion};
use wire::types::{LeaderEpoch, Offset, TimestampMs};

use crate::image::{Image, ImagePosition};

use super::batches::{
    BadBatch, Content, OFFSET_MAX, QuorumRecords, UnfitRecords, decode, encode, encode_control,
};

/// Name of the file in the log directory from which a new node fills its log.
pub(crate) const BOOTSTRAP_FILE_NAME: &str = "bootstrap.checkpoint";
const SUFFIX: &str = ".checkpoint";
/// Maximum records in one batch of a snapshot.
const BATCH_RECORDS_MAX: usize = 1000;

/// The part of the log that a snapshot covers: everything below `end`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct SnapshotId {
    /// Offset that follows the last record contained.
    pub(crate) end: Offset,
    /// Leader epoch of the last record contained.
    pub(crate) epoch: LeaderEpoch,
}

impl SnapshotId {
    /// Returns the id of an image's snapshot.
    pub(crate) fn of(image: &Image) -> Self {
        let applied = image.applied();
        Self {
            end: applied.offset.plus(1),
            epoch: applied.epoch,
        }
    }

    /// Returns the file name.
    pub(crate) fn file_name(self) -> String {
        format!("{:020}-{:010}{SUFFIX}", self.end.0, self.epoch.0)
    }

    /// Parses a file name; `None` for any other file, and for an impossible offset or epoch.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (end, epoch) = name.strip_suffix(SUFFIX)?.split_once('-')?;
        let digits =
            |text: &str, count| text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
        if !digits(end, 20) || !digits(epoch, 10) {
            return None;
        }
        let end = end.parse().ok().filter(|end| *end <= OFFSET_MAX)?;
        let epoch = epoch.parse().ok().filter(|epoch| *epoch < i32::MAX)?;
        Some(Self {
            end: Offset(end),
            epoch: LeaderEpoch(epoch),
        })
    }
}

/// Encodes a snapshot that holds these records.
pub(crate) fn write(
    records: &[MetadataRecord],
    level: MetadataVersion,
    quorum: &QuorumRecords,
    epoch: LeaderEpoch,
    last_timestamp: TimestampMs,
) -> Result<Vec<u8>, BadBatch> {
    let header = SnapshotHeader {
        last_contained_log_timestamp: last_timestamp.0,
        ..SnapshotHeader::default()
    };
    let mut first = vec![ControlRecord::SnapshotHeader(header)];
    first.extend(
        quorum
            .kraft_version
            .clone()
            .map(ControlRecord::KRaftVersion),
    );
    first.extend(quorum.voters.clone().map(ControlRecord::Voters));
    let mut next = Offset::ZERO;
    let mut bytes = Vec::new();
    let mut put = |batch: Bytes, count: usize| {
        next = next.plus(i64::try_from(count).unwrap_or(i64::MAX));
        bytes.extend_from_slice(&batch);
        next
    };
    let mut at = put(
        encode_control(&first, (Offset::ZERO, epoch), last_timestamp)?,
        first.len(),
    );
    for chunk in records.chunks(BATCH_RECORDS_MAX) {
        at = put(
            encode(chunk, level, (at, epoch), last_timestamp, usize::MAX)?,
            chunk.len(),
        );
    }
    let footer = [ControlRecord::SnapshotFooter(SnapshotFooter::default())];
    put(encode_control(&footer, (at, epoch), last_timestamp)?, 1);
    Ok(bytes)
}

/// The content of a snapshot.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The records, in order.
    pub(crate) records: Vec<MetadataRecord>,
    /// What it contains about the quorum.
    pub(crate) quorum: QuorumRecords,
    /// Append time of the last record contained.
    pub(crate) last_timestamp: TimestampMs,
}

/// Decodes a snapshot; `None` if its footer is missing.
pub(crate) fn read(bytes: &Bytes) -> Result<Option<Snapshot>, BadBatch> {
    let mut snapshot = Snapshot {
        records: Vec::new(),
        quorum: QuorumRecords::default(),
        last_timestamp: TimestampMs(0),
    };
    let mut finished = false;
    decode(bytes, |_, content| {
        match content {
            Content::Metadata(mut records) => snapshot.records.append(&mut records),
            Content::Control(records) => {
                for record in &records {
                    match record {
                        ControlRecord::SnapshotHeader(header) => {
                            snapshot.last_timestamp =
                                TimestampMs(header.last_contained_log_timestamp);
                        }
                        ControlRecord::SnapshotFooter(_) => finished = true,
                        _ => {}
                    }
                }
                snapshot.quorum.note(records);
            }
        }
        Ok(())
    })?;
    Ok(finished.then_some(snapshot))
}

impl Snapshot {
    /// Returns the image of this snapshot, whose id is `id`.
    pub(crate) fn image(self, id: SnapshotId, unfit: &mut UnfitRecords) -> (Image, QuorumRecords) {
        let mut image = Image::empty();
        for (place, record) in (0..).zip(self.records) {
            if let Err(error) = image.replay(record) {
                unfit.note(Offset(place), &error);
            }
        }
        image.advance(ImagePosition {
            offset: id.end.plus(-1),
            epoch: id.epoch,
            timestamp: self.last_timestamp,
        });
        (image, self.quorum)
    }
}

#[cfg(test)]
mod tests {
    use wire::records::control::KRaftVersion;

    use super::*;
    use crate::controller::tests::{create, started};

    #[test]
    fn file_names_are_those_of_kafka() {
        let id = SnapshotId {
            end: Offset(1234),
            epoch: LeaderEpoch(5),
        };
        assert_eq!(id.file_name(), "00000000000000001234-0000000005.checkpoint");
        assert_eq!(SnapshotId::parse(&id.file_name()), Some(id));
        for other in ["bootstrap.checkpoint", "1234-5.checkpoint", "quorum-state"] {
            assert_eq!(SnapshotId::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_snapshot_gives_its_image_back() {
        let mut image = started();
        for topic in ["a", "b"] {
            create(&mut image, topic, 700, &[("retention.ms", "5")]);
        }
        image.advance(ImagePosition {
            offset: Offset(99),
            epoch: LeaderEpoch(3),
            timestamp: TimestampMs(77),
        });
        let id = SnapshotId::of(&image);
        let quorum = QuorumRecords {
            kraft_version: Some(KRaftVersion {
                kraft_version: 1,
                ..KRaftVersion::default()
            }),
            voters: None,
        };
        let records = image.records();
        let level = image.metadata_version();
        let bytes = write(&records, level, &quorum, id.epoch, TimestampMs(77)).unwrap();
        let bytes = Bytes::from(bytes);
        let read_back = read(&bytes)
            .unwrap()
            .unwrap()
            .image(id, &mut UnfitRecords::default());
        assert_eq!(read_back, (image, quorum));

        // A file that is cut before the footer is not a snapshot.
        let cut = bytes.len() - 10;
        assert!(!matches!(read(&bytes.slice(..cut)), Ok(Some(_))));
        let last = wire::batch::Batches::new(&bytes)
            .last()
            .unwrap()
            .unwrap()
            .1
            .len();
        assert!(read(&bytes.slice(..bytes.len() - last)).unwrap().is_none());
    }
}
