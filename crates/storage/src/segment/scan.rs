//! A walk over the batches of a data file that trusts nothing; used by recovery, index rebuilding
//! and lookups.
//!
//! The file is read through a window of bounded size, whatever lengths the batches claim; CRCs are
//! computed across windows.
//! It does not decide where a log ends (recovery does), and does not parse records.

use std::io;

use bytes::Bytes;
use platform::disk::DiskFile;
use wire::batch::{BatchHeader, CRC_START, HEADER_BYTES};
use wire::crc;
use wire::types::{LeaderEpoch, Offset};

use crate::num::index;

/// The format version of every batch in Forebay's files.
pub(crate) const MAGIC: i8 = 2;

/// No batch is further than this from its expected offset: no compaction leaves such a gap, but a
/// flipped bit does.
const OFFSETS_AHEAD_MAX: i64 = 1 << 40;

/// The shortest message of format 0: offset, length, CRC, magic, attributes, no key and no value.
const OLDER_BYTES_MIN: usize = 26;

/// Why bytes are no batch; the position may be wrong rather than the bytes.
pub(crate) const NO_BATCH: &str = "no batch begins here";

/// The conditions that the next batch must meet to belong to the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ExpectedBatch {
    /// Its base offset.
    pub(crate) offset: Offset,
    /// True when compaction may have left a gap before it.
    pub(crate) gaps: bool,
    /// The epoch of the batch before it; epochs do not decrease.
    pub(crate) epoch: LeaderEpoch,
}

impl ExpectedBatch {
    /// Returns why a batch with this header cannot be the next one; `None` if it can.
    pub(crate) fn refuses(&self, header: &BatchHeader) -> Option<&'static str> {
        let offset = header.base_offset;
        if header.magic != MAGIC {
            Some("unknown format version")
        } else if offset < self.offset || (offset > self.offset && !self.gaps) {
            Some("another offset was expected")
        } else if header.last_offset_delta < 0
            || offset.since(self.offset) >= OFFSETS_AHEAD_MAX
            || offset.0.checked_add(i64::from(i32::MAX)).is_none()
        {
            Some("impossible offsets")
        } else if header.leader_epoch < self.epoch {
            Some("a leader epoch older than the one before")
        } else {
            None
        }
    }

    /// Returns the conditions for the batch after this one.
    pub(crate) fn after(self, header: &BatchHeader) -> Self {
        Self {
            offset: header.next_offset(),
            epoch: header.leader_epoch,
            ..self
        }
    }
}

/// Returns the header at the start of `bytes` if it can be that of a batch of a log that continues
/// at `end` and fits into `room` bytes.
///
/// The check is cheap because recovery runs it at every position of a file.
pub(crate) fn may_be_batch(bytes: &[u8], end: Offset, room: u64) -> Option<BatchHeader> {
    const MAGIC_AT: usize = 16;
    if bytes.get(MAGIC_AT).copied() != u8::try_from(MAGIC).ok() {
        return None;
    }
    let header = BatchHeader::parse(bytes)?;
    let ahead = header.base_offset.0.checked_sub(end.0)?;
    let is_possible = (0..OFFSETS_AHEAD_MAX).contains(&ahead)
        && header.last_offset_delta >= 0
        && (0..=header.last_offset_delta.saturating_add(1)).contains(&header.record_count)
        && header.size_bytes as u64 <= room;
    is_possible.then_some(header)
}

/// Returns the length of the message of format 0 or 1 at the start of `bytes`, if a log that
/// continues at `end` may have it.
fn older_size(bytes: &[u8], end: Offset) -> Option<u64> {
    let bytes = bytes.first_chunk::<OLDER_BYTES_MIN>()?;
    let (offset, rest) = bytes.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let magic = *rest.get(4)?;
    let ahead = i64::from_be_bytes(*offset).checked_sub(end.0)?;
    let size = u64::try_from(i32::from_be_bytes(*length))
        .ok()?
        .checked_add(12)?;
    let is_possible = magic < MAGIC.unsigned_abs()
        && (0..OFFSETS_AHEAD_MAX).contains(&ahead)
        && size >= OLDER_BYTES_MIN as u64;
    is_possible.then_some(size)
}

/// Returns the position in `bytes` of the first whole batch with a right CRC, for a log that
/// continues at `end`.
pub fn first_batch(bytes: &[u8], end: Offset) -> Option<usize> {
    (0..bytes.len()).find(|at| {
        let rest = bytes.get(*at..).unwrap_or_default();
        let header = may_be_batch(rest, end, rest.len() as u64);
        let batch = header.and_then(|header| Some((header.crc, rest.get(..header.size_bytes)?)));
        batch.is_some_and(|(crc, batch)| wire::batch::crc_of(batch) == crc)
    })
}

/// A walk over a file.
pub(crate) struct Scan<'a, F> {
    file: &'a F,
    position: u64,
    end: u64,
    window: Bytes,
    window_at: u64,
    window_bytes: usize,
}

impl<'a, F: DiskFile> Scan<'a, F> {
    /// Starts a walk at `position`, the start of a batch; it reads nothing at or beyond `end`.
    pub(crate) fn new(file: &'a F, position: u64, end: u64, window_bytes: usize) -> Self {
        assert!(
            window_bytes >= HEADER_BYTES,
            "a header fits into the window"
        );
        Self {
            file,
            position,
            end,
            window: Bytes::new(),
            window_at: position,
            window_bytes,
        }
    }

    /// Returns the current position.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Returns true when nothing follows `position`.
    pub(crate) fn is_end(&self, position: u64) -> bool {
        position >= self.end
    }

    /// Returns the header of the current batch.
    ///
    /// It is `None` when no whole batch fits before the end, or when the length is invalid.
    pub(crate) async fn header(&mut self) -> io::Result<Option<BatchHeader>> {
        let bytes = self.bytes_at(self.position, HEADER_BYTES).await?;
        let header = BatchHeader::parse(&bytes);
        Ok(header
            .filter(|header| header.size_bytes as u64 <= self.end.saturating_sub(self.position)))
    }

    /// Returns true when the current bytes look like a message of format 0 or 1, from offset `end`
    /// on.
    pub(crate) async fn is_older_format(&mut self, end: Offset) -> io::Result<bool> {
        let room = self.end.saturating_sub(self.position);
        let bytes = self.bytes_at(self.position, OLDER_BYTES_MIN).await?;
        Ok(older_size(&bytes, end).is_some_and(|size| size <= room))
    }

    /// Returns the header of the batch after the current one; `None` when no whole batch fits.
    pub(crate) async fn following(
        &mut self,
        header: &BatchHeader,
    ) -> io::Result<Option<BatchHeader>> {
        let at = self.position + header.size_bytes as u64;
        let bytes = self.bytes_at(at, HEADER_BYTES).await?;
        let room = self.end.saturating_sub(at);
        Ok(BatchHeader::parse(&bytes).filter(|following| following.size_bytes as u64 <= room))
    }

    /// Returns true when the CRC of the current batch is right.
    pub(crate) async fn crc_is_right(&mut self, header: &BatchHeader) -> io::Result<bool> {
        self.crc_is_right_at(self.position, header).await
    }

    /// Returns true when the CRC of the batch at `position` is right.
    pub(crate) async fn crc_is_right_at(
        &mut self,
        position: u64,
        header: &BatchHeader,
    ) -> io::Result<bool> {
        let mut crc = 0;
        let mut at = position + CRC_START as u64;
        let end = position + header.size_bytes as u64;
        while at < end {
            let left = index(end - at);
            let bytes = self.bytes_at(at, left.min(self.window_bytes)).await?;
            if bytes.is_empty() {
                return Ok(false);
            }
            crc = crc::crc32c_append(crc, &bytes);
            at += bytes.len() as u64;
        }
        Ok(crc == header.crc)
    }

    /// Returns the whole current batch.
    pub(crate) async fn batch(&mut self, header: &BatchHeader) -> io::Result<Bytes> {
        self.bytes_at(self.position, header.size_bytes).await
    }

    /// Moves to the next batch.
    pub(crate) fn skip(&mut self, header: &BatchHeader) {
        self.position += header.size_bytes as u64;
    }

    /// Returns up to `len` bytes from `at`, fewer only at the end.
    async fn bytes_at(&mut self, at: u64, len: usize) -> io::Result<Bytes> {
        // Nothing lies beyond the end.
        let room = index(self.end.saturating_sub(at));
        let len = len.min(room);
        if let Some(bytes) = self.in_window(at, len) {
            return Ok(bytes);
        }
        let wanted = len.max(self.window_bytes).min(room);
        self.window = self.file.read_at(at, wanted).await?;
        assert!(
            self.window.len() <= wanted,
            "a disk gives what was asked for, or less"
        );
        self.window_at = at;
        let here = len.min(self.window.len());
        Ok(self.window.slice(..here))
    }

    fn in_window(&self, at: u64, len: usize) -> Option<Bytes> {
        let from = usize::try_from(at.checked_sub(self.window_at)?).ok()?;
        let to = from.checked_add(len)?;
        (to <= self.window.len()).then(|| self.window.slice(from..to))
    }
}
