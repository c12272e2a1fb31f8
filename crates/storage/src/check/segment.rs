//! Checks one segment: every batch of its data file, and its indexes against the batches.

use std::path::Path;

use platform::disk::{Disk, DiskFile, Open, SMALL_FILE_BYTES_MAX};
use wire::batch::BatchHeader;
use wire::types::{LeaderEpoch, Offset, TimestampMs};

use super::{Report, is_of_one_file};
use crate::log::append::marker_of;
use crate::log::epoch_cache::EpochCache;
use crate::log::offset_index::OffsetIndex;
use crate::log::producer_state::ProducerStates;
use crate::log::recover::has_batch_behind;
use crate::log::time_index::TimeIndex;
use crate::log::txn_index::{AbortedTxn, TxnIndex};
use crate::segment::naming::{Role, file_path};
use crate::segment::scan::{ExpectedBatch, NO_BATCH, Scan};

/// Bytes of one read of a data file.
const WINDOW_BYTES: usize = 1 << 20;
/// A bound on the length of an index, larger than any sensible settings allow.
const INDEX_BYTES_MAX: u32 = 1 << 28;

/// What a note says about the beginning of a batch.
const CUT_OFF: &str =
    "ends with what was being written when the process ended; the next start cuts it off";

/// A data file.
pub(super) struct BatchFile<'a> {
    pub(super) folder: &'a Path,
    pub(super) base: Offset,
    pub(super) len: u64,
    pub(super) is_last: bool,
    /// The next start puts what a compaction has made in its place; its indexes may be gone.
    pub(super) is_replaced: bool,
}

/// The state of a log while the check walks from its first segment to its last.
pub(super) struct Walk {
    pub(super) expected: ExpectedBatch,
    pub(super) producers: ProducerStates,
    /// The log was compacted, so gaps are no damage.
    pub(super) may_have_gaps: bool,
    /// `leader-epoch-checkpoint` contradicts the batches.
    pub(super) epochs_differ: bool,
    /// Below this everything was durable; `None` if all of the log was, by a clean stop.
    pub(super) recovery_point: Option<Offset>,
}

impl Walk {
    /// Returns true where a process that was killed may have been writing.
    pub(super) fn is_unsure(&self, offset: Offset) -> bool {
        self.recovery_point.is_some_and(|point| offset >= point)
    }

    /// Reports missing offsets.
    pub(super) fn gap(&self, path: &Path, at: u64, what: &str, report: &mut Report) {
        if self.may_have_gaps {
            // A finding for each batch would help no operator.
            return;
        }
        let what = format!("{what}; that is as it should be only in a log that was compacted");
        report.damage(path, Some(at), what);
    }
}

/// Returns the offset after the last batch of a data file in which every batch is sound.
pub(super) async fn sound_end<D: Disk>(
    disk: &D,
    path: &Path,
    base: Offset,
    len: u64,
) -> std::io::Result<Option<Offset>> {
    let file = disk.open(path, Open::Read).await?;
    let mut scan = Scan::new(&file, 0, len, WINDOW_BYTES);
    let mut expected = ExpectedBatch {
        offset: base,
        gaps: true,
        epoch: LeaderEpoch(i32::MIN),
    };
    while scan.position() < len {
        let Some(header) = scan.header().await? else {
            return Ok(None);
        };
        if expected.refuses(&header).is_some() || !scan.crc_is_right(&header).await? {
            return Ok(None);
        }
        expected = expected.after(&header);
        scan.skip(&header);
    }
    Ok(Some(expected.offset))
}

/// The indexes of a segment, as far as they are readable.
struct Files {
    offsets: Option<OffsetIndex>,
    times: Option<TimeIndex>,
    aborted: Option<TxnIndex>,
    offsets_wrong: bool,
    largest: TimestampMs,
}

/// Reads and checks all of a segment.
pub(super) async fn check<D: Disk>(
    disk: &D,
    data: &BatchFile<'_>,
    epochs: Option<&EpochCache>,
    walk: &mut Walk,
    report: &mut Report,
) -> std::io::Result<()> {
    let path = file_path(data.folder, data.base, Role::Log);
    let file = disk.open(&path, Open::Read).await?;
    let mut files = read_files(disk, data, report).await?;
    let mut found = Vec::new();
    let mut scan = Scan::new(&file, 0, data.len, WINDOW_BYTES);
    while scan.position() < data.len {
        let at = scan.position();
        let header = scan.header().await?;
        let refused = match &header {
            None => Some(NO_BATCH),
            Some(header) => walk.expected.refuses(header),
        };
        let (Some(header), None) = (header, refused) else {
            let reason = refused.unwrap_or(NO_BATCH);
            rest(&file, data, at, reason, walk, report).await?;
            break;
        };
        if scan.crc_is_right(&header).await? {
            report.batches = report.batches.saturating_add(1);
            report.bytes = report.bytes.saturating_add(header.size_bytes as u64);
        } else if is_cut_off(&file, data, at, walk).await {
            report.note(&path, CUT_OFF);
            break;
        } else {
            report.damage(&path, Some(at), "the CRC is wrong");
        }
        if header.base_offset > walk.expected.offset {
            let what = format!(
                "the offsets from {} on are missing before this batch",
                walk.expected.offset
            );
            let far = header.base_offset.since(data.base) > i64::from(i32::MAX);
            if far {
                report.damage(
                    &path,
                    Some(at),
                    "an offset that no segment of this name can hold",
                );
            } else {
                walk.gap(&path, at, &what, report);
            }
        }
        let known = epochs.and_then(|epochs| epochs.epoch_at(header.base_offset));
        walk.epochs_differ |= known.is_some_and(|known| known != header.leader_epoch);
        let marker = if header.is_control() {
            marker_of(&scan.batch(&header).await?)
        } else {
            None
        };
        found.extend(walk.producers.replay(&header, marker));
        files.meet(&header, at);
        walk.expected = walk.expected.after(&header);
        scan.skip(&header);
    }
    files.finish(data, walk, &found, report);
    Ok(())
}

/// Returns true for what a killed process was writing, which the next start cuts off.
async fn is_cut_off<F: DiskFile>(file: &F, data: &BatchFile<'_>, from: u64, walk: &Walk) -> bool {
    let end = walk.expected.offset;
    walk.is_unsure(end) && !has_batch_behind(file, from..data.len, end).await
}

/// Reports what lies behind the last batch: zeros or the beginning of a batch where a killed
/// process was writing, or damage.
async fn rest<F: DiskFile>(
    file: &F,
    data: &BatchFile<'_>,
    from: u64,
    reason: &str,
    walk: &Walk,
    report: &mut Report,
) -> std::io::Result<()> {
    let path = &file_path(data.folder, data.base, Role::Log);
    let mut at = from;
    let mut zeros = true;
    while at < data.len && zeros {
        let left = usize::try_from(data.len - at).unwrap_or(WINDOW_BYTES);
        let bytes = file.read_at(at, left.min(WINDOW_BYTES)).await?;
        if bytes.is_empty() {
            break;
        }
        zeros = bytes.iter().all(|byte| *byte == 0);
        at = at.saturating_add(bytes.len() as u64);
    }
    if zeros && (data.is_last || walk.is_unsure(walk.expected.offset)) {
        report.note(
            path,
            format!("ends with {} bytes of padding", data.len - from),
        );
    } else if zeros {
        report.damage(path, Some(from), "zeros where batches should be");
    } else if is_cut_off(file, data, from, walk).await {
        report.note(path, CUT_OFF);
    } else {
        report.damage(path, Some(from), reason);
    }
    Ok(())
}

async fn read_files<D: Disk>(
    disk: &D,
    data: &BatchFile<'_>,
    report: &mut Report,
) -> std::io::Result<Files> {
    let mut files = Files {
        offsets: None,
        times: None,
        aborted: None,
        offsets_wrong: false,
        largest: TimestampMs::NONE,
    };
    for role in [Role::OffsetIndex, Role::TimeIndex, Role::TxnIndex] {
        let path = file_path(data.folder, data.base, role);
        let bytes_max = data.len.max(SMALL_FILE_BYTES_MAX);
        let bytes = match disk.read_file_within(&path, bytes_max).await {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let is_due = !data.is_last && !data.is_replaced && data.len > 0;
                if role != Role::TxnIndex && is_due {
                    report.hint(&path, "missing");
                }
                continue;
            }
            Err(error) if is_of_one_file(&error) => {
                report.hint(&path, error.to_string());
                continue;
            }
            Err(error) => return Err(error),
        };
        let parsed = match role {
            Role::OffsetIndex => OffsetIndex::parse(data.base, INDEX_BYTES_MAX, &bytes)
                .map(|index| files.offsets = Some(index)),
            Role::TimeIndex => TimeIndex::parse(data.base, INDEX_BYTES_MAX, &bytes)
                .map(|index| files.times = Some(index)),
            _ => TxnIndex::parse(data.base, &bytes).map(|index| files.aborted = Some(index)),
        };
        if let Err(error) = parsed {
            report.hint(&path, error.to_string());
        }
    }
    Ok(files)
}

impl Files {
    /// Checks the offset index against a batch: an entry within the batch must point to its start
    /// and name its last offset.
    fn meet(&mut self, header: &BatchHeader, at: u64) {
        if header.record_count > 0 {
            self.largest = self.largest.max(header.max_timestamp);
        }
        let Some(offsets) = &self.offsets else { return };
        let (Ok(at), Ok(end)) = (
            u32::try_from(at),
            u32::try_from(at.saturating_add(header.size_bytes as u64)),
        ) else {
            return;
        };
        if let Some(entry) = offsets.first_at_or_past(at)
            && entry.position < end
        {
            let right = entry.position == at && entry.offset == header.last_offset();
            self.offsets_wrong |= !right;
        }
    }

    /// Reports what is known only after all batches were read.
    fn finish(&self, data: &BatchFile<'_>, walk: &Walk, found: &[AbortedTxn], report: &mut Report) {
        let path = |role| file_path(data.folder, data.base, role);
        let beyond = self
            .offsets
            .as_ref()
            .is_some_and(|offsets| u64::from(offsets.last().position) >= data.len.max(1));
        if self.offsets_wrong || beyond {
            report.hint(
                &path(Role::OffsetIndex),
                "an entry is not where its batch is",
            );
        }
        if let Some(times) = &self.times {
            let last = times.last();
            if last.timestamp > self.largest || last.offset > walk.expected.offset {
                report.hint(
                    &path(Role::TimeIndex),
                    "an entry is of a time or an offset that is not in the segment",
                );
            }
        }
        // A compacted segment keeps the entries of batches that compaction removed; a surplus entry
        // hides no committed record.
        let told = self.aborted.as_ref().map_or(&[][..], TxnIndex::entries);
        let missing = found.iter().find(|txn| {
            let same = |told: &AbortedTxn| {
                told.last_offset == txn.last_offset && told.producer_id == txn.producer_id
            };
            !told.iter().any(same)
        });
        // The index of the last segment is written only when the log saves its indexes, and a start
        // after a kill makes those of the segments that it reads.
        let is_read = walk.is_unsure(walk.expected.offset)
            && (self.offsets.is_none() || self.times.is_none());
        let is_made =
            |txn: &AbortedTxn| data.is_replaced || is_read || walk.is_unsure(txn.last_offset);
        if let Some(txn) = missing.filter(|txn| !data.is_last && !is_made(txn)) {
            let what = format!(
                "the transaction of producer {} that was aborted at {} is missing: readers at read_committed would be given its records",
                txn.producer_id.0, txn.last_offset
            );
            report.damage(&path(Role::TxnIndex), None, what);
        }
    }
}
