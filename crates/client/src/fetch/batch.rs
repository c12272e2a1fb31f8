//! Batches that may be read: whole, checked, not of an aborted transaction.
//!
//! A batch is a slice of the answer that carried it. It is decompressed where its records are
//! looked at, within a bound. Not here: which batches are taken from an answer ([`super::taking`]).

use bytes::Bytes;
use wire::batch::{BatchHeader, Compression, HEADER_BYTES};
use wire::error::BatchError;

use super::record::Records;

/// A batch of records that the reader has not had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FetchedBatch {
    header: BatchHeader,
    /// What follows the header.
    body: Bytes,
    /// The first offset that the reader wants.
    from: i64,
}

impl FetchedBatch {
    /// Makes one of a whole batch.
    pub(super) fn new(header: BatchHeader, batch: &Bytes, from: i64) -> Self {
        let start = HEADER_BYTES.min(batch.len());
        Self {
            header,
            body: batch.slice(start..),
            from,
        }
    }

    /// Returns the fixed part of the batch.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// Returns the offset after the batch.
    pub fn next_offset(&self) -> i64 {
        self.header.next_offset().0
    }

    /// Decompresses to at most that many bytes.
    pub fn open(&self, bytes_max: usize) -> Result<OpenBatch, BatchError> {
        let records = match Compression::from_code(self.header.compression_code())? {
            Compression::None => self.body.clone(),
            codec => codec.decompress(&self.body, bytes_max)?.into(),
        };
        Ok(OpenBatch {
            header: self.header,
            records,
            from: self.from,
        })
    }
}

/// A decompressed batch.
#[derive(Clone, Debug)]
pub struct OpenBatch {
    header: BatchHeader,
    records: Bytes,
    from: i64,
}

impl OpenBatch {
    /// Returns the records, from the first one on that the reader has not had.
    pub fn records(&self) -> Records<'_> {
        Records::new(&self.header, &self.records, self.from)
    }
}
