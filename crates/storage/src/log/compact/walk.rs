//! Reads the batches of a sealed segment, each checked before anything is done with it.
//!
//! Compaction rewrites a log, so it must not copy damage: it asks for the same format, order,
//! length and CRC as recovery, and the first violation ends the walk with its position.

use bytes::Bytes;
use platform::disk::DiskFile;
use std::path::PathBuf;
use wire::batch::{self, BatchHeader};
use wire::types::{LeaderEpoch, Offset};

use crate::error::{Error, Result};
use crate::segment::scan::{ExpectedBatch, NO_BATCH, Scan};
use crate::segment::stamps::WRONG_OFFSET;

/// A walk over one segment.
pub(super) struct Walk<'a, F> {
    path: PathBuf,
    size: u64,
    scan: Scan<'a, F>,
    expected: ExpectedBatch,
    /// The offset at which the segment ends.
    next: Offset,
}

impl<'a, F: DiskFile> Walk<'a, F> {
    /// Starts at `position`, the start of a batch, in the data file `path`.
    ///
    /// The segment begins at `base` and ends before `next`. No CRC covers a base offset: one that
    /// has rotted upwards would hide everything that follows.
    pub(super) fn new(
        file: &'a F,
        path: PathBuf,
        (position, size): (u64, u64),
        (base, next): (Offset, Offset),
        window_bytes: usize,
    ) -> Self {
        let expected = ExpectedBatch {
            offset: base,
            gaps: true,
            epoch: LeaderEpoch(i32::MIN),
        };
        Self {
            path,
            size,
            scan: Scan::new(file, position, size, window_bytes),
            expected,
            next,
        }
    }

    /// Returns the next batch, whole.
    pub(super) async fn next(&mut self) -> Result<Option<(BatchHeader, Bytes)>> {
        if self.scan.position() >= self.size {
            return Ok(None);
        }
        let header = self.scan.header().await;
        let header = header.map_err(Error::io("read", &self.path))?;
        let Some(header) = header else {
            return Err(self.damage(NO_BATCH));
        };
        if let Some(reason) = self.expected.refuses(&header) {
            return Err(self.damage(reason));
        }
        if header.next_offset() > self.next {
            return Err(self.damage(WRONG_OFFSET));
        }
        let batch = self.scan.batch(&header).await;
        let batch = batch.map_err(Error::io("read", &self.path))?;
        if batch.len() != header.size_bytes || batch::crc_of(&batch) != header.crc {
            return Err(self.damage("the CRC is wrong"));
        }
        self.expected = self.expected.after(&header);
        self.scan.skip(&header);
        Ok(Some((header, batch)))
    }

    /// Returns the error for damage at the current position.
    pub(super) fn damage(&self, reason: &'static str) -> Error {
        Error::Corrupt {
            path: self.path.clone(),
            position: self.scan.position(),
            reason,
        }
    }
}
