//! What a copy of a log directory has to hold to be what a killed process leaves at one instant.
//!
//! Files that are only replaced or removed as a whole are copied as they are. Data files that a
//! start after the kill would read are those that may still change: all from the one with the
//! recovery point on ([`unsure_from`]), many while segments are rolled faster than they are sealed.
//! A copy has the whole batches that these had at the instant ([`BatchesEnd`]), and their indexes
//! are left out: the start makes them again.
//!
//! A flush writes to several segments at once, so the end of a segment may not be there when the
//! next one has begun, as after a kill. Then nothing behind it was acknowledged, and the start ends
//! the log there. The copy keeps that state: the file keeps its length, so that the start sees, as
//! after the kill, that more was to come ([`copied_len`]).
//! It decides only: `forebay backup` opens and copies the files.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use wire::batch::{BatchHeader, HEADER_BYTES, crc_of};
use wire::types::Offset;

use crate::checkpoint::{limits, offsets};
use crate::journal::marked::is_of_journal;
use crate::segment::naming::{CLEANED, Name, Role, classify, folder_name, is_pooled};
use crate::segment::scan::MAGIC;

/// Bytes of one read of a data file.
const WINDOW_BYTES: usize = 1 << 20;

/// How a file of a partition's folder is copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FilePart {
    /// A data file, by its base offset.
    Data(Offset),
    /// An index of the data file with this base offset.
    Index(Offset),
    /// As it is.
    Whole,
    /// As it is; it bounds the log's recovery point.
    Limits,
    /// Its name counts, what is in it does not.
    NameOnly,
    /// Not at all: the next start would remove it.
    Nothing,
}

/// Returns how the file of this name in a partition's folder is copied.
pub fn part_of(name: &str) -> FilePart {
    if name.ends_with(CLEANED) {
        // A start that finds one also removes what a compaction was putting in place behind it.
        return FilePart::NameOnly;
    }
    match classify(name) {
        Name::Segment(base, Role::Log) => FilePart::Data(base),
        Name::Segment(_, Role::Snapshot) => FilePart::Whole,
        Name::Segment(base, _) => FilePart::Index(base),
        Name::Leftover => FilePart::Nothing,
        Name::Checkpoint if name == limits::FILE => FilePart::Limits,
        _ if name.ends_with(".part") => FilePart::Nothing,
        _ => FilePart::Whole,
    }
}

/// Returns true for a file of the log directory itself that a copy does not have: files that hold
/// room or wait for a use, small files that are being written, and those of a journal: a directory
/// whose journal counts is not copied.
pub fn is_left_out(name: &str) -> bool {
    is_pooled(name) || name.ends_with(".tmp") || is_of_journal(name)
}

/// Returns the recovery points that a checkpoint file has, by the names of the logs' folders.
///
/// What is damaged in it is left out, as by a start.
pub fn recovery_points(file: &Path, bytes: &[u8]) -> BTreeMap<String, Offset> {
    let (points, _damage) = offsets::parse_lines(file, bytes);
    let named = points.into_iter();
    named
        .map(|(partition, offset)| (folder_name(&partition), offset))
        .collect()
}

/// Returns the bound of a log's recovery point that a file in its folder says, if it is one.
pub fn recovery_limit(name: &str, bytes: &[u8]) -> Option<Offset> {
    let is_limit = name == limits::FILE;
    let limits = is_limit.then(|| limits::parse(Path::new(name), bytes).ok())??;
    Some(limits.recovery_point)
}

/// Returns the base of the first segment that a start after a kill reads; those before it are
/// sealed, and nothing of them changes any more.
pub fn unsure_from(bases: &[Offset], recovery_point: Offset) -> Option<Offset> {
    // As the recovery does: the segment that ends at the recovery point may not be sealed.
    let below = bases.partition_point(|base| *base < recovery_point);
    bases.get(below.saturating_sub(1)).copied()
}

/// Returns how long the copy of a data file is that was `len` long, before a segment that begins
/// at `following`, if there is one.
///
/// Behind the batches it has zeros.
pub fn copied_len(end: BatchesEnd, len: u64, following: Option<Offset>) -> u64 {
    if following.is_some_and(|following| following != end.next) {
        return len.max(end.position);
    }
    end.position
}

/// Where the whole batches of a data file end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchesEnd {
    /// The position behind the last one.
    pub position: u64,
    /// The offset behind its last record; the base of the segment before there is any.
    pub next: Offset,
    /// Something else than zeros follows: a write that the kernel is still doing for the process,
    /// or damage.
    pub is_torn: bool,
}

impl BatchesEnd {
    /// The end of a data file before anything was read.
    pub fn of(base: Offset) -> Self {
        Self {
            position: 0,
            next: base,
            is_torn: false,
        }
    }

    /// Moves on behind the batches that follow: whole ones with a right CRC and growing offsets.
    ///
    /// `read` returns as many bytes from a position as it is asked for, fewer only at the end of
    /// the file. Memory: a window, or the largest batch.
    pub fn advance(
        &mut self,
        mut read: impl FnMut(u64, usize) -> io::Result<Vec<u8>>,
    ) -> io::Result<()> {
        loop {
            // Mostly nothing has come: a small read shows that.
            let head = read(self.position, HEADER_BYTES)?;
            self.is_torn = head.iter().any(|byte| *byte != 0);
            let Some(header) = BatchHeader::parse(&head) else {
                return Ok(());
            };
            let window = read(self.position, WINDOW_BYTES.max(header.size_bytes))?;
            if self.pass(&window) == 0 {
                return Ok(());
            }
        }
    }

    /// Passes the whole batches at the start of `bytes`; returns how many there are.
    fn pass(&mut self, bytes: &[u8]) -> usize {
        let (mut rest, mut passed) = (bytes, 0);
        while rest.len() >= HEADER_BYTES {
            let Some(header) = BatchHeader::parse(rest) else {
                break;
            };
            let follows = header.magic == MAGIC
                && header.base_offset >= self.next
                && header.last_offset_delta >= 0;
            let Some((batch, behind)) = rest.split_at_checked(header.size_bytes) else {
                break;
            };
            if !follows || crc_of(batch) != header.crc {
                break;
            }
            self.position = self.position.saturating_add(header.size_bytes as u64);
            self.next = header.next_offset();
            rest = behind;
            passed += 1;
        }
        passed
    }
}

#[cfg(test)]
mod tests {
    use wire::batch::BatchBuilder;
    use wire::types::{LeaderEpoch, TimestampMs};

    use super::*;

    fn batch(offset: i64, bytes: usize) -> Vec<u8> {
        let mut builder = BatchBuilder::new(Offset(offset), LeaderEpoch(3));
        let value = vec![b'x'; bytes];
        builder.add(TimestampMs(1), None, Some(&value), &[]);
        builder.finish().unwrap().to_vec()
    }

    fn end_of(file: &[u8], mut end: BatchesEnd) -> BatchesEnd {
        let read = |at: u64, len: usize| {
            let rest = file.get(usize::try_from(at).unwrap()..).unwrap_or_default();
            Ok(rest.get(..len).unwrap_or(rest).to_vec())
        };
        end.advance(read).unwrap();
        end
    }

    #[test]
    fn a_data_file_ends_behind_its_last_whole_batch() {
        let mut file = [batch(5, 10), batch(6, 3 * WINDOW_BYTES), batch(9, 10)].concat();
        let whole = file.len() as u64;
        let of = BatchesEnd::of(Offset(5));
        assert_eq!(end_of(&file, of).position, whole);
        // What is reserved behind it, a batch whose end is not there yet, and one from before.
        file.resize(file.len() + 3 * WINDOW_BYTES, 0);
        assert_eq!(end_of(&file, of).position, whole);
        let keep = usize::try_from(whole).unwrap();
        for next in [batch(10, 400), batch(3, 10)] {
            file.truncate(keep);
            file.extend(next);
            let cut = file.len() - 1;
            file[cut] ^= 1;
            assert_eq!(end_of(&file, of).position, whole);
        }
        // It goes on where it stopped.
        let end = end_of(&file[..keep], of);
        file.truncate(keep);
        file.extend(batch(10, 10));
        assert_eq!(end_of(&file, end).position, file.len() as u64);
        assert_eq!(end_of(&[], of), of);
    }

    #[test]
    fn what_follows_the_last_batch_is_zeros_or_torn() {
        let of = BatchesEnd::of(Offset(5));
        let mut file = batch(5, 10);
        assert!(!end_of(&file, of).is_torn);
        let whole = file.len();
        file.resize(whole + 100, 0);
        assert!(!end_of(&file, of).is_torn);
        // The beginning of a batch, and bytes that are none.
        for next in [batch(6, 400)[..70].to_vec(), b"x".to_vec()] {
            file.truncate(whole);
            file.extend(next);
            let end = end_of(&file, of);
            assert!(end.is_torn && end.position == whole as u64);
            // What comes whole later is a batch.
            file.truncate(whole);
            file.extend(batch(6, 400));
            let end = end_of(&file, end);
            assert!(!end.is_torn && end.next == Offset(7));
        }
    }

    #[test]
    fn a_start_reads_from_the_segment_with_the_recovery_point_on() {
        let bases = [Offset(0), Offset(10), Offset(20)];
        for (point, from) in [
            (0, 0),
            (1, 0),
            (10, 0),
            (11, 10),
            (20, 10),
            (21, 20),
            (99, 20),
        ] {
            assert_eq!(unsure_from(&bases, Offset(point)), Some(Offset(from)));
        }
        assert_eq!(unsure_from(&[], Offset(7)), None);
        let points = b"0\n2\norders 0 45\nx\n";
        let points = recovery_points(Path::new("p"), points);
        assert_eq!(points.get("orders-0"), Some(&Offset(45)));
        let limit = b"version: 0\nrecovery_point: 7\nlog_start: 3\n";
        assert_eq!(recovery_limit(limits::FILE, limit), Some(Offset(7)));
        assert_eq!(recovery_limit("other", limit), None);
    }

    #[test]
    fn a_file_keeps_its_length_only_before_a_segment_that_begins_too_late() {
        let end = BatchesEnd {
            position: 300,
            next: Offset(9),
            is_torn: false,
        };
        assert_eq!(copied_len(end, 4096, None), 300);
        assert_eq!(copied_len(end, 4096, Some(Offset(9))), 300);
        assert_eq!(copied_len(end, 4096, Some(Offset(12))), 4096);
    }

    #[test]
    fn names_decide_what_is_copied() {
        let base = Offset(7);
        for (name, part) in [
            ("00000000000000000007.log", FilePart::Data(base)),
            ("00000000000000000007.index", FilePart::Index(base)),
            ("00000000000000000007.txnindex", FilePart::Index(base)),
            ("00000000000000000007.snapshot", FilePart::Whole),
            ("00000000000000000007.log.swap", FilePart::Whole),
            ("00000000000000000007.log.cleaned", FilePart::NameOnly),
            ("00000000000000000007.log.deleted", FilePart::Nothing),
            ("00000000000000000007.log.moving", FilePart::Nothing),
            ("next.log.deleted", FilePart::Nothing),
            ("leader-epoch-checkpoint", FilePart::Whole),
            ("checkpoint-limits", FilePart::Limits),
            ("leader-epoch-checkpoint.tmp", FilePart::Nothing),
            (
                "00000000000000000007-0000000001.checkpoint",
                FilePart::Whole,
            ),
            (
                "00000000000000000007-0000000001.checkpoint.part",
                FilePart::Nothing,
            ),
            ("00000000000000000007.log.aside", FilePart::Whole),
        ] {
            assert_eq!(part_of(name), part, "{name}");
        }
        assert!(is_left_out("00000000000000000001.pooled") && is_left_out("log-dirs.tmp"));
        assert!(!is_left_out("log-dirs"));
    }
}
