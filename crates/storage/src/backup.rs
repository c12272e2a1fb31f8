//! What a copy of a log directory has to hold to be what a killed process leaves at one instant.
//!
//! Files that are only replaced or removed as a whole are copied as they are. A data file grows
//! behind its last batch while its log is written to, so a copy ends where the batches ended at
//! that instant ([`BatchesEnd`]). Indexes of a data file that may still grow are left out: a start
//! makes them again from the batches.
//! It decides only: `forebay backup` opens and copies the files.

use std::io;

use wire::batch::{BatchHeader, HEADER_BYTES, crc_of};
use wire::types::Offset;

use crate::journal::marked::is_of_journal;
use crate::segment::naming::{CLEANED, Name, Role, classify, is_pooled};
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

/// Where the whole batches of a data file end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchesEnd {
    /// The position behind the last one.
    pub position: u64,
    /// The offset behind its last record; the base of the segment before there is any.
    next: Offset,
}

impl BatchesEnd {
    /// The end of a data file before anything was read.
    pub fn of(base: Offset) -> Self {
        Self {
            position: 0,
            next: base,
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
